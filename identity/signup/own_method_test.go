package signup_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestNameOfOwnMethod: the sign-in page shows the name that the operator has given.
func TestNameOfOwnMethod(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	identitytest.OwnMethod(u, func(m *settings.LoginMethod) { m.Name = "Library <card>" })
	if a := h.Browser().Get("/next"); !strings.Contains(a.Body.String(), "<h2>Library &lt;card&gt;</h2>") {
		t.Errorf("GET /next = %d without the name: %s", a.Code, a.Body)
	}
	identitytest.OwnMethod(u, func(*settings.LoginMethod) {})
	if a := h.Browser().Get("/next"); a.Code != http.StatusOK || strings.Contains(a.Body.String(), "<h2>") {
		t.Errorf("GET /next = %d with a name that nobody has given", a.Code)
	}
}

// TestSignUpAsksForAttributes: rules of required attributes are fields of the sign-up form, and of each rule one is
// enough.
func TestSignUpAsksForAttributes(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithSignUp(t)
	u.Profile.Rules = []settings.AttributeRule{
		{AnyOf: []string{settings.AttributePhone, settings.AttributeBirthDate}},
		{AnyOf: []string{settings.AttributeBirthDate, settings.AttributeEmail}},
	}
	b := h.Browser()
	page := b.Get("/sign-up")
	for _, want := range []string{`name="phone"`, `name="date_of_birth"`} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("the form has no %s", want)
		}
	}
	if strings.Contains(page.Body.String(), `name="given_name"`) {
		t.Error("the form asks for a name that no rule demands")
	}
	fields := []string{"email", "new@example.com", "password", identitytest.GuestPassword}
	if a := b.Post(page, fields...); a.Code != http.StatusUnprocessableEntity || h.Exists("new@example.com") {
		t.Errorf("without any of them: %d", a.Code)
	}
	if a := b.Post(page, append(fields, "date_of_birth", "soon")...); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("with a date that is none: %d", a.Code)
	}
	if a := b.Post(page, append(fields, "date_of_birth", "1990-12-31")...); a.Code != http.StatusSeeOther {
		t.Errorf("with a date of birth: %d %s", a.Code, a.Body)
	}
}

// TestRequiredAttributesOfNewPeople: other ways refuse a person who breaks a rule.
func TestRequiredAttributesOfNewPeople(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	u.Profile.Rules = []settings.AttributeRule{{AnyOf: []string{settings.AttributePhone}}}
	_, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "new@example.com"}, audit.Actor{ID: "test"})
	if err == nil || !strings.Contains(err.Error(), "phone_number is required") {
		t.Errorf("AddPerson = %v, want it to demand a number", err)
	}
	with := &person.Profile{PhoneNumbers: []person.PhoneNumber{{Value: "+31 20 123 4567"}}}
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "new@example.com", Profile: with},
		audit.Actor{ID: "test"}); err != nil {
		t.Errorf("AddPerson with a number = %v", err)
	}
}
