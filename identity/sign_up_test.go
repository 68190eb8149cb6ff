package identity_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// open is a harness where people make accounts of their own.
func open(t *testing.T, change ...func(*identity.Config)) (*harness, *config.Units, *notify.Memory) {
	t.Helper()
	h := newHarness(t, change...)
	u := config.Defaults()
	u.Features.SignUpEnabled, u.Attributes.Verification.EmailEnabled = true, true
	h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	h.notices = new(notify.Memory)
	h.start()
	return h, &u, h.notices
}

const newcomer = "new@example.com"

// signUp sends the form of the sign-up page that the sign-in page of /next leads to.
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

// mailed returns the code of the one notice that was sent.
func (h *harness) mailed(kind notify.Kind, to string) string {
	h.t.Helper()
	list := h.notices.Take()
	if len(list) != 1 || list[0].Kind != kind || list[0].To != to || len(list[0].Data["code"]) != 6 {
		h.t.Fatalf("sent: %+v, want one %s to %s", list, kind, to)
	}
	return list[0].Data["code"]
}

// exists tells whether there is a person of this name.
func (h *harness) exists(username string) bool {
	_, err := h.Person(h.t.Context(), username)
	return err == nil
}

func other(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
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
	if a := b.post(page, "code", other(code)); a.Code != http.StatusUnprocessableEntity || h.exists(newcomer) {
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
	p, err := h.Person(t.Context(), newcomer)
	if err != nil || p.State != identity.Active || p.Email != "New@example.com" || !p.EmailVerified || p.Locale != "en" {
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
	if p, err := h.Person(t.Context(), newcomer); err != nil || p.EmailVerified {
		t.Errorf("person = %+v, %v", p, err)
	}
	if a := h.browser().signUp("email", strings.ToUpper(newcomer), "password", freshPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a taken address without confirmation = %d", a.Code)
	}
	heard(t, "without confirmation", box)
}

// TestSignUpFields: the form has the fields that are configured, says what is wrong with each, and keeps what was typed but for passwords.
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

func TestSignUpAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 219: an address and a username that somebody has get the answer of a new one, and the owner a mail", func(t *testing.T) {
		t.Parallel()
		h, _, box := open(t)
		verified := true
		h.add(identity.NewPerson{Username: "ann", Email: "ann@example.com", EmailVerified: &verified, Password: secret.New(demoPassword)})
		shape := func(email string) (string, *browser, int) {
			b := h.browser()
			before := len(h.dump())
			a := b.post(b.get("/sign-up"), "email", email, "password", freshPassword)
			page := b.get(a.Header().Get("Location"))
			return strings.ReplaceAll(field.ReplaceAllString(page.Body.String(), ""), email, "X"), b, len(h.dump()) - before
		}
		shape("first@example.com")
		box.Take()
		want, _, records := shape(newcomer)
		code := h.mailed(notify.SignUpCode, newcomer)
		for email, told := range map[string]string{"DEMO@example.com": demo, "ann@example.com": "ann@example.com"} {
			got, b, n := shape(email)
			if got != want || n != records {
				t.Errorf("%s: %d records, want %d, or the page differs:\n%s", email, n, records, got)
			}
			list := heard(t, email, box, "sign_up_existing "+told)
			if list[0].Data["code"] != "" || list[0].Link != "/sign-in" {
				t.Errorf("notice = %+v", list[0])
			}
			if a := b.post(b.get("/sign-up/confirm"), "code", code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s with another's code = %d", email, a.Code)
			}
		}
	})
	t.Run("attack 238: the code by another browser, again, late, sixty-four times at once, after five tries", func(t *testing.T) {
		t.Parallel()
		h, _, _ := open(t)
		b, thief := h.browser(), h.browser()
		b.signUp("email", newcomer, "password", freshPassword)
		code := h.mailed(notify.SignUpCode, newcomer)
		page := b.get("/sign-up/confirm")
		thief.get("/sign-up")
		thief.cookies[nameOf(b, "sign-up")] = b.cookie("sign-up")
		if a := thief.do(http.MethodPost, "/sign-up/confirm", url.Values{"csrf": {page.csrf()}, "code": {code}}.Encode()); a.Code == http.StatusOK || h.exists(newcomer) {
			t.Errorf("by another browser = %d", a.Code)
		}
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				c := &browser{h: h, cookies: maps.Clone(b.cookies), address: b.address}
				c.post(page, "code", code)
			})
		}
		wg.Wait()
		if n := h.events()["person.PersonSignedUpEvent"]; n != 1 {
			t.Errorf("%d persons of one code, want 1", n)
		}

		late := h.browser()
		late.signUp("email", "late@example.com", "password", freshPassword)
		code = h.mailed(notify.SignUpCode, "late@example.com")
		page = late.get("/sign-up/confirm")
		for range 5 {
			late.post(page, "code", other(code))
		}
		if a := late.post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("after five wrong ones = %d", a.Code)
		}
		h.clock.Advance(time.Minute)
		late.post(page, "send", "yes")
		code = h.mailed(notify.SignUpCode, "late@example.com")
		h.clock.Advance(10 * time.Minute)
		if a := late.post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("after ten minutes = %d", a.Code)
		}
		h.clock.Advance(time.Hour)
		if a := late.do(http.MethodGet, "/sign-up/confirm", ""); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/sign-up" {
			t.Errorf("after an hour = %d", a.Code)
		}
	})
	t.Run("attack 238: two who confirm one address: the first has it", func(t *testing.T) {
		t.Parallel()
		h, _, _ := open(t)
		a, b := h.browser(), h.browser()
		a.signUp("email", newcomer, "password", freshPassword)
		first := h.mailed(notify.SignUpCode, newcomer)
		h.clock.Advance(time.Minute)
		b.signUp("email", newcomer, "password", demoPassword)
		second := h.mailed(notify.SignUpCode, newcomer)
		if got := a.post(a.get("/sign-up/confirm"), "code", first); got.Code != http.StatusSeeOther {
			t.Fatalf("the first = %d:\n%s", got.Code, got.Body)
		}
		if got := b.post(b.get("/sign-up/confirm"), "code", second); got.Code != http.StatusUnprocessableEntity || b.isSignedIn() {
			t.Errorf("the second = %d", got.Code)
		}
		h.browser().signIn(newcomer, freshPassword)
	})
	t.Run("attack 239: mailboxes are not filled, and neither is the storage", func(t *testing.T) {
		t.Parallel()
		h, _, box := open(t)
		got := map[int]int{}
		for range 30 {
			b := h.browser()
			got[b.post(b.get("/sign-up"), "email", newcomer, "password", freshPassword).Code]++
		}
		if n := len(box.Take()); n != 5 || got[http.StatusTooManyRequests] != 25 {
			t.Errorf("%d mails, answers %v", n, got)
		}
		for range 3 {
			b := h.browser()
			if a := b.post(b.get("/sign-up"), "email", "else@example.com", "password", freshPassword); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") == "" {
				t.Errorf("another address from the same network = %d", a.Code)
			}
		}
	})
	t.Run("attack 239: words of a stranger in mails to somebody else", func(t *testing.T) {
		t.Parallel()
		const advert = "Win at https://evil.example/"
		h, u, box := open(t)
		u.EmailNotifications.Welcome.OnWebEnabled, u.EmailNotifications.EmailVerification.OnWebEnabled = true, true
		u.Attributes.PersonCreationMandatoryFields.FirstNameRequired, u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true, true
		send := func(email string, kinds ...notify.Kind) {
			t.Helper()
			b := h.browser()
			b.post(b.get("/sign-up"), "email", email, "password", freshPassword, "given_name", advert, "family_name", advert)
			list := box.Take()
			if len(list) != len(kinds) {
				t.Fatalf("sent: %+v, want %v", list, kinds)
			}
			for i, n := range list {
				if n.Kind != kinds[i] || n.Name != "" || strings.Contains(fmt.Sprint(n.Data), "evil") {
					t.Errorf("sent: %+v, want one %s without a name", n, kinds[i])
				}
			}
		}
		send(newcomer, notify.SignUpCode)
		u.Attributes.Verification.EmailEnabled = false
		send("first@example.com", notify.Welcome, notify.EmailVerification)
		u.Features.PersonActivation.Enabled = true
		send("second@example.com", notify.Activation)
	})
	t.Run("attack 239: addresses that are more than one, or a header", func(t *testing.T) {
		t.Parallel()
		h, _, box := open(t)
		for _, email := range []string{"a@b,c@d", "a@example.com\r\nBcc: x@example.com", "\"a\r\nBcc:x\"@example.com", "a@example.com\x00", strings.Repeat("a", 60_000) + "@example.com", `["a@example.com"]`, "<a@example.com>", "a@example.com b@example.com"} {
			b := h.browser()
			if a := b.post(b.get("/sign-up"), "email", email, "password", freshPassword); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%.40q = %d", email, a.Code)
			}
		}
		heard(t, "nobody", box)
	})
	t.Run("attack 243: the part after the at sign as a whole, and one at sign alone", func(t *testing.T) {
		t.Parallel()
		h, u, box := open(t)
		u.Features.CustomEmailValidation = unitsOf(t, `{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"example\\.com"}}}`).Features.CustomEmailValidation
		for _, email := range []string{"x@example.com.evil", "x@evil@example.com", `"x@y"@example.com`, "x@evilexample.com", "x@example.org"} {
			b := h.browser()
			if a := b.post(b.get("/sign-up"), "email", email, "password", freshPassword); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s = %d", email, a.Code)
			}
		}
		heard(t, "refused", box)
		b := h.browser()
		if a := b.post(b.get("/sign-up"), "email", newcomer, "password", freshPassword); a.Code != http.StatusSeeOther {
			t.Errorf("%s = %d", newcomer, a.Code)
		}
	})
	t.Run("attack 242: an expression that would backtrack", func(t *testing.T) {
		t.Parallel()
		h, u, _ := open(t)
		u.Features.CustomEmailValidation = unitsOf(t, `{"features":{"custom_email_validation":{"enabled":true,"before_at_regex":"(a+)+"}}}`).Features.CustomEmailValidation
		b := h.browser()
		start := time.Now()
		a := b.post(b.get("/sign-up"), "email", strings.Repeat("a", 200)+"!@example.com", "password", freshPassword)
		if a.Code != http.StatusUnprocessableEntity || time.Since(start) > 5*time.Second {
			t.Errorf("= %d after %s", a.Code, time.Since(start))
		}
	})
	t.Run("attack 226: the policy holds for a sign-up", func(t *testing.T) {
		t.Parallel()
		h, u, _ := open(t)
		u.PasswordPolicy = config.PasswordPolicy{MinLength: 10, MaxLength: 20, LowerCaseCharRequired: true, UpperCaseCharRequired: true, SpecialCharRequired: true}
		for _, password := range []string{"Aa!456789", "Aa!" + strings.Repeat("5", 18), "AA!4567890", "aa!4567890", "Aa34567890", "Aa!4567\x00890"} {
			if a := h.browser().signUp("email", newcomer, "password", password); a.Code != http.StatusUnprocessableEntity || strings.Contains(a.Body.String(), password) {
				t.Errorf("%q = %d", password, a.Code)
			}
		}
	})
	t.Run("attack 282: the forms without their tokens", func(t *testing.T) {
		t.Parallel()
		h, _, box := open(t)
		b := h.browser()
		b.signUp("email", newcomer, "password", freshPassword)
		code := h.mailed(notify.SignUpCode, newcomer)
		form := url.Values{"email": {"else@example.com"}, "password": {freshPassword}}.Encode()
		if a := b.do(http.MethodPost, "/sign-up", form); a.Code != http.StatusForbidden {
			t.Errorf("POST /sign-up = %d", a.Code)
		}
		if a := b.do(http.MethodPost, "/sign-up/confirm", "code="+code); a.Code != http.StatusForbidden || h.exists(newcomer) {
			t.Errorf("POST /sign-up/confirm = %d", a.Code)
		}
		heard(t, "refused forms", box)
	})
}

func nameOf(b *browser, kind string) string {
	names := slices.Sorted(maps.Keys(b.cookies))
	return names[slices.IndexFunc(names, func(n string) bool { return strings.HasSuffix(n, "-"+kind) })]
}

// TestSignUpNumber: the number is confirmed by a text message, after the address.
func TestSignUpNumber(t *testing.T) {
	t.Parallel()
	h, u, _ := open(t)
	h.texts = new(notify.MemorySMS)
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
	if a := b.post(page, "code", other(code)); a.Code != http.StatusUnprocessableEntity || h.exists(newcomer) {
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

func (h *harness) profileOf(username string) (p identity.Profile) {
	h.t.Helper()
	err := h.store.View(h.t.Context(), func(tx storage.Tx) error {
		id, err := h.ByUsername(tx, "default", username)
		if err == nil {
			p, err = h.Profile(tx, id)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}
