package jwa_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

// examples are those of RFC 9964, appendix A.1, by their algorithms.
func examples(t *testing.T) map[string]struct {
	JWK map[string]string `json:"jwk"`
	JWS string            `json:"jws"`
} {
	t.Helper()
	raw, err := os.ReadFile("../mldsa/testdata/rfc9964.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		JWK map[string]string `json:"jwk"`
		JWS string            `json:"jws"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestAKP(t *testing.T) {
	t.Parallel()
	all := examples(t)
	for _, alg := range jwa.PostQuantum {
		e := all[string(alg)]
		if key, err := jwa.ReadKey(encode(t, e.JWK)); err != nil || jwa.IsPublic(&key) {
			t.Errorf("%s: a private key is read as %+v, %v, want one that is not public", alg, key, err)
		}
		delete(e.JWK, "priv")
		key, err := jwa.ReadKey(encode(t, e.JWK))
		if err != nil || !jwa.IsPublic(&key) || !jwa.IsValid(&key) || key.Algorithm != string(alg) {
			t.Fatalf("%s: ReadKey = %+v, %v", alg, key, err)
		}
		sum, err := jwa.Thumbprint(key.Key)
		if got := base64.RawURLEncoding.EncodeToString(sum); err != nil || got != e.JWK["kid"] {
			t.Errorf("%s: Thumbprint = %s, %v, want %s", alg, got, err, e.JWK["kid"])
		}
		parsed, err := jose.ParseSignedCompact(e.JWS, jwa.PostQuantum)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := parsed.Verify(jwa.Verifier(key.Key))
		if err != nil || !strings.HasPrefix(string(payload), "It’s a dangerous business, Frodo") {
			t.Errorf("%s: Verify(the signature of the RFC) = %q, %v", alg, payload, err)
		}
		set := jwa.KeySet{Keys: []jose.JSONWebKey{key}}
		var again jwa.KeySet
		if err := json.Unmarshal(encode(t, set), &again); err != nil || len(again.Key(key.KeyID)) != 1 ||
			!again.Keys[0].Key.(*mldsa.PublicKey).Equal(key.Key) { //nolint:forcetypeassert // it panics
			t.Errorf("%s: a set that was written is read as %+v, %v", alg, again, err)
		}
	}
}

// The attack: an algorithm that the key is not for, or a key that is not what it says. (RFC 8725 3.1; RFC 9964 7.3)
func TestAKPConfusion(t *testing.T) {
	t.Parallel()
	all := examples(t)
	pub := all["ML-DSA-44"].JWK["pub"]
	t.Run("attack 3037: a post-quantum key that is not what it says", func(t *testing.T) {
		t.Parallel()
		for name, members := range map[string]map[string]any{
			"no alg":                  {"kty": "AKP", "pub": pub},
			"alg of a curve":          {"kty": "AKP", "alg": "ES256", "pub": pub},
			"alg of a secret":         {"kty": "AKP", "alg": "HS256", "pub": pub},
			"another set":             {"kty": "AKP", "alg": "ML-DSA-65", "pub": pub},
			"another case":            {"kty": "AKP", "ALG": "ML-DSA-44", "pub": pub},
			"no pub":                  {"kty": "AKP", "alg": "ML-DSA-44"},
			"short":                   {"kty": "AKP", "alg": "ML-DSA-44", "pub": pub[:len(pub)-4]},
			"long":                    {"kty": "AKP", "alg": "ML-DSA-44", "pub": pub + "AAAA"},
			"padded":                  {"kty": "AKP", "alg": "ML-DSA-44", "pub": pub + "=="},
			"not base64":              {"kty": "AKP", "alg": "ML-DSA-44", "pub": "#" + pub[1:]},
			"pub is a number":         {"kty": "AKP", "alg": "ML-DSA-44", "pub": 1},
			"another type":            {"kty": "OKP", "crv": "Ed25519", "alg": "ML-DSA-44", "pub": pub},
			"a type in small letters": {"kty": "akp", "alg": "ML-DSA-44", "pub": pub},
		} {
			if key, err := jwa.ReadKey(encode(t, members)); err == nil {
				t.Errorf("%s: ReadKey = %+v, want an error", name, key)
			}
		}
		for _, raw := range []string{
			`{"kty":"AKP","alg":"ML-DSA-44","alg":"ML-DSA-44","pub":"` + pub + `"}`,
		} {
			if key, err := jwa.ReadKey([]byte(raw)); err == nil {
				t.Errorf("ReadKey(%.60s) = %+v, want an error", raw, key)
			}
		}
		for name, private := range map[string]any{"seed": strings.Repeat("A", 43), "expanded": strings.Repeat("A", 3414), "no text": 1} {
			key, err := jwa.ReadKey(encode(t, map[string]any{"kty": "AKP", "alg": "ML-DSA-44", "pub": pub, "priv": private}))
			if err == nil && jwa.IsPublic(&key) {
				t.Errorf("a private key (%s) is read as a public one", name)
			}
		}
	})
	t.Run("attack 7314: a signature of one algorithm for a key of another", func(t *testing.T) {
		t.Parallel()
		private := map[string]any{}
		public := map[string]any{}
		for _, alg := range jwa.PostQuantum {
			key, err := jwa.GeneratePostQuantum(string(alg))
			if err != nil {
				t.Fatal(err)
			}
			private[string(alg)], public[string(alg)] = jwa.Signer(key), key.Public()
		}
		ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		rs, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		private["ES256"], public["ES256"], private["RS256"], public["RS256"] = ec, ec.Public(), rs, rs.Public()
		for alg, key := range private {
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: key}, nil)
			if err != nil {
				t.Fatal(err)
			}
			signed, err := signer.Sign([]byte(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			text, err := signed.CompactSerialize()
			if err != nil {
				t.Fatal(err)
			}
			_, rest, _ := strings.Cut(text, ".")
			for _, said := range []string{"ES256", "RS256", "EdDSA", "ML-DSA-44", "ML-DSA-65", "ML-DSA-87"} {
				header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"` + said + `"}`))
				parsed, err := jose.ParseSignedCompact(header+"."+rest, []jose.SignatureAlgorithm{jose.SignatureAlgorithm(said)})
				if err != nil {
					t.Fatal(err)
				}
				for of, at := range public {
					_, err := parsed.Verify(jwa.Verifier(at))
					if want := said == alg && of == alg; (err == nil) != want {
						t.Errorf("a signature of %s, called %s, at a key for %s: %v, valid = %t, want %t", alg, said, of, err, err == nil, want)
					}
				}
			}
			for of, other := range private {
				_, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: other}, nil)
				if (err == nil) != (of == alg) {
					t.Errorf("a signer of %s with a key for %s: %v", alg, of, err)
				}
			}
		}
	})
}
