package authz_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestPanic(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.AllowFailures()
	h.People.Panic()
	res := h.Browser("").Get(h.AuthorizeURL("shop"))
	if res.Status != http.StatusInternalServerError || strings.Contains(res.Body, "defect") || strings.Contains(res.Body, ".go") {
		t.Errorf("Authorize(panic) = %d %s, want 500 without our inside", res.Status, res.Body)
	}
	if h.Server().Panics() != 1 || !strings.Contains(h.Log(), "a defect that the test asked for") {
		t.Errorf("Panics = %d, want 1 and a log line", h.Server().Panics())
	}
	h.Browser(authztest.Demo).Code("shop") // it goes on
}

// breaking is a writer that panics in the middle of an answer.
type breaking struct {
	*httptest.ResponseRecorder
	broken bool
}

func (b *breaking) Write(p []byte) (int, error) {
	if !b.broken {
		b.broken = true
		b.ResponseRecorder.Write(p[:1]) //nolint:errcheck // a recorder
		panic("in the middle of an answer")
	}
	return b.ResponseRecorder.Write(p)
}

// TestPanicInTheMiddleOfAnAnswer: no error page is written into an answer that has begun.
func TestPanicInTheMiddleOfAnAnswer(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.AllowFailures()
	w := &breaking{ResponseRecorder: httptest.NewRecorder()}
	defer func() {
		if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
			t.Errorf("the handler ends with %v, want ErrAbortHandler", v)
		}
		if w.Code != http.StatusOK || w.Body.Len() != 1 || h.Server().Panics() != 1 || !strings.Contains(h.Log(), "in the middle of an answer") {
			t.Errorf("%d bytes are written, %d panics, want 1 and 1, and a line in the log", w.Body.Len(), h.Server().Panics())
		}
	}()
	h.Server().ServeHTTP(w, httptest.NewRequest(http.MethodGet, h.Issuer+"/.well-known/openid-configuration", nil))
}

// TestMachinesInABrowser: a person who opens the address of a machine in a browser reads what it is for. Programs get
// JSON, also those that name text/html without meaning it.
func TestMachinesInABrowser(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for path, want := range map[string]struct {
		status int
		title  string
	}{
		"/oauth/token":                   {405, "This is the token endpoint"},
		"/oauth/v1/token":                {405, "This is the token endpoint"},
		"/oauth/revoke":                  {405, "This is the revocation endpoint"},
		"/oauth/api/v2/token/introspect": {405, "This is the introspection endpoint"},
		"/oauth/userinfo":                {401, "This is the UserInfo endpoint"},
		"/oauth/par":                     {405, "This address is for apps"},
		"/oauth/device_authorization":    {405, "This address is for apps"},
		"/oauth/api/v1/users/x/tokens":   {401, "This address is for apps"},
	} {
		for name, headers := range map[string][]string{
			"typed":          {"Accept", "text/html"},
			"typed, in full": {"Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "none"},
		} {
			res := h.Do(http.MethodGet, h.Issuer+path, "", headers...)
			if res.Status != want.status || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") ||
				!strings.Contains(res.Body, want.title) {
				t.Errorf("%s: GET %s = %d %s, want %d and a page titled %q\n%s", name, path, res.Status, res.Header.Get("Content-Type"),
					want.status, want.title, res.Body)
			}
			if challenge := res.Header.Get("WWW-Authenticate"); (challenge != "") != (want.status == 401) {
				t.Errorf("%s: GET %s with the challenge %q", name, path, challenge)
			}
		}
		plain := h.Do(http.MethodGet, h.Issuer+path, "")
		for name, headers := range map[string][]string{
			"any":            {"Accept", "*/*"},
			"JSON":           {"Accept", "application/json"},
			"a script":       {"Accept", "text/html", "Sec-Fetch-Mode", "cors"},
			"a Java program": {"Accept", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", "Authorization", "Bearer x"},
		} {
			res := h.Do(http.MethodGet, h.Issuer+path, "", headers...)
			if !strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") || res.Text("error") == "" {
				t.Errorf("%s: GET %s = %d %s, want JSON", name, path, res.Status, res.Body)
			}
			if headers[len(headers)-2] != "Authorization" &&
				(res.Status != plain.Status || res.Text("error_description") != plain.Text("error_description")) {
				t.Errorf("%s: GET %s = %d %s, want %d %s", name, path, res.Status, res.Body, plain.Status, plain.Body)
			}
		}
		post := h.Do(http.MethodPost, h.Issuer+path, "grant_type=password", "Accept", "text/html", "Content-Type",
			"application/x-www-form-urlencoded")
		if !strings.HasPrefix(post.Header.Get("Content-Type"), "application/json") {
			t.Errorf("POST %s = %d %s, want JSON", path, post.Status, post.Body)
		}
	}
	h.Invariants(t)
}

func TestAttacksOnPaths(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	t.Run("attack 76: other spellings of a path", func(t *testing.T) {
		same := h.Do(http.MethodGet, "/oauth/v1/token", "")
		for path, want := range map[string]int{
			"//oauth/token": 404, "/oauth/./token": 404, "/oauth/x/../token": 404, "/oauth/token/": 404, "/OAuth/Token": 404, "/oauth//token": 404,
			"/oauth/v2/token": 404, "/oauth/token;x": 404, "/oauth": 404, "/": 404, "/oauth/token%00": 404,
			"/oauth/v1/token": same.Status, "/%6fauth/token": same.Status, "/oauth%2ftoken": same.Status,
		} {
			res := h.Do(http.MethodGet, h.Issuer+path, "")
			if res.Status != want || res.Location() != "" {
				t.Errorf("GET %s = %d %q, want %d", path, res.Status, res.Location(), want)
			}
		}
		h.Invariants(t)
	})
}

func TestAttacksOnCORS(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.Clients[0].Origins = []string{"https://tools.example.com"} }))
	open := []string{"/oauth/token", "/oauth/v1/token", "/oauth/revoke", "/oauth/userinfo"}
	closed := []string{"/oauth/authorize", "/oauth/api/v2/token/introspect", "/oauth/consent", "/oauth/logout", "/oauth/site"}
	t.Run("attack 77: scripts of other origins", func(t *testing.T) {
		for _, path := range append(open, closed...) {
			for _, origin := range []string{
				authztest.Evil, "null", "http://spa.example.com", "https://spa.example.com.evil.example", "https://spa.example.com:8443",
				"https://SPA.example.com", "*",
				"https://disabled.example.com", "http://localhost", "http://127.0.0.2", "https://127.0.0.1", "http://127.0.0.1.evil.example",
			} {
				for _, method := range []string{http.MethodOptions, http.MethodGet, http.MethodPost} {
					res := h.Do(method, path, "", "Origin", origin, "Access-Control-Request-Method", "POST")
					if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" {
						t.Errorf("%s %s from %s: Access-Control-Allow-Origin = %q, want none", method, path, origin, got)
					}
				}
			}
		}
		for _, path := range closed {
			res := h.Do(http.MethodOptions, path, "", "Origin", "https://spa.example.com", "Access-Control-Request-Method", "POST")
			if res.Header.Get("Access-Control-Allow-Origin") != "" || res.Status < 400 {
				t.Errorf("preflight of %s = %d %v, want a refusal", path, res.Status, res.Header)
			}
		}
		h.Invariants(t)
	})
	for _, path := range open {
		for _, origin := range []string{"https://spa.example.com", "https://shop.example.com", "https://tools.example.com"} {
			res := h.Do(http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", "POST",
				"Access-Control-Request-Headers", "authorization")
			if res.Status != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Origin") != origin ||
				!strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
				t.Errorf("preflight of %s from %s = %d %v", path, origin, res.Status, res.Header)
			}
			res = h.Get(path, "Origin", origin)
			if res.Header.Get("Access-Control-Allow-Origin") != origin || res.Header.Get("Access-Control-Allow-Credentials") != "" ||
				!strings.Contains(strings.Join(res.Header.Values("Vary"), ","), "Origin") {
				t.Errorf("GET %s from %s = %d %v", path, origin, res.Status, res.Header)
			}
		}
	}
	h.Invariants(t)
}

// TestScriptsOfDevelopers: a single-page application runs on a developer's machine, on the port that the tool has
// chosen, and one whose address was registered in another spelling runs too.
func TestScriptsOfDevelopers(t *testing.T) {
	t.Parallel()
	app := func(id string, public bool, uri string) *client.Client {
		c := &client.Client{
			ID: id, Public: public, RedirectURIs: []string{uri}, Grants: []string{"authorization_code"},
			Scopes: []string{"openid"},
		}
		if !public {
			c.Secrets = []secret.String{secret.New(authztest.Secret(id))}
		}
		return c
	}
	h := authztest.New(t, authztest.WithClients(
		app("vite", true, "http://localhost:5173/callback"), app("web", false, "http://[::1]:8080/callback"),
		app("shouting", true, "https://APP.Example.com:443/cb"),
	), authztest.WithConfig(func(c *authz.Config) { c.Clients[0].Origins = []string{"https://TOOLS.example.com:443/"} }))
	for origin, want := range map[string]bool{
		"http://localhost:5173": true, "http://localhost:5174": true, "http://127.0.0.1:9": true, "http://[::1]:8080": true,
		"https://app.example.com":      true,
		"https://tools.example.com":    true,
		"http://127.0.0.1.nip.io:5173": false, "http://localhost.evil.example": false, "https://app.example.com.evil.example": false,
		"http://app.example.com": false,
	} {
		res := h.Do(http.MethodOptions, "/oauth/token", "", "Origin", origin, "Access-Control-Request-Method", "POST")
		if got := res.Header.Get("Access-Control-Allow-Origin") == origin; got != want {
			t.Errorf("scripts of %s are let in: %t, want %t", origin, got, want)
		}
	}
	h.Invariants(t)
}

// TestMetadataForEverybody: a client in a browser that looks for its server, such as one of MCP, can read what is
// public.
func TestMetadataForEverybody(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/oauth/jwks"} {
		res := h.Do(http.MethodOptions, path, "", "Origin", authztest.Evil, "Access-Control-Request-Method", "GET",
			"Access-Control-Request-Headers", "mcp-protocol-version")
		if res.Status != http.StatusNoContent || res.Header.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.Contains(res.Header.Get("Access-Control-Allow-Headers"), "MCP-Protocol-Version") {
			t.Errorf("preflight of %s = %d %v", path, res.Status, res.Header)
		}
		res = h.Get(path, "Origin", authztest.Evil)
		if res.Status != http.StatusOK || res.Header.Get("Access-Control-Allow-Origin") != "*" ||
			res.Header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("GET %s = %d %v", path, res.Status, res.Header)
		}
	}
	h.Invariants(t)
}
