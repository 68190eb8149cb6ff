package pgstore

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-id/gatehouse/storage"
)

// transaction is one transaction of the database. It begins together with its first statement, so it costs no round
// trip of its own.
type transaction struct {
	store   *Store
	ctx     context.Context // of a view
	begin   []statement
	open    func() (*session, error)
	session *session // nil: nothing was sent yet
	err     error    // it has failed: nothing that was read or written in it counts

	known  map[string][]byte // what was read, as stored; nil: there is no record
	weight int               // bytes of known

	// A view that reads once needs no transaction. The second time it begins one, and reads again what it has read: if
	// that is different now, the view is run again.
	alone    bool
	first    [][]byte // keys that were read without a transaction
	name     string   // of the first read; empty: there was none, or not alone
	expected [][]byte // what was read along with it, because others have read it next
	next     [][]byte // what was read next
}

// maxKnown bounds what a transaction remembers, in bytes.
const maxKnown = 8 << 20

// errAgain says that nothing of a transaction counts and that it can run again.
var errAgain = unavailable("the transaction has to run again")

// run sends statements of the transaction in one round trip.
func (t *transaction) run(list ...statement) ([]*pgconn.Result, error) {
	if t.err != nil {
		return nil, t.err
	}
	var before []statement
	if t.session == nil {
		c, err := t.open()
		if err != nil {
			t.err = err
			return nil, err
		}
		t.session = c
		before = c.begins(t.begin)
	}
	results, err := t.session.run(append(before, list...)...)
	if err != nil {
		t.err = t.store.failed(t.session, err)
		return nil, t.err
	}
	return results[len(before):], nil
}

// has reports whether records were read.
func (t *transaction) has(keys [][]byte) bool {
	for _, k := range keys {
		if _, known := t.known[string(k)]; !known {
			return false
		}
	}
	return true
}

// read returns records as they are stored, nil for those that are not there.
func (t *transaction) read(keys [][]byte) ([][]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	var ask [][]byte
	missing := false
	for _, k := range keys {
		_, known := t.known[string(k)]
		known = known || len(k) > storage.MaxKey
		missing = missing || !known
		// What was read along, without a transaction, does not count in one.
		if !known || t.first != nil {
			ask = append(ask, k)
		}
	}
	if missing {
		if err := t.fetch(ask); err != nil {
			return nil, err
		}
	}
	t.note(keys)
	out := make([][]byte, len(keys))
	for i, k := range keys {
		out[i] = t.known[string(k)]
	}
	if t.weight > maxKnown && t.first == nil { // until then it is compared
		clear(t.known)
		t.weight = 0
	}
	return out, nil
}

// fetch asks the database for records and remembers them.
func (t *transaction) fetch(ask [][]byte) error {
	switch {
	case t.first != nil:
		return t.settle(ask)
	case t.alone && t.session == nil:
		return t.fetchAlone(ask)
	}
	t.alone = false
	results, err := t.run(t.store.sql.get(ask))
	if err != nil {
		return err
	}
	return t.remember(ask, rowsOf(results[0]))
}

// fetchAlone reads outside of a transaction: one statement is a snapshot of its own. What others have read next is read
// along.
func (t *transaction) fetchAlone(ask [][]byte) error {
	t.name = id(ask)
	t.expected = t.store.foresight.next(t.name)
	all := ask
	if len(t.expected) > 0 {
		all = append(ask[:len(ask):len(ask)], t.expected...)
	}
	rows, err := t.store.gather.read(t.ctx, all)
	if err != nil {
		t.err = err
		return err
	}
	t.first = ask
	for _, k := range t.expected {
		_ = t.remember([][]byte{k}, rows) // if it is damaged, it is read again by those who ask for it
	}
	return t.remember(ask, rows)
}

// settle begins the transaction of a view that has read something without one, and reads more.
func (t *transaction) settle(more [][]byte) error {
	t.alone = false
	if t.first == nil {
		return nil
	}
	seen := t.first
	t.first = nil
	results, err := t.run(t.store.sql.get(append(seen[:len(seen):len(seen)], more...)))
	if err != nil {
		return err
	}
	before := t.known
	t.known, t.weight = nil, 0
	damaged := t.remember(append(seen[:len(seen):len(seen)], more...), rowsOf(results[0]))
	for _, k := range seen {
		was, ok := before[string(k)]
		is := t.known[string(k)]
		if ok && !(bytes.Equal(was, is) && (was == nil) == (is == nil)) {
			t.err = errAgain
			return t.err
		}
	}
	return damaged
}

// note notes what a view reads after its first read.
func (t *transaction) note(keys [][]byte) {
	if t.name == "" {
		return
	}
	for _, k := range keys {
		same := func(o []byte) bool { return bytes.Equal(o, k) }
		if t.first != nil && !slices.ContainsFunc(t.first, same) {
			t.first = append(t.first[:len(t.first):len(t.first)], k) // it was seen without a transaction
		}
	}
	if id(keys) == t.name || len(t.next) > maxForeseen {
		return
	}
	for _, k := range keys {
		if !slices.ContainsFunc(t.next, func(o []byte) bool { return bytes.Equal(o, k) }) {
			t.next = append(t.next, bytes.Clone(k))
		}
	}
}

// remember keeps what was read. A record that is damaged is an error for those alone who have asked for it.
func (t *transaction) remember(asked [][]byte, rows map[string]row) error {
	if t.known == nil {
		t.known = make(map[string][]byte, len(asked))
	}
	for _, k := range asked {
		var stored []byte
		if r, ok := rows[string(k)]; ok {
			var err error
			if stored, err = storedOf(k, r.v, r.x, r.c); err != nil {
				return err
			}
		}
		t.known[string(k)] = stored
		t.weight += len(k) + len(stored)
	}
	return nil
}

// rowsOf returns rows of the columns k, v, x and c by their keys.
func rowsOf(r *pgconn.Result) map[string]row {
	rows := make(map[string]row, len(r.Rows))
	for _, c := range r.Rows {
		rows[string(c[0])] = row{c[1], c[2], c[3]}
	}
	return rows
}

// leave gives the session of a view back. A transaction is ended behind the caller's back, who need not wait for it.
func (t *transaction) leave() {
	c, p := t.session, t.store.pool
	if c == nil {
		return
	}
	if c.conn.IsClosed() || c.usable() {
		p.put(c)
		return
	}
	t.store.leaving.Go(func() {
		c.rollBack()
		p.put(c)
	})
}

// view runs a function on a snapshot until it was one and the same from beginning to end.
func (s *Store) view(ctx context.Context, fn func(*tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.history.trouble(); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	for try := 1; ; try++ {
		again, err := s.viewOnce(ctx, try, fn)
		if !again {
			return err
		}
		if try == maxTries {
			return unavailable("what a view reads changed under it each time")
		}
		s.stats.retried[opView].Add(1)
		if err := s.pause(ctx, try); err != nil {
			return err
		}
	}
}

func (s *Store) viewOnce(ctx context.Context, try int, fn func(*tx) error) (again bool, err error) {
	base := &transaction{
		store: s, ctx: ctx, begin: s.sql.beginView, alone: try == 1,
		open: func() (*session, error) { return s.pool.get(ctx) },
	}
	t := &tx{store: s, ctx: ctx, base: base, trail: storage.TrailOf(ctx)}
	defer func() {
		t.End()
		base.leave()
	}()
	err = fn(t)
	if base.name != "" && base.err == nil && len(base.next) <= maxForeseen {
		s.foresight.learn(base.name, base.expected, base.next)
	}
	return errors.Is(base.err, errAgain), err
}
