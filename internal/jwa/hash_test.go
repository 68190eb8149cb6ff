package jwa_test

import (
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// The hashes are those that oidc-token-hash 5.2 computes in Node.js; the text is its example.
func TestTokenHash(t *testing.T) {
	t.Parallel()
	const token = "YmJiZTAwYmYtMzgyOC00NzhkLTkyOTItNjJjNDM3MGYzOWIy9sFhvH8K_x8UIHj1osisS57f5DduL"
	for alg, want := range map[string]string{
		"RS256": "xsZZrUssMXjL3FBlzoSh2g", "ES256": "xsZZrUssMXjL3FBlzoSh2g",
		"ML-DSA-44": "sB_U72jyb0WgtX8TsVoqJnm6CD295W9gfSDRxkilB3I", "ML-DSA-87": "sB_U72jyb0WgtX8TsVoqJnm6CD295W9gfSDRxkilB3I",
	} {
		if got := jwa.TokenHash(alg, token); got != want {
			t.Errorf("TokenHash(%s) = %s, want %s", alg, got, want)
		}
	}
}
