package account_test

import (
	"html"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
)

// TestContactSurvivesStepUp: an address or number typed before a step-up is back in its field afterwards, in that
// session only.
func TestContactSurvivesStepUp(t *testing.T) {
	t.Parallel()
	h, b, u, _ := dashboard(t)
	u.Features.PINEnabled = true
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	b.SetPIN("471193")
	u.StepUp.Actions.ChangeEmailAuthenticationLevel = 2
	const path, pin = "/account/profile/contact", "471193"
	low, third := h.Browser(), h.Browser()
	low.SignIn(identitytest.Demo, identitytest.DemoPassword)
	third.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for kind, value := range map[string]string{"email": "typed@example.org", "phone": "+31 6 12345678"} {
		u.StepUp.Actions.ChangeEmailAuthenticationLevel = 2
		low := h.Browser()
		low.SignIn(identitytest.Demo, identitytest.DemoPassword)
		a := low.Fill(low.Get("/account/profile?edit=details"), path, "kind", kind, "do", "add", "value", value)
		to := a.Header().Get("Location")
		if a.Code != http.StatusSeeOther || !strings.HasPrefix(to, "/step-up?flow=") || strings.Contains(to, "typed") {
			t.Fatalf("%s: the form = %d to %q, want the step-up", kind, a.Code, to)
		}
		if a = low.Post(low.Get(to), "code", pin); a.Header().Get("Location") != "/account/profile" {
			t.Fatalf("%s: the PIN = %d to %q", kind, a.Code, a.Header().Get("Location"))
		}
		page := low.Get("/account/profile")
		if body := html.UnescapeString(page.Body.String()); !strings.Contains(body, `value="`+value+`"`) ||
			strings.Count(body, " autofocus") != 1 {
			t.Errorf("%s: what was typed is not in its field, or there is no focus on it:\n%s", kind, body)
		}
		if strings.Contains(html.UnescapeString(third.Get("/account/profile").Body.String()), value) {
			t.Errorf("%s: another session sees it", kind)
		}
		wantDone(t, kind, low.Fill(page, path, "kind", kind, "do", "add", "value", value), "/account/profile?done=added")
		wantDone(t, kind+" removed", low.Fill(page, path, "kind", kind, "do", "remove", "value", value), "/account/profile?done=removed")
		if strings.Contains(html.UnescapeString(low.Get("/account/profile").Body.String()), value) {
			t.Errorf("%s: it stands in its field after it was taken", kind)
		}
	}
	t.Run("attack 26: a form of another site keeps nothing", func(t *testing.T) {
		low.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		low.Fill(low.Get("/account/profile?edit=details"), path, "kind", "email", "do", "add", "value", "evil@example.org")
		low.Header = nil
		low.Do(http.MethodPost, path, "kind=email&do=add&value=evil@example.org")
		for _, value := range []string{"a\x00b", strings.Repeat("a", 5000)} {
			low.Fill(low.Get("/account/profile?edit=details"), path, "kind", "email", "do", "add", "value", value)
		}
		if body := low.Get("/account/profile").Body.String(); strings.Contains(body, "evil@") || strings.Contains(body, "autofocus") {
			t.Errorf("the page shows what was never typed there:\n%s", body)
		}
	})
	low.Fill(low.Get("/account/profile?edit=details"), path, "kind", "email", "do", "add", "value", "late@example.org")
	h.Clock.Advance(59 * time.Minute)
	low.Get("/account/profile")
	h.Clock.Advance(time.Minute)
	if strings.Contains(low.Get("/account/profile").Body.String(), "late@example.org") {
		t.Error("it is kept for longer than a flow is")
	}
	h.CheckInvariants()
}
