package webflow

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// customNumber is a number as people write it. The bound on its digits bounds what other systems must hold. A comma
// before three digits may separate thousands, so it is refused: 1,000 must not become 1.
var customNumber = regexp.MustCompile(`^[+-]?[0-9]{1,15}(\.[0-9]{1,9}|,([0-9]{1,2}|[0-9]{4,9}))?$`)

// CustomInput is the name of a custom field in a form. The prefix keeps it apart from all other fields.
func CustomInput(f settings.CustomAttributeField) string { return "custom." + f.ID }

// ReadCustom returns the custom attributes of a form, and adds to problems what is wrong with each field. An empty
// checkbox is an answer too.
func ReadCustom(fields person.CustomFields, form url.Values, problems map[string]string) (out []person.CustomAttribute) {
	for _, f := range fields {
		name := CustomInput(f)
		v := strings.TrimSpace(form.Get(name))
		if f.Type == settings.FieldCheckbox {
			v = map[bool]string{true: "true", false: "false"}[v == "true"]
		}
		switch {
		case v == "":
			problems[name] = "problem.required"
		case !person.IsText(v, person.MaxLine):
			v, problems[name] = "", "problem.text" // not shown again
		case f.Type == settings.FieldNumber && !customNumber.MatchString(v):
			problems[name] = "problem.number"
		case f.Type == settings.FieldNumber:
			v = strings.TrimPrefix(strings.ReplaceAll(v, ",", "."), "+")
		}
		out = append(out, person.CustomAttribute{Name: f.ID, Value: v})
	}
	return out
}

// CustomInputs returns the custom fields of a form, with these values.
func CustomInputs(fields person.CustomFields, values []person.CustomAttribute, problems map[string]string) (out []web.Field) {
	for _, f := range fields {
		name := CustomInput(f)
		v, _ := person.CustomValue(values, f.ID)
		field := web.Field{
			Name: name, Label: "custom_attribute." + f.ID, Called: f.Name, Value: v, Problem: problems[name],
			Required: true, MaxLength: person.MaxLine,
		}
		switch f.Type {
		case settings.FieldCheckbox:
			field.Type, field.Value, field.Checked, field.Required, field.MaxLength = "checkbox", "true", v == "true", false, 0
		case settings.FieldNumber:
			field.InputMode, field.MaxLength = "decimal", 26
		}
		out = append(out, field)
	}
	return out
}
