package identity_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// registering is a harness where people who first sign in at partner must choose a username and a password.
type registering struct {
	*elsewhere
	u *config.Units
}

func newRegistering(t *testing.T, change ...func(*identity.Config)) *registering {
	t.Helper()
	u := config.Defaults()
	u.Attributes.Verification.EmailEnabled = true
	u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, config.LoginMethod{
		ID: "partner", Type: config.TypeOIDC, Enabled: true, ForceCreatingUsernameAndPasswordDuringSignUp: true,
	})
	x := &registering{elsewhere: newElsewhere(t, change...), u: &u}
	x.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	x.notices = new(notifytest.Notices)
	x.start()
	x.at("partner", "identity")
	return x
}

// arrive signs in at partner and returns the page that creates an account.
func (x *registering) arrive(b *browser, id *idp.Identity) *answer {
	x.t.Helper()
	a := x.through(b, id)
	if a.Code != http.StatusOK || !strings.HasPrefix(a.url, "/sign-in/register?") || b.isSignedIn() {
		x.t.Fatalf("ended at %s with %d, want to be asked\n%s", a.url, a.Code, a.Body)
	}
	return a
}

// persons returns how many persons were created besides demo.
func (x *registering) persons() int { return x.events()["person.PersonCreatedEvent"] - 1 }

func TestForcedRegistration(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	b := x.browser()
	form := x.arrive(b, ann())
	body := form.Body.String()
	for _, want := range []string{`value="ann@partner.example" autocomplete="username"`, `autocomplete="new-password"`, `value="ann@partner.example" autocomplete="email"`, "readonly", "/sign-in/connect?"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s:\n%s", want, body)
		}
	}
	if x.persons() != 0 {
		t.Error("there is a person before the form")
	}
	for _, tt := range []struct{ what, username, password, want string }{
		{"no username", "", freshPassword, "Fill in this field."},
		{"a username that is none", "two words", freshPassword, "Use only letters and digits, without spaces."},
		{"an id", "0189f7ea-ae2c-7809-8aeb-b819cf5e9e7f", freshPassword, "Use only letters and digits, without spaces."},
		{"a control character", "a\x07b", freshPassword, "Use only letters and digits, without spaces."},
		{"another's address", "victim@example.com", freshPassword, "Use your own e-mail address"},
		{"a taken username", "DEMO", freshPassword, ""},
		{"no password", "ann", "", "Enter your password."},
		{"a password against the policy", "ann", "short", "meets all the requirements"},
	} {
		if tt.what == "a taken username" {
			x.add(person.NewPerson{Username: "taken", Password: secret.New(demoPassword)})
			tt.username, tt.want = "TAKEN", "create an account with that username"
		}
		if a := b.post(form, "username", tt.username, "password", tt.password); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), tt.want) {
			t.Errorf("%s: %d\n%s", tt.what, a.Code, a.Body)
		}
	}
	before := x.persons()
	a := b.post(form, "username", "Ann", "password", freshPassword, "email", "other@example.com")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("POST = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	si, err := x.session(b)
	if err != nil || si.Level != 2 || si.Provider != "partner" || x.persons() != before+1 {
		t.Errorf("session = %+v, %v, want one of partner at level 2", si, err)
	}
	p, err := x.Person.Person(t.Context(), "ann")
	if err != nil || p.ID != si.Subject || p.Email != "ann@partner.example" || !p.EmailVerified || p.Name != "Ann Partner" {
		t.Errorf("person = %+v, %v", p, err)
	}
	x.at("identity", "partner")
	x.browser().signIn("ann", freshPassword)
	x.at("partner", "identity")
	if si := x.mustEnter(x.browser(), ann()); si.Subject != p.ID {
		t.Errorf("the second sign-in is that of %s", si.Subject)
	}
	if ev := x.events(); ev["person.ExternalIdentityCoupledEvent"] != 1 {
		t.Errorf("events = %v", ev)
	}
}

// TestForcedRegistrationOff: people register only while the switch is on, local passwords are in use, and no account
// matches their address.
func TestForcedRegistrationOff(t *testing.T) {
	t.Parallel()
	x := newRegistering(t, couples)
	if si := x.mustEnter(x.browser(), known()); si.Subject != x.demoID() {
		t.Errorf("who is found by the address = %s", si.Subject)
	}
	method := &x.u.LoginMethods.LoginMethods[len(x.u.LoginMethods.LoginMethods)-1]
	b, fresh := x.browser(), ann()
	fresh.Subject = "4712"
	form := x.arrive(b, fresh)
	method.ForceCreatingUsernameAndPasswordDuringSignUp = false
	if a := b.get(form.url); !strings.HasPrefix(a.Body.String(), "signed in as ") || x.persons() != 1 {
		t.Errorf("switched off meanwhile: %d at %s, %d persons", a.Code, a.url, x.persons())
	}
	method.ForceCreatingUsernameAndPasswordDuringSignUp = true
	bob := ann()
	bob.Subject, bob.Email = "bob", ""
	bob.Details = nil
	c := x.browser()
	away := c.leave("/next")
	x.u.Features.LoginEnabled = false
	if a := c.come(away, x.partner.Answer(bob, nil)); a.Code != http.StatusForbidden {
		t.Errorf("while nobody signs in: %d", a.Code)
	}
	x.u.Features.LoginEnabled = true
	x.u.LoginMethods.LoginMethods = append([]config.LoginMethod{{ID: config.OwnMethod, Type: config.TypePassword}}, *method)
	x.at("partner")
	x.mustEnter(x.browser(), bob) // no registration: passwords are off, so one would be useless
}

func TestForcedRegistrationConfirms(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	x.u.Attributes.PersonCreationMandatoryFields = config.PersonCreationMandatoryFields{FirstNameRequired: true, LastNameRequired: true, MobileNumberRequired: true}
	x.u.Features.CustomEmailValidation = config.CustomEmailValidation{Enabled: true}
	id := ann()
	id.EmailVerified = false
	b := x.browser()
	form := x.arrive(b, id)
	if body := form.Body.String(); !strings.Contains(body, `value="Ann"`) || strings.Contains(body, "readonly") {
		t.Errorf("the page:\n%s", body)
	}
	fields := []string{"username", "ann", "email", "ann@elsewhere.example", "given_name", "Anna", "family_name", "Partner", "phone", "+31 6 1234 5678", "password", freshPassword}
	if a := b.post(form, append([]string{"phone", ""}, fields[:8]...)...); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("without a number = %d", a.Code)
	}
	a := b.post(form, fields...)
	if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-in/register/confirm?") {
		t.Fatalf("POST = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	code := x.mailed(notify.SignUpCode, "ann@elsewhere.example")
	page := b.get(a.Header().Get("Location"))
	if again := b.get(form.url); !strings.Contains(again.Body.String(), `value="Anna"`) || strings.Contains(again.Body.String(), freshPassword) {
		t.Errorf("back at the form:\n%s", again.Body)
	}
	if a := b.post(form, fields...); a.Header().Get("Location") != page.url {
		t.Errorf("the form again = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if a := b.post(page, "code", wrongFor(code)); a.Code != http.StatusUnprocessableEntity || x.persons() != 0 {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.post(page, "code", code); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the code = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	d := x.details("ann")
	if p := d.Profile; p.EmailAddresses[0] != (person.EmailAddress{Primary: true, Verified: true, Value: "ann@elsewhere.example"}) || p.Name.DisplayName != "Anna Partner" || p.PhoneNumbers[0].Value != "+31612345678" {
		t.Errorf("profile = %+v", p)
	}
	for key, value := range x.dump() {
		if strings.Contains(value, freshPassword) || strings.Contains(value, code) {
			t.Errorf("%q holds a secret", key)
		}
	}
}

func TestForcedRegistrationPassive(t *testing.T) {
	t.Parallel()
	x := newRegistering(t)
	x.asking(func(d *login.Demand) { d.Providers, d.Passive = []string{"partner"}, true })
	b := x.browser()
	if a := x.through(b, ann()); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "interaction_required") || x.persons() != 0 {
		t.Errorf("prompt=none = %d %s", a.Code, a.Body)
	}
}

func TestForcedRegistrationAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 117: one answer of a provider makes one person, in two tabs, again and at once", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		b := x.browser()
		form := x.arrive(b, ann())
		second := x.arrive(b, ann())
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				c := &browser{h: b.h, cookies: maps.Clone(b.cookies), address: b.address}
				c.post(form, "username", "ann"+string(rune('a'+i)), "password", freshPassword)
			})
		}
		wg.Wait()
		if x.persons() != 1 {
			t.Fatalf("%d persons of one answer", x.persons())
		}
		if a := b.post(form, "username", "late", "password", freshPassword); a.Code != http.StatusBadRequest {
			t.Errorf("the form again = %d", a.Code)
		}
		a := b.post(second, "username", "second", "password", freshPassword)
		if a = b.get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") || x.persons() != 1 || x.exists("second") {
			t.Errorf("the other tab: %d at %s, %d persons", a.Code, a.url, x.persons())
		}
	})
	t.Run("attack 116: the answer of somebody else's browser, without token, too late", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		b, thief := x.browser(), x.browser()
		form := x.arrive(b, ann())
		other := x.arrive(thief, bobby())
		if a := thief.do(http.MethodGet, form.url, ""); a.Code != http.StatusForbidden {
			t.Errorf("GET by another browser = %d", a.Code)
		}
		fields := url.Values{"csrf": {other.csrf()}, "username": {"thief"}, "password": {freshPassword}}
		for what, a := range map[string]*answer{
			"by another browser":          thief.do(http.MethodPost, form.url, fields.Encode()),
			"with another answer's token": b.do(http.MethodPost, form.url, fields.Encode()),
			"without a token":             b.do(http.MethodPost, form.url, url.Values{"username": {"x"}, "password": {freshPassword}}.Encode()),
		} {
			if a.Code != http.StatusForbidden || x.persons() != 0 {
				t.Errorf("%s = %d, %d persons", what, a.Code, x.persons())
			}
		}
		x.clock.Advance(time.Hour)
		if a := b.post(form, "username", "ann", "password", freshPassword); a.Code != http.StatusBadRequest || x.persons() != 0 {
			t.Errorf("after an hour = %d", a.Code)
		}
	})
	t.Run("attack 122: an answer that nobody has asked for gets no password", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		b := x.browser()
		a := b.do(http.MethodGet, "/oidc/partner/callback?"+url.Values{"ticket": {x.partner.Answer(ann(), nil)}}.Encode(), "")
		if a = b.do(http.MethodGet, a.Header().Get("Location"), ""); a.Code == http.StatusSeeOther && strings.HasPrefix(a.Header().Get("Location"), "/sign-in/register") || x.persons() != 0 {
			t.Errorf("unsolicited = %d to %s", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 278: scripts in what a provider says", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		x.u.Attributes.PersonCreationMandatoryFields.FirstNameRequired = true
		id := bobby()
		const script = `"><script>alert(1)</script>`
		id.Username, id.Details = script, map[string][]string{"firstName": {script}, "lastName": {"a\x00b"}}
		if body := x.arrive(x.browser(), id).Body.String(); strings.Contains(body, "<script>alert") || !strings.Contains(body, "&lt;script&gt;") {
			t.Errorf("the page:\n%s", body)
		}
	})
	t.Run("attack 219: an address that somebody has gets the answer of a new one, and the owner a mail", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		shape := func(email string) string {
			id := bobby()
			id.Subject = email
			b := x.browser()
			a := b.post(x.arrive(b, id), "username", strings.ToLower(email), "email", email, "password", freshPassword)
			page := b.get(a.Header().Get("Location"))
			body, _, _ := strings.Cut(page.Body.String(), "<ul class=\"links\">")
			_, body, _ = strings.Cut(body, "<p class=\"lead\">")
			body, _, _ = strings.Cut(strings.ReplaceAll(body, email, "X"), "<form")
			return body
		}
		fresh := shape("fresh@example.com")
		x.mailed(notify.SignUpCode, "fresh@example.com")
		if got := shape("Demo@example.com"); got != fresh || !strings.Contains(got, "X") {
			t.Errorf("a taken address:\n%s\nwant\n%s", got, fresh)
		}
		heard(t, "a taken address", x.notices, "sign_up_existing "+demo)
	})
	t.Run("the forms of one address are counted", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		b := x.browser()
		form := x.arrive(b, ann())
		var last *answer
		for range 21 {
			last = b.post(form, "username", demo, "password", "short")
		}
		if last.Code == http.StatusTooManyRequests {
			t.Error("what is refused without a hash is counted")
		}
		for range 21 {
			last = b.post(form, "username", "taken"+strings.Repeat("x", 300), "password", freshPassword)
		}
		x.add(person.NewPerson{Username: "taken", Password: secret.New(demoPassword)})
		for range 21 {
			last = b.post(form, "username", "taken", "password", freshPassword)
		}
		if last.Code != http.StatusTooManyRequests || last.Header().Get("Retry-After") == "" {
			t.Errorf("the 21st try of a taken name = %d", last.Code)
		}
	})
}

// bobby returns an identity without an e-mail address.
func bobby() *idp.Identity {
	return &idp.Identity{Issuer: partnerIssuer, Subject: "bobby", Level: 2}
}
