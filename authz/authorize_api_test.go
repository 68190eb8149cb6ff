package authz_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestAuthorizeAPI holds who is allowed an API of another package, by the errors of internal/authn.
func TestAuthorizeAPI(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithConfig(func(c *authz.Config) { c.APIClients[0].APIs = append(c.APIClients[0].APIs, "configuration") }))
	id := authztest.World().APIClients[0].ID
	request := func(id, secret string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/api/v2/config", nil)
		if id != "" {
			r.SetBasicAuth(id, secret)
		}
		return r
	}
	twice := request(id, authztest.Secret(id))
	twice.Header.Add("Authorization", twice.Header.Get("Authorization"))
	bearer := request("", "")
	bearer.Header.Set("Authorization", "Bearer x")
	for _, tt := range []struct {
		name string
		r    *http.Request
		api  string
		want error
	}{
		{"good", request(id, authztest.Secret(id)), "configuration", nil},
		{"without the API", request(id, authztest.Secret(id)), "credentials", authn.ErrNotAllowed},
		{"wrong secret", request(id, authztest.Secret(id)+"x"), "configuration", authn.ErrNoCredentials},
		{"unknown", request("nobody", "x"), "configuration", authn.ErrNoCredentials},
		{"an OAuth client", request("shop", authztest.Secret("shop")), "configuration", authn.ErrNoCredentials},
		{"nothing", request("", ""), "configuration", authn.ErrNoCredentials},
		{"two of them", twice, "configuration", authn.ErrNoCredentials},
		{"a bearer token", bearer, "configuration", authn.ErrNoCredentials},
	} {
		got, err := h.Server().AuthorizeAPI(tt.r, tt.api)
		if !errors.Is(err, tt.want) || tt.want == nil && (err != nil || got != id) {
			t.Errorf("%s: AuthorizeAPI = %q, %v, want %v", tt.name, got, err, tt.want)
		}
	}
	h.AllowFailures()
	phc, err := secret.NewHasher(secret.HashCost{MemoryKiB: 64, Iterations: 1, Concurrency: 1}).Hash(t.Context(), authztest.Secret(id))
	if err != nil {
		t.Fatal(err)
	}
	h.Restart(func(c *authz.Config) { c.APIClients[0].Secrets, c.APIClients[0].SecretHashes = nil, []string{phc} })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no slow hash is computed for a caller that is gone
	_, err = h.Server().AuthorizeAPI(request(id, authztest.Secret(id)).WithContext(ctx), "configuration")
	if err == nil || errors.Is(err, authn.ErrNoCredentials) || errors.Is(err, authn.ErrNotAllowed) {
		t.Errorf("without a hash: %v, want an error that is no verdict", err)
	}
}
