// Package identitytest is a running identity service for tests: with a store in memory, a clock that stands still,
// browsers that keep cookies, and what they meet elsewhere: mailboxes, phones, identity and service providers.
package identity_test

import (
	"context"
	"crypto/rand"
	"errors"
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
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/event/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

const issuer = "https://auth.example.com"

const (
	demo         = "demo@example.com"
	demoPassword = "correct horse 1"
)

// clock is a clock that stands still until the test advances it.
type clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *clock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *clock) Advance(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.now = c.now.Add(d) }

// faulty is a store that can be switched off or made read-only.
type faulty struct {
	storage.Store
	down, readOnly atomic.Bool
}

func (f *faulty) View(ctx context.Context, fn func(storage.Tx) error) error {
	if f.down.Load() {
		return storage.ErrUnavailable
	}
	return f.Store.View(ctx, fn)
}

func (f *faulty) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if f.down.Load() {
		return storage.ErrUnavailable
	}
	if f.readOnly.Load() {
		return storage.ErrFull
	}
	return f.Store.Update(ctx, fn)
}

// harness is a service with its own store and clock, and a stand-in for an application that asks for a sign-in: GET
// /next?… answers "signed in as ID" once its demand is met.
type harness struct {
	*identity.Service
	t       testing.TB
	deps    identity.Deps // those of Service
	store   *faulty
	clock   *clock
	hasher  *secret.Hasher
	logs    *observer.ObservedLogs
	cfg     identity.Config
	demand  func(r *http.Request) login.Demand
	manager federation.Manager                      // nil: none
	units   func(storage.Tx) (*config.Units, error) // nil: nothing is configured
	keyring *secret.Keyring

	notices  *notifytest.Notices // nil: nothing is mailed
	texts    *notifytest.Texts   // nil: there are no text messages
	prompts  *notifytest.Prompts // nil: there are no prompts on phones
	breached person.BreachCheck  // nil: no password is checked for breaches

	admit func(*http.Request) bool // nil: every request is admitted

	keyPair func(ctx context.Context, name string) (*idp.Key, error) // nil: there are no service providers
	client  *http.Client                                             // makes requests to service providers

	sweep func(context.Context) (int, error) // removes the records that have expired, as storage does every few minutes

	shadow bool // it repeats the forms of a test, see hangUp
}

func newHarness(t testing.TB, change ...func(*identity.Config)) *harness {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = c.Now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &harness{t: t, store: &faulty{Store: storagetest.Closures(t, store)}, clock: c, hasher: secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 100}), sweep: store.Sweep}
	h.cfg = identity.Config{Issuer: issuer, NoPasskeys: true, Persons: []person.NewPerson{{
		Username: demo, Password: secret.New(demoPassword), Name: "Demo Person", Groups: []string{"staff", "editors"},
	}}}
	for _, f := range change {
		f(&h.cfg)
	}
	h.demand = func(r *http.Request) login.Demand {
		return login.Demand{MaxAge: -1, Return: r.URL.RequestURI(), Client: login.Client{ID: "shop", Name: "The shop", Targets: []string{"https://shop.example.com"}}}
	}
	if h.keyring, err = secret.NewKeyring(make([]byte, secret.KeySize)); err != nil {
		t.Fatal(err)
	}
	h.start()
	return h
}

// withoutStepUp switches off the one method of step-up that is on by default.
func (h *harness) withoutStepUp() {
	u := config.Defaults()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	h.start()
}

// start creates the service again on the same store, as a restart does.
func (h *harness) start() {
	h.t.Helper()
	var core zapcore.Core
	core, h.logs = observer.New(zap.DebugLevel)
	log := zap.New(core)
	pages, err := page.New(page.Config{Issuer: h.cfg.Issuer, Locales: h.cfg.Locales, Key: make([]byte, 32), Random: rand.Reader, EmailUsernames: h.cfg.EmailUsernames, Log: log})
	if err != nil {
		h.t.Fatal(err)
	}
	var sender notify.Sender
	if h.notices != nil {
		sender = h.notices
		h.notices.In(h.store.Store)
	}
	var texts notify.SMSSender
	if h.texts != nil {
		texts = h.texts
		h.texts.In(h.store.Store)
	}
	var prompts notify.PushSender
	if h.prompts != nil {
		prompts = h.prompts
		h.prompts.In(h.store.Store)
	}
	h.deps = identity.Deps{
		Store: h.store, Hasher: h.hasher, Pages: pages, Log: log, Now: h.clock.Now, Random: rand.Reader,
		Events: &event.Recorder{Random: rand.Reader, Now: h.clock.Now, PartitionOf: person.PartitionOfID}, Manager: h.manager, Keyring: h.keyring,
		Units: h.units, Notify: sender, SMS: texts, Push: prompts, Breached: h.breached, Admit: h.admit,
		KeyPair: h.keyPair, Trusted: h.client, Checked: h.client,
	}
	h.Service, err = identity.New(context.WithoutCancel(h.t.Context()), h.cfg, h.deps)
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/next") {
		h.Service.ServeHTTP(w, r)
		return
	}
	result, err := h.Authenticate(w, r, h.demand(r))
	refusal := new(login.Refusal)
	switch {
	case errors.Is(err, login.ErrResponded):
	case errors.As(err, &refusal):
		http.Error(w, refusal.Code, http.StatusForbidden)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		io.WriteString(w, "signed in as "+result.Subject) //nolint:errcheck // a recorder
	}
}

// browser keeps cookies and sends the headers that a browser sends.
type browser struct {
	h       *harness
	cookies map[string]string
	address string
	header  http.Header // replaces the usual headers of a POST
	// leaves is the Update of a POST before which the browser hangs up, from 1. 0: it stays.
	leaves int64
}

func (h *harness) browser() *browser {
	return &browser{h: h, cookies: map[string]string{}, address: "203.0.113.7:4711"}
}

// answer is a response, and the address that it came from.
type answer struct {
	*httptest.ResponseRecorder
	url string
}

func (b *browser) do(method, target, body string) *answer {
	r := httptest.NewRequest(method, issuer+target, strings.NewReader(body))
	r.RemoteAddr = b.address
	r.Header.Set("User-Agent", "test browser")
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for name, values := range b.header {
		r.Header.Del(name)
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
	if b.leaves > 0 && method == http.MethodPost {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		defer b.h.hangUpBefore(b.leaves, cancel)()
	} else {
		b.h.willHangUp(r, body)
	}
	w := httptest.NewRecorder()
	b.h.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return &answer{w, target}
}

// get opens a page and follows redirects.
func (b *browser) get(target string) *answer {
	b.h.t.Helper()
	for range 10 {
		a := b.do(http.MethodGet, target, "")
		to := a.Header().Get("Location")
		if to == "" {
			return a
		}
		target = to
	}
	b.h.t.Fatalf("GET %s leads in circles", target)
	return nil
}

var field = regexp.MustCompile(`<input type="hidden" name="csrf" value="([^"]*)">`)

func (a *answer) csrf() string {
	_, form, ok := strings.Cut(a.Body.String(), "<main") // not the sign-out above it
	if !ok {
		form = a.Body.String()
	}
	if m := field.FindStringSubmatch(form); m != nil {
		return m[1]
	}
	return ""
}

// post sends the form of a page with these fields. It does not follow the redirect.
func (b *browser) post(page *answer, fields ...string) *answer {
	v := url.Values{"csrf": {page.csrf()}}
	for i := 0; i+1 < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	_, form, _ := strings.Cut(page.Body.String(), "<main")
	action := regexp.MustCompile(`<form method="post" action="([^"]*)"`).FindStringSubmatch(form)
	if action == nil {
		b.h.t.Helper()
		b.h.t.Fatalf("GET %s: status %d, no form:\n%s", page.url, page.Code, page.Body)
	}
	return b.do(http.MethodPost, strings.ReplaceAll(action[1], "&amp;", "&"), v.Encode())
}

// try opens a sign-in page and sends its form.
func (b *browser) try(username, password string) *answer {
	b.h.t.Helper()
	return b.post(b.get("/next"), "username", username, "password", password)
}

// signIn signs the person in and follows the redirect.
func (b *browser) signIn(username, password string) {
	b.h.t.Helper()
	a := b.try(username, password)
	if a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("sign-in of %q: status %d, want 303:\n%s", username, a.Code, a.Body)
	}
	if a = b.get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		b.h.t.Fatalf("after sign-in of %q: status %d:\n%s", username, a.Code, a.Body)
	}
}

// session returns the value of the session cookie.
func (b *browser) session() string { return b.cookie("session") }

func (b *browser) cookie(kind string) string {
	for name, v := range b.cookies {
		if strings.HasSuffix(name, "-"+kind) {
			return v
		}
	}
	return ""
}

// isSignedIn tells whether the browser is signed in, without opening a page.
func (b *browser) isSignedIn() bool {
	b.h.t.Helper()
	r := httptest.NewRequest(http.MethodGet, issuer+"/x", nil)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	result, err := b.h.Session.CurrentOf(r)
	if err != nil {
		b.h.t.Fatal(err)
	}
	return result != nil
}

// events returns the number of events of each type.
func (h *harness) events() map[string]int {
	h.t.Helper()
	n := map[string]int{}
	err := h.store.Store.View(h.t.Context(), func(tx storage.Tx) error {
		clear(n)
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			n[e.Type]++
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// session returns the browser's session as authz would see it.
func (h *harness) session(b *browser) (login.Session, error) {
	h.t.Helper()
	r := httptest.NewRequest(http.MethodGet, issuer+"/x", nil)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	result, err := h.Session.CurrentOf(r)
	if err != nil || result == nil {
		return login.Session{}, errors.Join(err, storage.ErrNotFound)
	}
	return h.sessionByID(result.SessionID)
}

func (h *harness) sessionByID(id string) (s login.Session, err error) {
	h.t.Helper()
	err = h.store.Store.View(h.t.Context(), func(tx storage.Tx) error {
		s, err = h.Session.Get(tx, id, h.clock.Now())
		return err
	})
	return s, err
}

// checkInvariants checks that nothing has panicked, and that no log line contains a secret.
func (h *harness) checkInvariants() {
	h.t.Helper()
	if n := h.Panics(); n != 0 {
		h.t.Errorf("%d panics, want none", n)
	}
	for _, e := range h.logs.All() {
		line := e.Message
		for k, v := range e.ContextMap() {
			line += " " + k + "=" + strings.TrimSpace(strings.ReplaceAll(toString(v), "\n", "\\n"))
		}
		if strings.Contains(line, demoPassword) || strings.Contains(line, "ghss_") {
			h.t.Errorf("log line tells a secret: %s", line)
		}
	}
}

func toString(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case error:
		return v.Error()
	}
	return ""
}

// httptestRequest returns a request of the browser for a test to send itself.
func httptestRequest(b *browser, target string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, issuer+target, nil)
	r.RemoteAddr = b.address
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	return r
}

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// keep stores the cookies of an answer.
func (b *browser) keep(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		b.cookies[c.Name] = c.Value
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// records returns every record of a store.
func (h *harness) records(s storage.Store) map[string]string {
	h.t.Helper()
	out := map[string]string{}
	err := s.View(context.Background(), func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			out[string(rec.Key)] = string(rec.Value)
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		h.t.Fatalf("%d records, %v", len(out), err)
	}
	return out
}

// dump returns every record of the store.
func (h *harness) dump() map[string]string {
	h.t.Helper()
	return h.records(h.store.Store)
}
