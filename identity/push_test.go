package identity_test

import (
	"errors"
	"html"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/event"
)

const pushPage = "/account/security/push"

var (
	shownLink   = regexp.MustCompile(`<p class="secret" id="link"><code>([^<]+)</code>`)
	shownNumber = regexp.MustCompile(`<p class="number"><b>([0-9]{2})</b>`)
)

// pushing returns the harness of stepping for level 3, with prompts on phones as the only method.
func pushing(t *testing.T) (*harness, *config.Units, *notifytest.Prompts) {
	t.Helper()
	h, u := stepping(t, 3)
	box := &notifytest.Prompts{}
	h.prompts = box
	h.start()
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	return h, u, box
}

// number returns the number that a page shows in large print.
func (a *answer) number(t *testing.T) string {
	t.Helper()
	m := shownNumber.FindStringSubmatch(a.Body.String())
	if m == nil {
		t.Fatalf("%s = %d shows no number:\n%s", a.url, a.Code, a.Body)
	}
	return m[1]
}

// enrolLink returns the link that the set-up page shows.
func (b *browser) enrolLink() string {
	b.h.t.Helper()
	a := b.get(pushPage)
	m := shownLink.FindStringSubmatch(a.Body.String())
	if m == nil || a.Header().Get("Refresh") != "4" {
		b.h.t.Fatalf("the set-up = %d %s:\n%s", a.Code, a.url, a.Body)
	}
	return strings.TrimPrefix(html.UnescapeString(m[1]), issuer)
}

// enrol sets up a phone for the person who is signed in with b.
func (b *browser) enrol() (phone *browser) {
	b.h.t.Helper()
	link := b.enrolLink()
	phone = b.h.browser()
	phone.address = "198.51.100.20:99"
	form := phone.get(link)
	if form.url != "/push/enrol" || !strings.Contains(form.Body.String(), demo) {
		b.h.t.Fatalf("the link on the phone = %d %s:\n%s", form.Code, form.url, form.Body)
	}
	if a := phone.post(form); a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("the phone's button = %d:\n%s", a.Code, a.Body)
	}
	number := phone.get("/push/enrol").number(b.h.t.(*testing.T))
	if a := b.post(b.get(pushPage), "number", number); a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("the phone's number = %d:\n%s", a.Code, a.Body)
	}
	return phone
}

// prompt sends a prompt to the phone. It returns the waiting page and the link that the phone received.
func (b *browser) prompt(box *notifytest.Prompts) (waiting *answer, link string) {
	b.h.t.Helper()
	form := b.get("/next")
	if a := b.post(form); a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("asking the phone at %s = %d:\n%s", form.url, a.Code, a.Body)
	}
	list := box.Take()
	if len(list) != 1 || !strings.HasPrefix(list[0].Link, "/push/approve?id=") || list[0].Device == "" || !list[0].Until.Equal(list[0].At.Add(2*time.Minute)) {
		b.h.t.Fatalf("sent: %+v", list)
	}
	return b.get(form.url), list[0].Link
}

func TestPushStepUp(t *testing.T) {
	t.Parallel()
	h, u, box := pushing(t)
	desk := h.plain()
	phone := desk.enrol()
	h.wantLevel(desk, 3)
	if got := words(desk.get("/account/security")); strings.Contains(got, "Last used on") {
		t.Errorf("a phone that was never asked:\n%s", got)
	}
	h.clock.Advance(time.Hour)
	b := h.plain()
	if a := b.get("/next"); !strings.HasPrefix(a.url, "/step-up/push?flow=") || len(box.Take()) != 0 {
		t.Fatalf("level 3 = %d %s", a.Code, a.url)
	}
	if got := words(b.get("/next")); !strings.Contains(got, "The shop") || !strings.Contains(got, "Not you?") || !strings.Contains(got, demo) {
		t.Errorf("the page does not say for which application and account it asks:\n%s", got)
	}
	waiting, link := b.prompt(box)
	number := waiting.number(t)
	if waiting.Header().Get("Refresh") != "4" {
		t.Errorf("the page that waits has Refresh %q", waiting.Header().Get("Refresh"))
	}
	form := phone.get(link)
	for _, want := range []string{demo, "203.0.113.7", "The shop"} {
		if !strings.Contains(form.Body.String(), want) {
			t.Errorf("the phone does not say %q:\n%s", want, form.Body)
		}
	}
	if strings.Contains(form.Body.String(), ">"+number+"<") {
		t.Error("the phone shows the number that it asks for")
	}
	if a := phone.post(form); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no number = %d", a.Code)
	}
	if a := phone.post(form, "number", number); a.Code != http.StatusSeeOther {
		t.Fatalf("approving = %d:\n%s", a.Code, a.Body)
	}
	if a := phone.get(link); !strings.Contains(a.Body.String(), "Approved") {
		t.Errorf("the phone afterwards = %d:\n%s", a.Code, a.Body)
	}
	if a := b.get(waiting.url); !strings.HasPrefix(a.Body.String(), "signed in as ") {
		t.Errorf("the page that waited = %d %s:\n%s", a.Code, a.url, a.Body)
	}
	if s, err := h.session(b); err != nil || s.Level != 3 || len(s.References) != 1 || s.References[0] != "mca" {
		t.Errorf("the session is %+v (%v), want level 3 by mca", s, err)
	}
	if a := b.get("/account/security"); !strings.Contains(a.Body.String(), "on these phones") {
		t.Errorf("the page about security:\n%s", a.Body)
	}
	if got := words(b.get("/account/security")); !strings.Contains(got, "Last used on 21 November 2026, 13:00 UTC") {
		t.Errorf("the page about security does not say when the phone was last asked:\n%s", got)
	}
	for key, value := range h.dump() {
		for _, secret := range phone.cookies {
			if len(secret) > 20 && (strings.Contains(value, secret) || strings.Contains(key, secret)) {
				t.Errorf("%q holds a cookie of the phone", key)
			}
		}
	}

	other := h.plain()
	u.StepUp.AuthenticationMethods.PushAuthenticationLevel = 2
	if a := other.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 3 with prompts of level 2 = %d", a.Code)
	}
	u.StepUp.AuthenticationMethods.PushAuthenticationLevel = 3
	h.prompts = nil
	h.start()
	if a := other.get("/next"); a.Code != http.StatusForbidden {
		t.Errorf("level 3 with nothing to ask by = %d", a.Code)
	}
	if a := other.get(pushPage); a.Code == http.StatusOK && !strings.HasPrefix(a.url, "/step-up") {
		t.Errorf("the set-up with nothing to ask by = %d %s", a.Code, a.url)
	}
	h.checkInvariants()
}

func TestPushDenied(t *testing.T) {
	t.Parallel()
	h, _, box := pushing(t)
	desk := h.plain()
	phone := desk.enrol()
	b := h.plain()
	waiting, link := b.prompt(box)
	if a := phone.post(phone.get(link), "deny", "yes"); a.Code != http.StatusSeeOther {
		t.Fatalf("denying = %d", a.Code)
	}
	if a := phone.get(link); !strings.Contains(a.Body.String(), `href="/account/security/password"`) {
		t.Errorf("the phone does not lead to a new password after a denial:\n%s", a.Body)
	}
	a := b.get(waiting.url)
	if !strings.Contains(a.Body.String(), "denied on your phone") || h.events()["login.PromptDeniedEvent"] != 1 {
		t.Errorf("the page that waited = %d:\n%s", a.Code, a.Body)
	}
	if a := b.post(a); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") != "30" || len(box.Take()) != 0 {
		t.Errorf("asking again at once = %d", a.Code)
	}
	h.clock.Advance(time.Minute)
	if waiting, link = b.prompt(box); waiting.Code != http.StatusOK {
		t.Fatalf("asking a minute later = %d", waiting.Code)
	}
	h.clock.Advance(2 * time.Minute)
	if a := b.get(waiting.url); !strings.Contains(a.Body.String(), "didn’t respond in time") {
		t.Errorf("two minutes later = %d:\n%s", a.Code, a.Body)
	}
	if a := phone.get(link); !strings.Contains(a.Body.String(), "request has expired") {
		t.Errorf("the phone two minutes later = %d:\n%s", a.Code, a.Body)
	}
	h.checkInvariants()
}

func TestPushAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 221: whoever has the password cannot wear the person down by prompts", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.plain()
		desk.enrol()
		thief := h.plain()
		form, sent := thief.get("/next"), 0
		for range 30 { // half an hour
			h.clock.Advance(time.Minute)
			if a := thief.get(form.url); strings.Contains(a.Body.String(), "<form") {
				thief.post(a)
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
		desk := h.plain()
		phone := desk.enrol()
		b := h.plain()
		waiting, link := b.prompt(box)
		number, form := waiting.number(t), phone.get(link)
		wrong := wrongFor(number)
		phone.post(form, "number", wrong)
		if a := phone.post(form, "number", number); strings.Contains(a.Body.String(), "Approved") {
			t.Error("a second number is taken")
		}
		if a := b.get(waiting.url); strings.HasPrefix(a.Body.String(), "signed in as ") || !strings.Contains(a.Body.String(), "a wrong number") {
			t.Errorf("after a wrong number = %d:\n%s", a.Code, a.Body)
		}
	})
	t.Run("attack 266: a prompt is answered by the person's phone alone, once, and opens the browser that asked", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.plain()
		phone := desk.enrol()
		b, thief := h.plain(), h.plain()
		waiting, link := b.prompt(box)
		number := waiting.number(t)
		for name, who := range map[string]*browser{"a stranger": h.browser(), "the browser that asked": b, "another browser of the password": thief, "the browser that set up the phone": desk} {
			if a := who.get(link); a.Code != http.StatusNotFound || strings.Contains(a.Body.String(), demo) != who.isSignedIn() {
				t.Errorf("%s looks at the prompt: %d", name, a.Code)
			}
		}
		form := phone.get(link)
		if a := phone.do(http.MethodPost, link, "number="+number); a.Code != http.StatusForbidden {
			t.Errorf("approving without the form's token = %d", a.Code)
		}
		var wg sync.WaitGroup
		for i := range 20 { // approve and deny at once
			wg.Go(func() {
				if i%2 == 0 {
					phone.clone().post(form, "number", number)
				} else {
					phone.clone().post(form, "deny", "yes")
				}
			})
		}
		wg.Wait()
		denied := h.events()["login.PromptDeniedEvent"]
		opened := strings.HasPrefix(b.get(waiting.url).Body.String(), "signed in as ")
		if denied > 1 || opened == (denied == 1) {
			t.Errorf("%d denials, and opened %v: want one or the other", denied, opened)
		}
		if a := thief.get(waiting.url); strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Error("another browser is let in by it")
		}
		h.wantLevel(thief, 1)
	})
	t.Run("attack 266: a set-up takes one phone, and only with the number that it shows", func(t *testing.T) {
		t.Parallel()
		h, _, _ := pushing(t)
		desk := h.plain()
		link := desk.enrolLink()
		spy, phone := h.browser(), h.browser()
		if a := phone.get(link); a.Code != http.StatusOK {
			t.Fatalf("the link = %d", a.Code)
		}
		spy.post(spy.get(link)) // before the phone does
		if a := phone.get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the second phone = %d, want it refused", a.Code)
		}
		number := spy.get("/push/enrol").number(t)
		wrong := wrongFor(number)
		for range 2 {
			if a := desk.post(desk.get(pushPage), "number", wrong); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("a wrong number = %d", a.Code)
			}
		}
		desk.post(desk.get(pushPage), "number", wrong)
		if a := desk.get(pushPage); !strings.Contains(a.Body.String(), `class="qr"`) || strings.Contains(a.Body.String(), link) {
			t.Errorf("after three wrong numbers the set-up does not begin anew:\n%s", a.Body)
		}
		if a := spy.get("/push/enrol"); a.Code != http.StatusBadRequest {
			t.Errorf("the phone of before = %d", a.Code)
		}
		h.wantLevel(desk, 1)
		// The link is invalid after its time, and as soon as the session that started the set-up has ended.
		link = desk.enrolLink()
		h.clock.Advance(10 * time.Minute)
		if a := h.browser().get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link after ten minutes = %d", a.Code)
		}
		link = desk.enrolLink()
		desk.post(desk.get("/sign-out"))
		if a := h.browser().get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link of a session that has ended = %d", a.Code)
		}
	})
	t.Run("attack 266: a phone that is lost is taken off by the administrator", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.plain()
		phone := desk.enrol()
		b := h.plain()
		_, link := b.prompt(box)
		by := event.Actor{ID: "admin", Name: "admin"}
		if err := h.StepUp.RemoveStepUp(t.Context(), demo, "push", by); err != nil {
			t.Fatal(err)
		}
		if a := phone.get(link); a.Code != http.StatusNotFound {
			t.Errorf("the lost phone = %d", a.Code)
		}
		if err := h.StepUp.RemoveStepUp(t.Context(), demo, "push", by); !errors.Is(err, stepup.ErrNoMethod) {
			t.Errorf("taking it off twice = %v", err)
		}
	})
	t.Run("attack 266: a phone that was removed is asked no more, and answers nothing", func(t *testing.T) {
		t.Parallel()
		h, _, box := pushing(t)
		desk := h.plain()
		phone := desk.enrol()
		b := h.plain()
		waiting, link := b.prompt(box)
		form := phone.get(link)
		if a := desk.post(desk.get("/account/security/remove?method=push")); a.Code != http.StatusSeeOther {
			t.Fatalf("removing = %d", a.Code)
		}
		if a := phone.post(form, "number", waiting.number(t)); a.Code != http.StatusNotFound {
			t.Errorf("the phone that was removed = %d", a.Code)
		}
		if a := b.get(waiting.url); strings.HasPrefix(a.Body.String(), "signed in as ") {
			t.Error("a phone that was removed lets in")
		}
		h.wantLevel(desk, 1)
	})
}
