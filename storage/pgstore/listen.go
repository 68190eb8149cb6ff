package pgstore

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/engine"
)

// A transaction that writes notifies the other nodes, and this one, of what it touches. Each node sends itself a beat
// by the way of all statements, and hears it on the session on which it listens. So it knows that both reach the same
// server, and that nothing is lost between. (docs/decisions/postgres.md#notifications-of-postgresql)

const (
	beatEvery = 250 * time.Millisecond
	// beatsToTrust is the number of beats that are heard before the messages are relied on.
	beatsToTrust = 2
	// silence is the time without a beat after which nothing is relied on. What is open has ended a second after a
	// revocation, so it is a little less.
	silence = 900 * time.Millisecond
	// listenAnew is the time without a beat after which the session is made again: it may be to another server.
	listenAnew = 4 * time.Second
	// listenPause is the time until another try.
	listenPause = time.Second
)

// Notifications are bounded. A payload is Base64 of spots, 32 bits each.
const (
	spotsInPayload = 37 // 198 characters
	maxPayloads    = 32
	payloadOfAll   = "*"
	payloadOfBeat  = "!"
)

// marksKept is the number of marks for keys, 8 bytes each.
const marksKept = 1 << 14

// Track implements storage.Tracker.
func (s *Store) Track(ctx context.Context, fn func(storage.Tx) error) (*storage.Reading, error) {
	var w *storage.Watched
	seq := s.marks.Now() // before the view
	err := s.view(ctx, func(t *tx) error {
		w = s.marks.Watch(t, seq)
		return fn(w)
	})
	if err != nil {
		return nil, err
	}
	return w.Reading(), nil
}

var _ storage.Tracker = (*Store)(nil)

// notice returns the statement that tells the nodes what a transaction writes.
func (s *Store) notice(entries []*engine.Entry) statement {
	spots := s.marks.Spots(func(yield func(string) bool) {
		for _, e := range entries {
			if !yield(e.Key) {
				return
			}
		}
	})
	return s.sql.notify(s.ears.channel, payloads(spots))
}

func (q *texts) notify(channel string, payloads [][]byte) statement {
	return statement{q.notifyText, []uint32{typeText, typeTexts}, [][]byte{[]byte(channel), arrayOf(typeText, payloads)}}
}

func payloads(spots []uint32) (list [][]byte) {
	if len(spots) > spotsInPayload*maxPayloads {
		return [][]byte{[]byte(payloadOfAll)}
	}
	raw := make([]byte, 0, 4*spotsInPayload)
	for len(spots) > 0 {
		n := min(len(spots), spotsInPayload)
		raw = raw[:0]
		for _, s := range spots[:n] {
			raw = binary.BigEndian.AppendUint32(raw, s)
		}
		list, spots = append(list, base64.RawStdEncoding.AppendEncode(nil, raw)), spots[n:]
	}
	return list
}

// spotsOf is the inverse of payloads, for one of them.
func spotsOf(payload string) (spots []uint32, ok bool) {
	raw, err := base64.RawStdEncoding.DecodeString(payload)
	if err != nil || len(raw)%4 != 0 {
		return nil, false
	}
	for ; len(raw) > 0; raw = raw[4:] {
		spots = append(spots, binary.BigEndian.Uint32(raw))
	}
	return spots, true
}

// notifications hear what the nodes write.
type notifications struct {
	store   *Store
	config  *pgconn.Config
	channel string
	beat    string // the payload of our beats
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu    sync.Mutex // guards what follows
	open  bool       // there is a session that listens
	beats int        // heard on it
	last  time.Time  // when the last one was heard, or the session was opened
	timer *time.Timer
	told  bool // that we do not hear
}

// listen begins to listen. The channel is that of the table, whatever way leads there.
func (s *Store) listen(config *pgconn.Config, channel string) {
	ctx, stop := context.WithCancel(context.Background())
	e := &notifications{store: s, config: config, channel: channel, beat: payloadOfBeat + rand.Text(), stop: stop}
	e.timer = time.AfterFunc(silence, e.deafen)
	s.ears = e
	e.done.Go(func() { e.loop(ctx) })
	e.done.Go(func() { e.sendBeats(ctx) })
}

func (e *notifications) close() {
	if e == nil {
		return
	}
	e.stop()
	e.done.Wait()
	e.timer.Stop()
}

// errPooled says that a pooler stands between, which passes on no notifications.
var errPooled = errors.New("a pooler in between does not pass on notifications: name the server itself with direct_url")

const (
	notToldEver = "the database does not tell what other nodes write: open requests are looked at every second"
	notToldNow  = notToldEver + " until it does"
)

// errNoNotify says that the server has no notifications.
var errNoNotify = errors.New("the server has no notifications")

// errNotHeard says that we do not hear ourselves.
var errNotHeard = errors.New("notifications of this node do not arrive: does direct_url lead to the database of the URL?")

// loop listens until ctx ends, or it is clear that the server tells nothing.
func (e *notifications) loop(ctx context.Context) {
	for {
		err := e.session(ctx)
		e.deafen()
		if ctx.Err() != nil {
			return
		}
		never := errors.Is(err, errPooled) || sqlState(err) == "0A000"
		e.tell(err, never)
		if never {
			return
		}
		pause := time.NewTimer(listenPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// tell logs once why the other nodes are not heard.
func (e *notifications) tell(err error, never bool) {
	e.mu.Lock()
	first := !e.told
	e.told = true
	e.mu.Unlock()
	if !first {
		return
	}
	text := notToldNow
	if never {
		text = notToldEver
	}
	e.store.log.Warn(text, zap.NamedError("reason", safe(err)))
}

// session listens on one session until it fails.
func (e *notifications) session(ctx context.Context) error {
	config := e.config.Copy()
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { e.hear(n.Payload) }
	conn, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return connectError(err)
	}
	c := &session{conn: conn}
	defer c.close()
	if ok, err := c.direct(); err != nil {
		return err
	} else if !ok {
		return errPooled
	}
	if _, err := c.run(statement{sql: "LISTEN " + e.channel}); err != nil {
		return err
	}
	if err := conn.Conn().SetDeadline(time.Time{}); err != nil {
		return err
	}
	e.opened()
	for {
		wait, cancel := context.WithTimeout(ctx, listenAnew)
		err := conn.WaitForNotification(wait)
		late := wait.Err() != nil || e.since() > listenAnew // others may be heard, but we are not
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case late:
			return errNotHeard
		case err != nil:
			return err
		}
	}
}

func (e *notifications) opened() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.open, e.beats, e.last = true, 0, time.Now()
}

func (e *notifications) since() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.last)
}

// deafen notes that nothing is heard, since the session has ended or no beat has come.
func (e *notifications) deafen() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beats = 0
	e.store.marks.Deafen()
}

// hear takes a notification. It is called by the goroutine of the session.
func (e *notifications) hear(payload string) {
	switch {
	case payload == e.beat:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.last = time.Now()
		e.timer.Reset(silence)
		if e.beats++; e.beats == beatsToTrust {
			e.store.marks.Hear()
			if e.told {
				e.told = false
				e.store.log.Info("the database reports the writes of other nodes again")
			}
		}
	case strings.HasPrefix(payload, payloadOfBeat): // of another node
	default:
		if spots, ok := spotsOf(payload); ok {
			e.store.marks.Told(spots)
		} else {
			e.store.marks.ToldAll()
		}
	}
}

// sendBeats sends a beat every now and then while there is a session that may hear it.
func (e *notifications) sendBeats(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		e.mu.Lock()
		open := e.open
		e.mu.Unlock()
		if open {
			e.sendBeat(ctx)
		}
	}
}

// beatText needs no disk: a beat that is lost does no harm.
const beatText = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"

func (e *notifications) sendBeat(ctx context.Context) {
	p := e.store.pool
	wait, cancel := context.WithTimeout(ctx, listenAnew)
	defer cancel()
	c, err := p.get(wait)
	if err != nil {
		return // no beat is heard, which says it
	}
	defer p.put(c)
	if _, err := c.run(statement{beatText, []uint32{typeText, typeText}, [][]byte{[]byte(e.channel), []byte(e.beat)}}); err != nil {
		_ = e.store.failed(c, err)
	}
}
