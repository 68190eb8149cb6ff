package mfa_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// stepUpKey is the prefix of the keys of set-up methods.
var stepUpKey = string(storage.NewTable[struct{}]("identity_step_up").Key(""))

func TestStepUp(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 3)
	first := h.Plain()
	secret, _, next := first.AddApp(identitytest.AuthenticatorPage)
	if next != "/account/security" {
		t.Errorf("after the set-up one goes to %q", next)
	}

	b := h.Plain()
	cookie := b.Session()
	was, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	h.Clock.Advance(time.Minute)
	page := b.Get("/next")
	if !strings.HasPrefix(page.URL, "/step-up?flow=") || !strings.Contains(page.Body.String(), "authenticator app") ||
		!strings.Contains(page.Body.String(), identitytest.Demo) {
		t.Fatalf("what needs level 3 leads to %s:\n%s", page.URL, page.Body)
	}
	if a := b.Post(page, "code", "000000"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "code is incorrect") {
		t.Errorf("a wrong code = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Post(page, "code", ""); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "Enter the code.") {
		t.Errorf("no code = %d:\n%s", a.Code, a.Body)
	}
	a := b.Post(page, "code", h.Code(secret))
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the right code = %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.Get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the step-up: %d:\n%s", a.Code, a.Body)
	}
	is, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	if is.Level != 3 || !slices.Equal(is.AMR, []string{"DEFAULT", "CUSTOM_AUTHENTICATOR"}) || is.SessionID != was.SessionID ||
		!is.AuthTime.Equal(h.Clock.Now()) {
		t.Errorf("the session is now %+v", is)
	}
	if want := was.AuthTime.Add(12 * time.Hour); is.Ends.After(want) {
		t.Errorf("the session ends at %v, want no later than %v", is.Ends, want)
	}
	if b.Session() == cookie {
		t.Error("the session has the same cookie as before")
	}
	for kind, want := range map[string]int{
		"login.StepUpSucceededEvent": 2, "login.StepUpFailedEvent": 1, "person.StepUpMethodAddedEvent": 1,
		"person.RecoveryCodesMadeEvent": 1,
	} {
		if got := h.Events()[kind]; got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
	for _, e := range h.Logs.All() {
		if strings.Contains(identitytest.ToString(e.ContextMap()["error"]), secret) || strings.Contains(e.Message, secret) {
			t.Errorf("log line tells the secret: %s", e.Message)
		}
	}
	if a := b.Get("/step-up?redirect=%2Fnext"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("a step-up for nothing in particular = %d %s", a.Code, a.URL)
	}
	h.CheckInvariants()
}

// TestStepUpOnTheWay: a person who is not signed in enters the password, sets up an app, and arrives.
func TestStepUpOnTheWay(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 2)
	b := h.Browser()
	a := b.Try(identitytest.Demo, identitytest.DemoPassword)
	a = b.Get(a.Header().Get("Location"))
	link := regexp.MustCompile(`href="(/account/security/authenticator\?flow=[^"]+)"`).FindStringSubmatch(a.Body.String())
	if !strings.HasPrefix(a.URL, "/step-up?flow=") || link == nil {
		t.Fatalf("after the password: %d %s:\n%s", a.Code, a.URL, a.Body)
	}
	_, _, next := b.AddApp(link[1])
	if a := b.Get(next); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the set-up: %d %s:\n%s", a.Code, a.URL, a.Body)
	}
}

// TestInitialStepUp: a demand leads to the set-up of the first method only where the configuration allows it.
func TestInitialStepUp(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	b := h.Plain()
	if a := b.Get("/next"); a.Code != http.StatusForbidden || strings.TrimSpace(a.Body.String()) != "unmet_authentication_requirements" {
		t.Errorf("level 2 with nothing set up = %d %s", a.Code, a.Body)
	}
	other := h.Browser()
	a := other.Try(identitytest.Demo, identitytest.DemoPassword) // some people could reach the level, so the password is asked for
	if a = other.Get(a.Header().Get("Location")); a.Code != http.StatusForbidden {
		t.Errorf("level 2 after the password with nothing set up = %d %s", a.Code, a.Body)
	}
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	if a := b.Get("/next"); !strings.Contains(a.Body.String(), "Set up a second way") {
		t.Errorf("level 2 with nothing set up, and allowed to = %d %s", a.Code, a.Body)
	}
}

// TestSetUpLevel: a set-up requires the configured level, and at least the level of the methods that the person has.
func TestSetUpLevel(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	u.StepUp.Actions.SetupStepUpMethodsAuthenticationLevel = 2
	b := h.Plain()
	if a := b.Get(identitytest.AuthenticatorPage); a.Code != http.StatusForbidden ||
		!strings.Contains(a.Body.String(), "another way to confirm") {
		t.Errorf("a set-up that needs level 2 = %d %s", a.Code, a.Body)
	}
	u.StepUp.Actions.SetupStepUpMethodsAuthenticationLevel = 1
	b.AddApp(identitytest.AuthenticatorPage)
	other := h.Plain()
	if a := other.Get("/account/security/remove?method=authenticator"); !strings.HasPrefix(a.URL, "/step-up?") {
		t.Errorf("removing an app of level 3 with a password leads to %s (%d)", a.URL, a.Code)
	}
}

// TestAuthenticatorSwitch: apps count only while they are switched on.
func TestAuthenticatorSwitch(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	b := h.Plain()
	b.AddApp(identitytest.AuthenticatorPage)
	other := h.Plain()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with the app switched off = %d %s", a.Code, a.Body)
	}
	if a := other.Get(identitytest.AuthenticatorPage); a.Code != http.StatusNotFound {
		t.Errorf("the set-up of an app that is switched off = %d %s", a.Code, a.Body)
	}
	if a := other.Get("/account/security"); a.Code != http.StatusOK || strings.Contains(a.Body.String(), "Authenticator app") {
		t.Errorf("the security page with the app switched off = %d %s", a.Code, a.Body)
	}
}

// TestAuthenticatorLevel: a method reaches the configured level and no higher one.
func TestAuthenticatorLevel(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 4)
	b := h.Plain()
	secret, _, _ := b.AddApp(identitytest.AuthenticatorPage)
	if a := b.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 4 with an app of level 3 = %d %s", a.Code, a.Body)
	}
	u.StepUp.AuthenticationMethods.GoogleAuthenticatorAuthenticationLevel = 4
	a := b.Post(b.Get("/next"), "code", h.Code(secret))
	if a = b.Get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("level 4 with an app of level 4 = %d %s", a.Code, a.Body)
	}
	h.WantLevel(b, 4)
}

// TestDefaultStepUpLevel: a step-up that no application asked for.
func TestDefaultStepUpLevel(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	set := h.Plain()
	set.AddApp(identitytest.AuthenticatorPage)
	b := h.Plain()
	u.StepUp.Actions.DefaultStepUpAuthenticationLevel = 1
	if a := b.Get("/step-up"); a.URL != "/account/security" {
		t.Errorf("/step-up to level 1 leads to %s", a.URL)
	}
	u.StepUp.Actions.DefaultStepUpAuthenticationLevel = 3
	if a := b.Get("/step-up"); !strings.HasPrefix(a.URL, "/step-up?flow=") {
		t.Errorf("/step-up to level 3 leads to %s", a.URL)
	}
	if a := b.Get("/step-up?redirect=" + url.QueryEscape("//evil.example/")); !strings.HasPrefix(a.URL, "/step-up?flow=") {
		t.Errorf("/step-up with a foreign address leads to %s", a.URL)
	}
}

func TestStepUpPassive(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 2)
	b := h.Plain()
	b.AddApp(identitytest.AuthenticatorPage)
	other := h.Plain()
	_, err := h.Authenticate(identitytest.NewRecorder(), identitytest.NewRequest(other, "/x"),
		authn.Demand{Level: 2, MaxAge: -1, Passive: true, Return: "/x"})
	if err == nil || !strings.Contains(err.Error(), "interaction_required") {
		t.Errorf("a passive demand of level 2 = %v, want interaction_required", err)
	}
	if _, err = h.Authenticate(identitytest.NewRecorder(), identitytest.NewRequest(b, "/x"),
		authn.Demand{Level: 2, MaxAge: -1, Passive: true, Return: "/x"}); err != nil {
		t.Errorf("a passive demand of level 2 after a step-up = %v", err)
	}
}

func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 3)
	set := h.Plain()
	_, codes, _ := set.AddApp(identitytest.AuthenticatorPage)
	for key, value := range h.Dump() {
		if strings.Contains(value, codes[0]) || strings.Contains(value, strings.ReplaceAll(codes[0], "-", "")) {
			t.Fatalf("%q holds a recovery code", key)
		}
	}
	use := func(b *identitytest.Browser, code string) *identitytest.Answer {
		t.Helper()
		a := b.Get("/next")
		if !strings.HasPrefix(a.URL, "/step-up?") {
			t.Fatalf("what needs level 3 leads to %s: %s", a.URL, a.Body)
		}
		return b.Post(b.Get(a.URL+"&method=recovery"), "code", code)
	}
	b := h.Plain()
	if list := b.Get(b.Get("/next").URL + "&choose=1").Body.String(); !strings.Contains(list, "Recovery code") ||
		!strings.Contains(list, "Authenticator app") {
		t.Errorf("the methods are:\n%s", list)
	}
	if a := use(b, strings.ToUpper(strings.ReplaceAll(codes[3], "-", " "))); a.Code != http.StatusSeeOther {
		t.Errorf("a recovery code in capitals = %d:\n%s", a.Code, a.Body)
	}
	again := h.Plain()
	if a := use(again, codes[3]); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a recovery code a second time = %d", a.Code)
	}
	if a := b.Get("/account/security"); !strings.Contains(a.Body.String(), "9 codes left in case you lose your phone or passkey") {
		t.Errorf("the security page does not tell what is left:\n%s", a.Body)
	}
	a := b.Post(b.Get("/account/security/recovery"))
	fresh := identitytest.ShownCode.FindAllStringSubmatch(a.Body.String(), -1)
	if a.Code != http.StatusOK || len(fresh) != 10 {
		t.Fatalf("new codes = %d:\n%s", a.Code, a.Body)
	}
	if a := use(again, codes[4]); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a code of before = %d", a.Code)
	}
	if a := use(again, fresh[0][1]); a.Code != http.StatusSeeOther {
		t.Errorf("a new code = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Post(b.Get("/account/security/remove?method=authenticator")); a.Code != http.StatusSeeOther {
		t.Errorf("removing the app = %d", a.Code)
	}
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	last := h.Plain()
	if a := last.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 3 without the app = %d, want 403: its recovery codes go with it", a.Code)
	}
	if n := h.Events()["person.StepUpMethodRemovedEvent"]; n != 1 {
		t.Errorf("%d events of the removal, want 1", n)
	}
}
