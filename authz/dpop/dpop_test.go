package dpop_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// userinfo asks with a token by the scheme DPoP.
func userinfo(k authztest.KeyHolder, token string, changes ...dpoptest.Claims) *authztest.Response {
	return k.H.Get("/oauth/userinfo", "Authorization", "DPoP "+token, "DPoP",
		k.Proof("GET", k.H.Issuer+"/oauth/userinfo", token, k.H.Clock.Now(), changes...))
}

func credentials() url.Values { return url.Values{"grant_type": {"client_credentials"}} }

// TestDPoP: a client that proves to have a key gets tokens which open nothing without it. (RFC 9449)
func TestDPoP(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV())
	key := authztest.NewKeyHolder(t, h)
	for _, id := range []string{"spa", "shop", "jwt"} {
		res := key.Token(id, h.CodeForm(id, h.Browser(authztest.Demo).Code(id, "scope", "openid profile")))
		if authztest.WantStatus(t, id, res, http.StatusOK); res.Text("token_type") != "DPoP" {
			t.Errorf("%s: token_type = %q, want DPoP", id, res.Text("token_type"))
		}
		access := res.Text("access_token")
		authztest.WantBound(t, id, h, access, key.JKT)
		authztest.WantStatus(t, id+": userinfo", userinfo(key, access), http.StatusOK)
		authztest.WantStatus(t, id+": userinfo, scheme in lower case",
			h.Get("/oauth/userinfo", "Authorization", "dpop "+access, "DPoP",
				key.Proof("GET", h.Issuer+"/oauth/userinfo?x=1#y", access, h.Clock.Now())), http.StatusOK)
		res = key.Token(id, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {res.Text("refresh_token")}})
		authztest.WantStatus(t, id+": refreshed", res, http.StatusOK)
		authztest.WantBound(t, id+", refreshed", h, res.Text("access_token"), key.JKT)
	}
	authztest.WantBound(t, "a client's own token", h, key.Token("reports", credentials()).Text("access_token"), key.JKT)
	authztest.WantBound(t, "by password", h,
		key.Token("legacy", url.Values{
			"grant_type": {"password"}, "username": {"demo@example.com"}, "password": {authztest.Password},
			"scope": {"openid"},
		}).Text("access_token"), key.JKT)
	begun := authztest.BeginDevice(t, h, "openid")
	h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "allow")
	authztest.WantBound(t, "a device", h,
		key.Token("tv", url.Values{"grant_type": {authztest.DeviceGrant}, "device_code": {begun.Text("device_code")}}).Text("access_token"),
		key.JKT)

	plain := h.Token("reports", credentials())
	if got := plain.Text("token_type"); got != "bearer" {
		t.Errorf("without a proof: token_type = %q, want bearer", got)
	}
	h.Invariants(t)
}

// TestDPoPInJWT: a resource server that reads JWTs itself finds the key in them. (RFC 9449 6.1)
func TestDPoPInJWT(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	key := authztest.NewKeyHolder(t, h)
	parts := strings.Split(key.Token("jwt", credentials()).Text("access_token"), ".")
	var claims struct {
		Confirmation map[string]string `json:"cnf"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(raw, &claims)
	}
	if err != nil || claims.Confirmation["jkt"] != key.JKT {
		t.Errorf("claims = %s, %v, want cnf.jkt %s", raw, err, key.JKT)
	}
}

// TestDPoPAlgorithms: each algorithm of the metadata can be used.
func TestDPoPAlgorithms(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	listed := fmt.Sprint(h.Get("/.well-known/openid-configuration").JSON()["dpop_signing_alg_values_supported"])
	if listed != "[ES256 EdDSA Ed25519 PS256 RS256]" {
		t.Errorf("dpop_signing_alg_values_supported = %s", listed)
	}
	for _, key := range []authztest.KeyHolder{
		authztest.NewKeyHolder(t, h),
		{Key: dpoptest.KeyFor(t, edwards, jose.EdDSA), H: h},
		{Key: dpoptest.KeyFor(t, edwards, jwa.Ed25519), H: h},
		{Key: dpoptest.KeyFor(t, small, jose.PS256), H: h},
		{Key: dpoptest.KeyFor(t, small, jose.RS256), H: h},
	} {
		authztest.WantBound(t, "algorithm", h, key.Token("reports", credentials()).Text("access_token"), key.JKT)
	}
}

// TestDPoPAtTheAliases: a client with a certificate signs the address that the metadata give it, and a proof for the
// issuer is one for another address there. (RFC 8705 5)
func TestDPoPAtTheAliases(t *testing.T) {
	t.Parallel()
	const host = "mtls.example.com"
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.CertificateEndpoints = "https://" + host }))
	key := authztest.NewKeyHolder(t, h)
	ask := func(method, path, origin, token string, headers ...string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, h.Issuer+path, strings.NewReader(credentials().Encode()))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("DPoP", key.Proof(method, origin+path, token, h.Clock.Now()))
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := h.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	form := append([]string{"Content-Type", "application/x-www-form-urlencoded"}, authztest.Basic("reports", authztest.Secret("reports"))...)
	access := key.Token("spa", h.CodeForm("spa", h.Browser(authztest.Demo).Code("spa", "scope", "openid"))).Text("access_token")
	for origin, want := range map[string][2]int{"https://" + host: {200, 200}, h.Issuer: {400, 401}} {
		if got := ask(http.MethodPost, "/oauth/token", origin, "", form...); got != want[0] {
			t.Errorf("token at the alias with a proof for %s = %d, want %d", origin, got, want[0])
		}
		if got := ask(http.MethodGet, "/oauth/userinfo", origin, access, "Authorization", "DPoP "+access); got != want[1] {
			t.Errorf("userinfo at the alias with a proof for %s = %d, want %d", origin, got, want[1])
		}
	}
}

// TestDPoPRequired: of a client that must prove to have a key, nothing is accepted without.
func TestDPoPRequired(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.DPoPRequired = true })
		authztest.ChangeClient(c, "reports", func(c *client.Client) { c.DPoPRequired = true })
	}))
	key := authztest.NewKeyHolder(t, h)
	authztest.WantError(t, "its own token", h.Token("reports", credentials()), 400, "invalid_dpop_proof")
	code := h.Browser(authztest.Demo).Code("shop")
	authztest.WantError(t, "a code", h.Redeem("shop", code), 400, "invalid_dpop_proof")
	res := key.Token("shop", h.CodeForm("shop", code))
	authztest.WantStatus(t, "the code with a proof", res, http.StatusOK)
	authztest.WantError(t, "a refresh token", h.Refresh("shop", res.Text("refresh_token")), 400, "invalid_dpop_proof")
	if !strings.Contains(h.Log(), "proof_missing") {
		t.Error("the log does not say that the proof is missing")
	}
	bad := &client.Client{
		ID: "bad", Public: true, RedirectURIs: []string{"https://bad.example.com/"}, Grants: []string{"implicit"},
		Scopes: []string{"openid"}, DPoPRequired: true,
	}
	if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), "implicit") {
		t.Errorf("a client with the grant implicit: Validate() = %v, want an error about the grant", err)
	}
}

// TestDPoPCode: a request that names a key gives a code for that key alone. (RFC 9449 10)
func TestDPoPCode(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	key, thief := authztest.NewKeyHolder(t, h), authztest.NewKeyHolder(t, h)
	authorize := func(changes ...string) string { return h.Browser(authztest.Demo).Code("spa", changes...) }
	pushed := func(with authztest.KeyHolder, changes ...string) *authztest.Response {
		return h.Call("/oauth/par", "spa", h.Params("spa", changes...), with.ProofFor("/oauth/par")...)
	}
	push := func(changes ...string) string {
		res := pushed(key, changes...)
		if res.Status != http.StatusCreated {
			t.Fatalf("PAR = %d %s, want 201", res.Status, res.Body)
		}
		at := "/oauth/authorize?" + url.Values{"client_id": {"spa"}, "request_uri": {res.Text("request_uri")}}.Encode()
		_, answer := h.Browser(authztest.Demo).Follow(at).Redirect()
		return answer.Get("code")
	}
	for name, begin := range map[string]func() string{
		"dpop_jkt":                         func() string { return authorize("dpop_jkt", key.JKT) },
		"dpop_jkt, after the sign-in page": func() string { return authorize("dpop_jkt", key.JKT, "prompt", "login") },
		"a pushed request with a proof":    func() string { return push() },
		"and with dpop_jkt":                func() string { return push("dpop_jkt", key.JKT) },
	} {
		res := key.Token("spa", h.CodeForm("spa", begin()))
		authztest.WantStatus(t, name, res, http.StatusOK)
		authztest.WantBound(t, name, h, res.Text("access_token"), key.JKT)
		authztest.WantError(t, name+": another key", thief.Token("spa", h.CodeForm("spa", begin())), 400, "invalid_grant")
		code := begin()
		authztest.WantError(t, name+": no proof", h.Redeem("spa", code), 400, "invalid_grant")
		authztest.WantError(t, name+": no second attempt", key.Token("spa", h.CodeForm("spa", code)), 400, "invalid_grant")
	}
	authztest.WantError(t, "a proof of another key than dpop_jkt", pushed(thief, "dpop_jkt", key.JKT), 400, "invalid_dpop_proof")
	if _, answer := h.Browser(authztest.Demo).Authorize("spa", "dpop_jkt", "short").Redirect(); answer.Get("error") != "invalid_request" {
		t.Errorf("a dpop_jkt that is no thumbprint: %v, want invalid_request", answer)
	}
	h.Invariants(t)
}

// TestDPoPNonce: a client whose clock is wrong goes on with a nonce, which every process with the encryption key takes
// for five minutes, and gets the next one in time. (RFC 9449 8)
func TestDPoPNonce(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	key := authztest.NewKeyHolder(t, h)
	wrong := dpoptest.Claims{"iat": h.Clock.Now().Add(-24 * time.Hour).Unix()}
	res := key.Token("reports", credentials(), wrong)
	authztest.WantError(t, "a day behind", res, 400, "use_dpop_nonce")
	nonce := res.Header.Get("DPoP-Nonce")
	if nonce == "" {
		t.Fatal("there is no nonce")
	}
	with := func(nonce string) *authztest.Response {
		return key.Token("reports", credentials(), wrong, dpoptest.Claims{"nonce": nonce})
	}
	res = with(nonce)
	if authztest.WantStatus(t, "with the nonce", res, http.StatusOK); res.Header.Get("DPoP-Nonce") != "" {
		t.Error("a nonce that is new is replaced")
	}
	h.Restart(nil)
	authztest.WantStatus(t, "at another process", with(nonce), http.StatusOK)
	h.Clock.Advance(4 * time.Minute)
	res = with(nonce)
	next := res.Header.Get("DPoP-Nonce")
	if authztest.WantStatus(t, "after four minutes", res, http.StatusOK); next == "" || next == nonce {
		t.Errorf("after four minutes DPoP-Nonce = %q, want a new one", next)
	}
	h.Clock.Advance(time.Minute)
	authztest.WantError(t, "after five minutes", with(nonce), 400, "use_dpop_nonce")
	authztest.WantStatus(t, "the next one", with(next), http.StatusOK)
	if res := key.Token("reports", credentials()); res.Header.Get("DPoP-Nonce") != "" {
		t.Error("a client without a nonce gets one unasked")
	}
}

// TestDPoPFromScripts: a single-page application can send proofs and read nonces.
func TestDPoPFromScripts(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	res := h.Do(http.MethodOptions, "/oauth/token", "", "Origin", "https://spa.example.com", "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "dpop")
	if got := res.Header.Get("Access-Control-Allow-Headers"); !strings.Contains(got, "DPoP") {
		t.Errorf("Access-Control-Allow-Headers = %q, want DPoP among them", got)
	}
	if got := res.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(got, "DPoP-Nonce") {
		t.Errorf("Access-Control-Expose-Headers = %q, want DPoP-Nonce among them", got)
	}
}

// TestDPoPAttacks holds the ways to use what is bound to a key without the key.
func TestDPoPAttacks(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 401: a proof used 50 times at once", func(t *testing.T, h *authztest.Harness) {
		key := authztest.NewKeyHolder(t, h)
		proof := key.ProofFor("/oauth/token")
		wantOnce := func(what string, ask func() *authztest.Response) {
			t.Helper()
			results := make([]*authztest.Response, 50)
			var all sync.WaitGroup
			for i := range results {
				all.Go(func() { results[i] = ask() })
			}
			all.Wait()
			passed := 0
			for _, res := range results {
				if res.Status == http.StatusOK {
					passed++
				} else if res.Text("error") != "invalid_dpop_proof" {
					t.Errorf("%s: %d %s, want invalid_dpop_proof", what, res.Status, res.Body)
				}
			}
			if passed != 1 {
				t.Errorf("%s: %d of 50 passed, want one", what, passed)
			}
		}
		wantOnce("tokens", func() *authztest.Response { return h.Token("reports", credentials(), proof...) })
		h.Restart(nil)
		authztest.WantError(t, "after a restart", h.Token("reports", credentials(), proof...), 400, "invalid_dpop_proof")
		access := key.Token("spa", h.CodeForm("spa", h.Browser(authztest.Demo).Code("spa"))).Text("access_token")
		at := key.Proof("GET", h.Issuer+"/oauth/userinfo", access, h.Clock.Now())
		wantOnce("userinfo", func() *authztest.Response {
			return h.Get("/oauth/userinfo", "Authorization", "DPoP "+access, "DPoP", at)
		})
		h.Clock.Advance(10 * time.Minute)
		h.Sweep()
		authztest.WantError(t, "when storage has forgotten it", h.Token("reports", credentials(), proof...), 400, "use_dpop_nonce")
	})
	authztest.Attack(t, "attack 402: text that is not a proof", func(t *testing.T, h *authztest.Harness) {
		key := authztest.NewKeyHolder(t, h)
		at, now := h.Issuer+"/oauth/token", h.Clock.Now()
		claims := func() dpoptest.Claims { return key.Claims("POST", at, "", now) }
		p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		header := func(changes ...string) dpoptest.Claims {
			out := dpoptest.Claims{"typ": "dpop+jwt", "alg": "ES256", "jwk": key.JWK(false)}
			for i := 0; i < len(changes); i += 2 {
				out[changes[i]] = changes[i+1]
			}
			return out
		}
		private, other, symmetric := header(), header(), header("alg", "HS256")
		private["jwk"], other["jwk"], symmetric["jwk"] = key.JWK(true), dpoptest.NewKey(t).JWK(false),
			dpoptest.Claims{"kty": "oct", "k": "c2VjcmV0"}
		without := header()
		delete(without, "jwk")
		critical := header()
		critical["crit"] = []string{"x"}
		good := key.Proof("POST", at, "", now)
		unsigned := good[:strings.LastIndexByte(good, '.')+1]
		all := map[string]string{
			"empty": "", "no JWT": "x", "three dots": "...", "another typ": key.Sign("JWT", claims()),
			"no typ":   key.Raw(dpoptest.Claims{"alg": "ES256", "jwk": key.JWK(false)}, claims()),
			"alg none": key.Raw(header("alg", "none"), claims()), "alg HS256": key.Raw(symmetric, claims()),
			"alg HS256 with a public key": key.Raw(header("alg", "HS256"), claims()),
			"alg of another kind of key":  key.Raw(header("alg", "RS256"), claims()), "alg EdDSA": key.Raw(header("alg", "EdDSA"), claims()),
			"alg Ed25519": key.Raw(header("alg", "Ed25519"), claims()),
			"ES384":       dpoptest.KeyFor(t, p384, jose.ES384).Sign("dpop+jwt", claims()), "a private key": key.Raw(private, claims()),
			"another key": key.Raw(other, claims()),
			"no key":      key.Raw(without, claims()), "crit": key.Raw(critical, claims()), "no signature": unsigned, "cut": good[:len(good)-2],
			"another signature":         unsigned + "AAAA",
			"claims that are no object": key.Raw(header(), nil), "two in one": good + ", " + good, "long": strings.Repeat("x", 20_000),
			"a signature of another key": unsigned + strings.SplitN(dpoptest.NewKey(t).Proof("POST", at, "", now), ".", 3)[2],
			"other claims":               strings.Replace(good, ".", ".e30", 1),
			"no claims":                  unsigned[:strings.IndexByte(good, '.')+1] + good[len(unsigned)-1:],
		}
		for _, when := range []string{"", ", when the key is known"} {
			for name, proof := range all {
				authztest.WantError(t, name+when, h.Token("reports", credentials(), "DPoP", proof), 400, "invalid_dpop_proof")
			}
			authztest.WantError(t, "two proofs"+when, h.Token("reports", credentials(), "DPoP", good, "DPoP", key.Proof("POST", at, "", now)),
				400, "invalid_dpop_proof")
			authztest.WantStatus(t, "the good one"+when, h.Token("reports", credentials(), "DPoP", good), http.StatusOK)
			good = key.Proof("POST", at, "", now)
		}
	})
	authztest.Attack(t, "attack 403: proofs of something else", func(t *testing.T, h *authztest.Harness) {
		key := authztest.NewKeyHolder(t, h)
		for name, tc := range map[string]struct {
			changes dpoptest.Claims
			code    string
		}{
			"another method": {dpoptest.Claims{"htm": "GET"}, ""}, "a method in lower case": {dpoptest.Claims{"htm": "post"}, ""},
			"no method":             {dpoptest.Claims{"htm": nil}, ""},
			"another path":          {dpoptest.Claims{"htu": h.Issuer + "/oauth/revoke"}, ""},
			"another host":          {dpoptest.Claims{"htu": "https://evil.example.com/oauth/token"}, ""},
			"another scheme":        {dpoptest.Claims{"htu": strings.Replace(h.Issuer, "http:", "https:", 1) + "/oauth/token"}, ""},
			"a path alone":          {dpoptest.Claims{"htu": "/oauth/token"}, ""},
			"a user in the address": {dpoptest.Claims{"htu": strings.Replace(h.Issuer, "//", "//a@", 1) + "/oauth/token"}, ""},
			"no address":            {dpoptest.Claims{"htu": nil}, ""},
			"no jti":                {dpoptest.Claims{"jti": nil}, ""}, "an empty jti": {dpoptest.Claims{"jti": ""}, ""},
			"a long jti": {dpoptest.Claims{"jti": strings.Repeat("x", 1000)}, ""}, "a number as jti": {dpoptest.Claims{"jti": 1}, ""},
			"no iat": {dpoptest.Claims{"iat": nil}, ""}, "a text as iat": {dpoptest.Claims{"iat": "now"}, ""},
			"an iat beyond time":        {dpoptest.Claims{"iat": 1e300}, ""},
			"a minute and a second old": {dpoptest.Claims{"iat": h.Clock.Now().Add(-61 * time.Second).Unix()}, "use_dpop_nonce"},
			"a minute and a second new": {dpoptest.Claims{"iat": h.Clock.Now().Add(61 * time.Second).Unix()}, "use_dpop_nonce"},
			"a nonce of its own":        {dpoptest.Claims{"nonce": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}, "use_dpop_nonce"},
			"a nonce that is no nonce":  {dpoptest.Claims{"nonce": "x"}, "use_dpop_nonce"},
		} {
			if tc.code == "" {
				tc.code = "invalid_dpop_proof"
			}
			authztest.WantError(t, name, key.Token("reports", credentials(), tc.changes), 400, tc.code)
		}
		for name, changes := range map[string]dpoptest.Claims{
			"59 seconds old":                   {"iat": h.Clock.Now().Add(-59 * time.Second).Unix()},
			"59 seconds new":                   {"iat": h.Clock.Now().Add(59 * time.Second).Unix()},
			"a query, a fragment and capitals": {"htu": strings.Replace(h.Issuer, "http:", "HTTP:", 1) + "/oauth/%74oken?a=b#c"},
			"further claims":                   {"exp": 1, "nbf": 1, "foo": "bar"},
		} {
			authztest.WantStatus(t, name, key.Token("reports", credentials(), changes), http.StatusOK)
		}
	})
	authztest.Attack(t, "peer 52: a proof without iat", func(t *testing.T, h *authztest.Harness) {
		authztest.WantError(t, "no iat", authztest.NewKeyHolder(t, h).Token("reports", credentials(), dpoptest.Claims{"iat": nil}),
			400, "invalid_dpop_proof")
	})
	authztest.Attack(t, "attack 404: a bound token without its key", func(t *testing.T, h *authztest.Harness) {
		key, thief := authztest.NewKeyHolder(t, h), authztest.NewKeyHolder(t, h)
		res := key.Token("spa", h.CodeForm("spa", h.Browser(authztest.Demo).Code("spa", "scope", "openid profile")))
		access := res.Text("access_token")
		at := h.Issuer + "/oauth/userinfo"
		proof := func(k authztest.KeyHolder, token string) string { return k.Proof("GET", at, token, h.Clock.Now()) }
		free := h.Tokens("spa", authztest.Demo).Access
		for name, headers := range map[string][]string{
			"as a bearer token":                {"Authorization", "Bearer " + access},
			"as a bearer token with its proof": {"Authorization", "Bearer " + access, "DPoP", proof(key, access)},
			"without a proof":                  {"Authorization", "DPoP " + access},
			"a proof of another key":           {"Authorization", "DPoP " + access, "DPoP", proof(thief, access)},
			"a proof for no token":             {"Authorization", "DPoP " + access, "DPoP", proof(key, "")},
			"a proof for another token":        {"Authorization", "DPoP " + access, "DPoP", proof(key, free)},
			"a free token with a proof":        {"Authorization", "DPoP " + free, "DPoP", proof(thief, free)},
			"an unknown token":                 {"Authorization", "DPoP x", "DPoP", proof(key, "x")},
		} {
			res := h.Get("/oauth/userinfo", headers...)
			challenge := res.Header.Get("WWW-Authenticate")
			if res.Status != http.StatusUnauthorized || !strings.Contains(challenge, `DPoP algs="ES256 EdDSA Ed25519 PS256 RS256"`) ||
				strings.HasPrefix(headers[1], "DPoP") != strings.HasPrefix(challenge, "DPoP ") {
				t.Errorf("%s = %d %s, challenge %q, want 401 and a challenge by the scheme that was used", name, res.Status, res.Body, challenge)
			}
		}
		authztest.WantError(t, "in a form", h.Post("/oauth/userinfo", url.Values{"access_token": {access}}), 401, "invalid_token")
		authztest.WantError(t, "by validation", h.Validate(access), 400, "invalid_grant")
		authztest.WantStatus(t, "its holder", userinfo(key, access), http.StatusOK)
	})
	authztest.Attack(t, "attack 405: a stolen refresh token", func(t *testing.T, h *authztest.Harness) {
		key, thief := authztest.NewKeyHolder(t, h), authztest.NewKeyHolder(t, h)
		first := key.Token("spa", h.CodeForm("spa", h.Browser(authztest.Demo).Code("spa"))).Text("refresh_token")
		if cnf, _ := h.Introspect(first).JSON()["cnf"].(map[string]any); cnf["jkt"] != key.JKT {
			t.Errorf("introspection of the refresh token: cnf = %v, want jkt %s", cnf, key.JKT)
		}
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {first}}
		authztest.WantError(t, "without a proof", h.Refresh("spa", first), 400, "invalid_grant")
		authztest.WantError(t, "with another key", thief.Token("spa", form), 400, "invalid_grant")
		res := key.Token("spa", form)
		authztest.WantStatus(t, "its holder", res, http.StatusOK)
		h.Clock.Advance(time.Minute)
		authztest.WantError(t, "the spent one with another key", thief.Token("spa", form), 400, "invalid_grant")
		authztest.WantStatus(t, "the grant goes on",
			key.Token("spa", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {res.Text("refresh_token")}}), http.StatusOK)

		// A client with credentials can change its key, and the token of a refresh without a proof is bound to none.
		shop := key.Token("shop", h.CodeForm("shop", h.Browser(authztest.Demo).Code("shop")))
		res = thief.Token("shop", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {shop.Text("refresh_token")}})
		authztest.WantBound(t, "another key of a client with credentials", h, res.Text("access_token"), thief.JKT)
		if got := h.Refresh("shop", res.Text("refresh_token")).Text("token_type"); got != "bearer" {
			t.Errorf("refreshed without a proof: token_type = %q, want bearer", got)
		}
	})
}
