package account

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// profileFields are the fields of the two forms of a profile, and the part of the profile that each one shows.
var profileFields = []struct {
	form, name, autocomplete string
	value                    func(p *person.Profile) *string
}{
	{"details", "given_name", "given-name", func(p *person.Profile) *string { return &p.Name.FirstName }},
	{"details", "family_name", "family-name", func(p *person.Profile) *string { return &p.Name.LastName }},
	{"details", "date_of_birth", "bday", func(p *person.Profile) *string { return &p.DateOfBirth }},
	{"details", "gender", "sex", func(p *person.Profile) *string { return &p.Gender }},
	{"details", "locale", "language", func(p *person.Profile) *string { return &p.PreferredLocale }},
	{"address", "street", "address-line1", func(p *person.Profile) *string { return &p.Addresses[0].StreetName }},
	{"address", "house_number", "off", nil},
	{"address", "house_number_addition", "address-line2", func(p *person.Profile) *string { return &p.Addresses[0].HouseNumberAddition }},
	{"address", "postal_code", "postal-code", func(p *person.Profile) *string { return &p.Addresses[0].PostalCode }},
	{"address", "city", "address-level2", func(p *person.Profile) *string { return &p.Addresses[0].City }},
	{"address", "region", "address-level1", func(p *person.Profile) *string { return &p.Addresses[0].Region }},
	{"address", "country", "country", func(p *person.Profile) *string { return &p.Addresses[0].CountryCode }},
}

// formValues are the values of the forms by field, before they are checked.
type formValues map[string]string

// valuesOf returns a profile as the forms show it.
func valuesOf(p person.Profile) formValues {
	p = p.Clone()
	putMainFirst(&p)
	out := formValues{}
	for _, f := range profileFields {
		if f.value != nil {
			out[f.name] = *f.value(&p)
		}
	}
	if n := p.Addresses[0].HouseNumber; n != 0 {
		out["house_number"] = strconv.Itoa(n)
	}
	return out
}

// putMainFirst puts the address that the page shows first. If there is no address, it adds an empty one.
func putMainFirst(p *person.Profile) {
	if len(p.Addresses) == 0 {
		p.Addresses = []person.Address{{Primary: true}}
	}
	i := mainAddress(p.Addresses)
	p.Addresses[0], p.Addresses[i] = p.Addresses[i], p.Addresses[0]
}

// offered are the fields that the form has only for people who want them.
var offered = map[string]bool{"date_of_birth": true, "gender": true}

// read reads a form. Fields that a provider writes, and those that the form did not show, keep their values.
func (t formValues) read(form url.Values, name string, locked func(string) bool) {
	for _, f := range profileFields {
		if f.form == name && !locked(f.name) && (form.Has(f.name) || !offered[f.name]) {
			t[f.name] = strings.TrimSpace(form.Get(f.name))
		}
	}
	t["country"] = strings.ToUpper(t["country"])
}

// clear empties the fields with problems whose values are unfit to be shown again.
func (t formValues) clear(problems map[string]string) {
	for name := range problems {
		if !person.IsText(t[name], person.MaxLine) {
			t[name] = ""
		}
	}
}

// applyTo writes the values of a form, which were checked, into the profile. Parts that a provider writes stay as they
// are.
func (t formValues) applyTo(p *person.Profile, form string, locked func(string) bool) {
	if form == "address" {
		putMainFirst(p)
		p.Addresses[0].HouseNumber, _ = strconv.Atoi(t["house_number"])
	}
	for _, f := range profileFields {
		if f.form == form && f.value != nil && !locked(f.name) {
			*f.value(p) = t[f.name]
		}
	}
	if form == "address" && p.Addresses[0] == (person.Address{Primary: p.Addresses[0].Primary}) {
		if p.Addresses = p.Addresses[1:]; len(p.Addresses) > 0 {
			p.Addresses[0].Primary = true
		}
	}
}

// mustHave reports whether the settings demand a field.
func mustHave(u *settings.Units, name string) bool {
	must := u.Attributes.PersonCreationMandatoryFields
	return name == "given_name" && must.FirstNameRequired || name == "family_name" && must.LastNameRequired
}

// problems checks a form and returns the problems by field.
func (t formValues) problems(form string, u *settings.Units, now time.Time) map[string]string {
	out := map[string]string{}
	for _, f := range profileFields {
		v := t[f.name]
		switch {
		case f.form != form:
		case v == "" && mustHave(u, f.name):
			out[f.name] = "problem.required"
		case v == "":
		case !person.IsText(v, person.MaxLine):
			out[f.name] = "problem.text"
		case f.name == "date_of_birth" && !isBirthday(v, now):
			out[f.name] = "problem.date"
		case f.name == "house_number" && !isHouseNumber(v):
			out[f.name] = "problem.house_number"
		case f.name == "country" && !isCountry(v):
			out[f.name] = "problem.country"
		}
	}
	return out
}

func isBirthday(s string, now time.Time) bool {
	t, err := time.Parse(time.DateOnly, s)
	return err == nil && t.Year() >= 1880 && !t.After(now)
}

func isHouseNumber(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n <= 999999
}

func isCountry(s string) bool {
	region, err := xlanguage.ParseRegion(s)
	return err == nil && len(s) == 2 && region.IsCountry()
}

// profileForm is one of the two forms. notice says that the page has a problem above its forms.
func (s *Service) profileForm(a *webflow.Visit, v *profilePage, form string, notice bool) *web.PartForm {
	out := &web.PartForm{
		Action: webflow.ProfilePath, CSRF: a.CSRF, Submit: "profile.save", Hidden: []web.Hidden{{Name: "form", Value: form}},
		Quiet: form != "details",
	}
	for _, f := range profileFields {
		if f.form != form || offered[f.name] && !v.asksMore(a.Settings) {
			continue
		}
		field := web.Field{
			Name: f.name, Label: "profile." + f.name, Value: v.values[f.name], Problem: v.problems[f.name], Autocomplete: f.autocomplete,
			Required: mustHave(a.Settings, f.name), MaxLength: person.MaxLine,
		}
		switch f.name {
		case "date_of_birth":
			field.Type, field.MaxLength = "date", 0
		case "gender":
			field.Type, field.MaxLength, field.Options = "select", 0, genders
		case "locale":
			field.Type, field.MaxLength, field.Options = "select", 0, s.languages(a, v.values[f.name])
		case "house_number":
			field.InputMode, field.MaxLength = "numeric", 6
		case "country":
			field.Type, field.MaxLength = "country", 0
		}
		if v.locked(f.name) {
			if field.Type == "select" {
				continue // HTML has no read-only select
			}
			field.ReadOnly = true
		}
		out.Fields = append(out.Fields, field)
	}
	if len(v.problems) > 0 {
		out.Fields = web.Fields(notice, out.Fields...)
	}
	return out
}

var genders = []web.Option{
	{Value: "", Label: "profile.gender.none"},
	{Value: "F", Label: "profile.gender.F"},
	{Value: "M", Label: "profile.gender.M"},
	{Value: "U", Label: "profile.gender.U"},
}

// languages are the languages on offer, and the chosen one even if it is not.
func (s *Service) languages(a *webflow.Visit, chosen string) []web.Option {
	out := []web.Option{{Value: "", Label: "profile.locale.none"}}
	found := chosen == ""
	for _, l := range s.deps.Pages.Offered(a.Context()) {
		out = append(out, web.Option{Value: l.Tag, Label: l.Name})
		found = found || l.Tag == chosen
	}
	if !found {
		out = append(out, web.Option{Value: chosen, Label: chosen})
	}
	return out
}
