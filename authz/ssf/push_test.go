package ssf_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/ssf"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// signalPush: nothing is lost while a receiver fails or pauses, and nothing is sent once it has left.
func signalPush(t *testing.T) {
	r := newReceiver(t, true)
	id := create(r, authztest.PushMethod)
	blocked := func() { r.Happens("person.PersonDeactivatedEvent", authztest.Demo) }
	blocked()
	requests, bodies := pushed(r)
	if len(requests) != 2 {
		t.Fatalf("%d pushed, want 2", len(requests))
	}
	for i, q := range requests {
		if q.URL.String() != "https://siem.example.com/events" || q.Header.Get("Authorization") != "Bearer of-the-receiver" ||
			q.Header.Get("Content-Type") != "application/secevent+jwt" ||
			q.Header.Get("Accept") != "application/json" {
			t.Errorf("pushed to %s with %v", q.URL, q.Header)
		}
		read(r, bodies[i])
	}
	if requests, _ = pushed(r); len(requests) != 0 {
		t.Errorf("pushed again: %d", len(requests))
	}
	if res := r.Ask(r.Bearer, "POST", "/ssf/poll", authztest.Object{}); res.Status != http.StatusBadRequest {
		t.Errorf("poll of a stream that is pushed: %d", res.Status)
	}

	answer(r, http.StatusServiceUnavailable)
	blocked()
	if requests, _ = pushed(r); len(requests) != 1 {
		t.Errorf("%d tries at a receiver that is down, want 1", len(requests))
	}
	if requests, _ = pushed(r); len(requests) != 0 {
		t.Error("no wait after a failure")
	}
	answer(r, http.StatusAccepted)
	r.Clock.Advance(11 * time.Second)
	if requests, _ = pushed(r); len(requests) != 2 {
		t.Errorf("%d pushed after the wait, want 2", len(requests))
	}

	r.Want(http.StatusOK, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "paused"})
	blocked()
	if requests, _ = pushed(r); len(requests) != 0 {
		t.Error("pushed while paused")
	}
	r.Want(http.StatusOK, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "enabled"})
	answer(r, http.StatusBadRequest)
	if requests, _ = pushed(r); len(requests) != 2 {
		t.Errorf("%d pushed after the pause, want 2", len(requests))
	}
	if requests, _ = pushed(r); len(requests) != 0 {
		t.Error("what the receiver has refused was sent again")
	}

	// Another address does not get the header of this one.
	r.Want(http.StatusOK, "PATCH", "/ssf/stream",
		authztest.Object{
			"stream_id": id,
			"delivery":  authztest.Object{"method": authztest.PushMethod, "endpoint_url": "https://other.example.com/"},
		})
	blocked()
	if requests, _ = pushed(r); len(requests) != 2 || requests[0].Header.Get("Authorization") != "" {
		t.Errorf("%d pushed to another address", len(requests))
	}

	r.Want(http.StatusOK, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "disabled"})
	blocked()
	pushed(r)
	r.Want(http.StatusOK, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "enabled"})
	if requests, _ = pushed(r); len(requests) != 0 {
		t.Error("told of what happened while it was disabled")
	}
	blocked()
	r.Want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil)
	create(r, authztest.PushMethod)
	if requests, _ = pushed(r); len(requests) != 0 {
		t.Error("a new stream has the events of the one that was deleted")
	}
}

// TestPushAfterTheOldKeyIsGone: the header of a stream is sealed with the first encryption key, and is still sent when
// the older key has gone. One that no key opens is counted.
func TestPushAfterTheOldKeyIsGone(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	create(r, authztest.PollMethod) // it has no header
	r.Bearer = r.As("soc", ssf.ScopeManage)
	r.SealWith(8, 7)
	create(r, authztest.PushMethod)
	for _, c := range []struct {
		keys []byte
		left int
	}{{[]byte{9, 7}, 1}, {[]byte{9, 8, 7}, 0}, {[]byte{9}, 0}} {
		r.SealWith(c.keys...)
		if left, err := r.Server().Reseal(t.Context()); err != nil || left != c.left {
			t.Errorf("Reseal with the keys %v = %d left, %v, want %d", c.keys, left, err, c.left)
		}
	}
	r.Happens("person.PersonBlockedEvent", authztest.Demo)
	requests, _ := pushed(r)
	if len(requests) == 0 {
		t.Fatal("nothing was pushed by the newer key alone")
	}
	for _, q := range requests {
		if got := q.Header.Get("Authorization"); got != "Bearer of-the-receiver" {
			t.Errorf("pushed with Authorization %q, want that of the receiver", got)
		}
	}
}

// TestPausedNodeResealsNoHeader: a node that was paused, and whose term is over, seals nothing: its first key can be
// one that was removed meanwhile.
func TestPausedNodeResealsNoHeader(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	create(r, authztest.PushMethod)
	r.SealWith(8, 7)
	storagetest.RefusedWhenOver(t, r.Store.Store, func(ctx context.Context) error {
		_, err := r.Server().Reseal(ctx)
		return err
	})
}

// sessionsEnd ends sessions of a person, whose events get their time from the worker.
func sessionsEnd(r *authztest.Receiver, n int) {
	r.T.Helper()
	for i := range n {
		session := fmt.Sprintf("session-%04d", i)
		if err := r.Store.Update(r.T.Context(),
			func(tx storage.Tx) error { return r.Server().SessionEnded(tx, authztest.Demo, session) }); err != nil {
			r.T.Fatal(err)
		}
	}
}

// TestSharedSignalsExpire: what a receiver has not fetched in seven days is gone, however much there is.
func TestSharedSignalsExpire(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	create(r, authztest.PollMethod)
	r.Happens("person.PersonBlockedEvent", authztest.Demo)
	sessionsEnd(r, 600)
	for range 3 {
		pushed(r)
	}
	r.Clock.Advance(8 * 24 * time.Hour)
	r.Bearer = r.As("siem", ssf.ScopeManage)
	for range 8 {
		if sets := poll(r); len(sets) > 0 {
			t.Fatalf("%d events after eight days", len(sets))
		}
	}
}

// TestSharedSignalsOff: without shared_signals nothing is kept for streams of before, since no one would remove it.
func TestSharedSignalsOff(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	create(r, authztest.PollMethod)
	r.Restart(func(c *authz.Config) { c.Signals = ssf.Config{} })
	sessionsEnd(r, 1)
	r.Restart(func(c *authz.Config) { c.Signals = ssf.Config{On: true, All: true} })
	if sets := poll(r); len(sets) > 0 {
		t.Errorf("kept while shared signals were off: %v", sets)
	}
}

// TestSharedSignalsPushTimes: an event has its time even if the worker has not looked at it before it is pushed.
func TestSharedSignalsPushTimes(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	create(r, authztest.PushMethod)
	sessionsEnd(r, 300)
	_, bodies := pushed(r)
	for _, text := range bodies {
		if e := read(r, text)["events"].(authztest.Object)[revokedURI].(authztest.Object); e["event_timestamp"] != float64(r.Clock.Now().Unix()) {
			t.Fatalf("event %v, want the time %d", e, r.Clock.Now().Unix())
		}
	}
	if len(bodies) != 300 {
		t.Errorf("%d pushed, want 300", len(bodies))
	}
}

// TestSharedSignalsChangedWhilePushed: a receiver that pauses, moves or deletes its stream gets nothing more at the old
// address.
func TestSharedSignalsChangedWhilePushed(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	id := create(r, authztest.PushMethod)
	pushedWhile := func(during func()) []*http.Request {
		r.Happens("person.PersonBlockedEvent", authztest.Demo) // two events
		r.During = during
		requests, _ := pushed(r)
		return requests
	}
	if got := pushedWhile(func() {
		r.Want(http.StatusOK, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "paused"})
	}); len(got) != 1 {
		t.Errorf("%d pushed to a stream that was paused after one", len(got))
	}
	r.Want(http.StatusOK, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "enabled"})
	if got, _ := pushed(r); len(got) != 1 {
		t.Errorf("%d pushed after the pause, want 1", len(got))
	}
	if got := pushedWhile(func() {
		r.Want(http.StatusOK, "PATCH", "/ssf/stream",
			authztest.Object{
				"stream_id": id,
				"delivery":  authztest.Object{"method": authztest.PushMethod, "endpoint_url": "https://new.example.com/"},
			})
	}); len(got) != 2 || got[1].URL.Host != "new.example.com" || got[1].Header.Get("Authorization") != "" {
		t.Errorf("%d pushed, the last to %v", len(got), got[len(got)-1].URL)
	}
	if got := pushedWhile(func() { r.Want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil) }); len(got) != 1 {
		t.Errorf("%d pushed to a stream that was deleted after one", len(got))
	}
}

// beforeUpdate is a store that calls a function once, before an Update.
type beforeUpdate struct {
	storage.Store

	fn func()
}

func (s *beforeUpdate) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if before := s.fn; before != nil {
		s.fn = nil
		before()
	}
	return s.Store.Update(ctx, fn)
}

// TestSharedSignalsPushedOnce: a server that claims a stream after another one has pushed its events does not push them
// again.
func TestSharedSignalsPushedOnce(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	create(r, authztest.PushMethod)
	r.Happens("person.PersonBlockedEvent", authztest.Demo)
	r.Store.Store = &beforeUpdate{Store: r.Store.Store, fn: func() {
		if err := r.Server().CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	if requests, _ := pushed(r); len(requests) != 2 {
		t.Errorf("%d pushed, want 2", len(requests))
	}
	r.Happens("person.PersonBlockedEvent", authztest.Demo)
	if requests, _ := pushed(r); len(requests) != 2 {
		t.Errorf("%d pushed afterwards, want 2", len(requests))
	}
}

// pausing is a store of a server that is paused once, right after one of its commits.
type pausing struct {
	storage.Store

	commits int // until then
	fn      func()
}

func (s *pausing) Update(ctx context.Context, fn func(storage.Tx) error) error {
	err := s.Store.Update(ctx, fn)
	if s.commits--; s.commits == 0 {
		s.fn()
	}
	return err
}

// TestSharedSignalsOfAPausedServer: a server claims a stream and is paused for longer than its claim. Another one tries
// to push meanwhile. When the first one goes on it pushes nothing, and leaves alone when the next try is due.
func TestSharedSignalsOfAPausedServer(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	create(r, authztest.PushMethod)
	pushed(r)
	r.Happens("person.PersonBlockedEvent", authztest.Demo) // two events
	plain := r.Store.Store
	r.Store.Store = &pausing{Store: plain, commits: 1, fn: func() { // the stream is claimed
		r.Store.Store = plain
		r.Clock.Advance(2 * time.Minute)
		answer(r, http.StatusServiceUnavailable)
		if requests, _ := pushed(r); len(requests) != 1 {
			t.Errorf("%d pushed by the other server, want 1", len(requests))
		}
		answer(r, http.StatusAccepted)
	}}
	for _, when := range []string{"after the pause", "before the next try is due"} {
		if requests, _ := pushed(r); len(requests) != 0 {
			t.Errorf("%d pushed %s, want none", len(requests), when)
		}
	}
	r.Clock.Advance(time.Minute)
	if requests, _ := pushed(r); len(requests) != 2 {
		t.Errorf("%d pushed by the next try, want 2", len(requests))
	}
}

// TestSharedSignalsAttacks: a receiver's address is checked when the connection is made, and its events are no tokens.
func TestSharedSignalsAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 472: an address in our network", func(t *testing.T) {
		t.Parallel()
		var asked atomic.Int64
		inside := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		t.Cleanup(inside.Close)
		r := &authztest.Receiver{ID: "siem"}
		r.Harness = authztest.New(t, authztest.WithClients(authztest.ReceiverClient("siem", ssf.ScopeManage)),
			authztest.WithConfig(func(c *authz.Config) { c.Signals = ssf.Config{On: true, All: true} }))
		r.Bearer = r.As("siem", ssf.ScopeManage)
		r.Want(http.StatusCreated, "POST", "/ssf/stream",
			authztest.Object{"delivery": authztest.Object{"method": authztest.PushMethod, "endpoint_url": inside.URL}})
		r.Happens("person.PersonBlockedEvent", authztest.Demo)
		pushed(r)
		if asked.Load() != 0 || !strings.Contains(r.Log(), "the address is not a public one") {
			t.Errorf("%d connections: %s", asked.Load(), r.Log())
		}
	})
	t.Run("attack 473: people whom the receiver has not named", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, false)
		id := create(r, authztest.PollMethod)
		r.Happens("person.PersonBlockedEvent", authztest.Demo)
		if sets := poll(r); len(sets) != 0 {
			t.Errorf("told of %v", sets)
		}
		subject := authztest.Object{"stream_id": id, "subject": authztest.Object{"format": "opaque", "id": authztest.Demo}}
		r.Want(http.StatusOK, "POST", "/ssf/subjects/add", subject)
		r.Happens("person.PersonBlockedEvent", authztest.Demo)
		r.Want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil)
		create(r, authztest.PollMethod)
		r.Happens("person.PersonBlockedEvent", authztest.Demo)
		if sets := poll(r); len(sets) != 0 {
			t.Errorf("a new stream is told of those of the one before: %v", sets)
		}
	})
	t.Run("attack 474: an event as another token", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, true)
		create(r, authztest.PushMethod)
		r.Happens("person.PersonBlockedEvent", authztest.Demo)
		_, bodies := pushed(r)
		for _, text := range bodies {
			if r.Active(text) || r.Get("/oauth/userinfo", "Authorization", "Bearer "+text).Status != http.StatusUnauthorized {
				t.Error("an event is taken for an access token")
			}
			if res := r.Get("/oauth/logout?id_token_hint=" + text); res.Status == http.StatusSeeOther || res.Status == http.StatusFound {
				t.Errorf("an event is taken for an ID token: %d", res.Status)
			}
		}
	})
}
