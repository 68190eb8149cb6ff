package oidc_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// TestPeers plays what other products have fallen for.
func TestPeers(t *testing.T) {
	t.Parallel()
	t.Run("peer 52: tokens without a time of issue or an expiry", func(t *testing.T) {
		t.Parallel()
		l := open(t)
		for _, claim := range []string{"exp", "iat"} {
			for name, v := range map[string]any{
				"missing": nil, "zero": 0, "negative": -1, "a string": "9999999999", "a boolean": true, "an object": map[string]any{},
				"an array": []any{1}, "beyond all numbers": 1e300,
			} {
				l.op.Change(func(s *oidctest.Script) { s.IDToken = map[string]any{claim: v} })
				if _, err := l.signIn(whenever); !isInvalid(err) {
					t.Errorf("ID token, %s %s: %v, want invalid", claim, name, err)
				}
				h := new(host)
				if w := l.backChannel(t, l.op.LogoutToken(map[string]any{claim: v}), h); w.Code != http.StatusBadRequest || len(h.ended) != 0 {
					t.Errorf("logout token, %s %s: %d, ended %v, want 400", claim, name, w.Code, h.ended)
				}
			}
		}
		l.op.Change(func(s *oidctest.Script) { s.IDToken = nil })
		if _, err := l.signIn(whenever); err != nil {
			t.Errorf("with both: %v", err)
		}
	})
	t.Run("peer 68: at_hash of another access token, under each algorithm", func(t *testing.T) {
		t.Parallel()
		_, edwards, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		keys := oidctest.NewKeys(t, "op")
		for _, tc := range []struct {
			alg jose.SignatureAlgorithm
			key any
			id  string
		}{
			{jose.RS256, keys.RSA, "rsa"},
			{jose.RS384, keys.RSA, "rsa"},
			{jose.RS512, keys.RSA, "rsa"},
			{jose.PS256, keys.RSA, "rsa"},
			{jose.PS512, keys.RSA, "rsa"},
			{jose.ES256, keys.EC, "ec"},
			{jose.EdDSA, edwards, "ed"},
			{jose.HS256, []byte("a secret that is long enough for HMAC"), "rsa"},
		} {
			l := open(t)
			l.op.Change(func(s *oidctest.Script) {
				s.Discovery = map[string]any{"id_token_signing_alg_values_supported": []string{
					"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "EdDSA", "HS256", "none", "RS999",
				}}
				s.Keys = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
					{Key: keys.RSA.Public(), KeyID: "rsa"}, {Key: keys.EC.Public(), KeyID: "ec"}, {Key: edwards.Public(), KeyID: "ed"},
				}}
				s.Seal = func(claims map[string]any) string {
					return oidctest.Sign(t, tc.alg, tc.key, map[jose.HeaderKey]any{"kid": tc.id}, claims)
				}
			})
			for name, hash := range map[string]any{
				"of another": "AAAAAAAAAAAAAAAAAAAAAA", "empty": "", "not text": 1, "an array": []any{},
				"64 bytes": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
			} {
				l.op.Change(func(s *oidctest.Script) { s.IDToken = map[string]any{"at_hash": hash} })
				if _, err := l.signIn(whenever); err == nil {
					t.Errorf("%s, at_hash %s: signed in", tc.alg, name)
				}
			}
			l.op.Change(func(s *oidctest.Script) { s.IDToken = map[string]any{"at_hash": nil} })
			if _, err := l.signIn(whenever); (err == nil) != (tc.alg != jose.HS256) {
				t.Errorf("%s without at_hash: %v", tc.alg, err)
			}
		}
		l := open(t)
		l.op.Change(func(s *oidctest.Script) {
			s.Seal = func(map[string]any) string { return forge(`{"alg":"RS999","kid":"op"}`, `{}`, "x") }
		})
		if _, err := l.signIn(whenever); !isInvalid(err) {
			t.Errorf("an algorithm that nobody knows: %v, want invalid", err)
		}
	})
}
