package account_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// extra returns a harness where persons are asked for missing details from their second sign-in on.
func extra(t *testing.T) (*identitytest.Federated, *settings.Units) {
	t.Helper()
	u := settings.Defaults()
	u.Features.PostLoginExtraRegistrationAfterSecondLogin = true
	e := identitytest.NewFederated(t)
	e.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	e.Notices = new(notifytest.Notices)
	e.Start()
	return e, &u
}

// completes signs in and returns the page that asks for missing details.
func completes(b *identitytest.Browser, username, password string) *identitytest.Answer {
	b.H.T.Helper()
	a := b.Try(username, password)
	if a = b.Get(a.Header().Get("Location")); a.Code != http.StatusOK || !strings.HasPrefix(a.URL, "/sign-in/complete?") || !b.IsSignedIn() {
		b.H.T.Fatalf("after the sign-in: %d at %s, want to be asked\n%s", a.Code, a.URL, a.Body)
	}
	return a
}

func TestExtraRegistration(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
	u.Profile.Rules = []settings.AttributeRule{{AnyOf: []string{settings.AttributeBirthDate, settings.AttributePhone}}}
	identitytest.AskFor(u, settings.OwnMethod, identitytest.CustomFields)
	e.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword) // the first sign-in
	b := e.Browser()
	form := completes(b, identitytest.Demo, identitytest.DemoPassword)
	body := form.Body.String()
	for _, want := range []string{
		`name="given_name"`, `name="date_of_birth"`, `name="phone"`, `name="custom.team"`,
		"One of these is enough", "Not now",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s:\n%s", want, body)
		}
	}
	for _, not := range []string{`name="family_name"`, `name="email"`, `name="password"`} {
		if strings.Contains(body, not) {
			t.Errorf("the page asks for %s", not)
		}
	}
	good := []string{"given_name", "Demo", "date_of_birth", "1990-12-31", "custom.team", "red", "custom.shoe_size", "43"}
	for what, bad := range map[string][]string{
		"no name": {"given_name", ""}, "none of two": {"date_of_birth", ""}, "the future": {"date_of_birth", "2990-01-01"},
		"no number":           {"custom.shoe_size", "x"},
		"a control character": {"given_name", "a\x07"}, "no telephone": {"phone", "12"},
	} {
		if a := b.Post(form, append(slices.Clone(good), bad...)...); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.Body.String(), `aria-invalid="true"`) {
			t.Errorf("%s = %d\n%s", what, a.Code, a.Body)
		}
	}
	a := b.Post(form, append(good, "family_name", "Evil", "email", "evil@example.com", "custom.role", "admin")...)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if a = b.Get(a.Header().Get("Location")); a.URL != "/next" || !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("afterwards: %d at %s\n%s", a.Code, a.URL, a.Body)
	}
	p := e.Details(identitytest.Demo).Profile
	if p.Name.FirstName != "Demo" || p.Name.LastName != "" || p.DateOfBirth != "1990-12-31" || len(p.PhoneNumbers) != 0 ||
		len(p.EmailAddresses) != 1 ||
		!slices.Equal(p.CustomAttributes, identitytest.Attributes("team", "red", "shoe_size", "43", "news", "false")) {
		t.Errorf("profile = %+v", p)
	}
	if a := b.Post(form, append(good, "given_name", "Changed")...); a.Code != http.StatusSeeOther ||
		e.Details(identitytest.Demo).Profile.Name.FirstName != "Demo" {
		t.Errorf("the form again = %d, the name is %q", a.Code, e.Details(identitytest.Demo).Profile.Name.FirstName)
	}
	e.Browser().Get("/next")
	c := e.Browser()
	if a := c.Try(identitytest.Demo, identitytest.DemoPassword); c.Get(a.Header().Get("Location")).URL != "/next" {
		t.Error("who lacks nothing is asked")
	}
}

// TestExtraRegistrationIsAsked: when, of whom and how missing details are asked for. Everyone can skip the page.
func TestExtraRegistrationIsAsked(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	lands := func(what string, b *identitytest.Browser, at string, want string) *identitytest.Answer {
		t.Helper()
		a := b.Get(at)
		if !strings.HasPrefix(a.URL, want) {
			t.Errorf("%s: %d at %s, want %s\n%s", what, a.Code, a.URL, want, a.Body)
		}
		return a
	}
	in := func() (*identitytest.Browser, string) {
		b := e.Browser()
		return b, b.Try(identitytest.Demo, identitytest.DemoPassword).Header().Get("Location")
	}
	b, at := in()
	lands("nothing is missing", b, at, "/next")
	u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
	e.Add(person.NewPerson{Username: "ann", Password: secret.New(identitytest.DemoPassword), FamilyName: "Ann"})
	e.SetProfile("ann", func(p *person.Profile) { p.Name.LastName = "" })
	first := e.Browser()
	lands("the first sign-in", first, first.Try("ann", identitytest.DemoPassword).Header().Get("Location"), "/next")
	for range 2 {
		b, at = in()
		form := lands("a further sign-in", b, at, "/sign-in/complete?")
		if a := lands("not now", b, form.URL+"&later=1", "/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("not now: %s", a.Body)
		}
		lands("a page beside it", b, "/account", "/account")
	}
	u.Redirects.ShowWaitPageWhileLoggingIn = true
	b, at = in()
	form := lands("with the page that one waits at", b, at, "/sign-in/complete?")
	lands("not now, by that page", b, form.URL+"&later=1", "/sign-in/wait?")
	u.Redirects.ShowWaitPageWhileLoggingIn = false
	b.Cookies = map[string]string{}
	if a := b.Do(http.MethodGet, form.URL, ""); a.Code != http.StatusForbidden {
		t.Errorf("in another browser = %d", a.Code)
	}

	e.At("partner", "identity")
	person := identitytest.Ann()
	person.Details["lastName"] = nil
	e.MustEnter(e.Browser(), person)
	b = e.Browser()
	if a := e.Through(b, person); !strings.HasPrefix(a.URL, "/sign-in/complete?") {
		t.Errorf("by a provider: at %s", a.URL)
	}
	e.Asking(func(d *authn.Demand) { d.Passive = true })
	if a := e.Through(e.Browser(), person); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("prompt=none: %d at %s", a.Code, a.URL)
	}
	e.Asking(func(d *authn.Demand) { d.Passive = false })
	b = e.Browser()
	a := b.Do(http.MethodGet, "/oidc/partner/callback?"+url.Values{"ticket": {e.Partner.Answer(person, nil)}}.Encode(), "")
	lands("an answer that nobody has asked for", b, a.Header().Get("Location"), "/sign-in/complete?")

	e.At("identity", "partner")
	u.Features.PostLoginExtraRegistrationAfterSecondLogin = false
	b, at = in()
	lands("switched off", b, at, "/next")
}

// TestExtraRegistrationContacts: an address and a number are stored once their codes are typed, one after the other.
func TestExtraRegistrationContacts(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	u.Attributes.Verification = settings.Verification{EmailEnabled: true, EmailRequired: true, MobileNumberEnabled: true}
	u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = true
	u.Features.SMSEnabled = true
	e.Texts = new(notifytest.Texts)
	e.Start()
	mustAdd(e, "bob")
	e.Browser().SignIn("bob", identitytest.DemoPassword)
	b := e.Browser()
	form := completes(b, "bob", identitytest.DemoPassword)
	if body := form.Body.String(); !strings.Contains(body, `name="email"`) || strings.Contains(body, `name="phone"`) {
		t.Errorf("the page:\n%s", body)
	}
	a := b.Post(form, "email", "bob@example.com")
	if a.Header().Get("Location") != "/account/profile/confirm" || len(e.Details("bob").Profile.EmailAddresses) != 0 {
		t.Fatalf("POST = %d to %s\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	confirm := b.Get("/account/profile/confirm")
	if body := confirm.Body.String(); !strings.Contains(body, `href="/sign-in/complete?flow=`) ||
		!strings.Contains(confirm.Header().Get("Content-Security-Policy"), "https://shop.example.com") {
		t.Errorf("the page for the code leads to the profile, or not to the application:\n%s", body)
	}
	if a := b.Post(form, "email", "bob@example.com"); a.Header().Get("Location") != "/account/profile/confirm" {
		t.Errorf("the form again = %d to %s", a.Code, a.Header().Get("Location"))
	}
	a = b.Post(confirm, "code", e.Mailed(notify.AddressCode, "bob@example.com"))
	form = b.Get(a.Header().Get("Location"))
	if body := form.Body.String(); !strings.HasPrefix(form.URL, "/sign-in/complete?") || strings.Contains(body, `name="email"`) ||
		!strings.Contains(body, `name="phone"`) {
		t.Fatalf("after the address: %d at %s\n%s", form.Code, form.URL, body)
	}
	b.Post(form, "phone", "+31 6 1234 5678")
	sent := e.Texts.Take()
	if len(sent) != 1 || sent[0].To != "+31612345678" {
		t.Fatalf("texts = %+v", sent)
	}
	a = b.Post(b.Get("/account/profile/confirm"), "code", sent[0].Data["code"])
	if a = b.Get(a.Header().Get("Location")); a.URL != "/next" {
		t.Errorf("after the number: %d at %s\n%s", a.Code, a.URL, a.Body)
	}
	if p := e.Details("bob").Profile; !p.EmailAddresses[0].Verified || !p.PhoneNumbers[0].Verified {
		t.Errorf("profile = %+v", p)
	}
	e.CheckInvariants()
}

// mustAdd adds a person without an e-mail address, a number or a family name.
func mustAdd(e *identitytest.Federated, username string) {
	e.T.Helper()
	e.Add(person.NewPerson{
		Username: username, Password: secret.New(identitytest.DemoPassword), FamilyName: "X",
		Profile: &person.Profile{PhoneNumbers: []person.PhoneNumber{{Value: "+31 20 1234567"}}},
	})
	e.SetProfile(username, func(p *person.Profile) { p.PhoneNumbers, p.Name.LastName = nil, "" })
}

func TestExtraRegistrationAttacks(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
	e.Add(person.NewPerson{Username: "eve", Password: secret.New(identitytest.DemoPassword), FamilyName: "Eve"})
	e.SetProfile("eve", func(p *person.Profile) { p.Name.LastName = "" })
	e.Browser().SignIn("eve", identitytest.DemoPassword)
	e.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
	b, thief := e.Browser(), e.Browser()
	form, theirs := completes(b, identitytest.Demo, identitytest.DemoPassword), completes(thief, "eve", identitytest.DemoPassword)
	name := func(username string) string { return e.Details(username).Profile.Name.LastName }
	post := func(by *identitytest.Browser, at, token string) *identitytest.Answer {
		return by.Do(http.MethodPost, at, url.Values{"csrf": {token}, "family_name": {"Evil"}}.Encode())
	}
	t.Run("attack 282: another person's sign-in, another one's token, none", func(t *testing.T) {
		for what, a := range map[string]*identitytest.Answer{
			"another browser's sign-in": post(thief, form.URL, theirs.CSRF()), "another sign-in's token": post(b, form.URL, theirs.CSRF()),
			"no token": post(b, form.URL, ""),
		} {
			if a.Code != http.StatusForbidden || name(identitytest.Demo) != "" || name("eve") != "" {
				t.Errorf("%s = %d", what, a.Code)
			}
		}
	})
	t.Run("attack 266: without a session, or one that has ended", func(t *testing.T) {
		c := e.Browser()
		form := completes(c, identitytest.Demo, identitytest.DemoPassword)
		for kind := range c.Cookies {
			if strings.HasSuffix(kind, "-session") {
				delete(c.Cookies, kind)
			}
		}
		if a := post(c, form.URL, form.CSRF()); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" ||
			name(identitytest.Demo) != "" {
			t.Errorf("without a session = %d to %s", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 241: an address without the level that it takes on the profile page", func(t *testing.T) {
		u.Attributes.Verification = settings.Verification{EmailEnabled: true, EmailRequired: true}
		u.StepUp.Actions.ChangeEmailAuthenticationLevel = 2
		mustAdd(e, "low")
		e.Browser().SignIn("low", identitytest.DemoPassword)
		c := e.Browser()
		form := completes(c, "low", identitytest.DemoPassword)
		if strings.Contains(form.Body.String(), `name="email"`) {
			t.Errorf("the page:\n%s", form.Body)
		}
		c.Post(form, "family_name", "Low", "email", "low@example.com", "phone", "+31 6 1234 5678")
		if p := e.Details("low").Profile; p.Name.LastName != "Low" || len(p.EmailAddresses)+len(p.PhoneNumbers) != 0 {
			t.Errorf("profile = %+v", p)
		}
	})
}

// TestExtraRegistrationEveryWay: sign-ins by action token and by passkey lead to the page too, and then to their
// target.
func TestExtraRegistrationEveryWay(t *testing.T) {
	t.Parallel()
	lacks := func(u *settings.Units) {
		u.Features.PostLoginExtraRegistrationAfterSecondLogin, u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true, true
	}
	t.Run("action token", func(t *testing.T) {
		t.Parallel()
		h := identitytest.NewActionTokens(t)
		h.Set(lacks)
		h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
		for to, want := range map[string]string{identitytest.AppWelcome: identitytest.AppWelcome, "": "/account"} {
			b := h.Browser()
			a := b.Post(b.Get(h.Link(actiontoken.NewActionToken{RedirectURI: to})))
			form := b.Get(a.Header().Get("Location"))
			if !strings.HasPrefix(form.URL, "/sign-in/complete?") || to != "" &&
				!strings.Contains(form.Header().Get("Content-Security-Policy"), "https://app.example.com") {
				t.Fatalf("the token leads to %s with %v", form.URL, form.Header())
			}
			if a := b.Do(http.MethodGet, form.URL+"&later=1", ""); a.Header().Get("Location") != want {
				t.Errorf("not now leads to %q, want %q", a.Header().Get("Location"), want)
			}
			if a := b.Post(form, "family_name", ""); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("nothing = %d", a.Code)
			}
		}
	})
	t.Run("passkey", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		u := settings.Defaults()
		lacks(&u)
		h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
		h.Start()
		b := h.Browser()
		form := b.Get(b.TryPasskey(k).Header().Get("Location"))
		if !strings.HasPrefix(form.URL, "/sign-in/complete?") {
			t.Fatalf("the passkey leads to %s", form.URL)
		}
		a := b.Post(form, "family_name", "Person")
		if a = b.Get(a.Header().Get("Location")); a.URL != "/next" || h.Details(identitytest.Demo).Profile.Name.LastName != "Person" {
			t.Errorf("afterwards: %d at %s", a.Code, a.URL)
		}
	})
}

// TestExtraRegistrationAfterSecondStep: a stranger who has the password alone neither sees what is missing nor adds to
// it. The person is asked after the second step; at an application that wants none, not at all.
func TestExtraRegistrationAfterSecondStep(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	u.StepUp.SecondFactor = "ON_DEMAND"
	b := e.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	key, _, _ := b.AddApp(identitytest.AuthenticatorPage)
	u.StepUp.SecondFactor = "WHEN_SET_UP"

	b = e.Browser()
	a := b.Try(identitytest.Demo, identitytest.DemoPassword)
	page := a.Header().Get("Location")
	a = b.Get(page)
	if !strings.HasPrefix(page, "/sign-in/complete?") || !strings.HasPrefix(a.URL, "/step-up?flow=") {
		t.Fatalf("with the password alone: %d at %s, want the second step\n%s", a.Code, a.URL, a.Body)
	}
	if a = b.Post(a, "code", e.Code(key)); a.Code != http.StatusSeeOther || a.Header().Get("Location") != page {
		t.Fatalf("the code leads to %q with %d, want %q", a.Header().Get("Location"), a.Code, page)
	}
	if a = b.Get(page); !strings.Contains(a.Body.String(), `name="given_name"`) {
		t.Errorf("after the second step: %d at %s, want to be asked\n%s", a.Code, a.URL, a.Body)
	}

	t.Run("attack 8817: the password alone at an application that wants no second step", func(t *testing.T) {
		before := e.Demand
		e.Demand = func(r *http.Request) authn.Demand {
			d := before(r)
			d.SecondFactor = authn.SecondFactorOnDemand
			return d
		}
		thief := e.Browser()
		a := thief.Get(thief.Try(identitytest.Demo, identitytest.DemoPassword).Header().Get("Location"))
		if body := a.Body.String(); strings.Contains(body, "given_name") || !strings.HasPrefix(body, "signed in as ") {
			t.Errorf("%d at %s\n%s", a.Code, a.URL, body)
		}
	})
}
