package token_test

import (
	"context"
	"crypto/sha3"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

func TestIDToken(t *testing.T) {
	t.Parallel()
	for _, alg := range []string{"RS256", "ES256", "EdDSA"} {
		t.Run(alg, func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.Clients[0].IDTokenAlg = alg }))
			b := h.Browser(authztest.Demo)
			signedIn := h.Clock.Now()
			tokens := b.Tokens("shop")
			h.Clock.Advance(time.Minute)
			claims := authztest.IDClaims(t, h, tokens.ID)
			for name, want := range map[string]any{
				"iss": h.Issuer, "sub": authztest.Demo, "aud": "shop", "azp": "shop", "nonce": "the nonce", "auth_time": float64(signedIn.Unix()),
				"iat": float64(signedIn.Unix()), "exp": float64(signedIn.Add(time.Hour).Unix()), "acr": "urn:gatehouse:level:1", "sid": b.Session(),
			} {
				if claims[name] != want {
					t.Errorf("%s = %v, want %v", name, claims[name], want)
				}
			}
			if amr, err := json.Marshal(claims["amr"]); err != nil || string(amr) != `["pwd"]` {
				t.Errorf("amr = %s, want pwd (RFC 8176)", amr)
			}
			provider, err := oidc.NewProvider(oidc.ClientContext(t.Context(), h.Client), h.Issuer)
			if err != nil {
				t.Fatal(err)
			}
			ctx := oidc.ClientContext(context.Background(), h.Client)
			verified, err := provider.Verifier(&oidc.Config{ClientID: "shop", Now: h.Clock.Now, SupportedSigningAlgs: []string{alg}}).Verify(ctx,
				tokens.ID)
			if err != nil {
				t.Fatalf("Verify with %s alone = %v", alg, err)
			}
			if alg != "EdDSA" { // go-oidc knows no hash for it
				if err := verified.VerifyAccessToken(tokens.Access); err != nil {
					t.Errorf("at_hash: %v", err)
				}
			}
			h.Invariants(t)
		})
	}
}

// TestPostQuantumIDToken: an issuer has keys for ML-DSA, names them and publishes them once a client asks for it.
// (RFC 9964; docs/decisions/tokens.md#post-quantum-signatures)
func TestPostQuantumIDToken(t *testing.T) {
	t.Parallel()
	kinds := func(h *authztest.Harness) (algs, published string) {
		var set struct {
			Keys []struct {
				Alg string `json:"alg"`
				Kty string `json:"kty"`
			} `json:"keys"`
		}
		if err := json.Unmarshal([]byte(h.Get("/oauth/jwks").Body), &set); err != nil {
			t.Fatal(err)
		}
		for _, key := range set.Keys {
			published += key.Kty + " " + key.Alg + ","
		}
		return fmt.Sprint(h.Get("/.well-known/openid-configuration").JSON()["id_token_signing_alg_values_supported"]), published
	}
	if algs, published := kinds(authztest.New(t)); algs != "[RS256 ES256 EdDSA]" || published != "RSA RS256,EC ES256,OKP EdDSA," {
		t.Errorf("nobody asks for ML-DSA: metadata = %s, keys = %s", algs, published)
	}
	for _, alg := range jwa.PostQuantum {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.Clients[0].IDTokenAlg = string(alg) }))
			if algs, published := kinds(h); algs != "[RS256 ES256 EdDSA "+string(alg)+"]" ||
				published != "RSA RS256,EC ES256,OKP EdDSA,AKP "+string(alg)+"," {
				t.Errorf("metadata = %s, keys = %s", algs, published)
			}
			b := h.Browser(authztest.Demo)
			tokens := b.Tokens("shop")
			typ, claims := authztest.ReadSigned(t, h, tokens.ID, alg)
			hash := sha3.SumSHAKE256([]byte(tokens.Access), 64)
			if typ != "JWT" || claims["sub"] != authztest.Demo || claims["at_hash"] != base64.RawURLEncoding.EncodeToString(hash[:32]) {
				t.Errorf("%v ID token = %v", typ, claims)
			}
			if b.Code("shop", "prompt", "none", "id_token_hint", tokens.ID) == "" {
				t.Error("the ID token is no hint")
			}
			end := strings.LastIndexByte(tokens.ID, '.')
			for name, hint := range map[string]string{
				"without a signature": tokens.ID[:end+1], "half of it": tokens.ID[:end+1000], "changed": tokens.ID[:end+1] + "AAAA" + tokens.ID[end+5:],
			} {
				if _, err := h.Keys.Verify(hint, "JWT"); err == nil {
					t.Errorf("%s: Verify = nil error", name)
				}
			}
			h.Invariants(t)
		})
	}
}

// TestIDTokenAfterReauthentication: OpenID Connect Core 3.1.2.1, prompt=login and max_age.
func TestIDTokenAfterReauthentication(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	b := h.Browser(authztest.Demo)
	at := func(with ...string) float64 {
		h.Clock.Advance(2 * time.Second)
		seconds, ok := authztest.IDClaims(t, h, b.Tokens("shop", with...).ID)["auth_time"].(float64)
		if !ok {
			t.Fatal("no auth_time")
		}
		return seconds
	}
	first := at()
	for _, c := range []struct {
		with  []string
		again bool
	}{
		{nil, false},
		{[]string{"max_age", "10000"}, false},
		{[]string{"prompt", "none"}, false},
		{[]string{"max_age", "1"}, true},
		{[]string{"max_age", "0"}, true},
		{[]string{"prompt", "login"}, true},
	} {
		got := at(c.with...)
		if (got > first) != c.again {
			t.Errorf("Authorize(%q): auth_time %v after %v, want a new sign-in: %v", c.with, got, first, c.again)
		}
		first = got
	}
	h.Invariants(t)
}

func TestTokensAreNotEachOther(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	tokens := h.Tokens("shop", authztest.Demo)
	t.Run("attack 107: an ID token is no access token, an access token no ID token", func(t *testing.T) {
		if h.Active(tokens.ID) {
			t.Error("Introspect(ID token) is active")
		}
		if res := h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.ID); res.Status != http.StatusUnauthorized {
			t.Errorf("Userinfo(ID token) = %d, want 401", res.Status)
		}
		hinted := func(what, hint string) {
			// It names no one: a request for the person of the session is answered, no matter whom the hint claims to
			// name.
			if h.Browser(authztest.Guest).SignIn(authztest.Guest).Code("shop", "prompt", "none", "id_token_hint", hint) == "" {
				t.Errorf("%s counts as a hint", what)
			}
		}
		hinted("an access token", tokens.Access)
		parts := strings.Split(tokens.ID, ".")
		for _, forged := range []string{
			"eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0." + parts[1] + ".", parts[0] + "." + parts[1] + ".AAAA", parts[0] + "." + parts[1] + ".",
		} {
			hinted("a forged ID token", forged)
		}
		h.Invariants(t)
	})
}

// TestMethodReferences: amr of an ID token describes the sign-in in the words of RFC 8176.
func TestMethodReferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		words, references []string
		want              string
	}{
		"a passkey":                           {[]string{"FINGER_PRINT"}, nil, `["pop","user","mfa"]`},
		"a password, then a passkey":          {[]string{"DEFAULT", "FINGER_PRINT"}, nil, `["pwd","pop","user","mfa"]`},
		"a password, then an app":             {[]string{"DEFAULT", "CUSTOM_AUTHENTICATOR"}, []string{"otp"}, `["pwd","otp","mfa"]`},
		"a password, then a text message":     {[]string{"DEFAULT", "CUSTOM_AUTHENTICATOR"}, []string{"sms"}, `["pwd","sms","mfa"]`},
		"a password, then a PIN":              {[]string{"DEFAULT", "CUSTOM_AUTHENTICATOR"}, []string{"pin"}, `["pwd","pin"]`},
		"an action token, which has no value": {[]string{"CUSTOM_AUTHENTICATOR"}, nil, `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := authztest.New(t)
			h.People.After(func(r *authn.Result) { r.AMR, r.References, r.Level = c.words, c.references, 3 })
			claims := authztest.IDClaims(t, h, h.Browser(authztest.Demo).Tokens("shop").ID)
			if got, err := json.Marshal(claims["amr"]); err != nil || string(got) != c.want || claims["acr"] != "urn:gatehouse:level:3" {
				t.Errorf("amr = %s and acr = %v, want %s and level 3", got, claims["acr"], c.want)
			}
		})
	}
}
