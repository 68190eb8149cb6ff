package identity_test

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// stepping returns a harness where every demand asks for a level, unless its URL has plain=, and authenticator apps are
// on.
func stepping(t *testing.T, level int, change ...func(*identity.Config)) (*harness, *config.Units) {
	t.Helper()
	h, u := configured(t, change...)
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = true
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	before := h.demand
	h.demand = func(r *http.Request) login.Demand {
		d := before(r)
		if r.URL.Query().Get("plain") == "" {
			d.Level = level
		}
		return d
	}
	return h, u
}

var (
	shownSecret = regexp.MustCompile(`<p class="secret" id="secret"><code>([A-Z2-7 ]+)</code>`)
	shownCode   = regexp.MustCompile(`<li><code>([a-z2-7-]+)</code>`)
)

func (h *harness) code(secret string) string {
	h.t.Helper()
	code, err := totp.GenerateCode(secret, h.clock.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	return code
}

// app sets up an authenticator app at a page. It returns the secret, the recovery codes and the link that continues.
func (b *browser) app(target string) (secret string, codes []string, next string) {
	b.h.t.Helper()
	a := b.get(target)
	m := shownSecret.FindStringSubmatch(a.Body.String())
	if m == nil {
		b.h.t.Fatalf("GET %s: status %d, no secret:\n%s", target, a.Code, a.Body)
	}
	secret = strings.ReplaceAll(m[1], " ", "")
	a = b.post(a, "code", b.h.code(secret))
	for _, c := range shownCode.FindAllStringSubmatch(a.Body.String(), -1) {
		codes = append(codes, c[1])
	}
	link := regexp.MustCompile(`<div class="buttons"><a class="button" href="([^"]+)"`).FindStringSubmatch(a.Body.String())
	if a.Code != http.StatusOK || len(codes) != 10 || link == nil {
		b.h.t.Fatalf("the first code: status %d, %d recovery codes:\n%s", a.Code, len(codes), a.Body)
	}
	b.h.clock.Advance(30 * time.Second) // the code of this step is used up
	return secret, codes, strings.ReplaceAll(link[1], "&amp;", "&")
}

// stepUpKey is the prefix of the keys of set-up methods.
var stepUpKey = string(storage.NewTable[struct{}]("identity_step_up").Key(""))

const authenticatorPage = "/account/security/authenticator"

func TestStepUp(t *testing.T) {
	t.Parallel()
	h, _ := stepping(t, 3)
	first := h.plain()
	secret, _, next := first.app(authenticatorPage)
	if next != "/account/security" {
		t.Errorf("after the set-up one goes to %q", next)
	}

	b := h.plain()
	cookie := b.session()
	was, err := h.session(b)
	if err != nil {
		t.Fatal(err)
	}
	h.clock.Advance(time.Minute)
	page := b.get("/next")
	if !strings.HasPrefix(page.url, "/step-up?flow=") || !strings.Contains(page.Body.String(), "authenticator app") || !strings.Contains(page.Body.String(), demo) {
		t.Fatalf("what needs level 3 leads to %s:\n%s", page.url, page.Body)
	}
	if a := b.post(page, "code", "000000"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "code is incorrect") {
		t.Errorf("a wrong code = %d:\n%s", a.Code, a.Body)
	}
	if a := b.post(page, "code", ""); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "Enter the code.") {
		t.Errorf("no code = %d:\n%s", a.Code, a.Body)
	}
	a := b.post(page, "code", h.code(secret))
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Fatalf("the right code = %d to %q:\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.get("/next"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the step-up: %d:\n%s", a.Code, a.Body)
	}
	is, err := h.session(b)
	if err != nil {
		t.Fatal(err)
	}
	if is.Level != 3 || !slices.Equal(is.AMR, []string{"DEFAULT", "CUSTOM_AUTHENTICATOR"}) || is.SessionID != was.SessionID || !is.AuthTime.Equal(h.clock.Now()) {
		t.Errorf("the session is now %+v", is)
	}
	if want := was.AuthTime.Add(12 * time.Hour); is.Ends.After(want) {
		t.Errorf("the session ends at %v, want no later than %v", is.Ends, want)
	}
	if b.session() == cookie {
		t.Error("the session has the same cookie as before")
	}
	for kind, want := range map[string]int{"login.StepUpSucceededEvent": 2, "login.StepUpFailedEvent": 1, "person.StepUpMethodAddedEvent": 1, "person.RecoveryCodesMadeEvent": 1} {
		if got := h.events()[kind]; got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
	for _, e := range h.logs.All() {
		if strings.Contains(toString(e.ContextMap()["error"]), secret) || strings.Contains(e.Message, secret) {
			t.Errorf("log line tells the secret: %s", e.Message)
		}
	}
	if a := b.get("/step-up?redirect=%2Fnext"); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("a step-up for nothing in particular = %d %s", a.Code, a.url)
	}
	h.checkInvariants()
}

// TestStepUpOnTheWay: a person who is not signed in enters the password, sets up an app, and arrives.
func TestStepUpOnTheWay(t *testing.T) {
	t.Parallel()
	h, _ := stepping(t, 2)
	b := h.browser()
	a := b.try(demo, demoPassword)
	a = b.get(a.Header().Get("Location"))
	link := regexp.MustCompile(`href="(/account/security/authenticator\?flow=[^"]+)"`).FindStringSubmatch(a.Body.String())
	if !strings.HasPrefix(a.url, "/step-up?flow=") || link == nil {
		t.Fatalf("after the password: %d %s:\n%s", a.Code, a.url, a.Body)
	}
	_, _, next := b.app(link[1])
	if a := b.get(next); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("after the set-up: %d %s:\n%s", a.Code, a.url, a.Body)
	}
}

// TestInitialStepUp: a demand leads to the set-up of the first method only where the configuration allows it.
func TestInitialStepUp(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2)
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	b := h.plain()
	if a := b.get("/next"); a.Code != http.StatusForbidden || strings.TrimSpace(a.Body.String()) != "unmet_authentication_requirements" {
		t.Errorf("level 2 with nothing set up = %d %s", a.Code, a.Body)
	}
	other := h.browser()
	a := other.try(demo, demoPassword) // some people could reach the level, so the password is asked for
	if a = other.get(a.Header().Get("Location")); a.Code != http.StatusForbidden {
		t.Errorf("level 2 after the password with nothing set up = %d %s", a.Code, a.Body)
	}
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
	if a := b.get("/next"); !strings.Contains(a.Body.String(), "Set up a second way") {
		t.Errorf("level 2 with nothing set up, and allowed to = %d %s", a.Code, a.Body)
	}
}

// TestSetUpLevel: a set-up requires the configured level, and at least the level of the methods that the person has.
func TestSetUpLevel(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2)
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	u.StepUp.Actions.SetupStepUpMethodsAuthenticationLevel = 2
	b := h.plain()
	if a := b.get(authenticatorPage); a.Code != http.StatusForbidden || !strings.Contains(a.Body.String(), "another way to confirm") {
		t.Errorf("a set-up that needs level 2 = %d %s", a.Code, a.Body)
	}
	u.StepUp.Actions.SetupStepUpMethodsAuthenticationLevel = 1
	b.app(authenticatorPage)
	other := h.plain()
	if a := other.get("/account/security/remove?method=authenticator"); !strings.HasPrefix(a.url, "/step-up?") {
		t.Errorf("removing an app of level 3 with a password leads to %s (%d)", a.url, a.Code)
	}
}

// TestAuthenticatorSwitch: apps count only while they are switched on.
func TestAuthenticatorSwitch(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2)
	b := h.plain()
	b.app(authenticatorPage)
	other := h.plain()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	if a := other.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 2 with the app switched off = %d %s", a.Code, a.Body)
	}
	if a := other.get(authenticatorPage); a.Code != http.StatusNotFound {
		t.Errorf("the set-up of an app that is switched off = %d %s", a.Code, a.Body)
	}
	if a := other.get("/account/security"); a.Code != http.StatusOK || strings.Contains(a.Body.String(), "Authenticator app") {
		t.Errorf("the security page with the app switched off = %d %s", a.Code, a.Body)
	}
}

// TestAuthenticatorLevel: a method reaches the configured level and no higher one.
func TestAuthenticatorLevel(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 4)
	b := h.plain()
	secret, _, _ := b.app(authenticatorPage)
	if a := b.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 4 with an app of level 3 = %d %s", a.Code, a.Body)
	}
	u.StepUp.AuthenticationMethods.GoogleAuthenticatorAuthenticationLevel = 4
	a := b.post(b.get("/next"), "code", h.code(secret))
	if a = b.get(a.Header().Get("Location")); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("level 4 with an app of level 4 = %d %s", a.Code, a.Body)
	}
	h.wantLevel(b, 4)
}

// TestDefaultStepUpLevel: a step-up that no application asked for.
func TestDefaultStepUpLevel(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 2)
	set := h.plain()
	set.app(authenticatorPage)
	b := h.plain()
	u.StepUp.Actions.DefaultStepUpAuthenticationLevel = 1
	if a := b.get("/step-up"); a.url != "/account/security" {
		t.Errorf("/step-up to level 1 leads to %s", a.url)
	}
	u.StepUp.Actions.DefaultStepUpAuthenticationLevel = 3
	if a := b.get("/step-up"); !strings.HasPrefix(a.url, "/step-up?flow=") {
		t.Errorf("/step-up to level 3 leads to %s", a.url)
	}
	if a := b.get("/step-up?redirect=" + url.QueryEscape("//evil.example/")); !strings.HasPrefix(a.url, "/step-up?flow=") {
		t.Errorf("/step-up with a foreign address leads to %s", a.url)
	}
}

func TestStepUpPassive(t *testing.T) {
	t.Parallel()
	h, _ := stepping(t, 2)
	b := h.plain()
	b.app(authenticatorPage)
	other := h.plain()
	_, err := h.Authenticate(newRecorder(), httptestRequest(other, "/x"), login.Demand{Level: 2, MaxAge: -1, Passive: true, Return: "/x"})
	if err == nil || !strings.Contains(err.Error(), "interaction_required") {
		t.Errorf("a passive demand of level 2 = %v, want interaction_required", err)
	}
	if _, err = h.Authenticate(newRecorder(), httptestRequest(b, "/x"), login.Demand{Level: 2, MaxAge: -1, Passive: true, Return: "/x"}); err != nil {
		t.Errorf("a passive demand of level 2 after a step-up = %v", err)
	}
}

func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 3)
	set := h.plain()
	_, codes, _ := set.app(authenticatorPage)
	for key, value := range h.dump() {
		if strings.Contains(value, codes[0]) || strings.Contains(value, strings.ReplaceAll(codes[0], "-", "")) {
			t.Fatalf("%q holds a recovery code", key)
		}
	}
	use := func(b *browser, code string) *answer {
		t.Helper()
		a := b.get("/next")
		if !strings.HasPrefix(a.url, "/step-up?") {
			t.Fatalf("what needs level 3 leads to %s: %s", a.url, a.Body)
		}
		return b.post(b.get(a.url+"&method=recovery"), "code", code)
	}
	b := h.plain()
	if list := b.get(b.get("/next").url + "&choose=1").Body.String(); !strings.Contains(list, "Recovery code") || !strings.Contains(list, "Authenticator app") {
		t.Errorf("the methods are:\n%s", list)
	}
	if a := use(b, strings.ToUpper(strings.ReplaceAll(codes[3], "-", " "))); a.Code != http.StatusSeeOther {
		t.Errorf("a recovery code in capitals = %d:\n%s", a.Code, a.Body)
	}
	again := h.plain()
	if a := use(again, codes[3]); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a recovery code a second time = %d", a.Code)
	}
	if a := b.get("/account/security"); !strings.Contains(a.Body.String(), "lose your phone or passkey: 9") {
		t.Errorf("the security page does not tell what is left:\n%s", a.Body)
	}
	a := b.post(b.get("/account/security/recovery"))
	fresh := shownCode.FindAllStringSubmatch(a.Body.String(), -1)
	if a.Code != http.StatusOK || len(fresh) != 10 {
		t.Fatalf("new codes = %d:\n%s", a.Code, a.Body)
	}
	if a := use(again, codes[4]); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a code of before = %d", a.Code)
	}
	if a := use(again, fresh[0][1]); a.Code != http.StatusSeeOther {
		t.Errorf("a new code = %d:\n%s", a.Code, a.Body)
	}
	if a := b.post(b.get("/account/security/remove?method=authenticator")); a.Code != http.StatusSeeOther {
		t.Errorf("removing the app = %d", a.Code)
	}
	u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = false
	last := h.plain()
	if a := last.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 3 without the app = %d, want 403: its recovery codes go with it", a.Code)
	}
	if n := h.events()["person.StepUpMethodRemovedEvent"]; n != 1 {
		t.Errorf("%d events of the removal, want 1", n)
	}
}
