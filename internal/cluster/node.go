// Package cluster coordinates the processes that share one storage: it registers each as a node, gives every task that
// must run once to one of them, and compares their clocks and formats.
package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	beatEvery = 2 * time.Second
	// termLasts is the time that a role stays with a silent node.
	termLasts = 10 * time.Second
	// termMost is the longest that a term can last from now: it was prolonged after the time of the storage was read, but
	// not by much. A longer one is void: the clock of the storage was ahead when it was begun.
	termMost = 2 * termLasts
	// alive is the time that a node counts as running after it was seen.
	alive = 15 * time.Second
	// nodeKept is the time that a node stays listed after it ended without a word.
	nodeKept = 24 * time.Hour

	// clockWarn and clockMost are how far the clocks of a node and its storage may differ. Tokens end by the clock of the
	// node that looks at them.
	clockWarn = time.Second
	clockMost = 5 * time.Second
)

// ErrSilent says that this process has not reached the storage for long.
var ErrSilent = errors.New("this server could not write to the storage for long")

// ErrClock says that the clock of this machine differs from that of the storage.
var ErrClock = errors.New("the clock of this machine differs too much from that of the storage: keep both by NTP")

// Options of a node. Each can be left out.
type Options struct {
	Host, Version string
	// Format is the newest form of records that this program can read and write. Default: that of this version.
	Format int
	Now    func() time.Time
	Random io.Reader
	Log    *zap.Logger
}

// Node is this process, as one of those that use a storage. If the storage belongs to one process alone, the node has
// every role at once and writes nothing.
type Node struct {
	Options
	id      string
	store   storage.Store
	shared  storage.Shared // nil: no other process can use the storage
	started time.Time
	wake    chan struct{} // a role was asked for
	lane    atomic.Int32  // from 1; 0: it has none of its own
	written atomic.Int32  // the form that all nodes write, as far as this one knows
	running atomic.Int32  // nodes that this one saw last

	mu     sync.Mutex // guards what follows
	ahead  time.Duration
	lag    time.Duration
	beaten time.Time // when the storage took the last beat, by the clock of this machine
	newer  error     // why this version cannot use the storage any more. nil: it can
	roles  map[string]*role
}

// Join makes this process a node. It refuses a storage that a newer version has written, and a clock that differs too
// much. Call Run.
func Join(ctx context.Context, s storage.Store, o Options) (*Node, error) {
	o.Format = cmp.Or(o.Format, format)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	var b [8]byte
	if _, err := io.ReadFull(o.Random, b[:]); err != nil {
		return nil, err
	}
	n := &Node{
		Options: o, id: hex.EncodeToString(b[:]), store: s, started: o.Now(), beaten: o.Now(), wake: make(chan struct{}, 1),
		roles: map[string]*role{},
	}
	if n.shared, _ = s.(storage.Shared); n.shared != nil {
		if _, err := n.compare(ctx); err != nil {
			return nil, err
		}
		if err := n.Check(); err != nil {
			return nil, err
		}
	}
	if _, err := n.identify(ctx); err != nil && !errors.Is(err, storage.ErrFull) { // it is read all the same
		return nil, err
	}
	if n.shared == nil {
		n.written.Store(int32(n.Format)) //nolint:gosec // small
		return n, nil
	}
	return n, n.beat(ctx)
}

// Check returns ErrClock if the clock of this machine is wrong, ErrNewer if the storage is that of a newer version by
// now, and ErrSilent if the others have not heard of this node for long.
func (n *Node) Check() error {
	now := n.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.newer != nil {
		return n.newer
	}
	if n.ahead.Abs() > clockMost {
		return fmt.Errorf("%w (it is %s)", ErrClock, ahead(n.ahead))
	}
	if silent := now.Sub(n.beaten); n.shared != nil && silent > alive {
		n.look() // the storage may be back
		return fmt.Errorf("%w (%s)", ErrSilent, silent.Round(time.Second))
	}
	return nil
}

func ahead(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Millisecond).String() + " behind"
	}
	return d.Round(time.Millisecond).String() + " ahead"
}

// Run keeps the roles of the node until ctx ends, and then leaves. It ends after all that Lead has started.
func (n *Node) Run(ctx context.Context) {
	if n.shared == nil {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			if err := n.leave(last); err != nil {
				n.Log.Warn("the other nodes were not told that this one ends", zap.Error(err))
			}
			return
		case <-n.wake:
		case <-tick.C:
		}
		err := n.beat(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			n.Log.Error("the other nodes do not see this node; trying again", zap.Error(err))
		}
		failing = err != nil
	}
}

// beat tells the others that this node runs, prolongs its terms, and takes roles that no one has.
func (n *Node) beat(ctx context.Context) error {
	begun := n.Now()
	at, err := n.compare(ctx)
	if err != nil {
		n.expire()
		return err
	}
	asked := n.Now()
	n.mu.Lock()
	rec := nodeRecord{
		Host: n.Host, Version: n.Version, Started: n.started, Seen: at, Ahead: n.ahead.Microseconds(),
		Lag: n.lag.Microseconds(), Format: n.Format,
	}
	var wanted []string
	waived := map[string]uint64{}
	for _, name := range slices.Sorted(maps.Keys(n.roles)) {
		if r := n.roles[name]; r.wanted > 0 {
			wanted = append(wanted, name)
		} else if r.number > 0 {
			waived[name] = r.number
		}
	}
	had := int(n.lane.Load())
	if begun.Sub(n.beaten) < alive { // otherwise another node may have it by now
		rec.Lane = had
	}
	n.mu.Unlock()
	var have map[string]uint64
	var lane, written int
	err = n.store.Update(ctx, func(tx storage.Tx) error {
		have = map[string]uint64{}
		mine := rec
		is, err := n.readable(tx)
		if err != nil {
			return err
		}
		if is.Format >= formatLanes && mine.Lane == 0 {
			if mine.Lane, err = n.takeLane(tx, had, at); err != nil {
				return err
			}
		}
		lane, written = mine.Lane, is.Format
		for name, number := range waived {
			if err := drop(tx, name, number); err != nil {
				return err
			}
		}
		for _, role := range wanted {
			number, err := n.take(tx, role, at)
			if err != nil {
				return err
			}
			if number > 0 {
				have[role], mine.Roles = number, append(mine.Roles, role)
			}
		}
		return nodes.Put(tx, n.id, mine, at.Add(nodeKept))
	})
	n.mu.Lock()
	if n.newer = nil; errors.Is(err, ErrNewer) {
		n.newer = err
	}
	n.mu.Unlock()
	if err != nil {
		n.expire()
		return err
	}
	n.mu.Lock()
	n.lag, n.beaten = n.Now().Sub(asked), begun
	n.mu.Unlock()
	n.lane.Store(int32(lane))       //nolint:gosec // small
	n.written.Store(int32(written)) //nolint:gosec // small
	n.hold(have, begun.Add(termLasts))
	n.count(ctx, at)
	return nil
}

// count counts the nodes that run. If that fails, the number stays.
func (n *Node) count(ctx context.Context, at time.Time) {
	running := int32(0)
	err := n.store.View(ctx, func(tx storage.Tx) error {
		running = 0
		for e, err := range nodes.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if seenLately(e.Value.Seen, at) {
				running++
			}
		}
		return nil
	})
	if err == nil {
		n.running.Store(running)
	}
}

// Count returns the number of nodes that run, as far as this one knows, itself included.
func (n *Node) Count() int { return max(1, int(n.running.Load())) }

// compare compares the clocks and returns the time of the storage.
func (n *Node) compare(ctx context.Context) (at time.Time, err error) {
	before := n.Now()
	if at, err = n.shared.Clock(ctx); err != nil {
		return at, err
	}
	is := before.Add(n.Now().Sub(before) / 2).Sub(at)
	n.mu.Lock()
	was := n.ahead
	n.ahead = is
	n.mu.Unlock()
	if is.Abs() > clockWarn && was.Abs() <= clockWarn {
		n.Log.Warn("the clock of this machine differs from that of the storage: keep both by NTP", zap.Duration("ahead", is))
	}
	return at, nil
}

// leave gives up all roles and takes the node off the list.
func (n *Node) leave(ctx context.Context) error {
	n.mu.Lock()
	held := map[string]uint64{}
	for name, r := range n.roles {
		if r.number > 0 {
			held[name] = r.number
		}
	}
	n.mu.Unlock()
	n.hold(nil, time.Time{})
	return n.store.Update(ctx, func(tx storage.Tx) error {
		for name, number := range held {
			if err := drop(tx, name, number); err != nil {
				return err
			}
		}
		return nodes.Delete(tx, n.id)
	})
}

// seenLately reports whether a node counts as running. One that was seen long after now was seen while the clock of the
// storage was ahead.
func seenLately(seen, at time.Time) bool { return at.Sub(seen).Abs() < alive }

// Info is a node as operators see it.
type Info struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	Version string    `json:"version,omitempty"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`
	// Alive says that it was seen a moment ago.
	Alive bool `json:"alive"`
	// This is the node that answers.
	This bool `json:"this,omitempty"`
	// Ahead is the lead of its clock over that of the storage, in milliseconds.
	Ahead int64 `json:"clock_ahead_ms"`
	// Lag is the time that a write to the storage took, in milliseconds.
	Lag   int64    `json:"lag_ms"`
	Roles []string `json:"roles"`
	// Format is the newest form of records that it can read and write.
	Format int `json:"format,omitempty"`
	// Written is the form that all nodes write. Only the node that answers says it.
	Written int `json:"written_format,omitempty"`
	// Lane is the number of the chain to which it adds its events, from 1. 0: to the first, with others
	Lane int `json:"event_chain,omitempty"`
	// Problem is why this node does not serve.
	Problem string `json:"problem,omitempty"`
}

// List returns the nodes of the storage, those that run first.
func (n *Node) List(ctx context.Context) ([]Info, error) {
	if n.shared == nil {
		now := n.Now()
		n.mu.Lock()
		defer n.mu.Unlock()
		roles := []string{}
		for name, r := range n.roles {
			if r.wanted > 0 {
				roles = append(roles, name)
			}
		}
		slices.Sort(roles)
		return []Info{{ID: n.id, Host: n.Host, Version: n.Version, Started: n.started, Seen: now, Alive: true, This: true, Roles: roles}}, nil
	}
	list, written, err := listNodes(ctx, n.store, n.shared)
	if errors.Is(err, storage.ErrLost) { // nothing is read any more: the node knows of itself
		return []Info{{
			ID: n.id, Host: n.Host, Version: n.Version, Started: n.started, Seen: n.Now(), Alive: true, This: true,
			Roles: []string{}, Problem: err.Error(),
		}}, nil
	}
	for i := range list {
		if list[i].This = list[i].ID == n.id; list[i].This {
			list[i].Written = written
			if wrong := n.Check(); wrong != nil {
				list[i].Problem = wrong.Error()
			}
		}
	}
	return list, err
}

func listNodes(ctx context.Context, s storage.Store, clock storage.Shared) (list []Info, written int, err error) {
	at, err := clock.Clock(ctx)
	if err != nil {
		return nil, 0, err
	}
	err = s.View(ctx, func(tx storage.Tx) error {
		list = []Info{}
		is, _, err := identities.Find(tx, identityKey)
		if err != nil {
			return err
		}
		written = max(is.Format, 1)
		for e, err := range nodes.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			rec := e.Value
			if !seenLately(rec.Seen, at) {
				rec.Roles = nil // another node has them by now
			}
			list = append(list, Info{
				ID: e.Key, Host: rec.Host, Version: rec.Version, Started: rec.Started, Seen: rec.Seen, Alive: seenLately(rec.Seen, at),
				Ahead: rec.Ahead / 1000, Lag: rec.Lag / 1000, Roles: append([]string{}, rec.Roles...), Format: max(rec.Format, 1), Lane: rec.Lane,
			})
		}
		return nil
	})
	slices.SortStableFunc(list, func(a, b Info) int {
		if a.Alive != b.Alive {
			if a.Alive {
				return -1
			}
			return 1
		}
		return a.Started.Compare(b.Started)
	})
	return list, written, err
}

// Unused returns an error if a node uses the storage. Of a storage that belongs to one process, its engine knows.
func Unused(ctx context.Context, s storage.Store) error {
	clock, ok := s.(storage.Shared)
	if !ok {
		return nil
	}
	list, _, err := listNodes(ctx, s, clock)
	if err == nil && len(list) > 0 && list[0].Alive {
		return fmt.Errorf("a server on %s uses this storage, or did so %s ago: stop it, and wait %s if it was killed", list[0].Host, alive, alive)
	}
	return err
}
