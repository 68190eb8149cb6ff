package person

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// CustomFields are the operator's own fields that newcomers fill in. An answer becomes the custom attribute of the
// field's id. (identity service document, LoginMethod, custom_attribute_fields)
type CustomFields []settings.CustomAttributeField

// CustomFieldsOf returns the fields of these login methods, each id once.
func CustomFieldsOf(u *settings.Units, methods ...string) (out CustomFields) {
	for _, m := range methods {
		_, fields := u.Registration(m)
		for _, f := range fields {
			if !slices.ContainsFunc(out, func(o settings.CustomAttributeField) bool { return o.ID == f.ID }) {
				out = append(out, f)
			}
		}
	}
	return out
}

// CustomFieldsFor returns the fields that a person fills in: those of the local login method and of the person's
// providers.
func CustomFieldsFor(tx storage.Tx, u *settings.Units, personID string) (CustomFields, error) {
	methods := []string{settings.OwnMethod}
	for e, err := range IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		methods = append(methods, storage.Parts(e.Key)[1])
	}
	return CustomFieldsOf(u, methods...), nil
}

// Have reports whether there is a field of this id.
func (c CustomFields) Have(id string) bool {
	return slices.ContainsFunc(c, func(f settings.CustomAttributeField) bool { return f.ID == id })
}

// Lacking returns the fields that these attributes do not answer.
func (c CustomFields) Lacking(values []CustomAttribute) (out CustomFields) {
	for _, f := range c {
		if _, ok := CustomValue(values, f.ID); !ok {
			out = append(out, f)
		}
	}
	return out
}

// CustomValue returns the value of a custom attribute by its name, and whether there is one.
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
