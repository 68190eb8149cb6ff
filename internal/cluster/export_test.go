package cluster

import (
	"context"
	"io"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Beat is one step of Run.
func (n *Node) Beat(ctx context.Context) error { return n.beat(ctx) }

// Leave is the last step of Run.
func (n *Node) Leave(ctx context.Context) error { return n.leave(ctx) }

// Wants reports whether Lead was called for a role.
func (n *Node) Wants(role string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.roles[role] != nil
}

// Identify is a part of Join.
func Identify(ctx context.Context, s storage.Store, now func() time.Time, random io.Reader) (string, error) {
	n := &Node{Options: Options{Format: format, Now: now, Random: random}, store: s}
	return n.identify(ctx)
}
