package invitation_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// verified reports whether the primary address of a person is verified.
func verified(x *identitytest.Inviting, id string) bool {
	x.T.Helper()
	p, err := x.Person.Person(x.T.Context(), id)
	if err != nil {
		x.T.Fatal(err)
	}
	return p.EmailVerified
}

// accept opens a link and chooses a password.
func accept(x *identitytest.Inviting, b *identitytest.Browser, link, password string) *identitytest.Answer {
	x.T.Helper()
	return b.Post(b.Get(link), "password", password)
}

func TestInvitation(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest, Name: "Gail Guest", Groups: []string{"guests"}, Locale: "nl"})
	list := identitytest.WantNotices(t, "an invitation", x.M, "account_invitation "+identitytest.Guest)
	n := list[0]
	if !made.Sent || made.Link != "" || !made.ExpiresAt.Equal(x.Clock.Now().Add(7*24*time.Hour)) || x.State(made.PersonID) != person.Invited {
		t.Errorf("Invite = %+v, want one that was sent, for 7 days, of a person who is invited", made)
	}
	if !strings.HasPrefix(n.Link, "/invitation?token=ghml_") || n.Locales[0] != "nl" || n.Data["username"] != identitytest.Guest {
		t.Errorf("notice = %+v", n)
	}
	b := x.Browser()
	if a := b.Try(identitytest.Guest, identitytest.GuestPassword); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a sign-in before the invitation is accepted = %d, want 422", a.Code)
	}
	a := b.Do(http.MethodGet, n.Link, "")
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/invitation" || a.Header().Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("the link = %d to %q, want 303 to the page without the token", a.Code, a.Header().Get("Location"))
	}
	form := b.Get("/invitation")
	if body := form.Body.String(); form.Code != http.StatusOK || !strings.Contains(body, identitytest.Guest) ||
		strings.Contains(body, "ghml_") {
		t.Fatalf("the page = %d, want one with the username and without the token:\n%s", form.Code, body)
	}
	for what, bad := range map[string]string{"too short": "short", "none": ""} {
		if a := b.Post(form, "password", bad); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.Body.String(), `aria-invalid="true"`) {
			t.Errorf("a password that is %s = %d, want 422 and the field marked", what, a.Code)
		}
	}
	if x.State(made.PersonID) != person.Invited {
		t.Error("a password that was refused made the person active")
	}
	a = b.Post(form, "password", identitytest.GuestPassword)
	if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account" || !b.IsSignedIn() {
		t.Fatalf("accepting = %d to %q, signed in: %t\n%s", a.Code, a.Header().Get("Location"), b.IsSignedIn(), a.Body)
	}
	if x.State(made.PersonID) != person.Active || !verified(x, made.PersonID) {
		t.Error("the person is not active with a verified address")
	}
	p, err := x.Person.Person(t.Context(), identitytest.Guest)
	if err != nil || p.Name != "Gail Guest" || len(p.Groups) != 1 || p.Groups[0] != "guests" {
		t.Errorf("Person = %+v, %v", p, err)
	}
	x.Browser().SignIn(identitytest.Guest, identitytest.GuestPassword)
	ev := x.Events()
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
	for what, change := range map[string]func(*identitytest.Inviting){
		"switched off": func(x *identitytest.Inviting) { x.U.EmailNotifications.AccountInvitation = false },
		"no mail":      func(x *identitytest.Inviting) { x.Notices = nil; x.Start() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			x := identitytest.NewInviting(t)
			change(x)
			made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
			identitytest.WantNotices(t, "an invitation", x.M)
			link, ok := strings.CutPrefix(made.Link, identitytest.Issuer)
			if made.Sent || !ok {
				t.Fatalf("Invite = %+v, want a link of the issuer", made)
			}
			if a := accept(x, x.Browser(), link, identitytest.GuestPassword); a.Code != http.StatusSeeOther {
				t.Fatalf("accepting = %d\n%s", a.Code, a.Body)
			}
			if x.State(made.PersonID) != person.Active || verified(x, made.PersonID) {
				t.Error("want an active person whose address nobody has shown to be theirs")
			}
		})
	}
}

func TestInvitationSwitch(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
	link := x.Link()
	b := x.Browser()
	form := b.Get(link)
	x.U.Features.AcceptingInvitationEnabled = false
	if _, err := x.Invitation.Invite(t.Context(), invitation.NewInvitation{Email: "other@example.com"}, identitytest.Ops); !errors.Is(err,
		invitation.ErrInvitationsOff) {
		t.Errorf("Invite while switched off = %v", err)
	}
	if _, err := x.Person.Person(t.Context(), "other@example.com"); !errors.Is(err, person.ErrNoPerson) {
		t.Errorf("Person = %v, want nobody", err)
	}
	if a := b.Post(form, "password", identitytest.GuestPassword); a.Code != http.StatusBadRequest || x.State(made.PersonID) != person.Invited {
		t.Errorf("accepting while switched off = %d", a.Code)
	}
	x.U.Features.AcceptingInvitationEnabled = true
	if a := accept(x, x.Browser(), link, identitytest.GuestPassword); a.Code != http.StatusSeeOther {
		t.Errorf("accepting once it is on again = %d", a.Code)
	}
}

func TestInvitationAgain(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
	old := x.Link()
	soon := new(challenge.TooSoonError)
	if _, err := x.Invitation.InviteAgain(t.Context(), made.PersonID, identitytest.Ops); !errors.As(err, &soon) || soon.Wait <= 0 ||
		soon.Wait > time.Minute {
		t.Errorf("InviteAgain at once = %v, want to wait a minute", err)
	}
	x.Clock.Advance(time.Minute)
	again, err := x.Invitation.InviteAgain(t.Context(), identitytest.Guest, identitytest.Ops)
	if err != nil || again.PersonID != made.PersonID || again.ExpiresAt.Equal(made.ExpiresAt) {
		t.Fatalf("InviteAgain = %+v, %v", again, err)
	}
	link := x.Link()
	if a := x.Browser().Get(old); a.Code != http.StatusBadRequest {
		t.Errorf("the older link = %d, want 400", a.Code)
	}
	if a := accept(x, x.Browser(), link, identitytest.GuestPassword); a.Code != http.StatusSeeOther {
		t.Fatalf("the newer link = %d", a.Code)
	}
	state := new(person.StateError)
	if _, err := x.Invitation.InviteAgain(t.Context(), identitytest.Guest, identitytest.Ops); !errors.As(err, &state) {
		t.Errorf("InviteAgain of who has come = %v, want a StateError", err)
	}
	if err := x.Invitation.WithdrawInvitation(t.Context(), made.PersonID, identitytest.Ops); !errors.As(err, &state) ||
		x.State(made.PersonID) != person.Active {
		t.Errorf("WithdrawInvitation of who has come = %v, want a StateError", err)
	}
	if _, err := x.Invitation.InviteAgain(t.Context(), "nobody", identitytest.Ops); !errors.Is(err, person.ErrNoPerson) {
		t.Errorf("InviteAgain of nobody = %v", err)
	}
}

// TestInvitationMended: after a mistyped address is corrected, the new link goes to the corrected address and works.
func TestInvitationMended(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	made := x.Invite(invitation.NewInvitation{Email: "gust@example.com", Username: "guest"})
	old := x.Link()
	_, err := x.Person.UpdatePerson(t.Context(), made.PersonID, person.Edit{By: identitytest.Ops},
		func(_ storage.Tx, d *person.Details) error {
			d.Profile.EmailAddresses = []person.EmailAddress{{Value: identitytest.Guest, Primary: true}}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	if a := x.Browser().Get(old); a.Code != http.StatusBadRequest {
		t.Errorf("the link that went elsewhere = %d, want 400", a.Code)
	}
	x.M.Take()
	x.Clock.Advance(time.Minute)
	again, err := x.Invitation.InviteAgain(t.Context(), made.PersonID, identitytest.Ops)
	if err != nil || again.Email != identitytest.Guest || !again.Sent {
		t.Fatalf("InviteAgain = %+v, %v, want it to go to %s", again, err, identitytest.Guest)
	}
	link := identitytest.WantNotices(t, "again", x.M, "account_invitation "+identitytest.Guest)[0].Link
	if a := accept(x, x.Browser(), link, identitytest.GuestPassword); a.Code != http.StatusSeeOther ||
		x.State(made.PersonID) != person.Active || !verified(x, made.PersonID) {
		t.Errorf("accepting = %d", a.Code)
	}
}

func TestInvitationWithdrawn(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	x.U.EmailNotifications.AccountRemoved = true
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
	link := x.Link()
	b := x.Browser()
	form := b.Get(link)
	if err := x.Invitation.WithdrawInvitation(t.Context(), made.PersonID, identitytest.Ops); err != nil {
		t.Fatal(err)
	}
	identitytest.WantNotices(t, "who was never there is not told that the account is gone", x.M)
	if a := b.Post(form, "password", identitytest.GuestPassword); a.Code != http.StatusBadRequest {
		t.Errorf("accepting = %d, want 400", a.Code)
	}
	x.Invite(invitation.NewInvitation{Email: identitytest.Guest}) // the username is free again
	if a := x.Browser().Get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link of before = %d, want 400", a.Code)
	}
}

func TestInvitationRefuses(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	for name, n := range map[string]invitation.NewInvitation{
		"no address":              {},
		"no address, a username":  {Username: "guest"},
		"two addresses":           {Email: "a@example.com,b@example.com"},
		"a header in the address": {Email: "a@example.com\r\nBcc: x@example.com"},
		"a bad date":              {Email: identitytest.Guest, DateOfBirth: "31.12.1990"},
		"a bad number":            {Email: identitytest.Guest, PhoneNumbers: []string{"call me"}},
		"a bad group":             {Email: identitytest.Guest, Groups: []string{"a\nb"}},
		"a bad language":          {Email: identitytest.Guest, Locale: "no language"},
		"a partition":             {Email: identitytest.Guest, Partition: "acme"},
	} {
		if _, err := x.Invitation.Invite(t.Context(), n, identitytest.Ops); !errors.As(err, new(*person.ValidationError)) {
			t.Errorf("Invite: %s = %v, want a ValidationError", name, err)
		}
	}
	if _, err := x.Invitation.Invite(t.Context(), invitation.NewInvitation{Email: identitytest.Demo}, identitytest.Ops); !errors.Is(err,
		person.ErrUsernameTaken) {
		t.Errorf("Invite of somebody who is there = %v, want ErrUsernameTaken", err)
	}
	identitytest.WantNotices(t, "nobody is told", x.M)
}

func TestInvitationRedirects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*settings.Redirects)
		want   string
	}{
		"a path": {func(r *settings.Redirects) { r.URLAfterSignUp = "/welcome" }, "/welcome"},
		"another site": {
			func(r *settings.Redirects) { r.URLAfterSignUp = "https://shop.example.com/welcome" },
			"https://shop.example.com/welcome",
		},
		"as after sign-in": {func(r *settings.Redirects) { r.URLAfterLogin = "/in" }, "/in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := identitytest.NewInviting(t)
			tt.change(&x.U.Redirects)
			x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
			b := x.Browser()
			form := b.Get(x.Link())
			if to, _, ok := strings.Cut(tt.want, "/welcome"); ok && to != "" && !strings.Contains(form.Header().Get("Content-Security-Policy"), to) {
				t.Errorf("policy = %q, want one that lets the form lead to %s", form.Header().Get("Content-Security-Policy"), to)
			}
			if a := b.Post(form, "password", identitytest.GuestPassword); a.Header().Get("Location") != tt.want {
				t.Errorf("accepting leads to %q, want %q", a.Header().Get("Location"), tt.want)
			}
		})
	}
}

func TestInvitationByBirthdate(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	x.U.Features.InvitationVerificationRequired.ViaBirthdateEnabled = true
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest, DateOfBirth: "1990-12-31"})
	b := x.Browser()
	form := b.Get(x.Link())
	body := form.Body.String()
	if form.URL != "/invitation/check" || !strings.Contains(body, `type="date"`) || strings.Contains(body, "1990") ||
		strings.Contains(body, `name="skip"`) {
		t.Fatalf("the link leads to %s, want to be asked for the date and nothing else:\n%s", form.URL, body)
	}
	if a := b.Post(form, "answer", "1990-12-30"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "doesn’t match") {
		t.Errorf("a wrong date = %d, want 422", a.Code)
	}
	if a := b.Post(form); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("no date = %d, want 422", a.Code)
	}
	if a := b.Post(form, "answer", "1990-12-31"); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("the date = %d to %q\n%s", a.Code, a.Header().Get("Location"), a.Body)
	}
	if a := b.Post(b.Get("/invitation"), "password", identitytest.GuestPassword); a.Code != http.StatusSeeOther ||
		x.State(made.PersonID) != person.Active {
		t.Errorf("accepting = %d", a.Code)
	}
	if n := x.Events()["person.InvitationCheckFailedEvent"]; n != 1 {
		t.Errorf("%d events of a wrong answer, want 1", n)
	}
}

func TestInvitationByCode(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest, DateOfBirth: "1990-12-31"})
	link := x.Link()
	if _, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation",
		identitytest.Ops); !errors.Is(err, challenge.ErrCodesOff) {
		t.Errorf("MakeDeliveredCode while switched off = %v", err)
	}
	x.U.Features.InvitationVerificationRequired.ViaExternallyDeliveredCodeEnabled = true
	x.U.Features.PersonActivation.ExternallyDeliveredCode.ResendCodeMinimumPeriod = 3600
	code, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation", identitytest.Ops)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation", identitytest.Ops); !errors.As(err,
		new(*challenge.TooSoonError)) {
		t.Errorf("attack 267: another code within the period = %v, want to wait", err)
	}
	b := x.Browser()
	form := b.Get(link)
	if a := b.Post(form, "answer", "AAAA-AAAA"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a wrong code = %d, want 422", a.Code)
	}
	if a := b.Post(form, "answer", strings.ToLower(code.Code)); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("the code = %d\n%s", a.Code, a.Body)
	}
	if a := b.Post(b.Get("/invitation"), "password", identitytest.GuestPassword); a.Code != http.StatusSeeOther {
		t.Errorf("accepting = %d", a.Code)
	}
	if _, err := x.Proof.MakeDeliveredCode(t.Context(), made.PersonID, "invitation", identitytest.Ops); !errors.As(err,
		new(*person.StateError)) {
		t.Errorf("MakeDeliveredCode for who has come = %v, want a StateError", err)
	}
}

// TestInvitationWays: if several checks are switched on, the person chooses among those that are possible.
func TestInvitationWays(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	v := &x.U.Features.InvitationVerificationRequired
	v.ViaBirthdateEnabled, v.ViaExternallyDeliveredCodeEnabled = true, true
	x.Invite(invitation.NewInvitation{Email: identitytest.Guest, DateOfBirth: "1990-12-31"})
	b := x.Browser()
	choice := b.Get(x.Link()).Body.String()
	for _, way := range []string{"birthdate", "code"} {
		if !strings.Contains(choice, `href="/invitation/check?way=`+way+`"`) {
			t.Errorf("the choice has no %s:\n%s", way, choice)
		}
	}
	if a := b.Post(b.Get("/invitation/check?way=birthdate"), "answer", "1990-12-31"); a.Header().Get("Location") != "/invitation" {
		t.Errorf("the date = %d", a.Code)
	}
	v.ViaExternallyDeliveredCodeEnabled = false
	x.Clock.Advance(time.Minute)
	x.Invite(invitation.NewInvitation{Email: "other@example.com"})
	if a := x.Browser().Get(x.Link()); !strings.Contains(a.Body.String(), "Contact the person who invited you") {
		t.Errorf("without a date on record:\n%s", a.Body)
	}
}

func TestInvitationWithoutCheck(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	x.U.Features.InvitationVerificationRequired.ViaBirthdateEnabled = true
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest, DateOfBirth: "1990-12-31"})
	link := x.Link()
	b := x.Browser()
	form := b.Get(link)
	if a := b.Post(form, "skip", "yes"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("going on without while it is not allowed = %d", a.Code)
	}
	x.U.Features.AllowSignUpWithoutInvitationValidation = true
	form = b.Get(link)
	if !strings.Contains(form.Body.String(), `name="skip"`) {
		t.Fatalf("no way on without:\n%s", form.Body)
	}
	if a := b.Post(form, "skip", "yes"); a.Header().Get("Location") != "/invitation" {
		t.Fatalf("going on without = %d\n%s", a.Code, a.Body)
	}
	accept := b.Get("/invitation")
	x.U.Features.AllowSignUpWithoutInvitationValidation = false
	if a := b.Post(accept, "password", identitytest.GuestPassword); a.Header().Get("Location") != "/invitation/check" ||
		x.State(made.PersonID) != person.Invited {
		t.Errorf("accepting once it is not allowed any more = %d to %q", a.Code, a.Header().Get("Location"))
	}
	x.U.Features.AllowSignUpWithoutInvitationValidation = true
	if a := b.Post(accept, "password", identitytest.GuestPassword); a.Header().Get("Location") != "/account" {
		t.Errorf("accepting = %d", a.Code)
	}
}

func TestInvitationByProvider(t *testing.T) {
	t.Parallel()
	x := identitytest.NewInviting(t)
	x.U.EmailNotifications.IdentityCoupledToAccount = true
	made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
	b := x.Browser()
	form := b.Get(x.Link())
	if !strings.Contains(form.Body.String(), `name="idp" value="partner"`) {
		t.Fatalf("no button of the provider:\n%s", form.Body)
	}
	a := b.Post(form, "idp", "partner")
	back := b.Come(b.Leave(a.Header().Get("Location")), x.Partner.Answer(identitytest.Ann(), nil))
	if back.URL != "/account" || !b.IsSignedIn() {
		t.Fatalf("after the provider: %s, %d\n%s", back.URL, back.Code, back.Body)
	}
	si, err := x.SessionOf(b)
	if err != nil || si.Subject != made.PersonID || si.Provider != "partner" || si.Level != 2 {
		t.Errorf("session = %+v, %v, want the invited person by partner", si, err)
	}
	if x.State(made.PersonID) != person.Active || !verified(x, made.PersonID) {
		t.Error("the person is not active with a verified address")
	}
	x.At("partner")
	if si := x.MustEnter(x.Browser(), identitytest.Ann()); si.Subject != made.PersonID {
		t.Errorf("the next sign-in at partner is of %s, want %s", si.Subject, made.PersonID)
	}
}

// TestInvitationThenActivation: a person who accepts an invitation must then be activated by a code.
func TestInvitationThenActivation(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"password", "provider"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			x := identitytest.NewInviting(t)
			a := &x.U.Features.PersonActivation
			a.Enabled, a.Type, a.ExternallyDeliveredCode.ForceActivationAfterAcceptingInvitation = true, "EXTERNALLY_DELIVERED_CODE", true
			made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest})
			b := x.Browser()
			form := b.Get(x.Link())
			var done *identitytest.Answer
			if by == "password" {
				done = b.Post(form, "password", identitytest.GuestPassword)
			} else {
				to := b.Post(form, "idp", "partner")
				done = b.Come(b.Leave(to.Header().Get("Location")), x.Partner.Answer(identitytest.Ann(), nil))
			}
			if done.Code != http.StatusOK || !strings.Contains(done.Body.String(), "One more step") || b.IsSignedIn() ||
				x.State(made.PersonID) != person.Inactive {
				t.Errorf("accepting = %d, signed in: %t, state %s\n%s", done.Code, b.IsSignedIn(), x.State(made.PersonID), done.Body)
			}
		})
	}
}
