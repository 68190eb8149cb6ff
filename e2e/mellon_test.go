package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mellon is a running Apache with mod_auth_mellon: a SAML service provider by other authors. It lets people who have
// signed in through to the upstream, and tells it who they are.
type mellon struct {
	t   *testing.T
	dir string
	URL string
}

// makeMellon makes the keys and the metadata of a site, with the command of the guide.
func makeMellon(t *testing.T, guide string) *mellon {
	t.Helper()
	m := &mellon{t: t, dir: t.TempDir(), URL: fmt.Sprintf("http://localhost:%d", freePorts(t, 1)[0])}
	command := regexp.MustCompile("`(mellon_create_metadata [^`]*)`").FindStringSubmatch(guide)
	if command == nil {
		t.Fatal("the guide does not say how metadata are made")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.ReplaceAll(command[1], "https://wiki.example.com", m.URL))
	cmd.Dir, cmd.Env = m.dir, environ(m.dir)
	cmd.Env[0] += ":/usr/sbin"
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: make install\n%s", command[1], err, said)
	}
	for _, kind := range []string{"key", "cert", "xml"} {
		found, err := filepath.Glob(filepath.Join(m.dir, "*_mellon_metadata."+kind))
		if err != nil || len(found) != 1 {
			t.Fatalf("the command of the guide has made %q: %v", found, err)
		}
		if err := os.Rename(found[0], filepath.Join(m.dir, "sp."+kind)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// serve runs Apache with the configuration of the guide until the end of the test.
func (m *mellon) serve(s *server, guide string) {
	t := m.t
	t.Helper()
	resp, err := http.Get(s.Issuer + "/sso/metadata")
	if err != nil {
		t.Fatal(err)
	}
	metadata, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the metadata of Gatehouse: %s: %v", resp.Status, err)
	}
	// The sites of these tests share the host localhost, and so the cookies.
	name := "mellon" + m.URL[strings.LastIndexByte(m.URL, ':')+1:]
	conf := strings.NewReplacer("DIR", m.dir, "ADDRESS", strings.TrimPrefix(m.URL, "http://localhost"), "ECHO", s.Echo).Replace(`ServerRoot DIR
PidFile DIR/pid
DefaultRuntimeDir DIR
ErrorLog DIR/log
LogLevel info
Listen 127.0.0.1ADDRESS
ServerName http://localhostADDRESS
UseCanonicalName On
User www-data
Group www-data
Mutex sem
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authn_core_module /usr/lib/apache2/modules/mod_authn_core.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule authz_user_module /usr/lib/apache2/modules/mod_authz_user.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so
LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so
LoadModule auth_mellon_module /usr/lib/apache2/modules/mod_auth_mellon.so
ProxyPass /mellon !
ProxyPass / http://ECHO/
`) + strings.ReplaceAll(example(t, guide, "mod_auth_mellon", "apache"), "/etc/apache2/mellon", m.dir) + `<Location />
    MellonVariable ` + name + `
    MellonMergeEnvVars On
    RequestHeader set Remote-User %{MELLON_id}e
    RequestHeader set Remote-Name %{MELLON_name}e
    RequestHeader set Remote-Email %{MELLON_email}e
    RequestHeader set Remote-Groups %{MELLON_groups}e
</Location>
`
	for name, content := range map[string]string{"idp.xml": string(metadata), "apache.conf": conf} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Started by root, Apache reads idp.xml as another user.
	for name, mode := range map[string]os.FileMode{"idp.xml": 0o644, "sp.xml": 0o644, ".": 0o755, "..": 0o755} {
		if err := os.Chmod(filepath.Join(m.dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	out := new(lockedBuffer)
	cmd := exec.Command("/usr/sbin/apache2", "-f", filepath.Join(m.dir, "apache.conf"), "-DFOREGROUND")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = m.dir, environ(m.dir), out, out
	if err := cmd.Start(); err != nil {
		t.Fatalf("apache2: %v: make install", err)
	}
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may be gone
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-gone
		}
		if t.Failed() {
			// for the message, as far as it exists
			log, _ := os.ReadFile(filepath.Join(m.dir, "log"))
			t.Logf("Apache says:\n%s%s", out.String(), tail(log, 4000))
		}
	})
	untilItAnswers(t, "Apache", m.URL+"/mellon/metadata", gone, out)
}

// TestMellon signs people in at sites of mod_auth_mellon, with the configuration of the guide, and out again on
// whichever side that begins.
func TestMellon(t *testing.T) {
	t.Parallel()
	guide := read(t, "../docs/saml-service-providers.md")
	_, block, _ := strings.Cut(example(t, guide, "From zero to a sign-in", "caddyfile"), "\t\tservice_provider wiki {")
	block, _, found := strings.Cut(block, "\n\t\t}\n")
	added := regexp.MustCompile("add `([^`]*)` and `([^`]*)` to its block").FindStringSubmatch(strings.ReplaceAll(guide, "\n", " "))
	if !found || added == nil {
		t.Fatal("the guide has no block for a service provider, or does not say what to add to it")
	}
	names := "\n\t\t\t" + added[1] + "\n\t\t\t" + added[2]
	wiki, desk := makeMellon(t, guide), makeMellon(t, guide)
	s := startEdited(t, "", func(caddyfile string) string {
		both := "\n\t\tservice_provider wiki {" + strings.Replace(block, "http://localhost:8481", wiki.URL, 1) + names + "\n\t\t}" +
			"\n\t\tservice_provider desk {\n\t\t\tname \"The desk\"\n\t\t\tmetadata " + desk.URL +
			"/mellon/metadata\n\t\t\tidp_initiated" + names + "\n\t\t}"
		return strings.Replace(caddyfile, "\n\t\tidentity {", both+"\n\t\tidentity {", 1)
	})
	wiki.serve(s, guide)
	desk.serve(s, guide)
	b := s.browse(t)

	in := func(t *testing.T) seen { // to the wiki with the password, and to the desk without
		t.Helper()
		b := b.in(t)
		b.forget()
		b.open(wiki.URL + "/deep?x=1")
		b.until(`document.querySelector('#password')`)
		if !strings.Contains(b.text("main"), "The wiki") {
			t.Errorf("the sign-in page does not say for what: %s", b.text("main"))
		}
		b.signIn(person, s.Password)
		b.until("location.href === " + quote(wiki.URL+"/deep?x=1"))
		got := b.seen()
		b.open(desk.URL + "/")
		b.until("location.href === " + quote(desk.URL+"/"))
		return got
	}
	out := func(t *testing.T, sites ...string) {
		t.Helper()
		b := b.in(t)
		for _, site := range sites {
			b.open(site + "/")
			b.until(`document.querySelector('#password')`)
			if got := b.location(); !strings.HasPrefix(got, s.Issuer) {
				t.Errorf("after the sign-out %s/ leads to %s", site, got)
			}
		}
	}
	t.Run("sign-in", func(t *testing.T) {
		got := in(t)
		if got.Method != http.MethodGet || got.URI != "/deep?x=1" || got.Email != person || got.Name != "Demo Person" || got.Groups != "staff" {
			t.Errorf("the wiki sees %+v", got)
		}
		if len(got.User) != 36 {
			t.Errorf("the wiki is told the name %q, want the id of the person", got.User)
		}
		if at := b.seen(); at.User != got.User || at.Email != "(null)" {
			t.Errorf("the desk sees %+v, want the id %s and nothing else", at, got.User)
		}
		if again := in(t); again.User != got.User {
			t.Errorf("the second time the wiki is told %q, the first time %q", again.User, got.User)
		}
	})
	// The sessions of before are still there at both: the module must find the right one.
	t.Run("sign-out at a service provider", func(t *testing.T) {
		in(t)
		b := b.in(t)
		b.open(wiki.URL + "/mellon/logout?ReturnTo=" + url.QueryEscape(wiki.URL+"/"))
		b.until(`document.querySelector('#password')`) // the site is open to no one any more
		out(t, desk.URL, wiki.URL)
	})
	t.Run("sign-out here", func(t *testing.T) {
		in(t)
		b := b.in(t)
		b.open(s.Issuer + "/sign-out")
		b.click("main form button:not([type])")
		b.until("location.href === " + quote(s.Issuer+"/sign-out") + " && !document.querySelector('main form')")
		out(t, wiki.URL, desk.URL)
	})
	t.Run("a sign-in that begins here", func(t *testing.T) {
		b := b.in(t)
		b.forget()
		b.open(s.Issuer + "/sso/start/desk")
		b.until(`document.querySelector('#password')`)
		b.signIn(person, s.Password)
		b.until("location.href.startsWith(" + quote(desk.URL) + ")")
		b.leaves(desk.URL + "/mellon/")
		b.open(desk.URL + "/")
		if at := b.seen(); len(at.User) != 36 || at.Email != "(null)" {
			t.Errorf("the desk sees %+v, want an id and nothing else", at)
		}
	})
}
