package activation_test

import (
	"net/http"
	"net/url"
	"regexp"
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

// activatingByEmail returns a harness where new persons are activated by e-mail, with one such person and the link sent
// to them.
func activatingByEmail(t *testing.T) (h *identitytest.Harness, u *settings.Units, p person.Person, link string) {
	t.Helper()
	h, u, _ = identitytest.NewWithSignUp(t)
	a := &u.Features.PersonActivation
	a.Enabled, a.Type, a.ExpirationTime = true, "EMAIL", 3600
	u.EmailNotifications.Welcome.OnAPIEnabled = true
	verified := false
	p = h.Add(person.NewPerson{
		Username: "ann", Email: identitytest.Newcomer, EmailVerified: &verified,
		Password: secret.New(identitytest.FreshPassword),
	})
	if p.State != person.Inactive {
		t.Fatalf("a new person is %s, want INACTIVE", p.State)
	}
	t.Cleanup(h.CheckInvariants)
	return h, u, p, h.Link(notify.Activation, identitytest.Newcomer)
}

func TestActivationByEmail(t *testing.T) {
	t.Parallel()
	h, u, p, link := activatingByEmail(t)
	b := h.Browser()
	if a := b.Try("ann", "wrong password"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password = %d", a.Code)
	}
	page := b.Get(link)
	if page.Code != http.StatusOK || page.URL != "/activate" || h.StateOf(p.ID) != person.Inactive {
		t.Fatalf("GET of the link = %d at %s:\n%s", page.Code, page.URL, page.Body)
	}
	a := b.Post(page)
	if a.Code != http.StatusSeeOther || h.StateOf(p.ID) != person.Active {
		t.Fatalf("POST = %d:\n%s", a.Code, a.Body)
	}
	if done := b.Get(a.Header().Get("Location")); done.Code != http.StatusOK || !strings.Contains(done.Body.String(), `href="/sign-in"`) {
		t.Errorf("afterwards: %d\n%s", done.Code, done.Body)
	}
	if q, err := h.Person.Person(t.Context(), "ann"); err != nil || !q.EmailVerified {
		t.Errorf("person = %+v, %v", q, err)
	}
	identitytest.WantNotices(t, "afterwards", h.Notices, "welcome "+identitytest.Newcomer)
	if n := h.Events()["person.PersonActivatedEvent"]; n != 1 {
		t.Errorf("%d events", n)
	}
	b.SignIn("ann", identitytest.FreshPassword)
	if a := b.Get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link again = %d", a.Code)
	}

	u.Redirects.URLAfterActivation = "https://shop.example.com/active"
	h.Add(person.NewPerson{Username: "bob@example.com"})
	c := h.Browser()
	page = c.Get(h.Link(notify.Activation, "bob@example.com"))
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://shop.example.com") {
		t.Errorf("policy = %s", policy)
	}
	if a := c.Post(page); a.Header().Get("Location") != "https://shop.example.com/active" {
		t.Errorf("with a place to go to: %d to %s", a.Code, a.Header().Get("Location"))
	}
}

// TestActivationResent: an inactive person with the right password gets a page that sends the link again. The link
// leads back to the sign-in that waits.
func TestActivationResent(t *testing.T) {
	t.Parallel()
	h, _, p, first := activatingByEmail(t)
	b := h.Browser()
	page := awaits(b, "ann", identitytest.FreshPassword)
	if !strings.Contains(page.Body.String(), "n•••@example.com") || len(h.Notices.Take()) != 0 {
		t.Errorf("the page:\n%s", page.Body)
	}
	a := b.Post(page, "send", "yes")
	link := h.Link(notify.Activation, identitytest.Newcomer)
	if a.Code != http.StatusSeeOther || !strings.Contains(b.Get(a.Header().Get("Location")).Body.String(), "sent a new link") {
		t.Errorf("asking again = %d", a.Code)
	}
	if a := b.Get(first); a.Code != http.StatusBadRequest {
		t.Errorf("the older link = %d", a.Code)
	}
	a = b.Post(b.Get(link))
	if done := b.Get(a.Header().Get("Location")); !strings.Contains(done.Body.String(), `href="/sign-in?flow=`) ||
		h.StateOf(p.ID) != person.Active {
		t.Errorf("afterwards: %d\n%s", done.Code, done.Body)
	}
	h.Add(person.NewPerson{Username: "cid@example.com", Password: secret.New(identitytest.FreshPassword)})
	h.Notices.Take()
	other := h.Browser()
	page = awaits(other, "cid@example.com", identitytest.FreshPassword)
	got := map[int]int{}
	for range 8 {
		got[other.Post(page, "send", "yes").Code]++
	}
	if n := len(h.Notices.Take()); n != 5 || got[http.StatusTooManyRequests] != 3 {
		t.Errorf("%d mails, answers %v", n, got)
	}
	if a := other.Post(page, "send", "yes"); !strings.Contains(a.Body.String(), "We just sent you a link.") {
		t.Errorf("the page speaks of something else than a link:\n%s", a.Body)
	}
}

func TestActivationDuringSignIn(t *testing.T) {
	t.Parallel()
	h, u, p, _ := activatingByEmail(t)
	u.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled = true
	b := h.Browser()
	page := awaits(b, "ann", identitytest.FreshPassword)
	if strings.Contains(page.Body.String(), `id="code"`) {
		t.Errorf("before a code is sent:\n%s", page.Body)
	}
	if a := b.Post(page, "send", "yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("asking for a code = %d:\n%s", a.Code, a.Body)
	}
	code := h.Mailed(notify.ActivationCode, identitytest.Newcomer)
	page = b.Get(page.URL)
	if a := b.Post(page, "code", identitytest.WrongFor(code)); a.Code != http.StatusUnprocessableEntity || b.IsSignedIn() {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.Post(page, "code", code); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" ||
		h.StateOf(p.ID) != person.Active || !b.IsSignedIn() {
		t.Errorf("the code = %d to %s", a.Code, a.Header().Get("Location"))
	}
}

// TestSignUpActivation: a person who has confirmed the address by a code is not asked again. Otherwise the link
// activates the account.
func TestSignUpActivation(t *testing.T) {
	t.Parallel()
	h, u, _, _ := activatingByEmail(t)
	b := h.Browser()
	b.SignUp("email", "code@example.com", "password", identitytest.FreshPassword)
	if a := b.Post(b.Get("/sign-up/confirm"), "code", h.Mailed(notify.SignUpCode, "code@example.com")); a.Code != http.StatusSeeOther ||
		!b.IsSignedIn() {
		t.Errorf("after the code = %d", a.Code)
	}
	u.Attributes.Verification.EmailEnabled = false
	c := h.Browser()
	a := c.SignUp("email", "link@example.com", "password", identitytest.FreshPassword)
	if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-up/sent?") || c.IsSignedIn() {
		t.Fatalf("without a code = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if a := c.Post(c.Get(h.Link(notify.Activation, "link@example.com"))); a.Code != http.StatusSeeOther {
		t.Errorf("the link = %d", a.Code)
	}
	c.SignIn("link@example.com", identitytest.FreshPassword)
	t.Run("attack 219: a taken address without a code gets the same answer, its owner a mail, a few times", func(t *testing.T) {
		for i := range 7 {
			d := h.Browser()
			d.Address = "198.51.100." + string(rune('1'+i)) + ":1"
			taken := d.SignUp("email", identitytest.Demo, "password", identitytest.FreshPassword)
			if taken.Code != a.Code || !strings.HasPrefix(taken.Header().Get("Location"), "/sign-up/sent?") {
				t.Errorf("= %d to %s", taken.Code, taken.Header().Get("Location"))
			}
		}
		identitytest.WantNotices(t, "the owner", h.Notices, "sign_up_existing "+identitytest.Demo, "sign_up_existing "+identitytest.Demo,
			"sign_up_existing "+identitytest.Demo, "sign_up_existing "+identitytest.Demo, "sign_up_existing "+identitytest.Demo)
	})
}

func TestActivationByEmailAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 231: a link sixty-four times at once, late, after another password, of somebody an administrator has made inactive",
		func(t *testing.T) {
			t.Parallel()
			h, _, _, link := activatingByEmail(t)
			b := h.Browser()
			page := b.Get(link)
			var wg sync.WaitGroup
			for range 64 {
				wg.Go(func() {
					c := &identitytest.Browser{H: h, Cookies: map[string]string{}, Address: b.Address}
					for k, v := range b.Cookies {
						c.Cookies[k] = v
					}
					c.Post(page)
				})
			}
			wg.Wait()
			if n := h.Events()["person.PersonActivatedEvent"]; n != 1 {
				t.Errorf("activated %d times", n)
			}
			for name, kill := range map[string]func(h *identitytest.Harness, id string) error{
				"an hour": func(h *identitytest.Harness, _ string) error { h.Clock.Advance(time.Hour); return nil },
				"another password": func(h *identitytest.Harness, id string) error {
					return h.Person.SetPassword(t.Context(), id, secret.New(identitytest.DemoPassword), identitytest.Ops)
				},
				"a block": func(h *identitytest.Harness, id string) error {
					return h.Person.SetState(t.Context(), id, person.Blocked, identitytest.Ops)
				},
				"an administrator's active and inactive": func(h *identitytest.Harness, id string) error {
					if err := h.Person.SetState(t.Context(), id, person.Active, identitytest.Ops); err != nil {
						return err
					}
					return h.Person.SetState(t.Context(), id, person.Inactive, identitytest.Ops)
				},
			} {
				h, _, p, link := activatingByEmail(t)
				b := h.Browser()
				page := b.Get(link)
				if err := kill(h, p.ID); err != nil {
					t.Fatal(err)
				}
				if a := b.Post(page); a.Code != http.StatusBadRequest || h.StateOf(p.ID) == person.Active {
					t.Errorf("after %s = %d, %s", name, a.Code, h.StateOf(p.ID))
				}
				if name == "an administrator's active and inactive" {
					if a := b.Try("ann", identitytest.FreshPassword); a.Code != http.StatusUnprocessableEntity {
						t.Errorf("sign-in of somebody an administrator has made inactive = %d", a.Code)
					}
				}
			}
		})
	t.Run("attack 237: a scanner follows the link; attack 282: the form without its token", func(t *testing.T) {
		t.Parallel()
		h, _, p, link := activatingByEmail(t)
		for range 3 {
			h.Browser().Get(link)
			h.Browser().Do(http.MethodHead, link, "")
		}
		b := h.Browser()
		b.Get(link)
		if a := b.Do(http.MethodPost, "/activate", url.Values{"csrf": {"x"}}.Encode()); a.Code != http.StatusForbidden ||
			h.StateOf(p.ID) != person.Inactive {
			t.Errorf("without a token = %d, %s", a.Code, h.StateOf(p.ID))
		}
	})
	t.Run("attack 218: an inactive person is told apart by the right password alone", func(t *testing.T) {
		t.Parallel()
		h, _, _, _ := activatingByEmail(t)
		want := h.Browser().Try("nobody", "wrong password")
		if a := h.Browser().Try("ann", "wrong password"); a.Code != want.Code || strings.ReplaceAll(strip(a), "ann", "nobody") != strip(want) {
			t.Errorf("a wrong password of an inactive person = %d:\n%s", a.Code, a.Body)
		}
	})
}

var flowOf = regexp.MustCompile(`flow=[^"&]*`)

// strip removes from a page the parts that differ each time.
func strip(a *identitytest.Answer) string {
	body := identitytest.CSRFField.ReplaceAllString(a.Body.String(), "")
	return flowOf.ReplaceAllString(body, "")
}
