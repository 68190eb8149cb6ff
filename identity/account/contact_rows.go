package account

import (
	"cmp"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// emailPart lists the addresses, and takes a new one.
func (s *Service) emailPart(a *front.Visit, v *profilePage) page.Part {
	part := page.Part{ID: "emails", Title: page.Say("profile.emails"), Empty: "profile.emails.none"}
	for _, e := range v.own.EmailAddresses {
		part.Rows = append(part.Rows, contactRow(a, person.ContactEmail, e.Value, e.Primary, e.Verified, s.front.VerifiesEmail(a.U), v.locked("email")))
	}
	part.Form = contactForm(a, person.ContactEmail, v, page.Field{Name: "value", ID: "email", Type: "email", Label: "profile.emails.new", Autocomplete: "email", MaxLength: 254, Required: true})
	return part
}

// phonePart lists the numbers, and takes a new one.
func (s *Service) phonePart(a *front.Visit, v *profilePage) page.Part {
	part := page.Part{ID: "phones", Title: page.Say("profile.phones"), Empty: "profile.phones.none"}
	for _, n := range v.own.PhoneNumbers {
		part.Rows = append(part.Rows, contactRow(a, person.ContactPhone, n.Value, n.Primary, n.Verified, s.person.VerifiesPhone(a.U), false))
	}
	part.Form = contactForm(a, person.ContactPhone, v, page.Field{
		Name: "value", ID: "phone", Type: "tel", Label: "profile.phones.new", Hint: "profile.phones.hint", Autocomplete: "tel", MaxLength: person.MaxTag, Required: true,
	})
	return part
}

// contactRow is one address or number with what can be done about it. Where they are verified only one that is can become the primary one. What a
// provider writes stays primary.
func contactRow(a *front.Visit, kind person.ContactKind, value string, primary, verified, verifies, locked bool) page.Row {
	row := page.Row{Icon: kind.Icon(), Name: value}
	do := func(label, what string) {
		row.Actions = append(row.Actions, page.Action{Label: label, URL: contactPath, CSRF: a.Csrf, Fields: []page.Hidden{
			{Name: "kind", Value: string(kind)}, {Name: "value", Value: value}, {Name: "do", Value: what},
		}})
	}
	if primary {
		row.Mark = page.Say("profile.primary")
	}
	switch {
	case verified:
		row.Details = []page.Text{page.Say("profile.verified")}
	case verifies:
		row.Details = []page.Text{page.Say("profile.unverified")}
		do("attention.verify", "verify")
	}
	if !primary && !locked && (verified || !verifies) {
		do("profile.make_primary", "primary")
	}
	if !primary || kind == person.ContactPhone {
		do("security.remove", "remove")
	}
	return row
}

func contactForm(a *front.Visit, kind person.ContactKind, v *profilePage, f page.Field) *page.PartForm {
	name := person.Contact{Kind: kind}.Field()
	f.Value, f.Problem = v.values[name], v.problems[name]
	f.Focus = f.Problem != "" || v.focus == name
	return &page.PartForm{
		Action: contactPath, CSRF: a.Csrf, Submit: cmp.Or(map[person.ContactKind]string{person.ContactPhone: "profile.phones.add"}[kind], "profile.emails.add"), Quiet: true, Fields: []page.Field{f},
		Hidden: []page.Hidden{{Name: "kind", Value: string(kind)}, {Name: "do", Value: "add"}},
	}
}
