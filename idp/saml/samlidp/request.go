package samlidp

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
)

const (
	maxRelay      = 1024 // bytes of a RelayState. SAML says 80, which few service providers keep to
	maxClasses    = 20
	maxClass      = 1024 // characters
	paramRequest  = "SAMLRequest"
	paramResponse = "SAMLResponse"
	paramRelay    = "RelayState"
)

// Incoming is a message as it arrives, before anything of it can be believed.
type Incoming struct {
	// Issuer is the service provider that the message claims to be from.
	Issuer string
	// Relay is the RelayState. Empty: none.
	Relay string
	// IsResponse tells a LogoutResponse from a request.
	IsResponse bool
	// Binding is that by which it came.
	Binding string

	raw   []byte
	query *saml.Query // nil: it came in a form
}

// Receive reads a message from the query or the form of a request. Nothing of it is verified.
func Receive(r *http.Request) (*Incoming, error) {
	in := &Incoming{Binding: Post}
	if r.Method == http.MethodGet {
		q, err := saml.OpenQuery(r.URL.RawQuery)
		if err != nil {
			return nil, err
		}
		in.Binding, in.query, in.raw, in.Relay, in.IsResponse = Redirect, q, q.Raw, q.Relay, q.Param == paramResponse
	} else if err := in.readForm(r); err != nil {
		return nil, err
	}
	if len(in.Relay) > maxRelay || !idp.IsText(in.Relay, maxRelay) {
		return nil, &idp.Invalid{Reason: "RelayState is longer than 1024 bytes, or has control characters"}
	}
	n, err := saml.OpenMessage(in.raw)
	if err == nil {
		in.Issuer, err = saml.Issuer(n)
	}
	if err != nil {
		return nil, &idp.Invalid{Reason: "the message cannot be read", Cause: err}
	}
	return in, nil
}

func (in *Incoming) readForm(r *http.Request) error {
	if err := r.ParseForm(); err != nil {
		return &idp.Invalid{Reason: "the form cannot be read"}
	}
	requests, responses, relay := r.PostForm[paramRequest], r.PostForm[paramResponse], r.PostForm[paramRelay]
	if len(requests)+len(responses) != 1 || len(relay) > 1 {
		return &idp.Invalid{Reason: "the form has no message, or more than one"}
	}
	if len(relay) == 1 {
		in.Relay = relay[0]
	}
	in.IsResponse = len(responses) == 1
	var err error
	in.raw, err = saml.DecodeMessage(append(requests, responses...)[0])
	return err
}

// Request is a verified AuthnRequest. (SAML core 3.4.1)
type Request struct {
	ID string
	// Service is the destination of the response.
	Service Service
	// Format is the format of the NameID that is asked for. Empty: any.
	Format string
	// Qualifier is the SPNameQualifier that is asked for. Empty: none.
	Qualifier      string
	Force, Passive bool
	// Comparison and Classes are the RequestedAuthnContext. No classes: any.
	Comparison string
	Classes    []string
	// Subject names the person who is to sign in. nil: anyone. Unnamed says that the request names the person in a way
	// that is not understood: encrypted, or with a confirmation.
	Subject *NameID
	Unnamed bool

	serviceURL   string
	serviceIndex int // -1: none
}

// Want are the requirements for a message.
type Want struct {
	Destination string // our endpoint
	Signed      bool   // a request without a signature is refused
	Now         func() time.Time
}

// AuthnRequest verifies a message as an AuthnRequest of the service provider. It has to be signed if the metadata or
// the caller say so, and a signature that is there must be valid. The error is an *idp.Invalid.
func (m *Metadata) AuthnRequest(in *Incoming, want Want) (*Request, error) {
	if in.IsResponse {
		return nil, &idp.Invalid{Reason: "the message is not a request"}
	}
	n, err := m.verified(in, want)
	if err != nil {
		return nil, invalid("the request", err)
	}
	if n.Name() != "AuthnRequest" {
		return nil, &idp.Invalid{Reason: "the message is not an AuthnRequest"}
	}
	q := &Request{serviceIndex: -1}
	if q.ID, err = m.peer().CheckHeader(n, want.Now); err == nil {
		err = q.read(n)
	}
	if err == nil {
		q.Service, err = m.service(q)
	}
	if err != nil {
		return nil, invalid("the AuthnRequest", err)
	}
	return q, nil
}

var errUnsigned = errors.New("it is not signed, and has to be")

// verified returns the message, read from what its signature covers if it has one.
func (m *Metadata) verified(in *Incoming, want Want) (*saml.Node, error) {
	n, err := saml.OpenMessage(in.raw)
	if err != nil {
		return nil, err
	}
	signed := false
	if in.query != nil && in.query.Signed() {
		if err := m.peer().VerifyQuery(in.query, want.Now()); err != nil {
			return nil, err
		}
		signed = true
	}
	again, err := m.peer().Verify(n, want.Now())
	if err != nil {
		return nil, err
	}
	if again != nil {
		n, signed = again, true
	}
	switch {
	case signed:
	case want.Signed:
		return nil, errUnsigned
	case m.SignsRequests:
		return nil, saml.Stale(errUnsigned)
	}
	// SAML bindings 3.4.5.2, 3.5.5.2: a signed message names its destination. An unsigned one proves nothing by it.
	if to, named := n.Attr("Destination"); (named || signed) && to != want.Destination {
		return nil, errors.New("it is for another destination, or has none")
	}
	return n, nil
}

func (q *Request) read(n *saml.Node) error {
	other := "{" + saml.NSAssertion + "}"
	err := n.Closed("Extensions", "NameIDPolicy", "RequestedAuthnContext", "Scoping", other+"Issuer", other+"Subject",
		other+"Conditions", "{"+saml.NSDsig+"}Signature")
	if err != nil {
		return err
	}
	if binding, ok := n.Attr("ProtocolBinding"); ok && binding != Post {
		return errors.New("ProtocolBinding is not HTTP-POST, the only one of our responses")
	}
	q.serviceURL = attr(n, "AssertionConsumerServiceURL")
	if s := attr(n, "AssertionConsumerServiceIndex"); s != "" {
		index, err := strconv.ParseUint(s, 10, 16)
		if err != nil || q.serviceURL != "" {
			return errors.New("AssertionConsumerServiceIndex is not a number, or is combined with an address")
		}
		q.serviceIndex = int(index)
	}
	q.Force, q.Passive = isTrue(n, "ForceAuthn"), isTrue(n, "IsPassive")
	if err := q.readSubject(n); err != nil {
		return err
	}
	policy, err := n.Child(saml.NSProtocol, "NameIDPolicy")
	if err != nil {
		return err
	}
	if policy != nil {
		q.Format, q.Qualifier = attr(policy, "Format"), attr(policy, "SPNameQualifier")
		if !idp.IsText(q.Format, maxClass) || !idp.IsText(q.Qualifier, maxEntityID) {
			return errors.New("a malformed NameIDPolicy")
		}
	}
	return q.readContext(n)
}

func (q *Request) readSubject(n *saml.Node) error {
	subject, err := n.Child(saml.NSAssertion, "Subject")
	if subject == nil || err != nil {
		return err
	}
	name, err := subject.Child(saml.NSAssertion, "NameID")
	if err != nil {
		return err
	}
	if q.Unnamed = name == nil || len(subject.Elements) != 1; q.Unnamed {
		return nil
	}
	text, err := name.Text()
	out := &NameID{Value: strings.TrimSpace(text), Format: attr(name, "Format"), Qualifier: attr(name, "SPNameQualifier")}
	if err != nil || out.Value == "" || !idp.IsText(out.Value, maxEntityID) || !idp.IsText(out.Format, maxClass) ||
		!idp.IsText(out.Qualifier, maxEntityID) {
		return errors.New("a malformed NameID in the Subject")
	}
	q.Subject = out
	return nil
}

func (q *Request) readContext(n *saml.Node) error {
	context, err := n.Child(saml.NSProtocol, "RequestedAuthnContext")
	if context == nil || err != nil {
		return err
	}
	other := "{" + saml.NSAssertion + "}"
	if err := context.Closed(other+"AuthnContextClassRef", other+"AuthnContextDeclRef"); err != nil {
		return err
	}
	if q.Comparison = attr(context, "Comparison"); q.Comparison == "" {
		q.Comparison = "exact"
	}
	for _, c := range context.Children(saml.NSAssertion, "AuthnContextClassRef") {
		class, err := c.Text()
		if err != nil || !idp.IsText(class, maxClass) || len(q.Classes) >= maxClasses {
			return errors.New("a malformed AuthnContextClassRef, or too many")
		}
		q.Classes = append(q.Classes, class)
	}
	if len(q.Classes) == 0 {
		return errors.New("a RequestedAuthnContext without classes")
	}
	return nil
}

// invalid makes an *idp.Invalid of any error.
func invalid(what string, err error) error {
	if errors.As(err, new(*idp.Invalid)) {
		return err
	}
	return &idp.Invalid{Reason: what, Cause: err}
}
