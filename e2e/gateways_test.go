package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// example returns a block of code of a document, below a heading.
func example(t *testing.T, document, heading, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(document, "\n## "+heading+"\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	_, code, there := strings.Cut(section, "\n```"+language+"\n")
	code, _, closed := strings.Cut(code, "\n```\n")
	if !found || !there || !closed {
		t.Fatalf("no %s below %s", language, heading)
	}
	return code + "\n"
}

// gateways are proxies that run the configurations of docs/gateways.md, with addresses of this machine.
type gateways struct {
	*server
	document string
	ports    map[string]int
}

var gatewayNames = []string{"nginx", "haproxy", "caddy"}

func (g *gateways) origin(name string) string {
	return fmt.Sprintf("http://localhost:%d", g.ports[name])
}

// local is a configuration of the document for this machine. at is the address of the authorization server.
func (g *gateways) local(text, name, at string, port int) string {
	return strings.NewReplacer(
		"https://auth.example.com", "http://"+at, "10.0.0.2:80", at, "auth.example.com", strings.TrimPrefix(g.Issuer, "http://"), "https://wiki.example.com", g.origin(name),
		"wiki.example.com {", g.origin(name)+" {", "127.0.0.1:9001", g.Echo, "policy=wiki", "policy="+name, "lua.gatehouse wiki", "lua.gatehouse "+name,
		"listen 443 ssl", fmt.Sprintf("listen 127.0.0.1:%d", port), "server_name wiki.example.com", "server_name localhost",
		"bind :443 ssl crt /etc/haproxy/wiki.pem", fmt.Sprintf("bind 127.0.0.1:%d", port),
	).Replace(text)
}

// issuerAt is the address of the authorization server.
func (g *gateways) issuerAt() string {
	return strings.Replace(g.Issuer, "http://localhost", "127.0.0.1", 1)
}

func startGateways(t *testing.T) *gateways {
	t.Helper()
	raw, err := os.ReadFile("../docs/gateways.md")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateways{document: string(raw), ports: map[string]int{}}
	for i, port := range freePorts(t, len(gatewayNames)) {
		g.ports[gatewayNames[i]] = port
	}
	gate := regexp.MustCompile(`(?s)\t\tforward_auth wiki \{.*?\n\t\t\}\n`).FindString(example(t, g.document, "Gatehouse", "caddyfile"))
	if gate == "" {
		t.Fatal("the guide has no forward_auth")
	}
	g.server = &server{}
	g.server = startEdited(t, "", func(text string) string {
		var gates strings.Builder
		for _, name := range gatewayNames {
			gates.WriteString(strings.NewReplacer("forward_auth wiki", "forward_auth "+name, "https://wiki.example.com", g.origin(name)).Replace(gate))
		}
		g.Issuer = regexp.MustCompile(`issuer (\S+)`).FindStringSubmatch(text)[1]
		g.Echo = regexp.MustCompile(`reverse_proxy (\S+)`).FindStringSubmatch(text)[1]
		text = strings.Replace(text, "\t\tidentity {", gates.String()+"\t\tforward_auth_from 127.0.0.1\n\t\tidentity {", 1)
		return text
	})
	g.caddy(t, g.issuerAt(), g.ports["caddy"])
	g.nginx(t, g.issuerAt(), g.ports["nginx"])
	g.haproxy(t, g.issuerAt(), g.ports["haproxy"])
	return g
}

func (g *gateways) caddy(t *testing.T, at string, port int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := "{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tdefault_bind 127.0.0.1\n}\n" + g.local(example(t, g.document, "Another Caddy", "caddyfile"), "caddy", at, port)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	runProxy(t, port, "", binary, "run", "--config", file, "--adapter", "caddyfile")
}

func (g *gateways) nginx(t *testing.T, at string, port int) {
	t.Helper()
	dir := t.TempDir()
	var temp strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	config := fmt.Sprintf("daemon off;\nmaster_process off;\npid %[1]s/pid;\nerror_log %[1]s/error.log;\nevents {}\nhttp {\naccess_log off;\n%[2]s%[3]s}\n",
		dir, temp.String(), g.local(example(t, g.document, "nginx", "nginx"), "nginx", at, port))
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	runProxy(t, port, filepath.Join(dir, "error.log"), "nginx", "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", file)
}

func (g *gateways) haproxy(t *testing.T, at string, port int) {
	t.Helper()
	dir := t.TempDir()
	script, file := filepath.Join(dir, "gatehouse.lua"), filepath.Join(dir, "haproxy.cfg")
	config := strings.ReplaceAll(g.local(example(t, g.document, "HAProxy", "haproxy"), "haproxy", at, port), "/etc/haproxy/gatehouse.lua", script)
	for name, content := range map[string]string{script: g.local(example(t, g.document, "HAProxy", "lua"), "haproxy", at, port), file: config} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runProxy(t, port, "", "haproxy", "-db", "-f", file)
}

// runProxy starts a proxy and waits until it takes connections.
func runProxy(t *testing.T, port int, log, name string, args ...string) {
	t.Helper()
	program, err := exec.LookPath(name)
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	var out strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, environ(t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { cmd.Wait(); close(gone) }() //nolint:errcheck // it is stopped by a signal
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it may have ended
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill() //nolint:errcheck // it may have ended
			<-gone
		}
		if t.Failed() {
			raw, _ := os.ReadFile(log) //nolint:errcheck // as far as it exists
			t.Logf("%s: %s%s", name, out.String(), raw)
		}
	})
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port)); err == nil { //nolint:noctx // a local port
			resp.Body.Close()
			return
		}
		select {
		case <-gone:
			raw, _ := os.ReadFile(log) //nolint:errcheck // for the message
			t.Fatalf("%s ended: %s%s", name, out.String(), raw)
		case <-deadline:
			t.Fatalf("%s takes no connections: %s", name, out.String())
		case <-tick.C:
		}
	}
}

// TestGateways follows docs/gateways.md with real proxies: a browser signs in through each and out again, a client that
// makes up an identity is refused, and nobody gets in where nothing can be asked.
func TestGateways(t *testing.T) {
	t.Parallel()
	g := startGateways(t)
	for _, name := range gatewayNames {
		origin := g.origin(name)
		t.Run(name+" signs in and out", func(t *testing.T) {
			t.Parallel()
			b := g.browse(t)
			target := origin + "/deep/page?x=1&y=%2Fa%20b"
			b.open(target)
			if got := b.location(); !strings.HasPrefix(got, g.Issuer+"/") {
				t.Fatalf("a browser without a session landed at %s", got)
			}
			b.signIn(person, g.Password)
			if got := b.location(); got != target {
				t.Fatalf("landed at %s, want %s", got, target)
			}
			checkSeen(t, b.seen(), strings.TrimPrefix(target, origin))
			b.open(origin + "/.gatehouse/logout")
			if b.has("main form button:not([type])") {
				b.click("main form button:not([type])")
			}
			b.open(target)
			if got := b.location(); !strings.HasPrefix(got, g.Issuer+"/") {
				t.Errorf("after the sign-out the page is still open at %s", got)
			}
		})
		t.Run(name+" believes nobody who makes up an identity", func(t *testing.T) {
			t.Parallel()
			for _, spoof := range []string{
				"Remote-User", "remote-user", "Remote_User", "Remote.User", "X-Original-URL", "X-Original-Uri", "X-Forwarded-Uri", "X-Forwarded-Method", "X-Forwarded-Host", "X_Forwarded_Uri",
			} {
				value := map[bool]string{true: "root", false: "/.gatehouse/x"}[strings.HasPrefix(strings.ToLower(spoof), "remote")]
				if status, body := ask(t, origin, "", http.MethodGet, "/page", map[string]string{spoof: value}); status < 300 {
					t.Errorf("%s: %s gets in: %d %s", spoof, value, status, body)
				}
			}
		})
	}
	t.Run("no server to ask", func(t *testing.T) {
		t.Parallel()
		for i, port := range freePorts(t, 2) {
			dead := freePorts(t, 1)[0]
			[]func(*testing.T, string, int){g.nginx, g.haproxy}[i](t, fmt.Sprintf("127.0.0.1:%d", dead), port)
			if status, body := ask(t, fmt.Sprintf("http://127.0.0.1:%d", port), "", http.MethodGet, "/page", map[string]string{"Accept": "text/html"}); status < 500 {
				t.Errorf("%s: status = %d, %s", gatewayNames[i], status, body)
			}
		}
	})
	t.Run("another server answers 200", func(t *testing.T) {
		t.Parallel()
		for i, port := range freePorts(t, 2) {
			[]func(*testing.T, string, int){g.nginx, g.haproxy}[i](t, g.Echo, port)
			if status, body := ask(t, fmt.Sprintf("http://127.0.0.1:%d", port), "", http.MethodGet, "/page", map[string]string{"Accept": "text/html"}); status < 500 {
				t.Errorf("%s takes an answer without the decision for consent: %d, %s", gatewayNames[i], status, body)
			}
		}
	})
}
