package e2e

import (
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // RFC 6455 4.2.2
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
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
