package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	progressTime = 2 * time.Second        // between two lines
	drawTime     = 100 * time.Millisecond // between two drawings at a terminal
	barWidth     = 24
)

// progress tells how far a command is: at a terminal by a bar that is redrawn on one line, elsewhere by a line from
// time to time.
type progress struct {
	out   io.Writer
	live  bool // a terminal
	now   func() time.Time
	told  time.Time
	drawn bool // the bar stands on the last line
}

// newProgress begins to tell.
func newProgress(out io.Writer) *progress {
	return &progress{out: out, live: isTerminal(out), now: time.Now, told: time.Now()}
}

// tell says that a part of the whole is done, 0 to 1. Negative: how large the whole is, is unknown. Text is called when
// something is told.
func (p *progress) tell(part float64, text func() string) {
	pause := progressTime
	if p.live {
		pause = drawTime
	}
	if now := p.now(); now.Sub(p.told) >= pause {
		p.told = now
		p.draw(part, text())
	}
}

// draw writes the bar, or a line.
func (p *progress) draw(part float64, text string) {
	if part >= 0 {
		part = min(part, 1)
		text = fmt.Sprintf("%3.0f %%  %s", 100*part, text)
		if p.live {
			full := int(part * barWidth)
			text = "[" + strings.Repeat("#", full) + strings.Repeat("-", barWidth-full) + "] " + text
		}
	}
	text = strings.TrimRight(text, " ")
	if p.live {
		p.drawn = true
		fmt.Fprintf(p.out, "\r%s\x1b[K", text) //nolint:errcheck // the terminal is gone
		return
	}
	fmt.Fprintln(p.out, text) //nolint:errcheck // the terminal is gone
}

// line writes a line of its own. The bar goes on below.
func (p *progress) line(text string) {
	start := ""
	if p.drawn {
		start, p.drawn = "\r\x1b[K", false
	}
	fmt.Fprintln(p.out, start+text) //nolint:errcheck // the terminal is gone
}

// end leaves the bar as it is, and goes on below it.
func (p *progress) end() {
	if p.drawn {
		p.drawn = false
		fmt.Fprintln(p.out) //nolint:errcheck // the terminal is gone
	}
}
