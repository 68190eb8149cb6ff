package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestForgedForms(t *testing.T) {
	t.Parallel()
	t.Run("attack 26: a sign-in form is only taken from its own page and browser", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		other := h.Browser().Get("/next")
		for name, c := range map[string]struct {
			header http.Header
			csrf   string // "": the one of the page
		}{
			"no token":        {csrf: "-"},
			"another token":   {csrf: other.CSRF()},
			"evil origin":     {header: http.Header{"Sec-Fetch-Site": nil, "Origin": {"https://evil.example"}}},
			"no origin":       {header: http.Header{"Sec-Fetch-Site": nil}},
			"cross-site":      {header: http.Header{"Sec-Fetch-Site": {"cross-site"}}},
			"cross-site lies": {header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {identitytest.Issuer}}},
			"text/plain":      {header: http.Header{"Content-Type": {"text/plain"}}},
		} {
			b := h.Browser()
			form := b.Get("/next")
			fields := []string{"username", identitytest.Demo, "password", identitytest.DemoPassword}
			if c.csrf != "" {
				fields = append(fields, "csrf", strings.Trim(c.csrf, "-"))
			}
			b.Header = c.header
			if a := b.Post(form, fields...); a.Code != http.StatusForbidden || b.Session() != "" {
				t.Errorf("%s: status %d, session cookie %t, want 403 and none", name, a.Code, b.Session() != "")
			}
			b.Header = nil
			if a := b.Post(form, fields[:4]...); a.Code != http.StatusSeeOther {
				t.Errorf("%s: afterwards the right form has status %d, want 303", name, a.Code)
			}
		}
		h.CheckInvariants()
	})
	t.Run("attack 28: a flow belongs to the browser that started it", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		attacker := h.Browser()
		form := attacker.Get("/next?attacker")
		stranger, victim := h.Browser(), h.Browser()
		victim.Get("/next") // has its own browser cookie
		for name, b := range map[string]*identitytest.Browser{"no cookie": stranger, "own cookie": victim} {
			a := b.Do(http.MethodGet, form.URL, "")
			if a.Code != http.StatusForbidden || strings.Contains(a.Body.String(), "/next?attacker") {
				t.Errorf("%s: GET of a foreign flow: status %d, want 403 and no way into it:\n%s", name, a.Code, a.Body)
			}
			if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusForbidden ||
				b.Session() != "" {
				t.Errorf("%s: POST into a foreign flow: status %d, want 403", name, a.Code)
			}
		}
		if attacker.Get("/next?attacker").Code != http.StatusOK || attacker.IsSignedIn() {
			t.Error("the attacker's browser is signed in")
		}
		h.CheckInvariants()
	})
	t.Run("attack 282: no form changes anything without its token", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b, other := h.Browser(), h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		other.SignIn(identitytest.Demo, identitytest.DemoPassword)
		ask, foreign := b.Get("/sign-out"), other.Get("/sign-out")
		old := ask.CSRF()
		b.Post(ask)
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		for name, csrf := range map[string]string{"no token": "", "foreign token": foreign.CSRF(), "token of an older session": old} {
			a := b.Do(http.MethodPost, "/sign-out", url.Values{"csrf": {csrf}}.Encode())
			if a.Code != http.StatusForbidden || !b.IsSignedIn() {
				t.Errorf("sign-out with %s: status %d, signed in %t, want 403 and no change", name, a.Code, b.IsSignedIn())
			}
		}
		b.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := b.Post(b.Get("/sign-out")); a.Code != http.StatusForbidden || !b.IsSignedIn() {
			t.Errorf("sign-out from another site: status %d, signed in %t", a.Code, b.IsSignedIn())
		}
		b.Header = nil
		for _, target := range []string{"/sign-out?csrf=" + old, "/sign-out?x=1"} {
			if b.Get(target); !b.IsSignedIn() {
				t.Errorf("GET %s signs out", target)
			}
		}
		h.CheckInvariants()
	})
}

func TestNobodyLearnsWhoExists(t *testing.T) {
	t.Parallel()
	t.Run("attack 218: every refusal is the same refusal, at the same cost", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t, func(c *identity.Config) {
			c.Persons = nil
			for _, n := range []string{"person-a", "person-b", "person-c", "person-e"} {
				c.Persons = append(c.Persons, person.NewPerson{Username: n, Password: secret.New(identitytest.DemoPassword)})
			}
			c.Persons = append(c.Persons, person.NewPerson{Username: "person-d"})
		})
		for name, state := range map[string]person.State{"person-b": person.Blocked, "person-c": person.Inactive, "person-e": person.Removed} {
			if err := h.Person.SetState(t.Context(), name, state, identitytest.Admin); err != nil {
				t.Fatal(err)
			}
		}
		// The flow, the CSRF token and the typed username differ between answers on purpose.
		normal := func(a *identitytest.Answer, username string) string {
			body := strings.ReplaceAll(a.Body.String(), a.CSRF(), "TOKEN")
			body = strings.ReplaceAll(body, `value="`+username+`"`, "USERNAME")
			return strings.ReplaceAll(body, strings.TrimPrefix(a.URL, "/sign-in?flow="), "FLOW")
		}
		var first string
		var firstHeader http.Header
		for _, c := range []struct{ name, username, password string }{
			{"wrong password", "person-a", "wrong password."},
			{"unknown", "person-x", identitytest.DemoPassword},
			{"blocked, wrong password", "person-b", "wrong password."}, // the right one: TestBlockedWithTheRightPassword
			{"inactive", "person-c", identitytest.DemoPassword},
			{"no password", "person-d", identitytest.DemoPassword},
			{"removed", "person-e", identitytest.DemoPassword},
			{"not a username", "person x", identitytest.DemoPassword},
		} {
			b := h.Browser()
			b.Address = "192.0.2.1:1"
			form := b.Get("/next")
			before := h.Hasher.Computed()
			a := b.Post(form, "username", c.username, "password", c.password)
			if n := h.Hasher.Computed() - before; n != 1 {
				t.Errorf("%s: %d hashes computed, want 1", c.name, n)
			}
			if a.Code != http.StatusUnprocessableEntity || len(a.Result().Cookies()) != 0 {
				t.Errorf("%s: status %d, cookies %v, want 422 and none", c.name, a.Code, a.Result().Cookies())
			}
			got := normal(a, c.username)
			if first == "" {
				first, firstHeader = got, a.Header()
			}
			if got != first {
				t.Errorf("%s: the page differs:\n%s\nfrom\n%s", c.name, got, first)
			}
			for k := range firstHeader {
				if a.Header().Get(k) != firstHeader.Get(k) {
					t.Errorf("%s: header %s = %q, want %q", c.name, k, a.Header().Get(k), firstHeader.Get(k))
				}
			}
			if len(a.Header()) != len(firstHeader) {
				t.Errorf("%s: headers %v, want %v", c.name, a.Header(), firstHeader)
			}
		}
		h.CheckInvariants()
	})
	t.Run("attack 226: twins of a password do not sign in for each other", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("p", 72)
		h := identitytest.New(t, func(c *identity.Config) {
			c.Persons = []person.NewPerson{
				{Username: "long", Password: secret.New(long + "1")},
				{Username: "accent", Password: secret.New("caf\u00e9 au lait")},
				{Username: "space", Password: secret.New(" low clouds ")},
				{Username: "max", Password: secret.New(strings.Repeat("mist", 64))},
			}
		})
		for _, c := range []struct {
			username, password string
			ok                 bool
		}{
			{"long", long + "2", false},
			{"long", long, false},
			{"long", long + "1", true},
			{"long", long + "1\x00", false},
			{"accent", "cafe\u0301 au lait", true},
			{"accent", "caf\u00e9 au lait", true},
			{"accent", "cafe au lait", false},
			{"space", "low clouds", false},
			{"space", " low clouds ", true},
			{"max", strings.Repeat("mist", 64) + "s", false},
			{"max", strings.Repeat("mist", 64), true},
		} {
			before := h.Hasher.Computed()
			a := h.Browser().Try(c.username, c.password)
			if (a.Code == http.StatusSeeOther) != c.ok || (!c.ok && a.Code != http.StatusUnprocessableEntity) {
				t.Errorf("%s with %.20q (%d bytes): status %d, want ok %t", c.username, c.password, len(c.password), a.Code, c.ok)
			}
			if n := h.Hasher.Computed() - before; n > 1 {
				t.Errorf("%s: %d hashes computed, want at most one", c.username, n)
			}
		}
		before := h.Hasher.Computed()
		if a := h.Browser().Try("long", strings.Repeat("p", 1<<20)); a.Code != http.StatusRequestEntityTooLarge || h.Hasher.Computed() != before {
			t.Errorf("password of 1 MB: status %d, want 413 and no hash", a.Code)
		}
		h.CheckInvariants()
	})
}

func TestWhatPagesGiveAway(t *testing.T) {
	t.Parallel()
	t.Run("attack 284: no page and no URL repeats a secret", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		form := b.Get("/next")
		bad := b.Post(form, "username", "somebody", "password", "hunter2 hunter2")
		good := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword)
		pages := []*identitytest.Answer{form, bad, good, b.Get("/account"), b.Get("/sign-out"), b.Get("/nothing")}
		for _, a := range pages {
			text := a.URL + a.Header().Get("Location") + a.Body.String()
			for _, s := range []string{"hunter2", identitytest.DemoPassword, b.Session(), b.Cookie("browser"), b.Cookie("device")} {
				if s == "" || strings.Contains(text, s) {
					t.Errorf("GET %s repeats a secret (or there is none)", a.URL)
				}
			}
		}
		h.CheckInvariants()
	})
	t.Run("attack 279: pages of a person are not kept", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		form := b.Get("/next")
		for _, a := range []*identitytest.Answer{
			form, b.Post(form, "username", identitytest.Demo, "password", "wrong"),
			b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword), b.Get("/account"), b.Get("/sign-out"),
		} {
			if a.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s: Cache-Control %q, want no-store", a.URL, a.Header().Get("Cache-Control"))
			}
		}
	})
	t.Run("attack 213: what is typed stays on one log line", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		b.Header = http.Header{"User-Agent": {"x\x1b[31m\r\nevil=1" + strings.Repeat("a", 10_000)}}
		for _, username := range []string{
			"a\r\nlevel=error", "\x1b[2J", "{env.HOME}", "{{.}}", "'; DROP TABLE",
			strings.Repeat("a", 5000), "\u202eevil",
		} {
			if a := b.Try(username, "hunter2 hunter2"); a.Code != http.StatusUnprocessableEntity && a.Code != http.StatusTooManyRequests {
				t.Errorf("username %.20q: status %d, want 422", username, a.Code)
			}
		}
		for _, e := range h.Logs.All() {
			for k, v := range e.ContextMap() {
				if s := identitytest.ToString(v); e.Level > zap.InfoLevel || strings.ContainsAny(s, "\r\n\x1b") || len(s) > 1000 ||
					strings.Contains(s, "hunter2") {
					t.Errorf("log %q: %s = %q", e.Message, k, s)
				}
			}
		}
		h.CheckInvariants()
	})
	t.Run("attack 288: what is not there and what is malformed has one page", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		want := b.Get("/nothing").Body.String()
		for _, path := range []string{"/sign-in/", "/sign-outs", "/account/x", "/accountx", "/sign-in/account/x"} {
			if a := b.Get(path); a.Code != http.StatusNotFound || a.Body.String() != want {
				t.Errorf("GET %s: status %d, want the 404 page", path, a.Code)
			}
		}
		form := b.Get("/next")
		for _, body := range []string{"%zz", "username=a&username=b&csrf=" + form.CSRF(), "username=%ff&csrf=" + form.CSRF(), "a;b"} {
			if a := b.Do(http.MethodPost, form.URL, body); a.Code != http.StatusBadRequest {
				t.Errorf("POST %.20q: status %d, want 400", body, a.Code)
			}
		}
		h.CheckInvariants()
	})
}
