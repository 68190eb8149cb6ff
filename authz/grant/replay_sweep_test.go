package grant_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// TestReplayAfterASweep: what remembers that something was used must not be collected while it could be used again.
func TestReplayAfterASweep(t *testing.T) {
	t.Parallel()
	t.Run("attack 73: a client assertion in its last second", func(t *testing.T) {
		t.Parallel()
		s := authztest.NewSigner(t, "signer", jose.EdDSA)
		h := authztest.New(t, authztest.WithClients(s.Client))
		claims := s.Claims(h)
		claims["exp"] = h.Clock.Now().Unix() + 330 // the farthest that is accepted
		raw := s.Sign(t, claims, "")
		authztest.WantStatus(t, "first", h.Post("/oauth/token", authztest.AssertionForm(raw)), http.StatusOK)
		h.Clock.Advance(330*time.Second - time.Millisecond)
		h.Sweep()
		authztest.WantError(t, "replay", h.Post("/oauth/token", authztest.AssertionForm(raw)), http.StatusUnauthorized, "invalid_client")
		claims["jti"] = "another"
		authztest.WantStatus(t, "one of the same age that was not used", h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, claims, ""))),
			http.StatusOK)
		h.Invariants(t)
	})
	t.Run("attack 41: a code whose tokens are in use", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t)
		code := h.Browser(authztest.Demo).Code("shop")
		first := h.Redeem("shop", code)
		h.Clock.Advance(24*time.Hour - time.Millisecond)
		h.Sweep()
		second := h.Refresh("shop", first.Text("refresh_token"))
		authztest.WantStatus(t, "refresh", second, http.StatusOK)
		authztest.WantError(t, "replay", h.Redeem("shop", code), http.StatusBadRequest, "invalid_grant")
		authztest.WantActive(t, h, "what the code gave", second.Text("access_token"), false)
		h.Invariants(t)
	})
	t.Run("attack 64: a spent refresh token", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t)
		first := h.Tokens("shop", authztest.Demo).Refresh
		second := h.Refresh("shop", first).Text("refresh_token")
		h.Clock.Advance(30*24*time.Hour - time.Second)
		h.Sweep()
		third := h.Refresh("shop", second).Text("refresh_token")
		authztest.WantActive(t, h, "the third", third, true)
		authztest.WantError(t, "replay of the first", h.Refresh("shop", first), http.StatusBadRequest, "invalid_grant")
		authztest.WantActive(t, h, "the third, after the replay", third, false)
		h.Invariants(t)
	})
	t.Run("a token with a usage limit", func(t *testing.T) {
		t.Parallel()
		h := authztest.New(t, authztest.WithConfig(authztest.LimitUses))
		token := authztest.OwnToken(h, "scope", "two.read").Text("access_token")
		authztest.WantStatus(t, "first", h.Validate(token), http.StatusOK)
		authztest.WantStatus(t, "second", h.Validate(token), http.StatusOK)
		half := authztest.OwnToken(h, "scope", "two.read").Text("access_token")
		authztest.WantStatus(t, "first of another", h.Validate(half), http.StatusOK)
		h.Clock.Advance(15*time.Minute - time.Millisecond)
		h.Sweep()
		authztest.WantStatus(t, "second of the other", h.Validate(half), http.StatusOK)
		authztest.WantError(t, "third of the other", h.Validate(half), http.StatusBadRequest, "invalid_grant")
		authztest.WantError(t, "used up", h.Validate(token), http.StatusBadRequest, "invalid_grant")
		h.Invariants(t)
	})
}
