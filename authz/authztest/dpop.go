package authztest

import (
	"net/url"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/dpop/dpoptest"
)

// KeyHolder is a client's key at a server.
type KeyHolder struct {
	*dpoptest.Key
	H *Harness
}

// NewKeyHolder returns a sender with a new key.
func NewKeyHolder(t *testing.T, h *Harness) KeyHolder {
	t.Helper()
	return KeyHolder{dpoptest.NewKey(t), h}
}

// ProofFor is a good proof for a POST to a path of the issuer.
func (k KeyHolder) ProofFor(path string, changes ...dpoptest.Claims) []string {
	return []string{"DPoP", k.Proof("POST", k.H.Issuer+path, "", k.H.Clock.Now(), changes...)}
}

// Token posts to the token endpoint with a proof.
func (k KeyHolder) Token(id string, f url.Values, changes ...dpoptest.Claims) *Response {
	return k.H.Token(id, f, k.ProofFor("/oauth/token", changes...)...)
}

// WantBound asserts that a token is bound to a key.
func WantBound(t *testing.T, what string, h *Harness, token, jkt string) {
	t.Helper()
	in := h.Introspect(token).JSON()
	cnf, _ := in["cnf"].(map[string]any)
	if in["active"] != true || in["token_type"] != "DPoP" || cnf["jkt"] != jkt || len(cnf) != 1 {
		t.Errorf("%s: introspection = %v, want a token of type DPoP with cnf.jkt %s", what, in, jkt)
	}
}
