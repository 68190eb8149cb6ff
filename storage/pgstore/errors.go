package pgstore

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

var errFull = fmt.Errorf("%w: the disk of the database is full", storage.ErrFull)

// errGone and errNoRight say what has happened to the tables since the store was opened.
var (
	errGone    = unavailable("the database no longer has the tables of the storage: were they or their schema removed or renamed, or does the URL lead to another database by now?")
	errNoRight = unavailable("this user may no longer read and write the tables of the database: GRANT it USAGE on their schema and ALL on them")
)

// fullFor is the time after a refusal during which the disk counts as full: small writes may still find room.
const fullFor = 5 * time.Second

// full returns errFull while the disk is full, as far as the last writes tell.
func (s *Store) full() error {
	last := s.stats.lastFull.Load()
	if last == 0 || last < s.stats.lastWrite.Load() && time.Since(time.Unix(0, last)) > fullFor {
		return nil
	}
	return errFull
}

// refused reports whether the server has said that a transaction is not committed.
func refused(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	// A session that ends says so in a message of its own, perhaps after the commit. 40003: the server does not know.
	return e.SeverityUnlocalized == "ERROR" && e.Code != "40003"
}

// failed returns what an error in the midst of a transaction means. It is errAgain if the transaction can run again.
func (s *Store) failed(c *session, err error) error {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		s.pool.reset(c.era) // the server may have restarted: the other sessions are lost too
		s.log.Debug("a connection to the database was lost", zap.Error(safe(err)))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return unavailable("the database does not answer")
		}
		return errAgain
	}
	switch {
	case e.Code == "40001", e.Code == "40P01", strings.Contains(e.Message, "restart transaction"):
		return errAgain
	case e.Code == "53100":
		s.stats.lastFull.Store(time.Now().UnixNano())
		return errFull
	case e.Code == "26000": // a prepared statement is not there: the session was not ours alone
		s.pool.plain.Store(true)
		s.pool.reset(c.era)
		return errAgain
	case e.Code == "25006":
		s.pool.reset(c.era)
		return unavailable("the database is read-only: it is a standby, or was told so")
	case e.Code == "3F000", e.Code == "42P01":
		return errGone
	case e.Code == "42501":
		return errNoRight
	case e.SeverityUnlocalized == "FATAL", e.SeverityUnlocalized == "PANIC":
		s.pool.reset(c.era)
		return errAgain
	}
	s.log.Error("the database refuses a statement", zap.Error(safe(err)))
	return fmt.Errorf("%w: the database refuses a statement (%w)", storage.ErrUnavailable, safe(err))
}

// safe drops what the text of an error could tell of the data or of passwords.
func safe(err error) error {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return fmt.Errorf("SQLSTATE %s", e.Code)
	}
	return err
}
