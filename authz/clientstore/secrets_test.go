package clientstore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Client ids are public, and each wrong secret of a client with an imported hash costs a slow computation. A flood of
// them must not keep people from signing in, whose passwords share the same few slots.
func TestWrongSecretsLeaveRoomForPeople(t *testing.T) {
	t.Parallel()
	const right = "the right one, which no stranger sends"
	deps := dependencies(t)
	deps.Hasher = secret.NewHasher(secret.HashCost{MemoryKiB: 4 << 10, Iterations: 1, Concurrency: 1})
	phc, err := deps.Hasher.Hash(t.Context(), right)
	if err != nil {
		t.Fatal(err)
	}
	r, err := clientstore.New(t.Context(), clientstore.Config{
		Issuer: "https://auth.example.com",
		Clients: []*client.Client{{
			ID: "legacy", SecretHashes: []string{phc}, Grants: []string{"authorization_code"},
			RedirectURIs: []string{"https://legacy.example.com/callback"},
		}},
	}, deps)
	if err != nil {
		t.Fatal(err)
	}
	authenticate := func(ctx context.Context, text string) error {
		req := httptest.NewRequestWithContext(ctx, http.MethodPost, "/oauth/token", http.NoBody)
		req.SetBasicAuth("legacy", text)
		_, err := r.Authenticate(req, oauth.Form{})
		return err
	}
	ctx, stop := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	for range 64 {
		strangers.Go(func() {
			for ctx.Err() == nil {
				if authenticate(ctx, "a wrong one") == nil {
					t.Error("a wrong secret is taken")
				}
			}
		})
	}
	for i := range 20 {
		if ok, _, err := deps.Hasher.Verify(t.Context(), phc, right); err != nil || !ok {
			t.Errorf("sign-in %d under a flood of wrong client secrets = %v, %v, want true", i, ok, err)
		}
	}
	stop()
	strangers.Wait()
	if err := authenticate(t.Context(), right); err != nil {
		t.Errorf("the right secret = %v", err)
	}
}
