package pgstore

import (
	"strings"

	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// texts are all statements about the records. They stay within what PostgreSQL, CockroachDB and YugabyteDB have in
// common, and need no session state.
type texts struct {
	table, meta string

	getText, putText, deleteText, notifyText, healthText string
	beginView, beginUpdate                               []statement
	scanTexts                                            [2]struct{ bounded, open string } // ascending, descending
	durability                                           string
}

// newTexts returns the statements for the tables of a schema; empty: the first of the search path.
func newTexts(schema string) *texts {
	name := func(n string) string {
		if schema == "" {
			return n
		}
		return quoted(schema) + "." + n
	}
	q := &texts{table: name("gatehouse_kv"), meta: name("gatehouse_meta")}
	q.getText = "SELECT k, v, x, c FROM " + q.table + " WHERE k = ANY($1)"
	q.putText = "INSERT INTO " + q.table + " (k, v, x, c) SELECT * FROM unnest($1, $2, $3, $4) " +
		"ON CONFLICT (k) DO UPDATE SET v = excluded.v, x = excluded.x, c = excluded.c"
	q.deleteText = "DELETE FROM " + q.table + " WHERE k = ANY($1)"
	q.notifyText = "SELECT pg_notify($1, p) FROM unnest($2) AS p"
	for i, order := range [...]string{"", " DESC"} {
		from := "SELECT k, v, x, c FROM " + q.table + " WHERE k >= $1"
		q.scanTexts[i].open = from + " ORDER BY k" + order + " LIMIT $2"
		q.scanTexts[i].bounded = from + " AND k < $3 ORDER BY k" + order + " LIMIT $2"
	}
	q.healthText = "SELECT current_setting('transaction_read_only'), coalesce(current_setting('fsync', true), 'on'), (true"
	for _, t := range [...]string{q.table, q.meta} {
		for _, right := range [...]string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
			q.healthText += " AND has_table_privilege('" + strings.ReplaceAll(t, "'", "''") + "', '" + right + "')"
		}
	}
	q.healthText += ")::text"
	q.beginView = []statement{{sql: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}}
	return q
}

// quoted returns a name as it stands in a statement, whatever it contains.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// begins says whether the server is PostgreSQL itself, and what a commit waits for.
func (q *texts) begins(postgres bool, durability string) {
	q.durability = durability
	q.beginUpdate = []statement{{sql: "BEGIN ISOLATION LEVEL SERIALIZABLE"}}
	if postgres {
		q.beginUpdate = append(q.beginUpdate,
			statement{sql: "SET LOCAL synchronous_commit = " + durability},
			// A sequential scan reads the whole table as far as conflicts are concerned.
			statement{sql: "SET LOCAL enable_seqscan = off"})
	}
}

func (q *texts) get(keys [][]byte) statement {
	return statement{q.getText, []uint32{typeBytes}, [][]byte{arrayOf(typeBytea, keys)}}
}

func (q *texts) scan(b engine.Bounds, descending bool, limit int) statement {
	texts := &q.scanTexts[0]
	if descending {
		texts = &q.scanTexts[1]
	}
	s := statement{sql: texts.open, types: []uint32{typeBytea, typeInt8}, params: [][]byte{[]byte(b.Low), int8Of(int64(limit))}}
	if b.Bounded {
		s.sql, s.types, s.params = texts.bounded, append(s.types, typeBytea), append(s.params, []byte(b.High))
	}
	return s
}

func (q *texts) put(keys, values, times, sums [][]byte) statement {
	return statement{q.putText, []uint32{typeBytes, typeBytes, typeTimes, typeBytes}, [][]byte{
		arrayOf(typeBytea, keys), arrayOf(typeBytea, values), arrayOf(typeTime, times), arrayOf(typeBytea, sums),
	}}
}

func (q *texts) remove(keys [][]byte) statement {
	return statement{q.deleteText, []uint32{typeBytes}, [][]byte{arrayOf(typeBytea, keys)}}
}

// maxStatement bounds the parameters of one statement, in bytes.
const maxStatement = 4 << 20

// write returns the statements that write entries, which are in the order of their keys, so two nodes lock rows in the
// same order.
func (q *texts) write(entries []*engine.Entry) []statement {
	var list []statement
	var gone [][]byte
	var keys, values, times, sums [][]byte
	size := 0
	flush := func() {
		if len(keys) == 0 {
			return
		}
		list = append(list, q.put(keys, values, times, sums))
		keys, values, times, sums, size = nil, nil, nil, nil, 0
	}
	for _, e := range entries {
		if e.Stored == nil {
			gone = append(gone, []byte(e.Key))
			continue
		}
		keys, values = append(keys, []byte(e.Key)), append(values, e.Stored[engine.RecordHead:])
		times, sums = append(times, expiryColumn(e.Stored)), append(sums, e.Stored[:8])
		if size += len(e.Key) + len(e.Stored) + engine.PerEntry; size > maxStatement {
			flush()
		}
	}
	flush()
	if len(gone) > 0 {
		list = append(list, q.remove(gone))
	}
	return list
}
