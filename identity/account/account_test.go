package account_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sendTo opens a page and posts to the same path.
func sendTo(b *identitytest.Browser, path string, fields ...string) *identitytest.Answer {
	b.H.T.Helper()
	form := path
	if path == "/account/profile" {
		form += "?edit=details"
	}
	return b.Fill(b.Get(form), path, fields...)
}

// wantDone checks that an answer is a redirect to this page, which says what was done.
func wantDone(t *testing.T, what string, a *identitytest.Answer, to string) {
	t.Helper()
	if got := a.Header().Get("Location"); a.Code != http.StatusSeeOther || got != to {
		t.Errorf("%s = %d to %q, want 303 to %q\n%s", what, a.Code, got, to, a.Body)
	}
}

// dashboard returns a harness with a signed-in browser, configuration units and a mailbox.
func dashboard(t *testing.T) (*identitytest.Harness, *identitytest.Browser, *settings.Units, *notifytest.Notices) {
	t.Helper()
	h, u := identitytest.NewConfigured(t)
	h.Notices = new(notifytest.Notices)
	h.Start()
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	return h, b, u, h.Notices
}

func TestProfile(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	page := b.Get("/account/profile?edit=details")
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), `name="given_name"`) ||
		page.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("the profile page = %d\n%s", page.Code, page.Body)
	}
	wantDone(t, "names", sendTo(b, "/account/profile", "form", "details", "given_name", "Ann", "family_name", "Other",
		"date_of_birth", "1990-12-31", "gender", "F",
		"locale", "en", "username", "evil", "groups", "admin", "verified", "true", "state", "BLOCKED"), "/account/profile?done=saved")
	wantDone(t, "address", sendTo(b, "/account/profile", "form", "address", "street", "Main Street", "house_number", "12", "postal_code",
		"1234 AB", "city", "Utrecht", "country", "nl"),
		"/account/profile?done=saved")
	d := h.Details(identitytest.Demo)
	p := d.Profile
	if p.Name.FirstName != "Ann" || p.Name.LastName != "Other" || p.DateOfBirth != "1990-12-31" || p.Gender != "F" ||
		p.PreferredLocale != "en" {
		t.Errorf("profile = %+v", p)
	}
	if want := (person.Address{
		StreetName: "Main Street", HouseNumber: 12, PostalCode: "1234 AB", City: "Utrecht", CountryCode: "NL",
		Primary: true,
	}); len(p.Addresses) != 1 || p.Addresses[0] != want {
		t.Errorf("addresses = %+v, want %+v", p.Addresses, want)
	}
	if !slices.Equal(d.Groups, []string{"staff", "editors"}) || d.State != person.Active {
		t.Errorf("the form has changed what is not its own: %+v", d)
	}
	wantDone(t, "an empty address", sendTo(b, "/account/profile", "form", "address"), "/account/profile?done=saved")
	if p := h.Details(identitytest.Demo).Profile; len(p.Addresses) != 0 || p.Name.FirstName != "Ann" {
		t.Errorf("after the address was emptied: %+v", p)
	}
	u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
	for name, fields := range map[string][]string{
		"no given name":           {"form", "details", "family_name", "X"},
		"attack 276: a line":      {"form", "details", "given_name", "a\nb"},
		"a long name":             {"form", "details", "given_name", strings.Repeat("x", 257)},
		"a day that there is not": {"form", "details", "given_name", "Ann", "date_of_birth", "1990-02-31"},
		"a day to come":           {"form", "details", "given_name", "Ann", "date_of_birth", "2030-01-01"},
		"a house without number":  {"form", "address", "house_number", "12a"},
		"a country of three":      {"form", "address", "country", "NLD"},
		"no country":              {"form", "address", "country", "XX"},
		"no gender":               {"form", "details", "given_name", "Ann", "gender", "Z"},
	} {
		t.Run(name, func(t *testing.T) {
			if a := sendTo(b, "/account/profile", fields...); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%q = %d, want 422", fields, a.Code)
			}
		})
	}
	if got := h.Details(identitytest.Demo).Profile; got.Name != p.Name || got.DateOfBirth != p.DateOfBirth {
		t.Errorf("what was refused was written: %+v", got)
	}
	h.CheckInvariants()
}

func TestStoredTextIsText(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	for name, text := range map[string]string{
		"attack 276: markup":     `"><script>alert(1)</script>`,
		"attack 278: a template": `{{.}}{{ env "HOME" }}${7007*7}{env.HOME}`,
		"attack 278: a message":  `{brand} {provider}`,
	} {
		t.Run(name, func(t *testing.T) {
			wantDone(t, "names", sendTo(b, "/account/profile", "form", "details", "given_name", text, "family_name", text),
				"/account/profile?done=saved")
			if got := h.Details(identitytest.Demo).Profile.Name.FirstName; got != text {
				t.Errorf("stored %q, want %q", got, text)
			}
			for _, path := range []string{"/account", "/account/profile", "/account/devices", "/account/security"} {
				body := b.Get(path).Body.String()
				if strings.Contains(body, "<script>alert") || strings.Contains(body, "49049") {
					t.Errorf("%s shows it as more than text:\n%s", path, body)
				}
			}
		})
	}
}

func TestMandatoryPhone(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	wantDone(t, "a number", b.Fill(b.Get("/account/profile?edit=email"), "/account/profile/contact", "kind", "phone", "do", "add", "value",
		"+31 20 123 4567"), "/account/profile?done=added")
	u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = true
	number := h.Details(identitytest.Demo).Profile.PhoneNumbers[0].Value
	if a := b.Fill(b.Get("/account/profile?edit=details"), "/account/profile/contact", "kind", "phone", "do", "remove", "value",
		number); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("removing the only number where one is required = %d", a.Code)
	}
	u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = false
	wantDone(t, "removing it", b.Fill(b.Get("/account/profile"), "/account/profile/contact", "kind", "phone", "do", "remove", "value", number),
		"/account/profile?done=removed")
	if n := len(h.Details(identitytest.Demo).Profile.PhoneNumbers); n != 0 {
		t.Errorf("%d numbers, want none", n)
	}
}

// contact posts an e-mail address to the form for addresses and numbers of a person.
func contact(b *identitytest.Browser, do, value string) *identitytest.Answer {
	b.H.T.Helper()
	return b.Fill(b.Get("/account/profile?edit=email"), "/account/profile/contact", "kind", "email", "do", do, "value", value)
}

// codeOf returns the code of the only notice that was sent.
func codeOf(t *testing.T, m *notifytest.Notices, to string) string {
	t.Helper()
	list := m.Take()
	if len(list) != 1 || list[0].Kind != notify.AddressCode || list[0].To != to || len(list[0].Data["code"]) != 6 {
		t.Fatalf("sent: %+v, want a code to %s", list, to)
	}
	return list[0].Data["code"]
}

func emails(d person.Details) (out []string) {
	for _, e := range d.Profile.EmailAddresses {
		text := e.Value
		if e.Primary {
			text += " primary"
		}
		if e.Verified {
			text += " verified"
		}
		out = append(out, text)
	}
	return out
}

func TestVerificationEmail(t *testing.T) {
	t.Parallel()
	h, b, u, m := dashboard(t)
	u.EmailNotifications.AttributesUpdate.OnEmailUpdated = true
	u.Attributes.Verification.EmailEnabled = true
	wantDone(t, "a new address", contact(b, "add", "new@example.org"), "/account/profile/confirm")
	code := codeOf(t, m, "new@example.org")
	if got := emails(h.Details(identitytest.Demo)); len(got) != 1 {
		t.Errorf("before the code is typed: %q", got)
	}
	page := b.Get("/account/profile/confirm")
	if !strings.Contains(page.Body.String(), "new@example.org") || !strings.Contains(page.Body.String(), `autocomplete="one-time-code"`) {
		t.Errorf("the page for the code:\n%s", page.Body)
	}
	wrong := identitytest.WrongFor(code)
	if a := b.Fill(page, "/account/profile/confirm", "code", wrong); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.Fill(page, "/account/profile/confirm", "again", "yes"); a.Code != http.StatusTooManyRequests ||
		a.Header().Get("Retry-After") != "60" {
		t.Errorf("another code at once = %d", a.Code)
	}
	wantDone(t, "the code", b.Fill(page, "/account/profile/confirm", "code", code), "/account/profile?done=added")
	if got, want := emails(h.Details(identitytest.Demo)),
		[]string{identitytest.Demo + " primary verified", "new@example.org verified"}; !slices.Equal(got, want) {
		t.Errorf("addresses = %q, want %q", got, want)
	}
	m.Take()
	wantDone(t, "the primary one", contact(b, "primary", "new@example.org"), "/account/profile?done=primary")
	if list := m.Take(); len(list) != 1 || list[0].Kind != notify.EmailUpdated || list[0].To != identitytest.Demo {
		t.Errorf("told: %+v, want the old address", list)
	}
	d := h.Details("new@example.org")
	if got, want := emails(d), []string{identitytest.Demo + " verified", "new@example.org primary verified"}; !slices.Equal(got, want) ||
		d.Username != "new@example.org" {
		t.Errorf("%s has %q, want %q", d.Username, got, want)
	}
	if !b.IsSignedIn() {
		t.Error("the change of the address has signed the person out")
	}
	wantDone(t, "removing the primary one", contact(b, "remove", "new@example.org"), "/account/profile")
	wantDone(t, "removing the other one", contact(b, "remove", identitytest.Demo), "/account/profile?done=removed")
	if got := emails(h.Details("new@example.org")); len(got) != 1 {
		t.Errorf("addresses = %q, want one", got)
	}
	u.Attributes.Verification.EmailEnabled = false
	wantDone(t, "an address while none is verified", contact(b, "add", "plain@example.org"), "/account/profile?done=added")
	if got := emails(h.Details("new@example.org")); !slices.Contains(got, "plain@example.org") {
		t.Errorf("addresses = %q", got)
	}
	u.Attributes.Verification.EmailEnabled = true
	wantDone(t, "an address that no one has verified", contact(b, "primary", "plain@example.org"), "/account/profile")
	wantDone(t, "verifying it", contact(b, "verify", "plain@example.org"), "/account/profile/confirm")
	h.CheckInvariants()
}

// TestUsernameOfAnother: a username that equals the primary address changes with it, unless the new address is another
// person's username.
func TestUsernameOfAnother(t *testing.T) {
	t.Parallel()
	h, b, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled = true
	h.Add(person.NewPerson{Username: "other@example.org", Email: "elsewhere@example.org"})
	m.Take()
	wantDone(t, "a new address", contact(b, "add", "other@example.org"), "/account/profile/confirm")
	wantDone(t, "the code", sendTo(b, "/account/profile/confirm", "code", codeOf(t, m, "other@example.org")), "/account/profile?done=added")
	wantDone(t, "the primary one", contact(b, "primary", "other@example.org"), "/account/profile?done=primary")
	if d := h.Details(identitytest.Demo); d.Username != identitytest.Demo ||
		!slices.Contains(emails(d), "other@example.org primary verified") {
		t.Errorf("%s has %q", d.Username, emails(d))
	}
}

// TestUsernameIsKept: a username by which the configuration names a person stays when the primary address changes.
func TestUsernameIsKept(t *testing.T) {
	t.Parallel()
	h, b, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled = true
	h.Person.KeepName(identitytest.Demo)
	m.Take()
	wantDone(t, "a new address", contact(b, "add", "new@example.org"), "/account/profile/confirm")
	wantDone(t, "the code", sendTo(b, "/account/profile/confirm", "code", codeOf(t, m, "new@example.org")), "/account/profile?done=added")
	wantDone(t, "the primary one", contact(b, "primary", "new@example.org"), "/account/profile?done=primary")
	if d := h.Details(identitytest.Demo); d.Username != identitytest.Demo || !slices.Contains(emails(d), "new@example.org primary verified") {
		t.Errorf("%s has %q", d.Username, emails(d))
	}
}

func TestContactAttacks(t *testing.T) {
	t.Parallel()
	h, b, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled = true
	u.Features.CustomEmailValidation = identitytest.UnitsOf(t,
		`{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"example\\.(com|org)"}}}`).Features.CustomEmailValidation
	before := emails(h.Details(identitytest.Demo))
	unchanged := func(what string) {
		t.Helper()
		if got := emails(h.Details(identitytest.Demo)); !slices.Equal(got, before) {
			t.Errorf("%s: addresses = %q, want %q", what, got, before)
		}
	}
	t.Run("attack 241: an address that is called verified by the form", func(t *testing.T) {
		form := b.Get("/account/profile?edit=details")
		wantDone(t, "add", b.Fill(form, "/account/profile/contact", "kind", "email", "do", "add", "value", "x@example.org", "verified", "true"),
			"/account/profile/confirm")
		b.Fill(form, "/account/profile", "form", "details", "email", "x@example.org", "verified", "true", "email_addresses", "x@example.org")
		wantDone(t, "primary", b.Fill(form, "/account/profile/contact", "kind", "email", "do", "primary", "value", "x@example.org"),
			"/account/profile")
		unchanged("add and primary")
		m.Take()
	})
	for name, value := range map[string]string{
		"attack 239: two addresses":                 "a@example.org,b@example.org",
		"attack 239: a header":                      "a@example.org\r\nBcc: b@example.org",
		"attack 239: NUL":                           "a\x00@example.org",
		"attack 239: a name in front":               "Ann <a@example.org>",
		"attack 239: 60 kB":                         strings.Repeat("a", 60_000) + "@example.org",
		"attack 243: another host behind the right": "x@example.com.evil",
		"attack 243: two at signs":                  "x@evil@example.com",
		"attack 242: many letters":                  strings.Repeat("a", 50_000) + "!",
	} {
		t.Run(name, func(t *testing.T) {
			if a := contact(b, "add", value); a.Code != http.StatusUnprocessableEntity || len(m.Take()) != 0 {
				t.Errorf("add %.40q = %d, want 422 and nothing sent", value, a.Code)
			}
			unchanged(name)
		})
	}
	t.Run("attack 267: a code of another session, or for another address", func(t *testing.T) {
		h.Clock.Advance(20 * time.Minute)
		wantDone(t, "add", contact(b, "add", "y@example.org"), "/account/profile/confirm")
		code := codeOf(t, m, "y@example.org")
		other := h.Browser()
		other.SignIn(identitytest.Demo, identitytest.DemoPassword)
		wantDone(t, "the page of another browser", get2(other, "/account/profile/confirm"), "/account/profile")
		if a := other.Fill(other.Get("/account/profile"), "/account/profile/confirm", "code",
			code); strings.Contains(a.Header().Get("Location"), "done=") {
			t.Errorf("the code in another browser = %d to %s", a.Code, a.Header().Get("Location"))
		}
		h.Clock.Advance(2 * time.Minute)
		wantDone(t, "another address", contact(b, "add", "z@example.org"), "/account/profile/confirm")
		m.Take()
		if a := sendTo(b, "/account/profile/confirm", "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code for y@example.org at z@example.org = %d", a.Code)
		}
		unchanged("foreign codes")
	})
	t.Run("attack 267: codes by the dozen", func(t *testing.T) {
		h.Clock.Advance(50 * time.Minute)
		wantDone(t, "add", contact(b, "add", "w@example.org"), "/account/profile/confirm")
		code := codeOf(t, m, "w@example.org")
		form := b.Get("/account/profile/confirm")
		for range 5 {
			b.Fill(form, "/account/profile/confirm", "code", "000000")
		}
		if a := b.Fill(form, "/account/profile/confirm", "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the right code after five wrong ones = %d", a.Code)
		}
		unchanged("guesses")
	})
	h.CheckInvariants()
}

// get2 is get without following redirects.
func get2(b *identitytest.Browser, target string) *identitytest.Answer {
	return b.Do(http.MethodGet, target, "")
}

func TestChangePassword(t *testing.T) {
	t.Parallel()
	h, b, u, m := dashboard(t)
	u.EmailNotifications.AttributesUpdate.OnPasswordUpdated = true
	u.PasswordPolicy.UpperCaseCharRequired = true
	const path, next = "/account/security/password", "Another horse 2"
	other := h.Browser()
	other.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if a := b.Get("/account/security"); !strings.Contains(a.Body.String(), path) {
		t.Errorf("the security page does not lead to the password:\n%s", a.Body)
	}
	if a := b.Get(path); !strings.Contains(a.Body.String(), "uppercase") && !strings.Contains(a.Body.String(), "capital") {
		t.Errorf("the page does not say what the policy demands:\n%s", a.Body)
	}
	for name, tt := range map[string]struct {
		current, password string
		want              string
	}{
		"a wrong one":                          {"wrong horse 1", next, "isn’t your current password"},
		"attack 226: without a class":          {identitytest.DemoPassword, "another horse 2", ""},
		"attack 226: one less than the policy": {identitytest.DemoPassword, "Short12"[:7], ""},
		"attack 226: too long":                 {identitytest.DemoPassword, strings.Repeat("A", 257), ""},
		"attack 226: NUL":                      {identitytest.DemoPassword, "Another\x00horse 2", ""},
		"attack 226: nothing":                  {identitytest.DemoPassword, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if a := sendTo(b, path, "current", tt.current, "password", tt.password); a.Code != http.StatusUnprocessableEntity ||
				!strings.Contains(a.Body.String(), tt.want) {
				t.Errorf("the answer = %d, want 422 and %q\n%s", a.Code, tt.want, a.Body)
			} else if strings.Contains(a.Body.String(), next) || strings.Contains(a.Body.String(), identitytest.DemoPassword) {
				t.Error("the page shows a password")
			}
		})
	}
	m.Take()
	wantDone(t, "the change", sendTo(b, path, "current", identitytest.DemoPassword, "password", next), path+"?done=password")
	if !b.IsSignedIn() || other.IsSignedIn() {
		t.Errorf("signed in here %t and there %t, want true and false", b.IsSignedIn(), other.IsSignedIn())
	}
	identitytest.WantNotices(t, "the change", m, "password_updated "+identitytest.Demo)
	if a := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the old password = %d", a.Code)
	}
	h.Browser().SignIn(identitytest.Demo, next)
	if n := h.Events()["person.PasswordChangedEvent"]; n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	h.CheckInvariants()
}

// TestChangePasswordIsThrottled: attempts in an open browser are limited, like those on the sign-in page.
func TestChangePasswordIsThrottled(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	for range 5 {
		sendTo(b, "/account/security/password", "current", "wrong", "password", "Another horse 2")
	}
	if a := sendTo(b, "/account/security/password", "current", identitytest.DemoPassword, "password",
		"Another horse 2"); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") == "" {
		t.Errorf("after five wrong ones the right one = %d", a.Code)
	}
	if n := h.Events()["login.LoginFailedEvent"]; n != 5 {
		t.Errorf("%d events of refused tries, want 5", n)
	}
}

// TestFirstPassword: a person without a password can set one under the same conditions as set up another method.
func TestFirstPassword(t *testing.T) {
	t.Parallel()
	e := identitytest.NewFederated(t)
	u := settings.Defaults()
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Start()
	e.At("partner")
	b := e.Browser()
	e.MustEnter(b, &idp.Identity{Issuer: "https://partner.example.com", Subject: "eve", Username: "eve", Level: 1})
	const path = "/account/security/password"
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	u.StepUp.Actions.SetupStepUpMethodsAuthenticationLevel = 3
	t.Run("attack 266: a first password without the level of a set-up", func(t *testing.T) {
		if a := b.Get(path); strings.Contains(a.Body.String(), `action="`+path) {
			t.Errorf("GET %s shows the form", path)
		}
	})
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	if a := b.Get(path); a.Code != http.StatusOK || strings.Contains(a.Body.String(), `name="current"`) {
		t.Fatalf("the page = %d\n%s", a.Code, a.Body)
	}
	wantDone(t, "the first one", sendTo(b, path, "password", "Another horse 2"), path+"?done=password")
	if !b.IsSignedIn() {
		t.Error("the session has ended")
	}
	if a := b.Get(path); !strings.Contains(a.Body.String(), `name="current"`) {
		t.Errorf("the page, then:\n%s", a.Body)
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	other := h.Browser()
	other.Header = http.Header{"User-Agent": {firefox}}
	other.Address = "198.51.100.9:1"
	other.SignIn(identitytest.Demo, identitytest.DemoPassword)
	third := h.Browser()
	third.SignIn(identitytest.Demo, identitytest.DemoPassword)
	stranger := h.Browser()
	h.Add(person.NewPerson{Username: "mallory@example.com", Password: secret.New("Mallory horse 3")})
	stranger.SignIn("mallory@example.com", "Mallory horse 3")

	page := b.Get("/account/devices")
	body := page.Body.String()
	if strings.Count(body, `name="session"`) != 3 || !strings.Contains(body, "Firefox on Linux") || !strings.Contains(body, "198.51.100.9") ||
		strings.Count(body, "Current session") != 1 {
		t.Errorf("the page:\n%s", body)
	}
	theirs, err := h.SessionOf(stranger)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("attack 246: the session of another person", func(t *testing.T) {
		b.Fill(page, "/account/devices", "session", theirs.SessionID)
		if !stranger.IsSignedIn() {
			t.Error("it has ended")
		}
	})
	s, err := h.SessionOf(other)
	if err != nil {
		t.Fatal(err)
	}
	wantDone(t, "one", b.Fill(page, "/account/devices", "session", s.SessionID), "/account/devices?done=ended")
	if other.IsSignedIn() || !third.IsSignedIn() || !b.IsSignedIn() {
		t.Errorf("signed in: ended %t, third %t, this %t", other.IsSignedIn(), third.IsSignedIn(), b.IsSignedIn())
	}
	mine, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	wantDone(t, "this one", b.Fill(page, "/account/devices", "session", mine.SessionID), "/account/devices?done=ended")
	if !b.IsSignedIn() {
		t.Error("the page ends the session that it is shown in")
	}
	wantDone(t, "all others", b.Fill(page, "/account/devices", "session", "others"), "/account/devices?done=ended")
	if third.IsSignedIn() || !b.IsSignedIn() || !stranger.IsSignedIn() {
		t.Errorf("signed in: third %t, this %t, another person %t", third.IsSignedIn(), b.IsSignedIn(), stranger.IsSignedIn())
	}
	if n := h.Events(); n["session.SignedOutEvent"] != 1 || n["session.SessionsEndedEvent"] != 1 {
		t.Errorf("events = %v", n)
	}
	h.CheckInvariants()
}
