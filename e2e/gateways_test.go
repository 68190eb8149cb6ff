package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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

func (g *gateways) origin(name string) string { return "https://" + name + ".example.com" }

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
