package ssf_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/ssf"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// signalMetadata: the document names what is there; without shared_signals nothing is.
func signalMetadata(t *testing.T) {
	r := newReceiver(t, false)
	m := r.Get("/.well-known/ssf-configuration").JSON()
	for member, want := range map[string]any{
		"spec_version": "1_0", "issuer": r.Issuer, "jwks_uri": r.Issuer + "/oauth/jwks", "configuration_endpoint": r.Issuer + "/ssf/stream",
		"status_endpoint": r.Issuer + "/ssf/status", "add_subject_endpoint": r.Issuer + "/ssf/subjects/add", "default_subjects": "NONE",
		"remove_subject_endpoint": r.Issuer + "/ssf/subjects/remove", "verification_endpoint": r.Issuer + "/ssf/verify",
	} {
		if m[member] != want {
			t.Errorf("%s = %v, want %v", member, m[member], want)
		}
	}
	r.Restart(func(c *authz.Config) { c.Signals = ssf.Config{} })
	for _, path := range []string{"/.well-known/ssf-configuration", "/ssf/stream"} {
		if res := r.Get(path); res.Status != http.StatusNotFound {
			t.Errorf("%s = %d without shared signals", path, res.Status)
		}
	}
}

// signalStream: a stream is made, read, updated, replaced, paused and deleted.
func signalStream(t *testing.T) {
	r := newReceiver(t, false)
	if list := r.Want(http.StatusOK, "GET", "/ssf/stream", nil).Body; strings.TrimSpace(list) != "[]" {
		t.Errorf("before: %s", list)
	}
	id := create(r, authztest.PushMethod)
	got := r.Want(http.StatusOK, "GET", "/ssf/stream?stream_id="+id, nil)
	s := got.JSON()
	if s["aud"] != "siem" || s["iss"] != r.Issuer || len(s["events_supported"].([]any)) != 7 || len(s["events_delivered"].([]any)) != 7 {
		t.Errorf("stream %v", s)
	}
	if strings.Contains(got.Body, "of-the-receiver") {
		t.Error("the answer shows the authorization header")
	}
	s = r.Want(http.StatusOK, "PATCH", "/ssf/stream",
		authztest.Object{
			"stream_id": id, "events_requested": []string{revokedURI, "https://example.com/unknown"},
			"description": "a test",
		}).JSON()
	if !slices.Equal(s["events_delivered"].([]any), []any{revokedURI}) || s["description"] != "a test" ||
		s["delivery"].(authztest.Object)["endpoint_url"] != "https://siem.example.com/events" {
		t.Errorf("after PATCH %v", s)
	}
	if got := r.Want(http.StatusOK, "PATCH", "/ssf/stream",
		authztest.Object{"stream_id": id, "events_requested": []string{"https://example.com/unknown"}}); !strings.Contains(got.Body,
		`"events_delivered":[]`) {
		t.Errorf("nothing to deliver: %s", got.Body)
	}
	s = r.Want(http.StatusOK, "PUT", "/ssf/stream",
		authztest.Object{
			"stream_id": id, "iss": r.Issuer, "aud": []string{"siem"},
			"delivery": authztest.Object{"method": authztest.PollMethod},
		}).JSON()
	if len(s["events_delivered"].([]any)) != 7 || s["description"] != nil ||
		s["delivery"].(authztest.Object)["endpoint_url"] != r.Issuer+"/ssf/poll" {
		t.Errorf("after PUT %v", s)
	}
	if st := r.Want(http.StatusOK, "GET", "/ssf/status?stream_id="+id, nil).JSON(); st["status"] != "enabled" {
		t.Errorf("status %v", st)
	}
	r.Want(http.StatusOK, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "paused", "reason": "maintenance"})
	if st := r.Want(http.StatusOK, "GET", "/ssf/status?stream_id="+id, nil).JSON(); st["status"] != "paused" || st["reason"] != "maintenance" {
		t.Errorf("status %v", st)
	}
	r.Want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil)
	r.Want(http.StatusNotFound, "GET", "/ssf/stream?stream_id="+id, nil)
	r.Want(http.StatusNotFound, "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "enabled"})
}

// signalErrors are the modules about requests that are refused.
func signalErrors(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, false)
	long := strings.Repeat("x", 300)
	t.Run(ssfErrors+"create-stream-with-broken-input", func(t *testing.T) {
		for name, body := range map[string]any{
			"no JSON": "{", "an array": "[]", "null": "null", "a member twice": `{"description":"a","description":"b"}`,
			"another type": `{"events_requested":"x"}`,
			"method":       authztest.Object{"delivery": authztest.Object{"method": "smoke"}},
			"no address":   authztest.Object{"delivery": authztest.Object{"method": authztest.PushMethod}},
			"http":         authztest.Object{"delivery": authztest.Object{"method": authztest.PushMethod, "endpoint_url": "http://a.example"}},
			"user":         authztest.Object{"delivery": authztest.Object{"method": authztest.PushMethod, "endpoint_url": "https://a:b@a.example"}},
			"fragment":     authztest.Object{"delivery": authztest.Object{"method": authztest.PushMethod, "endpoint_url": "https://a.example/#x"}},
			"header": authztest.Object{"delivery": authztest.Object{
				"method": authztest.PushMethod, "endpoint_url": "https://a.example",
				"authorization_header": "a\r\nb: c",
			}},
			"no URI": authztest.Object{"events_requested": []string{"x y"}}, "description": authztest.Object{"description": long},
			"id": authztest.Object{"stream_id": "mine"},
		} {
			if res := r.Ask(r.Bearer, "POST", "/ssf/stream", body); res.Status != http.StatusBadRequest || res.Text("error") != "invalid_request" {
				t.Errorf("%s: %d %s", name, res.Status, res.Body)
			}
		}
	})
	id := create(r, authztest.PollMethod)
	t.Run(ssfErrors+"create-stream-with-duplicate-config", func(t *testing.T) {
		if res := r.Ask(r.Bearer, "POST", "/ssf/stream", authztest.Object{}); res.Status != http.StatusConflict {
			t.Errorf("a second stream: %d", res.Status)
		}
	})
	person := r.Tokens("other", authztest.Demo).Access
	soc, reader := r.As("soc", ssf.ScopeManage), r.As("reader", ssf.ScopeRead)
	calls := []struct {
		module, method, path string
		body                 any
	}{
		{"create-stream", "POST", "/ssf/stream", authztest.Object{}},
		{"read-stream", "GET", "/ssf/stream?stream_id=" + id, nil},
		{"update-stream", "PATCH", "/ssf/stream", authztest.Object{"stream_id": id}},
		{"replace-stream", "PUT", "/ssf/stream", authztest.Object{"stream_id": id, "delivery": authztest.Object{"method": authztest.PollMethod}}},
		{"read-status", "GET", "/ssf/status?stream_id=" + id, nil},
		{"update-status", "POST", "/ssf/status", authztest.Object{"stream_id": id, "status": "disabled"}},
		{
			"add-subject", "POST", "/ssf/subjects/add",
			authztest.Object{"stream_id": id, "subject": authztest.Object{"format": "opaque", "id": authztest.Demo}},
		},
		{
			"remove-subject", "POST", "/ssf/subjects/remove",
			authztest.Object{"stream_id": id, "subject": authztest.Object{"format": "opaque", "id": authztest.Demo}},
		},
		{"verify-stream", "POST", "/ssf/verify", authztest.Object{"stream_id": id}},
		{"delete-stream", "DELETE", "/ssf/stream?stream_id=" + id, nil},
	}
	for _, c := range calls {
		t.Run(ssfErrors+c.module+"-with-invalid-token", func(t *testing.T) {
			for name, try := range map[string]struct {
				token  string
				status int
			}{"no token": {"", 401}, "an invalid token": {"nonsense", 401}, "a person's token": {person, 403}} {
				if res := r.Ask(try.token, c.method, c.path, c.body); res.Status != try.status {
					t.Errorf("%s: %d %s, want %d", name, res.Status, res.Body, try.status)
				}
			}
			if res := r.Ask(reader, c.method, c.path, c.body); c.method != "GET" && res.Status != http.StatusForbidden {
				t.Errorf("with ssf.read: %d", res.Status)
			}
		})
		if c.module == "create-stream" {
			continue
		}
		verb, what, _ := strings.Cut(c.module, "-")
		t.Run(ssfErrors+verb+"-unknown-"+what, func(t *testing.T) {
			body, _ := c.body.(authztest.Object)
			if body = maps.Clone(body); body != nil {
				body["stream_id"] = "unknown"
			}
			if res := r.Ask(r.Bearer, c.method, strings.Replace(c.path, id, "unknown", 1), body); res.Status != http.StatusNotFound {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		})
	}
	for _, method := range []string{"PATCH", "PUT"} {
		t.Run(ssfErrors+map[string]string{"PATCH": "update", "PUT": "replace"}[method]+"-stream-with-invalid-body", func(t *testing.T) {
			for name, body := range map[string]any{
				"no JSON": "{", "an array": "[]", "null": "null", "nothing": "",
				"another type": authztest.Object{"stream_id": id, "events_requested": "x"}, "a number": authztest.Object{"stream_id": 7},
				"method":     authztest.Object{"stream_id": id, "delivery": authztest.Object{"method": "smoke"}},
				"no address": authztest.Object{"stream_id": id, "delivery": authztest.Object{"method": authztest.PushMethod}},
			} {
				if res := r.Ask(r.Bearer, method, "/ssf/stream", body); res.Status != http.StatusBadRequest || res.Text("error") != "invalid_request" {
					t.Errorf("%s: %d %s", name, res.Status, res.Body)
				}
			}
		})
	}
	t.Run("peer 62: the stream of another client, by one that has the right to have its own", func(t *testing.T) {
		theirs := r.Ask(soc, "POST", "/ssf/stream",
			authztest.Object{"delivery": authztest.Object{"method": authztest.PollMethod}}).Text("stream_id")
		for _, c := range calls[1:] {
			target := c.path
			if c.body != nil { // a right to what the address names says nothing about what the body names
				target += "?stream_id=" + theirs
			}
			if res := r.Ask(soc, c.method, target, c.body); res.Status != http.StatusNotFound {
				t.Errorf("%s: %d %s", c.module, res.Status, res.Body)
			}
		}
		if res := r.Ask(soc, "DELETE", "/ssf/stream?stream_id="+theirs, nil); res.Status != http.StatusNoContent {
			t.Errorf("its own: %d %s", res.Status, res.Body)
		}
	})
	t.Run("attack 471: the stream of another client", func(t *testing.T) {
		for _, c := range calls[1:] {
			if res := r.Ask(soc, c.method, c.path, c.body); res.Status != http.StatusNotFound {
				t.Errorf("%s: %d %s", c.module, res.Status, res.Body)
			}
		}
	})
	for _, missing := range calls[2:9] {
		if missing.method != "GET" {
			if res := r.Ask(r.Bearer, missing.method, missing.path,
				authztest.Object{
					"status":   "enabled",
					"delivery": authztest.Object{"method": authztest.PollMethod},
				}); res.Status != http.StatusBadRequest {
				t.Errorf("%s %s without stream_id = %d", missing.method, missing.path, res.Status)
			}
		}
	}
	for name, body := range map[string]authztest.Object{
		"another issuer": {"iss": "https://else.example"}, "another audience": {"aud": "soc"},
		"other events": {"events_supported": []string{revokedURI}},
	} {
		body["stream_id"] = id
		if res := r.Ask(r.Bearer, "PATCH", "/ssf/stream", body); res.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, res.Status)
		}
	}
	// The stream is as it was, and the client that is no longer allowed the scope has none.
	if st := r.Want(http.StatusOK, "GET", "/ssf/status?stream_id="+id, nil).JSON(); st["status"] != "enabled" {
		t.Errorf("status %v", st)
	}
	r.Restart(func(c *authz.Config) {
		for _, c := range c.Clients {
			if c.ID == "siem" {
				c.Scopes = []string{"openid"}
			}
		}
	})
	if res := r.Ask(r.Bearer, "GET", "/ssf/stream", nil); res.Status != http.StatusForbidden {
		t.Errorf("a scope that was taken away: %d %s", res.Status, res.Body)
	}
}

// signalPoll: each event has the members of its profile, waits until it is acknowledged, and has the same id each time.
func signalPoll(t *testing.T) {
	r := newReceiver(t, true)
	id := create(r, authztest.PollMethod)
	r.Want(http.StatusNoContent, "POST", "/ssf/verify", authztest.Object{"stream_id": id, "state": "a state"})
	if res := r.Ask(r.Bearer, "POST", "/ssf/verify", authztest.Object{"stream_id": id}); res.Status != http.StatusTooManyRequests ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("a second verification at once: %d", res.Status)
	}
	first := poll(r)
	if len(first) != 1 || !slices.Equal(kinds(poll(r)), []string{verifiedURI}) {
		t.Fatalf("verification: %v", first)
	}
	ack := ""
	for jti, s := range first {
		ack = jti
		if s["sub_id"].(authztest.Object)["id"] != id || s["events"].(authztest.Object)[verifiedURI].(authztest.Object)["state"] != "a state" {
			t.Errorf("verification %v", s)
		}
	}
	if left := poll(r, ack); len(left) != 0 {
		t.Errorf("after the acknowledgement: %v", left)
	}

	r.Happens("person.PersonBlockedEvent", authztest.Demo)
	blocked := poll(r)
	if got := kinds(blocked); !slices.Equal(got, []string{revokedURI, disabledURI}) {
		t.Errorf("blocked: %v", got)
	}
	for jti, s := range blocked {
		if subject := s["sub_id"].(authztest.Object); subject["format"] != "iss_sub" || subject["iss"] != r.Issuer ||
			subject["sub"] != authztest.Demo {
			t.Errorf("%s is about %v", jti, subject)
		}
		for _, e := range s["events"].(authztest.Object) {
			if e := e.(authztest.Object); e["initiating_entity"] != "admin" || e["event_timestamp"] != float64(r.Clock.Now().Unix()) {
				t.Errorf("%s says %v", jti, e)
			}
		}
		poll(r, jti)
	}
	session := r.People.SignIn(authztest.Demo, 3)
	r.Happens("login.StepUpSucceededEvent", authztest.Demo, func(e *audit.Event) { e.Actor, e.SessionID = authztest.Demo, session })
	r.Happens("person.StepUpMethodAddedEvent", authztest.Demo, func(e *audit.Event) { e.Reason = "pin" })
	r.Happens("person.PersonUpdatedEvent", authztest.Demo)
	r.Happens("login.LoginFailedEvent", authztest.Demo) // no one's business
	if err := r.Store.Update(t.Context(),
		func(tx storage.Tx) error { return r.Server().SessionEnded(tx, authztest.Demo, session) }); err != nil {
		t.Fatal(err)
	}
	seen := map[string]authztest.Object{}
	for _, s := range poll(r) {
		for uri, e := range s["events"].(authztest.Object) {
			seen[uri] = e.(authztest.Object)
			if uri == revokedURI || uri == levelURI {
				if subject := s["sub_id"].(authztest.Object); subject["format"] != "complex" ||
					subject["session"].(authztest.Object)["id"] != session || subject["user"].(authztest.Object)["sub"] != authztest.Demo {
					t.Errorf("%s is about %v", uri, subject)
				}
			}
		}
	}
	if len(seen) != 4 || seen[changedURI]["credential_type"] != "pin" || seen[changedURI]["change_type"] != "create" ||
		seen[levelURI]["namespace"] != r.Issuer ||
		!strings.HasSuffix(seen[levelURI]["current_level"].(string), "3") || seen[levelURI]["initiating_entity"] != "user" ||
		len(seen[claimsURI]["claims"].(authztest.Object)) == 0 {
		t.Errorf("events %v", seen)
	}
	res := r.Want(http.StatusOK, "POST", "/ssf/poll", authztest.Object{"returnImmediately": true, "maxEvents": 1})
	if m := res.JSON(); len(m["sets"].(authztest.Object)) != 1 || m["moreAvailable"] != true {
		t.Errorf("one at a time: %v", m)
	}
}

// signalSubjects: a receiver that has named no one is told of none, or of everybody.
func signalSubjects(t *testing.T) {
	for _, all := range []bool{false, true} {
		r := newReceiver(t, all)
		id := create(r, authztest.PollMethod)
		heard := func() bool {
			t.Helper()
			r.Happens("person.PersonRemovedEvent", authztest.Demo)
			r.Happens("person.PersonRemovedEvent", authztest.Guest)
			sets := poll(r)
			about, list := map[any]bool{}, []string{}
			for jti, s := range sets {
				about[s["sub_id"].(authztest.Object)["sub"]], list = true, append(list, jti)
			}
			poll(r, list...)
			if about[authztest.Guest] != all || len(sets) > 0 && !slices.Contains(kinds(sets), purgedURI) {
				t.Errorf("all %v: of the guest too: %v, %v", all, about, kinds(sets))
			}
			return about[authztest.Demo]
		}
		if heard() != all {
			t.Errorf("all %v: heard before anybody was named", all)
		}
		subject := authztest.Object{"format": "complex", "user": authztest.Object{"format": "iss_sub", "iss": r.Issuer, "sub": authztest.Demo}}
		for range 2 {
			r.Want(http.StatusNoContent, "POST", "/ssf/subjects/remove", authztest.Object{"stream_id": id, "subject": subject})
			if heard() {
				t.Errorf("all %v: heard of somebody who was removed", all)
			}
			r.Want(http.StatusOK, "POST", "/ssf/subjects/add", authztest.Object{"stream_id": id, "subject": subject, "verified": true})
			if !heard() {
				t.Errorf("all %v: not heard of somebody who was added", all)
			}
		}
		for name, bad := range map[string]authztest.Object{
			"none": nil, "another issuer": {"format": "iss_sub", "iss": "https://else.example", "sub": "x"},
			"another format": {"format": "email", "email": "demo@example.com"},
			"no identifier":  {"format": "opaque"}, "too long": {"format": "opaque", "id": strings.Repeat("x", 300)},
			"no user": {"format": "complex"},
		} {
			if res := r.Ask(r.Bearer, "POST", "/ssf/subjects/add",
				authztest.Object{"stream_id": id, "subject": bad}); res.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", name, res.Status, res.Body)
			}
		}
	}
}
