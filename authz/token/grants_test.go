package token_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestSigningInAgainAndAgainCostsTheSame: the 1,000th code flow of a person at a client reads as many keys as the 30th
// and scans none, so that no account slows the one writer of the store.
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
		at, err := places.Sessions(tx, places.Application, "shop", "", 10)
		if len(at) != 1 {
			t.Errorf("%d sessions are listed at the application, want the one of the browser", len(at))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	h.Invariants(t)
}

// TestGrantsListedAsBefore: the grants in a store of an earlier version, which had a key for each, are as good as
// before: shown, counted towards the limit, ended with their session or their consent. Their keys go when the list is
// written.
func TestGrantsListedAsBefore(t *testing.T) {
	t.Parallel()
	setUp := func(t *testing.T) (*authztest.Harness, []authztest.Tokens) {
		t.Helper()
		h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.MaxSessions = 3 })
		}))
		var got []authztest.Tokens
		for range 3 {
			got = append(got, h.Browser(authztest.Demo).Tokens("shop"))
			h.Clock.Advance(time.Second)
		}
		got = append(got, h.Tokens("spa", authztest.Demo))
		if err := listGrantsAsBefore(t.Context(), h.Store); err != nil {
			t.Fatal(err)
		}
		wantListed(t, h, "shop", 3)
		h.Restart(nil)
		return h, got
	}
	t.Run("they are shown", func(t *testing.T) {
		t.Parallel()
		h, _ := setUp(t)
		if items := authztest.HeldItems(t, h, authztest.Demo+"/tokens"); len(items) != 4 || items[0].ClientID != "shop" || items[3].ClientID != "spa" {
			t.Errorf("items = %+v, want 3 of shop, 1 of spa", items)
		}
	})
	t.Run("a new one takes the place of the oldest", func(t *testing.T) {
		t.Parallel()
		h, got := setUp(t)
		got = append(got, h.Browser(authztest.Demo).Tokens("shop"))
		for i, tokens := range got {
			authztest.WantActive(t, h, "refresh token", tokens.Refresh, i != 0)
		}
		wantListed(t, h, "shop", 0)
		wantListed(t, h, "spa", 1)
		if items := authztest.HeldItems(t, h, authztest.Demo+"/tokens"); len(items) != 4 {
			t.Errorf("items = %+v, want 4", items)
		}
	})
	t.Run("one ends", func(t *testing.T) {
		t.Parallel()
		h, got := setUp(t)
		authztest.WantStatus(t, "revoke", h.Revoke("shop", got[1].Refresh), http.StatusOK)
		wantListed(t, h, "shop", 2)
		h.Browser(authztest.Demo).Tokens("shop")
		authztest.WantActive(t, h, "the oldest, for which there was room", got[0].Refresh, true)
	})
	t.Run("they end with their session", func(t *testing.T) {
		t.Parallel()
		h, got := setUp(t)
		in, err := h.Server().Introspect(t.Context(), got[1].Access)
		if err != nil {
			t.Fatal(err)
		}
		err = h.Store.Update(t.Context(), func(tx storage.Tx) error { return h.Server().TokensEnded(tx, in.Subject, in.SessionID) })
		if err != nil {
			t.Fatal(err)
		}
		for i, tokens := range got {
			authztest.WantActive(t, h, "access token", tokens.Access, i != 1)
		}
		wantListed(t, h, "shop", 2)
	})
	t.Run("they end with the consent", func(t *testing.T) {
		t.Parallel()
		h, got := setUp(t)
		if n, err := h.Server().WithdrawConsent(t.Context(), authztest.Demo, "shop", authztest.Admin); n != 3 || err != nil {
			t.Errorf("WithdrawConsent = %d, %v, want 3", n, err)
		}
		for i, tokens := range got {
			authztest.WantActive(t, h, "access token", tokens.Access, i == 3)
		}
		wantListed(t, h, "shop", 0)
	})
}

// wantListed fails unless so many grants of a client have a key of their own.
func wantListed(t *testing.T, h *authztest.Harness, clientID string, want int) {
	t.Helper()
	if n, err := grantsListedAsBefore(t.Context(), h.Store, authztest.Demo, clientID); n != want || err != nil {
		t.Errorf("%d keys of grants of %s, %v, want %d", n, clientID, err, want)
	}
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
