package clientstore

import (
	"context"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Client ids are public, and each wrong secret of a client with an imported hash costs a slow computation. A flood of
// them must not keep people from signing in, whose passwords share the same few slots.
func TestWrongSecretsLeaveRoomForPeople(t *testing.T) {
	t.Parallel()
	ring, err := secret.NewKeyring(make([]byte, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	h := secret.NewHasher(secret.HashCost{MemoryKiB: 4 << 10, Iterations: 1, Concurrency: 1})
	phc, err := h.Hash(t.Context(), "the right one, which nobody here sends")
	if err != nil {
		t.Fatal(err)
	}
	checks := newSecretChecks(ring, h)
	c := checks.credential("client", "legacy", nil, []string{phc})
	ctx, stop := context.WithCancel(t.Context())
	var strangers sync.WaitGroup
	for range 64 {
		strangers.Go(func() {
			for ctx.Err() == nil {
				if right, _ := checks.check(ctx, c, "client", "legacy", "a wrong one"); right {
					t.Error("check of a wrong secret = true")
				}
			}
		})
	}
	for i := range 20 {
		if ok, _, err := h.Verify(t.Context(), phc, "the right one, which nobody here sends"); err != nil || !ok {
			t.Errorf("sign-in %d under a flood of wrong client secrets = %v, %v, want true", i, ok, err)
		}
	}
	stop()
	strangers.Wait()
	if right, err := checks.check(t.Context(), c, "client", "legacy", "the right one, which nobody here sends"); err != nil || !right {
		t.Errorf("check of the right secret = %v, %v, want true", right, err)
	}
}
