// Package oidctest is an OpenID provider for tests. It follows the specifications except where a test's script says
// otherwise.
package oidctest

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/jwa/signaturetest"
)

// The provider's only client.
const (
	ClientID     = "gatehouse"
	ClientSecret = "a secret: with %, + and ü in it" //nolint:gosec // of tests
)

// Script changes the provider's answers. A nil value in one of the maps removes that member from the answer.
type Script struct {
	// Discovery, IDToken, UserInfo and Token are added to the provider's own answers.
	Discovery, IDToken, UserInfo, Token map[string]any
	// Sub is the person who signs in.
	Sub string
	// Response is added to the parameters of the authorization response.
	Response map[string]string
	// Seal makes the ID token from its claims. Default: Sign.
	Seal func(claims map[string]any) string
	// SealUserInfo makes an application/jwt from the claims of userinfo. Default: JSON.
	SealUserInfo func(claims map[string]any) string
	// UserInfoMedia is the media type of what SealUserInfo makes. Default: application/jwt.
	UserInfoMedia string
	// Keys replaces the published keys.
	Keys any
	// Handlers replace endpoints, by path.
	Handlers map[string]http.HandlerFunc
	// ClientKeys verify private_key_jwt.
	ClientKeys *jwa.KeySet
	// Passwords are those of people, by username, for the password grant. nil: there is no such grant.
	Passwords map[string]string
}

// OP is a provider. Its endpoints are /authorize, /token, /userinfo, /jwks, /end and discovery.
type OP struct {
	// URL is the issuer.
	URL string
	// Now is the provider's clock.
	Now func() time.Time

	t testing.TB
	// behave answers first, as a certain provider does. false: it leaves the answer to the rest.
	behave func(w http.ResponseWriter, r *http.Request) bool
	// authenticated says that behave has authenticated the client.
	authenticated bool
	// acr is the acr of an ID token. nil: it has none.
	acr func(asked url.Values) string

	mu       sync.Mutex // guards all below
	front    http.Handler
	script   Script
	grants   map[string]url.Values // by code: the authorization request
	refresh  map[string]url.Values // by refresh token
	access   map[string]bool
	requests map[string][]*http.Request
	forms    map[string][]url.Values
	last     map[string]any  // claims of the last ID token
	seen     map[string]bool // people whose name has been told, and assertions that were used
	keys     Keys
}

// Keys are the signing keys of a provider.
type Keys struct {
	RSA *rsa.PrivateKey
	EC  *ecdsa.PrivateKey
	ID  string // kid of the RSA key; the EC key has .ec after it
}

var pool struct {
	mu   sync.Mutex // guards keys
	keys map[string]Keys
}

// NewKeys returns keys by name, made once per test binary.
func NewKeys(t testing.TB, name string) Keys {
	t.Helper()
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if k, ok := pool.keys[name]; ok {
		return k
	}
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if pool.keys == nil {
		pool.keys = map[string]Keys{}
	}
	pool.keys[name] = Keys{r, e, name}
	return pool.keys[name]
}

// New starts a provider on loopback until the end of the test.
func New(t testing.TB) *OP {
	t.Helper()
	o := &OP{
		Now: time.Now, t: t, grants: map[string]url.Values{}, refresh: map[string]url.Values{},
		access: map[string]bool{}, seen: map[string]bool{},
		requests: map[string][]*http.Request{}, forms: map[string][]url.Values{}, keys: NewKeys(t, "op"), script: Script{Sub: "alice"},
	}
	o.front = http.HandlerFunc(o.serve)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.mu.Lock()
		h := o.front
		o.mu.Unlock()
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	o.URL = srv.URL
	return o
}

// Front puts a handler before the provider, such as a page that people click on.
func (o *OP) Front(before func(provider http.Handler) http.Handler) {
	h := before(http.HandlerFunc(o.serve))
	o.mu.Lock()
	defer o.mu.Unlock()
	o.front = h
}

// Change changes the script.
func (o *OP) Change(f func(*Script)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(&o.script)
}

// SetKeys makes the provider sign with other keys, and publish only those.
func (o *OP) SetKeys(k Keys) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = k
}

// Count returns the number of requests for a path.
func (o *OP) Count(path string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.requests[path])
}

// Last returns the last request to a path and its form, from the query or the body.
func (o *OP) Last(path string) (*http.Request, url.Values) {
	o.t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.requests[path])
	if n == 0 {
		o.t.Fatalf("no request for %s", path)
	}
	return o.requests[path][n-1], o.forms[path][n-1]
}

func (o *OP) serve(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	o.requests[r.URL.Path] = append(o.requests[r.URL.Path], r)
	o.forms[r.URL.Path] = append(o.forms[r.URL.Path], r.Form)
	h := o.script.Handlers[r.URL.Path]
	o.mu.Unlock()
	if h != nil {
		h(w, r)
		return
	}
	if o.behave != nil && o.behave(w, r) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		o.discovery(w)
	case "/jwks":
		o.jwks(w)
	case "/authorize":
		o.authorize(w, r)
	case "/token":
		o.token(w, r)
	case "/userinfo":
		o.userInfo(w, r)
	case "/end":
		back := r.Form.Get("post_logout_redirect_uri")
		if back == "" {
			http.Error(w, "signed out", http.StatusOK)
			return
		}
		http.Redirect(w, r, back+"?"+url.Values{"state": {r.Form.Get("state")}}.Encode(), http.StatusSeeOther)
	default:
		http.NotFound(w, r)
	}
}

func over(base, change map[string]any) map[string]any {
	for name, v := range change {
		if v == nil {
			delete(base, name)
			continue
		}
		base[name] = v
	}
	return base
}

// JSON writes an answer.
func JSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}

func (o *OP) discovery(w http.ResponseWriter) {
	doc := over(map[string]any{
		"issuer": o.URL, "authorization_endpoint": o.URL + "/authorize", "token_endpoint": o.URL + "/token",
		"userinfo_endpoint": o.URL + "/userinfo", "jwks_uri": o.URL + "/jwks", "end_session_endpoint": o.URL + "/end",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256"}, "authorization_response_iss_parameter_supported": true,
	}, o.script.Discovery)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=3600")
	_ = json.NewEncoder(w).Encode(doc) // the client may be gone
}

// Public are the published keys.
func (k Keys) Public() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: k.RSA.Public(), KeyID: k.ID, Use: "sig"},
		{Key: k.EC.Public(), KeyID: k.ID + ".ec", Use: "sig", Algorithm: "ES256"},
	}}
}

func (o *OP) jwks(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/jwk-set+json")
	if o.script.Keys != nil {
		_ = json.NewEncoder(w).Encode(o.script.Keys) // the client may be gone
		return
	}
	_ = json.NewEncoder(w).Encode(o.keys.Public()) // the client may be gone
}

func (o *OP) authorize(w http.ResponseWriter, r *http.Request) {
	back, err := url.Parse(r.Form.Get("redirect_uri"))
	if err != nil || r.Form.Get("client_id") != ClientID || r.Form.Get("response_type") != "code" ||
		r.Form.Get("code_challenge_method") != "S256" {
		http.Error(w, "bad request", http.StatusBadRequest)
		return
	}
	code := rand.Text()
	o.grants[code] = r.Form
	v := url.Values{"code": {code}, "state": {r.Form.Get("state")}, "iss": {o.URL}}
	for name, value := range o.script.Response {
		if v.Del(name); value != "" {
			v.Set(name, value)
		}
	}
	back.RawQuery = v.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

func (o *OP) authenticates(r *http.Request) bool {
	if o.authenticated {
		return true
	}
	if id, password, ok := r.BasicAuth(); ok {
		id, _ = url.QueryUnescape(id)
		password, _ = url.QueryUnescape(password)
		return id == ClientID && password == ClientSecret
	}
	if r.PostForm.Get("client_assertion") != "" && o.script.ClientKeys != nil {
		parsed, err := jose.ParseSignedCompact(r.PostForm.Get("client_assertion"),
			append([]jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.PS256, jose.EdDSA}, jwa.PostQuantum...))
		if err != nil || len(o.script.ClientKeys.Key(parsed.Signatures[0].Header.KeyID)) != 1 {
			return false
		}
		payload, err := parsed.Verify(jwa.Verifier(o.script.ClientKeys.Key(parsed.Signatures[0].Header.KeyID)[0].Key))
		var c struct{ Iss, Sub, Aud, Jti string }
		return err == nil && json.Unmarshal(payload, &c) == nil && c.Iss == ClientID && c.Sub == ClientID && c.Aud == o.URL && c.Jti != ""
	}
	return r.PostForm.Get("client_id") == ClientID && r.PostForm.Get("client_secret") == ClientSecret
}

func (o *OP) token(w http.ResponseWriter, r *http.Request) {
	if !o.authenticates(r) {
		JSON(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	var asked url.Values
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		code := r.PostForm.Get("code")
		asked = o.grants[code]
		delete(o.grants, code)
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) ||
			asked.Get("redirect_uri") != r.PostForm.Get("redirect_uri") {
			asked = nil
		}
	case "password":
		want, known := o.script.Passwords[r.PostForm.Get("username")]
		switch {
		case o.script.Passwords == nil:
			JSON(w, http.StatusBadRequest, map[string]string{"error": "unsupported_grant_type"})
			return
		case known && want == r.PostForm.Get("password"):
			asked = url.Values{}
		}
	case "refresh_token":
		asked = o.refresh[r.PostForm.Get("refresh_token")]
		delete(o.refresh, r.PostForm.Get("refresh_token"))
	}
	if asked == nil {
		JSON(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	access, refresh := rand.Text(), rand.Text()
	o.access[access], o.refresh[refresh] = true, asked
	JSON(w, http.StatusOK, over(map[string]any{
		"access_token": access, "token_type": "Bearer", "expires_in": 300, "refresh_token": refresh, "id_token": o.idToken(asked, access),
	}, o.script.Token))
}

func (o *OP) idToken(asked url.Values, access string) string {
	sum := sha256.Sum256([]byte(access))
	now := o.Now().Unix()
	claims := map[string]any{
		"iss": o.URL, "sub": o.script.Sub, "aud": ClientID, "iat": now, "exp": now + 300, "auth_time": now, "nonce": asked.Get("nonce"),
		"sid": "sid-" + o.script.Sub, "at_hash": base64.RawURLEncoding.EncodeToString(sum[:16]),
	}
	if o.acr != nil {
		claims["acr"] = o.acr(asked)
	}
	claims = over(claims, o.script.IDToken)
	o.last = maps.Clone(claims)
	if o.script.Seal != nil {
		return o.script.Seal(claims)
	}
	return o.keys.Sign(o.t, claims)
}

// Claims returns the claims of the last ID token.
func (o *OP) Claims() map[string]any {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.last)
}

// Sign makes a token with the RSA key.
func (o *OP) Sign(claims map[string]any) string { return o.keys.Sign(o.t, claims) }

// Sign makes a token with the RSA key.
func (k Keys) Sign(t testing.TB, claims any) string {
	return Sign(t, jose.RS256, k.RSA, map[jose.HeaderKey]any{"kid": k.ID}, claims)
}

// Sign makes a token with any key and header.
func Sign(t testing.TB, alg jose.SignatureAlgorithm, key crypto.PrivateKey, header map[jose.HeaderKey]any, claims any) string {
	t.Helper()
	opts := &jose.SignerOptions{}
	for name, v := range header {
		opts = opts.WithHeader(name, v)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: signaturetest.Key(key, alg)}, opts)
	if err != nil {
		t.Fatal(err)
	}
	payload, raw := claims.([]byte)
	if !raw {
		if payload, err = json.Marshal(claims); err != nil {
			t.Fatal(err)
		}
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	out, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Encrypt makes a compact JWE.
func Encrypt(t testing.TB, to jose.Recipient, enc jose.ContentEncryption, zip jose.CompressionAlgorithm, plain string) string {
	t.Helper()
	e, err := jose.NewEncrypter(enc, to, &jose.EncrypterOptions{Compression: zip})
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := e.Encrypt([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	out, err := sealed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (o *OP) userInfo(w http.ResponseWriter, r *http.Request) {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !o.access[token] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	claims := over(map[string]any{
		"sub": o.script.Sub, "name": "Alice Example", "preferred_username": o.script.Sub, "email": o.script.Sub + "@example.org",
		"email_verified": true, "groups": []string{"staff", "admins"}, "address": map[string]any{"locality": "Utrecht"},
	}, o.script.UserInfo)
	if o.script.SealUserInfo != nil {
		w.Header().Set("Content-Type", cmp.Or(o.script.UserInfoMedia, "application/jwt"))
		_, _ = w.Write([]byte(o.script.SealUserInfo(claims))) // the client may be gone
		return
	}
	JSON(w, http.StatusOK, claims)
}

// LogoutToken makes the claims of a logout token and signs them. A nil value in change removes that member.
func (o *OP) LogoutToken(change map[string]any) string {
	now := o.Now().Unix()
	return o.keys.Sign(o.t, o.LogoutClaims(now, change))
}

// LogoutClaims returns the claims of a logout token. (OpenID Connect Back-Channel Logout 2.4)
func (o *OP) LogoutClaims(now int64, change map[string]any) map[string]any {
	return over(map[string]any{
		"iss": o.URL, "aud": ClientID, "iat": now, "exp": now + 120, "jti": rand.Text(), "sub": "alice", "sid": "sid-alice",
		"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}},
	}, change)
}
