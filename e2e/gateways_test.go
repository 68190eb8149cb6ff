package e2e

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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
	document string // docs/gateways.md
	overGRPC string // docs/envoy.md
	ports    map[string]int
	anyHost  int // port that takes every host
	grpc     int // port for the checks of Envoy
}

var gatewayNames = []string{"nginx", "haproxy", "caddy", "traefik", "envoy", "envoy-grpc", "gateway-api", "ingress-nginx"}

// starts runs a gateway that asks at an address.
func (g *gateways) starts(t *testing.T, name, at string, port int) {
	t.Helper()
	start := map[string]func(*testing.T, string, int){
		"nginx": g.nginx, "haproxy": g.haproxy, "caddy": g.caddy, "traefik": g.traefik, "envoy": g.envoy, "envoy-grpc": g.envoyGRPC,
		"gateway-api": g.gatewayAPI, "ingress-nginx": g.ingress,
	}[name]
	start(t, at, port)
}

// askedAt is where a gateway asks.
func (g *gateways) askedAt(name string) string {
	switch name {
	case "envoy", "gateway-api":
		return fmt.Sprintf("127.0.0.1:%d", g.anyHost)
	case "envoy-grpc":
		return fmt.Sprintf("127.0.0.1:%d", g.grpc)
	case "traefik":
		return strings.TrimPrefix(g.Issuer, "http://")
	}
	return g.issuerAt()
}

func (g *gateways) origin(name string) string {
	return fmt.Sprintf("http://localhost:%d", g.ports[name])
}

// local is a configuration of the document for this machine. at is the address of the authorization server.
func (g *gateways) local(text, name, at string, port int) string {
	return strings.NewReplacer(
		"https://auth.example.com", "http://"+at, "10.0.0.2:80", at, "auth.example.com", strings.TrimPrefix(g.Issuer, "http://"), "https://wiki.example.com", g.origin(name),
		"wiki.example.com {", fmt.Sprintf("http://localhost:%d {", port), "127.0.0.1:9001", g.Echo, "policy=wiki", "policy="+name, "lua.gatehouse wiki", "lua.gatehouse "+name,
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
	overGRPC, err := os.ReadFile("../docs/envoy.md")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateways{document: string(raw), overGRPC: string(overGRPC), ports: map[string]int{}}
	ports := freePorts(t, len(gatewayNames)+2)
	for i, name := range gatewayNames {
		g.ports[name] = ports[i]
	}
	g.anyHost, g.grpc = ports[len(gatewayNames)], ports[len(gatewayNames)+1]
	gate := regexp.MustCompile(`(?s)\t\tforward_auth wiki \{.*?\n\t\t\}\n`).FindString(example(t, g.document, "Gatehouse", "caddyfile"))
	if gate == "" {
		t.Fatal("the guide has no forward_auth")
	}
	g.server = &server{}
	g.server = startEdited(t, "", func(text string) string {
		var gates strings.Builder
		for _, name := range gatewayNames {
			gates.WriteString(strings.NewReplacer(
				"forward_auth wiki", "forward_auth "+name, "https://wiki.example.com", g.origin(name), "\t\t\tgroups staff\n", "\t\t\tgroups staff\n\t\t\tpublic "+open+"\n",
			).Replace(gate))
		}
		g.Issuer = regexp.MustCompile(`issuer (\S+)`).FindStringSubmatch(text)[1]
		g.Echo = regexp.MustCompile(`reverse_proxy (\S+)`).FindStringSubmatch(text)[1]
		text = strings.Replace(text, "\t\tidentity {", gates.String()+fmt.Sprintf("\t\tforward_auth_from 127.0.0.1\n\t\text_authz 127.0.0.1:%d\n\t\tidentity {", g.grpc), 1)
		return text + fmt.Sprintf("http://:%d {\n\tgatehouse\n}\n", g.anyHost) // as the guide of Envoy says
	})
	for _, name := range gatewayNames {
		g.starts(t, name, g.askedAt(name), g.ports[name])
	}
	return g
}

func (g *gateways) caddy(t *testing.T, at string, port int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := "{\n\tadmin off\n\tauto_https off\n\tpersist_config off\n\tgrace_period 100ms\n\tdefault_bind 127.0.0.1\n}\n" + g.local(example(t, g.document, "Another Caddy", "caddyfile"), "caddy", at, port)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	runProxy(t, port, "", binary, "run", "--config", file, "--adapter", "caddyfile")
}

func (g *gateways) nginx(t *testing.T, at string, port int) {
	t.Helper()
	runNginx(t, port, "", g.local(example(t, g.document, "nginx", "nginx"), "nginx", at, port))
}

// runNginx runs nginx with what its configuration has in http.
func runNginx(t *testing.T, port int, modules, sites string) {
	t.Helper()
	dir := t.TempDir()
	var temp strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&temp, "%s_temp_path %s/%s;\n", kind, dir, kind)
	}
	config := fmt.Sprintf("%[4]sdaemon off;\nmaster_process off;\npid %[1]s/pid;\nerror_log %[1]s/error.log;\nevents {}\nhttp {\naccess_log off;\n%[2]s%[3]s}\n",
		dir, temp.String(), sites, modules)
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

// open is a path that everybody may read.
const open = "/healthz"

// TestGateways follows docs/gateways.md and docs/envoy.md with real proxies and stand-ins of others: a browser signs in
// through each and out again, a client that makes up an identity is refused, and nobody gets in where nothing can be
// asked.
func TestGateways(t *testing.T) {
	t.Parallel()
	g := startGateways(t)
	t.Run("while all is well", func(t *testing.T) {
		for _, name := range gatewayNames {
			t.Run(name+" signs in and out", func(t *testing.T) {
				t.Parallel()
				g.signsInAndOut(t, g.origin(name))
			})
			t.Run("peer 1,3: nobody who makes up an identity or an address is believed by "+name, func(t *testing.T) {
				t.Parallel()
				believesNobody(t, g.origin(name))
			})
		}
		t.Run("attack 378: no server to ask", func(t *testing.T) {
			t.Parallel()
			dead := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
			for i, port := range freePorts(t, len(gatewayNames)) {
				g.starts(t, gatewayNames[i], dead, port)
				if status, body := ask(t, fmt.Sprintf("http://localhost:%d", port), "", http.MethodGet, "/page", map[string]string{"Accept": "text/html"}); status < 500 {
					t.Errorf("%s: status = %d, %s", gatewayNames[i], status, body)
				}
			}
		})
		t.Run("attack 378: another server answers 200", func(t *testing.T) {
			t.Parallel()
			for i, port := range freePorts(t, 2) { // other proxies cannot demand the decision
				g.starts(t, gatewayNames[i], g.Echo, port)
				if status, body := ask(t, fmt.Sprintf("http://127.0.0.1:%d", port), "", http.MethodGet, "/page", map[string]string{"Accept": "text/html"}); status < 500 {
					t.Errorf("%s takes an answer without the decision for consent: %d, %s", gatewayNames[i], status, body)
				}
			}
		})
	})
	t.Run("attack 378: the store fails", g.storeFails)
}

func (g *gateways) signsInAndOut(t *testing.T, origin string) {
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
}

// believesNobody: neither an identity nor an address that a client makes up opens a page, and where everybody may read,
// an identity does not arrive.
func believesNobody(t *testing.T, origin string) {
	for spoof, value := range map[string]string{
		"Remote-User": "root", "remote-user": "root", "Remote_User": "root", "Remote.User": "root", "X-Original-URL": origin + open, "X-Original-Uri": open,
		"X-Forwarded-Uri": open, "X-Forwarded-Method": "OPTIONS", "X-Forwarded-Host": "evil.test", "X_Forwarded_Uri": open, "X-Forwarded-Prefix": open,
	} {
		if status, body := ask(t, origin, "", http.MethodGet, "/page", map[string]string{spoof: value}); status < 300 {
			t.Errorf("%s: %s gets in: %d %s", spoof, value, status, body)
		}
		if status, body := ask(t, origin, "", http.MethodGet, open, map[string]string{spoof: value}); status < 300 && strings.Contains(body, "root") {
			t.Errorf("%s: %s arrives: %d %s", spoof, value, status, body)
		}
	}
	if status, body := ask(t, origin, "", http.MethodGet, open, nil); status != http.StatusOK || !strings.Contains(body, `"URI":"`+open+`"`) {
		t.Errorf("a public page = %d %s", status, body)
	}
}

// enter signs a person in through a gateway by plain requests.
func (g *gateways) enter(t *testing.T, origin string) *visitor {
	t.Helper()
	v := g.visit(t, person, g.Password)
	resp := v.navigate(origin + "/page")
	for range 15 {
		if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
			resp = v.navigate(to.String())
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		m := formTag.FindStringSubmatch(string(raw))
		if m == nil {
			if resp.StatusCode != http.StatusOK || !strings.Contains(string(raw), person) {
				t.Fatalf("signed in through %s: %s %s", origin, resp.Status, raw)
			}
			return v
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		form := url.Values{"username": {v.username}, "password": {v.password}}
		for _, h := range hiddenTag.FindAllStringSubmatch(m[2], -1) {
			form.Add(html.UnescapeString(h[1]), html.UnescapeString(h[2]))
		}
		resp = v.post(to.String(), form)
	}
	t.Fatalf("no way in through %s", origin)
	return nil
}

// navigate opens a page as a browser does.
func (v *visitor) navigate(address string) *http.Response {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Accept", "text/html")
	resp := v.do(req)
	v.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// storeFails: the directory of the store is emptied while persons are signed in. Gatehouse cannot tell any more who may
// pass, so nobody does.
func (g *gateways) storeFails(t *testing.T) {
	inside := map[string]*visitor{}
	for _, name := range gatewayNames {
		inside[name] = g.enter(t, g.origin(name))
	}
	data := filepath.Join(g.dir, "data")
	entries, err := os.ReadDir(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(data, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	// The health check looks at the directory.
	if status, body := ask(t, g.Issuer, "", http.MethodGet, "/healthz", nil); status != http.StatusServiceUnavailable {
		t.Fatalf("/healthz without a store = %d %s", status, body)
	}
	for _, name := range gatewayNames {
		want := http.StatusServiceUnavailable
		if name == "ingress-nginx" {
			want = http.StatusInternalServerError // of nginx, whatever the error is
		}
		resp := inside[name].navigate(g.origin(name) + "/page")
		if raw, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != want || strings.Contains(string(raw), person) {
			t.Errorf("%s while the store fails: %s %s, %v, want %d", name, resp.Status, raw, err, want)
		}
	}
	page := httptest.NewRequest(http.MethodGet, g.origin("envoy-grpc")+"/page", nil)
	for _, c := range inside["envoy-grpc"].client.Jar.Cookies(page.URL) {
		page.AddCookie(c)
	}
	page.RequestURI = "/page"
	if _, err := g.check(t, g.askedAt("envoy-grpc"), page); status.Code(err) != codes.Unavailable {
		t.Errorf("a check while the store fails: %v, want UNAVAILABLE", err)
	}
}
