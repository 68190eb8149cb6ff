package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestForgedForms(t *testing.T) {
	t.Parallel()
	t.Run("attack 26: a sign-in form is only taken from its own page and browser", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		other := h.browser().get("/next")
		for name, c := range map[string]struct {
			header http.Header
			csrf   string // "": the one of the page
		}{
			"no token":        {csrf: "-"},
			"another token":   {csrf: other.csrf()},
			"evil origin":     {header: http.Header{"Sec-Fetch-Site": nil, "Origin": {"https://evil.example"}}},
			"no origin":       {header: http.Header{"Sec-Fetch-Site": nil}},
			"cross-site":      {header: http.Header{"Sec-Fetch-Site": {"cross-site"}}},
			"cross-site lies": {header: http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {issuer}}},
			"text/plain":      {header: http.Header{"Content-Type": {"text/plain"}}},
		} {
			b := h.browser()
			form := b.get("/next")
			fields := []string{"username", demo, "password", demoPassword}
			if c.csrf != "" {
				fields = append(fields, "csrf", strings.Trim(c.csrf, "-"))
			}
			b.header = c.header
			if a := b.post(form, fields...); a.Code != http.StatusForbidden || b.session() != "" {
				t.Errorf("%s: status %d, session cookie %t, want 403 and none", name, a.Code, b.session() != "")
			}
			b.header = nil
			if a := b.post(form, fields[:4]...); a.Code != http.StatusSeeOther {
				t.Errorf("%s: afterwards the right form has status %d, want 303", name, a.Code)
			}
		}
		h.checkInvariants()
	})
	t.Run("attack 28: a flow belongs to the browser that started it", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		attacker := h.browser()
		form := attacker.get("/next?attacker")
		stranger, victim := h.browser(), h.browser()
		victim.get("/next") // has its own browser cookie
		for name, b := range map[string]*browser{"no cookie": stranger, "own cookie": victim} {
			a := b.do(http.MethodGet, form.url, "")
			if a.Code != http.StatusForbidden || strings.Contains(a.Body.String(), "/next?attacker") {
				t.Errorf("%s: GET of a foreign flow: status %d, want 403 and no way into it:\n%s", name, a.Code, a.Body)
			}
			if a := b.post(form, "username", demo, "password", demoPassword); a.Code != http.StatusForbidden || b.session() != "" {
				t.Errorf("%s: POST into a foreign flow: status %d, want 403", name, a.Code)
			}
		}
		if attacker.get("/next?attacker").Code != http.StatusOK || attacker.isSignedIn() {
			t.Error("the attacker's browser is signed in")
		}
		h.checkInvariants()
	})
	t.Run("attack 282: no form changes anything without its token", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b, other := h.browser(), h.browser()
		b.signIn(demo, demoPassword)
		other.signIn(demo, demoPassword)
		ask, foreign := b.get("/sign-out"), other.get("/sign-out")
		old := ask.csrf()
		b.post(ask)
		b.signIn(demo, demoPassword)
		for name, csrf := range map[string]string{"no token": "", "foreign token": foreign.csrf(), "token of an older session": old} {
			a := b.do(http.MethodPost, "/sign-out", url.Values{"csrf": {csrf}}.Encode())
			if a.Code != http.StatusForbidden || !b.isSignedIn() {
				t.Errorf("sign-out with %s: status %d, signed in %t, want 403 and no change", name, a.Code, b.isSignedIn())
			}
		}
		b.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := b.post(b.get("/sign-out")); a.Code != http.StatusForbidden || !b.isSignedIn() {
			t.Errorf("sign-out from another site: status %d, signed in %t", a.Code, b.isSignedIn())
		}
		b.header = nil
		for _, target := range []string{"/sign-out?csrf=" + old, "/sign-out?x=1"} {
			if b.get(target); !b.isSignedIn() {
				t.Errorf("GET %s signs out", target)
			}
		}
		h.checkInvariants()
	})
}

func TestNobodyLearnsWhoExists(t *testing.T) {
	t.Parallel()
	t.Run("attack 218: every refusal is the same refusal, at the same cost", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, func(c *identity.Config) {
			c.Persons = nil
			for _, n := range []string{"person-a", "person-b", "person-c", "person-e"} {
				c.Persons = append(c.Persons, person.NewPerson{Username: n, Password: secret.New(demoPassword)})
			}
			c.Persons = append(c.Persons, person.NewPerson{Username: "person-d"})
		})
		for name, state := range map[string]person.State{"person-b": person.Blocked, "person-c": person.Inactive, "person-e": person.Removed} {
			if err := h.Person.SetState(t.Context(), name, state, admin); err != nil {
				t.Fatal(err)
			}
		}
		// The flow, the CSRF token and the typed username differ between answers on purpose.
		normal := func(a *answer, username string) string {
			body := strings.ReplaceAll(a.Body.String(), a.csrf(), "TOKEN")
			body = strings.ReplaceAll(body, `value="`+username+`"`, "USERNAME")
			return strings.ReplaceAll(body, strings.TrimPrefix(a.url, "/sign-in?flow="), "FLOW")
		}
		var first string
		var firstHeader http.Header
		for _, c := range []struct{ name, username, password string }{
			{"wrong password", "person-a", "wrong password."},
			{"unknown", "person-x", demoPassword},
			{"blocked, wrong password", "person-b", "wrong password."}, // the right one: TestBlockedWithTheRightPassword
			{"inactive", "person-c", demoPassword},
			{"no password", "person-d", demoPassword},
			{"removed", "person-e", demoPassword},
			{"not a username", "person x", demoPassword},
		} {
			b := h.browser()
			b.address = "192.0.2.1:1"
			form := b.get("/next")
			before := h.hasher.Computed()
			a := b.post(form, "username", c.username, "password", c.password)
			if n := h.hasher.Computed() - before; n != 1 {
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
		h.checkInvariants()
	})
	t.Run("attack 226: twins of a password do not sign in for each other", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("p", 72)
		h := newHarness(t, func(c *identity.Config) {
			c.Persons = []person.NewPerson{
				{Username: "long", Password: secret.New(long + "1")},
				{Username: "accent", Password: secret.New("caf\u00e9 au lait")},
				{Username: "space", Password: secret.New(" 12345678 ")},
				{Username: "max", Password: secret.New(strings.Repeat("m", 256))},
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
			{"space", "12345678", false},
			{"space", " 12345678 ", true},
			{"max", strings.Repeat("m", 257), false},
			{"max", strings.Repeat("m", 256), true},
		} {
			before := h.hasher.Computed()
			a := h.browser().try(c.username, c.password)
			if (a.Code == http.StatusSeeOther) != c.ok || (!c.ok && a.Code != http.StatusUnprocessableEntity) {
				t.Errorf("%s with %.20q (%d bytes): status %d, want ok %t", c.username, c.password, len(c.password), a.Code, c.ok)
			}
			if n := h.hasher.Computed() - before; n > 1 {
				t.Errorf("%s: %d hashes computed, want at most one", c.username, n)
			}
		}
		before := h.hasher.Computed()
		if a := h.browser().try("long", strings.Repeat("p", 1<<20)); a.Code != http.StatusRequestEntityTooLarge || h.hasher.Computed() != before {
			t.Errorf("password of 1 MB: status %d, want 413 and no hash", a.Code)
		}
		h.checkInvariants()
	})
}

func TestWhatPagesGiveAway(t *testing.T) {
	t.Parallel()
	t.Run("attack 284: no page and no URL repeats a secret", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.browser()
		form := b.get("/next")
		bad := b.post(form, "username", "somebody", "password", "hunter2 hunter2")
		good := b.post(form, "username", demo, "password", demoPassword)
		pages := []*answer{form, bad, good, b.get("/account"), b.get("/sign-out"), b.get("/nothing")}
		for _, a := range pages {
			text := a.url + a.Header().Get("Location") + a.Body.String()
			for _, s := range []string{"hunter2", demoPassword, b.session(), b.cookie("browser"), b.cookie("device")} {
				if s == "" || strings.Contains(text, s) {
					t.Errorf("GET %s repeats a secret (or there is none)", a.url)
				}
			}
		}
		h.checkInvariants()
	})
	t.Run("attack 279: pages of a person are not kept", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.browser()
		form := b.get("/next")
		for _, a := range []*answer{form, b.post(form, "username", demo, "password", "wrong"), b.post(form, "username", demo, "password", demoPassword), b.get("/account"), b.get("/sign-out")} {
			if a.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%s: Cache-Control %q, want no-store", a.url, a.Header().Get("Cache-Control"))
			}
		}
	})
	t.Run("attack 213: what is typed stays on one log line", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.browser()
		b.header = http.Header{"User-Agent": {"x\x1b[31m\r\nevil=1" + strings.Repeat("a", 10_000)}}
		for _, username := range []string{"a\r\nlevel=error", "\x1b[2J", "{env.HOME}", "{{.}}", "'; DROP TABLE", strings.Repeat("a", 5000), "\u202eevil"} {
			if a := b.try(username, "hunter2 hunter2"); a.Code != http.StatusUnprocessableEntity && a.Code != http.StatusTooManyRequests {
				t.Errorf("username %.20q: status %d, want 422", username, a.Code)
			}
		}
		for _, e := range h.logs.All() {
			for k, v := range e.ContextMap() {
				if s := toString(v); e.Level > zap.InfoLevel || strings.ContainsAny(s, "\r\n\x1b") || len(s) > 1000 || strings.Contains(s, "hunter2") {
					t.Errorf("log %q: %s = %q", e.Message, k, s)
				}
			}
		}
		h.checkInvariants()
	})
	t.Run("attack 288: what is not there and what is malformed has one page", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.browser()
		want := b.get("/nothing").Body.String()
		for _, path := range []string{"/sign-in/", "/sign-outs", "/account/x", "/accountx", "/sign-in/account/x"} {
			if a := b.get(path); a.Code != http.StatusNotFound || a.Body.String() != want {
				t.Errorf("GET %s: status %d, want the 404 page", path, a.Code)
			}
		}
		form := b.get("/next")
		for _, body := range []string{"%zz", "username=a&username=b&csrf=" + form.csrf(), "username=%ff&csrf=" + form.csrf(), "a;b"} {
			if a := b.do(http.MethodPost, form.url, body); a.Code != http.StatusBadRequest {
				t.Errorf("POST %.20q: status %d, want 400", body, a.Code)
			}
		}
		h.checkInvariants()
	})
}
