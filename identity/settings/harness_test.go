package settings_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world is the configuration API over a store of its own.
type world struct {
	testing.TB
	store   *brittle
	service *settings.Service
	handler http.Handler
	logs    *observer.ObservedLogs
	reloads atomic.Int64

	mu    sync.Mutex // guards failure
	fails error      // of the extension's reload
}

// brittle is a store that can be made to fail.
type brittle struct {
	storage.Store
	broken  atomic.Pointer[error]
	aborted atomic.Bool // updates run and are then undone

	committed atomic.Pointer[func()] // is called once, when an update has been kept and its caller does not know yet
	seen      atomic.Pointer[func()] // is called once, when a view has been read and its caller does not know yet
}

func (b *brittle) failUpdates(on bool) { b.aborted.Store(on) }

func (b *brittle) fail(err error) { b.broken.Store(&err) }

func (b *brittle) View(ctx context.Context, fn func(storage.Tx) error) error {
	if err := b.broken.Load(); err != nil {
		return *err
	}
	err := b.Store.View(ctx, fn)
	once(&b.seen, err)
	return err
}

func (b *brittle) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if err := b.broken.Load(); err != nil {
		return *err
	}
	err := b.Store.Update(ctx, func(tx storage.Tx) error {
		if err := fn(tx); err != nil || !b.aborted.Load() {
			return err
		}
		return storage.ErrUnavailable
	})
	once(&b.committed, err)
	return err
}

// once calls a hook for the first time that there is no error.
func once(hook *atomic.Pointer[func()], err error) {
	if f := hook.Load(); f != nil && err == nil && hook.CompareAndSwap(f, nil) {
		(*f)()
	}
}

// fixed is a provider of the Caddyfile.
var fixed = settings.LoginMethod{ID: "edge", Name: "The edge", Type: settings.TypeHeader, Enabled: true}

// verify replaces the maker of providers.
func verify(m settings.LoginMethod) error {
	switch {
	case m.Type != settings.TypeSAML && m.Type != settings.TypeOIDC:
		return settings.ErrTypeNotSupported
	case m.Name == "impossible":
		return errors.New("no provider can be made of it")
	}
	return nil
}

func newWorld(t testing.TB) *world {
	t.Helper()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w := &world{TB: t, store: &brittle{Store: storagetest.Closures(t, store)}}
	core, logs := observer.New(zap.DebugLevel)
	w.logs = logs
	w.service = w.another(settings.Config{Fixed: []settings.LoginMethod{fixed}, Verify: verify}, zap.New(core))
	gate := &jsonapi.Gate{
		Log: zap.New(core), Issuer: "https://auth.example.com", Secure: func(*http.Request) bool { return true },
		Authorize: authorize,
	}
	w.handler = settings.NewAPI(w.service, gate, func(context.Context) error {
		w.reloads.Add(1)
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.fails
	})
	return w
}

// api is the API over a service.
func api(s *settings.Service) http.Handler {
	gate := &jsonapi.Gate{
		Log: zap.NewNop(), Issuer: "https://auth.example.com",
		Secure: func(*http.Request) bool { return true }, Authorize: authorize,
	}
	return settings.NewAPI(s, gate, func(context.Context) error { return nil })
}

func authorize(r *http.Request, api string) (string, error) {
	switch id, _, ok := r.BasicAuth(); {
	case !ok || id == "":
		return "", authn.ErrNoCredentials
	case id != "ops" || api != "configuration":
		return "", authn.ErrNotAllowed
	default:
		return id, nil
	}
}

// another is a service over the same store, as during a reload.
func (w *world) another(cfg settings.Config, log *zap.Logger) *settings.Service {
	w.Helper()
	s, err := w.open(cfg, log)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) open(cfg settings.Config, log *zap.Logger) (*settings.Service, error) {
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{7}, secret.KeySize))
	if err != nil {
		w.Fatal(err)
	}
	return settings.New(w.Context(), cfg, settings.Deps{
		Store: w.store, Keyring: ring, Log: log, Events: &audit.Recorder{Random: rand.Reader, Now: time.Now},
	})
}

// writeView is the response.
type writeView struct {
	status int
	body   string
	header http.Header
}

// call makes a request as the API client ops. A header "Authorization" with "" sends none.
func (w *world) call(method, path, body string, headers ...string) writeView {
	w.Helper()
	r := httptest.NewRequest(method, "https://auth.example.com", bytes.NewReader([]byte(body)))
	u, err := r.URL.Parse(path)
	if err != nil {
		w.Fatal(err)
	}
	r.URL = u
	r.SetBasicAuth("ops", "secret")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return writeView{rec.Code, rec.Body.String(), rec.Header()}
}

// must is call for what has to succeed.
func (w *world) must(status int, method, path, body string, headers ...string) writeView {
	w.Helper()
	a := w.call(method, path, body, headers...)
	if a.status != status {
		w.Fatalf("%s %s %.300s = %d %s, want %d", method, path, body, a.status, a.body, status)
	}
	return a
}

// events returns those of the configuration, the newest first.
func (w *world) events() []audit.Event {
	w.Helper()
	var out []audit.Event
	err := w.store.Store.View(w.Context(), func(tx storage.Tx) error {
		out = nil
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			out = append(out, e)
		}
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	return out
}

// read returns the JSON of a path.
func (w *world) read(path string) string {
	w.Helper()
	return w.must(http.StatusOK, http.MethodGet, path, "").body
}

// units returns what a service sees now.
func (w *world) units(s *settings.Service) *settings.Units {
	w.Helper()
	u, err := s.Current(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return u
}

func indent(t testing.TB, raw string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(raw), "", "\t"); err != nil {
		t.Fatal(err)
	}
	return b.String() + "\n"
}
