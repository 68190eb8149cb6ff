package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrOver says that another node has the role now, or nobody: nothing was written.
var ErrOver = errors.New("cluster: this node does not have the role")

// role is work that one node of a storage does at a time.
type role struct {
	number uint64    // of the term. 0: another node has the role, or nobody
	until  time.Time // by the clock of this node
	begun  chan struct{}
	over   context.CancelFunc // ends the work. nil: it has not begun
}

// Lead does work while this node has a role, again and again until ctx ends. The work ends with its context, at the end
// of a term. What it writes through Fenced is refused once another node has begun a term, even if this one has not
// noticed. Call it once for each role.
func (n *Node) Lead(ctx context.Context, name string, work func(ctx context.Context)) {
	r := n.ask(name)
	if n.shared == nil {
		work(ctx)
		return
	}
	for {
		n.mu.Lock()
		begun := r.begun
		n.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-begun:
		}
		term, end := context.WithCancel(ctx)
		n.mu.Lock()
		on := r.number > 0
		if on {
			r.over = end
		}
		n.mu.Unlock()
		if on {
			work(term)
		}
		end()
		n.mu.Lock()
		r.over = nil
		n.mu.Unlock()
		if ctx.Err() != nil {
			return
		}
		if term.Err() == nil { // the work is done, and the role stays
			<-ctx.Done()
			return
		}
	}
}

// ask says that this node wants a role.
func (n *Node) ask(name string) *role {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.roles[name] == nil {
		n.roles[name] = &role{begun: make(chan struct{})}
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
	return n.roles[name]
}

// take prolongs the term of a role, or begins one if nobody has the role. It returns 0 if another node has it.
func (n *Node) take(tx storage.Tx, name string, at time.Time) (number uint64, err error) {
	term, _, err := terms.Find(tx, name)
	if err != nil {
		return 0, err
	}
	end, _, err := ends.Find(tx, name)
	if err != nil {
		return 0, err
	}
	if term.Node != n.id {
		if end.Number == term.Number && end.Until.After(at) {
			return 0, nil
		}
		term = termRecord{Node: n.id, Number: term.Number + 1}
		if err := terms.Put(tx, name, term, time.Time{}); err != nil {
			return 0, err
		}
	}
	return term.Number, ends.Put(tx, name, endRecord{Number: term.Number, Until: at.Add(termLasts)}, time.Time{})
}

// drop ends a term at once, so that another node can begin the next one.
func drop(tx storage.Tx, name string, number uint64) error {
	term, _, err := terms.Find(tx, name)
	if err != nil || term.Number != number {
		return err
	}
	return ends.Delete(tx, name)
}

// hold begins and ends work as the storage says who has which role.
func (n *Node) hold(have map[string]uint64, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, r := range n.roles {
		number := have[name]
		if r.number != 0 && r.number != number {
			r.end()
		}
		if r.number == 0 && number != 0 {
			r.number = number
			close(r.begun)
		}
		r.until = until
	}
}

// end ends a term, with the lock of the node held.
func (r *role) end() {
	r.number, r.begun = 0, make(chan struct{})
	if r.over != nil {
		r.over()
	}
}

// expire ends the terms that could not be prolonged in time.
func (n *Node) expire() {
	now := n.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.roles {
		if r.number != 0 && !now.Before(r.until) {
			r.end()
		}
	}
}

// Fenced returns the storage as the work of a role uses it: a transaction that writes finds in the storage that this
// node has the role, or fails with ErrOver.
func (n *Node) Fenced(name string) storage.Store {
	if n.shared == nil {
		return n.store
	}
	return &fenced{Store: n.store, node: n, name: name}
}

type fenced struct {
	storage.Store

	node *Node
	name string
}

// Update implements storage.Store.
func (f *fenced) Update(ctx context.Context, fn func(storage.Tx) error) error {
	f.node.mu.Lock()
	number := uint64(0)
	if r := f.node.roles[f.name]; r != nil {
		number = r.number
	}
	f.node.mu.Unlock()
	if number == 0 {
		return fmt.Errorf("%w of %s", ErrOver, f.name)
	}
	return f.Store.Update(ctx, func(tx storage.Tx) error {
		term, err := terms.Get(tx, f.name)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err != nil || term.Node != f.node.id || term.Number != number {
			return fmt.Errorf("%w of %s", ErrOver, f.name)
		}
		return fn(tx)
	})
}
