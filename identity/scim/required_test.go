package scim_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// TestRequiredDetails: a detail that the settings require of new people can be changed and not taken away. People from
// before the requirement can be changed without it.
func TestRequiredDetails(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	early := "/Users/" + h.add("early", nil)
	h.units.Profile.Rules = []settings.AttributeRule{{AnyOf: []string{settings.AttributePhone, settings.AttributeBirthDate}}}
	h.units.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
	whole := map[string]any{
		"schemas": []string{coreUser}, "userName": "jane", "name": map[string]any{"familyName": "Doe", "givenName": "Jane"},
		"phoneNumbers": []any{map[string]any{"value": "+31201234567"}},
	}
	without := func(name string) map[string]any {
		out := map[string]any{}
		for k, v := range whole {
			if k != name {
				out[k] = v
			}
		}
		return out
	}
	removal := func(path string) any {
		return map[string]any{"schemas": []string{patchOp}, "Operations": []any{map[string]any{"op": "remove", "path": path}}}
	}
	h.refused(http.StatusBadRequest, "invalidValue", "POST", "/Users", without("phoneNumbers"))
	jane := "/Users/" + h.want(http.StatusCreated, "POST", "/Users", whole).at("id")
	for name, body := range map[string]any{
		"PATCH that removes":      removal("phoneNumbers"),
		"PATCH that removes part": removal("name.familyName"),
		"PATCH that empties":      patch("replace", "phoneNumbers", []any{}),
		"PUT without the phone":   without("phoneNumbers"),
		"PUT without the name":    without("name"),
	} {
		method := name[:3]
		if method == "PAT" {
			method = "PATCH"
		}
		h.refused(http.StatusBadRequest, "invalidValue", method, jane, body)
	}
	h.want(http.StatusOK, "PATCH", jane, patch("replace", "phoneNumbers", []any{map[string]any{"value": "+31207654321"}}))
	h.want(http.StatusOK, "PATCH", jane, patch("replace", "name.givenName", "Janet"))
	h.want(http.StatusOK, "PATCH", early, patch("replace", "title", "x"))
	h.want(http.StatusOK, "PUT", early, map[string]any{"schemas": []string{coreUser}, "userName": "early", "title": "y"})
}
