package account

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// profileFields are the fields of the two forms of a profile: their names, and where they stand.
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

// typed is a profile as a form has it, before it is checked.
type typed map[string]string

// shownAs returns what the forms of a profile say. The primary address comes first.
func shownAs(p person.Profile) typed {
	p = p.Clone()
	mainAddressFirst(&p)
	out := typed{}
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

// mainAddressFirst puts the address that the page shows at the front, an empty one where there is none.
func mainAddressFirst(p *person.Profile) {
	i := max(0, slices.IndexFunc(p.Addresses, func(a person.Address) bool { return a.Primary }))
	if len(p.Addresses) == 0 {
		p.Addresses = []person.Address{{Primary: true}}
	}
	p.Addresses[0], p.Addresses[i] = p.Addresses[i], p.Addresses[0]
}

// read reads a form. What a provider writes stays as it is.
func (t typed) read(r *http.Request, form string, locked func(string) bool) {
	for _, f := range profileFields {
		if f.form == form && !locked(f.name) {
			t[f.name] = strings.TrimSpace(r.PostForm.Get(f.name))
		}
	}
	t["country"] = strings.ToUpper(t["country"])
}

// hide empties the fields with problems that cannot be shown again.
func (t typed) hide(problems map[string]string) {
	for name := range problems {
		if !person.IsText(t[name], person.MaxLine) {
			t[name] = ""
		}
	}
}

// into writes what was typed into a form into the profile. What a provider writes stays as it is.
func (t typed) into(p *person.Profile, form string, locked func(string) bool) {
	if form == "address" {
		mainAddressFirst(p)
		p.Addresses[0].HouseNumber, _ = strconv.Atoi(t["house_number"]) // it was checked
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

// problems says what of a form cannot be taken, by field.
func (t typed) problems(form string, must func(name string) bool, now time.Time) map[string]string {
	out := map[string]string{}
	for _, f := range profileFields {
		v := t[f.name]
		switch {
		case f.form != form:
		case v == "" && must(f.name):
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

// profileForm is one of the two forms.
func (s *Service) profileForm(ctx context.Context, a *front.Visit, v *profilePage, form string, notice bool) *page.PartForm {
	out := &page.PartForm{Action: front.ProfilePath, CSRF: a.Csrf, Submit: "profile.save", Hidden: []page.Hidden{{Name: "form", Value: form}}, Quiet: form != "details"}
	for _, f := range profileFields {
		if f.form != form {
			continue
		}
		field := page.Field{
			Name: f.name, Label: "profile." + f.name, Value: v.values[f.name], Problem: v.problems[f.name], Autocomplete: f.autocomplete,
			Required: a.MustHave(f.name), MaxLength: person.MaxLine,
		}
		switch f.name {
		case "date_of_birth":
			field.Type, field.MaxLength = "date", 0
		case "gender":
			field.Type, field.MaxLength = "select", 0
			field.Options = []page.Option{{Value: "", Label: "profile.gender.none"}, {Value: "F", Label: "profile.gender.F"}, {Value: "M", Label: "profile.gender.M"}, {Value: "U", Label: "profile.gender.U"}}
		case "locale":
			field.Type, field.MaxLength, field.Options = "select", 0, s.languages(ctx, v.values[f.name])
		case "house_number":
			field.InputMode, field.MaxLength = "numeric", 6
		case "country":
			field.MaxLength, field.Hint = 2, "profile.country.hint"
		}
		if v.locked(f.name) {
			if field.Type == "select" {
				continue // there is no such field that can be read only
			}
			field.ReadOnly = true
		}
		out.Fields = append(out.Fields, field)
	}
	if len(v.problems) > 0 {
		out.Fields = page.Fields(notice, out.Fields...)
	}
	return out
}

// languages are those to choose from, and the one that is chosen.
func (s *Service) languages(ctx context.Context, chosen string) []page.Option {
	out := []page.Option{{Value: "", Label: "profile.locale.none"}}
	found := chosen == ""
	for _, l := range s.pages.Offered(ctx) {
		out = append(out, page.Option{Value: l.Tag, Label: l.Name})
		found = found || l.Tag == chosen
	}
	if !found {
		out = append(out, page.Option{Value: chosen, Label: chosen})
	}
	return out
}
