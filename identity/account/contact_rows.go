package account

import (
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// emailPart lists the addresses and takes a new one.
func (s *Service) emailPart(a *front.Visit, v *profilePage) page.Part {
	part := page.Part{ID: "emails", Title: page.Say("profile.emails"), Empty: "profile.emails.none"}
	row := contactRow{kind: person.ContactEmail, verifies: s.front.VerifiesEmail(a.Settings), locked: v.locked("email")}
	for _, e := range v.own.EmailAddresses {
		row.value, row.primary, row.verified = e.Value, e.Primary, e.Verified
		part.Rows = append(part.Rows, row.render(a))
	}
	if v.edit != string(person.ContactEmail) {
		part.Links = []page.Action{{Label: "profile.emails.add", URL: editURL(string(person.ContactEmail))}}
		return part
	}
	part.Form = contactForm(a, v, person.ContactEmail, "profile.emails.add", page.Field{
		Type: "email", Label: "profile.emails.new", Autocomplete: "email", MaxLength: 254,
	})
	return part
}

// phonePart lists the numbers and takes a new one.
func (s *Service) phonePart(a *front.Visit, v *profilePage) page.Part {
	part := page.Part{ID: "phones", Title: page.Say("profile.phones"), Empty: "profile.phones.none"}
	row := contactRow{kind: person.ContactPhone, verifies: s.person.VerifiesPhone(a.Settings)}
	for _, n := range v.own.PhoneNumbers {
		row.value, row.primary, row.verified = n.Value, n.Primary, n.Verified
		part.Rows = append(part.Rows, row.render(a))
	}
	if v.edit != string(person.ContactPhone) {
		part.Links = []page.Action{{Label: "profile.phones.add", URL: editURL(string(person.ContactPhone))}}
		return part
	}
	part.Form = contactForm(a, v, person.ContactPhone, "profile.phones.add", page.Field{
		Type: "tel", Label: "profile.phones.new", Hint: "profile.phones.hint", Autocomplete: "tel", MaxLength: person.MaxTag,
	})
	return part
}

// contactRow is one address or number.
type contactRow struct {
	kind              person.ContactKind
	value             string
	primary, verified bool
	verifies          bool // contacts of this kind are verified, and only a verified one can become the primary one
	locked            bool // a provider writes the primary one
}

// render returns the row with the actions that the contact allows.
func (c contactRow) render(a *front.Visit) page.Row {
	row := page.Row{Icon: c.kind.Icon(), Name: c.value}
	add := func(label, do string) {
		row.Actions = append(row.Actions, page.Action{Label: label, URL: contactPath, CSRF: a.CSRF, Danger: do == "remove", Fields: []page.Hidden{
			{Name: "kind", Value: string(c.kind)}, {Name: "value", Value: c.value}, {Name: "do", Value: do},
		}})
	}
	if c.primary {
		row.Mark = page.Say("profile.primary")
	}
	switch {
	case c.verified:
		row.Details = []page.Text{page.Say("profile.verified")}
	case c.verifies:
		row.Details = []page.Text{page.Say("profile.unverified")}
		add("attention.verify", "verify")
	}
	if !c.primary && !c.locked && (c.verified || !c.verifies) {
		add("profile.make_primary", "primary")
	}
	if !c.primary || c.kind == person.ContactPhone {
		add("security.remove", "remove")
	}
	return row
}

// contactForm is the form with the field f for a new contact.
func contactForm(a *front.Visit, v *profilePage, kind person.ContactKind, submit string, f page.Field) *page.PartForm {
	name := person.Contact{Kind: kind}.Field()
	f.Name, f.ID, f.Required = "value", string(kind), true
	f.Value, f.Problem = v.values[name], v.problems[name]
	f.Focus = true
	return &page.PartForm{
		Action: contactPath, CSRF: a.CSRF, Submit: submit, Fields: []page.Field{f},
		Hidden: []page.Hidden{{Name: "kind", Value: string(kind)}, {Name: "do", Value: "add"}},
	}
}
