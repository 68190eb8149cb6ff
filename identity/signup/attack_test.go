package signup_test

import (
	"fmt"
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
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestSignUpAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 219: an address and a username that somebody has get the answer of a new one, and the owner a mail", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithSignUp(t)
		verified := true
		h.Add(person.NewPerson{
			Username: "ann", Email: "ann@example.com", EmailVerified: &verified,
			Password: secret.New(identitytest.DemoPassword),
		})
		shape := func(email string) (string, *identitytest.Browser, int) {
			b := h.Browser()
			before := len(h.Dump())
			a := b.Post(b.Get("/sign-up"), "email", email, "password", identitytest.FreshPassword)
			page := b.Get(a.Header().Get("Location"))
			return strings.ReplaceAll(identitytest.CSRFField.ReplaceAllString(page.Body.String(), ""), email, "X"), b, len(h.Dump()) - before
		}
		shape("first@example.com")
		box.Take()
		want, _, records := shape(identitytest.Newcomer)
		code := h.Mailed(notify.SignUpCode, identitytest.Newcomer)
		for email, told := range map[string]string{"DEMO@example.com": identitytest.Demo, "ann@example.com": "ann@example.com"} {
			got, b, n := shape(email)
			if got != want || n != records {
				t.Errorf("%s: %d records, want %d, or the page differs:\n%s", email, n, records, got)
			}
			list := identitytest.WantNotices(t, email, box, "sign_up_existing "+told)
			if list[0].Data["code"] != "" || list[0].Link != "/sign-in" {
				t.Errorf("notice = %+v", list[0])
			}
			if a := b.Post(b.Get("/sign-up/confirm"), "code", code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s with another's code = %d", email, a.Code)
			}
		}
	})
	t.Run("attack 238: the code by another browser, again, late, sixty-four times at once, after five tries", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithSignUp(t)
		b, thief := h.Browser(), h.Browser()
		b.SignUp("email", identitytest.Newcomer, "password", identitytest.FreshPassword)
		code := h.Mailed(notify.SignUpCode, identitytest.Newcomer)
		page := b.Get("/sign-up/confirm")
		thief.Get("/sign-up")
		thief.Cookies[nameOf(b, "sign-up")] = b.Cookie("sign-up")
		if a := thief.Do(http.MethodPost, "/sign-up/confirm",
			url.Values{"csrf": {page.CSRF()}, "code": {code}}.Encode()); a.Code == http.StatusOK || h.Exists(identitytest.Newcomer) {
			t.Errorf("by another browser = %d", a.Code)
		}
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				c := b.Clone()
				c.Post(page, "code", code)
			})
		}
		wg.Wait()
		if n := h.Events()["person.PersonSignedUpEvent"]; n != 1 {
			t.Errorf("%d persons of one code, want 1", n)
		}

		late := h.Browser()
		late.SignUp("email", "late@example.com", "password", identitytest.FreshPassword)
		code = h.Mailed(notify.SignUpCode, "late@example.com")
		page = late.Get("/sign-up/confirm")
		for range 5 {
			late.Post(page, "code", identitytest.WrongFor(code))
		}
		if a := late.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("after five wrong ones = %d", a.Code)
		}
		h.Clock.Advance(time.Minute)
		late.Post(page, "send", "yes")
		code = h.Mailed(notify.SignUpCode, "late@example.com")
		h.Clock.Advance(10 * time.Minute)
		if a := late.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("after ten minutes = %d", a.Code)
		}
		h.Clock.Advance(time.Hour)
		if a := late.Do(http.MethodGet, "/sign-up/confirm", ""); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/sign-up" {
			t.Errorf("after an hour = %d", a.Code)
		}
	})
	t.Run("attack 238: two who confirm one address: the first has it", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithSignUp(t)
		a, b := h.Browser(), h.Browser()
		a.SignUp("email", identitytest.Newcomer, "password", identitytest.FreshPassword)
		first := h.Mailed(notify.SignUpCode, identitytest.Newcomer)
		h.Clock.Advance(time.Minute)
		b.SignUp("email", identitytest.Newcomer, "password", identitytest.DemoPassword)
		second := h.Mailed(notify.SignUpCode, identitytest.Newcomer)
		if got := a.Post(a.Get("/sign-up/confirm"), "code", first); got.Code != http.StatusSeeOther {
			t.Fatalf("the first = %d:\n%s", got.Code, got.Body)
		}
		if got := b.Post(b.Get("/sign-up/confirm"), "code", second); got.Code != http.StatusUnprocessableEntity || b.IsSignedIn() {
			t.Errorf("the second = %d", got.Code)
		}
		h.Browser().SignIn(identitytest.Newcomer, identitytest.FreshPassword)
	})
	t.Run("attack 239: mailboxes are not filled, and neither is the storage", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithSignUp(t)
		got := map[int]int{}
		for range 30 {
			b := h.Browser()
			got[b.Post(b.Get("/sign-up"), "email", identitytest.Newcomer, "password", identitytest.FreshPassword).Code]++
		}
		if n := len(box.Take()); n != 5 || got[http.StatusTooManyRequests] != 25 {
			t.Errorf("%d mails, answers %v", n, got)
		}
		for range 3 {
			b := h.Browser()
			if a := b.Post(b.Get("/sign-up"), "email", "else@example.com", "password",
				identitytest.FreshPassword); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") == "" {
				t.Errorf("another address from the same network = %d", a.Code)
			}
		}
	})
	t.Run("attack 239: words of a stranger in mails to somebody else", func(t *testing.T) {
		t.Parallel()
		const advert = "Win at https://evil.example/"
		h, u, box := identitytest.NewWithSignUp(t)
		u.EmailNotifications.Welcome.OnWebEnabled, u.EmailNotifications.EmailVerification.OnWebEnabled = true, true
		u.Attributes.PersonCreationMandatoryFields.FirstNameRequired, u.Attributes.PersonCreationMandatoryFields.LastNameRequired = true, true
		send := func(email string, kinds ...notify.Kind) {
			t.Helper()
			b := h.Browser()
			b.Post(b.Get("/sign-up"), "email", email, "password", identitytest.FreshPassword, "given_name", advert, "family_name", advert)
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
		send(identitytest.Newcomer, notify.SignUpCode)
		u.Attributes.Verification.EmailEnabled = false
		send("first@example.com", notify.Welcome, notify.EmailVerification)
		u.Features.PersonActivation.Enabled = true
		send("second@example.com", notify.Activation)
	})
	t.Run("attack 239: addresses that are more than one, or a header", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithSignUp(t)
		for _, email := range []string{
			"a@b,c@d", "a@example.com\r\nBcc: x@example.com", "\"a\r\nBcc:x\"@example.com", "a@example.com\x00",
			strings.Repeat("a", 60_000) + "@example.com", `["a@example.com"]`, "<a@example.com>", "a@example.com b@example.com",
		} {
			b := h.Browser()
			if a := b.Post(b.Get("/sign-up"), "email", email, "password", identitytest.FreshPassword); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%.40q = %d", email, a.Code)
			}
		}
		identitytest.WantNotices(t, "nobody", box)
	})
	t.Run("attack 243: the part after the at sign as a whole, and one at sign alone", func(t *testing.T) {
		t.Parallel()
		h, u, box := identitytest.NewWithSignUp(t)
		u.Features.CustomEmailValidation = identitytest.UnitsOf(t,
			`{"features":{"custom_email_validation":{"enabled":true,"after_at_regex":"example\\.com"}}}`).Features.CustomEmailValidation
		for _, email := range []string{"x@example.com.evil", "x@evil@example.com", `"x@y"@example.com`, "x@evilexample.com", "x@example.org"} {
			b := h.Browser()
			if a := b.Post(b.Get("/sign-up"), "email", email, "password", identitytest.FreshPassword); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s = %d", email, a.Code)
			}
		}
		identitytest.WantNotices(t, "refused", box)
		b := h.Browser()
		if a := b.Post(b.Get("/sign-up"), "email", identitytest.Newcomer, "password", identitytest.FreshPassword); a.Code != http.StatusSeeOther {
			t.Errorf("%s = %d", identitytest.Newcomer, a.Code)
		}
	})
	t.Run("attack 242: an expression that would backtrack", func(t *testing.T) {
		t.Parallel()
		h, u, _ := identitytest.NewWithSignUp(t)
		u.Features.CustomEmailValidation = identitytest.UnitsOf(t,
			`{"features":{"custom_email_validation":{"enabled":true,"before_at_regex":"(a+)+"}}}`).Features.CustomEmailValidation
		b := h.Browser()
		start := time.Now()
		a := b.Post(b.Get("/sign-up"), "email", strings.Repeat("a", 200)+"!@example.com", "password", identitytest.FreshPassword)
		if a.Code != http.StatusUnprocessableEntity || time.Since(start) > time.Minute {
			t.Errorf("= %d after %s", a.Code, time.Since(start))
		}
	})
	t.Run("attack 226: the policy holds for a sign-up", func(t *testing.T) {
		t.Parallel()
		h, u, _ := identitytest.NewWithSignUp(t)
		u.PasswordPolicy = settings.PasswordPolicy{
			MinLength: 10, MaxLength: 20, LowerCaseCharRequired: true, UpperCaseCharRequired: true,
			SpecialCharRequired: true,
		}
		for _, password := range []string{
			"Aa!456789", "Aa!" + strings.Repeat("5", 18), "AA!4567890", "aa!4567890",
			"Aa34567890", "Aa!4567\x00890",
		} {
			if a := h.Browser().SignUp("email", identitytest.Newcomer, "password", password); a.Code != http.StatusUnprocessableEntity ||
				strings.Contains(a.Body.String(), password) {
				t.Errorf("%q = %d", password, a.Code)
			}
		}
	})
	t.Run("attack 282: the forms without their tokens", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithSignUp(t)
		b := h.Browser()
		b.SignUp("email", identitytest.Newcomer, "password", identitytest.FreshPassword)
		code := h.Mailed(notify.SignUpCode, identitytest.Newcomer)
		form := url.Values{"email": {"else@example.com"}, "password": {identitytest.FreshPassword}}.Encode()
		if a := b.Do(http.MethodPost, "/sign-up", form); a.Code != http.StatusForbidden {
			t.Errorf("POST /sign-up = %d", a.Code)
		}
		if a := b.Do(http.MethodPost, "/sign-up/confirm", "code="+code); a.Code != http.StatusForbidden || h.Exists(identitytest.Newcomer) {
			t.Errorf("POST /sign-up/confirm = %d", a.Code)
		}
		identitytest.WantNotices(t, "refused forms", box)
	})
}
