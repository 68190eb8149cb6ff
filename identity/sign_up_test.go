package identity_test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// open returns a harness where people can create their own accounts.
func open(t *testing.T, change ...func(*identity.Config)) (*harness, *config.Units, *notifytest.Notices) {
	t.Helper()
	h := newHarness(t, change...)
	u := config.Defaults()
	u.Features.SignUpEnabled, u.Attributes.Verification.EmailEnabled = true, true
	h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	h.notices = new(notifytest.Notices)
	h.start()
	return h, &u, h.notices
}

const newcomer = "new@example.com"

// signUp opens the sign-up page from the sign-in page of /next and sends its form.
func (b *browser) signUp(fields ...string) *answer {
	b.h.t.Helper()
	page := b.get("/next")
	_, rest, ok := strings.Cut(page.Body.String(), `href="/sign-up`)
	if !ok {
		b.h.t.Fatalf("the sign-in page leads to no sign-up:\n%s", page.Body)
	}
	path, _, _ := strings.Cut(rest, `"`)
	return b.post(b.get("/sign-up"+strings.ReplaceAll(path, "&amp;", "&")), fields...)
}

// mailed returns the code in the only notice that was sent.
func (h *harness) mailed(kind notify.Kind, to string) string {
	h.t.Helper()
	list := h.notices.Take()
	if len(list) != 1 || list[0].Kind != kind || list[0].To != to || len(list[0].Data["code"]) != 6 {
		h.t.Fatalf("sent: %+v, want one %s to %s", list, kind, to)
	}
	return list[0].Data["code"]
}

// exists reports whether there is a person with this username.
func (h *harness) exists(username string) bool {
	_, err := h.Person.Person(h.t.Context(), username)
	return err == nil
}

func TestSignUp(t *testing.T) {
	t.Parallel()
	h, u, box := open(t)
	u.EmailNotifications.Welcome.OnWebEnabled = true
	b := h.browser()
	a := b.signUp("email", "New@example.com", "password", freshPassword)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST /sign-up = %d:\n%s", a.Code, a.Body)
	}
	code := h.mailed(notify.SignUpCode, "New@example.com")
	if h.exists(newcomer) || h.events()["person.PersonCreatedEvent"] != 1 {
		t.Error("there is a person before the address is confirmed")
	}
	page := b.get(a.Header().Get("Location"))
	if !strings.Contains(page.Body.String(), "New@example.com") {
		t.Errorf("the page for the code: %d\n%s", page.Code, page.Body)
	}
	if a := b.post(page, "code", wrongFor(code)); a.Code != http.StatusUnprocessableEntity || h.exists(newcomer) {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.post(page, "code", ""); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no code = %d", a.Code)
	}
	a = b.post(page, "code", code)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the code = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("afterwards: %d\n%s", a.Code, a.Body)
	}
	p, err := h.Person.Person(t.Context(), newcomer)
	if err != nil || p.State != person.Active || p.Email != "New@example.com" || !p.EmailVerified || p.Locale != "en" {
		t.Errorf("person = %+v, %v", p, err)
	}
	heard(t, "afterwards", box, "welcome New@example.com")
	if ev := h.events(); ev["person.PersonSignedUpEvent"] != 1 || ev["person.PersonCreatedEvent"] != 2 || ev["login.LoginSucceededEvent"] != 1 {
		t.Errorf("events: %v", ev)
	}
	h.browser().signIn(newcomer, freshPassword)
	if a := b.post(page, "code", code); a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-up?") {
		t.Errorf("the code again = %d to %s", a.Code, a.Header().Get("Location"))
	}
	for key, value := range h.dump() {
		if strings.Contains(value, freshPassword) || strings.Contains(value, code) {
			t.Errorf("%q holds a secret", key)
		}
	}
	h.checkInvariants()
}

func TestSignUpSwitches(t *testing.T) {
	t.Parallel()
	h, u, box := open(t)
	closed := func(what string) {
		t.Helper()
		b := h.browser()
		if a := b.get("/sign-up"); a.Code != http.StatusNotFound || strings.Contains(b.get("/next").Body.String(), "/sign-up") {
			t.Errorf("%s: GET /sign-up = %d", what, a.Code)
		}
	}
	u.Features.SignUpEnabled = false
	closed("switched off")
	u.Features.SignUpEnabled = true
	u.Features.LoginEnabled = false
	if a := h.browser().get("/sign-up"); a.Code != http.StatusNotFound {
		t.Errorf("while nobody signs in: %d", a.Code)
	}
	u.Features.LoginEnabled = true
	h.notices = nil
	h.start()
	closed("nothing to send by")

	u.Attributes.Verification.EmailEnabled = false
	b := h.browser()
	if a := b.signUp("email", newcomer, "password", freshPassword); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" || !b.isSignedIn() {
		t.Errorf("without confirmation = %d to %s:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if p, err := h.Person.Person(t.Context(), newcomer); err != nil || p.EmailVerified {
		t.Errorf("person = %+v, %v", p, err)
	}
	if a := h.browser().signUp("email", strings.ToUpper(newcomer), "password", freshPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a taken address without confirmation = %d", a.Code)
	}
	heard(t, "without confirmation", box)
}

// TestSignUpFields: the form has the configured fields, says what is wrong with each, and keeps the input except
// passwords.
func TestSignUpFields(t *testing.T) {
	t.Parallel()
	h, u, _ := open(t)
	b := h.browser()
	plain := b.get("/sign-up").Body.String()
	for _, name := range []string{"email_again", "given_name", "family_name", "phone", "phone_again"} {
		if strings.Contains(plain, `name="`+name+`"`) {
			t.Errorf("the plain form asks for %s", name)
		}
	}
	u.Attributes.SignUpFormFields = config.SignUpFormFields{MobileNumberEnabled: true, MobileNumberConfirmationEnabled: true, EmailConfirmationEnabled: true}
	u.Attributes.PersonCreationMandatoryFields = config.PersonCreationMandatoryFields{FirstNameRequired: true, LastNameRequired: true}
	good := map[string]string{
		"email": newcomer, "email_again": "NEW@example.com", "given_name": "Nel", "family_name": "O'Neil", "phone": "+31 6 1234 5678", "phone_again": "0031612345678",
		"password": freshPassword,
	}
	send := func(b *browser, change map[string]string) *answer {
		form := maps.Clone(good)
		maps.Copy(form, change)
		var fields []string
		for k, v := range form {
			fields = append(fields, k, v)
		}
		return b.signUp(fields...)
	}
	for name, c := range map[string]struct {
		change map[string]string
		field  string
	}{
		"no address":           {map[string]string{"email": ""}, "email"},
		"no address at all":    {map[string]string{"email": "new"}, "email"},
		"two addresses":        {map[string]string{"email": "a@example.com,b@example.com"}, "email"},
		"another address":      {map[string]string{"email_again": "old@example.com"}, "email_again"},
		"no first name":        {map[string]string{"given_name": ""}, "given_name"},
		"no last name":         {map[string]string{"family_name": " "}, "family_name"},
		"a control character":  {map[string]string{"family_name": "x\x07"}, "family_name"},
		"no number":            {map[string]string{"phone": "06-12345678"}, "phone"},
		"another number":       {map[string]string{"phone_again": "+31612345679"}, "phone_again"},
		"no password":          {map[string]string{"password": ""}, "password"},
		"a short password":     {map[string]string{"password": "short"}, "password"},
		"an id as the address": {map[string]string{"email": "7d9f6a6e-3f0e-4f86-9f0b-0d8c2f6f1a11"}, "email"},
	} {
		a := send(h.browser(), c.change)
		body := a.Body.String()
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(body, `id="`+c.field+`-problem"`) || strings.Count(body, `-problem">`) != 1 {
			t.Errorf("%s = %d, want 422 at %s:\n%s", name, a.Code, c.field, body)
		}
		if strings.Contains(body, freshPassword) {
			t.Errorf("%s: the page repeats the password", name)
		}
		for field, v := range good {
			if _, changed := c.change[field]; !changed && field != "password" && !strings.Contains(body, strings.ReplaceAll(v, "'", "&#39;")) && !strings.Contains(body, strings.ReplaceAll(v, "+", "&#43;")) {
				t.Errorf("%s: the page has lost %s", name, field)
			}
		}
	}
	nobody := h.browser()
	nobody.address = "198.51.100.77:1"
	a := send(nobody, nil)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("the form = %d:\n%s", a.Code, a.Body)
	}
	if again := nobody.get("/sign-up").Body.String(); !strings.Contains(again, newcomer) || !strings.Contains(again, `value="Nel"`) || strings.Contains(again, freshPassword) {
		t.Errorf("back on the form:\n%s", again)
	}
	if a := nobody.post(nobody.get(a.Header().Get("Location")), "code", h.mailed(notify.SignUpCode, newcomer)); a.Code != http.StatusSeeOther {
		t.Fatalf("the code = %d:\n%s", a.Code, a.Body)
	}
	if p := h.profileOf(newcomer); p.Name.DisplayName != "Nel O'Neil" || len(p.PhoneNumbers) != 1 || p.PhoneNumbers[0].Value != "+31612345678" || p.PhoneNumbers[0].Verified {
		t.Errorf("profile = %+v", p)
	}
	u.Attributes.SignUpFormFields, u.Attributes.PersonCreationMandatoryFields.MobileNumberRequired = config.SignUpFormFields{}, true
	if a := send(h.browser(), map[string]string{"phone": ""}); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), `id="phone-problem"`) {
		t.Errorf("without a number that is required = %d", a.Code)
	}
}

func TestSignUpRedirect(t *testing.T) {
	t.Parallel()
	h, u, _ := open(t)
	arrive := func(b *browser, start string) string {
		t.Helper()
		b.address = "198.51.100.7:1"
		email := "p" + strings.ReplaceAll(time.Duration(h.clock.Now().UnixNano()).String(), ".", "") + "@example.com"
		h.clock.Advance(time.Second)
		a := b.post(b.get(start), "email", email, "password", freshPassword)
		a = b.post(b.get(a.Header().Get("Location")), "code", h.mailed(notify.SignUpCode, email))
		if a.Code != http.StatusSeeOther {
			t.Fatalf("the code = %d:\n%s", a.Code, a.Body)
		}
		return a.Header().Get("Location")
	}
	if to := arrive(h.browser(), "/sign-up"); to != "/account" {
		t.Errorf("nothing configured: to %s", to)
	}
	u.Redirects.URLAfterSignUp = "https://shop.example.com/hello"
	b := h.browser()
	if policy := b.get("/sign-up").Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://shop.example.com") {
		t.Errorf("policy = %s", policy)
	}
	if to := arrive(b, "/sign-up"); to != "https://shop.example.com/hello" {
		t.Errorf("configured: to %s", to)
	}
	b = h.browser()
	flow := strings.TrimPrefix(b.get("/next").url, "/sign-in?")
	if to := arrive(b, "/sign-up?"+flow); to != "/next" {
		t.Errorf("on the way to an application: to %s", to)
	}
	b = h.browser()
	flow = strings.TrimPrefix(b.get("/sign-in").url, "/sign-in?")
	if to := arrive(b, "/sign-up?"+flow); to != "https://shop.example.com/hello" {
		t.Errorf("from the sign-in page for nothing in particular: to %s", to)
	}
	t.Run("attack 281: a place to go to that the request names", func(t *testing.T) {
		for _, evil := range []string{"//evil.example", "https:evil.example", `/\evil.example`, "/%09/evil.example", "javascript:alert(1)"} {
			if to := arrive(h.browser(), "/sign-up?redirect="+url.QueryEscape(evil)+"&next="+url.QueryEscape(evil)); to != "https://shop.example.com/hello" {
				t.Errorf("%s: to %s", evil, to)
			}
		}
	})
}

func nameOf(b *browser, kind string) string {
	names := slices.Sorted(maps.Keys(b.cookies))
	return names[slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, "-"+kind) })]
}

// TestSignUpNumber: after the address, the telephone number is confirmed by text message.
func TestSignUpNumber(t *testing.T) {
	t.Parallel()
	h, u, _ := open(t)
	h.texts = new(notifytest.Texts)
	h.start()
	u.Features.SMSEnabled, u.Attributes.Verification.MobileNumberEnabled, u.Attributes.SignUpFormFields.MobileNumberEnabled = true, true, true
	b := h.browser()
	b.signUp("email", newcomer, "password", freshPassword, "phone", "+31 6 1234 5678")
	page := b.get("/sign-up/confirm")
	if a := b.post(page, "code", h.mailed(notify.SignUpCode, newcomer)); a.Code != http.StatusSeeOther || h.exists(newcomer) {
		t.Fatalf("the code of the address = %d:\n%s", a.Code, a.Body)
	}
	list := h.texts.Take()
	if len(list) != 1 || list[0].To != "+31612345678" || list[0].Kind != notify.SMSPhoneCode || len(list[0].Data["code"]) != 6 {
		t.Fatalf("text messages: %+v", list)
	}
	code := list[0].Data["code"]
	page = b.get("/sign-up/confirm")
	if !strings.Contains(page.Body.String(), "&#43;31612345678") {
		t.Errorf("the page for the number:\n%s", page.Body)
	}
	if a := b.post(page, "code", wrongFor(code)); a.Code != http.StatusUnprocessableEntity || h.exists(newcomer) {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.post(page, "code", code); a.Code != http.StatusSeeOther || !b.isSignedIn() {
		t.Fatalf("the code of the number = %d:\n%s", a.Code, a.Body)
	}
	if p := h.profileOf(newcomer); len(p.PhoneNumbers) != 1 || !p.PhoneNumbers[0].Verified || !p.EmailAddresses[0].Verified {
		t.Errorf("profile = %+v", p)
	}
	c := h.browser()
	c.signUp("email", "none@example.com", "password", freshPassword)
	if a := c.post(c.get("/sign-up/confirm"), "code", h.mailed(notify.SignUpCode, "none@example.com")); a.Code != http.StatusSeeOther || !c.isSignedIn() || len(h.texts.Take()) != 0 {
		t.Errorf("without a number = %d", a.Code)
	}
	u.Attributes.Verification.EmailEnabled = false
	d := h.browser()
	d.signUp("email", "number@example.com", "password", freshPassword, "phone", "+31612345679")
	if a := d.post(d.get("/sign-up/confirm"), "code", h.texts.Take()[0].Data["code"]); a.Code != http.StatusSeeOther || !d.isSignedIn() {
		t.Errorf("the number alone = %d:\n%s", a.Code, a.Body)
	}
}

func (h *harness) profileOf(username string) (p person.Profile) {
	h.t.Helper()
	err := h.store.View(h.t.Context(), func(tx storage.Tx) error {
		id, err := h.Person.ByUsername(tx, "default", username)
		if err == nil {
			p, err = h.Person.Profile(tx, id)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// TestCreatePrompt: an application sends people to the page for a new account, those who are signed in too. Where
// nobody can make one they come to the sign-in page. (Initiating User Registration 1.0)
func TestCreatePrompt(t *testing.T) {
	t.Parallel()
	h, u, _ := open(t)
	asked := login.Demand{MaxAge: -1, Create: true, Client: login.Client{ID: "shop", Name: "The shop"}}
	h.demand = func(r *http.Request) login.Demand {
		d := asked
		d.Return = r.URL.RequestURI()
		return d
	}
	b := h.browser()
	page := b.get("/next")
	if !strings.HasPrefix(page.url, "/sign-up?flow=") {
		t.Fatalf("create leads to %s", page.url)
	}
	a := b.post(page, "email", newcomer, "password", freshPassword)
	a = b.post(b.get(a.Header().Get("Location")), "code", h.mailed(notify.SignUpCode, newcomer))
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the code = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if a := b.get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("afterwards: %d at %s", a.Code, a.url)
	}
	h.clock.Advance(time.Minute)
	asked.NotBefore = h.clock.Now()
	if to := b.get("/next?again").url; !strings.HasPrefix(to, "/sign-up?flow=") {
		t.Errorf("somebody who is signed in is led to %s", to)
	}
	asked.Passive = true
	if a := b.get("/next?again"); strings.HasPrefix(a.url, "/sign-up") {
		t.Errorf("a page although none is allowed: %s", a.url)
	}
	asked.Passive = false
	u.Features.SignUpEnabled = false
	if to := h.browser().get("/next").url; !strings.HasPrefix(to, "/sign-in?flow=") {
		t.Errorf("without sign-up to %s", to)
	}
}
