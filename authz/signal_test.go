package authz_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/signal"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	pushMethod, pollMethod = "urn:ietf:rfc:8935", "urn:ietf:rfc:8936"

	revokedURI  = "https://schemas.openid.net/secevent/caep/event-type/session-revoked"
	changedURI  = "https://schemas.openid.net/secevent/caep/event-type/credential-change"
	levelURI    = "https://schemas.openid.net/secevent/caep/event-type/assurance-level-change"
	claimsURI   = "https://schemas.openid.net/secevent/caep/event-type/token-claims-change"
	disabledURI = "https://schemas.openid.net/secevent/risc/event-type/account-disabled"
	purgedURI   = "https://schemas.openid.net/secevent/risc/event-type/account-purged"
	verifiedURI = "https://schemas.openid.net/secevent/ssf/event-type/verification"
)

// receiver is a client that is told of shared signals.
type receiver struct {
	*authztest.Harness

	id, token string

	mu     sync.Mutex // guards all below
	got    []*http.Request
	bodies []string
	status int
	during func() // called once, while an event is being pushed
}

func receiverClient(id string, scopes ...string) *client.Client {
	return &client.Client{
		ID: id, Secrets: []secret.String{secret.New(authztest.Secret(id))}, Grants: []string{"client_credentials"}, Scopes: append(scopes, "openid", "profile", "email", "groups"),
	}
}

// newReceiver starts a server with the receivers siem and soc, of whom siem asks.
func newReceiver(t *testing.T, all bool) *receiver {
	t.Helper()
	r := &receiver{id: "siem", status: http.StatusAccepted}
	r.Harness = authztest.New(t, authztest.WithClients(receiverClient("siem", signal.ScopeManage), receiverClient("soc", signal.ScopeManage), receiverClient("reader", signal.ScopeRead)),
		authztest.WithHTTP(&http.Client{Transport: r}), authztest.WithConfig(func(c *authz.Config) { c.Signals = signal.Config{On: true, All: all} }))
	r.token = r.as("siem", signal.ScopeManage)
	return r
}

// RoundTrip implements http.RoundTripper: it is where events are pushed to.
func (r *receiver) RoundTrip(q *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(q.Body)
	r.mu.Lock()
	during := r.during
	r.during = nil
	r.mu.Unlock()
	if during != nil {
		during()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got, r.bodies = append(r.got, q), append(r.bodies, string(body))
	w := httptest.NewRecorder()
	w.WriteHeader(r.status)
	return w.Result(), err
}

// pushed returns what was pushed since the last call.
func (r *receiver) pushed() (requests []*http.Request, bodies []string) {
	if err := authz.SendSignals(r.T.Context(), r.Server()); err != nil {
		r.T.Error(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	requests, bodies, r.got, r.bodies = r.got, r.bodies, nil, nil
	return requests, bodies
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// as returns a token of a client.
func (r *receiver) as(id, scope string) string {
	r.T.Helper()
	token := r.Token(id, url.Values{"grant_type": {"client_credentials"}, "scope": {scope}}).Text("access_token")
	if token == "" {
		r.T.Fatalf("%s has no token", id)
	}
	return token
}

// ask sends JSON with a token.
func (r *receiver) ask(token, method, target string, body any) *authztest.Response {
	r.T.Helper()
	raw := ""
	if text, plain := body.(string); plain {
		raw = text
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			r.T.Fatal(err)
		}
		raw = string(b)
	}
	return r.Do(method, target, raw, "Authorization", "Bearer "+token, "Content-Type", "application/json")
}

// want is ask by the receiver itself, which fails the test with another status.
func (r *receiver) want(status int, method, target string, body any) *authztest.Response {
	r.T.Helper()
	res := r.ask(r.token, method, target, body)
	if res.Status != status {
		r.T.Fatalf("%s %s %v = %d %s, want %d", method, target, body, res.Status, res.Body, status)
	}
	return res
}

type object = map[string]any

// create makes the receiver's stream and returns its id.
func (r *receiver) create(method string) string {
	r.T.Helper()
	d := object{"method": method}
	if method == pushMethod {
		d["endpoint_url"], d["authorization_header"] = "https://siem.example.com/events", "Bearer of-the-receiver"
	}
	return r.want(http.StatusCreated, "POST", "/ssf/stream", object{"delivery": d}).Text("stream_id")
}

// happens appends an event about a person.
func (r *receiver) happens(kind, person string, change ...func(*event.Event)) {
	r.T.Helper()
	id, err := secret.ID(rand.Reader, 8)
	if err != nil {
		r.T.Fatal(err)
	}
	e := event.Event{ID: id, Type: kind, Occurred: r.Clock.Now(), PersonID: person, Actor: "ops"}
	for _, f := range change {
		f(&e)
	}
	if err := r.Store.Update(r.T.Context(), func(tx storage.Tx) error { return r.Server().Tell(tx, e) }); err != nil {
		r.T.Fatal(err)
	}
}

// poll asks for what waits, and acknowledges these.
func (r *receiver) poll(ack ...string) map[string]object {
	r.T.Helper()
	res := r.want(http.StatusOK, "POST", "/ssf/poll", object{"returnImmediately": true, "ack": ack})
	out := map[string]object{}
	for id, text := range res.JSON()["sets"].(map[string]any) {
		out[id] = r.read(text.(string))
		if out[id]["jti"] != id {
			r.T.Errorf("jti %v under %s", out[id]["jti"], id)
		}
	}
	return out
}

// read verifies a security event token as its receiver does. (RFC 8417; OpenID SSF 1.0, 4)
func (r *receiver) read(text string) object {
	r.T.Helper()
	parsed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.RS256, jose.ES256})
	if err != nil {
		r.T.Fatalf("%q: %v", text, err)
	}
	header := parsed.Signatures[0].Header
	if header.ExtraHeaders["typ"] != "secevent+jwt" {
		r.T.Errorf("typ %v", header.ExtraHeaders["typ"])
	}
	published := r.Keys.JWKS()
	payload, err := parsed.Verify(published.Key(header.KeyID)[0].Key)
	if err != nil {
		r.T.Fatal(err)
	}
	var claims object
	if err := json.Unmarshal(payload, &claims); err != nil {
		r.T.Fatal(err)
	}
	if claims["iss"] != r.Issuer || claims["aud"] != r.id || claims["sub"] != nil || claims["exp"] != nil || claims["iat"] == nil {
		r.T.Errorf("claims %v", claims)
	}
	return claims
}

// kinds returns the types of the events in tokens.
func kinds(sets map[string]object) (list []string) {
	for _, s := range sets {
		for uri := range s["events"].(object) {
			list = append(list, uri)
		}
	}
	slices.Sort(list)
	return list
}

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
	r.Restart(func(c *authz.Config) { c.Signals = signal.Config{} })
	for _, path := range []string{"/.well-known/ssf-configuration", "/ssf/stream"} {
		if res := r.Get(path); res.Status != http.StatusNotFound {
			t.Errorf("%s = %d without shared signals", path, res.Status)
		}
	}
}

// signalStream: a stream is made, read, updated, replaced, paused and deleted.
func signalStream(t *testing.T) {
	r := newReceiver(t, false)
	if list := r.want(http.StatusOK, "GET", "/ssf/stream", nil).Body; strings.TrimSpace(list) != "[]" {
		t.Errorf("before: %s", list)
	}
	id := r.create(pushMethod)
	got := r.want(http.StatusOK, "GET", "/ssf/stream?stream_id="+id, nil)
	s := got.JSON()
	if s["aud"] != "siem" || s["iss"] != r.Issuer || len(s["events_supported"].([]any)) != 7 || len(s["events_delivered"].([]any)) != 7 {
		t.Errorf("stream %v", s)
	}
	if strings.Contains(got.Body, "of-the-receiver") {
		t.Error("the answer shows the authorization header")
	}
	s = r.want(http.StatusOK, "PATCH", "/ssf/stream", object{"stream_id": id, "events_requested": []string{revokedURI, "https://example.com/unknown"}, "description": "a test"}).JSON()
	if !slices.Equal(s["events_delivered"].([]any), []any{revokedURI}) || s["description"] != "a test" || s["delivery"].(object)["endpoint_url"] != "https://siem.example.com/events" {
		t.Errorf("after PATCH %v", s)
	}
	if got := r.want(http.StatusOK, "PATCH", "/ssf/stream", object{"stream_id": id, "events_requested": []string{"https://example.com/unknown"}}); !strings.Contains(got.Body, `"events_delivered":[]`) {
		t.Errorf("nothing to deliver: %s", got.Body)
	}
	s = r.want(http.StatusOK, "PUT", "/ssf/stream", object{"stream_id": id, "iss": r.Issuer, "aud": []string{"siem"}, "delivery": object{"method": pollMethod}}).JSON()
	if len(s["events_delivered"].([]any)) != 7 || s["description"] != nil || s["delivery"].(object)["endpoint_url"] != r.Issuer+"/ssf/poll" {
		t.Errorf("after PUT %v", s)
	}
	if st := r.want(http.StatusOK, "GET", "/ssf/status?stream_id="+id, nil).JSON(); st["status"] != "enabled" {
		t.Errorf("status %v", st)
	}
	r.want(http.StatusOK, "POST", "/ssf/status", object{"stream_id": id, "status": "paused", "reason": "maintenance"})
	if st := r.want(http.StatusOK, "GET", "/ssf/status?stream_id="+id, nil).JSON(); st["status"] != "paused" || st["reason"] != "maintenance" {
		t.Errorf("status %v", st)
	}
	r.want(http.StatusNoContent, "DELETE", "/ssf/stream?stream_id="+id, nil)
	r.want(http.StatusNotFound, "GET", "/ssf/stream?stream_id="+id, nil)
	r.want(http.StatusNotFound, "POST", "/ssf/status", object{"stream_id": id, "status": "enabled"})
}

// TestConformanceSSF runs the modules of the plan SSF Transmitter.
func TestConformanceSSF(t *testing.T) {
	t.Parallel()
	for module, run := range map[string]func(*testing.T){
		"metadata": signalMetadata, "stream-control-happy-path": signalStream, "subject-control": signalSubjects, "verification-poll": signalPoll, "caep-interop": signalPoll,
		"verification-push": signalPush,
	} {
		t.Run("openid-ssf-transmitter-"+module, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
	t.Run("errors", signalErrors)
}

// signalErrors are the modules about requests that are refused.
func signalErrors(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, false)
	long := strings.Repeat("x", 300)
	t.Run("openid-ssf-transmitter-create-stream-with-broken-input", func(t *testing.T) {
		for name, body := range map[string]any{
			"no JSON": "{", "an array": "[]", "null": "null", "a member twice": `{"description":"a","description":"b"}`, "another type": `{"events_requested":"x"}`,
			"method": object{"delivery": object{"method": "smoke"}}, "no address": object{"delivery": object{"method": pushMethod}},
			"http": object{"delivery": object{"method": pushMethod, "endpoint_url": "http://a.example"}}, "user": object{"delivery": object{"method": pushMethod, "endpoint_url": "https://a:b@a.example"}},
			"fragment": object{"delivery": object{"method": pushMethod, "endpoint_url": "https://a.example/#x"}},
			"header":   object{"delivery": object{"method": pushMethod, "endpoint_url": "https://a.example", "authorization_header": "a\r\nb: c"}},
			"no URI":   object{"events_requested": []string{"x y"}}, "description": object{"description": long}, "id": object{"stream_id": "mine"},
		} {
			if res := r.ask(r.token, "POST", "/ssf/stream", body); res.Status != http.StatusBadRequest || res.Text("error") != "invalid_request" {
				t.Errorf("%s: %d %s", name, res.Status, res.Body)
			}
		}
	})
	id := r.create(pollMethod)
	t.Run("openid-ssf-transmitter-create-stream-with-duplicate-configuration", func(t *testing.T) {
		if res := r.ask(r.token, "POST", "/ssf/stream", object{}); res.Status != http.StatusConflict {
			t.Errorf("a second stream: %d", res.Status)
		}
	})
	person := r.Tokens("other", authztest.Demo).Access
	soc, reader := r.as("soc", signal.ScopeManage), r.as("reader", signal.ScopeRead)
	calls := []struct {
		module, method, path string
		body                 any
	}{
		{"create-stream", "POST", "/ssf/stream", object{}},
		{"read-stream", "GET", "/ssf/stream?stream_id=" + id, nil},
		{"update-stream", "PATCH", "/ssf/stream", object{"stream_id": id}},
		{"replace-stream", "PUT", "/ssf/stream", object{"stream_id": id, "delivery": object{"method": pollMethod}}},
		{"read-status", "GET", "/ssf/status?stream_id=" + id, nil},
		{"update-status", "POST", "/ssf/status", object{"stream_id": id, "status": "disabled"}},
		{"add-subject", "POST", "/ssf/subjects/add", object{"stream_id": id, "subject": object{"format": "opaque", "id": authztest.Demo}}},
		{"remove-subject", "POST", "/ssf/subjects/remove", object{"stream_id": id, "subject": object{"format": "opaque", "id": authztest.Demo}}},
		{"verify-stream", "POST", "/ssf/verify", object{"stream_id": id}},
		{"delete-stream", "DELETE", "/ssf/stream?stream_id=" + id, nil},
	}
	for _, c := range calls {
		t.Run("openid-ssf-transmitter-"+c.module+"-with-invalid-token", func(t *testing.T) {
			for name, try := range map[string]struct {
				token  string
				status int
			}{"no token": {"", 401}, "an invalid token": {"nonsense", 401}, "a person's token": {person, 403}} {
				if res := r.ask(try.token, c.method, c.path, c.body); res.Status != try.status {
					t.Errorf("%s: %d %s, want %d", name, res.Status, res.Body, try.status)
				}
			}
			if res := r.ask(reader, c.method, c.path, c.body); c.method != "GET" && res.Status != http.StatusForbidden {
				t.Errorf("with ssf.read: %d", res.Status)
			}
		})
		if c.module == "create-stream" {
			continue
		}
		t.Run("openid-ssf-transmitter-"+c.module+"-with-unknown-stream", func(t *testing.T) {
			body, _ := c.body.(object)
			if body = maps.Clone(body); body != nil {
				body["stream_id"] = "unknown"
			}
			if res := r.ask(r.token, c.method, strings.Replace(c.path, id, "unknown", 1), body); res.Status != http.StatusNotFound {
				t.Errorf("%d %s", res.Status, res.Body)
			}
		})
	}
	t.Run("attack 471: the stream of another client", func(t *testing.T) {
		for _, c := range calls[1:] {
			if res := r.ask(soc, c.method, c.path, c.body); res.Status != http.StatusNotFound {
				t.Errorf("%s: %d %s", c.module, res.Status, res.Body)
			}
		}
	})
	for _, missing := range calls[2:9] {
		if missing.method != "GET" {
			if res := r.ask(r.token, missing.method, missing.path, object{"status": "enabled", "delivery": object{"method": pollMethod}}); res.Status != http.StatusBadRequest {
				t.Errorf("%s %s without stream_id = %d", missing.method, missing.path, res.Status)
			}
		}
	}
	for name, body := range map[string]object{
		"another issuer": {"iss": "https://else.example"}, "another audience": {"aud": "soc"}, "other events": {"events_supported": []string{revokedURI}},
	} {
		body["stream_id"] = id
		if res := r.ask(r.token, "PATCH", "/ssf/stream", body); res.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", name, res.Status)
		}
	}
	// The stream is as it was, and the client that is no longer allowed the scope has none.
	if st := r.want(http.StatusOK, "GET", "/ssf/status?stream_id="+id, nil).JSON(); st["status"] != "enabled" {
		t.Errorf("status %v", st)
	}
	r.Restart(func(c *authz.Config) {
		for _, c := range c.Clients {
			if c.ID == "siem" {
				c.Scopes = []string{"openid"}
			}
		}
	})
	if res := r.ask(r.token, "GET", "/ssf/stream", nil); res.Status != http.StatusForbidden {
		t.Errorf("a scope that was taken away: %d %s", res.Status, res.Body)
	}
}

// signalPoll: each event has the members of its profile, waits until it is acknowledged, and has the same id each time.
func signalPoll(t *testing.T) {
	r := newReceiver(t, true)
	id := r.create(pollMethod)
	r.want(http.StatusNoContent, "POST", "/ssf/verify", object{"stream_id": id, "state": "a state"})
	if res := r.ask(r.token, "POST", "/ssf/verify", object{"stream_id": id}); res.Status != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("a second verification at once: %d", res.Status)
	}
	first := r.poll()
	if len(first) != 1 || !slices.Equal(kinds(r.poll()), []string{verifiedURI}) {
		t.Fatalf("verification: %v", first)
	}
	ack := ""
	for jti, s := range first {
		ack = jti
		if s["sub_id"].(object)["id"] != id || s["events"].(object)[verifiedURI].(object)["state"] != "a state" {
			t.Errorf("verification %v", s)
		}
	}
	if left := r.poll(ack); len(left) != 0 {
		t.Errorf("after the acknowledgement: %v", left)
	}

	r.happens("person.PersonBlockedEvent", authztest.Demo)
	blocked := r.poll()
	if got := kinds(blocked); !slices.Equal(got, []string{revokedURI, disabledURI}) {
		t.Errorf("blocked: %v", got)
	}
	for jti, s := range blocked {
		if subject := s["sub_id"].(object); subject["format"] != "iss_sub" || subject["iss"] != r.Issuer || subject["sub"] != authztest.Demo {
			t.Errorf("%s is about %v", jti, subject)
		}
		for _, e := range s["events"].(object) {
			if e := e.(object); e["initiating_entity"] != "admin" || e["event_timestamp"] != float64(r.Clock.Now().Unix()) {
				t.Errorf("%s says %v", jti, e)
			}
		}
		r.poll(jti)
	}
	session := r.People.SignIn(authztest.Demo, 3)
	r.happens("login.StepUpSucceededEvent", authztest.Demo, func(e *event.Event) { e.Actor, e.SessionID = authztest.Demo, session })
	r.happens("person.StepUpMethodAddedEvent", authztest.Demo, func(e *event.Event) { e.Reason = "pin" })
	r.happens("person.PersonUpdatedEvent", authztest.Demo)
	r.happens("login.LoginFailedEvent", authztest.Demo) // nobody's business
	if err := r.Store.Update(t.Context(), func(tx storage.Tx) error { return r.Server().SessionEnded(tx, authztest.Demo, session) }); err != nil {
		t.Fatal(err)
	}
	seen := map[string]object{}
	for _, s := range r.poll() {
		for uri, e := range s["events"].(object) {
			seen[uri] = e.(object)
			if uri == revokedURI || uri == levelURI {
				if subject := s["sub_id"].(object); subject["format"] != "complex" || subject["session"].(object)["id"] != session || subject["user"].(object)["sub"] != authztest.Demo {
					t.Errorf("%s is about %v", uri, subject)
				}
			}
		}
	}
	if len(seen) != 4 || seen[changedURI]["credential_type"] != "pin" || seen[changedURI]["change_type"] != "create" || seen[levelURI]["namespace"] != r.Issuer ||
		!strings.HasSuffix(seen[levelURI]["current_level"].(string), "3") || seen[levelURI]["initiating_entity"] != "user" || len(seen[claimsURI]["claims"].(object)) == 0 {
		t.Errorf("events %v", seen)
	}
	res := r.want(http.StatusOK, "POST", "/ssf/poll", object{"returnImmediately": true, "maxEvents": 1})
	if m := res.JSON(); len(m["sets"].(object)) != 1 || m["moreAvailable"] != true {
		t.Errorf("one at a time: %v", m)
	}
}

// signalSubjects: a receiver that has named nobody is told of none, or of everybody.
func signalSubjects(t *testing.T) {
	for _, all := range []bool{false, true} {
		r := newReceiver(t, all)
		id := r.create(pollMethod)
		heard := func() bool {
			t.Helper()
			r.happens("person.PersonRemovedEvent", authztest.Demo)
			r.happens("person.PersonRemovedEvent", authztest.Guest)
			sets := r.poll()
			about, list := map[any]bool{}, []string{}
			for jti, s := range sets {
				about[s["sub_id"].(object)["sub"]], list = true, append(list, jti)
			}
			r.poll(list...)
			if about[authztest.Guest] != all || len(sets) > 0 && !slices.Contains(kinds(sets), purgedURI) {
				t.Errorf("all %v: of the guest too: %v, %v", all, about, kinds(sets))
			}
			return about[authztest.Demo]
		}
		if heard() != all {
			t.Errorf("all %v: heard before anybody was named", all)
		}
		subject := object{"format": "complex", "user": object{"format": "iss_sub", "iss": r.Issuer, "sub": authztest.Demo}}
		for range 2 {
			r.want(http.StatusNoContent, "POST", "/ssf/subjects/remove", object{"stream_id": id, "subject": subject})
			if heard() {
				t.Errorf("all %v: heard of somebody who was removed", all)
			}
			r.want(http.StatusOK, "POST", "/ssf/subjects/add", object{"stream_id": id, "subject": subject, "verified": true})
			if !heard() {
				t.Errorf("all %v: not heard of somebody who was added", all)
			}
		}
		for name, bad := range map[string]object{
			"none": nil, "another issuer": {"format": "iss_sub", "iss": "https://else.example", "sub": "x"}, "another format": {"format": "email", "email": "demo@example.com"},
			"no identifier": {"format": "opaque"}, "too long": {"format": "opaque", "id": strings.Repeat("x", 300)}, "no user": {"format": "complex"},
		} {
			if res := r.ask(r.token, "POST", "/ssf/subjects/add", object{"stream_id": id, "subject": bad}); res.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", name, res.Status, res.Body)
			}
		}
	}
}

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
		if err := authz.SendSignals(t.Context(), r.Server()); err != nil {
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
