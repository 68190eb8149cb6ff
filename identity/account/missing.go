package account

import (
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// missingFields are the details that a profile still lacks.
type missingFields struct {
	required []string   // names of fields
	oneOf    [][]string // one field of each group is enough
	custom   person.CustomFields
}

// completeFields are the fields of the page, in their order.
var completeFields = []string{"given_name", "family_name", "date_of_birth", "email", "phone"}

func (m *missingFields) isEmpty() bool { return len(m.required)+len(m.oneOf)+len(m.custom) == 0 }

// asks reports whether the page shows a field, and whether it must be filled in.
func (m *missingFields) asks(name string) (shown, required bool) {
	required = slices.Contains(m.required, name)
	return required || slices.ContainsFunc(m.oneOf, func(g []string) bool { return slices.Contains(g, name) }), required
}

// add demands one of these fields. Fields that the page cannot ask for do not count.
func (m *missingFields) add(can func(string) bool, names ...string) {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !can(n) })
	switch len(names) {
	case 0:
	case 1:
		if !slices.Contains(m.required, names[0]) {
			m.required = append(m.required, names[0])
		}
	default:
		m.oneOf = append(m.oneOf, names)
	}
}

// findMissing returns what a profile lacks. contacts reports whether this sign-in is strong enough to set an address or
// a number.
func (s *Service) findMissing(u *settings.Units, p *person.Profile, fields person.CustomFields, contacts bool) (m missingFields) {
	can := func(name string) bool {
		switch name {
		case "email": // an address that cannot be confirmed would be asked for at each sign-in
			return contacts && (s.deps.Front.VerifiesEmail(u) || !p.HasEmail(false))
		case "phone":
			return contacts
		}
		return true
	}
	must := u.Attributes.PersonCreationMandatoryFields
	if must.FirstNameRequired && strings.TrimSpace(p.Name.FirstName) == "" {
		m.add(can, "given_name")
	}
	if must.LastNameRequired && strings.TrimSpace(p.Name.LastName) == "" {
		m.add(can, "family_name")
	}
	for _, rule := range p.Missing(u) {
		var names []string
		for _, attribute := range rule {
			names = append(names, webflow.AttributeFields[attribute]...)
		}
		if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(m.required, n) }) {
			m.add(can, names...)
		}
	}
	if must.MobileNumberRequired && len(p.PhoneNumbers) == 0 {
		m.add(can, "phone")
	}
	// One code at a time: the number is asked for after the address.
	if slices.Contains(m.required, "email") && s.deps.Front.VerifiesEmail(u) && s.deps.Person.VerifiesPhone(u) {
		m.required = slices.DeleteFunc(m.required, func(n string) bool { return n == "phone" })
	}
	m.custom = fields.Lacking(p.CustomAttributes)
	return m
}
