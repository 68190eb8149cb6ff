package api_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

const (
	demo         = "demo@example.com"
	demoPassword = "correct horse 1"
	hexKey       = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
)

// people is the credentials API and action tokens over persons of a store of its own. The API client ops may use
// everything, other nothing.
type people struct {
	testing.TB
	*api.API
	persons *identity.Service
	store   *identitytest.FaultyStore
	clock   *clocktest.Clock
	hasher  *secret.Hasher
	logs    *observer.ObservedLogs
	mu      sync.Mutex // guards units
	units   settings.Units
	deps    api.Deps
}

func newPeople(t testing.TB, change ...func(*identity.Config, *api.Deps)) *people {
	return newPeopleCosting(t, secret.HashCost{MemoryKiB: 8, Iterations: 1, Concurrency: 100}, change...)
}

// westOnly lets the client west see the partition west alone.
func westOnly(c *identity.Config, d *api.Deps) {
	c.Partitions.On = true
	d.Gate.Partitions = func(client string) []string {
		if client == "west" {
			return []string{"west"}
		}
		return nil
	}
}

func newPeopleCosting(t testing.TB, cost secret.HashCost, change ...func(*identity.Config, *api.Deps)) *people {
	t.Helper()
	return newPeopleNotified(t, nil, cost, change...)
}

// newPeopleNotified is newPeopleCosting whose notices are sent. nil: none are.
func newPeopleNotified(t testing.TB, mail notify.Sender, cost secret.HashCost, change ...func(*identity.Config, *api.Deps)) *people {
	t.Helper()
	c := clocktest.New(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = c.Now })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	core, logs := observer.New(zapcore.DebugLevel)
	log := zap.New(core)
	h := &people{
		TB: t, store: &identitytest.FaultyStore{Store: storagetest.Closures(t, store)}, clock: c, logs: logs, units: settings.Defaults(),
		hasher: secret.NewHasher(cost),
	}
	cfg := identity.Config{
		Issuer:  issuer,
		Persons: []person.NewPerson{{Username: demo, Password: secret.New(demoPassword), Name: "Demo Person", Groups: []string{"staff"}}},
	}
	key, err := api.ParseCredentialsKey(hexKey)
	if err != nil {
		t.Fatal(err)
	}
	origin := func(*http.Request) audit.Origin { return audit.Origin{ClientIP: "203.0.113.7", UserAgent: "backend/1"} }
	units := func(storage.Tx) (*settings.Units, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		u := h.units
		return &u, nil
	}
	h.deps = api.Deps{
		Store: h.store, Gate: &jsonapi.Gate{Authorize: authorizeAll, Log: log, Issuer: issuer}, Units: units, CredentialsKey: key, Origin: origin,
		Now: c.Now, Random: rand.Reader,
		MaxLevel: func(string) int { return 2 },
	}
	for _, fn := range change {
		fn(&cfg, &h.deps)
	}
	pages, err := web.New(web.Config{Issuer: issuer, Key: make([]byte, 32), Random: rand.Reader, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	h.persons, err = identity.New(t.Context(), cfg, identity.Deps{
		Store: h.store, Hasher: h.hasher, Notify: mail, Pages: pages, Log: log, Now: c.Now, Random: rand.Reader, Origin: origin, Units: units,
		Events: &audit.Recorder{Random: rand.Reader, Now: c.Now, PartitionOf: person.PartitionOfID},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.deps.Identity = h.persons
	h.deps.Gate.Partitioned = cfg.Partitions.On
	if h.API, err = api.New(h.deps); err != nil {
		t.Fatal(err)
	}
	return h
}

func authorizeAll(r *http.Request, _ string) (string, error) {
	id, password, ok := r.BasicAuth()
	switch {
	case !ok || password != "secret of "+id:
		return "", authn.ErrNoCredentials
	case id == "other":
		return "", authn.ErrNotAllowed
	}
	return id, nil
}

// set changes the configuration.
func (h *people) set(change func(*settings.Units)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.units)
}

// person returns the id of a username.
func (h *people) person(username string) string {
	h.Helper()
	p, err := h.persons.Person.Person(h.Context(), username)
	if err != nil {
		h.Fatal(err)
	}
	return p.ID
}

func (h *people) add(n person.NewPerson) string {
	h.Helper()
	p, err := h.persons.Person.AddPerson(h.Context(), n, audit.Actor{ID: "test"})
	if err != nil {
		h.Fatal(err)
	}
	return p.ID
}

func (h *people) setState(personID string, to person.State) {
	h.Helper()
	if err := h.persons.Person.SetState(h.Context(), personID, to, audit.Actor{ID: "test"}); err != nil {
		h.Fatal(err)
	}
}

// reply is an answer of an API.
type reply struct {
	*httptest.ResponseRecorder
	Code    int             `json:"error_code"`
	Message string          `json:"error_message"`
	Details json.RawMessage `json:"details"`
}

// call sends a body as ops. Header lines come in pairs of name and value; a name that comes again is sent twice.
func (h *people) call(method, path string, body any, header ...string) reply {
	h.Helper()
	raw, ok := body.(string)
	if !ok && body != nil {
		raw = string(must(json.Marshal(body)))
	}
	return h.send(method, path, raw, header...)
}

// send is call with the body as it is. A fuzz target may use it.
func (h *people) send(method, path, raw string, header ...string) reply {
	r := httptest.NewRequest(method, issuer+path, strings.NewReader(raw))
	r.SetBasicAuth("ops", "secret of ops")
	r.Header.Set("Content-Type", "application/json")
	given := map[string]bool{}
	for i := 0; i < len(header); i += 2 {
		if !given[header[i]] {
			r.Header.Del(header[i])
		}
		given[header[i]] = true
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := reply{ResponseRecorder: w}
	if w.Code >= 400 {
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || a.Message == "" {
			panic(fmt.Sprintf("%s %s = %d %s, want an ErrorResponse", method, path, w.Code, w.Body))
		}
	}
	return a
}

// status is that of the answer; Code is the error's.
func (a reply) status() int { return a.ResponseRecorder.Code }

// check holds status and code.
func (a reply) check(t testing.TB, what string, status, code int) {
	t.Helper()
	if a.status() != status || a.Code != code {
		t.Errorf("%s = %d %s, want %d with code %d", what, a.status(), a.Body, status, code)
	}
}

// encrypt does what a client of the API does.
func (h *people) encrypt(password string, ivBytes int) (sealed, iv string) {
	h.Helper()
	nonce := make([]byte, ivBytes)
	rand.Read(nonce) //nolint:errcheck // never fails
	aead, err := cipher.NewGCMWithNonceSize(must(aes.NewCipher([]byte(h.deps.CredentialsKey.Reveal()))), ivBytes)
	if err != nil {
		h.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(aead.Seal(nil, nonce, []byte(password), nil)), base64.StdEncoding.EncodeToString(nonce)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type credentials struct {
	Username string `json:"username"`
	Password string `json:"password"`
	IV       string `json:"encryption_parameter"`
}

// with encrypts a password under a new initialization vector.
func (h *people) with(username, password string) credentials {
	sealed, iv := h.encrypt(password, 12)
	return credentials{username, sealed, iv}
}

func (h *people) validate(username, password string, header ...string) reply {
	h.Helper()
	return h.call(http.MethodPost, "/api/credentials/validate", h.with(username, password), header...)
}

// events returns the events, the oldest first.
func (h *people) events() (all []audit.Event) {
	h.Helper()
	err := h.store.Store.View(h.Context(), func(tx storage.Tx) error {
		all = nil
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
	slices.Reverse(all)
	return all
}

// dump returns every record of the store but the events.
func (h *people) dump() map[string]string {
	h.Helper()
	out := map[string]string{}
	err := h.store.Store.View(h.Context(), func(tx storage.Tx) error {
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			out[string(rec.Key)] = string(rec.Value)
		}
		return nil
	})
	if err != nil || len(out) == 0 {
		h.Fatal(errors.Join(err, errors.New("nothing stored")))
	}
	return out
}

// holdsNoSecret looks for passwords and tokens in the logs.
func (h *people) holdsNoSecret(secrets ...string) {
	h.Helper()
	for _, e := range h.logs.All() {
		line := e.Message
		for _, v := range e.ContextMap() {
			if text, ok := v.(string); ok {
				line += " " + text
			}
		}
		for _, s := range append(secrets, demoPassword, "ghap_", "ghlt_") {
			if s != "" && strings.Contains(line, s) {
				h.Errorf("log line tells %q: %s", s, line)
			}
		}
	}
}
