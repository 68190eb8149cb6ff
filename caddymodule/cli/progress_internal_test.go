package cli

import (
	"bytes"
	"testing"
	"time"
)

// TestProgress: a terminal shows a bar that is redrawn, a file gets a line from time to time.
func TestProgress(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live bool
		want string
	}{
		"a terminal": {true, "\r[------------------------]   1 %  1 person\x1b[K\r[############------------]  50 %  2 people\x1b[K" +
			"\r\x1b[Kline 7: no username\n\r[########################] 100 %  4 people\x1b[K\r5 people\x1b[K\n"},
		"a file": {false, "line 7: no username\n100 %  4 people\n5 people\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
			var out bytes.Buffer
			p := newProgress(&out)
			p.live, p.told, p.now = c.live, now, func() time.Time { return now }
			tell := func(after time.Duration, part float64, n int) {
				now = now.Add(after)
				p.tell(part, func() string { return count(n, "person") })
			}
			tell(0, 0, 0) // too soon
			tell(drawTime, 0.01, 1)
			tell(drawTime, 0.5, 2)
			tell(drawTime/2, 0.6, 3) // too soon
			p.line("line 7: no username")
			tell(progressTime, 1.2, 4) // the file has grown
			tell(progressTime, -1, 5)
			p.end()
			if out.String() != c.want {
				t.Errorf("it is told as %q, want %q", out.String(), c.want)
			}
		})
	}
}
