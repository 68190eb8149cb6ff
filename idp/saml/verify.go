package saml

import (
	"context"
	"crypto"
	"crypto/x509"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

// verifier reads what a provider sends by way of the browser. It is safe for concurrent use.
type verifier struct {
	entityID string // ours: what an audience must name
	now      func() time.Time
	// once marks an identifier as used until then: idp.Env.Once.
	once func(ctx context.Context, key string, until time.Time) error
	// keys decrypt, the current one first. nil: nothing encrypted is taken.
	keys func(ctx context.Context) ([]crypto.Decrypter, error)
}

// expectation is what an answer must fit.
type expectation struct {
	Provider    *idpMetadata // whose answer it must be
	Destination string       // our endpoint that it came to: Destination and Recipient
	Request     string       // ID of the AuthnRequest that it answers. Empty: it answers none, and must say so
	Since       time.Time    // the person signed in no earlier (ForceAuthn, max_age). Zero: any time
	Classes     []string     // the class refs that were asked for as exact. Empty: any
}

// verified is what a response says, read from the signed element alone.
type verified struct {
	Issuer              string
	ID                  string // of the assertion
	NameID              nameID
	Attributes          []attribute
	AuthnInstant        time.Time
	SessionIndex        string    // may be empty
	SessionNotOnOrAfter time.Time // zero: none
	ClassRef            string    // may be empty
}

// nameID is a saml:NameID, exactly as it stands there.
type nameID struct {
	Value, Format, NameQualifier, SPNameQualifier string
}

// attribute is a saml:Attribute. Values are text, whole.
type attribute struct {
	Name, FriendlyName string
	Values             []string
}

// logoutExpectation is what a logout message must fit.
type logoutExpectation struct {
	Provider    *idpMetadata
	Destination string
	Request     string // a LogoutResponse must answer it. Empty: only a LogoutRequest is taken
	// Signed tells that the signature was verified outside of the XML already (redirect binding). Otherwise it must be inside.
	Signed bool
}

// logoutMessage is a LogoutRequest or a LogoutResponse, read from the signed element alone.
type logoutMessage struct {
	IsRequest bool
	ID        string
	NameID    nameID   // of a request
	Sessions  []string // SessionIndex of a request. Empty: all of the person
	Status    string   // innermost status URI of a response
	Success   bool     // of a response
	Cause     string   // StatusMessage or StatusDetail of a response, printable
}

// response verifies a samlp:Response and marks its assertion as used. Errors: *idp.Rejection when the provider has signed nobody in,
// *idp.Invalid when the answer is not to be believed, any other when we cannot tell.
func (v *verifier) response(ctx context.Context, raw []byte, want expectation) (*verified, error) {
	return nil, &idp.Invalid{Reason: "not verified"}
}

// artifactResponse verifies the soap:Envelope with which the provider answers the ArtifactResolve of the given ID, and the Response in it as
// response does.
func (v *verifier) artifactResponse(ctx context.Context, raw []byte, resolve string, want expectation) (*verified, error) {
	return nil, &idp.Invalid{Reason: "not verified"}
}

// logoutMessage verifies a LogoutRequest or LogoutResponse and marks a request as used. Errors as of response.
func (v *verifier) logoutMessage(ctx context.Context, raw []byte, want logoutExpectation) (*logoutMessage, error) {
	return nil, &idp.Invalid{Reason: "not verified"}
}

// verifyQuery checks the signature of the redirect binding over the octets of the query. alg is SigAlg, sig the decoded Signature.
func (m *idpMetadata) verifyQuery(now time.Time, alg string, octets, sig []byte) error {
	return &idp.Invalid{Reason: "not verified"}
}

// idpMetadata is what we know of a provider. It is not changed.
type idpMetadata struct {
	EntityID string
	// SSO, SLO and ARS are the endpoints by binding. ResponseLocation is where answers to a logout go, Location unless it is set.
	SSO map[string]string
	SLO map[string]sloEndpoint
	ARS map[int]string // SOAP endpoints of the artifact resolution service by index
	// Signing are the certificates that are good for signatures: RSA of 2048 bits and more, P-256, P-384 or P-521.
	Signing                 []*x509.Certificate
	NameIDFormats           []string
	WantAuthnRequestsSigned bool
	ValidUntil              time.Time     // zero: not said
	CacheDuration           time.Duration // zero: not said
}

type sloEndpoint struct{ Location, ResponseLocation string }

// parseMetadata reads the metadata of a provider. With trust it must be signed by that certificate and only what is signed is read. Metadata
// whose time is over is an error.
func parseMetadata(raw []byte, trust *x509.Certificate, now time.Time) (*idpMetadata, error) {
	return nil, &idp.Invalid{Reason: "not verified"}
}
