package jwa_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// TestReadKey: a certificate in a key is not read more strictly than the key needs, and a key never stands for another
// certificate than its own.
func TestReadKey(t *testing.T) {
	t.Parallel()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := json.Marshal(jose.JSONWebKey{Key: &private.PublicKey, KeyID: "one", Use: "sig"})
	if err != nil {
		t.Fatal(err)
	}
	odd := []byte("not a certificate")
	for name, tt := range map[string]struct {
		member     string
		value      any
		thumbprint []byte
	}{
		"no certificate":   {"note", "", nil},
		"odd certificate":  {"x5c", []string{base64.StdEncoding.EncodeToString(odd)}, odd},
		"not base64":       {"x5c", []string{"#"}, []byte{}},
		"empty chain":      {"x5c", []string{}, nil},
		"not a chain":      {"x5c", "MIIB", []byte{}},
		"chain of numbers": {"x5c", []int{1}, []byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var members map[string]any
			if err := json.Unmarshal(plain, &members); err != nil {
				t.Fatal(err)
			}
			members[tt.member] = tt.value
			raw, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			key, err := jwa.ReadKey(raw)
			if err != nil || !key.Valid() || key.KeyID != "one" || !private.PublicKey.Equal(key.Key) {
				t.Fatalf("ReadKey(%s) = %+v, %v, want the key", raw, key, err)
			}
			want := ""
			if tt.thumbprint != nil {
				sum := sha256.Sum256(tt.thumbprint)
				want = string(sum[:])
			}
			if got := string(key.CertificateThumbprintSHA256); got != want {
				t.Errorf("ReadKey(%s) has the thumbprint %x, want %x", raw, got, want)
			}
		})
	}
	for _, raw := range []string{`{}`, `[]`, `{"kty":"EC","x5c":["AA"]}`, `{"kty":"RSA","n":"AQAB","x5c":["AA"]}`} {
		if key, err := jwa.ReadKey([]byte(raw)); err == nil {
			t.Errorf("ReadKey(%s) = %+v, want an error", raw, key)
		}
	}
}
