package jwtresponse_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// recipient is a client with keys for encryption.
type recipient struct {
	*client.Client
	private map[string]crypto.Signer // by kid
}

func newRecipient(t *testing.T, change func(*client.Client)) *recipient {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	r := &recipient{private: map[string]crypto.Signer{"rsa": rsaKey, "ec": ecKey}}
	for _, c := range authztest.World().Clients {
		if c.ID == "shop" {
			r.Client = c
		}
	}
	r.ID = "recipient"
	r.JWKS = &jwa.KeySet{Keys: []jose.JSONWebKey{
		{Key: &newKey(t).PublicKey, KeyID: "for signatures", Use: "sig"},
		{Key: rsaKey.Public(), KeyID: "rsa", Use: "enc"},
		{Key: ecKey.Public(), KeyID: "ec", Use: "enc"},
	}}
	change(r.Client)
	return r
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// open decrypts what was sent to the client, and returns the JWT inside.
func (r *recipient) open(t *testing.T, raw string, how client.Encryption) string {
	t.Helper()
	sealed, err := jose.ParseEncryptedCompact(raw, []jose.KeyAlgorithm{jose.KeyAlgorithm(how.Alg)},
		[]jose.ContentEncryption{jose.ContentEncryption(how.Enc)})
	if err != nil {
		t.Fatalf("%q: %v, want it encrypted by %v", raw, err, how)
	}
	if kind := sealed.Header.ExtraHeaders[jose.HeaderContentType]; kind != "JWT" { // RFC 7519 5.2
		t.Errorf("cty = %v, want JWT", kind)
	}
	inside, err := sealed.Decrypt(r.private[sealed.Header.KeyID])
	if err != nil {
		t.Fatalf("for the key %q: %v", sealed.Header.KeyID, err)
	}
	return string(inside)
}

// TestEncryptedIDToken: a client that asks for it gets ID tokens and answers of userinfo that it alone can read.
func TestEncryptedIDToken(t *testing.T) {
	t.Parallel()
	for _, how := range []client.Encryption{
		{Alg: "RSA-OAEP-256", Enc: "A256GCM"}, {Alg: "ECDH-ES", Enc: "A128CBC-HS256"}, {Alg: "ECDH-ES+A256KW", Enc: "A256GCM"},
	} {
		t.Run(how.Alg, func(t *testing.T) {
			t.Parallel()
			r := newRecipient(t, func(c *client.Client) {
				c.IDTokenEncAlg, c.UserinfoEncAlg, c.UserinfoAlg = how.Alg, how.Alg, "ES256"
				if how.Enc != "A256GCM" {
					c.IDTokenEnc, c.UserinfoEnc = how.Enc, how.Enc
				}
				c.Secrets = nil
				c.Public = true
			})
			h := authztest.New(t, authztest.WithClients(r.Client))
			tokens := h.Tokens("recipient", authztest.Demo)
			inside := r.open(t, tokens.ID, how)
			if claims := authztest.IDClaimsFor(t, h, inside, "recipient"); claims["nonce"] != "the nonce" {
				t.Errorf("ID token = %v", claims)
			}
			res := h.Refresh("recipient", tokens.Refresh)
			if next := res.Text("id_token"); next != "" {
				authztest.IDClaimsFor(t, h, r.open(t, next, how), "recipient")
			}
			info := h.Get("/oauth/userinfo", "Authorization", "Bearer "+tokens.Access)
			if media := info.Header.Get("Content-Type"); info.Status != http.StatusOK || media != "application/jwt" {
				t.Fatalf("userinfo = %d %s %s", info.Status, media, info.Body)
			}
			typ, claims := authztest.ReadSigned(t, h, r.open(t, info.Body, how), jose.ES256)
			if typ != nil || claims["iss"] != h.Issuer || claims["aud"] != "recipient" || claims["sub"] != authztest.Demo {
				t.Errorf("userinfo: typ %v, claims %v", typ, claims)
			}
			// What was decrypted is a hint.
			b := h.Browser(authztest.Guest).SignIn(authztest.Guest)
			if _, answer := b.Authorize("recipient", "prompt", "none", "id_token_hint", inside).Redirect(); answer.Get("error") != "login_required" {
				t.Errorf("with the ID token of another person as a hint = %v", answer)
			}
			h.Invariants(t)
		})
	}
}

// TestSignedUserinfo: without encryption the answer is a signed JWT, and the metadata say what there is.
func TestSignedUserinfo(t *testing.T) {
	t.Parallel()
	h := authztest.New(t)
	h.Restart(func(c *authz.Config) {
		authztest.ChangeClient(c, "shop", func(c *client.Client) { c.UserinfoAlg = "EdDSA" })
	})
	info := h.Get("/oauth/userinfo", "Authorization", "Bearer "+h.Tokens("shop", authztest.Demo, "scope", "openid email").Access)
	if _, claims := authztest.ReadSigned(t, h, info.Body, jose.EdDSA); claims["email"] != "demo@example.com" || claims["aud"] != "shop" {
		t.Errorf("claims = %v", claims)
	}
	if info := h.Get("/oauth/userinfo", "Authorization",
		"Bearer "+h.Tokens("other", authztest.Demo).Access); info.JSON()["sub"] != authztest.Demo {
		t.Errorf("of another client = %s, want JSON", info.Body)
	}
	authztest.WantError(t, "no token", h.Get("/oauth/userinfo"), http.StatusUnauthorized, "invalid_token")
	doc := h.Get("/.well-known/openid-configuration").JSON()
	for member, want := range map[string]string{
		"userinfo_signing_alg_values_supported":    `["RS256","ES256","EdDSA"]`,
		"id_token_encryption_alg_values_supported": `["RSA-OAEP-256","ECDH-ES","ECDH-ES+A256KW"]`,
		"userinfo_encryption_alg_values_supported": `["RSA-OAEP-256","ECDH-ES","ECDH-ES+A256KW"]`,
		"id_token_encryption_enc_values_supported": `["A256GCM","A128CBC-HS256"]`,
		"userinfo_encryption_enc_values_supported": `["A256GCM","A128CBC-HS256"]`,
	} {
		if got, _ := json.Marshal(doc[member]); string(got) != want {
			t.Errorf("%s = %s, want %s", member, got, want)
		}
	}
}

func TestEncryptionValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*client.Client)
		want   string
	}{
		"good": {func(c *client.Client) { c.IDTokenEncAlg = "ECDH-ES" }, ""},
		"both": {func(c *client.Client) {
			c.UserinfoEncAlg, c.UserinfoAlg, c.UserinfoEnc = "RSA-OAEP-256", "RS256", "A128CBC-HS256"
		}, ""},
		"for a URL": {func(c *client.Client) {
			c.IDTokenEncAlg, c.JWKS, c.JWKSURI = "ECDH-ES", nil, "https://x.example.com/jwks"
		}, ""},
		"without keys": {
			func(c *client.Client) { c.IDTokenEncAlg, c.JWKS = "ECDH-ES", nil },
			"jwks is missing: id_token_encryption needs",
		},
		"without a fitting": {
			func(c *client.Client) { c.IDTokenEncAlg = "RSA-OAEP-256"; c.JWKS.Keys = c.JWKS.Keys[:1] },
			"no key of jwks is for RSA-OAEP-256",
		},
		"a key for signatures": {
			func(c *client.Client) { c.IDTokenEncAlg = "ECDH-ES"; c.JWKS.Keys = c.JWKS.Keys[:2] },
			"no key of jwks is for ECDH-ES",
		},
		"RSA1_5": {func(c *client.Client) { c.IDTokenEncAlg = "RSA1_5" }, `id_token_encryption: "RSA1_5" is not one of`},
		"dir": {
			func(c *client.Client) { c.UserinfoEncAlg, c.UserinfoAlg = "dir", "RS256" },
			`userinfo_encryption: "dir" is not one of`,
		},
		"unknown content": {
			func(c *client.Client) { c.IDTokenEncAlg, c.IDTokenEnc = "ECDH-ES", "A1" },
			`id_token_encryption: "A1" is not one of`,
		},
		"content alone":    {func(c *client.Client) { c.IDTokenEnc, c.JWKS = "A256GCM", nil }, "A256GCM needs one of"},
		"not signed":       {func(c *client.Client) { c.UserinfoEncAlg = "ECDH-ES" }, "add userinfo_alg"},
		"keys for nothing": {func(*client.Client) {}, "or remove jwks"},
		"none to sign with": {
			func(c *client.Client) { c.RequestAlg, c.JWKS.Keys = "ES256", c.JWKS.Keys[2:] },
			"jwks: want 1 to 64 public keys for RS256",
		},
	} {
		r := newRecipient(t, c.change)
		err := r.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: Validate = %v, want %q", name, err, c.want)
		}
	}
}

// TestEncryptionAttacks: nothing leaves unencrypted that should be encrypted.
func TestEncryptionAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 435: a client with encryption without a key for it, and a signed answer as an ID token", func(t *testing.T) {
		var keys atomic.Value // []jose.JSONWebKey
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			set, _ := keys.Load().([]jose.JSONWebKey)
			if set == nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: set}) //nolint:errcheck,errchkjson // a test
		}))
		t.Cleanup(web.Close)
		var all []jose.JSONWebKey
		r := newRecipient(t, func(c *client.Client) {
			all = c.JWKS.Keys
			c.IDTokenEncAlg, c.Secrets, c.Public, c.JWKS, c.JWKSURI = "RSA-OAEP-256", nil, true, nil, web.URL+"/jwks"
		})
		h := authztest.New(t, authztest.WithClients(r.Client))
		b := h.Browser(authztest.Demo)
		authztest.WantError(t, "while the keys cannot be fetched", h.Redeem("recipient", b.Code("recipient")), http.StatusServiceUnavailable,
			"temporarily_unavailable")
		keys.Store(all[:1])
		h.Clock.Advance(2 * time.Minute)
		authztest.WantError(t, "with a key for signatures", h.Redeem("recipient", b.Code("recipient")), http.StatusBadRequest, "invalid_request")
		keys.Store(all[2:])
		h.Clock.Advance(16 * time.Minute)
		authztest.WantError(t, "with a key of another kind", h.Redeem("recipient", b.Code("recipient")), http.StatusBadRequest, "invalid_request")
		keys.Store(all)
		h.Clock.Advance(16 * time.Minute)
		r.open(t, b.Tokens("recipient").ID, r.IDTokenEncryption())

		h.Restart(func(c *authz.Config) {
			authztest.ChangeClient(c, "shop", func(c *client.Client) { c.UserinfoAlg = "RS256" })
		})
		guest := h.Get("/oauth/userinfo", "Authorization", "Bearer "+h.Tokens("shop", authztest.Guest).Access).Body
		if _, answer := b.Authorize("shop", "prompt", "none", "id_token_hint", guest).Redirect(); answer.Get("code") == "" {
			t.Errorf("userinfo as a hint = %v, want it to be ignored", answer)
		}
	})
}
