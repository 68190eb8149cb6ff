package identity

import (
	"cmp"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

// contactKind is a kind of ways to reach a person.
type contactKind string

// The kinds of ways to reach a person.
const (
	contactEmail contactKind = "email"
	contactPhone contactKind = "phone"
)

func (k contactKind) icon() string {
	return map[contactKind]string{contactEmail: "mail", contactPhone: "phone"}[k]
}

// emailPart lists the addresses, and takes a new one.
func (s *Service) emailPart(a *onAccount, v *profilePage) page.Part {
	part := page.Part{ID: "emails", Title: page.Say("profile.emails"), Empty: "profile.emails.none"}
	for _, e := range v.own.EmailAddresses {
		part.Rows = append(part.Rows, contactRow(a, contactEmail, e.Value, e.Primary, e.Verified, s.verifiesEmail(a.u), v.locked("email")))
	}
	part.Form = contactForm(a, contactEmail, v, page.Field{Name: "value", ID: "email", Type: "email", Label: "profile.emails.new", Autocomplete: "email", MaxLength: 254, Required: true})
	return part
}

// phonePart lists the numbers, and takes a new one.
func (s *Service) phonePart(a *onAccount, v *profilePage) page.Part {
	part := page.Part{ID: "phones", Title: page.Say("profile.phones"), Empty: "profile.phones.none"}
	for _, n := range v.own.PhoneNumbers {
		part.Rows = append(part.Rows, contactRow(a, contactPhone, n.Value, n.Primary, n.Verified, s.verifiesPhone(a.u), false))
	}
	part.Form = contactForm(a, contactPhone, v, page.Field{
		Name: "value", ID: "phone", Type: "tel", Label: "profile.phones.new", Hint: "profile.phones.hint", Autocomplete: "tel", MaxLength: maxTag, Required: true,
	})
	return part
}

// contactRow is one address or number with what can be done about it. Where they are verified only one that is can become the primary one. What a
// provider writes stays primary.
func contactRow(a *onAccount, kind contactKind, value string, primary, verified, verifies, locked bool) page.Row {
	row := page.Row{Icon: kind.icon(), Name: value}
	do := func(label, what string) {
		row.Actions = append(row.Actions, page.Action{Label: label, URL: contactPath, CSRF: a.csrf, Fields: []page.Hidden{
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
	if !primary || kind == contactPhone {
		do("security.remove", "remove")
	}
	return row
}

func contactForm(a *onAccount, kind contactKind, v *profilePage, f page.Field) *page.PartForm {
	name := contact{Kind: kind}.field()
	f.Value, f.Problem = v.values[name], v.problems[name]
	f.Focus = f.Problem != "" || v.focus == name
	return &page.PartForm{
		Action: contactPath, CSRF: a.csrf, Submit: cmp.Or(map[contactKind]string{contactPhone: "profile.phones.add"}[kind], "profile.emails.add"), Quiet: true, Fields: []page.Field{f},
		Hidden: []page.Hidden{{Name: "kind", Value: string(kind)}, {Name: "do", Value: "add"}},
	}
}
