package cli

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
)

// TestLinesOfASwitch: former keys are said to decrypt only if their type can.
func TestLinesOfASwitch(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		keystore.RSA: "still decrypt", keystore.EC: "still decrypt", keystore.MLDSA: "are still published",
	} {
		lines := strings.Join(keyPairLines(keystore.Switch, &keystore.Rotation{Name: "saml", KeyType: kind, NextStep: keystore.Retire}), "\n")
		if !strings.Contains(lines, want) || strings.Contains(lines, "decrypt") != strings.Contains(want, "decrypt") ||
			!strings.HasSuffix(lines, "caddy gatehouse key-pair retire saml") {
			t.Errorf("keys of the type %s: %q, want that they %s", kind, lines, want)
		}
	}
}
