package oidc_test

import (
	"crypto"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/oidc"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

func TestEncrypted(t *testing.T) {
	t.Parallel()
	both := func(c *oidc.Config) { c.IDTokenEncryptionRequired, c.UserInfoEncryptionRequired = true, true }
	ours := oidctest.NewKeys(t, "ours")
	for alg, key := range map[jose.KeyAlgorithm]crypto.Signer{
		jose.RSA_OAEP: ours.RSA, jose.RSA_OAEP_256: ours.RSA, jose.ECDH_ES: ours.EC, jose.ECDH_ES_A128KW: ours.EC, jose.ECDH_ES_A256KW: ours.EC,
	} {
		for _, enc := range []jose.ContentEncryption{jose.A128GCM, jose.A256GCM, jose.A128CBC_HS256, jose.A256CBC_HS512} {
			t.Run(string(alg)+" "+string(enc), func(t *testing.T) {
				t.Parallel()
				l := open(t, both)
				l.key = key
				keys := l.published()
				seal := func(claims map[string]any) string {
					return oidctest.Encrypt(t, jose.Recipient{Algorithm: alg, Key: keys.Keys[0]}, enc, jose.NONE, l.op.Sign(claims))
				}
				l.op.Change(func(s *oidctest.Script) { s.Seal, s.SealUserInfo = seal, seal })
				if got, err := l.signIn(whenever); err != nil || got.Email != "alice@example.org" {
					t.Errorf("identity = %+v, %v", got, err)
				}
			})
		}
	}
}

func TestEncryptionRequired(t *testing.T) {
	t.Parallel()
	l := open(t, func(c *oidc.Config) { c.IDTokenEncryptionRequired = true })
	if _, err := l.signIn(whenever); !isInvalid(err) {
		t.Errorf("plain ID token: %v, want invalid", err)
	}
	l = open(t, func(c *oidc.Config) { c.UserInfoEncryptionRequired = true })
	if _, err := l.signIn(whenever); !isInvalid(err) {
		t.Errorf("plain userinfo: %v, want invalid", err)
	}
	l.op.Change(func(s *oidctest.Script) { s.SealUserInfo = l.op.Sign })
	if _, err := l.signIn(whenever); !isInvalid(err) {
		t.Errorf("signed userinfo: %v, want invalid", err)
	}
	key := l.published().Keys[0]
	plain := open(t)
	plain.op.Change(func(s *oidctest.Script) {
		s.Seal = func(claims map[string]any) string {
			return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: key}, jose.A256GCM, jose.NONE, plain.op.Sign(claims))
		}
	})
	if _, err := plain.signIn(whenever); !isInvalid(err) {
		t.Errorf("encrypted ID token without configured encryption: %v, want invalid", err)
	}
	l.op.Change(func(s *oidctest.Script) {
		s.SealUserInfo = func(claims map[string]any) string {
			raw, err := json.Marshal(claims)
			if err != nil {
				t.Error(err)
			}
			return oidctest.Encrypt(t, jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: key}, jose.A256GCM, jose.NONE, string(raw))
		}
	})
	if got, err := l.signIn(whenever); err != nil || got.Email == "" {
		t.Errorf("encrypted userinfo that is not signed: %+v, %v", got, err)
	}
}

func TestSignedUserInfo(t *testing.T) {
	t.Parallel()
	l := open(t)
	for name, tc := range map[string]struct {
		change map[string]any
		want   string
	}{
		"bare": {nil, "none"}, "with iss and aud": {map[string]any{"iss": l.op.URL, "aud": []string{oidctest.ClientID}}, "none"},
		"other iss": {map[string]any{"iss": "https://evil.example"}, "invalid"}, "other aud": {map[string]any{"aud": "other"}, "invalid"},
	} {
		l.op.Change(func(s *oidctest.Script) { s.UserInfo, s.SealUserInfo = tc.change, l.op.Sign })
		if _, err := l.signIn(whenever); kind(err) != tc.want {
			t.Errorf("signed userinfo %s: %v, want %s", name, err, tc.want)
		}
	}
	other := oidctest.NewKeys(t, "other")
	l.op.Change(func(s *oidctest.Script) {
		s.UserInfo, s.SealUserInfo = nil, func(c map[string]any) string { return other.Sign(t, c) }
	})
	if _, err := l.signIn(whenever); !isInvalid(err) {
		t.Errorf("userinfo signed by a stranger: %v, want invalid", err)
	}
}

func TestKeyRotation(t *testing.T) {
	t.Parallel()
	l := open(t)
	if _, err := l.signIn(whenever); err != nil {
		t.Fatal(err)
	}
	l.op.SetKeys(oidctest.NewKeys(t, "next"))
	if _, err := l.signIn(whenever); !isInvalid(err) {
		t.Errorf("an unknown key within a minute of the last fetch: %v, want invalid", err)
	}
	l.clock.Advance(61 * time.Second)
	if _, err := l.signIn(whenever); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if n := l.op.Count("/jwks"); n != 2 {
		t.Errorf("jwks were fetched %d times, want 2", n)
	}
}

// TestKeyReplacedUnderItsName: a provider that replaces a key and keeps its kid does not lock people out until the keys
// are old.
func TestKeyReplacedUnderItsName(t *testing.T) {
	t.Parallel()
	l := open(t)
	if _, err := l.signIn(whenever); err != nil {
		t.Fatal(err)
	}
	next := oidctest.NewKeys(t, "next")
	next.ID = oidctest.NewKeys(t, "op").ID
	l.op.SetKeys(next)
	if _, err := l.signIn(whenever); !isInvalid(err) {
		t.Errorf("within a minute of the last fetch: %v, want invalid", err)
	}
	l.clock.Advance(61 * time.Second)
	if _, err := l.signIn(whenever); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if n := l.op.Count("/jwks"); n != 2 {
		t.Errorf("jwks were fetched %d times, want 2", n)
	}
	// A stranger who sends tokens with a known kid makes us ask once a minute at most.
	forged := oidctest.NewKeys(t, "other")
	forged.ID = next.ID
	for range 20 {
		if w := l.backChannel(t, forged.Sign(t, l.op.LogoutClaims(l.clock.Now().Unix(), nil)), new(host)); w.Code != http.StatusBadRequest {
			t.Errorf("forged logout token: %d, want 400", w.Code)
		}
	}
	l.clock.Advance(61 * time.Second)
	for range 20 {
		l.backChannel(t, forged.Sign(t, l.op.LogoutClaims(l.clock.Now().Unix(), nil)), new(host))
	}
	if n := l.op.Count("/jwks"); n != 3 {
		t.Errorf("jwks were fetched %d times, want 3", n)
	}
}

func TestMetadataRefresh(t *testing.T) {
	t.Parallel()
	const at = "/.well-known/openid-configuration"
	l := open(t, func(c *oidc.Config) { c.MetadataExpiration = 10 * time.Minute })
	l.begin(whenever)
	l.clock.Advance(9 * time.Minute)
	l.begin(whenever)
	if n := l.op.Count(at); n != 1 {
		t.Fatalf("metadata were fetched %d times within their time, want once", n)
	}
	l.clock.Advance(2 * time.Minute)
	l.op.Change(func(s *oidctest.Script) { s.Discovery = map[string]any{"authorization_endpoint": l.op.URL + "/moved"} })
	l.begin(whenever) // the known ones, at once; the new ones arrive in the background
	await(t, "the new authorization endpoint", func() bool { return strings.Contains(l.begin(whenever).URL, "/moved") })
	l.clock.Advance(11 * time.Minute)
	l.op.Change(func(s *oidctest.Script) { s.Discovery = map[string]any{"issuer": "https://evil.example"} })
	n := l.op.Count(at)
	l.begin(whenever)
	await(t, "another fetch", func() bool { l.begin(whenever); return l.op.Count(at) > n })
	if !strings.Contains(l.begin(whenever).URL, "/moved") {
		t.Error("metadata of another issuer were taken")
	}
	l.clock.Advance(25 * time.Hour)
	if _, err := l.Begin(t.Context(), idp.Request{Flow: flowName}); err == nil {
		t.Error("metadata are used for more than a day after they were good")
	}
}
