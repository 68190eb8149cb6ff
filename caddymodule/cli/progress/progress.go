// Package progress tells how far a command is: at a terminal by a bar that is redrawn on one line, elsewhere by a line
// from time to time.
package progress

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	lineTime = 2 * time.Second        // between two lines
	drawTime = 100 * time.Millisecond // between two drawings at a terminal
	barWidth = 24
)

// A Teller tells how far a command is.
type Teller struct {
	out   io.Writer
	live  bool // a terminal
	now   func() time.Time
	told  time.Time
	drawn bool // the bar stands on the last line
}

// New begins to tell. live is true for a terminal.
func New(out io.Writer, live bool, now func() time.Time) *Teller {
	return &Teller{out: out, live: live, now: now, told: now()}
}

// Tell says that a part of the whole is done, 0 to 1. Negative: how large the whole is, is unknown. Text is called when
// something is told.
func (t *Teller) Tell(part float64, text func() string) {
	pause := lineTime
	if t.live {
		pause = drawTime
	}
	if now := t.now(); now.Sub(t.told) >= pause {
		t.told = now
		t.draw(part, text())
	}
}

// draw writes the bar, or a line.
func (t *Teller) draw(part float64, text string) {
	if part >= 0 {
		part = min(part, 1)
		text = fmt.Sprintf("%3.0f %%  %s", 100*part, text)
		if t.live {
			full := int(part * barWidth)
			text = "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] " + text
		}
	}
	text = strings.TrimRight(text, " ")
	if t.live {
		t.drawn = true
		fmt.Fprintf(t.out, "\r%s\x1b[K", text) //nolint:errcheck // the terminal is gone
		return
	}
	fmt.Fprintln(t.out, text) //nolint:errcheck // the terminal is gone
}

// Line writes a line of its own. The bar goes on below.
func (t *Teller) Line(text string) {
	start := ""
	if t.drawn {
		start, t.drawn = "\r\x1b[K", false
	}
	fmt.Fprintln(t.out, start+text) //nolint:errcheck // the terminal is gone
}

// End leaves the bar as it is, and goes on below it.
func (t *Teller) End() {
	if t.drawn {
		t.drawn = false
		fmt.Fprintln(t.out) //nolint:errcheck // the terminal is gone
	}
}

// A Reader counts what is read of a file, and tells how much that is.
type Reader struct {
	from   io.Reader
	size   int64
	teller *Teller
	read   int64
}

// NewReader returns a reader of a file with this size, 0 if it is unknown. teller can be nil.
func NewReader(from io.Reader, size int64, teller *Teller) *Reader {
	return &Reader{from: from, size: size, teller: teller}
}

// Part returns the part of the file that was read, 0 to 1. Negative: its size is unknown.
func (r *Reader) Part() float64 {
	if r.size <= 0 {
		return -1
	}
	return float64(r.read) / float64(r.size)
}

func (r *Reader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.read += int64(n)
	if r.teller != nil && r.size > 0 {
		r.teller.Tell(r.Part(), func() string { return "" })
	}
	return n, err
}
