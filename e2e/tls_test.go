package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTLS is a server with https as Caddy serves it: old versions and weak ciphers are refused, and requests without
// https are redirected to the configured host, whatever they claim. The redirect is the one in
// docs/decisions/operation.md#without-https.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := &server{Callback: "http://127.0.0.1:1/callback", Echo: echo(t)}
	s.Password, s.Key = random(12), ""
	s.t, s.dir, s.secrets = t, t.TempDir(), map[string]string{}
	ports := freePorts(t, 3)
	pool := certify(t, s.dir)
	plain := fmt.Sprintf("127.0.0.1:%d", ports[1])
	s.Issuer = fmt.Sprintf("https://localhost:%d", ports[0])
	s.write(fmt.Sprintf(`{
	admin localhost:%d
	persist_config off
	skip_install_trust
	default_bind 127.0.0.1
	grace_period 100ms
	auto_https disable_redirects
	https_port %d
	http_port %d
	gatehouse {
		issuer %s
		storage badger %s/data
		identity {
			person %s {
				password {env.TEST_PASSWORD}
			}
		}
	}
}

%s {
	tls %s/cert.pem %s/key.pem
	gatehouse
}

http://localhost:%d {
	redir %s{uri} permanent
}
`, ports[2], ports[0], ports[1], s.Issuer, s.dir, person, s.Issuer, s.dir, s.dir, ports[1], s.Issuer))
	s.secret("password", s.Password)
	s.run(filepath.Join(s.dir, "Caddyfile"), s.dir, "TEST_PASSWORD="+s.Password)
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	s.until(t, client, s.Issuer+"/healthz")

	dial := func(c *tls.Config) error {
		t.Helper()
		c.RootCAs, c.ServerName = pool, "localhost"
		d := tls.Dialer{Config: c}
		conn, err := d.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0]))
		if err == nil {
			_ = conn.Close() // opening it was the test
		}
		return err
	}
	for name, c := range map[string]struct {
		config *tls.Config
		ok     bool
	}{
		"TLS 1.3": {&tls.Config{MinVersion: tls.VersionTLS13}, true},
		"TLS 1.2": {&tls.Config{MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}, true},
		"TLS 1.1": { //nolint:gosec // refused
			&tls.Config{MinVersion: tls.VersionTLS11, MaxVersion: tls.VersionTLS11},
			false,
		},
		"TLS 1.0": { //nolint:gosec // refused
			&tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
			false,
		},
		"RC4": { //nolint:gosec // refused
			&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_RC4_128_SHA}},
			false,
		},
		"CBC": { //nolint:gosec // refused
			&tls.Config{
				MaxVersion:   tls.VersionTLS12,
				CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA},
			},
			false,
		},
		"static": {&tls.Config{ //nolint:gosec // refused
			MaxVersion:   tls.VersionTLS12,
			CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA},
		}, false},
	} {
		t.Run("attack 289: "+name, func(t *testing.T) {
			if err := dial(c.config); (err == nil) != c.ok {
				t.Errorf("%v, taken %t", err, c.ok)
			}
		})
	}
	for name, c := range map[string]struct {
		host, target, want string
	}{
		"our host":                {fmt.Sprintf("localhost:%d", ports[1]), "/account?x=1", s.Issuer + "/account?x=1"},
		"another host":            {"evil.example", "/account", ""},
		"another port":            {"localhost:1", "/account", ""},
		"an absolute target":      {"localhost", "http://evil.example/account", ""},
		"a host with user":        {"localhost@evil.example", "/account", ""},
		"an address for a host":   {"127.0.0.1", "/account", ""},
		"two slashes in the path": {"localhost", "//evil.example/", ""},
	} {
		status, location := rawGet(t, plain, c.host, c.target)
		if strings.Contains(location, "evil.example") && !strings.HasPrefix(location, s.Issuer+"/") {
			t.Errorf("%s without https: sent to %q", name, location)
		}
		if c.want != "" && location != c.want || status == http.StatusOK && location != "" {
			t.Errorf("%s without https: %d to %q, want %q", name, status, location, c.want)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.Issuer+"/sign-in", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	req.Header.Set("X-Forwarded-Host", "evil.example")
	if resp, err := client.Do(req); err == nil { // Caddy itself answers a host that it does not serve
		raw, _ := io.ReadAll(resp.Body) // for the check of its content
		resp.Body.Close()
		if strings.Contains(resp.Header.Get("Location")+string(raw), "evil.example") {
			t.Errorf("attack 289: another host with https: %d to %q", resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	resp, err := client.Get(s.Issuer + "/sign-in")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, c := range resp.Cookies() {
		if !c.Secure || !c.HttpOnly || !strings.HasPrefix(c.Name, "__Host-") {
			t.Errorf("cookie %s: secure %t, HttpOnly %t; want __Host- and both", c.Name, c.Secure, c.HttpOnly)
		}
		s.secret("cookie "+c.Name, c.Value)
	}
}

// until waits until an address answers 200 to a client.
func (s *server) until(t *testing.T, client *http.Client, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		if resp, err := client.Get(address); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			raw, _ := os.ReadFile(s.log) // for the message, as far as it exists
			t.Fatalf("GET %s: no 200 in 20 s\n%s", address, tail(raw, 3000))
		}
	}
}

// certify writes a certificate for localhost and names of the guides, and its key, into dir, and returns the pool that
// trusts it.
func certify(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost", "*.example.com"}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(made)
	return pool
}

// rawGet sends a request line and a Host header unchanged.
func rawGet(t *testing.T, address, host, target string) (status int, location string) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target, host)
	raw, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(raw), "HTTP/1.1 %d", &status); err != nil {
		t.Fatalf("%s with Host %s: %q", target, host, raw)
	}
	for line := range strings.SplitSeq(string(raw), "\r\n") {
		if v, ok := strings.CutPrefix(line, "Location: "); ok {
			location = v
		}
	}
	return status, location
}
