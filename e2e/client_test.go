package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// introspection is the part of an introspection response that the tests read.
type introspection struct {
	Active   bool   `json:"active"`
	ClientID string `json:"client_id"`
	Subject  string `json:"sub"`
	Scope    string `json:"scope"`
}

func (s *server) clientCredentials(id, secret string) string {
	s.t.Helper()
	resp := s.form("/oauth/token", id, secret, url.Values{"grant_type": {"client_credentials"}, "scope": {apiScope}})
	token := body[struct {
		AccessToken string `json:"access_token"`
	}](s.t, resp).AccessToken
	if token == "" {
		s.t.Fatal("client_credentials: no access_token")
	}
	return token
}

func (s *server) introspect(token string) introspection {
	s.t.Helper()
	return body[introspection](s.t, s.form("/oauth/api/v2/token/introspect", "ops", s.OpsSecret, url.Values{"token": {token}}))
}

// body reads the JSON of an answer that must be 200.
func body[T any](t *testing.T, resp *http.Response) T {
	t.Helper()
	defer resp.Body.Close()
	var out T
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", resp.Request.URL.Path, resp.Status, err)
	}
	return out
}

func (s *server) revoke(id, secret, token string) {
	s.t.Helper()
	if resp := s.form("/oauth/revoke", id, secret, url.Values{"token": {token}}); resp.StatusCode != http.StatusOK {
		s.t.Fatalf("revoke: %s", resp.Status)
	}
}

// shop is a client application on go-oidc and x/oauth2, in the test's own process. It signs people in at /.
type shop struct {
	address string
	ctx     context.Context // with the HTTP client
	s       *server

	mu       sync.Mutex // guards what follows
	provider *oidc.Provider
	config   oauth2.Config
	verifier map[string]string // by state
	token    *oauth2.Token
	rawID    string
	subject  string
}

// openShop starts the application and a server with it as a client.
func openShop(t *testing.T) (*shop, *server) {
	t.Helper()
	return openShopEdited(t, nil)
}

// openShopEdited is openShop with another configuration of the server, and further environment variables.
func openShopEdited(t *testing.T, edit func(caddyfile string) string, env ...string) (*shop, *server) {
	t.Helper()
	p := &shop{verifier: map[string]string{}}
	srv := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(srv.Close)
	p.address = srv.URL
	s := startEdited(t, p.address+"/callback", edit, env...)
	p.s = s
	// the application does not see the issuer's cookies; the tokens that it gets are recorded
	p.ctx = oidc.ClientContext(context.WithoutCancel(t.Context()), s.client())
	var err error
	if p.provider, err = oidc.NewProvider(p.ctx, s.Issuer); err != nil {
		t.Fatalf("discovery: %v", err)
	}
	endpoint := p.provider.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	p.config = oauth2.Config{
		ClientID: "shop", ClientSecret: s.ShopSecret, Endpoint: endpoint, RedirectURL: p.address + "/callback",
		Scopes: []string{oidc.ScopeOpenID, "profile", "email", apiScope},
	}
	return p, s
}

func (p *shop) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.URL.Path {
	case "/":
		state, verifier := random(16), oauth2.GenerateVerifier()
		p.verifier[state] = verifier
		p.s.secret("PKCE verifier", verifier)
		opts := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(verifier), oidc.Nonce("nonce-" + state)}
		for name, values := range r.URL.Query() {
			opts = append(opts, oauth2.SetAuthURLParam(name, values[0]))
		}
		http.Redirect(w, r, p.config.AuthCodeURL(state, opts...), http.StatusFound)
	case "/callback":
		if err := p.callback(r.URL.Query()); err != nil {
			page(w, "Not signed in", err.Error())
			return
		}
		page(w, "Signed in", p.subject)
	case "/callback/bye":
		page(w, "Bye", r.URL.RawQuery)
	default:
		http.NotFound(w, r)
	}
}

func page(w http.ResponseWriter, title, text string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, `<!doctype html><html lang="en"><title>Shop</title><h1>%s</h1><p id="text">%s</p>`,
		html.EscapeString(title), html.EscapeString(text))
}

// callback does what an application must do with the answer to an authorization request.
func (p *shop) callback(q url.Values) error {
	if iss := q.Get("iss"); iss != p.s.Issuer { // RFC 9207 2.4
		return fmt.Errorf("iss is %q", iss)
	}
	state := q.Get("state")
	verifier, known := p.verifier[state]
	if !known {
		return errors.New("state is not ours")
	}
	delete(p.verifier, state)
	if code := q.Get("error"); code != "" {
		for _, more := range []string{"service_saml_error", "service_error_cause"} {
			if q.Has(more) {
				code += " " + q.Get(more)
			}
		}
		return errors.New(code)
	}
	token, err := p.config.Exchange(p.ctx, q.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		return err
	}
	rawID, ok := token.Extra("id_token").(string)
	if !ok {
		return errors.New("no ID token")
	}
	id, err := p.provider.Verifier(&oidc.Config{ClientID: p.config.ClientID}).Verify(p.ctx, rawID)
	if err != nil {
		return err
	}
	if id.Nonce != "nonce-"+state {
		return fmt.Errorf("nonce is %q", id.Nonce)
	}
	if id.AccessTokenHash != "" {
		if err := id.VerifyAccessToken(token.AccessToken); err != nil {
			return err
		}
	}
	p.token, p.rawID, p.subject = token, rawID, id.Subject
	return nil
}

// TestShop signs in to an application with consent and uses every endpoint that an application uses.
func TestShop(t *testing.T) {
	t.Parallel()
	p, s := openShop(t)
	b := s.browse(t)

	b.open(p.address + "/")
	b.signIn(person, s.Password)
	if !strings.Contains(b.text("main"), "The shop") || !strings.Contains(b.text("main"), "Read the reports") {
		t.Fatalf("the consent page at %s says %q", b.location(), b.text("main"))
	}
	b.shot("consent")
	b.click("button[value=deny]")
	if got := b.text("#text"); got != "access_denied" {
		t.Fatalf("after deny the application was told %q, want access_denied", got)
	}

	b.open(p.address + "/")
	b.click("button[value=allow]")
	if got := b.text("h1"); got != "Signed in" {
		t.Fatalf("the application says %q: %s", got, b.text("#text"))
	}
	b.open(p.address + "/?prompt=none")
	if got := b.text("h1"); got != "Signed in" {
		t.Errorf("the consent is not remembered: %q %s", got, b.text("#text"))
	}
	b.open(p.address + "/?prompt=login")
	if !b.has("#password") {
		t.Errorf("prompt=login did not ask for the password, but came to %s", b.location())
	}

	checkUserinfo(t, p)
	checkRefresh(t, p)
	checkClientCredentials(t, p)

	b.open(s.Issuer + "/oauth/logout?" + url.Values{
		"id_token_hint": {p.rawID}, "post_logout_redirect_uri": {s.Callback + "/bye"},
		"state": {"s1"},
	}.Encode())
	if b.has("main form button:not([type])") {
		b.click("main form button:not([type])")
	}
	b.until("location.href === " + quote(s.Callback+"/bye?state=s1"))
	b.open(p.address + "/?prompt=none")
	if got := b.text("#text"); got != "login_required" {
		t.Errorf("prompt=none after logout says %q, want login_required", got)
	}
}

func checkUserinfo(t *testing.T, p *shop) {
	t.Helper()
	info, err := p.provider.UserInfo(p.ctx, oauth2.StaticTokenSource(p.token))
	if err != nil {
		t.Fatalf("userinfo: %v", err)
	}
	var claims struct {
		Name string `json:"name"`
	}
	if err := info.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	if info.Subject != p.subject || info.Email != person || !info.EmailVerified || claims.Name != "Demo Person" {
		t.Errorf("userinfo = %+v, name %q", info, claims.Name)
	}
}

func checkRefresh(t *testing.T, p *shop) {
	t.Helper()
	old := p.token
	if got := p.s.introspect(old.AccessToken); !got.Active || got.Subject != p.subject || got.ClientID != "shop" {
		t.Errorf("introspection = %+v", got)
	}
	next, err := p.config.TokenSource(p.ctx, &oauth2.Token{RefreshToken: old.RefreshToken}).Token()
	if err != nil {
		t.Fatalf("refresh: %v", err)
	}
	if next.RefreshToken == old.RefreshToken || next.AccessToken == old.AccessToken {
		t.Error("refresh gave the same token again")
	}
	p.s.revoke("shop", p.s.ShopSecret, next.RefreshToken)
	for name, token := range map[string]string{"access token": next.AccessToken, "refresh token": next.RefreshToken} {
		if p.s.introspect(token).Active {
			t.Errorf("%s is active after its refresh token was revoked", name)
		}
	}
	_, err = p.config.TokenSource(p.ctx, &oauth2.Token{RefreshToken: next.RefreshToken}).Token()
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.ErrorCode != "invalid_grant" {
		t.Errorf("a revoked refresh token answers %v, want invalid_grant", err)
	}
}

func checkClientCredentials(t *testing.T, p *shop) {
	t.Helper()
	cc := clientcredentials.Config{
		ClientID: "shop", ClientSecret: p.s.ShopSecret, TokenURL: p.config.Endpoint.TokenURL, Scopes: []string{apiScope},
		AuthStyle: oauth2.AuthStyleInHeader,
	}
	token, err := cc.Token(p.ctx)
	if err != nil {
		t.Fatalf("client credentials: %v", err)
	}
	resp, err := oauth2.NewClient(p.ctx, oauth2.StaticTokenSource(token)).Get(p.s.API + "/report")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the API answers %s to a token of the client itself", resp.Status)
	}
}
