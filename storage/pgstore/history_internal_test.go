package pgstore

import (
	"testing"
	"time"
)

// TestPausedForLong: a process that was suspended for a week finds its row removed by the others. Nothing is lost, so
// it goes on, and so does its count.
func TestPausedForLong(t *testing.T) {
	t.Parallel()
	const own = tallyPrefix + "a"
	long, lately := time.Now().Add(-tallyKept).Unix(), time.Now().Add(-time.Hour).Unix()
	for name, tc := range map[string]struct {
		at    int64
		facts map[string]string
		want  bool
	}{
		"the row was removed":                    {long, map[string]string{}, false},
		"its first commit has found it removed":  {long, map[string]string{own: unknownTally}, false},
		"the row has gone back":                  {long, map[string]string{own: tally{4, long}.String()}, true},
		"the row is missing after an hour":       {lately, map[string]string{}, true},
		"a commit has found it missing too soon": {lately, map[string]string{own: unknownTally}, true},
	} {
		before := seen{answered: tally{5, tc.at}}
		if what, lost := before.missing(own, tc.facts); lost != tc.want {
			t.Errorf("%s: lost = %t (%s), want %t", name, lost, what, tc.want)
		}
		before = seen{others: map[string]tally{own: {5, tc.at}}}
		if what, lost := before.missing(tallyPrefix+"b", tc.facts); lost != tc.want {
			t.Errorf("%s, as another process sees it: lost = %t (%s), want %t", name, lost, what, tc.want)
		}
	}
	h := &history{own: own, answered: tally{5, long}}
	if is := tallyOf(h.next()); is.count != 6 {
		t.Errorf("the next commit has the count %d, want 6", is.count)
	}
}
