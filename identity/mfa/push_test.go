package mfa_test

import (
	"errors"
	"html"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/settings"
)

const pushPage = "/account/security/push"

// pushing returns the harness of stepping for level 3, with prompts on phones as the only method.
func pushing(t *testing.T) (*identitytest.Harness, *settings.Units, *notifytest.Prompts) {
	t.Helper()
	h, u := identitytest.NewStepping(t, 3)
	box := &notifytest.Prompts{}
	h.Prompts = box
	h.Start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	return h, u, box
}

// number returns the number that a page shows in large print.
func number(a *identitytest.Answer, t *testing.T) string {
	t.Helper()
	m := identitytest.ShownNumber.FindStringSubmatch(a.Body.String())
	if m == nil {
		t.Fatalf("%s = %d shows no number:\n%s", a.URL, a.Code, a.Body)
	}
	return m[1]
}

// enrolLink returns the link that the set-up page shows.
func enrolLink(b *identitytest.Browser) string {
	b.H.T.Helper()
	a := b.Get(pushPage)
	m := identitytest.ShownLink.FindStringSubmatch(a.Body.String())
	if m == nil || a.Header().Get("Refresh") != "4" {
		b.H.T.Fatalf("the set-up = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
	return strings.TrimPrefix(html.UnescapeString(m[1]), identitytest.Issuer)
}

// enrol sets up a phone for the person who is signed in with b.
func enrol(b *identitytest.Browser) (phone *identitytest.Browser) {
	b.H.T.Helper()
	link := enrolLink(b)
	phone = b.H.Browser()
	phone.Address = "198.51.100.20:99"
	form := phone.Get(link)
	if form.URL != "/push/enrol" || !strings.Contains(form.Body.String(), identitytest.Demo) {
		b.H.T.Fatalf("the link on the phone = %d %s:\n%s", form.Code, form.URL, form.Body)
	}
	if a := phone.Post(form); a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("the phone's button = %d:\n%s", a.Code, a.Body)
	}
	number := number(phone.Get("/push/enrol"), b.H.T.(*testing.T))
	if a := b.Post(b.Get(pushPage), "number", number); a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("the phone's number = %d:\n%s", a.Code, a.Body)
	}
	return phone
}

// prompt sends a prompt to the phone. It returns the waiting page and the link that the phone received.
func prompt(b *identitytest.Browser, box *notifytest.Prompts) (waiting *identitytest.Answer, link string) {
	b.H.T.Helper()
	form := b.Get("/next")
	if a := b.Post(form); a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("asking the phone at %s = %d:\n%s", form.URL, a.Code, a.Body)
	}
	list := box.Take()
	if len(list) != 1 || !strings.HasPrefix(list[0].Link, "/push/approve?id=") || list[0].Device == "" ||
		!list[0].Until.Equal(list[0].At.Add(2*time.Minute)) {
		b.H.T.Fatalf("sent: %+v", list)
	}
	return b.Get(form.URL), list[0].Link
}

func TestPushStepUp(t *testing.T) {
	t.Parallel()
	h, u, box := pushing(t)
	desk := h.Plain()
	phone := enrol(desk)
	h.WantLevel(desk, 3)
	if got := identitytest.Words(desk.Get("/account/security")); strings.Contains(got, "Last used on") {
		t.Errorf("a phone that was never asked:\n%s", got)
	}
	h.Clock.Advance(time.Hour)
	b := h.Plain()
	if a := b.Get("/next"); !strings.HasPrefix(a.URL, "/step-up/push?flow=") || len(box.Take()) != 0 {
		t.Fatalf("level 3 = %d %s", a.Code, a.URL)
	}
	if got := identitytest.Words(b.Get("/next")); !strings.Contains(got, "The shop") || !strings.Contains(got, "Not you?") ||
		!strings.Contains(got, identitytest.Demo) {
		t.Errorf("the page does not say for which application and account it asks:\n%s", got)
	}
	waiting, link := prompt(b, box)
	number := number(waiting, t)
	if waiting.Header().Get("Refresh") != "4" {
		t.Errorf("the page that waits has Refresh %q", waiting.Header().Get("Refresh"))
	}
	form := phone.Get(link)
	for _, want := range []string{identitytest.Demo, "203.0.113.7", "The shop"} {
		if !strings.Contains(form.Body.String(), want) {
			t.Errorf("the phone does not say %q:\n%s", want, form.Body)
		}
	}
	if strings.Contains(form.Body.String(), ">"+number+"<") {
		t.Error("the phone shows the number that it asks for")
	}
	if a := phone.Post(form); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no number = %d", a.Code)
	}
	if a := phone.Post(form, "number", number); a.Code != http.StatusSeeOther {
		t.Fatalf("approving = %d:\n%s", a.Code, a.Body)
	}
	if a := phone.Get(link); !strings.Contains(a.Body.String(), "Approved") {
		t.Errorf("the phone afterwards = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Get(waiting.URL); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the page that waited = %d %s:\n%s", a.Code, a.URL, a.Body)
	}
	if s, err := h.SessionOf(b); err != nil || s.Level != 3 || len(s.References) != 1 || s.References[0] != "mca" {
		t.Errorf("the session is %+v (%v), want level 3 by mca", s, err)
	}
	if a := b.Get("/account/security"); !strings.Contains(a.Body.String(), "on these phones") {
		t.Errorf("the page about security:\n%s", a.Body)
	}
	if got := identitytest.Words(b.Get("/account/security")); !strings.Contains(got, "Last used on 21 November 2026, 13:00 UTC") {
		t.Errorf("the page about security does not say when the phone was last asked:\n%s", got)
	}
	for key, value := range h.Dump() {
		for _, secret := range phone.Cookies {
			if len(secret) > 20 && (strings.Contains(value, secret) || strings.Contains(key, secret)) {
				t.Errorf("%q holds a cookie of the phone", key)
			}
		}
	}

	other := h.Plain()
	u.StepUp.AuthenticationMethods.PushAuthenticationLevel = 2
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 3 with prompts of level 2 = %d", a.Code)
	}
	u.StepUp.AuthenticationMethods.PushAuthenticationLevel = 3
	h.Prompts = nil
	h.Start()
	if a := other.Get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 3 with nothing to ask by = %d", a.Code)
	}
	if a := other.Get(pushPage); a.Code == http.StatusOK && !strings.HasPrefix(a.URL, "/step-up") {
		t.Errorf("the set-up with nothing to ask by = %d %s", a.Code, a.URL)
	}
	h.CheckInvariants()
}

func TestPushDenied(t *testing.T) {
	t.Parallel()
	h, _, box := pushing(t)
	desk := h.Plain()
	phone := enrol(desk)
	b := h.Plain()
	waiting, link := prompt(b, box)
	if a := phone.Post(phone.Get(link), "deny", "yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("denying = %d", a.Code)
	}
	if a := phone.Get(link); !strings.Contains(a.Body.String(), `href="/account/security/password"`) {
		t.Errorf("the phone does not lead to a new password after a denial:\n%s", a.Body)
	}
	a := b.Get(waiting.URL)
	if !strings.Contains(a.Body.String(), "denied on your phone") || h.Events()["login.PromptDeniedEvent"] != 1 {
		t.Errorf("the page that waited = %d:\n%s", a.Code, a.Body)
	}
	if a := b.Post(a); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" || len(box.Take()) != 0 {
		t.Errorf("asking again at once = %d", a.Code)
	}
	h.Clock.Advance(time.Minute)
	if waiting, link = prompt(b, box); waiting.Code != http.StatusOK {
		t.Fatalf("asking a minute later = %d", waiting.Code)
	}
	h.Clock.Advance(2 * time.Minute)
	if a := b.Get(waiting.URL); !strings.Contains(a.Body.String(), "didn’t respond in time") {
		t.Errorf("two minutes later = %d:\n%s", a.Code, a.Body)
	}
	if a := phone.Get(link); !strings.Contains(a.Body.String(), "request has expired") {
		t.Errorf("the phone two minutes later = %d:\n%s", a.Code, a.Body)
	}
	h.CheckInvariants()
}

func TestPushAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: whoever has the password cannot wear the person down by prompts", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.Plain()
		enrol(desk)
		thief := h.Plain()
		form, sent := thief.Get("/next"), 0
		for range 30 { // half an hour
			h.Clock.Advance(time.Minute)
			if a := thief.Get(form.URL); strings.Contains(a.Body.String(), "<form") {
				thief.Post(a)
			}
			sent += len(box.Take())
		}
		if sent > 12 {
			t.Errorf("%d prompts in half an hour", sent)
		}
	})
	t.Run("attack 221: a number is guessed once", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.Plain()
		phone := enrol(desk)
		b := h.Plain()
		waiting, link := prompt(b, box)
		number, form := number(waiting, t), phone.Get(link)
		wrong := identitytest.WrongFor(number)
		phone.Post(form, "number", wrong)
		if a := phone.Post(form, "number", number); strings.Contains(a.Body.String(), "Approved") {
			t.Error("a second number is taken")
		}
		if a := b.Get(waiting.URL); strings.HasPrefix(a.Body.String(), "signed in as ") || !strings.Contains(a.Body.String(), "a wrong number") {
			t.Errorf("after a wrong number = %d:\n%s", a.Code, a.Body)
		}
	})
	t.Run("attack 266: a prompt is answered by the person's phone alone, once, and opens the browser that asked", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.Plain()
		phone := enrol(desk)
		b, thief := h.Plain(), h.Plain()
		waiting, link := prompt(b, box)
		number := number(waiting, t)
		for name, who := range map[string]*identitytest.Browser{
			"a stranger": h.Browser(), "the browser that asked": b,
			"another browser of the password": thief, "the browser that set up the phone": desk,
		} {
			if a := who.Get(link); a.Code != http.StatusNotFound || strings.Contains(a.Body.String(), identitytest.Demo) != who.IsSignedIn() {
				t.Errorf("%s looks at the prompt: %d", name, a.Code)
			}
		}
		form := phone.Get(link)
		if a := phone.Do(http.MethodPost, link, "number="+number); a.Code != http.StatusForbidden {
			t.Errorf("approving without the form's token = %d", a.Code)
		}
		var wg sync.WaitGroup
		for i := range 20 { // approve and deny at once
			wg.Go(func() {
				if i%2 == 0 {
					phone.Clone().Post(form, "number", number)
				} else {
					phone.Clone().Post(form, "deny", "yes")
				}
			})
		}
		wg.Wait()
		denied := h.Events()["login.PromptDeniedEvent"]
		opened := strings.HasPrefix(b.Get(waiting.URL).Body.String(), "signed in as ")
		if denied > 1 || opened == (denied == 1) {
			t.Errorf("%d denials, and opened %v: want one or the other", denied, opened)
		}
		if a := thief.Get(waiting.URL); strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Error("another browser is let in by it")
		}
		h.WantLevel(thief, 1)
	})
	t.Run("attack 266: a set-up takes one phone, and only with the number that it shows", func(t *testing.T) {
		t.Parallel()
		h, _, _ := pushing(t)
		desk := h.Plain()
		link := enrolLink(desk)
		spy, phone := h.Browser(), h.Browser()
		if a := phone.Get(link); a.Code != http.StatusOK {
			t.Fatalf("the link = %d", a.Code)
		}
		spy.Post(spy.Get(link)) // before the phone does
		if a := phone.Get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the second phone = %d, want it refused", a.Code)
		}
		number := number(spy.Get("/push/enrol"), t)
		wrong := identitytest.WrongFor(number)
		for range 2 {
			if a := desk.Post(desk.Get(pushPage), "number", wrong); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("a wrong number = %d", a.Code)
			}
		}
		desk.Post(desk.Get(pushPage), "number", wrong)
		if a := desk.Get(pushPage); !strings.Contains(a.Body.String(), `class="qr"`) || strings.Contains(a.Body.String(), link) {
			t.Errorf("after three wrong numbers the set-up does not begin anew:\n%s", a.Body)
		}
		if a := spy.Get("/push/enrol"); a.Code != http.StatusBadRequest {
			t.Errorf("the phone of before = %d", a.Code)
		}
		h.WantLevel(desk, 1)
		// The link is invalid after its time, and as soon as the session that started the set-up has ended.
		link = enrolLink(desk)
		h.Clock.Advance(10 * time.Minute)
		if a := h.Browser().Get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link after ten minutes = %d", a.Code)
		}
		link = enrolLink(desk)
		desk.Post(desk.Get("/sign-out"))
		if a := h.Browser().Get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link of a session that has ended = %d", a.Code)
		}
	})
	t.Run("attack 266: a phone that is lost is taken off by the administrator", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.Plain()
		phone := enrol(desk)
		b := h.Plain()
		_, link := prompt(b, box)
		if err := h.RemoveMethod("push"); err != nil {
			t.Fatal(err)
		}
		if a := phone.Get(link); a.Code != http.StatusNotFound {
			t.Errorf("the lost phone = %d", a.Code)
		}
		if err := h.RemoveMethod("push"); !errors.Is(err, mfa.ErrNoMethod) {
			t.Errorf("taking it off twice = %v", err)
		}
	})
	t.Run("attack 266: a phone that was removed is asked no more, and answers nothing", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.Plain()
		phone := enrol(desk)
		b := h.Plain()
		waiting, link := prompt(b, box)
		form := phone.Get(link)
		if a := desk.Post(desk.Get("/account/security/remove?method=push")); a.Code != http.StatusSeeOther {
			t.Fatalf("removing = %d", a.Code)
		}
		if a := phone.Post(form, "number", number(waiting, t)); a.Code != http.StatusNotFound {
			t.Errorf("the phone that was removed = %d", a.Code)
		}
		if a := b.Get(waiting.URL); strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Error("a phone that was removed lets in")
		}
		h.WantLevel(desk, 1)
	})
}
