package par_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// push pushes an authorization request and returns the address that the browser opens.
func push(t *testing.T, h *authztest.Harness, id string, changes ...string) string {
	t.Helper()
	res := h.Call("/oauth/par", id, h.Params(id, changes...))
	if res.Status != http.StatusCreated || !strings.HasPrefix(res.Text("request_uri"), "urn:ietf:params:oauth:request_uri:") ||
		res.JSON()["expires_in"] != 60.0 {
		t.Fatalf("PAR = %d %s, want 201", res.Status, res.Body)
	}
	authztest.WantAPIHeaders(t, "PAR", res)
	return "/oauth/authorize?" + url.Values{"client_id": {id}, "request_uri": {res.Text("request_uri")}}.Encode()
}

// TestPushedRequest: what a client has pushed leads to a code, and nothing of it stands in the address. (RFC 9126)
func TestPushedRequest(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for _, id := range []string{"shop", "spa", "asks"} {
		at := push(t, h, id, "scope", "openid profile")
		b := h.Browser(authztest.Demo)
		if res := b.Get(at); !strings.HasPrefix(res.Location(), "/test/sign-in") {
			t.Fatalf("the browser = %d %q, want the sign-in", res.Status, res.Location())
		}
		_, answer := b.Follow(at).Redirect() // the page was loaded again
		if answer.Get("state") != "the state" || answer.Get("iss") != h.Issuer {
			t.Errorf("answer = %v", answer)
		}
		res := h.Redeem(id, answer.Get("code"))
		authztest.WantStatus(t, "its code", res, http.StatusOK)
		if got := authztest.ScopesOf(res); got != "openid profile" {
			t.Errorf("scope = %q", got)
		}
		authztest.WantPage(t, "a second time", b.Get(at), http.StatusBadRequest)
	}
	h.Invariants(t)
}

// TestPushedRequestErrors: the client hears what is wrong at once.
func TestPushedRequestErrors(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	with := func(changes ...string) url.Values { return h.Params("shop", changes...) }
	for name, tc := range map[string]struct {
		form   url.Values
		status int
		code   string
	}{
		"redirect URI":       {with("redirect_uri", "https://evil.example.com/"), 400, "invalid_request"},
		"no redirect URI":    {with("redirect_uri", ""), 400, "invalid_request"},
		"scope":              {with("scope", "nonsense"), 400, "invalid_scope"},
		"response type":      {with("response_type", "foo"), 400, "unsupported_response_type"},
		"grant":              {with("response_type", "token"), 400, "unauthorized_client"},
		"resource":           {with("resource", "https://other.example.com"), 400, "invalid_target"},
		"challenge method":   {with("code_challenge_method", "plain"), 400, "invalid_request"},
		"prompt":             {with("prompt", "none login"), 400, "invalid_request"},
		"provider":           {with("idp", "nobody"), 400, "access_denied"},
		"request_uri":        {with("request_uri", "urn:ietf:params:oauth:request_uri:x"), 400, "invalid_request"},
		"request":            {with("request", "x"), 400, "request_not_supported"},
		"another's id":       {with("client_id", "other"), 400, "invalid_request"},
		"long state":         {with("state", strings.Repeat("x", 5000)), 400, "invalid_request"},
		"nothing but itself": {url.Values{}, 400, "invalid_request"},
	} {
		authztest.WantError(t, name, h.Post("/oauth/par", tc.form, authztest.Basic("shop", authztest.Secret("shop"))...), tc.status, tc.code)
	}
	authztest.WantError(t, "no credentials", h.Post("/oauth/par", with()), 401, "invalid_client")
	authztest.WantError(t, "wrong ones", h.Post("/oauth/par", with(), authztest.Basic("shop", "wrong")...), 401, "invalid_client")
	authztest.WantError(t, "disabled", h.Call("/oauth/par", "disabled", h.Params("disabled")), 401, "invalid_client")
	authztest.WantError(t, "no challenge of a public client",
		h.Call("/oauth/par", "spa", h.Params("spa", "code_challenge", "", "code_challenge_method", "")), 400, "invalid_request")
	authztest.WantStatus(t, "GET", h.Get("/oauth/par?client_id=shop"), http.StatusMethodNotAllowed)
	h.Invariants(t)
}

// TestPushedRequestsRequired: a client of which pushed requests are demanded gets nothing by an address alone.
func TestPushedRequestsRequired(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	direct := func(id string) (code, problem string) {
		_, answer := h.Browser(authztest.Demo).Authorize(id).Redirect()
		return answer.Get("code"), answer.Get("error")
	}
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.PARRequired = true })
	})
	if code, problem := direct("shop"); code != "" || problem != "invalid_request" {
		t.Errorf("by the address = %q, %q, want invalid_request", code, problem)
	}
	if res := h.Post("/oauth/authorize", h.Params("shop")); !strings.Contains(res.Location(), "error=invalid_request") {
		t.Errorf("posted by the browser = %d %s", res.Status, res.Location())
	}
	if code, _ := direct("spa"); code == "" {
		t.Error("another client has to push too")
	}
	if _, answer := h.Browser(authztest.Demo).Follow(push(t, h, "shop")).Redirect(); answer.Get("code") == "" {
		t.Errorf("pushed = %v", answer)
	}
	h.Restart(func(c *authz.Config) { c.PARRequired = true })
	if code, problem := direct("spa"); code != "" || problem != "invalid_request" {
		t.Errorf("where all push: by the address = %q, %q", code, problem)
	}
	if doc := h.Get("/.well-known/openid-configuration").JSON(); doc["require_pushed_authorization_requests"] != true {
		t.Errorf("require_pushed_authorization_requests = %v", doc["require_pushed_authorization_requests"])
	}
	h.Invariants(t)
}

// TestPushedRequestAttacks holds what must not become of a reference.
func TestPushedRequestAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "references that are not one's own", func(t *testing.T, h *authztest.Harness) {
		at := push(t, h, "shop")
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		for name, address := range map[string]string{
			"another client": strings.Replace(at, "client_id=shop", "client_id=other", 1),
			"no client":      strings.Replace(at, "client_id=shop&", "", 1),
			"cut":            at[:len(at)-1],
			"longer":         at + "x",
			"unknown":        "/oauth/authorize?client_id=shop&request_uri=urn:ietf:params:oauth:request_uri:x",
			"empty":          "/oauth/authorize?client_id=shop&request_uri=urn:ietf:params:oauth:request_uri:",
			"without end":    "/oauth/authorize?client_id=shop&request_uri=urn:ietf:params:oauth:request_uri:" + strings.Repeat("x", 9000),
		} {
			authztest.WantPage(t, name, b.Get(address), http.StatusBadRequest)
		}
		for name, address := range map[string]string{
			"twice":              at + "&request_uri=urn:ietf:params:oauth:request_uri:x",
			"of another address": "/oauth/authorize?client_id=shop&request_uri=https://evil.example.com/request",
		} {
			if target, answer := b.Get(address).Redirect(); target != "https://shop.example.com/callback" ||
				answer.Get("error") == "" || answer.Has("code") {
				t.Errorf("%s = %s %v, want an error for the client", name, target, answer)
			}
		}
		if _, answer := b.Follow(at +
			"&redirect_uri=https://evil.example.com/&scope=orders.write&state=x&prompt=none").Redirect(); answer.Get("code") == "" ||
			answer.Get("state") != "the state" {
			t.Errorf("with more in the address = %v, want what was pushed", answer)
		}
	})
	authztest.Attack(t, "peer 59: a reference that is too old", func(t *testing.T, h *authztest.Harness) {
		at, begun := push(t, h, "shop"), push(t, h, "asks")
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		b.Decision = "-"
		question := b.Follow(begun)
		h.Clock.Advance(time.Minute)
		authztest.WantPage(t, "after a minute", b.Get(at), http.StatusBadRequest)
		action, fields := authztest.Form(question.Body)
		fields.Set("decision", "allow")
		if _, answer := b.Post(action, fields).Redirect(); answer.Get("code") == "" {
			t.Errorf("what was begun in time = %v, want a code", answer)
		}
	})
	authztest.Attack(t, "50 browsers with one reference", func(t *testing.T, h *authztest.Harness) {
		at := push(t, h, "shop")
		browsers := make([]*authztest.Browser, 50)
		for i := range browsers {
			browsers[i] = h.Browser(authztest.Demo).SignIn(authztest.Demo)
		}
		codes := 0
		for _, res := range authztest.Together(len(browsers), func(i int) *authztest.Response { return browsers[i].Get(at) }) {
			if _, answer := res.Redirect(); answer.Get("code") != "" {
				codes++
			}
		}
		if codes != 1 {
			t.Errorf("%d of 50 got a code, want 1", codes)
		}
	})
	authztest.Attack(t, "what has changed since it was pushed", func(t *testing.T, h *authztest.Harness) {
		b := h.Browser(authztest.Demo).SignIn(authztest.Demo)
		moved, narrowed := push(t, h, "shop"), push(t, h, "spa", "scope", "openid profile")
		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.RedirectURIs = []string{"https://shop.example.com/other"} })
			authztest.ChangeClient(c, "spa", func(c *client.Client) { c.Scopes = []string{"openid"} })
		})
		authztest.WantPage(t, "the redirect URI", b.Get(moved), http.StatusBadRequest)
		if _, answer := b.Follow(narrowed).Redirect(); answer.Get("error") != "invalid_scope" {
			t.Errorf("the scope = %v, want invalid_scope", answer)
		}
	})
}
