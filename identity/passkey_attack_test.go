package identity_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refused asserts that an answer is a refusal and that nobody was signed in.
func (b *browser) refused(what string, a *answer) {
	b.h.t.Helper()
	if a.Code != http.StatusUnprocessableEntity || b.session() != "" {
		b.h.t.Errorf("%s: status %d, session %t, want 422 and none:\n%s", what, a.Code, b.session() != "", a.Body)
	}
}

// TestForgedAssertions: a passkey's answer that was tampered with in any part signs nobody in, and the genuine answer
// still works afterwards.
func TestForgedAssertions(t *testing.T) {
	t.Parallel()
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b = bytes.Clone(b)
			b[(at+len(b))%len(b)] ^= 1
			return b
		}
	}
	say := func(name string, value any) func(*token) {
		return func(k *token) { k.client = func(m map[string]any) { m[name] = value } }
	}
	tell := func(name string, value any) func(*token) {
		return func(k *token) { k.answer = func(m map[string]any) { m[name] = value } }
	}
	respond := func(name string, value any) func(*token) {
		return func(k *token) {
			k.answer = func(m map[string]any) {
				if value == nil {
					delete(m["response"].(map[string]any), name) //nolint:forcetypeassert // ours
				} else {
					m["response"].(map[string]any)[name] = value //nolint:forcetypeassert // ours
				}
			}
		}
	}
	h, k := withPasskey(t)
	stranger := newToken(t)
	for name, bend := range map[string]func(*token){
		"another origin":          func(k *token) { k.origin = "https://auth.example.com.evil.example" },
		"a port":                  func(k *token) { k.origin = issuer + ":8443" },
		"plain http":              func(k *token) { k.origin = "http://auth.example.com" },
		"a host below":            func(k *token) { k.origin = "https://evil.auth.example.com" },
		"another site in between": say("crossOrigin", true),
		"another site around": func(k *token) {
			k.client = func(m map[string]any) { m["crossOrigin"], m["topOrigin"] = true, "https://evil.example" }
		},
		"another relying party":        func(k *token) { k.rpID = "example.com" },
		"the evil relying party":       func(k *token) { k.rpID = "evil.example" },
		"no user verification":         func(k *token) { k.flags &^= userVerified },
		"no user presence":             func(k *token) { k.flags &^= userPresent },
		"backed up, not eligible":      func(k *token) { k.flags |= backedUp },
		"eligible all of a sudden":     func(k *token) { k.flags |= backupEligible },
		"another challenge":            say("challenge", b64(make([]byte, 32))),
		"no challenge":                 say("challenge", ""),
		"a signature of a new passkey": say("type", "webauthn.create"),
		"another type":                 say("type", "payment.get"),
		"a bit of the signature":       func(k *token) { k.sign = flip(-1) },
		"no signature":                 func(k *token) { k.sign = func([]byte) []byte { return nil } },
		"a bit of what is signed":      respond("authenticatorData", b64(make([]byte, 37))),
		"short data":                   respond("authenticatorData", b64(make([]byte, 36))),
		"trailing data":                func(k *token) { k.data = func(b []byte) []byte { return append(b, 0xa0) } },
		"another's key":                func(k *token) { k.key = stranger.key },
		"another's handle":             func(k *token) { k.handle = make([]byte, 32) },
		"no handle":                    func(k *token) { k.handle = nil },
		"an unknown id":                func(k *token) { k.id = stranger.id },
		"ids that differ":              tell("rawId", b64(stranger.id)),
		"an empty id":                  tell("id", ""),
		"an id of many bytes":          func(k *token) { k.id = make([]byte, 2000) },
		"an id in another alphabet":    tell("id", "+/=="),
		"another kind of credential":   tell("type", "password"),
		"no response":                  tell("response", map[string]any{}),
		"a response of text":           tell("response", "x"),
		"client data that is no JSON":  respond("clientDataJSON", b64([]byte("{"))),
		"no client data":               respond("clientDataJSON", nil),
	} {
		b := h.browser()
		b.refused(name, b.tryPasskey(k.bent(bend)))
		h.clock.Advance(time.Hour) // resets the throttle too
	}
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "x", "null": "null", "a list": "[]", "half": `{"id":"`, "deep": strings.Repeat(`{"response":`, 1000), "garbage": strings.Repeat("\x00\xff", 100),
		"16 KiB": `{"id":"` + strings.Repeat("A", 16<<10) + `"}`,
	} {
		b := h.browser()
		f := b.passkeyForm(b.get("/next"))
		a := b.answer(f, text)
		if name == "garbage" { // not valid UTF-8, so the form is malformed
			if a.Code != http.StatusBadRequest || b.session() != "" {
				t.Errorf("garbage: status %d, want 400", a.Code)
			}
		} else {
			b.refused(name, a)
		}
		h.clock.Advance(time.Hour)
	}
	if a := h.browser().tryPasskey(k); a.Code != http.StatusSeeOther {
		t.Errorf("afterwards the right answer has status %d:\n%s", a.Code, a.Body)
	}
	h.checkInvariants()
}

// TestPasskeyChallenges: an answer is valid once, for one flow, in one browser, and for five minutes.
func TestPasskeyChallenges(t *testing.T) {
	t.Parallel()
	t.Run("an answer is used twice", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		b := h.browser()
		f := b.passkeyForm(b.get("/next"))
		answer := k.use(f.options)
		if a := b.answer(f, answer); a.Code != http.StatusSeeOther {
			t.Fatalf("the first time: status %d", a.Code)
		}
		delete(b.cookies, cookieName(b, "session"))
		b.refused("the second time", b.answer(f, answer))
	})
	t.Run("twenty at once", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		b := h.browser()
		f := b.passkeyForm(b.get("/next"))
		answer := k.use(f.options)
		var mu sync.Mutex
		var wg sync.WaitGroup
		good := 0
		for range 20 {
			c := h.browser()
			for name, v := range b.cookies {
				c.cookies[name] = v
			}
			wg.Go(func() {
				if a := c.answer(f, answer); a.Code == http.StatusSeeOther {
					mu.Lock()
					defer mu.Unlock()
					good++
				}
			})
		}
		wg.Wait()
		if good != 1 {
			t.Errorf("one answer signs in %d times, want once", good)
		}
	})
	t.Run("an answer for another flow", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		b := h.browser()
		one, two := b.passkeyForm(b.get("/next?a")), b.passkeyForm(b.get("/next?b"))
		if one.Challenge == two.Challenge {
			t.Fatal("two flows have one challenge")
		}
		b.refused("the answer of one for the other", b.answer(two, k.use(one.options)))
	})
	t.Run("attack 28: an answer that a victim gives in the flow of an attacker", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		attacker, victim := h.browser(), h.browser()
		f, own := attacker.passkeyForm(attacker.get("/next")), victim.passkeyForm(victim.get("/next"))
		if a := victim.answer(f, k.use(f.options)); a.Code != http.StatusForbidden || victim.session() != "" {
			t.Errorf("in the victim's browser: status %d, want 403", a.Code)
		}
		attacker.refused("the victim's answer in the attacker's browser", attacker.answer(f, k.use(own.options)))
	})
	t.Run("a late answer", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		b := h.browser()
		f := b.passkeyForm(b.get("/next"))
		h.clock.Advance(5 * time.Minute)
		a := b.answer(f, k.use(f.options))
		b.refused("after five minutes", a)
		if again := b.passkeyForm(a); again.Challenge == f.Challenge {
			t.Error("the page that follows has the same challenge")
		} else if a := b.answer(again, k.use(again.options)); a.Code != http.StatusSeeOther {
			t.Errorf("the page that follows: status %d", a.Code)
		}
	})
	t.Run("a page that is loaded again", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		b := h.browser()
		page := b.get("/next")
		f := b.passkeyForm(page)
		if again := b.passkeyForm(b.get(page.url)); again.Challenge != f.Challenge {
			t.Error("it has another challenge, so that the first one is lost")
		}
		h.clock.Advance(3 * time.Minute)
		if again := b.passkeyForm(b.get(page.url)); again.Challenge == f.Challenge {
			t.Error("it has a challenge that is nearly over")
		} else if a := b.answer(again, k.use(again.options)); a.Code != http.StatusSeeOther {
			t.Errorf("status %d", a.Code)
		}
	})
	t.Run("a challenge of another kind", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		owner := h.browser()
		owner.signIn(demo, demoPassword)
		b := h.browser()
		f := b.passkeyForm(b.get("/next"))
		// The challenge of a page that adds a passkey, or of a step-up, cannot be used for a sign-in.
		add := owner.passkeyForm(owner.get("/account/security/passkeys/add?"))
		b.refused("a challenge of another page", b.answer(f, k.use(add.options)))
	})
}

func cookieName(b *browser, kind string) string {
	for name := range b.cookies {
		if strings.HasSuffix(name, "-"+kind) {
			return name
		}
	}
	return ""
}

// TestCopiedPasskey: a counter that goes back means that the passkey may have been copied. Neither copy is accepted any
// more, and the person is notified.
func TestCopiedPasskey(t *testing.T) {
	t.Parallel()
	h, k := withPasskey(t)
	h.notices = new(notifytest.Notices)
	h.start()
	twin := k.bent(func(*token) {})
	if a := h.browser().tryPasskey(k); a.Code != http.StatusSeeOther {
		t.Fatalf("the first of the two: status %d", a.Code)
	}
	b := h.browser()
	b.refused("the other", b.tryPasskey(twin))
	b.refused("the first again", b.tryPasskey(k))
	b.refused("with a counter that is far ahead", b.tryPasskey(k.bent(func(k *token) { k.count += 1000 })))
	if n := h.events()["person.PasskeyCopySuspectedEvent"]; n != 1 {
		t.Errorf("%d events of a copy, want 1", n)
	}
	if told := h.notices.Take(); len(told) != 1 || told[0].Kind != notify.PasskeySuspected || told[0].To != demo {
		t.Errorf("the person was told %+v", told)
	}
	// It still counts as a step-up method, so the password alone is not enough to add another passkey.
	b.post(b.get("/next"), "username", demo, "password", demoPassword)
	if page := b.get("/account/security"); !strings.Contains(page.Body.String(), "may have been copied") {
		t.Errorf("the page about signing in does not say so:\n%s", page.Body)
	}
	if page := b.get(addPasskeyPage); strings.Contains(page.Body.String(), `data-passkey="create"`) {
		t.Errorf("a passkey is added beside a suspect one with the password alone:\n%s", page.Body)
	}

	t.Run("a counter that stays at nought", func(t *testing.T) {
		t.Parallel()
		h, k := newHarness(t, passkeysOn), newToken(t)
		k.steps = 0
		k.flags |= backupEligible | backedUp
		b := h.browser()
		b.signIn(demo, demoPassword)
		b.addPasskey(k)
		for range 3 {
			if a := h.browser().tryPasskey(k); a.Code != http.StatusSeeOther {
				t.Errorf("status %d:\n%s", a.Code, a.Body)
			}
		}
	})
}

// TestForgedPasskeys: a new passkey that was tampered with in any part is not stored.
func TestForgedPasskeys(t *testing.T) {
	t.Parallel()
	h := newHarness(t, passkeysOn)
	b := h.browser()
	b.signIn(demo, demoPassword)
	for name, bend := range map[string]func(*token){
		"another origin":          func(k *token) { k.origin = "https://evil.example" },
		"another relying party":   func(k *token) { k.rpID = "evil.example" },
		"no user verification":    func(k *token) { k.flags &^= userVerified },
		"no user presence":        func(k *token) { k.flags &^= userPresent },
		"backed up, not so made":  func(k *token) { k.flags |= backedUp },
		"the answer of another":   func(k *token) { k.client = func(m map[string]any) { m["type"] = "webauthn.get" } },
		"another site in between": func(k *token) { k.client = func(m map[string]any) { m["crossOrigin"] = true } },
		"an algorithm that was not offered": func(k *token) {
			k.data = func(b []byte) []byte { return bytes.Replace(b, []byte{0x03, 0x26}, []byte{0x03, 0x29}, 1) } // alg: -10
		},
		"another challenge":   func(k *token) { k.client = func(m map[string]any) { m["challenge"] = b64(make([]byte, 32)) } },
		"no id":               func(k *token) { k.id = nil },
		"an id of many bytes": func(k *token) { k.id = make([]byte, 1500) },
		"another id outside": func(k *token) {
			k.answer = func(m map[string]any) { m["id"], m["rawId"] = b64([]byte("other")), b64([]byte("other")) }
		},
		"no key": func(k *token) { k.data = func(b []byte) []byte { return b[:60] } },
		"garbage": func(k *token) {
			k.answer = func(m map[string]any) {
				m["response"].(map[string]any)["attestationObject"] = b64(bytes.Repeat([]byte{0x9f}, 8000))
			} //nolint:forcetypeassert // ours
		},
		"a huge length": func(k *token) {
			k.answer = func(m map[string]any) {
				m["response"].(map[string]any)["attestationObject"] = b64([]byte{0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}) //nolint:forcetypeassert // ours
			}
		},
	} {
		t.Run("peer 26: "+name, func(t *testing.T) {
			k := newToken(t).bent(bend)
			f := b.passkeyForm(b.get(addPasskeyPage))
			if a := b.answer(f, k.create(f.options)); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("status %d, want 422:\n%s", a.Code, a.Body)
			}
		})
	}
	if n := h.events()["person.PasskeyAddedEvent"]; n != 0 {
		t.Errorf("%d passkeys were added", n)
	}
	h.checkInvariants()
}

func TestPasskeyAttacks(t *testing.T) {
	t.Parallel()
	const mallory = "mallory@example.com"
	two := func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: mallory, Password: secret.New(demoPassword)})
	}
	t.Run("peer 26: a challenge that was answered before", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, passkeysOn)
		b := h.browser()
		b.signIn(demo, demoPassword)
		f := b.passkeyForm(b.get(addPasskeyPage))
		if a := b.answer(f, newToken(t).create(f.options)); len(recoveryCodesOf(a)) != 10 {
			t.Fatalf("the first answer: status %d", a.Code)
		}
		b.answer(f, newToken(t).create(f.options))
		if n := h.events()["person.PasskeyAddedEvent"]; n != 1 {
			t.Errorf("%d passkeys were added by one challenge, want 1", n)
		}
	})
	t.Run("peer 26: a credential id that is somebody else's", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, two, passkeysOn)
		owner, thief, k := h.browser(), h.browser(), newToken(t)
		owner.signIn(demo, demoPassword)
		owner.addPasskey(k)
		thief.signIn(mallory, demoPassword)
		f := thief.passkeyForm(thief.get(addPasskeyPage))
		forged := newToken(t).bent(func(n *token) { n.id = k.id })
		if a := thief.answer(f, forged.create(f.options)); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "already has a passkey for this account") {
			t.Errorf("status %d:\n%s", a.Code, a.Body)
		}
		if a := h.browser().tryPasskey(k); a.Code != http.StatusSeeOther {
			t.Errorf("afterwards the owner's passkey has status %d", a.Code)
		}
		h.browser().refused("the thief's", h.browser().tryPasskey(forged))
	})
	t.Run("attack 266: the passkey of another raises nobody's session", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, two, passkeysOn)
		for _, name := range []string{demo, mallory} {
			b := h.browser()
			b.signIn(name, demoPassword)
			b.addPasskey(newToken(t))
		}
		thief, k := h.browser(), newToken(t)
		thief.signIn(mallory, demoPassword)
		// A session of level 1 cannot add, remove or name passkeys of a person who already has one.
		for _, path := range []string{addPasskeyPage, "/account/security/passkeys/name?id=x", "/account/security/passkeys/remove?id=x"} {
			if a := thief.do(http.MethodPost, path, "csrf=x"); a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/step-up?") {
				t.Errorf("POST %s at level 1: status %d to %q, want the step-up", path, a.Code, a.Header().Get("Location"))
			}
		}
		f := thief.passkeyForm(thief.get("/account/security/passkeys/add"))
		if a := thief.answer(f, k.use(f.options)); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a passkey of nobody at the step-up: status %d", a.Code)
		}
		owner := h.browser()
		owner.signIn(demo, demoPassword)
		g := owner.passkeyForm(owner.get(addPasskeyPage)) // the step-up of the owner
		if a := thief.answer(g, "{}"); a.Code != http.StatusForbidden {
			t.Errorf("the owner's step-up in the thief's browser: status %d, want 403", a.Code)
		}
	})
	t.Run("attack 269: a person of the same name gets no passkey of the one before", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		p, err := h.Person.Person(t.Context(), demo)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Person.RemovePerson(t.Context(), p.ID, event.Actor{}, func(storage.Tx, *person.Details) error { return nil }); err != nil {
			t.Fatal(err)
		}
		h.start() // creates the configured person again
		b := h.browser()
		b.refused("the passkey of who was removed", b.tryPasskey(k))
		for key := range h.dump() {
			if strings.HasPrefix(key, "identity_passkey_set") || strings.HasPrefix(key, "identity_passkey\x00") {
				t.Errorf("%q is left", key)
			}
		}
	})
	t.Run("attack 282: no form about passkeys does anything without its token", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		b := h.browser()
		f := b.passkeyForm(b.get("/next"))
		for name, csrf := range map[string]string{"none": "", "of the password form": b.get("/next").csrf(), "of another flow": b.passkeyForm(b.get("/next?other")).csrf} {
			if a := b.do(http.MethodPost, f.action, url.Values{"csrf": {csrf}, "credential": {k.use(f.options)}}.Encode()); a.Code != http.StatusForbidden || b.session() != "" {
				t.Errorf("sign-in with the token %s: status %d, want 403", name, a.Code)
			}
		}
		if a := b.answer(f, k.use(f.options)); a.Code != http.StatusSeeOther {
			t.Errorf("afterwards the right form has status %d", a.Code)
		}
		security := b.get("/account/security")
		for _, path := range []string{addPasskeyPage, linkTo(t, security, "/account/security/passkeys/name?id="), linkTo(t, security, "/account/security/passkeys/remove?id=")} {
			if a := b.do(http.MethodPost, path, "csrf=x&name=y&credential=%7B%7D"); a.Code != http.StatusForbidden {
				t.Errorf("POST %s: status %d, want 403", path, a.Code)
			}
		}
		if n := h.events(); n["person.PasskeyRenamedEvent"]+n["person.PasskeyRemovedEvent"] != 0 {
			t.Error("a forged form has changed a passkey")
		}
	})
	t.Run("an answer of 1 MB", func(t *testing.T) {
		t.Parallel()
		h, _ := withPasskey(t)
		b := h.browser()
		f := b.passkeyForm(b.get("/next"))
		if a := b.answer(f, strings.Repeat("A", 1<<20)); a.Code != http.StatusRequestEntityTooLarge || b.session() != "" {
			t.Errorf("status %d, want 413", a.Code)
		}
	})
	t.Run("attack 221: wrong answers are counted like wrong passwords", func(t *testing.T) {
		t.Parallel()
		h, k := withPasskey(t)
		b := h.browser()
		for i := range 5 {
			if a := b.tryPasskey(k.bent(func(k *token) { k.flags &^= userVerified })); a.Code != http.StatusUnprocessableEntity {
				t.Fatalf("wrong answer %d: status %d", i, a.Code)
			}
		}
		if a := b.tryPasskey(k); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" {
			t.Errorf("after five wrong answers the right one has status %d and Retry-After %q, want 429 and 30", a.Code, a.Header().Get("Retry-After"))
		}
		if a := b.try(demo, demoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("after five wrong answers the password has status %d, want 429", a.Code)
		}
		h.clock.Advance(30 * time.Second)
		if a := b.tryPasskey(k); a.Code != http.StatusSeeOther {
			t.Errorf("after the wait: status %d", a.Code)
		}
	})
	t.Run("signing in is switched off", func(t *testing.T) {
		t.Parallel()
		h, u := configured(t, passkeysOn)
		k, b := newToken(t), h.browser()
		b.signIn(demo, demoPassword)
		b.addPasskey(k)
		c := h.browser()
		f := c.passkeyForm(c.get("/next"))
		u.Features.LoginEnabled = false
		if a := c.answer(f, k.use(f.options)); a.Code != http.StatusForbidden || c.session() != "" {
			t.Errorf("status %d, want 403", a.Code)
		}
	})
}
