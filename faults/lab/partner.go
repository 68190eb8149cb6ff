package lab

import (
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
	"sync/atomic"
	"time"
)

// The ways in which a Partner behaves.
const (
	Good     = "good"
	Down     = "down"      // connections are reset
	Slow     = "slow"      // a request is read and answered after 30 s
	HalfOpen = "half-open" // a connection is accepted and nothing is read
	Drip     = "dripping"  // an answer begins and continues at a byte a second
	Garbage  = "garbage"   // the answer is not HTTP
	Endless  = "endless"   // an answer without end
	Flapping = "flapping"  // every other connection is reset
)

// Partner is an external identity provider, for SAML and OpenID Connect, that works or fails as it is told.
type Partner struct {
	Port  int
	Taken atomic.Int64 // connections

	mode, token atomic.Value // strings: for all requests, for the token endpoint alone
	cert        []byte
	listener    net.Listener
	good        chan net.Conn
	server      *http.Server
	done        chan struct{}

	mu   sync.Mutex // guards held
	held map[net.Conn]bool
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
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"}, NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Partner{
		Port: l.Addr().(*net.TCPAddr).Port, cert: cert, listener: l, good: make(chan net.Conn), done: make(chan struct{}), held: map[net.Conn]bool{},
	}
	p.Be(Good)
	p.Token(Good)
	p.server = &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	p.server.SetKeepAlivesEnabled(false) // each request sees the current mode
	var inner net.Listener = workingListener{p}
	if expired {
		inner = tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert}, PrivateKey: key}}, MinVersion: tls.VersionTLS12})
	}
	go p.accept()
	go p.server.Serve(inner) //nolint:errcheck // ends with Close
	return p, nil
}

// Be sets the behaviour from the next connection on. It closes the connections that it holds.
func (p *Partner) Be(mode string) {
	p.mode.Store(mode)
	p.release()
}

// Token sets the behaviour of the token endpoint alone.
func (p *Partner) Token(mode string) { p.token.Store(mode) }

// Close ends the partner.
func (p *Partner) Close() {
	close(p.done)
	_ = p.listener.Close()
	_ = p.server.Close()
	p.release()
}

func (p *Partner) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.held {
		_ = c.Close()
	}
	clear(p.held)
}

func (p *Partner) hold(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[c] = true
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

func (p *Partner) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		n := p.Taken.Add(1)
		mode := p.mode.Load().(string)
		if mode == Flapping {
			mode = Good
			if n%2 == 0 {
				mode = Down
			}
		}
		switch mode {
		case Good:
			select {
			case p.good <- c:
			case <-p.done:
				_ = c.Close()
				return
			}
		case Down:
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.SetLinger(0)
			}
			_ = c.Close()
		case HalfOpen:
			p.hold(c)
		default:
			p.hold(c)
			go p.misbehave(c, mode)
		}
	}
}

func (p *Partner) misbehave(c net.Conn, mode string) {
	defer c.Close()
	_, _ = c.Read(make([]byte, 4096)) // any request
	switch mode {
	case Slow:
		p.wait(30 * time.Second)
	case Garbage:
		_, _ = c.Write(Random(64 << 10))
	case Drip:
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{")
		for range 30 {
			if _, err := c.Write([]byte(" ")); err != nil || !p.wait(time.Second) {
				return
			}
		}
	case Endless:
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":\"")
		junk := make([]byte, 64<<10)
		for i := range junk {
			junk[i] = 'x'
		}
		for range 16 << 10 { // a gigabyte
			if _, err := c.Write(junk); err != nil {
				return
			}
		}
	}
}

func (p *Partner) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.done:
		return false
	}
}

// Origin is the address of the partner: its issuer.
func (p *Partner) Origin() string { return fmt.Sprintf("http://localhost:%d", p.Port) }

// ServeHTTP serves metadata of both kinds, and a token endpoint that never issues a token.
func (p *Partner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := p.Origin()
	switch r.URL.Path {
	case "/saml/metadata":
		w.Header().Set("Content-Type", "application/samlmetadata+xml")
		fmt.Fprintf(w, `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s/saml">`+
			`<md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data>`+
			`<ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`+
			`<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="%s/saml/sso"/></md:IDPSSODescriptor></md:EntityDescriptor>`,
			at, base64.StdEncoding.EncodeToString(p.cert), at)
	case "/.well-known/openid-configuration":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "jwks_uri": at + "/jwks",
			"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
			"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		})
	case "/jwks":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"keys":[]}`)
	case "/range/" + breachedPrefix:
		_, _ = io.WriteString(w, strings.Repeat("0", 35)+":0\r\n"+breachedRest+":7\r\n")
	case "/token":
		switch p.token.Load() {
		case Slow:
			Pause(r.Context(), 30*time.Second)
		case Garbage:
			_, _ = w.Write(Random(64 << 10))
		default:
			http.Error(w, `{"error":"server_error"}`, http.StatusInternalServerError)
		}
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
