package exchange_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/exchange"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// TestTokenIsExchanged: an API gets a token for another one, in the name of the person, and says that it acts.
func TestTokenIsExchanged(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithExchangers())
	shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read orders.write").Access
	res := h.Token("api", authztest.ExchangeForm(shop, "scope", "orders.read"))
	authztest.WantStatus(t, "exchange", res, http.StatusOK)
	authztest.WantAPIHeaders(t, "exchange", res)
	if res.Text("issued_token_type") != authztest.TokenType+"access_token" || authztest.ScopesOf(res) != "orders.read" ||
		res.Text("refresh_token") != "" || res.Text("token_type") != "bearer" {
		t.Errorf("answer = %s", res.Body)
	}
	about := h.Introspect(res.Text("access_token")).JSON()
	want := map[string]any{"sub": "api", "client_id": "api"}
	aud, _ := about["aud"].([]any)
	act, _ := about["act"].(map[string]any)
	if about["active"] != true || about["sub"] != h.Introspect(shop).JSON()["sub"] || about["client_id"] != "api" ||
		!slices.Equal(authztest.Texts(aud), []string{authztest.StockAPI}) || act["sub"] != want["sub"] || act["client_id"] != want["client_id"] {
		t.Errorf("introspection = %v", about)
	}
	authztest.WantReason(t, h, "token.TokenExchangedEvent", "a token of client shop for "+authztest.StockAPI)
	// A second API passes it on: both act, the later one first.
	second := h.Introspect(authztest.Exchanged(t, h, "warehouse", authztest.Exchanged(t, h, "api", shop, "audience", authztest.LedgerAPI),
		"audience", "")).JSON()
	act, _ = second["act"].(map[string]any)
	before, _ := act["act"].(map[string]any)
	if act["sub"] != "warehouse" || before["sub"] != "api" || before["act"] != nil {
		t.Errorf("act = %v, want warehouse for api", second["act"])
	}
	// By resource, in another spelling; by the token of a client itself; to a JWT.
	authztest.Exchanged(t, h, "api", shop, "audience", "", "resource", "https://STOCK.example.com/")
	reports := h.Token("reports", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}).Text("access_token")
	if about := h.Introspect(authztest.Exchanged(t, h, "api", reports)).JSON(); about["sub"] != "api" || about["username"] != nil {
		t.Errorf("of a client's own token: %v", about)
	}
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "api", func(c *client.Client) { c.TokenFormat = "jwt" })
	})
	parts := strings.Split(authztest.Exchanged(t, h, "api", shop, "requested_token_type", authztest.TokenType+"jwt"), ".")
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims map[string]any
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		t.Fatalf("JWT: %v", err)
	}
	if act, _ := claims["act"].(map[string]any); act["sub"] != "api" {
		t.Errorf("act of the JWT = %v", claims)
	}
	if grants, _ := h.Get("/.well-known/openid-configuration").JSON()["grant_types_supported"].([]any); !slices.Contains(authztest.Texts(grants), authztest.ExchangeGrant) {
		t.Errorf("grant_types_supported = %v", grants)
	}
	h.Invariants(t)
}

// TestOtherTokensAreExchanged: refresh tokens of the client itself, ID tokens, tokens of trusted issuers, and who acts.
func TestOtherTokensAreExchanged(t *testing.T) {
	t.Parallel()
	b := authztest.NewBuildServer(t, jose.ES256)
	h := authztest.New(t, authztest.WithExchangers(), authztest.WithDeployment(b), authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) {
			c.Grants, c.Exchange = append(c.Grants, "token_exchange"), &client.Exchange{To: []string{authztest.StockAPI}}
		})
		authztest.ChangeClient(c, "api", func(c *client.Client) {
			c.Exchange = &client.Exchange{From: []string{"shop", "deploy"}, To: []string{authztest.StockAPI}}
			c.Scopes = append(c.Scopes, "deploy.write")
		})
	}))
	all := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
	own := authztest.Exchanged(t, h, "shop", all.Refresh, "subject_token_type", authztest.TokenType+"refresh_token")
	authztest.WantActive(t, h, "of a refresh token", own, true)
	authztest.WantStatus(t, "the refresh token afterwards", h.Refresh("shop", all.Refresh), http.StatusOK)

	id := authztest.Exchanged(t, h, "api", all.ID, "subject_token_type", authztest.TokenType+"id_token", "scope", "orders.read")
	if about := h.Introspect(id).JSON(); about["username"] == nil || about["client_id"] != "api" {
		t.Errorf("of an ID token: %v", about)
	}
	job := authztest.Exchanged(t, h, "api", b.Sign(t, b.Job(h), ""), "subject_token_type", authztest.TokenType+"jwt", "scope", "deploy.write")
	if about := h.Introspect(job).JSON(); about["sub"] != "api" || about["scope"] != "deploy.write" {
		t.Errorf("of a job: %v", about)
	}
	actor := h.Token("api", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}).Text("access_token")
	with := authztest.Exchanged(t, h, "api", all.Access, "actor_token", actor, "actor_token_type", authztest.TokenType+"access_token")
	if act, _ := h.Introspect(with).JSON()["act"].(map[string]any); act["sub"] != "api" {
		t.Errorf("act = %v", act)
	}
	authztest.WantStatus(t, "revoke the actor's token", h.Revoke("api", actor), http.StatusOK)
	authztest.WantActive(t, h, "after the actor's token was revoked", with, false)
	authztest.WantActive(t, h, "of the ID token, before the sign-out", id, true)
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(all.ID, ".")[1])
	var claims struct {
		SID string `json:"sid"`
	}
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		t.Fatalf("ID token: %v", err)
	}
	h.People.EndSession(claims.SID)
	authztest.WantError(t, "the ID token after the sign-out",
		h.Token("api", authztest.ExchangeForm(all.ID, "subject_token_type", authztest.TokenType+"id_token", "scope", "orders.read")),
		http.StatusBadRequest, "invalid_request")
	h.Invariants(t)
}

func TestExchangeAttacks(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T, h *authztest.Harness, what, by, code string, f url.Values) {
		t.Helper()
		authztest.WantError(t, what, h.Token(by, f), http.StatusBadRequest, code)
	}
	authztest.Attack(t, "attack 455: the token of another client, for another audience, with more scopes",
		func(t *testing.T, h *authztest.Harness) {
			shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
			foreign := h.Tokens("other", authztest.Demo, "scope", "openid orders.read").Access
			refused(t, h, "of a client that is not listed", "api", "invalid_target", authztest.ExchangeForm(foreign))
			if says := h.Token("api", authztest.ExchangeForm(foreign)).Text("error_description"); strings.Contains(says, "other") ||
				!strings.Contains(says, "tokens of the client") {
				t.Errorf("of a client that is not listed: %q, want the reason without the name of the other client", says)
			}
			says := h.Token("api", authztest.ExchangeForm(shop, "audience", "https://bank.example.com")).Text("error_description")
			if says != "the audience https://bank.example.com is unknown or not allowed to the client" {
				t.Errorf("another audience: %q, want its name", says)
			}
			refused(t, h, "by a client that does not list it", "stranger", "invalid_target", authztest.ExchangeForm(shop))
			refused(t, h, "another audience", "api", "invalid_target", authztest.ExchangeForm(shop, "audience", "https://bank.example.com"))
			refused(t, h, "another resource beside a good audience", "api", "invalid_target",
				authztest.ExchangeForm(shop, "resource", "https://bank.example.com"))
			refused(t, h, "no audience where there are two", "api", "invalid_request", authztest.ExchangeForm(shop, "audience", ""))
			two := authztest.ExchangeForm(shop)
			two["audience"] = []string{authztest.StockAPI, "https://bank.example.com"}
			refused(t, h, "two audiences, one of them not allowed", "api", "invalid_target", two)
			refused(t, h, "more scopes than the token has", "api", "invalid_scope",
				authztest.ExchangeForm(shop, "scope", "orders.read orders.write"))
			refused(t, h, "a scope that the client lacks", "warehouse", "invalid_scope",
				authztest.ExchangeForm(authztest.Exchanged(t, h, "api", shop), "audience", authztest.LedgerAPI, "scope", "email"))
			refused(t, h, "without the grant", "other", "unauthorized_client", authztest.ExchangeForm(shop))
			authztest.WantError(t, "without credentials", h.Post("/oauth/token", authztest.ExchangeForm(shop)),
				http.StatusBadRequest, "invalid_request")
			authztest.WantError(t, "by name alone", h.Post("/oauth/token", authztest.ExchangeForm(shop, "client_id", "api")),
				http.StatusUnauthorized, "invalid_client")
			authztest.WantEvent(t, h, authztest.Demo, "token.TokenExchangedEvent", 1)
		}, authztest.WithExchangers())
	authztest.Attack(t, "peer 66: the token of a person whose provider the exchanging client is not allowed",
		func(t *testing.T, h *authztest.Harness) {
			h.People.SignInBy("partner")
			h.People.After(func(r *authn.Result) { r.Provider = "partner" })
			shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read", "idp", "partner").Access
			authztest.WantError(t, "the exchange", h.Token("api", authztest.ExchangeForm(shop)), http.StatusForbidden, "access_denied")
		}, authztest.WithExchangers(), authztest.WithConfig(func(c *authz.Config) {
			c.Providers = append(c.Providers, clientstore.Provider{ID: "partner"})
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.IDPs = []string{"identity", "partner"} })
		}))
	for name, tt := range map[string]struct {
		asks string
		has  bool
		want string
	}{
		"attack 7231: always asked for":          {authn.SecondFactorAlways, false, "invalid_request"},
		"attack 7231: set up":                    {"", true, "invalid_request"},
		"attack 7231: set up, asked on demand":   {authn.SecondFactorOnDemand, true, ""},
		"attack 7231: not set up, nor asked for": {"", false, ""},
	} {
		authztest.Attack(t, name, func(t *testing.T, h *authztest.Harness) {
			h.People.After(func(r *authn.Result) { r.Level = 1 })
			all := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
			h.People.SetUpSecondFactor(tt.has)
			for kind, f := range map[string]url.Values{
				"access token": authztest.ExchangeForm(all.Access),
				"ID token":     authztest.ExchangeForm(all.ID, "subject_token_type", authztest.TokenType+"id_token", "scope", "orders.read"),
			} {
				if res := h.Token("api", f); res.Text("error") != tt.want {
					t.Errorf("Token by %s = %d %s, want %q", kind, res.Status, res.Body, tt.want)
				}
			}
			h.People.After(func(r *authn.Result) { r.Level = 2 })
			authztest.Exchanged(t, h, "api", h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access)
		}, authztest.WithExchangers(), authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "api", func(c *client.Client) { c.SecondFactor = tt.asks })
		}))
	}
	authztest.Attack(t, "attack 7231: a second exchange passes over what the first could do without",
		func(t *testing.T, h *authztest.Harness) {
			h.People.After(func(r *authn.Result) { r.Level = 1 })
			first := authztest.Exchanged(t, h, "api", h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access,
				"audience", authztest.LedgerAPI)
			refused(t, h, "by the client that asks", "warehouse", "invalid_request", authztest.ExchangeForm(first, "audience", authztest.LedgerAPI))
		}, authztest.WithExchangers(), authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "warehouse", func(c *client.Client) { c.SecondFactor = authn.SecondFactorAlways })
		}))
	authztest.Attack(t, "attack 456: no token, an empty one, two, an old one, one of another type", func(t *testing.T, h *authztest.Harness) {
		all := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
		refused(t, h, "none", "api", "invalid_request", authztest.ExchangeForm("", "subject_token", ""))
		refused(t, h, "empty", "api", "invalid_request",
			url.Values{
				"grant_type": {authztest.ExchangeGrant}, "subject_token": {""}, "subject_token_type": {authztest.TokenType + "access_token"},
				"audience": {authztest.StockAPI},
			})
		refused(t, h, "without a type", "api", "invalid_request", authztest.ExchangeForm(all.Access, "subject_token_type", ""))
		twice := authztest.ExchangeForm(all.Access)
		twice["subject_token"] = []string{all.Access, all.Access}
		refused(t, h, "two", "api", "invalid_request", twice)
		authztest.WantStatus(t, "in the address",
			h.Post("/oauth/token?subject_token="+all.Access, authztest.ExchangeForm("", "subject_token", ""),
				authztest.Basic("api", authztest.Secret("api"))...), http.StatusBadRequest)
		for _, kind := range []string{"refresh_token", "id_token", "jwt", "saml2", "access_token2"} {
			refused(t, h, "an access token as "+kind, "api", "invalid_request",
				authztest.ExchangeForm(all.Access, "subject_token_type", authztest.TokenType+kind))
		}
		refused(t, h, "an ID token as an access token", "api", "invalid_request", authztest.ExchangeForm(all.ID))
		refused(t, h, "another's refresh token", "api", "invalid_request",
			authztest.ExchangeForm(all.Refresh, "subject_token_type", authztest.TokenType+"refresh_token"))
		refused(t, h, "a refresh token is asked for", "api", "invalid_request",
			authztest.ExchangeForm(all.Access, "requested_token_type", authztest.TokenType+"refresh_token"))
		refused(t, h, "nonsense", "api", "invalid_request", authztest.ExchangeForm("nonsense"))
		refused(t, h, "cut short", "api", "invalid_request", authztest.ExchangeForm(all.Access[:len(all.Access)-1]))
		refused(t, h, "the actor's type alone", "api", "invalid_request",
			authztest.ExchangeForm(all.Access, "actor_token_type", authztest.TokenType+"access_token"))
		refused(t, h, "another's token as the actor's", "api", "invalid_request",
			authztest.ExchangeForm(all.Access, "actor_token", all.Access, "actor_token_type", authztest.TokenType+"access_token"))
		h.Clock.Advance(16 * time.Minute)
		refused(t, h, "expired", "api", "invalid_request", authztest.ExchangeForm(all.Access))
		h.Clock.Advance(time.Hour)
		refused(t, h, "an expired ID token", "api", "invalid_request",
			authztest.ExchangeForm(all.ID, "subject_token_type", authztest.TokenType+"id_token", "scope", "orders.read"))
		if strings.Contains(h.Log(), all.Access) || strings.Contains(h.Log(), all.ID[:60]) {
			t.Error("a token is in the log")
		}
	}, authztest.WithExchangers())
	authztest.Attack(t, "peer 33: without a subject token neither the client nor who acts takes its place",
		func(t *testing.T, h *authztest.Harness) {
			shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
			own := h.Token("api", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}).Text("access_token")
			acting := []string{"actor_token", own, "actor_token_type", authztest.TokenType + "access_token"}
			for name, subject := range map[string]url.Values{
				"missing": {}, "a type alone": {"subject_token_type": {authztest.TokenType + "access_token"}},
				"empty":                    {"subject_token": {""}, "subject_token_type": {authztest.TokenType + "access_token"}},
				"spaces":                   {"subject_token": {"  "}, "subject_token_type": {authztest.TokenType + "access_token"}},
				"an empty type":            {"subject_token": {shop}, "subject_token_type": {""}},
				"twice, one of them empty": {"subject_token": {"", shop}, "subject_token_type": {authztest.TokenType + "access_token"}},
				"two types": {
					"subject_token":      {shop},
					"subject_token_type": {authztest.TokenType + "access_token", authztest.TokenType + "jwt"},
				},
				"an unknown type":      {"subject_token": {shop}, "subject_token_type": {"urn:example:token"}},
				"the word null":        {"subject_token": {"null"}, "subject_token_type": {authztest.TokenType + "access_token"}},
				"the id of the client": {"subject_token": {"api"}, "subject_token_type": {authztest.TokenType + "access_token"}},
				"another spelling":     {"Subject_Token": {shop}, "subject_token_type": {authztest.TokenType + "access_token"}},
			} {
				for _, more := range [][]string{nil, acting} {
					f := authztest.ExchangeForm("", append([]string{"subject_token", "", "subject_token_type", ""}, more...)...)
					maps.Copy(f, subject)
					refused(t, h, name, "api", "invalid_request", f)
				}
			}
			authztest.WantEvent(t, h, authztest.Demo, "token.TokenExchangedEvent", 0)
		}, authztest.WithExchangers())
	t.Run("attack 457: an exchanged token outlives what it came from", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]func(h *authztest.Harness, all authztest.Tokens){
			"the token revoked": func(h *authztest.Harness, all authztest.Tokens) { h.Revoke("shop", all.Access) },
			"the grant revoked": func(h *authztest.Harness, all authztest.Tokens) { h.Revoke("shop", all.Refresh) },
			"the person blocked": func(h *authztest.Harness, _ authztest.Tokens) {
				h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
			},
			"the first client gone":    func(h *authztest.Harness, _ authztest.Tokens) { without(h, "shop") },
			"the second client gone":   func(h *authztest.Harness, _ authztest.Tokens) { without(h, "api") },
			"the last client disabled": func(h *authztest.Harness, _ authztest.Tokens) { switchOff(h, "warehouse") },
			"time":                     func(h *authztest.Harness, _ authztest.Tokens) { h.Clock.Advance(10 * time.Minute) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				h := authztest.New(t, authztest.WithExchangers())
				all := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
				h.Clock.Advance(5 * time.Minute)
				once := authztest.Exchanged(t, h, "api", all.Access, "audience", authztest.LedgerAPI)
				twice := authztest.Exchanged(t, h, "warehouse", once, "audience", authztest.LedgerAPI)
				authztest.WantActive(t, h, "before", twice, true)
				end(h, all)
				authztest.WantActive(t, h, "after", twice, false)
				authztest.WantError(t, "exchanged again", h.Token("ledger", authztest.ExchangeForm(twice, "audience", authztest.LedgerAPI)),
					http.StatusBadRequest, "invalid_request")
				h.Invariants(t)
			})
		}
	})
	authztest.Attack(t, "attack 7813: an ID token for what its person has not allowed, or not any more",
		func(t *testing.T, h *authztest.Harness) {
			b := h.Browser(authztest.Demo)
			id := b.Tokens("asks", "scope", "openid").ID
			form := func(id, scope string) url.Values {
				return authztest.ExchangeForm(id, "subject_token_type", authztest.TokenType+"id_token", "scope", scope)
			}
			refused(t, h, "by its client", "asks", "invalid_scope", form(id, "orders.read"))
			refused(t, h, "by an API", "api", "invalid_scope", form(id, "orders.read"))
			plain := authztest.Exchanged(t, h, "api", id, "subject_token_type", authztest.TokenType+"id_token")
			if got := h.Introspect(plain).JSON()["scope"]; got != "openid" {
				t.Errorf("without a scope: scope = %v, want that of the consent", got)
			}
			id = b.Tokens("asks", "scope", "openid orders.read").ID
			authztest.WantStatus(t, "once it is allowed", h.Token("api", form(id, "orders.read")), http.StatusOK)
			authztest.WantActive(t, h, "what was got before", plain, true)
			authztest.WantStatus(t, "withdraw the consent",
				authztest.AsRegistrar(h, http.MethodDelete, authztest.Demo+"/consents/asks"), http.StatusNoContent)
			refused(t, h, "by its client, after that", "asks", "invalid_request", form(id, "orders.read"))
			refused(t, h, "by an API, after that", "api", "invalid_request", form(id, "openid"))
			authztest.WantActive(t, h, "what was got before, after that", plain, false)
		}, authztest.WithExchangers(), authztest.WithConfig(func(c *authz.Config) {
			authztest.ChangeClient(c, "asks", func(c *client.Client) {
				c.Grants, c.Exchange = append(c.Grants, "token_exchange"), &client.Exchange{To: []string{authztest.StockAPI}}
			})
			authztest.ChangeClient(c, "api", func(c *client.Client) { c.Exchange.From = append(c.Exchange.From, "asks") })
		}))
	authztest.Attack(t, "attack 458: tokens that are exchanged in a circle and again and again", func(t *testing.T, h *authztest.Harness) {
		shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
		a := authztest.Exchanged(t, h, "api", shop, "audience", authztest.LedgerAPI)
		w := authztest.Exchanged(t, h, "warehouse", a, "audience", authztest.LedgerAPI)
		refused(t, h, "back to the first actor", "api", "invalid_request", authztest.ExchangeForm(w, "audience", authztest.StockAPI))
		authztest.Exchanged(t, h, "ledger", w, "audience", authztest.LedgerAPI)
		again := a
		for range 5 {
			again = authztest.Exchanged(t, h, "api", again, "audience", authztest.LedgerAPI)
		}
		refused(t, h, "the same client too often", "api", "invalid_request", authztest.ExchangeForm(again, "audience", authztest.LedgerAPI))
	}, authztest.WithExchangers())
	authztest.Attack(t, "attack 401: a proof that is sent with a second exchange", func(t *testing.T, h *authztest.Harness) {
		shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
		key := authztest.NewKeyHolder(t, h)
		proof := key.ProofFor("/oauth/token")
		res := h.Token("api", authztest.ExchangeForm(shop), proof...)
		authztest.WantStatus(t, "the first", res, http.StatusOK)
		authztest.WantBound(t, "exchanged", h, res.Text("access_token"), key.JKT)
		authztest.WantError(t, "the second", h.Token("api", authztest.ExchangeForm(shop), proof...), http.StatusBadRequest, "invalid_dpop_proof")
		authztest.WantError(t, "in another grant",
			h.Token("api", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}, proof...),
			http.StatusBadRequest, "invalid_dpop_proof")
		authztest.WantEvent(t, h, authztest.Demo, "token.TokenExchangedEvent", 1)
	}, authztest.WithExchangers())
	authztest.Attack(t, "attack 459: a token with a usage limit", func(t *testing.T, h *authztest.Harness) {
		limited := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
		refused(t, h, "its exchange", "api", "invalid_request", authztest.ExchangeForm(limited))
		id := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").ID
		asked := authztest.ExchangeForm(id, "subject_token_type", authztest.TokenType+"id_token")
		for _, scope := range []string{"orders.read", ""} {
			asked.Set("scope", scope)
			if scope == "" {
				asked.Del("scope")
			}
			if res := h.Token("api", asked); res.Status == http.StatusOK && strings.Contains(fmt.Sprint(res.JSON()["scope"]), "orders.read") {
				t.Errorf("the ID token of the same sign-in gives a token without a limit for %q: %s", scope, res.Body)
			}
		}
	}, authztest.WithExchangers(),
		authztest.WithConfig(func(c *authz.Config) { c.Scopes = []client.Scope{{Name: "orders.read", UsageLimit: 2}} }))
}

// TestUpstreamGetsItsOwnToken: the token of a request is exchanged for one that its upstream can verify, and the same
// one is sent again. It ends with the first.
func TestUpstreamGetsItsOwnToken(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	const site = "https://api.example.com"
	of := func(token string) string {
		t.Helper()
		text, err := h.Server().UpstreamToken(t.Context(), token, authztest.StockAPI, site, audit.Origin{})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
	up := of(shop.Access)
	if up == shop.Access || strings.Count(up, ".") != 2 || of(shop.Access) != up {
		t.Errorf("the token for the upstream is the client's own, no JWT, or another one each time")
	}
	before, about := h.Introspect(shop.Access).JSON(), h.Introspect(up).JSON()
	aud, _ := about["aud"].([]any)
	act, _ := about["act"].(map[string]any)
	if about["sub"] != before["sub"] || about["client_id"] != "shop" || about["scope"] != before["scope"] ||
		!slices.Equal(authztest.Texts(aud), []string{authztest.StockAPI}) || act["sub"] != site || act["client_id"] != nil {
		t.Errorf("introspection = %v", about)
	}
	authztest.WantEvent(t, h, authztest.Demo, "token.TokenExchangedEvent", 1)
	// Another site with the same upstream acts for itself.
	const adminSite = "https://admin.example.com"
	text, err := h.Server().UpstreamToken(t.Context(), shop.Access, authztest.StockAPI, adminSite, audit.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	if act, _ := h.Introspect(text).JSON()["act"].(map[string]any); act["sub"] != adminSite {
		t.Errorf("act of another site = %v, want %s", act, adminSite)
	}
	// The key that has signed it may be known to others.
	raw, _, _ := strings.Cut(up, ".")
	head, err := base64.RawURLEncoding.DecodeString(raw)
	var header struct{ Kid string }
	if err := errors.Join(err, json.Unmarshal(head, &header), h.Server().RetireKey(t.Context(), header.Kid, authztest.Admin)); err != nil {
		t.Fatal(err)
	}
	retired := up
	if up = of(shop.Access); up == retired {
		t.Error("attack: a token that a retired key has signed is sent again")
	}
	h.Clock.Advance(14*time.Minute + 30*time.Second)
	if of(shop.Access) != up {
		t.Error("a token that ends with the client's is made again and again in its last minute")
	}
	other := h.Tokens("other", authztest.Demo).Access // lives for a year
	first := of(other)
	h.Clock.Advance(14*time.Minute + 30*time.Second)
	if again := of(other); again == first {
		t.Error("the token of half a minute ago is sent again")
	}
	authztest.WantActive(t, h, "after the end", up, false)
	second := of(other)
	authztest.WantStatus(t, "revoke", h.Revoke("other", other), http.StatusOK)
	authztest.WantActive(t, h, "after the revocation", second, false)
	if _, err := h.Server().UpstreamToken(t.Context(), shop.Access, authztest.StockAPI, site,
		audit.Origin{}); !errors.Is(err, exchange.ErrEnded) {
		t.Errorf("of an expired token: %v, want ErrEnded", err)
	}
	h.Restart(func(c *authz.Config) { c.Scopes = []client.Scope{{Name: "orders.read", UsageLimit: 2}} })
	limited := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
	if _, err := h.Server().UpstreamToken(t.Context(), limited, authztest.StockAPI, site,
		audit.Origin{}); !errors.Is(err, exchange.ErrLimited) {
		t.Errorf("of a limited token: %v, want ErrLimited", err)
	}
	h.Invariants(t)
}

func without(h *authztest.Harness, id string) {
	h.Restart(func(c *authz.Config) {
		c.Clients = slices.DeleteFunc(slices.Clone(c.Clients), func(c *client.Client) bool { return c.ID == id })
	})
}

func switchOff(h *authztest.Harness, id string) {
	h.Restart(func(c *authz.Config) { authztest.ChangeClient(c, id, func(c *client.Client) { c.Disabled = true }) })
}
