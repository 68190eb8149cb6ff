package webflow_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

func TestCustomFields(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithSignUp(t)
	u.Attributes.Verification.EmailEnabled = false
	plain := h.Browser().Get("/sign-up").Body.String()
	identitytest.AskFor(u, settings.OwnMethod, identitytest.CustomFields)
	b := h.Browser()
	form := b.Get("/sign-up")
	body := form.Body.String()
	if strings.Contains(plain, "custom.") {
		t.Errorf("without fields:\n%s", plain)
	}
	for _, want := range []string{
		`>Team &lt;b&gt;&#34;&amp;{brand}</label>`, `name="custom.team"`, `inputmode="decimal"`,
		`type="checkbox" id="custom.news" name="custom.news" value="true"`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s:\n%s", want, body)
		}
	}
	for _, tt := range []struct{ what, team, size, want string }{
		{"nothing", "", "43", "Fill in this field."},
		{"no number", "red", "many", "Enter a number"},
		{"a number of a script", "red", "1e9", "Enter a number"},
		{"too many digits", "red", "1234567890123456", "Enter a number"},
		{"thousands, or not", "red", "1,000", "Enter a number"},
		{"a control character", "re\x07d", "43", "control characters"},
		{"too long", strings.Repeat("x", 257), "43", "control characters"},
	} {
		if a := b.Post(form, "email", identitytest.Newcomer, "password", identitytest.FreshPassword, "custom.team", tt.team, "custom.shoe_size",
			tt.size); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.Body.String(), tt.want) || strings.Contains(a.Body.String(), "\x07") {
			t.Errorf("%s = %d\n%s", tt.what, a.Code, a.Body)
		}
	}
	if a := b.Post(form, "email", identitytest.Newcomer, "password", identitytest.FreshPassword, "custom.team", " red ", "custom.shoe_size",
		"+43,5", "custom.news", "on", "custom.role", "admin"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if got := h.Custom(identitytest.Newcomer); !slices.Equal(got,
		identitytest.Attributes("team", "red", "shoe_size", "43.5", "news", "false")) {
		t.Errorf("custom attributes = %v", got)
	}

	h.SetProfile(identitytest.Newcomer, func(p *person.Profile) {
		p.CustomAttributes = append(p.CustomAttributes, identitytest.Attributes("role", "guest")...)
	})
	profile := b.Get("/account/profile")
	if body := profile.Body.String(); !strings.Contains(body, `value="red"`) || !strings.Contains(body, `value="43.5"`) ||
		!strings.Contains(body, "Stored") || strings.Contains(body, `name="custom.role"`) {
		t.Errorf("the profile page:\n%s", body)
	}
	change := func(fields ...string) *identitytest.Answer {
		return b.Post(profile, append([]string{"form", "custom"}, fields...)...)
	}
	if a := change("custom.team", "", "custom.shoe_size", "x"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "Enter a number") {
		t.Errorf("a change that cannot be = %d", a.Code)
	}
	if a := change("custom.team", "blue", "custom.shoe_size", "44", "custom.news", "true", "custom.role",
		"admin"); a.Code != http.StatusSeeOther {
		t.Errorf("a change = %d\n%s", a.Code, a.Body)
	}
	want := identitytest.Attributes("team", "blue", "shoe_size", "44", "news", "true", "role", "guest")
	if got := h.Custom(identitytest.Newcomer); !slices.Equal(got, want) {
		t.Errorf("after the change = %v, want %v", got, want)
	}
	if body := b.Get("/account/profile").Body.String(); !strings.Contains(body, `value="true" autocomplete="off" checked`) {
		t.Errorf("the box:\n%s", body)
	}
	h.CheckInvariants()
}

// TestCustomFieldsOfInvited: an invited person who chooses a password is asked for the fields. Known values are filled
// in.
func TestCustomFieldsOfInvited(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	identitytest.AskFor(x.U, settings.OwnMethod, identitytest.CustomFields)
	x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
	link := x.Link()
	b := x.Browser()
	form := b.Get(link)
	if a := b.Post(form, "password", identitytest.GuestPassword, "custom.team", "red"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), `value="red"`) || strings.Contains(a.Body.String(), identitytest.GuestPassword) {
		t.Errorf("without a number = %d\n%s", a.Code, a.Body)
	}
	if a := b.Post(form, "password", identitytest.GuestPassword, "custom.team", "red", "custom.shoe_size", "-1", "custom.news",
		"true"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if got := x.Custom(identitytest.Guest); !slices.Equal(got, identitytest.Attributes("team", "red", "shoe_size", "-1", "news", "true")) {
		t.Errorf("custom attributes = %v", got)
	}
}

// TestCustomFieldsOfProvider: the fields of a provider are asked for at the first arrival, with and without a password.
func TestCustomFieldsOfProvider(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	identitytest.AskFor(x.U, "partner", identitytest.CustomFields)
	identitytest.AskFor(x.U, settings.OwnMethod, []settings.CustomAttributeField{{ID: "own", Name: "Own", Type: settings.FieldText}})
	method := &x.U.LoginMethods.LoginMethods[slices.IndexFunc(x.U.LoginMethods.LoginMethods,
		func(m settings.LoginMethod) bool { return m.ID == "partner" })]
	fields := []string{"custom.team", "red", "custom.shoe_size", "43"}
	b := x.Browser()
	if a := b.Post(x.Arrive(b, identitytest.Ann()),
		append(fields, "username", "ann", "password", identitytest.FreshPassword)...); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if got := x.Custom("ann"); !slices.Equal(got, identitytest.Attributes("team", "red", "shoe_size", "43", "news", "false")) {
		t.Errorf("custom attributes = %v", got)
	}
	if body := b.Get("/account/profile").Body.String(); !strings.Contains(body, `name="custom.own"`) ||
		!strings.Contains(body, `name="custom.team"`) {
		t.Errorf("the profile page:\n%s", body)
	}

	method.ForceCreatingUsernameAndPasswordDuringSignUp = false
	c := x.Browser()
	form := x.Arrive(c, identitytest.Bobby())
	if body := form.Body.String(); strings.Contains(body, "password") && strings.Contains(body, `name="password"`) ||
		!strings.Contains(body, "fill in the rest") {
		t.Errorf("the page without a password:\n%s", body)
	}
	if a := c.Post(form, "custom.team", ""); a.Code != http.StatusUnprocessableEntity || x.Persons() != 1 {
		t.Errorf("nothing = %d", a.Code)
	}
	x.Asking(func(d *authn.Demand) { d.Level = 2 })
	if a := c.Post(form, fields...); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	si, err := x.SessionOf(c)
	if err != nil || si.Level != 2 {
		t.Fatal(si, err)
	}
	if d := x.Details(si.Subject); d.HasPassword || len(d.Profile.CustomAttributes) != 3 {
		t.Errorf("person = %+v", d)
	}
	x.MustEnter(x.Browser(), identitytest.Bobby())
}
