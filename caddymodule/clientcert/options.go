package clientcert

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Options say where the certificates of clients come from, and which of them are believed.
type Options struct {
	// The header in which Caddy's trusted_proxies name the certificate of the client, such as Client-Cert (RFC 9440).
	// Default: none, and the TLS connection alone counts.
	Header string `json:"header,omitempty"`
	// Files (PEM) with the authorities of clients' certificates, for connections whose certificates Caddy does not
	// verify itself, and for the header. Default: none.
	Authorities []string `json:"authorities,omitempty"`
	// The origin at which clients with a certificate find the endpoints, such as https://mtls.auth.example.com, so
	// browsers at the issuer are not asked for one. Default: none.
	Endpoints string `json:"endpoints,omitempty"`
}

// Subdirectives reads
//
//	client_cert_header    <name>
//	client_ca             <file>...
//	mtls_endpoint_aliases <origin>
func Subdirectives(o *Options) caddyfileutil.Subdirectives {
	return caddyfileutil.Subdirectives{
		"client_cert_header":    caddyfileutil.Value(&o.Header, checkHeader),
		"client_ca":             caddyfileutil.Values(&o.Authorities, nil),
		"mtls_endpoint_aliases": caddyfileutil.Value(&o.Endpoints, checkEndpoints),
	}
}

// forwarded begins the names of headers that proxies alone may send. Some of them mean something else.
const forwarded = "X-Forwarded-"

var others = []string{
	forwarded + "For", forwarded + "Host", forwarded + "Proto", forwarded + "Port", forwarded + "Uri",
	forwarded + "Method", forwarded + "Prefix",
}

// checkHeader takes only what protect removes from the requests of everybody but trusted proxies.
func checkHeader(name string) error {
	key := http.CanonicalHeaderKey(name)
	if key == "Client-Cert" || strings.HasPrefix(key, forwarded) && len(key) > len(forwarded) && httpguts.ValidHeaderFieldName(name) &&
		!slices.Contains(others, key) {
		return nil
	}
	return fmt.Errorf("%q cannot be the header of a certificate: want Client-Cert, or a name that begins with X-Forwarded-", name)
}

func checkEndpoints(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.String() != "https://"+u.Host {
		return fmt.Errorf("%q is not an origin such as https://mtls.auth.example.com", origin)
	}
	return nil
}

const maxAuthorities = 1 << 20 // bytes of a file

// Build returns where certificates come from. A file that cannot be used is a fault of the clients with certificates of
// its authorities: they are refused.
func (o *Options) Build(r *caddyfileutil.Resolver) *Source {
	s := &Source{
		header:    http.CanonicalHeaderKey(r.Plain("client_cert_header", o.Header, checkHeader)),
		endpoints: r.Plain("mtls_endpoint_aliases", o.Endpoints, checkEndpoints),
	}
	for _, name := range o.Authorities {
		file, ok := r.Text("client_ca", name, nil)
		if !ok || r.Adapting() { // the file can be on another machine
			continue
		}
		if s.authorities == nil {
			s.authorities = x509.NewCertPool()
		}
		if err := s.read(file); err != nil {
			r.Lack(caddyfileutil.Fault{
				Option: "client_ca", Reason: fmt.Sprintf("client_ca: %s: %v: certificates of its authorities are refused", file, err),
				Fix: "put the certificates of the authorities there, in PEM, and run `caddy reload --force`",
			})
		}
	}
	return s
}

func (s *Source) read(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if info.Size() > maxAuthorities {
		return errors.New("is too large")
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !s.authorities.AppendCertsFromPEM(raw) {
		return errors.New("has no certificate in PEM")
	}
	return nil
}
