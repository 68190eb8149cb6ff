package console

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestBlocks: a block ends by itself at the time that it was given, someone who was invited is invited again after one
// and not active, and an invitation is not "unblocked".
func TestBlocks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("helpdesk@example.com")
	id := h.personID("nobody@example.com")
	state := func(id string) person.State {
		p, err := h.id.Person.Person(t.Context(), id)
		h.must(err)
		return p.State
	}
	ended := func(want int) {
		t.Helper()
		n, err := h.id.Person.EndBlocks(t.Context())
		if h.must(err); n != want {
			t.Errorf("%d blocks have ended at %s, want %d", n, h.clock.Now(), want)
		}
	}
	for _, day := range []string{"2035-11-21", "2001-01-01", "2135-01-01", "tomorrow"} {
		if a := b.acts(personPath(id)+"/block", "until", day); a.Code != http.StatusUnprocessableEntity || state(id) != person.Active {
			t.Errorf("a block until %s = %d, the person is %s", day, a.Code, state(id))
		}
	}
	a := b.acts(personPath(id)+"/block", "until", "2035-11-23", "reason", "on leave")
	if a.Code != http.StatusOK || state(id) != person.Blocked || !strings.Contains(a.form(), "Blocked until") {
		t.Fatalf("block = %d, the person is %s\n%s", a.Code, state(id), a.form())
	}
	h.must(h.id.Person.Block(t.Context(), id, h.clock.Now().Add(72*time.Hour), audit.Actor{ID: "test"})) // it lasts longer now
	ended(0)
	h.clock.Advance(48 * time.Hour)
	ended(0)
	h.clock.Advance(24 * time.Hour)
	ended(1)
	ended(0)
	if state(id) != person.Active {
		t.Errorf("after the block the person is %s", state(id))
	}
	h.must(h.id.Person.Block(t.Context(), id, h.clock.Now().Add(time.Hour), audit.Actor{ID: "test"}))
	h.must(h.id.Person.SetState(t.Context(), id, person.Active, audit.Actor{ID: "test"}))
	h.must(h.id.Person.SetState(t.Context(), id, person.Blocked, audit.Actor{ID: "test"})) // without an end
	h.clock.Advance(2 * time.Hour)
	if ended(0); state(id) != person.Blocked {
		t.Errorf("the end of an earlier block has ended a later one: %s", state(id))
	}
	last := h.allEvents(t.Context())
	for _, e := range last {
		if e.Reason == "the time of the block is over" && e.Type == "person.PersonActivatedEvent" && e.PersonID == id {
			last = nil
		}
	}
	if last != nil {
		t.Errorf("no event tells that a block has ended: %s", typesOf(last))
	}

	t.Run("attack 552: a block and its end make an invited person active", func(t *testing.T) {
		made, err := h.id.Invitation.Invite(t.Context(), invitation.NewInvitation{Email: "new@example.com"}, audit.Actor{ID: "test"})
		h.must(err)
		b = h.as("helpdesk@example.com")
		if a := b.get(personPath(made.PersonID)); strings.Contains(a.form(), "/unblock") {
			t.Errorf("the page of somebody invited offers to let them sign in:\n%s", a.form())
		}
		if err := h.id.Person.SetState(t.Context(), made.PersonID, person.Active, audit.Actor{ID: "test"}); err == nil {
			t.Error("an invited person was unblocked, and is active without having accepted")
		}
		b.acts(personPath(made.PersonID) + "/block")
		if state(made.PersonID) != person.Blocked {
			t.Fatalf("a blocked invitation is %s", state(made.PersonID))
		}
		if a := b.acts(personPath(made.PersonID) + "/unblock"); a.Code != http.StatusOK || state(made.PersonID) != person.Invited {
			t.Errorf("attack: unblocking somebody who was invited = %d, the person is %s", a.Code, state(made.PersonID))
		}
	})
}

// TestMoreOfAPerson: the page shows linked accounts and the last sign-in, a code is shown once, data is a file, and an
// address that has changed since the page was opened is not verified.
func TestMoreOfAPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id, b := h.personID("nobody@example.com"), h.as("operator@example.com")
	path := personPath(id)
	if a := b.get(path); strings.Contains(a.form(), path+"/code") || strings.Contains(a.form(), path+"/verify") {
		t.Errorf("the page offers a code that is switched off, or to verify what is verified:\n%s", a.form())
	}
	h.link("corp", id)
	if a := b.get(path); !strings.Contains(a.form(), path+"/unlink?provider=corp") {
		t.Errorf("the page shows no linked account:\n%s", a.form())
	}
	if a := b.acts(path + "/unlink?provider=other"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("unlinking what is not linked = %d", a.Code)
	}
	if a := b.acts(path + "/code"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), "switched off") {
		t.Errorf("a code that is switched off = %d\n%s", a.Code, a.form())
	}
	a := b.submit(b.get(path + "/data"))
	if a.Code != http.StatusOK || !strings.HasPrefix(a.Header().Get("Content-Disposition"), "attachment") ||
		!strings.Contains(a.Body.String(), `"username": "nobody@example.com"`) ||
		!strings.Contains(a.Body.String(), "https://corp.example.com") {
		t.Errorf("the data of a person = %d %v\n%s", a.Code, a.Header(), a.Body)
	}
	b.acts(path+"/edit", "username", "nobody@example.com", "email", "first@example.com")
	asked := b.get(path + "/verify")
	b.acts(path+"/edit", "username", "nobody@example.com", "email", "second@example.com")
	if a := b.submit(asked); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("verifying an address that has changed = %d", a.Code)
	}
	if a := b.acts(path + "/verify"); a.Code != http.StatusOK || strings.Contains(a.form(), "Not verified") {
		t.Errorf("verify = %d\n%s", a.Code, a.form())
	}
}

// TestSpellingOfAnAddress: another spelling of an address is stored and stays verified. A new address is not verified.
func TestSpellingOfAnAddress(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.personID("nobody@example.com")
	for _, tt := range []struct {
		email    string
		verified bool
	}{
		{"Nobody@Example.com", true},
		{"someone@example.com", false},
	} {
		h.must(h.console.Manage.ChangePerson(t.Context(), id, admin.PersonChange{Email: &tt.email}, audit.Actor{}, nil))
		p, err := h.id.Person.Person(t.Context(), id)
		h.must(err)
		if p.Email != tt.email || p.EmailVerified != tt.verified {
			t.Errorf("after the change to %q: %q, verified: %t, want verified: %t", tt.email, p.Email, p.EmailVerified, tt.verified)
		}
	}
}

// TestEndSessionByTheClock: whether a session is live is judged by the clock of the service, here of a year long ago.
func TestEndSessionByTheClock(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.clock.Advance(-20 * 365 * 24 * time.Hour)
	id := h.personID("nobody@example.com")
	h.as("nobody@example.com")
	var open []session.Session
	h.must(h.store.View(t.Context(), func(tx storage.Tx) (err error) {
		open, err = h.id.Session.OfPerson(tx, id, h.clock.Now())
		return err
	}))
	if len(open) != 1 {
		t.Fatalf("%d sessions, want 1", len(open))
	}
	for _, want := range []error{nil, admin.ErrGone} {
		if err := h.console.Manage.EndSession(t.Context(), open[0].ID, audit.Actor{}); !errors.Is(err, want) {
			t.Errorf("EndSession = %v, want %v", err, want)
		}
	}
}

// TestRemoveMethodByMail: the form offers an e-mail to a person with an address, where e-mails can be sent.
func TestRemoveMethodByMail(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.edit(func(u *settings.Units) {
		u.Features.PINEnabled, u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true, true
	})
	id, desk := h.personID("nobody@example.com"), h.as("helpdesk@example.com")
	form := personPath(id) + "/remove-method?method=pin"
	remove := func(fields ...string) int {
		t.Helper()
		if a := h.as("nobody@example.com").acts("/account/security/pin", "pin", "827164", "again", "827164"); a.Code != http.StatusOK {
			t.Fatalf("a new PIN = %d\n%s", a.Code, a.Body)
		}
		h.notices.Take()
		if a := desk.acts(form, fields...); a.Code != http.StatusOK || !strings.Contains(a.form(), "has been removed") {
			t.Fatalf("remove = %d\n%s", a.Code, a.form())
		}
		return len(h.notices.Take())
	}
	if page := desk.get(form).form(); !strings.Contains(page, "nobody@example.com") || !strings.Contains(page, "Tell them by e-mail") {
		t.Errorf("the form does not offer an e-mail:\n%s", page)
	}
	if n := remove("mail", "on"); n != 1 {
		t.Errorf("%d e-mails were sent, want 1", n)
	}
	if n := remove(); n != 0 {
		t.Errorf("%d e-mails were sent without the tick, want none", n)
	}
	if page := desk.get(personPath(id) + "/remove-method?method=passkey").form(); strings.Contains(page, "Tell them by e-mail") {
		t.Errorf("the form asks about the e-mail that is sent in any case:\n%s", page)
	}
	h.console.Mails = false
	if page := desk.get(form).form(); strings.Contains(page, "Tell them by e-mail") {
		t.Errorf("the form offers what cannot be sent:\n%s", page)
	}
}
