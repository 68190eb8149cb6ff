package identity_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/config"
)

// TestPreferredMethod: the method that a person has chosen comes first, even after they used another one.
func TestPreferredMethod(t *testing.T) {
	t.Parallel()
	h, u, _ := smsing(t)
	u.Features.PINEnabled = true
	b := h.plain()
	if a := b.get("/account/security/preferred"); a.url != "/account/security" {
		t.Errorf("with nothing to choose = %d %s", a.Code, a.url)
	}
	if a := b.post(b.get("/account/security/pin"), "pin", "471193", "again", "471193"); a.Code != http.StatusSeeOther {
		t.Fatalf("a PIN = %d", a.Code)
	}
	h.phones("!+31612345678")
	form := b.get("/account/security/preferred")
	if form.Code != http.StatusOK || !strings.Contains(form.Body.String(), `value="sms"`) || !strings.Contains(form.Body.String(), `value="last" selected`) {
		t.Fatalf("the page = %d:\n%s", form.Code, form.Body)
	}
	first := func(when, want string) {
		t.Helper()
		other := h.plain()
		if a := other.get("/next"); !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s the first way is not %q:\n%s", when, want, a.Body)
		}
	}
	first("by default,", "Enter your PIN")
	if a := b.post(form, "method", "sms"); a.Code != http.StatusSeeOther {
		t.Fatalf("choosing = %d", a.Code)
	}
	first("chosen,", "code to your phone")
	other := h.plain()
	page := other.get("/next")
	other.post(other.get(page.url+"&method=pin"), "code", "471193")
	first("after another one was used,", "code to your phone")
	if a := b.get("/account/security"); !strings.Contains(a.Body.String(), "we first offer this method") {
		t.Errorf("the page about security:\n%s", a.Body)
	}
	if n := h.events()["person.StepUpMethodPreferredEvent"]; n != 1 {
		t.Errorf("%d events of the choice", n)
	}
	b.post(b.get("/account/security/preferred"), "method", "authenticator") // a method that the person does not have
	first("after a choice of what is not there,", "code to your phone")
	b.post(b.get("/account/security/preferred"), "method", "last")
	first("without a choice,", "code to your phone")
	u.Features.SMSEnabled = false
	first("with the chosen one switched off,", "Enter your PIN")
	u.Features.ExternallyDeliveredCodeStepUp = config.ExternallyDeliveredCodeStepUp{Enabled: true, ExpirationTime: 60}
	if a := b.do(http.MethodPost, "/account/security/preferred", "method=pin"); a.Code != http.StatusForbidden {
		t.Errorf("a choice without the form's token = %d", a.Code)
	}
	h.checkInvariants()
}
