package authz_test

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
	"github.com/gatehouse-id/gatehouse/authz/signal"
	"github.com/gatehouse-id/gatehouse/storage"
)

// signalPush: nothing is lost while a receiver fails or pauses, and nothing is sent once it has left.
func signalPush(t *testing.T) {
	r := newReceiver(t, true)
	id := r.create(pushMethod)
	blocked := func() { r.happens("person.PersonDeactivatedEvent", authztest.Demo) }
	blocked()
	requests, bodies := r.pushed()
	if len(requests) != 2 {
		t.Fatalf("%d pushed, want 2", len(requests))
	}
	for i, q := range requests {
		if q.URL.String() != "https://siem.example.com/events" || q.Header.Get("Authorization") != "Bearer of-the-receiver" || q.Header.Get("Content-Type") != "application/secevent+jwt" ||
			q.Header.Get("Accept") != "application/json" {
			t.Errorf("pushed to %s with %v", q.URL, q.Header)
		}
		r.read(bodies[i])
	}
	if requests, _ = r.pushed(); len(requests) != 0 {
		t.Errorf("pushed again: %d", len(requests))
	}
	if res := r.ask(r.token, "POST", "/ssf/poll", object{}); res.Status != http.StatusBadRequest {
		t.Errorf("poll of a stream that is pushed: %d", res.Status)
	}

	r.answer(http.StatusServiceUnavailable)
	blocked()
	if requests, _ = r.pushed(); len(requests) != 1 {
		t.Errorf("%d tries at a receiver that is down, want 1", len(requests))
	}
	if requests, _ = r.pushed(); len(requests) != 0 {
		t.Error("no wait after a failure")
	}
	r.answer(http.StatusAccepted)
	r.Clock.Advance(11 * time.Second)
	if requests, _ = r.pushed(); len(requests) != 2 {
		t.Errorf("%d pushed after the wait, want 2", len(requests))
	}

	r.want(http.StatusOK, "POST", "/ssf/status", object{"stream_id": id, "status": "paused"})
	blocked()
	if requests, _ = r.pushed(); len(requests) != 0 {
		t.Error("pushed while paused")
	}
	r.want(http.StatusOK, "POST", "/ssf/status", object{"stream_id": id, "status": "enabled"})
	r.answer(http.StatusBadRequest)
	if requests, _ = r.pushed(); len(requests) != 2 {
		t.Errorf("%d pushed after the pause, want 2", len(requests))
	}
	if requests, _ = r.pushed(); len(requests) != 0 {
		t.Error("what the receiver has refused was sent again")
	}

	// Another address does not get the header of this one.
	r.want(http.StatusOK, "PATCH", "/ssf/stream", object{"stream_id": id, "delivery": object{"method": pushMethod, "endpoint_url": "https://other.example.com/"}})
	blocked()
	if requests, _ = r.pushed(); len(requests) != 2 || requests[0].Header.Get("Authorization") != "" {
		t.Errorf("%d pushed to another address", len(requests))
	}

	r.want(http.StatusOK, "POST", "/ssf/status", object{"stream_id": id, "status": "disabled"})
	blocked()
	r.pushed()
	r.want(http.StatusOK, "POST", "/ssf/status", object{"stream_id": id, "status": "enabled"})
	if requests, _ = r.pushed(); len(requests) != 0 {
		t.Error("told of what happened while it was disabled")
	}
	blocked()
	r.want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil)
	r.create(pushMethod)
	if requests, _ = r.pushed(); len(requests) != 0 {
		t.Error("a new stream has the events of the one that was deleted")
	}
}

// sessionsEnd ends sessions of a person, whose events get their time from the worker.
func (r *receiver) sessionsEnd(n int) {
	r.T.Helper()
	for i := range n {
		session := fmt.Sprintf("session-%04d", i)
		if err := r.Store.Update(r.T.Context(), func(tx storage.Tx) error { return r.Server().SessionEnded(tx, authztest.Demo, session) }); err != nil {
			r.T.Fatal(err)
		}
	}
}

// TestSharedSignalsExpire: what a receiver has not fetched in seven days is gone, however much there is.
func TestSharedSignalsExpire(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	r.create(pollMethod)
	r.happens("person.PersonBlockedEvent", authztest.Demo)
	r.sessionsEnd(600)
	for range 3 {
		r.pushed()
	}
	r.Clock.Advance(8 * 24 * time.Hour)
	r.token = r.as("siem", signal.ScopeManage)
	for range 8 {
		if sets := r.poll(); len(sets) > 0 {
			t.Fatalf("%d events after eight days", len(sets))
		}
	}
}

// TestSharedSignalsOff: without shared_signals nothing is kept for streams of before, since nobody would remove it.
func TestSharedSignalsOff(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	r.create(pollMethod)
	r.Restart(func(c *authz.Config) { c.Signals = signal.Config{} })
	r.sessionsEnd(1)
	r.Restart(func(c *authz.Config) { c.Signals = signal.Config{On: true, All: true} })
	if sets := r.poll(); len(sets) > 0 {
		t.Errorf("kept while shared signals were off: %v", sets)
	}
}

// TestSharedSignalsPushTimes: an event has its time even if the worker has not looked at it before it is pushed.
func TestSharedSignalsPushTimes(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, true)
	r.create(pushMethod)
	r.sessionsEnd(300)
	_, bodies := r.pushed()
	for _, text := range bodies {
		if e := r.read(text)["events"].(object)[revokedURI].(object); e["event_timestamp"] != float64(r.Clock.Now().Unix()) {
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
	id := r.create(pushMethod)
	pushedWhile := func(during func()) []*http.Request {
		r.happens("person.PersonBlockedEvent", authztest.Demo) // two events
		r.during = during
		requests, _ := r.pushed()
		return requests
	}
	if got := pushedWhile(func() {
		r.want(http.StatusOK, "POST", "/ssf/status", object{"stream_id": id, "status": "paused"})
	}); len(got) != 1 {
		t.Errorf("%d pushed to a stream that was paused after one", len(got))
	}
	r.want(http.StatusOK, "POST", "/ssf/status", object{"stream_id": id, "status": "enabled"})
	if got, _ := r.pushed(); len(got) != 1 {
		t.Errorf("%d pushed after the pause, want 1", len(got))
	}
	if got := pushedWhile(func() {
		r.want(http.StatusOK, "PATCH", "/ssf/stream", object{"stream_id": id, "delivery": object{"method": pushMethod, "endpoint_url": "https://new.example.com/"}})
	}); len(got) != 2 || got[1].URL.Host != "new.example.com" || got[1].Header.Get("Authorization") != "" {
		t.Errorf("%d pushed, the last to %v", len(got), got[len(got)-1].URL)
	}
	if got := pushedWhile(func() { r.want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil) }); len(got) != 1 {
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
	r.create(pushMethod)
	r.happens("person.PersonBlockedEvent", authztest.Demo)
	r.Store.Store = &beforeUpdate{Store: r.Store.Store, fn: func() {
		if err := r.Server().CatchUp(t.Context()); err != nil {
			t.Error(err)
		}
	}}
	if requests, _ := r.pushed(); len(requests) != 2 {
		t.Errorf("%d pushed, want 2", len(requests))
	}
	r.happens("person.PersonBlockedEvent", authztest.Demo)
	if requests, _ := r.pushed(); len(requests) != 2 {
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
	r.create(pushMethod)
	r.pushed()
	r.happens("person.PersonBlockedEvent", authztest.Demo) // two events
	plain := r.Store.Store
	r.Store.Store = &pausing{Store: plain, commits: 1, fn: func() { // the stream is claimed
		r.Store.Store = plain
		r.Clock.Advance(2 * time.Minute)
		r.answer(http.StatusServiceUnavailable)
		if requests, _ := r.pushed(); len(requests) != 1 {
			t.Errorf("%d pushed by the other server, want 1", len(requests))
		}
		r.answer(http.StatusAccepted)
	}}
	for _, when := range []string{"after the pause", "before the next try is due"} {
		if requests, _ := r.pushed(); len(requests) != 0 {
			t.Errorf("%d pushed %s, want none", len(requests), when)
		}
	}
	r.Clock.Advance(time.Minute)
	if requests, _ := r.pushed(); len(requests) != 2 {
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
		r := &receiver{id: "siem"}
		r.Harness = authztest.New(t, authztest.WithClients(receiverClient("siem", signal.ScopeManage)), authztest.WithConfig(func(c *authz.Config) { c.Signals = signal.Config{On: true, All: true} }))
		r.token = r.as("siem", signal.ScopeManage)
		r.want(http.StatusCreated, "POST", "/ssf/stream", object{"delivery": object{"method": pushMethod, "endpoint_url": inside.URL}})
		r.happens("person.PersonBlockedEvent", authztest.Demo)
		r.pushed()
		if asked.Load() != 0 || !strings.Contains(r.Log(), "the address is not a public one") {
			t.Errorf("%d connections: %s", asked.Load(), r.Log())
		}
	})
	t.Run("attack 473: people whom the receiver has not named", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, false)
		id := r.create(pollMethod)
		r.happens("person.PersonBlockedEvent", authztest.Demo)
		if sets := r.poll(); len(sets) != 0 {
			t.Errorf("told of %v", sets)
		}
		subject := object{"stream_id": id, "subject": object{"format": "opaque", "id": authztest.Demo}}
		r.want(http.StatusOK, "POST", "/ssf/subjects/add", subject)
		r.happens("person.PersonBlockedEvent", authztest.Demo)
		r.want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil)
		r.create(pollMethod)
		r.happens("person.PersonBlockedEvent", authztest.Demo)
		if sets := r.poll(); len(sets) != 0 {
			t.Errorf("a new stream is told of those of the one before: %v", sets)
		}
	})
	t.Run("attack 474: an event as another token", func(t *testing.T) {
		t.Parallel()
		r := newReceiver(t, true)
		r.create(pushMethod)
		r.happens("person.PersonBlockedEvent", authztest.Demo)
		_, bodies := r.pushed()
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
