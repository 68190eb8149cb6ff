package federation_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestForcedRegistration(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	b := x.Browser()
	form := x.Arrive(b, identitytest.Ann())
	body := form.Body.String()
	for _, want := range []string{
		`value="ann@partner.example" autocomplete="username"`, `autocomplete="new-password"`,
		`value="ann@partner.example" autocomplete="email"`, "readonly", "/sign-in/connect?",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s:\n%s", want, body)
		}
	}
	if x.Persons() != 0 {
		t.Error("there is a person before the form")
	}
	for _, tt := range []struct{ what, username, password, want string }{
		{"no username", "", identitytest.FreshPassword, "Fill in this field."},
		{"a username that is none", "two words", identitytest.FreshPassword, "Use only letters and digits, without spaces."},
		{"an id", "0189f7ea-ae2c-7809-8aeb-b819cf5e9e7f", identitytest.FreshPassword, "Use only letters and digits, without spaces."},
		{"a control character", "a\x07b", identitytest.FreshPassword, "Use only letters and digits, without spaces."},
		{"another's address", "victim@example.com", identitytest.FreshPassword, "Use your own e-mail address"},
		{"a taken username", "DEMO", identitytest.FreshPassword, ""},
		{"no password", "ann", "", "Enter your password."},
		{"a password against the policy", "ann", "short", "That password is too short"},
	} {
		if tt.what == "a taken username" {
			x.Add(person.NewPerson{Username: "taken", Password: secret.New(identitytest.DemoPassword)})
			tt.username, tt.want = "TAKEN", "create an account with that username"
		}
		if a := b.Post(form, "username", tt.username, "password", tt.password); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.Body.String(), tt.want) {
			t.Errorf("%s: %d\n%s", tt.what, a.Code, a.Body)
		}
	}
	before := x.Persons()
	a := b.Post(form, "username", "Ann", "password", identitytest.FreshPassword, "email", "other@example.com")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("POST = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	si, err := x.SessionOf(b)
	if err != nil || si.Level != 2 || si.Provider != "partner" || x.Persons() != before+1 {
		t.Errorf("session = %+v, %v, want one of partner at level 2", si, err)
	}
	p, err := x.Person.Person(t.Context(), "ann")
	if err != nil || p.ID != si.Subject || p.Email != "ann@partner.example" || !p.EmailVerified || p.Name != "Ann Partner" {
		t.Errorf("person = %+v, %v", p, err)
	}
	x.At("identity", "partner")
	x.Browser().SignIn("ann", identitytest.FreshPassword)
	x.At("partner", "identity")
	if si := x.MustEnter(x.Browser(), identitytest.Ann()); si.Subject != p.ID {
		t.Errorf("the second sign-in is that of %s", si.Subject)
	}
	if ev := x.Events(); ev["person.ExternalIdentityCoupledEvent"] != 1 {
		t.Errorf("events = %v", ev)
	}
}

// TestForcedRegistrationOff: people register only while the switch is on, local passwords are in use, and no account
// matches their address.
func TestForcedRegistrationOff(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t, identitytest.CoupleByEmail)
	if si := x.MustEnter(x.Browser(), identitytest.Known()); si.Subject != x.DemoID() {
		t.Errorf("who is found by the address = %s", si.Subject)
	}
	method := &x.U.LoginMethods.LoginMethods[len(x.U.LoginMethods.LoginMethods)-1]
	b, fresh := x.Browser(), identitytest.Ann()
	fresh.Subject = "4712"
	form := x.Arrive(b, fresh)
	method.ForceCreatingUsernameAndPasswordDuringSignUp = false
	if a := b.Get(form.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") || x.Persons() != 1 {
		t.Errorf("switched off meanwhile: %d at %s, %d persons", a.Code, a.URL, x.Persons())
	}
	method.ForceCreatingUsernameAndPasswordDuringSignUp = true
	bob := identitytest.Ann()
	bob.Subject, bob.Email = "bob", ""
	bob.Details = nil
	c := x.Browser()
	away := c.Leave("/next")
	x.U.Features.LoginEnabled = false
	if a := c.Come(away, x.Partner.Answer(bob, nil)); a.Code != http.StatusForbidden {
		t.Errorf("while nobody signs in: %d", a.Code)
	}
	x.U.Features.LoginEnabled = true
	x.U.LoginMethods.LoginMethods = append([]settings.LoginMethod{{ID: settings.OwnMethod, Type: settings.TypePassword}}, *method)
	x.At("partner")
	x.MustEnter(x.Browser(), bob) // no registration: passwords are off, so one would be useless
}

func TestForcedRegistrationConfirms(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	x.U.Attributes.PersonCreationMandatoryFields = settings.PersonCreationMandatoryFields{
		FirstNameRequired: true, LastNameRequired: true,
		MobileNumberRequired: true,
	}
	x.U.Features.CustomEmailValidation = settings.CustomEmailValidation{Enabled: true}
	id := identitytest.Ann()
	id.EmailVerified = false
	b := x.Browser()
	form := x.Arrive(b, id)
	if body := form.Body.String(); !strings.Contains(body, `value="Ann"`) || strings.Contains(body, "readonly") {
		t.Errorf("the page:\n%s", body)
	}
	fields := []string{
		"username", "ann", "email", "ann@elsewhere.example", "given_name", "Anna", "family_name", "Partner", "phone",
		"+31 6 1234 5678", "password", identitytest.FreshPassword,
	}
	if a := b.Post(form, append([]string{"phone", ""}, fields[:8]...)...); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("without a number = %d", a.Code)
	}
	a := b.Post(form, fields...)
	if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-in/register/confirm?") {
		t.Fatalf("POST = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	code := x.Mailed(notify.SignUpCode, "ann@elsewhere.example")
	page := b.Get(a.Header().Get("Location"))
	if again := b.Get(form.URL); !strings.Contains(again.Body.String(), `value="Anna"`) ||
		strings.Contains(again.Body.String(), identitytest.FreshPassword) {
		t.Errorf("back at the form:\n%s", again.Body)
	}
	if a := b.Post(form, fields...); a.Header().Get("Location") != page.URL {
		t.Errorf("the form again = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if a := b.Post(page, "code", identitytest.WrongFor(code)); a.Code != http.StatusUnprocessableEntity || x.Persons() != 0 {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.Post(page, "code", code); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the code = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	d := x.Details("ann")
	if p := d.Profile; p.EmailAddresses[0] != (person.EmailAddress{Primary: true, Verified: true, Value: "ann@elsewhere.example"}) ||
		p.Name.DisplayName != "Anna Partner" || p.PhoneNumbers[0].Value != "+31612345678" {
		t.Errorf("profile = %+v", p)
	}
	for key, value := range x.Dump() {
		if strings.Contains(value, identitytest.FreshPassword) || strings.Contains(value, code) {
			t.Errorf("%q holds a secret", key)
		}
	}
}

func TestForcedRegistrationPassive(t *testing.T) {
	t.Parallel()
	x := identitytest.NewRegistering(t)
	x.Asking(func(d *authn.Demand) { d.Providers, d.Passive = []string{"partner"}, true })
	b := x.Browser()
	if a := x.Through(b, identitytest.Ann()); a.Code != http.StatusForbidden ||
		!strings.Contains(a.Body.String(), "interaction_required") || x.Persons() != 0 {
		t.Errorf("prompt=none = %d %s", a.Code, a.Body)
	}
}

func TestForcedRegistrationAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 117: one answer of a provider makes one person, in two tabs, again and at once", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		b := x.Browser()
		form := x.Arrive(b, identitytest.Ann())
		second := x.Arrive(b, identitytest.Ann())
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				c := &identitytest.Browser{H: b.H, Cookies: maps.Clone(b.Cookies), Address: b.Address}
				c.Post(form, "username", "ann"+string(rune('a'+i)), "password", identitytest.FreshPassword)
			})
		}
		wg.Wait()
		if x.Persons() != 1 {
			t.Fatalf("%d persons of one answer", x.Persons())
		}
		if a := b.Post(form, "username", "late", "password", identitytest.FreshPassword); a.Code != http.StatusBadRequest {
			t.Errorf("the form again = %d", a.Code)
		}
		a := b.Post(second, "username", "second", "password", identitytest.FreshPassword)
		if a = b.Get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") || x.Persons() != 1 || x.Exists("second") {
			t.Errorf("the other tab: %d at %s, %d persons", a.Code, a.URL, x.Persons())
		}
	})
	t.Run("attack 116: the answer of somebody else's browser, without token, too late", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		b, thief := x.Browser(), x.Browser()
		form := x.Arrive(b, identitytest.Ann())
		other := x.Arrive(thief, identitytest.Bobby())
		if a := thief.Do(http.MethodGet, form.URL, ""); a.Code != http.StatusForbidden {
			t.Errorf("GET by another browser = %d", a.Code)
		}
		fields := url.Values{"csrf": {other.CSRF()}, "username": {"thief"}, "password": {identitytest.FreshPassword}}
		for what, a := range map[string]*identitytest.Answer{
			"by another browser":          thief.Do(http.MethodPost, form.URL, fields.Encode()),
			"with another answer's token": b.Do(http.MethodPost, form.URL, fields.Encode()),
			"without a token": b.Do(http.MethodPost, form.URL,
				url.Values{"username": {"x"}, "password": {identitytest.FreshPassword}}.Encode()),
		} {
			if a.Code != http.StatusForbidden || x.Persons() != 0 {
				t.Errorf("%s = %d, %d persons", what, a.Code, x.Persons())
			}
		}
		x.Clock.Advance(time.Hour)
		if a := b.Post(form, "username", "ann", "password", identitytest.FreshPassword); a.Code != http.StatusBadRequest || x.Persons() != 0 {
			t.Errorf("after an hour = %d", a.Code)
		}
	})
	t.Run("attack 122: an answer that nobody has asked for gets no password", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		b := x.Browser()
		a := b.Do(http.MethodGet, "/oidc/partner/callback?"+url.Values{"ticket": {x.Partner.Answer(identitytest.Ann(), nil)}}.Encode(), "")
		if a = b.Do(http.MethodGet, a.Header().Get("Location"), ""); a.Code == http.StatusSeeOther &&
			strings.HasPrefix(a.Header().Get("Location"), "/sign-in/register") || x.Persons() != 0 {
			t.Errorf("unsolicited = %d to %s", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 278: scripts in what a provider says", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		x.U.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
		id := identitytest.Bobby()
		const script = `"><script>alert(1)</script>`
		id.Username, id.Details = script, map[string][]string{"firstName": {script}, "lastName": {"a\x00b"}}
		if body := x.Arrive(x.Browser(), id).Body.String(); strings.Contains(body, "<script>alert") || !strings.Contains(body, "&lt;script&gt;") {
			t.Errorf("the page:\n%s", body)
		}
	})
	t.Run("attack 219: an address that somebody has gets the answer of a new one, and the owner a mail", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		shape := func(email string) string {
			id := identitytest.Bobby()
			id.Subject = email
			b := x.Browser()
			a := b.Post(x.Arrive(b, id), "username", strings.ToLower(email), "email", email, "password", identitytest.FreshPassword)
			page := b.Get(a.Header().Get("Location"))
			body, _, _ := strings.Cut(page.Body.String(), "<ul class=\"links\">")
			_, body, _ = strings.Cut(body, "<p class=\"lead\">")
			body, _, _ = strings.Cut(strings.ReplaceAll(body, email, "X"), "<form")
			return body
		}
		fresh := shape("fresh@example.com")
		x.Mailed(notify.SignUpCode, "fresh@example.com")
		if got := shape("Demo@example.com"); got != fresh || !strings.Contains(got, "X") {
			t.Errorf("a taken address:\n%s\nwant\n%s", got, fresh)
		}
		identitytest.WantNotices(t, "a taken address", x.Notices, "sign_up_existing "+identitytest.Demo)
	})
	t.Run("the forms of one address are counted", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		b := x.Browser()
		form := x.Arrive(b, identitytest.Ann())
		var last *identitytest.Answer
		for range 21 {
			last = b.Post(form, "username", identitytest.Demo, "password", "short")
		}
		if last.Code == http.StatusTooManyRequests {
			t.Error("what is refused without a hash is counted")
		}
		for range 21 {
			last = b.Post(form, "username", "taken"+strings.Repeat("x", 300), "password", identitytest.FreshPassword)
		}
		x.Add(person.NewPerson{Username: "taken", Password: secret.New(identitytest.DemoPassword)})
		for range 21 {
			last = b.Post(form, "username", "taken", "password", identitytest.FreshPassword)
		}
		if last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" {
			t.Errorf("the 21st try of a taken name = %d", last.Code)
		}
	})
}
