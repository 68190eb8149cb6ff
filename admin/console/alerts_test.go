package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/alert"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/outbound/outboundtest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// wayOut is the HTTP transport of alert webhooks: public hosts alone, or the server of a test.
type wayOut struct {
	mu sync.Mutex // guards to
	to *httptest.Server
}

func (w *wayOut) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	if to == nil {
		return outbound.New(false).Transport.RoundTrip(r)
	}
	at, err := url.Parse(to.URL)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = at.Scheme, at.Host
	return to.Client().Transport.RoundTrip(r)
}

// receiver is the target of a webhook.
type receiver struct {
	mu     sync.Mutex // guards status and got
	status int
	got    []*http.Request
	bodies []string
}

// receive lets all webhooks lead to one receiver.
func (h *harness) receive() *receiver {
	h.t.Helper()
	rec := &receiver{status: http.StatusOK}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			h.t.Error(err)
		}
		rec.mu.Lock()
		defer rec.mu.Unlock()
		if r.Method == http.MethodPost {
			rec.got, rec.bodies = append(rec.got, r), append(rec.bodies, string(body))
			w.WriteHeader(rec.status)
		}
	}))
	h.t.Cleanup(srv.Close)
	h.out.mu.Lock()
	h.out.to = srv
	h.out.mu.Unlock()
	return rec
}

// answers sets the status of further answers, and forgets what has come.
func (r *receiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.got, r.bodies = status, nil, nil
}

// take returns what has come since the last call.
func (r *receiver) take() (got []*http.Request, bodies []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, bodies = r.got, r.bodies
	r.got, r.bodies = nil, nil
	return got, bodies
}

func (h *harness) alertDeps() alert.Deps {
	h.out = &wayOut{}
	return alert.Deps{
		Store: h.store, Persons: h.id.Person, Recorder: h.recorder, Keyring: h.keyring, Random: h.recorder.Random, Mail: h.notices,
		Link: EventsOf, Log: zap.NewNop(),
		Client: &http.Client{Transport: h.out, Timeout: outbound.Timeout, CheckRedirect: outbound.New(false).CheckRedirect},
	}
}

// alert is an alert of a person, which h makes once.
func (h *harness) alert(username string) string {
	h.t.Helper()
	if id := h.alertsOf[username]; id != "" {
		return id
	}
	h.setEmail(username)
	id, _, err := h.alerts.Add(h.t.Context(),
		alert.Draft{Name: "alert of " + username, To: alert.Mail, Filter: alert.Filter{Types: []string{"never"}}},
		audit.Actor{ID: h.personID(username)})
	h.must(err)
	if h.alertsOf == nil {
		h.alertsOf = map[string]string{}
	}
	h.alertsOf[username] = id
	return id
}

// alertPaths writes a payload into an alert, and returns the pages that show it.
func (h *harness) alertPaths(payload, q string, by audit.Actor) []string {
	h.t.Helper()
	out := []string{layout.Root + "/events/alerts", layout.Root + "/events/alerts/save-alert?" + q}
	h.setEmail("owner@example.com")
	by.ID = h.personID("owner@example.com")
	id, _, err := h.alerts.Add(h.t.Context(),
		alert.Draft{Name: payload, To: alert.Mail, Filter: alert.Filter{Client: payload, Address: "192.0.2.1"}}, by)
	if errors.As(err, new(*alert.InvalidError)) { // longer than a name
		id = h.alert("owner@example.com")
	} else {
		h.must(err)
	}
	for _, act := range []string{"", "/edit-alert", "/test-alert", "/pause-alert", "/resume-alert", "/remove-alert"} {
		out = append(out, layout.Root+"/events/alerts/"+id+act)
	}
	return out
}

// round lets the worker look once.
func (h *harness) round() {
	h.t.Helper()
	h.must(h.alerts.Round(h.t.Context()))
}

// saves fills in the form of an alert, and returns the page that follows.
func (b *browser) saves(query string, fields ...string) *answer {
	b.h.t.Helper()
	return b.acts("/admin/events/alerts/save-alert?"+query, filled(query, fields)...)
}

// filled is the form of an alert as a browser would send it: what the query has put into it, and what was entered.
func filled(query string, fields []string) (out []string) {
	q, _ := url.ParseQuery(query)
	for name := range q {
		out = append(out, name, q.Get(name))
	}
	return append(append(out, "to", "mail"), fields...)
}

// TestAlertByMail: the filter that the events show is saved; what it selects from then on is mailed, at most once a
// minute and twenty times an hour.
func TestAlertByMail(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	page := b.get("/admin/events?kind=x&address=192.0.2.1").Body.String()
	if !strings.Contains(page, `href="/admin/events/alerts/save-alert?address=192.0.2.1&amp;kind=x"`) ||
		!strings.Contains(page, `href="/admin/events/alerts"`) {
		t.Errorf("the events do not lead to the alerts\n%s", page)
	}
	if strings.Contains(b.get("/admin/events").Body.String(), "save-alert") ||
		strings.Contains(h.as("viewer@example.com").get("/admin/events?kind=x").Body.String(), "save-alert") {
		t.Error("an alert of everything, or of a viewer, is offered")
	}
	h.happens("x.AEvent", "192.0.2.1", "before")
	h.actHasEvent(b, h.personID("operator@example.com"), "/admin/events/alerts/save-alert?address=192.0.2.1&kind=x", "alert.AlertCreatedEvent",
		filled("address=192.0.2.1&kind=x", []string{"name", "Odd things"})...)
	list := func(want ...string) string {
		t.Helper()
		body := b.get("/admin/events/alerts").form()
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("the list lacks %q\n%s", w, body)
			}
		}
		_, at, _ := strings.Cut(body, `<a class="row" href="`)
		at, _, _ = strings.Cut(at, `"`)
		return at
	}
	at := list("Odd things", "E-mail to the owner", "Active", "—")
	h.round()
	h.happens("y.BEvent", "192.0.2.1", "another type")
	h.happens("x.BEvent", "192.0.2.2", "another address")
	h.notices.Take()
	h.round()
	if sent := h.notices.Take(); len(sent) > 0 {
		t.Fatalf("sent before anything has happened: %+v", sent)
	}
	for range 13 {
		h.happens("x.CEvent", "192.0.2.1", "https://evil.example.net/ click")
	}
	h.round()
	h.happens("x.DEvent", "192.0.2.1", "more")
	h.round()
	sent := h.notices.Take()
	if len(sent) != 1 || sent[0].Kind != notify.EventAlert || sent[0].To != "operator@example.com" || sent[0].Data["count"] != "13" ||
		sent[0].Data["alert"] != "Odd things" ||
		len(sent[0].Events) != 10 || sent[0].Events[0].Type != "x.CEvent" || sent[0].Events[0].Name != "Something" ||
		sent[0].Events[0].From != "192.0.2.1" || strings.Contains(fmt.Sprint(sent[0]), "evil") ||
		sent[0].Link != "/admin/events?address=192.0.2.1&kind=x" {
		t.Fatalf("sent: %+v", sent)
	}
	h.clock.Advance(time.Minute)
	h.round()
	if sent = h.notices.Take(); len(sent) != 1 || sent[0].Data["count"] != "1" {
		t.Fatalf("after a minute: %+v", sent)
	}
	list("14", "21 November 2035")
	mails := 2
	for range 57 {
		h.happens("x.EEvent", "192.0.2.1", "")
		h.clock.Advance(time.Minute)
		h.round()
		mails += len(h.notices.Take())
	}
	if mails != 20 {
		t.Errorf("%d e-mails in an hour, want 20", mails)
	}
	h.clock.Advance(3 * time.Minute)
	b = h.as("operator@example.com")
	h.round()
	if sent = h.notices.Take(); len(sent) != 1 || sent[0].Data["count"] != "39" {
		t.Errorf("after the hour: %+v", sent)
	}
	me := h.personID("operator@example.com")
	h.clock.Advance(time.Hour)
	b = h.as("operator@example.com")
	h.actHasEvent(b, me, at+"/pause-alert", "alert.AlertPausedEvent")
	h.round()
	h.happens("x.FEvent", "192.0.2.1", "")
	h.round()
	list("Paused")
	h.actHasEvent(b, me, at+"/resume-alert", "alert.AlertResumedEvent")
	h.round()
	h.round()
	if sent = h.notices.Take(); len(sent) > 0 {
		t.Errorf("what has happened in the pause is sent: %+v", sent)
	}
	h.actHasEvent(b, me, at+"/test-alert", "alert.AlertTestedEvent")
	if sent = h.notices.Take(); len(sent) != 1 || sent[0].Kind != notify.Test || sent[0].To != "operator@example.com" {
		t.Errorf("the test: %+v", sent)
	}
	h.actHasEvent(b, me, at+"/edit-alert", "alert.AlertChangedEvent", "name", "Other things", "kind", "y", "address",
		"192.0.2.1", "to", "mail")
	h.round()
	h.happens("y.GEvent", "192.0.2.1", "")
	h.happens("x.GEvent", "192.0.2.1", "")
	h.round()
	if sent = h.notices.Take(); len(sent) != 1 || sent[0].Data["count"] != "1" || sent[0].Data["alert"] != "Other things" {
		t.Errorf("after the change: %+v", sent)
	}
	h.happens("y.HEvent", "192.0.2.1", "")
	h.actHasEvent(b, me, at+"/remove-alert", "alert.AlertRemovedEvent")
	h.clock.Advance(time.Hour)
	h.round()
	if sent = h.notices.Take(); len(sent) > 0 {
		t.Errorf("after the removal: %+v", sent)
	}
}

var webhookSecret = regexp.MustCompile(`<code>(whsec_[^<]+)</code>`)

// TestAlertByWebhook: the message is signed with a secret that is shown once, and tried again with growing pauses.
func TestAlertByWebhook(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	got := h.receive()
	b := h.as("operator@example.com")
	a := b.saves("kind=x", "name", "Odd things", "to", "webhook", "url", "https://hooks.example.com/planted-path")
	m := webhookSecret.FindStringSubmatch(a.Body.String())
	if m == nil {
		t.Fatalf("no secret is shown: %d\n%s", a.Code, a.form())
	}
	key, err := notify.WebhookConfig{Secret: secret.New(html.UnescapeString(m[1]))}.Key()
	h.must(err)
	list := func() string { t.Helper(); return b.get("/admin/events/alerts").form() }
	_, at, _ := strings.Cut(list(), `<a class="row" href="`)
	at, _, _ = strings.Cut(at, `"`)
	for _, path := range []string{"/admin/events/alerts", at, at + "/edit-alert"} {
		if body := b.get(path).Body.String(); strings.Contains(body, "planted-path") || strings.Contains(body, m[1]) ||
			path != at+"/edit-alert" && !strings.Contains(body, "hooks.example.com") {
			t.Errorf("%s tells a secret, or does not tell the host\n%s", path, body)
		}
	}
	h.round()
	h.happens("x.AEvent", "192.0.2.1", "first")
	h.happens("x.BEvent", "192.0.2.2", "second")
	got.answers(http.StatusInternalServerError)
	h.round()
	tries, bodies := got.take()
	if len(tries) != 1 {
		t.Fatalf("%d messages, want 1", len(tries))
	}
	var body struct {
		Type string
		Data struct {
			Alert  string
			Count  int
			Events []audit.Info
		}
	}
	h.must(json.Unmarshal([]byte(bodies[0]), &body))
	if r := tries[0]; r.URL.Path != "/planted-path" ||
		r.Header.Get("webhook-signature") != "v1,"+
			notify.Sign(key, r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), []byte(bodies[0])) {
		t.Errorf("message to %s with %v", r.URL, r.Header)
	}
	if body.Type != "gatehouse.alert" || body.Data.Alert != "Odd things" || body.Data.Count != 2 || len(body.Data.Events) != 2 ||
		body.Data.Events[0].Reason != "first" {
		t.Errorf("message: %s", bodies[0])
	}
	if body := list(); !strings.Contains(body, "Last attempt failed") || !strings.Contains(body, "status 500") {
		t.Errorf("the list does not say that it has failed\n%s", body)
	}
	h.happens("x.CEvent", "192.0.2.3", "third")
	waits := 0
	for pause := range 8 { // 1, 2, 4 … minutes
		for range 1<<pause - 1 {
			h.clock.Advance(time.Minute)
			h.round()
			waits++
		}
		if again, _ := got.take(); len(again) > 0 && pause < 6 {
			t.Fatalf("tried again %d minutes after try %d", waits, pause+1)
		}
		h.clock.Advance(time.Minute)
		h.round()
		again, _ := got.take()
		if pause < 6 && (len(again) != 1 || again[0].Header.Get("webhook-id") != tries[0].Header.Get("webhook-id")) {
			t.Fatalf("after pause %d: %d messages, want the same one", pause, len(again))
		}
	}
	got.answers(http.StatusNoContent)
	h.clock.Advance(time.Hour)
	h.round()
	if again, _ := got.take(); len(again) != 1 {
		t.Fatalf("%d messages, want 1", len(again))
	}
	h.clock.Advance(time.Minute)
	h.round()
	if _, bodies = got.take(); len(bodies) != 1 || !strings.Contains(bodies[0], `"count":1`) || !strings.Contains(bodies[0], "third") {
		t.Errorf("the next message: %s", bodies)
	}
	b = h.as("operator@example.com")
	if body := list(); !strings.Contains(body, "Active") || strings.Contains(body, "status 500") {
		t.Errorf("the list does not say that it works again\n%s", body)
	}
	got.answers(http.StatusGone) // for good
	h.happens("x.DEvent", "192.0.2.3", "fourth")
	h.clock.Advance(time.Minute)
	h.round()
	h.clock.Advance(24 * time.Hour)
	h.round()
	if tries, _ := got.take(); len(tries) != 1 {
		t.Errorf("%d messages to a receiver that has gone, want 1", len(tries))
	}
	b = h.as("operator@example.com")
	if a := b.acts(at + "/test-alert"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "status 410") {
		t.Errorf("a test that fails: %d\n%s", a.Code, a.form())
	}
	got.answers(http.StatusOK)
	b.acts(at + "/test-alert")
	if _, bodies := got.take(); len(bodies) != 1 || !strings.Contains(bodies[0], "gatehouse.alert.test") {
		t.Errorf("test: %s", bodies)
	}
	// Without an address it stays; another one has another secret.
	if a := b.acts(at+"/edit-alert", "name", "Odd things", "kind", "x", "to", "webhook", "url",
		""); strings.Contains(a.Body.String(), "whsec_") {
		t.Error("a change of something else has made a new secret")
	}
	if a := b.acts(at+"/edit-alert", "name", "Odd things", "kind", "x", "to", "webhook", "url",
		"https://other.example.com/"); !strings.Contains(a.Body.String(), "whsec_") || strings.Contains(a.Body.String(), m[1]) {
		t.Errorf("another address has no other secret\n%s", a.form())
	}
}

// TestAlertAfterOneWasGivenUp: a message that no one takes for long is given up, and the next one is tried as often.
func TestAlertAfterOneWasGivenUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	got := h.receive()
	b := h.as("operator@example.com")
	b.saves("kind=x", "name", "Odd things", "to", "webhook", "url", "https://hooks.example.com/")
	h.round()
	h.happens("x.AEvent", "192.0.2.1", "first")
	got.answers(http.StatusInternalServerError)
	for range 30 {
		h.round()
		h.clock.Advance(time.Hour)
	}
	if tries, _ := got.take(); len(tries) == 0 || len(tries) == 30 {
		t.Fatalf("%d tries in 30 hours, want that it is given up", len(tries))
	}
	h.happens("x.BEvent", "192.0.2.1", "second")
	for range 5 {
		h.round()
		h.clock.Advance(time.Hour)
	}
	got.answers(http.StatusOK)
	h.round()
	if _, bodies := got.take(); len(bodies) != 1 || !strings.Contains(bodies[0], "second") {
		t.Errorf("the receiver that works again has got %q, want the second event", bodies)
	}
}

// TestAlertsAfterTheOldKeyIsGone: the targets of webhooks are sealed with the first key. One that no key opens is
// counted, and the others are sealed all the same.
func TestAlertsAfterTheOldKeyIsGone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	got := h.receive()
	by := audit.Actor{ID: h.personID("owner@example.com")}
	var ids []string
	sealing := func(keys ...byte) *alert.Service {
		var all [][]byte
		for _, b := range keys {
			all = append(all, bytes.Repeat([]byte{b}, secret.KeySize))
		}
		ring, err := secret.NewKeyring(all...)
		h.must(err)
		d := h.alerts.Deps
		d.Keyring = ring
		return alert.New(d)
	}
	for _, key := range []byte{3, 4, 3} {
		d := alert.Draft{
			Name: "planted", To: alert.Webhook, URL: "https://hooks.example.com/", Filter: alert.Filter{Types: []string{"never"}},
		}
		id, _, err := sealing(key).Add(t.Context(), d, by)
		h.must(err)
		ids = append(ids, id)
	}
	if left, err := sealing(5, 3).Reseal(t.Context()); err != nil || left != 1 {
		t.Errorf("Reseal with a target of another key = %d left, %v, want 1", left, err)
	}
	if left, err := sealing(5, 4).Reseal(t.Context()); err != nil || left != 0 {
		t.Errorf("Reseal with its key = %d left, %v, want none", left, err)
	}
	for _, id := range ids {
		h.must(sealing(5).Test(t.Context(), id, by))
	}
	if tries, _ := got.take(); len(tries) != len(ids) {
		t.Errorf("%d messages by the newer key alone, want %d", len(tries), len(ids))
	}
}

// TestAlertAttacks: destinations that no one may reach, texts that would be headers, and rights that were lost.
func TestAlertAttacks(t *testing.T) {
	t.Parallel()
	kept := func(h *harness) (list []alert.Alert) {
		h.must(h.store.View(t.Context(), func(tx storage.Tx) (err error) {
			list, err = h.alerts.List(tx)
			return err
		}))
		return list
	}
	t.Run("attack 542: a webhook to an address that is not public", func(t *testing.T) {
		h := newHarness(t)
		b := h.as("owner@example.com")
		port, met := outboundtest.Inside(t)
		urls := []string{
			"http://hooks.example.com/", "ftp://hooks.example.com/", "https://", "https://user:pw@hooks.example.com/",
			"https://hooks.example.com/#x", "javascript:alert(1)", "//hooks.example.com", "https://hooks.example.com/" + strings.Repeat("a", 3000),
		}
		for _, host := range outboundtest.Hosts {
			urls = append(urls, "https://"+host+":"+port+"/")
		}
		for _, to := range urls {
			if a := b.saves("kind=x", "name", "n", "to", "webhook", "url", to); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("webhook %s: status %d, want 422", to, a.Code)
			}
		}
		if list := kept(h); len(list) > 0 || met() > 0 {
			t.Errorf("%d alerts are kept, and %d connections came", len(list), met())
		}
		// What became an address inside after it was saved is not reached either, and redirects are not followed.
		got := h.receive()
		b.saves("kind=x", "name", "n", "to", "webhook", "url", "https://hooks.example.com/")
		h.round()
		h.out.mu.Lock()
		h.out.to = nil
		h.out.mu.Unlock()
		h.happens("x.AEvent", "192.0.2.1", "")
		h.round()
		if list := kept(h); len(list) != 1 || list[0].Problem == "" {
			t.Errorf("alerts: %+v, want one that has failed", list)
		}
		if tries, _ := got.take(); len(tries) > 0 {
			t.Errorf("%d messages", len(tries))
		}
	})
	t.Run("attack 871: receivers that take their time", func(t *testing.T) {
		h := newHarness(t)
		h.alerts.Client.Timeout = time.Minute
		h.setEmail("owner@example.com")
		by, filter := audit.Actor{ID: h.personID("owner@example.com")}, alert.Filter{Types: []string{"x"}}
		h.receive() // lets them be saved
		const slow = 3
		for i := range slow {
			_, _, err := h.alerts.Add(t.Context(),
				alert.Draft{Name: fmt.Sprint("slow ", i), To: alert.Webhook, URL: "https://hooks.example.com/", Filter: filter}, by)
			h.must(err)
		}
		_, _, err := h.alerts.Add(t.Context(), alert.Draft{Name: "z", To: alert.Mail, Filter: filter}, by)
		h.must(err)
		var there atomic.Int32
		all := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if there.Add(1) == slow {
				if sent := h.notices.Take(); len(sent) != 1 {
					t.Errorf("attack: %d e-mails before the webhooks have answered, want 1", len(sent))
				}
				close(all)
			}
			select { // one that answers when all others are there
			case <-all:
			case <-r.Context().Done():
			}
		}))
		t.Cleanup(srv.Close)
		h.out.mu.Lock()
		h.out.to = srv
		h.out.mu.Unlock()
		h.happens("x.AEvent", "192.0.2.1", "")
		h.round()
		for _, a := range kept(h) {
			if a.Told != 1 || a.Problem != "" {
				t.Errorf("attack: %s has told of %d events, want 1: %s", a.Name, a.Told, a.Problem)
			}
		}
	})
	t.Run("attack 543: names that would be headers or markup", func(t *testing.T) {
		h := newHarness(t)
		h.setEmail("owner@example.com")
		b := h.as("owner@example.com")
		for name, fields := range map[string][]string{
			"a line end":       {"name", "n\r\nBcc: eve@example.net"},
			"no name":          {"name", " "},
			"a long name":      {"name", strings.Repeat("n", 81)},
			"a type":           {"name", "n", "kind", "x\r\ny<b>"},
			"an address":       {"name", "n", "address", "192.0.2.1\r\nX: y"},
			"an application":   {"name", "n", "client", "a\x00b"},
			"a person":         {"name", "n", "person", "nobody-at-all"},
			"another target":   {"name", "n", "to", "file"},
			"everything":       {"name", "n", "kind", ""},
			"no address":       {"name", "n", "to", "webhook"},
			"too many types":   {"name", "n", "kind", strings.Repeat("a,", 21)},
			"a type of digits": {"name", "n", "kind", "1"},
		} {
			if a := b.saves("kind=x", fields...); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s: status %d, want 422", name, a.Code)
			} else if name == "no address" && !strings.Contains(a.form(), "Enter the https address of the webhook") {
				t.Errorf("%s: the page does not ask for it: %s", name, a.form())
			}
		}
		if list := kept(h); len(list) > 0 {
			t.Errorf("kept: %+v", list)
		}
	})
	t.Run("attack 544: an alert outlives the right of its owner", func(t *testing.T) {
		for name, lose := range map[string]func(h *harness, id string, on bool){
			"the role":    func(h *harness, _ string, on bool) { h.moves("operator@example.com", "gatehouse-operator", on) },
			"the console": func(h *harness, _ string, on bool) { h.on = on },
		} {
			h := newHarness(t)
			h.alert("operator@example.com")
			h.setEmail("operator@example.com")
			id, _, err := h.alerts.Add(t.Context(), alert.Draft{Name: "n", To: alert.Mail, Filter: alert.Filter{Types: []string{"x"}}},
				audit.Actor{ID: h.personID("operator@example.com")})
			h.must(err)
			h.round()
			h.happens("x.AEvent", "192.0.2.1", "")
			lose(h, id, false)
			h.notices.Take()
			h.round()
			h.happens("x.BEvent", "192.0.2.1", "")
			h.round()
			if h.on {
				if body := h.as("viewer@example.com").get("/admin/events/alerts").form(); !strings.Contains(body, "Stopped") {
					t.Errorf("%s: the list does not say that it has stopped\n%s", name, body)
				}
			}
			lose(h, id, true)
			h.round()
			h.round()
			if sent := h.notices.Take(); len(sent) > 0 {
				t.Errorf("%s: sent %+v", name, sent)
			}
			h.happens("x.CEvent", "192.0.2.1", "")
			h.round()
			if sent := h.notices.Take(); len(sent) != 1 || sent[0].Data["count"] != "1" {
				t.Errorf("%s: with the right again, sent %+v", name, sent)
			}
		}
	})
	t.Run("attack 544: two workers at once", func(t *testing.T) {
		h := newHarness(t)
		got := h.receive()
		_, _, err := h.alerts.Add(t.Context(),
			alert.Draft{Name: "n", To: alert.Webhook, URL: "https://hooks.example.com/", Filter: alert.Filter{Types: []string{"x"}}},
			audit.Actor{ID: h.personID("owner@example.com")})
		h.must(err)
		h.round()
		h.happens("x.AEvent", "192.0.2.1", "")
		d := h.alerts.Deps
		var both sync.WaitGroup
		for _, s := range []*alert.Service{alert.New(d), alert.New(d), h.alerts} {
			both.Go(func() {
				if err := s.Round(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if tries, bodies := got.take(); len(tries) != 1 || !strings.Contains(bodies[0], `"count":1`) {
			t.Errorf("%d messages: %s", len(tries), bodies)
		}
	})
}

// TestAlertsWithoutMail: where no e-mails are sent, an alert goes to a webhook, and the form says why.
func TestAlertsWithoutMail(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.console.Mails = false
	b := h.as("operator@example.com")
	a := b.get("/admin/events/alerts/save-alert?kind=x")
	if strings.Contains(a.form(), `value="mail"`) || !strings.Contains(a.form(), "no mail server is set up") {
		t.Errorf("an alert by e-mail is offered without mail, or it is not said why it is not:\n%s", a.form())
	}
	if a := b.saves("kind=x", "name", "Sign-ins"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.form(), `id="to-problem"`) {
		t.Errorf("an alert by e-mail without mail = %d\n%s", a.Code, a.form())
	}
}
