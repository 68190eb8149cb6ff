// Package oauth2test is a provider of OAuth 2.0 with a profile, for tests. It has the quirks of the provider of a
// preset, and refuses what that provider refuses.
package oauth2test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/oauth2"
)

// The provider's only client, and the access token that it gets.
const (
	ClientID     = "gatehouse"
	ClientSecret = "the secret of the client"
	AccessToken  = "the-access-token"
)

// The presets, as package oauth2 calls them. Its tests import this package, so it cannot import that one.
const (
	github   = "github"
	discord  = "discord"
	facebook = "facebook"
	linkedIn = "linkedin"
	twitter  = "twitter"
)

// Script are the responses of the provider.
type Script struct {
	// Profile is the JSON of the person who signs in, Emails GitHub's list of addresses. No Emails: that is not found.
	Profile, Emails string
	// Token answers in place of the token endpoint, unless it returns false.
	Token func(w http.ResponseWriter) bool
	// Hang leaves every request without an answer.
	Hang bool
}

// people are the responses of each provider about a person, from its documentation. The last one is of no preset.
var people = map[string]Script{
	github: {
		Profile: `{"login":"octocat","id":1,"node_id":"MDQ6VXNlcjE=","name":"monalisa octocat","email":"forged@example.com","two_factor_authentication":true}`,
		Emails: `[{"email":"octocat@github.com","verified":true,"primary":true,"visibility":"public"},` +
			`{"email":"old@example.com","verified":false,"primary":false,"visibility":null}]`,
	},
	discord: {
		Profile: `{"id":"80351110224678912","username":"nelly","global_name":null,"discriminator":"0","verified":true,"email":"nelly@discord.com","mfa_enabled":true}`,
	},
	facebook: {Profile: `{"id":"10158","name":"Ada L","first_name":"Ada","last_name":"L","email":"ada\u0040example.com"}`},
	linkedIn: {
		Profile: `{"sub":"782bbtaQ","name":"John Doe","given_name":"John","family_name":"Doe","locale":{"country":"US","language":"en"},"email":"doe@email.com","email_verified":"true"}`,
	},
	twitter: {Profile: `{"data":{"id":"2244994945","name":"X Dev","username":"TwitterDev","confirmed_email":"dev@x.com"}}`},
	"":      {Profile: `{"user":{"id":"u-17","login":"forge"},"full_name":"Fay Forge","mail":"fay@forge.example","mail_checked":true}`},
}

// demanded are the scopes without which a provider does not show the profile.
var demanded = map[string][]string{discord: {"identify"}, linkedIn: {"openid", "profile"}, twitter: {"users.read", "tweet.read"}}

// Provider is the provider. Its endpoints are /authorize, /token, /profile and /emails.
type Provider struct {
	*httptest.Server

	preset string

	mu     sync.Mutex // guards all below
	script Script
	asked  map[string]url.Values // by code: the authorization request
	front  http.Handler
}

// New starts a provider on loopback, until the end of the test, that behaves like the one of a preset. Without a preset
// it is some other provider.
func New(t testing.TB, preset string) *Provider {
	t.Helper()
	own, known := people[preset]
	if !known {
		t.Fatalf("no profile of the preset %q is known", preset)
	}
	p := &Provider{preset: preset, script: own, asked: map[string]url.Values{}}
	p.front = http.HandlerFunc(p.serve)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		h := p.front
		p.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Change changes the script.
func (p *Provider) Change(f func(*Script)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.script)
}

// Front puts a handler before the provider, such as a page that people click on.
func (p *Provider) Front(before func(provider http.Handler) http.Handler) {
	h := before(http.HandlerFunc(p.serve))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.front = h
}

// Allow returns the address that the browser brings the answer to, after a person has allowed what was asked.
func (p *Provider) Allow(asked url.Values) (string, error) {
	back, err := url.Parse(asked.Get("redirect_uri"))
	switch scopes := strings.Fields(asked.Get("scope")); {
	case err != nil || back.Host == "":
		return "", errors.New("redirect_uri_mismatch")
	case asked.Get("response_type") != "code" || asked.Get("client_id") != ClientID || asked.Get("code_challenge_method") != "S256" ||
		asked.Get("state") == "":
		return "", errors.New("invalid_request")
	case slices.ContainsFunc(demanded[p.preset], func(s string) bool { return !slices.Contains(scopes, s) }):
		return "", errors.New("invalid_scope")
	}
	code := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[code] = asked
	back.RawQuery = url.Values{"code": {code}, "state": {asked.Get("state")}}.Encode()
	return back.String(), nil
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	own := p.script
	p.mu.Unlock()
	if own.Hang {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the server sees that the client is gone once it has read the body
		<-r.Context().Done()
		return
	}
	switch r.URL.Path {
	case "/authorize":
		back, err := p.Allow(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, back, http.StatusFound)
	case "/token":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if own.Token == nil || !own.Token(w) {
			p.serveToken(w, r)
		}
	case "/profile", "/emails":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		if status, wrong := p.judge(r); status != http.StatusOK {
			w.WriteHeader(status)
			io.WriteString(w, wrong) //nolint:errcheck // the client is gone
			return
		}
		if r.URL.Path == "/profile" {
			io.WriteString(w, own.Profile) //nolint:errcheck // the client is gone
			return
		}
		if own.Emails == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		io.WriteString(w, own.Emails) //nolint:errcheck // the client is gone
	default:
		http.NotFound(w, r)
	}
}

// judge tells what is wrong with a request for the profile.
func (p *Provider) judge(r *http.Request) (status int, body string) {
	mac := hmac.New(sha256.New, []byte(ClientSecret))
	mac.Write([]byte(AccessToken)) //nolint:errcheck // never fails
	switch {
	case r.Header.Get("Authorization") != "Bearer "+AccessToken:
		return http.StatusUnauthorized, `{"message":"Requires authentication"}`
	case p.preset == github && r.Header.Get("User-Agent") == "":
		return http.StatusForbidden, ""
	case p.preset == facebook && r.URL.Query().Get("appsecret_proof") != hex.EncodeToString(mac.Sum(nil)):
		return http.StatusBadRequest, `{"error":{"message":"Invalid appsecret_proof","code":100}}`
	}
	return http.StatusOK, ""
}

func (p *Provider) serveToken(w http.ResponseWriter, r *http.Request) {
	fail := func(code, ofGitHub string) {
		if p.preset == github { // its errors have the status 200
			fmt.Fprintf(w, `{"error":%q,"error_description":"x"}`, ofGitHub) //nolint:errcheck // the client is gone
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":%q}`, code) //nolint:errcheck // the client is gone
	}
	id, pass := r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	if p.preset == twitter {
		if id != "" {
			fail("invalid_request", "")
			return
		}
		id, pass, _ = r.BasicAuth()
		pass, _ = url.QueryUnescape(pass)
	}
	code := r.PostFormValue("code")
	p.mu.Lock()
	asked := p.asked[code]
	delete(p.asked, code)
	p.mu.Unlock()
	switch {
	case id != ClientID || pass != ClientSecret:
		fail("invalid_client", "incorrect_client_credentials")
	case asked == nil || asked.Get("code_challenge") != oauth2.S256ChallengeFromVerifier(r.PostFormValue("code_verifier")) ||
		r.PostFormValue("redirect_uri") != asked.Get("redirect_uri"):
		fail("invalid_grant", "bad_verification_code")
	case p.preset == linkedIn: // it names no token_type
		fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600,"id_token":"e30.e30.e30"}`, AccessToken) //nolint:errcheck // the client is gone
	default:
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"bearer","scope":"x"}`, AccessToken) //nolint:errcheck // the client is gone
	}
}
