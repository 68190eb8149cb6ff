package mfa_test

import (
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// delivering returns a harness where level 2 is demanded and delivered codes are the only method.
func delivering(t *testing.T, change ...func(*identity.Config)) (*identitytest.Harness, *settings.Units) {
	t.Helper()
	h, u := identitytest.NewStepping(t, 2, change...)
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.Features.ExternallyDeliveredCodeStepUp = settings.ExternallyDeliveredCodeStepUp{Enabled: true, ExpirationTime: 1800}
	return h, u
}

func deliver(h *identitytest.Harness) challenge.DeliveredCode {
	h.T.Helper()
	made, err := h.Proof.MakeDeliveredCode(h.T.Context(), identitytest.Demo, "step-up", audit.Actor{ID: "admin", Name: "admin"})
	if err != nil {
		h.T.Fatal(err)
	}
	return made
}

func TestDeliveredCode(t *testing.T) {
	t.Parallel()
	h, u := delivering(t)
	b := h.Plain()
	page := b.Get("/next")
	if page.Code != http.StatusOK || !strings.Contains(page.Body.String(), "code you were given") {
		t.Fatalf("level 2 = %d:\n%s", page.Code, page.Body)
	}
	if a := b.Post(page, "code", "ABCD-EFGH"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a code that nobody made = %d", a.Code)
	}
	a := b.Post(page, "send", "yes")
	if a = b.Get(a.Header().Get("Location")); !strings.Contains(a.Body.String(), "knows that you need a code") ||
		h.Events()["person.DeliveredCodeRequestedEvent"] != 1 {
		t.Errorf("asking for a code = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Post(page, "send", "yes"); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "600" ||
		h.Events()["person.DeliveredCodeRequestedEvent"] != 1 {
		t.Errorf("asking twice = %d", a.Code)
	}
	made := deliver(h)
	if !regexp.MustCompile(`^[34679ACDEFGHJKMNPQRTVWXY]{4}-[34679ACDEFGHJKMNPQRTVWXY]{4}$`).MatchString(made.Code) ||
		!made.ExpiresAt.Equal(h.Clock.Now().Add(30*time.Minute)) || made.NotBefore != nil {
		t.Errorf("made %+v", made)
	}
	for key, value := range h.Dump() {
		if strings.Contains(value, strings.ReplaceAll(made.Code, "-", "")) || strings.Contains(value, made.Code) {
			t.Errorf("%q holds the code", key)
		}
	}
	if a := b.Post(page, "code", " "+strings.ToLower(strings.ReplaceAll(made.Code, "-", ""))); a.Code != http.StatusSeeOther ||
		a.Header().Get("Location") != "/next" {
		t.Errorf("the code = %d:\n%s", a.Code, a.Body)
	}
	h.WantLevel(b, 2)
	if n := h.Events()["person.DeliveredCodeMadeEvent"]; n != 1 {
		t.Errorf("%d events of a code that was made", n)
	}

	u.Features.ExternallyDeliveredCodeStepUp.Enabled = false
	other := h.Plain()
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with codes switched off = %d", a.Code)
	}
	if _, err := h.Proof.MakeDeliveredCode(t.Context(), identitytest.Demo, "step-up", audit.Actor{}); !errors.Is(err, challenge.ErrCodesOff) {
		t.Errorf("MakeDeliveredCode, switched off = %v", err)
	}
	u.Features.ExternallyDeliveredCodeStepUp.Enabled = true
	if a := other.Get("/next"); a.Code != http.StatusOK {
		t.Errorf("level 2 with codes switched on again = %d", a.Code)
	}
	u.StepUp.AuthenticationMethods.ExternallyDeliveredCodeAuthenticationLevel = 1
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with codes of level 1 = %d", a.Code)
	}
	h.CheckInvariants()
}

// TestDeliveredCodeSetsUpNothing: delivered codes do not count as a step-up method that a person has set up.
func TestDeliveredCodeSetsUpNothing(t *testing.T) {
	t.Parallel()
	h, u := delivering(t)
	u.Features.PINEnabled = true
	b := h.Plain()
	if a := b.Get("/account/security/pin"); a.Code != http.StatusOK || !strings.Contains(a.Body.String(), "Choose a PIN") {
		t.Errorf("the first method = %d %s", a.Code, a.URL)
	}
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	u.StepUp.Actions.SetupStepUpMethodsAuthenticationLevel = 2
	if a := b.Get("/account/security/pin"); !strings.HasPrefix(a.URL, "/step-up") {
		t.Errorf("the first method, where that needs level 2 = %d %s", a.Code, a.URL)
	}
}

func TestDeliveredCodeRefused(t *testing.T) {
	t.Parallel()
	h, _ := delivering(t)
	by := audit.Actor{ID: "admin", Name: "admin"}
	invalid := new(person.ValidationError)
	if _, err := h.Proof.MakeDeliveredCode(t.Context(), identitytest.Demo, "anything", by); !errors.As(err, &invalid) {
		t.Errorf("a code for anything = %v", err)
	}
	if _, err := h.Proof.MakeDeliveredCode(t.Context(), "nobody", "step-up", by); !errors.Is(err, person.ErrNoPerson) {
		t.Errorf("a code for nobody = %v", err)
	}
	if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, by); err != nil {
		t.Fatal(err)
	}
	state := new(person.StateError)
	if _, err := h.Proof.MakeDeliveredCode(t.Context(), identitytest.Demo, "step-up", by); !errors.As(err, &state) {
		t.Errorf("a code for who is blocked = %v", err)
	}
}

func TestDeliveredCodeAttacks(t *testing.T) {
	t.Parallel()
	wrongOf := func(code string) string {
		if code[0] == '3' {
			return "4" + code[1:]
		}
		return "3" + code[1:]
	}
	t.Run("attack 221: of a hundred tries at once five are looked at, and then the code is dead", func(t *testing.T) {
		t.Parallel()
		h, _ := delivering(t)
		b := h.Plain()
		page, made := b.Get("/next"), deliver(h)
		b.Hundred(page, wrongOf(made.Code))
		h.Clock.Advance(2 * time.Minute)
		if a := b.Post(page, "code", made.Code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code after five wrong tries = %d, want it dead", a.Code)
		}
		h.Clock.Advance(30 * time.Minute)
		if a := b.Post(b.Get("/next"), "code", deliver(h).Code); a.Code != http.StatusSeeOther {
			t.Errorf("a new code = %d, want it good", a.Code)
		}
	})
	t.Run("attack 266: a code is good once, until it expires, until there is a newer one, and until the password is another",
		func(t *testing.T) {
			t.Parallel()
			h, _ := delivering(t)
			b := h.Plain()
			first := deliver(h)
			second := deliver(h)
			page := b.Get("/next")
			if a := b.Post(page, "code", first.Code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("the older code = %d", a.Code)
			}
			h.Clock.Advance(30 * time.Minute)
			if a := b.Post(b.Get("/next"), "code", second.Code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("the code at its end = %d", a.Code)
			}
			third := deliver(h)
			if a := b.Post(b.Get("/next"), "code", third.Code); a.Code != http.StatusSeeOther {
				t.Errorf("a good code = %d", a.Code)
			}
			other := h.Plain()
			if a := other.Post(other.Get("/next"), "code", third.Code); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("the same code again = %d", a.Code)
			}
		})
	t.Run("attack 266: a code that the person's password has outlived", func(t *testing.T) {
		t.Parallel()
		h, _ := delivering(t)
		made := deliver(h)
		if err := h.Person.SetPassword(t.Context(), identitytest.Demo, secret.New("another horse 2"), audit.Actor{ID: "admin"}); err != nil {
			t.Fatal(err)
		}
		b := h.Browser()
		a := b.Try(identitytest.Demo, "another horse 2")
		page := b.Get(a.Header().Get("Location"))
		if a := b.Post(page, "code", made.Code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code after the password has changed = %d", a.Code)
		}
	})
}
