package identity_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestLoginEnabled(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	before, waiting := h.Browser(), h.Browser()
	before.SignIn(identitytest.Demo, identitytest.DemoPassword)
	form := waiting.Get("/next")

	u.Features.LoginEnabled = false
	closed := func(what string, a *identitytest.Answer) {
		t.Helper()
		if a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "Sign-in is temporarily unavailable") {
			t.Errorf("%s = %d, want 403 and the page that says so:\n%s", what, a.Code, a.Body)
		}
	}
	b := h.Browser()
	closed("a sign-in", b.Get("/next"))
	closed("a sign-in for nothing in particular", b.Get("/sign-in"))
	closed("the account page", b.Get("/account"))
	closed("a page that was open", waiting.Get(form.URL))
	closed("a form that was open", waiting.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword))
	if !before.IsSignedIn() {
		t.Error("who was signed in is so no more")
	}
	if _, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, identitytest.DemoPassword,
		audit.Origin{}); !errors.As(err, new(*authn.Refusal)) {
		t.Errorf("CheckPassword = %v, want a refusal", err)
	}
	h.Demand = func(r *http.Request) authn.Demand { return authn.Demand{MaxAge: -1, Passive: true} }
	if a := b.Get("/next"); a.Code != http.StatusForbidden || strings.TrimSpace(a.Body.String()) != "login_required" {
		t.Errorf("a passive demand = %d %s, want login_required", a.Code, a.Body)
	}
	if n := h.Events()["login.LoginSucceededEvent"]; n != 1 {
		t.Errorf("%d sign-ins, want 1", n)
	}

	u.Features.LoginEnabled = true
	if a := waiting.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusSeeOther {
		t.Errorf("the form, once signing in is open again = %d, want 303", a.Code)
	}
	h.CheckInvariants()
}

func TestPasswordMethodOff(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	b := h.Browser()
	form := b.Get("/next")
	u.LoginMethods.LoginMethods[0].Enabled = false
	if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code == http.StatusSeeOther ||
		b.Session() != "" {
		t.Errorf("a password while the method is off = %d", a.Code)
	}
	if a := h.Browser().Get("/next"); a.Code != http.StatusForbidden || strings.Contains(a.Body.String(), `name="password"`) {
		t.Errorf("the sign-in page while there is no way to sign in = %d\n%s", a.Code, a.Body)
	}
	if _, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, identitytest.DemoPassword,
		audit.Origin{}); !errors.As(err, new(*authn.Refusal)) {
		t.Errorf("CheckPassword = %v, want a refusal", err)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, origin, login, logout string
		wantLogin, wantLogout       string
	}{
		{"nothing set", "", "", "", "/account", "/sign-out"},
		{"paths of ours", "", "/welcome", "/bye", "/welcome", "/bye"},
		{
			"URLs", "", "https://www.example.com/in", "https://www.example.com/out?x=y", "https://www.example.com/in",
			"https://www.example.com/out?x=y",
		},
		{
			"paths of the default origin", "https://www.example.com", "/welcome", "/bye", "https://www.example.com/welcome",
			"https://www.example.com/bye",
		},
		{"the default origin alone", "https://www.example.com", "", "", "https://www.example.com/", "/sign-out"},
		{"a URL beside the default origin", "https://www.example.com", "https://app.example.com/", "", "https://app.example.com/", "/sign-out"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, u := identitytest.NewConfigured(t)
			u.Redirects.DefaultOriginURL, u.Redirects.URLAfterLogin, u.Redirects.URLAfterLogout = tt.origin, tt.login, tt.logout
			b := h.Browser()
			form := b.Get("/sign-in")
			a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword)
			to := a.Header().Get("Location")
			if strings.HasPrefix(to, "/sign-in") { // to another host, through a page of the service
				to = b.Do(http.MethodGet, to, "").Header().Get("Location")
			}
			if to != tt.wantLogin {
				t.Errorf("after sign-in the browser is sent to %q, want %q", to, tt.wantLogin)
			}
			wantPolicy(t, form, tt.wantLogin)

			ask := b.Get("/sign-out")
			wantPolicy(t, ask, tt.wantLogout)
			if to := b.Post(ask, "asked", "yes").Header().Get("Location"); to != tt.wantLogout || b.Session() != "" {
				t.Errorf("after sign-out the browser is sent to %q, want %q", to, tt.wantLogout)
			}

			// The button on every page, whose policy knows nothing of where it leads.
			c := h.Browser()
			c.SignIn(identitytest.Demo, identitytest.DemoPassword)
			_, button, _ := strings.Cut(c.Get("/account").Body.String(), `action="/sign-out"`)
			_, button, _ = strings.Cut(button, `value="`)
			csrf, _, _ := strings.Cut(button, `"`)
			a = c.Do(http.MethodPost, "/sign-out", url.Values{"csrf": {csrf}}.Encode())
			leads, err := url.Parse(tt.wantLogout)
			switch {
			case err != nil:
				t.Fatal(err)
			case c.Session() != "":
				t.Error("the button of a page does not sign out")
			case leads.Host == "" && a.Header().Get("Location") != tt.wantLogout:
				t.Errorf("the button leads to %q, want %q", a.Header().Get("Location"), tt.wantLogout)
			case leads.Host != "" && (a.Code != http.StatusOK || a.Header().Get("Refresh") != "3; url="+tt.wantLogout):
				t.Errorf("the button = %d, Refresh %q, want a page that leads to %s", a.Code, a.Header().Get("Refresh"), tt.wantLogout)
			}
			h.CheckInvariants()
		})
	}
}

// wantPolicy asserts that the policy of a page allows its form to redirect to the target; browsers enforce that.
func wantPolicy(t *testing.T, page *identitytest.Answer, target string) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return
	}
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://"+u.Host) {
		t.Errorf("the form leads to %s, and its policy is %s", target, policy)
	}
}

func TestRedirectParameter(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	u.Redirects.URLWhitelist = []settings.WhitelistedURL{{ID: "1", URL: "https://www.example.com/a"}}
	u.Redirects.URLAfterLogin, u.Redirects.URLAfterLogout = "/standard", "/standard"
	for name, tt := range map[string]struct{ wanted, want string }{
		"whitelisted":                         {"https://www.example.com/a/b?c=d", "https://www.example.com/a/b?c=d"},
		"a path of ours":                      {"/account", "/account"},
		"attack 281: another host":            {"https://evil.example/a", "/standard"},
		"attack 281: another path":            {"https://www.example.com/b", "/standard"},
		"attack 281: no scheme":               {"//evil.example/", "/standard"},
		"attack 281: no slashes":              {"https:evil.example", "/standard"},
		"attack 281: a backslash":             {`/\evil.example`, "/standard"},
		"attack 281: a tab":                   {"/\t/evil.example", "/standard"},
		"attack 281: an encoded tab":          {"/%09/evil.example", "/standard"},
		"attack 281: three slashes":           {"///evil.example", "/standard"},
		"attack 281: a script":                {"javascript:alert(1)", "/standard"},
		"attack 281: dots before the slashes": {"/..//evil.example", "/standard"},
	} {
		t.Run(name, func(t *testing.T) {
			b := h.Browser()
			query := "?redirect=" + url.QueryEscape(tt.wanted)
			form := b.Get("/sign-in" + query)
			to := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword).Header().Get("Location")
			if strings.HasPrefix(to, "/sign-in") {
				to = b.Do(http.MethodGet, to, "").Header().Get("Location")
			}
			if to != tt.want {
				t.Errorf("/sign-in%s leads to %q, want %q", query, to, tt.want)
			}
			wantPolicy(t, form, tt.want)
			if to := b.Do(http.MethodGet, "/sign-in"+query, "").Header().Get("Location"); to != tt.want {
				t.Errorf("/sign-in%s of who is signed in leads to %q, want %q", query, to, tt.want)
			}
			if to := b.Post(b.Get("/sign-out"+query), "asked", "yes").Header().Get("Location"); to != tt.want {
				t.Errorf("/sign-out%s leads to %q, want %q", query, to, tt.want)
			}
		})
	}
	h.CheckInvariants()
}

func TestDashboardLevel(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	if a := b.Get("/account"); a.Code != http.StatusOK {
		t.Fatalf("the account page = %d", a.Code)
	}
	u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 2
	if a := b.Get("/account"); a.Code != http.StatusForbidden || strings.Contains(a.Body.String(), "Demo Person") {
		t.Errorf("the account page with a password, where level 2 is demanded = %d\n%s", a.Code, a.Body)
	}
	if !b.IsSignedIn() {
		t.Error("the session has ended")
	}
}

func TestNameVisibleOnDashboard(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for _, on := range []bool{false, true} {
		u.Attributes.NameVisibleOnDashboard = on
		if got := strings.Contains(b.Get("/account").Body.String(), "Demo Person"); got != on {
			t.Errorf("the name is shown: %v, want %v", got, on)
		}
	}
}

func TestPasswordPolicyOnEveryWay(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	u.PasswordPolicy = settings.PasswordPolicy{
		MinLength: 10, MaxLength: 20, LowerCaseCharRequired: true, UpperCaseCharRequired: true,
		SpecialCharRequired: true,
	}
	persons := 0
	ways := map[string]func(password string) error{
		"a new person": func(p string) error {
			persons++
			_, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: fmt.Sprintf("new-%d", persons), Password: secret.New(p)},
				audit.Actor{})
			return err
		},
		"a change": func(p string) error {
			return h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New(p), audit.Actor{})
		},
		"an edit": func(p string) error {
			who, err := h.Person.Person(t.Context(), identitytest.Demo)
			if err != nil {
				return err
			}
			_, err = h.Person.UpdatePerson(t.Context(), who.ID, person.Edit{Password: secret.New(p)},
				func(storage.Tx, *person.Details) error { return nil })
			return err
		},
	}
	for name, tt := range map[string]struct {
		password string
		good     bool
	}{
		"attack 226: one too short":         {"Abcdefg-9", false},
		"attack 226: the shortest":          {"Abcdefg-90", true},
		"attack 226: the longest":           {"Abcdefg-901234567890", true},
		"attack 226: one too long":          {"Abcdefg-9012345678901", false},
		"attack 226: no lower case":         {"ABCDEFG-90", false},
		"attack 226: no upper case":         {"abcdefg-90", false},
		"attack 226: nothing special":       {"Abcdefg890", false},
		"attack 226: characters, not bytes": {"Ääää-äääää", true},
		"attack 226: composed as one":       {"A\u0308bcdefg-9", false}, // nine characters once composed
		"attack 226: NUL":                   {"Abcdefg-9\x00", false},
		"attack 226: not UTF-8":             {"Abcdefg-9\xff", false},
		"attack 226: 1 MB":                  {"Ab-" + strings.Repeat("x", 1<<20), false},
		"attack 226: nothing":               {"", true}, // no password is set, so there is nothing to check
	} {
		t.Run(name, func(t *testing.T) {
			for way, set := range ways {
				if tt.password == "" && way == "a change" {
					continue
				}
				err := set(tt.password)
				if invalid := new(person.ValidationError); (err == nil) != tt.good || err != nil &&
					(!errors.As(err, &invalid) || invalid.Field != "password") {
					t.Errorf("%s with %.30q: %v, want good: %v", way, tt.password, err, tt.good)
				}
			}
		})
	}
	t.Run("attack 226: twins in the first 72 bytes", func(t *testing.T) {
		u.PasswordPolicy = settings.Defaults().PasswordPolicy
		one, two := strings.Repeat("x", 72)+"one", strings.Repeat("x", 72)+"two"
		if err := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New(one), audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, two, audit.Origin{}); !errors.Is(err, authn.ErrBadCredentials) {
			t.Errorf("CheckPassword of the twin = %v, want login.ErrBadCredentials", err)
		}
		if _, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, " "+one, audit.Origin{}); !errors.Is(err, authn.ErrBadCredentials) {
			t.Errorf("CheckPassword with a space before = %v, want login.ErrBadCredentials", err)
		}
		if _, err := h.CheckPassword(t.Context(), "shop", identitytest.Demo, one, audit.Origin{}); err != nil {
			t.Errorf("CheckPassword = %v", err)
		}
	})
	h.CheckInvariants()
}

func TestCustomEmailValidation(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	old, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "old", Email: "old@elsewhere.example"}, audit.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	// The expressions are compiled when the units are read from storage.
	stored := `{"features":{"custom_email_validation":{"enabled":true,"before_at_regex":"[a-z]+","after_at_regex":"example\\.com"}}}`
	*u = *identitytest.UnitsOf(t, stored)
	for name, want := range map[string]bool{
		"ann@example.com": true, "ann@example.com.evil": false, "ann@elsewhere.example": false, "Ann@example.com": false,
		`"x@y"@example.com`: false,
	} {
		_, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "person" + strings.ToLower(secretName(name)), Email: name},
			audit.Actor{})
		if invalid := new(person.ValidationError); (err == nil) != want || err != nil && (!errors.As(err, &invalid) || invalid.Field != "email") {
			t.Errorf("a person with the address %s: %v, want good: %v", name, err, want)
		}
	}
	edit := func(address string) error {
		_, err := h.Person.UpdatePerson(t.Context(), old.ID, person.Edit{}, func(_ storage.Tx, d *person.Details) error {
			d.Profile.Name.FirstName += "x"
			d.Profile.EmailAddresses[0].Value = address
			return nil
		})
		return err
	}
	if err := edit("old@elsewhere.example"); err != nil {
		t.Errorf("a change of a person whose address is as it was: %v", err)
	}
	if err := edit("new@elsewhere.example"); err == nil {
		t.Error("a changed address is not looked at")
	}
	if err := edit("new@example.com"); err != nil {
		t.Errorf("a changed address that is good: %v", err)
	}
}

func secretName(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return -1
	}, s) + map[bool]string{true: "upper", false: ""}[strings.HasPrefix(s, "A")]
}

func TestMandatoryFields(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	u.Attributes.PersonCreationMandatoryFields = settings.PersonCreationMandatoryFields{
		FirstNameRequired: true, LastNameRequired: true,
		MobileNumberRequired: true,
	}
	phone := &person.Profile{PhoneNumbers: []person.PhoneNumber{{Value: "+31612345678", Primary: true}}}
	for _, tt := range []struct {
		person person.NewPerson
		field  string
	}{
		{person.NewPerson{Username: "a", FamilyName: "F", Profile: phone}, "given_name"},
		{person.NewPerson{Username: "a", GivenName: "  ", FamilyName: "F", Profile: phone}, "given_name"},
		{person.NewPerson{Username: "b", GivenName: "G", Profile: phone}, "family_name"},
		{person.NewPerson{Username: "b", GivenName: "G", FamilyName: "\u00a0", Profile: phone}, "family_name"},
		{person.NewPerson{Username: "c", GivenName: "G", FamilyName: "F"}, "phone_number"},
		{person.NewPerson{Username: "d", GivenName: "G", FamilyName: "F", Profile: phone}, ""},
	} {
		_, err := h.Person.AddPerson(t.Context(), tt.person, audit.Actor{})
		invalid := new(person.ValidationError)
		if tt.field == "" && err != nil || tt.field != "" && (!errors.As(err, &invalid) || invalid.Field != tt.field) {
			t.Errorf("AddPerson(%s) = %v, want a problem of %q", tt.person.Username, err, tt.field)
		}
	}
}
