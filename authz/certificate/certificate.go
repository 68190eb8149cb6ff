// Package certificate validates the X.509 certificates of clients, matches them with the registered subject, and
// computes the thumbprint that a token is bound to (RFC 8705). (docs/decisions/client-authentication.md#mutual-tls)
package certificate

import (
	"crypto"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Presented is the certificate of the sender of a request, who has proved to hold its key.
type Presented struct {
	Leaf *x509.Certificate
	// Others came with it and can lead to an authority.
	Others []*x509.Certificate
	// Verified says that the TLS server has verified its chain.
	Verified bool
	// Authorities are those of the operator, for chains that the TLS server has not verified. nil: none
	Authorities *x509.CertPool
}

var (
	// ErrNotVerified says that no one has verified the chain of a certificate.
	ErrNotVerified = errors.New("its chain has not been verified: let tls client_auth verify it, or name its authority (client_ca)")
	errNotYet      = errors.New("the certificate is not valid yet")
	errExpired     = errors.New("the certificate has expired")
)

// CheckTime returns what is wrong with the certificate at this time, or nil. A connection can outlive a certificate.
func (p *Presented) CheckTime(now time.Time) error {
	switch {
	case now.Before(p.Leaf.NotBefore):
		return errNotYet
	case now.After(p.Leaf.NotAfter):
		return errExpired
	}
	return nil
}

// CheckChain returns why no authority vouches for the certificate, or nil. (RFC 8705 2.1)
func (p *Presented) CheckChain(now time.Time) error {
	if p.Verified {
		return nil
	}
	if p.Authorities == nil {
		return ErrNotVerified
	}
	others := x509.NewCertPool()
	for _, c := range p.Others {
		others.AddCert(c)
	}
	_, err := p.Leaf.Verify(x509.VerifyOptions{
		Roots: p.Authorities, Intermediates: others, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("no authority of client_ca vouches for the certificate: %w", err)
	}
	return nil
}

// Thumbprint returns the name of the certificate in a token that is bound to it. (RFC 8705 3.1, x5t#S256)
func (p *Presented) Thumbprint() string {
	sum := sha256.Sum256(p.Leaf.Raw)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Is reports whether the certificate is this one.
func (p *Presented) Is(other *x509.Certificate) bool {
	return subtle.ConstantTimeCompare(p.Leaf.Raw, other.Raw) == 1
}

// HasThumbprint reports whether the certificate has this SHA-256 hash.
func (p *Presented) HasThumbprint(hash []byte) bool {
	sum := sha256.Sum256(p.Leaf.Raw)
	return subtle.ConstantTimeCompare(sum[:], hash) == 1
}

// HasKey reports whether the certificate is about this public key.
func (p *Presented) HasKey(key crypto.PublicKey) bool {
	own, ok := p.Leaf.PublicKey.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && own.Equal(key)
}

// Subject is the name by which a client is known in the certificates that authorities give to it. Exactly one member is
// set. (RFC 8705 2.1.2)
type Subject struct {
	// DN is the distinguished name of the subject in the form of RFC 4514.
	DN string `json:"subject_dn,omitempty"`
	// DNS, URI, IP and Email are each an alternative name of its kind.
	DNS   string `json:"san_dns,omitempty"`
	URI   string `json:"san_uri,omitempty"`
	IP    string `json:"san_ip,omitempty"`
	Email string `json:"san_email,omitempty"`
}

// Kinds are the kinds of names, as configuration calls them.
var Kinds = []string{"subject_dn", "san_dns", "san_uri", "san_ip", "san_email"}

// SubjectOf returns the subject with a name of one of Kinds. nil: its kind is unknown.
func SubjectOf(kind, name string) *Subject {
	var s Subject
	for _, m := range s.members() {
		if m.kind == kind {
			*m.name = name
			return &s
		}
	}
	return nil
}

type member struct {
	kind string
	name *string
}

func (s *Subject) members() []member {
	return []member{{Kinds[0], &s.DN}, {Kinds[1], &s.DNS}, {Kinds[2], &s.URI}, {Kinds[3], &s.IP}, {Kinds[4], &s.Email}}
}

// Name returns the only name and its kind; both are empty unless there is exactly one.
func (s *Subject) Name() (kind, name string) {
	for _, m := range s.members() {
		switch {
		case *m.name == "":
		case kind != "":
			return "", ""
		default:
			kind, name = m.kind, *m.name
		}
	}
	return kind, name
}

// Check returns what is wrong with the subject, or nil.
func (s *Subject) Check() error {
	kind, name := s.Name()
	switch kind {
	case "":
		return fmt.Errorf("want exactly one of %s", strings.Join(Kinds, ", "))
	case "subject_dn":
		if _, err := parseDN(name); err != nil {
			return fmt.Errorf("subject_dn: %q: %w", name, err)
		}
	case "san_dns":
		if strings.ContainsAny(name, "*/:@ ") || !isASCII(name) || strings.Trim(name, ".") != name {
			return fmt.Errorf("san_dns: %q is not a host name such as robot.example.com", name)
		}
	case "san_uri":
		if u, err := url.Parse(name); err != nil || !u.IsAbs() || !isASCII(name) {
			return fmt.Errorf("san_uri: %q is not an absolute URI", name)
		}
	case "san_ip":
		if a, err := netip.ParseAddr(name); err != nil || a.Zone() != "" || a.Is4In6() {
			return fmt.Errorf("san_ip: %q is not an IP address", name)
		}
	case "san_email":
		if local, host, ok := strings.Cut(name, "@"); !ok || local == "" || host == "" || strings.Contains(host, "@") || !isASCII(name) {
			return fmt.Errorf("san_email: %q is not an e-mail address", name)
		}
	}
	return nil
}

// Matches reports whether a certificate names the subject. Names are compared whole: no wildcard and no part of a name
// stands for another one. (docs/decisions/client-authentication.md#mutual-tls)
func (s *Subject) Matches(cert *x509.Certificate) bool {
	kind, name := s.Name()
	switch kind {
	case "subject_dn":
		return matchesDN(name, cert.RawSubject)
	case "san_dns":
		return anyName(cert, tagDNS, func(is []byte) bool { return strings.EqualFold(string(is), name) && isASCII(string(is)) })
	case "san_uri":
		return anyName(cert, tagURI, func(is []byte) bool { return string(is) == name })
	case "san_ip":
		want, err := netip.ParseAddr(name)
		return err == nil && anyName(cert, tagIP, func(is []byte) bool {
			a, ok := netip.AddrFromSlice(is)
			return ok && a == want
		})
	case "san_email":
		return anyName(cert, tagEmail, func(is []byte) bool { return sameEmail(string(is), name) })
	}
	return false
}

// sameEmail compares the host without regard to case. What stands before it, its host alone can judge. (RFC 5280 7.5)
func sameEmail(a, b string) bool {
	at, bt := strings.LastIndexByte(a, '@'), strings.LastIndexByte(b, '@')
	return at > 0 && bt > 0 && a[:at] == b[:bt] && isASCII(a) && strings.EqualFold(a[at:], b[bt:])
}

// The kinds of alternative names. (RFC 5280 4.2.1.6)
const (
	tagEmail = 1
	tagDNS   = 2
	tagURI   = 6
	tagIP    = 7
)

var alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}

// anyName reports whether an alternative name of a kind passes. They are read as they stand in the certificate: a
// parsed URI can be written in another way.
func anyName(cert *x509.Certificate, tag int, passes func(is []byte) bool) bool {
	for _, e := range cert.Extensions {
		if !e.Id.Equal(alternativeNames) {
			continue
		}
		var all asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &all); err != nil || len(rest) > 0 || all.Tag != asn1.TagSequence ||
			all.Class != asn1.ClassUniversal {
			return false
		}
		for list := all.Bytes; len(list) > 0; {
			var name asn1.RawValue
			rest, err := asn1.Unmarshal(list, &name)
			if err != nil {
				return false
			}
			if list = rest; name.Class == asn1.ClassContextSpecific && name.Tag == tag && passes(name.Bytes) {
				return true
			}
		}
	}
	return false
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
