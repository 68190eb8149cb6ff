package clientstore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/jwa"
)

func TestPostQuantumAssertionAttacks(t *testing.T) {
	t.Parallel()
	s, larger, curve := authztest.NewSigner(t, "signer", jose.MLDSA44), authztest.NewSigner(t, "larger", jose.MLDSA65),
		authztest.NewSigner(t, "curve", jose.ES256)
	fapi := authztest.NewSigner(t, "fapi", jose.MLDSA44)
	fapi.Client.FAPI2, fapi.Client.DefaultScopes = true, nil
	h := authztest.New(t, authztest.WithClients(s.Client, larger.Client, curve.Client, fapi.Client))
	t.Run("attack 7118: client assertions with an algorithm of another key", func(t *testing.T) {
		for _, of := range []*authztest.Signer{s, larger, curve} {
			for alg, by := range map[jose.SignatureAlgorithm]*authztest.Signer{jose.MLDSA44: s, jose.MLDSA65: larger, jose.ES256: curve} {
				raw := authztest.SignWith(t, alg, by.Key, of.Kid, of.Claims(h), "JWT")
				res := h.Post("/oauth/token", authztest.AssertionForm(raw))
				if of == by {
					authztest.WantStatus(t, of.Client.ID, res, http.StatusOK)
					continue
				}
				authztest.WantError(t, "the assertion of "+of.Client.ID+" by the key of "+by.Client.ID, res, http.StatusUnauthorized, "invalid_client")
			}
		}
		res := h.Post("/oauth/token", authztest.AssertionForm(fapi.Sign(t, fapi.Claims(h), "JWT")))
		authztest.WantError(t, "FAPI 2.0", res, http.StatusUnauthorized, "invalid_client")
		h.Invariants(t)
	})
}

// TestPostQuantumStoredClient: keys are made for what an operator adds or changes, and what is stored reads again.
func TestPostQuantumStoredClient(t *testing.T) {
	t.Parallel()
	s := authztest.NewSigner(t, "added", jose.MLDSA65)
	s.Client.IDTokenAlg = "ML-DSA-44"
	h := authztest.New(t)
	if _, err := h.Server().Clients().Add(t.Context(), *s.Client, authztest.Admin); err != nil {
		t.Fatal(err)
	}
	err := h.Server().Clients().Change(t.Context(), "added", "", authztest.Admin, func(c *client.Client) error {
		c.TokenFormat, c.TokenAlg = "jwt", "ML-DSA-87"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	h.Restart(nil)
	res := h.Post("/oauth/token", authztest.AssertionForm(s.Sign(t, s.Claims(h), "")))
	authztest.WantStatus(t, "client credentials", res, http.StatusOK)
	if typ, claims := authztest.ReadSigned(t, h, res.Text("access_token"), jose.MLDSA87); typ != "at+jwt" || claims["client_id"] != "added" {
		t.Errorf("%v access token = %v", typ, claims)
	}
	if !h.Active(res.Text("access_token")) {
		t.Error("the access token is not active")
	}
	doc := h.Get("/.well-known/openid-configuration").JSON()
	for member, want := range map[string]string{
		"id_token_signing_alg_values_supported":            "[RS256 ES256 EdDSA ML-DSA-44 ML-DSA-87]",
		"authorization_signing_alg_values_supported":       "[RS256 ES256 EdDSA]",
		"request_object_signing_alg_values_supported":      "[RS256 PS256 ES256 EdDSA Ed25519]",
		"token_endpoint_auth_signing_alg_values_supported": "[RS256 PS256 ES256 EdDSA Ed25519 ML-DSA-44 ML-DSA-65 ML-DSA-87]",
	} {
		if got := fmt.Sprint(doc[member]); got != want {
			t.Errorf("%s = %s, want %s", member, got, want)
		}
	}
	h.Invariants(t)
}

// TestPostQuantumRegistration: a client can bring a post-quantum key, and has no key made at the issuer.
func TestPostQuantumRegistration(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t)
	s := authztest.NewSigner(t, "registered", jose.MLDSA44)
	register := func(key map[string]any, more ...string) *authztest.Response {
		body := map[string]any{
			"redirect_uris": []string{"https://app.example.com/cb"}, "token_endpoint_auth_method": "private_key_jwt",
			"jwks": map[string]any{"keys": []any{key}},
		}
		for i := 0; i < len(more); i += 2 {
			body[more[i]] = more[i+1]
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return authztest.Registers(h, string(raw))
	}
	public := func() map[string]any {
		raw, err := jwa.WriteKey(s.Set().Keys[0])
		if err != nil {
			t.Fatal(err)
		}
		var key map[string]any
		if err := json.Unmarshal(raw, &key); err != nil {
			t.Fatal(err)
		}
		return key
	}
	res := register(public())
	authztest.WantStatus(t, "register", res, http.StatusCreated)
	s.Client.ID, _ = res.JSON()["client_id"].(string)
	s.Client.RedirectURIs = []string{"https://app.example.com/cb"}
	refused := s.RedeemSigned(t, h, "no code")
	authztest.WantError(t, "it authenticates, and has no code", refused, http.StatusBadRequest, "invalid_grant")
	t.Run("attack 4421: a registration with keys and algorithms that are not good", func(t *testing.T) {
		for name, change := range map[string]func(map[string]any){
			"without alg":        func(k map[string]any) { delete(k, "alg") },
			"alg of a curve":     func(k map[string]any) { k["alg"] = "ES256" },
			"alg of another set": func(k map[string]any) { k["alg"] = "ML-DSA-65" },
			"a private key":      func(k map[string]any) { k["priv"] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" },
			"for encryption":     func(k map[string]any) { k["use"] = "enc" },
		} {
			key := public()
			change(key)
			authztest.WantError(t, name, register(key), http.StatusBadRequest, "invalid_client_metadata")
		}
		for _, member := range []string{"id_token_signed_response_alg", "userinfo_signed_response_alg"} {
			authztest.WantError(t, member, register(public(), member, "ML-DSA-44"), http.StatusBadRequest, "invalid_client_metadata")
		}
		if signs := h.Keys.Signs(); slices.Contains(signs, jose.MLDSA44) || len(h.Keys.JWKS().Keys) != 3 {
			t.Errorf("a registration has made a key: %v", signs)
		}
		if err := h.Keys.Ask(t.Context(), "ML-DSA-44"); err != nil {
			t.Fatal(err)
		}
		res := register(public(), "id_token_signed_response_alg", "ML-DSA-44")
		authztest.WantStatus(t, "an algorithm of the metadata", res, http.StatusCreated)
		authztest.WantError(t, "not in them", register(public(), "id_token_signed_response_alg", "ML-DSA-65"), http.StatusBadRequest,
			"invalid_client_metadata")
	})
	h.Invariants(t)
}
