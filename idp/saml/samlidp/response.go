package samlidp

import (
	"crypto/x509"
	"encoding/base64"
	"io"
	"slices"
	"time"

	"github.com/beevik/etree"
	schema "github.com/crewjam/saml"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

const (
	version = "2.0"
	// life is the time during which a service provider can take an assertion, early the maximum delay of its clock
	// against ours.
	life  = 5 * time.Minute
	early = time.Minute

	methodBearer = "urn:oasis:names:tc:SAML:2.0:cm:bearer" //nolint:gosec // a word of the protocol
)

// Status codes. (SAML core 3.2.2.2)
var (
	Success             = schema.StatusSuccess
	Responder           = schema.StatusResponder
	Requester           = schema.StatusRequester
	NoPassive           = schema.StatusNoPassive
	NoAuthnContext      = schema.StatusNoAuthnContext
	RequestDenied       = schema.StatusRequestDenied
	RequestUnsupported  = schema.StatusRequestUnsupported
	UnknownPrincipal    = schema.StatusUnknownPrincipal
	InvalidNameIDPolicy = schema.StatusInvalidNameIDPolicy
	AuthnFailed         = schema.StatusAuthnFailed
	PartialLogout       = schema.StatusPartialLogout
)

// NameFormats are the name formats of attributes by their short names. (SAML core 8.2)
var NameFormats = map[string]string{
	"basic": "urn:oasis:names:tc:SAML:2.0:attrname-format:basic", "uri": "urn:oasis:names:tc:SAML:2.0:attrname-format:uri",
	"unspecified": "urn:oasis:names:tc:SAML:2.0:attrname-format:unspecified",
}

// NameID names a person to a service provider.
type NameID struct{ Value, Format, Qualifier string }

// Attribute is an attribute of a person.
type Attribute struct {
	Name, Format string
	Values       []string
}

// Answer is the content of a response to a service provider about a sign-in.
type Answer struct {
	Metadata *Metadata
	Service  Service
	// Request is the ID of the request. Empty: the sign-in began here.
	Request    string
	Relay      string
	NameID     NameID
	Attributes []Attribute
	Class      string // of the sign-in
	AuthTime   time.Time
	Session    string // SessionIndex
	// Plain leaves the assertion unencrypted, whatever the metadata say.
	Plain bool
}

// Writer writes messages.
type Writer struct {
	EntityID string
	Random   io.Reader
	Now      func() time.Time
	// Key signs.
	Key *idp.Key
}

func (w *Writer) issuer() *schema.Issuer { return &schema.Issuer{Value: saml.Plain(w.EntityID)} }

func (w *Writer) instant() time.Time { return w.Now().UTC().Truncate(time.Second) }

// Respond returns the form that brings an assertion to the service provider. Assertion and response are both signed,
// and the assertion is encrypted where the metadata have a key for that.
func (w *Writer) Respond(a Answer) (*idp.Next, error) {
	assertion, err := w.assertion(a)
	if err != nil {
		return nil, err
	}
	r, err := w.response(a.Service, a.Request, schema.Status{StatusCode: schema.StatusCode{Value: Success}})
	if err != nil {
		return nil, err
	}
	if to := a.Metadata.encryption(w.Now()); to != nil && !a.Plain {
		if assertion, err = encrypt(assertion, to, a.Metadata.Methods); err != nil {
			return nil, err
		}
	}
	r.AddChild(assertion)
	return w.send(r, a.Service, a.Relay)
}

// Refuse returns the form that tells a service provider why there is no assertion.
func (w *Writer) Refuse(to Service, request, relay, code, detail string) (*idp.Next, error) {
	status := schema.Status{StatusCode: schema.StatusCode{Value: code}}
	if detail != "" {
		status.StatusCode.StatusCode = &schema.StatusCode{Value: detail}
	}
	r, err := w.response(to, request, status)
	if err != nil {
		return nil, err
	}
	return w.send(r, to, relay)
}

func (w *Writer) response(to Service, request string, status schema.Status) (*etree.Element, error) {
	id, err := saml.NewID(w.Random)
	if err != nil {
		return nil, err
	}
	r := schema.Response{
		ID: id, InResponseTo: request, Version: version, IssueInstant: w.instant(), Destination: to.Location, Issuer: w.issuer(), Status: status,
	}
	return r.Element(), nil
}

// send signs a response and puts it into a form.
func (w *Writer) send(r *etree.Element, to Service, relay string) (*idp.Next, error) {
	if err := saml.Sign(r, w.Key); err != nil {
		return nil, err
	}
	raw, err := saml.Write(r)
	if err != nil {
		return nil, err
	}
	return saml.PostTo(to.Location, paramResponse, raw, relay)
}

func (w *Writer) assertion(a Answer) (*etree.Element, error) {
	id, err := saml.NewID(w.Random)
	if err != nil {
		return nil, err
	}
	now := w.instant()
	statement := schema.AuthnStatement{
		AuthnInstant: a.AuthTime.UTC().Truncate(time.Second), SessionIndex: a.Session,
		AuthnContext: schema.AuthnContext{AuthnContextClassRef: &schema.AuthnContextClassRef{Value: a.Class}},
	}
	out := schema.Assertion{
		ID: id, IssueInstant: now, Version: version, Issuer: *w.issuer(),
		Subject: &schema.Subject{
			NameID: &schema.NameID{
				Format: a.NameID.Format, SPNameQualifier: a.NameID.Qualifier, NameQualifier: w.qualifier(a.NameID),
				Value: saml.Plain(a.NameID.Value),
			},
			SubjectConfirmations: []schema.SubjectConfirmation{{Method: methodBearer, SubjectConfirmationData: &schema.SubjectConfirmationData{
				NotOnOrAfter: now.Add(life), Recipient: a.Service.Location, InResponseTo: a.Request,
			}}},
		},
		Conditions: &schema.Conditions{
			NotBefore: now.Add(-early), NotOnOrAfter: now.Add(life),
			AudienceRestrictions: []schema.AudienceRestriction{{Audience: schema.Audience{Value: a.Metadata.EntityID}}},
		},
		AuthnStatements: []schema.AuthnStatement{statement},
	}
	e := out.Element()
	if len(a.Attributes) > 0 {
		e.AddChild(attributes(a.Attributes))
	}
	return e, saml.Sign(e, w.Key)
}

// qualifier is the NameQualifier of a name, which belongs to persistent ones. (SAML core 8.3.7)
func (w *Writer) qualifier(n NameID) string {
	if n.Format == saml.FormatPersistent {
		return w.EntityID
	}
	return ""
}

// attributes returns the AttributeStatement. Values have no xsi:type: the library's would need a prefix that
// canonicalization does not see.
func attributes(list []Attribute) *etree.Element {
	s := etree.NewElement("saml:AttributeStatement")
	for _, a := range list {
		e := s.CreateElement("saml:Attribute")
		e.CreateAttr("Name", saml.Plain(a.Name))
		if a.Format != "" {
			e.CreateAttr("NameFormat", a.Format)
		}
		for _, v := range a.Values {
			e.CreateElement("saml:AttributeValue").SetText(saml.Plain(v))
		}
	}
	return s
}

// encryption returns the certificate that an assertion is encrypted for: one that is valid now if there is one,
// otherwise any, since the key counts and sending the assertion as plain text would protect no one. nil: the service
// provider has no such key, or names algorithms of which we write no one.
func (m *Metadata) encryption(now time.Time) *x509.Certificate {
	if len(m.Methods) > 0 && !slices.ContainsFunc(m.Methods, func(a string) bool { return a == aes256GCM || a == aes128GCM }) {
		return nil
	}
	for _, c := range m.Encryption {
		if saml.IsCurrent(c, now) {
			return c
		}
	}
	if len(m.Encryption) > 0 {
		return m.Encryption[0]
	}
	return nil
}

// OwnMetadata returns the metadata of the identity provider. All certificates that sign are in it, so service providers
// know the next one before it is used.
func (w *Writer) OwnMetadata(keys []*idp.Key, signOn, logout, soap string) ([]byte, error) {
	role := schema.IDPSSODescriptor{WantAuthnRequestsSigned: new(false)}
	role.ProtocolSupportEnumeration = saml.NSProtocol
	for _, key := range keys {
		certificate := schema.X509Certificate{Data: base64.StdEncoding.EncodeToString(key.Certificate.Raw)}
		role.KeyDescriptors = append(role.KeyDescriptors, schema.KeyDescriptor{
			Use: "signing", KeyInfo: schema.KeyInfo{X509Data: schema.X509Data{X509Certificates: []schema.X509Certificate{certificate}}},
		})
	}
	if logout != "" {
		role.SingleLogoutServices = []schema.Endpoint{
			{Binding: Redirect, Location: logout}, {Binding: Post, Location: logout}, {Binding: SOAP, Location: soap},
		}
	}
	for _, format := range []string{saml.FormatPersistent, saml.FormatTransient, saml.FormatEmail, saml.FormatUnspecified} {
		role.NameIDFormats = append(role.NameIDFormats, schema.NameIDFormat(format))
	}
	role.SingleSignOnServices = []schema.Endpoint{{Binding: Redirect, Location: signOn}, {Binding: Post, Location: signOn}}
	return saml.WriteMetadata(schema.EntityDescriptor{
		EntityID: w.EntityID, CacheDuration: time.Hour,
		IDPSSODescriptors: []schema.IDPSSODescriptor{role},
	})
}
