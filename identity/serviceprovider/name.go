package serviceprovider

import (
	"errors"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// formats are the formats of names by their short names.
var formats = settings.SubjectFormats

// spelled returns a format as SAML spells it. Many service providers name a format in the namespace of the other
// version.
func spelled(format string) string {
	for _, version := range []string{"1.1", "2.0"} {
		if name, ok := strings.CutPrefix(format, "urn:oasis:names:tc:SAML:"+version+":nameid-format:"); ok {
			for _, known := range formats {
				if strings.HasSuffix(known, ":nameid-format:"+name) {
					return known
				}
			}
		}
	}
	return format
}

var (
	errPolicy = errors.New("the request asks for a name that the service provider does not get")
	errNoName = errors.New("the person lacks the identifier that the service provider uses")
)

// format returns the format of a name that a request gets, or errPolicy. An address is told only to a service provider
// that the operator tells addresses. (docs/decisions/saml.md#saml-subject-names)
func (m *member) format(meta *samlidp.Metadata, asked, qualifier string) (string, error) {
	if qualifier != "" && qualifier != meta.EntityID {
		return "", errPolicy // of an affiliation
	}
	switch asked = spelled(asked); asked {
	case saml.FormatPersistent, saml.FormatTransient:
		return asked, nil
	case saml.FormatEmail:
		if !m.tellsEmail() {
			return "", errPolicy
		}
		return asked, nil
	case "", saml.FormatUnspecified:
	default:
		return "", errPolicy
	}
	if m.Subject.Format != "" {
		return formats[m.Subject.Format], nil
	}
	if m.Subject.Attribute != "" {
		return saml.FormatUnspecified, nil
	}
	for _, f := range meta.NameIDFormats {
		if f = spelled(f); f == saml.FormatPersistent || f == saml.FormatTransient || f == saml.FormatEmail && m.tellsEmail() {
			return f, nil
		}
	}
	return saml.FormatPersistent, nil
}

func (m *member) tellsEmail() bool {
	return m.Subject.Format == "email" || canonical(m.Subject.Attribute) == "email" ||
		slices.ContainsFunc(m.Attributes, func(a Attribute) bool { return canonical(a.Source) == "email" && !a.Optional })
}

// nameIn returns the name of a person at a service provider. fresh is random, for a name that is made now.
func (s *Service) nameIn(tx storage.Tx, m *member, entity, format string, p *subject, fresh string) (samlidp.NameID, error) {
	out := samlidp.NameID{Format: format}
	switch {
	case format == saml.FormatTransient:
		out.Value = fresh
		return out, nil
	case format == saml.FormatEmail:
		out.Value = only(p, "email")
	case m.Subject.Attribute != "":
		if out.Value = only(p, m.Subject.Attribute); out.Value == "" && m.Subject.Fallback != "" {
			out.Value = only(p, m.Subject.Fallback)
		}
	case format == saml.FormatUnspecified:
		out.Value = p.Username
	default:
		out.Qualifier = entity
		key := storage.Key(p.ID, secret.Hash(entity))
		rec, found, err := names.Find(tx, key)
		if err != nil {
			return out, err
		}
		if !found {
			rec = nameRecord{Value: fresh}
			if err := names.Create(tx, key, rec, never); err != nil {
				return out, err
			}
		}
		out.Value = rec.Value
		return out, nil
	}
	if out.Value == "" {
		return out, errNoName
	}
	return out, nil
}

// isNamed reports whether a request names the person who has signed in: as the service provider knows them, or by what
// they sign in with. It says nothing of anyone else. (SAML core 3.4.1)
func (s *Service) isNamed(tx storage.Tx, m *member, entity string, named nameRef, p *subject) (bool, error) {
	if named.Qualifier != "" && named.Qualifier != entity {
		return false, nil // of an affiliation
	}
	format := spelled(named.Format)
	switch format {
	case saml.FormatTransient:
		return false, nil // which names no one a second time
	case saml.FormatPersistent:
		if m.Subject.Attribute == "" {
			rec, found, err := names.Find(tx, storage.Key(p.ID, secret.Hash(entity)))
			return found && rec.Value == named.Value, err
		}
	case "", saml.FormatUnspecified, saml.FormatEmail:
	default:
		return false, nil
	}
	known := []string{only(p, "email")}
	if format != saml.FormatEmail {
		known = append(known, p.Username)
	}
	if m.Subject.Attribute != "" {
		known = append(known, only(p, m.Subject.Attribute))
	}
	return slices.ContainsFunc(known, func(s string) bool { return s != "" && strings.EqualFold(s, named.Value) }), nil
}

// only returns the one value of an attribute that can name a person. An address that is not known to be the person's
// does not: it can be another person's.
func only(p *subject, source string) string {
	values, verified := p.values(source)
	if len(values) != 1 || !verified {
		return ""
	}
	return values[0]
}
