package lab

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Partner is an external identity provider, for SAML, OpenID Connect and OAuth 2.0, that works or fails as it is told.
type Partner struct {
	faulty

	cert   []byte
	good   chan net.Conn
	server *http.Server

	seen sync.Mutex // guards hits
	hits map[string]int
}

// NewPartner starts a partner that works. With expired it uses TLS with an expired certificate.
func NewPartner(expired bool) (*Partner, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	until := time.Now().Add(time.Hour)
	if expired {
		until = time.Now().Add(-time.Minute)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	p := &Partner{cert: cert, good: make(chan net.Conn), hits: map[string]int{}}
	p.serve, p.endless, p.begin = p.pass, endlessJSON, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
	if err := p.listen(); err != nil {
		return nil, err
	}
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	p.server.SetKeepAlivesEnabled(false) // each request sees the current mode
	var inner net.Listener = workingListener{p}
	if expired {
		inner = tls.NewListener(inner,
			&tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, MinVersion: tls.VersionTLS12})
	}
	go p.server.Serve(inner) //nolint:errcheck // ends with Close
	return p, nil
}

// Close ends the partner.
func (p *Partner) Close() {
	p.faulty.Close()
	_ = p.server.Close()
}

// pass gives a connection to the HTTP server.
func (p *Partner) pass(c net.Conn) {
	select {
	case p.good <- c:
	case <-p.done:
		_ = c.Close()
	}
}

// endlessJSON answers any request with a gigabyte of a string.
func endlessJSON(c net.Conn) {
	_, _ = c.Read(make([]byte, 4096))
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":\"")
	junk := bytes.Repeat([]byte("x"), 64<<10)
	for range 16 << 10 {
		if _, err := c.Write(junk); err != nil {
			return
		}
	}
}

// workingListener is the listener of the HTTP server: it gets the connections that must work.
type workingListener struct{ p *Partner }

func (l workingListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.p.good:
		return c, nil
	case <-l.p.done:
		return nil, net.ErrClosed
	}
}
func (l workingListener) Close() error   { return nil }
func (l workingListener) Addr() net.Addr { return l.p.listener.Addr() }

// Origin is the address of the partner: its issuer.
func (p *Partner) Origin() string { return fmt.Sprintf("http://localhost:%d", p.Port) }

// Hits counts the requests to a path that were answered as they should be.
func (p *Partner) Hits(path string) int {
	p.seen.Lock()
	defer p.seen.Unlock()
	return p.hits[path]
}

// GoodCode is the prefix of the codes for which the token endpoint for OAuth 2.0 gives an access token that opens a
// profile.
const GoodCode = "good"

// ServeHTTP serves metadata of SAML and OpenID Connect, a service that resolves no artifact, a token endpoint that
// knows no code and no password, and for OAuth 2.0 a token endpoint and a profile.
func (p *Partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.seen.Lock()
	p.hits[r.URL.Path]++
	p.seen.Unlock()
	at := p.Origin()
	answer := func(status int, body string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
	switch r.URL.Path {
	case "/saml/metadata":
		w.Header().Set("Content-Type", "application/samlmetadata+xml")
		fmt.Fprintf(w, `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s/saml">`+
			`<md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data>`+
			`<ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`+
			`<md:ArtifactResolutionService Binding="urn:oasis:names:tc:SAML:2.0:bindings:SOAP" Location="%s/saml/artifacts" index="0"/>`+
			`<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="%s/saml/sso"/></md:IDPSSODescriptor></md:EntityDescriptor>`,
			at, base64.StdEncoding.EncodeToString(p.cert), at, at)
	case "/saml/artifacts":
		http.Error(w, "unknown artifact", http.StatusInternalServerError)
	case "/.well-known/openid-configuration":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "jwks_uri": at + "/jwks",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"},
			"id_token_signing_alg_values_supported": []string{"RS256"},
			"code_challenge_methods_supported":      []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		})
	case "/jwks":
		answer(http.StatusOK, `{"keys":[]}`)
	case "/range/" + breachedPrefix:
		_, _ = io.WriteString(w, strings.Repeat("0", 35)+":0\r\n"+breachedRest+":7\r\n")
	case "/token":
		answer(http.StatusBadRequest, `{"error":"invalid_grant"}`)
	case "/oauth2/token":
		answer(http.StatusOK, fmt.Sprintf(`{"access_token":"%t","token_type":"Bearer"}`, strings.HasPrefix(r.PostFormValue("code"), GoodCode)))
	case "/oauth2/profile":
		if r.Header.Get("Authorization") != "Bearer true" {
			answer(http.StatusUnauthorized, `{}`)
			return
		}
		answer(http.StatusOK, `{"id":"somebody"}`)
	default:
		if strings.HasPrefix(r.URL.Path, "/range/") {
			_, _ = io.WriteString(w, strings.Repeat("0", 35)+":0\r\n")
			return
		}
		http.NotFound(w, r)
	}
}

// BreachedPassword is the password that the partner knows as a service of breached passwords; breachedPrefix and
// breachedRest are its SHA-1 hash.
const (
	BreachedPassword = "password from a breach"
	breachedPrefix   = "25A94"
	breachedRest     = "27362EDEA101146364FDA9AF7A5DB96513B"
)
