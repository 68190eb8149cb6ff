package identity_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	guest         = "guest@example.com"
	guestPassword = "a guest comes 1"
)

// inviting is a harness where persons are invited by e-mail.
type inviting struct {
	*elsewhere
	u *config.Units
	m *notifytest.Notices
}

func newInviting(t *testing.T) *inviting {
	t.Helper()
	u := config.Defaults()
	u.Features.AcceptingInvitationEnabled = true
	u.EmailNotifications.AccountInvitation = true
	x := &inviting{elsewhere: newElsewhere(t), u: &u, m: new(notifytest.Notices)}
	x.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	x.notices = x.m
	x.start()
	return x
}

func (x *inviting) invite(n enrol.NewInvitation) enrol.Invitation {
	x.t.Helper()
	made, err := x.Enrol.Invite(x.t.Context(), n, ops)
	if err != nil {
		x.t.Fatal(err)
	}
	return made
}

// link returns the path of the link in the newest notice.
func (x *inviting) link() string {
	x.t.Helper()
	list := x.m.Take()
	if len(list) == 0 {
		x.t.Fatal("nobody was sent a link")
	}
	return list[len(list)-1].Link
}

func (x *inviting) state(id string) person.State {
	x.t.Helper()
	p, err := x.Person.Person(x.t.Context(), id)
	if err != nil {
		x.t.Fatal(err)
	}
	return p.State
}

// verified tells whether the primary address of a person is verified.
func (x *inviting) verified(id string) bool {
	x.t.Helper()
	p, err := x.Person.Person(x.t.Context(), id)
	if err != nil {
		x.t.Fatal(err)
	}
	return p.EmailVerified
}

// accept opens a link and chooses a password.
func (x *inviting) accept(b *browser, link, password string) *answer {
	x.t.Helper()
	return b.post(b.get(link), "password", password)
}

func TestInvitation(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	made := x.invite(enrol.NewInvitation{Email: guest, Name: "Gail Guest", Groups: []string{"guests"}, Locale: "nl"})
	list := heard(t, "an invitation", x.m, "account_invitation "+guest)
	n := list[0]
	if !made.Sent || made.Link != "" || !made.ExpiresAt.Equal(x.clock.Now().Add(7*24*time.Hour)) || x.state(made.PersonID) != person.Invited {
		t.Errorf("Invite = %+v, want one that was sent, for 7 days, of a person who is invited", made)
	}
	if !strings.HasPrefix(n.Link, "/invitation?token=ghml_") || n.Locales[0] != "nl" || n.Data["username"] != guest {
		t.Errorf("notice = %+v", n)
	}
	b := x.browser()
	if a := b.try(guest, guestPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a sign-in before the invitation is accepted = %d, want 422", a.Code)
	}
	a := b.do(http.MethodGet, n.Link, "")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/invitation" || a.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("the link = %d to %q, want 303 to the page without the token", a.Code, a.Header().Get("Location"))
	}
	form := b.get("/invitation")
	if body := form.Body.String(); form.Code != http.StatusOK || !strings.Contains(body, guest) || strings.Contains(body, "ghml_") {
		t.Fatalf("the page = %d, want one with the username and without the token:\n%s", form.Code, body)
	}
	for what, bad := range map[string]string{"too short": "short", "none": ""} {
		if a := b.post(form, "password", bad); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), `aria-invalid="true"`) {
			t.Errorf("a password that is %s = %d, want 422 and the field marked", what, a.Code)
		}
	}
	if x.state(made.PersonID) != person.Invited {
		t.Error("a password that was refused made the person active")
	}
	a = b.post(form, "password", guestPassword)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account" || !b.isSignedIn() {
		t.Fatalf("accepting = %d to %q, signed in: %t\n%s", a.Code, a.Header().Get("Location"), b.isSignedIn(), a.Body)
	}
	if x.state(made.PersonID) != person.Active || !x.verified(made.PersonID) {
		t.Error("the person is not active with a verified address")
	}
	p, err := x.Person.Person(t.Context(), guest)
	if err != nil || p.Name != "Gail Guest" || len(p.Groups) != 1 || p.Groups[0] != "guests" {
		t.Errorf("Person = %+v, %v", p, err)
	}
	x.browser().signIn(guest, guestPassword)
	ev := x.events()
	for kind, want := range map[string]int{
		"person.PersonInvitedEvent": 1, "person.InvitationAcceptedEvent": 1, "person.PersonActivatedEvent": 1, "login.LoginSucceededEvent": 2,
	} {
		if ev[kind] != want {
			t.Errorf("%d events %s, want %d", ev[kind], kind, want)
		}
	}
}

// TestInvitationMail: if the switch is off or there is no mail server, the operator has to pass on the link. Such a
// link does not verify the address.
func TestInvitationMail(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*inviting){
		"switched off": func(x *inviting) { x.u.EmailNotifications.AccountInvitation = false },
		"no mail":      func(x *inviting) { x.notices = nil; x.start() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			x := newInviting(t)
			change(x)
			made := x.invite(enrol.NewInvitation{Email: guest})
			heard(t, "an invitation", x.m)
			link, ok := strings.CutPrefix(made.Link, issuer)
			if made.Sent || !ok {
				t.Fatalf("Invite = %+v, want a link of the issuer", made)
			}
			if a := x.accept(x.browser(), link, guestPassword); a.Code != http.StatusSeeOther {
				t.Fatalf("accepting = %d\n%s", a.Code, a.Body)
			}
			if x.state(made.PersonID) != person.Active || x.verified(made.PersonID) {
				t.Error("want an active person whose address nobody has shown to be theirs")
			}
		})
	}
}

func TestInvitationSwitch(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	made := x.invite(enrol.NewInvitation{Email: guest})
	link := x.link()
	b := x.browser()
	form := b.get(link)
	x.u.Features.AcceptingInvitationEnabled = false
	if _, err := x.Enrol.Invite(t.Context(), enrol.NewInvitation{Email: "other@example.com"}, ops); !errors.Is(err, enrol.ErrInvitationsOff) {
		t.Errorf("Invite while switched off = %v", err)
	}
	if _, err := x.Person.Person(t.Context(), "other@example.com"); !errors.Is(err, person.ErrNoPerson) {
		t.Errorf("Person = %v, want nobody", err)
	}
	if a := b.post(form, "password", guestPassword); a.Code != http.StatusBadRequest || x.state(made.PersonID) != person.Invited {
		t.Errorf("accepting while switched off = %d", a.Code)
	}
	x.u.Features.AcceptingInvitationEnabled = true
	if a := x.accept(x.browser(), link, guestPassword); a.Code != http.StatusSeeOther {
		t.Errorf("accepting once it is on again = %d", a.Code)
	}
}

func TestInvitationAgain(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	made := x.invite(enrol.NewInvitation{Email: guest})
	old := x.link()
	soon := new(proof.TooSoonError)
	if _, err := x.Enrol.InviteAgain(t.Context(), made.PersonID, ops); !errors.As(err, &soon) || soon.Wait <= 0 || soon.Wait > time.Minute {
		t.Errorf("InviteAgain at once = %v, want to wait a minute", err)
	}
	x.clock.Advance(time.Minute)
	again, err := x.Enrol.InviteAgain(t.Context(), guest, ops)
	if err != nil || again.PersonID != made.PersonID || again.ExpiresAt.Equal(made.ExpiresAt) {
		t.Fatalf("InviteAgain = %+v, %v", again, err)
	}
	link := x.link()
	if a := x.browser().get(old); a.Code != http.StatusBadRequest {
		t.Errorf("the older link = %d, want 400", a.Code)
	}
	if a := x.accept(x.browser(), link, guestPassword); a.Code != http.StatusSeeOther {
		t.Fatalf("the newer link = %d", a.Code)
	}
	state := new(person.StateError)
	if _, err := x.Enrol.InviteAgain(t.Context(), guest, ops); !errors.As(err, &state) {
		t.Errorf("InviteAgain of who has come = %v, want a StateError", err)
	}
	if err := x.Enrol.WithdrawInvitation(t.Context(), made.PersonID, ops); !errors.As(err, &state) || x.state(made.PersonID) != person.Active {
		t.Errorf("WithdrawInvitation of who has come = %v, want a StateError", err)
	}
	if _, err := x.Enrol.InviteAgain(t.Context(), "nobody", ops); !errors.Is(err, person.ErrNoPerson) {
		t.Errorf("InviteAgain of nobody = %v", err)
	}
}

// TestInvitationMended: after a mistyped address is corrected, the new link goes to the corrected address and works.
func TestInvitationMended(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	made := x.invite(enrol.NewInvitation{Email: "gust@example.com", Username: "guest"})
	old := x.link()
	_, err := x.Person.UpdatePerson(t.Context(), made.PersonID, person.Edit{By: ops}, func(_ storage.Tx, d *person.Details) error {
		d.Profile.EmailAddresses = []person.EmailAddress{{Value: guest, Primary: true}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if a := x.browser().get(old); a.Code != http.StatusBadRequest {
		t.Errorf("the link that went elsewhere = %d, want 400", a.Code)
	}
	x.m.Take()
	x.clock.Advance(time.Minute)
	again, err := x.Enrol.InviteAgain(t.Context(), made.PersonID, ops)
	if err != nil || again.Email != guest || !again.Sent {
		t.Fatalf("InviteAgain = %+v, %v, want it to go to %s", again, err, guest)
	}
	link := heard(t, "again", x.m, "account_invitation "+guest)[0].Link
	if a := x.accept(x.browser(), link, guestPassword); a.Code != http.StatusSeeOther || x.state(made.PersonID) != person.Active || !x.verified(made.PersonID) {
		t.Errorf("accepting = %d", a.Code)
	}
}

func TestInvitationWithdrawn(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	x.u.EmailNotifications.AccountRemoved = true
	made := x.invite(enrol.NewInvitation{Email: guest})
	link := x.link()
	b := x.browser()
	form := b.get(link)
	if err := x.Enrol.WithdrawInvitation(t.Context(), made.PersonID, ops); err != nil {
		t.Fatal(err)
	}
	heard(t, "who was never there is not told that the account is gone", x.m)
	if a := b.post(form, "password", guestPassword); a.Code != http.StatusBadRequest {
		t.Errorf("accepting = %d, want 400", a.Code)
	}
	x.invite(enrol.NewInvitation{Email: guest}) // the username is free again
	if a := x.browser().get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link of before = %d, want 400", a.Code)
	}
}

func TestInvitationRefuses(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	for name, n := range map[string]enrol.NewInvitation{
		"no address":              {},
		"no address, a username":  {Username: "guest"},
		"two addresses":           {Email: "a@example.com,b@example.com"},
		"a header in the address": {Email: "a@example.com\r\nBcc: x@example.com"},
		"a bad date":              {Email: guest, DateOfBirth: "31.12.1990"},
		"a bad number":            {Email: guest, PhoneNumbers: []string{"call me"}},
		"a bad group":             {Email: guest, Groups: []string{"a,b"}},
		"a bad language":          {Email: guest, Locale: "no language"},
		"a partition":             {Email: guest, Partition: "acme"},
	} {
		if _, err := x.Enrol.Invite(t.Context(), n, ops); !errors.As(err, new(*person.ValidationError)) {
			t.Errorf("Invite: %s = %v, want a ValidationError", name, err)
		}
	}
	if _, err := x.Enrol.Invite(t.Context(), enrol.NewInvitation{Email: demo}, ops); !errors.Is(err, person.ErrUsernameTaken) {
		t.Errorf("Invite of somebody who is there = %v, want ErrUsernameTaken", err)
	}
	heard(t, "nobody is told", x.m)
}

func TestInvitationRedirects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*config.Redirects)
		want   string
	}{
		"a path":           {func(r *config.Redirects) { r.URLAfterSignUp = "/welcome" }, "/welcome"},
		"another site":     {func(r *config.Redirects) { r.URLAfterSignUp = "https://shop.example.com/welcome" }, "https://shop.example.com/welcome"},
		"as after sign-in": {func(r *config.Redirects) { r.URLAfterLogin = "/in" }, "/in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newInviting(t)
			tt.change(&x.u.Redirects)
			x.invite(enrol.NewInvitation{Email: guest})
			b := x.browser()
			form := b.get(x.link())
			if to, _, ok := strings.Cut(tt.want, "/welcome"); ok && to != "" && !strings.Contains(form.Header().Get("Content-Security-Policy"), to) {
				t.Errorf("policy = %q, want one that lets the form lead to %s", form.Header().Get("Content-Security-Policy"), to)
			}
			if a := b.post(form, "password", guestPassword); a.Header().Get("Location") != tt.want {
				t.Errorf("accepting leads to %q, want %q", a.Header().Get("Location"), tt.want)
			}
		})
	}
}

func TestInvitationByBirthdate(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	x.u.Features.InvitationVerificationRequired.ViaBirthdateEnabled = true
	made := x.invite(enrol.NewInvitation{Email: guest, DateOfBirth: "1990-12-31"})
	b := x.browser()
	form := b.get(x.link())
	body := form.Body.String()
	if form.url != "/invitation/check" || !strings.Contains(body, `type="date"`) || strings.Contains(body, "1990") || strings.Contains(body, `name="skip"`) {
		t.Fatalf("the link leads to %s, want to be asked for the date and nothing else:\n%s", form.url, body)
	}
	if a := b.post(form, "answer", "1990-12-30"); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.Body.String(), "doesn’t match") {
		t.Errorf("a wrong date = %d, want 422", a.Code)
	}
	if a := b.post(form); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no date = %d, want 422", a.Code)
	}
	if a := b.post(form, "answer", "1990-12-31"); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("the date = %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.post(b.get("/invitation"), "password", guestPassword); a.Code != http.StatusSeeOther || x.state(made.PersonID) != person.Active {
		t.Errorf("accepting = %d", a.Code)
	}
	if n := x.events()["person.InvitationCheckFailedEvent"]; n != 1 {
		t.Errorf("%d events of a wrong answer, want 1", n)
	}
}

func TestInvitationByCode(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	made := x.invite(enrol.NewInvitation{Email: guest, DateOfBirth: "1990-12-31"})
	link := x.link()
	if _, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation", ops); !errors.Is(err, proof.ErrCodesOff) {
		t.Errorf("MakeDeliveredCode while switched off = %v", err)
	}
	x.u.Features.InvitationVerificationRequired.ViaExternallyDeliveredCodeEnabled = true
	x.u.Features.PersonActivation.ExternallyDeliveredCode.ResendCodeMinimumPeriod = 3600
	code, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation", ops)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation", ops); !errors.As(err, new(*proof.TooSoonError)) {
		t.Errorf("attack 267: another code within the period = %v, want to wait", err)
	}
	b := x.browser()
	form := b.get(link)
	if a := b.post(form, "answer", "AAAA-AAAA"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code = %d, want 422", a.Code)
	}
	if a := b.post(form, "answer", strings.ToLower(code.Code)); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("the code = %d\n%s", a.Code, a.Body)
	}
	if a := b.post(b.get("/invitation"), "password", guestPassword); a.Code != http.StatusSeeOther {
		t.Errorf("accepting = %d", a.Code)
	}
	if _, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation", ops); !errors.As(err, new(*person.StateError)) {
		t.Errorf("MakeDeliveredCode for who has come = %v, want a StateError", err)
	}
}

// TestInvitationWays: if several checks are switched on, the person chooses among those that are possible.
func TestInvitationWays(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	v := &x.u.Features.InvitationVerificationRequired
	v.ViaBirthdateEnabled, v.ViaExternallyDeliveredCodeEnabled = true, true
	x.invite(enrol.NewInvitation{Email: guest, DateOfBirth: "1990-12-31"})
	b := x.browser()
	choice := b.get(x.link()).Body.String()
	for _, way := range []string{"birthdate", "code"} {
		if !strings.Contains(choice, `href="/invitation/check?way=`+way+`"`) {
			t.Errorf("the choice has no %s:\n%s", way, choice)
		}
	}
	if a := b.post(b.get("/invitation/check?way=birthdate"), "answer", "1990-12-31"); a.Header().Get("Location") != "/invitation" {
		t.Errorf("the date = %d", a.Code)
	}
	v.ViaExternallyDeliveredCodeEnabled = false
	x.clock.Advance(time.Minute)
	x.invite(enrol.NewInvitation{Email: "other@example.com"})
	if a := x.browser().get(x.link()); !strings.Contains(a.Body.String(), "Contact the person who invited you") {
		t.Errorf("without a date on record:\n%s", a.Body)
	}
}

func TestInvitationWithoutCheck(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	x.u.Features.InvitationVerificationRequired.ViaBirthdateEnabled = true
	made := x.invite(enrol.NewInvitation{Email: guest, DateOfBirth: "1990-12-31"})
	link := x.link()
	b := x.browser()
	form := b.get(link)
	if a := b.post(form, "skip", "yes"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("going on without while it is not allowed = %d", a.Code)
	}
	x.u.Features.AllowSignUpWithoutInvitationValidation = true
	form = b.get(link)
	if !strings.Contains(form.Body.String(), `name="skip"`) {
		t.Fatalf("no way on without:\n%s", form.Body)
	}
	if a := b.post(form, "skip", "yes"); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("going on without = %d\n%s", a.Code, a.Body)
	}
	accept := b.get("/invitation")
	x.u.Features.AllowSignUpWithoutInvitationValidation = false
	if a := b.post(accept, "password", guestPassword); a.Header().Get("Location") != "/invitation/check" || x.state(made.PersonID) != person.Invited {
		t.Errorf("accepting once it is not allowed any more = %d to %q", a.Code, a.Header().Get("Location"))
	}
	x.u.Features.AllowSignUpWithoutInvitationValidation = true
	if a := b.post(accept, "password", guestPassword); a.Header().Get("Location") != "/account" {
		t.Errorf("accepting = %d", a.Code)
	}
}

func TestInvitationByProvider(t *testing.T) {
	t.Parallel()
	x := newInviting(t)
	x.u.EmailNotifications.IdentityCoupledToAccount = true
	made := x.invite(enrol.NewInvitation{Email: guest})
	b := x.browser()
	form := b.get(x.link())
	if !strings.Contains(form.Body.String(), `name="idp" value="partner"`) {
		t.Fatalf("no button of the provider:\n%s", form.Body)
	}
	a := b.post(form, "idp", "partner")
	back := b.come(b.leave(a.Header().Get("Location")), x.partner.Answer(ann(), nil))
	if back.url != "/account" || !b.isSignedIn() {
		t.Fatalf("after the provider: %s, %d\n%s", back.url, back.Code, back.Body)
	}
	si, err := x.session(b)
	if err != nil || si.Subject != made.PersonID || si.Provider != "partner" || si.Level != 2 {
		t.Errorf("session = %+v, %v, want the invited person by partner", si, err)
	}
	if x.state(made.PersonID) != person.Active || !x.verified(made.PersonID) {
		t.Error("the person is not active with a verified address")
	}
	x.at("partner")
	if si := x.mustEnter(x.browser(), ann()); si.Subject != made.PersonID {
		t.Errorf("the next sign-in at partner is of %s, want %s", si.Subject, made.PersonID)
	}
}

// TestInvitationThenActivation: a person who accepts an invitation must then be activated by a code.
func TestInvitationThenActivation(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"password", "provider"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			x := newInviting(t)
			a := &x.u.Features.PersonActivation
			a.Enabled, a.Type, a.ExternallyDeliveredCode.ForceActivationAfterAcceptingInvitation = true, "EXTERNALLY_DELIVERED_CODE", true
			made := x.invite(enrol.NewInvitation{Email: guest})
			b := x.browser()
			form := b.get(x.link())
			var done *answer
			if by == "password" {
				done = b.post(form, "password", guestPassword)
			} else {
				to := b.post(form, "idp", "partner")
				done = b.come(b.leave(to.Header().Get("Location")), x.partner.Answer(ann(), nil))
			}
			if done.Code != http.StatusOK || !strings.Contains(done.Body.String(), "One more step") || b.isSignedIn() || x.state(made.PersonID) != person.Inactive {
				t.Errorf("accepting = %d, signed in: %t, state %s\n%s", done.Code, b.isSignedIn(), x.state(made.PersonID), done.Body)
			}
		})
	}
}
