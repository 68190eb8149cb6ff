package account_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// TestCustomFieldsFromElsewhere: values from a directory that the form would refuse do not stop a person from changing
// another field.
func TestCustomFieldsFromElsewhere(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithSignUp(t)
	identitytest.AskFor(u, settings.OwnMethod, identitytest.CustomFields)
	long := strings.Repeat("x", 1000)
	h.SetProfile(identitytest.Demo, func(p *person.Profile) {
		p.CustomAttributes = identitytest.Attributes("team", long, "shoe_size", "size XL", "news", "true")
	})
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	form := b.Get("/account/profile")
	if a := b.Post(form, "form", "custom", "custom.team", long, "custom.shoe_size", "size XL"); a.Code != http.StatusSeeOther {
		t.Errorf("POST = %d\n%s", a.Code, a.Body)
	}
	if got, want := h.Custom(identitytest.Demo),
		identitytest.Attributes("team", long, "shoe_size", "size XL", "news", "false"); !slices.Equal(got, want) {
		t.Errorf("custom attributes = %v", got)
	}
	for what, fields := range map[string][]string{
		"another long text":         {"custom.team", long[1:] + "y", "custom.shoe_size", "size XL"},
		"another word for a number": {"custom.team", long, "custom.shoe_size", "size L"},
		"nothing":                   {"custom.team", "", "custom.shoe_size", "43"},
	} {
		if a := b.Post(form, append(fields, "form", "custom")...); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s = %d", what, a.Code)
		}
	}
}
