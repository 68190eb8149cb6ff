package identity

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

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

// changeCustom takes the form of the custom fields.
func (s *Service) changeCustom(w http.ResponseWriter, r *http.Request, a *onAccount, v *profilePage) {
	v.problems = map[string]string{}
	v.custom = v.fields.read(r, v.problems)
	for i, c := range v.custom { // a directory may have written what nobody could type
		name := customInput(v.fields[i])
		if kept, _ := customValue(v.own.CustomAttributes, c.Name); kept != "" && kept == r.PostForm.Get(name) {
			v.custom[i].Value = kept
			delete(v.problems, name)
		}
	}
	if len(v.problems) > 0 {
		s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{})
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
		s.writeProfilePage(w, r, a, v, http.StatusUnprocessableEntity, page.Dashboard{Problem: "problem.profile"})
	case err != nil:
		s.fail(w, r, err, profilePath)
	default:
		s.redirect(w, r, doneURL(profilePath, "saved"))
	}
}
