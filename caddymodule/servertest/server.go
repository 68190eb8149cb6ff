// Package servertest runs a whole Gatehouse in a Caddy of the test's process, and gives tests a browser, the
// command line and the APIs of that server. Caddy runs one configuration in a process, so tests that load one are
// not parallel.
package servertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the modules that the configurations name

	_ "github.com/gatehouse-id/gatehouse/caddymodule" // the module under test
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/caddymodule/shared"
)

// The secrets of the configuration.
const (
	TestSecret   = "the-secret-of-reports-in-these-tests"
	TestPassword = "the password of demo"
	TestKey      = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	OtherKey     = "HxAREhMUFRYXGBkaGwAECAwQFBgcICQoLDA0ODx8eXk="
)

// Server is a Caddy in this process.
type Server struct {
	T          *testing.T
	Addr       string // host and port of the issuer
	API        string // host and port of the protected API
	Admin      string // host and port of the admin API
	Dir        string
	Storage    string // the storage line of the Caddyfile
	Key        string // the encryption_key line
	Extra      string // further lines of the gatehouse block
	InIdentity string // further lines of the identity block
	Options    string // further global options
	Site       string // directives of the API's site. Default: protect orders.read
	Grace      string // how long a stop waits for requests. Default: 100ms
	Fresh      bool   // the store makes its signing keys by itself
	Transport  *http.Transport
}

// NewServer picks ports and a directory. MustLoad starts the server, and the end of the test stops it.
func NewServer(t *testing.T) *Server {
	t.Helper()
	s := &Server{
		T: t, Addr: FreeAddr(t), API: FreeAddr(t), Admin: FreeAddr(t), Dir: t.TempDir(),
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}
	s.Storage = "storage badger " + filepath.Join(s.Dir, "store")
	t.Cleanup(func() {
		s.Transport.CloseIdleConnections()
		s.Stop()
	})
	return s
}

// FreeAddr returns a host and port that no other test uses.
func FreeAddr(t *testing.T) string {
	t.Helper()
	return "localhost:" + caddytest.FreePort(t)
}

// Stop ends what runs, the admin endpoint included.
func (s *Server) Stop() {
	s.T.Helper()
	if err := caddy.Load([]byte(`{"admin":{"disabled":true,"config":{"persist":false}}}`), true); err != nil {
		s.T.Errorf("stop: %v", err)
	}
	if err := caddy.Stop(); err != nil {
		s.T.Errorf("stop: %v", err)
	}
	// An answer can be read before its handler has left the configuration, and the store closes after the last has.
	Eventually(s.T, "every store is closed", func() bool {
		open, _ := OpenStores()
		return open == 0 && shared.Unclosed.Load() == 0
	})
}

// Issuer returns the issuer, which is the origin of the server.
func (s *Server) Issuer() string { return "http://" + s.Addr }

// Caddyfile returns the configuration.
func (s *Server) Caddyfile() string {
	return fmt.Sprintf(`{
	admin %s
	persist_config off
	grace_period %s
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
`, s.Admin, cmp.Or(s.Grace, "100ms"), s.Options, s.Issuer(), s.Storage, s.Key, TestSecret,
		TestPassword, s.InIdentity, s.Extra, s.Addr, s.API, cmp.Or(s.Site, "protect orders.read"))
}

// JSON adapts the server's Caddyfile.
func (s *Server) JSON() []byte {
	s.T.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(s.Caddyfile()), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		s.T.Fatalf("adapt: %v", err)
	}
	return KeepSockets(s.T, raw)
}

// KeepSockets gives every server of a configuration our listener wrapper. Without it Caddy opens a socket for each
// configuration, and a connection that is made just after a reload can still be answered by the one before.
func KeepSockets(t *testing.T, raw []byte) []byte {
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

// Load starts the configuration, or reloads it.
func (s *Server) Load() error {
	s.T.Helper()
	s.plant()
	return caddy.Load(s.JSON(), true)
}

// MustLoad is Load that must succeed.
func (s *Server) MustLoad() {
	s.T.Helper()
	if err := s.Load(); err != nil {
		s.T.Fatalf("load: %v", err)
	}
}

// TryLoad is Load of a Caddyfile that may be refused, as Caddy itself loads it: with sockets of its own.
func (s *Server) TryLoad() error {
	s.T.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(s.Caddyfile()), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	s.plant()
	return caddy.Load(raw, true)
}

// Patient repeats a request that no server has read: Caddy closes a connection to the previous configuration without
// an answer. On a busy machine the next one can be closed, too.
type Patient struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (p Patient) RoundTrip(r *http.Request) (*http.Response, error) {
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

// Do sends a request and returns its status and body.
func (s *Server) Do(r *http.Request) (*http.Response, string) {
	s.T.Helper()
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client := &http.Client{Transport: Patient{s.Transport}, CheckRedirect: stay}
	resp, err := client.Do(r)
	if err != nil {
		s.T.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.T.Fatalf("%s %s: %v", r.Method, r.URL.Path, err)
	}
	return resp, string(body)
}

// Request makes a request that ends with the test.
func (s *Server) Request(method, target string, body io.Reader) *http.Request {
	s.T.Helper()
	r, err := http.NewRequestWithContext(s.T.Context(), method, target, body)
	if err != nil {
		s.T.Fatal(err)
	}
	return r
}

// Get gets a path of the issuer.
func (s *Server) Get(path string) (*http.Response, string) {
	s.T.Helper()
	return s.Do(s.Request(http.MethodGet, s.Issuer()+path, nil))
}

// Token gets a client-credentials token.
func (s *Server) Token() string {
	s.T.Helper()
	r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader(url.Values{"grant_type": {"client_credentials"}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("reports", TestSecret)
	resp, body := s.Do(r) //nolint:bodyclose // it is read and closed
	var answer struct {
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || resp.StatusCode != http.StatusOK || answer.AccessToken == "" {
		s.T.Fatalf("Token status = %d, body %s", resp.StatusCode, body)
	}
	return answer.AccessToken
}

// Enters returns the status that protect answers a request with this token.
func (s *Server) Enters(token string) int {
	s.T.Helper()
	r := s.Request(http.MethodGet, "http://"+s.API+"/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	resp, _ := s.Do(r) //nolint:bodyclose // it is read and closed
	return resp.StatusCode
}

// OpenStores counts the stores that are open in this process, and the configurations that use them.
func OpenStores() (open, users int) {
	shared.Stores.Range(func(key, _ any) bool {
		open++
		n, _ := shared.Stores.References(key)
		users += n
		return true
	})
	return open, users
}

// OpenStore returns the store that is open, of which there must be one.
func OpenStore(t *testing.T) (store *shared.OpenStore) {
	t.Helper()
	shared.Stores.Range(func(_, value any) bool {
		store, _ = value.(*shared.OpenStore)
		return store == nil
	})
	if store == nil {
		t.Fatal("no store is open")
	}
	return store
}

// CollectEvents seals and collects the events of every open store now, and returns how many were collected.
func CollectEvents(ctx context.Context) (removed int, err error) {
	shared.Stores.Range(func(_, value any) bool {
		k := value.(*shared.OpenStore).Keeper
		var n int
		if err = k.Seal(ctx); err == nil {
			n, err = k.Collect(ctx)
		}
		removed += n
		return err == nil
	})
	return removed, err
}

// Adapt returns the JSON of a Caddyfile, or the error as text.
func Adapt(t *testing.T, caddyfile string) (string, error) {
	t.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(caddyfile), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, withoutPlaces.ReplaceAll(raw, nil), "", "\t"); err != nil {
		t.Fatal(err)
	}
	return out.String(), nil
}

// withoutPlaces are the lines at which options stand. TestMistakes tests them.
var withoutPlaces = regexp.MustCompile(`,"places":\{[^}]*\}`)

// Eventually waits for what happens soon by itself.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, give := time.NewTicker(5*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-give:
			t.Fatalf("never: %s", what)
		}
	}
}

// Broken is a configuration that names a client twice.
func (s *Server) Broken() []byte {
	s.T.Helper()
	var config map[string]any
	if err := json.Unmarshal(s.JSON(), &config); err != nil {
		s.T.Fatal(err)
	}
	app := config["apps"].(map[string]any)["gatehouse"].(map[string]any)
	clients := app["clients"].([]any)
	app["clients"] = append(clients, clients[0])
	raw, err := json.Marshal(config)
	if err != nil {
		s.T.Fatal(err)
	}
	return raw
}

// Validate does what `caddy validate` does.
func Validate(t *testing.T, raw []byte) error {
	t.Helper()
	var config caddy.Config
	if err := json.Unmarshal(raw, &config); err != nil {
		t.Fatal(err)
	}
	return caddy.Validate(&config)
}

// ValidateCaddyfile adapts and validates a Caddyfile, and logs errors alone.
func ValidateCaddyfile(t *testing.T, text string) error {
	t.Helper()
	raw, err := Adapt(t, text)
	if err != nil {
		return err
	}
	var config caddy.Config
	if err := json.Unmarshal([]byte(raw), &config); err != nil {
		return err
	}
	config.Logging = &caddy.Logging{Logs: map[string]*caddy.CustomLog{"default": {BaseLog: caddy.BaseLog{Level: "ERROR"}}}}
	return caddy.Validate(&config)
}

// WriteFile writes a file with exactly this mode.
func WriteFile(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
