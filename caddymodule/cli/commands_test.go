package cli_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

func TestCommands(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()

	t.Run("check", func(t *testing.T) {
		if out := s.Run("", "check"); !strings.Contains(out, "running, 1 client\n") || !strings.Contains(out, s.Issuer()) {
			t.Errorf("check = %s", out)
		}
		answer := servertest.Decode[map[string]any](t, s.Run("", "check", "--json"))
		if answer["storage"] != "ok" || answer["address"] != "ok" || answer["issuer"] != s.Issuer() {
			t.Errorf("check --json = %v", answer)
		}
		config := filepath.Join(t.TempDir(), "caddy.json")
		servertest.WriteFile(t, config, string(s.JSON()), 0o600)
		if out, err := servertest.Run(t, "", "check", "--config", config); err != nil || !strings.Contains(out, "configuration  ok") {
			t.Errorf("check --config = %s, %v", out, err)
		}
		servertest.WriteFile(t, config, string(s.Broken()), 0o600)
		if _, err := servertest.Run(t, "", "check", "--config", config); err == nil ||
			!strings.Contains(err.Error(), "client reports is defined twice") {
			t.Errorf("check of a broken configuration = %v", err)
		}
	})

	t.Run("person", func(t *testing.T) {
		out := s.Run("the password of ann\n", "person", "add", "ann@example.com", "--name", "Ann", "--groups", "staff,admins", "--json")
		ann := servertest.Decode[struct {
			ID            string   `json:"id"`
			State         string   `json:"state"`
			EmailVerified bool     `json:"email_verified"`
			Groups        []string `json:"groups"`
		}](t, out)
		if len(ann.ID) != 36 || ann.State != "ACTIVE" || !ann.EmailVerified || len(ann.Groups) != 2 {
			t.Errorf("person add = %s", out)
		}
		if strings.Contains(out, "password of ann") || strings.Contains(out, "argon2id") {
			t.Errorf("person add prints the password: %s", out)
		}
		s.Refused("taken", "the password of ann\n", "person", "add", "ANN@example.com")
		s.Refused("8 to 256", "short\n", "person", "add", "bob")
		s.Refused("no password given", "", "person", "add", "bob")
		s.Run("", "person", "add", "bob", "--no-password", "--phone", "+31201234567,+31612345678", "--birth-date", "1990-12-31")
		if bob := s.Run("", "person", "show", "bob"); !strings.Contains(bob, "+31201234567") {
			t.Errorf("bob is %s, want the first number", bob)
		}
		s.Refused("date_of_birth", "", "person", "add", "cid", "--no-password", "--birth-date", "31-12-1990")

		file := filepath.Join(t.TempDir(), "password")
		servertest.WriteFile(t, file, "another password of ann\r\n", 0o600)
		s.Run("", "person", "passwd", "ann@example.com", "--password-file", file)
		s.Refused("no person nobody", "whatever it is\n", "person", "passwd", "nobody")
		s.Refused("no person nobody", "", "person", "remove-step-up", "nobody", "pin")
		s.Refused("no such method", "", "person", "remove-step-up", "bob", "authenticator")
		s.Refused("no person nobody", "", "person", "code", "nobody")
		s.Refused("switched off", "", "person", "invite", "guest@example.com")
		s.Refused("is not an e-mail address", "", "person", "invite", "guest")
		s.Refused("no person nobody", "", "person", "invite", "nobody", "--again")
		s.Refused("the person is active", "", "person", "invite", "bob", "--again")
		s.Refused("switched off", "", "person", "code", "bob", "--for", "step-up")
		s.Refused("must be one of", "", "person", "code", "bob", "--for", "anything")

		if out := s.Run("", "person", "block", ann.ID); !strings.Contains(out, "blocked") {
			t.Errorf("person block = %s", out)
		}
		s.Refused("no person nobody", "", "person", "block", "nobody")
		list := servertest.Decode[[]map[string]any](t, s.Run("", "person", "list", "--json"))
		states := map[any]any{}
		for _, p := range list {
			states[p["username"]] = p["state"]
		}
		if len(list) != 3 || states["ann@example.com"] != "BLOCKED" || states["demo@example.com"] != "ACTIVE" {
			t.Errorf("person list = %v", list)
		}
		if out := s.Run("", "person", "unblock", "ann@example.com"); !strings.Contains(out, "active") {
			t.Errorf("person unblock = %s", out)
		}
		if out := s.Run("", "person", "list"); !strings.HasPrefix(out, "USERNAME") || !strings.HasSuffix(out, "\n3 people\n") {
			t.Errorf("person list = %s", out)
		}
	})

	t.Run("withdraw", func(t *testing.T) {
		got := servertest.Decode[map[string]int](t, s.Run("", "person", "withdraw", "demo@example.com", "shop", "--json"))
		if n, ok := got["grants"]; !ok || n != 0 {
			t.Errorf("person withdraw = %v, want no grant of a client that has none", got)
		}
		s.Refused("no person nobody", "", "person", "withdraw", "nobody", "shop")
	})

	t.Run("client", func(t *testing.T) {
		added := servertest.Decode[map[string]string](t,
			s.Run("", "client", "add", "robot", "--grants", "client_credentials", "--scopes", "orders.read,x", "--json"))
		if added["id"] != "robot" || len(added["secret"]) < 43 {
			t.Errorf("client add = %v", added)
		}
		r := s.Request(http.MethodPost, s.Issuer()+"/oauth/token", strings.NewReader("grant_type=client_credentials&scope=x"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth("robot", added["secret"])
		if resp, body := s.Do(r); resp.StatusCode != http.StatusOK {
			t.Errorf("token of an added client = %d %s", resp.StatusCode, body)
		}
		s.Refused("already exists", "", "client", "add", "robot", "--grants", "client_credentials", "--scopes", "x")
		s.Refused("already exists", "", "client", "add", "reports", "--grants", "client_credentials", "--scopes", "x")
		s.Refused("is not known", "", "client", "add", "old", "--grants", "ciba", "--scopes", "x")
		s.Refused("redirect_uris", "", "client", "add", "web", "--grants", "authorization_code", "--scopes", "x",
			"--redirect-uris", "javascript:alert(1)")

		s.Refused("want one of subject_dn", "", "client", "add", "certified", "--grants", "client_credentials", "--scopes", "x", "--auth-method",
			"tls_client_auth", "--certificate-subject", "dns=a.example")
		s.Refused("needs the name in the certificate", "", "client", "add", "certified", "--grants", "client_credentials", "--scopes", "x",
			"--auth-method", "tls_client_auth")
		s.Run("", "client", "add", "certified", "--grants", "client_credentials", "--scopes", "x", "--auth-method", "tls_client_auth",
			"--certificate-subject", "san_dns=a.example")
		s.Run("", "client", "set", "certified", "--certificate-subject", "subject_dn=CN=robot,O=Example")
		if out := s.Run("", "client", "show", "certified", "--json"); !strings.Contains(strings.ReplaceAll(out, " ", ""),
			`"subject_dn":"CN=robot,O=Example"`) || strings.Contains(out, "a.example") {
			t.Errorf("client show certified = %s", out)
		}
		s.Run("", "client", "remove", "certified", "--yes")

		signer := filepath.Join(t.TempDir(), "signer.json")
		servertest.WriteFile(t, signer,
			`{"id":"signer","auth_method":"private_key_jwt","jwks":"/etc/passwd","grants":["client_credentials"],"scopes":["x"]}`, 0o600)
		s.Refused("jwks: want the URL", "", "client", "add", "--file", signer) // a request reads no file of the server

		t.Setenv("GATEHOUSE_TEST_NAME", "out of the environment")
		file := filepath.Join(t.TempDir(), "client.json")
		servertest.WriteFile(t, file,
			`{"id":"spa","name":"{env.GATEHOUSE_TEST_NAME}","public":true,"grants":["authorization_code"],"redirect_uris":["https://spa.example.com/"],"scopes":["openid"],"lifetimes":{"access_token":"5m"}}`, 0o600)
		if out := s.Run("", "client", "add", "--file", file); strings.Contains(out, "secret") {
			t.Errorf("a public client got a secret: %s", out)
		}
		out := s.Run("", "client", "list", "--json")
		list := servertest.Decode[[]map[string]any](t, out)
		if len(list) != 3 || strings.Contains(out, "hmac:") || strings.Contains(out, servertest.TestSecret) ||
			!strings.Contains(out, "{env.GATEHOUSE_TEST_NAME}") || !strings.Contains(out, "5m0s") {
			t.Errorf("client list = %s", out)
		}
		if out := s.Run("", "client", "list"); !strings.HasPrefix(out, "ID") || !strings.HasSuffix(out, "\n3 clients\n") {
			t.Errorf("client list = %s", out)
		}
	})

	t.Run("client of a library", func(t *testing.T) {
		wiki := servertest.Decode[map[string]string](t,
			s.Run("", "client", "add", "wiki", "--for", "oauth2-proxy", "--url", "https://wiki.example.com", "--json"))
		if list := s.Run("", "client", "list", "--json"); wiki["secret"] == "" ||
			!strings.Contains(list, "https://wiki.example.com/oauth2/callback") || !strings.Contains(list, `"id_token_claims":true`) {
			t.Errorf("client add --for = %v, then client list = %s", wiki, list)
		}
		s.Refused("want one of", "", "client", "add", "wiki2", "--for", "nothing", "--url", "https://wiki.example.com")
		s.Refused("/oauth2/callback", "", "client", "add", "wiki2", "--for", "oauth2-proxy")
		s.Refused("--for", "", "client", "add", "wiki2", "--url", "https://wiki.example.com", "--grants", "client_credentials", "--scopes", "x")
	})

	t.Run("token", func(t *testing.T) {
		token := strings.TrimSpace(s.Run("", "token", "issue", "--client", "reports", "--lifetime", "1m"))
		if got := s.Enters(token); got != http.StatusOK {
			t.Errorf("issued token: status = %d, want 200", got)
		}
		says := servertest.Decode[map[string]any](t, s.Run(token+"\n", "token", "introspect", "--json"))
		if says["active"] != true || says["client_id"] != "reports" {
			t.Errorf("token introspect = %v", says)
		}
		if out := s.Run("", "token", "introspect", token); !strings.HasPrefix(out, "active until ") {
			t.Errorf("token introspect = %s", out)
		}
		s.Run(token+"\n", "token", "revoke")
		if out := s.Run(token+"\n", "token", "revoke"); !strings.HasPrefix(out, "nothing to revoke: ") {
			t.Errorf("token revoke of a revoked token = %s", out)
		}
		if got := s.Enters(token); got != http.StatusUnauthorized {
			t.Errorf("revoked token: status = %d, want 401", got)
		}
		if out := s.Run(token, "token", "introspect"); strings.TrimSpace(out) != "not active" {
			t.Errorf("token introspect = %s", out)
		}
		s.Refused("no such client", "", "token", "issue", "--client", "nobody")
		s.Refused("scope", "", "token", "issue", "--client", "reports", "--scope", "everything")
		s.Refused("--client is missing", "", "token", "issue")
		s.Refused("no token given", "", "token", "revoke")
	})
}

func TestCommandsWithoutServer(t *testing.T) {
	one, err := servertest.Run(t, "", "secret")
	two, err2 := servertest.Run(t, "", "secret", "--json")
	if err != nil || err2 != nil || len(strings.TrimSpace(one)) != 43 ||
		servertest.Decode[map[string]string](t, two)["secret"] == strings.TrimSpace(one) {
		t.Errorf("secret = %q, %q, %v, %v", one, two, err, err2)
	}
	addr := servertest.FreeAddr(t)
	if _, err := servertest.Run(t, "", "person", "list", "--address", addr); err == nil || !strings.Contains(err.Error(), "admin off") ||
		!strings.Contains(err.Error(), addr) {
		t.Errorf("no server: %v", err)
	}
	config := filepath.Join(t.TempDir(), "Caddyfile")
	servertest.WriteFile(t, config, "{\n\tadmin off\n\tgatehouse {\n\t\tissuer http://localhost:8420\n\t}\n}\n", 0o600)
	for _, args := range [][]string{{"person", "list"}, {"client", "list"}, {"token", "revoke", "x"}, {"backup", "x"}} {
		if _, err := servertest.Run(t, "", append(args, "--config", config, "--adapter", "caddyfile")...); err == nil ||
			!strings.Contains(err.Error(), "has `admin off`") {
			t.Errorf("%v with admin off: %v", args, err)
		}
	}
	for _, words := range [][]string{{"person", "help", "add"}, {"help", "person", "add"}} {
		if out, err := servertest.Run(t, "", words...); err != nil || !strings.Contains(out, "person add <username>") ||
			!strings.Contains(out, "--birth-date") || !strings.Contains(out, "--help") {
			t.Errorf("%v = %v:\n%s", words, err, out)
		}
	}
	for words, want := range map[string]string{
		"person shwo x":               "did you mean gatehouse person show?",
		"persn":                       "did you mean gatehouse person?",
		"person help shwo":            "did you mean gatehouse person show?",
		"person help show x":          `unknown command "x" for "gatehouse person show"`,
		"invite ada@example.com":      "did you mean gatehouse admin invite or gatehouse person invite?",
		"nothing":                     `"gatehouse --help" lists the commands`,
		"person show":                 "an argument is missing: write gatehouse person show <username or id>",
		"explain https://a.example/x": "did you mean --url https://a.example/x?",
		"keys rotate now":             "gatehouse keys rotate takes no argument",
		"person list --gruop x":       "did you mean --group?",
		"doctor --config Caddyfile":   "check looks at a configuration",
		"check --config nowhere.json": "no such file",
	} {
		if _, err := servertest.Run(t, "", strings.Fields(words)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", words, err, want)
		}
	}
	help, err := servertest.Run(t, "", "--help")
	at := -1
	for _, title := range []string{"\nStart:\n", "\nPeople:\n", "\nApplications:\n", "\nLook:\n", "\nKeep:\n"} {
		next := strings.Index(help, title)
		if err != nil || next <= at {
			t.Errorf("the help has the group %q at %d, after %d, %v:\n%s", title, next, at, err, help)
		}
		at = next
	}
	if strings.Contains(help, "Additional Commands") && strings.Contains(help[strings.Index(help, "Additional Commands"):], "accept-loss") {
		t.Errorf("a command is in no group:\n%s", help)
	}
	for _, args := range [][]string{{"nothing"}, {"person", "nothing"}} {
		if _, err := servertest.Run(t, "", args...); err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%v: %v, want an error", args, err)
		}
	}
	for _, args := range [][]string{
		{"check"},
		{"secret"},
		{"person"},
		{"person", "add"},
		{"person", "passwd"},
		{"person", "remove-step-up"},
		{"person", "code"},
		{"person", "invite"},
		{"person", "list"},
		{"person", "block"},
		{"person", "withdraw"},
		{"client", "add"},
		{"client", "list"},
		{"token", "issue"},
		{"token", "introspect"},
		{"token", "revoke"},
		{"backup"},
		{"restore"},
		{"config", "export"},
		{"config", "import"},
		{"config", "diff"},
	} {
		if out, err := servertest.Run(t, "", append(args, "--help")...); err != nil || !strings.Contains(out, "Usage:") ||
			!strings.Contains(out, "--json") {
			t.Errorf("%v --help = %s, %v", args, out, err)
		}
	}
}

func TestBackupAndRestore(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	s.Run("the password of ann\n", "person", "add", "ann")
	token := s.Token()
	_, jwks := s.Get("/oauth/jwks")

	file := filepath.Join(t.TempDir(), "backup")
	out := s.Run("", "backup", file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(out, "encryption key is not in it") {
		t.Fatalf("backup = %s, %v, %v", out, info, err)
	}
	// A backup that is refused, or that cannot be kept, has not been made.
	s.Refused("exists already", "", "backup", file)
	s.Refused("no such file", "", "backup", filepath.Join(t.TempDir(), "nowhere", "backup"))
	if out := s.Run("", "events", "list"); strings.Count(out, "Backup Made") != 1 || strings.Count(out, "Backup Started") != 1 {
		t.Errorf("after one backup the events are\n%s", out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := os.ReadFile(filepath.Join(s.Dir, "store.key")); err != nil || bytes.Contains(raw, bytes.TrimSpace(key)) {
		t.Error("the backup holds the encryption key")
	}
	if bytes.Contains(raw, []byte(token)) || bytes.Contains(raw, []byte("the password of ann")) {
		t.Error("the backup holds a token or password")
	}

	store := filepath.Join(s.Dir, "store")
	if _, err := servertest.Run(t, "", "restore", file, "--storage", store); err == nil ||
		!strings.Contains(err.Error(), "uses the directory") {
		t.Errorf("restore into a directory in use = %v", err)
	}
	if got := s.Enters(token); got != http.StatusOK {
		t.Errorf("after a refused restore: status = %d, want 200", got)
	}
	s.Stop()
	if err := os.Rename(store, store+".old"); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "caddy.json")
	servertest.WriteFile(t, config, string(s.JSON()), 0o600)
	cut := filepath.Join(t.TempDir(), "cut")
	servertest.WriteFile(t, cut, string(raw[:len(raw)-7]), 0o600)
	if _, err := servertest.Run(t, "", "restore", cut, "--config", config); err == nil {
		t.Error("a backup that was cut short was restored")
	}
	if out, err := servertest.Run(t, "", "restore", file, "--config", config); err != nil ||
		!strings.Contains(out, "Older tokens and sessions are ended") ||
		!regexp.MustCompile(`: \d+ records, the newest event of 20\d\d-\d\d-\d\d \d\d:\d\d\n`).MatchString(out) {
		t.Fatalf("restore = %s, %v", out, err)
	}
	s.MustLoad()
	if got := s.Enters(token); got != http.StatusUnauthorized {
		t.Errorf("a token from before the restore: status = %d, want 401", got)
	}
	if got := s.Enters(s.Token()); got != http.StatusOK {
		t.Errorf("a new token: status = %d, want 200", got)
	}
	if _, now := s.Get("/oauth/jwks"); now != jwks {
		t.Error("the signing keys are not those of the backup")
	}
	if out := s.Run("", "person", "list"); !strings.Contains(out, "ann") {
		t.Errorf("person list after the restore = %s", out)
	}
}

// TestAdminAttacks: the admin API takes orders from commands, not from pages.
func TestAdminAttacks(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	admin := "http://" + s.Admin
	person := `{"username":"mallory","password":"the password of mallory"}`
	canary := s.Token()

	t.Run("attack 211: the admin API from elsewhere, no way around the door", func(t *testing.T) {
		for name, change := range map[string]func(r *http.Request){
			"foreign origin":     func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") },
			"origin null":        func(r *http.Request) { r.Header.Set("Origin", "null") },
			"rebound host":       func(r *http.Request) { r.Host = "evil.example" },
			"no-cors":            func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "no-cors") },
			"text/plain":         func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
			"no content type":    func(r *http.Request) { r.Header.Del("Content-Type") },
			"form":               func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") },
			"foreign origin get": func(r *http.Request) { r.Method = http.MethodGet; r.Header.Set("Origin", "https://evil.example") },
		} {
			r := s.Request(http.MethodPost, admin+"/gatehouse/persons", strings.NewReader(person))
			r.Header.Set("Content-Type", "application/json")
			change(r)
			if resp, body := s.Do(r); resp.StatusCode < 400 || resp.StatusCode >= 500 {
				t.Errorf("%s: status = %d %s, want a refusal", name, resp.StatusCode, body)
			}
		}
		if out := s.Run("", "person", "list"); strings.Contains(out, "mallory") {
			t.Error("mallory was added")
		}
		// Nothing of it is reachable on the public listeners, and no name or path opens the protected site.
		for _, path := range []string{"/gatehouse/persons", "/gatehouse/backup", "/metrics", "/debug/pprof/", "/config/", "/load"} {
			if resp, _ := s.Get(path); resp.StatusCode != http.StatusNotFound {
				t.Errorf("GET %s on the issuer = %d, want 404", path, resp.StatusCode)
			}
		}
		for _, path := range []string{"/ping", "/healthz", "/healthz?x", "/metrics", "/debug/pprof/", "/gatehouse/persons"} {
			for _, agent := range []string{"GoogleHC/1.0", "ELB-HealthChecker/2.0", ""} {
				r := s.Request(http.MethodGet, "http://"+s.API+path, nil)
				r.Header.Set("User-Agent", agent)
				if resp, _ := s.Do(r); resp.StatusCode != http.StatusUnauthorized {
					t.Errorf("GET %s as %q = %d, want 401", path, agent, resp.StatusCode)
				}
			}
		}
		if got := s.Enters(canary); got != http.StatusOK {
			t.Errorf("canary token: status = %d, want 200", got)
		}
	})

	t.Run("malformed requests", func(t *testing.T) {
		for name, body := range map[string]string{
			"empty": ``, "not JSON": `x`, "unknown member": `{"username":"x","admin":true}`, "two values": person + person, "array": `[]`,
			"too large": `{"username":"` + strings.Repeat("x", 2<<20) + `"}`,
		} {
			for _, path := range []string{
				"/persons", "/persons/password", "/persons/state", "/persons/step-up", "/clients", "/tokens",
				"/tokens/introspect", "/tokens/revoke",
			} {
				r := s.Request(http.MethodPost, admin+"/gatehouse"+path, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				want := http.StatusBadRequest
				if name == "too large" {
					want = http.StatusRequestEntityTooLarge
				}
				if resp, answer := s.Do(r); resp.StatusCode != want || !strings.Contains(answer, `"error"`) {
					t.Errorf("%s to %s: status = %d %s, want %d", name, path, resp.StatusCode, answer, want)
				}
			}
		}
		for path, want := range map[string]int{
			"/gatehouse/persons?limit=0": 400, "/gatehouse/persons?limit=501": 400,
			"/gatehouse/nothing": 404,
		} {
			if resp, _ := s.Do(s.Request(http.MethodGet, admin+path, nil)); resp.StatusCode != want {
				t.Errorf("GET %s = %d, want %d", path, resp.StatusCode, want)
			}
		}
		if resp, _ := s.Do(s.Request(http.MethodDelete, admin+"/gatehouse/persons", nil)); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("DELETE = %d, want 405", resp.StatusCode)
		}
	})
}
