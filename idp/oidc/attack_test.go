package oidc_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// refuses signs in and wants the answer refused as invalid.
func (l *lab) refuses(what string) {
	l.t.Helper()
	if got, err := l.signIn(whenever); !isInvalid(err) {
		l.t.Errorf("%s: %+v, %v, want invalid", what, got, err)
	}
}

// accepts is the control: the same sign-in without the attack.
func (l *lab) accepts(what string) {
	l.t.Helper()
	if _, err := l.signIn(whenever); err != nil {
		l.t.Errorf("%s: %v, want a sign-in", what, err)
	}
}

func (l *lab) idToken(change map[string]any) {
	l.op.Change(func(s *oidctest.Script) { s.IDToken = change })
}

func (l *lab) seal(f func(claims map[string]any) string) {
	l.op.Change(func(s *oidctest.Script) { s.Seal = f })
}

func TestAttackIDTokens(t *testing.T) {
	t.Parallel()
	t.Run("attack 112: the nonce is missing, another one, of another sign-in, there twice", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		l.accepts("control")
		earlier := l.op.Claims()["nonce"]
		for _, nonce := range []any{nil, "", "other", earlier, []string{"x"}, 7} {
			l.idToken(map[string]any{"nonce": nonce})
			l.refuses(fmt.Sprintf("nonce %v", nonce))
		}
		l.idToken(nil)
		l.seal(func(c map[string]any) string {
			return signRaw(t, l, fmt.Sprintf(`,"nonce":%q`, c["nonce"]), c)
		})
		l.refuses("nonce twice")
	})
	t.Run("attack 113: aud names a foreign client beside us, azp is foreign or missing", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		us := oidctest.ClientID
		for _, change := range []map[string]any{
			{"aud": "other"},
			{"aud": []string{"other"}},
			{"aud": []string{}},
			{"aud": nil},
			{"aud": []any{us, 7}},
			{"aud": us + " "},
			{"aud": strings.ToUpper(us)},
			{"aud": []string{us, "other"}},
			{"aud": []string{us, "other"}, "azp": us},
			{"aud": []string{us, "other"}, "azp": "other"},
			{"aud": us, "azp": "other"},
			{"aud": us, "azp": ""},
			{"aud": us, "azp": 7},
		} {
			l.idToken(change)
			l.refuses(fmt.Sprintf("%v", change))
		}
		l.idToken(map[string]any{"aud": []string{us}, "azp": us})
		l.accepts("an array of us alone")

		l = open(t, func(c *oidc.Config) { c.Audiences = []string{"trusted"} })
		for _, change := range []map[string]any{
			{"aud": []string{us, "trusted"}}, {"aud": []string{us, "trusted"}, "azp": "trusted"}, {"aud": []string{"trusted"}, "azp": us},
		} {
			l.idToken(change)
			l.refuses(fmt.Sprintf("%v", change))
		}
		l.idToken(map[string]any{"aud": []string{us, "trusted"}, "azp": us})
		l.accepts("a trusted audience in addition to us")
	})
	t.Run("attack 114: iss is another than that of the metadata, the metadata's another than the configuration's", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		for _, iss := range []any{nil, "https://evil.example", l.op.URL + "/", strings.ToUpper(l.op.URL), []string{l.op.URL}} {
			l.idToken(map[string]any{"iss": iss})
			l.refuses(fmt.Sprintf("iss %v", iss))
		}
		for _, iss := range []any{nil, "https://evil.example", l.op.URL + "/", 7} {
			l := open(t)
			l.op.Change(func(s *oidctest.Script) { s.Discovery = map[string]any{"issuer": iss} })
			if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName}); err == nil {
				t.Errorf("metadata of issuer %v are taken", iss)
			}
		}
	})
	t.Run("attack 121: the same sub at two providers", func(t *testing.T) {
		t.Parallel()
		a, b := openAs(t, "a", oidctest.New(t)), openAs(t, "b", oidctest.New(t))
		one, err := a.signIn(whenever)
		if err != nil {
			t.Fatal(err)
		}
		two, err := b.signIn(whenever)
		if err != nil {
			t.Fatal(err)
		}
		if one.Subject != two.Subject || one.Issuer == two.Issuer {
			t.Errorf("identities %q at %q and %q at %q: the issuer must tell them apart", one.Subject, one.Issuer, two.Subject, two.Issuer)
		}
	})
	t.Run("attack 119: userinfo of somebody else", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		for _, sub := range []any{"bob", nil, "", "Alice", []string{"alice"}} {
			l.op.Change(func(s *oidctest.Script) { s.UserInfo = map[string]any{"sub": sub} })
			l.refuses(fmt.Sprintf("sub %v", sub))
		}
	})
	t.Run("attack 107: another token in the place of the ID token", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		keys := oidctest.NewKeys(t, "op")
		for _, typ := range []string{"at+jwt", "logout+jwt", "application/at+jwt", "AT+JWT", "dpop+jwt"} {
			l.seal(func(c map[string]any) string {
				return oidctest.Sign(t, jose.RS256, keys.RSA, map[jose.HeaderKey]any{"kid": keys.ID, "typ": typ}, c)
			})
			l.refuses("typ " + typ)
		}
		l.seal(nil)
		now := l.clock.Now().Unix()
		for name, change := range map[string]map[string]any{
			"expired": {"exp": now - 1}, "expires now": {"exp": now}, "no exp": {"exp": nil}, "no iat": {"iat": nil},
			"from the future": {"iat": now + 61, "exp": now + 300},
			"not yet valid":   {"nbf": now + 61}, "exp before iat": {"iat": now + 50, "exp": now + 40}, "no sub": {"sub": nil},
			"empty sub":           {"sub": ""},
			"sub with a line end": {"sub": "a\nb"}, "huge sub": {"sub": strings.Repeat("x", 2000)}, "exp as text": {"exp": fmt.Sprint(now + 300)},
			"at_hash of another token": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "at_hash of another type": {"at_hash": 7},
		} {
			l.idToken(change)
			l.refuses(name)
		}
	})
}

// signRaw signs claims with text inserted before the last brace, which JSON libraries would not write.
func signRaw(t *testing.T, l *lab, more string, claims map[string]any) string {
	raw, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
	}
	keys := oidctest.NewKeys(t, "op")
	return oidctest.Sign(t, jose.RS256, keys.RSA, map[jose.HeaderKey]any{"kid": keys.ID}, append(raw[:len(raw)-1], more+"}"...))
}

func TestAttackKeys(t *testing.T) {
	t.Parallel()
	t.Run("attack 111: key ids that are paths, queries, huge or unknown, a thousand times", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		l.accepts("control")
		before := l.op.Count("/jwks")
		var wg sync.WaitGroup
		for i := range 1000 {
			kid := []string{"../../dev/null", "' OR 1=1--", strings.Repeat("k", 10<<10), fmt.Sprintf("unknown-%d", i)}[i%4]
			wg.Go(func() {
				header, _ := json.Marshal(map[string]any{"alg": "RS256", "kid": kid}) // strings always marshal
				w := l.backChannel(t, forge(string(header), `{"iss":"x"}`, "x"), new(host))
				if w.Code != http.StatusBadRequest {
					t.Errorf("kid %.40q: status %d, want 400", kid, w.Code)
				}
			})
		}
		wg.Wait()
		l.clock.Advance(61 * time.Second)
		for range 100 {
			l.backChannel(t, forge(`{"alg":"RS256","kid":"unknown"}`, `{}`, "x"), new(host))
		}
		if n := l.op.Count("/jwks") - before; n > 1 {
			t.Errorf("jwks were fetched %d times in a minute, want at most once", n)
		}
		l.accepts("afterwards")
	})
	t.Run("algorithm confusion: none, a secret that is public, an algorithm that was not announced", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		keys := oidctest.NewKeys(t, "op")
		der, err := x509.MarshalPKIXPublicKey(keys.RSA.Public())
		if err != nil {
			t.Fatal(err)
		}
		jwk, err := json.Marshal(keys.Public().Keys[0])
		if err != nil {
			t.Fatal(err)
		}
		modulus := keys.RSA.N.Bytes()
		secrets := map[string][]byte{
			"PEM": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), "DER": der, "JWK": jwk, "modulus": modulus,
			"client secret": []byte(oidctest.ClientSecret), "nothing": {},
		}
		for name, key := range secrets {
			l.seal(func(c map[string]any) string { return hs256(c, keys.ID, key) })
			l.refuses("HS256 with " + name)
		}
		for _, alg := range []string{"none", "None", "nOnE", "", "HS256", "RS1", "ES256K"} {
			l.seal(func(c map[string]any) string {
				payload, _ := json.Marshal(c) // it came from JSON
				return forge(fmt.Sprintf(`{"alg":%q,"kid":%q}`, alg, keys.ID), string(payload), "")
			})
			l.refuses("alg " + alg)
		}
		for name, f := range map[string]func(map[string]any) string{
			"PS256, which was not announced": func(c map[string]any) string {
				return oidctest.Sign(t, jose.PS256, keys.RSA, map[jose.HeaderKey]any{"kid": keys.ID}, c)
			},
			"ES256 under the name of the RSA key": func(c map[string]any) string {
				return oidctest.Sign(t, jose.ES256, keys.EC, map[jose.HeaderKey]any{"kid": keys.ID}, c)
			},
			"RS256 under the name of the EC key": func(c map[string]any) string {
				return oidctest.Sign(t, jose.RS256, keys.RSA, map[jose.HeaderKey]any{"kid": keys.ID + ".ec"}, c)
			},
		} {
			l.seal(f)
			l.refuses(name)
		}
		l.seal(func(c map[string]any) string {
			return oidctest.Sign(t, jose.ES256, keys.EC, map[jose.HeaderKey]any{"kid": keys.ID + ".ec"}, c)
		})
		l.accepts("ES256 by its own key")
	})
	t.Run("key confusion: the token brings or names its key by jwk, jku, x5u, x5c, or another's kid", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		evil, mallory := oidctest.New(t), oidctest.NewKeys(t, "mallory")
		keys := oidctest.NewKeys(t, "op")
		public := jose.JSONWebKey{Key: mallory.RSA.Public(), KeyID: keys.ID}
		for name, header := range map[string]map[jose.HeaderKey]any{
			"jwk": {"kid": keys.ID, "jwk": public}, "jwk without kid": {"jwk": public}, "jku": {"kid": keys.ID, "jku": evil.URL + "/jwks"},
			"x5u": {"kid": keys.ID, "x5u": evil.URL + "/x5u"}, "x5c": {"kid": keys.ID, "x5c": []string{"AAAA"}},
			"kid of its own":     {"kid": "mallory"},
			"the provider's kid": {"kid": keys.ID}, "kid that is an address": {"kid": evil.URL + "/jwks"},
		} {
			l.seal(func(c map[string]any) string { return oidctest.Sign(t, jose.RS256, mallory.RSA, header, c) })
			l.refuses(name)
		}
		if n := evil.Count("/jwks") + evil.Count("/x5u"); n != 0 {
			t.Errorf("the attacker's server was asked %d times", n)
		}
		l.seal(func(c map[string]any) string { return oidctest.Sign(t, jose.RS256, keys.RSA, nil, c) })
		l.accepts("no kid, where one key alone can have signed")
		l.clock.Advance(2 * time.Hour)
		l.op.Change(func(s *oidctest.Script) {
			s.Keys = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: keys.RSA.Public(), KeyID: "one"}, {Key: mallory.RSA.Public(), KeyID: "two"}}}
		})
		if _, err := l.signIn(whenever); err != nil && !isInvalid(err) {
			t.Fatal(err)
		}
		await(t, "the new keys", func() bool { _, err := l.signIn(whenever); return isInvalid(err) })
		l.refuses("no kid, where it could be either key")
	})
	t.Run("keys that are no keys for signatures: private, symmetric, short, for encryption, another's algorithm", func(t *testing.T) {
		t.Parallel()
		keys := oidctest.NewKeys(t, "op")
		for name, k := range map[string]any{
			"private":              jose.JSONWebKey{Key: keys.RSA, KeyID: keys.ID},
			"for encryption":       jose.JSONWebKey{Key: keys.RSA.Public(), KeyID: keys.ID, Use: "enc"},
			"of another algorithm": jose.JSONWebKey{Key: keys.RSA.Public(), KeyID: keys.ID, Algorithm: "PS512"},
			"symmetric":            map[string]any{"kty": "oct", "k": "AAAA", "kid": keys.ID},
			"with a small exponent": map[string]any{
				"kty": "RSA", "e": "AQ", "n": base64.RawURLEncoding.EncodeToString(keys.RSA.N.Bytes()), "kid": keys.ID,
			},
			"off the curve": map[string]any{
				"kty": "EC", "crv": "P-256", "kid": keys.ID, "x": base64.RawURLEncoding.EncodeToString(make([]byte, 32)),
				"y": base64.RawURLEncoding.EncodeToString(make([]byte, 32)),
			},
		} {
			l := open(t)
			l.op.Change(func(s *oidctest.Script) { s.Keys = map[string]any{"keys": []any{k}} })
			if got, err := l.signIn(whenever); err == nil {
				t.Errorf("a key that is %s: signed in as %+v", name, got)
			}
		}
		short, err := rsa.GenerateKey(rand.Reader, 1024)
		if err != nil {
			t.Fatal(err)
		}
		l := open(t)
		l.op.SetKeys(oidctest.Keys{RSA: short, EC: keys.EC, ID: "short"})
		l.refuses("a short key")
	})
}

func hs256(claims map[string]any, kid string, key []byte) string {
	payload, _ := json.Marshal(claims) // it came from JSON
	head := forge(fmt.Sprintf(`{"alg":"HS256","kid":%q}`, kid), string(payload), "")
	m := hmac.New(sha256.New, key)
	m.Write([]byte(strings.TrimSuffix(head, ".")))
	return head + base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

func TestAttackCallbacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 117: a callback again, without a flow, with a broken state, with markup in its error", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		next := l.begin(whenever)
		back := l.walk(next)
		if _, err := l.Finish(t.Context(), next.State, httptest.NewRequest(http.MethodGet, back, nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Finish(t.Context(), next.State, httptest.NewRequest(http.MethodGet, back, nil)); !isInvalid(err) {
			t.Errorf("the same code again: %v, want invalid", err)
		}
		if _, err := l.Finish(t.Context(), nil, httptest.NewRequest(http.MethodGet, back, nil)); !isInvalid(err) {
			t.Errorf("an answer to no flow: %v, want invalid", err)
		}
		for _, state := range []string{
			"short", strings.Repeat("x", 81), strings.Repeat("x", 30) + "<script>", strings.Repeat("é", 30),
			strings.Repeat("x", 30) + "\n",
		} {
			if _, err := l.FlowOf(edit(back, func(v url.Values) { v.Set("state", state) })); !isInvalid(err) {
				t.Errorf("FlowOf with state %q: %v, want invalid", state, err)
			}
		}
		for name, change := range map[string]func(url.Values){
			"state twice": func(v url.Values) { v.Add("state", flowName) }, "code twice": func(v url.Values) { v.Add("code", "x") },
			"iss twice": func(v url.Values) { v.Add("iss", l.op.URL) }, "code and error": func(v url.Values) { v.Set("error", "access_denied") },
			"no code": func(v url.Values) { v.Del("code") }, "huge code": func(v url.Values) { v.Set("code", strings.Repeat("c", 9<<10)) },
			"an ID token of the browser's":     func(v url.Values) { v.Set("id_token", "x") },
			"an access token of the browser's": func(v url.Values) { v.Set("access_token", "x") },
		} {
			again := l.begin(whenever)
			asked := l.op.Count("/token")
			if _, err := l.Finish(t.Context(), again.State, edit(l.walk(again), change)); !isInvalid(err) || l.op.Count("/token") != asked {
				t.Errorf("%s: %v, want invalid before the token endpoint is asked", name, err)
			}
		}
	})
	t.Run("mix-up: the answer of one provider in the flow of another", func(t *testing.T) {
		t.Parallel()
		honest, evil := openAs(t, "honest", oidctest.New(t)), openAs(t, "evil", oidctest.New(t))
		evil.clock.Advance(honest.clock.Now().Sub(evil.clock.Now()))
		// the person chose evil, which sends the browser on to honest as a request of our client there
		started := evil.begin(whenever)
		code := honest.walk(honest.begin(whenever))
		for name, change := range map[string]func(url.Values){
			"as it came": func(url.Values) {}, "without iss": func(v url.Values) { v.Del("iss") },
			"with an empty iss": func(v url.Values) { v.Set("iss", "") },
			"an error":          func(v url.Values) { v.Del("code"); v.Set("error", "access_denied") },
		} {
			if _, err := evil.Finish(t.Context(), started.State, edit(code, change)); !isInvalid(err) {
				t.Errorf("%s: %v, want invalid", name, err)
			}
		}
		if n := evil.op.Count("/token"); n != 0 {
			t.Errorf("evil was given the code %d times", n)
		}
		if _, err := honest.Finish(t.Context(), started.State, httptest.NewRequest(http.MethodGet, code, nil)); !isInvalid(err) ||
			honest.op.Count("/token") != 0 {
			t.Errorf("the state of one provider at another: %v, want invalid before a code is redeemed", err)
		}
		quiet := open(t)
		quiet.op.Change(func(s *oidctest.Script) {
			s.Discovery, s.Response = map[string]any{"authorization_response_iss_parameter_supported": nil}, map[string]string{"iss": ""}
		})
		quiet.accepts("a provider that announces no iss")
		quiet.op.Change(func(s *oidctest.Script) { s.Response = map[string]string{"iss": honest.op.URL} })
		quiet.refuses("another's iss where none was announced")
	})
}

func TestAttackTokenResponses(t *testing.T) {
	t.Parallel()
	t.Run("attack 123: no ID token, two of them, names that are there twice", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		l.op.Change(func(s *oidctest.Script) { s.Token = map[string]any{"id_token": nil} })
		l.refuses("no ID token")
		for name, change := range map[string]map[string]any{
			"an array of them": {"id_token": []string{"a.b.c", "d.e.f"}}, "no access token": {"access_token": nil},
			"another token type":              {"token_type": "mac"},
			"an access token with a line end": {"access_token": "a\r\nX-Evil: 1"},
		} {
			l.op.Change(func(s *oidctest.Script) { s.Token = change })
			if _, err := l.signIn(whenever); err == nil {
				t.Errorf("%s: signed in", name)
			}
		}
		l.op.Change(func(s *oidctest.Script) {
			s.Token, s.Handlers = nil, map[string]http.HandlerFunc{"/token": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"access_token":"a","token_type":"Bearer","id_token":"a.b.c","id_token":"a.b.c"}`)
			}}
		})
		if _, err := l.signIn(whenever); err == nil {
			t.Error("two ID tokens: signed in")
		}
		l.op.Change(func(s *oidctest.Script) { s.Handlers = nil })
		for _, more := range []string{
			`,"sub":"bob"`, `,"iss":"https://evil.example"`, `,"x":{"a":1,"a":2}`,
			`,"x":[{"a":1,"a":2}]`, `,"\u0073ub":"bob"`,
		} {
			l.seal(func(c map[string]any) string { return signRaw(t, l, more, c) })
			l.refuses("ID token with " + more)
		}
		l.seal(func(c map[string]any) string { return signRaw(t, l, `,"Sub":"bob","SUB":"eve"`, c) })
		if got, err := l.signIn(whenever); err == nil && got.Subject != "alice" {
			t.Errorf("sub in other case: signed in as %q", got.Subject)
		}
		l.seal(nil)
		l.op.Change(func(s *oidctest.Script) {
			s.Handlers = map[string]http.HandlerFunc{"/userinfo": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"sub":"alice","email":"a@example.org","email":"boss@example.org","email_verified":true}`)
			}}
		})
		l.refuses("userinfo with two addresses")
	})
	t.Run("attack 124: PBES2 with a billion rounds, a deflate bomb, an empty key, dir, RSA1_5", func(t *testing.T) {
		t.Parallel()
		l := open(t, func(c *oidc.Config) { c.IDTokenEncryptionRequired = true })
		ours := l.published().Keys[0]
		good := func(c map[string]any) string {
			return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: ours}, jose.A256GCM, jose.NONE, l.op.Sign(c))
		}
		l.seal(good)
		l.accepts("control")
		parts := func(c map[string]any) []string { return strings.Split(good(c), ".") }
		head := func(h string) string { return base64.RawURLEncoding.EncodeToString([]byte(h)) }
		for name, f := range map[string]func(map[string]any) string{
			"PBES2": func(c map[string]any) string {
				p := parts(c)
				p[0] = head(`{"alg":"PBES2-HS256+A128KW","enc":"A128GCM","p2c":1000000000,"p2s":"AAAAAAAAAAAAAAAA"}`)
				return strings.Join(p, ".")
			},
			"dir": func(c map[string]any) string {
				return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.DIRECT, Key: make([]byte, 32)}, jose.A256GCM, jose.NONE, l.op.Sign(c))
			},
			"A256KW with our client secret": func(c map[string]any) string {
				key := sha256.Sum256([]byte(oidctest.ClientSecret))
				return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.A256KW, Key: key[:]}, jose.A256GCM, jose.NONE, l.op.Sign(c))
			},
			"RSA1_5": func(c map[string]any) string {
				return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA1_5, Key: ours}, jose.A256GCM, jose.NONE, l.op.Sign(c))
			},
			"deflate bomb": func(map[string]any) string {
				return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: ours}, jose.A256GCM, jose.DEFLATE, strings.Repeat("a", 10<<20))
			},
			"an honest one, compressed": func(c map[string]any) string {
				return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: ours}, jose.A256GCM, jose.DEFLATE, l.op.Sign(c))
			},
			"an empty encrypted key": func(c map[string]any) string { p := parts(c); p[1] = ""; return strings.Join(p, ".") },
			"an empty everything":    func(c map[string]any) string { return parts(c)[0] + "...." },
			"a short ciphertext":     func(c map[string]any) string { p := parts(c); p[3] = "AA"; return strings.Join(p, ".") },
			"a short tag":            func(c map[string]any) string { p := parts(c); p[4] = p[4][:4]; return strings.Join(p, ".") },
			"an empty iv":            func(c map[string]any) string { p := parts(c); p[2] = ""; return strings.Join(p, ".") },
			"encrypted twice": func(c map[string]any) string {
				return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: ours}, jose.A256GCM, jose.NONE, good(c))
			},
			"encrypted, not signed": func(c map[string]any) string {
				raw, _ := json.Marshal(c)
				return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA_OAEP, Key: ours}, jose.A256GCM, jose.NONE, string(raw))
			},
			"a header with alg twice": func(c map[string]any) string {
				p := parts(c)
				p[0] = head(`{"alg":"dir","alg":"RSA-OAEP","enc":"A256GCM"}`)
				return strings.Join(p, ".")
			},
			"a huge header": func(c map[string]any) string {
				p := parts(c)
				p[0] = head(`{"alg":"RSA-OAEP","enc":"A256GCM","x":"` + strings.Repeat("x", 5000) + `"}`)
				return strings.Join(p, ".")
			},
			"a huge token": func(c map[string]any) string { c["x"] = strings.Repeat("x", 200<<10); return good(c) },
		} {
			l.seal(f)
			if got, err := l.signIn(whenever); err == nil {
				t.Errorf("%s: signed in as %+v", name, got)
			}
		}
		l.key = oidctest.NewKeys(t, "ours").EC
		l.seal(func(c map[string]any) string { // a point that is not on the curve
			zero := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
			return head(`{"alg":"ECDH-ES","enc":"A256GCM","epk":{"kty":"EC","crv":"P-256","x":"`+zero+`","y":"`+zero+`"}}`) +
				"..AAAAAAAAAAAAAAAA.AAAA.AAAAAAAAAAAAAAAAAAAAAA"
		})
		l.refuses("an ephemeral key off the curve")
	})
}
