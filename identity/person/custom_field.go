package person

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CustomFields are fields that the operator asks newcomers for, beside those that there are. (identity service document, LoginMethod,
// custom_attribute_fields) What is typed becomes the custom attribute of the field's id.
type CustomFields []config.CustomAttributeField

// CustomFieldsOf are the fields of these login methods, each id once.
func CustomFieldsOf(u *config.Units, methods ...string) (out CustomFields) {
	for _, m := range methods {
		_, fields := u.Registration(m)
		for _, f := range fields {
			if !slices.ContainsFunc(out, func(o config.CustomAttributeField) bool { return o.ID == f.ID }) {
				out = append(out, f)
			}
		}
	}
	return out
}

// CustomFieldsFor are the fields that a person is asked for: those of our own method, and of the providers that sign them in.
func CustomFieldsFor(tx storage.Tx, u *config.Units, personID string) (CustomFields, error) {
	methods := []string{config.OwnMethod}
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		methods = append(methods, storage.Parts(e.Key)[1])
	}
	return CustomFieldsOf(u, methods...), nil
}

// Have tells whether there is a field of this id.
func (c CustomFields) Have(id string) bool {
	return slices.ContainsFunc(c, func(f config.CustomAttributeField) bool { return f.ID == id })
}

// customNumber is a number as people write it. How many digits there may be bounds what can be made of it elsewhere. A comma before three digits may part
// thousands: nobody's 1,000 becomes 1.
var customNumber = regexp.MustCompile(`^[+-]?[0-9]{1,15}(\.[0-9]{1,9}|,([0-9]{1,2}|[0-9]{4,9}))?$`)

// CustomInput is the name of a field in a form: no id makes it the name of another field.
func CustomInput(f config.CustomAttributeField) string { return "custom." + f.ID }

// Read returns what a form says, and adds to problems what is wrong with a field. A box that is not ticked is an answer too.
func (c CustomFields) Read(r *http.Request, problems map[string]string) (out []CustomAttribute) {
	for _, f := range c {
		name := CustomInput(f)
		v := strings.TrimSpace(r.PostForm.Get(name))
		if f.Type == config.FieldCheckbox {
			v = map[bool]string{true: "true", false: "false"}[v == "true"]
		}
		switch {
		case v == "":
			problems[name] = "problem.required"
		case !IsText(v, MaxLine):
			v, problems[name] = "", "problem.text" // not shown again
		case f.Type == config.FieldNumber && !customNumber.MatchString(v):
			problems[name] = "problem.number"
		case f.Type == config.FieldNumber:
			v = strings.TrimPrefix(strings.ReplaceAll(v, ",", "."), "+")
		}
		out = append(out, CustomAttribute{Name: f.ID, Value: v})
	}
	return out
}

// Inputs are the fields of a form, with these values.
func (c CustomFields) Inputs(values []CustomAttribute, problems map[string]string) (out []page.Field) {
	for _, f := range c {
		name := CustomInput(f)
		v, _ := CustomValue(values, f.ID)
		field := page.Field{Name: name, Label: "custom_attribute." + f.ID, Called: f.Name, Value: v, Problem: problems[name], Required: true, MaxLength: MaxLine}
		switch f.Type {
		case config.FieldCheckbox:
			field.Type, field.Value, field.Checked, field.Required, field.MaxLength = "checkbox", "true", v == "true", false, 0
		case config.FieldNumber:
			field.InputMode, field.MaxLength = "decimal", 26
		}
		out = append(out, field)
	}
	return out
}

// Lacking are the fields that these attributes do not answer.
func (c CustomFields) Lacking(values []CustomAttribute) (out CustomFields) {
	for _, f := range c {
		if _, ok := CustomValue(values, f.ID); !ok {
			out = append(out, f)
		}
	}
	return out
}

// CustomValue returns a custom attribute by its name.
func CustomValue(of []CustomAttribute, name string) (value string, ok bool) {
	i := slices.IndexFunc(of, func(c CustomAttribute) bool { return c.Name == name })
	if i < 0 {
		return "", false
	}
	return of[i].Value, true
}

// SetCustom writes custom attributes into the profile.
func (p *Profile) SetCustom(values []CustomAttribute) {
	p.CustomAttributes = slices.Clone(p.CustomAttributes)
	for _, v := range values {
		if i := slices.IndexFunc(p.CustomAttributes, func(c CustomAttribute) bool { return c.Name == v.Name }); i >= 0 {
			p.CustomAttributes[i] = v
		} else {
			p.CustomAttributes = append(p.CustomAttributes, v)
		}
	}
}
