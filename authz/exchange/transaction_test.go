package exchange_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/assertion"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/transaction"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

const trustDomain = "shop.example.com"

// withTransactions lets api and warehouse have transaction tokens; warehouse may have orders.read alone.
func withTransactions() authztest.Option {
	return authztest.WithConfig(func(c *authz.Config) {
		for _, id := range []string{"api", "warehouse", "ledger"} {
			authztest.ChangeClient(c, id, func(c *client.Client) { c.Exchange.Domains = []string{trustDomain} })
		}
		authztest.ChangeClient(c, "warehouse", func(c *client.Client) { c.Scopes = []string{"orders.read"} })
	})
}

// transactionForm is a request for a transaction token, in place of an access token unless more says otherwise.
func transactionForm(token string, more ...string) url.Values {
	return authztest.ExchangeForm(token, append([]string{
		"audience", trustDomain, "requested_token_type", authztest.TokenType + "txn_token", "scope", "orders.read",
	}, more...)...)
}

// ofTransaction makes a form one that replaces a transaction token.
var ofTransaction = []string{"subject_token_type", authztest.TokenType + "txn_token"}

func replacing(token string, more ...string) url.Values {
	return transactionForm(token, append(ofTransaction, more...)...)
}

// atSite is the transaction token of a request at a site.
func atSite(t *testing.T, h *authztest.Harness, change func(*transaction.Claims)) string {
	t.Helper()
	c := transaction.Claims{
		Audience: trustDomain, Subject: authztest.Demo, Scope: "orders.read orders.write", Workload: "https://shop.example.com",
		Details:   json.RawMessage(`{"method":"GET","host":"shop.example.com","path":"/orders"}`),
		Requester: transaction.Requester{Address: "203.0.113.9", ACR: "urn:gatehouse:level:1"},
	}
	if change != nil {
		change(&c)
	}
	made, err := transaction.New(h.Issuer, h.Keys, h.Clock.Now, nil).Begin(c, "", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return made.Text
}

// TestTransactionTokens: an access token begins a transaction, whose token is replaced by narrower ones from workload
// to workload. (draft-ietf-oauth-transaction-tokens-09)
func TestTransactionTokens(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithExchangers(), withTransactions())
	shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read orders.write").Access
	start := h.Clock.Now().Unix()
	res := h.Token("api", transactionForm(shop, "scope", "orders.write orders.read", "request_details", `{"order":17,"by":{"van":true}}`,
		"request_context", `{"req_ip":"::ffff:203.0.113.9","authn":"face"}`))
	authztest.WantStatus(t, "exchange", res, http.StatusOK)
	if body := res.JSON(); body["token_type"] != "N_A" || body["issued_token_type"] != authztest.TokenType+"txn_token" ||
		body["refresh_token"] != nil || body["expires_in"] != float64(60) || body["scope"] != "orders.write orders.read" {
		t.Errorf("response = %v", body)
	}
	first := res.Text("access_token")
	typ, claims := authztest.ReadSigned(t, h, first, jose.ES256)
	id, _ := claims["txn"].(string)
	want := fmt.Sprint(map[string]any{
		"iss": h.Issuer, "aud": trustDomain, "sub": authztest.Demo, "txn": id, "scope": "orders.write orders.read", "req_wl": "api",
		"tctx": map[string]any{"order": 17, "by": map[string]any{"van": true}},
		"rctx": map[string]any{"req_ip": "203.0.113.9", "acr": "urn:gatehouse:level:1", "client_id": "shop"},
		"iat":  float64(start), "exp": float64(start + 60),
	})
	if got := fmt.Sprint(claims); typ != "txntoken+jwt" || len(id) < 22 || got != want {
		t.Errorf("%v transaction token = %s, want %s", typ, got, want)
	}

	h.Clock.Advance(20 * time.Second)
	res = h.Token("warehouse", replacing(first))
	authztest.WantStatus(t, "replace", res, http.StatusOK)
	second := res.Text("access_token")
	_, narrower := authztest.ReadSigned(t, h, second, jose.ES256)
	for _, name := range []string{"iss", "aud", "sub", "txn", "tctx", "rctx", "exp"} {
		if fmt.Sprint(narrower[name]) != fmt.Sprint(claims[name]) {
			t.Errorf("%s = %v after a replacement, want %v", name, narrower[name], claims[name])
		}
	}
	if act := fmt.Sprint(narrower["act"]); narrower["scope"] != "orders.read" || narrower["req_wl"] != "warehouse" || act != "map[sub:api]" ||
		res.JSON()["expires_in"] != float64(40) {
		t.Errorf("replaced by %v, %v", narrower, res.JSON())
	}
	res = h.Token("ledger", replacing(second))
	authztest.WantStatus(t, "replace again", res, http.StatusOK)
	if _, third := authztest.ReadSigned(t, h, res.Text("access_token"), jose.ES256); fmt.Sprint(third["act"]) != "map[act:map[sub:api] sub:warehouse]" {
		t.Errorf("act = %v", third["act"])
	}

	_, fromSite := authztest.ReadSigned(t, h, h.Token("api", replacing(atSite(t, h, nil))).Text("access_token"), jose.ES256)
	if fmt.Sprint(fromSite["tctx"]) != "map[host:shop.example.com method:GET path:/orders]" || fromSite["scope"] != "orders.read" {
		t.Errorf("of the token of a site: %v", fromSite)
	}

	own := h.Token("reports", url.Values{"grant_type": {"client_credentials"}, "scope": {"reports.read"}}).Text("access_token")
	authztest.WantError(t, "scopes that the workload lacks", h.Token("api", transactionForm(own, "scope", "reports.read")),
		http.StatusBadRequest, "invalid_scope")
	mine := h.Token("api", url.Values{"grant_type": {"client_credentials"}, "scope": {"orders.read"}}).Text("access_token")
	res = h.Token("api", transactionForm(mine))
	authztest.WantStatus(t, "of a client's own token", res, http.StatusOK)
	_, claims = authztest.ReadSigned(t, h, res.Text("access_token"), jose.ES256)
	if got := fmt.Sprint(claims["rctx"]); claims["sub"] != "api" || got != "map[client_id:api]" || claims["tctx"] != nil {
		t.Errorf("of a client's own token: %v", claims)
	}
	authztest.WantStatus(t, "and replaced", h.Token("ledger", replacing(res.Text("access_token"))), http.StatusOK)
	h.Invariants(t)
}

func TestTransactionTokenAttacks(t *testing.T) {
	t.Parallel()
	opts := []authztest.Option{authztest.WithExchangers(), withTransactions()}
	refused := func(t *testing.T, h *authztest.Harness, what, by, code string, f url.Values) {
		t.Helper()
		authztest.WantError(t, what, h.Token(by, f), http.StatusBadRequest, code)
	}
	authztest.Attack(t, "attack 4779: a transaction token in place of another token, and another one in its place",
		func(t *testing.T, h *authztest.Harness) {
			txn := atSite(t, h, nil)
			shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read")
			authztest.WantActive(t, h, "a transaction token", txn, false)
			authztest.WantStatus(t, "at userinfo", h.Get("/oauth/userinfo", "Authorization", "Bearer "+txn), http.StatusUnauthorized)
			for _, kind := range []string{"access_token", "id_token", "refresh_token", "jwt"} {
				refused(t, h, "as "+kind, "api", "invalid_request", transactionForm(txn, "subject_token_type", authztest.TokenType+kind))
				refused(t, h, "as "+kind+" for an access token", "api", "invalid_request",
					authztest.ExchangeForm(txn, "subject_token_type", authztest.TokenType+kind))
			}
			refused(t, h, "for an access token", "api", "invalid_request", authztest.ExchangeForm(txn, ofTransaction...))
			refused(t, h, "as actor", "api", "invalid_request",
				authztest.ExchangeForm(shop.Access, "actor_token", txn, "actor_token_type", authztest.TokenType+"txn_token"))
			gate, err := assertion.New(h.Issuer, h.Keys, h.Clock.Now).Sign(assertion.Statement{Audience: trustDomain, Subject: authztest.Demo})
			if err != nil {
				t.Fatal(err)
			}
			for name, other := range map[string]string{
				"an access token": shop.Access, "an ID token": shop.ID, "an assertion": gate, "nonsense": "a.b.c",
			} {
				refused(t, h, name+" as a transaction token", "api", "invalid_request", replacing(other))
			}
			refused(t, h, "of a refresh token", "shop", "unauthorized_client", // draft 9.3
				transactionForm(shop.Refresh, "subject_token_type", authztest.TokenType+"refresh_token"))
			refused(t, h, "of a refresh token by a workload", "api", "invalid_request",
				transactionForm(shop.Refresh, "subject_token_type", authztest.TokenType+"refresh_token"))
			refused(t, h, "of an ID token", "api", "invalid_request",
				transactionForm(shop.ID, "subject_token_type", authztest.TokenType+"id_token"))
		}, opts...)
	authztest.Attack(t, "attack 8753: a wider, longer, or another transaction", func(t *testing.T, h *authztest.Harness) {
		txn := atSite(t, h, nil)
		shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
		foreign := h.Tokens("other", authztest.Demo, "scope", "openid orders.read").Access
		narrow := h.Token("api", replacing(txn)).Text("access_token")
		refused(t, h, "more than the access token has", "api", "invalid_scope", transactionForm(shop, "scope", "orders.read orders.write"))
		refused(t, h, "more than the transaction has", "ledger", "invalid_scope", replacing(narrow, "scope", "orders.write"))
		refused(t, h, "more than the workload may", "warehouse", "invalid_scope", replacing(txn, "scope", "orders.write"))
		refused(t, h, "a scope of a higher level", "api", "invalid_scope", replacing(atSite(t, h, func(c *transaction.Claims) {
			c.Scope = "secure.read"
		}), "scope", "secure.read"))
		for _, f := range []url.Values{transactionForm(shop, "scope", ""), replacing(txn, "scope", "")} {
			refused(t, h, "without a purpose", "api", "invalid_scope", f)
		}
		refused(t, h, "of a client that is not listed", "api", "invalid_target", transactionForm(foreign))
		refused(t, h, "for another domain", "api", "invalid_target", transactionForm(shop, "audience", "bank.example.com"))
		refused(t, h, "by a client without the domain", "stranger", "invalid_target", replacing(txn))
		elsewhere := atSite(t, h, func(c *transaction.Claims) { c.Audience = "bank.example.com" })
		refused(t, h, "into another domain", "api", "invalid_request", replacing(elsewhere))
		refused(t, h, "without a domain", "api", "invalid_request", transactionForm(shop, "audience", ""))
		two := transactionForm(shop)
		two.Add("audience", "bank.example.com")
		refused(t, h, "for two domains", "api", "invalid_request", two)
		refused(t, h, "for a resource", "api", "invalid_target", transactionForm(shop, "resource", authztest.StockAPI))
		refused(t, h, "with details of its own", "api", "invalid_authorization_details", transactionForm(shop, "authorization_details", "[]"))
		for name, said := range map[string]string{
			"a path": `{"path":"/admin"}`, "a path in another case": `{"Path":"/admin"}`, "a method": `{"method":"DELETE"}`,
			"a host":  `{"host":"x"}`,
			"details": `{"authorization_details":[]}`, "no object": `[1]`, "null": `null`, "no JSON": `{`, "a member twice": `{"a":1,"a":2}`,
			"deep": strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9), "long": `{"a":"` + strings.Repeat("x", 4<<10) + `"}`,
		} {
			refused(t, h, "request_details: "+name, "api", "invalid_request", transactionForm(shop, "request_details", said))
		}
		for name, said := range map[string]string{
			"no address": `{"req_ip":"localhost"}`, "a number": `{"req_ip":1}`, "a zone": `{"req_ip":"fe80::1%eth0"}`,
			"no object": `"x"`, "a member twice": `{"req_ip":"::1","req_ip":"::2"}`,
		} {
			refused(t, h, "request_context: "+name, "api", "invalid_request", transactionForm(shop, "request_context", said))
		}
		refused(t, h, "another context", "api", "invalid_request", replacing(txn, "request_context", `{"req_ip":"::1"}`))
		refused(t, h, "more context", "api", "invalid_request", replacing(txn, "request_details", `{"a":1}`))
		refused(t, h, "changed", "api", "invalid_request", replacing(txn[:len(txn)-4]+"AAAA"))

		chain := txn
		for i, by := range []string{"api", "ledger", "api", "ledger"} {
			res := h.Token(by, replacing(chain))
			authztest.WantStatus(t, fmt.Sprintf("replacement %d", i), res, http.StatusOK)
			chain = res.Text("access_token")
		}
		refused(t, h, "replaced too often", "api", "invalid_request", replacing(chain))

		h.Clock.Advance(59 * time.Second)
		res := h.Token("api", replacing(txn))
		authztest.WantStatus(t, "in the last second", res, http.StatusOK)
		last := res.Text("access_token")
		h.Clock.Advance(time.Second)
		refused(t, h, "after its end", "api", "invalid_request", replacing(txn))
		refused(t, h, "prolonged by a replacement", "ledger", "invalid_request", replacing(last))
	}, opts...)
	authztest.Attack(t, "attack 6462: a transaction of someone who is not there any more", func(t *testing.T, h *authztest.Harness) {
		ofShop := atSite(t, h, func(c *transaction.Claims) { c.Requester.Client = "shop" })
		authztest.WantStatus(t, "before", h.Token("api", replacing(ofShop)), http.StatusOK)
		gone := atSite(t, h, func(c *transaction.Claims) { c.Requester.Client = "removed" })
		refused(t, h, "of a client that is gone", "api", "invalid_request", replacing(gone))
		shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read").Access
		h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
		refused(t, h, "of a blocked person", "api", "invalid_request", replacing(ofShop))
		refused(t, h, "of a blocked person at a site", "api", "invalid_request", replacing(atSite(t, h, nil)))
		refused(t, h, "of the access token of a blocked person", "api", "invalid_request", transactionForm(shop))
	}, opts...)
}
