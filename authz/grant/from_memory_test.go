package grant_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestTokenInUseIsReadOnce(t *testing.T) {
	t.Parallel()
	h, s := authztest.WithLookups(t, authztest.WithConfig(authztest.LimitUses))
	for what, token := range map[string]string{
		"client": authztest.OwnToken(h).Text("access_token"), "person": h.Tokens("shop", authztest.Demo).Access,
		"JWT": h.Tokens("jwt", authztest.Demo).Access,
	} {
		if n := s.Asks(t, h, token, 10); n != 1 {
			t.Errorf("%s: %d of 10 questions reached the store, want 1", what, n)
		}
		before := s.Lookups.Load()
		for range 10 {
			authztest.WantActive(t, h, what, token, true)
		}
		if n := s.Lookups.Load() - before; n != 1 { // with the permissions of groups it is another question
			t.Errorf("%s: %d of 10 introspections reached the store, want 1", what, n)
		}
	}
	if n := s.Asks(t, h, authztest.OwnToken(h, "scope", "ten.read").Text("access_token"), 5); n != 5 {
		t.Errorf("token with a usage limit: %d of 5 questions reached the store, want all", n)
	}
	site := authztest.OpenSite(t, h, h.Browser(authztest.Demo))
	before := s.Lookups.Load()
	for range 10 {
		if !authztest.SiteActive(t, h, authztest.WikiOrigin, site.Token) || authztest.SiteActive(t, h, "https://files.example.com", site.Token) {
			t.Error("the session is not that of its site alone")
		}
	}
	if n := s.Lookups.Load() - before; n != 1 {
		t.Errorf("site: %d of 20 questions reached the store, want 1", n)
	}
}

// What ends a token ends it for the next request, however often it was asked about before.
func TestTokenInUseEndsAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	person := func(h *authztest.Harness) string { return h.Tokens("shop", authztest.Demo).Access }
	client := func(h *authztest.Harness) string { return authztest.OwnToken(h).Text("access_token") }
	jwt := func(h *authztest.Harness) string { return h.Tokens("jwt", authztest.Demo).Access }
	for name, tc := range map[string]struct {
		issue func(h *authztest.Harness) string
		end   func(h *authztest.Harness, token string) error
	}{
		"attack 79: revoked by its client": {person, func(h *authztest.Harness, token string) error {
			if res := h.Revoke("shop", token); res.Status != http.StatusOK {
				return errors.New(res.Body)
			}
			return nil
		}},
		"attack 79: JWT revoked": {jwt, func(h *authztest.Harness, token string) error {
			return h.Server().RevokeToken(ctx, token, authztest.Admin)
		}},
		"attack 96: everything of its client revoked": {client, func(h *authztest.Harness, _ string) error {
			return h.Server().Clients().Revoke(ctx, "reports", authztest.Admin)
		}},
		"attack 96: everything revoked": {client, func(h *authztest.Harness, _ string) error {
			return h.Server().RevokeEverything(ctx, authztest.Admin)
		}},
		"person blocked": {person, func(h *authztest.Harness, _ string) error {
			h.People.Change(authztest.Demo, func(p *authn.Subject) { p.Active = false })
			return nil
		}},
		"consent withdrawn": {person, func(h *authztest.Harness, _ string) error {
			_, err := h.Server().WithdrawConsent(ctx, authztest.Demo, "shop", authztest.Admin)
			return err
		}},
		"expired": {client, func(h *authztest.Harness, _ string) error {
			h.Clock.Advance(24 * time.Hour)
			return nil
		}},
		"client disabled by a reload": {client, func(h *authztest.Harness, _ string) error {
			h.Restart(func(c *authz.Config) { Disable(c, "reports") })
			return nil
		}},
		"signing key lost": {jwt, func(h *authztest.Harness, _ string) error {
			err := h.Store.Update(ctx, func(tx storage.Tx) error {
				for rec, err := range tx.Scan(storage.Range{Prefix: []byte("authz_key/")}) {
					if err != nil {
						return err
					}
					if err := tx.Delete(rec.Key); err != nil {
						return err
					}
				}
				return nil
			})
			return errors.Join(err, h.Keys.Rotate(ctx))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, s := authztest.WithLookups(t)
			token := tc.issue(h)
			s.Asks(t, h, token, 3)
			authztest.WantActive(t, h, "before", token, true)
			if err := tc.end(h, token); err != nil {
				t.Fatal(err)
			}
			if in, err := h.Server().Introspect(t.Context(), token); err != nil || in.Active {
				t.Errorf("Introspect = %+v, %v, want inactive", in, err)
			}
			authztest.WantActive(t, h, "afterwards", token, false)
		})
	}
	// A revocation that is answered between the moment when a token was read and the moment when the answer is kept.
	t.Run("attack 79: revoked while it is looked up", func(t *testing.T) {
		t.Parallel()
		h, s := authztest.WithLookups(t)
		token := client(h)
		revoke := func() {
			if err := h.Server().RevokeToken(ctx, token, authztest.Admin); err != nil {
				t.Error(err)
			}
		}
		s.During.Store(&revoke)
		if in, err := h.Server().Introspect(t.Context(), token); err != nil || !in.Active {
			t.Errorf("Introspect = %+v, %v, want what was read before the revocation", in, err)
		}
		authztest.WantActive(t, h, "afterwards", token, false)
	})
	// Another token, or other text with the same hash as a record, is another question.
	t.Run("attack 87: what looks like a token that is kept", func(t *testing.T) {
		t.Parallel()
		h, s := authztest.WithLookups(t)
		token, signed := client(h), jwt(h)
		s.Asks(t, h, token, 2)
		s.Asks(t, h, signed, 2)
		site := authztest.OpenSite(t, h, h.Browser(authztest.Demo))
		authztest.SiteActive(t, h, authztest.WikiOrigin, site.Token)
		for _, text := range []string{
			token + " ", token[:len(token)-1], " " + token, signed + "=", signed[:len(signed)-2],
			site.Token, "", "unknown",
		} {
			if in, err := h.Server().Introspect(t.Context(), text); err != nil || in.Active {
				t.Errorf("Introspect(%.12q…) = %+v, %v, want inactive", text, in, err)
			}
		}
		if authztest.SiteActive(t, h, authztest.WikiOrigin, token) {
			t.Error("an access token passes for the cookie of a site")
		}
	})
}

func Disable(c *authz.Config, id string) {
	authztest.ChangeClient(c, id, func(c *client.Client) { c.Disabled = true })
}

// An answer that is shared must not change because a caller has changed what it got.
func TestAnswersOfCallersAreTheirOwn(t *testing.T) {
	t.Parallel()
	h, s := authztest.WithLookups(t)
	token := h.Tokens("shop", authztest.Demo).Access
	s.Asks(t, h, token, 1)
	in, err := h.Server().Introspect(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	in.Active, in.Person, in.Scope = false, nil, nil
	if again, err := h.Server().Introspect(t.Context(), token); err != nil || !again.Active || again.Person == nil || len(again.Scope) == 0 {
		t.Errorf("Introspect = %+v, %v, want the answer as it was", again, err)
	}
	h.People.OnRefresh(func(context.Context) (map[string][]string, error) { return map[string][]string{"team": {"new"}}, nil })
	form := url.Values{"token": {token}, "refresh_user_details": {"true"}}
	for range 2 {
		if body := authztest.IntrospectAs(h, "ops", form).JSON(); body["active"] != true {
			t.Errorf("introspection with refreshed details = %v, want active", body)
		}
	}
	if in, err := h.Server().Introspect(t.Context(), token); err != nil || in.Person.Details["team"] == nil {
		t.Errorf("Introspect = %+v, %v, want the details that were refreshed", in, err)
	}
}
