package pgstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/pgstore"
	"github.com/gatehouse-id/gatehouse/storage/pgstore/pgtest"
)

// bell is a Waker that can be waited for.
type bell chan struct{}

func (b bell) Wake() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// node is one of two that share a schema.
type node struct {
	*pgstore.Store

	logs *observer.ObservedLogs
}

func openNode(t *testing.T, o pgstore.Options) node {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o.SweepEvery, o.Log = -1, zap.New(core)
	s, err := pgstore.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return node{s, logs}
}

func at(address string) string {
	return pgtest.URLAt(address, pgtest.User, pgtest.Password, pgtest.Database)
}

// read reads a key, and watches it if that is possible at this moment.
func (n node) read(t *testing.T, b bell, key string) (value string, w *storage.Watch) {
	t.Helper()
	r, err := n.Track(t.Context(), func(tx storage.Tx) error {
		v, err := tx.GetMany([]byte(key))
		if err == nil {
			value = string(v[0])
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return value, r.Watch(b)
}

// watch waits until a key can be watched.
func (n node) watch(t *testing.T, b bell, key string) (value string, w *storage.Watch) {
	t.Helper()
	eventually(t, "the node hears what others write", func() bool {
		value, w = n.read(t, b, key)
		return w != nil
	})
	return value, w
}

func (n node) write(t *testing.T, key, value string) {
	t.Helper()
	if err := n.Update(t.Context(), func(tx storage.Tx) error { return tx.Put([]byte(key), []byte(value), time.Time{}) }); err != nil {
		t.Error(err)
	}
}

// eventually waits for something that comes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

func (b bell) wait(t *testing.T, why string) {
	t.Helper()
	select {
	case <-b:
	case <-time.After(time.Minute):
		t.Fatalf("nobody was woken: %s", why)
	}
}

// TestOtherNodeWakes: what one node writes wakes those on another who have read it, whichever way the nodes go.
func TestOtherNodeWakes(t *testing.T) {
	t.Parallel()
	bouncer := at(server.Bouncer(t))
	direct := server.URL(pgtest.Database)
	for name, o := range map[string]pgstore.Options{"direct": {URL: direct}, "behind a pooler": {URL: bouncer, DirectURL: direct}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Schema = newSchema()
			writer, watcher := openNode(t, o), openNode(t, o)
			b := make(bell, 1)
			// No one sleeps through a commit: the reader waits for nothing but to be woken.
			const last = 40
			done := make(chan struct{})
			_, w := watcher.watch(t, b, "token/a")
			go func() {
				defer close(done)
				for n := 1; n <= last; n++ {
					writer.write(t, "token/a", fmt.Sprint(n))
					writer.write(t, fmt.Sprintf("token/%d", n), "")
				}
			}()
			for value := ""; value != fmt.Sprint(last); {
				b.wait(t, "at "+value)
				w.Stop()
				if value, w = watcher.read(t, b, "token/a"); w == nil { // a busy machine: it will wake
					value, w = watcher.watch(t, b, "token/a")
				}
			}
			<-done
			w.Stop()
			rung := make(bell, 1)
			r, err := watcher.Track(t.Context(), func(tx storage.Tx) error {
				for _, err := range tx.Scan(storage.Range{Prefix: []byte("list/")}) {
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if w := r.Watch(rung); w != nil {
				defer w.Stop()
				writer.write(t, "list/new", "")
				rung.wait(t, "a record in a range that was scanned")
			}
			all := make(bell, 1)
			_, w = watcher.watch(t, all, "none")
			defer w.Stop()
			err = writer.Update(t.Context(), func(tx storage.Tx) error {
				for n := range 3000 { // more than is told one by one
					if err := tx.Put(fmt.Appendf(nil, "many/%d", n), nil, time.Time{}); err != nil {
						return err
					}
				}
				return tx.Put([]byte("none"), nil, time.Time{})
			})
			if err != nil {
				t.Error(err)
			}
			all.wait(t, "one of many")
		})
	}
}

// TestSilence: when a node hears nothing any more, because what is told gets lost or its session was ended, it wakes
// who relies on it, and no one can rely on it until it hears again.
func TestSilence(t *testing.T) {
	t.Parallel()
	o := pgstore.Options{URL: server.URL(pgtest.Database, "sslmode=disable", "application_name=silence"), Schema: newSchema()}
	writer := openNode(t, o)
	proxy := pgtest.NewProxy(t, server.Address())
	o.DirectURL = at(proxy.Address())
	watcher := openNode(t, o)
	b := make(bell, 1)
	_, w := watcher.watch(t, b, "token/a")
	proxy.Silence(true)
	writer.write(t, "token/a", "lost")
	b.wait(t, "what is told gets lost")
	w.Stop()
	eventually(t, "nobody can rely on it", func() bool {
		value, w := watcher.read(t, b, "token/a")
		w.Stop()
		if value != "lost" {
			t.Errorf("read %q, want what was written", value)
		}
		return w == nil
	})
	eventually(t, "it is said in the log", func() bool {
		return watcher.logs.FilterMessageSnippet("does not tell what other nodes write").Len() > 0
	})
	proxy.Silence(false)
	_, w = watcher.watch(t, b, "token/a")
	defer w.Stop()
	eventually(t, "it is said in the log that it hears again",
		func() bool {
			return watcher.logs.FilterMessageSnippet("reports the writes of other nodes again").Len() > 0
		})

	_, also := writer.watch(t, b, "token/a")
	defer also.Stop()
	server.Exec(t, pgtest.Database,
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND application_name = 'silence'")
	b.wait(t, "the session that listens was ended")
	_, again := writer.watch(t, b, "token/a")
	defer again.Stop()
}

// TestStartTellsAfterAConflict: attack: a token is revoked on a node that has met a conflict at its start, and does not
// tell the others of it as long as it runs.
func TestStartTellsAfterAConflict(t *testing.T) {
	t.Parallel()
	proxy := pgtest.NewProxy(t, server.Address())
	var once sync.Once
	proxy.Decide(func(_ int, sql string) (fate pgtest.Fate) {
		if strings.HasPrefix(sql, "SELECT pg_notify") {
			once.Do(func() { fate = pgtest.Conflict })
		}
		return fate
	})
	schema := newSchema()
	writer := openNode(t, pgstore.Options{URL: at(proxy.Address()), Schema: schema})
	watcher := openNode(t, pgstore.Options{URL: server.URL(pgtest.Database), Schema: schema})
	b := make(bell, 1)
	_, w := watcher.watch(t, b, "token/a")
	defer w.Stop()
	writer.write(t, "token/a", "revoked")
	b.wait(t, "the other node has revoked the token")
	if n := writer.logs.FilterMessageSnippet("does not tell what other nodes write").Len(); n > 0 {
		t.Error("the node says that its database tells nothing")
	}
}

// TestNothingIsTold: where notifications are not passed on, or the server has none, nothing can be watched, and the log
// says why.
func TestNothingIsTold(t *testing.T) {
	t.Parallel()
	refusing := func(what string) string {
		p := pgtest.NewProxy(t, server.Address())
		p.Decide(func(_ int, sql string) pgtest.Fate {
			if strings.Contains(sql, what) {
				return pgtest.Refuse
			}
			return pgtest.Pass
		})
		return at(p.Address())
	}
	for name, tc := range map[string]struct {
		opt  pgstore.Options
		want string
	}{
		"a pooler":             {pgstore.Options{URL: at(server.Bouncer(t))}, "direct_url"},
		"a server without":     {pgstore.Options{URL: refusing("LISTEN")}, "0A000"},
		"one without NOTIFY":   {pgstore.Options{URL: refusing("pg_notify")}, "0A000"},
		"to another database":  {pgstore.Options{URL: server.URL(pgtest.Database), DirectURL: server.URL("postgres")}, "does direct_url lead to"},
		"nothing listens here": {pgstore.Options{URL: server.URL(pgtest.Database), DirectURL: at(closedAddress(t))}, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.opt.Schema = newSchema()
			n := openNode(t, tc.opt)
			var said string
			eventually(t, "it is said in the log", func() bool {
				for _, l := range n.logs.FilterMessageSnippet("does not tell what other nodes write").All() {
					said = fmt.Sprint(l.ContextMap())
				}
				return said != ""
			})
			if !strings.Contains(said, tc.want) || strings.Contains(said, "p%40ss") {
				t.Errorf("the log says %s, want %q", said, tc.want)
			}
			n.write(t, "a", "1")
			if value, w := n.read(t, nil, "a"); w != nil || value != "1" {
				t.Errorf("read %q, and it can be watched: %t, want 1, and that it cannot", value, w != nil)
			}
		})
	}
	if _, err := pgstore.Open(t.Context(),
		pgstore.Options{URL: server.URL(pgtest.Database), DirectURL: "postgres://a:secret@host:port/db"}); err == nil ||
		!strings.Contains(err.Error(), "direct_url") || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open with a wrong direct_url = %v", err)
	}
}
