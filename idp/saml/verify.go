package saml

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

// node is an element that the front door has let through.
type node = safexml.Node

func invalid(reason string) error { return &idp.Invalid{Reason: reason} }

func invalidBy(reason string, cause error) error { return &idp.Invalid{Reason: reason, Cause: cause} }

// maxSessions limits the sessions in one LogoutRequest.
const maxSessions = 50

// verifier reads messages of a provider. It is safe for concurrent use.
type verifier struct {
	entityID string // our own, which an audience must name
	now      func() time.Time
	// once marks an identifier as used until the given time. It is idp.Env.Once.
	once func(ctx context.Context, key string, until time.Time) error
	// keys returns the keys for decryption, the current one first. nil: encrypted content is refused.
	keys func(ctx context.Context) ([]*rsa.PrivateKey, error)
	// pause waits for evenly. Outside tests it is pause.
	pause func(ctx context.Context, d time.Duration)
}

// expectation are the requirements for an answer.
type expectation struct {
	Provider    *idpMetadata // the sender
	Destination string       // our endpoint: Destination and Recipient
	Request     string       // ID of our AuthnRequest. Empty: the answer must be unsolicited
	Since       time.Time    // earliest time of the sign-in (ForceAuthn, max_age). Zero: any
	Classes     []string     // requested as exact. Empty: any
}

// verified is the content of a response, read only from the signed element.
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

// nameID is a saml:NameID, unchanged.
type nameID struct {
	Value, Format, NameQualifier, SPNameQualifier string
}

// attribute is a saml:Attribute. Values are complete texts.
type attribute struct {
	Name, FriendlyName string
	Values             []string
	Names              []nameID // values that are names of people, which are in Values too
}

// logoutExpectation are the requirements for a logout message.
type logoutExpectation struct {
	Provider    *idpMetadata
	Destination string
	Request     string // the LogoutRequest that a response must name. Empty: no response is accepted
	// Signed: the signature was outside the XML and is already verified (redirect binding). Otherwise it must be
	// inside.
	Signed bool
	// SOAP: the message need not name its destination, since the connection is to it.
	SOAP bool
}

// logoutMessage is a LogoutRequest or a LogoutResponse, read only from the signed element.
type logoutMessage struct {
	IsRequest bool
	ID        string
	NameID    nameID   // of a request
	Sessions  []string // SessionIndex of a request. Empty: all sessions of the person
	Status    string   // innermost status URI of a response
	Success   bool     // of a response
	Cause     string   // StatusMessage or StatusDetail of a response, printable
}

// response verifies a samlp:Response and marks its assertion as used. The error is an *idp.Rejection if the provider
// has refused the sign-in, an *idp.Invalid if the answer is not valid, and another one if that cannot be decided.
func (v *verifier) response(ctx context.Context, raw []byte, want expectation) (*verified, error) {
	ids := map[string]bool{}
	root, err := safexml.Messages.Parse(raw, ids)
	if err != nil {
		return nil, invalidBy("the answer is not well formed", err)
	}
	if err := countSignatures(root, root); err != nil {
		return nil, err
	}
	return v.answer(ctx, root, false, ids, want)
}

// answer verifies the Response n of a document. ids are the IDs of the document. signed tells that a valid signature
// already covers n.
func (v *verifier) answer(ctx context.Context, n *node, signed bool, ids map[string]bool, want expectation) (*verified, error) {
	now := v.now()
	if !n.Is(nsProtocol, "Response") {
		return nil, invalid("the answer is not a Response")
	}
	again, err := verifyElement(n, want.Provider.Signing, now)
	if err != nil {
		return nil, invalidBy("the answer", err)
	}
	if again != nil {
		n, signed = again, true
	}
	if err := v.checkResponse(n, want); err != nil {
		return nil, invalidBy("the answer", err)
	}
	assertions := n.Count("Assertion", "EncryptedAssertion")
	rejection, err := status(n)
	switch {
	case err != nil:
		return nil, invalidBy("the status", err)
	case rejection != nil && assertions > 0:
		return nil, invalid("an assertion with a status other than success")
	case rejection != nil:
		return nil, rejection
	case assertions != 1:
		return nil, invalid("there must be exactly one assertion")
	}
	read := func() (*verified, error) {
		a, err := v.assertionOf(ctx, n, signed, ids, want)
		if err != nil {
			return nil, err
		}
		out, until, err := v.readAssertion(ctx, a, want, now)
		if err != nil {
			return nil, v.refused("the assertion", err)
		}
		// SAML profiles 4.1.4.5: a bearer assertion can be used once, in any response.
		return out, v.mark(ctx, "assertion", out.Issuer, out.ID, until)
	}
	if !signed && isMalleable(n) {
		return v.readUniformly(ctx, read)
	}
	return read()
}

func (v *verifier) checkResponse(n *node, want expectation) error {
	if err := n.Closed("Extensions", "Status", "{"+nsAssertion+"}Issuer", "{"+nsDsig+"}Signature", "{"+nsAssertion+"}Assertion",
		"{"+nsAssertion+"}EncryptedAssertion"); err != nil {
		return err
	}
	if _, err := v.messageHeader(n, want.Provider); err != nil {
		return err
	}
	if err := checkDestination(n, want.Destination); err != nil {
		return err
	}
	return checkAnswers(n, want.Request)
}

// assertionOf returns the only assertion of a response, decrypted and verified. The response or the assertion must be
// signed, and every signature must be valid.
func (v *verifier) assertionOf(ctx context.Context, n *node, signed bool, ids map[string]bool, want expectation) (*node, error) {
	a, err := n.Child(nsAssertion, "Assertion")
	if err != nil {
		return nil, invalidBy("the assertion", err)
	}
	sealed, err := n.Child(nsAssertion, "EncryptedAssertion")
	if err != nil {
		return nil, invalidBy("the assertion", err)
	}
	switch {
	case sealed != nil && !signed && isMalleable(n):
		if a, err = v.sealedAssertion(ctx, sealed, ids, want); err != nil {
			return nil, alike(err)
		}
		return a, nil
	case sealed != nil:
		if a, err = v.decryptAssertion(ctx, sealed, ids); err != nil {
			return nil, v.refused("the encrypted assertion", err)
		}
	case a == nil:
		return nil, invalid("an assertion in the wrong place")
	}
	again, err := verifyElement(a, want.Provider.Signing, v.now())
	switch {
	case err != nil:
		return nil, invalidBy("the assertion", err)
	case again != nil:
		return again, nil
	case !signed:
		return nil, invalid("neither the answer nor its assertion is signed")
	}
	return a, nil
}

// sealedAssertion decrypts an assertion and verifies the signature in it.
func (v *verifier) sealedAssertion(ctx context.Context, sealed *node, ids map[string]bool, want expectation) (*node, error) {
	a, err := v.decryptAssertion(ctx, sealed, ids)
	if err != nil {
		return nil, err
	}
	signed, err := verifyElement(a, want.Provider.Signing, v.now())
	if err == nil && signed == nil {
		err = errors.New("it is not signed")
	}
	return signed, err
}

// decryptAssertion returns the assertion in an EncryptedAssertion, not verified.
func (v *verifier) decryptAssertion(ctx context.Context, sealed *node, ids map[string]bool) (*node, error) {
	a, err := v.decrypt(ctx, sealed, ids, nsAssertion, "Assertion")
	if err != nil {
		return nil, err
	}
	if a.Count("Assertion", "EncryptedAssertion") != 1 {
		return nil, errors.New("there must be exactly one assertion")
	}
	return a, countSignatures(a, a)
}

// countSignatures refuses signatures in places where they are not verified. They are verified in message and in its
// assertion.
func countSignatures(root, message *node) error {
	known := len(message.Children(nsDsig, "Signature"))
	for _, a := range message.Children(nsAssertion, "Assertion") {
		known += len(a.Children(nsDsig, "Signature"))
	}
	if root != message { // the message of an artifact is inside another message
		for n := root; n != message; {
			known += len(n.Children(nsDsig, "Signature"))
			n = childContaining(n, message)
		}
	}
	if root.Count("Signature") != known {
		return invalid("a signature in the wrong place")
	}
	return nil
}

// childContaining returns the child of n that contains the element inner.
func childContaining(n, inner *node) *node {
	for _, c := range n.Elements {
		if c == inner || childContaining(c, inner) != nil {
			return c
		}
	}
	return nil
}

// artifactResponse verifies the soap:Envelope that answers the ArtifactResolve with the ID resolve. It then verifies
// the Response in it, as response does.
func (v *verifier) artifactResponse(ctx context.Context, raw []byte, resolve string, want expectation) (*verified, error) {
	ids := map[string]bool{}
	root, err := safexml.Messages.Parse(raw, ids)
	if err != nil {
		return nil, invalidBy("the artifact's answer is not well formed", err)
	}
	message, err := v.unwrapArtifact(root)
	if err != nil {
		return nil, invalidBy("the artifact's answer", err)
	}
	inner, err := message.Child(nsProtocol, "Response")
	if err != nil {
		return nil, invalidBy("the artifact's answer", err)
	}
	deepest := message
	if inner != nil {
		deepest = inner
	}
	if err := countSignatures(root, deepest); err != nil {
		return nil, err
	}
	again, err := verifyElement(message, want.Provider.Signing, v.now())
	if err != nil {
		return nil, invalidBy("the artifact's answer", err)
	}
	if again != nil {
		message = again
	}
	if err := v.checkArtifact(message, resolve, want); err != nil {
		return nil, invalidBy("the artifact's answer", err)
	}
	if inner, err = message.One(nsProtocol, "Response"); err != nil {
		return nil, invalidBy("the artifact's answer", err)
	}
	return v.answer(ctx, inner, again != nil, ids, want)
}

func (v *verifier) unwrapArtifact(root *node) (*node, error) {
	if !root.Is(nsSOAP, "Envelope") {
		return nil, errors.New("it is not a SOAP envelope")
	}
	if err := root.Closed("Header", "Body"); err != nil {
		return nil, err
	}
	body, err := root.One(nsSOAP, "Body")
	if err != nil {
		return nil, err
	}
	if err := body.Closed("{" + nsProtocol + "}ArtifactResponse"); err != nil { // a soap:Fault is refused too
		return nil, err
	}
	return body.One(nsProtocol, "ArtifactResponse")
}

func (v *verifier) checkArtifact(n *node, resolve string, want expectation) error {
	if err := n.Closed("Extensions", "Status", "Response", "{"+nsAssertion+"}Issuer", "{"+nsDsig+"}Signature"); err != nil {
		return err
	}
	// The message came over a connection that we have opened, so there is no Destination to check.
	if _, err := v.messageHeader(n, want.Provider); err != nil {
		return err
	}
	if resolve == "" || n.Attrs["InResponseTo"] != resolve {
		return errors.New("it answers another request, or does not name one")
	}
	rejection, err := status(n)
	if err == nil && rejection != nil {
		err = errors.New("the provider has not resolved it")
	}
	return err
}

// logoutMessage verifies a LogoutRequest or LogoutResponse and marks a request as used. Errors are as for response.
func (v *verifier) logoutMessage(ctx context.Context, raw []byte, want logoutExpectation) (*logoutMessage, error) {
	ids := map[string]bool{}
	n, err := safexml.Messages.Parse(raw, ids)
	if err != nil {
		return nil, invalidBy("the message is not well formed", err)
	}
	return v.logoutIn(ctx, n, n, want)
}

// logoutIn is logoutMessage for the element n of a document.
func (v *verifier) logoutIn(ctx context.Context, root, n *node, want logoutExpectation) (*logoutMessage, error) {
	if err := countSignatures(root, n); err != nil {
		return nil, err
	}
	again, err := verifyElement(n, want.Provider.Signing, v.now())
	switch {
	case err != nil:
		return nil, invalidBy("the message", err)
	case again != nil:
		n = again
	case !want.Signed:
		return nil, invalid("the message is not signed") // SAML profiles 4.4.4.1
	}
	if _, named := n.Attrs["Destination"]; named && want.Destination != "" || !want.SOAP {
		if err := checkDestination(n, want.Destination); err != nil {
			return nil, invalidBy("the message", err)
		}
	}
	h, err := v.messageHeader(n, want.Provider)
	switch {
	case err != nil:
		return nil, refusedRequest(n, invalidBy("the message", err))
	case n.Is(nsProtocol, "LogoutRequest"):
		msg, err := v.logoutRequest(ctx, n, h)
		return msg, refusedRequest(n, err)
	case n.Is(nsProtocol, "LogoutResponse"):
		return logoutResponse(n, h, want.Request)
	}
	return nil, invalid("the message is neither a LogoutRequest nor a LogoutResponse")
}

// RefusedRequest is the error for a LogoutRequest that the peer has signed for us, and that is refused all the same. It
// can be answered.
type RefusedRequest struct {
	ID  string // of the request
	Err error
}

func (r *RefusedRequest) Error() string { return r.Err.Error() }

func (r *RefusedRequest) Unwrap() error { return r.Err }

// refusedRequest returns the error for a message whose signature and destination are right. A copy of a message that
// came before is not answered again.
func refusedRequest(n *node, err error) error {
	if !n.Is(nsProtocol, "LogoutRequest") || n.Attrs["ID"] == "" || !errors.As(err, new(*idp.Invalid)) || errors.Is(err, idp.ErrReplayed) {
		return err
	}
	return &RefusedRequest{n.Attrs["ID"], err}
}

func (v *verifier) logoutRequest(ctx context.Context, n *node, h header) (*logoutMessage, error) {
	if err := n.Closed("Extensions", "SessionIndex", "{"+nsAssertion+"}Issuer", "{"+nsDsig+"}Signature", "{"+nsAssertion+"}NameID",
		"{"+nsAssertion+"}EncryptedID"); err != nil {
		return nil, invalidBy("the LogoutRequest", err)
	}
	now := v.now()
	if err := within(n, now); err != nil {
		return nil, invalidBy("the LogoutRequest", err)
	}
	out := &logoutMessage{IsRequest: true, ID: h.id}
	var err error
	if out.NameID, err = v.readNameID(ctx, n); err != nil {
		return nil, v.refused("the LogoutRequest", err)
	}
	for _, c := range n.Children(nsProtocol, "SessionIndex") {
		index, err := c.Text()
		if err != nil || index == "" || !idp.IsText(index, maxIndex) || len(out.Sessions) >= maxSessions {
			return nil, invalid("the LogoutRequest has a malformed SessionIndex, or too many")
		}
		out.Sessions = append(out.Sessions, index)
	}
	return out, v.mark(ctx, "logout", h.issuer, h.id, now.Add(maxAge+skew))
}

func logoutResponse(n *node, h header, request string) (*logoutMessage, error) {
	if err := n.Closed("Extensions", "Status", "{"+nsAssertion+"}Issuer", "{"+nsDsig+"}Signature"); err != nil {
		return nil, invalidBy("the LogoutResponse", err)
	}
	if request == "" || h.inResponseTo != request {
		return nil, invalid("the LogoutResponse answers another request, or does not name one")
	}
	rejection, err := status(n)
	if err != nil {
		return nil, invalidBy("the LogoutResponse", err)
	}
	out := &logoutMessage{ID: h.id, Success: rejection == nil}
	if rejection != nil {
		out.Status, out.Cause = rejection.SAMLStatus, rejection.Cause
	}
	return out, nil
}

// mark accepts an identifier once. until is the time at which its message expires by the provider's clock. If the
// provider allows years, the message is too old for us before that.
func (v *verifier) mark(ctx context.Context, kind, issuer, id string, until time.Time) error {
	if old := v.now().Add(maxAge + 2*skew); until.After(old) {
		until = old
	}
	sum := sha256.Sum256([]byte(issuer + "\x00" + id))
	err := v.once(ctx, kind+" "+hex.EncodeToString(sum[:]), until.Add(skew))
	switch {
	case errors.Is(err, idp.ErrReplayed):
		return invalidBy("the "+kind, err)
	case err != nil:
		return fmt.Errorf("mark the %s as used: %w", kind, err)
	}
	return nil
}

// refused distinguishes an invalid message from a failure on our side.
func (v *verifier) refused(what string, err error) error {
	var unknown *unknownError
	if errors.As(err, &unknown) {
		return unknown.cause
	}
	return invalidBy(what, err)
}
