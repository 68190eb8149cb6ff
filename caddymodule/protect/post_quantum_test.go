package protect

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/assertion"
)

// A site names the algorithm of its assertions to the app, which has a key made, and to what signs them.
func TestPostQuantumAssertion(t *testing.T) {
	t.Parallel()
	for _, alg := range []string{"", "ES256", "ML-DSA-44", "ML-DSA-87"} {
		k := testKeys()
		if err := k.Ask(t.Context(), alg); err != nil {
			t.Fatal(err)
		}
		long := make([]string, 200)
		for i := range long {
			long[i] = "a group with a name"
		}
		text, err := assertion.New("https://issuer.test", k, nil).Sign(assertion.Statement{
			Algorithm: alg, Audience: "https://wiki.example.com", Subject: "ann", Groups: long[:10],
		})
		if err != nil || len(text) > 8<<10 {
			t.Fatalf("Sign(%s) = %d characters, %v, want at most 8192", alg, len(text), err)
		}
		payload, err := k.Verify(text, "gate+jwt")
		if err != nil || !strings.Contains(string(payload), long[0]) {
			t.Errorf("an assertion by %q = %s, %v", alg, payload, err)
		}
		text, err = assertion.New("https://issuer.test", k, nil).Sign(assertion.Statement{Algorithm: alg, Subject: "ann", Groups: long})
		if err != nil || len(text) > 8<<10 {
			t.Errorf("%q: with many groups an assertion has %d characters, %v, want at most 8192", alg, len(text), err)
		}
	}
}
