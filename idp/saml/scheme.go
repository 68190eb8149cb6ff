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

// Schemes are national sign-in services with rules of their own for SAML.
// (docs/decisions/configuration.md#digid-and-etoegang)
const (
	DigiD    = "digid"
	EToegang = "etoegang"
)

// scheme are the decisions of such a service about SAML.
type scheme struct {
	// assurance are its levels, the lowest first.
	assurance []assurance
	// client says that the back channel does not answer without our certificate.
	client bool
	// artifact says that an answer that the browser brings itself is refused.
	artifact bool
	// byIndex says that a request names our endpoint by its index and not by its address.
	byIndex bool
	// soapLogout says that the service signs people out by a request of its own, without the browser.
	soapLogout bool
	// subject finds the permanent name of the person, and adds what it knows of it to the attributes.
	subject func(v *verified, raw map[string][]string) (string, error)
}

// assurance is a level of a scheme: our name for it, the class in messages, and the authentication level that it is
// worth here.
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

// validateScheme returns what is wrong with the members that only a scheme has, or that a scheme decides.
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

// from returns the levels from the one with that name on.
func (s *scheme) from(name string) []assurance {
	i := slices.IndexFunc(s.assurance, func(a assurance) bool { return a.name == name })
	return s.assurance[max(i, 0):]
}

// ask returns the context to request for an authentication level, and the classes that an answer can have. A level that
// the scheme does not reach is asked for by its highest class.
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

// sectorCode is a name of DigiD: the register that the number is of, and the number.
var sectorCode = regexp.MustCompile(`^s(\d{8}):(\d{9})$`)

// registers are the numbers that DigiD gives, by their sector codes.
var registers = map[string]string{"00000000": "bsn", "00000001": "sofi"}

// sectorNumber takes a name apart that DigiD has given. The whole of it names the person, so a number of one register
// is never taken for that of another.
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

// actingSubjects and legalSubjects are the attributes with the names of the person who signs in, and of whom they act
// for. No one but a broker of the scheme sets them.
var (
	actingSubjects = []string{"urn:etoegang:core:ActingSubjectID", "urn:nl-eid-gdi:1.0:ActingSubjectID"}
	legalSubjects  = []string{"urn:etoegang:core:LegalSubjectID", "urn:nl-eid-gdi:1.0:LegalSubjectID"}
)

// representation is the attribute that says whether someone acts for the legal subject.
const representation = "urn:etoegang:core:Representation"

// isRepresented reads a value of it. What is no xs:boolean counts as true.
func isRepresented(s string) bool { return !slices.Contains([]string{"false", "0"}, collapse(s)) }

// actingSubject finds the name of the person who signs in, which is in an attribute: the NameID is another one each
// time. The kind of the name is part of it, so a pseudonym is never taken for a number. A legal subject that is not a
// person, such as a company by its number in the trade register, would be one account for all who act for it. A legal
// subject for whom someone acts is another person, also where we cannot read who acts.
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
			return "", &idp.Rejection{Reason: "the provider names an organisation, and not the person who acts for it: no ActingSubjectID"}
		}
		switch {
		case i > 0 && there && slices.ContainsFunc(raw[representation], isRepresented):
			return "", &idp.Rejection{Reason: "the provider names whom the person acts for, and not the person: no ActingSubjectID"}
		case len(names) == 1:
			return names[0].NameQualifier + ":" + names[0].Value, nil
		case there:
			return "", &idp.Rejection{Reason: "the provider names the person in several ways, or in none that we can read: set subject"}
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

// isOfAnother reports whether an attribute, or a kind of name, is of a legal subject for whom someone else acts: the
// person who signs in must not be known by it.
func isOfAnother(v *verified, name string) bool {
	if _, acts := namesIn(v, actingSubjects); !acts {
		return false
	}
	legal, there := namesIn(v, legalSubjects)
	return there && slices.Contains(legalSubjects, name) || slices.ContainsFunc(legal, func(n nameID) bool { return n.NameQualifier == name })
}
