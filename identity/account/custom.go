package account

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// customParts are the custom attributes: a form for those that the person is asked for, a list of the others.
func customParts(a *front.Visit, v *profilePage, notice bool) (out []page.Part) {
	if len(v.fields) > 0 {
		form := &page.PartForm{
			Action: front.ProfilePath, CSRF: a.CSRF, Submit: "profile.save", Hidden: []page.Hidden{{Name: "form", Value: "custom"}}, Quiet: true,
			Fields: front.CustomInputs(v.fields, v.custom, v.problems),
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

// changeCustom handles the form of the custom fields.
func (s *Service) changeCustom(a *front.Visit, v *profilePage) error {
	v.problems = map[string]string{}
	v.custom = front.ReadCustom(v.fields, a.PostForm, v.problems)
	for i, c := range v.custom { // a directory can have written a value that the form would refuse
		name := front.CustomInput(v.fields[i])
		if kept, _ := person.CustomValue(v.own.CustomAttributes, c.Name); kept != "" && kept == a.PostForm.Get(name) {
			v.custom[i].Value = kept
			delete(v.problems, name)
		}
	}
	if len(v.problems) > 0 {
		return s.renderProfile(a, v, http.StatusUnprocessableEntity, page.Dashboard{})
	}
	return s.saveProfile(a, v, func(p *person.Profile) { p.SetCustom(v.custom) })
}
