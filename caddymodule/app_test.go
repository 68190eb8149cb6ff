package caddymodule_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

func TestServe(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()

	t.Run("health", func(t *testing.T) {
		resp, body := s.Get("/healthz")
		if resp.StatusCode != http.StatusOK || strings.TrimSpace(body) != `{"status":"ok"}` {
			t.Errorf("GET /healthz = %d %s", resp.StatusCode, body)
		}
		resp, _ = s.Do(s.Request(http.MethodPost, s.Issuer()+"/healthz", nil))
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") == "" {
			t.Errorf("POST /healthz = %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
		}
	})
	t.Run("discovery", func(t *testing.T) {
		_, body := s.Get("/.well-known/openid-configuration")
		var m struct {
			Issuer string `json:"issuer"`
			Token  string `json:"token_endpoint"`
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil || m.Issuer != s.Issuer() || m.Token != s.Issuer()+"/oauth/token" {
			t.Errorf("metadata = %+v, %v", m, err)
		}
	})
	t.Run("token opens the API", func(t *testing.T) {
		if got := s.Enters(s.Token()); got != http.StatusOK {
			t.Errorf("status = %d, want 200", got)
		}
		if got := s.Enters("ghat_nothing"); got != http.StatusUnauthorized {
			t.Errorf("forged token: status = %d, want 401", got)
		}
	})
	t.Run("start page", func(t *testing.T) {
		if resp, _ := s.Get("/"); resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "/account" {
			t.Errorf("GET / = %d to %q, want /account", resp.StatusCode, resp.Header.Get("Location"))
		}
	})
	t.Run("unknown path", func(t *testing.T) {
		for _, path := range []string{"//", "/nothing", "/oauthx", "/sign-inx", "/oauth/../sign-in", "/healthz/x"} {
			resp, body := s.Get(path)
			if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "<html") {
				t.Errorf("GET %s = %d", path, resp.StatusCode)
			}
		}
	})
	t.Run("another host", func(t *testing.T) {
		port := s.Addr[strings.Index(s.Addr, ":"):]
		for host, want := range map[string]int{
			"LOCALHOST" + port: http.StatusOK, "localhost": http.StatusMisdirectedRequest, "localhost:1": http.StatusMisdirectedRequest,
		} {
			for _, path := range []string{"/oauth/jwks", "/healthz"} {
				r := s.Request(http.MethodGet, s.Issuer()+path, nil)
				r.Host = host
				if resp, _ := s.Do(r); resp.StatusCode != want {
					t.Errorf("Host %s %s: status = %d, want %d", host, path, resp.StatusCode, want)
				}
			}
		}
	})
	t.Run("metrics", func(t *testing.T) {
		_, body := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil))
		for _, want := range []string{
			`gatehouse_requests_total{endpoint="token",outcome="ok"} 1`, "gatehouse_token_responses_total 1", "gatehouse_storage_commits_total ",
			"gatehouse_storage_free_bytes ", "gatehouse_password_hash_queue 0", "gatehouse_panics_total 0",
			`gatehouse_requests_total{endpoint="other",outcome="refused"} 6`,
		} {
			if !strings.Contains(body, want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
	})
}

// TestServeWhenStorageFails: what cannot be told is 503, /healthz says why, and all of it passes by itself.
func TestServeWhenStorageFails(t *testing.T) {
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory failing", "encryption_key "+servertest.TestKey
	s.MustLoad()
	token := s.Token()
	m := servertest.MemoryOf(t, "failing")

	m.Full.Store(true)
	resp, body := s.Get("/healthz")
	if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "free space") || resp.Header.Get("Retry-After") == "" {
		t.Errorf("GET /healthz on a full disk = %d %s", resp.StatusCode, body)
	}
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("reads on a full disk: status = %d, want 200", got)
	}
	m.Full.Store(false)
	broken := fmt.Errorf("%w: /secret/path is on fire", storage.ErrUnavailable)
	m.Fail.Store(&broken)
	if got := s.Enters(token); got != http.StatusServiceUnavailable {
		t.Errorf("storage down: status = %d, want 503", got)
	}
	for _, tt := range []struct {
		cause error
		want  string
	}{
		{errors.New("/secret/path is on fire"), `"storage: unavailable"`},
		{&fs.PathError{Op: "open", Path: "/secret/path", Err: syscall.EMFILE}, `"storage: no file descriptors are left"`},
		{&fs.PathError{Op: "sync", Path: "/secret/path", Err: syscall.EIO}, `"storage: the disk reports an error"`},
		{badgerstore.ErrRemoved, `"storage: its directory was removed or replaced"`},
	} {
		broken := fmt.Errorf("%w: a commit failed: %w", storage.ErrUnavailable, tt.cause)
		m.Fail.Store(&broken)
		if resp, body = s.Get("/healthz"); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, tt.want) ||
			strings.Contains(body, "secret") {
			t.Errorf("GET /healthz after %v = %d %s, want 503 with %s", tt.cause, resp.StatusCode, body, tt.want)
		}
	}
	m.Fail.Store(nil)
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("storage back: status = %d, want 200", got)
	}
	if resp, body = s.Get("/healthz"); resp.StatusCode != http.StatusOK {
		t.Errorf("GET /healthz = %d %s", resp.StatusCode, body)
	}
}

// TestPanic: a panic is an answer with a reference, and it is counted.
func TestPanic(t *testing.T) {
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory panicking", "encryption_key "+servertest.TestKey
	s.MustLoad()
	token := s.Token()
	m := servertest.MemoryOf(t, "panicking")
	m.Panics.Store(true)
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/api/v2/token/introspect", strings.NewReader("token="+token))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("ops", "the-secret-of-ops-in-all-of-these-tests")
	if resp, body := s.Do(r); resp.StatusCode != http.StatusInternalServerError || strings.Contains(body, "goroutine") ||
		strings.Contains(body, "the store is broken") {
		t.Errorf("introspection = %d %s, want 500 without any detail", resp.StatusCode, body)
	}
	if got := s.Enters(token); got != http.StatusInternalServerError {
		t.Errorf("protect: status = %d, want 500", got)
	}
	m.Panics.Store(false)
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("afterwards: status = %d, want 200", got)
	}
	if _, body := s.Do(s.Request(http.MethodGet, "http://"+s.Admin+"/metrics", nil)); !strings.Contains(body, "gatehouse_panics_total 2\n") {
		t.Errorf("/metrics does not count 2 panics: %s", body[strings.Index(body, "gatehouse_panics"):][:200])
	}
}

func TestReloadUnderLoad(t *testing.T) {
	s := servertest.NewServer(t)
	s.Grace = "10s"
	s.MustLoad()
	token := s.Token()
	before := runtime.NumGoroutine()

	var failed, lost, done atomic.Int64
	stop, progress := make(chan struct{}), make(chan struct{})
	var load sync.WaitGroup
	for range 8 {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				case progress <- struct{}{}:
				default:
				}
				done.Add(1)
				got, err := try(s, token)
				if err != nil { // Caddy loses a connection that is made at the moment of a reload; clients try again
					lost.Add(1)
					got, err = try(s, token)
				}
				if err != nil || got != http.StatusOK {
					failed.Add(1)
					t.Errorf("request = %d, %v, want 200", got, err)
				}
			}
		})
	}
	for i := range 10 {
		for range 100 { // requests between two reloads, on connections that are kept alive
			<-progress
		}
		s.Extra = fmt.Sprintf("scope round.%d", i) // another configuration, so Caddy does reload
		s.MustLoad()
		if i%5 == 0 {
			if err := caddy.Load(s.Broken(), true); err == nil {
				t.Error("a broken configuration was loaded")
			}
		}
		if open, _ := servertest.OpenStores(); open != 1 {
			t.Errorf("after reload %d: %d stores open, want 1", i, open)
		}
	}
	close(stop)
	load.Wait()
	t.Logf("%d requests, %d connections lost, %d requests failed, 10 reloads", done.Load(), lost.Load(), failed.Load())
	s.Transport.CloseIdleConnections()
	servertest.Eventually(t, "one configuration uses the store", func() bool {
		_, users := servertest.OpenStores()
		return users == 1
	})
	if after := runtime.NumGoroutine(); after > before+50 {
		t.Errorf("%d goroutines, %d before the reloads", after, before)
	}
}

func oneStoreOneUser() bool {
	open, users := servertest.OpenStores()
	return open == 1 && users == 1
}

// try sends a token to the protected API; unlike enters it may run in any goroutine.
func try(s *servertest.Server, token string) (int, error) {
	r, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, "http://"+s.API+"/", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := s.Transport.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}

func TestValidateBesideServer(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	for range 3 {
		if err := servertest.Validate(t, s.JSON()); err != nil {
			t.Fatalf("Validate beside a running server: %v", err)
		}
	}
	servertest.Eventually(t, "the running configuration alone uses its store", oneStoreOneUser)
	if got := s.Enters(s.Token()); got != http.StatusOK {
		t.Errorf("after Validate: status = %d, want 200", got)
	}
	// Nothing is made by looking: neither the directory nor the key. The command runs in a process of its own, where
	// nothing is served.
	s.Stop()
	other := servertest.NewServer(t)
	if err := servertest.Validate(t, other.JSON()); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(other.Dir); err != nil || len(entries) != 0 {
		t.Errorf("Validate left %v, %v", entries, err)
	}
}

// bystander is an app that opens what others connect to when it starts, as http does.
type bystander struct{}

var bystanderStarts atomic.Int64

func init() { caddy.RegisterModule(bystander{}) }

func (bystander) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "bystander", New: func() caddy.Module { return new(bystander) }}
}

func (bystander) Start() error { bystanderStarts.Add(1); return nil }
func (bystander) Stop() error  { return nil }

// TestFailedStart: whatever cannot start says why, leaves nothing open, and lets the running configuration serve.
func TestFailedStart(t *testing.T) {
	taken := func(t *testing.T, dir string) {
		t.Helper()
		st, err := badgerstore.Open(t.Context(), badgerstore.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
	}
	for name, tt := range map[string]struct {
		prepare func(t *testing.T, s *servertest.Server)
		want    string
	}{
		"attack F12: second opener of a directory": {func(t *testing.T, s *servertest.Server) {
			servertest.WriteFile(t, filepath.Join(s.Dir, "store.key"), servertest.TestKey, 0o600)
			taken(t, filepath.Join(s.Dir, "store"))
		}, "another process"},
		"key file readable by others": {func(t *testing.T, s *servertest.Server) {
			servertest.WriteFile(t, filepath.Join(s.Dir, "store.key"), servertest.TestKey, 0o644)
		}, "chmod 600"},
		"key file damaged": {func(t *testing.T, s *servertest.Server) {
			servertest.WriteFile(t, filepath.Join(s.Dir, "store.key"), "not a key", 0o600)
		}, "32 bytes"},
		"key file lost": {func(t *testing.T, s *servertest.Server) {
			st, err := badgerstore.Open(t.Context(), badgerstore.Options{Dir: filepath.Join(s.Dir, "store")})
			if err != nil {
				t.Fatal(err)
			}
			st.Close()
		}, "is missing: put the file back"},
		"no room": {func(_ *testing.T, s *servertest.Server) { s.Storage += " {\n min_free 100000TiB\n}" }, "free"},
		"a guest without a key": {
			func(_ *testing.T, s *servertest.Server) { s.Storage = "storage memory keyless" },
			"encryption_key is required",
		},
		"a directory that is a file": {func(t *testing.T, s *servertest.Server) {
			servertest.WriteFile(t, filepath.Join(s.Dir, "store"), "x", 0o600)
		}, "store"},
	} {
		t.Run(name, func(t *testing.T) {
			running := servertest.NewServer(t)
			running.MustLoad()
			s := servertest.NewServer(t)
			s.Admin = running.Admin
			tt.prepare(t, s)
			bystanderStarts.Store(0)
			if err := caddy.Load(bytes.Replace(s.JSON(), []byte(`"apps":{`), []byte(`"apps":{"bystander":{},`), 1), true); err == nil ||
				!strings.Contains(err.Error(), tt.want) {
				t.Fatalf("load = %v, want an error with %q", err, tt.want)
			}
			servertest.Eventually(t, "the running configuration alone uses its store", oneStoreOneUser)
			if got := bystanderStarts.Load(); got != 0 {
				t.Errorf("%d other apps were started, and their sockets opened, before the refusal; want none", got)
			}
			if got := running.Enters(running.Token()); got != http.StatusOK {
				t.Errorf("the old configuration answers %d, want 200", got)
			}
		})
	}
}

// TestStoreOutlivesRequests: a request of a configuration that was replaced keeps its store open until it is done.
func TestStoreOutlivesRequests(t *testing.T) {
	s := servertest.NewServer(t)
	s.Storage, s.Key = "storage memory first", "encryption_key "+servertest.TestKey
	s.MustLoad()
	token := s.Token()
	first := servertest.MemoryOf(t, "first")

	gate := make(chan struct{})
	first.Gate.Store(&gate)
	answered := make(chan int, 1)
	go func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.API+"/", nil)
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Transport{}).RoundTrip(r)
		if err != nil {
			answered <- 0 // the connection was cut at the end of the grace period
			return
		}
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-first.Inside // the request is in the store now

	s.Storage = "storage memory second"
	s.MustLoad() // returns after the grace period, while the request still waits
	select {
	case <-first.Closed:
		t.Fatal("the store was closed under a request")
	default:
	}
	if open, _ := servertest.OpenStores(); open != 2 {
		t.Errorf("%d stores open, want 2", open)
	}
	first.Gate.Store(nil)
	close(gate)
	<-answered
	s.Transport.CloseIdleConnections()
	select {
	case <-first.Closed:
	case <-time.After(2 * time.Minute):
		t.Error("the store was never closed")
	}
	if got := s.Enters(s.Token()); got != http.StatusOK {
		t.Errorf("the new configuration answers %d, want 200", got)
	}
}

// TestRefusedReloadKeepsTheStore plays attack 7148: a configuration that fails when it starts had said how long calls
// are kept. The store, which both configurations share, goes on with what the running one says.
func TestRefusedReloadKeepsTheStore(t *testing.T) {
	s := servertest.NewServer(t)
	s.Site = "protect orders.read {\n\t\taudit log\n\t}"
	s.Extra = "events {\n\t\t\tcall_retention forever\n\t\t}"
	s.MustLoad()
	if got := s.Enters(s.Token()); got != http.StatusOK {
		t.Fatalf("the call answers %d, want 200", got)
	}
	store := servertest.OpenStore(t)
	recorder := store.Recorder.Load()
	if err := errors.Join(store.Calls.Flush(t.Context()), store.Calls.Seal(t.Context())); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // no one connects
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.Extra = "events {\n\t\t\tcall_retention 1ms\n\t\t}\n\t\text_authz " + taken.Addr().String()
	if err := s.Load(); err == nil || !strings.Contains(err.Error(), "ext_authz") {
		t.Fatalf("load = %v, want the port that is taken", err)
	}
	servertest.Eventually(t, "the running configuration alone uses the store", oneStoreOneUser)
	if err := store.Calls.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := servertest.Decode[[]calllog.Found](t, s.Run("", "events", "calls", "--json"))
	if len(calls) != 1 {
		t.Errorf("attack 7148: %d calls are left, want the one that the running configuration keeps", len(calls))
	}
	if store.Recorder.Load() != recorder {
		t.Error("the store records events for the configuration that failed")
	}
}
