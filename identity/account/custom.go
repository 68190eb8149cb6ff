package account

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// customParts are the custom attributes: a form for those that the person is asked for, a list of the others.
func customParts(a *front.Visit, v *profilePage, notice bool) (out []page.Part) {
	if len(v.fields) > 0 {
		form := &page.PartForm{
			Action: front.ProfilePath, CSRF: a.Csrf, Submit: "profile.save", Hidden: []page.Hidden{{Name: "form", Value: "custom"}}, Quiet: true, Fields: front.CustomInputs(v.fields, v.custom, v.problems),
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
		if !v.fields.Have(c.Name) {
			part.Facts = append(part.Facts, page.Fact{Label: c.Name, Value: c.Value})
		}
	}
	if len(part.Facts) > 0 {
		out = append(out, part)
	}
	return out
}

// changeCustom takes the form of the custom fields.
func (s *Service) changeCustom(w http.ResponseWriter, r *http.Request, a *front.Visit, v *profilePage) {
	v.problems = map[string]string{}
	v.custom = front.ReadCustom(v.fields, r.PostForm, v.problems)
	for i, c := range v.custom { // a directory may have written what nobody could type
		name := front.CustomInput(v.fields[i])
		if kept, _ := person.CustomValue(v.own.CustomAttributes, c.Name); kept != "" && kept == r.PostForm.Get(name) {
			v.custom[i].Value = kept
			delete(v.problems, name)
		}
	}
	if len(v.problems) > 0 {
		s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{})
		return
	}
	_, err := s.person.UpdatePerson(r.Context(), a.Si.Session.PersonID, person.Edit{By: s.front.Actor(r, a.Si)}, func(tx storage.Tx, d *person.Details) error {
		d.Profile.SetCustom(v.custom)
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
		s.front.Redirect(w, r, front.DoneURL(front.ProfilePath, "saved"))
	}
}
