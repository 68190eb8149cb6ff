package clientstore_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func TestClientAttacks(t *testing.T) {
	t.Parallel()
	good := authztest.Secret("shop")
	authztest.Attack(t, "attack 56: wrong secret, unknown and disabled client are one answer", func(t *testing.T, h *authztest.Harness) {
		f := url.Values{"grant_type": {"client_credentials"}}
		wrong := h.Post("/oauth/token", f, authztest.Basic("shop", authztest.Secret("nobody"))...)
		authztest.WantError(t, "wrong", wrong, 401, "invalid_client")
		if got := wrong.Header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
			t.Errorf("WWW-Authenticate = %q, want Basic", got)
		}
		for name, basic := range map[string][]string{
			"unknown": authztest.Basic("nobody", authztest.Secret("nobody")), "disabled": authztest.Basic("disabled", authztest.Secret("disabled")),
			"public": authztest.Basic("spa", authztest.Secret("spa")),
		} {
			res := h.Post("/oauth/token", f, basic...)
			if res.Status != wrong.Status || res.Body != wrong.Body || res.Header.Get("WWW-Authenticate") != wrong.Header.Get("WWW-Authenticate") {
				t.Errorf("%s = %d %s, want the bytes of a wrong secret: %s", name, res.Status, res.Body, wrong.Body)
			}
		}
		authztest.WantEvent(t, h, "", "token.ClientAuthenticationFailedEvent", 4)
	})
	authztest.Attack(t, "attack 56: failed authentications do not fill the disk", func(t *testing.T, h *authztest.Harness) {
		for range 200 {
			h.Post("/oauth/token", url.Values{}, authztest.Basic("shop", "wrong")...)
		}
		n := 0
		for _, kind := range authztest.EventsOf(t, h, "") {
			if kind == "token.ClientAuthenticationFailedEvent" {
				n++
			}
		}
		if n == 0 || n > 60 {
			t.Errorf("%d events of 200 failures, want some and at most 60", n)
		}
	})
	authztest.Attack(t, "attack 56: callers who hang up leave their event all the same", func(t *testing.T, h *authztest.Harness) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for path, basic := range map[string][]string{
			"/oauth/token":                   authztest.Basic("shop", authztest.Secret("nobody")),
			"/oauth/revoke":                  authztest.Basic("nobody", authztest.Secret("nobody")),
			"/oauth/api/v2/token/introspect": authztest.Basic("ops", authztest.Secret("nobody")),
		} {
			r := httptest.NewRequestWithContext(gone, http.MethodPost, path, strings.NewReader("grant_type=client_credentials&token=x"))
			r.Header.Set("Content-Type", authztest.FormType)
			r.Header.Set(basic[0], basic[1])
			h.Server().ServeHTTP(httptest.NewRecorder(), r)
		}
		authztest.WantEvent(t, h, "", "token.ClientAuthenticationFailedEvent", 3)
	})
	authztest.Attack(t, "attack 57: names and secrets with special characters", func(t *testing.T, h *authztest.Harness) {
		f := url.Values{"grant_type": {"client_credentials"}}
		for id, text := range odd {
			authztest.WantStatus(t, id+" encoded", h.Post("/oauth/token", f, authztest.Basic(id, text)...), 200)
		}
		for id := range odd {
			for other, text := range odd {
				if id != other {
					authztest.WantError(t, id+" with the secret of "+other, h.Post("/oauth/token", f, authztest.Basic(id, text)...), 401, "invalid_client")
				}
			}
		}
		// Raw credentials, as curl sends them, are those of the client whose secret they are. No one becomes another.
		authztest.WantStatus(t, "raw a+b", h.Post("/oauth/token", f, authztest.RawBasic("a+b:"+odd["a+b"])...), 200)
		authztest.WantStatus(t, "raw a%", h.Post("/oauth/token", f, authztest.RawBasic("a%:"+odd["a%"])...), 200)
		authztest.WantStatus(t, "raw a%20b", h.Post("/oauth/token", f, authztest.RawBasic("a%20b:"+odd["a%20b"])...), 200)
		for id := range odd {
			for other, text := range odd {
				if id == other || strings.Contains(id, ":") {
					continue
				}
				res := h.Post("/oauth/token", f, authztest.RawBasic(id+":"+text)...)
				if res.Status != http.StatusOK {
					authztest.WantError(t, "raw "+id+" with the secret of "+other, res, 401, "invalid_client")
				} else if got := h.Introspect(res.Text("access_token")).JSON()["client_id"]; got != other {
					t.Errorf("raw %s with the secret of %s is %v", id, other, got) // the encoded name of its owner at most
				}
			}
		}
		f.Set("client_id", "a b")
		authztest.WantStatus(t, "raw a+b, said to be a b",
			h.Post("/oauth/token", f, authztest.RawBasic("a+b:"+url.QueryEscape(odd["a b"]))...), 200)
		authztest.WantError(t, "raw a+b with its secret, said to be a b", h.Post("/oauth/token", f, authztest.RawBasic("a+b:"+odd["a+b"])...),
			401, "invalid_client")
		f.Del("client_id")
		authztest.WantError(t, "raw a:b", h.Post("/oauth/token", f, authztest.RawBasic("a:b:"+odd["a:b"])...), 401, "invalid_client")
		authztest.WantStatus(t, "raw a+b as a b", h.Post("/oauth/token", f, authztest.RawBasic("a+b:"+url.QueryEscape(odd["a b"]))...), 200)
	}, authztest.WithClients(oddClients()...))
	authztest.Attack(t, "attack 58: half a credential", func(t *testing.T, h *authztest.Harness) {
		f := url.Values{"grant_type": {"client_credentials"}}
		for name, headers := range map[string][]string{
			"empty secret": authztest.RawBasic("shop:"), "no colon": authztest.RawBasic("shop"), "not base64": {"Authorization", "Basic %%%"},
			"nothing": {"Authorization", "Basic"},
			"bearer":  {"Authorization", "Bearer " + good}, "empty id": authztest.RawBasic(":" + good),
			"control":       authztest.RawBasic("shop\x00:" + good),
			"raw base64url": {"Authorization", "Basic " + base64.RawURLEncoding.EncodeToString([]byte("shop:"+good+"??>"))},
			"half a rune":   authztest.RawBasic("sh\xffop:" + good), "bad escape": authztest.RawBasic("shop%zz:" + good),
		} {
			authztest.WantError(t, name, h.Post("/oauth/token", f, headers...), 401, "invalid_client")
		}
		authztest.WantError(t, "as public", h.Post("/oauth/token", url.Values{"grant_type": {"client_credentials"}, "client_id": {"reports"}}),
			401, "invalid_client")
		post := func(id, text string) *authztest.Response {
			return h.Post("/oauth/token",
				url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {text}, "scope": {"openid"}})
		}
		authztest.WantError(t, "post, not enabled", post("headers", authztest.Secret("headers")), 401, "invalid_client")
		authztest.WantError(t, "post, wrong", post("poster", authztest.Secret("shop")), 401, "invalid_client")
		authztest.WantError(t, "post, no id", post("", authztest.Secret("poster")), 401, "invalid_client")
		authztest.WantStatus(t, "post", post("poster", authztest.Secret("poster")), 200)
		authztest.WantStatus(t, "post, by default",
			h.Post("/oauth/token", url.Values{
				"grant_type": {"client_credentials"}, "client_id": {"reports"},
				"client_secret": {authztest.Secret("reports")},
			}), 200)
		authztest.WantError(t, "an assertion", h.Post("/oauth/token", url.Values{"client_id": {"shop"}, "client_assertion": {"e30.e30."}}), 401,
			"invalid_client")
	}, authztest.WithClients(&client.Client{
		ID: "headers", AuthMethod: "basic", Secrets: []secret.String{secret.New(authztest.Secret("headers"))},
		Grants: []string{"client_credentials"}, Scopes: []string{"openid"},
	}))
	authztest.Attack(t, "attack 59: a public client asks for client_credentials", func(t *testing.T, h *authztest.Harness) {
		authztest.WantError(t, "spa", h.Token("spa", url.Values{"grant_type": {"client_credentials"}}), 400, "unauthorized_client")
		authztest.WantError(t, "shop", h.Token("shop", url.Values{"grant_type": {"client_credentials"}}), 400, "unauthorized_client")
		authztest.WantError(t, "reports", h.Token("reports", url.Values{"grant_type": {"authorization_code"}, "code": {"x"}}),
			400, "unauthorized_client")
	})
}

// Timing attacks measure work, so these tests count it exactly.
func TestClientWork(t *testing.T) {
	t.Parallel()
	inner, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	store := &authztest.CountingStore{Store: inner}
	h := authztest.New(t, authztest.WithStore(store))
	t.Cleanup(func() {
		if err := inner.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Run("attack 56,74: an unknown client costs as much as a wrong secret", func(t *testing.T) {
		if _, err := h.Server().Clients().Add(t.Context(),
			client.Client{ID: "stored", Grants: []string{"client_credentials"}, Scopes: []string{"a"}}, authztest.Admin); err != nil {
			t.Fatal(err)
		}
		f := url.Values{"grant_type": {"client_credentials"}}
		for range 300 { // beyond the rate of events
			h.Post("/oauth/token", f, authztest.Basic("shop", authztest.Secret("x"))...)
		}
		want := [3]int64{1, 0, 1}
		for name, basic := range map[string][]string{
			"wrong secret": authztest.Basic("shop", authztest.Secret("x")), "right prefix": authztest.Basic("shop", authztest.Secret("shop")+"x"),
			"unknown": authztest.Basic("nobody", authztest.Secret("x")), "stored, wrong": authztest.Basic("stored", authztest.Secret("x")),
		} {
			if got := store.Work(func() { h.Post("/oauth/token", f, basic...) }); got != want {
				t.Errorf("%s cost %v (views, updates, reads), want %v", name, got, want)
			}
		}
	})
	t.Run("attack 94: a token that nearly is one costs what a stranger costs", func(t *testing.T) {
		token := authztest.OwnToken(h).Text("access_token")
		other, err := secret.NewToken(nearly{token}, secret.AccessToken)
		if err != nil || other[:40] != token[:40] {
			t.Fatalf("NewToken = %v", err)
		}
		stranger, err := secret.NewToken(authztest.Randomness, secret.AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		want := store.Work(func() { authztest.WantActive(t, h, "stranger", stranger, false) })
		if got := store.Work(func() { authztest.WantActive(t, h, "nearly", other, false) }); got != want {
			t.Errorf("a near miss cost %v (views, updates, reads), a stranger %v", got, want)
		}
		if got := store.Work(func() { authztest.WantActive(t, h, "forged", token[:len(token)-1]+"_", false) }); got != [3]int64{} {
			t.Errorf("a forged token cost %v (views, updates, reads), want none", got)
		}
	})
	h.Invariants(t)
}

// odd are client ids and their secrets, all different in one character that some reading changes.
var odd = map[string]string{
	"a+b": "+++++++++++++++++++++++++++++++++", "a b": strings.Repeat("secret with spaces ", 3), "a:b": ":::::::::::::::::::::::::::::::::",
	"a%": "%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%%", "a%20b": strings.Repeat("%20", 20), "ünï": strings.Repeat("ü", 33),
	"a%2Bb": strings.Repeat("%2B", 20),
	"a":     "b:" + strings.Repeat(":", 40),
}

func oddClients() (out []*client.Client) {
	for id, text := range odd {
		out = append(out, &client.Client{
			ID: id, Secrets: []secret.String{secret.New(strings.TrimSpace(text))}, Grants: []string{"client_credentials"}, Scopes: []string{"a"},
			DefaultScopes: []string{"a"},
		})
		odd[id] = strings.TrimSpace(text)
	}
	return out
}
