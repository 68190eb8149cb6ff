package saml

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

const (
	skew   = 60 * time.Second // accepted difference between the provider's clock and ours
	maxAge = 10 * time.Minute // of a message, even if its assertion is valid for longer
)

const (
	codeNoPassive   = "urn:oasis:names:tc:SAML:2.0:status:NoPassive" //nolint:gosec // a word of the protocol
	codeAuthnFailed = "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed"

	methodBearer = "urn:oasis:names:tc:SAML:2.0:cm:bearer" //nolint:gosec // a word of the protocol
	formatEntity = "urn:oasis:names:tc:SAML:2.0:nameid-format:entity"
)

// header is the common part of every protocol message.
type header struct {
	id, inResponseTo, issuer string
}

// checkDestination refuses a message for another endpoint or without a destination. Otherwise an attacker could reuse a
// message that was signed for another service provider. (SAML bindings 3.5.5.2)
func checkDestination(n *node, destination string) error {
	if destination == "" || n.Attrs["Destination"] != destination {
		return errors.New("the message is for another destination, or has none")
	}
	return nil
}

// messageHeader checks the rules for every message: version, time and sender.
func (v *verifier) messageHeader(n *node, from *idpMetadata) (h header, err error) {
	now := v.now()
	if !from.ValidUntil.IsZero() && !now.Before(from.ValidUntil) {
		return h, errors.New("the metadata of the provider is no longer valid")
	}
	if err := v.issued(n, now); err != nil {
		return h, err
	}
	if h.issuer, err = issuer(n); err != nil {
		return h, err
	}
	if h.issuer != from.EntityID {
		return h, errors.New("the message is from another issuer")
	}
	h.id, h.inResponseTo = n.Attrs["ID"], n.Attrs["InResponseTo"]
	return h, nil
}

// issued checks version, ID and time of a message or an assertion.
func (v *verifier) issued(n *node, now time.Time) error {
	if n.Attrs["Version"] != "2.0" || n.Attrs["ID"] == "" {
		return fmt.Errorf("%s is not of version 2.0, or has no ID", n.Local)
	}
	at, err := parseTime(n.Attrs["IssueInstant"])
	switch {
	case err != nil:
		return fmt.Errorf("IssueInstant of %s: %w", n.Local, err)
	case at.After(now.Add(skew)):
		return fmt.Errorf("%s is from the future", n.Local)
	case at.Before(now.Add(-maxAge - skew)):
		return fmt.Errorf("%s is too old", n.Local)
	}
	return nil
}

// issuer returns the entity ID of the issuer.
func issuer(n *node) (string, error) {
	c, err := n.One(nsAssertion, "Issuer")
	if err != nil {
		return "", err
	}
	if f := c.Attrs["Format"]; f != "" && f != formatEntity { // SAML Profiles 4.1.4.2
		return "", errors.New("an issuer that is not an entity")
	}
	return c.Text()
}

// status returns nil for success, otherwise the provider's refusal.
func status(n *node) (*idp.Rejection, error) {
	s, err := n.One(nsProtocol, "Status")
	if err != nil {
		return nil, err
	}
	if err := s.Closed("StatusCode", "StatusMessage", "StatusDetail"); err != nil {
		return nil, err
	}
	code, err := s.One(nsProtocol, "StatusCode")
	if err != nil {
		return nil, err
	}
	if code.Attrs["Value"] == statusSuccess {
		return nil, nil
	}
	for {
		inner, err := code.Child(nsProtocol, "StatusCode")
		if err != nil {
			return nil, err
		}
		if inner == nil {
			break
		}
		code = inner
	}
	cause, err := statusCause(s)
	if err != nil {
		return nil, err
	}
	r := &idp.Rejection{Reason: "the provider has refused the sign-in", SAMLStatus: idp.Printable(code.Attrs["Value"]), Cause: cause}
	r.Passive = r.SAMLStatus == codeNoPassive
	return r, nil
}

// statusCause returns the StatusMessage, or else the text of StatusDetail.
func statusCause(s *node) (string, error) {
	for _, name := range []string{"StatusMessage", "StatusDetail"} {
		c, err := s.Child(nsProtocol, name)
		if err != nil {
			return "", err
		}
		if c == nil {
			continue
		}
		if text := strings.Join(strings.FieldsFunc(c.AllText(), safexml.IsSpace), " "); text != "" {
			return idp.Printable(text), nil
		}
	}
	return "", nil
}

// checkConditions checks all conditions and refuses unknown ones. (SAML core 2.5.1.1)
func (v *verifier) checkConditions(a *node, now time.Time) error {
	c, err := a.One(nsAssertion, "Conditions")
	if err != nil {
		return err
	}
	if err := c.Closed("AudienceRestriction", "OneTimeUse", "ProxyRestriction"); err != nil {
		return err
	}
	if err := within(c, now); err != nil {
		return err
	}
	restrictions := c.Children(nsAssertion, "AudienceRestriction")
	if len(restrictions) == 0 {
		return errors.New("the assertion has no audience")
	}
	for _, r := range restrictions { // SAML core 2.5.1.4: all restrictions must hold
		if err := r.Closed("Audience"); err != nil {
			return err
		}
		if !slices.ContainsFunc(r.Elements, func(n *node) bool { return len(n.Elements) == 0 && collapse(n.Content) == v.entityID }) {
			return errors.New("the assertion is for another audience")
		}
	}
	return nil
}

// within checks NotBefore and NotOnOrAfter, if present.
func within(n *node, now time.Time) error {
	if s, ok := n.Attrs["NotBefore"]; ok {
		at, err := parseTime(s)
		if err != nil {
			return fmt.Errorf("NotBefore of %s: %w", n.Local, err)
		}
		if now.Add(skew).Before(at) {
			return fmt.Errorf("%s is not valid yet", n.Local)
		}
	}
	if s, ok := n.Attrs["NotOnOrAfter"]; ok {
		at, err := parseTime(s)
		if err != nil {
			return fmt.Errorf("NotOnOrAfter of %s: %w", n.Local, err)
		}
		if !now.Add(-skew).Before(at) {
			return fmt.Errorf("%s is no longer valid", n.Local)
		}
	}
	return nil
}

// checkConfirmation requires exactly one subject confirmation, of type bearer. It returns the time at which the
// assertion expires. (SAML profiles 4.1.4.3)
func checkConfirmation(subject *node, want expectation, now time.Time) (time.Time, error) {
	c, err := subject.One(nsAssertion, "SubjectConfirmation")
	if err != nil {
		return time.Time{}, err
	}
	if c.Attrs["Method"] != methodBearer {
		return time.Time{}, errors.New("the subject confirmation is not of type bearer")
	}
	d, err := c.One(nsAssertion, "SubjectConfirmationData")
	if err != nil {
		return time.Time{}, err
	}
	until, err := parseTime(d.Attrs["NotOnOrAfter"])
	if err != nil {
		return time.Time{}, fmt.Errorf("NotOnOrAfter of the confirmation: %w", err)
	}
	if err := within(d, now); err != nil {
		return time.Time{}, err
	}
	if _, ok := d.Attrs["NotBefore"]; ok {
		return time.Time{}, errors.New("a bearer confirmation with NotBefore")
	}
	if want.Destination == "" || d.Attrs["Recipient"] != want.Destination {
		return time.Time{}, errors.New("the confirmation is for another recipient, or has none")
	}
	if err := checkAnswers(d, want.Request); err != nil {
		return time.Time{}, err
	}
	return until, nil
}

// checkAnswers: an answer must name the request of this flow, and an unsolicited one must not name any. Otherwise it
// may be stolen.
func checkAnswers(n *node, request string) error {
	got, there := n.Attrs["InResponseTo"]
	switch {
	case request == "" && there:
		return errors.New("an unsolicited answer that names a request")
	case request != "" && got != request:
		return fmt.Errorf("%s answers another request, or does not name one", n.Local)
	}
	return nil
}

// checkAuthn reads the only AuthnStatement.
func checkAuthn(a *node, want expectation, now time.Time, out *verified) error {
	s, err := a.One(nsAssertion, "AuthnStatement")
	if err != nil {
		return err
	}
	if out.AuthnInstant, err = parseTime(s.Attrs["AuthnInstant"]); err != nil {
		return fmt.Errorf("AuthnInstant: %w", err)
	}
	switch {
	case out.AuthnInstant.After(now.Add(skew)):
		return errors.New("a sign-in in the future")
	case out.AuthnInstant.Before(want.Since.Add(-skew)):
		return errors.New("the provider did not sign the person in again")
	}
	if until, ok := s.Attrs["SessionNotOnOrAfter"]; ok {
		if out.SessionNotOnOrAfter, err = parseTime(until); err != nil {
			return fmt.Errorf("SessionNotOnOrAfter: %w", err)
		}
		if !now.Before(out.SessionNotOnOrAfter) {
			return errors.New("the session at the provider has ended")
		}
	}
	out.SessionIndex = s.Attrs["SessionIndex"]
	c, err := s.One(nsAssertion, "AuthnContext")
	if err != nil {
		return err
	}
	ref, err := c.Child(nsAssertion, "AuthnContextClassRef")
	if err != nil {
		return err
	}
	if ref != nil {
		out.ClassRef = collapse(ref.Content)
	}
	if len(want.Classes) > 0 && !slices.Contains(want.Classes, out.ClassRef) {
		return errClass
	}
	return nil
}

// errClass says that the provider has signed the person in, and not as strongly as was asked.
var errClass = errors.New("a sign-in of a class that was not requested")

var dateTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?$`)

// parseTime reads an xs:dateTime. A time without zone is UTC (SAML core 1.3.3).
func parseTime(s string) (time.Time, error) {
	if !dateTime.MatchString(s) {
		return time.Time{}, errors.New("missing, or not a time")
	}
	if last := s[len(s)-1]; last != 'Z' && !strings.ContainsAny(s[19:], "+-") {
		s += "Z"
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, errors.New("not a time")
	}
	return t.UTC(), nil
}

// collapse removes white space around an xs:anyURI.
func collapse(s string) string { return strings.TrimFunc(s, safexml.IsSpace) }
