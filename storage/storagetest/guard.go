package storagetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/gatehouse-id/gatehouse/storage"
)

var errOver = errors.New("storagetest: the lease is another's")

// guarded: what a guard refuses is not written, and the refusal is what Update returns.
func (s suite) guarded(t *testing.T) {
	st := s.open(t)
	put(t, st, "a", "1")
	write := func(ctx context.Context) error {
		return st.Update(ctx, func(tx storage.Tx) error { return tx.Put([]byte("a"), []byte("2"), never) })
	}
	holder := func(name string) context.Context {
		return storage.Guarded(t.Context(), func(tx storage.Tx) error {
			if is, err := tx.Get([]byte("lease")); err != nil || string(is) != name {
				return errOver
			}
			return nil
		})
	}
	wantErr(t, "Update before the lease", write(holder("x")), errOver)
	put(t, st, "lease", "y")
	wantErr(t, "Update without the lease", write(holder("x")), errOver)
	wantErr(t, "Update of a detached context", write(context.WithoutCancel(holder("x"))), errOver)
	wantErr(t, "Update behind two guards", write(storage.Guarded(holder("x"), func(storage.Tx) error { return nil })), errOver)
	wantErr(t, "Update behind two guards", write(storage.Guarded(holder("y"), func(storage.Tx) error { return errOver })), errOver)
	wantValue(t, st, "a", "1")
	wantErr(t, "Update with the lease", write(holder("y")), nil)
	wantValue(t, st, "a", "2")
}

// RefusedWhenOver tests the work of a worker that only one node may do: on a node that has lost the role without
// noticing it, the work writes nothing. On one that has the role it writes, or the test would prove nothing.
func RefusedWhenOver(t *testing.T, st storage.Store, work func(ctx context.Context) error) {
	t.Helper()
	before := records(t, st)
	over := storage.Guarded(t.Context(), func(storage.Tx) error { return errOver })
	if err := work(over); !errors.Is(err, errOver) {
		t.Errorf("the work of a node whose term is over = %v, want %v", err, errOver)
	}
	if after := records(t, st); !maps.Equal(before, after) {
		t.Errorf("a node whose term is over has written: %d records before, %d afterwards, or others", len(before), len(after))
	}
	if err := work(t.Context()); err != nil {
		t.Errorf("the work = %v", err)
	}
	if maps.Equal(before, records(t, st)) {
		t.Error("the work writes nothing in its term either: this proves nothing")
	}
}

func records(t *testing.T, st storage.Store) map[string]string {
	t.Helper()
	var all map[string]string
	err := st.View(t.Context(), func(tx storage.Tx) error {
		all = map[string]string{}
		for r, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			all[string(r.Key)] = fmt.Sprintf("%x %s", r.Value, r.Expires)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
