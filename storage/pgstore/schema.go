package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// format is the number of the form of our tables.
	format = 1
	// oldest is the oldest version of PostgreSQL that is taken.
	oldest = 13
)

// server are the properties of a server.
type server struct {
	version                                          string
	number                                           int
	encoding, readOnly, fsync, pages, standbys, sums string
	postgres                                         bool
}

const factsText = "SELECT version(), current_setting('server_version_num'), current_setting('server_encoding'), " +
	"current_setting('transaction_read_only'), current_setting('fsync', true), current_setting('full_page_writes', true), " +
	"current_setting('synchronous_standby_names', true), current_setting('data_checksums', true)"

// refusal is why a database is refused.
func refusal(format string, args ...any) error { return &fault{nil, fmt.Sprintf(format, args...)} }

// prepare looks at the server and the tables, and makes them where there are none. It refuses before it writes. It
// returns the channel on which the nodes tell each other what they write; empty: the server has none.
func (s *Store) prepare(ctx context.Context) (channel string, err error) {
	c, err := s.pool.connect(ctx)
	if err != nil {
		return "", err
	}
	defer c.close()
	facts, err := factsOf(c)
	if errors.Is(err, errAgain) {
		facts, err = factsOf(c)
	}
	if err != nil {
		return "", err
	}
	if err := facts.judge(); err != nil {
		return "", err
	}
	s.tellOf(facts)
	s.sql.begins(facts.postgres, s.opt.Durability)
	for try := 1; ; try++ {
		err := s.settle(c)
		if err == nil {
			err = s.beginHistory(c)
		}
		if err == nil && facts.postgres {
			s.pool.texts = s.sql
			channel, err = s.channelOf(c)
		}
		if !errors.Is(err, errAgain) || try == maxTries {
			return channel, err
		}
		if err := s.pause(ctx, try); err != nil {
			return "", err
		}
	}
}

// channelOf returns a name that all have in common who use our table, and no one else of the database.
func (s *Store) channelOf(c *session) (string, error) {
	r, err := c.run(statement{sql: "SELECT $1::regclass::oid::text", types: []uint32{typeText}, params: [][]byte{[]byte(s.sql.table)}})
	if err != nil {
		return "", s.refusedTo("find its table", err)
	}
	channel := "gatehouse_" + string(r[0].Rows[0][0])
	c.warned.Store(false)
	_, err = c.run(statement{sql: "BEGIN"}, s.sql.notify(channel, nil), statement{sql: "ROLLBACK"})
	if err != nil && (!c.rollBack() || !lacksNotify(err)) { // others rely on being told what this node writes
		return "", s.failed(c, err)
	}
	if err != nil || c.warned.Load() { // some servers take it and say that they do nothing
		reason := errNoNotify
		if err != nil {
			reason = fmt.Errorf("%w (%w)", reason, safe(err))
		}
		s.log.Warn(notToldEver, zap.NamedError("reason", reason))
		return "", nil
	}
	return channel, nil
}

// lacksNotify reports whether a server refuses to notify for good: it has no such feature or function, or no right to
// it.
func lacksNotify(err error) bool {
	state := sqlState(err)
	return state == "0A000" || strings.HasPrefix(state, "42")
}

// settle makes the tables, or finds them in order. It is errAgain when another node is at it too.
func (s *Store) settle(c *session) error {
	there, err := s.examine(c)
	if err != nil {
		return err
	}
	if !there {
		if err := s.create(c); raced(err) {
			return errAgain
		} else if err != nil {
			return s.refusedTo("make its tables", err)
		}
		s.log.Warn("the database had no tables of Gatehouse: a new, empty storage was made. If this is not the first start, were they or their schema removed, or does the URL lead to another database?",
			zap.String("table", s.sql.table))
		if _, err := s.examine(c); err != nil {
			return err
		}
	}
	return s.rehearse(c)
}

func factsOf(c *session) (server, error) {
	r, err := c.run(statement{sql: factsText})
	switch sqlState(err) {
	case "40001", "40P01":
		return server{}, errAgain
	}
	if err != nil {
		return server{}, &fault{
			unavailable("the database cannot be asked"),
			"the server does not say what it is (" + safe(err).Error() + "): is this PostgreSQL?",
		}
	}
	row := r[0].Rows[0]
	f := server{
		version: string(row[0]), encoding: string(row[2]), readOnly: string(row[3]), fsync: string(row[4]), pages: string(row[5]),
		standbys: string(row[6]), sums: string(row[7]),
	}
	f.number, _ = strconv.Atoi(string(row[1]))
	f.postgres = !strings.Contains(f.version, "Cockroach")
	return f, nil
}

// judge refuses a server on which a promise could not be kept.
func (f server) judge() error {
	switch {
	case f.number < oldest*10_000:
		return refusal("the database is %s: it must be PostgreSQL %d or later", f.version, oldest)
	case f.encoding != "UTF8":
		return refusal("the encoding of the database is %s: make another one with `createdb --encoding=UTF8 --template=template0 …`", f.encoding)
	case f.readOnly != "off":
		return refusal("the database is read-only: name the primary, or several hosts with target_session_attrs=read-write, or switch default_transaction_read_only off")
	case f.fsync == "off":
		return refusal("the database has fsync = off: when its machine fails it loses acknowledged writes. Set fsync = on in postgresql.conf")
	case f.pages == "off":
		return refusal("the database has full_page_writes = off: when its machine fails it can be damaged. Set full_page_writes = on in postgresql.conf")
	}
	return nil
}

// tellOf says in the log what durability rests on.
func (s *Store) tellOf(f server) {
	s.log.Info("storage is a database", zap.String("server", f.version), zap.String("durability", s.opt.Durability),
		zap.String("synchronous_standbys", f.standbys), zap.String("data_checksums", f.sums))
	if f.standbys != "" && s.opt.Durability == "local" {
		s.log.Warn("durability is local: acknowledged writes can be lost when a standby is promoted")
	}
}

// columns of our tables, with their types.
var (
	recordColumns = []column{{"k", typeBytea}, {"v", typeBytea}, {"x", typeTime}, {"c", typeBytea}}
	metaColumns   = []column{{"name", typeText}, {"value", typeText}}
)

type column struct {
	name string
	kind uint32
}

// examine reports whether our tables are there, and refuses those of others.
func (s *Store) examine(c *session) (there bool, err error) {
	var records, meta bool
	for try := 0; try == 0 || try == 1 && records != meta; try++ { // another server can make them between the two questions
		if records, err = s.columnsOf(c, s.sql.table, recordColumns); err != nil {
			return false, err
		}
		if meta, err = s.columnsOf(c, s.sql.meta, metaColumns); err != nil {
			return false, err
		}
	}
	if !records && !meta {
		return false, nil
	}
	if records != meta {
		return false, s.foreign("one of the tables gatehouse_kv and gatehouse_meta is missing")
	}
	facts, err := s.readFacts(c)
	if err != nil {
		return false, err
	}
	number, err := strconv.Atoi(facts["format"])
	switch {
	case err != nil || number < 1 || facts["cluster"] == "":
		return false, s.foreign("gatehouse_meta does not say what it is")
	case number > format:
		return false, refusal("the tables are of a newer version of Gatehouse (format %d, this one knows %d): start that version", number, format)
	case facts["cluster"] != s.opt.Cluster:
		return false, refusal("the database is that of the cluster %q, this node is of %q: correct the URL, or `cluster`, or give each cluster a `schema` of its own", facts["cluster"], s.opt.Cluster)
	}
	return true, nil
}

func (s *Store) foreign(why string) error {
	return refusal("the database has tables of another application under our names (%s): use another database, or another `schema`", why)
}

// columnsOf reports whether a table is there, and refuses one with other columns.
func (s *Store) columnsOf(c *session, table string, want []column) (bool, error) {
	fields, err := c.describe("SELECT * FROM " + table)
	switch sqlState(err) {
	case "42P01", "3F000": // no such table, no such schema
		return false, nil
	}
	if err != nil {
		return false, s.refusedTo("read the table "+table, err)
	}
	for i, f := range fields {
		if i >= len(want) || f.Name != want[i].name || f.DataTypeOID != want[i].kind {
			return false, s.foreign(table + " has other columns")
		}
	}
	if len(fields) != len(want) {
		return false, s.foreign(table + " has other columns")
	}
	return true, nil
}

// create makes the tables in one transaction.
func (s *Store) create(c *session) error {
	list := []statement{{sql: "BEGIN"}}
	if s.opt.Schema != "" {
		list = append(list, statement{sql: "CREATE SCHEMA IF NOT EXISTS " + quoted(s.opt.Schema)})
	}
	list = append(list,
		statement{sql: "CREATE TABLE " + s.sql.table + " (k bytea PRIMARY KEY, v bytea NOT NULL, x timestamptz, c bytea) WITH (fillfactor = 80)"},
		statement{sql: "CREATE INDEX gatehouse_kv_x ON " + s.sql.table + " (x) WHERE x IS NOT NULL"},
		statement{sql: "CREATE TABLE " + s.sql.meta + " (name text PRIMARY KEY, value text NOT NULL)"},
		statement{
			sql: "INSERT INTO " + s.sql.meta + " (name, value) VALUES ('format', $1), ('cluster', $2)", types: []uint32{typeText, typeText},
			params: [][]byte{[]byte(strconv.Itoa(format)), []byte(s.opt.Cluster)},
		},
		statement{sql: "COMMIT"})
	_, err := c.run(list...)
	if err != nil && !c.conn.IsClosed() {
		_, _ = c.run(statement{sql: "ROLLBACK"})
	}
	return err
}

// raced reports whether another node has made the tables at the same time.
func raced(err error) bool {
	switch sqlState(err) {
	case "23505", "42P06", "42P07", "42710", "40001", "40P01", "XX000":
		return true
	}
	return false
}

// rehearse writes nothing in every way that the store will, so missing rights are found now.
func (s *Store) rehearse(c *session) error {
	list := append(s.sql.beginUpdate[:len(s.sql.beginUpdate):len(s.sql.beginUpdate)], s.sql.get(nil),
		s.sql.put(nil, nil, nil, nil), s.sql.remove(nil),
		s.sql.setFact("rehearsal", ""), statement{sql: "ROLLBACK"})
	if _, err := c.run(list...); err != nil {
		if !c.conn.IsClosed() {
			_, _ = c.run(statement{sql: "ROLLBACK"})
		}
		if sqlState(err) == "42P10" {
			return s.foreign("gatehouse_kv has no primary key")
		}
		return s.refusedTo("write to its tables", err)
	}
	return nil
}

// refusedTo returns in words why the server did not do something.
func (s *Store) refusedTo(what string, err error) error {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return &fault{unavailable("the connection was lost"), "the connection to the database was lost"}
	case e.Code == "42501":
		return refusal("this user may not %s (%s): let it own the database (ALTER DATABASE … OWNER TO …), or GRANT it CREATE and USAGE on the schema and ALL on the tables", what, e.Message)
	case e.Code == "3F000":
		return refusal("there is no schema to %s in (%s): make it, let this user USE it, or name another one with `schema`", what, e.Message)
	case e.Code == "40001", e.Code == "40P01":
		return errAgain
	case e.Code == "53100":
		return &fault{storage.ErrFull, "the disk of the database is full: make room there"}
	case e.Code == "25006":
		return refusal("the database is read-only: name the primary")
	}
	return fmt.Errorf("the database does not let us %s (SQLSTATE %s: %s)", what, e.Code, e.Message)
}
