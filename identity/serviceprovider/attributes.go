package serviceprovider

import (
	"maps"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// verifiable are the attributes that can be known to be the person's.
var verifiable = map[string]bool{"email": true, "phone_number": true}

// canonical is the name of a claim, or the given name of another attribute.
func canonical(source string) string {
	name, _ := settings.Claim(source)
	return name
}

func isClaim(name string) bool {
	is, ok := settings.Claim(name)
	return ok && is == name
}

// subject is a person who signs in at a service provider.
type subject struct {
	authn.Subject

	custom map[string][]string // attributes that are no claims, by name
}

// subjectIn reads a person. details are what the provider of the sign-in has said.
func (s *Service) subjectIn(tx storage.Tx, personID string, details map[string][]string) (*subject, error) {
	who, err := s.deps.Person.Get(tx, personID)
	if err != nil {
		return nil, err
	}
	profile, err := s.deps.Person.Profile(tx, personID)
	if err != nil {
		return nil, err
	}
	return &subject{who, customOf(profile.CustomAttributes, details)}, nil
}

func customOf(own []person.CustomAttribute, details map[string][]string) map[string][]string {
	out := map[string][]string{}
	for name, values := range details {
		out[name] = slices.Clone(values)
	}
	for _, c := range own {
		if value, ok := person.CustomValue(own, c.Name); ok && value != "" {
			out[c.Name] = []string{value}
		}
	}
	return out
}

// values returns an attribute of the person, and whether it is known to be theirs.
func (p *subject) values(source string) (values []string, verified bool) {
	name := canonical(source)
	switch name {
	case "id":
		return []string{p.ID}, true
	case "username":
		return []string{p.Username}, true
	case "groups":
		return p.Groups, true
	}
	if isClaim(name) {
		if v := p.Profile[name]; v != "" {
			return []string{v}, !verifiable[name] || p.Profile[name+"_verified"] == "true"
		}
		return nil, false
	}
	return p.custom[source], true
}

// releasedAttribute is an attribute with the values of a person.
type releasedAttribute struct {
	Attribute

	values []string
}

// release returns what a service provider is told of a person, and the required attributes that the person lacks.
func (m *member) release(p *subject) (out []releasedAttribute, missing []string) {
	rows := map[string]bool{}
	for _, a := range m.Attributes {
		rows[a.Source] = true
		values, verified := p.values(a.Source)
		if !a.Unverified && !verified {
			values = nil
		}
		if len(values) == 0 {
			if a.Required {
				missing = append(missing, a.Source)
			}
			continue
		}
		out = append(out, releasedAttribute{a, values})
	}
	if !m.Unmapped {
		return out, missing
	}
	for _, name := range slices.Sorted(maps.Keys(p.custom)) {
		if !rows[name] && len(p.custom[name]) > 0 && canonical(name) == name && !isClaim(name) {
			out = append(out, releasedAttribute{Attribute{Source: name}, p.custom[name]})
		}
	}
	return out, missing
}

// written are attributes as they stand in an assertion.
func (m *member) written(list []releasedAttribute) (out []samlidp.Attribute) {
	for _, t := range list {
		if len(t.Names) == 0 {
			name := t.Source
			if renamed, ok := m.Rename[name]; ok {
				name = renamed
			}
			out = append(out, samlidp.Attribute{Name: name, Format: samlidp.NameFormats["basic"], Values: t.values})
			continue
		}
		for _, n := range t.Names {
			out = append(out, samlidp.Attribute{Name: n.Name, Format: samlidp.NameFormats[n.Format], Values: t.values})
		}
	}
	return out
}

// sources are the names of attributes.
func sources(list []releasedAttribute) (out []string) {
	for _, t := range list {
		out = append(out, t.Source)
	}
	return out
}
