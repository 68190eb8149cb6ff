package client

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
)

// Subject is the name in the certificates of a client. One member is set.
type Subject struct {
	// The distinguished name of the subject in the form of RFC 4514, such as CN=robot,O=Example,C=NL. Default: none.
	DN string `json:"subject_dn,omitempty"`
	// A host name. Default: none.
	DNS string `json:"san_dns,omitempty"`
	// A URI. Default: none.
	URI string `json:"san_uri,omitempty"`
	// An IP address. Default: none.
	IP string `json:"san_ip,omitempty"`
	// An e-mail address. Default: none.
	Email string `json:"san_email,omitempty"`
}

// readAuthMethod reads
//
//	auth_method <method>
//	auth_method tls_client_auth subject_dn|san_dns|san_uri|san_ip|san_email <name>
func (c *Client) readAuthMethod(d *caddyfile.Dispenser) (err error) {
	at := *d
	if !at.NextArg() || at.Val() != client.MethodTLS {
		return caddyfileutil.ReadValue(d, &c.AuthMethod, checkAuthMethod)
	}
	d.NextArg()
	c.AuthMethod = client.MethodTLS
	c.CertificateSubject, err = readSubject(d)
	return err
}

func readSubject(d *caddyfile.Dispenser) (*Subject, error) {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return nil, d.Err("tls_client_auth: want one kind of name and the name in the certificate, such as tls_client_auth san_dns robot.example.com")
	}
	s := certificate.SubjectOf(args[0], args[1])
	if s == nil {
		return nil, d.Errf("tls_client_auth: %s", caddyfileutil.OneOf(certificate.Kinds...)(args[0]))
	}
	return (*Subject)(s), nil
}

func (s *Subject) build(r *caddyfileutil.Resolver, of string) *certificate.Subject {
	if s == nil {
		return nil
	}
	kind, name := (*certificate.Subject)(s).Name()
	if kind == "" { // Validate says what is wrong
		return (*certificate.Subject)(s)
	}
	if r.Adapting() && caddyfileutil.HasPlaceholder(name) {
		return &certificate.Subject{DNS: "placeholder"}
	}
	return certificate.SubjectOf(kind, r.Plain(of, name, nil))
}
