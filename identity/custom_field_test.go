package identity_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// asked has one field of each type.
var asked = []config.CustomAttributeField{
	{ID: "team", Name: `Team <b>"&{brand}`, Type: config.FieldText}, {ID: "shoe_size", Name: "Shoe size", Type: config.FieldNumber}, {ID: "news", Name: "Newsletter", Type: config.FieldCheckbox},
}

func attributes(pairs ...string) (out []person.CustomAttribute) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, person.CustomAttribute{Name: pairs[i], Value: pairs[i+1]})
	}
	return out
}

// setProfile changes the profile of a person.
func (h *harness) setProfile(username string, change func(*person.Profile)) {
	h.t.Helper()
	_, err := h.Person.UpdatePerson(h.t.Context(), h.details(username).ID, person.Edit{By: ops}, func(_ storage.Tx, d *person.Details) error {
		change(&d.Profile)
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// custom returns the custom attributes of a person.
func (h *harness) custom(username string) []person.CustomAttribute {
	h.t.Helper()
	return h.details(username).Profile.CustomAttributes
}

func withFields(u *config.Units, method string, fields []config.CustomAttributeField) {
	list := slices.Clone(u.LoginMethods.LoginMethods)
	i := slices.IndexFunc(list, func(m config.LoginMethod) bool { return m.ID == method })
	if i < 0 {
		list, i = append(list, config.LoginMethod{ID: method, Type: config.TypePassword, Enabled: true}), len(list)
	}
	list[i].CustomAttributeFields = fields
	u.LoginMethods.LoginMethods = list
}

func TestCustomFields(t *testing.T) {
	t.Parallel()
	h, u, _ := open(t)
	u.Attributes.Verification.EmailEnabled = false
	plain := h.browser().get("/sign-up").Body.String()
	withFields(u, config.OwnMethod, asked)
	b := h.browser()
	form := b.get("/sign-up")
	body := form.Body.String()
	if strings.Contains(plain, "custom.") {
		t.Errorf("without fields:\n%s", plain)
	}
	for _, want := range []string{`>Team &lt;b&gt;&#34;&amp;{brand}</label>`, `name="custom.team"`, `inputmode="decimal"`, `type="checkbox" id="custom.news" name="custom.news" value="true"`} {
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
		if a := b.post(form, "email", newcomer, "password", freshPassword, "custom.team", tt.team, "custom.shoe_size", tt.size); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.Body.String(), tt.want) || strings.Contains(a.Body.String(), "\x07") {
			t.Errorf("%s = %d\n%s", tt.what, a.Code, a.Body)
		}
	}
	if a := b.post(form, "email", newcomer, "password", freshPassword, "custom.team", " red ", "custom.shoe_size", "+43,5", "custom.news", "on", "custom.role", "admin"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if got := h.custom(newcomer); !slices.Equal(got, attributes("team", "red", "shoe_size", "43.5", "news", "false")) {
		t.Errorf("custom attributes = %v", got)
	}

	h.setProfile(newcomer, func(p *person.Profile) {
		p.CustomAttributes = append(p.CustomAttributes, attributes("role", "guest")...)
	})
	profile := b.get("/account/profile")
	if body := profile.Body.String(); !strings.Contains(body, `value="red"`) || !strings.Contains(body, `value="43.5"`) || !strings.Contains(body, "Stored") || strings.Contains(body, `name="custom.role"`) {
		t.Errorf("the profile page:\n%s", body)
	}
	change := func(fields ...string) *answer {
		return b.post(profile, append([]string{"form", "custom"}, fields...)...)
	}
	if a := change("custom.team", "", "custom.shoe_size", "x"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "Enter a number") {
		t.Errorf("a change that cannot be = %d", a.Code)
	}
	if a := change("custom.team", "blue", "custom.shoe_size", "44", "custom.news", "true", "custom.role", "admin"); a.Code != http.StatusSeeOther {
		t.Errorf("a change = %d\n%s", a.Code, a.Body)
	}
	want := attributes("team", "blue", "shoe_size", "44", "news", "true", "role", "guest")
	if got := h.custom(newcomer); !slices.Equal(got, want) {
		t.Errorf("after the change = %v, want %v", got, want)
	}
	if body := b.get("/account/profile").Body.String(); !strings.Contains(body, `value="true" autocomplete="off" checked`) {
		t.Errorf("the box:\n%s", body)
	}
	h.checkInvariants()
}

// TestCustomFieldsOfInvited: an invited person who chooses a password is asked for the fields. Known values are filled
// in.
func TestCustomFieldsOfInvited(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	withFields(x.u, config.OwnMethod, asked)
	x.invite(enrol.NewInvitation{Email: guest})
	link := x.link()
	b := x.browser()
	form := b.get(link)
	if a := b.post(form, "password", guestPassword, "custom.team", "red"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), `value="red"`) || strings.Contains(a.Body.String(), guestPassword) {
		t.Errorf("without a number = %d\n%s", a.Code, a.Body)
	}
	if a := b.post(form, "password", guestPassword, "custom.team", "red", "custom.shoe_size", "-1", "custom.news", "true"); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if got := x.custom(guest); !slices.Equal(got, attributes("team", "red", "shoe_size", "-1", "news", "true")) {
		t.Errorf("custom attributes = %v", got)
	}
}

// TestCustomFieldsOfProvider: the fields of a provider are asked for at the first arrival, with and without a password.
func TestCustomFieldsOfProvider(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	withFields(x.u, "partner", asked)
	withFields(x.u, config.OwnMethod, []config.CustomAttributeField{{ID: "own", Name: "Own", Type: config.FieldText}})
	method := &x.u.LoginMethods.LoginMethods[slices.IndexFunc(x.u.LoginMethods.LoginMethods, func(m config.LoginMethod) bool { return m.ID == "partner" })]
	fields := []string{"custom.team", "red", "custom.shoe_size", "43"}
	b := x.browser()
	if a := b.post(x.arrive(b, ann()), append(fields, "username", "ann", "password", freshPassword)...); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if got := x.custom("ann"); !slices.Equal(got, attributes("team", "red", "shoe_size", "43", "news", "false")) {
		t.Errorf("custom attributes = %v", got)
	}
	if body := b.get("/account/profile").Body.String(); !strings.Contains(body, `name="custom.own"`) || !strings.Contains(body, `name="custom.team"`) {
		t.Errorf("the profile page:\n%s", body)
	}

	method.ForceCreatingUsernameAndPasswordDuringSignUp = false
	c := x.browser()
	form := x.arrive(c, bobby())
	if body := form.Body.String(); strings.Contains(body, "password") && strings.Contains(body, `name="password"`) || !strings.Contains(body, "fill in the rest") {
		t.Errorf("the page without a password:\n%s", body)
	}
	if a := c.post(form, "custom.team", ""); a.Code != http.StatusUnprocessableEntity || x.persons() != 1 {
		t.Errorf("nothing = %d", a.Code)
	}
	x.asking(func(d *login.Demand) { d.Level = 2 })
	if a := c.post(form, fields...); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	si, err := x.session(c)
	if err != nil || si.Level != 2 {
		t.Fatal(si, err)
	}
	if d := x.details(si.Subject); d.HasPassword || len(d.Profile.CustomAttributes) != 3 {
		t.Errorf("person = %+v", d)
	}
	x.mustEnter(x.browser(), bobby())
}
