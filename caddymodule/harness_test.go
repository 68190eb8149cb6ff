package caddymodule_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule"
	"github.com/gatehouse-id/gatehouse/caddymodule/core"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddytest"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// Caddy runs one configuration in a process, so that tests which load one are not parallel.

const (
	testSecret   = "the-secret-of-reports-in-these-tests"
	testPassword = "the password of demo"
	testKey      = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	otherKey     = "HxAREhMUFRYXGBkaGwAECAwQFBgcICQoLDA0ODx8eXk="
)

// server is a Caddy in this process.
type server struct {
	t          *testing.T
	addr       string // host and port of the issuer
	api        string // host and port of the protected API
	admin      string // host and port of the admin API
	dir        string
	storage    string // the storage line of the Caddyfile
	key        string // the encryption_key line
	extra      string // further lines of the gatehouse block
	inIdentity string // further lines of the identity block
	options    string // further global options
	site       string // directives of the API's site. Default: protect orders.read
	transport  *http.Transport
}

// newServer picks ports and a directory; nothing runs yet.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, addr: freeAddr(t), api: freeAddr(t), admin: freeAddr(t), dir: t.TempDir(), transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	s.storage = "storage badger " + filepath.Join(s.dir, "store")
	t.Cleanup(func() {
		s.transport.CloseIdleConnections()
		s.stop()
	})
	return s
}

func freeAddr(t *testing.T) string {
	t.Helper()
	return "localhost:" + caddytest.FreePort(t)
}

// stop ends what runs, the admin endpoint included.
func (s *server) stop() {
	s.t.Helper()
	if err := caddy.Load([]byte(`{"admin":{"disabled":true,"config":{"persist":false}}}`), true); err != nil {
		s.t.Errorf("stop: %v", err)
	}
	if err := caddy.Stop(); err != nil {
		s.t.Errorf("stop: %v", err)
	}
	// An answer can be read before its handler has left the configuration, and the store closes after the last has.
	eventually(s.t, "every store is closed", func() bool {
		open, _ := caddymodule.OpenStores()
		return open == 0
	})
}

func (s *server) issuer() string { return "http://" + s.addr }

func (s *server) caddyfile() string {
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	grace_period 2s
	%s
	gatehouse {
		issuer %s
		%s
		%s
		client reports {
			secret %s
			grants client_credentials
			scopes orders.read
			default_scopes orders.read
		}
		api_client ops {
			secret the-secret-of-ops-in-all-of-these-tests
			apis introspection events
		}
		identity {
			person demo@example.com {
				password "%s"
				name Demo Person
				groups staff
			}
			password_hash {
				memory 8MiB
				iterations 1
			}
			%s
		}
		%s
	}
}
http://%s {
	gatehouse
}
http://%s {
	%s
	respond "in"
}
`, s.admin, s.options, s.issuer(), s.storage, s.key, testSecret, testPassword, s.inIdentity, s.extra, s.addr, s.api, cmp.Or(s.site, "protect orders.read"))
}

// json adapts the server's Caddyfile.
func (s *server) json() []byte {
	s.t.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(s.caddyfile()), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		s.t.Fatalf("adapt: %v", err)
	}
	return keepSockets(s.t, raw)
}

// keepSockets gives every server of a configuration our listener wrapper. Without it Caddy opens a socket for each
// configuration, and a connection that is made just after a reload can still be answered by the one before.
func keepSockets(t *testing.T, raw []byte) []byte {
	t.Helper()
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	apps, _ := config["apps"].(map[string]any)
	http, _ := apps["http"].(map[string]any)
	servers, _ := http["servers"].(map[string]any)
	for _, s := range servers {
		if server, ok := s.(map[string]any); ok && server["listener_wrappers"] == nil {
			server["listener_wrappers"] = []map[string]string{{"wrapper": "gatehouse"}, {"wrapper": "tls"}}
		}
	}
	raw, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// load starts the configuration, or reloads it.
func (s *server) load() error {
	s.t.Helper()
	return caddy.Load(s.json(), true)
}

func (s *server) mustLoad() {
	s.t.Helper()
	if err := s.load(); err != nil {
		s.t.Fatalf("load: %v", err)
	}
}

// patient repeats a request that no server has read: a connection that stood in the socket of the configuration
// before, or was kept from then, is closed by Caddy without an answer. On a busy machine the next one can be, too.
type patient struct{ *http.Transport }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for range 10 {
		resp, err := p.Transport.RoundTrip(r)
		unread := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
			err != nil && strings.Contains(err.Error(), "server closed idle connection")
		if !unread || r.Body != nil && r.GetBody == nil {
			return resp, err
		}
		p.CloseIdleConnections()
		r = r.Clone(r.Context())
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, err
			}
		}
	}
	return p.Transport.RoundTrip(r)
}

// do sends a request and returns its status and body.
func (s *server) do(r *http.Request) (*http.Response, string) {
	s.t.Helper()
	client := &http.Client{Transport: patient{s.transport}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return resp, string(body)
}

func (s *server) request(method, target string, body io.Reader) *http.Request {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, target, body)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *server) get(path string) (*http.Response, string) {
	s.t.Helper()
	return s.do(s.request(http.MethodGet, s.issuer()+path, nil))
}

// token gets a client-credentials token.
func (s *server) token() string {
	s.t.Helper()
	r := s.request(http.MethodPost, s.issuer()+"/oauth/token", strings.NewReader(url.Values{"grant_type": {"client_credentials"}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", testSecret)
	resp, body := s.do(r)
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusOK || answer.AccessToken == "" {
		s.t.Fatalf("Token status = %d, body %s", resp.StatusCode, body)
	}
	return answer.AccessToken
}

// enters tells whether protect lets a token in.
func (s *server) enters(token string) int {
	s.t.Helper()
	r := s.request(http.MethodGet, "http://"+s.api+"/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, _ := s.do(r)
	return resp.StatusCode
}

// memory is a store that a test can break, block and watch. It also shows that a storage engine can be added from
// another package. It is no storage.Tracker, so each question reaches it.
type memory struct {
	untracked
	full   atomic.Bool
	panics atomic.Bool // in Views of requests
	fail   atomic.Pointer[error]
	gate   atomic.Pointer[chan struct{}] // Views of requests wait for it
	inside chan struct{}                 // told when a View waits
	views  atomic.Int64                  // of requests
	closed chan struct{}

	reopened func(failure error)
}

// untracked are the methods of a store but for Track.
type untracked interface {
	storage.Store
	storage.Backuper
	storage.Checker
	Stats() badgerstore.Stats
}

func (m *memory) View(ctx context.Context, fn func(storage.Tx) error) error {
	if ctx.Value(http.ServerContextKey) != nil {
		m.views.Add(1)
		if g := m.gate.Load(); g != nil {
			m.inside <- struct{}{}
			<-*g
		}
		if m.panics.Load() { // nobody catches the panic of a worker
			panic("the store is broken")
		}
	}
	if err := m.fail.Load(); err != nil {
		return *err
	}
	return m.untracked.View(ctx, fn)
}

func (m *memory) Update(ctx context.Context, fn func(storage.Tx) error) error {
	if m.full.Load() {
		return storage.ErrFull
	}
	return m.untracked.Update(ctx, fn)
}

func (m *memory) Check(ctx context.Context) error {
	if m.full.Load() {
		return storage.ErrFull
	}
	if err := m.fail.Load(); err != nil {
		return *err
	}
	return m.untracked.Check(ctx)
}

// OnReopen keeps what is told of a reopening, for a test to call.
func (m *memory) OnReopen(tell func(error)) { m.reopened = tell }

func (m *memory) Close() error {
	defer close(m.closed)
	return m.untracked.Close()
}

var memories sync.Map // name -> *memory, the newest opened

func memoryOf(t *testing.T, name string) *memory {
	t.Helper()
	m, ok := memories.Load(name)
	if !ok {
		t.Fatalf("store %s was never opened", name)
	}
	return m.(*memory)
}

// MemoryStorage is the guest module gatehouse.storage.memory of these tests.
type MemoryStorage struct {
	Name string `json:"name,omitempty"`
}

func init() { caddy.RegisterModule(MemoryStorage{}) }

func (MemoryStorage) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "gatehouse.storage.memory", New: func() caddy.Module { return new(MemoryStorage) }}
}

func (m *MemoryStorage) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&m.Name) {
		return d.ArgErr()
	}
	return nil
}

func (m *MemoryStorage) Place() string   { return "memory " + m.Name }
func (m *MemoryStorage) Options() string { return "" }

func (m *MemoryStorage) Open(context.Context, *zap.Logger) (storage.Store, error) {
	s, err := badgerstore.OpenMemory()
	if err != nil {
		return nil, err
	}
	out := &memory{untracked: s, closed: make(chan struct{}), inside: make(chan struct{}, 64)}
	memories.Store(m.Name, out)
	return out, nil
}

var _ core.Storage = (*MemoryStorage)(nil)
