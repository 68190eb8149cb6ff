package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// TestRoundTrips: a token that is read again takes one round trip with all that it rests on, and what has changed
// meanwhile is read nevertheless. Writes and their commit are one round trip, however many they are.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, server.Address())
	s := openNode(t, pgstore.Options{URL: at(proxy.Address()), DirectURL: server.URL(pgtest.Database), Schema: newSchema()})
	put := func(pairs ...string) {
		t.Helper()
		err := s.Update(t.Context(), func(tx storage.Tx) error {
			for i := 0; i < len(pairs); i += 2 {
				if err := tx.Put([]byte(pairs[i]), []byte(pairs[i+1]), time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put("token/a", "grant/1", "token/b", "grant/2", "grant/1", "person/p", "grant/2", "person/p", "person/p", "Ada")
	name := func(token string) string {
		at, err := "token/"+token, error(nil)
		err = s.View(t.Context(), func(tx storage.Tx) error {
			at = "token/" + token
			for range 2 {
				v, err := tx.Get([]byte(at))
				if err != nil {
					return err
				}
				at = string(v)
			}
			v, err := tx.GetMany([]byte(at), []byte("epoch"))
			if err == nil {
				at = fmt.Sprintf("%s %s", v[0], v[1])
			}
			return err
		})
		if errors.Is(err, storage.ErrNotFound) {
			return "none"
		}
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	// fewest returns how many round trips something takes. A beat can come between, so it counts the best of many.
	fewest := func(do func()) int {
		least := 1000
		for range 10 {
			before := proxy.Trips()
			do()
			least = min(least, proxy.Trips()-before)
		}
		return least
	}
	if got := name("a") + name("b"); got != "Ada Ada " {
		t.Errorf("read %q", got)
	}
	if n := fewest(func() { name("a") }); n != 1 {
		t.Errorf("a token that is read again takes %d round trips, want 1", n)
	}
	if n := fewest(func() { name("b"); name("a") }); n != 2 {
		t.Errorf("two tokens that are read again take %d round trips, want 2", n)
	}
	put("epoch", "1", "grant/1", "person/q", "person/q", "Eve")
	for range 3 {
		if got := name("a"); got != "Eve 1" {
			t.Errorf("after the grant has changed, read %q", got)
		}
	}
	if n := fewest(func() { put("x/1", "1", "x/2", "1", "x/3", "1") }); n != 1 {
		t.Errorf("three writes take %d round trips, want 1", n)
	}
	err := s.Update(t.Context(), func(tx storage.Tx) error { return tx.Delete([]byte("grant/1")) })
	if got := name("a"); err != nil || got != "none" {
		t.Errorf("after the grant was revoked, read %q, %v", got, err)
	}
}

// TestRoundTripsOfADecision: what the views of a request have read, its update reads in one round trip, as it is by
// then, and a damaged record among it is an error for those alone who ask for it.
func TestRoundTripsOfADecision(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, server.Address())
	schema := newSchema()
	s := openNode(t, pgstore.Options{URL: at(proxy.Address()), DirectURL: server.URL(pgtest.Database), Schema: schema})
	keys := [][]byte{[]byte("code"), []byte("grant"), []byte("person"), []byte("absent"), []byte("damaged")}
	write := func(ctx context.Context, value string, of ...[]byte) error {
		return s.Update(ctx, func(tx storage.Tx) error {
			for _, k := range of {
				if err := tx.Put(k, []byte(value), time.Time{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := write(t.Context(), "1", keys[0], keys[1], keys[2], keys[4]); err != nil {
		t.Fatal(err)
	}
	server.Exec(t, pgtest.Database, "UPDATE \""+schema+"\".gatehouse_kv SET v = 'x' WHERE k = 'damaged'")
	least := 1000
	for n := range 10 {
		ctx := storage.WithTrail(t.Context())
		err := s.View(ctx, func(tx storage.Tx) error {
			for _, k := range keys {
				_, _ = tx.Get(k)
			}
			return nil
		})
		value := fmt.Sprint(n + 2)
		if err := errors.Join(err, write(t.Context(), value, keys[2])); err != nil { // someone is faster
			t.Fatal(err)
		}
		var damaged error
		got, before := "", proxy.Trips()
		err = s.Update(ctx, func(tx storage.Tx) error {
			got = ""
			for _, k := range keys[:4] {
				v, err := tx.Get(k)
				if err != nil && !errors.Is(err, storage.ErrNotFound) {
					return err
				}
				got += string(v) + " "
			}
			return tx.Put([]byte("spent"), []byte(got), time.Time{})
		})
		least = min(least, proxy.Trips()-before)
		if want := "1 1 " + value + "  "; err != nil || got != want {
			t.Errorf("Update = %v, has read %q, want %q", err, got, want)
		}
		_ = s.Update(ctx, func(tx storage.Tx) error {
			_, damaged = tx.Get(keys[4])
			return nil
		})
		if !errors.Is(damaged, storage.ErrCorrupt) {
			t.Errorf("the damaged record = %v, want %v", damaged, storage.ErrCorrupt)
		}
	}
	if least != 2 {
		t.Errorf("an update of what views have read takes %d round trips, want 2", least)
	}
}
