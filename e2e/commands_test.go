package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// must runs a `gatehouse` command against the running server and returns its output.
func (s *server) must(input string, args ...string) string {
	s.t.Helper()
	out, err := s.gatehouse(input, append([]string{"gatehouse", "--address", s.Admin}, args...)...)
	if err != nil {
		s.t.Fatalf("gatehouse %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// status asks an address with a bearer token.
func (s *server) status(address, token string) int {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp := send(s.t, s, req)
	resp.Body.Close()
	return resp.StatusCode
}

// TestPersonCommands adds a person by command, and blocks the person while the browser is signed in.
func TestPersonCommands(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const ann = "ann@example.com"
	password := random(12)
	s.secret("password of ann", password)
	s.must(password+"\n", "person", "add", ann, "--name", "Ann", "--groups", "staff,board")
	if got := s.must("", "person", "list"); !strings.Contains(got, ann) || !strings.Contains(got, person) {
		t.Errorf("person list = %q", got)
	}
	b := s.browse(t)
	b.open(s.Wiki + "/")
	b.signIn(ann, password)
	if got := b.seen(); got.User != ann || got.Groups != "staff,board" || got.Email != ann {
		t.Errorf("upstream saw %+v", got)
	}
	s.must("", "person", "block", ann)
	b.open(s.Wiki + "/")
	if !b.has("#password") {
		t.Fatalf("a blocked person is still in, at %s", b.location())
	}
	b.signIn(ann, password)
	if !b.has("[role=alert]") {
		t.Errorf("a blocked person could sign in, and is at %s", b.location())
	}
}

// TestTokenCommands makes a client and tokens by command.
func TestTokenCommands(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	var added struct {
		Secret string `json:"secret"`
	}
	out := s.must("", "client", "add", "cron", "--grants", "client_credentials", "--scopes", apiScope, "--json")
	if err := json.Unmarshal([]byte(out), &added); err != nil || len(added.Secret) < 32 {
		t.Fatalf("client add says %q, %v", out, err)
	}
	s.secret("secret of cron", added.Secret)
	if got := s.status(s.API, s.clientCredentials("cron", added.Secret)); got != http.StatusOK {
		t.Errorf("the API answers %d to the new client", got)
	}
	token := s.must("", "token", "issue", "--client", "reports", "--scope", apiScope)
	s.secret("issued token", token)
	if got := s.status(s.API, token); got != http.StatusOK {
		t.Errorf("the API answers %d to an issued token", got)
	}
	if got := s.must(token+"\n", "token", "introspect", "--json"); !strings.Contains(got, `"reports"`) {
		t.Errorf("token introspect = %s", got)
	}
	s.must(token+"\n", "token", "revoke")
	if got := s.status(s.API, token); got != http.StatusUnauthorized {
		t.Errorf("the API answers %d to a revoked token", got)
	}
	if out, err := s.gatehouse("", "gatehouse", "check", "--config", filepath.Join(s.dir, "Caddyfile"), "--adapter",
		"caddyfile"); err != nil || strings.Contains(out, `{"level"`) {
		t.Errorf("check: %v, want lines for people alone:\n%s", err, out)
	}
}

// TestRestore restores a backup on another server: persons and clients are there, earlier tokens are invalid.
func TestRestore(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	token := s.clientCredentials("reports", s.ReportsSecret)
	const ann = "ann@example.com"
	password := random(12)
	s.must(password+"\n", "person", "add", ann)
	backup := filepath.Join(s.dir, "backup")
	s.must("", "backup", backup)

	other := &server{
		Callback: s.Callback, Echo: s.Echo, ShopSecret: s.ShopSecret, ReportsSecret: s.ReportsSecret, OpsSecret: s.OpsSecret,
		Password: s.Password, Key: s.Key,
	}
	other.place(t)
	other.secret("password of ann", password)
	other.must("", "restore", backup, "--storage", filepath.Join(other.dir, "data"))
	other.serve()
	if got := other.status(other.API, token); got != http.StatusUnauthorized {
		t.Errorf("a token from before the restore is answered %d, want 401", got)
	}
	if got := other.status(other.API, other.clientCredentials("reports", other.ReportsSecret)); got != http.StatusOK {
		t.Errorf("a new token is answered %d, want 200", got)
	}
	b := other.browse(t)
	b.open(other.Wiki + "/")
	b.signIn(ann, password)
	if got := b.seen().User; got != ann {
		t.Errorf("the restored person signed in as %q", got)
	}
	out, err := s.gatehouse("", "gatehouse", "restore", backup, "--storage", filepath.Join(s.dir, "data"))
	if err == nil {
		t.Errorf("restore over a running server's data succeeded: %s", out)
	}
}
