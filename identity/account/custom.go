package account

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// customParts are the custom attributes: a form for those that the person is asked for, a list of the others.
func customParts(a *webflow.Visit, v *profilePage, notice bool) (out []web.Part) {
	if len(v.fields) > 0 {
		form := &web.PartForm{
			Action: webflow.ProfilePath, CSRF: a.CSRF, Submit: "profile.save", Hidden: []web.Hidden{{Name: "form", Value: "custom"}}, Quiet: true,
			Fields: webflow.CustomInputs(v.fields, v.custom, v.problems),
		}
		if len(v.problems) > 0 {
			form.Fields = web.Fields(notice, form.Fields...)
		}
		out = append(out, web.Part{ID: "asked", Title: web.Say("profile.custom"), Form: form})
	}
	part := web.Part{ID: "more", Title: web.Say("profile.custom"), Text: web.Say("profile.custom.text")}
	if len(v.fields) > 0 {
		part.Title = web.Say("profile.custom.kept")
	}
	for _, c := range v.own.CustomAttributes {
		if !v.fields.Have(c.Name) {
			part.Facts = append(part.Facts, web.Fact{Label: c.Name, Value: c.Value})
		}
	}
	if len(part.Facts) > 0 {
		out = append(out, part)
	}
	return out
}

// changeCustom handles the form of the custom fields.
func (s *Service) changeCustom(a *webflow.Visit, v *profilePage) error {
	v.problems = map[string]string{}
	v.custom = webflow.ReadCustom(v.fields, a.PostForm, v.problems)
	for i, c := range v.custom { // a directory can have written a value that the form would refuse
		name := webflow.CustomInput(v.fields[i])
		if kept, _ := person.CustomValue(v.own.CustomAttributes, c.Name); kept != "" && kept == a.PostForm.Get(name) {
			v.custom[i].Value = kept
			delete(v.problems, name)
		}
	}
	if len(v.problems) > 0 {
		return s.renderProfile(a, v, http.StatusUnprocessableEntity, web.Dashboard{})
	}
	return s.saveProfile(a, v, func(p *person.Profile) { p.SetCustom(v.custom) })
}
