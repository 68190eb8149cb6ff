package passkey_test

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refused asserts that an answer is a refusal and that no one was signed in.
func refused(b *identitytest.Browser, what string, a *identitytest.Answer) {
	b.H.T.Helper()
	if a.Code != http.StatusUnprocessableEntity || b.Session() != "" {
		b.H.T.Errorf("%s: status %d, session %t, want 422 and none:\n%s", what, a.Code, b.Session() != "", a.Body)
	}
}

// TestForgedAssertions: a passkey's answer that was tampered with in any part signs no one in, and the genuine answer
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
	say := func(name string, value any) func(*identitytest.Authenticator) {
		return func(k *identitytest.Authenticator) { k.Client = func(m map[string]any) { m[name] = value } }
	}
	tell := func(name string, value any) func(*identitytest.Authenticator) {
		return func(k *identitytest.Authenticator) { k.Answer = func(m map[string]any) { m[name] = value } }
	}
	respond := func(name string, value any) func(*identitytest.Authenticator) {
		return func(k *identitytest.Authenticator) {
			k.Answer = func(m map[string]any) {
				if value == nil {
					delete(m["response"].(map[string]any), name) //nolint:forcetypeassert // ours
				} else {
					m["response"].(map[string]any)[name] = value //nolint:forcetypeassert // ours
				}
			}
		}
	}
	h, k := identitytest.WithPasskey(t)
	stranger := identitytest.NewAuthenticator(t)
	for name, bend := range map[string]func(*identitytest.Authenticator){
		"another origin":          func(k *identitytest.Authenticator) { k.Origin = "https://auth.example.com.evil.example" },
		"a port":                  func(k *identitytest.Authenticator) { k.Origin = identitytest.Issuer + ":8443" },
		"plain http":              func(k *identitytest.Authenticator) { k.Origin = "http://auth.example.com" },
		"a host below":            func(k *identitytest.Authenticator) { k.Origin = "https://evil.auth.example.com" },
		"another site in between": say("crossOrigin", true),
		"another site around": func(k *identitytest.Authenticator) {
			k.Client = func(m map[string]any) { m["crossOrigin"], m["topOrigin"] = true, "https://evil.example" }
		},
		"another relying party":        func(k *identitytest.Authenticator) { k.RPID = "example.com" },
		"the evil relying party":       func(k *identitytest.Authenticator) { k.RPID = "evil.example" },
		"no user verification":         func(k *identitytest.Authenticator) { k.Flags &^= identitytest.UserVerified },
		"no user presence":             func(k *identitytest.Authenticator) { k.Flags &^= identitytest.UserPresent },
		"backed up, not eligible":      func(k *identitytest.Authenticator) { k.Flags |= identitytest.BackedUp },
		"eligible all of a sudden":     func(k *identitytest.Authenticator) { k.Flags |= identitytest.BackupEligible },
		"another challenge":            say("challenge", identitytest.B64(make([]byte, 32))),
		"no challenge":                 say("challenge", ""),
		"a signature of a new passkey": say("type", "webauthn.create"),
		"another type":                 say("type", "payment.get"),
		"a bit of the signature":       func(k *identitytest.Authenticator) { k.Sign = flip(-1) },
		"no signature":                 func(k *identitytest.Authenticator) { k.Sign = func([]byte) []byte { return nil } },
		"a bit of what is signed":      respond("authenticatorData", identitytest.B64(make([]byte, 37))),
		"short data":                   respond("authenticatorData", identitytest.B64(make([]byte, 36))),
		"trailing data":                func(k *identitytest.Authenticator) { k.Data = func(b []byte) []byte { return append(b, 0xa0) } },
		"another's key":                func(k *identitytest.Authenticator) { k.Key = stranger.Key },
		"another's handle":             func(k *identitytest.Authenticator) { k.Handle = make([]byte, 32) },
		"no handle":                    func(k *identitytest.Authenticator) { k.Handle = nil },
		"an unknown id":                func(k *identitytest.Authenticator) { k.ID = stranger.ID },
		"ids that differ":              tell("rawId", identitytest.B64(stranger.ID)),
		"an empty id":                  tell("id", ""),
		"an id of many bytes":          func(k *identitytest.Authenticator) { k.ID = make([]byte, 2000) },
		"an id in another alphabet":    tell("id", "+/=="),
		"another kind of credential":   tell("type", "password"),
		"no response":                  tell("response", map[string]any{}),
		"a response of text":           tell("response", "x"),
		"client data that is no JSON":  respond("clientDataJSON", identitytest.B64([]byte("{"))),
		"no client data":               respond("clientDataJSON", nil),
	} {
		b := h.Browser()
		refused(b, name, b.TryPasskey(k.Bent(bend)))
		h.Clock.Advance(time.Hour) // resets the throttle too
	}
	for name, text := range map[string]string{
		"nothing": "", "no JSON": "x", "null": "null", "a list": "[]", "half": `{"id":"`, "deep": strings.Repeat(`{"response":`, 1000),
		"garbage": strings.Repeat("\x00\xff", 100),
		"16 KiB":  `{"id":"` + strings.Repeat("A", 16<<10) + `"}`,
	} {
		b := h.Browser()
		f := b.ReadPasskeyForm(b.Get("/next"))
		a := b.AnswerPasskey(f, text)
		if name == "garbage" { // not valid UTF-8, so the form is malformed
			if a.Code != http.StatusBadRequest || b.Session() != "" {
				t.Errorf("garbage: status %d, want 400", a.Code)
			}
		} else {
			refused(b, name, a)
		}
		h.Clock.Advance(time.Hour)
	}
	if a := h.Browser().TryPasskey(k); a.Code != http.StatusSeeOther {
		t.Errorf("afterwards the right answer has status %d:\n%s", a.Code, a.Body)
	}
	h.CheckInvariants()
}

// TestPasskeyChallenges: an answer is valid once, for one flow, in one browser, and for five minutes.
func TestPasskeyChallenges(t *testing.T) {
	t.Parallel()
	t.Run("an answer is used twice", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		b := h.Browser()
		f := b.ReadPasskeyForm(b.Get("/next"))
		answer := k.Use(f.Options)
		if a := b.AnswerPasskey(f, answer); a.Code != http.StatusSeeOther {
			t.Fatalf("the first time: status %d", a.Code)
		}
		delete(b.Cookies, cookieName(b, "session"))
		refused(b, "the second time", b.AnswerPasskey(f, answer))
	})
	t.Run("twenty at once", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		b := h.Browser()
		f := b.ReadPasskeyForm(b.Get("/next"))
		answer := k.Use(f.Options)
		var mu sync.Mutex
		var wg sync.WaitGroup
		good := 0
		for range 20 {
			c := h.Browser()
			for name, v := range b.Cookies {
				c.Cookies[name] = v
			}
			wg.Go(func() {
				if a := c.AnswerPasskey(f, answer); a.Code == http.StatusSeeOther {
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
		h, k := identitytest.WithPasskey(t)
		b := h.Browser()
		one, two := b.ReadPasskeyForm(b.Get("/next?a")), b.ReadPasskeyForm(b.Get("/next?b"))
		if one.Challenge == two.Challenge {
			t.Fatal("two flows have one challenge")
		}
		refused(b, "the answer of one for the other", b.AnswerPasskey(two, k.Use(one.Options)))
	})
	t.Run("attack 28: an answer that a victim gives in the flow of an attacker", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		attacker, victim := h.Browser(), h.Browser()
		f, own := attacker.ReadPasskeyForm(attacker.Get("/next")), victim.ReadPasskeyForm(victim.Get("/next"))
		if a := victim.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusForbidden || victim.Session() != "" {
			t.Errorf("in the victim's browser: status %d, want 403", a.Code)
		}
		refused(attacker, "the victim's answer in the attacker's browser", attacker.AnswerPasskey(f, k.Use(own.Options)))
	})
	t.Run("a late answer", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		b := h.Browser()
		f := b.ReadPasskeyForm(b.Get("/next"))
		h.Clock.Advance(5 * time.Minute)
		a := b.AnswerPasskey(f, k.Use(f.Options))
		refused(b, "after five minutes", a)
		if again := b.ReadPasskeyForm(a); again.Challenge == f.Challenge {
			t.Error("the page that follows has the same challenge")
		} else if a := b.AnswerPasskey(again, k.Use(again.Options)); a.Code != http.StatusSeeOther {
			t.Errorf("the page that follows: status %d", a.Code)
		}
	})
	t.Run("a page that is loaded again", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		b := h.Browser()
		page := b.Get("/next")
		f := b.ReadPasskeyForm(page)
		if again := b.ReadPasskeyForm(b.Get(page.URL)); again.Challenge != f.Challenge {
			t.Error("it has another challenge, so the first one is lost")
		}
		h.Clock.Advance(3 * time.Minute)
		if again := b.ReadPasskeyForm(b.Get(page.URL)); again.Challenge == f.Challenge {
			t.Error("it has a challenge that is nearly over")
		} else if a := b.AnswerPasskey(again, k.Use(again.Options)); a.Code != http.StatusSeeOther {
			t.Errorf("status %d", a.Code)
		}
	})
	t.Run("a challenge of another kind", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		owner := h.Browser()
		owner.SignIn(identitytest.Demo, identitytest.DemoPassword)
		b := h.Browser()
		f := b.ReadPasskeyForm(b.Get("/next"))
		// The challenge of a page that adds a passkey, or of a step-up, cannot be used for a sign-in.
		add := owner.ReadPasskeyForm(owner.Get("/account/security/passkeys/add?"))
		refused(b, "a challenge of another page", b.AnswerPasskey(f, k.Use(add.Options)))
	})
}

func cookieName(b *identitytest.Browser, kind string) string {
	for name := range b.Cookies {
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
	h, k := identitytest.WithPasskey(t)
	h.Notices = new(notifytest.Notices)
	h.Start()
	twin := k.Bent(func(*identitytest.Authenticator) {})
	if a := h.Browser().TryPasskey(k); a.Code != http.StatusSeeOther {
		t.Fatalf("the first of the two: status %d", a.Code)
	}
	b := h.Browser()
	refused(b, "the other", b.TryPasskey(twin))
	refused(b, "the first again", b.TryPasskey(k))
	refused(b, "with a counter that is far ahead", b.TryPasskey(k.Bent(func(k *identitytest.Authenticator) { k.Count += 1000 })))
	if n := h.Events()["person.PasskeyCopySuspectedEvent"]; n != 1 {
		t.Errorf("%d events of a copy, want 1", n)
	}
	if told := h.Notices.Take(); len(told) != 1 || told[0].Kind != notify.PasskeySuspected || told[0].To != identitytest.Demo {
		t.Errorf("the person was told %+v", told)
	}
	// It still counts as a step-up method, so the password alone is not enough to add another passkey.
	b.Post(b.Get("/next"), "username", identitytest.Demo, "password", identitytest.DemoPassword)
	if page := b.Get("/account/security"); !strings.Contains(page.Body.String(), "may have been copied") {
		t.Errorf("the page about signing in does not say so:\n%s", page.Body)
	}
	if page := b.Get(identitytest.AddPasskeyPage); strings.Contains(page.Body.String(), `data-passkey="create"`) {
		t.Errorf("a passkey is added beside a suspect one with the password alone:\n%s", page.Body)
	}

	t.Run("a counter that stays at nought", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.New(t, identitytest.PasskeysOn), identitytest.NewAuthenticator(t)
		k.Steps = 0
		k.Flags |= identitytest.BackupEligible | identitytest.BackedUp
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		b.AddPasskey(k)
		for range 3 {
			if a := h.Browser().TryPasskey(k); a.Code != http.StatusSeeOther {
				t.Errorf("status %d:\n%s", a.Code, a.Body)
			}
		}
	})
}

// TestForgedPasskeys: a new passkey that was tampered with in any part is not stored.
func TestForgedPasskeys(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, identitytest.PasskeysOn)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	for name, bend := range map[string]func(*identitytest.Authenticator){
		"another origin":          func(k *identitytest.Authenticator) { k.Origin = "https://evil.example" },
		"another relying party":   func(k *identitytest.Authenticator) { k.RPID = "evil.example" },
		"no user verification":    func(k *identitytest.Authenticator) { k.Flags &^= identitytest.UserVerified },
		"no user presence":        func(k *identitytest.Authenticator) { k.Flags &^= identitytest.UserPresent },
		"backed up, not so made":  func(k *identitytest.Authenticator) { k.Flags |= identitytest.BackedUp },
		"the answer of another":   func(k *identitytest.Authenticator) { k.Client = func(m map[string]any) { m["type"] = "webauthn.get" } },
		"another site in between": func(k *identitytest.Authenticator) { k.Client = func(m map[string]any) { m["crossOrigin"] = true } },
		"an algorithm that was not offered": func(k *identitytest.Authenticator) {
			k.Data = func(b []byte) []byte { return bytes.Replace(b, []byte{0x03, 0x26}, []byte{0x03, 0x29}, 1) } // alg: -10
		},
		"another challenge": func(k *identitytest.Authenticator) {
			k.Client = func(m map[string]any) { m["challenge"] = identitytest.B64(make([]byte, 32)) }
		},
		"no id":               func(k *identitytest.Authenticator) { k.ID = nil },
		"an id of many bytes": func(k *identitytest.Authenticator) { k.ID = make([]byte, 1500) },
		"another id outside": func(k *identitytest.Authenticator) {
			k.Answer = func(m map[string]any) {
				m["id"], m["rawId"] = identitytest.B64([]byte("other")), identitytest.B64([]byte("other"))
			}
		},
		"no key": func(k *identitytest.Authenticator) { k.Data = func(b []byte) []byte { return b[:60] } },
		"garbage": func(k *identitytest.Authenticator) {
			k.Answer = func(m map[string]any) {
				m["response"].(map[string]any)["attestationObject"] = identitytest.B64(bytes.Repeat([]byte{0x9f}, 8000))
			} //nolint:forcetypeassert // ours
		},
		"a huge length": func(k *identitytest.Authenticator) {
			k.Answer = func(m map[string]any) {
				m["response"].(map[string]any)["attestationObject"] = identitytest.B64([]byte{ //nolint:forcetypeassert // ours
					0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
					0xff,
				})
			}
		},
	} {
		t.Run("peer 26: "+name, func(t *testing.T) {
			k := identitytest.NewAuthenticator(t).Bent(bend)
			f := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
			if a := b.AnswerPasskey(f, k.Create(f.Options)); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("status %d, want 422:\n%s", a.Code, a.Body)
			}
		})
	}
	if n := h.Events()["person.PasskeyAddedEvent"]; n != 0 {
		t.Errorf("%d passkeys were added", n)
	}
	h.CheckInvariants()
}

func TestPasskeyAttacks(t *testing.T) {
	t.Parallel()
	const mallory = "mallory@example.com"
	two := func(c *identity.Config) {
		c.Persons = append(c.Persons, person.NewPerson{Username: mallory, Password: secret.New(identitytest.DemoPassword)})
	}
	t.Run("peer 26: a challenge that was answered before", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t, identitytest.PasskeysOn)
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		f := b.ReadPasskeyForm(b.Get(identitytest.AddPasskeyPage))
		if a := b.AnswerPasskey(f, identitytest.NewAuthenticator(t).Create(f.Options)); len(identitytest.RecoveryCodesOf(a)) != 10 {
			t.Fatalf("the first answer: status %d", a.Code)
		}
		b.AnswerPasskey(f, identitytest.NewAuthenticator(t).Create(f.Options))
		if n := h.Events()["person.PasskeyAddedEvent"]; n != 1 {
			t.Errorf("%d passkeys were added by one challenge, want 1", n)
		}
	})
	t.Run("peer 26: a credential id that is somebody else's", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t, two, identitytest.PasskeysOn)
		owner, thief, k := h.Browser(), h.Browser(), identitytest.NewAuthenticator(t)
		owner.SignIn(identitytest.Demo, identitytest.DemoPassword)
		owner.AddPasskey(k)
		thief.SignIn(mallory, identitytest.DemoPassword)
		f := thief.ReadPasskeyForm(thief.Get(identitytest.AddPasskeyPage))
		forged := identitytest.NewAuthenticator(t).Bent(func(n *identitytest.Authenticator) { n.ID = k.ID })
		if a := thief.AnswerPasskey(f, forged.Create(f.Options)); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.Body.String(), "already has a passkey for this account") {
			t.Errorf("status %d:\n%s", a.Code, a.Body)
		}
		if a := h.Browser().TryPasskey(k); a.Code != http.StatusSeeOther {
			t.Errorf("afterwards the owner's passkey has status %d", a.Code)
		}
		refused(h.Browser(), "the thief's", h.Browser().TryPasskey(forged))
	})
	t.Run("attack 266: the passkey of another raises nobody's session", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t, two, identitytest.PasskeysOn)
		for _, name := range []string{identitytest.Demo, mallory} {
			b := h.Browser()
			b.SignIn(name, identitytest.DemoPassword)
			b.AddPasskey(identitytest.NewAuthenticator(t))
		}
		thief, k := h.Browser(), identitytest.NewAuthenticator(t)
		thief.SignIn(mallory, identitytest.DemoPassword)
		// A session of level 1 cannot add, remove or name passkeys of a person who already has one.
		for _, path := range []string{
			identitytest.AddPasskeyPage, "/account/security/passkeys/name?id=x",
			"/account/security/passkeys/remove?id=x",
		} {
			if a := thief.Do(http.MethodPost, path, "csrf=x"); a.Code != http.StatusSeeOther ||
				!strings.HasPrefix(a.Header().Get("Location"), "/step-up?") {
				t.Errorf("POST %s at level 1: status %d to %q, want the step-up", path, a.Code, a.Header().Get("Location"))
			}
		}
		f := thief.ReadPasskeyForm(thief.Get("/account/security/passkeys/add"))
		if a := thief.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a passkey of nobody at the step-up: status %d", a.Code)
		}
		owner := h.Browser()
		owner.SignIn(identitytest.Demo, identitytest.DemoPassword)
		g := owner.ReadPasskeyForm(owner.Get(identitytest.AddPasskeyPage)) // the step-up of the owner
		if a := thief.AnswerPasskey(g, "{}"); a.Code != http.StatusForbidden {
			t.Errorf("the owner's step-up in the thief's browser: status %d, want 403", a.Code)
		}
	})
	t.Run("attack 269: a person of the same name gets no passkey of the one before", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		p, err := h.Person.Person(t.Context(), identitytest.Demo)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Person.RemovePerson(t.Context(), p.ID, audit.Actor{}, func(storage.Tx, *person.Details) error { return nil }); err != nil {
			t.Fatal(err)
		}
		h.Start() // creates the configured person again
		b := h.Browser()
		refused(b, "the passkey of who was removed", b.TryPasskey(k))
		for key := range h.Dump() {
			if strings.HasPrefix(key, "identity_passkey_set") || strings.HasPrefix(key, "identity_passkey\x00") {
				t.Errorf("%q is left", key)
			}
		}
	})
	t.Run("attack 282: no form about passkeys does anything without its token", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		b := h.Browser()
		f := b.ReadPasskeyForm(b.Get("/next"))
		for name, csrf := range map[string]string{
			"none": "", "of the password form": b.Get("/next").CSRF(),
			"of another flow": b.ReadPasskeyForm(b.Get("/next?other")).CSRF,
		} {
			if a := b.Do(http.MethodPost, f.Action,
				url.Values{"csrf": {csrf}, "credential": {k.Use(f.Options)}}.Encode()); a.Code != http.StatusForbidden || b.Session() != "" {
				t.Errorf("sign-in with the token %s: status %d, want 403", name, a.Code)
			}
		}
		if a := b.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusSeeOther {
			t.Errorf("afterwards the right form has status %d", a.Code)
		}
		security := b.Get("/account/security")
		for _, path := range []string{
			identitytest.AddPasskeyPage, identitytest.LinkTo(t, security, "/account/security/passkeys/name?id="),
			identitytest.LinkTo(t, security, "/account/security/passkeys/remove?id="),
		} {
			if a := b.Do(http.MethodPost, path, "csrf=x&name=y&credential=%7B%7D"); a.Code != http.StatusForbidden {
				t.Errorf("POST %s: status %d, want 403", path, a.Code)
			}
		}
		if n := h.Events(); n["person.PasskeyRenamedEvent"]+n["person.PasskeyRemovedEvent"] != 0 {
			t.Error("a forged form has changed a passkey")
		}
	})
	t.Run("an answer of 1 MB", func(t *testing.T) {
		t.Parallel()
		h, _ := identitytest.WithPasskey(t)
		b := h.Browser()
		f := b.ReadPasskeyForm(b.Get("/next"))
		if a := b.AnswerPasskey(f, strings.Repeat("A", 1<<20)); a.Code != http.StatusRequestEntityTooLarge || b.Session() != "" {
			t.Errorf("status %d, want 413", a.Code)
		}
	})
	t.Run("attack 221: wrong answers are counted like wrong passwords", func(t *testing.T) {
		t.Parallel()
		h, k := identitytest.WithPasskey(t)
		b := h.Browser()
		for i := range 5 {
			unverified := k.Bent(func(k *identitytest.Authenticator) { k.Flags &^= identitytest.UserVerified })
			if a := b.TryPasskey(unverified); a.Code != http.StatusUnprocessableEntity {
				t.Fatalf("wrong answer %d: status %d", i, a.Code)
			}
		}
		if a := b.TryPasskey(k); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" {
			t.Errorf("after five wrong answers the right one has status %d and Retry-After %q, want 429 and 30", a.Code,
				a.Header().Get("Retry-After"))
		}
		if a := b.Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
			t.Errorf("after five wrong answers the password has status %d, want 429", a.Code)
		}
		h.Clock.Advance(30 * time.Second)
		if a := b.TryPasskey(k); a.Code != http.StatusSeeOther {
			t.Errorf("after the wait: status %d", a.Code)
		}
	})
	t.Run("signing in is switched off", func(t *testing.T) {
		t.Parallel()
		h, u := identitytest.NewConfigured(t, identitytest.PasskeysOn)
		k, b := identitytest.NewAuthenticator(t), h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		b.AddPasskey(k)
		c := h.Browser()
		f := c.ReadPasskeyForm(c.Get("/next"))
		u.Features.LoginEnabled = false
		if a := c.AnswerPasskey(f, k.Use(f.Options)); a.Code != http.StatusForbidden || c.Session() != "" {
			t.Errorf("status %d, want 403", a.Code)
		}
	})
}
