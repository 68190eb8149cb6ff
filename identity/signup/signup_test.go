package signup_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

func TestSignUp(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithSignUp(t)
	u.EmailNotifications.Welcome.OnWebEnabled = true
	b := h.Browser()
	a := b.SignUp("email", "New@example.com", "password", identitytest.FreshPassword)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST /sign-up = %d:\n%s", a.Code, a.Body)
	}
	code := h.Mailed(notify.SignUpCode, "New@example.com")
	if h.Exists(identitytest.Newcomer) || h.Events()["person.PersonCreatedEvent"] != 1 {
		t.Error("there is a person before the address is confirmed")
	}
	page := b.Get(a.Header().Get("Location"))
	if !strings.Contains(page.Body.String(), "New@example.com") {
		t.Errorf("the page for the code: %d\n%s", page.Code, page.Body)
	}
	if a := b.Post(page, "code", identitytest.WrongFor(code)); a.Code != http.StatusUnprocessableEntity || h.Exists(identitytest.Newcomer) {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.Post(page, "code", ""); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no code = %d", a.Code)
	}
	a = b.Post(page, "code", code)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the code = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("afterwards: %d\n%s", a.Code, a.Body)
	}
	p, err := h.Person.Person(t.Context(), identitytest.Newcomer)
	if err != nil || p.State != person.Active || p.Email != "New@example.com" || !p.EmailVerified || p.Locale != "en" {
		t.Errorf("person = %+v, %v", p, err)
	}
	identitytest.WantNotices(t, "afterwards", box, "welcome New@example.com")
	if ev := h.Events(); ev["person.PersonSignedUpEvent"] != 1 || ev["person.PersonCreatedEvent"] != 2 ||
		ev["login.LoginSucceededEvent"] != 1 {
		t.Errorf("events: %v", ev)
	}
	h.Browser().SignIn(identitytest.Newcomer, identitytest.FreshPassword)
	if a := b.Post(page, "code", code); a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-up?") {
		t.Errorf("the code again = %d to %s", a.Code, a.Header().Get("Location"))
	}
	for key, value := range h.Dump() {
		if strings.Contains(value, identitytest.FreshPassword) || strings.Contains(value, code) {
			t.Errorf("%q holds a secret", key)
		}
	}
	h.CheckInvariants()
}

func TestSignUpSwitches(t *testing.T) {
	t.Parallel()
	h, u, box := identitytest.NewWithSignUp(t)
	closed := func(what string) {
		t.Helper()
		b := h.Browser()
		if a := b.Get("/sign-up"); a.Code != http.StatusNotFound || strings.Contains(b.Get("/next").Body.String(), "/sign-up") {
			t.Errorf("%s: GET /sign-up = %d", what, a.Code)
		}
	}
	u.Features.SignUpEnabled = false
	closed("switched off")
	u.Features.SignUpEnabled = true
	u.Features.LoginEnabled = false
	if a := h.Browser().Get("/sign-up"); a.Code != http.StatusNotFound {
		t.Errorf("while nobody signs in: %d", a.Code)
	}
	u.Features.LoginEnabled = true
	h.Notices = nil
	h.Start()
	closed("nothing to send by")

	u.Attributes.Verification.EmailEnabled = false
	b := h.Browser()
	if a := b.SignUp("email", identitytest.Newcomer, "password", identitytest.FreshPassword); a.Code != http.StatusSeeOther ||
		a.Header().Get("Location") != "/next" || !b.IsSignedIn() {
		t.Errorf("without confirmation = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if p, err := h.Person.Person(t.Context(), identitytest.Newcomer); err != nil || p.EmailVerified {
		t.Errorf("person = %+v, %v", p, err)
	}
	if a := h.Browser().SignUp("email", strings.ToUpper(identitytest.Newcomer), "password",
		identitytest.FreshPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a taken address without confirmation = %d", a.Code)
	}
	identitytest.WantNotices(t, "without confirmation", box)
}

// TestSignUpFields: the form has the configured fields, says what is wrong with each, and keeps the input except
// passwords.
func TestSignUpFields(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithSignUp(t)
	b := h.Browser()
	plain := b.Get("/sign-up").Body.String()
	for _, name := range []string{"email_again", "given_name", "family_name", "phone", "phone_again"} {
		if strings.Contains(plain, `name="`+name+`"`) {
			t.Errorf("the plain form asks for %s", name)
		}
	}
	u.Attributes.SignUpFormFields = settings.SignUpFormFields{
		MobileNumberEnabled: true, MobileNumberConfirmationEnabled: true,
		EmailConfirmationEnabled: true,
	}
	u.Attributes.PersonCreationMandatoryFields = settings.PersonCreationMandatoryFields{FirstNameRequired: true, LastNameRequired: true}
	good := map[string]string{
		"email": identitytest.Newcomer, "email_again": "NEW@example.com", "given_name": "Nel", "family_name": "O'Neil",
		"phone": "+31 6 1234 5678", "phone_again": "0031612345678",
		"password": identitytest.FreshPassword,
	}
	send := func(b *identitytest.Browser, change map[string]string) *identitytest.Answer {
		form := maps.Clone(good)
		maps.Copy(form, change)
		var fields []string
		for k, v := range form {
			fields = append(fields, k, v)
		}
		return b.SignUp(fields...)
	}
	for name, c := range map[string]struct {
		change map[string]string
		field  string
	}{
		"no address":             {map[string]string{"email": ""}, "email"},
		"no address at all":      {map[string]string{"email": "new"}, "email"},
		"an address cut short":   {map[string]string{"email": "maria@example"}, "email"},
		"an address cut shorter": {map[string]string{"email": "maria@example.c"}, "email"},
		"a host with a hyphen":   {map[string]string{"email": "maria@-example.com"}, "email"},
		"an IP address":          {map[string]string{"email": "maria@192.0.2.1"}, "email"},
		"two addresses":          {map[string]string{"email": "a@example.com,b@example.com"}, "email"},
		"another address":        {map[string]string{"email_again": "old@example.com"}, "email_again"},
		"no first name":          {map[string]string{"given_name": ""}, "given_name"},
		"no last name":           {map[string]string{"family_name": " "}, "family_name"},
		"a control character":    {map[string]string{"family_name": "x\x07"}, "family_name"},
		"no number":              {map[string]string{"phone": "06-12345678"}, "phone"},
		"another number":         {map[string]string{"phone_again": "+31612345679"}, "phone_again"},
		"no password":            {map[string]string{"password": ""}, "password"},
		"a short password":       {map[string]string{"password": "short"}, "password"},
		"an id as the address":   {map[string]string{"email": "7d9f6a6e-3f0e-4f86-9f0b-0d8c2f6f1a11"}, "email"},
	} {
		a := send(h.Browser(), c.change)
		body := a.Body.String()
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(body, `id="`+c.field+`-problem"`) ||
			strings.Count(body, `-problem">`) != 1 {
			t.Errorf("%s = %d, want 422 at %s:\n%s", name, a.Code, c.field, body)
		}
		if strings.Contains(body, identitytest.FreshPassword) {
			t.Errorf("%s: the page repeats the password", name)
		}
		for field, v := range good {
			if _, changed := c.change[field]; !changed && field != "password" && !strings.Contains(body, strings.ReplaceAll(v, "'", "&#39;")) &&
				!strings.Contains(body, strings.ReplaceAll(v, "+", "&#43;")) {
				t.Errorf("%s: the page has lost %s", name, field)
			}
		}
	}
	nobody := h.Browser()
	nobody.Address = "198.51.100.77:1"
	a := send(nobody, nil)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("the form = %d:\n%s", a.Code, a.Body)
	}
	if again := nobody.Get("/sign-up").Body.String(); !strings.Contains(again, identitytest.Newcomer) ||
		!strings.Contains(again, `value="Nel"`) || strings.Contains(again, identitytest.FreshPassword) {
		t.Errorf("back on the form:\n%s", again)
	}
	if a := nobody.Post(nobody.Get(a.Header().Get("Location")), "code",
		h.Mailed(notify.SignUpCode, identitytest.Newcomer)); a.Code != http.StatusSeeOther {
		t.Fatalf("the code = %d:\n%s", a.Code, a.Body)
	}
	if p := profileOf(h, identitytest.Newcomer); p.Name.DisplayName != "Nel O'Neil" || len(p.PhoneNumbers) != 1 ||
		p.PhoneNumbers[0].Value != "+31612345678" || p.PhoneNumbers[0].Verified {
		t.Errorf("profile = %+v", p)
	}
	u.Attributes.SignUpFormFields, u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = settings.SignUpFormFields{}, true
	if a := send(h.Browser(), map[string]string{"phone": ""}); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), `id="phone-problem"`) {
		t.Errorf("without a number that is required = %d", a.Code)
	}
}

func TestSignUpRedirect(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithSignUp(t)
	arrive := func(b *identitytest.Browser, start string) string {
		t.Helper()
		b.Address = "198.51.100.7:1"
		email := "p" + strings.ReplaceAll(time.Duration(h.Clock.Now().UnixNano()).String(), ".", "") + "@example.com"
		h.Clock.Advance(time.Second)
		a := b.Post(b.Get(start), "email", email, "password", identitytest.FreshPassword)
		a = b.Post(b.Get(a.Header().Get("Location")), "code", h.Mailed(notify.SignUpCode, email))
		if a.Code != http.StatusSeeOther {
			t.Fatalf("the code = %d:\n%s", a.Code, a.Body)
		}
		return a.Header().Get("Location")
	}
	if to := arrive(h.Browser(), "/sign-up"); to != "/account" {
		t.Errorf("nothing configured: to %s", to)
	}
	u.Redirects.URLAfterSignUp = "https://shop.example.com/hello"
	b := h.Browser()
	if policy := b.Get("/sign-up").Header().Get("Content-Security-Policy"); !strings.Contains(policy,
		"form-action 'self' https://shop.example.com") {
		t.Errorf("policy = %s", policy)
	}
	if to := arrive(b, "/sign-up"); to != "https://shop.example.com/hello" {
		t.Errorf("configured: to %s", to)
	}
	b = h.Browser()
	flow := strings.TrimPrefix(b.Get("/next").URL, "/sign-in?")
	if to := arrive(b, "/sign-up?"+flow); to != "/next" {
		t.Errorf("on the way to an application: to %s", to)
	}
	b = h.Browser()
	flow = strings.TrimPrefix(b.Get("/sign-in").URL, "/sign-in?")
	if to := arrive(b, "/sign-up?"+flow); to != "https://shop.example.com/hello" {
		t.Errorf("from the sign-in page for nothing in particular: to %s", to)
	}
	t.Run("attack 281: a place to go to that the request names", func(t *testing.T) {
		for _, evil := range []string{"//evil.example", "https:evil.example", `/\evil.example`, "/%09/evil.example", "javascript:alert(1)"} {
			if to := arrive(h.Browser(),
				"/sign-up?redirect="+url.QueryEscape(evil)+"&next="+url.QueryEscape(evil)); to != "https://shop.example.com/hello" {
				t.Errorf("%s: to %s", evil, to)
			}
		}
	})
}

func nameOf(b *identitytest.Browser, kind string) string {
	names := slices.Sorted(maps.Keys(b.Cookies))
	return names[slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, "-"+kind) })]
}

// TestSignUpNumber: after the address, the telephone number is confirmed by text message.
func TestSignUpNumber(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithSignUp(t)
	h.Texts = new(notifytest.Texts)
	h.Start()
	u.Features.SMSEnabled, u.Attributes.Verification.MobileNumberEnabled, u.Attributes.SignUpFormFields.MobileNumberEnabled = true, true, true
	b := h.Browser()
	b.SignUp("email", identitytest.Newcomer, "password", identitytest.FreshPassword, "phone", "+31 6 1234 5678")
	page := b.Get("/sign-up/confirm")
	if a := b.Post(page, "code", h.Mailed(notify.SignUpCode, identitytest.Newcomer)); a.Code != http.StatusSeeOther ||
		h.Exists(identitytest.Newcomer) {
		t.Fatalf("the code of the address = %d:\n%s", a.Code, a.Body)
	}
	list := h.Texts.Take()
	if len(list) != 1 || list[0].To != "+31612345678" || list[0].Kind != notify.SMSPhoneCode || len(list[0].Data["code"]) != 6 {
		t.Fatalf("text messages: %+v", list)
	}
	code := list[0].Data["code"]
	page = b.Get("/sign-up/confirm")
	if !strings.Contains(page.Body.String(), "&#43;31612345678") {
		t.Errorf("the page for the number:\n%s", page.Body)
	}
	if a := b.Post(page, "code", identitytest.WrongFor(code)); a.Code != http.StatusUnprocessableEntity || h.Exists(identitytest.Newcomer) {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.Post(page, "code", code); a.Code != http.StatusSeeOther || !b.IsSignedIn() {
		t.Fatalf("the code of the number = %d:\n%s", a.Code, a.Body)
	}
	if p := profileOf(h, identitytest.Newcomer); len(p.PhoneNumbers) != 1 || !p.PhoneNumbers[0].Verified || !p.EmailAddresses[0].Verified {
		t.Errorf("profile = %+v", p)
	}
	c := h.Browser()
	c.SignUp("email", "none@example.com", "password", identitytest.FreshPassword)
	if a := c.Post(c.Get("/sign-up/confirm"), "code", h.Mailed(notify.SignUpCode, "none@example.com")); a.Code != http.StatusSeeOther ||
		!c.IsSignedIn() || len(h.Texts.Take()) != 0 {
		t.Errorf("without a number = %d", a.Code)
	}
	u.Attributes.Verification.EmailEnabled = false
	d := h.Browser()
	d.SignUp("email", "number@example.com", "password", identitytest.FreshPassword, "phone", "+31612345679")
	if a := d.Post(d.Get("/sign-up/confirm"), "code", h.Texts.Take()[0].Data["code"]); a.Code != http.StatusSeeOther || !d.IsSignedIn() {
		t.Errorf("the number alone = %d:\n%s", a.Code, a.Body)
	}
}

func profileOf(h *identitytest.Harness, username string) (p person.Profile) {
	h.T.Helper()
	err := h.Store.View(h.T.Context(), func(tx storage.Tx) error {
		id, err := h.Person.ByUsername(tx, "default", username)
		if err == nil {
			p, err = h.Person.Profile(tx, id)
		}
		return err
	})
	if err != nil {
		h.T.Fatal(err)
	}
	return p
}

// TestCreatePrompt: an application sends people to the page for a new account, those who are signed in too. Where
// no one can make one they come to the sign-in page. (Initiating User Registration 1.0)
func TestCreatePrompt(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithSignUp(t)
	asked := authn.Demand{MaxAge: -1, Create: true, Client: authn.Client{ID: "shop", Name: "The shop"}}
	h.Demand = func(r *http.Request) authn.Demand {
		d := asked
		d.Return = r.URL.RequestURI()
		return d
	}
	b := h.Browser()
	page := b.Get("/next")
	if !strings.HasPrefix(page.URL, "/sign-up?flow=") {
		t.Fatalf("create leads to %s", page.URL)
	}
	a := b.Post(page, "email", identitytest.Newcomer, "password", identitytest.FreshPassword)
	a = b.Post(b.Get(a.Header().Get("Location")), "code", h.Mailed(notify.SignUpCode, identitytest.Newcomer))
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the code = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("afterwards: %d at %s", a.Code, a.URL)
	}
	h.Clock.Advance(time.Minute)
	asked.NotBefore = h.Clock.Now()
	if to := b.Get("/next?again").URL; !strings.HasPrefix(to, "/sign-up?flow=") {
		t.Errorf("somebody who is signed in is led to %s", to)
	}
	asked.Passive = true
	if a := b.Get("/next?again"); strings.HasPrefix(a.URL, "/sign-up") {
		t.Errorf("a page although none is allowed: %s", a.URL)
	}
	asked.Passive = false
	u.Features.SignUpEnabled = false
	if to := h.Browser().Get("/next").URL; !strings.HasPrefix(to, "/sign-in?flow=") {
		t.Errorf("without sign-up to %s", to)
	}
}
