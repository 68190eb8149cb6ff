package ida_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// prove says that the identity card of the demo person was validated. what it says is another name than the profile's.
func prove(h *authztest.Harness, level int) {
	h.People.Change(authztest.Demo, func(s *authn.Subject) {
		s.Assurance = authn.Assurance{{
			Kind: authn.EvidenceDocument, By: "desk", Level: level, Since: h.Clock.Now(), Until: h.Clock.Now().Add(time.Hour),
			Document: "idcard", Reference: "case 7",
			Claims: map[string]string{"given_name": "Ann", "birthdate": "1990-12-31"},
		}}
	})
}

const (
	askedVerified = `{"verification":{"trust_framework":null,"assurance_level":null,"evidence":[{"type":null,"document_details":{"type":null}}]},"claims":{"given_name":null,"family_name":null}}`
	saidVerified  = `{"claims":{"given_name":"Ann"},"verification":{"assurance_level":"3","evidence":[{"document_details":{"type":"idcard"},"type":"document"}],"trust_framework":"urn:gatehouse:assurance"}}`
)

// TestVerifiedClaims: while experimental features are on, clients ask for what is verified of a person, and get it from
// the userinfo endpoint and in ID tokens while it holds. (OpenID Connect for Identity Assurance 1.0)
func TestVerifiedClaims(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithExperiments())
	said := func(of map[string]any) string {
		raw, err := json.Marshal(of["verified_claims"])
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	userinfo := func(token string) string {
		return said(h.Get("/oauth/userinfo", "Authorization", "Bearer "+token).JSON())
	}
	const asked = `{"userinfo":{"verified_claims":` + askedVerified + `},"id_token":{"verified_claims":[` + askedVerified + `]}}`
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	unproved := b.Tokens("shop", "claims", asked)
	if got := userinfo(unproved.Access) + said(authztest.IDClaims(t, h, unproved.ID)); got != "nullnull" {
		t.Errorf("of somebody who has proved nothing: %s", got)
	}
	prove(h, 3)
	all := b.Tokens("shop", "claims", asked)
	if got := userinfo(all.Access); got != saidVerified {
		t.Errorf("userinfo = %s, want %s", got, saidVerified)
	}
	if got := said(authztest.IDClaims(t, h, all.ID)); got != saidVerified {
		t.Errorf("ID token = %s, want %s", got, saidVerified)
	}
	if got := userinfo(b.Tokens("shop", "scope", "openid profile").Access); got != "null" {
		t.Errorf("without being asked: %s", got)
	}
	h.Clock.Advance(time.Hour)
	if got := userinfo(b.Tokens("shop", "claims", asked).Access); got != "null" {
		t.Errorf("once the evidence has expired: %s", got)
	}
	prove(h, 3)
	all = b.Tokens("shop", "claims", asked)
	h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Assurance = nil }) // the card is refused
	if got := userinfo(all.Access); got != "null" {
		t.Errorf("attack 781: of a person whose proof was refused: %s", got)
	}
	if got := said(authztest.IDClaims(t, h, h.Refresh("shop", all.Refresh).Text("id_token"))); got != "null" {
		t.Errorf("attack 781: refreshed after the refusal: %s", got)
	}
	for name, claims := range map[string]string{
		"no claims":    `{"userinfo":{"verified_claims":{"verification":{"trust_framework":null},"claims":{}}}}`,
		"no framework": `{"id_token":{"verified_claims":{"claims":{"given_name":null}}}}`,
		"null":         `{"userinfo":{"verified_claims":null}}`,
	} {
		authztest.WantRedirectError(t, h, name, b.Authorize("shop", "claims", claims), "invalid_request")
	}
	m := h.Get("/.well-known/openid-configuration").JSON()
	if m["verified_claims_supported"] != true || len(m["trust_frameworks_supported"].([]any)) != 1 ||
		len(m["claims_in_verified_claims_supported"].([]any)) != 3 {
		t.Errorf("metadata = %v", m)
	}
	h.Invariants(t)
}

// TestVerifiedClaimsAsk: the person is asked about verified claims by name, and about the claims themselves.
func TestVerifiedClaimsAsk(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithExperiments())
	prove(h, 3)
	const asked = `{"userinfo":{"verified_claims":` + askedVerified + `}}`
	b := h.Browser(authztest.Demo)
	b.Code("asks", "scope", "openid profile")
	_, params := b.Authorize("asks", "scope", "openid profile", "prompt", "none", "claims", asked).Redirect()
	if params.Get("error") != "consent_required" {
		t.Errorf("asked silently = %v, want consent_required", params)
	}
	b.Pages = nil
	b.Code("asks", "scope", "openid profile", "claims", asked)
	if len(b.Pages) != 1 || !strings.Contains(b.Pages[0].Body, "See how your identity was confirmed") {
		t.Errorf("%d pages, want one that says so", len(b.Pages))
	}
	h.Invariants(t)
}

// TestVerifiedClaimsOff: without experimental features no one is told anything, and a request that was made before is
// not answered.
func TestVerifiedClaimsOff(t *testing.T) {
	t.Parallel()
	const asked = `{"userinfo":{"verified_claims":` + askedVerified + `},"id_token":{"verified_claims":` + askedVerified + `}}`
	h := authztest.New(t)
	prove(h, 3)
	b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	all := b.Tokens("shop", "claims", asked)
	info := h.Get("/oauth/userinfo", "Authorization", "Bearer "+all.Access)
	if info.Status != http.StatusOK || info.JSON()["verified_claims"] != nil || authztest.IDClaims(t, h, all.ID)["verified_claims"] != nil {
		t.Errorf("told while it is off: %s", info.Body)
	}
	b.Tokens("shop", "claims", `{"userinfo":{"verified_claims":{"claims":{}}}}`) // a claim that no one knows
	m := h.Get("/.well-known/openid-configuration").JSON()
	for name := range m {
		if strings.Contains(name, "verified_claims") || name == "trust_frameworks_supported" || name == "evidence_supported" {
			t.Errorf("metadata has %s", name)
		}
	}
	t.Run("attack 782: a client that may not know a claim asks for it as verified", func(t *testing.T) {
		h := authztest.New(t, authztest.WithExperiments(), authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) {
				c.Scopes = slices.DeleteFunc(c.Scopes, func(name string) bool { return name == "profile" })
			})
		}))
		prove(h, 3)
		all := h.Tokens("shop", authztest.Demo, "claims", asked)
		if got := h.Get("/oauth/userinfo", "Authorization", "Bearer "+all.Access).JSON(); got["verified_claims"] != nil ||
			authztest.IDClaims(t, h, all.ID)["verified_claims"] != nil {
			t.Errorf("userinfo = %v", got)
		}
	})
	h.Invariants(t)
}
