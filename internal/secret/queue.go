package secret

import (
	"context"
	"encoding/base64"
	"net/netip"
	"sync"
	"time"
)

// The bounds of a queue. People who sign in at nine o'clock behind one address must get through, and a flood from one
// address must not fill the queue.
const (
	lineFactor  = 64               // waiting computations of one network for each running one
	queueFactor = 1024             // waiting computations for each running one
	maxWait     = 10 * time.Second // for one computation in the queue
)

// asker is a caller that waits for a computation.
type asker struct {
	network string
	gone    <-chan struct{}
}

type askerKey struct{}

// AskedBy returns a context whose computations wait in the line of a network. They no longer wait once gone is closed,
// although the context goes on: what follows from an attempt is written, even if no one waits for the answer. The error
// is context.Canceled then. gone can be nil.
func AskedBy(ctx context.Context, network string, gone <-chan struct{}) context.Context {
	return context.WithValue(ctx, askerKey{}, asker{network, gone})
}

// LineOf returns whose line an address waits in, for AskedBy: that of an IPv4 address, or of an IPv6 /48, the most that
// one customer of a provider gets.
func LineOf(address string) string { return NetworkOf(address, 48) }

// NetworkOf returns an IPv4 address, or the network of an IPv6 address with so many bits.
func NetworkOf(address string, bits int) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return base64.RawURLEncoding.EncodeToString([]byte(Hash(address)))
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return ip.String()
	}
	return p.String()
}

// Lane lets computations pass one at a time. Those that wait are in a line for each network, as in the queue of a
// Hasher.
type Lane struct{ queue *queue }

// NewLane returns an empty lane.
func NewLane() *Lane { return &Lane{newQueue(1, queueFactor, queueFactor)} }

// Enter waits until the lane is free, and returns what frees it again. Errors: ErrBusy, the context's.
func (l *Lane) Enter(ctx context.Context) (leave func(), err error) { return l.queue.acquire(ctx) }

// queue hands out a bounded number of slots. Each network waits in a line of its own, and the lines take turns, so a
// flood from one network keeps only that network waiting.
type queue struct {
	size int           // slots
	line int           // that can wait in one line
	most int           // that can wait in all
	wait time.Duration // of one

	mu      sync.Mutex // guards the fields below
	taken   int
	waiting int
	lines   map[string][]*place // none is empty
	turns   []string            // the networks of lines, the next one first
}

// place is one place in a line. The channel says how the wait ends: true with a slot, false without.
type place struct{ done chan bool }

func newQueue(slots, line, most int) *queue {
	return &queue{size: slots, line: line, most: most, wait: maxWait, lines: map[string][]*place{}}
}

// Waiting returns how many wait for a slot.
func (q *queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// acquire waits for a slot. ErrBusy: there are too many, or it takes too long.
func (q *queue) acquire(ctx context.Context) (release func(), err error) {
	who, _ := ctx.Value(askerKey{}).(asker)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-who.gone:
		return nil, context.Canceled
	default:
	}
	p, err := q.enter(who.network)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return q.release, nil
	}
	timer := time.NewTimer(q.wait)
	defer timer.Stop()
	select {
	case ok := <-p.done:
		if !ok {
			return nil, ErrBusy
		}
		return q.release, nil
	case <-timer.C:
		err = ErrBusy
	case <-who.gone:
		err = context.Canceled
	case <-ctx.Done():
		err = ctx.Err()
	}
	q.leave(who.network, p)
	return nil, err
}

// enter takes a free slot (nil), or a place at the end of the network's line.
func (q *queue) enter(network string) (*place, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken < q.size {
		q.taken++
		return nil, nil //nolint:nilnil // a slot
	}
	own := q.lines[network]
	if len(own) >= q.line {
		return nil, ErrBusy
	}
	if q.waiting >= q.most && !q.makeRoom(len(own)) {
		return nil, ErrBusy
	}
	if len(own) == 0 {
		q.turns = append(q.turns, network)
	}
	p := &place{done: make(chan bool, 1)}
	q.lines[network] = append(q.lines[network], p)
	q.waiting++
	return p, nil
}

// makeRoom sends away the last one of the longest line, unless that line is hardly longer than the one that needs room.
func (q *queue) makeRoom(own int) bool {
	var longest string
	most := own + 1
	for network, line := range q.lines {
		if len(line) > most {
			longest, most = network, len(line)
		}
	}
	if most == own+1 {
		return false
	}
	line := q.lines[longest]
	last := line[len(line)-1]
	q.remove(longest, len(line)-1)
	last.done <- false
	return true
}

// remove takes a place out of a line.
func (q *queue) remove(network string, i int) {
	q.waiting--
	line := append(q.lines[network][:i:i], q.lines[network][i+1:]...)
	if len(line) > 0 {
		q.lines[network] = line
		return
	}
	delete(q.lines, network)
	for i, n := range q.turns {
		if n == network {
			q.turns = append(q.turns[:i:i], q.turns[i+1:]...)
			return
		}
	}
}

// leave gives up a place, or the slot that it has just got.
func (q *queue) leave(network string, p *place) {
	q.mu.Lock()
	for i, x := range q.lines[network] {
		if x == p {
			q.remove(network, i)
			q.mu.Unlock()
			return
		}
	}
	q.mu.Unlock()
	if <-p.done {
		q.release()
	}
}

// release passes a slot on to the first one of the line whose turn it is.
func (q *queue) release() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) == 0 {
		q.taken--
		return
	}
	network := q.turns[0]
	first := q.lines[network][0]
	if len(q.lines[network]) > 1 {
		q.turns = append(q.turns[1:len(q.turns):len(q.turns)], network)
	}
	q.remove(network, 0)
	first.done <- true
}
