package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ErrOver says that another node has the role now, or no one: nothing was written.
var ErrOver = errors.New("cluster: this node does not have the role")

// role is work that one node of a storage does at a time.
type role struct {
	wanted int             // how many in this process lead
	number uint64          // of the term. 0: another node has the role, or no one
	until  time.Time       // by the clock of this node
	begun  chan struct{}   // closed while this node has the role
	term   context.Context // ends with the term. nil: there was none
	over   context.CancelFunc
}

// Lead does work while this node has a role, again after each time that it had lost it, until ctx ends or the work has.
// At the end of a term the context of the work ends. What the work writes with this context, or one made of it, is
// refused with ErrOver once another node has begun a term, even if this one has not noticed. Several in this process
// can lead with the same role, such as an old configuration and a new one: they work side by side.
func (n *Node) Lead(ctx context.Context, name string, work func(ctx context.Context)) {
	r := n.ask(name)
	defer n.release(r)
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
		n.mu.Lock()
		number, term := r.number, r.term
		n.mu.Unlock()
		if number == 0 { // over already
			continue
		}
		during, end := context.WithCancel(storage.Guarded(ctx, n.has(name, number)))
		stop := context.AfterFunc(term, end)
		work(during)
		stop()
		end()
		if ctx.Err() != nil || term.Err() == nil {
			return
		}
	}
}

// ask says that this node wants a role.
func (n *Node) ask(name string) *role {
	defer n.look()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.roles[name] == nil {
		n.roles[name] = &role{begun: make(chan struct{})}
	}
	n.roles[name].wanted++
	return n.roles[name]
}

// release says that one less in this process wants a role. The next beat gives up what no one wants.
func (n *Node) release(r *role) {
	defer n.look()
	n.mu.Lock()
	defer n.mu.Unlock()
	r.wanted--
}

// look has Run beat at once.
func (n *Node) look() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take prolongs the term of a role, or begins one if no one has the role. It returns 0 if another node has it.
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
		if end.Number == term.Number && end.Until.After(at) && end.Until.Before(at.Add(termMost)) {
			return 0, nil
		}
		term = termRecord{Node: n.id, Number: term.Number + 1}
		if err := terms.Put(tx, name, term, time.Time{}); err != nil {
			return 0, err
		}
	}
	return term.Number, ends.Put(tx, name, endRecord{Number: term.Number, Until: at.Add(termLasts)}, time.Time{})
}

// drop ends a term at once, so another node can begin the next one.
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
			r.term, r.over = context.WithCancel(context.Background()) //nolint:gosec // end calls it
			close(r.begun)
		}
		r.until = until
		if r.wanted == 0 && r.number == 0 {
			delete(n.roles, name)
		}
	}
}

// end ends a term, with the lock of the node held.
func (r *role) end() {
	r.number, r.begun = 0, make(chan struct{})
	r.over()
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

// has returns what a transaction asks that may write only in one term of this node.
func (n *Node) has(name string, number uint64) func(storage.Tx) error {
	return func(tx storage.Tx) error {
		term, err := terms.Get(tx, name)
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err != nil || term.Node != n.id || term.Number != number {
			return fmt.Errorf("%w of %s", ErrOver, name)
		}
		return nil
	}
}
