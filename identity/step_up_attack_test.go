package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
)

func TestStepUpAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: of a hundred codes at once five are looked at", func(t *testing.T) {
		t.Parallel()
		h, _ := stepping(t, 3)
		set := h.plain()
		secret, _, _ := set.app(authenticatorPage)
		b := h.plain()
		page := b.get("/next")
		b.hundred(page, wrongFor(h.code(secret)))
		if a := b.post(page, "code", h.code(secret)); a.Code != http.StatusTooManyRequests {
			t.Errorf("the right code while nothing is taken = %d", a.Code)
		}
	})
	t.Run("attack 221: a password that is right does not set back the tries of codes", func(t *testing.T) {
		t.Parallel()
		h, _ := stepping(t, 3)
		set := h.plain()
		set.app(authenticatorPage)
		b := h.browser()
		looked := 0
		for range 4 {
			b.plain()
			page := b.get("/next")
			for range 3 {
				if a := b.post(page, "code", "000000"); a.Code == http.StatusUnprocessableEntity {
					looked++
				}
			}
			b.post(b.get("/sign-out"))
		}
		if looked != 5 {
			t.Errorf("%d codes were looked at, want 5", looked)
		}
	})
	t.Run("attack 222: codes and passwords share one counter", func(t *testing.T) {
		t.Parallel()
		h, _ := stepping(t, 3)
		set := h.plain()
		set.app(authenticatorPage)
		b := h.plain()
		form := b.get("/next")
		for range 5 {
			b.post(form, "code", "000000")
		}
		b.post(b.get("/sign-out"))
		if a := b.post(b.get("/next?plain=1"), "username", demo, "password", demoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("a password after five wrong codes = %d, want 429", a.Code)
		}
	})
	t.Run("attack 266: a code is taken once, by one of several sessions at once", func(t *testing.T) {
		t.Parallel()
		h, _ := stepping(t, 3)
		set := h.plain()
		secret, _, _ := set.app(authenticatorPage)
		code := h.code(secret)
		var browsers []*browser
		for range 4 {
			b := h.plain()
			browsers = append(browsers, b)
		}
		var wg sync.WaitGroup
		raised := make([]int, len(browsers))
		for i, b := range browsers {
			page := b.get("/next")
			wg.Go(func() { raised[i] = b.post(page, "code", code).Code })
		}
		wg.Wait()
		n := 0
		for _, c := range raised {
			if c == http.StatusSeeOther {
				n++
			}
		}
		if n != 1 {
			t.Errorf("one code has raised %d sessions: %v", n, raised)
		}
		h.clock.Advance(30 * time.Second)
		b := h.plain()
		if a := b.post(b.get("/next"), "code", code); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("the code of the step before, used already = %d", a.Code)
		}
	})
	t.Run("attack 266: a session of level 1 cannot change what an account with more has", func(t *testing.T) {
		t.Parallel()
		h, _ := stepping(t, 3)
		waiting := h.browser() // a thief who already has the page open
		waiting.plain()
		open := waiting.get(authenticatorPage)
		stolen := strings.ReplaceAll(shownSecret.FindStringSubmatch(open.Body.String())[1], " ", "")

		set := h.plain()
		set.app(authenticatorPage)
		before := h.dump()
		for what, a := range map[string]*answer{
			"a second app":       waiting.post(open, "code", h.code(stolen)),
			"the app's page":     waiting.do(http.MethodGet, authenticatorPage, ""),
			"the removal":        waiting.do(http.MethodPost, "/account/security/remove?method=authenticator", "csrf="+open.csrf()),
			"new recovery codes": waiting.do(http.MethodPost, "/account/security/recovery", "csrf="+open.csrf()),
			"a forged level":     waiting.do(http.MethodGet, "/account/security/recovery?level=4&amr=FINGER_PRINT&acr=4", ""),
		} {
			if a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
				t.Errorf("%s with a password alone = %d to %q:\n%s", what, a.Code, a.Header().Get("Location"), a.Body)
			}
		}
		for key, value := range h.dump() {
			if strings.HasPrefix(key, stepUpKey) && before[key] != value {
				t.Errorf("%q has changed", key)
			}
		}
	})
	t.Run("attack 266: a step-up belongs to its browser, person and form", func(t *testing.T) {
		t.Parallel()
		h, _ := stepping(t, 3)
		set := h.plain()
		secret, _, _ := set.app(authenticatorPage)
		b, other := h.plain(), h.plain()
		page := b.get("/next")
		if a := other.get(page.url); a.Code != http.StatusForbidden {
			t.Errorf("the step-up of another browser = %d", a.Code)
		}
		mine := other.get("/next")
		forged := other.do(http.MethodPost, mine.url+"&method=authenticator", url.Values{"csrf": {page.csrf()}, "code": {h.code(secret)}}.Encode())
		if forged.Code != http.StatusForbidden {
			t.Errorf("a form with the token of another = %d", forged.Code)
		}
		other.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := other.post(mine, "code", h.code(secret)); a.Code != http.StatusForbidden {
			t.Errorf("a form from another site = %d", a.Code)
		}
		h.wantLevel(other, 1)
		b.post(b.get("/sign-out"))
		if a := b.post(page, "code", h.code(secret)); a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-in?") {
			t.Errorf("a step-up after sign-out = %d to %q", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("attack 269: who takes the name of a removed person has none of their methods", func(t *testing.T) {
		t.Parallel()
		h, _ := stepping(t, 3)
		b := h.plain()
		b.app(authenticatorPage)
		has := func() (n int) {
			for key := range h.dump() {
				if strings.HasPrefix(key, stepUpKey) {
					n++
				}
			}
			return n
		}
		if n := has(); n != 1 {
			t.Fatalf("%d records of methods, want 1", n)
		}
		if err := h.Person.SetState(t.Context(), demo, person.Removed, event.Actor{}); err != nil {
			t.Fatal(err)
		}
		if n := has(); n != 0 {
			t.Errorf("%d records of methods are still there", n)
		}
	})
}
