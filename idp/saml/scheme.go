package saml

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// Schemes are national sign-in services with special rules for SAML.
// (docs/decisions/configuration.md#digid-and-etoegang)
const (
	DigiD    = "digid"
	EToegang = "etoegang"
)

// scheme has the rules of such a service.
type scheme struct {
	// assurance are its levels, the lowest first.
	assurance []assurance
	// client says that the back channel requires our client certificate.
	client bool
	// artifact says that an answer must come by artifact; one that the browser delivers itself is refused.
	artifact bool
	// byIndex says that a request names our endpoint by its index instead of its address.
	byIndex bool
	// soapLogout says that the service signs people out by a direct SOAP request, without the browser.
	soapLogout bool
	// subject returns the permanent name of the person, and adds the parts of it to the attributes.
	subject func(v *verified, raw map[string][]string) (string, error)
}

// assurance is a level of a scheme: our name for it, the class in messages, and the authentication level that it counts
// as here.
type assurance struct {
	name, class string
	level       int
}

const (
	classes = "urn:oasis:names:tc:SAML:2.0:ac:classes:"
	loa     = "urn:etoegang:core:assurance-class:loa"
)

var schemes = map[string]*scheme{
	DigiD: {
		assurance: []assurance{
			{"basic", classes + "PasswordProtectedTransport", 1},
			{"middle", classes + "MobileTwoFactorContract", 2},
			{"substantial", classes + "Smartcard", 3},
			{"high", classes + "SmartcardPKI", 4},
		},
		client: true, artifact: true, soapLogout: true, subject: sectorNumber,
	},
	EToegang: {
		assurance: []assurance{
			{"non_existent", loa + "1", 1},
			{"low", loa + "2", 1},
			{"low_plus", loa + "2plus", 2},
			{"substantial", loa + "3", 3},
			{"high", loa + "4", 4},
		},
		byIndex: true, subject: actingSubject,
	},
}

// schemeLevels returns the names of the levels of a scheme, the lowest first, and nil for an unknown scheme.
func schemeLevels(name string) (out []string) {
	if s := schemes[name]; s != nil {
		for _, a := range s.assurance {
			out = append(out, a.name)
		}
	}
	return out
}

// validateScheme returns what is wrong with the members that need a scheme, or that a scheme decides.
func (c Config) validateScheme() error {
	if c.Scheme == "" {
		if c.Assurance != "" || c.Via != "" {
			return errors.New("assurance and via need a scheme")
		}
		return nil
	}
	s := schemes[c.Scheme]
	if s == nil {
		return fmt.Errorf("scheme %q is neither %s nor %s", c.Scheme, DigiD, EToegang)
	}
	var wrong []error
	if names := schemeLevels(c.Scheme); !slices.Contains(names, c.Assurance) {
		wrong = append(wrong, coded.Errorf("one_of", "- - list", "assurance %q of the scheme %s is not one of %s", c.Assurance, c.Scheme, strings.Join(names, ", ")))
	}
	if s.client && c.ClientKey == "" {
		wrong = append(wrong, coded.Errorf("client_key", "", "the scheme %s needs client_key: its back channel requires a client certificate", c.Scheme))
	}
	if c.Via != "" && (c.Scheme != EToegang || !isURI(c.Via)) {
		wrong = append(wrong, coded.Errorf("via", "value -", "via %q is not the entity id of an authentication service of %s", c.Via, EToegang))
	}
	if c.AuthnContext != nil || len(c.Levels) > 0 || c.NameID != "" || c.AllowUnsolicited {
		wrong = append(wrong, fmt.Errorf("the scheme %s decides authn_context, map_level, name_id and allow_unsolicited: leave them out",
			c.Scheme))
	}
	return errors.Join(wrong...)
}

// from returns the named level and those above it.
func (s *scheme) from(name string) []assurance {
	i := slices.IndexFunc(s.assurance, func(a assurance) bool { return a.name == name })
	return s.assurance[max(i, 0):]
}

// ask returns the context to request for an authentication level, and the classes that an answer can have. For a level
// that the scheme does not reach, it asks for the highest class.
func (s *scheme) ask(name string, level int) (*AuthnContext, []string) {
	rest := s.from(name)
	if i := slices.IndexFunc(rest, func(a assurance) bool { return a.level >= level }); i >= 0 {
		rest = rest[i:]
	} else {
		rest = rest[len(rest)-1:]
	}
	var accepted []string
	for _, a := range rest {
		accepted = append(accepted, a.class)
	}
	return &AuthnContext{Comparison: "minimum", Classes: accepted[:1]}, accepted
}

// level returns the authentication level of a class.
func (s *scheme) level(class string) int {
	i := slices.IndexFunc(s.assurance, func(a assurance) bool { return a.class == class })
	if i < 0 {
		return lowest
	}
	return s.assurance[i].level
}

// sectorCode matches a NameID of DigiD: the code of a register, and a number in it.
var sectorCode = regexp.MustCompile(`^s(\d{8}):(\d{9})$`)

// registers are the kinds of numbers that DigiD gives, by their sector codes.
var registers = map[string]string{"00000000": "bsn", "00000001": "sofi"}

// sectorNumber parses a NameID of DigiD. The whole of it identifies the person, so a number in one register is never
// mistaken for one in another.
func sectorNumber(v *verified, raw map[string][]string) (string, error) {
	parts := sectorCode.FindStringSubmatch(v.NameID.Value)
	if parts == nil || registers[parts[1]] == "" || !isCitizenNumber(parts[2]) {
		return "", &idp.Invalid{Reason: "the NameID is not a sector code with a citizen service number"}
	}
	raw[registers[parts[1]]] = []string{parts[2]}
	return v.NameID.Value, nil
}

// isCitizenNumber checks nine digits by the rule of eleven: the weighted sum of the digits is divisible by it.
func isCitizenNumber(digits string) bool {
	sum, zero := 0, true
	for i, d := range digits {
		weight := 9 - i
		if weight == 1 {
			weight = -1
		}
		sum += weight * int(d-'0')
		zero = zero && d == '0'
	}
	return sum%11 == 0 && !zero
}

// actingSubjects and legalSubjects are the attributes with the names of the person who signs in, and of the party that
// they act for. Only a broker of the scheme sets them.
var (
	actingSubjects = []string{"urn:etoegang:core:ActingSubjectID", "urn:nl-eid-gdi:1.0:ActingSubjectID"}
	legalSubjects  = []string{"urn:etoegang:core:LegalSubjectID", "urn:nl-eid-gdi:1.0:LegalSubjectID"}
)

// representation is the attribute that says whether someone acts for the legal subject.
const representation = "urn:etoegang:core:Representation"

// isRepresented reads a value of this attribute. A value that is not an xs:boolean counts as true.
func isRepresented(s string) bool { return !slices.Contains([]string{"false", "0"}, collapse(s)) }

// actingSubject returns the name of the person who signs in, which is in an attribute: the NameID changes each time.
// The kind of the name is part of it, so a pseudonym is never mistaken for a number. A legal subject that is not a
// person, such as a company with its number in the trade register, is refused: everyone who acts for it would get the
// same account. A legal subject that someone acts for is another person, even if we cannot read who acts.
func actingSubject(v *verified, raw map[string][]string) (string, error) {
	for _, a := range v.Attributes {
		for _, n := range a.Names {
			if n.NameQualifier != "" {
				raw[n.NameQualifier] = append(raw[n.NameQualifier], n.Value)
			}
		}
	}
	for i, among := range [][]string{actingSubjects, legalSubjects} {
		names, there := namesIn(v, among)
		if len(names) > 1 {
			names = slices.DeleteFunc(names, func(n nameID) bool { return !strings.HasSuffix(n.NameQualifier, ":BSN") })
		}
		if i > 0 && len(names) == 1 && !strings.HasSuffix(names[0].NameQualifier, ":BSN") &&
			!strings.HasSuffix(names[0].NameQualifier, ":PseudoID") {
			return "", &idp.Rejection{Reason: "the provider names an organisation, but not the person who acts for it: no ActingSubjectID"}
		}
		switch {
		case i > 0 && there && slices.ContainsFunc(raw[representation], isRepresented):
			return "", &idp.Rejection{Reason: "the provider names the party that the person acts for, but not the person: no ActingSubjectID"}
		case len(names) == 1:
			return names[0].NameQualifier + ":" + names[0].Value, nil
		case there:
			return "", &idp.Rejection{Reason: "the provider names the person in several ways, or in no way that we can read: set subject"}
		}
	}
	if v.NameID.Format == formatTransient {
		return "", &idp.Rejection{Reason: "the provider gives the person another name at each sign-in, and no ActingSubjectID"}
	}
	return v.NameID.Value, nil
}

// namesIn returns the names in some attributes that we can read and whose kind is known, and whether any of these
// attributes is there.
func namesIn(v *verified, attributes []string) (names []nameID, there bool) {
	for _, a := range v.Attributes {
		if slices.Contains(attributes, a.Name) {
			names, there = append(names, a.Names...), true
		}
	}
	return slices.DeleteFunc(names, func(n nameID) bool { return n.NameQualifier == "" }), there
}

// isOfAnother reports whether an attribute, or a kind of name, belongs to a legal subject that someone else acts for:
// it must not identify the person who signs in.
func isOfAnother(v *verified, name string) bool {
	if _, acts := namesIn(v, actingSubjects); !acts {
		return false
	}
	legal, there := namesIn(v, legalSubjects)
	return there && slices.Contains(legalSubjects, name) || slices.ContainsFunc(legal, func(n nameID) bool { return n.NameQualifier == name })
}
