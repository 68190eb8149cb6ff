package depcache_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/depcache"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

var (
	now   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	later = now.Add(time.Hour)
)

func openStore(t *testing.T) storage.Store {
	t.Helper()
	s, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newCache(store storage.Store, most int) *depcache.Cache[string] {
	return depcache.New(store, most, func(a string) int { return len(a) })
}

func put(t *testing.T, s storage.Store, key, value string) {
	t.Helper()
	if err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte(key), []byte(value), time.Time{}) }); err != nil {
		t.Error(err)
	}
}

// valueOf asks for the value of a key.
func valueOf(key string, until time.Time) func(storage.Tx) (string, time.Time, error) {
	return func(tx storage.Tx) (string, time.Time, error) {
		v, err := tx.Get([]byte(key))
		return string(v), until, err
	}
}

func look(t *testing.T, c *depcache.Cache[string], k depcache.Key, ask func(storage.Tx) (string, time.Time, error)) string {
	t.Helper()
	v, _, err := c.Look(t.Context(), k, now, ask)
	if err != nil {
		t.Errorf("Look = %v", err)
	}
	return v
}

func wantFound(t *testing.T, what string, c *depcache.Cache[string], k depcache.Key, at time.Time, want string, found bool) {
	t.Helper()
	if got, ok := c.Find(k, at); ok != found || got != want {
		t.Errorf("%s: Find = %q, %t, want %q, %t", what, got, ok, want, found)
	}
}

func TestAnswerIsKeptUntilItsRecordChanges(t *testing.T) {
	t.Parallel()
	store, k := openStore(t), depcache.KeyOf(0, "token")
	c := newCache(store, 1<<20)
	put(t, store, "t/a", "1")
	wantFound(t, "before it is asked", c, k, now, "", false)
	if got := look(t, c, k, valueOf("t/a", later)); got != "1" {
		t.Errorf("Look = %q, want 1", got)
	}
	wantFound(t, "kept", c, k, now, "1", true)
	wantFound(t, "at its end", c, k, later, "", false)
	wantFound(t, "another kind of question about the same text", c, depcache.KeyOf(1, "token"), now, "", false)
	put(t, store, "t/a", "2")
	wantFound(t, "changed", c, k, now, "", false)
	put(t, store, "t/a", "1")
	wantFound(t, "changed back", c, k, now, "", false)
}

// A revocation that comes while an answer is on its way into memory must not be overtaken by it.
func TestRevokedBetweenLookAndKeep(t *testing.T) {
	t.Parallel()
	store, k := openStore(t), depcache.KeyOf(0, "token")
	c := newCache(store, 1<<20)
	for _, when := range []string{"before the record is read", "after it"} {
		put(t, store, "t/a", "good")
		got := look(t, c, k, func(tx storage.Tx) (string, time.Time, error) {
			revoke := func() { put(t, store, "t/a", "revoked") }
			if when == "before the record is read" {
				revoke()
			} else {
				defer revoke()
			}
			return valueOf("t/a", later)(tx)
		})
		if got != "good" {
			t.Errorf("%s: Look = %q, want that of its snapshot", when, got)
		}
		wantFound(t, when, c, k, now, "", false)
	}
	// An answer that is older than the one in memory takes its place, and does not hold.
	look(t, c, k, func(tx storage.Tx) (string, time.Time, error) {
		v, until, err := valueOf("t/a", later)(tx)
		put(t, store, "t/a", "newer")
		look(t, c, k, valueOf("t/a", later))
		return v, until, err
	})
	if got, ok := c.Find(k, now); ok && got != "newer" {
		t.Errorf("Find = %q, want newer or nothing", got)
	}
}

func TestUnknownTokensAreNotKept(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	c := newCache(store, 64<<10)
	put(t, store, "t/a", "1")
	good := depcache.KeyOf(0, "good")
	look(t, c, good, valueOf("t/a", later))
	for i := range 5000 {
		k := depcache.KeyOf(0, strconv.Itoa(i))
		look(t, c, k, func(tx storage.Tx) (string, time.Time, error) {
			_, err := tx.Get([]byte("t/" + strconv.Itoa(i)))
			if !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("Get = %v", err)
			}
			return "", time.Time{}, nil
		})
		wantFound(t, "unknown", c, k, now, "", false)
	}
	wantFound(t, "good, after a flood of garbage", c, good, now, "1", true)
}

// What is asked again and again stays when a flood of tokens comes that are asked once.
func TestFloodOfTokensDoesNotPushOutThoseInUse(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	c := newCache(store, 256<<10)
	put(t, store, "t/a", "1")
	inUse := make([]depcache.Key, 40)
	for i := range inUse {
		inUse[i] = depcache.KeyOf(0, fmt.Sprint("in use ", i))
		look(t, c, inUse[i], valueOf("t/a", later))
	}
	lost := 0
	for i := range 20_000 {
		c.Keep(depcache.KeyOf(0, strconv.Itoa(i)), "flood", later, now)
		if _, ok := c.Find(inUse[i%len(inUse)], now); !ok {
			lost++
			look(t, c, inUse[i%len(inUse)], valueOf("t/a", later))
		}
	}
	if lost > 20 {
		t.Errorf("answers in use were lost %d times", lost)
	}
	kept := 0
	for i := range 20_000 {
		if _, ok := c.Find(depcache.KeyOf(0, strconv.Itoa(i)), now); ok {
			kept++
		}
	}
	if kept == 0 || kept > 256<<10/320 {
		t.Errorf("%d answers are kept, want some, within the bound", kept)
	}
	c.Keep(depcache.KeyOf(0, "large"), string(make([]byte, 256<<10)), later, now)
	wantFound(t, "one that is larger than its part of the memory", c, depcache.KeyOf(0, "large"), now, "", false)
	c.Keep(depcache.KeyOf(0, "expired"), "x", now, now)
	wantFound(t, "expired", c, depcache.KeyOf(0, "expired"), now.Add(-time.Second), "", false)
}

func TestNothingIsKeptWithoutATracker(t *testing.T) {
	t.Parallel()
	store, k := openStore(t), depcache.KeyOf(0, "token")
	c := newCache(struct{ storage.Store }{store}, 1<<20)
	put(t, store, "t/a", "1")
	got, basis, err := c.Look(t.Context(), k, now, valueOf("t/a", later))
	if err != nil || got != "1" {
		t.Errorf("Look = %q, %v, want 1", got, err)
	}
	if basis.Again <= 0 || basis.Again >= time.Second {
		t.Errorf("what is open is asked about again after %s, want less than a second", basis.Again)
	}
	wantFound(t, "a store that cannot tell what has changed", c, k, now, "", false)
}

func TestNothingHoldsAfterTheStoreWasClosed(t *testing.T) {
	t.Parallel()
	store, k := openStore(t), depcache.KeyOf(0, "token")
	c := newCache(store, 1<<20)
	put(t, store, "t/a", "1")
	look(t, c, k, valueOf("t/a", later))
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	wantFound(t, "closed", c, k, now, "", false)
	if _, _, err := c.Look(t.Context(), k, now, valueOf("t/a", later)); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Look = %v, want ErrUnavailable", err)
	}
}

// Twenty readers ask for what four writers change. No answer is older than what was written before the question.
func TestNoAnswerIsOlderThanTheQuestion(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	c := newCache(store, 16<<10) // so small that answers push each other out
	const records = 4
	var written [records]atomic.Int64
	for i := range records {
		put(t, store, fmt.Sprint("t/", i), "0")
	}
	ctx, stop := context.WithCancel(t.Context())
	var writers, readers sync.WaitGroup
	for i := range records {
		writers.Go(func() {
			for n := int64(1); n <= 200; n++ {
				put(t, store, fmt.Sprint("t/", i), strconv.FormatInt(n, 10))
				written[i].Store(n)
			}
		})
	}
	var hits atomic.Int64
	for r := range 20 {
		readers.Go(func() {
			for n := r; ctx.Err() == nil; n++ {
				i := n % records
				k, least := depcache.KeyOf(0, fmt.Sprint(i, "/", n%10)), written[i].Load()
				v, ok := c.Find(k, now)
				if ok {
					hits.Add(1)
				} else {
					v = look(t, c, k, valueOf(fmt.Sprint("t/", i), later))
				}
				if got, err := strconv.ParseInt(v, 10, 64); err != nil || got < least {
					t.Errorf("answer %q (from memory: %t), after %d was written", v, ok, least)
					return
				}
			}
		})
	}
	writers.Wait()
	stop()
	readers.Wait()
	if hits.Load() == 0 {
		t.Error("no answer came from memory")
	}
}
