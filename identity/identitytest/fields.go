package identitytest

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CustomFields has one field of each type.
var CustomFields = []settings.CustomAttributeField{
	{ID: "team", Name: `Team <b>"&{brand}`, Type: settings.FieldText},
	{ID: "shoe_size", Name: "Shoe size", Type: settings.FieldNumber},
	{ID: "news", Name: "Newsletter", Type: settings.FieldCheckbox},
}

// Attributes returns custom attributes of names and values.
func Attributes(pairs ...string) (out []person.CustomAttribute) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, person.CustomAttribute{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// SetProfile changes the profile of a person.
func (h *Harness) SetProfile(username string, change func(*person.Profile)) {
	h.T.Helper()
	_, err := h.Person.UpdatePerson(h.T.Context(), h.Details(username).ID, person.Edit{By: Ops}, func(_ storage.Tx, d *person.Details) error {
		change(&d.Profile)
		return nil
	})
	if err != nil {
		h.T.Fatal(err)
	}
}

// Custom returns the custom attributes of a person.
func (h *Harness) Custom(username string) []person.CustomAttribute {
	h.T.Helper()
	return h.Details(username).Profile.CustomAttributes
}

// AskFor makes a method ask for custom fields.
func AskFor(u *settings.Units, method string, fields []settings.CustomAttributeField) {
	list := slices.Clone(u.LoginMethods.LoginMethods)
	i := slices.IndexFunc(list, func(m settings.LoginMethod) bool { return m.ID == method })
	if i < 0 {
		list, i = append(list, settings.LoginMethod{ID: method, Type: settings.TypePassword, Enabled: true}), len(list)
	}
	list[i].CustomAttributeFields = fields
	u.LoginMethods.LoginMethods = list
}
