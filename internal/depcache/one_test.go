package depcache_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestOneAnswerIsKeptUntilItChanges(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	asked := 0
	ask := func(tx storage.Tx) (string, error) {
		asked++
		v, err := tx.Get([]byte("k"))
		if errors.Is(err, storage.ErrNotFound) {
			v, err = []byte("nothing"), nil
		}
		return string(v), err
	}
	one := depcache.NewOne[string](s)
	want := func(value string, questions int) {
		t.Helper()
		for range 3 {
			if v, err := one.Ask(t.Context(), ask); err != nil || v != value {
				t.Errorf("Ask = %q, %v, want %q", v, err, value)
			}
		}
		if asked != questions {
			t.Errorf("%d questions reached the store, want %d", asked, questions)
		}
	}
	want("nothing", 1)
	put(t, s, "k", "one")
	want("one", 2)
	put(t, s, "k", "two")
	want("two", 3)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := one.Ask(ended, ask); !errors.Is(err, context.Canceled) {
		t.Errorf("Ask for a request that has ended = %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Ask(t.Context(), ask); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Ask after Close = %v, want ErrUnavailable", err)
	}
}

// A store that cannot tell what has changed is asked each time.
func TestOneAnswerOfAStoreThatTellsNothing(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	one := depcache.NewOne[string](struct{ storage.Store }{s})
	for _, value := range []string{"one", "two"} {
		put(t, s, "k", value)
		v, err := one.Ask(t.Context(), func(tx storage.Tx) (string, error) {
			v, err := tx.Get([]byte("k"))
			return string(v), err
		})
		if err != nil || v != value {
			t.Errorf("Ask = %q, %v, want %q", v, err, value)
		}
	}
}
