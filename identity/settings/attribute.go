package settings

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// claimNames are other words for the claims of a person.
var claimNames = map[string]string{
	"mail": "email", "email_address": "email", "emailaddress": "email", "first_name": "given_name", "firstname": "given_name",
	"givenname": "given_name",
	"last_name": "family_name", "lastname": "family_name", "surname": "family_name", "sn": "family_name",
	"display_name": "name", "displayname": "name",
	"mobile": "phone_number", "mobile_number": "phone_number", "phone": "phone_number", "date_of_birth": "birthdate",
	"preferred_locale": "locale",
	"user_name":        "username", "preferred_username": "username", "uid": "username", "group": "groups", "person_id": "id",
}

// claims are the claims of a person that service providers can be told.
var claims = []string{
	"id", "username", "groups", "partition", "name", "given_name", "family_name", "middle_name", "nickname",
	"email", "phone_number", "locale", "birthdate", "gender", "zoneinfo", "profile", "picture", "address",
}

// Claim returns the claim of a person that a word means. Otherwise isClaim is false, and the word names an attribute of
// the operator's own.
func Claim(word string) (name string, isClaim bool) {
	folded := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	if name, ok := claimNames[folded]; ok {
		return name, true
	}
	if slices.Contains(claims, folded) {
		return folded, true
	}
	return word, false
}

// MeantClaim returns the claim of a person that a word was probably meant to be. "": it is one, or a name of the
// operator's own.
func MeantClaim(word string) string {
	name, isClaim := Claim(word)
	if isClaim || len(name) < 4 || strings.ContainsAny(name, "0123456789") { // oid and sid are no misspelled id
		return ""
	}
	return spelling.Word(strings.ToLower(name), claims)
}

// IsClaim reports whether a word is the very name of a claim of a person.
func IsClaim(word string) bool { return slices.Contains(claims, word) }

// attributeName is the name of a custom attribute, or of a provider's. Its length is counted apart: an expression that
// counts to 256 keeps the tables of all letters 256 times, 7 MB.
var attributeName = regexp.MustCompile(`^[\pL\pN_.:/#?&=%+-]+$`)

const maxAttributeName = 256 // characters

// checkAttribute returns what is wrong with the name of an attribute of persons. Names of the operator's own are those
// of the custom fields, and others that are not nearly the name of a claim.
func (u *Units) checkAttribute(word string) error {
	name, isClaim := Claim(word)
	switch {
	case isClaim, u.hasCustomField(name):
		return nil
	case utf8.RuneCountInString(name) > maxAttributeName, !attributeName.MatchString(name):
		return coded.New("no_such_attribute", "is not an attribute of a person, and cannot be the name of a custom attribute")
	}
	if meant := MeantClaim(word); meant != "" {
		return coded.Errorf("attribute_meant", "meant", "is not an attribute of a person: did you mean %s?", meant)
	}
	return nil
}

// hasCustomField reports whether a login method has a custom field of a name, or gives people an attribute of it.
func (u *Units) hasCustomField(name string) bool {
	return slices.ContainsFunc(u.LoginMethods.LoginMethods, func(m LoginMethod) bool {
		return slices.ContainsFunc(m.CustomAttributeFields, func(f CustomAttributeField) bool { return f.Name == name }) ||
			slices.ContainsFunc(m.AttributeMappings, func(a AttributeMapping) bool { return a.MapTo == name })
	})
}

// The words of saml_subject_name_attributes. (docs/decisions/saml.md#saml-subject-names)
var (
	// SubjectFormats are the formats of names of subjects by their short names.
	SubjectFormats = map[string]string{
		"persistent": "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", "transient": "urn:oasis:names:tc:SAML:2.0:nameid-format:transient",
		"email": "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress", "unspecified": "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified",
	}
	subjectTypes = []string{"persistent", "transient", "unspecified", "custom", "custom_attribute"}
)

// check says what is wrong with the name of a subject.
func (s *SAMLSubjectName) check(u *Units, at string, c *checker) {
	kind := strings.ToLower(s.Type)
	if _, isClaim := Claim(kind); kind != "" && !isClaim && !slices.Contains(subjectTypes, kind) {
		c.addText(at+".type", s.Type,
			coded.Errorf("subject_type", "list", "must be %s, the name of a claim, or empty", strings.Join(subjectTypes, ", ")))
	}
	known := s.Format == ""
	for short, uri := range SubjectFormats {
		known = known || strings.EqualFold(s.Format, short) || s.Format == uri
	}
	if !known {
		c.addText(at+".format", s.Format,
			coded.New("subject_format", "must be persistent, transient, email, unspecified, the URI of one of them, or empty"))
	}
	if strings.HasPrefix(kind, "custom") && s.CustomAttributeKey == "" {
		c.addText(at+".custom_attribute_key", s.Type, coded.Errorf("required", "", "is missing: the type is %s", kind))
	}
	if s.Default != "" {
		if err := u.checkAttribute(s.Default); err != nil {
			c.addText(at+".default", s.Default, err)
		}
	}
}

// checkAttributes says what is wrong with what service providers learn.
func checkAttributes(u *Units, at string, mapping CustomAttributesMapping, attributes map[string]IdentityAttribute, c *checker) {
	if from, to := mapping.AttributeToMapFrom, mapping.AttributeToMapTo; (from == "") != (to == "") {
		missing := "attribute_to_map_from"
		if to == "" {
			missing = "attribute_to_map_to"
		}
		c.addText(at+".custom_attribute_mappings."+missing, from+to, coded.New("both", "is missing: a mapping has two sides"))
	}
	for key, a := range attributes {
		name, path := a.AttributeName, at+".identity_attributes."+shown(key)
		if name == "" {
			name = key
		} else {
			path += ".attribute_name"
		}
		if err := u.checkAttribute(name); err != nil {
			c.addText(path, name, err)
		}
		for format, as := range a.SAMLAttributeNames {
			if strings.TrimSpace(as) == "" {
				c.addText(at+".identity_attributes."+shown(key)+".saml_attribute_names."+shown(format), as,
					coded.New("empty", "is empty: an assertion names each of its attributes"))
			}
		}
	}
}
