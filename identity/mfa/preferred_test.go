package mfa_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

// TestPreferredMethod: the method that a person has chosen comes first, even after they used another one.
func TestPreferredMethod(t *testing.T) {
	t.Parallel()
	h, u, _ := smsing(t)
	u.Features.PINEnabled = true
	b := h.Plain()
	if a := b.Get("/account/security/preferred"); a.URL != "/account/security" {
		t.Errorf("with nothing to choose = %d %s", a.Code, a.URL)
	}
	if a := b.Post(b.Get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
		t.Fatalf("a PIN = %d", a.Code)
	}
	phones(h, "!+31612345678")
	form := b.Get("/account/security/preferred")
	if form.Code != http.StatusOK || !strings.Contains(form.Body.String(), `value="sms"`) ||
		!strings.Contains(form.Body.String(), `value="last" selected`) {
		t.Fatalf("the page = %d:\n%s", form.Code, form.Body)
	}
	first := func(when, want string) {
		t.Helper()
		other := h.Plain()
		if a := other.Get("/next"); !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s the first way is not %q:\n%s", when, want, a.Body)
		}
	}
	first("by default,", "Enter your PIN")
	if a := b.Post(form, "method", "sms"); a.Code != http.StatusSeeOther {
		t.Fatalf("choosing = %d", a.Code)
	}
	first("chosen,", "code to your phone")
	other := h.Plain()
	page := other.Get("/next")
	other.Post(other.Get(page.URL+"&method=pin"), "code", "471193")
	first("after another one was used,", "code to your phone")
	if a := b.Get("/account/security"); !strings.Contains(a.Body.String(), "we first offer this method") {
		t.Errorf("the page about security:\n%s", a.Body)
	}
	if n := h.Events()["person.StepUpMethodPreferredEvent"]; n != 1 {
		t.Errorf("%d events of the choice", n)
	}
	b.Post(b.Get("/account/security/preferred"), "method", "authenticator") // a method that the person does not have
	first("after a choice of what is not there,", "code to your phone")
	b.Post(b.Get("/account/security/preferred"), "method", "last")
	first("without a choice,", "code to your phone")
	u.Features.SMSEnabled = false
	first("with the chosen one switched off,", "Enter your PIN")
	u.Features.ExternallyDeliveredCodeStepUp = settings.ExternallyDeliveredCodeStepUp{Enabled: true, ExpirationTime: 60}
	if a := b.Do(http.MethodPost, "/account/security/preferred", "method=pin"); a.Code != http.StatusForbidden {
		t.Errorf("a choice without the form's token = %d", a.Code)
	}
	h.CheckInvariants()
}
