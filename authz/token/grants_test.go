package token_test

import (
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestSigningInAgainAndAgainCostsTheSame: the 1,000th code flow of a person at a client reads as many keys as the 30th
// and scans none, so no account slows the one writer of the store.
func TestSigningInAgainAndAgainCostsTheSame(t *testing.T) {
	t.Parallel()
	inner, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	store := &authztest.CountingStore{Store: inner}
	h := authztest.New(t, authztest.WithStore(store))
	b := h.Browser(authztest.Demo)
	oldest := b.Tokens("shop")
	var at30 [3]int64
	for n := 2; n <= 1000; n++ {
		h.Clock.Advance(time.Second)
		scans := store.Scans.Load()
		got := store.Work(func() { b.Tokens("shop") })
		if n == 30 {
			at30 = got
		}
		if scans = store.Scans.Load() - scans; n >= 30 && (got != at30 || scans != 0) {
			t.Fatalf("flow %d takes %v views, updates and reads and %d scans, the 30th took %v: want the same, no scan", n, got, scans, at30)
		}
	}
	authztest.WantActive(t, h, "the oldest, after 999 others", oldest.Refresh, false)
	if err := inner.View(t.Context(), func(tx storage.Tx) error {
		at, err := sessionindex.Sessions(tx, sessionindex.Application, "shop", "", 10)
		if len(at) != 1 {
			t.Errorf("%d sessions are listed at the application, want the one of the browser", len(at))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	h.Invariants(t)
}

// TestWithdrawingCountsLiveGrants: the number of grants that end with a consent has none that expired before.
func TestWithdrawingCountsLiveGrants(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.Tokens("shop", authztest.Demo)
	h.Clock.Advance(100 * 24 * time.Hour)
	h.Tokens("shop", authztest.Demo)
	if n, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "shop", authztest.Admin); n != 1 || err != nil {
		t.Errorf("WithdrawConsent = %d, %v, want 1", n, err)
	}
}
