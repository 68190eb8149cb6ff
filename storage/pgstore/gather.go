package pgstore

import (
	"context"
	"sync"

	"github.com/gatehouse-id/gatehouse/storage"
)

// gatherers is the number of concurrent statements of views that read once. What is asked meanwhile waits, and is asked
// in one statement together.
const gatherers = 2

// maxGathered bounds the keys of one statement, and so the time that someone waits for what others ask.
const maxGathered = 512

// gather reads records for many views at once. Each gets what a statement has read that was sent after it had asked.
type gather struct {
	store *Store

	mu      sync.Mutex // guards what follows
	waiting []*asking
	running int
}

// asking is one view that waits.
type asking struct {
	keys [][]byte
	done chan struct{} // closed once what follows is final
	rows map[string]row
	err  error
}

// row is a record as the database has it.
type row struct{ v, x, c []byte }

// read returns the rows of keys, of one snapshot.
func (g *gather) read(ctx context.Context, keys [][]byte) (map[string]row, error) {
	a := &asking{keys: keys, done: make(chan struct{})}
	g.mu.Lock()
	if g.running < gatherers {
		g.running++
		g.mu.Unlock()
		g.serve([]*asking{a})
		return a.rows, a.err
	}
	g.waiting = append(g.waiting, a)
	g.mu.Unlock()
	select {
	case <-a.done:
		return a.rows, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve asks for some, and has someone else ask for those who wait by then.
func (g *gather) serve(list []*asking) {
	keys := list[0].keys
	for _, a := range list[1:] {
		keys = append(keys[:len(keys):len(keys)], a.keys...)
	}
	rows, err := g.ask(keys)
	for _, a := range list {
		a.rows, a.err = rows, err
		close(a.done)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for n < len(g.waiting) && (n == 0 || size < maxGathered) {
		size += len(g.waiting[n].keys)
		n++
	}
	if n == 0 {
		g.running--
		return
	}
	next := append([]*asking(nil), g.waiting[:n]...)
	g.waiting = append(g.waiting[:0:0], g.waiting[n:]...)
	g.store.leaving.Go(func() { g.serve(next) })
}

// ask sends one statement.
func (g *gather) ask(keys [][]byte) (map[string]row, error) {
	s := g.store
	ctx, cancel := context.WithTimeout(context.Background(), roundTripTimeout)
	defer cancel()
	c, err := s.pool.get(ctx)
	if err != nil {
		if ctx.Err() != nil {
			err = unavailable("the database does not answer")
		}
		return nil, err
	}
	defer s.pool.put(c)
	results, err := c.run(s.sql.get(distinct(keys)))
	if err != nil {
		return nil, s.failed(c, err)
	}
	return rowsOf(results[0]), nil
}

// distinct returns each key once, without those that no record can have.
func distinct(keys [][]byte) [][]byte {
	seen := make(map[string]struct{}, len(keys))
	out := make([][]byte, 0, len(keys))
	for _, k := range keys {
		if _, ok := seen[string(k)]; ok || len(k) > storage.MaxKey {
			continue
		}
		seen[string(k)] = struct{}{}
		out = append(out, k)
	}
	return out
}
