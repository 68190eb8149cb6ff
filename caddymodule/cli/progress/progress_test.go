package progress_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/cli/progress"
)

// TestProgress: a terminal shows a bar that is redrawn, a file gets a line from time to time.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live bool
		want string
	}{
		"a terminal": {true, "\r[------------------------]   1 %  1 people\x1b[K\r[############------------]  50 %  2 people\x1b[K" +
			"\r\x1b[Kline 7: no username\n\r[########################] 100 %  4 people\x1b[K\r5 people\x1b[K\n"},
		"a file": {false, "line 7: no username\n100 %  4 people\n5 people\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
			var out bytes.Buffer
			p := progress.New(&out, c.live, func() time.Time { return now })
			const draw, line = 100 * time.Millisecond, 2 * time.Second
			tell := func(after time.Duration, part float64, n int) {
				now = now.Add(after)
				p.Tell(part, func() string { return fmt.Sprintf("%d people", n) })
			}
			tell(0, 0, 0) // too soon
			tell(draw, 0.01, 1)
			tell(draw, 0.5, 2)
			tell(draw/2, 0.6, 3) // too soon
			p.Line("line 7: no username")
			tell(line, 1.2, 4) // the file has grown
			tell(line, -1, 5)
			p.End()
			if out.String() != c.want {
				t.Errorf("it is told as %q, want %q", out.String(), c.want)
			}
		})
	}
}

// TestReader: a long restore says how far it is.
func TestReader(t *testing.T) {
	t.Parallel()
	now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	var out strings.Builder
	p := progress.New(&out, false, func() time.Time { return now })
	r := progress.NewReader(strings.NewReader(strings.Repeat("x", 200)), 200, p)
	now = now.Add(time.Minute)
	for range 2 { // the second part comes too soon after the first
		if _, err := r.Read(make([]byte, 50)); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != " 25 %\n" {
		t.Errorf("progress = %q, want one line with 25 %%", got)
	}
	if part := r.Part(); part != 0.5 {
		t.Errorf("part = %v, want half", part)
	}
}
