package activation_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const late = "late@example.com"

// activatingByCode returns a harness where new persons are activated by a code, with one such person.
func activatingByCode(t *testing.T) (*identitytest.Harness, *settings.Units, person.Person) {
	t.Helper()
	h, u := identitytest.NewConfigured(t)
	a := &u.Features.PersonActivation
	a.Enabled, a.Type, a.ExpirationTime, a.ActivationDuringFirstAuthenticationEnabled = true, "EXTERNALLY_DELIVERED_CODE", 3600, true
	a.ExternallyDeliveredCode.ResendCodeMinimumPeriod = 0
	p := h.Add(person.NewPerson{Username: late, Password: secret.New(identitytest.GuestPassword)})
	t.Cleanup(h.CheckInvariants)
	return h, u, p
}

func activationCode(h *identitytest.Harness, id string) string {
	h.T.Helper()
	code, err := h.Proof.MakeDeliveredCode(h.T.Context(), id, "activation", identitytest.Ops)
	if err != nil {
		h.T.Fatal(err)
	}
	return code.Code
}

// awaits signs in an inactive person and returns the page that asks for the code.
func awaits(b *identitytest.Browser, username, password string) *identitytest.Answer {
	b.H.T.Helper()
	a := b.Try(username, password)
	page := b.Get(a.Header().Get("Location"))
	if a.Code != http.StatusSeeOther || !strings.HasPrefix(page.URL, "/sign-in/activate?flow=") ||
		page.Code != http.StatusOK || b.IsSignedIn() {
		b.H.T.Fatalf("sign-in of %q = %d to %s, want to be asked for the code\n%s", username, a.Code, page.URL, page.Body)
	}
	return page
}

func TestActivationByCode(t *testing.T) {
	t.Parallel()
	h, _, p := activatingByCode(t)
	if p.State != person.Inactive {
		t.Fatalf("a new person is %s, want INACTIVE", p.State)
	}
	if s := h.StateOf(identitytest.Demo); s != person.Active {
		t.Errorf("the person of the configuration is %s, want ACTIVE", s)
	}
	code := activationCode(h, p.ID)
	b := h.Browser()
	page := awaits(b, late, identitytest.GuestPassword)
	for what, typed := range map[string]string{"nothing": "", "another code": "AAAA-AAAA"} {
		if a := b.Post(page, "code", typed); a.Code != http.StatusUnprocessableEntity || b.IsSignedIn() {
			t.Errorf("%s = %d, want 422", what, a.Code)
		}
	}
	a := b.Post(page, "code", strings.ToLower(strings.ReplaceAll(code, "-", " ")))
	if a.Code != http.StatusSeeOther || !b.IsSignedIn() || h.StateOf(p.ID) != person.Active {
		t.Fatalf("the code = %d, state %s\n%s", a.Code, h.StateOf(p.ID), a.Body)
	}
	if end := b.Get(a.Header().Get("Location")); end.Body.String() != "signed in as "+p.ID {
		t.Errorf("after the code: %s, want what the sign-in was for", end.Body)
	}
	h.Browser().SignIn(late, identitytest.GuestPassword)
	ev := h.Events()
	if ev["person.PersonActivatedEvent"] != 1 || ev["person.ActivationFailedEvent"] != 1 {
		t.Errorf("events = %v, want one activation and one failure", ev)
	}
}

// TestActivationSwitch: while activation is off, no one is asked for a code and inactive persons stay inactive.
func TestActivationSwitch(t *testing.T) {
	t.Parallel()
	h, u, p := activatingByCode(t)
	b := h.Browser()
	page := awaits(b, late, identitytest.GuestPassword)
	code := activationCode(h, p.ID)
	u.Features.PersonActivation.Enabled = false
	if a := b.Post(page, "code", code); h.StateOf(p.ID) != person.Inactive ||
		!strings.HasPrefix(a.Header().Get("Location"), "/sign-in?flow=") {
		t.Errorf("the code while switched off = %d to %q", a.Code, a.Header().Get("Location"))
	}
	if a := h.Browser().Try(late, identitytest.GuestPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a sign-in while switched off = %d, want 422 as for any wrong password", a.Code)
	}
	if n := h.Add(person.NewPerson{Username: "now@example.com"}); n.State != person.Active {
		t.Errorf("a new person while switched off is %s, want ACTIVE", n.State)
	}
	if _, err := h.Proof.MakeDeliveredCode(t.Context(), p.ID, "activation", identitytest.Ops); !errors.Is(err, challenge.ErrCodesOff) {
		t.Errorf("a code while switched off = %v", err)
	}
}

// TestActivationType: where persons are activated by e-mail, no delivered code is made or asked for.
func TestActivationType(t *testing.T) {
	t.Parallel()
	h, u, p := activatingByCode(t)
	u.Features.PersonActivation.Type = "EMAIL"
	if _, err := h.Proof.MakeDeliveredCode(t.Context(), p.ID, "activation", identitytest.Ops); !errors.Is(err, challenge.ErrCodesOff) {
		t.Errorf("a code = %v, want ErrCodesOff", err)
	}
	b := h.Browser()
	if a := b.Get(identitytest.Or(b.Try(late, identitytest.GuestPassword).Header().Get("Location"),
		"/sign-in")); strings.Contains(a.Body.String(), `id="code"`) {
		t.Errorf("the page asks for a code:\n%s", a.Body)
	}
}

// TestActivationExpires: expiration_time, unavailability_time and resend_code_minimum_period.
func TestActivationExpires(t *testing.T) {
	t.Parallel()
	h, u, p := activatingByCode(t)
	c := &u.Features.PersonActivation.ExternallyDeliveredCode
	c.UnavailabilityTime, c.ResendCodeMinimumPeriod = 120, 300
	code := activationCode(h, p.ID)
	b := h.Browser()
	try := func(what string, want int) {
		t.Helper()
		if a := b.Post(awaits(b, late, identitytest.GuestPassword), "code", code); a.Code != want {
			t.Errorf("%s = %d, want %d", what, a.Code, want)
		}
	}
	h.Clock.Advance(119 * time.Second)
	try("a code on its way", http.StatusUnprocessableEntity)
	soon := new(challenge.TooSoonError)
	if _, err := h.Proof.MakeDeliveredCode(t.Context(), p.ID, "activation", identitytest.Ops); !errors.As(err, &soon) ||
		soon.Wait != 181*time.Second {
		t.Errorf("attack 267: another code within the period = %v, want to wait 181 s", err)
	}
	h.Clock.Advance(3601 * time.Second)
	try("a code that is over", http.StatusUnprocessableEntity)
	code = activationCode(h, p.ID)
	h.Clock.Advance(120 * time.Second)
	try("a code that has arrived", http.StatusSeeOther)
}

// TestActivationDuringFirstAuthentication: without the switch, the code only activates the account, and the person
// signs in again.
func TestActivationDuringFirstAuthentication(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ after, want string }{
		"here":      {"", "/sign-in/activated?flow="},
		"elsewhere": {"https://shop.example.com/ready", "https://shop.example.com/ready"},
		"a path":    {"/ready", "/ready"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, u, p := activatingByCode(t)
			u.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled = false
			u.Redirects.URLAfterActivation = tt.after
			b := h.Browser()
			a := b.Post(awaits(b, late, identitytest.GuestPassword), "code", activationCode(h, p.ID))
			if !strings.HasPrefix(a.Header().Get("Location"), tt.want) || b.IsSignedIn() || h.StateOf(p.ID) != person.Active {
				t.Fatalf("the code leads to %q, signed in: %t, state %s", a.Header().Get("Location"), b.IsSignedIn(), h.StateOf(p.ID))
			}
			if tt.after != "" {
				return
			}
			page := b.Get(a.Header().Get("Location"))
			if !strings.Contains(page.Body.String(), "Your account is active") || !strings.Contains(page.Body.String(), `href="/sign-in?flow=`) {
				t.Errorf("the page says\n%s", page.Body)
			}
			b.SignIn(late, identitytest.GuestPassword)
		})
	}
}

func TestActivationAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 218: who is inactive, without the password", func(t *testing.T) {
		t.Parallel()
		h, _, _ := activatingByCode(t)
		wrong, nobody := h.Browser().Try(late, "a wrong password"), h.Browser().Try("nobody@example.com", "a wrong password")
		if wrong.Code != nobody.Code || wrong.Header().Get("Location") != "" ||
			len(wrong.Body.String())-len(nobody.Body.String()) != len(late)-len("nobody@example.com") {
			t.Errorf("a wrong password of somebody inactive = %d with %d bytes, of nobody %d with %d", wrong.Code, wrong.Body.Len(),
				nobody.Code, nobody.Body.Len())
		}
	})
	t.Run("attack 267: guessing the code, in parallel", func(t *testing.T) {
		t.Parallel()
		h, _, p := activatingByCode(t)
		code := activationCode(h, p.ID)
		b := h.Browser()
		page := awaits(b, late, identitytest.GuestPassword)
		var wg sync.WaitGroup
		for range 64 {
			guess := &identitytest.Browser{H: h, Cookies: map[string]string{}, Address: b.Address}
			for k, v := range b.Cookies {
				guess.Cookies[k] = v
			}
			wg.Go(func() { guess.Post(page, "code", "3333-3333") })
		}
		wg.Wait()
		if a := b.Post(page, "code", code); a.Code != http.StatusUnprocessableEntity || h.StateOf(p.ID) != person.Inactive {
			t.Errorf("the right code after 64 wrong ones = %d, want it to be dead", a.Code)
		}
		if a := b.Post(page, "code", activationCode(h, p.ID)); a.Code != http.StatusSeeOther {
			t.Errorf("a new code = %d, want 303", a.Code)
		}
	})
	t.Run("attack 267: one code, twice at once", func(t *testing.T) {
		t.Parallel()
		h, _, p := activatingByCode(t)
		code := activationCode(h, p.ID)
		codes, browsers, pages := make([]int, 4), make([]*identitytest.Browser, 4), make([]*identitytest.Answer, 4)
		for i := range browsers {
			browsers[i] = h.Browser()
			pages[i] = awaits(browsers[i], late, identitytest.GuestPassword)
		}
		var wg sync.WaitGroup
		for i, b := range browsers {
			wg.Go(func() { codes[i] = b.Post(pages[i], "code", code).Code })
		}
		wg.Wait()
		if n := h.Events()["person.PersonActivatedEvent"]; n != 1 {
			t.Errorf("%d activations, want 1: %v", n, codes)
		}
	})
	t.Run("attack 267: a code of another person", func(t *testing.T) {
		t.Parallel()
		h, _, p := activatingByCode(t)
		other := h.Add(person.NewPerson{Username: "other@example.com", Password: secret.New(identitytest.GuestPassword)})
		b := h.Browser()
		if a := b.Post(awaits(b, late, identitytest.GuestPassword), "code",
			activationCode(h, other.ID)); a.Code != http.StatusUnprocessableEntity || h.StateOf(p.ID) != person.Inactive {
			t.Errorf("another's code = %d", a.Code)
		}
	})
	t.Run("attack 267: the page without the password", func(t *testing.T) {
		t.Parallel()
		h, _, p := activatingByCode(t)
		code := activationCode(h, p.ID)
		b := h.Browser()
		flow := strings.TrimPrefix(b.Get("/next").URL, "/sign-in?flow=")
		if a := b.Get("/sign-in/activate?flow=" + flow); !strings.HasPrefix(a.URL, "/sign-in?flow=") {
			t.Errorf("the page without a password = %s, want the sign-in page", a.URL)
		}
		owner := h.Browser()
		page := awaits(owner, late, identitytest.GuestPassword)
		if a := b.Do(http.MethodPost, page.URL, url.Values{"csrf": {page.CSRF()}, "code": {code}}.Encode()); a.Code != http.StatusForbidden ||
			h.StateOf(p.ID) != person.Inactive {
			t.Errorf("the flow of another browser = %d, want 403", a.Code)
		}
		h.Clock.Advance(16 * time.Minute)
		if a := owner.Post(page, "code", code); !strings.HasPrefix(a.Header().Get("Location"), "/sign-in?flow=") ||
			h.StateOf(p.ID) != person.Inactive {
			t.Errorf("a password of long ago = %d to %q, want to be asked for it again", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 267: who is blocked or got another password meanwhile", func(t *testing.T) {
		t.Parallel()
		for _, change := range []func(*identitytest.Harness, string) error{
			func(h *identitytest.Harness, id string) error {
				return h.Person.SetState(t.Context(), id, person.Blocked, identitytest.Ops)
			},
			func(h *identitytest.Harness, id string) error {
				return h.Person.SetPassword(t.Context(), id, secret.New("another password 1"), identitytest.Ops)
			},
		} {
			h, _, p := activatingByCode(t)
			code := activationCode(h, p.ID)
			b := h.Browser()
			page := awaits(b, late, identitytest.GuestPassword)
			if err := change(h, p.ID); err != nil {
				t.Fatal(err)
			}
			if b.Post(page, "code", code); b.IsSignedIn() || h.StateOf(p.ID) == person.Active {
				t.Errorf("state %s, signed in: %t", h.StateOf(p.ID), b.IsSignedIn())
			}
		}
	})
}

// TestActivationByPassword: with auto_activation_enabled the first right password activates, and signs in.
func TestActivationByPassword(t *testing.T) {
	t.Parallel()
	h, u, p := activatingByCode(t)
	identitytest.OwnMethod(u, func(m *settings.LoginMethod) { m.AutoActivationEnabled = true })
	b := h.Browser()
	if b.Try(late, "wrong password"); h.StateOf(p.ID) != person.Inactive {
		t.Fatal("a wrong password activates")
	}
	if b.SignIn(late, identitytest.GuestPassword); h.StateOf(p.ID) != person.Active || !b.IsSignedIn() {
		t.Errorf("after the right password the person is %s, signed in: %v", h.StateOf(p.ID), b.IsSignedIn())
	}
	if err := h.Person.SetState(t.Context(), p.ID, person.Inactive, audit.Actor{ID: "test"}); err != nil {
		t.Fatal(err)
	}
	again := h.Browser()
	if again.Try(late, identitytest.GuestPassword); h.StateOf(p.ID) != person.Inactive || again.IsSignedIn() {
		t.Error("the password activates a person whom an administrator has made inactive")
	}
}
