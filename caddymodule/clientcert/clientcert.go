// Package clientcert finds the client certificate of a request: on the TLS connection, or in a header of a trusted
// proxy that terminates TLS. (docs/decisions/client-authentication.md#mutual-tls)
package clientcert

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
)

// Source knows where certificates come from. The zero value knows those of TLS connections.
type Source struct {
	header      string // of trusted proxies. Empty: none
	authorities *x509.CertPool
	endpoints   string
}

const maxHeader = 64 << 10 // bytes of a certificate in a header

var (
	errSeveral   = errors.New("the header of the proxy has several certificates: let the proxy replace the header, not add to it")
	errMalformed = errors.New("the header of the proxy is not a certificate")
)

// Of returns the certificate of the sender of a request, or nil. An error is a verdict: the header of a trusted proxy
// is not a certificate. A trusted proxy has its own certificate on the connection, so its header alone counts.
func (s *Source) Of(r *http.Request) (*certificate.Presented, error) {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted && s.header != "" {
		return s.inHeader(r.Header)
	}
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return nil, nil //nolint:nilnil // documented above
	}
	certs := r.TLS.PeerCertificates
	return &certificate.Presented{Leaf: certs[0], Others: certs[1:], Verified: len(r.TLS.VerifiedChains) > 0, Authorities: s.authorities}, nil
}

// inHeader returns the certificate that a trusted proxy names, or nil.
func (s *Source) inHeader(h http.Header) (*certificate.Presented, error) {
	if s.header == "" || len(h[s.header]) == 0 {
		return nil, nil //nolint:nilnil // documented above
	}
	if len(h[s.header]) > 1 {
		return nil, errSeveral
	}
	leaf, err := Parse(h[s.header][0])
	if leaf == nil || err != nil {
		return nil, err
	}
	return &certificate.Presented{Leaf: leaf, Authorities: s.authorities}, nil
}

// Header is the name of the header that trusted proxies alone may send. Empty: none
func (s *Source) Header() string { return s.header }

// Endpoints is the origin at which clients with a certificate find the endpoints. Empty: that of the issuer
func (s *Source) Endpoints() string { return s.endpoints }

// EndpointHost is the host of Endpoints.
func (s *Source) EndpointHost() string { return strings.TrimPrefix(s.endpoints, "https://") }

// Parse reads a certificate as RFC 9440 writes it (Base64 between colons), in bare Base64, or in PEM with the escapes
// of URLs, which nginx knows ($ssl_client_escaped_cert). Nothing is no certificate.
func Parse(text string) (*x509.Certificate, error) {
	text = strings.TrimSpace(text)
	switch {
	case text == "" || text == "::": // the proxy has seen none
		return nil, nil //nolint:nilnil // documented above
	case len(text) > maxHeader:
		return nil, errMalformed
	case strings.Contains(text, ","):
		return nil, errSeveral
	}
	der, err := decode(text)
	if err != nil {
		return nil, errMalformed
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errMalformed
	}
	return cert, nil
}

func decode(text string) ([]byte, error) {
	if strings.HasPrefix(text, "-----BEGIN") {
		unescaped, err := url.PathUnescape(text)
		if err != nil {
			return nil, err
		}
		block, rest := pem.Decode([]byte(unescaped))
		if block == nil || block.Type != "CERTIFICATE" || strings.TrimSpace(string(rest)) != "" {
			return nil, errMalformed
		}
		return block.Bytes, nil
	}
	if inner, ok := strings.CutPrefix(text, ":"); ok {
		if text, ok = strings.CutSuffix(inner, ":"); !ok {
			return nil, errMalformed
		}
	}
	return base64.StdEncoding.Strict().DecodeString(text)
}
