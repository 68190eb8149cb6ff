package api_test

import (
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestNumbersRefused: without text messages no number is validated; malformed bodies are refused as elsewhere.
// (TestNumberCheck does the rest.)
func TestNumbersRefused(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	h.set(func(u *settings.Units) {
		u.Features.SMSEnabled, u.Features.MobileNumberValidationBackendServicesEnabled = true, true
	})
	p, err := h.persons.Person.AddPerson(t.Context(), person.NewPerson{Username: "tess", Profile: &person.Profile{
		PhoneNumbers: []person.PhoneNumber{{Value: "+31612345678", Primary: true}},
	}}, audit.Actor{ID: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/persons/" + p.ID + "/phone-numbers/"
	number, code := map[string]any{"number": "+31612345678"}, map[string]any{"number": "+31612345678", "code": "123456"}
	for _, c := range []struct {
		name, path string
		body       any
		want       int
	}{
		{"nothing to send with", path + "code", number, http.StatusConflict},
		{"a code, with nothing to send with", path + "verify", code, http.StatusConflict},
		{"a national number", path + "code", map[string]any{"number": "06 12345678"}, http.StatusBadRequest},
		{"no number", path + "code", map[string]any{}, http.StatusBadRequest},
		{"no code", path + "verify", number, http.StatusBadRequest},
		{"attack 241: verified by the client", path + "code", map[string]any{"number": "+31612345678", "verified": true}, http.StatusBadRequest},
		{"a username in place of the id", "/api/persons/tess/phone-numbers/code", number, http.StatusNotFound},
		{"another operation", path + "anything", number, http.StatusNotFound},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := h.call(http.MethodPost, c.path, c.body); a.status() != c.want {
				t.Errorf("POST %s = %d %s, want %d", c.path, a.status(), a.Body, c.want)
			}
		})
	}
}
