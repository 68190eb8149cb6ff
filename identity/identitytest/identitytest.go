// Package identitytest runs an identity service for tests: a store in memory, a stopped clock, browsers that keep
// cookies, and the mailboxes, phones, identity and service providers that they meet.
package identitytest

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
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// Issuer is the origin of the service.
const Issuer = "https://auth.example.com"

// Demo is the username of the demo person, who is in every store.
const (
	Demo         = "demo@example.com"
	DemoPassword = "correct horse 1"
)

// Clock is a clock that only Advance moves.
type Clock = clocktest.Clock

// FaultyStore is a store that can be switched off or made read-only.
type FaultyStore struct {
	storage.Store
	Down, ReadOnly atomic.Bool
}

// View calls Store.View unless the store is down.
func (f *FaultyStore) View(ctx context.Context, fn func(storage.Tx) error) error {
	if f.Down.Load() {
		return storage.ErrUnavailable
	}
	return f.Store.View(ctx, fn)
}

// Update calls Store.Update unless the store is down or read-only.
func (f *FaultyStore) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if f.Down.Load() {
		return storage.ErrUnavailable
	}
	if f.ReadOnly.Load() {
		return storage.ErrFull
	}
	return f.Store.Update(ctx, fn)
}

// Harness is a service with its own store and clock, and a stand-in for an application that asks for a sign-in: GET
// /next?… answers "signed in as ID" once its demand is met.
type Harness struct {
	*identity.Service
	T       testing.TB
	Deps    identity.Deps // those of Service
	Store   *FaultyStore
	Clock   *Clock
	Hasher  *secret.Hasher
	Logs    *observer.ObservedLogs
	Config  identity.Config
	Demand  func(r *http.Request) authn.Demand
	Manager federation.Manager                        // nil: none
	Units   func(storage.Tx) (*settings.Units, error) // nil: nothing is configured
	Keyring *secret.Keyring

	Notices  *notifytest.Notices // nil: nothing is mailed
	Texts    *notifytest.Texts   // nil: there are no text messages
	Prompts  *notifytest.Prompts // nil: there are no prompts on phones
	Breached person.BreachCheck  // nil: no password is checked for breaches

	Admit func(r *http.Request, size int) bool // nil: every request is admitted

	keyPair func(ctx context.Context, name string) (*idp.Key, error) // nil: there are no service providers
	Client  *http.Client                                             // makes requests to service providers

	Sweep func(context.Context) (int, error) // removes the records that have expired, as storage does every few minutes

	shadow bool // it repeats the forms of a test (willHangUp)
}

// New starts a service that ends with the test.
func New(t testing.TB, change ...func(*identity.Config)) *Harness {
	t.Helper()
	c := clocktest.New(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = c.Now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &Harness{
		T: t, Store: &FaultyStore{Store: storagetest.Closures(t, store)}, Clock: c,
		Hasher: secret.NewHasher(secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 100}), Sweep: store.Sweep,
	}
	// Tests that set up a method and sign in with the password alone again rely on on_demand. The default has its own
	// tests.
	h.Config = identity.Config{
		Issuer: Issuer, Passkeys: passkey.Config{Off: true}, SecondFactor: authn.SecondFactorOnDemand,
		Persons: []person.NewPerson{{
			Username: Demo, Password: secret.New(DemoPassword), Name: "Demo Person", Groups: []string{"staff", "editors"},
		}},
	}
	for _, f := range change {
		f(&h.Config)
	}
	h.Demand = func(r *http.Request) authn.Demand {
		return authn.Demand{
			MaxAge: -1, Return: r.URL.RequestURI(),
			Client: authn.Client{ID: "shop", Name: "The shop", Targets: []string{"https://shop.example.com"}},
		}
	}
	if h.Keyring, err = secret.NewKeyring(make([]byte, secret.KeySize)); err != nil {
		t.Fatal(err)
	}
	h.Start()
	return h
}

// WithoutStepUp switches off the one method of step-up that is on by default.
func (h *Harness) WithoutStepUp() {
	u := settings.Defaults()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	h.Start()
}

// Start creates the service again on the same store, as a restart does.
func (h *Harness) Start() {
	h.T.Helper()
	var core zapcore.Core
	core, h.Logs = observer.New(zap.DebugLevel)
	log := zap.New(core)
	pages, err := web.New(web.Config{
		Issuer: h.Config.Issuer, Locales: h.Config.Locales, Key: make([]byte, 32), Random: rand.Reader,
		EmailUsernames: h.Config.EmailUsernames, Log: log,
	})
	if err != nil {
		h.T.Fatal(err)
	}
	var sender notify.Sender
	if h.Notices != nil {
		sender = h.Notices
		h.Notices.In(h.Store.Store)
	}
	var texts notify.SMSSender
	if h.Texts != nil {
		texts = h.Texts
		h.Texts.In(h.Store.Store)
	}
	var prompts notify.PushSender
	if h.Prompts != nil {
		prompts = h.Prompts
		h.Prompts.In(h.Store.Store)
	}
	h.Deps = identity.Deps{
		Store: h.Store, Hasher: h.Hasher, Pages: pages, Log: log, Now: h.Clock.Now, Random: rand.Reader,
		Events: &audit.Recorder{Random: rand.Reader, Now: h.Clock.Now, PartitionOf: person.PartitionOfID}, Manager: h.Manager, Keyring: h.Keyring,
		Units: h.Units, Notify: sender, SMS: texts, Push: prompts, Breached: h.Breached, Admit: h.Admit,
		KeyPair: h.keyPair, Trusted: h.Client, Checked: h.Client,
	}
	h.Service, err = identity.New(context.WithoutCancel(h.T.Context()), h.Config, h.Deps)
	if err != nil {
		h.T.Fatal(err)
	}
}

// ServeHTTP serves the service and the stand-in for an application.
func (h *Harness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/next") {
		h.Service.ServeHTTP(w, r)
		return
	}
	result, err := h.Authenticate(w, r, h.Demand(r))
	refusal := new(authn.Refusal)
	switch {
	case errors.Is(err, authn.ErrResponded):
	case errors.As(err, &refusal):
		http.Error(w, refusal.Code, http.StatusForbidden)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		io.WriteString(w, "signed in as "+result.Subject) //nolint:errcheck // a recorder
	}
}

// Browser keeps cookies and sends the headers that a browser sends.
type Browser struct {
	H       *Harness
	Cookies map[string]string
	Address string
	Header  http.Header // replaces the usual headers of a POST
	// Leaves is the number, from 1, of the Update of a POST before which the browser hangs up. 0: it does not.
	Leaves int64
}

// Browser returns a browser without cookies.
func (h *Harness) Browser() *Browser {
	return &Browser{H: h, Cookies: map[string]string{}, Address: "203.0.113.7:4711"}
}

// AtOnce opens a link in several new browsers and sends its form in all of them at once. It returns the number of
// answers with each status.
func (h *Harness) AtOnce(link string, browsers int) map[int]int {
	statuses := make(chan int, browsers)
	begin := make(chan struct{})
	for range browsers {
		b := h.Browser()
		page := b.Get(link)
		go func() { <-begin; statuses <- b.Post(page).Code }()
	}
	close(begin)
	count := map[int]int{}
	for range browsers {
		count[<-statuses]++
	}
	return count
}

// Answer is a response, and the address that it came from.
type Answer struct {
	*httptest.ResponseRecorder
	URL string
}

// Do sends a request and keeps the cookies of the answer. It follows no redirect.
func (b *Browser) Do(method, target, body string) *Answer {
	target, _, _ = strings.Cut(target, "#") // browsers do not send the fragment
	r := httptest.NewRequest(method, Issuer+target, strings.NewReader(body))
	r.RemoteAddr = b.Address
	r.Header.Set("User-Agent", "test browser")
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for name, values := range b.Header {
		r.Header.Del(name)
		for _, v := range values {
			r.Header.Add(name, v)
		}
	}
	if b.Leaves > 0 && method == http.MethodPost {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		defer b.H.HangUpBefore(b.Leaves, cancel)()
	} else {
		b.H.willHangUp(r, body)
	}
	w := httptest.NewRecorder()
	b.H.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.Cookies, c.Name)
		} else {
			b.Cookies[c.Name] = c.Value
		}
	}
	return &Answer{w, target}
}

// Get opens a page and follows redirects.
func (b *Browser) Get(target string) *Answer {
	b.H.T.Helper()
	for range 10 {
		a := b.Do(http.MethodGet, target, "")
		to := a.Header().Get("Location")
		if to == "" {
			return a
		}
		target = to
	}
	b.H.T.Fatalf("GET %s redirects in a loop", target)
	return nil
}

// CSRFField matches the field with the CSRF token.
var CSRFField = regexp.MustCompile(`<input type="hidden" name="csrf" value="([^"]*)">`)

// CSRF returns the CSRF token of the form in a page.
func (a *Answer) CSRF() string {
	_, form, ok := strings.Cut(a.Body.String(), "<main") // not the sign-out above it
	if !ok {
		form = a.Body.String()
	}
	if m := CSRFField.FindStringSubmatch(form); m != nil {
		return m[1]
	}
	return ""
}

// Post sends the form of a page with these fields. It does not follow the redirect.
func (b *Browser) Post(page *Answer, fields ...string) *Answer {
	v := url.Values{"csrf": {page.CSRF()}}
	for i := 0; i+1 < len(fields); i += 2 {
		v.Set(fields[i], fields[i+1])
	}
	_, form, _ := strings.Cut(page.Body.String(), "<main")
	action := regexp.MustCompile(`<form method="post" action="([^"]*)"`).FindStringSubmatch(form)
	if action == nil {
		b.H.T.Helper()
		b.H.T.Fatalf("GET %s: status %d, no form:\n%s", page.URL, page.Code, page.Body)
	}
	return b.Do(http.MethodPost, strings.ReplaceAll(action[1], "&amp;", "&"), v.Encode())
}

// Try opens a sign-in page and sends its form.
func (b *Browser) Try(username, password string) *Answer {
	b.H.T.Helper()
	return b.Post(b.Get("/next"), "username", username, "password", password)
}

// SignIn signs the person in and follows the redirect.
func (b *Browser) SignIn(username, password string) {
	b.H.T.Helper()
	a := b.Try(username, password)
	if a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("sign-in of %q: status %d, want 303:\n%s", username, a.Code, a.Body)
	}
	if a = b.Get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		b.H.T.Fatalf("after sign-in of %q: status %d:\n%s", username, a.Code, a.Body)
	}
}

// Session returns the value of the session cookie.
func (b *Browser) Session() string { return b.Cookie("session") }

// Cookie returns the value of the cookie whose name ends with a kind.
func (b *Browser) Cookie(kind string) string {
	for name, v := range b.Cookies {
		if strings.HasSuffix(name, "-"+kind) {
			return v
		}
	}
	return ""
}

// IsSignedIn reports whether the browser is signed in, without opening a page.
func (b *Browser) IsSignedIn() bool {
	b.H.T.Helper()
	r := httptest.NewRequest(http.MethodGet, Issuer+"/x", nil)
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	result, err := b.H.Session.CurrentOf(r)
	if err != nil {
		b.H.T.Fatal(err)
	}
	return result != nil
}

// Events returns the number of events of each type.
func (h *Harness) Events() map[string]int {
	h.T.Helper()
	n := map[string]int{}
	err := h.Store.Store.View(h.T.Context(), func(tx storage.Tx) error {
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
		h.T.Fatal(err)
	}
	return n
}

// SessionOf returns the browser's session as authz would see it.
func (h *Harness) SessionOf(b *Browser) (authn.Session, error) {
	h.T.Helper()
	r := httptest.NewRequest(http.MethodGet, Issuer+"/x", nil)
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	result, err := h.Session.CurrentOf(r)
	if err != nil || result == nil {
		return authn.Session{}, errors.Join(err, storage.ErrNotFound)
	}
	return h.SessionByID(result.SessionID)
}

// SessionByID returns a session as authz would see it.
func (h *Harness) SessionByID(id string) (s authn.Session, err error) {
	h.T.Helper()
	err = h.Store.Store.View(h.T.Context(), func(tx storage.Tx) error {
		s, err = h.Session.Get(tx, id, h.Clock.Now())
		return err
	})
	return s, err
}

// WhileOff calls during while the provider of a session signs no one in, as if it were disabled.
func WhileOff(t *testing.T, store storage.Store, id string, during func()) {
	t.Helper()
	change := func(provider string) (before string) {
		err := store.Update(t.Context(), func(tx storage.Tx) error {
			rec, found, err := session.Records.Find(tx, id)
			if err != nil || !found {
				return err
			}
			before, rec.Provider = rec.Provider, provider
			return session.Records.Put(tx, id, rec, time.Time{})
		})
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	before := change("switched off")
	during()
	change(before)
}

// CheckInvariants checks that nothing has panicked, and that no log line contains a secret.
func (h *Harness) CheckInvariants() {
	h.T.Helper()
	if n := h.Panics(); n != 0 {
		h.T.Errorf("%d panics, want none", n)
	}
	for _, e := range h.Logs.All() {
		line := e.Message
		for k, v := range e.ContextMap() {
			line += " " + k + "=" + strings.TrimSpace(strings.ReplaceAll(ToString(v), "\n", "\\n"))
		}
		if strings.Contains(line, DemoPassword) || strings.Contains(line, "ghss_") {
			h.T.Errorf("log line contains a secret: %s", line)
		}
	}
}

// ToString returns a string or the text of an error.
func ToString(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case error:
		return v.Error()
	}
	return ""
}

// NewRequest returns a request of the browser for a test to send itself.
func NewRequest(b *Browser, target string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, Issuer+target, nil)
	r.RemoteAddr = b.Address
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	return r
}

// NewRecorder returns a recorder of an answer.
func NewRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// Keep stores the cookies of an answer.
func (b *Browser) Keep(w *httptest.ResponseRecorder) {
	for _, c := range w.Result().Cookies() {
		b.Cookies[c.Name] = c.Value
	}
}

// Or returns a, or b if a is empty.
func Or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// records returns every record of a store.
func (h *Harness) records(s storage.Store) map[string]string {
	h.T.Helper()
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
		h.T.Fatalf("%d records, %v", len(out), err)
	}
	return out
}

// Dump returns every record of the store.
func (h *Harness) Dump() map[string]string {
	h.T.Helper()
	return h.records(h.Store.Store)
}
