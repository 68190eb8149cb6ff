package par

import (
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestPushesWithoutEnd: a client with 1,000 requests that no one has finished has to wait. Others, and public clients,
// whose requests strangers can push, do not.
func TestPushesWithoutEnd(t *testing.T) {
	t.Parallel()
	now := time.Date(2035, 3, 1, 12, 0, 0, 0, time.UTC)
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = func() time.Time { return now } })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	err = store.Update(t.Context(), func(tx storage.Tx) error {
		for i := range mostOpen - 1 {
			if err := open.Put(tx, storage.Key("shop", strconv.Itoa(i)), openRecord{now.Add(lifetime)}, now.Add(lifetime)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	at := now
	p := New(Deps{Store: store, Now: func() time.Time { return at }})
	push := func(key, client string, public bool) error {
		return p.store(t.Context(), key, &record{ClientID: client}, public, nil)
	}
	for _, step := range []struct {
		key, client string
		public      bool
		after       time.Duration
		refused     bool
	}{
		{"a", "shop", false, 0, false},
		{"b", "shop", false, 0, true},
		{"c", "shop", true, 0, false},
		{"d", "other", false, 0, false},
		{"e", "shop", false, lifetime, false},
	} {
		at = at.Add(step.after)
		err := push(step.key, step.client, step.public)
		refused := new(oauth.Error)
		if got := errors.As(err, &refused) && refused.Status == http.StatusTooManyRequests; got != step.refused || err != nil && !got {
			t.Errorf("push %s = %v, want refused: %t", step.key, err, step.refused)
		}
	}
	err = store.Update(t.Context(), func(tx storage.Tx) error { return Spend(tx, "other", "d") })
	if err != nil {
		t.Errorf("Spend = %v", err)
	}
	if err := store.Update(t.Context(), func(tx storage.Tx) error { return Spend(tx, "other", "d") }); err == nil {
		t.Error("a request is finished twice")
	}
}
