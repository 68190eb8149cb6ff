package front

import "github.com/gatehouse-id/gatehouse/identity/config"

// AttributeFields are the fields of forms that provide an attribute which the settings demand.
var AttributeFields = map[string][]string{
	config.AttributeName: {"given_name", "family_name"}, config.AttributePhone: {"phone"},
	config.AttributeBirthDate: {"date_of_birth"}, config.AttributeEmail: {"email"},
}
