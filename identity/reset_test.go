package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// resettable returns a harness where people can reset their password.
func resettable(t *testing.T, change ...func(*identity.Config)) (*harness, *config.Units, *notifytest.Notices) {
	t.Helper()
	h := newHarness(t, change...)
	u := config.Defaults()
	u.Features.PasswordResetEnabled = true
	h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	h.notices = new(notifytest.Notices)
	h.start()
	return h, &u, h.notices
}

const freshPassword = "staple battery 2"

// forget requests a new password from the sign-in page.
func (b *browser) forget(username string) *answer {
	b.h.t.Helper()
	page := b.get("/next")
	_, rest, ok := strings.Cut(page.Body.String(), `href="/forgot`)
	if !ok {
		b.h.t.Fatalf("the sign-in page leads to no new password:\n%s", page.Body)
	}
	path, _, _ := strings.Cut(rest, `"`)
	return b.post(b.get("/forgot"+strings.ReplaceAll(path, "&amp;", "&")), "username", username)
}

// link returns the path of the one link that was sent.
func (h *harness) link(kind notify.Kind, to string) string {
	h.t.Helper()
	list := h.notices.Take()
	if len(list) != 1 || list[0].Kind != kind || list[0].To != to || list[0].Link == "" {
		h.t.Fatalf("sent: %+v, want one %s to %s", list, kind, to)
	}
	return list[0].Link
}

// TestForgotTooMany: the page that asks people to try again later leads back to their sign-in.
func TestForgotTooMany(t *testing.T) {
	t.Parallel()
	h, _, _ := resettable(t)
	h.admit = func(r *http.Request) bool { return r.Method != http.MethodPost }
	h.start()
	b := h.browser()
	if a := b.forget(demo); a.Code != http.StatusServiceUnavailable || !strings.Contains(a.Body.String(), `href="/forgot?flow=`) {
		t.Errorf("= %d, want 503 and the way back:\n%s", a.Code, a.Body)
	}
}

func TestReset(t *testing.T) {
	t.Parallel()
	h, u, box := resettable(t)
	elsewhere, b := h.browser(), h.browser()
	elsewhere.signIn(demo, demoPassword)
	a := b.forget("DEMO@example.com")
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST /forgot = %d:\n%s", a.Code, a.Body)
	}
	if sent := b.get(a.Header().Get("Location")); sent.Code != http.StatusOK || strings.Contains(sent.Body.String(), "demo@") {
		t.Errorf("afterwards: %d\n%s", sent.Code, sent.Body)
	}
	link := h.link(notify.ResetLink, demo)
	page := b.get(link)
	if page.Code != http.StatusOK || page.url != "/reset" || !strings.Contains(page.Body.String(), demo) {
		t.Fatalf("GET of the link = %d at %s:\n%s", page.Code, page.url, page.Body)
	}
	if a := b.post(page, "password", "short"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "8 to 256 characters") {
		t.Errorf("a short password = %d:\n%s", a.Code, a.Body)
	}
	if a := b.post(page, "password", ""); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no password = %d", a.Code)
	}
	a = b.post(page, "password", freshPassword)
	if a.Code != http.StatusSeeOther {
		t.Fatalf("POST of the new password = %d:\n%s", a.Code, a.Body)
	}
	done := b.get(a.Header().Get("Location"))
	_, rest, ok := strings.Cut(done.Body.String(), `href="/sign-in?flow=`)
	if !ok {
		t.Fatalf("afterwards: %d\n%s", done.Code, done.Body)
	}
	flow, _, _ := strings.Cut(rest, `"`)
	signIn := b.get("/sign-in?flow=" + strings.ReplaceAll(flow, "&amp;", "&"))
	if !strings.Contains(signIn.Body.String(), `value="demo@example.com"`) {
		t.Errorf("the sign-in page does not know the username:\n%s", signIn.Body)
	}
	if a := b.post(signIn, "username", demo, "password", freshPassword); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next" {
		t.Errorf("sign-in with the new password = %d to %s", a.Code, a.Header().Get("Location"))
	}
	if elsewhere.isSignedIn() {
		t.Error("a session of before is alive")
	}
	if a := h.browser().try(demo, demoPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("the old password = %d", a.Code)
	}
	if ev := h.events(); ev["person.PasswordResetRequestedEvent"] != 1 || ev["person.PasswordResetEvent"] != 1 || ev["person.PasswordChangedEvent"] != 1 {
		t.Errorf("events: %v", ev)
	}
	if list := box.Take(); len(list) != 0 {
		t.Errorf("told: %+v", list)
	}

	u.Features.PasswordResetEnabled = false
	c := h.browser()
	if a := c.get("/forgot"); a.Code != http.StatusNotFound || strings.Contains(c.get("/next").Body.String(), "/forgot") {
		t.Errorf("switched off = %d", a.Code)
	}
	u.Features.PasswordResetEnabled = true
	h.notices = nil
	h.start()
	if a := c.get("/forgot"); a.Code != http.StatusNotFound {
		t.Errorf("without anything to send by = %d", a.Code)
	}
	h.checkInvariants()
}

// TestResetByAddress: a reset by e-mail address sends a link to every person with that address.
func TestResetByAddress(t *testing.T) {
	t.Parallel()
	h, _, box := resettable(t)
	verified := true
	h.add(person.NewPerson{Username: "ann", Email: "Ann@example.com", EmailVerified: &verified, Password: secret.New(demoPassword)})
	h.add(person.NewPerson{Username: "ann2", Email: "ann@example.com", EmailVerified: &verified, Password: secret.New(demoPassword), Inactive: true})
	h.add(person.NewPerson{Username: "bob", Password: secret.New(demoPassword)})
	for name, c := range map[string]struct {
		typed string
		want  []string
	}{
		"two who share it":         {"ann@example.com", []string{"reset_link Ann@example.com", "reset_link ann@example.com"}},
		"a username":               {"ann", []string{"reset_link Ann@example.com"}},
		"somebody without address": {"bob", nil},
		"nobody":                   {"eve@example.com", nil},
		"nobody at all":            {"a b\tc", nil},
	} {
		b := h.browser()
		if a := b.forget(c.typed); a.Code != http.StatusSeeOther {
			t.Errorf("%s = %d", name, a.Code)
		}
		heard(t, name, box, c.want...)
	}
	if err := h.Person.SetState(t.Context(), "ann", person.Blocked, ops); err != nil {
		t.Fatal(err)
	}
	h.browser().forget("ann")
	heard(t, "blocked", box)
}

func TestNotifyPasswordReset(t *testing.T) {
	t.Parallel()
	h, u, box := resettable(t)
	reset := func() {
		t.Helper()
		h.clock.Advance(time.Hour)
		b := h.browser()
		b.forget(demo)
		if a := b.post(b.get(h.link(notify.ResetLink, demo)), "password", freshPassword); a.Code != http.StatusSeeOther {
			t.Fatalf("reset = %d:\n%s", a.Code, a.Body)
		}
	}
	reset()
	heard(t, "switched off", box)
	u.EmailNotifications.PasswordReset = true
	reset()
	heard(t, "switched on", box, "password_reset "+demo)
	u.EmailNotifications.AttributesUpdate.OnPasswordUpdated = true
	reset()
	heard(t, "both switches", box, "password_updated "+demo)
}

// TestResetWithoutPassword: a person who signs in at a provider has no password to reset, and is told so.
func TestResetWithoutPassword(t *testing.T) {
	t.Parallel()
	h, u, box := resettable(t)
	p := h.add(person.NewPerson{Username: "ext@example.com"})
	err := h.store.Update(t.Context(), func(tx storage.Tx) error { return h.Federation.Couple(tx, p.ID, "partner", "", "s1", h.clock.Now()) })
	if err != nil {
		t.Fatal(err)
	}
	h.browser().forget("ext@example.com")
	heard(t, "switched off", box)
	u.EmailNotifications.PasswordResetForAccountWithoutPassword = true
	h.browser().forget("ext@example.com")
	list := heard(t, "switched on", box, "reset_no_password ext@example.com")
	if n := list[0]; n.Link != "/sign-in" || n.Data["provider"] != "partner" {
		t.Errorf("notice = %+v", n)
	}
	first := h.add(person.NewPerson{Username: "new@example.com"})
	b := h.browser()
	b.forget("new@example.com")
	if a := b.post(b.get(h.link(notify.ResetLink, "new@example.com")), "password", freshPassword); a.Code != http.StatusSeeOther {
		t.Errorf("the first password of %s = %d", first.ID, a.Code)
	}
	h.browser().signIn("new@example.com", freshPassword)
}

// TestResetPartitions: a person in a partition can reset the password and sign in there.
func TestResetPartitions(t *testing.T) {
	t.Parallel()
	h, _, box := resettable(t, func(c *identity.Config) { c.Partitions.On = true })
	h.add(person.NewPerson{Username: `acme\ann@example.com`, Password: secret.New(demoPassword)})
	h.browser().forget("ann@example.com")
	heard(t, "in the default partition", box)
	b := h.browser()
	b.forget(`acme\ann@example.com`)
	page := b.get(h.link(notify.ResetLink, "ann@example.com"))
	if !strings.Contains(page.Body.String(), `acme\ann@example.com`) {
		t.Errorf("the page does not say whose password it is:\n%s", page.Body)
	}
	b.post(page, "password", freshPassword)
	h.browser().signIn(`acme\ann@example.com`, freshPassword)
}

// TestResetThrottle: requests are limited per mailbox and per network address. A person with a new password is not kept
// out by earlier wrong ones.
func TestResetThrottle(t *testing.T) {
	t.Parallel()
	h, _, box := resettable(t)
	for range 12 {
		if a := h.browser().forget(demo); a.Code != http.StatusSeeOther {
			t.Fatalf("POST /forgot = %d", a.Code)
		}
	}
	if n := len(box.Take()); n != 5 {
		t.Errorf("%d mails in no time, want 5", n)
	}
	for range 18 {
		h.browser().forget("nobody@example.com")
	}
	if a := h.browser().forget(demo); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" {
		t.Errorf("request 31 of one address = %d, Retry-After %s", a.Code, a.Header().Get("Retry-After"))
	}

	h.clock.Advance(time.Hour)
	b := h.browser()
	for range 5 {
		b.try(demo, "wrong password")
	}
	if a := b.try(demo, demoPassword); a.Code != http.StatusTooManyRequests {
		t.Fatalf("after wrong passwords = %d", a.Code)
	}
	b.forget(demo)
	b.post(b.get(h.link(notify.ResetLink, demo)), "password", freshPassword)
	b.signIn(demo, freshPassword)
}

func TestResetAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 238: sixty-four new passwords by one link at once", func(t *testing.T) {
		t.Parallel()
		h, _, _ := resettable(t)
		b := h.browser()
		b.forget(demo)
		page := b.get(h.link(notify.ResetLink, demo))
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[int]int{}
		for i := range 64 {
			wg.Go(func() {
				c := &browser{h: h, cookies: map[string]string{}, address: b.address}
				for k, v := range b.cookies {
					c.cookies[k] = v
				}
				a := c.post(page, "password", freshPassword+string(rune('A'+i)))
				mu.Lock()
				defer mu.Unlock()
				got[a.Code]++
			})
		}
		wg.Wait()
		if got[http.StatusSeeOther] != 1 || got[http.StatusSeeOther]+got[http.StatusBadRequest]+got[http.StatusServiceUnavailable] != 64 || h.events()["person.PasswordResetEvent"] != 1 {
			t.Errorf("answers %v, events %v, want one that wins", got, h.events())
		}
	})
	t.Run("attack 238: a link after its use, a newer one, its time, another password, another address, a block", func(t *testing.T) {
		t.Parallel()
		for name, kill := range map[string]func(t *testing.T, h *harness, id string){
			"a newer one": func(_ *testing.T, h *harness, _ string) { h.browser().forget("ann"); h.notices.Take() },
			"its time":    func(_ *testing.T, h *harness, _ string) { h.clock.Advance(30 * time.Minute) },
			"another password": func(t *testing.T, h *harness, id string) {
				if err := h.Person.SetPassword(t.Context(), id, secret.New(demoPassword+"x"), ops); err != nil {
					t.Fatal(err)
				}
			},
			"another address": func(t *testing.T, h *harness, id string) {
				_, err := h.Person.UpdatePerson(t.Context(), id, person.Edit{By: ops, Verified: true}, func(_ storage.Tx, d *person.Details) error {
					d.Profile.EmailAddresses = []person.EmailAddress{{Value: "other@example.com", Primary: true, Verified: true}}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			},
			"a block and its end": func(t *testing.T, h *harness, id string) {
				for _, s := range []person.State{person.Blocked, person.Active} {
					if err := h.Person.SetState(t.Context(), id, s, ops); err != nil {
						t.Fatal(err)
					}
				}
			},
			"its use": func(t *testing.T, h *harness, _ string) {
				b := h.browser()
				b.forget("ann")
				b.post(b.get(h.link(notify.ResetLink, "ann@example.com")), "password", freshPassword)
			},
			"an end of everything": func(t *testing.T, h *harness, _ string) {
				if err := h.store.Update(t.Context(), session.EndAllSessions); err != nil {
					t.Fatal(err)
				}
			},
		} {
			h, _, _ := resettable(t)
			verified := true
			p := h.add(person.NewPerson{Username: "ann", Email: "ann@example.com", EmailVerified: &verified, Password: secret.New(demoPassword)})
			b := h.browser()
			b.forget("ann")
			link := h.link(notify.ResetLink, "ann@example.com")
			page := b.get(link)
			kill(t, h, p.ID)
			before := h.events()["person.PasswordResetEvent"]
			if a := b.post(page, "password", freshPassword+"!"); a.Code != http.StatusBadRequest || h.events()["person.PasswordResetEvent"] != before {
				t.Errorf("POST after %s = %d", name, a.Code)
			}
			if a := b.get(link); a.Code != http.StatusBadRequest || !strings.Contains(a.Body.String(), `href="/forgot"`) {
				t.Errorf("GET after %s = %d:\n%s", name, a.Code, a.Body)
			}
		}
	})
	t.Run("attack 237: a scanner follows the link first; address, Referer and log", func(t *testing.T) {
		t.Parallel()
		h, _, _ := resettable(t)
		b := h.browser()
		b.forget(demo)
		link := h.link(notify.ResetLink, demo)
		token := link[strings.IndexByte(link, '=')+1:]
		for range 3 {
			scanner := h.browser()
			scanner.address = "198.51.100.9:1"
			scanner.get(link)
			scanner.do(http.MethodHead, link, "")
		}
		a := b.do(http.MethodGet, link, "")
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/reset" || a.Header().Get("Referrer-Policy") != "no-referrer" || a.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("GET of the link = %d %v", a.Code, a.Header())
		}
		page := b.get("/reset")
		if strings.Contains(page.Body.String(), token) {
			t.Error("the page repeats the token")
		}
		if a := b.post(page, "password", freshPassword); a.Code != http.StatusSeeOther {
			t.Errorf("the link after the scanner = %d", a.Code)
		}
		for _, e := range h.logs.All() {
			for k, v := range e.ContextMap() {
				if strings.Contains(toString(v), token) || strings.Contains(toString(v), freshPassword) {
					t.Errorf("%s: %s tells a secret", e.Message, k)
				}
			}
		}
		for key, value := range h.dump() {
			if strings.Contains(key+value, token) {
				t.Errorf("%q holds the token", key)
			}
		}
	})
	t.Run("attack 231: the link of one thing for another, a flipped bit, no link", func(t *testing.T) {
		t.Parallel()
		h, _, _ := resettable(t)
		b := h.browser()
		b.forget(demo)
		link := h.link(notify.ResetLink, demo)
		flipped := []byte(link)
		flipped[20] ^= 1
		for _, target := range []string{string(flipped), "/reset", "/reset?token=", "/reset?token=ghml_" + strings.Repeat("A", 49), "/reset?token=" + strings.Repeat("x", 10000)} {
			if a := h.browser().get(target); a.Code != http.StatusBadRequest {
				t.Errorf("GET %.60s = %d", target, a.Code)
			}
		}
	})
	t.Run("attack 282: the forms without their tokens, of another browser, of another link", func(t *testing.T) {
		t.Parallel()
		h, _, _ := resettable(t)
		b, other := h.browser(), h.browser()
		b.forget(demo)
		page := b.get(h.link(notify.ResetLink, demo))
		body := url.Values{"password": {freshPassword}}.Encode()
		if a := b.do(http.MethodPost, "/reset", body); a.Code != http.StatusForbidden {
			t.Errorf("without a token = %d", a.Code)
		}
		other.get("/forgot")
		if a := other.do(http.MethodPost, "/reset", url.Values{"password": {freshPassword}, "csrf": {page.csrf()}}.Encode()); a.Code != http.StatusBadRequest {
			t.Errorf("of another browser = %d", a.Code)
		}
		if a := b.do(http.MethodPost, "/forgot", url.Values{"username": {demo}, "csrf": {page.csrf()}}.Encode()); a.Code != http.StatusForbidden {
			t.Errorf("the token of another form = %d", a.Code)
		}
		if n := h.events()["person.PasswordResetEvent"]; n != 0 {
			t.Errorf("%d passwords changed", n)
		}
	})
	t.Run("attack 219: somebody and nobody get one answer, with the same work behind it", func(t *testing.T) {
		t.Parallel()
		h, _, _ := resettable(t)
		h.add(person.NewPerson{Username: "blocked@example.com", Password: secret.New(demoPassword)})
		if err := h.Person.SetState(t.Context(), "blocked@example.com", person.Blocked, ops); err != nil {
			t.Fatal(err)
		}
		shape := func(typed string) (int, string, int) {
			b := h.browser()
			before := len(h.dump())
			a := b.post(b.get("/forgot"), "username", typed)
			return a.Code, a.Header().Get("Location") + b.get(a.Header().Get("Location")).Body.String(), len(h.dump()) - before
		}
		shape("the first one writes more")
		code, text, records := shape(demo)
		for _, typed := range []string{"nobody@example.com", "nobody", "blocked@example.com", "x\x00y", strings.Repeat("ä", 5000)} {
			if c, b, n := shape(typed); c != code || b != text || n < records-1 || n > records {
				t.Errorf("%.20q: %d and %d records, want %d and %d", typed, c, n, code, records)
			}
		}
	})
	t.Run("attack 236: the link does not follow Host and its like", func(t *testing.T) {
		t.Parallel()
		h, _, _ := resettable(t)
		b := h.browser()
		page := b.get("/forgot")
		b.header = http.Header{
			"X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Port": {"81"}, "Forwarded": {"host=evil.example;proto=http"},
			"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/x-www-form-urlencoded"},
		}
		b.post(page, "username", demo)
		if link := h.link(notify.ResetLink, demo); !strings.HasPrefix(link, "/reset?token=ghml_") {
			t.Errorf("link = %s", link)
		}
	})
	t.Run("attack 239: addresses that are more than one, or a header", func(t *testing.T) {
		t.Parallel()
		h, _, box := resettable(t)
		for _, typed := range []string{demo + ",eve@example.com", demo + "\r\nBcc: eve@example.com", `"` + demo + `" <eve@example.com>`, "[\"" + demo + "\",\"eve@example.com\"]", demo + "\x00"} {
			b := h.browser()
			if a := b.post(b.get("/forgot"), "username", typed); a.Code != http.StatusSeeOther {
				t.Errorf("%q = %d", typed, a.Code)
			}
			heard(t, typed, box)
		}
	})
	t.Run("attack 226: the policy holds for a reset", func(t *testing.T) {
		t.Parallel()
		h, u, _ := resettable(t)
		u.PasswordPolicy = config.PasswordPolicy{MinLength: 10, MaxLength: 20, LowerCaseCharRequired: true, UpperCaseCharRequired: true, SpecialCharRequired: true}
		b := h.browser()
		b.forget(demo)
		page := b.get(h.link(notify.ResetLink, demo))
		for _, password := range []string{"Aa!456789", "Aa!" + strings.Repeat("5", 18), "AA!4567890", "aa!4567890", "Aa34567890", "Aa!4567\x00890"} {
			if a := b.post(page, "password", password); a.Code != http.StatusUnprocessableEntity || strings.Contains(a.Body.String(), password) {
				t.Errorf("%q = %d", password, a.Code)
			}
		}
		if a := b.post(page, "password", strings.Repeat("Aa!4567890", 100_000)); a.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("a megabyte = %d", a.Code)
		}
		if a := b.post(page, "password", "Aa!4567890"); a.Code != http.StatusSeeOther {
			t.Errorf("a good one = %d:\n%s", a.Code, a.Body)
		}
	})
}
