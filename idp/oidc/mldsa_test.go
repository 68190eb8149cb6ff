package oidc_test

import (
	"crypto"
	"errors"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func postQuantum(t *testing.T, alg jose.SignatureAlgorithm) *mldsa.PrivateKey {
	t.Helper()
	key, err := jwa.GeneratePostQuantum(string(alg))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signsWith makes the provider sign ID tokens with a key, and publish it.
func (l *lab) signsWith(alg jose.SignatureAlgorithm, key crypto.Signer, published jose.JSONWebKey, change map[string]any) {
	l.op.Change(func(s *oidctest.Script) {
		s.Discovery = map[string]any{"id_token_signing_alg_values_supported": []jose.SignatureAlgorithm{alg}}
		s.Keys, s.IDToken = jwa.KeySet{Keys: []jose.JSONWebKey{published}}, change
		s.Seal = func(claims map[string]any) string {
			return oidctest.Sign(l.t, alg, key, map[jose.HeaderKey]any{"kid": published.KeyID}, claims)
		}
	})
}

// TestPostQuantumProvider: a provider signs ID tokens with ML-DSA, and knows us by a key of ML-DSA.
func TestPostQuantumProvider(t *testing.T) {
	t.Parallel()
	for _, alg := range jwa.PostQuantum {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			l := open(t, func(c *oidc.Config) {
				c.AuthMethod, c.ClientSecret, c.Key = oidc.AuthPrivateKey, secret.String{}, "signer"
			})
			l.key = postQuantum(t, alg)
			ours := l.published()
			if len(ours.Keys) != 1 || ours.Keys[0].KeyID == "" || ours.Keys[0].Use != "sig" || !jwa.Suits(ours.Keys[0].Key, string(alg)) {
				t.Fatalf("our jwks = %+v, want one key for %s", ours.Keys, alg)
			}
			key := postQuantum(t, alg)
			public := jose.JSONWebKey{Key: key.Public(), KeyID: "pq", Use: "sig", Algorithm: string(alg)}
			const access = "an-access-token"
			l.signsWith(alg, key, public, map[string]any{"at_hash": jwa.TokenHash(string(alg), access)})
			l.op.Change(func(s *oidctest.Script) {
				s.ClientKeys, s.Token = ours, map[string]any{"access_token": access}
				s.Discovery["userinfo_endpoint"] = nil
				s.Discovery["token_endpoint_auth_signing_alg_values_supported"] = []jose.SignatureAlgorithm{alg}
			})
			if _, err := l.signIn(whenever); err != nil {
				t.Fatal(err)
			}
			l.op.Change(func(s *oidctest.Script) { s.Token = map[string]any{"access_token": "another"} })
			if _, err := l.signIn(whenever); kind(err) != "invalid" || !strings.Contains(err.Error(), "at_hash") {
				t.Errorf("at_hash of another access token: %v, want invalid", err)
			}
		})
	}
}

func TestPostQuantumAttacks(t *testing.T) {
	t.Parallel()
	small, large := postQuantum(t, jose.MLDSA44), postQuantum(t, jose.MLDSA65)
	ec := oidctest.NewKeys(t, "op").EC
	published := jose.JSONWebKey{Key: small.Public(), KeyID: "pq", Use: "sig"}
	t.Run("attack 2684: an ID token of a provider by a key that it has not published for the algorithm", func(t *testing.T) {
		t.Parallel()
		for name, tt := range map[string]struct {
			alg jose.SignatureAlgorithm
			key crypto.Signer
		}{
			"of another parameter set":      {jose.MLDSA65, large},
			"of a stranger":                 {jose.MLDSA44, postQuantum(t, jose.MLDSA44)},
			"of a curve under the same kid": {jose.ES256, ec},
		} {
			l := open(t)
			l.signsWith(tt.alg, tt.key, published, nil)
			if _, err := l.signIn(whenever); err == nil {
				t.Errorf("an ID token by a key %s was accepted", name)
			}
		}
		l := open(t)
		l.signsWith(jose.MLDSA44, small, published, nil)
		l.op.Change(func(s *oidctest.Script) {
			s.Discovery = map[string]any{"id_token_signing_alg_values_supported": []string{"ES256"}}
		})
		if _, err := l.signIn(whenever); kind(err) != "invalid" {
			t.Errorf("an algorithm that the metadata do not name: %v, want invalid", err)
		}
	})
	t.Run("a key that only signs is not one that decrypts, and none that the provider cannot verify is used", func(t *testing.T) {
		t.Parallel()
		l := open(t, func(c *oidc.Config) { c.Decrypt = []string{"signer"} })
		l.key = small
		unfit := new(idp.UnfitKey)
		if err := l.CheckKeys(t.Context()); !errors.As(err, &unfit) || !strings.Contains(err.Error(), "only signs") {
			t.Errorf("CheckKeys with a key of ML-DSA that decrypts = %v, want UnfitKey", err)
		}
		l = open(t, func(c *oidc.Config) {
			c.AuthMethod, c.ClientSecret, c.Key = oidc.AuthPrivateKey, secret.String{}, "signer"
		})
		l.key = small
		l.op.Change(func(s *oidctest.Script) {
			s.Discovery = map[string]any{"token_endpoint_auth_signing_alg_values_supported": []string{"RS256", "ML-DSA-65"}}
		})
		if _, err := l.signIn(whenever); err == nil || !strings.Contains(err.Error(), "no algorithm that the provider accepts") {
			t.Errorf("a provider that does not take ML-DSA-44: %v", err)
		}
	})
}
