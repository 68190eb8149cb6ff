package identity_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestInvitationAttacks: links and answers that are expired, guessed, used twice, or sent from another browser.
func TestInvitationAttacks(t *testing.T) {
	t.Parallel()
	checked := func(t *testing.T) (*inviting, enrol.Invitation, string) {
		x := newInviting(t)
		x.u.Features.InvitationVerificationRequired.ViaBirthdateEnabled = true
		made := x.invite(enrol.NewInvitation{Email: guest, DateOfBirth: "1990-12-31"})
		return x, made, x.link()
	}
	t.Run("attack 267: a link that is a second too old", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		x.clock.Advance(7*24*time.Hour - time.Second)
		if a := x.browser().get(link); a.Code != http.StatusOK {
			t.Errorf("the last second = %d, want 200", a.Code)
		}
		x.clock.Advance(time.Second)
		if a := x.browser().get(link); a.Code != http.StatusBadRequest || x.state(made.PersonID) != person.Invited {
			t.Errorf("over = %d, want 400", a.Code)
		}
	})
	t.Run("attack 267: a link after the address has changed", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		_, err := x.Person.UpdatePerson(t.Context(), made.PersonID, person.Edit{By: ops}, func(_ storage.Tx, d *person.Details) error {
			d.Profile.EmailAddresses = []person.EmailAddress{{Value: "other@example.com", Primary: true}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if a := x.browser().get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link = %d, want 400", a.Code)
		}
	})
	t.Run("attack 267: guessing the date of birth", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		b := x.browser()
		form := b.get(link)
		var last *answer
		for day := range 5 {
			last = b.post(form, "answer", fmt.Sprintf("1990-12-%02d", day+1))
		}
		if last.Code != http.StatusForbidden || !strings.Contains(last.Body.String(), "locked") {
			t.Errorf("the fifth wrong answer = %d, want to be locked", last.Code)
		}
		for what, who := range map[string]*browser{"this browser": b, "another browser": x.browser()} {
			who.get(link)
			a := who.do(http.MethodPost, "/invitation/check?way=birthdate", url.Values{"csrf": {form.csrf()}, "answer": {"1990-12-31"}}.Encode())
			if a.Code != http.StatusForbidden {
				t.Errorf("the right answer in %s, once locked = %d, want 403", what, a.Code)
			}
		}
		if n := x.events()["person.InvitationLockedEvent"]; n != 1 {
			t.Errorf("%d events of the lock, want 1", n)
		}
		x.clock.Advance(time.Minute)
		if _, err := x.Enrol.InviteAgain(t.Context(), made.PersonID, ops); err != nil {
			t.Fatal(err)
		}
		if a := b.post(b.get(x.link()), "answer", "1990-12-31"); a.Header().Get("Location") != "/invitation" {
			t.Errorf("the right answer to a new invitation = %d", a.Code)
		}
	})
	t.Run("attack 267: guessing in parallel", func(t *testing.T) {
		t.Parallel()
		x, _, link := checked(t)
		b := x.browser()
		form := b.get(link)
		var wg sync.WaitGroup
		codes := make([]int, 64)
		for i := range codes {
			guess := &browser{h: b.h, cookies: map[string]string{}, address: b.address}
			for k, v := range b.cookies {
				guess.cookies[k] = v
			}
			wg.Go(func() { codes[i] = guess.post(form, "answer", fmt.Sprintf("1990-10-%02d", i%28+1)).Code })
		}
		wg.Wait()
		if n := x.events()["person.InvitationCheckFailedEvent"]; n != 5 {
			t.Errorf("%d answers were looked at, want 5", n)
		}
	})
	t.Run("attack 267: accepting without having shown anything", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		b := x.browser()
		form := b.get(link)
		a := b.do(http.MethodPost, "/invitation", url.Values{"csrf": {form.csrf()}, "password": {guestPassword}}.Encode())
		if a.Header().Get("Location") != "/invitation/check" || x.state(made.PersonID) != person.Invited {
			t.Errorf("POST /invitation = %d to %q", a.Code, a.Header().Get("Location"))
		}
		b.post(form, "answer", "1990-12-31")
		other := x.browser() // an answer given in one browser does not count in another
		if a := other.get(link); a.url != "/invitation/check" {
			t.Errorf("another browser with the link comes to %s", a.url)
		}
	})
	t.Run("attack 267: a link twice, and 64 in parallel", func(t *testing.T) {
		t.Parallel()
		x := newInviting(t)
		x.invite(enrol.NewInvitation{Email: guest})
		link := x.link()
		var wg sync.WaitGroup
		codes, forms, browsers := make([]int, 64), make([]*answer, 64), make([]*browser, 64)
		for i := range browsers {
			browsers[i] = x.browser()
			forms[i] = browsers[i].get(link)
		}
		for i, b := range browsers {
			wg.Go(func() { codes[i] = b.post(forms[i], "password", fmt.Sprintf("a guest comes %d", i)).Code })
		}
		wg.Wait()
		won := 0
		for _, c := range codes {
			if c == http.StatusSeeOther {
				won++
			}
		}
		if won != 1 {
			t.Errorf("%d of 64 accepted, want 1: %v", won, codes)
		}
		if n := x.events()["person.InvitationAcceptedEvent"]; n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
	t.Run("attack 267: an identity that is somebody else's already", func(t *testing.T) {
		t.Parallel()
		x := newInviting(t)
		x.at("partner")
		x.mustEnter(x.browser(), ann())
		made := x.invite(enrol.NewInvitation{Email: guest})
		b := x.browser()
		a := b.post(b.get(x.link()), "idp", "partner")
		back := b.come(b.leave(a.Header().Get("Location")), x.partner.Answer(ann(), nil))
		if back.Code != http.StatusConflict || b.isSignedIn() || x.state(made.PersonID) != person.Invited {
			t.Errorf("an identity of another person = %d, state %s", back.Code, x.state(made.PersonID))
		}
		if again := b.get("/invitation"); again.Code != http.StatusOK {
			t.Errorf("the invitation afterwards = %d, want 200", again.Code)
		}
	})
	t.Run("attack 267: the invitation of one person, the provider's answer for another", func(t *testing.T) {
		t.Parallel()
		x := newInviting(t)
		first := x.invite(enrol.NewInvitation{Email: guest})
		b := x.browser()
		a := b.post(b.get(x.link()), "idp", "partner")
		away := b.leave(a.Header().Get("Location"))
		second := x.invite(enrol.NewInvitation{Email: "second@example.com"})
		b.get(x.link())
		if back := b.come(away, x.partner.Answer(ann(), nil)); back.Code != http.StatusBadRequest {
			t.Errorf("the answer = %d, want 400", back.Code)
		}
		if x.state(first.PersonID) != person.Invited || x.state(second.PersonID) != person.Invited {
			t.Error("somebody has come")
		}
	})
	t.Run("attack 237: looking at the link uses nothing up", func(t *testing.T) {
		t.Parallel()
		x := newInviting(t)
		x.invite(enrol.NewInvitation{Email: guest})
		link := x.link()
		for range 3 {
			x.browser().get(link)
		}
		if a := x.accept(x.browser(), link, guestPassword); a.Code != http.StatusSeeOther {
			t.Errorf("accepting = %d", a.Code)
		}
	})
	t.Run("attack 282: forms of another page, and none", func(t *testing.T) {
		t.Parallel()
		x := newInviting(t)
		made := x.invite(enrol.NewInvitation{Email: guest})
		b := x.browser()
		form := b.get(x.link())
		for name, token := range map[string]string{"none": "", "of another browser": x.browser().get("/next").csrf(), "of another form": b.get("/next").csrf()} {
			a := b.do(http.MethodPost, "/invitation", url.Values{"csrf": {token}, "password": {guestPassword}}.Encode())
			if a.Code != http.StatusForbidden || x.state(made.PersonID) != person.Invited {
				t.Errorf("a token %s = %d, want 403", name, a.Code)
			}
		}
		b.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := b.post(form, "password", guestPassword); a.Code != http.StatusForbidden {
			t.Errorf("a form of another site = %d, want 403", a.Code)
		}
	})
	t.Run("attack 281: leading elsewhere", func(t *testing.T) {
		t.Parallel()
		x := newInviting(t)
		x.invite(enrol.NewInvitation{Email: guest})
		b := x.browser()
		form := b.get(x.link() + "&redirect=https://evil.example&next=//evil.example")
		if a := b.post(form, "password", guestPassword, "redirect", "https://evil.example"); a.Header().Get("Location") != "/account" {
			t.Errorf("accepting leads to %q", a.Header().Get("Location"))
		}
	})
}
