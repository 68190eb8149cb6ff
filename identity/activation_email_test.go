package identity_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// activatingByEmail returns a harness where new persons are activated by e-mail, with one such person and the link sent
// to them.
func activatingByEmail(t *testing.T) (h *harness, u *config.Units, p person.Person, link string) {
	t.Helper()
	h, u, _ = open(t)
	a := &u.Features.PersonActivation
	a.Enabled, a.Type, a.ExpirationTime = true, "EMAIL", 3600
	u.EmailNotifications.Welcome.OnAPIEnabled = true
	verified := false
	p = h.add(person.NewPerson{Username: "ann", Email: newcomer, EmailVerified: &verified, Password: secret.New(freshPassword)})
	if p.State != person.Inactive {
		t.Fatalf("a new person is %s, want INACTIVE", p.State)
	}
	t.Cleanup(h.checkInvariants)
	return h, u, p, h.link(notify.Activation, newcomer)
}

func TestActivationByEmail(t *testing.T) {
	t.Parallel()
	h, u, p, link := activatingByEmail(t)
	b := h.browser()
	if a := b.try("ann", "wrong password"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong password = %d", a.Code)
	}
	page := b.get(link)
	if page.Code != http.StatusOK || page.url != "/activate" || h.stateOf(p.ID) != person.Inactive {
		t.Fatalf("GET of the link = %d at %s:\n%s", page.Code, page.url, page.Body)
	}
	a := b.post(page)
	if a.Code != http.StatusSeeOther || h.stateOf(p.ID) != person.Active {
		t.Fatalf("POST = %d:\n%s", a.Code, a.Body)
	}
	if done := b.get(a.Header().Get("Location")); done.Code != http.StatusOK || !strings.Contains(done.Body.String(), `href="/sign-in"`) {
		t.Errorf("afterwards: %d\n%s", done.Code, done.Body)
	}
	if q, err := h.Person.Person(t.Context(), "ann"); err != nil || !q.EmailVerified {
		t.Errorf("person = %+v, %v", q, err)
	}
	heard(t, "afterwards", h.notices, "welcome "+newcomer)
	if n := h.events()["person.PersonActivatedEvent"]; n != 1 {
		t.Errorf("%d events", n)
	}
	b.signIn("ann", freshPassword)
	if a := b.get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link again = %d", a.Code)
	}

	u.Redirects.URLAfterActivation = "https://shop.example.com/active"
	h.add(person.NewPerson{Username: "bob@example.com"})
	c := h.browser()
	page = c.get(h.link(notify.Activation, "bob@example.com"))
	if policy := page.Header().Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' https://shop.example.com") {
		t.Errorf("policy = %s", policy)
	}
	if a := c.post(page); a.Header().Get("Location") != "https://shop.example.com/active" {
		t.Errorf("with a place to go to: %d to %s", a.Code, a.Header().Get("Location"))
	}
}

// TestActivationResent: an inactive person with the right password gets a page that sends the link again. The link
// leads back to the sign-in that waits.
func TestActivationResent(t *testing.T) {
	t.Parallel()
	h, _, p, first := activatingByEmail(t)
	b := h.browser()
	page := b.awaits("ann", freshPassword)
	if !strings.Contains(page.Body.String(), "n•••@example.com") || len(h.notices.Take()) != 0 {
		t.Errorf("the page:\n%s", page.Body)
	}
	a := b.post(page, "send", "yes")
	link := h.link(notify.Activation, newcomer)
	if a.Code != http.StatusSeeOther || !strings.Contains(b.get(a.Header().Get("Location")).Body.String(), "sent a new link") {
		t.Errorf("asking again = %d", a.Code)
	}
	if a := b.get(first); a.Code != http.StatusBadRequest {
		t.Errorf("the older link = %d", a.Code)
	}
	a = b.post(b.get(link))
	if done := b.get(a.Header().Get("Location")); !strings.Contains(done.Body.String(), `href="/sign-in?flow=`) || h.stateOf(p.ID) != person.Active {
		t.Errorf("afterwards: %d\n%s", done.Code, done.Body)
	}
	h.add(person.NewPerson{Username: "cid@example.com", Password: secret.New(freshPassword)})
	h.notices.Take()
	other := h.browser()
	page = other.awaits("cid@example.com", freshPassword)
	got := map[int]int{}
	for range 8 {
		got[other.post(page, "send", "yes").Code]++
	}
	if n := len(h.notices.Take()); n != 5 || got[http.StatusTooManyRequests] != 3 {
		t.Errorf("%d mails, answers %v", n, got)
	}
	if a := other.post(page, "send", "yes"); !strings.Contains(a.Body.String(), "We just sent you a link.") {
		t.Errorf("the page speaks of something else than a link:\n%s", a.Body)
	}
}

func TestActivationDuringSignIn(t *testing.T) {
	t.Parallel()
	h, u, p, _ := activatingByEmail(t)
	u.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled = true
	b := h.browser()
	page := b.awaits("ann", freshPassword)
	if strings.Contains(page.Body.String(), `id="code"`) {
		t.Errorf("before a code is sent:\n%s", page.Body)
	}
	if a := b.post(page, "send", "yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("asking for a code = %d:\n%s", a.Code, a.Body)
	}
	code := h.mailed(notify.ActivationCode, newcomer)
	page = b.get(page.url)
	if a := b.post(page, "code", wrongFor(code)); a.Code != http.StatusUnprocessableEntity || b.isSignedIn() {
		t.Errorf("a wrong code = %d", a.Code)
	}
	if a := b.post(page, "code", code); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" || h.stateOf(p.ID) != person.Active || !b.isSignedIn() {
		t.Errorf("the code = %d to %s", a.Code, a.Header().Get("Location"))
	}
}

// TestSignUpActivation: a person who has confirmed the address by a code is not asked again. Otherwise the link
// activates the account.
func TestSignUpActivation(t *testing.T) {
	t.Parallel()
	h, u, _, _ := activatingByEmail(t)
	b := h.browser()
	b.signUp("email", "code@example.com", "password", freshPassword)
	if a := b.post(b.get("/sign-up/confirm"), "code", h.mailed(notify.SignUpCode, "code@example.com")); a.Code != http.StatusSeeOther || !b.isSignedIn() {
		t.Errorf("after the code = %d", a.Code)
	}
	u.Attributes.Verification.EmailEnabled = false
	c := h.browser()
	a := c.signUp("email", "link@example.com", "password", freshPassword)
	if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-up/sent?") || c.isSignedIn() {
		t.Fatalf("without a code = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if a := c.post(c.get(h.link(notify.Activation, "link@example.com"))); a.Code != http.StatusSeeOther {
		t.Errorf("the link = %d", a.Code)
	}
	c.signIn("link@example.com", freshPassword)
	t.Run("attack 219: a taken address without a code gets the same answer, its owner a mail, a few times", func(t *testing.T) {
		for i := range 7 {
			d := h.browser()
			d.address = "198.51.100." + string(rune('1'+i)) + ":1"
			taken := d.signUp("email", demo, "password", freshPassword)
			if taken.Code != a.Code || !strings.HasPrefix(taken.Header().Get("Location"), "/sign-up/sent?") {
				t.Errorf("= %d to %s", taken.Code, taken.Header().Get("Location"))
			}
		}
		heard(t, "the owner", h.notices, "sign_up_existing "+demo, "sign_up_existing "+demo, "sign_up_existing "+demo, "sign_up_existing "+demo, "sign_up_existing "+demo)
	})
}

func TestActivationByEmailAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 231: a link sixty-four times at once, late, after another password, of somebody an administrator has made inactive", func(t *testing.T) {
		t.Parallel()
		h, _, _, link := activatingByEmail(t)
		b := h.browser()
		page := b.get(link)
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				c := &browser{h: h, cookies: map[string]string{}, address: b.address}
				for k, v := range b.cookies {
					c.cookies[k] = v
				}
				c.post(page)
			})
		}
		wg.Wait()
		if n := h.events()["person.PersonActivatedEvent"]; n != 1 {
			t.Errorf("activated %d times", n)
		}
		for name, kill := range map[string]func(h *harness, id string) error{
			"an hour": func(h *harness, _ string) error { h.clock.Advance(time.Hour); return nil },
			"another password": func(h *harness, id string) error {
				return h.Person.SetPassword(t.Context(), id, secret.New(demoPassword), ops)
			},
			"a block": func(h *harness, id string) error { return h.Person.SetState(t.Context(), id, person.Blocked, ops) },
			"an administrator's active and inactive": func(h *harness, id string) error {
				if err := h.Person.SetState(t.Context(), id, person.Active, ops); err != nil {
					return err
				}
				return h.Person.SetState(t.Context(), id, person.Inactive, ops)
			},
		} {
			h, _, p, link := activatingByEmail(t)
			b := h.browser()
			page := b.get(link)
			if err := kill(h, p.ID); err != nil {
				t.Fatal(err)
			}
			if a := b.post(page); a.Code != http.StatusBadRequest || h.stateOf(p.ID) == person.Active {
				t.Errorf("after %s = %d, %s", name, a.Code, h.stateOf(p.ID))
			}
			if name == "an administrator's active and inactive" {
				if a := b.try("ann", freshPassword); a.Code != http.StatusUnprocessableEntity {
					t.Errorf("sign-in of somebody an administrator has made inactive = %d", a.Code)
				}
			}
		}
	})
	t.Run("attack 237: a scanner follows the link; attack 282: the form without its token", func(t *testing.T) {
		t.Parallel()
		h, _, p, link := activatingByEmail(t)
		for range 3 {
			h.browser().get(link)
			h.browser().do(http.MethodHead, link, "")
		}
		b := h.browser()
		b.get(link)
		if a := b.do(http.MethodPost, "/activate", url.Values{"csrf": {"x"}}.Encode()); a.Code != http.StatusForbidden || h.stateOf(p.ID) != person.Inactive {
			t.Errorf("without a token = %d, %s", a.Code, h.stateOf(p.ID))
		}
	})
	t.Run("attack 218: an inactive person is told apart by the right password alone", func(t *testing.T) {
		t.Parallel()
		h, _, _, _ := activatingByEmail(t)
		want := h.browser().try("nobody", "wrong password")
		if a := h.browser().try("ann", "wrong password"); a.Code != want.Code || strings.ReplaceAll(strip(a), "ann", "nobody") != strip(want) {
			t.Errorf("a wrong password of an inactive person = %d:\n%s", a.Code, a.Body)
		}
	})
}

var flowOf = regexp.MustCompile(`flow=[^"&]*`)

// strip removes from a page the parts that differ each time.
func strip(a *answer) string {
	body := field.ReplaceAllString(a.Body.String(), "")
	return flowOf.ReplaceAllString(body, "")
}
