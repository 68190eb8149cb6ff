package authztest

import (
	"github.com/gatehouse-id/gatehouse/authz"
)

// Hashes returns how many slow hashes the server has computed.
func (h *Harness) Hashes() int64 { return h.deps.Hasher.Computed() }

// Try makes a second server on the same store for a changed configuration, as a reload does before it replaces the
// first, and returns the error. The first goes on.
func (h *Harness) Try(change func(*authz.Config)) error {
	cfg := h.Config
	change(&cfg)
	_, err := authz.New(h.T.Context(), cfg, h.deps)
	return err
}
