package person

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// VerifiesPhone reports whether phone numbers are verified by a code.
func (s *Service) VerifiesPhone(u *settings.Units) bool {
	return s.SendsTexts(u) && u.Attributes.Verification.MobileNumberEnabled
}

// Contact is one way to reach a person: an e-mail address or a phone number.
type Contact struct {
	Kind  ContactKind
	Value string
}

// Find returns the place of the contact in a profile, and whether it is primary and verified. i is -1 if it is absent.
func (c Contact) Find(p *Profile) (i int, primary, verified bool) {
	if c.Kind == ContactPhone {
		if i = slices.IndexFunc(p.PhoneNumbers, func(n PhoneNumber) bool { return sameNumber(n.Value, c.Value) }); i >= 0 {
			return i, p.PhoneNumbers[i].Primary, p.PhoneNumbers[i].Verified
		}
		return -1, false, false
	}
	if i = slices.IndexFunc(p.EmailAddresses, func(e EmailAddress) bool { return FoldEmail(e.Value) == FoldEmail(c.Value) }); i >= 0 {
		return i, p.EmailAddresses[i].Primary, p.EmailAddresses[i].Verified
	}
	return -1, false, false
}

// sameNumber reports whether two spellings mean the same number.
func sameNumber(a, b string) bool {
	x, isX := ParsePhone(a)
	y, isY := ParsePhone(b)
	return a == b || isX && isY && x == y
}

// Put adds the contact. If it is present, Put can only mark it as verified.
func (c Contact) Put(p *Profile, verified bool) {
	i, _, _ := c.Find(p)
	switch {
	case i < 0 && c.Kind == ContactPhone:
		p.PhoneNumbers = append(p.PhoneNumbers, PhoneNumber{Value: c.Value, Verified: verified})
	case i < 0:
		p.EmailAddresses = append(p.EmailAddresses, EmailAddress{Value: c.Value, Verified: verified})
	case c.Kind == ContactPhone:
		p.PhoneNumbers[i].Verified = p.PhoneNumbers[i].Verified || verified
	case verified:
		p.EmailAddresses[i].Verified, p.EmailAddresses[i].Stated = true, false
	}
}

// Drop removes the contact. The primary e-mail address stays.
func (c Contact) Drop(p *Profile) {
	i, primary, _ := c.Find(p)
	switch {
	case i < 0:
	case c.Kind == ContactPhone:
		p.PhoneNumbers = slices.Delete(p.PhoneNumbers, i, i+1)
	case !primary: // another one must become primary first
		p.EmailAddresses = slices.Delete(p.EmailAddresses, i, i+1)
	}
}

// Prefer makes the contact the primary one.
func (c Contact) Prefer(p *Profile) {
	at, _, _ := c.Find(p)
	if at < 0 {
		return
	}
	if c.Kind == ContactPhone {
		for i := range p.PhoneNumbers {
			p.PhoneNumbers[i].Primary = i == at
		}
		return
	}
	for i := range p.EmailAddresses {
		p.EmailAddresses[i].Primary = i == at
	}
}

// Problem returns the message of why the contact cannot be added, or "".
func (c Contact) Problem(u *settings.Units, p *Profile, verifies bool) string {
	i, _, verified := c.Find(p)
	_, isNumber := ParsePhone(c.Value)
	switch {
	case c.Kind == ContactEmail && (!IsPublicEmail(c.Value) || !u.Features.CustomEmailValidation.Check(c.Value)):
		return "problem.email"
	case c.Kind == ContactPhone && !isNumber:
		return "problem.phone"
	case i >= 0 && (verified || !verifies):
		return "problem.contact_there"
	case c.Kind == ContactEmail && len(p.EmailAddresses) >= MaxEntries, c.Kind == ContactPhone && len(p.PhoneNumbers) >= MaxEntries:
		return "problem.contact_many"
	}
	return ""
}

// Field returns the name of the form field for a new contact of this kind.
func (c Contact) Field() string { return "contact_" + string(c.Kind) }

// ContactKind is a kind of contacts.
type ContactKind string

// The kinds of contacts.
const (
	ContactEmail ContactKind = "email"
	ContactPhone ContactKind = "phone"
)

// Icon returns the name of the icon of this kind.
func (k ContactKind) Icon() string {
	return map[ContactKind]string{ContactEmail: "mail", ContactPhone: "phone"}[k]
}
