package saml

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"time"

	"github.com/beevik/etree"
	schema "github.com/crewjam/saml"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

// What stands here is for package samlidp, the other side of the protocol: it reads by the same reader, signs by the
// same code and keeps to the same lists of algorithms.

// Peer is a party that sends us messages, as its metadata describe it.
type Peer struct {
	EntityID string
	// Signing are the certificates whose signatures are accepted.
	Signing    []*x509.Certificate
	ValidUntil time.Time // zero: not given
}

func (p Peer) metadata() *idpMetadata {
	return &idpMetadata{EntityID: p.EntityID, Signing: p.Signing, ValidUntil: p.ValidUntil}
}

// Node is an element of a document that the reader has let through.
type Node = node

// Namespaces and formats of names.
const (
	NSAssertion       = safexml.NSAssertion
	NSMetadata        = safexml.NSMetadata
	NSDsig            = safexml.NSDsig
	NSProtocol        = safexml.NSProtocol
	FormatUnspecified = formatUnspecified
	FormatEmail       = formatEmail
	FormatPersistent  = formatPersistent
	FormatTransient   = formatTransient
)

// OpenMessage reads a message, without verifying anything.
func OpenMessage(raw []byte) (*Node, error) {
	n, err := safexml.Requests.Parse(raw, map[string]bool{})
	if err != nil {
		return nil, invalidBy("the message is not well formed", err)
	}
	return n, countSignatures(n, n)
}

// Issuer returns the sender that a message names.
func Issuer(n *Node) (string, error) { return issuer(n) }

// Verify returns a message again, read from what its signature covers. nil: it has no signature.
func (p Peer) Verify(n *Node, now time.Time) (*Node, error) { return verifyElement(n, p.Signing, now) }

// CheckHeader checks version, time and sender of a message, and returns its ID.
func (p Peer) CheckHeader(n *Node, now func() time.Time) (id string, err error) {
	h, err := (&verifier{now: now}).messageHeader(n, p.metadata())
	return h.id, err
}

// Query is a message from a query.
type Query = redirected

// OpenQuery reads a query of the redirect binding, signed or not.
func OpenQuery(query string) (*Query, error) { return parseQuery(query) }

// VerifyQuery checks the signature of a query.
func (p Peer) VerifyQuery(q *Query, now time.Time) error { return q.verify(p.metadata(), now) }

// LogoutMessage is a verified LogoutRequest or LogoutResponse.
type LogoutMessage = logoutMessage

// LogoutWant are the requirements for a logout message.
type LogoutWant struct {
	Destination string
	Request     string // the ID of our LogoutRequest, for a response
	Signed      bool   // the query was signed, and that is verified
	SOAP        bool   // it stands in an envelope
	Now         func() time.Time
	Once        func(ctx context.Context, key string, until time.Time) error
}

// Logout verifies a logout message.
func (p Peer) Logout(ctx context.Context, raw []byte, w LogoutWant) (*LogoutMessage, error) {
	v := &verifier{now: w.Now, once: w.Once}
	want := logoutExpectation{Provider: p.metadata(), Destination: w.Destination, Request: w.Request, Signed: w.Signed, SOAP: w.SOAP}
	if !w.SOAP {
		return v.logoutMessage(ctx, raw, want)
	}
	root, message, err := openEnvelope(raw)
	if err != nil {
		return nil, invalidBy("the envelope", err)
	}
	return v.logoutIn(ctx, root, message, want)
}

// OpenEnvelope returns the logout message in a SOAP envelope, without verifying anything.
func OpenEnvelope(raw []byte) (*Node, error) {
	_, message, err := openEnvelope(raw)
	return message, err
}

func openEnvelope(raw []byte) (root, message *node, err error) {
	if root, err = safexml.Messages.Parse(raw, map[string]bool{}); err != nil {
		return nil, nil, err
	}
	if !root.Is(nsSOAP, "Envelope") {
		return nil, nil, errors.New("it is not a SOAP envelope")
	}
	if err := root.Closed("Header", "Body"); err != nil {
		return nil, nil, err
	}
	body, err := root.One(nsSOAP, "Body")
	if err != nil {
		return nil, nil, err
	}
	if err := body.Closed("{"+nsProtocol+"}LogoutRequest", "{"+nsProtocol+"}LogoutResponse"); err != nil {
		return nil, nil, err
	}
	if len(body.Elements) != 1 {
		return nil, nil, errors.New("there must be exactly one message")
	}
	return root, body.Elements[0], nil
}

// IsXML reports whether metadata is in the configuration itself.
func IsXML(source string) bool { return isXML(source) }

// IsRemote reports whether metadata is fetched.
func IsRemote(source string) bool { return isRemote(source) }

// ReadCertificate reads the certificate that must have signed metadata, from PEM or a PEM file. Empty: nil.
func ReadCertificate(source string) (*x509.Certificate, error) { return readCertificate(source) }

// Lifetime returns the earliest validUntil of elements of metadata, which can be over, or the zero time.
func Lifetime(of ...*Node) (until time.Time, err error) {
	var m idpMetadata
	for _, n := range of {
		if err := m.validity(n, time.Time{}); err != nil { // at no time anything has expired
			return until, err
		}
	}
	return m.ValidUntil, nil
}

// CheckEndpoint refuses addresses in metadata that neither a browser nor we must be sent to.
func CheckEndpoint(n *Node) error { return checkEndpoint(n) }

// Certificates returns the certificates of a ds:KeyInfo with keys that are strong enough, and how many were left out.
func Certificates(info *Node) (out []*x509.Certificate, weak int, err error) {
	for _, data := range info.Children(nsDsig, "X509Data") {
		for _, n := range data.Children(nsDsig, "X509Certificate") {
			c, err := decodeCertificate(n.Content)
			if err != nil {
				return nil, 0, err
			}
			if !isStrong(c.PublicKey) {
				weak++
				continue
			}
			out = append(out, c)
		}
	}
	return out, weak, nil
}

// IsCurrent reports whether a certificate is valid now.
func IsCurrent(c *x509.Certificate, now time.Time) bool { return isCurrent(c, now) }

// DecodeMessage decodes the field of a form.
func DecodeMessage(field string) ([]byte, error) {
	raw, err := decodeBase64(field)
	if err != nil {
		return nil, invalid("the message is not base64")
	}
	return raw, nil
}

// NewID returns the ID of a message.
func NewID(random io.Reader) (string, error) { return newID(random) }

// Plain makes untrusted text safe for XML.
func Plain(s string) string { return plain(s) }

// CheckSigner refuses key pairs that cannot make the signatures that others expect.
func CheckSigner(key *idp.Key) error { return checkSigner(key) }

// Sign inserts an enveloped signature after the Issuer.
func Sign(e *etree.Element, key *idp.Key) error { return sign(e, key) }

// Write returns an element as a document.
func Write(e *etree.Element) ([]byte, error) { return write(e) }

// WriteMetadata returns an entity as a document.
func WriteMetadata(e schema.EntityDescriptor) ([]byte, error) { return writeMetadata(e) }

// RedirectTo puts a message into a signed query of an endpoint. param is SAMLRequest or SAMLResponse.
func RedirectTo(random io.Reader, endpoint, param string, message []byte, relay string, key *idp.Key) (*idp.Next, error) {
	u, err := redirectURL(random, endpoint, param, message, relay, key)
	return &idp.Next{URL: u}, err
}

// PostTo puts a message into a form for an endpoint.
func PostTo(endpoint, param string, message []byte, relay string) (*idp.Next, error) {
	return post(endpoint, param, message, relay)
}
