package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/storage"
)

// held returns what waits or was given up.
func (h *harness) held(givenUp bool) (list []outbox.Held[string]) {
	h.Helper()
	if err := h.store.View(context.Background(), func(tx storage.Tx) (err error) {
		list, _, err = h.List(tx, givenUp, "", 100, h.now())
		return err
	}); err != nil {
		h.Fatal(err)
	}
	return list
}

// moved returns an item by a key that it had before.
func (h *harness) moved(key string) (at outbox.Held[string], found bool) {
	h.Helper()
	if err := h.store.View(context.Background(), func(tx storage.Tx) (err error) {
		at, found, err = h.Moved(tx, key, h.now())
		return err
	}); err != nil {
		h.Fatal(err)
	}
	return at, found
}

// change does something with an item, and reports whether it was there.
func (h *harness) change(how func(tx storage.Tx, key string, now time.Time) (bool, error), key string) (done bool) {
	h.Helper()
	if err := h.store.Update(context.Background(), func(tx storage.Tx) (err error) {
		done, err = how(tx, key, h.now())
		return err
	}); err != nil {
		h.Fatal(err)
	}
	return done
}

// TestKeptItems: why a try has failed is known, and what was given up is kept for a while, sent again or dropped.
func TestKeptItems(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{Lane: "a", Keep: time.Hour, First: 10 * time.Second})
	h.add("1")
	added := h.held(false)[0].Key
	h.fail = errors.New("the line is busy")
	h.round(0, 1, 1)
	list := h.held(false)
	if at, found := h.moved(added); !found || at.Key != list[0].Key || at.GivenUp {
		t.Errorf("an item that was tried is at %+v, %t", at, found)
	}
	if len(list) != 1 || list[0].Problem != "the line is busy" || list[0].Tries != 1 || list[0].Trying || list[0].ID != "1" {
		t.Fatalf("what waits is %+v", list)
	}
	if !h.change(h.Again, list[0].Key) || h.change(h.Again, list[0].Key) {
		t.Error("an item is not sent again, or twice")
	}
	h.fail = fmt.Errorf("nobody lives here: %w", outbox.ErrRefused)
	h.round(0, 1, 0)
	if list = h.held(true); len(list) != 1 || !list[0].GivenUp || list[0].Tries != 2 ||
		list[0].Problem != h.fail.Error() || len(h.held(false)) > 0 {
		t.Fatalf("what was given up is %+v", list)
	}
	if at, found := h.moved(added); !found || at.Key != list[0].Key || !at.GivenUp {
		t.Errorf("an item that was given up is at %+v, %t", at, found)
	}
	h.round(0, 0, 0)
	if !h.change(h.Again, list[0].Key) {
		t.Error("what was given up is not sent again")
	}
	h.fail = nil
	h.round(1, 0, 0)
	if at, found := h.moved(added); found {
		t.Errorf("an item that was sent is at %+v", at)
	}
	h.add("2")
	for _, other := range []string{string(storage.Prefix("b")) + "123456782", string(storage.Prefix("a")), ""} {
		if _, found := h.moved(other); found || h.change(h.Drop, other) || h.change(h.Again, other) {
			t.Errorf("%q, a key of another lane or of none, is an item", other)
		}
	}
	if !h.change(h.Drop, h.held(false)[0].Key) {
		t.Error("an item is not dropped")
	}
	h.round(0, 0, 0)
}

// TestItemInHand: an item that a worker tries at this moment says so, and one that is dropped meanwhile does not come
// back when the try fails.
func TestItemInHand(t *testing.T) {
	t.Parallel()
	h := newHarness(t, outbox.Config{Lane: "a", Keep: time.Hour})
	h.add("1")
	_, failed, err := h.Round(context.Background(), 1, func(context.Context, string, string) error {
		list := h.held(false)
		if len(list) != 1 || !list[0].Trying {
			t.Errorf("what is being tried is %+v", list)
		}
		h.change(h.Drop, list[0].Key)
		return errors.New("the line is busy")
	})
	if err != nil || failed != 1 || len(h.held(false))+len(h.held(true)) > 0 {
		t.Errorf("%d failed, %v; what was dropped is %+v", failed, err, h.held(false))
	}
}
