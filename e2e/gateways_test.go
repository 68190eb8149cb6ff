package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 4.2.2
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
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

// gateways are proxies that run the configurations of docs/gateways.md over https, with the name of each for that of
// the site, and with ports of this machine.
type gateways struct {
	*server
	document string // docs/gateways.md
	overGRPC string // docs/envoy.md
	ports    map[string]int
	issuer   int // port of the issuer
	anyHost  int // port that takes every host
	grpc     int // port for the checks of Envoy
	pool     *x509.CertPool
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

// askedAt returns the address that a gateway asks.
func (g *gateways) askedAt(name string) string {
	switch name {
	case "envoy", "gateway-api":
		return fmt.Sprintf("127.0.0.1:%d", g.anyHost)
	case "envoy-grpc":
		return fmt.Sprintf("127.0.0.1:%d", g.grpc)
	}
	return fmt.Sprintf("127.0.0.1:%d", g.issuer)
}

func (g *gateways) origin(name string) string { return "https://" + name + ".example.com" }

// local is a configuration of the document for this machine. at is the address of the authorization server.
func (g *gateways) local(text, name, at string, port int) string {
	return strings.NewReplacer(
		"auth.example.com:443", at, "10.0.0.2:443", at, "wiki.example.com", name+".example.com", "127.0.0.1:9001", g.Echo,
		"policy=wiki", "policy="+name, "lua.gatehouse wiki", "lua.gatehouse "+name, "listen 443 ", fmt.Sprintf("listen 127.0.0.1:%d ", port),
		"bind :443 ", fmt.Sprintf("bind 127.0.0.1:%d ", port), "/etc/nginx/wiki.pem", g.dir+"/cert.pem", "/etc/nginx/wiki.key", g.dir+"/key.pem",
		"/etc/haproxy/wiki.pem", g.dir+"/both.pem", "/etc/ssl/certs/ca-certificates.crt", g.dir+"/cert.pem",
	).Replace(text)
}

// dial connects to a name of this test. elsewhere has ports for other names, and other ports for some. at: where the
// issuer is.
func (g *gateways) dial(ctx context.Context, address, at string, elsewhere map[string]int) (net.Conn, error) {
	name, ours := strings.CutSuffix(address, ".example.com:443")
	switch port := cmp.Or(elsewhere[name], g.ports[name]); {
	case ours && name == "auth":
		address = at
	case ours && port != 0:
		address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// transport sends requests to names of this test.
func (g *gateways) transport(at string, elsewhere map[string]int) *http.Transport {
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: g.pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return g.dial(ctx, address, at, elsewhere)
		},
	}
}

// client is one that follows no redirects. Codes and cookies that it sees are secrets of the server.
func (g *gateways) client(elsewhere map[string]int) *http.Client {
	c := g.server.client()
	c.Transport = watch{g.server, g.transport(g.askedAt("nginx"), elsewhere)}
	return c
}

// asked sends a request without a session to a gateway. port: another one than that of the gateway.
func (g *gateways) asked(t *testing.T, name string, port int, target string, header map[string]string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.origin(name)+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header[k] = []string{v}
	}
	return answered(t, g.client(map[string]int{name: port}), req)
}

// answered sends a request.
func answered(t *testing.T, c *http.Client, req *http.Request) (status int, body string) {
	t.Helper()
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(raw)
}

func startGateways(t *testing.T) *gateways {
	t.Helper()
	g := &gateways{
		server: &server{
			t: t, dir: t.TempDir(), secrets: map[string]string{}, Echo: application(t), Password: random(12),
			Issuer: "https://auth.example.com",
		},
		document: read(t, "../docs/gateways.md"), overGRPC: read(t, "../docs/envoy.md"), ports: map[string]int{},
	}
	ports := freePorts(t, len(gatewayNames)+4)
	for i, name := range gatewayNames {
		g.ports[name] = ports[i]
	}
	ports = ports[len(gatewayNames):]
	g.issuer, g.anyHost, g.grpc = ports[0], ports[1], ports[2]
	g.pool = certify(t, g.dir)
	both := read(t, g.dir+"/cert.pem") + read(t, g.dir+"/key.pem")
	if err := os.WriteFile(g.dir+"/both.pem", []byte(both), 0o600); err != nil {
		t.Fatal(err)
	}
	g.write(g.caddyfile(t, ports[3]))
	g.secret("password", g.Password)
	g.run(filepath.Join(g.dir, "Caddyfile"), g.dir, "TEST_PASSWORD="+g.Password)
	g.until(t, g.client(nil), g.Issuer+"/healthz")
	for _, name := range gatewayNames {
		g.starts(t, name, g.askedAt(name), g.ports[name])
	}
	return g
}

// caddyfile is that of the guide with a gate for each gateway, a page that everyone may read, a person, and what this
// machine needs.
func (g *gateways) caddyfile(t *testing.T, plain int) string {
	t.Helper()
	text := example(t, g.document, "Gatehouse", "caddyfile")
	gate := regexp.MustCompile(`(?s)\t\tforward_auth wiki \{.*?\n\t\t\}\n`).FindString(text)
	anyHost := regexp.MustCompile(`(?s)\nhttp://:9192 \{.*?\n\}\n`).FindString(example(t, g.document, "Envoy", "caddyfile"))
	if gate == "" || anyHost == "" {
		t.Fatal("the guide has no forward_auth, or no address that takes every host")
	}
	var gates strings.Builder
	for _, name := range gatewayNames {
		gates.WriteString(strings.NewReplacer(
			"forward_auth wiki", "forward_auth "+name, "https://wiki.example.com", g.origin(name), "\t\t\tgroups staff\n",
			"\t\t\tgroups staff\n\t\t\tpublic "+open+"\n",
		).Replace(gate))
	}
	global := fmt.Sprintf("{\n\tadmin off\n\tpersist_config off\n\tskip_install_trust\n\tdefault_bind 127.0.0.1\n\tgrace_period 100ms\n\thttps_port %d\n\thttp_port %d\n\tlog {\n\t\tlevel DEBUG\n\t}\n", g.issuer, plain)
	own := fmt.Sprintf("\tgatehouse {\n\t\tstorage badger %s/data\n\t\text_authz 127.0.0.1:%d\n\t\tidentity {\n\t\t\tpassword_hash {\n\t\t\t\tmemory 8MiB\n\t\t\t\titerations 1\n\t\t\t}\n"+
		"\t\t\tperson %s {\n\t\t\t\tpassword {env.TEST_PASSWORD}\n\t\t\t\tname \"Demo Person\"\n\t\t\t\tgroups staff\n\t\t\t}\n\t\t}\n",
		g.dir, g.grpc, person)
	text = strings.Replace(text, gate, gates.String(), 1)
	text = strings.Replace(text, "{\n", global, 1)
	text = strings.Replace(text, "\tgatehouse {\n", own, 1)
	text = strings.Replace(text, "forward_auth_from 10.0.0.0/8", "forward_auth_from 127.0.0.1", 1)
	text = strings.Replace(text, "\nauth.example.com {\n", fmt.Sprintf("\nauth.example.com {\n\ttls %[1]s/cert.pem %[1]s/key.pem\n", g.dir), 1)
	return text + strings.Replace(anyHost, "9192", fmt.Sprint(g.anyHost), 1) // as the guide of Envoy says
}

// application is an upstream that says how much it has received, and that sends back what comes in a WebSocket.
func application(t *testing.T) string {
	t.Helper()
	next := http.HandlerFunc(echoes)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			n, err := io.Copy(io.Discard, r.Body)
			w.Header().Set("Received", fmt.Sprint(n, " ", err))
			next.ServeHTTP(w, r)
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		accept := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 4.2.2
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\nSeen-User: %s\r\n\r\n",
			base64.StdEncoding.EncodeToString(accept[:]), r.Header.Get("Remote-User"))
		io.Copy(conn, buffered) //nolint:errcheck // until the client goes
	}))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// caddy finds the names of this test by a proxy.
func (g *gateways) caddy(t *testing.T, at string, port int) {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			t.Errorf("Caddy sends %s %s without TLS", r.Method, r.URL)
			return
		}
		to, err := g.dial(r.Context(), r.Host, at, nil)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer to.Close()
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer from.Close()
		io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n") //nolint:errcheck // the next line fails too
		go io.Copy(to, from)                            //nolint:errcheck // until one side goes
		io.Copy(from, to)                               //nolint:errcheck // the same
	}))
	t.Cleanup(proxy.Close)
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := fmt.Sprintf("{\n\tadmin off\n\tauto_https disable_redirects\n\thttps_port %d\n\tpersist_config off\n\tgrace_period 100ms\n\tdefault_bind 127.0.0.1\n}\n", port) +
		g.local(example(t, g.document, "Another Caddy", "caddyfile"), "caddy", at, port)
	config = strings.Replace(config, "caddy.example.com {\n",
		fmt.Sprintf("caddy.example.com {\n\ttls %[1]s/cert.pem %[1]s/key.pem\n", g.dir), 1)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	runProxyWith(t, port, "", []string{"HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + g.dir + "/cert.pem"}, binary, "run", "--config",
		file, "--adapter", "caddyfile")
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
	config := strings.ReplaceAll(g.local(example(t, g.document, "HAProxy", "haproxy"), "haproxy", at, port),
		"/etc/haproxy/gatehouse.lua", script)
	for name, content := range map[string]string{
		script: g.local(example(t, g.document, "HAProxy", "lua"), "haproxy", at, port),
		file:   config,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runProxy(t, port, "", "haproxy", "-db", "-f", file)
}

// runProxy starts a proxy and waits until it takes connections.
func runProxy(t *testing.T, port int, log, name string, args ...string) {
	t.Helper()
	runProxyWith(t, port, log, nil, name, args...)
}

// runProxyWith is runProxy with environment variables.
func runProxyWith(t *testing.T, port int, log string, env []string, name string, args ...string) {
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
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &out, environ(t.TempDir(), env...)
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
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			conn.Close()
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

// open is a path that everyone may read.
const open = "/healthz"

// TestGateways follows docs/gateways.md and docs/envoy.md with real proxies and stand-ins of others, over https as
// there: a browser signs in through each and out again, sends forms, large uploads and WebSockets, a client that makes
// up an identity is refused, and no one gets in where nothing can be asked.
func TestGateways(t *testing.T) {
	t.Parallel()
	g := startGateways(t)
	var rules []string
	for name, port := range g.ports {
		rules = append(rules, fmt.Sprintf("MAP %s.example.com:443 127.0.0.1:%d", name, port))
	}
	rules = append(rules, fmt.Sprintf("MAP auth.example.com:443 127.0.0.1:%d", g.issuer))
	chromium := g.browseWith(t, chromedp.Flag("host-resolver-rules", strings.Join(rules, ",")),
		chromedp.Flag("ignore-certificate-errors", true))
	t.Run("while all is well", func(t *testing.T) {
		for _, name := range gatewayNames {
			t.Run(name+" signs in and out", func(t *testing.T) {
				t.Parallel()
				g.signsInAndOut(&tab{t, g.server, chromium.ctx}, g.origin(name))
			})
			t.Run(name+" passes forms, uploads and WebSockets", func(t *testing.T) {
				t.Parallel()
				g.passes(t, name)
			})
			t.Run("peer 1,3: nobody who makes up an identity or an address is believed by "+name, func(t *testing.T) {
				t.Parallel()
				g.believesNobody(t, name)
			})
		}
		t.Run("attack 378: no server to ask", func(t *testing.T) {
			t.Parallel()
			dead := fmt.Sprintf("127.0.0.1:%d", freePorts(t, 1)[0])
			g.refusesAt(t, dead, gatewayNames...)
		})
		t.Run("attack 378: another server answers 200", func(t *testing.T) {
			t.Parallel()
			g.refusesAt(t, g.impostor(t, g.dir+"/cert.pem", g.dir+"/key.pem"), "nginx", "haproxy") // other proxies cannot demand the decision
		})
		t.Run("attack 378: a server with the certificate of another authority allows all", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			certify(t, dir)
			g.refusesAt(t, g.impostor(t, dir+"/cert.pem", dir+"/key.pem", "Gatehouse-Decision", "allow", "Remote-User", "root"),
				"nginx", "haproxy", "caddy")
		})
	})
	t.Run("attack 378: the store fails", g.storeFails)
}

// impostor answers 200 to every question, with a certificate and some headers.
func (g *gateways) impostor(t *testing.T, certificate, key string, header ...string) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

// refusesAt: gateways that ask at an address let no one in.
func (g *gateways) refusesAt(t *testing.T, at string, names ...string) {
	for i, port := range freePorts(t, len(names)) {
		g.starts(t, names[i], at, port)
		if status, body := g.asked(t, names[i], port, "/page", map[string]string{"Accept": "text/html"}); status < 500 {
			t.Errorf("%s asks at %s: GET /page status = %d, want 5xx: %s", names[i], at, status, body)
		}
	}
}

func (g *gateways) signsInAndOut(chromium *tab, origin string) {
	b := chromium.tab(chromedp.WithNewBrowserContext())
	t := b.t
	target := origin + "/deep/page?x=1&y=%2Fa%20b#/deep/link"
	b.open(target)
	if got := b.location(); !strings.HasPrefix(got, g.Issuer+"/") {
		t.Fatalf("a browser without a session landed at %s", got)
	}
	b.signIn(person, g.Password)
	b.until("location.href === " + quote(target))
	uri, _, _ := strings.Cut(strings.TrimPrefix(target, origin), "#")
	checkSeen(t, b.seen(), uri)
	b.open(origin + "/.gatehouse/logout")
	if b.has("main form button:not([type])") {
		b.click("main form button:not([type])")
	}
	b.open(target)
	if got := b.location(); !strings.HasPrefix(got, g.Issuer+"/") {
		t.Errorf("after the sign-out the page is still open at %s", got)
	}
}

// passes: a form, an upload of known and of unknown length and a WebSocket arrive with a session, and none of them does
// without. A WebSocket stays open after the sign-out, as the guide says.
func (g *gateways) passes(t *testing.T, name string) {
	v := g.enter(t, g.origin(name))
	const large = 8 << 20
	send := func(c *http.Client, body io.Reader) (*http.Response, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.origin(name)+"/form?x=1", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", g.origin(name))
		resp, err := c.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return resp, string(raw), err
	}
	refused := http.StatusUnauthorized
	if name == "ingress-nginx" {
		refused = http.StatusFound // auth-signin is for all requests
	}
	for what, body := range map[string]func() (io.Reader, int){
		"a form":                       func() (io.Reader, int) { return strings.NewReader("title=a&text=b"), 14 },
		"an upload of 8 MB":            func() (io.Reader, int) { return bytes.NewReader(make([]byte, large)), large },
		"an upload of unknown length":  func() (io.Reader, int) { return io.MultiReader(bytes.NewReader(make([]byte, large))), large },
		"a form without anything said": func() (io.Reader, int) { return http.NoBody, 0 },
	} {
		r, n := body()
		want := seen{Method: http.MethodPost, URI: "/form?x=1", User: person, Name: "Demo Person", Email: person, Groups: "staff"}
		var got seen
		resp, raw, err := send(v.client, r)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := json.Unmarshal([]byte(raw), &got); err != nil || resp.StatusCode != http.StatusOK || got != want ||
			resp.Header.Get("Received") != fmt.Sprint(n, " <nil>") {
			t.Errorf("%s: status = %d, upstream saw %+v and %q, want 200, %+v and %d: %.300s", what, resp.StatusCode, got,
				resp.Header.Get("Received"), want, n, raw)
		}
		r, _ = body()
		// An upload can be cut off before its refusal is read.
		if resp, raw, err := send(g.client(nil), r); err == nil && (resp.StatusCode != refused || resp.Header.Get("Received") != "") ||
			err != nil && n < large {
			t.Errorf("%s without a session: %+v, %v, want %d: %.300s", what, resp, err, refused, raw)
		}
	}
	if _, status, _ := g.socket(t, name, nil); !strings.HasPrefix(status, fmt.Sprintf("HTTP/1.1 %d ", refused)) {
		t.Errorf("a WebSocket without a session: %q, want %d", status, refused)
	}
	conn, status, header := g.socket(t, name, v.client.Jar.Cookies(&url.URL{Scheme: "https", Host: name + ".example.com", Path: "/"}))
	if !strings.HasPrefix(status, "HTTP/1.1 101 ") || header.Get("Seen-User") != person {
		t.Fatalf("a WebSocket = %q %v, want 101 for %s", status, header, person)
	}
	echoed := func(when string) {
		said := when + random(8)
		if _, err := io.WriteString(conn, said); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		got := make([]byte, len(said))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != said {
			t.Errorf("%s: the WebSocket says %q, %v, want %q", when, got, err, said)
		}
	}
	echoed("while signed in")
	v.signOut(g.origin(name))
	if status, body := answered(t, v.client, v.page(g.origin(name)+"/page")); status == http.StatusOK {
		t.Errorf("after the sign-out a page is %d %s", status, body)
	}
	echoed("after the sign-out")
}

// signOut leaves by the path of the site, and confirms where a page asks.
func (v *visitor) signOut(origin string) {
	v.t.Helper()
	resp := v.navigate(origin + "/.gatehouse/logout")
	for range 10 {
		if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
			resp = v.navigate(to.String())
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			v.t.Fatal(err)
		}
		m := formTag.FindStringSubmatch(string(raw))
		if m == nil || !strings.HasPrefix(resp.Request.URL.String(), v.issuer) || strings.Contains(m[2], "password") {
			return
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(m[1]))
		if err != nil {
			v.t.Fatal(err)
		}
		form := hiddenFields(m[2])
		resp = v.post(to.String(), form)
		v.t.Cleanup(func() { resp.Body.Close() })
	}
	v.t.Fatalf("no way out of %s", origin)
}

// socket asks a gateway for a WebSocket with cookies, and returns the connection after the answer's head.
func (g *gateways) socket(t *testing.T, name string, cookies []*http.Cookie) (conn io.ReadWriter, status string,
	header textproto.MIMEHeader,
) {
	t.Helper()
	host := name + ".example.com"
	raw, err := g.dial(t.Context(), host+":443", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	c := tls.Client(raw, &tls.Config{RootCAs: g.pool, ServerName: host, MinVersion: tls.VersionTLS12})
	if err := c.SetDeadline(time.Now().Add(step)); err != nil {
		t.Fatal(err)
	}
	req := fmt.Sprintf("GET /socket HTTP/1.1\r\nHost: %[1]s\r\nOrigin: https://%[1]s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-Fetch-Mode: websocket\r\n", host)
	for _, k := range cookies {
		req += "Cookie: " + k.Name + "=" + k.Value + "\r\n"
	}
	if _, err := io.WriteString(c, req+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r := textproto.NewReader(bufio.NewReader(c))
	if status, err = r.ReadLine(); err == nil {
		header, err = r.ReadMIMEHeader()
	}
	if err != nil {
		t.Fatalf("%s for a WebSocket: %q, %v", name, status, err)
	}
	return struct {
		io.Reader
		io.Writer
	}{r.R, c}, status, header
}

// believesNobody: neither an identity nor an address that a client makes up opens a page, and where everyone may read,
// an identity does not arrive.
func (g *gateways) believesNobody(t *testing.T, name string) {
	for spoof, value := range map[string]string{
		"Remote-User": "root", "remote-user": "root", "Remote_User": "root", "Remote.User": "root",
		"X-Original-URL": g.origin(name) + open, "X-Original-Uri": open,
		"X-Forwarded-Uri": open, "X-Forwarded-Method": "OPTIONS", "X-Forwarded-Host": "evil.test", "X_Forwarded_Uri": open,
		"X-Forwarded-Prefix": open,
	} {
		if status, body := g.asked(t, name, 0, "/page", map[string]string{spoof: value}); status < 300 {
			t.Errorf("%s: %s gets in: %d %s", spoof, value, status, body)
		}
		if status, body := g.asked(t, name, 0, open, map[string]string{spoof: value}); status < 300 && strings.Contains(body, "root") {
			t.Errorf("%s: %s arrives: %d %s", spoof, value, status, body)
		}
	}
	if status, body := g.asked(t, name, 0, open, nil); status != http.StatusOK || !strings.Contains(body, `"URI":"`+open+`"`) {
		t.Errorf("a public page = %d %s", status, body)
	}
}

// enter signs a person in through a gateway by plain requests.
func (g *gateways) enter(t *testing.T, origin string) *visitor {
	t.Helper()
	v := g.visit(t, person, g.Password)
	v.client.Transport = g.client(nil).Transport
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
		form := hiddenFields(m[2])
		form.Set("username", v.username)
		form.Set("password", v.password)
		resp = v.post(to.String(), form)
	}
	t.Fatalf("no way in through %s", origin)
	return nil
}

// navigate opens a page as a browser does.
func (v *visitor) navigate(address string) *http.Response {
	v.t.Helper()
	resp := v.do(v.page(address))
	v.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// page is the request of a browser for a page.
func (v *visitor) page(address string) *http.Request {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Accept", "text/html")
	return req
}

// storeFails: the directory of the store is emptied while persons are signed in. Gatehouse cannot tell any more who may
// pass, so no one does.
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
	health, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Issuer+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := answered(t, g.client(nil), health); status != http.StatusServiceUnavailable {
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
