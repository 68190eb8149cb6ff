package keystore_test

import (
	"encoding/base64"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/mldsa"
)

// example returns an example of RFC 9881, appendix C, as the API takes it.
func example(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("../../internal/mldsa/testdata/rfc9881/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// TestPostQuantumPair: a pair of ML-DSA is stored, sealed, resealed and rotated as others are, and keeps its parameter
// set.
func TestPostQuantumPair(t *testing.T) {
	t.Parallel()
	c := newCertificates(t)
	for _, set := range []string{"ML-DSA-44", "ML-DSA-65", "ML-DSA-87"} {
		id := c.add(pairOf(set, keystore.MLDSA, example(t, set+"-both.priv"), example(t, set+".pub")))
		if shown := c.get(id); shown["public_key"] != example(t, set+".pub") || shown["private_key"] != "" {
			t.Errorf("the pair is answered as %v", shown)
		}
		if _, err := c.sealing(t.Context(), nil, 8, 7).Reseal(t.Context()); err != nil {
			t.Fatal(err)
		}
		pairs := c.sealing(t.Context(), nil, 8).KeyPairs()
		var seen []any
		for _, step := range []keystore.Step{"", keystore.Announce, keystore.Switch, keystore.Retire, keystore.Renew} {
			if step != "" {
				if err := pairs.Rotate(t.Context(), id, step, audit.Actor{ID: "ops"}); err != nil {
					t.Fatalf("%s of %s: %v", step, set, err)
				}
			}
			m, err := pairs.Get(t.Context(), set)
			if err != nil {
				t.Fatal(err)
			}
			public, ok := m.PublicKey.(*mldsa.PublicKey)
			if !ok || public.Parameters().String() != set || !public.Equal(m.Key.Public()) {
				t.Fatalf("after %q the pair of %s has %T", step, set, m.PublicKey)
			}
			if seen = append(seen, m.PublicKey); step == keystore.Announce && len(m.Others) != 1 {
				t.Errorf("after %s of %s %d keys are published next to it, want 1", step, set, len(m.Others))
			}
		}
		for i, changed := range []bool{false, true, false, true} { // announce, switch, retire, renew
			if before, ok := seen[i].(*mldsa.PublicKey); !ok || before.Equal(seen[i+1]) == changed {
				t.Errorf("step %d of %s: other keys = %v, want %v", i+1, set, !changed, changed)
			}
		}
		c.service = c.sealing(t.Context(), nil, 7, 8)
		if _, err := c.service.Reseal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPostQuantumPairRefuses(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	for name, tt := range map[string]struct{ kind, private, public, want string }{
		"as RSA":                  {"RSA", example(t, "ML-DSA-44-seed.priv"), example(t, "ML-DSA-44.pub"), "holds a key of the type ML-DSA"},
		"RSA as ML-DSA":           {"ML-DSA", privateOf(m.rsa), certOf(m.rsa, c.now.AddDate(1, 0, 0)), "holds a key of the type RSA"},
		"of a parameter set":      {"ML-DSA-44", example(t, "ML-DSA-44-seed.priv"), example(t, "ML-DSA-44.pub"), "one of RSA, EC, ML-DSA"},
		"without a seed":          {"ML-DSA", example(t, "ML-DSA-44-expanded.priv"), example(t, "ML-DSA-44.pub"), "has no seed"},
		"with two private keys":   {"ML-DSA", example(t, "bad-ML-DSA-44-1.priv"), example(t, "ML-DSA-44.pub"), "is not a sound private key"},
		"of two parameter sets":   {"ML-DSA", example(t, "ML-DSA-44-seed.priv"), example(t, "ML-DSA-65.pub"), "does not belong to the public_key"},
		"with a private RSA key":  {"ML-DSA", privateOf(m.rsa), example(t, "ML-DSA-44.pub"), "does not belong to the public_key"},
		"as a certificate alone":  {"CERTIFICATE", "", example(t, "ML-DSA-44.pub"), "want a certificate"},
		"with the public one too": {"ML-DSA", example(t, "ML-DSA-44.pub"), example(t, "ML-DSA-44.pub"), "want a PEM block PRIVATE KEY"},
	} {
		status, body := c.call(http.MethodPost, certificatePath, map[string]any{"key_pair": pairOf("x", tt.kind, tt.private, tt.public)})
		if status != http.StatusBadRequest || !strings.Contains(body, tt.want) {
			t.Errorf("a pair %s = %d %s, want 400 with %q", name, status, body, tt.want)
		}
	}
	if names := c.list(); len(names) != 0 {
		t.Errorf("stored pairs = %v, want none", names)
	}
}
