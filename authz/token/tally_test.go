package token_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// tokenEvents returns the events of tokens that clients got for themselves.
func tokenEvents(t *testing.T, h *authztest.Harness, clientID string) (each int, together []audit.Event) {
	t.Helper()
	err := h.Store.View(t.Context(), func(tx storage.Tx) error {
		each, together = 0, nil
		for e, err := range eventtest.All(tx) {
			switch {
			case err != nil:
				return err
			case e.PersonID != "" || e.ClientID != clientID:
			case e.Type == "token.AccessTokenIssuedEvent":
				each++
			case e.Type == "token.AccessTokensIssuedEvent":
				together = append(together, e)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return each, together
}

// TestBusyClientDoesNotFillTheDisk: a job that fetches a token for every request leaves a few events a minute, and none
// of its tokens is forgotten.
func TestBusyClientDoesNotFillTheDisk(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	settle := func() {
		t.Helper()
		if err := h.Server().CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 35 {
		authztest.WantStatus(t, "Token", authztest.OwnToken(h), http.StatusOK)
	}
	authztest.WantStatus(t, "another client", h.Token("jwt", authztest.ClientCredentials("orders.read")), http.StatusOK)
	settle() // the minute is not over
	if each, together := tokenEvents(t, h, "reports"); each != 10 || len(together) != 0 {
		t.Errorf("after 35 tokens: %d events, %d of several tokens, want 10 and none yet", each, len(together))
	}
	// What was counted survives a restart.
	h.Restart(nil)
	h.Clock.Advance(time.Minute)
	settle()
	settle()
	each, together := tokenEvents(t, h, "reports")
	if each != 10 || len(together) != 1 ||
		!strings.HasPrefix(together[0].Reason, "25 more access tokens from 2035-03-01T12:00:00Z to 2035-03-01T12:01:00Z") {
		t.Fatalf("after the minute: %d events and %+v, want 10 and one of 25 tokens", each, together)
	}
	if each, together := tokenEvents(t, h, "jwt"); each != 1 || len(together) != 0 {
		t.Errorf("another client: %d events, %d of several tokens, want 1 and none", each, len(together))
	}
	// The next minute begins again, and tokens of persons always have an event of their own.
	for range 12 {
		authztest.OwnToken(h)
	}
	b := h.Browser(authztest.Demo)
	for range 15 {
		b.Tokens("shop")
	}
	authztest.WantEvent(t, h, authztest.Demo, "token.AccessTokenIssuedEvent", 15)
	h.Clock.Advance(time.Hour)
	settle()
	if each, together := tokenEvents(t, h, "reports"); each != 20 || len(together) != 2 {
		t.Errorf("after the next minute: %d events, %d of several tokens, want 20 and 2", each, len(together))
	}
	h.Invariants(t)
}

// TestBusyClientOfTwoNodes: each node counts the tokens of a client for itself, and none is forgotten.
func TestBusyClientOfTwoNodes(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for node, tokens := range []int{15, 17} {
		h.Move(node)
		for range tokens {
			authztest.WantStatus(t, "Token", authztest.OwnToken(h), http.StatusOK)
		}
	}
	h.Clock.Advance(time.Minute)
	if err := h.Server().CatchUp(t.Context()); err != nil { // one settles for both
		t.Fatal(err)
	}
	each, together := tokenEvents(t, h, "reports")
	var reasons []string
	for _, e := range together {
		reasons = append(reasons, e.Reason)
	}
	slices.Sort(reasons)
	if each != 20 || len(reasons) != 2 || !strings.HasPrefix(reasons[0], "5 more access tokens") ||
		!strings.HasPrefix(reasons[1], "7 more access tokens") {
		t.Errorf("%d events and %q, want 10 of each node, one of 5 tokens and one of 7", each, reasons)
	}
	h.Invariants(t)
}

// TestBusyClientAllAtOnce: no token is lost or counted twice however many are issued at once.
func TestBusyClientAllAtOnce(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	all := authztest.Together(64, func(int) *authztest.Response { return authztest.OwnToken(h) })
	if n := authztest.CountStatus(all, http.StatusOK); n != 64 {
		t.Fatalf("%d of 64 got tokens", n)
	}
	h.Clock.Advance(time.Minute)
	done := authztest.Together(4, func(int) *authztest.Response {
		if err := h.Server().CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
		return &authztest.Response{}
	})
	if each, together := tokenEvents(t, h, "reports"); len(done) != 4 || each != 10 || len(together) != 1 ||
		!strings.HasPrefix(together[0].Reason, "54 more") {
		t.Errorf("%d events and %+v, want 10 and one of 54 tokens", each, together)
	}
	h.Invariants(t)
}
