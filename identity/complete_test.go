package identity_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// extra returns a harness where persons are asked for missing details from their second sign-in on.
func extra(t *testing.T) (*elsewhere, *config.Units) {
	t.Helper()
	u := config.Defaults()
	u.Features.PostLoginExtraRegistrationAfterSecondLogin = true
	e := newElsewhere(t)
	e.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	e.notices = new(notifytest.Notices)
	e.start()
	return e, &u
}

// completes signs in and returns the page that asks for missing details.
func (b *browser) completes(username, password string) *answer {
	b.h.t.Helper()
	a := b.try(username, password)
	if a = b.get(a.Header().Get("Location")); a.Code != http.StatusOK || !strings.HasPrefix(a.url, "/sign-in/complete?") || !b.isSignedIn() {
		b.h.t.Fatalf("after the sign-in: %d at %s, want to be asked\n%s", a.Code, a.url, a.Body)
	}
	return a
}

func TestExtraRegistration(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
	u.Profile.Rules = []config.AttributeRule{{AnyOf: []string{config.AttributeBirthDate, config.AttributePhone}}}
	withFields(u, config.OwnMethod, asked)
	e.browser().signIn(demo, demoPassword) // the first sign-in
	b := e.browser()
	form := b.completes(demo, demoPassword)
	body := form.Body.String()
	for _, want := range []string{`name="given_name"`, `name="date_of_birth"`, `name="phone"`, `name="custom.team"`, "One of these is enough", "Not now"} {
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
		"no name": {"given_name", ""}, "none of two": {"date_of_birth", ""}, "the future": {"date_of_birth", "2990-01-01"}, "no number": {"custom.shoe_size", "x"},
		"a control character": {"given_name", "a\x07"}, "no telephone": {"phone", "12"},
	} {
		if a := b.post(form, append(slices.Clone(good), bad...)...); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), `aria-invalid="true"`) {
			t.Errorf("%s = %d\n%s", what, a.Code, a.Body)
		}
	}
	a := b.post(form, append(good, "family_name", "Evil", "email", "evil@example.com", "custom.role", "admin")...)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.Body)
	}
	if a = b.get(a.Header().Get("Location")); a.url != "/next" || !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("afterwards: %d at %s\n%s", a.Code, a.url, a.Body)
	}
	p := e.details(demo).Profile
	if p.Name.FirstName != "Demo" || p.Name.LastName != "" || p.DateOfBirth != "1990-12-31" || len(p.PhoneNumbers) != 0 || len(p.EmailAddresses) != 1 ||
		!slices.Equal(p.CustomAttributes, attributes("team", "red", "shoe_size", "43", "news", "false")) {
		t.Errorf("profile = %+v", p)
	}
	if a := b.post(form, append(good, "given_name", "Changed")...); a.Code != http.StatusSeeOther || e.details(demo).Profile.Name.FirstName != "Demo" {
		t.Errorf("the form again = %d, the name is %q", a.Code, e.details(demo).Profile.Name.FirstName)
	}
	e.browser().get("/next")
	c := e.browser()
	if a := c.try(demo, demoPassword); c.get(a.Header().Get("Location")).url != "/next" {
		t.Error("who lacks nothing is asked")
	}
}

// TestExtraRegistrationIsAsked: when, of whom and how missing details are asked for. Everyone can skip the page.
func TestExtraRegistrationIsAsked(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	lands := func(what string, b *browser, at string, want string) *answer {
		t.Helper()
		a := b.get(at)
		if !strings.HasPrefix(a.url, want) {
			t.Errorf("%s: %d at %s, want %s\n%s", what, a.Code, a.url, want, a.Body)
		}
		return a
	}
	in := func() (*browser, string) {
		b := e.browser()
		return b, b.try(demo, demoPassword).Header().Get("Location")
	}
	b, at := in()
	lands("nothing is missing", b, at, "/next")
	u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
	e.add(person.NewPerson{Username: "ann", Password: secret.New(demoPassword), FamilyName: "Ann"})
	e.setProfile("ann", func(p *person.Profile) { p.Name.LastName = "" })
	first := e.browser()
	lands("the first sign-in", first, first.try("ann", demoPassword).Header().Get("Location"), "/next")
	for range 2 {
		b, at = in()
		form := lands("a further sign-in", b, at, "/sign-in/complete?")
		if a := lands("not now", b, form.url+"&later=1", "/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Errorf("not now: %s", a.Body)
		}
		lands("a page beside it", b, "/account", "/account")
	}
	u.Redirects.ShowWaitPageWhileLoggingIn = true
	b, at = in()
	form := lands("with the page that one waits at", b, at, "/sign-in/complete?")
	lands("not now, by that page", b, form.url+"&later=1", "/sign-in/wait?")
	u.Redirects.ShowWaitPageWhileLoggingIn = false
	b.cookies = map[string]string{}
	if a := b.do(http.MethodGet, form.url, ""); a.Code != http.StatusForbidden {
		t.Errorf("in another browser = %d", a.Code)
	}

	e.at("partner", "identity")
	person := ann()
	person.Details["lastName"] = nil
	e.mustEnter(e.browser(), person)
	b = e.browser()
	if a := e.through(b, person); !strings.HasPrefix(a.url, "/sign-in/complete?") {
		t.Errorf("by a provider: at %s", a.url)
	}
	e.asking(func(d *login.Demand) { d.Passive = true })
	if a := e.through(e.browser(), person); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("prompt=none: %d at %s", a.Code, a.url)
	}
	e.asking(func(d *login.Demand) { d.Passive = false })
	b = e.browser()
	a := b.do(http.MethodGet, "/oidc/partner/callback?"+url.Values{"ticket": {e.partner.Answer(person, nil)}}.Encode(), "")
	lands("an answer that nobody has asked for", b, a.Header().Get("Location"), "/sign-in/complete?")

	e.at("identity", "partner")
	u.Features.PostLoginExtraRegistrationAfterSecondLogin = false
	b, at = in()
	lands("switched off", b, at, "/next")
}

// TestExtraRegistrationContacts: an address and a number are stored once their codes are typed, one after the other.
func TestExtraRegistrationContacts(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	u.Attributes.Verification = config.Verification{EmailEnabled: true, EmailRequired: true, MobileNumberEnabled: true}
	u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = true
	u.Features.SMSEnabled = true
	e.texts = new(notifytest.Texts)
	e.start()
	e.mustAdd("bob")
	e.browser().signIn("bob", demoPassword)
	b := e.browser()
	form := b.completes("bob", demoPassword)
	if body := form.Body.String(); !strings.Contains(body, `name="email"`) || strings.Contains(body, `name="phone"`) {
		t.Errorf("the page:\n%s", body)
	}
	a := b.post(form, "email", "bob@example.com")
	if a.Header().Get("Location") != "/account/profile/confirm" || len(e.details("bob").Profile.EmailAddresses) != 0 {
		t.Fatalf("POST = %d to %s\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	confirm := b.get("/account/profile/confirm")
	if body := confirm.Body.String(); !strings.Contains(body, `href="/sign-in/complete?flow=`) || !strings.Contains(confirm.Header().Get("Content-Security-Policy"), "https://shop.example.com") {
		t.Errorf("the page for the code leads to the profile, or not to the application:\n%s", body)
	}
	if a := b.post(form, "email", "bob@example.com"); a.Header().Get("Location") != "/account/profile/confirm" {
		t.Errorf("the form again = %d to %s", a.Code, a.Header().Get("Location"))
	}
	a = b.post(confirm, "code", e.mailed(notify.AddressCode, "bob@example.com"))
	form = b.get(a.Header().Get("Location"))
	if body := form.Body.String(); !strings.HasPrefix(form.url, "/sign-in/complete?") || strings.Contains(body, `name="email"`) || !strings.Contains(body, `name="phone"`) {
		t.Fatalf("after the address: %d at %s\n%s", form.Code, form.url, body)
	}
	b.post(form, "phone", "+31 6 1234 5678")
	sent := e.texts.Take()
	if len(sent) != 1 || sent[0].To != "+31612345678" {
		t.Fatalf("texts = %+v", sent)
	}
	a = b.post(b.get("/account/profile/confirm"), "code", sent[0].Data["code"])
	if a = b.get(a.Header().Get("Location")); a.url != "/next" {
		t.Errorf("after the number: %d at %s\n%s", a.Code, a.url, a.Body)
	}
	if p := e.details("bob").Profile; !p.EmailAddresses[0].Verified || !p.PhoneNumbers[0].Verified {
		t.Errorf("profile = %+v", p)
	}
	e.checkInvariants()
}

// mustAdd adds a person without an e-mail address, a number or a family name.
func (e *elsewhere) mustAdd(username string) {
	e.t.Helper()
	e.add(person.NewPerson{Username: username, Password: secret.New(demoPassword), FamilyName: "X", Profile: &person.Profile{PhoneNumbers: []person.PhoneNumber{{Value: "+31 20 1234567"}}}})
	e.setProfile(username, func(p *person.Profile) { p.PhoneNumbers, p.Name.LastName = nil, "" })
}

func TestExtraRegistrationAttacks(t *testing.T) {
	t.Parallel()
	e, u := extra(t)
	u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true
	e.add(person.NewPerson{Username: "eve", Password: secret.New(demoPassword), FamilyName: "Eve"})
	e.setProfile("eve", func(p *person.Profile) { p.Name.LastName = "" })
	e.browser().signIn("eve", demoPassword)
	e.browser().signIn(demo, demoPassword)
	b, thief := e.browser(), e.browser()
	form, theirs := b.completes(demo, demoPassword), thief.completes("eve", demoPassword)
	name := func(username string) string { return e.details(username).Profile.Name.LastName }
	post := func(by *browser, at, token string) *answer {
		return by.do(http.MethodPost, at, url.Values{"csrf": {token}, "family_name": {"Evil"}}.Encode())
	}
	t.Run("attack 282: another person's sign-in, another one's token, none", func(t *testing.T) {
		for what, a := range map[string]*answer{
			"another browser's sign-in": post(thief, form.url, theirs.csrf()), "another sign-in's token": post(b, form.url, theirs.csrf()), "no token": post(b, form.url, ""),
		} {
			if a.Code != http.StatusForbidden || name(demo) != "" || name("eve") != "" {
				t.Errorf("%s = %d", what, a.Code)
			}
		}
	})
	t.Run("attack 266: without a session, or one that has ended", func(t *testing.T) {
		c := e.browser()
		form := c.completes(demo, demoPassword)
		for kind := range c.cookies {
			if strings.HasSuffix(kind, "-session") {
				delete(c.cookies, kind)
			}
		}
		if a := post(c, form.url, form.csrf()); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" || name(demo) != "" {
			t.Errorf("without a session = %d to %s", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 241: an address without the level that it takes on the profile page", func(t *testing.T) {
		u.Attributes.Verification = config.Verification{EmailEnabled: true, EmailRequired: true}
		u.StepUp.Actions.ChangeEmailAuthenticationLevel = 2
		e.mustAdd("low")
		e.browser().signIn("low", demoPassword)
		c := e.browser()
		form := c.completes("low", demoPassword)
		if strings.Contains(form.Body.String(), `name="email"`) {
			t.Errorf("the page:\n%s", form.Body)
		}
		c.post(form, "family_name", "Low", "email", "low@example.com", "phone", "+31 6 1234 5678")
		if p := e.details("low").Profile; p.Name.LastName != "Low" || len(p.EmailAddresses)+len(p.PhoneNumbers) != 0 {
			t.Errorf("profile = %+v", p)
		}
	})
}

// TestExtraRegistrationEveryWay: sign-ins by action token and by passkey lead to the page too, and then to their
// target.
func TestExtraRegistrationEveryWay(t *testing.T) {
	t.Parallel()
	lacks := func(u *config.Units) {
		u.Features.PostLoginExtraRegistrationAfterSecondLogin, u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true, true
	}
	t.Run("action token", func(t *testing.T) {
		t.Parallel()
		h := newActionTokens(t)
		h.set(lacks)
		h.browser().signIn(demo, demoPassword)
		for to, want := range map[string]string{appWelcome: appWelcome, "": "/account"} {
			b := h.browser()
			a := b.post(b.get(h.link(actiontoken.NewActionToken{RedirectURI: to})))
			form := b.get(a.Header().Get("Location"))
			if !strings.HasPrefix(form.url, "/sign-in/complete?") || to != "" && !strings.Contains(form.Header().Get("Content-Security-Policy"), "https://app.example.com") {
				t.Fatalf("the token leads to %s with %v", form.url, form.Header())
			}
			if a := b.do(http.MethodGet, form.url+"&later=1", ""); a.Header().Get("Location") != want {
				t.Errorf("not now leads to %q, want %q", a.Header().Get("Location"), want)
			}
			if a := b.post(form, "family_name", ""); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("nothing = %d", a.Code)
			}
		}
	})
	t.Run("passkey", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		u := config.Defaults()
		lacks(&u)
		h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
		h.start()
		b := h.browser()
		form := b.get(b.tryPasskey(k).Header().Get("Location"))
		if !strings.HasPrefix(form.url, "/sign-in/complete?") {
			t.Fatalf("the passkey leads to %s", form.url)
		}
		a := b.post(form, "family_name", "Person")
		if a = b.get(a.Header().Get("Location")); a.url != "/next" || h.details(demo).Profile.Name.LastName != "Person" {
			t.Errorf("afterwards: %d at %s", a.Code, a.url)
		}
	})
}
