package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
)

// A database that takes the place of another one, as a standby that is promoted does, can lack what was answered. Each
// process therefore counts its commits in a row of its own, which a commit writes together with all else, and only
// where the row is as the commit before has left it. The row is among the records, so it goes back with them where
// gatehouse_kv alone is put back. Each connection, and each question for the time, compares the rows with those that
// were seen before. If one has gone back, the store answers nothing any more, and says so to the other processes, until
// an operator has accepted the loss.

// tallyPrefix begins the keys of these rows in gatehouse_kv; the id of a process follows. They have no checksum and are
// not records: no transaction scans or writes them. The names of tables begin with a letter.
const (
	tallyPrefix = "\x00commits/"
	tallyEnd    = "\x00commits0" // the first key after them
)

// Names in gatehouse_meta.
const (
	acceptedName = "history" // -> how many losses were accepted
	lostName     = "lost"    // -> the number of accepted losses before this one, and what was lost
	// unknownTally stands where a row that must be there was not.
	unknownTally = "unknown"
)

// tallyKept is the time that the row of an ended process stays.
const tallyKept = 7 * 24 * time.Hour

// tally says how many commits a process has made, and when it made the last one.
type tally struct {
	count uint64
	at    int64 // seconds
}

func (t tally) String() string { return fmt.Sprintf("%d %d", t.count, t.at) }

// tallyOf reads a row. What cannot be read counts as nothing.
func tallyOf(text string) (t tally) {
	count, at, _ := strings.Cut(text, " ")
	t.count, _ = strconv.ParseUint(count, 10, 64)
	t.at, _ = strconv.ParseInt(at, 10, 64)
	return t
}

// history is the knowledge of this process about the commits of all.
type history struct {
	own string // the key of the row of this process
	by  string // how operators find this process

	mu       sync.Mutex       // guards what follows
	answered tally            // commits of this process that are known to be there
	others   map[string]tally // by the keys of their rows
	accepted uint64
	lost     error  // nil: nothing, as far as is known
	what     string // was lost

	stored string // the row of this process, as its next commit must find it; of the writer alone
}

// seen are the minimum values of rows.
type seen struct {
	answered tally
	others   map[string]tally
	accepted uint64
	lost     bool
}

func (h *history) before() seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := seen{h.answered, make(map[string]tally, len(h.others)), h.accepted, h.lost != nil}
	for name, t := range h.others {
		s.others[name] = t
	}
	return s
}

// trouble is why nothing is answered. nil: it is.
func (h *history) trouble() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lost
}

func errLost(what string) error {
	return fmt.Errorf("%w: %s. Look at what took the place of the database, and bring it back if it can be; otherwise run `caddy gatehouse accept-loss`", storage.ErrLost, what)
}

// facts returns the statement that reads the rows of gatehouse_meta, and those that count commits.
func (q *texts) facts() statement {
	return statement{
		"SELECT convert_to(name, 'UTF8'), convert_to(value, 'UTF8') FROM " + q.meta + " UNION ALL SELECT k, v FROM " + q.table +
			" WHERE k >= $1 AND k < $2",
		[]uint32{typeBytea, typeBytea},
		[][]byte{[]byte(tallyPrefix), []byte(tallyEnd)},
	}
}

// setFact returns the statement that writes a row.
func (q *texts) setFact(name, value string) statement {
	return statement{
		"INSERT INTO " + q.meta + " (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		[]uint32{typeText, typeText},
		[][]byte{[]byte(name), []byte(value)},
	}
}

// tallied returns the statement that counts a commit in the row of a key. It fails where the row is not as it was left:
// a value must not be NULL. Where the row is missing it returns unknownTally, and leaves that for the next commit. The
// first commit makes the row.
func (q *texts) tallied(key, was, is string) statement {
	insert := "INSERT INTO " + q.table + " AS r (k, v) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET v = "
	if was == "" {
		return statement{insert + "excluded.v", []uint32{typeBytea, typeBytea}, [][]byte{[]byte(key), []byte(is)}}
	}
	return statement{
		insert + "CASE WHEN r.v = $3 THEN $4 END RETURNING v",
		[]uint32{typeBytea, typeBytea, typeBytea, typeBytea},
		[][]byte{[]byte(key), []byte(unknownTally), []byte(was), []byte(is)},
	}
}

// goneBack is the code of the error of tallied.
const goneBack = "23502"

// beginHistory refuses a database that has lost something, unless that is what it was opened for. It writes nothing:
// the row of this process comes with its first commit.
func (s *Store) beginHistory(c *session) error {
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	facts, err := s.readFacts(c)
	if err != nil {
		return err
	}
	if what, lost := lostIn(facts); lost && !s.accepting {
		return errLost(what)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	by := fmt.Sprintf("the server on %s, process %d", host, os.Getpid())
	s.history = &history{own: tallyPrefix + hex.EncodeToString(id[:]), by: by, others: map[string]tally{}, accepted: acceptedIn(facts)}
	return nil
}

// forgetTallies removes the rows of processes that have ended long ago.
func (s *Store) forgetTallies(c *session) error {
	h := s.history
	h.mu.Lock()
	var old [][]byte
	for name, t := range h.others {
		if time.Unix(t.at, 0).Before(time.Now().Add(-tallyKept)) {
			old = append(old, []byte(name))
			delete(h.others, name)
		}
	}
	h.mu.Unlock()
	if len(old) == 0 {
		return nil
	}
	_, err := c.run(s.sql.remove(old))
	return err
}

func (s *Store) readFacts(c *session) (map[string]string, error) {
	r, err := c.run(s.sql.facts())
	if err != nil {
		return nil, s.refusedTo("read its tables", err)
	}
	return factsIn(r[0]), nil
}

func factsIn(r *pgconn.Result) map[string]string {
	facts := make(map[string]string, len(r.Rows))
	for _, row := range r.Rows {
		facts[string(row[0])] = string(row[1])
	}
	return facts
}

func acceptedIn(facts map[string]string) uint64 {
	n, _ := strconv.ParseUint(facts[acceptedName], 10, 64)
	return n
}

// lostIn reports whether a process has noticed a loss that no one has accepted yet.
func lostIn(facts map[string]string) (what string, lost bool) {
	number, what, _ := strings.Cut(facts[lostName], " ")
	n, err := strconv.ParseUint(number, 10, 64)
	return what, err == nil && n == acceptedIn(facts)
}

// examineHistory compares the rows of a database with those of before. It returns storage.ErrLost if one has gone back.
func (s *Store) examineHistory(c *session) error {
	h := s.history
	if h == nil { // of the session that makes it
		return nil
	}
	before := h.before()
	results, err := c.run(s.sql.facts())
	if err != nil {
		return s.failed(c, err)
	}
	facts := factsIn(results[0])
	if s.accepting {
		c.tally = facts[h.own]
		return nil
	}
	return s.judgeHistory(c, before, facts)
}

func (s *Store) judgeHistory(c *session, before seen, facts map[string]string) error {
	h, accepted := s.history, acceptedIn(facts)
	c.tally = facts[h.own]
	what, told := lostIn(facts)
	if !told && accepted > before.accepted {
		s.goOn(facts)
		return nil
	}
	if !told {
		var lost bool
		if what, lost = before.missing(h.own, facts); !lost {
			h.keep(s.log, before, facts)
			return h.trouble()
		}
		what += " (noticed by " + h.by + ")"
	}
	what, ok := h.declare(s.log, before.accepted, what)
	if !ok {
		return errAgain
	}
	if !told {
		if _, err := c.run(s.sql.setFact(lostName, fmt.Sprintf("%d %s", accepted, what))); err != nil {
			s.log.Error("the other servers were not told of the loss yet", zap.Error(safe(err)))
		}
	}
	return h.trouble()
}

// goOn starts over after a loss was accepted.
func (s *Store) goOn(facts map[string]string) {
	h := s.history
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := acceptedIn(facts); n > h.accepted {
		h.accepted, h.lost, h.answered, h.others = n, nil, tallyOf(facts[h.own]), map[string]tally{}
		s.log.Warn("an operator has accepted that writes were lost: this server goes on")
	}
}

// missing tells what the rows of a database lack.
func (b seen) missing(own string, facts map[string]string) (what string, lost bool) {
	if acceptedIn(facts) < b.accepted {
		return "the database has gone back to before a loss that was accepted", true
	}
	if is := tallyOf(facts[own]); is.count < b.answered.count && !removed(b.answered, facts[own]) {
		return fmt.Sprintf("of %d transactions of one server that were answered, the database has %d", b.answered.count, is.count), true
	}
	for name, was := range b.others {
		is, found := facts[name]
		if removed(was, is) {
			continue
		}
		if got := tallyOf(is); got.count < was.count || !found {
			return fmt.Sprintf("of %d transactions of one server that were seen, the database has %d", was.count, got.count), true
		}
	}
	return "", false
}

// removed reports whether a row is not there because its process has not committed for long: it has ended, or was
// paused, as this one can have been. See forgetTallies.
func removed(was tally, is string) bool {
	return (is == "" || is == unknownTally) && time.Unix(was.at, 0).Before(time.Now().Add(time.Hour-tallyKept))
}

// keep remembers what was seen. Nothing is missing: if something was before, the right database is back.
func (h *history) keep(log *zap.Logger, before seen, facts map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before.lost && h.lost != nil {
		h.lost = nil
		log.Warn("the database has all acknowledged writes again: this server goes on")
	}
	for name, value := range facts {
		if strings.HasPrefix(name, tallyPrefix) && name != h.own {
			if t := tallyOf(value); t.count >= h.others[name].count {
				h.others[name] = t
			}
		}
	}
}

// declare makes the store answer nothing any more, and returns what was lost. It does nothing if a loss was accepted
// since the rows were read.
func (h *history) declare(log *zap.Logger, accepted uint64, what string) (string, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.accepted > accepted {
		return "", false
	}
	if h.lost == nil {
		h.lost, h.what = errLost(what), what
		log.Error("the database lacks acknowledged writes: requests are refused until `caddy gatehouse accept-loss`",
			zap.String("lost", what))
	}
	return h.what, true
}

// rowWasMissing tells that of the result of tallied.
func rowWasMissing(r *pgconn.Result) bool {
	return len(r.Rows) == 1 && string(r.Rows[0][0]) == unknownTally
}

// counted remembers a commit that was answered.
func (h *history) counted(is string) {
	h.stored = is
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = tallyOf(is)
}

// next returns the row of this process with the next commit. It goes on from what was answered, where the row was
// removed.
func (h *history) next() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := max(tallyOf(h.stored).count, h.answered.count)
	return tally{count + 1, time.Now().Unix()}.String()
}

// AcceptLoss lets the nodes of a database go on that lacks what was answered. It runs after in the same transaction and
// returns what was lost. It is an error if nothing was.
func AcceptLoss(ctx context.Context, o Options, after func(storage.Tx) error) (what string, err error) {
	o.SweepEvery = -1
	s, err := openWith(ctx, o, true)
	if err != nil {
		return "", fmt.Errorf("open storage postgres: %w", err)
	}
	defer s.Close() //nolint:errcheck // it returns none
	for try := 1; ; try++ {
		what, err = s.accept(after)
		if !errors.Is(err, errAgain) || try == maxTries {
			return what, err
		}
		if err := s.pause(ctx, try); err != nil {
			return "", err
		}
	}
}

// ErrNoLoss says that there is nothing to accept.
var ErrNoLoss = errors.New("the storage has lost nothing, as far as its servers know")

func (s *Store) accept(after func(storage.Tx) error) (what string, err error) {
	w := &writer{store: s}
	defer w.leave()
	base := &transaction{store: s, begin: s.sql.beginUpdate, open: w.open}
	results, err := base.run(s.sql.facts())
	if err != nil {
		return "", err
	}
	facts := factsIn(results[0])
	what, lost := lostIn(facts)
	if !lost {
		return "", ErrNoLoss
	}
	if _, err := base.run(s.sql.setFact(acceptedName, strconv.FormatUint(acceptedIn(facts)+1, 10))); err != nil {
		return "", err
	}
	return what, w.finish(base, after)
}
