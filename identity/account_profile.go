package identity

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	xlanguage "golang.org/x/text/language"

	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// synchronised are the providers that write what they know of a person into the profile at each sign-in.
func (s *Service) synchronised(tx storage.Tx, g *registry, personID string) (out []*registered, err error) {
	for e, err := range identitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		if p := g.get(storage.Parts(e.Key)[1]); p != nil && p.Synchronise && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// profileFields are the fields of the two forms of a profile: their names, and where they stand.
var profileFields = []struct {
	form, name, autocomplete string
	value                    func(p *Profile) *string
}{
	{"details", "given_name", "given-name", func(p *Profile) *string { return &p.Name.FirstName }},
	{"details", "family_name", "family-name", func(p *Profile) *string { return &p.Name.LastName }},
	{"details", "date_of_birth", "bday", func(p *Profile) *string { return &p.DateOfBirth }},
	{"details", "gender", "sex", func(p *Profile) *string { return &p.Gender }},
	{"details", "locale", "language", func(p *Profile) *string { return &p.PreferredLocale }},
	{"address", "street", "address-line1", func(p *Profile) *string { return &p.Addresses[0].StreetName }},
	{"address", "house_number", "off", nil},
	{"address", "house_number_addition", "address-line2", func(p *Profile) *string { return &p.Addresses[0].HouseNumberAddition }},
	{"address", "postal_code", "postal-code", func(p *Profile) *string { return &p.Addresses[0].PostalCode }},
	{"address", "city", "address-level2", func(p *Profile) *string { return &p.Addresses[0].City }},
	{"address", "region", "address-level1", func(p *Profile) *string { return &p.Addresses[0].Region }},
	{"address", "country", "country", func(p *Profile) *string { return &p.Addresses[0].CountryCode }},
}

// typed is a profile as a form has it, before it is checked.
type typed map[string]string

// shownAs returns what the forms of a profile say. The primary address comes first.
func shownAs(p Profile) typed {
	p = p.clone()
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
func mainAddressFirst(p *Profile) {
	i := max(0, slices.IndexFunc(p.Addresses, func(a Address) bool { return a.Primary }))
	if len(p.Addresses) == 0 {
		p.Addresses = []Address{{Primary: true}}
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
		if !isText(t[name], maxLine) {
			t[name] = ""
		}
	}
}

// into writes what was typed into a form into the profile. What a provider writes stays as it is.
func (t typed) into(p *Profile, form string, locked func(string) bool) {
	if form == "address" {
		mainAddressFirst(p)
		p.Addresses[0].HouseNumber, _ = strconv.Atoi(t["house_number"]) // it was checked
	}
	for _, f := range profileFields {
		if f.form == form && f.value != nil && !locked(f.name) {
			*f.value(p) = t[f.name]
		}
	}
	if form == "address" && p.Addresses[0] == (Address{Primary: p.Addresses[0].Primary}) {
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
		case !isText(v, maxLine):
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

// profilePage is what the page about a person's profile shows.
type profilePage struct {
	own      Profile
	writers  []*registered // providers that write the profile
	values   typed
	problems map[string]string
	focus    string // the field that was typed into before a step-up. Empty: none
	// fields are the custom ones that the person may change, custom what is in them.
	fields customFields
	custom []CustomAttribute
}

// locked tells whether a provider writes a part of the profile.
func (v *profilePage) locked(part string) bool {
	return synchronisedDetails[part] != nil && slices.ContainsFunc(v.writers, func(p *registered) bool { return p.writes(part) })
}

// readOwn reads what the page shows.
func (s *Service) readOwn(r *http.Request, a *onAccount) (*profilePage, error) {
	g, err := s.providers(r.Context())
	if err != nil {
		return nil, err
	}
	v := &profilePage{}
	err = s.Store.View(r.Context(), func(tx storage.Tx) error {
		d, err := s.Details(tx, a.si.session.PersonID)
		if err != nil {
			return err
		}
		v.own = d.Profile
		if v.fields, err = customFieldsFor(tx, a.u, a.si.session.PersonID); err != nil {
			return err
		}
		v.writers, err = s.synchronised(tx, g, a.si.session.PersonID)
		return err
	})
	v.values, v.custom = shownAs(v.own), v.own.CustomAttributes
	return v, err
}

// showProfile serves GET /account/profile.
func (s *Service) showProfile(w http.ResponseWriter, r *http.Request) {
	a, ok := s.account(w, r, profilePath)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err == nil {
		err = s.showKept(r, a, v)
	}
	if err != nil {
		s.fail(w, r, err, profilePath)
		return
	}
	s.profilePage(w, r, a, v, http.StatusOK, page.Dashboard{})
}

func (s *Service) profilePage(w http.ResponseWriter, r *http.Request, a *onAccount, v *profilePage, status int, d page.Dashboard) {
	d.Key = "profile"
	d.Parts = []page.Part{
		{ID: "who", Title: page.Say("profile.details"), Form: s.profileForm(r.Context(), a, v, "details", d.Problem != "")},
		s.emailPart(a, v),
		s.phonePart(a, v),
		{ID: "post", Title: page.Say("profile.address"), Form: s.profileForm(r.Context(), a, v, "address", d.Problem != "")},
	}
	if v.locked("given_name") || v.locked("family_name") || v.locked("locale") {
		var names []string
		for _, p := range v.writers {
			names = append(names, p.Name)
		}
		d.Parts[0].Text = page.Say("profile.synchronised", "provider", strings.Join(names, ", "))
	}
	d.Parts = append(d.Parts, a.otherAddresses(v)...)
	d.Parts = append(d.Parts, customParts(a, v, d.Problem != "")...)
	s.accountPage(w, r, a, status, d)
}

// profileForm is one of the two forms.
func (s *Service) profileForm(ctx context.Context, a *onAccount, v *profilePage, form string, notice bool) *page.PartForm {
	out := &page.PartForm{Action: profilePath, CSRF: a.csrf, Submit: "profile.save", Hidden: []page.Hidden{{Name: "form", Value: form}}, Quiet: form != "details"}
	for _, f := range profileFields {
		if f.form != form {
			continue
		}
		field := page.Field{
			Name: f.name, Label: "profile." + f.name, Value: v.values[f.name], Problem: v.problems[f.name], Autocomplete: f.autocomplete,
			Required: a.mustHave(f.name), MaxLength: maxLine,
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

// mustHave tells whether a detail may not be left empty.
func (a *onAccount) mustHave(name string) bool {
	must := a.u.Attributes.PersonCreationMandatoryFields
	return name == "given_name" && must.FirstNameRequired || name == "family_name" && must.LastNameRequired
}

// languages are those to choose from, and the one that is chosen.
func (s *Service) languages(ctx context.Context, chosen string) []page.Option {
	out := []page.Option{{Value: "", Label: "profile.locale.none"}}
	found := chosen == ""
	for _, l := range s.Pages.Offered(ctx) {
		out = append(out, page.Option{Value: l.Tag, Label: l.Name})
		found = found || l.Tag == chosen
	}
	if !found {
		out = append(out, page.Option{Value: chosen, Label: chosen})
	}
	return out
}

// customParts are the custom attributes: a form for those that the person is asked for, a list of the others.
func customParts(a *onAccount, v *profilePage, notice bool) (out []page.Part) {
	if len(v.fields) > 0 {
		form := &page.PartForm{
			Action: profilePath, CSRF: a.csrf, Submit: "profile.save", Hidden: []page.Hidden{{Name: "form", Value: "custom"}}, Quiet: true, Fields: v.fields.inputs(v.custom, v.problems),
		}
		if len(v.problems) > 0 {
			form.Fields = page.Fields(notice, form.Fields...)
		}
		out = append(out, page.Part{ID: "asked", Title: page.Say("profile.custom"), Form: form})
	}
	part := page.Part{ID: "more", Title: page.Say("profile.custom"), Text: page.Say("profile.custom.text")}
	if len(v.fields) > 0 {
		part.Title = page.Say("profile.custom.kept")
	}
	for _, c := range v.own.CustomAttributes {
		if !v.fields.have(c.Name) {
			part.Facts = append(part.Facts, page.Fact{Label: c.Name, Value: c.Value})
		}
	}
	if len(part.Facts) > 0 {
		out = append(out, part)
	}
	return out
}

// handleProfile serves POST /account/profile: one of the forms.
func (s *Service) handleProfile(w http.ResponseWriter, r *http.Request) {
	a, ok := s.accountPost(w, r, profilePath)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err != nil {
		s.fail(w, r, err, profilePath)
		return
	}
	form := r.PostForm.Get("form")
	if form == "custom" {
		s.changeCustom(w, r, a, v)
		return
	}
	v.values.read(r, form, v.locked)
	if l := v.values["locale"]; l != v.own.PreferredLocale && !slices.ContainsFunc(s.languages(r.Context(), ""), func(o page.Option) bool { return o.Value == l }) {
		v.values["locale"] = v.own.PreferredLocale
	}
	if v.problems = v.values.problems(form, a.mustHave, s.Now()); len(v.problems) > 0 {
		v.values.hide(v.problems)
		s.profilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{})
		return
	}
	after, err := s.UpdatePerson(r.Context(), a.si.session.PersonID, Edit{By: s.actor(r, a.si)}, func(tx storage.Tx, d *Details) error {
		v.values.into(&d.Profile, form, v.locked)
		return s.still(tx, a)
	})
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, profilePath)
	case errors.As(err, new(*ValidationError)):
		s.profilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{Problem: "problem.profile"})
	case err != nil:
		s.fail(w, r, err, profilePath)
	default:
		switch after.Profile.PreferredLocale {
		case v.own.PreferredLocale:
		case "":
			s.Pages.Forget(w, r)
		default:
			s.Pages.Choose(w, r, after.Profile.PreferredLocale)
		}
		s.redirect(w, r, doneURL(profilePath, "saved"))
	}
}

// changeCustom takes the form of the custom fields.
func (s *Service) changeCustom(w http.ResponseWriter, r *http.Request, a *onAccount, v *profilePage) {
	v.problems = map[string]string{}
	if v.custom = v.fields.read(r, v.problems); len(v.problems) > 0 {
		s.profilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{})
		return
	}
	_, err := s.UpdatePerson(r.Context(), a.si.session.PersonID, Edit{By: s.actor(r, a.si)}, func(tx storage.Tx, d *Details) error {
		d.Profile.setCustom(v.custom)
		return s.still(tx, a)
	})
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, profilePath)
	case errors.As(err, new(*ValidationError)):
		s.profilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{Problem: "problem.profile"})
	case err != nil:
		s.fail(w, r, err, profilePath)
	default:
		s.redirect(w, r, doneURL(profilePath, "saved"))
	}
}

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
		part.Rows = append(part.Rows, a.contactRow(contactEmail, e.Value, e.Primary, e.Verified, s.verifiesEmail(a.u), v.locked("email")))
	}
	part.Form = a.contactForm(contactEmail, v, page.Field{Name: "value", ID: "email", Type: "email", Label: "profile.emails.new", Autocomplete: "email", MaxLength: 254, Required: true})
	return part
}

// phonePart lists the numbers, and takes a new one.
func (s *Service) phonePart(a *onAccount, v *profilePage) page.Part {
	part := page.Part{ID: "phones", Title: page.Say("profile.phones"), Empty: "profile.phones.none"}
	for _, n := range v.own.PhoneNumbers {
		part.Rows = append(part.Rows, a.contactRow(contactPhone, n.Value, n.Primary, n.Verified, s.verifiesPhone(a.u), false))
	}
	part.Form = a.contactForm(contactPhone, v, page.Field{
		Name: "value", ID: "phone", Type: "tel", Label: "profile.phones.new", Hint: "profile.phones.hint", Autocomplete: "tel", MaxLength: maxTag, Required: true,
	})
	return part
}

// contactRow is one address or number with what can be done about it. Where they are verified only one that is can become the primary one. What a
// provider writes stays primary.
func (a *onAccount) contactRow(kind contactKind, value string, primary, verified, verifies, locked bool) page.Row {
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

func (a *onAccount) contactForm(kind contactKind, v *profilePage, f page.Field) *page.PartForm {
	name := contact{Kind: kind}.field()
	f.Value, f.Problem = v.values[name], v.problems[name]
	f.Focus = f.Problem != "" || v.focus == name
	return &page.PartForm{
		Action: contactPath, CSRF: a.csrf, Submit: cmp.Or(map[contactKind]string{contactPhone: "profile.phones.add"}[kind], "profile.emails.add"), Quiet: true, Fields: []page.Field{f},
		Hidden: []page.Hidden{{Name: "kind", Value: string(kind)}, {Name: "do", Value: "add"}},
	}
}
