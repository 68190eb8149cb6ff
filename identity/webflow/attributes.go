package webflow

import "github.com/gatehouse-id/gatehouse/identity/settings"

// AttributeFields are the fields of forms that provide an attribute which the settings demand.
var AttributeFields = map[string][]string{
	settings.AttributeName: {"given_name", "family_name"}, settings.AttributePhone: {"phone"},
	settings.AttributeBirthDate: {"date_of_birth"}, settings.AttributeEmail: {"email"},
}
