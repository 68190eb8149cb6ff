package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

const (
	person   = "demo@example.com"
	apiScope = "reports.read"
)

// binary is the path of the built binary, set by TestMain.
var binary string

func TestMain(m *testing.M) {
	binary = os.Getenv("GATEHOUSE_BIN")
	if binary == "" {
		binary = "../bin/gatehouse"
	}
	var err error
	if binary, err = filepath.Abs(binary); err == nil {
		_, err = os.Stat(binary)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "e2e: %v: build it with make build, or name it in GATEHOUSE_BIN\n", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintf(os.Stderr, "e2e: stop Chromium: %v\n", err)
	}
	os.Exit(code)
}

// server is a running gatehouse with an issuer, a site that browsers sign in to and an API that accepts bearer tokens.
type server struct {
	t    *testing.T
	dir  string
	cmd  *exec.Cmd
	log  string // path
	exit chan error

	Issuer, Wiki, API, Admin                  string // addresses without a trailing slash
	ShopSecret, ReportsSecret, OpsSecret, Key string
	Password                                  string
	Callback                                  string // of the client shop
	Echo                                      string // address of the upstream

	more []string                      // further environment variables
	edit func(caddyfile string) string // the test's changes to the configuration; nil: none

	mu      sync.Mutex // guards secrets
	secrets map[string]string
}

var config = template.Must(template.New("Caddyfile").Parse(`{
	admin {{.AdminAddr}}
	persist_config off
	auto_https off
	default_bind 127.0.0.1
	grace_period 100ms
	log {
		level DEBUG
	}
	gatehouse {
		issuer {{.S.Issuer}}
		storage badger {{.S.Dir}}/data
		encryption_key {env.TEST_KEY}
		scope {{.Scope}} {
			description "Read the reports"
		}
		client shop {
			name "The shop"
			secret {env.TEST_SHOP_SECRET}
			redirect_uris {{.S.Callback}}
			post_logout_redirect_uris {{.S.Callback}}/bye
			grants authorization_code refresh_token client_credentials device_code
			scopes openid profile email {{.Scope}}
			default_scopes {{.Scope}}
		}
		client passport {
			secret {env.TEST_SHOP_SECRET}
			auth_method post
			redirect_uris {{.S.Callback}}
			grants authorization_code refresh_token
			scopes openid profile email
			consent off
		}
		client reports {
			secret {env.TEST_REPORTS_SECRET}
			grants client_credentials
			scopes {{.Scope}}
			default_scopes {{.Scope}}
		}
		api_client ops {
			secret {env.TEST_OPS_SECRET}
			apis introspection
		}
		identity {
			password_hash {
				memory 8MiB
				iterations 1
			}
			person {{.Person}} {
				password {env.TEST_PASSWORD}
				name "Demo Person"
				groups staff
			}
		}
	}
}

{{.S.Issuer}} {
	log
	gatehouse
}

{{.S.Wiki}} {
	log
	protect {
		login
	}
	reverse_proxy {{.S.Echo}}
}

{{.S.API}} {
	log
	protect {{.Scope}}
	reverse_proxy {{.S.Echo}}
}
`))

// Dir is the directory of the server's data and logs.
func (s *server) Dir() string { return s.dir }

// start runs a server until the end of the test, which also searches its log for every recorded secret. callback is the
// redirect URI of the client shop; empty if the test needs no client.
func start(t *testing.T, callback string) *server {
	t.Helper()
	return startEdited(t, callback, nil)
}

// startEdited is start with another configuration, and further environment variables.
func startEdited(t *testing.T, callback string, edit func(caddyfile string) string, env ...string) *server {
	t.Helper()
	s := &server{Callback: callback, Echo: echo(t), edit: edit, more: env}
	if callback == "" {
		s.Callback = "http://127.0.0.1:1/callback"
	}
	const odd = "-_.~" // some libraries encode these characters in Basic credentials
	s.ShopSecret, s.ReportsSecret, s.OpsSecret = odd+random(32), odd+random(32), odd+random(32)
	s.Password = random(12)
	s.Key = base64.StdEncoding.EncodeToString([]byte(random(24))) // 24 random bytes make 32 characters
	s.place(t)
	s.serve()
	return s
}

// place gives the server its own directory and ports.
func (s *server) place(t *testing.T) {
	t.Helper()
	s.t, s.dir, s.secrets = t, t.TempDir(), map[string]string{}
	ports := freePorts(t, 4)
	s.Issuer = fmt.Sprintf("http://localhost:%d", ports[0])
	s.Wiki = fmt.Sprintf("http://localhost:%d", ports[1])
	s.API = fmt.Sprintf("http://localhost:%d", ports[2])
	s.Admin = fmt.Sprintf("localhost:%d", ports[3])
	for name, value := range map[string]string{
		"client secret of shop": s.ShopSecret, "client secret of reports": s.ReportsSecret, "secret of ops": s.OpsSecret,
		"password": s.Password, "encryption key": s.Key,
	} {
		s.secret(name, value)
	}
	s.write(s.caddyfile())
}

// serve runs the server on its own configuration until the end of the test.
func (s *server) serve() {
	s.t.Helper()
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir, s.env()...)
	s.await(s.Issuer + "/healthz")
	s.await("http://" + s.Admin + "/gatehouse/clients") // Caddy activates a configuration after its servers listen
}

func (s *server) env() []string {
	return append([]string{
		"TEST_KEY=" + s.Key, "TEST_SHOP_SECRET=" + s.ShopSecret, "TEST_REPORTS_SECRET=" + s.ReportsSecret,
		"TEST_OPS_SECRET=" + s.OpsSecret, "TEST_PASSWORD=" + s.Password,
	}, s.more...)
}

func (s *server) caddyfile() string {
	var b bytes.Buffer
	err := config.Execute(&b, map[string]any{"S": s, "AdminAddr": s.Admin, "Person": person, "Scope": apiScope})
	if err != nil {
		s.t.Fatal(err)
	}
	if s.edit != nil {
		return s.edit(b.String())
	}
	return b.String()
}

func (s *server) write(content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "Caddyfile"), []byte(content), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// environ is the environment of a process that neither reads nor leaves anything outside of dir.
func environ(dir string, more ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "XDG_DATA_HOME=" + dir + "/xdg/data", "XDG_CONFIG_HOME=" + dir + "/xdg/config",
	}, more...)
}

// run starts the binary with a configuration, and checks its end: it must stop on SIGTERM, and its log must contain no
// secret.
func (s *server) run(configFile, dir string, env ...string) {
	t := s.t
	t.Helper()
	s.log = filepath.Join(s.dir, "log")
	out, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.cmd = exec.Command(binary, "run", "--config", configFile, "--adapter", "caddyfile")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = dir, out, out, environ(s.dir, env...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.exit = make(chan error, 1)
	go func() { s.exit <- s.cmd.Wait() }()
	t.Cleanup(s.stop)
}

func (s *server) stop() {
	t := s.t
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("server is gone before the end of the test: %v", err)
	} else {
		select {
		case err := <-s.exit:
			if err != nil {
				t.Errorf("server ended with %v", err)
			}
		case <-time.After(60 * time.Second):
			t.Error("server still runs 60 s after SIGTERM")
			_ = s.cmd.Process.Kill() // the test has failed already
			<-s.exit
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, leak := range leaks(raw, s.secrets) {
		t.Error(leak)
	}
	if strings.Contains(string(raw), "panic") {
		t.Error("the log contains a panic")
	}
	if t.Failed() {
		keep := artifact(t, strings.ReplaceAll(t.Name(), "/", "_")+".log")
		if err := os.WriteFile(keep, raw, 0o600); err == nil {
			t.Logf("the server's log is %s", keep)
		}
	}
}

// await waits until an address answers 200, at most 60 s.
func (s *server) await(address string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 60*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(resp.Status)
		}
		select {
		case done := <-s.exit:
			s.exit <- done
			raw, _ := os.ReadFile(s.log) // for the message, as far as it exists
			s.t.Fatalf("server ended at its start: %v\n%s", done, tail(raw, 3000))
		case <-ctx.Done():
			raw, _ := os.ReadFile(s.log) // for the message, as far as it exists
			s.t.Fatalf("GET %s: no 200 in 60 s: %v\n%s", address, err, tail(raw, 3000))
		case <-tick.C:
		}
	}
}

// gatehouse runs the binary with arguments, with input on its standard input, and returns its output.
func (s *server) gatehouse(input string, args ...string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), binary, args...)
	cmd.Env = environ(s.dir, s.env()...)
	cmd.Dir, cmd.Stdin = s.dir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// freePorts returns ports of lab.FreePorts, or fails the test.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports, err := lab.FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// artifact returns the name of a file that outlives the run.
func artifact(t *testing.T, name string) string {
	t.Helper()
	if err := os.MkdirAll("artifacts", 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := filepath.Abs(filepath.Join("artifacts", name))
	if err != nil {
		t.Fatal(err)
	}
	return p
}
