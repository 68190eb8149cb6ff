package account

import (
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// emailPart lists the addresses and takes a new one.
func (s *Service) emailPart(a *webflow.Visit, v *profilePage) web.Part {
	part := web.Part{ID: "emails", Title: web.Say("profile.emails"), Empty: "profile.emails.none"}
	row := contactRow{kind: person.ContactEmail, verifies: s.deps.Front.VerifiesEmail(a.Settings), locked: v.locked("email")}
	for _, e := range v.own.EmailAddresses {
		row.value, row.primary, row.verified = e.Value, e.Primary, e.Verified
		part.Rows = append(part.Rows, row.render(a))
	}
	if v.edit != string(person.ContactEmail) {
		part.Links = []web.Action{{Label: "profile.emails.add", URL: editURL(string(person.ContactEmail))}}
		return part
	}
	part.Form = contactForm(a, v, person.ContactEmail, "profile.emails.add", web.Field{
		Type: "email", Label: "profile.emails.new", Autocomplete: "email", MaxLength: 254,
	})
	return part
}

// phonePart lists the numbers and takes a new one.
func (s *Service) phonePart(a *webflow.Visit, v *profilePage) web.Part {
	part := web.Part{ID: "phones", Title: web.Say("profile.phones"), Empty: "profile.phones.none"}
	row := contactRow{kind: person.ContactPhone, verifies: s.deps.Person.VerifiesPhone(a.Settings)}
	for _, n := range v.own.PhoneNumbers {
		row.value, row.primary, row.verified = n.Value, n.Primary, n.Verified
		part.Rows = append(part.Rows, row.render(a))
	}
	if v.edit != string(person.ContactPhone) {
		part.Links = []web.Action{{Label: "profile.phones.add", URL: editURL(string(person.ContactPhone))}}
		return part
	}
	part.Form = contactForm(a, v, person.ContactPhone, "profile.phones.add", web.Field{
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
func (c contactRow) render(a *webflow.Visit) web.Row {
	row := web.Row{Icon: c.kind.Icon(), Name: c.value}
	add := func(label, do string) {
		row.Actions = append(row.Actions, web.Action{Label: label, URL: contactPath, CSRF: a.CSRF, Danger: do == "remove", Fields: []web.Hidden{
			{Name: "kind", Value: string(c.kind)}, {Name: "value", Value: c.value}, {Name: "do", Value: do},
		}})
	}
	if c.primary {
		row.Mark = web.Say("profile.primary")
	}
	switch {
	case c.verified:
		row.Details = []web.Text{web.Say("profile.verified")}
	case c.verifies:
		row.Details = []web.Text{web.Say("profile.unverified")}
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
func contactForm(a *webflow.Visit, v *profilePage, kind person.ContactKind, submit string, f web.Field) *web.PartForm {
	name := person.Contact{Kind: kind}.Field()
	f.Name, f.ID, f.Required = "value", string(kind), true
	f.Value, f.Problem = v.values[name], v.problems[name]
	f.Focus = true
	return &web.PartForm{
		Action: contactPath, CSRF: a.CSRF, Submit: submit, Fields: []web.Field{f},
		Hidden: []web.Hidden{{Name: "kind", Value: string(kind)}, {Name: "do", Value: "add"}},
	}
}
