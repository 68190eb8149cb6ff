package scim_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestVouchedAddresses: a client that vouches says whether the primary address is the person's, and another address is
// not verified by what was said about the one before.
func TestVouchedAddresses(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	user := func(address string, verified any) map[string]any {
		return map[string]any{
			"schemas": []string{coreUser}, "userName": "jane", "emails": []any{map[string]any{"value": address, "primary": true}},
			ours: map[string]any{"emailVerified": verified},
		}
	}
	verified := func(a answer) string { return a.at(ours, "emailVerified") }

	t.Run("attack 241: a client that does not vouch", func(t *testing.T) {
		a := h.want(http.StatusCreated, "POST", "/Users", user("jane@example.com", true))
		at := "/Users/" + a.at("id")
		if verified(a) != "false" || verified(h.want(http.StatusOK, "PUT", at, user("jane@example.com", true))) != "false" {
			t.Error("its word counts")
		}
		h.refused(http.StatusBadRequest, "mutability", "PATCH", at, patch("replace", ours+":emailVerified", true))
		h.want(http.StatusNoContent, "DELETE", at, nil)
	})
	h.header = map[string][]string{"Authorization": {"Bearer vouching"}}
	made := h.want(http.StatusCreated, "POST", "/Users", user("jane@example.com", true))
	at := "/Users/" + made.at("id")
	for _, step := range []struct {
		name, want string
		answer     answer
	}{
		{"POST", "true", made},
		{"a PATCH of something else", "true", h.want(http.StatusOK, "PATCH", at, patch("replace", "title", "x"))},
		{
			"a PATCH of the address", "false",
			h.want(http.StatusOK, "PATCH", at, patch("replace", "emails", []any{map[string]any{"value": "doe@example.com", "primary": true}})),
		},
		{"a PATCH of both", "true", h.want(http.StatusOK, "PATCH", at,
			patch("replace", "emails", []any{map[string]any{"value": "jd@example.com", "primary": true}}, "replace", ours+":emailVerified", true))},
		{"a PUT that says no", "false", h.want(http.StatusOK, "PUT", at, user("jd@example.com", false))},
		{"a PUT that says yes", "true", h.want(http.StatusOK, "PUT", at, user("jd@example.com", "True"))},
		{
			"a PUT of another address without a word", "false",
			h.want(http.StatusOK, "PUT", at,
				map[string]any{"schemas": []string{coreUser}, "userName": "jane", "emails": []any{map[string]any{"value": "other@example.com"}}}),
		},
	} {
		if verified(step.answer) != step.want {
			t.Errorf("after %s emailVerified = %s, want %s: %s", step.name, verified(step.answer), step.want, step.answer.raw)
		}
	}
}

// TestBooleansOfOtherTypes: what is neither true nor false, as a text either, is refused where it decides who a person
// is, and the answer names the attribute.
func TestBooleansOfOtherTypes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.header = map[string][]string{"Authorization": {"Bearer vouching"}}
	user := func(verified any) map[string]any {
		return map[string]any{
			"schemas": []string{coreUser}, "userName": "jane", "emails": []any{map[string]any{"value": "jane@example.com", "primary": true}},
			ours: map[string]any{"emailVerified": verified},
		}
	}
	at := "/Users/" + h.want(http.StatusCreated, "POST", "/Users", user("TRUE")).at("id")
	for name, v := range map[string]any{
		"yes": "yes", "no": "no", "digit": "1", "number": 0, "list": []any{false}, "object": map[string]any{"value": false},
	} {
		for door, body := range map[string]map[string]any{
			"path":               patch("replace", ours+":emailVerified", v),
			"qualified member":   patch("replace", "", map[string]any{ours + ":emailVerified": v}),
			"extension":          patch("replace", "", map[string]any{ours: map[string]any{"emailVerified": v}}),
			"path of extension":  patch("replace", ours, map[string]any{"emailVerified": v}),
			"active":             patch("replace", "active", v),
			"member active":      patch("replace", "", map[string]any{"active": v}),
			"another and active": patch("replace", "title", "x", "replace", "active", v),
		} {
			a := h.want(http.StatusBadRequest, "PATCH", at, body)
			detail := a.at("detail")
			if a.at("scimType") != "invalidValue" || !strings.Contains(detail, "emailVerified") && !strings.Contains(detail, "active") {
				t.Errorf("PATCH %s by %s: %s, want invalidValue and the attribute named", name, door, a.raw)
			}
		}
		h.refused(http.StatusBadRequest, "invalidValue", "PUT", at, user(v))
	}
	if got := h.want(http.StatusOK, "GET", at, nil).at(ours, "emailVerified"); got != "true" {
		t.Errorf("emailVerified = %s after what was refused, want true", got)
	}
	if got := h.want(http.StatusOK, "PATCH", at, patch("replace", ours+":emailVerified", "False")).at(ours, "emailVerified"); got != "false" {
		t.Errorf("emailVerified after \"False\" = %s, want false", got)
	}
}
