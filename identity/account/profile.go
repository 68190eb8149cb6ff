package account

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
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
	// fields are the custom fields that the person can change, custom are their values.
	fields person.CustomFields
	custom []person.CustomAttribute
}

// locked tells whether a provider writes a part of the profile.
func (v *profilePage) locked(part string) bool {
	return federation.SynchronisedDetails[part] != nil && slices.ContainsFunc(v.writers, func(p *federation.Member) bool { return p.Writes(part) })
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
func (s *Service) profileReader(q *front.Request) (func(tx storage.Tx) (*profilePage, error), error) {
	g, err := s.federation.Registry(q.Context(), q.Settings)
	if err != nil {
		return nil, err
	}
	return func(tx storage.Tx) (*profilePage, error) {
		v, personID := &profilePage{}, q.SignIn.Session.PersonID
		d, err := s.person.Details(tx, personID)
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
		v.kept, _, err = typedContacts.Find(tx, q.SignIn.ID)
		return v, err
	}, nil
}

// readProfile reads the content of the page.
func (s *Service) readProfile(q *front.Request) (v *profilePage, err error) {
	read, err := s.profileReader(q)
	if err != nil {
		return nil, err
	}
	err = s.store.View(q.Context(), func(tx storage.Tx) (err error) {
		v, err = read(tx)
		return err
	})
	return v, err
}

// showProfile serves GET /account/profile.
func (s *Service) showProfile(q *front.Request) error {
	a, err := s.front.VisitOf(q, front.ProfilePath)
	if err != nil {
		return err
	}
	v, err := s.readProfile(q)
	if err != nil {
		return err
	}
	v.fillIn(s.now())
	return s.renderProfile(a, v, http.StatusOK, page.Dashboard{})
}

func (s *Service) renderProfile(a *front.Visit, v *profilePage, status int, d page.Dashboard) error {
	d.Key = "profile"
	d.Parts = []page.Part{
		{ID: "who", Title: page.Say("profile.details"), Form: s.profileForm(a, v, "details", d.Problem != "")},
		s.emailPart(a, v),
		s.phonePart(a, v),
		{ID: "post", Title: page.Say("profile.address"), Form: s.profileForm(a, v, "address", d.Problem != "")},
	}
	if v.locked("given_name") || v.locked("family_name") || v.locked("locale") {
		var names []string
		for _, p := range v.writers {
			names = append(names, p.Name)
		}
		d.Parts[0].Text = page.Say("profile.synchronised", "provider", strings.Join(names, ", "))
	}
	d.Parts = append(d.Parts, addressParts(a, v)...)
	d.Parts = append(d.Parts, customParts(a, v, d.Problem != "")...)
	return s.render(a, status, d)
}

// handleProfile serves POST /account/profile: one of the forms.
func (s *Service) handleProfile(q *front.Request) error {
	a, err := s.front.VisitPost(q, front.ProfilePath)
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
	v.values.read(q.PostForm, form, v.locked)
	if l := v.values["locale"]; l != v.own.PreferredLocale && !slices.ContainsFunc(s.languages(a, ""), func(o page.Option) bool { return o.Value == l }) {
		v.values["locale"] = v.own.PreferredLocale
	}
	if v.problems = v.values.problems(form, a.Settings, s.now()); len(v.problems) > 0 {
		v.values.clear(v.problems)
		return s.renderProfile(a, v, http.StatusUnprocessableEntity, page.Dashboard{})
	}
	return s.saveProfile(a, v, func(p *person.Profile) { v.values.applyTo(p, form, v.locked) })
}

// saveProfile changes the profile by a form of the page. The language of the browser follows that of the profile.
func (s *Service) saveProfile(a *front.Visit, v *profilePage, change func(*person.Profile)) error {
	after, err := s.update(a, func(_ storage.Tx, d *person.Details) error {
		change(&d.Profile)
		return nil
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		return a.Redirect(front.ProfilePath)
	case errors.As(err, new(*person.ValidationError)):
		return s.renderProfile(a, v, http.StatusUnprocessableEntity, page.Dashboard{Problem: "problem.profile"})
	case err != nil:
		return err
	}
	switch after.Profile.PreferredLocale {
	case v.own.PreferredLocale:
	case "":
		s.pages.Forget(a.W, a.Request.Request)
	default:
		s.pages.Choose(a.W, a.Request.Request, after.Profile.PreferredLocale)
	}
	return a.Redirect(doneURL(front.ProfilePath, "saved"))
}
