// Package samltest is a SAML identity provider for tests. It answers as the test scripts it: honestly, or like an
// attacker.
package samltest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"time"

	"github.com/beevik/etree"
)

// Namespaces and URIs for scripts.
const (
	Protocol  = "urn:oasis:names:tc:SAML:2.0:protocol"
	Assertion = "urn:oasis:names:tc:SAML:2.0:assertion"
	Success   = "urn:oasis:names:tc:SAML:2.0:status:Success"
	Responder = "urn:oasis:names:tc:SAML:2.0:status:Responder"
	Bearer    = "urn:oasis:names:tc:SAML:2.0:cm:bearer"                             //nolint:gosec // a word of the protocol
	Password  = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport" //nolint:gosec // a word of the protocol
)

// Key is a private key with its certificate.
type Key struct {
	Signer      crypto.Signer
	Certificate *x509.Certificate
}

var pool struct {
	sync.Mutex // guards the maps
	keys       map[string]crypto.Signer
	issued     map[validity]*x509.Certificate
}

// validity tells certificates apart.
type validity struct {
	name        string
	from, until time.Time
}

// NewKey returns the key with that name. Its certificate is valid from a year before now until a year after. Keys and
// certificates are created once, because RSA is slow. Names that begin with "ec" have a key on P-256.
func NewKey(name string, now time.Time) *Key {
	return NewKeyUntil(name, now.AddDate(-1, 0, 0), now.AddDate(1, 0, 0))
}

// NewKeyUntil is NewKey with a given validity of the certificate.
func NewKeyUntil(name string, from, until time.Time) *Key {
	pool.Lock()
	defer pool.Unlock()
	key, ok := pool.keys[name]
	if !ok {
		var err error
		if strings.HasPrefix(name, "ec") {
			key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		} else {
			key, err = rsa.GenerateKey(rand.Reader, 2048)
		}
		check(err)
		if pool.keys == nil {
			pool.keys, pool.issued = map[string]crypto.Signer{}, map[validity]*x509.Certificate{}
		}
		pool.keys[name] = key
	}
	of := validity{name, from, until}
	if c := pool.issued[of]; c != nil {
		return &Key{key, c}
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(err)
	c, err := x509.ParseCertificate(der)
	check(err)
	pool.issued[of] = c
	return &Key{key, c}
}

// Provider is the identity provider.
type Provider struct {
	EntityID string
	Key      *Key
	Now      func() time.Time
	// Addresses of its endpoints, for its metadata. Empty: no endpoint of that kind.
	SSO, SLO, Artifact string

	mu   sync.Mutex // guards last
	last int
}

// New returns a provider whose key has the entity ID as its name.
func New(entityID string, now func() time.Time) *Provider {
	return &Provider{EntityID: entityID, Key: NewKey(entityID, now()), Now: now, SSO: "https://idp.example/sso"}
}

// ID returns a new identifier.
func (p *Provider) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	return fmt.Sprintf("_%s-%d", base64.RawURLEncoding.EncodeToString([]byte(p.EntityID)), p.last)
}

// Metadata returns the metadata of the provider with its key and additional ones.
func (p *Provider) Metadata(more ...*Key) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" ID=%q entityID=%q>`,
		p.ID(), escape(p.EntityID))
	b.WriteString(`<md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">`)
	for _, k := range append([]*Key{p.Key}, more...) {
		fmt.Fprintf(&b, `<md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`,
			base64.StdEncoding.EncodeToString(k.Certificate.Raw))
	}
	if p.Artifact != "" {
		fmt.Fprintf(&b, `<md:ArtifactResolutionService Binding="urn:oasis:names:tc:SAML:2.0:bindings:SOAP" Location=%q index="0"/>`,
			escape(p.Artifact))
	}
	for _, binding := range []string{"HTTP-Redirect", "HTTP-POST"} {
		if p.SLO != "" {
			fmt.Fprintf(&b, `<md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:%s" Location=%q/>`, binding, escape(p.SLO))
		}
	}
	for _, binding := range []string{"HTTP-Redirect", "HTTP-POST"} {
		fmt.Fprintf(&b, `<md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:%s" Location=%q/>`, binding, escape(p.SSO))
	}
	b.WriteString(`</md:IDPSSODescriptor></md:EntityDescriptor>`)
	return []byte(b.String())
}

// SignedMetadata returns the metadata, signed with key.
func (p *Provider) SignedMetadata(key *Key) []byte {
	doc := Parse(p.Metadata())
	Sign(doc.Root(), Signature{Key: key})
	return Bytes(doc)
}

// Attribute is a saml:Attribute. Its FriendlyName is optional.
type Attribute struct {
	Name, FriendlyName string
	Values             []string
}

// Answer is the content of a Response. Empty fields get the values of an honest answer.
type Answer struct {
	SP      string // entity id of the service provider: the audience
	ACS     string // destination and recipient
	Request string // ID of the AuthnRequest. Empty: unsolicited

	NameID, Format string
	Attributes     []Attribute
	Class          string
	Session        string    // SessionIndex
	SessionUntil   time.Time // SessionNotOnOrAfter. Zero: none
	AuthnInstant   time.Time // zero: now

	// A Status other than Success has no assertion. Inner is the second status code. Message and Detail (XML) are the
	// elements of these names.
	Status, Inner, Message, Detail string

	SignResponse, SignAssertion bool
	Signature                   Signature // its Key is by default that of the provider

	// Encrypt is the certificate that the assertion is encrypted for. Content and Transport are URIs of algorithms.
	// With EncryptID only the NameID is encrypted.
	Encrypt              *x509.Certificate
	EncryptID            bool
	Content, Transport   string
	OAEPDigest, OAEPMask string // URIs; empty: no element

	// Edit changes the Response before it is signed or encrypted, Tamper afterwards.
	Edit, Tamper func(response *etree.Element)
}

// Response returns the XML of the answer.
func (p *Provider) Response(a Answer) []byte {
	doc := p.Unsigned(a)
	root := doc.Root()
	if a.Edit != nil {
		a.Edit(root)
	}
	how := a.Signature
	if how.Key == nil {
		how.Key = p.Key
	}
	if as := root.SelectElement("saml:Assertion"); as != nil {
		if a.EncryptID {
			id := as.FindElement("./saml:Subject/saml:NameID")
			replace(id, a.seal("EncryptedID", id))
		}
		if a.SignAssertion {
			Sign(as, how)
		}
		if a.Encrypt != nil && !a.EncryptID {
			replace(as, a.seal("EncryptedAssertion", as))
		}
	}
	if a.SignResponse {
		Sign(root, how)
	}
	if a.Tamper != nil {
		a.Tamper(root)
	}
	return Bytes(doc)
}

// Unsigned returns the answer before Edit, without signature and encryption.
func (p *Provider) Unsigned(a Answer) *etree.Document {
	now := p.Now().UTC()
	at := func(d time.Duration) string { return now.Add(d).Format("2006-01-02T15:04:05.000Z") }
	var b strings.Builder
	fmt.Fprintf(&b, `<samlp:Response xmlns:samlp=%q xmlns:saml=%q ID=%q Version="2.0" IssueInstant=%q Destination=%q%s><saml:Issuer>%s</saml:Issuer>`,
		Protocol, Assertion, p.ID(), at(0), escape(a.ACS), optional("InResponseTo", a.Request), escape(p.EntityID))
	if a.Status != "" && a.Status != Success {
		fmt.Fprintf(&b, `<samlp:Status><samlp:StatusCode Value=%q>`, escape(a.Status))
		if a.Inner != "" {
			fmt.Fprintf(&b, `<samlp:StatusCode Value=%q/>`, escape(a.Inner))
		}
		b.WriteString(`</samlp:StatusCode>`)
		if a.Message != "" {
			fmt.Fprintf(&b, `<samlp:StatusMessage>%s</samlp:StatusMessage>`, escape(a.Message))
		}
		if a.Detail != "" {
			fmt.Fprintf(&b, `<samlp:StatusDetail>%s</samlp:StatusDetail>`, a.Detail)
		}
		b.WriteString(`</samlp:Status></samlp:Response>`)
		return Parse([]byte(b.String()))
	}
	authn := now
	if !a.AuthnInstant.IsZero() {
		authn = a.AuthnInstant.UTC()
	}
	until := ""
	if !a.SessionUntil.IsZero() {
		until = a.SessionUntil.UTC().Format(time.RFC3339)
	}
	fmt.Fprintf(&b, `<samlp:Status><samlp:StatusCode Value=%q/></samlp:Status>`, Success)
	fmt.Fprintf(&b, `<saml:Assertion xmlns:saml=%q xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" `+
		`ID=%q Version="2.0" IssueInstant=%q><saml:Issuer>%s</saml:Issuer>`, Assertion, p.ID(), at(0), escape(p.EntityID))
	fmt.Fprintf(&b, `<saml:Subject><saml:NameID%s>%s</saml:NameID><saml:SubjectConfirmation Method=%q><saml:SubjectConfirmationData NotOnOrAfter=%q Recipient=%q%s/>`+
		`</saml:SubjectConfirmation></saml:Subject>`,
		optional("Format", a.Format), escape(or(a.NameID, "anna")), Bearer, at(5*time.Minute), escape(a.ACS), optional("InResponseTo", a.Request))
	fmt.Fprintf(&b, `<saml:Conditions NotBefore=%q NotOnOrAfter=%q><saml:AudienceRestriction><saml:Audience>%s</saml:Audience></saml:AudienceRestriction></saml:Conditions>`,
		at(-30*time.Second), at(5*time.Minute), escape(a.SP))
	fmt.Fprintf(&b, `<saml:AuthnStatement AuthnInstant=%q%s%s><saml:AuthnContext><saml:AuthnContextClassRef>%s</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>`,
		authn.Format("2006-01-02T15:04:05.000Z"), optional("SessionIndex", a.Session), optional("SessionNotOnOrAfter", until),
		escape(or(a.Class, Password)))
	if len(a.Attributes) > 0 {
		b.WriteString(`<saml:AttributeStatement>`)
		for _, x := range a.Attributes {
			fmt.Fprintf(&b, `<saml:Attribute Name=%q%s NameFormat="urn:oasis:names:tc:SAML:2.0:attrname-format:basic">`, escape(x.Name),
				optional("FriendlyName", x.FriendlyName))
			for _, v := range x.Values {
				fmt.Fprintf(&b, `<saml:AttributeValue xsi:type="xs:string">%s</saml:AttributeValue>`, escape(v))
			}
			b.WriteString(`</saml:Attribute>`)
		}
		b.WriteString(`</saml:AttributeStatement>`)
	}
	b.WriteString(`</saml:Assertion></samlp:Response>`)
	return Parse([]byte(b.String()))
}

func optional(name, value string) string {
	if value == "" {
		return ""
	}
	return fmt.Sprintf(" %s=%q", name, escape(value))
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// escape makes s safe for text and for attribute values in double quotes.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}

func replace(old, with *etree.Element) {
	at, parent := old.Index(), old.Parent()
	parent.RemoveChildAt(at)
	parent.InsertChildAt(at, with)
}

// Parse returns the document in raw, which must be well formed.
func Parse(raw []byte) *etree.Document {
	doc := etree.NewDocument()
	check(doc.ReadFromBytes(raw))
	return doc
}

// Bytes returns the XML of doc. Line ends and tabs are escaped, so parsers keep them.
func Bytes(doc *etree.Document) []byte {
	doc.WriteSettings = etree.WriteSettings{CanonicalText: true, CanonicalAttrVal: true}
	raw, err := doc.WriteToBytes()
	check(err)
	return raw
}

// check panics if the script of a test is wrong.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
