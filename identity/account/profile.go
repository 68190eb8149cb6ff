package account

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// profilePage is the content of the page about a person's profile.
type profilePage struct {
	own      person.Profile
	writers  []*federation.Member // providers that write the profile
	values   formValues
	problems map[string]string
	kept     newContactRecord // a contact that was typed before a step-up. Zero: none
	focus    string           // its field. Empty: none
	edit     string           // the part that is edited: details, more, address, email, phone. Empty: none
	// fields are the custom fields that the person can change, custom are their values.
	fields person.CustomFields
	custom []person.CustomAttribute
	// signals tells the browser how the person is called now. (web.View)
	signals string
}

// locked reports whether a provider writes a part of the profile.
func (v *profilePage) locked(part string) bool {
	return federation.SynchronisedDetails[part] != nil &&
		slices.ContainsFunc(v.writers, func(p *federation.Member) bool { return p.Writes(part) })
}

// readWriters returns the providers that write what they know of a person into the profile at each sign-in.
func readWriters(tx storage.Tx, g *federation.Registry, personID string) (out []*federation.Member, err error) {
	for e, err := range person.IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		if p := g.Get(storage.Parts(e.Key)[1]); p != nil && p.Synchronise && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// profileReader returns what reads the content of the page in a transaction.
func (s *Service) profileReader(q *webflow.Request) (func(tx storage.Tx) (*profilePage, error), error) {
	g, err := s.deps.Federation.Registry(q.Context(), q.Settings)
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx) (*profilePage, error) {
		v, personID := &profilePage{}, q.SignIn.Session.PersonID
		d, err := s.deps.Person.Details(tx, personID)
		if err != nil {
			return nil, err
		}
		v.own, v.values, v.custom = d.Profile, valuesOf(d.Profile), d.Profile.CustomAttributes
		if v.fields, err = person.CustomFieldsFor(tx, q.Settings, personID); err != nil {
			return nil, err
		}
		if v.writers, err = readWriters(tx, g, personID); err != nil {
			return nil, err
		}
		if v.signals, err = s.deps.StepUp.PasskeySignals(tx, q.SignIn); err != nil {
			return nil, err
		}
		v.kept, _, err = typedContacts.Find(tx, q.SignIn.ID)
		return v, err
	}, nil
}

// readProfile reads the content of the page.
func (s *Service) readProfile(q *webflow.Request) (v *profilePage, err error) {
	read, err := s.profileReader(q)
	if err != nil {
		return nil, err
	}
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		v, err = read(tx)
		return err
	})
	return v, err
}

// showProfile serves GET /account/profile?edit=…: what is known of the person, or the form for a part of that.
func (s *Service) showProfile(q *webflow.Request) error {
	self, edit := webflow.ProfilePath, q.URL.Query().Get("edit")
	if slices.Contains(editable, edit) {
		self = editURL(edit)
	}
	a, err := s.deps.Front.VisitOf(q, self)
	if err != nil {
		return err
	}
	v, err := s.readProfile(q)
	if err != nil {
		return err
	}
	if a.CSRF, err = s.deps.Front.FormToken(q, webflow.SessionForm(webflow.ProfilePath, a.SignIn)); err != nil {
		return err
	}
	v.edit = edit
	v.fillIn(s.deps.Now())
	return s.renderProfile(a, v, http.StatusOK, web.Dashboard{})
}

func (s *Service) renderProfile(a *webflow.Visit, v *profilePage, status int, d web.Dashboard) error {
	d.Key = "profile"
	details, address := s.detailsPart(a, v, d.Problem != ""), s.addressPart(a, v, d.Problem != "")
	switch v.edit { // one thing to do
	case "details", "more":
		d.Parts = []web.Part{details}
	case "address":
		d.Parts = []web.Part{address}
	case string(person.ContactEmail):
		d.Parts = []web.Part{s.emailPart(a, v)}
	case string(person.ContactPhone):
		d.Parts = []web.Part{s.phonePart(a, v)}
	default:
		v.edit = ""
		d.Parts = []web.Part{details, s.emailPart(a, v), s.phonePart(a, v)}
		if len(v.own.Addresses) > 0 {
			d.Parts = append(d.Parts, address)
		}
		d.Parts = append(d.Parts, addressParts(a, v)...)
		d.Parts = append(d.Parts, customParts(a, v, d.Problem != "")...)
	}
	if v.edit != "" {
		d.Cancel = webflow.ProfilePath
	}
	return s.renderSignalling(a, status, v.signals, d)
}

// editable are the parts of the profile that have a form.
var editable = []string{"details", "more", "address", string(person.ContactEmail), string(person.ContactPhone)}

func editURL(part string) string { return webflow.ProfilePath + "?edit=" + part }

// detailsPart shows who the person is, or the form to change that.
func (s *Service) detailsPart(a *webflow.Visit, v *profilePage, notice bool) web.Part {
	part := web.Part{ID: "who", Title: web.Say("profile.details")}
	if v.locked("given_name") || v.locked("family_name") || v.locked("locale") {
		var names []string
		for _, p := range v.writers {
			names = append(names, p.Name)
		}
		part.Text = web.Say("profile.synchronised", "provider", strings.Join(names, ", "))
	}
	if v.edit == "details" || v.edit == "more" {
		part.Form = s.profileForm(a, v, "details", notice)
		return part
	}
	for _, f := range profileFields {
		if value := v.values[f.name]; value != "" && f.form == "details" {
			part.Facts = append(part.Facts, s.fact(a, f.name, value))
		}
	}
	part.Links = []web.Action{{Label: "profile.edit", URL: editURL("details")}}
	if !v.asksMore(a.Settings) {
		part.Links = append(part.Links, web.Action{Label: "profile.more", URL: editURL("more")})
	}
	if len(v.own.Addresses) == 0 {
		part.Links = append(part.Links, web.Action{Label: "profile.address.add", URL: editURL("address")})
	}
	return part
}

// fact is a value of the details as people read it.
func (s *Service) fact(a *webflow.Visit, name, value string) web.Fact {
	out := web.Fact{Label: "profile." + name, Value: value}
	switch name {
	case "gender":
		out.Text = web.Say("profile.gender." + value)
	case "locale":
		for _, l := range s.deps.Pages.Offered(a.Context()) {
			if l.Tag == value {
				out.Value = l.Name
			}
		}
	}
	return out
}

// addressPart shows the main postal address, or the form to change it.
func (s *Service) addressPart(a *webflow.Visit, v *profilePage, notice bool) web.Part {
	part := web.Part{ID: "post", Title: web.Say("profile.address")}
	if v.edit == "address" {
		part.Form = s.profileForm(a, v, "address", notice)
		part.Form.Quiet = false
		return part
	}
	if i := mainAddress(v.own.Addresses); i >= 0 {
		part.Rows = []web.Row{{
			Icon: "mail", Name: v.own.Addresses[i].Line(),
			Actions: []web.Action{{Label: "profile.edit", URL: editURL("address")}},
		}}
	}
	return part
}

// asksMore reports whether the form of the details has the date of birth and the gender: if the profile has one of
// them, if the settings ask for the date, or if the person does.
func (v *profilePage) asksMore(u *settings.Units) bool {
	return v.edit == "more" || v.values["date_of_birth"]+v.values["gender"] != "" || v.problems["date_of_birth"]+v.problems["gender"] != "" ||
		slices.ContainsFunc(v.own.Missing(u), func(rule []string) bool { return slices.Contains(rule, settings.AttributeBirthDate) })
}

// handleProfile serves POST /account/profile: one of the forms.
func (s *Service) handleProfile(q *webflow.Request) error {
	a, err := s.deps.Front.VisitPost(q, webflow.ProfilePath)
	if err != nil {
		return err
	}
	v, err := s.readProfile(q)
	if err != nil {
		return err
	}
	form := q.PostForm.Get("form")
	if form == "custom" {
		return s.changeCustom(a, v)
	}
	v.edit = form
	v.values.read(q.PostForm, form, v.locked)
	if l := v.values["locale"]; l != v.own.PreferredLocale &&
		!slices.ContainsFunc(s.languages(a, ""), func(o web.Option) bool { return o.Value == l }) {
		v.values["locale"] = v.own.PreferredLocale
	}
	if v.problems = v.values.problems(form, a.Settings, s.deps.Now()); len(v.problems) > 0 {
		v.values.clear(v.problems)
		return s.renderProfile(a, v, http.StatusUnprocessableEntity, web.Dashboard{})
	}
	return s.saveProfile(a, v, func(p *person.Profile) { v.values.applyTo(p, form, v.locked) })
}

// saveProfile changes the profile by a form of the page. The language of the browser follows that of the profile.
func (s *Service) saveProfile(a *webflow.Visit, v *profilePage, change func(*person.Profile)) error {
	after, err := s.update(a, func(_ storage.Tx, d *person.Details) error {
		change(&d.Profile)
		return nil
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		return a.Redirect(webflow.ProfilePath)
	case errors.As(err, new(*person.ValidationError)):
		return s.renderProfile(a, v, http.StatusUnprocessableEntity, web.Dashboard{Problem: "problem.profile"})
	case err != nil:
		return err
	}
	switch after.Profile.PreferredLocale {
	case v.own.PreferredLocale:
	case "":
		s.deps.Pages.Forget(a.W, a.Request.Request)
	default:
		s.deps.Pages.Choose(a.W, a.Request.Request, after.Profile.PreferredLocale)
	}
	return a.Redirect(doneURL(webflow.ProfilePath, "saved"))
}
