package cimd_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// documentHost serves the metadata document of a client.
type documentHost struct {
	mu    sync.Mutex // guards all below
	name  string
	uris  string
	away  bool
	asked int
}

func (d *documentHost) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	status := http.StatusOK
	if d.away {
		status = http.StatusBadGateway
	}
	body := fmt.Sprintf(`{"client_id":"%s","client_name":"%s","redirect_uris":[%s],"grant_types":["authorization_code","refresh_token"],"token_endpoint_auth_method":"none"}`, authztest.DocumentID, d.name, d.uris)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1, Request: r,
	}, nil
}

func (d *documentHost) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func newDocumentHarness(t *testing.T, change ...func(*authz.Config)) (*authztest.Harness, *documentHost) {
	d := &documentHost{
		name: "Assistant",
		uris: `"http://localhost/callback","https://app.example/callback","cursor://anysphere.cursor-mcp/oauth/callback"`,
	}
	return authztest.New(t, authztest.WithHTTP(&http.Client{Transport: d}), authztest.WithConfig(func(c *authz.Config) {
		c.Documents.On = true
		c.Resources = []client.Resource{{
			URI: authztest.ToolsResource, Name: "Tools of the office", Scopes: []string{"tools.read", "tools.write"},
			First: []string{"tools.read"},
		}}
		for _, f := range change {
			f(c)
		}
	})), d
}

const loopbackURI = "http://localhost:33418/callback"

func redeemDocument(h *authztest.Harness, code, redirect string) *authztest.Response {
	return h.Post("/oauth/token", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {authztest.DocumentID}, "code": {code}, "redirect_uri": {redirect},
		"code_verifier": {authztest.Verifier}, "resource": {authztest.ToolsResource},
	})
}

func refreshDocument(h *authztest.Harness, token string) *authztest.Response {
	return h.Post("/oauth/token", url.Values{"grant_type": {"refresh_token"}, "client_id": {authztest.DocumentID}, "refresh_token": {token}})
}

// A client that names no scope, but an address below a site, gets the scopes that the site asks for.
func TestClientByItsDocumentWithoutScope(t *testing.T) {
	t.Parallel()
	h, _ := newDocumentHarness(t)
	v := authztest.DocumentParams(loopbackURI, "")
	v.Del("scope")
	v.Set("resource", authztest.ToolsResource+"/mcp/tools")
	code, _ := authztest.AllowDocument(t, h, h.Browser(authztest.Demo), v)
	if res := redeemDocument(h, code, loopbackURI); res.Status != http.StatusOK || res.Text("scope") != "openid tools.read" {
		t.Errorf("token = %d %s, want the scopes openid tools.read", res.Status, res.Body)
	}
}

// A client that no one has registered signs a person in, on whatever port it listens, and keeps its tokens after a
// restart. The person is asked once for the same, and again for anything else.
func TestClientByItsDocument(t *testing.T) {
	t.Parallel()
	h, d := newDocumentHarness(t)
	if meta := h.Get("/.well-known/oauth-authorization-server").JSON(); meta["client_id_metadata_document_supported"] != true {
		t.Errorf("metadata = %v", meta)
	}
	b := h.Browser(authztest.Demo)
	v := authztest.DocumentParams(loopbackURI, "tools.read offline_access")
	code, asked := authztest.AllowDocument(t, h, b, v)
	if !asked {
		t.Error("nobody was asked for a client that no one has registered")
	}
	res := redeemDocument(h, code, loopbackURI)
	if res.Status != http.StatusOK || res.Text("scope") != "tools.read offline_access" {
		t.Fatalf("token = %d %s", res.Status, res.Body)
	}
	about := h.Introspect(res.Text("access_token")).JSON()
	if about["active"] != true || about["client_id"] != authztest.DocumentID || fmt.Sprint(about["aud"]) != authztest.ToolsResource &&
		fmt.Sprint(about["aud"]) != "["+authztest.ToolsResource+"]" {
		t.Errorf("introspection = %v", about)
	}
	d.set(func() {
		if d.asked != 1 {
			t.Errorf("%d fetches, want one", d.asked)
		}
	})

	for _, tt := range []struct {
		what   string
		change func(url.Values)
		want   bool
	}{
		{"the same on another port", func(v url.Values) { v.Set("redirect_uri", "http://localhost:1/callback") }, false},
		{"fewer scopes", func(v url.Values) { v.Set("scope", "tools.read") }, false},
		{"more scopes", func(v url.Values) { v.Set("scope", "tools.read tools.write") }, true},
		{"more scopes again", func(v url.Values) { v.Set("scope", "tools.read tools.write") }, false},
		{"no resource", func(v url.Values) { v.Del("resource") }, true},
		{"another target", func(v url.Values) { v.Set("redirect_uri", "https://app.example/callback") }, true},
		{"another app", func(v url.Values) { v.Set("redirect_uri", "cursor://anysphere.cursor-mcp/oauth/callback") }, true},
	} {
		v := authztest.DocumentParams(loopbackURI, "tools.read offline_access")
		tt.change(v)
		if _, asked := authztest.AllowDocument(t, h, b, v); asked != tt.want {
			t.Errorf("%s: asked = %t, want %t", tt.what, asked, tt.want)
		}
	}
	h.Clock.Advance(25 * time.Hour)
	d.set(func() { d.name = "Another" })
	if _, asked := authztest.AllowDocument(t, h, b, v); !asked {
		t.Error("a client with another name was not asked about")
	}

	h.Invariants(t)

	// Its host goes away, and the server starts again: tokens are refreshed for a day, and no one signs in.
	code, _ = authztest.AllowDocument(t, h, b, v)
	res = redeemDocument(h, code, loopbackURI)
	d.set(func() { d.away = true })
	h.Restart(nil)
	h.Clock.Advance(20 * time.Hour)
	if res = refreshDocument(h, res.Text("refresh_token")); res.Status != http.StatusOK || !h.Active(res.Text("access_token")) {
		t.Errorf("refresh while the host is away = %d %s", res.Status, res.Body)
	}
	if page := b.Get("/oauth/authorize?" + v.Encode()); page.Status != http.StatusServiceUnavailable || page.Location() != "" {
		t.Errorf("authorize while the host is away = %d %s, want a page with 503", page.Status, page.Location())
	}
	h.Clock.Advance(48 * time.Hour)
	if res = refreshDocument(h, res.Text("refresh_token")); res.Status != http.StatusServiceUnavailable {
		t.Errorf("refresh when the host was away for days = %d %s, want 503", res.Status, res.Body)
	}
	h.Restart(func(c *authz.Config) { c.Documents.On = false })
	if res = refreshDocument(h, "x"); res.Status != http.StatusUnauthorized {
		t.Errorf("when documents are off = %d %s, want 401", res.Status, res.Body)
	}
}

// viewStore counts the questions that reach the store.
type viewStore struct {
	*authztest.LookupStore

	views atomic.Int64
}

func (s *viewStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	s.views.Add(1)
	return s.LookupStore.View(ctx, fn)
}

// A client whose metadata document is remembered costs a request no question to the store, until an operator adds a
// client of that id, which counts from the next request on.
func TestRememberedDocumentCostsNothing(t *testing.T) {
	t.Parallel()
	disk, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &viewStore{LookupStore: &authztest.LookupStore{Store: disk}}
	d := &documentHost{name: "Assistant", uris: `"http://localhost/callback"`}
	h := authztest.New(t, authztest.WithStore(s), authztest.WithHTTP(&http.Client{Transport: d}),
		authztest.WithConfig(func(c *authz.Config) { c.Documents.On = true }))
	ask := func(id, redirect string) *authztest.Response {
		return h.Get("/oauth/authorize?" + url.Values{"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}}.Encode())
	}
	const wrong = "https://elsewhere.example/"
	if res := ask(authztest.DocumentID, wrong); res.Status != http.StatusBadRequest {
		t.Fatalf("a redirect URI that is not the client's = %d", res.Status)
	}
	ask("shop", wrong) // of the configuration, which is in memory
	s.views.Store(0)
	s.Lookups.Store(0)
	ask("shop", wrong)
	known := s.views.Load() + s.Lookups.Load()
	for range 10 {
		ask(authztest.DocumentID, wrong)
	}
	if n := s.views.Load() + s.Lookups.Load(); n != 11*known {
		t.Errorf("%d questions reach the store for ten requests, want %d for each, as for a client of the configuration", n-known, known)
	}
	d.set(func() {
		if d.asked != 1 {
			t.Errorf("%d fetches, want one", d.asked)
		}
	})
	added := client.Client{
		ID: authztest.DocumentID, Public: true, RedirectURIs: []string{wrong}, Grants: []string{"authorization_code"},
		Scopes: []string{"openid"},
	}
	if _, err := h.Server().Clients().Add(t.Context(), added, authztest.Admin); err != nil {
		t.Fatal(err)
	}
	if res := ask(authztest.DocumentID, wrong); res.Status == http.StatusBadRequest {
		t.Errorf("a client that was added by command = %d, want that it counts", res.Status)
	}
	if err := h.Server().Clients().Remove(t.Context(), authztest.DocumentID, authztest.Admin); err != nil {
		t.Fatal(err)
	}
	if res := ask(authztest.DocumentID, wrong); res.Status != http.StatusBadRequest {
		t.Errorf("after it was removed = %d, want the document again", res.Status)
	}
	h.Clock.Advance(25 * time.Hour)
	ask(authztest.DocumentID, wrong)
	d.set(func() {
		if d.asked != 2 {
			t.Errorf("%d fetches when the document is past its time, want another one", d.asked)
		}
	})
}

// The page that asks names the host before the name, which anybody can write, says where the answer goes and what it is
// for, and warns of programs.
func TestConsentNamesTheHost(t *testing.T) {
	t.Parallel()
	h, d := newDocumentHarness(t)
	trusting, _ := newDocumentHarness(t, func(c *authz.Config) { c.Documents.Trust = []string{"*.example", "other.test"} })
	d.set(func() { d.name = "Your bank <b>" })
	for redirect, want := range map[string][]string{
		loopbackURI:                    {"A program on this device will receive the access."},
		"https://app.example/callback": {"You will then go to app.example."},
		"cursor://anysphere.cursor-mcp/oauth/callback": {"opens cursor links"},
	} {
		b := h.Browser(authztest.Demo)
		b.Decision = "-"
		page := b.Follow("/oauth/authorize?" + authztest.DocumentParams(redirect, "tools.read").Encode())
		for _, text := range append(want, "<h1>app.example wants to access your account</h1>",
			"It calls itself “Your bank &lt;b&gt;”. Nobody has verified that.", "Tools of the office (https://mcp.example.com)") {
			if !strings.Contains(page.Body, text) {
				t.Errorf("for %s the page lacks %q:\n%s", redirect, text, page.Body)
			}
		}
	}
	b := trusting.Browser(authztest.Demo)
	b.Decision = "-"
	if page := b.Follow("/oauth/authorize?" + authztest.DocumentParams(loopbackURI, "tools.read").Encode()); strings.Contains(page.Body,
		"Nobody has verified") || !strings.Contains(page.Body, "Assistant") {
		t.Errorf("the page of a client of a trusted host:\n%s", page.Body)
	}
}

// attack: a document that changes under the request. A code is bound to the redirect URI that was checked, and the
// person decides about what was shown.
func TestDocumentChangesUnderTheRequest(t *testing.T) {
	t.Parallel()
	h, d := newDocumentHarness(t)
	b := h.Browser(authztest.Demo)
	v := authztest.DocumentParams(loopbackURI, "tools.read")
	code, _ := authztest.AllowDocument(t, h, b, v)
	d.set(func() { d.uris = `"https://evil.example/callback"` })
	h.Restart(nil) // forgets the document
	if res := redeemDocument(h, code, "https://evil.example/callback"); res.Status != http.StatusBadRequest {
		t.Errorf("redeem with a redirect URI of the new document = %d %s, want 400", res.Status, res.Body)
	}
	page := b.Get("/oauth/authorize?" + v.Encode())
	if page.Status != http.StatusBadRequest || page.Location() != "" {
		t.Errorf("authorize with a redirect URI of the old document = %d %s, want a page", page.Status, page.Location())
	}

	h, d = newDocumentHarness(t)
	b = h.Browser(authztest.Demo)
	b.Decision = "-"
	asked := b.Follow("/oauth/authorize?" + v.Encode())
	d.set(func() { d.name = "Evil" })
	h.Restart(nil)
	action, fields := authztest.Form(asked.Body)
	fields.Set("decision", "allow")
	if res := b.Post(action, fields); res.Location() != "" || res.Status != http.StatusBadRequest {
		t.Errorf("consent to a client that has another name by now = %d %s, want a page", res.Status, res.Location())
	}
}

// attack: a client with a document asks for what only registered clients are allowed.
func TestDocumentAllowsNoMore(t *testing.T) {
	t.Parallel()
	h, d := newDocumentHarness(t)
	b := h.Browser(authztest.Demo)
	for scope, want := range map[string]string{"orders.read": "invalid_scope", "scim": "invalid_scope", "openid groups": "invalid_scope"} {
		if _, params := b.Follow("/oauth/authorize?" +
			authztest.DocumentParams(loopbackURI, scope).Encode()).Redirect(); params.Get("error") != want {
			t.Errorf("scope %s = %v, want %s", scope, params, want)
		}
	}
	v := authztest.DocumentParams(loopbackURI, "tools.read")
	v.Set("resource", "https://api.example.com")
	if _, params := b.Follow("/oauth/authorize?" + v.Encode()).Redirect(); params.Get("error") != "invalid_target" {
		t.Errorf("a resource that is not of this configuration = %v", params)
	}
	v = authztest.DocumentParams(loopbackURI, "tools.read")
	v.Del("code_challenge")
	v.Del("code_challenge_method")
	if _, params := b.Follow("/oauth/authorize?" + v.Encode()).Redirect(); params.Get("error") != "invalid_request" {
		t.Errorf("without PKCE = %v", params)
	}
	v = authztest.DocumentParams(loopbackURI, "tools.read")
	v.Set("prompt", "none")
	if _, params := b.SignIn(authztest.Demo).Follow("/oauth/authorize?" + v.Encode()).Redirect(); params.Get("error") != "consent_required" {
		t.Errorf("without a page = %v", params)
	}
	for _, redirect := range []string{
		"http://127.0.0.1:33418/callback", "http://localhost:33418/other", "https://localhost/callback",
		"cursor://other/callback", "http://localhost.evil.example/callback",
	} {
		if res := b.Get("/oauth/authorize?" + authztest.DocumentParams(redirect, "tools.read").Encode()); res.Status != http.StatusBadRequest ||
			res.Location() != "" {
			t.Errorf("redirect URI %s = %d %s, want a page", redirect, res.Status, res.Location())
		}
	}
	for _, id := range []string{
		"https://app.example/", "http://app.example/client.json", "https://app.example/a/../client.json",
		"https://app.example/other.json",
	} {
		v := authztest.DocumentParams(loopbackURI, "tools.read")
		v.Set("client_id", id)
		if res := b.Get("/oauth/authorize?" + v.Encode()); res.Status != http.StatusBadRequest || res.Location() != "" {
			t.Errorf("client_id %s = %d %s, want a page", id, res.Status, res.Location())
		}
	}
	d.set(func() {
		if d.asked > 2 {
			t.Errorf("%d fetches, want one of the client and one of the address with another client_id", d.asked)
		}
	})
	if res := h.Post("/oauth/token",
		url.Values{
			"grant_type": {"client_credentials"}, "client_id": {authztest.DocumentID},
			"scope": {"tools.read"},
		}); res.Status != http.StatusBadRequest {
		t.Errorf("client_credentials = %d %s, want 400", res.Status, res.Body)
	}
}
