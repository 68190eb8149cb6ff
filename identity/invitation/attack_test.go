package invitation_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestInvitationAttacks: links and answers that are expired, guessed, used twice, or sent from another browser.
func TestInvitationAttacks(t *testing.T) {
	t.Parallel()
	checked := func(t *testing.T) (*identitytest.Inviting, invitation.Invitation, string) {
		x := identitytest.NewInviting(t)
		x.U.Features.InvitationVerificationRequired.ViaBirthdateEnabled = true
		made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest, DateOfBirth: "1990-12-31"})
		return x, made, x.Link()
	}
	t.Run("attack 267: a link that is a second too old", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		x.Clock.Advance(7*24*time.Hour - time.Second)
		if a := x.Browser().Get(link); a.Code != http.StatusOK {
			t.Errorf("the last second = %d, want 200", a.Code)
		}
		x.Clock.Advance(time.Second)
		if a := x.Browser().Get(link); a.Code != http.StatusBadRequest || x.State(made.PersonID) != person.Invited {
			t.Errorf("over = %d, want 400", a.Code)
		}
	})
	t.Run("attack 267: a link after the address has changed", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		_, err := x.Person.UpdatePerson(t.Context(), made.PersonID, person.Edit{By: identitytest.Ops},
			func(_ storage.Tx, d *person.Details) error {
				d.Profile.EmailAddresses = []person.EmailAddress{{Value: "other@example.com", Primary: true}}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if a := x.Browser().Get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link = %d, want 400", a.Code)
		}
	})
	t.Run("attack 267: guessing the date of birth", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		b := x.Browser()
		form := b.Get(link)
		var last *identitytest.Answer
		for day := range 5 {
			last = b.Post(form, "answer", fmt.Sprintf("1990-12-%02d", day+1))
		}
		if last.Code != http.StatusForbidden || !strings.Contains(last.Body.String(), "locked") {
			t.Errorf("the fifth wrong answer = %d, want to be locked", last.Code)
		}
		for what, who := range map[string]*identitytest.Browser{"this browser": b, "another browser": x.Browser()} {
			who.Get(link)
			a := who.Do(http.MethodPost, "/invitation/check?way=birthdate", url.Values{"csrf": {form.CSRF()}, "answer": {"1990-12-31"}}.Encode())
			if a.Code != http.StatusForbidden {
				t.Errorf("the right answer in %s, once locked = %d, want 403", what, a.Code)
			}
		}
		if n := x.Events()["person.InvitationLockedEvent"]; n != 1 {
			t.Errorf("%d events of the lock, want 1", n)
		}
		x.Clock.Advance(time.Minute)
		if _, err := x.Invitation.InviteAgain(t.Context(), made.PersonID, identitytest.Ops); err != nil {
			t.Fatal(err)
		}
		if a := b.Post(b.Get(x.Link()), "answer", "1990-12-31"); a.Header().Get("Location") != "/invitation" {
			t.Errorf("the right answer to a new invitation = %d", a.Code)
		}
	})
	t.Run("attack 267: guessing in parallel", func(t *testing.T) {
		t.Parallel()
		x, _, link := checked(t)
		b := x.Browser()
		form := b.Get(link)
		var wg sync.WaitGroup
		codes := make([]int, 64)
		for i := range codes {
			guess := &identitytest.Browser{H: b.H, Cookies: map[string]string{}, Address: b.Address}
			for k, v := range b.Cookies {
				guess.Cookies[k] = v
			}
			wg.Go(func() { codes[i] = guess.Post(form, "answer", fmt.Sprintf("1990-10-%02d", i%28+1)).Code })
		}
		wg.Wait()
		if n := x.Events()["person.InvitationCheckFailedEvent"]; n != 5 {
			t.Errorf("%d answers were looked at, want 5", n)
		}
	})
	t.Run("attack 267: accepting without having shown anything", func(t *testing.T) {
		t.Parallel()
		x, made, link := checked(t)
		b := x.Browser()
		form := b.Get(link)
		a := b.Do(http.MethodPost, "/invitation", url.Values{"csrf": {form.CSRF()}, "password": {identitytest.GuestPassword}}.Encode())
		if a.Header().Get("Location") != "/invitation/check" || x.State(made.PersonID) != person.Invited {
			t.Errorf("POST /invitation = %d to %q", a.Code, a.Header().Get("Location"))
		}
		b.Post(form, "answer", "1990-12-31")
		other := x.Browser() // an answer given in one browser does not count in another
		if a := other.Get(link); a.URL != "/invitation/check" {
			t.Errorf("another browser with the link comes to %s", a.URL)
		}
	})
	t.Run("attack 267: a link twice, and 64 in parallel", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewInviting(t)
		x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
		link := x.Link()
		var wg sync.WaitGroup
		codes, forms, browsers := make([]int, 64), make([]*identitytest.Answer, 64), make([]*identitytest.Browser, 64)
		for i := range browsers {
			browsers[i] = x.Browser()
			forms[i] = browsers[i].Get(link)
		}
		for i, b := range browsers {
			wg.Go(func() { codes[i] = b.Post(forms[i], "password", fmt.Sprintf("a guest comes %d", i)).Code })
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
		if n := x.Events()["person.InvitationAcceptedEvent"]; n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
	t.Run("attack 267: an identity that is somebody else's already", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewInviting(t)
		x.At("partner")
		x.MustEnter(x.Browser(), identitytest.Ann())
		made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
		b := x.Browser()
		a := b.Post(b.Get(x.Link()), "idp", "partner")
		back := b.Come(b.Leave(a.Header().Get("Location")), x.Partner.Answer(identitytest.Ann(), nil))
		if back.Code != http.StatusConflict || b.IsSignedIn() || x.State(made.PersonID) != person.Invited {
			t.Errorf("an identity of another person = %d, state %s", back.Code, x.State(made.PersonID))
		}
		if again := b.Get("/invitation"); again.Code != http.StatusOK {
			t.Errorf("the invitation afterwards = %d, want 200", again.Code)
		}
	})
	t.Run("attack 267: the invitation of one person, the provider's answer for another", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewInviting(t)
		first := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
		b := x.Browser()
		a := b.Post(b.Get(x.Link()), "idp", "partner")
		away := b.Leave(a.Header().Get("Location"))
		second := x.Invite(invitation.NewInvitation{Email: "second@example.com"})
		b.Get(x.Link())
		if back := b.Come(away, x.Partner.Answer(identitytest.Ann(), nil)); back.Code != http.StatusBadRequest {
			t.Errorf("the answer = %d, want 400", back.Code)
		}
		if x.State(first.PersonID) != person.Invited || x.State(second.PersonID) != person.Invited {
			t.Error("somebody has come")
		}
	})
	t.Run("attack 237: looking at the link uses nothing up", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewInviting(t)
		x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
		link := x.Link()
		for range 3 {
			x.Browser().Get(link)
		}
		if a := accept(x, x.Browser(), link, identitytest.GuestPassword); a.Code != http.StatusSeeOther {
			t.Errorf("accepting = %d", a.Code)
		}
	})
	t.Run("attack 282: forms of another page, and none", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewInviting(t)
		made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
		b := x.Browser()
		form := b.Get(x.Link())
		for name, token := range map[string]string{
			"none": "", "of another browser": x.Browser().Get("/next").CSRF(),
			"of another form": b.Get("/next").CSRF(),
		} {
			a := b.Do(http.MethodPost, "/invitation", url.Values{"csrf": {token}, "password": {identitytest.GuestPassword}}.Encode())
			if a.Code != http.StatusForbidden || x.State(made.PersonID) != person.Invited {
				t.Errorf("a token %s = %d, want 403", name, a.Code)
			}
		}
		b.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := b.Post(form, "password", identitytest.GuestPassword); a.Code != http.StatusForbidden {
			t.Errorf("a form of another site = %d, want 403", a.Code)
		}
	})
	t.Run("attack 281: leading elsewhere", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewInviting(t)
		x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
		b := x.Browser()
		form := b.Get(x.Link() + "&redirect=https://evil.example&next=//evil.example")
		if a := b.Post(form, "password", identitytest.GuestPassword, "redirect",
			"https://evil.example"); a.Header().Get("Location") != "/account" {
			t.Errorf("accepting leads to %q", a.Header().Get("Location"))
		}
	})
}
