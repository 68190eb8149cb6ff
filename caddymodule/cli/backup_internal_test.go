package cli

import (
	"strings"
	"testing"
	"time"
)

// TestRestoreProgress: a long restore says how far it is.
func TestRestoreProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p := &progressReader{
		countingReader: countingReader{from: strings.NewReader(strings.Repeat("x", 200))}, size: 200,
		progress: newProgress(&out),
	}
	p.progress.told = time.Time{}
	for range 2 { // the second part comes too soon after the first
		if _, err := p.Read(make([]byte, 50)); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.String(); got != " 25 %\n" {
		t.Errorf("progress = %q, want one line with 25 %%", got)
	}
}
