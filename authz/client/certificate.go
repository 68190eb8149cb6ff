package client

import "slices"

// The auth_methods of clients with a certificate. (RFC 8705 2)
const (
	MethodTLS        = "tls_client_auth"             // of an authority
	MethodSelfSigned = "self_signed_tls_client_auth" // or by itself
)

// UsesCertificate reports whether the client authenticates by the certificate of its connection.
func (c *Client) UsesCertificate() bool {
	return c.AuthMethod == MethodTLS || c.AuthMethod == MethodSelfSigned
}

// IsWithoutSecret reports whether the client authenticates by something better than a secret.
func (c *Client) IsWithoutSecret() bool {
	return c.AuthMethod == MethodPrivateKey || c.AuthMethod == MethodWorkload || c.UsesCertificate()
}

// checkSubject judges the subject in the certificates of a client.
func (c *Client) checkSubject(p *Problems) {
	switch {
	case c.AuthMethod == MethodTLS && c.CertificateSubject == nil:
		p.Addf("auth_method: tls_client_auth needs the name in the certificate, such as tls_client_auth san_dns robot.example.com")
	case c.AuthMethod == MethodTLS:
		if err := c.CertificateSubject.Check(); err != nil {
			p.Addf("auth_method: tls_client_auth: %w", err)
		}
	case c.CertificateSubject != nil:
		p.Addf("certificate_subject: it is for auth_method tls_client_auth: set that, or remove it")
	}
	if c.MTLSRequired && c.DPoPRequired {
		p.Addf("mtls: the tokens of the client are bound to a key already: remove either mtls or dpop")
	}
	if c.MTLSRequired && (c.HasGrant(GrantImplicit) || c.HasGrant(GrantIDToken)) {
		p.Addf("mtls: tokens that a browser gets by implicit or id_token cannot be bound to a certificate: remove either")
	}
	if c.AuthMethod == MethodTLS && len(c.Secrets)+len(c.SecretHashes) > 0 {
		p.Addf("secret: a client with auth_method tls_client_auth has a certificate instead: remove either")
	}
}

func (c *APIClient) checkSubject(p *Problems) {
	if c.CertificateSubject == nil {
		return
	}
	if err := c.CertificateSubject.Check(); err != nil {
		p.Addf("tls_client_auth: %w", err)
	}
	if !slices.Contains(c.APIs, "introspection") {
		p.Addf("tls_client_auth: it is for introspection: add that to apis, or use a secret")
	}
}
