package saml

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// decodeCertificate reads the text of a ds:X509Certificate. Some tools put a PEM file there.
func decodeCertificate(text string) (*x509.Certificate, error) {
	if block, _ := pem.Decode([]byte(strings.TrimSpace(text))); block != nil {
		return parseCertificate(block.Bytes)
	}
	raw, err := decodeBase64(text)
	if err != nil {
		return nil, errors.New("a certificate that is not base64")
	}
	return parseCertificate(raw)
}

// parseCertificate reads a certificate that is the container of a key. SAML trusts the key, so what TLS would not
// accept in the rest, such as a negative serial number or an extension that cannot be read, does not matter. (SAML
// metadata interoperability profile 2.6.1)
func parseCertificate(raw []byte) (*x509.Certificate, error) {
	c, err := x509.ParseCertificate(raw)
	if err == nil {
		return c, nil
	}
	var container struct {
		TBS       tbsCertificate
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	if rest, failed := asn1.Unmarshal(raw, &container); failed != nil || len(rest) > 0 {
		return nil, fmt.Errorf("a certificate that cannot be read: %w", err)
	}
	public, failed := x509.ParsePKIXPublicKey(container.TBS.PublicKey.FullBytes)
	if failed != nil {
		return nil, fmt.Errorf("a certificate that cannot be read: %w", err)
	}
	c = &x509.Certificate{
		Raw: raw, RawSubjectPublicKeyInfo: container.TBS.PublicKey.FullBytes, RawSubject: container.TBS.Subject.FullBytes,
		RawIssuer: container.TBS.Issuer.FullBytes,
		PublicKey: public, SerialNumber: new(big.Int).SetBytes(container.TBS.Serial.Bytes), Version: container.TBS.Version + 1,
	}
	var validity struct{ NotBefore, NotAfter time.Time }
	if _, err := asn1.Unmarshal(container.TBS.Validity.FullBytes, &validity); err == nil { // otherwise it has expired
		c.NotBefore, c.NotAfter = validity.NotBefore, validity.NotAfter
	}
	var subject pkix.RDNSequence
	if _, err := asn1.Unmarshal(c.RawSubject, &subject); err == nil {
		c.Subject.FillFromRDNSequence(&subject)
	}
	return c, nil
}

// tbsCertificate is the part of a certificate that is signed, as far as it is read. (RFC 5280 4.1)
type tbsCertificate struct {
	Version    int `asn1:"optional,explicit,default:0,tag:0"`
	Serial     asn1.RawValue
	Algorithm  asn1.RawValue
	Issuer     asn1.RawValue
	Validity   asn1.RawValue
	Subject    asn1.RawValue
	PublicKey  asn1.RawValue
	IssuerID   asn1.BitString `asn1:"optional,tag:1"`
	SubjectID  asn1.BitString `asn1:"optional,tag:2"`
	Extensions asn1.RawValue  `asn1:"optional,explicit,tag:3"`
}

// Certificates implements idp.Certified.
func (p *Provider) Certificates() []*x509.Certificate {
	p.metadata.mu.Lock()
	defer p.metadata.mu.Unlock()
	if p.metadata.current == nil {
		return nil
	}
	return p.metadata.current.Published
}

// Warnings implements idp.Warner.
func (p *Provider) Warnings() []idp.Warning {
	p.metadata.mu.Lock()
	defer p.metadata.mu.Unlock()
	s := p.metadata
	m := s.current
	if m == nil {
		if s.err == nil { // it is on its way
			return nil
		}
		return []idp.Warning{idp.NoOne(fmt.Errorf("its metadata cannot be read: %w", s.err))}
	}
	return (&Validity{
		Now: s.now(), Until: m.ValidUntil, Certificates: m.Published, AnyAge: s.cfg.AcceptExpired, Renewed: isRemote(s.cfg.Metadata) &&
			s.err == nil, Unusable: m.usable(s.now()), Failure: s.err,
	}).Warnings()
}

// warnBefore is the time before the end of metadata or a certificate from which there is a warning.
const warnBefore = 30 * 24 * time.Hour

// Validity are the parts of the other side's metadata that expire.
type Validity struct {
	Now          time.Time
	Until        time.Time           // validUntil of the metadata; zero: not given
	Certificates []*x509.Certificate // whose signatures are accepted
	Encryption   []*x509.Certificate // that assertions are encrypted for
	AnyAge       bool                // of the certificates
	Renewed      bool                // the metadata is fetched again before it ends, and that worked the last time
	Unusable     error               // another reason why it cannot be used
	Failure      error               // why it could not be read the last time
}

// Warnings says what has ended, or will end within 30 days.
func (v *Validity) Warnings() (out []idp.Warning) {
	say := func(format string, args ...any) { out = append(out, idp.Warning{Reason: fmt.Sprintf(format, args...)}) }
	day := func(t time.Time) string { return t.UTC().Format(time.DateOnly) }
	switch {
	case !v.Until.IsZero() && !v.Now.Before(v.Until):
		say("no one can sign in: its metadata was valid until %s and has expired", day(v.Until))
		return out
	case v.Unusable != nil:
		say("no one can sign in: %v", v.Unusable)
		return out
	case !v.Until.IsZero() && !v.Renewed && v.Now.Add(warnBefore).After(v.Until):
		say("its metadata is valid until %s, and no one can sign in after that", day(v.Until))
	}
	if v.Failure != nil {
		say("its metadata could not be read again, and older metadata counts: %v", v.Failure)
	}
	if v.AnyAge {
		return out
	}
	if last, ends := v.lastOf(v.Certificates); ends {
		say("the last certificate in its metadata is valid until %s, and its signatures are refused after that", day(last))
	}
	if last, ends := v.lastOf(v.Encryption); ends {
		say("the last certificate for encryption in its metadata is valid until %s; assertions are encrypted for it after that too", day(last))
	}
	return out
}

// lastOf returns when the last of the certificates ends, and whether it has ended or will soon.
func (v *Validity) lastOf(list []*x509.Certificate) (last time.Time, ends bool) {
	if len(list) == 0 {
		return last, false
	}
	for _, c := range list {
		if c.NotAfter.After(last) {
			last = c.NotAfter
		}
	}
	return last, v.Now.Add(warnBefore).After(last)
}

// ageless returns copies of certificates of which only the keys count.
func ageless(list []*x509.Certificate) []*x509.Certificate {
	out := make([]*x509.Certificate, len(list))
	for i, c := range list {
		copied := *c
		copied.NotBefore, copied.NotAfter = time.Time{}, time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
		out[i] = &copied
	}
	return out
}

// Ageless returns copies of certificates of which only the keys count.
func Ageless(list []*x509.Certificate) []*x509.Certificate { return ageless(list) }

// KeyUses implements idp.KeyUser.
func (p *Provider) KeyUses() (out []idp.KeyUse) {
	for _, name := range names(p.cfg.Sign) {
		out = append(out, idp.KeyUse{Name: name, Use: idp.UseSign})
	}
	for _, name := range names(p.cfg.Decrypt) {
		out = append(out, idp.KeyUse{Name: name, Use: idp.UseDecrypt})
	}
	if p.cfg.ClientKey != "" {
		out = append(out, idp.KeyUse{Name: p.cfg.ClientKey, Use: idp.UseConnect})
	}
	return out
}
