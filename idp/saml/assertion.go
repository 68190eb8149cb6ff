package saml

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	maxNameID = 1024 // characters
	maxIndex  = 1024 // characters of a SessionIndex
	maxSealed = 20   // encrypted attributes and names in attributes
)

// readAssertion checks a verified assertion against all rules and returns its content. until is the time at which it
// expires.
func (v *verifier) readAssertion(ctx context.Context, a *node, want expectation, now time.Time) (out *verified,
	until time.Time, err error,
) {
	if err := a.Closed("Issuer", "Subject", "Conditions", "Advice", "AuthnStatement", "AttributeStatement",
		"AuthzDecisionStatement"); err != nil {
		return nil, until, err
	}
	if err := v.issued(a, now); err != nil {
		return nil, until, err
	}
	out = &verified{ID: a.Attrs["ID"]}
	if out.Issuer, err = issuer(a); err != nil {
		return nil, until, err
	}
	if out.Issuer != want.Provider.EntityID {
		return nil, until, errors.New("the assertion is from another issuer")
	}
	if err := v.checkConditions(a, now); err != nil {
		return nil, until, err
	}
	subject, err := a.One(nsAssertion, "Subject")
	if err != nil {
		return nil, until, err
	}
	if err := subject.Closed("NameID", "EncryptedID", "SubjectConfirmation"); err != nil {
		return nil, until, err
	}
	if out.NameID, err = v.readNameID(ctx, subject); err != nil {
		return nil, until, err
	}
	if until, err = checkConfirmation(subject, want, now); err != nil {
		return nil, until, err
	}
	if err := checkAuthn(a, want, now, out); err != nil {
		return nil, until, err
	}
	if !idp.IsText(out.SessionIndex, maxIndex) {
		return nil, until, errors.New("a SessionIndex with control characters, or too long")
	}
	if out.Attributes, err = v.readAttributes(ctx, a); err != nil {
		return nil, until, err
	}
	return out, until, nil
}

// readNameID returns the name of the person unchanged: white space and case are kept. The element around the name is
// verified; the name may be encrypted.
func (v *verifier) readNameID(ctx context.Context, around *node) (nameID, error) {
	n, err := around.Child(nsAssertion, "NameID")
	if err != nil {
		return nameID{}, err
	}
	sealed, err := around.Child(nsAssertion, "EncryptedID")
	if err != nil {
		return nameID{}, err
	}
	switch {
	case n == nil && sealed == nil:
		return nameID{}, fmt.Errorf("no NameID in %s", around.Local)
	case n != nil && sealed != nil:
		return nameID{}, fmt.Errorf("two names in %s", around.Local)
	case n == nil:
		if n, err = v.decrypt(ctx, sealed, map[string]bool{}, nsAssertion, "NameID"); err != nil {
			return nameID{}, fmt.Errorf("EncryptedID: %w", err)
		}
	}
	id := nameID{Format: n.Attrs["Format"], NameQualifier: n.Attrs["NameQualifier"], SPNameQualifier: n.Attrs["SPNameQualifier"]}
	if id.Value, err = n.Text(); err != nil {
		return nameID{}, err
	}
	for _, s := range []string{id.Value, id.Format, id.NameQualifier, id.SPNameQualifier} {
		if !idp.IsText(s, maxNameID) {
			return nameID{}, errors.New("a NameID with control characters, or too long")
		}
	}
	if collapse(id.Value) == "" {
		return nameID{}, errors.New("an empty NameID")
	}
	return id, nil
}

// readAttributes returns the attributes. Some providers repeat an attribute for each of its values; these are merged.
// Encrypted ones are opened, since the element around them is verified.
func (v *verifier) readAttributes(ctx context.Context, a *node) ([]attribute, error) {
	var out []attribute
	index := map[string]int{}
	sealed := 0
	for _, s := range a.Children(nsAssertion, "AttributeStatement") {
		if err := s.Closed("Attribute", "EncryptedAttribute"); err != nil {
			return nil, err
		}
		for _, c := range s.Elements {
			if sealed += c.Count("EncryptedAttribute", "EncryptedID"); sealed > maxSealed {
				return nil, errors.New("too many encrypted attributes")
			}
			if c.Local == "EncryptedAttribute" {
				var err error
				if c, err = v.decrypt(ctx, c, map[string]bool{}, nsAssertion, "Attribute"); err != nil {
					return nil, fmt.Errorf("EncryptedAttribute: %w", err)
				}
				if sealed += c.Count("EncryptedID"); sealed > maxSealed {
					return nil, errors.New("too many encrypted attributes")
				}
			}
			name := c.Attrs["Name"]
			if name == "" {
				return nil, errors.New("an attribute without a name")
			}
			i, ok := index[name]
			if !ok {
				i = len(out)
				index[name] = i
				out = append(out, attribute{Name: name, FriendlyName: c.Attrs["FriendlyName"]})
			}
			for _, value := range c.Children(nsAssertion, "AttributeValue") {
				if err := v.readValue(ctx, value, &out[i]); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// readValue adds a value to an attribute. A name in it can be encrypted; one that is sealed for others is left out.
func (v *verifier) readValue(ctx context.Context, value *node, to *attribute) error {
	if len(value.Elements) == 1 && collapse(value.Content) == "" {
		switch c := value.Elements[0]; {
		case c.Is(nsAssertion, "EncryptedID") && forOthers(c, v.entityID):
			return nil
		case c.Is(nsAssertion, "EncryptedID"):
			id, err := v.readNameID(ctx, value)
			if err != nil {
				return fmt.Errorf("a name in an attribute: %w", err)
			}
			to.Names = append(to.Names, id)
			to.Values = append(to.Values, id.Value)
			return nil
		case c.Is(nsAssertion, "NameID"):
			if id, err := v.readNameID(ctx, value); err == nil {
				to.Names = append(to.Names, id)
			}
		}
	}
	if text, ok := attributeText(value); ok {
		to.Values = append(to.Values, text)
	}
	return nil
}

// attributeText returns the whole text of a value. For a NameID in a value (eduPersonTargetedID) that is the text of
// the NameID. A value with other elements is left out.
func attributeText(n *node) (string, bool) {
	if nothing := n.Attrs["{"+nsXSI+"}nil"]; nothing == "true" || nothing == "1" {
		return "", false
	}
	if len(n.Elements) == 1 && n.Elements[0].Is(nsAssertion, "NameID") && collapse(n.Content) == "" {
		n = n.Elements[0]
	}
	return n.Content, len(n.Elements) == 0
}
