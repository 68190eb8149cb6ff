package doccache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/doccache"
)

var errAway = errors.New("away")

func TestFind(t *testing.T) {
	t.Parallel()
	now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	c := doccache.New[string](2, func() time.Time { return now })
	fetches := 0
	find := func(name string, fail bool) (string, error) {
		return c.Find(t.Context(), name, "192.0.2.1", func(context.Context) (string, time.Time, error) {
			if fetches++; fail {
				return "", time.Time{}, errAway
			}
			return fmt.Sprint(name, fetches), now.Add(time.Hour), nil
		})
	}
	for _, step := range []struct {
		name, doc string
		after     time.Duration
		fail      bool
		want      string
		err       error
		fetches   int
	}{
		{"a document", "a", 0, false, "a1", nil, 1},
		{"the same again", "a", time.Minute, true, "a1", nil, 1},
		{"an owner who is away: the last one comes with the error", "a", time.Hour, true, "a1", errAway, 2},
		{"a failure is kept", "a", 29 * time.Second, false, "a1", errAway, 2},
		{"for a while", "a", time.Second, false, "a3", nil, 3},
		{"another", "b", time.Second, false, "b4", nil, 4},
		{"the first is used", "a", time.Second, false, "a3", nil, 4},
		{"a third, for which the second gives way", "c", time.Second, false, "c5", nil, 5},
		{"the second once more, for which the first gives way", "b", time.Second, false, "b6", nil, 6},
	} {
		now = now.Add(step.after)
		if got, err := find(step.doc, step.fail); got != step.want || !errors.Is(err, step.err) || fetches != step.fetches {
			t.Errorf("%s: Find(%s) = %q, %v by %d fetches, want %q, %v by %d", step.name, step.doc, got, err, fetches, step.want,
				step.err, step.fetches)
		}
	}
	all := slices.Sorted(c.All())
	if _, known := c.Known("a"); known || !slices.Equal(all, []string{"b6", "c5"}) {
		t.Errorf("remembered are %q, want b6 and c5", all)
	}
}

func TestBusy(t *testing.T) {
	t.Parallel()
	now := time.Date(2035, 1, 1, 0, 0, 0, 0, time.UTC)
	c := doccache.New[string](1000, func() time.Time { return now })
	fetch := func(context.Context) (string, time.Time, error) { return "x", now.Add(time.Hour), nil }
	for i := range 10 {
		if _, err := c.Find(t.Context(), fmt.Sprint(i), "192.0.2.1", fetch); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Find(t.Context(), "one more", "192.0.2.1", fetch); !errors.Is(err, doccache.ErrBusy) {
		t.Errorf("the eleventh document in a minute: %v, want ErrBusy", err)
	}
	if _, err := c.Find(t.Context(), "one more", "192.0.2.2", fetch); err != nil {
		t.Errorf("the same for another caller: %v", err)
	}
	now = now.Add(time.Minute)
	if _, err := c.Find(t.Context(), "a minute later", "192.0.2.1", fetch); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// TestOneFetch: callers who want a document that is being fetched wait for it, and one who leaves does not.
func TestOneFetch(t *testing.T) {
	t.Parallel()
	c := doccache.New[string](10, time.Now)
	began, end := make(chan struct{}), make(chan struct{})
	fetch := func(context.Context) (string, time.Time, error) {
		close(began) // panics if there is another fetch
		<-end
		return "x", time.Now().Add(time.Hour), nil
	}
	results := make(chan string)
	find := func() {
		got, _ := c.Find(t.Context(), "x", "192.0.2.1", fetch) //nolint:errcheck // the value says it
		results <- got
	}
	go find()
	<-began
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := c.Find(gone, "x", "192.0.2.1", fetch); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who has left: %v, want that", err)
	}
	go find()
	close(end)
	for range 2 {
		if got := <-results; got != "x" {
			t.Errorf("Find = %q, want x", got)
		}
	}
}
