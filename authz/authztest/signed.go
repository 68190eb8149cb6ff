package authztest

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

// IDClaims verifies an ID token as a relying party does and returns its claims.
func IDClaims(t *testing.T, h *Harness, raw string) map[string]any {
	t.Helper()
	return IDClaimsFor(t, h, raw, "shop")
}

// IDClaimsFor checks an ID token of a client and returns its claims.
func IDClaimsFor(t *testing.T, h *Harness, raw, client string) map[string]any {
	t.Helper()
	ctx := oidc.ClientContext(t.Context(), h.Client)
	provider, err := oidc.NewProvider(ctx, h.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	token, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: client, Now: h.Clock.Now}).Verify(ctx, raw)
	if err != nil {
		t.Fatalf("Verify(ID token) = %v", err)
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// RequestType is the typ of a signed authorization request (RFC 9101).
const RequestType = "oauth-authz-req+jwt"

// Request are the claims of a valid request object, changed as Params are. A value of nil removes a claim.
func (s *Signer) Request(h *Harness, changes map[string]any) map[string]any {
	now := h.Clock.Now().Unix()
	claims := map[string]any{"iss": s.Client.ID, "aud": h.Issuer, "nbf": now, "iat": now, "exp": now + 300}
	for name, values := range h.Params(s.Client.ID) {
		claims[name] = values[0]
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// Object is a valid request object, changed.
func (s *Signer) Object(t testing.TB, h *Harness, changes map[string]any) string {
	t.Helper()
	return s.Sign(t, s.Request(h, changes), RequestType)
}

// PushForm pushes what a client sends, authenticated by its key.
func (s *Signer) PushForm(t testing.TB, h *Harness, more ...string) *Response {
	t.Helper()
	return h.Post("/oauth/par", AssertionForm(s.Sign(t, s.Claims(h), ""),
		append([]string{"grant_type", "", "client_id", s.Client.ID}, more...)...))
}

// RedeemSigned redeems a code by an assertion.
func (s *Signer) RedeemSigned(t testing.TB, h *Harness, code string) *Response {
	t.Helper()
	return h.Post("/oauth/token", AssertionForm(s.Sign(t, s.Claims(h), ""), "grant_type", "authorization_code", "code", code,
		"redirect_uri", s.Client.RedirectURIs[0], "code_verifier", Verifier))
}

// PlainObject is a request object with the algorithm none.
func PlainObject(t testing.TB, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"`+RequestType+`"}`)) + "." +
		base64.RawURLEncoding.EncodeToString(payload) + "."
}

// ReadSigned verifies a JWT by the published keys, and returns its type and claims.
func ReadSigned(t *testing.T, h *Harness, raw string, alg jose.SignatureAlgorithm) (typ any, claims map[string]any) {
	t.Helper()
	parsed, err := jose.ParseSignedCompact(raw, []jose.SignatureAlgorithm{alg})
	if err != nil {
		t.Fatalf("%q: %v, want a JWT signed with %s", raw, err, alg)
	}
	header := parsed.Signatures[0].Header
	var set jwa.KeySet
	if err := json.Unmarshal([]byte(h.Get("/oauth/jwks").Body), &set); err != nil {
		t.Fatal(err)
	}
	keys := set.Key(header.KeyID)
	if len(keys) != 1 {
		t.Fatalf("%d keys are published as %q, want 1", len(keys), header.KeyID)
	}
	payload, err := parsed.Verify(jwa.Verifier(keys[0].Key))
	if err == nil {
		err = json.Unmarshal(payload, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return header.ExtraHeaders[jose.HeaderType], claims
}
