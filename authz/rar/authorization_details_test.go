package rar_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	"github.com/gatehouse-id/gatehouse/authz/rar"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const (
	payment  = `[{"type":"payment","actions":["initiate","status"],"locations":["https://bank.example.com"],"amount":{"value":"12.50","currency":"EUR"},"to":"The bakery"}]`
	paid     = `[{"actions":["initiate","status"],"amount":{"currency":"EUR","value":"12.50"},"locations":["https://bank.example.com"],"to":"The bakery","type":"payment"}]`
	narrower = `[{"type":"payment","actions":["status"],"locations":["https://bank.example.com"],"amount":{"value":"12.50","currency":"EUR"},"to":"The bakery"}]`
	account  = `[{"type":"account","actions":["read"],"identifier":"NL01 BANK"}]`
)

// detailTypes are the types that the tests declare: payments, accounts that anybody can ask for, and one of level 2.
func detailTypes() authztest.Option {
	return authztest.WithConfig(func(c *authz.Config) {
		c.Details = []rar.Type{
			{
				Name: "payment", Description: web.Texts{"": "Start a payment", "nl": "Een betaling starten"}, Actions: []string{"initiate", "status"},
				Locations: []string{"https://bank.example.com"}, Required: []string{"actions", "amount.value"},
				Members: []rar.Member{
					{Path: "amount.value", Label: web.Texts{"": "Amount", "nl": "Bedrag"}},
					{Path: "amount.currency", Of: []string{"EUR", "USD"}},
					{Path: "to", Label: web.Texts{"": "To"}},
					{Path: "times", Kind: rar.KindNumber},
					{Path: "now", Kind: rar.KindBoolean},
				},
			},
			{Name: "account", Actions: []string{"read", "write"}, Identifier: true, Open: true},
			{Name: "transfer", Actions: []string{"send"}, Level: 2, Always: true},
		}
		for _, id := range []string{"shop", "asks", "jwt", "reports"} {
			authztest.ChangeClient(c, id, func(c *client.Client) { c.DetailTypes = []string{"payment", "account", "transfer"} })
		}
	})
}

// detailsIn are the authorization details of an answer, as JSON.
func detailsIn(t *testing.T, doc map[string]any) string {
	t.Helper()
	if doc["authorization_details"] == nil {
		return ""
	}
	raw, err := json.Marshal(doc["authorization_details"])
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func wantDetails(t *testing.T, what string, doc map[string]any, want string) {
	t.Helper()
	if got := detailsIn(t, doc); got != want {
		t.Errorf("%s: authorization_details = %s, want %s", what, got, want)
	}
}

// TestAuthorizationDetails: a person sees a payment in words and allows it, and the token says so wherever it is looked
// at. A refresh keeps it or asks for less. (RFC 9396)
func TestAuthorizationDetails(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, detailTypes())
	if got, _ := h.Get("/.well-known/oauth-authorization-server").JSON()["authorization_details_types_supported"].([]any); fmt.Sprint(got) != "[account payment transfer]" {
		t.Errorf("authorization_details_types_supported = %v", got)
	}
	b := h.Browser(authztest.Demo)
	code := b.Code("asks", "scope", "openid", "authorization_details", payment, "ui_locales", "nl")
	page := b.Pages[len(b.Pages)-1].Body
	for _, want := range []string{
		"Start a payment", "Amount", "12.50", "amount.currency", "EUR", "The bakery", "initiate", "status",
		"https://bank.example.com",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the consent page lacks %q: %s", want, page)
		}
	}
	res := h.Redeem("asks", code)
	authztest.WantStatus(t, "Token", res, http.StatusOK)
	wantDetails(t, "the answer", res.JSON(), paid)
	access, refresh := res.Text("access_token"), res.Text("refresh_token")
	wantDetails(t, "introspection", h.Introspect(access).JSON(), paid)
	wantDetails(t, "introspection of the refresh token", h.Introspect(refresh).JSON(), paid)
	// Less for one access token, and all of it for the next.
	less := h.Token("asks", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "authorization_details": {narrower}})
	authztest.WantStatus(t, "a refresh for less", less, http.StatusOK)
	if got := detailsIn(t, h.Introspect(less.Text("access_token")).JSON()); !strings.Contains(got, `"actions":["status"]`) {
		t.Errorf("of the narrower token: %s", got)
	}
	again := h.Refresh("asks", less.Text("refresh_token"))
	authztest.WantStatus(t, "the next refresh", again, http.StatusOK)
	wantDetails(t, "the next refresh", again.JSON(), paid)
	// Less with the code; without any scope; with line breaks.
	code = b.Code("asks", "scope", "openid", "authorization_details", strings.ReplaceAll(payment, ",", ",\n "))
	form := h.CodeForm("asks", code)
	form.Set("authorization_details", narrower)
	if got := detailsIn(t, h.Token("asks", form).JSON()); !strings.Contains(got, `"actions":["status"]`) {
		t.Errorf("with the code: %s", got)
	}
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "asks", func(c *client.Client) { c.DefaultScopes, c.Scopes = nil, []string{"openid", "orders.read"} })
	})
	res = h.Redeem("asks", b.Code("asks", "scope", "", "authorization_details", account))
	if authztest.WantStatus(t, "without a scope", res, http.StatusOK); authztest.ScopesOf(res) != "" {
		t.Errorf("scope = %q", authztest.ScopesOf(res))
	}
	authztest.WantStatus(t, "a refresh without a scope", h.Refresh("asks", res.Text("refresh_token")), http.StatusOK)
	// What is taken from the client disappears from its tokens.
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "asks", func(c *client.Client) { c.DetailTypes = []string{"account"} })
	})
	wantDetails(t, "after the type was taken from the client", h.Introspect(access).JSON(), "")
	h.Invariants(t)
}

// TestAuthorizationDetailsEverywhere: in a JWT, pushed, signed, for the client itself, of a device, exchanged.
func TestAuthorizationDetailsEverywhere(t *testing.T) {
	t.Parallel()
	s := authztest.NewSigner(t, "signer", jose.ES256)
	s.Client.DetailTypes = []string{"payment"}
	h := authztest.New(t, detailTypes(), authztest.WithExchangers(), authztest.WithTV(), authztest.WithClients(s.Client),
		authztest.WithConfig(func(c *authz.Config) {
			for _, id := range []string{"api", "tv"} {
				authztest.ChangeClient(c, id, func(c *client.Client) { c.DetailTypes = []string{"account", "payment"} })
			}
		}))
	signed := h.Tokens("jwt", authztest.Demo, "authorization_details", payment)
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(signed.Access, ".")[1])
	var claims map[string]any
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		t.Fatal(err)
	}
	wantDetails(t, "the JWT", claims, paid)
	asJWT := h.Post(authztest.IntrospectPath, url.Values{"token": {signed.Access}},
		append(authztest.Basic("ops", authztest.Secret("ops")), "Accept", "application/token-introspection+jwt")...)
	if raw, err = base64.RawURLEncoding.DecodeString(strings.Split(asJWT.Body, ".")[1]); err != nil ||
		!strings.Contains(string(raw), `"authorization_details":`+paid) {
		t.Errorf("introspection as a JWT = %s, %v", raw, err)
	}
	// Pushed, as an array inside a signed request.
	var array any
	if err := json.Unmarshal([]byte(payment), &array); err != nil {
		t.Fatal(err)
	}
	pushed := s.PushForm(t, h, "request", s.Object(t, h, map[string]any{"authorization_details": array}))
	authztest.WantStatus(t, "PAR", pushed, http.StatusCreated)
	_, answer := h.Browser(authztest.Demo).Follow("/oauth/authorize?" +
		url.Values{"client_id": {"signer"}, "request_uri": {pushed.Text("request_uri")}}.Encode()).Redirect()
	wantDetails(t, "a pushed request", s.RedeemSigned(t, h, answer.Get("code")).JSON(), paid)
	// A client itself; what needs a person it does not get.
	own := authztest.ClientCredentials("reports.read")
	own.Set("authorization_details", account)
	wantDetails(t, "of a client", h.Token("reports", own).JSON(), `[{"actions":["read"],"identifier":"NL01 BANK","type":"account"}]`)
	own.Set("authorization_details", `[{"type":"transfer","actions":["send"]}]`)
	authztest.WantError(t, "a client without a person", h.Token("reports", own), 400, "invalid_authorization_details")
	// A device.
	begun := h.Call("/oauth/device_authorization", "tv", url.Values{"scope": {"openid"}, "authorization_details": {payment}})
	authztest.WantStatus(t, "device", begun, http.StatusOK)
	phone := h.Browser(authztest.Demo)
	phone.Decide(begun.Text("user_code"), "allow")
	if !slices.ContainsFunc(phone.Pages, func(p *authztest.Response) bool {
		return strings.Contains(p.Body, "Start a payment") && strings.Contains(p.Body, "12.50")
	}) {
		t.Error("the device's question lacks the payment")
	}
	wantDetails(t, "the device", authztest.PollDevice(h, begun).JSON(), paid)
	// An exchange passes on what the exchanging client may have, or less.
	shop := h.Tokens("shop", authztest.Demo, "scope", "openid orders.read", "authorization_details", payment).Access
	wantDetails(t, "exchanged", h.Introspect(authztest.Exchanged(t, h, "api", shop)).JSON(), paid)
	if got := detailsIn(t, h.Introspect(authztest.Exchanged(t, h, "api", shop, "authorization_details",
		narrower)).JSON()); !strings.Contains(got, `["status"]`) {
		t.Errorf("exchanged for less: %s", got)
	}
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "api", func(c *client.Client) { c.DetailTypes = nil })
	})
	wantDetails(t, "exchanged by a client without the type", h.Introspect(authztest.Exchanged(t, h, "api", shop)).JSON(), "")
	h.Invariants(t)
}

// TestAuthorizationDetailsAreAskedAgain: what was allowed once is not asked again, everything else is; a type can be
// asked about each time, and demand a level.
func TestAuthorizationDetailsAreAskedAgain(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 514: other details than were allowed", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		for _, c := range []struct {
			name, client, asks string
			want               bool
		}{
			{"first", "asks", payment, true},
			{"the same", "asks", payment, false},
			{"fewer actions", "asks", narrower, false},
			{"another amount", "asks", strings.Replace(payment, "12.50", "1250", 1), true},
			{"without the receiver", "asks", strings.Replace(payment, `,"to":"The bakery"`, "", 1), true},
			{"without a location", "asks", strings.Replace(payment, `"locations":["https://bank.example.com"],`, "", 1), true},
			{"both", "asks", payment[:len(payment)-1] + "," + account[1:], true},
			{"only scopes", "asks", "", false},
			{"a client without questions", "shop", payment, false},
		} {
			b.Pages = nil
			b.Code(c.client, "scope", "openid", "authorization_details", c.asks)
			if got := authztest.AskedForConsent(b); got != c.want {
				t.Errorf("%s: asked = %v, want %v", c.name, got, c.want)
			}
		}
		for range 2 {
			b.Pages = nil
			b.Code("shop", "scope", "openid", "authorization_details", `[{"type":"transfer","actions":["send"]}]`)
			if !authztest.AskedForConsent(b) {
				t.Error("a transfer was not asked about")
			}
		}
		in := h.Introspect(h.Redeem("shop",
			b.Code("shop", "authorization_details", `[{"type":"transfer","actions":["send"]}]`)).Text("access_token")).JSON()
		if in["acr"] != "urn:gatehouse:level:2" {
			t.Errorf("acr = %v, want level 2", in["acr"])
		}
		// The API and the account page show what was allowed.
		person := h.Do(http.MethodGet, "/oauth/api/v1/users/"+authztest.Demo+"/consents", "",
			authztest.Basic("registrar", authztest.Secret("registrar"))...)
		if !strings.Contains(person.Body, `"authorization_details":[`) || !strings.Contains(person.Body, "The bakery") {
			t.Errorf("consents = %s", person.Body)
		}
	}, detailTypes())
}

// TestAuthorizationDetailsAttacks: see docs/attacks/authorization-details.md.
func TestAuthorizationDetailsAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 511: details that are not of a declared type", func(t *testing.T, h *authztest.Harness) {
		many := "[" + strings.Repeat(account[1:len(account)-1]+",", 20) + account[1:]
		for name, text := range map[string]string{
			"no JSON": "payment", "no array": `{"type":"account"}`, "empty": "[]", "no object": `["account"]`, "no type": `[{"actions":["read"]}]`,
			"unknown type": `[{"type":"loan"}]`, "type of a number": `[{"type":1}]`, "unknown member": `[{"type":"account","owner":"me"}]`,
			"a member of another type": `[{"type":"account","amount":{"value":"1"}}]`, "unknown action": `[{"type":"account","actions":["delete"]}]`,
			"action that is no list": `[{"type":"account","actions":"read"}]`, "no actions": `[{"type":"account","actions":[]}]`,
			"an action twice":                     `[{"type":"account","actions":["read","read"]}]`,
			"a common member that the type lacks": `[{"type":"account","datatypes":["all"]}]`,
			"a member twice":                      `[{"type":"account","type":"payment"}]`,
			"missing member":                      `[{"type":"payment","actions":["status"]}]`, "null": `[{"type":"account","identifier":null}]`,
			"unknown currency":  strings.Replace(payment, "EUR", "XYZ", 1),
			"a point in a name": strings.Replace(payment, `"amount":{"value":"12.50","currency":"EUR"}`, `"amount.value":"12.50"`, 1),
			"too deep":          strings.Replace(payment, `"12.50"`, strings.Repeat("[", 20)+strings.Repeat("]", 20), 1),
			"too large":         strings.Replace(account, "NL01", strings.Repeat("x", 9<<10), 1),
			"a long text":       strings.Replace(account, "NL01", strings.Repeat("x", 600), 1), "too many": many,
			"a number in place of a text": strings.Replace(payment, `"12.50"`, "12.50", 1), "two documents": account + account,
			"a control character": `[{"type":"account","identifier":"a\u0007"}]`, "no text": `[{"type":"account","identifier":" "}]`,
		} {
			authztest.WantRedirectError(t, h, name, h.Browser(authztest.Demo).Authorize("asks", "authorization_details", text),
				"invalid_authorization_details")
			push := h.Params("asks", "authorization_details", text)
			authztest.WantError(t, name+", pushed", h.Call("/oauth/par", "asks", push), 400, "invalid_authorization_details")
			own := authztest.ClientCredentials("reports.read")
			own.Set("authorization_details", text)
			authztest.WantError(t, name+", of a client", h.Token("reports", own), 400, "invalid_authorization_details")
			tv := url.Values{"scope": {"openid"}, "authorization_details": {text}}
			authztest.WantError(t, name+", of a device", h.Call("/oauth/device_authorization", "tv", tv), 400, "invalid_authorization_details")
		}
		authztest.WantRedirectError(t, h, "another client", h.Browser(authztest.Demo).Authorize("two", "authorization_details", account),
			"invalid_authorization_details")
		authztest.WantRedirectError(t, h, "an ID token",
			h.Browser(authztest.Demo).Authorize("fragment", "response_type", "token", "scope", "openid", "authorization_details", account),
			"invalid_authorization_details")
		authztest.WantError(t, "in the query",
			h.Post("/oauth/token?"+url.Values{"authorization_details": {account}}.Encode(), authztest.ClientCredentials("reports.read"),
				authztest.Basic("reports", authztest.Secret("reports"))...), 400, "invalid_request")
	}, detailTypes(), authztest.WithTV())
	authztest.Attack(t, "attack 512: more than was granted", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo)
		more := strings.Replace(narrower, `["status"]`, `["initiate","status"]`, 1)
		for name, text := range map[string]string{
			"another action": more, "another amount": strings.Replace(narrower, "12.50", "99", 1), "another type": account,
			"beside it":            narrower[:len(narrower)-1] + "," + account[1:],
			"without the location": strings.Replace(narrower, `"locations":["https://bank.example.com"],`, "", 1),
			"without the receiver": strings.Replace(narrower, `,"to":"The bakery"`, "", 1),
		} {
			form := h.CodeForm("shop", b.Code("shop", "authorization_details", narrower))
			form.Set("authorization_details", text)
			authztest.WantError(t, name+", by the code", h.Token("shop", form), 400, "invalid_authorization_details")
			got := b.Tokens("shop", "scope", "openid orders.read", "authorization_details", narrower)
			refresh := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.Refresh}, "authorization_details": {text}}
			authztest.WantError(t, name+", by a refresh", h.Token("shop", refresh), 400, "invalid_authorization_details")
			authztest.WantStatus(t, name+", the refresh token afterwards", h.Refresh("shop", got.Refresh), http.StatusOK)
			authztest.WantError(t, name+", by a repeated refresh", h.Token("shop", refresh), 400, "invalid_authorization_details")
			authztest.WantError(t, name+", by an exchange", h.Token("api", authztest.ExchangeForm(got.Access, "authorization_details", text)), 400,
				"invalid_authorization_details")
		}
		none := b.Tokens("shop", "scope", "openid orders.read")
		authztest.WantError(t, "by a grant without any",
			h.Token("shop", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {none.Refresh}, "authorization_details": {account}}), 400,
			"invalid_authorization_details")
		authztest.WantError(t, "by an exchange without any",
			h.Token("api", authztest.ExchangeForm(none.Access, "authorization_details", account)), 400, "invalid_authorization_details")
	}, detailTypes(), authztest.WithExchangers(), authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "api", func(c *client.Client) { c.DetailTypes = []string{"payment", "account"} })
	}))
	authztest.Attack(t, "attack 513: markup and text that runs the other way", func(t *testing.T, h *authztest.Harness) {
		const evil = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>`
		text, err := json.Marshal([]map[string]any{{
			"type": "payment", "actions": []string{"status"},
			"amount": map[string]string{"value": evil}, "to": evil,
		}})
		if err != nil {
			t.Fatal(err)
		}
		b := h.Browser(authztest.Demo)
		b.Code("asks", "authorization_details", string(text))
		page := b.Pages[len(b.Pages)-1].Body
		if strings.Contains(page, "<script>alert") || strings.Contains(page, "<img src=x") || !strings.Contains(page, "&lt;script&gt;alert(1)") {
			t.Errorf("consent page = %s", page)
		}
		for _, hidden := range []string{"\u202e", "\u200b", "\u2066", "\u2028", "\ufeff", "\ue000", "\u0085"} {
			authztest.WantRedirectError(t, h, fmt.Sprintf("%+q", hidden),
				h.Browser(authztest.Demo).Authorize("asks", "authorization_details", strings.Replace(payment, "bakery", "b"+hidden+"akery", 1)),
				"invalid_authorization_details")
		}
	}, detailTypes())
}

// TestDetailsAloneLeaveNoEmptyToken: a client that can have none of the details of a token gets no token that says
// nothing, and one that sends a password gets none in place of the details.
func TestDetailsAloneLeaveNoEmptyToken(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, detailTypes(), authztest.WithExchangers(), authztest.WithConfig(func(c *authz.Config) {
		for _, id := range []string{"shop", "legacy"} {
			authztest.ChangeClient(c, id, func(c *client.Client) { c.DefaultScopes = nil })
		}
	}))
	shop := h.Tokens("shop", authztest.Demo, "scope", "", "authorization_details", account).Access
	authztest.WantError(t, "an exchange without the type", h.Token("api", authztest.ExchangeForm(shop)), 400, "invalid_scope")
	authztest.WantError(t, "by password", h.Token("legacy", url.Values{
		"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {authztest.Password}, "authorization_details": {account},
	}), 400, "invalid_authorization_details")
	h.Invariants(t)
}

// TestDetailsOfADeviceAreShown: an application that approves a device knows its code alone, so it cannot allow what the
// person has to see.
func TestDetailsOfADeviceAreShown(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, detailTypes(), authztest.WithTV(), authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "tv", func(c *client.Client) { c.DetailTypes = []string{"payment"} })
	}))
	begun := h.Call("/oauth/device_authorization", "tv", url.Values{"scope": {"openid"}, "authorization_details": {payment}})
	authztest.WantStatus(t, "device", begun, http.StatusOK)
	token := h.Tokens("wallet", authztest.Demo, "scope", "openid access:device-authorization:approve").Access
	approved := h.Post("/oauth/device_authorization/approve?user_code="+url.QueryEscape(begun.Text("user_code")), url.Values{},
		"Authorization", "Bearer "+token)
	authztest.WantError(t, "by an application", approved, 403, "consent_required")
	authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "authorization_pending")
	h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow")
	h.Clock.Advance(5 * time.Second)
	wantDetails(t, "the device, after the page", authztest.PollDevice(h, begun).JSON(), paid)
	h.Invariants(t)
}

// TestAuthorizationDetailsOfStrangers: a client that registers itself gets the types that are open to all alone.
func TestAuthorizationDetailsOfStrangers(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t, func(c *authz.Config) {
		c.Details = []rar.Type{{Name: "payment", Actions: []string{"initiate"}}, {Name: "account", Actions: []string{"read"}, Open: true}}
		c.Registration.RedirectHosts = []string{"app.example.com"}
	})
	got := authztest.MustRegister(t, h,
		`{"redirect_uris":["https://app.example.com/cb"],"token_endpoint_auth_method":"none","authorization_details_types":["account","payment","loan"],"dpop_bound_access_tokens":true}`)
	if fmt.Sprint(got["authorization_details_types"]) != "[account]" || got["dpop_bound_access_tokens"] != true {
		t.Errorf("registration = %v", got)
	}
	id, _ := got["client_id"].(string)
	ask := func(text string) *authztest.Response {
		v := authztest.RegisteredParams(id, "https://app.example.com/cb", "openid")
		v.Set("authorization_details", text)
		return h.Browser(authztest.Demo).Follow("/oauth/authorize?" + v.Encode())
	}
	_, answer := ask(`[{"type":"account","actions":["read"]}]`).Redirect()
	if answer.Get("code") == "" {
		t.Fatalf("account: %v; log: %s", answer, h.Log())
	}
	authztest.WantError(t, "without a proof", authztest.RedeemRegistered(h, id, answer.Get("code"), "https://app.example.com/cb"),
		400, "invalid_dpop_proof")
	if _, answer := ask(`[{"type":"payment","actions":["initiate"]}]`).Redirect(); answer.Get("error") != "invalid_authorization_details" {
		t.Errorf("payment: %v", answer)
	}
	h.Invariants(t)
}

// TestWrongAuthorizationDetailTypes: what is wrong with the declaration of a type is said when the server starts.
func TestWrongAuthorizationDetailTypes(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for want, types := range map[string][]rar.Type{
		"not the name of a type":                     {{Name: "two words"}},
		"declared twice":                             {{Name: "a"}, {Name: "a"}},
		`the type has no member "owner"`:             {{Name: "a", Required: []string{"owner"}}},
		"has an option of its own":                   {{Name: "a", Members: []rar.Member{{Path: "actions"}}}},
		"is there twice":                             {{Name: "a", Members: []rar.Member{{Path: "b"}, {Path: "b"}}}},
		"so it has no value of its own":              {{Name: "a", Members: []rar.Member{{Path: "b"}, {Path: "b.c"}}}},
		"more than 4 members in each other":          {{Name: "a", Members: []rar.Member{{Path: "b.c.d.e.f"}}}},
		`"date" is not one of text, number, boolean`: {{Name: "a", Members: []rar.Member{{Path: "b", Kind: "date"}}}},
		"level: 9 is not between 1 and 4":            {{Name: "a", Level: 9}},
		`authorization_details_types: "loan" is not`: nil,
	} {
		err := h.Try(func(c *authz.Config) {
			c.Details = types
			if types == nil {
				authztest.ChangeClient(c, "reports", func(c *client.Client) { c.DetailTypes = []string{"loan"} })
			}
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want %q", err, want)
		}
	}
}
