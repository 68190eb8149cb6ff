package clientcert_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// issued is a certificate with its key.
type issued struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func issueCertificate(t *testing.T, by *issued, change func(*x509.Certificate)) *issued {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	change(c)
	parent, signer := c, crypto.Signer(key)
	if by != nil {
		parent, signer = by.cert, by.key
	}
	raw, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return &issued{c, key}
}

func (i *issued) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.cert.Raw})
}

// structured is the certificate as RFC 9440 writes it.
func (i *issued) structured() string {
	return ":" + base64.StdEncoding.EncodeToString(i.cert.Raw) + ":"
}

// mutual is a Caddy whose clients can have certificates: sites that end TLS, one behind a trusted proxy, one that
// believes no one.
type mutual struct {
	*servertest.Server

	ca                       *issued
	verified, asked          string // sites that end TLS: Caddy verifies; Caddy asks alone, and is the alias of the issuer
	proxied, direct, program string // without TLS: trusted peers, others, and an API
	roots                    *x509.CertPool
}

func forServers(c *x509.Certificate) {
	c.DNSNames, c.ExtKeyUsage = []string{"localhost", "mtls.localhost"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
}

func forClient(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{name}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
}

func newMutual(t *testing.T, gatehouse, api string) *mutual {
	t.Helper()
	m := &mutual{
		Server: servertest.NewServer(t), verified: servertest.FreeAddr(t), asked: "mtls." + servertest.FreeAddr(t),
		proxied: servertest.FreeAddr(t), direct: servertest.FreeAddr(t), program: servertest.FreeAddr(t),
	}
	m.ca = issueCertificate(t, nil, func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	})
	m.roots = x509.NewCertPool()
	m.roots.AddCert(m.ca.cert)
	web := issueCertificate(t, m.ca, forServers)
	key, err := x509.MarshalPKCS8PrivateKey(web.key)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"ca.pem": m.ca.pem(), "cert.pem": web.pem(),
		"key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	} {
		if err := os.WriteFile(filepath.Join(m.Dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, proxyPort, _ := strings.Cut(m.proxied, ":")
	text := strings.NewReplacer("DIR", m.Dir, "ADMIN", m.Admin, "VERIFIED", m.verified, "ASKED", m.asked, "PROXYPORT", proxyPort, "PROXIED",
		m.proxied, "STRANGER", m.direct,
		"PROGRAM", m.program, "MORE", gatehouse, "GUARDED", api).Replace(`{
	admin ADMIN
	persist_config off
	skip_install_trust
	auto_https disable_redirects
	servers :PROXYPORT {
		trusted_proxies static 127.0.0.0/8 ::1/128
	}
	gatehouse {
		issuer https://VERIFIED
		storage badger DIR/store
		client_cert_header Client-Cert
		client_ca DIR/ca.pem
		mtls_endpoint_aliases https://ASKED
		client robot {
			auth_method tls_client_auth san_dns robot.example.com
			grants client_credentials
			scopes orders.read
		}
		MORE
	}
}
https://VERIFIED {
	tls DIR/cert.pem DIR/key.pem {
		client_auth {
			mode verify_if_given
			trust_pool file DIR/ca.pem
		}
	}
	gatehouse
}
https://ASKED {
	tls DIR/cert.pem DIR/key.pem {
		client_auth {
			mode request
		}
	}
	handle /api/* {
		GUARDED
		respond "in {header.Client-Cert}"
	}
	handle {
		gatehouse
	}
}
http://PROXIED {
	handle /api/* {
		GUARDED
		respond "in {header.Client-Cert}"
	}
	handle {
		gatehouse
	}
}
http://STRANGER {
	handle /api/* {
		protect {
			public /api/*
		}
		respond "in {header.Client-Cert}"
	}
	handle {
		gatehouse
	}
}
`)
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err == nil {
		err = caddy.Load(raw, true)
	}
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return m
}

// call sends a request over a connection with a certificate. nil: without one. form: nil for GET.
func (m *mutual) call(cert *issued, address, path string, form url.Values, headers ...string) (int, string) {
	m.T.Helper()
	config := &tls.Config{RootCAs: m.roots, MinVersion: tls.VersionTLS12}
	if cert != nil {
		config.Certificates = []tls.Certificate{{Certificate: [][]byte{cert.cert.Raw}, PrivateKey: cert.key}}
	}
	transport := &http.Transport{
		TLSClientConfig: config, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, strings.TrimPrefix(to, "mtls."))
		},
	}
	scheme := "http://"
	if address == m.verified || address == m.asked {
		scheme = "https://"
	}
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r := m.Request(method, scheme+address+path, body)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if r.Host = address; scheme == "http://" {
		r.Host = m.verified // as a proxy that ends TLS leaves it
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		m.T.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

var asRobot = url.Values{"grant_type": {"client_credentials"}, "client_id": {"robot"}}

// TestClientCertificates: the certificate of a client is that of its connection, or the one that a trusted proxy names.
func TestClientCertificates(t *testing.T) {
	m := newMutual(t, "", "protect {\n\t\t\tpublic /api/*\n\t\t}")
	robot, other := issueCertificate(t, m.ca, forClient("robot.example.com")), issueCertificate(t, m.ca, forClient("other.example.com"))
	expired := issueCertificate(t, m.ca, func(c *x509.Certificate) {
		forClient("robot.example.com")(c)
		c.NotAfter = time.Now().Add(-time.Minute)
	})
	forged := issueCertificate(t, nil, forClient("robot.example.com"))
	escaped := url.PathEscape(string(robot.pem()))
	t.Run("attack 441,444: certificates of connections and headers", func(t *testing.T) {
		for _, tt := range []struct {
			name    string
			cert    *issued
			at      string
			headers []string
			want    int
		}{
			{"a certificate that Caddy has verified", robot, m.verified, nil, 200},
			{"a certificate that Gatehouse verifies, at the alias", robot, m.asked, nil, 200},
			{"no certificate", nil, m.verified, nil, 401},
			{"another name", other, m.verified, nil, 401},
			{"another name at the alias", other, m.asked, nil, 401},
			{"an unknown authority, where Caddy verifies", forged, m.verified, nil, 0},
			{"an unknown authority", forged, m.asked, nil, 401},
			{"expired, where Caddy verifies", expired, m.verified, nil, 0},
			{"expired", expired, m.asked, nil, 401},
			{"a forged header without a certificate", nil, m.asked, []string{"Client-Cert", robot.structured()}, 401},
			{"a forged header beside a certificate", other, m.verified, []string{"Client-Cert", robot.structured()}, 401},
			{"a forged header from an untrusted peer", nil, m.direct, []string{"Client-Cert", robot.structured()}, 401},
			{"the header of a trusted proxy", nil, m.proxied, []string{"Client-Cert", robot.structured()}, 200},
			{"bare Base64", nil, m.proxied, []string{"Client-Cert", strings.Trim(robot.structured(), ":")}, 200},
			{"as nginx writes it", nil, m.proxied, []string{"Client-Cert", escaped}, 200},
			{"an empty header", nil, m.proxied, []string{"Client-Cert", ""}, 401},
			{"an empty value between colons", nil, m.proxied, []string{"Client-Cert", "::"}, 401},
			{"of another client", nil, m.proxied, []string{"Client-Cert", other.structured()}, 401},
			{"not verified by anybody", nil, m.proxied, []string{"Client-Cert", forged.structured()}, 401},
			{"expired at the proxy", nil, m.proxied, []string{"Client-Cert", expired.structured()}, 401},
			{"added to that of the sender", nil, m.proxied, []string{"Client-Cert", robot.structured(), "Client-Cert", other.structured()}, 401},
			{"joined with that of the sender", nil, m.proxied, []string{"Client-Cert", robot.structured() + ", " + other.structured()}, 401},
			{"in another header", nil, m.proxied, []string{"X-Client-Cert", robot.structured()}, 401},
			{"garbage", nil, m.proxied, []string{"Client-Cert", ":garbage:"}, 401},
			{"an open value", nil, m.proxied, []string{"Client-Cert", strings.TrimSuffix(robot.structured(), ":")}, 401},
		} {
			if status, body := m.call(tt.cert, tt.at, "/oauth/token", asRobot, tt.headers...); status != tt.want {
				t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.want)
			}
		}
		for at, want := range map[string]string{m.direct: "in ", m.proxied: "in " + robot.structured()} {
			if status, body := m.call(nil, at, "/api/x", nil, "Client-Cert", robot.structured(), "Client-Cert-Chain", "x"); status != 200 ||
				body != want {
				t.Errorf("an upstream behind %s reads %d %q, want %q", at, status, body, want)
			}
		}
	})
	// The alias serves what clients with a certificate need, and nothing for browsers.
	for path, want := range map[string]int{
		"/oauth/userinfo": 401, "/sign-in": 421, "/oauth/authorize": 421,
		"/.well-known/openid-configuration": 421,
	} {
		if status, _ := m.call(robot, m.asked, path, nil); status != want {
			t.Errorf("%s at the alias = %d, want %d", path, status, want)
		}
	}
	_, text := m.call(nil, m.verified, "/.well-known/openid-configuration", nil)
	var metadata struct {
		Aliases map[string]string `json:"mtls_endpoint_aliases"`
	}
	if err := json.Unmarshal([]byte(text), &metadata); err != nil {
		t.Fatal(err)
	}
	if got, want := metadata.Aliases["token_endpoint"], fmt.Sprintf("https://%s/oauth/token", m.asked); got != want ||
		len(metadata.Aliases) != 6 {
		t.Errorf("mtls_endpoint_aliases = %v", metadata.Aliases)
	}
}

// TestBoundTokens: a token that is bound to a certificate opens a site over a connection with that certificate alone.
func TestBoundTokens(t *testing.T) {
	m := newMutual(t, `client bound {
			secret `+servertest.TestSecret+`
			mtls required
			grants client_credentials
			scopes orders.read
		}
		api_client ops {
			secret the-secret-of-ops-in-all-of-these-tests
			apis introspection
		}
		forward_auth api {
			client_certificate_header Client-Cert
			origins https://api.example.com
			scopes orders.read
		}`, "protect orders.read")
	mine, other := issueCertificate(t, nil, forClient("bound.example.com")), issueCertificate(t, nil, forClient("bound.example.com"))
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {"bound"}, "client_secret": {servertest.TestSecret}}
	if status, body := m.call(nil, m.asked, "/oauth/token", form); status != http.StatusBadRequest ||
		!strings.Contains(body, "invalid_request") {
		t.Errorf("token without a certificate = %d %s, want 400 invalid_request", status, body)
	}
	_, body := m.call(mine, m.asked, "/oauth/token", form)
	var answer struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Token == "" || !strings.EqualFold(answer.Type, "bearer") {
		t.Fatalf("token = %s", body)
	}
	bearer := []string{"Authorization", "Bearer " + answer.Token}
	t.Run("attack 446: a bound token with another certificate", func(t *testing.T) {
		for _, tt := range []struct {
			name    string
			cert    *issued
			at      string
			headers []string
			want    int
		}{
			{"its certificate", mine, m.asked, nil, 200},
			{"another", other, m.asked, nil, 401},
			{"none", nil, m.asked, nil, 401},
			{"a forged header", nil, m.asked, []string{"Client-Cert", mine.structured()}, 401},
			{"a forged header beside another", other, m.asked, []string{"Client-Cert", mine.structured()}, 401},
			{"the header of a trusted proxy", nil, m.proxied, []string{"Client-Cert", mine.structured()}, 200},
			{"another in that header", nil, m.proxied, []string{"Client-Cert", other.structured()}, 401},
			{"no header of the proxy", nil, m.proxied, nil, 401},
		} {
			if status, body := m.call(tt.cert, tt.at, "/api/x", nil, append(tt.headers, bearer...)...); status != tt.want {
				t.Errorf("%s: %d %s, want %d", tt.name, status, body, tt.want)
			}
		}
		for name, want := range map[*issued]int{mine: 403, other: 401, nil: 401} { // 403: the token is of no person
			if status, body := m.call(name, m.asked, "/oauth/userinfo", nil, bearer...); status != want {
				t.Errorf("userinfo = %d %s, want %d", status, body, want)
			}
		}
		question := []string{
			"X-Forwarded-Method", "GET", "X-Forwarded-Proto", "https", "X-Forwarded-Host",
			"api.example.com", "X-Forwarded-Uri", "/x",
		}
		for sent, want := range map[string]int{
			mine.structured(): 200, other.structured(): 401, "": 401, ":garbage:": 400,
			mine.structured() + "," + other.structured(): 400,
		} {
			if status, body := m.call(mine, m.proxied, "/oauth/forward-auth?policy=api", nil,
				slices.Concat(question, bearer, []string{"Client-Cert", sent})...); status != want {
				t.Errorf("a question with %.20q = %d %s, want %d", sent, status, body, want)
			}
		}
	})
	sum := sha256.Sum256(mine.cert.Raw)
	about := url.Values{"token": {answer.Token}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth("ops", "the-secret-of-ops-in-all-of-these-tests")
	_, said := m.call(nil, m.asked, "/oauth/api/v2/token/introspect", about, "Authorization", request.Header.Get("Authorization"))
	if want := `"cnf":{"x5t#S256":"` + base64.RawURLEncoding.EncodeToString(sum[:]) + `"}`; !strings.Contains(said, want) {
		t.Errorf("introspection = %s, want %s in it", said, want)
	}
}
