package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// A session that leads to the server without a pooler between is the same session for the next transaction. There the
// statements are prepared once, and what a transaction would have to set is set once. (docs/postgres.md)

// lasting are the settings of a whole session. A prepared statement is planned when it is known as little of the table
// as of its parameters; the records are found by an index in each case, and a sequential scan would read the whole
// table as far as conflicts are concerned.
const lasting = "SET synchronous_commit = %s; SET plan_cache_mode = force_generic_plan; " +
	"SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off"

const pidText = "SELECT pg_backend_pid()::text"

// direct reports whether the session is one of the server itself. A pooler gives it another number.
func (c *session) direct() (bool, error) {
	results, err := c.run(statement{sql: pidText})
	return err == nil && string(results[0].Rows[0][0]) == fmt.Sprint(c.conn.PID()), err
}

// prepare prepares the statements of a session, if it is a direct one.
func (c *session) prepare(q *texts) error {
	if ok, err := c.direct(); !ok {
		return err
	}
	if err := c.conn.Conn().SetDeadline(time.Now().Add(roundTripTimeout)); err != nil {
		return err
	}
	ctx := context.Background()
	if _, err := c.conn.Exec(ctx, fmt.Sprintf(lasting, q.durability)).ReadAll(); err != nil {
		return err
	}
	list := q.prepares()
	p := c.conn.StartPipeline(ctx)
	for i, s := range list {
		p.SendPrepare(fmt.Sprint("s", i), s.sql, s.types)
	}
	err := p.Sync()
	prepared := make(map[string]*pgconn.StatementDescription, len(list))
	for i := 0; err == nil && i < len(list); i++ {
		var got any
		if got, err = p.GetResults(); err == nil {
			d, ok := got.(*pgconn.StatementDescription)
			if !ok {
				err = fmt.Errorf("%T instead of a statement", got)
				break
			}
			d.Name = fmt.Sprint("s", i)
			prepared[list[i].sql] = d
		}
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	if err == nil {
		c.prepared = prepared
	}
	return err
}

// prepares are the statements that are sent again and again.
func (q *texts) prepares() []statement {
	none := [][]byte{}
	counted := tally{}.String() // of a process that has committed before
	list := []statement{
		{sql: q.beginView[0].sql},
		{sql: q.beginUpdate[0].sql},
		{sql: "COMMIT"},
		{sql: "ROLLBACK"},
		q.get(none), q.remove(none), q.put(nil, nil, nil, nil), q.notify("", nil), q.tallied("", counted, counted),
	}
	for _, text := range q.scanTexts {
		list = append(list, statement{sql: text.bounded, types: []uint32{typeBytea, typeInt8, typeBytea}},
			statement{sql: text.open, types: []uint32{typeBytea, typeInt8}})
	}
	return list
}

// begins returns what begins a transaction on this session.
func (c *session) begins(list []statement) []statement {
	if c.prepared != nil && len(list) > 1 {
		return list[:1:1] // the rest is set
	}
	return list[:len(list):len(list)]
}

// add appends a statement to a batch.
func (c *session) add(batch *pgconn.Batch, s statement) {
	if d := c.prepared[s.sql]; d != nil {
		batch.ExecStatement(d, s.params, binaryFormat, binaryFormat)
	} else {
		batch.ExecParams(s.sql, s.params, s.types, binaryFormat, binaryFormat)
	}
}
