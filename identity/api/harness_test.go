package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

const issuer = "https://auth.example.com"

// eventsHarness is the events API over a store of its own, with the API clients ops (events) and other (nothing).
type eventsHarness struct {
	testing.TB
	*api.API
	gate  *jsonapi.Gate
	store storage.Store
	rec   *audit.Recorder
	units *settings.Units
	names map[string]string // usernames by person
	logs  *observer.ObservedLogs
	time  time.Time
}

func newEvents(t testing.TB) *eventsHarness {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // a memory store
	core, logs := observer.New(zapcore.DebugLevel)
	tested := storagetest.Closures(t, store)
	h := &eventsHarness{
		TB: t, store: tested, logs: logs, units: &settings.Units{}, names: map[string]string{},
		time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
	}
	h.units.Features.EventsAPIEnabled = true
	h.rec = &audit.Recorder{Random: strings.NewReader(strings.Repeat("0123456789abcdef", 1<<14)), Now: func() time.Time { return h.time }}
	h.gate = &jsonapi.Gate{Authorize: authorize, Log: zap.New(core), Issuer: issuer}
	h.API, err = api.New(api.Deps{
		Store: tested, Gate: h.gate,
		Units: func(storage.Tx) (*settings.Units, error) { return h.units, nil },
		Subject: func(_ storage.Tx, id string) (authn.Subject, error) {
			if name, ok := h.names[id]; ok {
				return authn.Subject{Username: name}, nil
			}
			return authn.Subject{}, storage.ErrNotFound
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func authorize(r *http.Request, name string) (string, error) {
	id, password, ok := r.BasicAuth()
	switch {
	case !ok || password != "secret of "+id:
		return "", authn.ErrNoCredentials
	case id != "ops" || name != "events":
		return "", authn.ErrNotAllowed
	}
	return id, nil
}

// add appends an event.
func (h *eventsHarness) add(person, actor string, more ...func(*audit.Event)) audit.Event {
	h.Helper()
	e, err := h.rec.New(audit.Type{Type: "person.PersonCreatedEvent", Name: "Person Created"},
		audit.Origin{ClientIP: "192.0.2.9", UserAgent: "curl/8"})
	if err != nil {
		h.Fatal(err)
	}
	e.PersonID, e.Actor = person, actor
	for _, fn := range more {
		fn(&e)
	}
	if err := h.store.Update(context.Background(), func(tx storage.Tx) error { return h.rec.Append(tx, e) }); err != nil {
		h.Fatal(err)
	}
	h.time = h.time.Add(time.Second)
	return e
}

// do sends a request as ops unless change says otherwise.
func (h *eventsHarness) do(method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, issuer+"/x", nil)
	path, query, _ := strings.Cut(target, "?")
	r.URL.Path, r.URL.RawQuery = path, query
	r.SetBasicAuth("ops", "secret of ops")
	for _, fn := range change {
		fn(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// answer reads a body as JSON.
func answer(t testing.TB, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	return v
}
