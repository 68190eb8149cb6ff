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

// synchronised are the providers that write what they know of a person into the profile at each sign-in.
func (s *Service) synchronised(tx storage.Tx, g *federation.Registry, personID string) (out []*federation.Member, err error) {
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

// profilePage is what the page about a person's profile shows.
type profilePage struct {
	own      person.Profile
	writers  []*federation.Member // providers that write the profile
	values   typed
	problems map[string]string
	focus    string // the field that was typed into before a step-up. Empty: none
	// fields are the custom ones that the person may change, custom what is in them.
	fields person.CustomFields
	custom []person.CustomAttribute
}

// locked tells whether a provider writes a part of the profile.
func (v *profilePage) locked(part string) bool {
	return federation.SynchronisedDetails[part] != nil && slices.ContainsFunc(v.writers, func(p *federation.Member) bool { return p.Writes(part) })
}

// readOwn reads what the page shows.
func (s *Service) readOwn(r *http.Request, a *front.Visit) (*profilePage, error) {
	g, err := s.federation.Registry(r.Context(), a.U)
	if err != nil {
		return nil, err
	}
	v := &profilePage{}
	err = s.store.View(r.Context(), func(tx storage.Tx) error {
		d, err := s.person.Details(tx, a.Si.Session.PersonID)
		if err != nil {
			return err
		}
		v.own = d.Profile
		if v.fields, err = person.CustomFieldsFor(tx, a.U, a.Si.Session.PersonID); err != nil {
			return err
		}
		v.writers, err = s.synchronised(tx, g, a.Si.Session.PersonID)
		return err
	})
	v.values, v.custom = shownAs(v.own), v.own.CustomAttributes
	return v, err
}

// showProfile serves GET /account/profile.
func (s *Service) showProfile(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Guard(w, r, front.ProfilePath)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err == nil {
		err = s.showKept(r, a, v)
	}
	if err != nil {
		s.front.Fail(w, r, err, front.ProfilePath)
		return
	}
	s.writeProfilePage(w, r, a, v, http.StatusOK, page.Dashboard{})
}

func (s *Service) writeProfilePage(w http.ResponseWriter, r *http.Request, a *front.Visit, v *profilePage, status int, d page.Dashboard) {
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
	d.Parts = append(d.Parts, otherAddresses(a, v)...)
	d.Parts = append(d.Parts, customParts(a, v, d.Problem != "")...)
	s.front.RenderAccount(w, r, a, status, d)
}

// handleProfile serves POST /account/profile: one of the forms.
func (s *Service) handleProfile(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.GuardPost(w, r, front.ProfilePath)
	if !ok {
		return
	}
	v, err := s.readOwn(r, a)
	if err != nil {
		s.front.Fail(w, r, err, front.ProfilePath)
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
	if v.problems = v.values.problems(form, a.MustHave, s.now()); len(v.problems) > 0 {
		v.values.hide(v.problems)
		s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{})
		return
	}
	after, err := s.person.UpdatePerson(r.Context(), a.Si.Session.PersonID, person.Edit{By: s.front.Actor(r, a.Si)}, func(tx storage.Tx, d *person.Details) error {
		v.values.into(&d.Profile, form, v.locked)
		return s.still(tx, a)
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.ProfilePath)
	case errors.As(err, new(*person.ValidationError)):
		s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{Problem: "problem.profile"})
	case err != nil:
		s.front.Fail(w, r, err, front.ProfilePath)
	default:
		switch after.Profile.PreferredLocale {
		case v.own.PreferredLocale:
		case "":
			s.pages.Forget(w, r)
		default:
			s.pages.Choose(w, r, after.Profile.PreferredLocale)
		}
		s.front.Redirect(w, r, front.DoneURL(front.ProfilePath, "saved"))
	}
}
