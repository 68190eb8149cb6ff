package introspect_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/caddymodule/introspect"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

const issuer = "https://login.example.com"

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// sign returns a JWT.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kid, typ string, claims any) string {
	t.Helper()
	o := new(jose.SignerOptions).WithHeader("kid", kid)
	if typ != "" {
		o = o.WithType(jose.ContentType(typ))
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestSignedAnswers(t *testing.T) {
	t.Parallel()
	key, other := newKey(t), newKey(t)
	var fetched, rotated atomic.Int64
	l := open(t, func(l *lab, o *introspect.Options) { o.Issuer, o.JWKS = issuer, l.web.URL+"/jwks" })
	const typ = "token-introspection+jwt"
	claims := func(change ...map[string]any) map[string]any {
		out := map[string]any{"iss": issuer, "aud": "ops", "iat": l.time().Unix(), "token_introspection": active()}
		for _, c := range change {
			for name, v := range c {
				if out[name] = v; v == nil {
					delete(out, name)
				}
			}
		}
		return out
	}
	answer := func(body string, kind string) {
		l.change(func() {
			l.answer = func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/jwks" {
					fetched.Add(1)
					public, id := key.Public(), "one"
					if rotated.Load() > 0 {
						public, id = other.Public(), "two"
					}
					write(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: public, KeyID: id, Use: "sig", Algorithm: "ES256"}}})
					return
				}
				w.Header().Set("Content-Type", kind)
				_, _ = w.Write([]byte(body)) // the asker may have left
			}
		})
	}
	const media = "application/token-introspection+jwt"
	good := sign(t, jose.ES256, key, "one", typ, claims())
	answer(good, media)
	l.accepted("signed", "token")
	if accept := l.header.Get("Accept"); accept != media {
		t.Errorf("Accept: %s", accept)
	}
	answer(sign(t, jose.ES256, key, "one", media, claims(map[string]any{"aud": []string{"other", "ops"}})), media)
	l.accepted("with the whole media type and several audiences", "token")
	answer(sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"token_introspection": map[string]any{"active": false}})), media)
	l.refused("signed and inactive", "token")

	parts := strings.Split(good, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"` + typ + `"}`))
	hmacOf, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string]string{
		"alg none": none + "." + parts[1] + ".", "alg none, with the signature": none + "." + parts[1] + "." + parts[2],
		"no signature": parts[0] + "." + parts[1] + ".",
		"the claims of another": parts[0] + "." + strings.Split(sign(t, jose.ES256, other, "one", typ, claims()), ".")[1] +
			"." + parts[2][1:],
		"the key of another":          sign(t, jose.ES256, other, "one", typ, claims()),
		"an unknown key":              sign(t, jose.ES256, other, "three", typ, claims()),
		"the public key as a secret":  sign(t, jose.HS256, hmacOf, "one", typ, claims()),
		"an access token":             sign(t, jose.ES256, key, "one", "at+jwt", claims()),
		"no type":                     sign(t, jose.ES256, key, "one", "", claims()),
		"type JWT":                    sign(t, jose.ES256, key, "one", "JWT", claims()),
		"no aud":                      sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"aud": nil})),
		"aud of another":              sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"aud": "other"})),
		"aud as a number":             sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"aud": []any{"ops", 7}})),
		"no iss":                      sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"iss": nil})),
		"another iss":                 sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"iss": issuer + "/"})),
		"no iat":                      sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"iat": nil})),
		"an answer of the day before": sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"iat": start.Unix() - 86400})),
		"an answer of tomorrow":       sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"iat": start.Unix() + 86400})),
		"an answer that has expired":  sign(t, jose.ES256, key, "one", typ, claims(map[string]any{"exp": start.Unix()})),
		"no token_introspection": sign(t, jose.ES256, key, "one", typ,
			claims(map[string]any{"token_introspection": nil, "active": true, "sub": "alice"})),
		"token_introspection as a text": sign(t, jose.ES256, key, "one", typ,
			claims(map[string]any{"token_introspection": `{"active":true}`})),
		"active as a text": sign(t, jose.ES256, key, "one", typ,
			claims(map[string]any{"token_introspection": map[string]any{"active": "true"}})),
		"JSON in place of a JWT":              `{"active":true}`,
		"nothing":                             "",
		"a JWT in JSON":                       `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"two JWTs":                            good + "." + good,
		"an encrypted one, with as many dots": "e30.e30.e30.e30.e30",
	} {
		answer(raw, media)
		l.failed(name, "token")
	}
	answer(`{"active":true,"sub":"alice"}`, "application/json")
	l.failed("an answer without a signature", "token")
	if n := fetched.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times within a minute", n)
	}

	rotated.Store(1)
	l.turn(time.Minute)
	answer(sign(t, jose.ES256, other, "two", typ, claims()), media)
	l.accepted("signed by the next key", "token")
	answer(sign(t, jose.ES256, key, "one", typ, claims()), media)
	l.failed("signed by a key that has gone", "token")
}

func TestPrivateKeyJWT(t *testing.T) {
	t.Parallel()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pqKey, err := jwa.GeneratePostQuantum("ML-DSA-65")
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[jose.SignatureAlgorithm]crypto.Signer{
		jose.ES256: newKey(t), jose.RS256: rsaKey, jose.EdDSA: edKey, jose.MLDSA65: pqKey,
	} {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			der, err := mldsa.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "ops.pem")
			if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
				t.Fatal(err)
			}
			l := open(t, with(func(o *introspect.Options) { o.Secret, o.Key, o.KeyID, o.Issuer = "", file, "ops-1", issuer }))
			l.says("token", active())
			l.accepted("by a key", "token")
			l.accepted("and again", "token")
			f := l.asked[0]
			signed, err := jose.ParseSignedCompact(f.Get("client_assertion"), []jose.SignatureAlgorithm{name})
			if err != nil {
				t.Fatal(err)
			}
			payload, err := signed.Verify(jwa.Verifier(key.Public()))
			if err != nil {
				t.Fatal(err)
			}
			var claims map[string]any
			if err := json.Unmarshal(payload, &claims); err != nil {
				t.Fatal(err)
			}
			if signed.Signatures[0].Header.KeyID != "ops-1" || claims["iss"] != "ops" || claims["sub"] != "ops" ||
				claims["aud"] != issuer || claims["jti"] == "" ||
				claims["exp"] != float64(start.Unix()+60) {
				t.Errorf("the assertion says %v", claims)
			}
			if f.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || f.Has("client_secret") ||
				l.header.Get("Authorization") != "" {
				t.Errorf("form = %v", f)
			}
			if f.Get("client_assertion") == l.asked[1].Get("client_assertion") {
				t.Error("an assertion was sent twice")
			}
		})
	}
}
