package clientstore

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// A client that has a certificate sends its client_id alone: the connection proves the rest. (RFC 8705 2)

var errNoCertificate = denial.New(denial.ClientCertificate, "the request came without a certificate")

const maxShownName = 200 // bytes of a name in a message

// refuseCertificate is why a certificate does not let a client in.
func refuseCertificate(format string, args ...any) error {
	return denial.New(denial.ClientCertificate, fmt.Sprintf(format, args...))
}

// presented returns the valid certificate of the sender of a request, or why it cannot be relied on.
func (r *Registry) presented(req *http.Request) (p *certificate.Presented, refused error) {
	if r.deps.Certificate == nil {
		return nil, errNoCertificate
	}
	p, err := r.deps.Certificate(req)
	switch {
	case err != nil:
		return nil, refuseCertificate("%v", err)
	case p == nil:
		return nil, errNoCertificate
	}
	if err := p.CheckTime(r.now()); err != nil {
		return nil, refuseCertificate("%v", err)
	}
	return p, nil
}

// Thumbprint names the certificate of the sender of a request, as long as that is valid. Empty: it has no valid one.
func (r *Registry) Thumbprint(req *http.Request) string {
	p, refused := r.presented(req)
	if refused != nil {
		return ""
	}
	return p.Thumbprint()
}

// Bind returns the certificate that the tokens of a client are bound to. Empty: they are bound to none. (RFC 8705 3)
func (r *Registry) Bind(req *http.Request, c *client.Client) (thumbprint string, err error) {
	if !c.MTLSRequired {
		return "", nil
	}
	p, refused := r.presented(req)
	if refused != nil {
		return "", oauth.InvalidRequest(refused,
			"the tokens of the client are bound to its certificate, and the request came without a valid one")
	}
	return p.Thumbprint(), nil
}

// checkCertificate returns why the certificate of a request does not let in a client that authenticates by one. err is
// a failure, not a verdict.
func (r *Registry) checkCertificate(req *http.Request, c *client.Client) (refused, err error) {
	p, refused := r.presented(req)
	if refused != nil {
		return refused, nil
	}
	if c.AuthMethod == client.MethodTLS {
		return r.checkNamed(p, c.CertificateSubject), nil
	}
	ctx, cancel := verdictContext(req)
	defer cancel()
	matches := func(key jose.JSONWebKey) bool { return isKeyOf(&key, p) }
	keys, err := r.keysOf(ctx, c, matches)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(keys, matches) {
		return refuseCertificate("the certificate is not in the jwks of the client"), nil
	}
	return nil, nil
}

// checkNamed returns why a certificate is not one that an authority has given to this subject. (RFC 8705 2.1)
func (r *Registry) checkNamed(p *certificate.Presented, s *certificate.Subject) error {
	if err := p.CheckChain(r.now()); err != nil {
		return refuseCertificate("%v", err)
	}
	if !s.Matches(p.Leaf) {
		kind, _ := s.Name()
		is := certificate.NameOf(p.Leaf.RawSubject)
		return refuseCertificate("the certificate has another %s than the client; its subject is %q", kind,
			strings.ToValidUTF8(is[:min(len(is), maxShownName)], ""))
	}
	return nil
}

// isKeyOf reports whether a key of a client is that of a certificate. A key with a certificate of its own stands for
// that one alone. (RFC 8705 2.2)
func isKeyOf(key *jose.JSONWebKey, p *certificate.Presented) bool {
	switch {
	case len(key.Certificates) > 0:
		return p.Is(key.Certificates[0])
	case len(key.CertificateThumbprintSHA256) > 0:
		return p.HasThumbprint(key.CertificateThumbprintSHA256)
	}
	return p.HasKey(key.Key)
}

// PresentsCertificate reports whether a request can only authenticate by a certificate: it has one, and no credentials.
func (r *Registry) PresentsCertificate(req *http.Request) bool {
	if r.deps.Certificate == nil || len(req.Header["Authorization"]) > 0 {
		return false
	}
	p, err := r.deps.Certificate(req)
	return p != nil || err != nil
}

// AuthenticateAPIByCertificate is AuthenticateAPI for an API client with a certificate, which the form names.
func (r *Registry) AuthenticateAPIByCertificate(req *http.Request, f oauth.Form, api string) (*client.APIClient, error) {
	id := f.Get("client_id")
	reg := r.apis[id]
	p, refused := r.presented(req)
	switch {
	case refused != nil:
	case reg == nil:
		refused = errUnknownClient
	case reg.client.Disabled:
		refused = errDisabled
	case reg.client.CertificateSubject == nil:
		refused = errMethod
	case !slices.Contains(reg.client.APIs, api):
		refused = errors.New("the API client may not use this API")
	default:
		refused = r.checkNamed(p, reg.client.CertificateSubject)
	}
	if refused != nil {
		return nil, r.refuseClient(req, id, oauth.InvalidClient(refused))
	}
	r.noteCall(r.deps.Called, req, reg.client.ID)
	return reg.client, nil
}
