package pgstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-id/gatehouse/storage"
)

// roundTripTimeout is the time limit of one round trip, which is a commit with its standbys at most.
const roundTripTimeout = 10 * time.Second

// The types of our parameters.
const (
	typeBytea  = 17
	typeInt8   = 20
	typeBytes  = 1001 // bytea[]
	typeTime   = 1184
	typeTimes  = 1185 // timestamptz[]
	typeText   = 25
	typeTexts  = 1009 // text[]
	nullLength = 0xffffffff
)

var binaryFormat = []int16{1}

// statement is one statement and its parameters in binary form. It has a name in direct sessions alone, since a pooler
// may give each transaction another one.
type statement struct {
	sql    string
	types  []uint32
	params [][]byte
}

// session is one connection. It is used by one goroutine at a time.
type session struct {
	conn   *pgconn.PgConn
	era    uint64      // of the pool when it was made
	warned atomic.Bool // the server has sent a warning
	tally  string      // of this process, as the database had it

	prepared map[string]*pgconn.StatementDescription // by their texts; nil: a pooler may be between
	trips    *atomic.Uint64                          // counts round trips
}

// run sends statements in one round trip. Without a transaction they are one. After an error those behind it are not
// run.
func (c *session) run(list ...statement) ([]*pgconn.Result, error) {
	batch := &pgconn.Batch{}
	for _, s := range list {
		c.add(batch, s)
	}
	if c.trips != nil {
		c.trips.Add(1)
	}
	if err := c.conn.Conn().SetDeadline(time.Now().Add(roundTripTimeout)); err != nil {
		return nil, err
	}
	results, err := c.conn.ExecBatch(context.Background(), batch).ReadAll()
	for _, r := range results {
		if r.Err != nil {
			return nil, r.Err // err may be what came of it, such as that the connection is closed by now
		}
	}
	if err != nil {
		return nil, err
	}
	if len(results) != len(list) {
		return nil, fmt.Errorf("%d results of %d statements", len(results), len(list))
	}
	return results, nil
}

// describe returns the columns of a query, which it does not run.
func (c *session) describe(sql string) ([]pgconn.FieldDescription, error) {
	if err := c.conn.Conn().SetDeadline(time.Now().Add(roundTripTimeout)); err != nil {
		return nil, err
	}
	d, err := c.conn.Prepare(context.Background(), "", sql, nil)
	if err != nil {
		return nil, err
	}
	return d.Fields, nil
}

// usable reports whether the session can begin another transaction.
func (c *session) usable() bool { return !c.conn.IsClosed() && c.conn.TxStatus() == 'I' }

// rollBack ends the transaction, and reports whether the session can begin another one.
func (c *session) rollBack() bool {
	if !c.conn.IsClosed() && c.conn.TxStatus() != 'I' {
		if _, err := c.run(statement{sql: "ROLLBACK"}); err != nil {
			return false
		}
	}
	return c.usable()
}

func (c *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx)
}

// pool holds sessions for views.
type pool struct {
	config *pgconn.Config
	greet  func(*session) error // is called with each new session. nil: nothing is
	texts  *texts               // to prepare in direct sessions. nil: nothing
	plain  atomic.Bool          // nothing is prepared any more
	trips  atomic.Uint64
	most   chan struct{} // a token for each session that is open or being opened

	mu     sync.Mutex // guards idle, era and closed
	idle   []*session
	era    uint64 // sessions of an earlier one are not used again
	closed bool
}

func newPool(config *pgconn.Config, size int) *pool {
	return &pool{config: config, most: make(chan struct{}, size)}
}

var errPoolBusy = unavailable("all connections to the database are in use")

// get returns a session that no one else uses.
func (p *pool) get(ctx context.Context) (*session, error) {
	timer := time.NewTimer(roundTripTimeout)
	defer timer.Stop()
	select {
	case p.most <- struct{}{}:
	default:
		select {
		case p.most <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return nil, errPoolBusy
		}
	}
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return c, nil
	}
	p.mu.Unlock()
	c, err := p.connect(ctx)
	if err != nil {
		<-p.most
	}
	return c, err
}

// put gives a session back.
func (p *pool) put(c *session) {
	p.mu.Lock()
	keep := !p.closed && c.era == p.era && c.usable()
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.close()
	}
	<-p.most
}

// connect opens a session that does not count among those of the pool.
func (p *pool) connect(ctx context.Context) (*session, error) {
	p.mu.Lock()
	c := &session{era: p.era, trips: &p.trips}
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	config := p.config.Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if (*pgconn.PgError)(n).SeverityUnlocalized == "WARNING" {
			c.warned.Store(true)
		}
	}
	var err error
	if c.conn, err = pgconn.ConnectConfig(ctx, config); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, connectError(err)
	}
	if p.greet != nil {
		if err := p.greet(c); err != nil {
			c.close()
			return nil, err
		}
	}
	if p.texts != nil && !p.plain.Load() {
		if err := c.prepare(p.texts); err != nil {
			c.close()
			switch state := sqlState(err); {
			case state == "", strings.HasPrefix(state, "57P"), strings.HasPrefix(state, "40"):
				return nil, errAgain
			}
			return nil, fmt.Errorf("%w: a session cannot be prepared (%w)", storage.ErrUnavailable, safe(err))
		}
	}
	return c, nil
}

// reset has sessions that are open now not used again: the server has restarted, or is not the one that takes writes.
func (p *pool) reset(era uint64) {
	p.mu.Lock()
	if p.era != era {
		p.mu.Unlock()
		return
	}
	p.era++
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

// outdated reports whether a session is of an earlier era.
func (p *pool) outdated(c *session) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return c.era != p.era
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, c := range idle {
		c.close()
	}
}

func unavailable(text string) error { return fmt.Errorf("%w: %s", storage.ErrUnavailable, text) }

var errClosed = unavailable("the store is closed")

// sqlState returns the code of an error of the server, or nothing.
func sqlState(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// arrayOf returns the binary form of an array; nil is NULL.
func arrayOf(kind uint32, elements [][]byte) []byte {
	size, nulls := 20, uint32(0)
	for _, e := range elements {
		size += 4 + len(e)
		if e == nil {
			nulls = 1
		}
	}
	b := make([]byte, 0, size)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, nulls)
	b = binary.BigEndian.AppendUint32(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(elements))) //nolint:gosec // bounded by the size of a transaction
	b = binary.BigEndian.AppendUint32(b, 1)
	for _, e := range elements {
		if e == nil {
			b = binary.BigEndian.AppendUint32(b, nullLength)
			continue
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(e))), e...) //nolint:gosec // bounded likewise
	}
	return b
}

func int8Of(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) } //nolint:gosec // as it is sent
