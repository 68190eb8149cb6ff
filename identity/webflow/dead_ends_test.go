package webflow_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// link returns the address of the link with a text on a page, or "".
func link(a *identitytest.Answer, text string) string {
	m := regexp.MustCompile(`<a [^>]*href="([^"]*)"[^>]*>` + regexp.QuoteMeta(text) + `</a>`).FindStringSubmatch(a.Body.String())
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

// TestErrorPagesLeadOn: a page that is not there, a form of yesterday and a page that has expired say who is signed in
// and where to go.
func TestErrorPagesLeadOn(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	signedIn, stranger := h.Browser(), h.Browser()
	signedIn.SignIn(identitytest.Demo, identitytest.DemoPassword)
	const account, again, other = "Go to your account", "Start again", "Use another account"
	for _, c := range []struct {
		name, method, target string
		status               int
		signedIn, stranger   []string // links
	}{
		{"no such page", "GET", "/account/nothing", 404, []string{account}, []string{account}},
		{"a form of yesterday", "POST", "/account/profile", 403, []string{again, other, account}, nil},
		{"a form of yesterday, to sign out", "POST", "/sign-out", 403, []string{again, other, account}, nil},
		{"a sign-in that has expired", "GET", "/sign-in?flow=gone", 400, []string{again}, []string{again}},
		{"a method that no page has", "PUT", "/account", 405, []string{account}, []string{account}},
	} {
		for name, links := range map[string][]string{identitytest.Demo: c.signedIn, "": c.stranger} {
			b := signedIn
			if name == "" {
				b = stranger
			}
			if links == nil {
				continue
			}
			a := b.Do(c.method, c.target, "")
			body := a.Body.String()
			if a.Code != c.status || strings.Contains(body, "You’re signed in as <bdi>"+identitytest.Demo) != (name != "") &&
				strings.Contains(body, "signed in as "+identitytest.Demo) != (name != "") {
				t.Errorf("%s by %q: %d, who is signed in missing or wrong:\n%s", c.name, name, a.Code, body)
			}
			for _, text := range []string{account, again, other} {
				want := false
				for _, l := range links {
					want = want || l == text
				}
				if got := link(a, text); (got != "") != want {
					t.Errorf("%s by %q: link %q = %q, want one: %t", c.name, name, text, got, want)
				}
			}
		}
	}
}

// TestUseAnotherAccount: a person whose account cannot open a page signs in with another one there, and comes back to
// that page. The first account stays signed in until then.
func TestUseAnotherAccount(t *testing.T) {
	t.Parallel()
	u := settings.Defaults()
	u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 2
	h := identitytest.New(t, func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: "carla", Password: secret.New(identitytest.DemoPassword)})
	})
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	h.Start()
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	refused := b.Get("/account/devices")
	if refused.Code != http.StatusForbidden || !strings.Contains(refused.Body.String(), identitytest.Demo) {
		t.Fatalf("refused = %d\n%s", refused.Code, refused.Body)
	}
	u.StepUp.Actions.DashboardStepUpAuthenticationLevel = 1
	h.Clock.Advance(time.Second)
	if same := b.Get("/sign-in?other=1&redirect=%2Fnext"); !strings.Contains(same.Body.String(), `name="password"`) {
		t.Errorf("another account for the page that this sign-in was for: %d\n%s", same.Code, same.Body)
	}
	page := b.Get(link(refused, "Use another account"))
	if !b.IsSignedIn() || strings.Contains(page.Body.String(), identitytest.Demo) {
		t.Errorf("the sign-in page for another account: %d, or the first one is filled in\n%s", page.Code, page.Body)
	}
	h.Clock.Advance(time.Second)
	a := b.Post(page, "username", "carla", "password", identitytest.DemoPassword)
	if to := a.Header().Get("Location"); a.Code != http.StatusSeeOther || to != "/account/devices" {
		t.Fatalf("signed in as another = %d to %q, want /account/devices\n%s", a.Code, to, a.Body)
	}
	if body := b.Get("/next").Body.String(); strings.Contains(body, "signed in as "+identitytest.Demo) ||
		!strings.HasPrefix(body, "signed in as ") {
		t.Errorf("afterwards: %s", body)
	}
}

// TestStepUpLeadsBack: a person who is asked to confirm who they are for one of our pages can go back instead, to a
// page above it that opens without.
func TestStepUpLeadsBack(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	h.Start()
	actions := &u.StepUp.Actions
	h.Plain().AddApp(identitytest.AuthenticatorPage)
	actions.ChangePasswordAuthenticationLevel, actions.SetupStepUpMethodsAuthenticationLevel = 2, 2
	h.Clock.Advance(time.Minute)
	b := h.Plain()
	for _, c := range []struct {
		target    string
		dashboard int // level of the account pages
		want      string
	}{
		{"/account/security/password", 1, "/account/security"},
		{"/account/security/authenticator", 1, "/account/security"},
		{"/account/data/delete", 1, "/account"},
		{"/step-up?redirect=%2Faccount%2Fdevices", 1, "/account"},
		{"/step-up?redirect=https%3A%2F%2Fevil.example", 1, "/account"},
		{"/account", 2, ""},
		{"/account/security/password", 2, ""},
	} {
		actions.DashboardStepUpAuthenticationLevel = c.dashboard
		h.Clock.Advance(time.Second) // settings are read again
		a := b.Get(c.target)
		if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), "Confirm it’s you") {
			t.Fatalf("GET %s = %d at %s, want the page of a step-up:\n%s", c.target, a.Code, a.URL, a.Body)
		}
		got := link(a, "Cancel")
		if got != c.want {
			t.Errorf("%s with account pages of level %d: the way back is %q, want %q", c.target, c.dashboard, got, c.want)
		}
		if got == "" {
			continue
		}
		if back := b.Get(got); back.Code != http.StatusOK || back.URL != got {
			t.Errorf("%s: the way back %s = %d at %s, want the page", c.target, got, back.Code, back.URL)
		}
	}
}

// TestStartPageLeadsToAccount: the address of the issuer alone is a page too.
func TestStartPageLeadsToAccount(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	for method, want := range map[string]int{
		http.MethodGet: http.StatusSeeOther, http.MethodHead: http.StatusSeeOther,
		http.MethodPost: http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		h.ServeElse(w, httptest.NewRequest(method, identitytest.Issuer+"/", nil))
		if w.Code != want || want == http.StatusSeeOther && w.Header().Get("Location") != "/account" {
			t.Errorf("%s / = %d to %q, want %d", method, w.Code, w.Header().Get("Location"), want)
		}
	}
	w := httptest.NewRecorder()
	if h.ServeElse(w, httptest.NewRequest(http.MethodGet, identitytest.Issuer+"//evil.example", nil)); w.Code != http.StatusNotFound {
		t.Errorf("GET //evil.example = %d, want 404", w.Code)
	}
}

// navigation are the headers of a browser that follows a link, or sends a form, of one of our pages.
func navigation(changes ...string) http.Header {
	h := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}}
	for i := 0; i < len(changes); i += 2 {
		h.Set(changes[i], changes[i+1])
	}
	return h
}

// TestSignOutAtOnce: a link or a form on one of our own pages signs out without a question, and ends on a page that
// says so and leads back.
func TestSignOutAtOnce(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		b.Header = navigation()
		a := b.Do(method, "/sign-out", "")
		if a.Code != http.StatusSeeOther || b.Session() != "" {
			t.Errorf("%s /sign-out of our page: %d, still signed in: %t", method, a.Code, b.Session() != "")
		}
		done := b.Get(a.Header().Get("Location"))
		if !strings.Contains(done.Body.String(), "You’re signed out") || link(done, "Sign in again") != "/account" {
			t.Errorf("after %s /sign-out:\n%s", method, done.Body)
		}
	}
}

// TestAttacksOnSignOut: nothing but a click on our own page signs anybody out without a question, and the question can
// be turned down.
func TestAttacksOnSignOut(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for name, header := range map[string]http.Header{
		"link of another site":    navigation("Sec-Fetch-Site", "cross-site"),
		"link of a sibling":       navigation("Sec-Fetch-Site", "same-site"),
		"address that was typed":  navigation("Sec-Fetch-Site", "none"),
		"picture":                 navigation("Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"),
		"frame":                   navigation("Sec-Fetch-Dest", "iframe"),
		"script":                  navigation("Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"),
		"prefetch":                navigation("Sec-Purpose", "prefetch"),
		"browser without headers": {},
		"header given twice": {
			"Sec-Fetch-Site": {"same-origin", "same-origin"}, "Sec-Fetch-Mode": {"navigate"},
			"Sec-Fetch-Dest": {"document"},
		},
	} {
		b.Header = header
		a := b.Get("/sign-out")
		if !b.IsSignedIn() || link(a, "Stay signed in") != "/account" {
			t.Errorf("%s: signed out, or a question without a way back: %d", name, a.Code)
		}
		if a := b.Do(http.MethodPost, "/sign-out", ""); a.Code != http.StatusForbidden && name != "address that was typed" || !b.IsSignedIn() {
			t.Errorf("%s: a form without token = %d, signed in: %t", name, a.Code, b.IsSignedIn())
		}
	}
	b.Header = nil
	for _, via := range []string{
		"/sign-in?redirect=%2Fsign-out", "/sign-in?redirect=%2Fsign-out%3Fx", "/step-up?redirect=%2Fsign-out",
		"/sign-in?redirect=%2Foauth%2Flogout", "/sign-in?redirect=%2Flanguage%3Fto%3Dde%26back%3D%2Fsign-out",
	} {
		if to := h.Browser().Get(via); strings.Contains(to.Body.String(), "sign-out") {
			t.Errorf("%s leads to %s, with a sign-out in it", via, to.URL)
		}
		if a := b.Do(http.MethodGet, via, ""); strings.Contains(a.Header().Get("Location"), "sign-out") ||
			strings.Contains(a.Header().Get("Location"), "logout") {
			t.Errorf("%s leads to %s", via, a.Header().Get("Location"))
		}
	}
}

// TestStepUpNamesSiteAndAccount: who is asked for a second factor reads what for and as whom, and can be another.
func TestStepUpNamesSiteAndAccount(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 2)
	u.Features.PINEnabled = true
	h.Plain().SetPIN("827164")
	other := h.Browser()
	page := other.Get("/next")
	a := other.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword)
	step := other.Get(a.Header().Get("Location"))
	if body := step.Body.String(); !strings.Contains(body, "Continue to The shop") || !strings.Contains(body, "<b>"+identitytest.Demo+"</b>") {
		t.Errorf("step-up names no site or no account:\n%s", body)
	}
	if form := other.Get(link(step, "Not you?")).Body.String(); !strings.Contains(form, `name="password"`) ||
		strings.Contains(form, identitytest.Demo) {
		t.Errorf("Not you? leads to\n%s", form)
	}
}
