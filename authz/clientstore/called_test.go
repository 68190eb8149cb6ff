package clientstore_test

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// TestCallsOfClients: a call counts for the client that has shown who it is, whatever it is answered. Nothing else
// counts: what public clients say, what others ask about a client's tokens, and what is refused for its credentials.
func TestCallsOfClients(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex // guards calls
	var calls []string
	note := func(kind string) func(id, address string) {
		return func(id, address string) {
			mu.Lock()
			defer mu.Unlock()
			calls = append(calls, kind+" "+id+" "+address)
		}
	}
	h := authztest.New(t, authztest.WithAddresses(), authztest.WithCalls(note("client"), note("api")))
	from := []string{"X-Test-Address", "192.0.2.7"}
	since := func() string {
		mu.Lock()
		defer mu.Unlock()
		said := strings.Join(calls, ", ")
		calls = nil
		return said
	}
	owned := url.Values{"grant_type": {"client_credentials"}}
	introspect := func(token, id, secret string) *authztest.Response {
		return h.Post("/oauth/api/v2/token/introspect", url.Values{"token": {token}}, append(authztest.Basic(id, secret), from...)...)
	}
	since() // what the harness has made
	ada, spa := h.Browser(authztest.Demo), h.Browser(authztest.Demo)
	code, spaCode := ada.Code("shop"), spa.Code("spa")
	if said := since(); said != "" {
		t.Errorf("requests of browsers count as calls: %s", said)
	}
	tokens := h.Tokens("other", authztest.Demo)
	since()
	for _, c := range []struct {
		name string
		call func() *authztest.Response
		code int
		want string
	}{
		{"client credentials", func() *authztest.Response { return h.Token("reports", owned, from...) }, 200, "client reports 192.0.2.7"},
		{"by the form", func() *authztest.Response {
			return h.Post("/oauth/token",
				url.Values{
					"grant_type": {"client_credentials"}, "client_id": {"poster"}, "client_secret": {authztest.Secret("poster")},
					"scope": {"orders.read"},
				}, from...)
		}, 200, "client poster 192.0.2.7"},
		{"a code", func() *authztest.Response { return h.Token("shop", h.CodeForm("shop", code), from...) }, 200, "client shop 192.0.2.7"},
		{
			"the same code again", func() *authztest.Response { return h.Token("shop", h.CodeForm("shop", code), from...) }, 400,
			"client shop 192.0.2.7",
		},
		{"a refresh", func() *authztest.Response {
			return h.Token("other", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.Refresh}}, from...)
		}, 200, "client other 192.0.2.7"},
		{"a grant that it may not use", func() *authztest.Response {
			return h.Token("shop", url.Values{"grant_type": {"client_credentials"}}, from...)
		}, 400, "client shop 192.0.2.7"},
		{
			"a pushed request", func() *authztest.Response { return h.Call("/oauth/par", "shop", h.Params("shop"), from...) }, 201,
			"client shop 192.0.2.7",
		},
		{"the validation of a token", func() *authztest.Response {
			return h.Token("rs", url.Values{"grant_type": {"urn:service:oauth2:grant_type:validate_bearer"}, "token": {tokens.Access}}, from...)
		}, 0, "client rs 192.0.2.7"},
		{
			"introspection", func() *authztest.Response { return introspect(tokens.Access, "ops", authztest.Secret("ops")) },
			200, "api ops 192.0.2.7",
		},
		{
			"introspection without the right",
			func() *authztest.Response { return introspect(tokens.Access, "auditor", authztest.Secret("auditor")) }, 403, "",
		},
		{
			"introspection with the credentials of a client",
			func() *authztest.Response { return introspect(tokens.Access, "other", authztest.Secret("other")) }, 401, "",
		},
		{"introspection with a wrong secret", func() *authztest.Response { return introspect(tokens.Access, "ops", "wrong") }, 401, ""},
		{"revocation", func() *authztest.Response {
			return h.Call("/oauth/revoke", "other", url.Values{"token": {tokens.Access}}, from...)
		}, 200, "client other 192.0.2.7"},
		{"a public client", func() *authztest.Response { return h.Token("spa", h.CodeForm("spa", spaCode), from...) }, 200, ""},
		{"a wrong secret", func() *authztest.Response {
			return h.Post("/oauth/token", owned, append(authztest.Basic("reports", "wrong"), from...)...)
		}, 401, ""},
		{"the secret of another client", func() *authztest.Response {
			return h.Post("/oauth/token", owned, append(authztest.Basic("reports", authztest.Secret("shop")), from...)...)
		}, 401, ""},
		{"its name alone", func() *authztest.Response {
			return h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"reports"}}, from...)
		}, 401, ""},
		{"a disabled client", func() *authztest.Response {
			return h.Post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"x"}},
				append(authztest.Basic("disabled", authztest.Secret("disabled")), from...)...)
		}, 401, ""},
		{"an unknown client", func() *authztest.Response {
			return h.Post("/oauth/token", owned, append(authztest.Basic("nobody", "x"), from...)...)
		}, 401, ""},
	} {
		a := c.call()
		if c.code != 0 && a.Status != c.code {
			t.Errorf("%s = %d %s, want %d", c.name, a.Status, a.Body, c.code)
		}
		if said := since(); said != c.want {
			t.Errorf("%s counts as %q, want %q", c.name, said, c.want)
		}
	}
}
