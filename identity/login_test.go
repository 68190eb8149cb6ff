package identity_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestSignInFlow(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	first := b.Do(http.MethodGet, "/next?a=1&b=%2F", "")
	if first.Code != http.StatusSeeOther || !strings.HasPrefix(first.Header().Get("Location"), "/sign-in?flow=") {
		t.Fatalf("GET /next: status %d to %q, want 303 to the sign-in page", first.Code, first.Header().Get("Location"))
	}
	form := b.Get(first.Header().Get("Location"))
	for _, want := range []string{
		"Continue to The shop", `autocomplete="username"`, `autocomplete="current-password"`,
		"https://shop.example.com",
	} {
		if !strings.Contains(form.Body.String()+form.Header().Get("Content-Security-Policy"), want) {
			t.Errorf("sign-in page lacks %q:\n%s", want, form.Body)
		}
	}
	a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword)
	t.Run("attack 32: what was posted is not posted again", func(t *testing.T) {
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next?a=1&b=%2F" {
			t.Errorf("POST: status %d to %q, want 303 to where it began", a.Code, a.Header().Get("Location"))
		}
	})
	if got := b.Get("/next?a=1&b=%2F").Body.String(); !strings.HasPrefix(got, "signed in as ") {
		t.Errorf("after sign-in: %s", got)
	}
	// After going back or reloading, both the page and its form lead on.
	if a := b.Do(http.MethodGet, form.URL, ""); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next?a=1&b=%2F" {
		t.Errorf("GET of the page again: status %d, want 303 to where it began", a.Code)
	}
	if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusSeeOther {
		t.Errorf("POST again: status %d, want 303", a.Code)
	}
	if n := h.Events(); n["login.LoginSucceededEvent"] != 2 || n["login.LoginFailedEvent"] != 0 {
		t.Errorf("events %v, want 2 Login Succeeded", n)
	}
	h.CheckInvariants()
}

func TestSeveralTabs(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	one, two, three := b.Get("/next?tab=1"), b.Get("/next?tab=2"), b.Get("/next?tab=3")
	for i, tab := range []*identitytest.Answer{two, one} {
		if a := b.Post(tab, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusSeeOther ||
			!strings.HasPrefix(a.Header().Get("Location"), "/next?tab=") {
			t.Errorf("tab %d: status %d to %q, want 303 to its own place", i, a.Code, a.Header().Get("Location"))
		}
	}
	if a := b.Do(http.MethodGet, three.URL, ""); a.Header().Get("Location") != "/next?tab=3" {
		t.Errorf("reload of the third tab: to %q, want its own place without a page", a.Header().Get("Location"))
	}
}

func TestExpiredFlow(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	form := b.Get("/next?x=1")
	h.Clock.Advance(time.Hour)
	for _, a := range []*identitytest.Answer{
		b.Get(form.URL),
		b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword),
	} {
		if a.Code != http.StatusBadRequest || !strings.Contains(a.Body.String(), `href="/next?x=1"`) ||
			!strings.Contains(a.Body.String(), "Start again") {
			t.Errorf("expired flow: status %d, want 400 and a link to the same place:\n%s", a.Code, a.Body)
		}
	}
	for _, target := range []string{
		"/sign-in?flow=nonsense", "/sign-in?flow=" + strings.Repeat("a", 2000),
		"/sign-in?flow=%00", "/sign-in?flow=a%2Fb",
	} {
		if a := b.Get(target); a.Code != http.StatusBadRequest {
			t.Errorf("GET %.40s: status %d, want 400", target, a.Code)
		}
	}
}

func TestSignInWithoutFlow(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	a := b.Post(b.Get("/sign-in"), "username", identitytest.Demo, "password", identitytest.DemoPassword)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account" {
		t.Errorf("sign-in for nothing in particular: status %d to %q, want the account page", a.Code, a.Header().Get("Location"))
	}
	if a := b.Do(http.MethodGet, "/sign-in", ""); a.Header().Get("Location") != "/account" {
		t.Errorf("GET /sign-in when signed in: to %q, want the account page", a.Header().Get("Location"))
	}
}

func TestDemands(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	h.WithoutStepUp()
	signedIn, nobody := h.Browser(), h.Browser()
	signedIn.SignIn(identitytest.Demo, identitytest.DemoPassword)
	h.Clock.Advance(10 * time.Minute)
	now := h.Clock.Now()
	for _, c := range []struct {
		name string
		b    *identitytest.Browser
		d    authn.Demand
		want string // "result", "page" or the code of a refusal
	}{
		{"any", signedIn, authn.Demand{MaxAge: -1}, "result"},
		{"any, nobody", nobody, authn.Demand{MaxAge: -1}, "page"},
		{"passive", signedIn, authn.Demand{MaxAge: -1, Passive: true}, "result"},
		{"passive, nobody", nobody, authn.Demand{MaxAge: -1, Passive: true}, "login_required"},
		{"old enough", signedIn, authn.Demand{MaxAge: 10 * time.Minute}, "result"},
		{"too old", signedIn, authn.Demand{MaxAge: 10*time.Minute - time.Second}, "page"},
		{"too old, passive", signedIn, authn.Demand{MaxAge: time.Minute, Passive: true}, "login_required"},
		{"before", signedIn, authn.Demand{MaxAge: -1, NotBefore: now}, "page"},
		{"since", signedIn, authn.Demand{MaxAge: -1, NotBefore: now.Add(-10 * time.Minute)}, "result"},
		{"choice", signedIn, authn.Demand{MaxAge: -1, SelectAccount: true}, "page"},
		{"choice, nobody", nobody, authn.Demand{MaxAge: -1, SelectAccount: true}, "page"},
		{"choice, passive", signedIn, authn.Demand{MaxAge: -1, SelectAccount: true, Passive: true}, "login_required"},
		{"level", signedIn, authn.Demand{MaxAge: -1, Level: 1}, "result"},
		{"level too high", signedIn, authn.Demand{MaxAge: -1, Level: 2}, "unmet_authentication_requirements"},
		{"level too high, nobody", nobody, authn.Demand{MaxAge: -1, Level: 2}, "unmet_authentication_requirements"},
		{"level too high, passive", signedIn, authn.Demand{MaxAge: -1, Level: 2, Passive: true}, "interaction_required"},
		{"level too high, passive, nobody", nobody, authn.Demand{MaxAge: -1, Level: 2, Passive: true}, "login_required"},
		{"provider", signedIn, authn.Demand{MaxAge: -1, Provider: "identity"}, "result"},
		{"other provider", signedIn, authn.Demand{MaxAge: -1, Provider: "corp"}, "access_denied"},
	} {
		r := httptest.NewRequest(http.MethodGet, identitytest.Issuer+"/next", nil)
		for name, v := range c.b.Cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: v})
		}
		c.d.Return = "/elsewhere"
		w := httptest.NewRecorder()
		result, err := h.Authenticate(w, r, c.d)
		got := "page"
		if refusal := new(authn.Refusal); errors.As(err, &refusal) {
			got = refusal.Code
		} else if err == nil {
			got = "result"
			if result.Level != 1 || result.AMR[0] != "DEFAULT" || result.Provider != "identity" || !result.AuthTime.Equal(now.Add(-10*time.Minute)) {
				t.Errorf("Authenticate(%s) = %+v", c.name, result)
			}
		} else if !errors.Is(err, authn.ErrResponded) {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("Authenticate(%s) = %s, want %s", c.name, got, c.want)
		}
	}
	if _, err := h.Authenticate(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, identitytest.Issuer+"/next", nil),
		authn.Demand{MaxAge: -1, Return: "https://evil.example/"}); err == nil || errors.Is(err, authn.ErrResponded) {
		t.Errorf("Authenticate(Return elsewhere) = %v, want an error", err)
	}
}

// TestStrictDemandsEnd: even the strictest demand does not redirect in circles.
func TestStrictDemandsEnd(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(h *identitytest.Harness, d *authn.Demand){
		"max_age 0":    func(_ *identitytest.Harness, d *authn.Demand) { d.MaxAge = 0 },
		"prompt=login": func(h *identitytest.Harness, d *authn.Demand) { d.NotBefore = h.Clock.Now() },
		"both and choice": func(h *identitytest.Harness, d *authn.Demand) {
			d.MaxAge, d.NotBefore, d.SelectAccount = 0, h.Clock.Now(), true
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := identitytest.New(t)
			b := h.Browser()
			b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			h.Clock.Advance(time.Minute)
			before := h.Demand
			var d authn.Demand
			h.Demand = func(r *http.Request) authn.Demand {
				if d.Return == "" {
					d = before(r)
					change(h, &d)
				}
				return d
			}
			page := b.Get("/next?again")
			if name == "both and choice" {
				a := b.Post(page, "choice", "continue")
				page = b.Get(a.Header().Get("Location"))
			}
			if !strings.Contains(page.Body.String(), `value="`+identitytest.Demo+`"`) {
				t.Errorf("asked to sign in again, the page does not know who:\n%s", page.Body)
			}
			a := b.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword)
			h.Clock.Advance(3 * time.Second)
			if got := b.Get(a.Header().Get("Location")).Body.String(); !strings.HasPrefix(got, "signed in as ") {
				t.Errorf("after the second sign-in: %s", got)
			}
		})
	}
}

func TestChooseAccount(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	if _, err := h.Person.AddPerson(t.Context(), person.NewPerson{Username: "anna", Password: secret.New("sailing tall 1")},
		identitytest.Admin); err != nil {
		t.Fatal(err)
	}
	before := h.Demand
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	h.Clock.Advance(time.Minute)
	h.Demand = func(r *http.Request) authn.Demand {
		d := before(r)
		d.SelectAccount = true
		return d
	}
	page := b.Get("/next?1")
	if !strings.Contains(page.Body.String(), "Continue as "+identitytest.Demo) {
		t.Fatalf("no choice:\n%s", page.Body)
	}
	a := b.Post(page, "choice", "continue")
	if got := b.Get(a.Header().Get("Location")).Body.String(); !strings.HasPrefix(got, "signed in as ") {
		t.Errorf("after the choice: %s", got)
	}
	// Another request asks again, and another account signs in.
	page = b.Get("/next?2")
	a = b.Post(page, "choice", "other")
	form := b.Get(a.Header().Get("Location"))
	if strings.Contains(form.Body.String(), identitytest.Demo) {
		t.Errorf("the page for another account names the first one:\n%s", form.Body)
	}
	a = b.Post(form, "username", "anna", "password", "sailing tall 1")
	if got := b.Get(a.Header().Get("Location")).Body.String(); !strings.HasPrefix(got, "signed in as ") {
		t.Errorf("after the sign-in of another: %s", got)
	}
	// The first person's form, still open in another tab, confirms nothing for the second person.
	stale := b.Post(page, "choice", "continue")
	if stale.Code != http.StatusForbidden {
		t.Errorf("choice of who is signed in no more: status %d, want 403", stale.Code)
	}
}

func TestEmptyFields(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	form := b.Get("/next")
	before := h.Hasher.Computed()
	for _, c := range []struct{ username, password, want string }{
		{"", "x", "Enter your username."},
		{"  ", "", "Enter your username."},
		{"anna", "", "Enter your password."},
	} {
		a := b.Post(form, "username", c.username, "password", c.password)
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), c.want) {
			t.Errorf("username %q, password %q: status %d, want 422 and %q", c.username, c.password, a.Code, c.want)
		}
	}
	if h.Hasher.Computed() != before {
		t.Error("an empty field was hashed")
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"DELETE", "/sign-in", 405},
		{"PUT", "/sign-out", 405},
		{"POST", "/account", 405},
		{"GET", "/sign-in/account", 405},
		{"HEAD", "/sign-out", 200},
		{"GET", "/nothing", 404},
		{"GET", "/sign-in/x", 404},
		{"GET", "/assets/none", 404},
		{"POST", "/sign-in", 400},
		{"POST", "/sign-in/account", 400},
	} {
		a := b.Do(c.method, c.path, "")
		if a.Code != c.want || (c.want == 405) != (a.Header().Get("Allow") != "") {
			t.Errorf("%s %s: status %d, Allow %q, want %d", c.method, c.path, a.Code, a.Header().Get("Allow"), c.want)
		}
	}
	h.CheckInvariants()
}

func TestStorageDown(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	b := h.Browser()
	form := b.Get("/next")
	signedIn := h.Browser()
	signedIn.SignIn(identitytest.Demo, identitytest.DemoPassword)
	ask := signedIn.Get("/sign-out")
	h.Store.Down.Store(true)
	for name, a := range map[string]*identitytest.Answer{
		"page": b.Do("GET", form.URL, ""), "form": b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword),
		"account":       signedIn.Do("GET", "/account", ""),
		"sign-out page": signedIn.Do("GET", "/sign-out", ""), "sign-out": signedIn.Post(ask), "next": signedIn.Do("GET", "/next", ""),
	} {
		if a.Code != http.StatusServiceUnavailable || (name != "next" && a.Header().Get("Retry-After") == "") {
			t.Errorf("%s without storage: status %d, Retry-After %q, want 503 with it", name, a.Code, a.Header().Get("Retry-After"))
		}
	}
	if b.Session() != "" || signedIn.Session() == "" {
		t.Error("a cookie changed although nothing could be told")
	}
	h.Store.Down.Store(false)
	h.Store.ReadOnly.Store(true)
	if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusServiceUnavailable ||
		b.Session() != "" {
		t.Errorf("sign-in on a full disk: status %d, want 503", a.Code)
	}
	if !signedIn.IsSignedIn() {
		t.Error("session is not good on a full disk, want good: reads go on")
	}
	h.CheckInvariants()
}

func TestHint(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	before := h.Demand
	for hint, want := range map[string]string{
		"anna": `value="anna"`, `"><script>`: `value="&#34;&gt;&lt;script&gt;"`,
		"a\x00b": `name="username" autocomplete`, strings.Repeat("a", 1<<20): `name="username" autocomplete`,
	} {
		h.Demand = func(r *http.Request) authn.Demand {
			d := before(r)
			d.Hint = hint
			return d
		}
		if page := h.Browser().Get("/next"); !strings.Contains(page.Body.String(), want) {
			t.Errorf("hint %.20q: page lacks %s:\n%s", hint, want, page.Body)
		}
	}
}

func FuzzSignIn(f *testing.F) {
	f.Add("demo@example.com", "correct horse 1", "yes")
	f.Add("\x00", "\xff", "")
	f.Add(strings.Repeat("é", 300), strings.Repeat("x", 300), "\r\n")
	h := identitytest.New(f)
	f.Fuzz(func(t *testing.T, username, password, remember string) {
		h.T = t
		h.Clock.Advance(time.Hour) // so that no try has to wait
		b := h.Browser()
		form := b.Get("/next")
		v := url.Values{"csrf": {form.CSRF()}, "username": {username}, "password": {password}, "remember": {remember}}
		a := b.Do(http.MethodPost, form.URL, v.Encode())
		switch a.Code {
		case http.StatusSeeOther:
			if !strings.EqualFold(strings.TrimSpace(username), identitytest.Demo) || password != identitytest.DemoPassword {
				t.Errorf("username %q and password %q sign in", username, password)
			}
		case http.StatusUnprocessableEntity, http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		default:
			t.Errorf("username %q, password %q: status %d", username, password, a.Code)
		}
		h.CheckInvariants()
	})
}
