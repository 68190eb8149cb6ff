package cluster

import "context"

// Beat is what Run does again and again.
func (n *Node) Beat(ctx context.Context) error { return n.beat(ctx) }

// Leave is what Run does at its end.
func (n *Node) Leave(ctx context.Context) error { return n.leave(ctx) }

// Wants tells whether Lead was called for a role.
func (n *Node) Wants(role string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.roles[role] != nil
}

// Identify is a part of Join.
var Identify = identify
