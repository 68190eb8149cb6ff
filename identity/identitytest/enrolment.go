package identitytest

import (
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/storage"
)

// StateOf returns the state of a person.
func (h *Harness) StateOf(id string) person.State {
	h.T.Helper()
	p, err := h.Person.Person(h.T.Context(), id)
	if err != nil {
		h.T.Fatal(err)
	}
	return p.State
}

// Guest is the e-mail address of a person who is invited.
const Guest = "guest@example.com"

// GuestPassword is the password that the guest chooses.
const GuestPassword = "a guest comes 1"

// Inviting is a harness where persons are invited by e-mail.
type Inviting struct {
	*Federated
	U *settings.Units
	M *notifytest.Notices
}

// NewInviting starts a harness where people are invited by e-mail.
func NewInviting(t *testing.T) *Inviting {
	t.Helper()
	u := settings.Defaults()
	u.Features.AcceptingInvitationEnabled = true
	u.EmailNotifications.AccountInvitation = true
	x := &Inviting{Federated: NewFederated(t), U: &u, M: new(notifytest.Notices)}
	x.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	x.Notices = x.M
	x.Start()
	return x
}

// Invite invites a person.
func (x *Inviting) Invite(n invitation.NewInvitation) invitation.Invitation {
	x.T.Helper()
	made, err := x.Invitation.Invite(x.T.Context(), n, Ops)
	if err != nil {
		x.T.Fatal(err)
	}
	return made
}

// Link returns the path of the link in the newest notice.
func (x *Inviting) Link() string {
	x.T.Helper()
	list := x.M.Take()
	if len(list) == 0 {
		x.T.Fatal("no one was sent a link")
	}
	return list[len(list)-1].Link
}

// State returns the state of a person.
func (x *Inviting) State(id string) person.State {
	x.T.Helper()
	p, err := x.Person.Person(x.T.Context(), id)
	if err != nil {
		x.T.Fatal(err)
	}
	return p.State
}

// NewWithReset returns a harness where people can reset their password.
func NewWithReset(t *testing.T, change ...func(*identity.Config)) (*Harness, *settings.Units, *notifytest.Notices) {
	t.Helper()
	h := New(t, change...)
	u := settings.Defaults()
	u.Features.PasswordResetEnabled = true
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	h.Notices = new(notifytest.Notices)
	h.Start()
	return h, &u, h.Notices
}

// FreshPassword is the password that a person chooses instead of a forgotten one.
const FreshPassword = "staple battery 2"

// Forget requests a new password from the sign-in page.
func (b *Browser) Forget(username string) *Answer {
	b.H.T.Helper()
	page := b.Get("/next")
	_, rest, ok := strings.Cut(page.Body.String(), `href="/forgot`)
	if !ok {
		b.H.T.Fatalf("the sign-in page leads to no new password:\n%s", page.Body)
	}
	path, _, _ := strings.Cut(rest, `"`)
	return b.Post(b.Get("/forgot"+strings.ReplaceAll(path, "&amp;", "&")), "username", username)
}

// Link returns the path of the one link that was sent.
func (h *Harness) Link(kind notify.Kind, to string) string {
	h.T.Helper()
	list := h.Notices.Take()
	if len(list) != 1 || list[0].Kind != kind || list[0].To != to || list[0].Link == "" {
		h.T.Fatalf("sent: %+v, want one %s to %s", list, kind, to)
	}
	return list[0].Link
}

// NewWithSignUp returns a harness where people can create their own accounts.
func NewWithSignUp(t *testing.T, change ...func(*identity.Config)) (*Harness, *settings.Units, *notifytest.Notices) {
	t.Helper()
	h := New(t, change...)
	u := settings.Defaults()
	u.Features.SignUpEnabled, u.Attributes.Verification.EmailEnabled = true, true
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	h.Notices = new(notifytest.Notices)
	h.Start()
	return h, &u, h.Notices
}

// Newcomer is the e-mail address of a person who signs up.
const Newcomer = "new@example.com"

// Mailed returns the code in the only notice that was sent.
func (h *Harness) Mailed(kind notify.Kind, to string) string {
	h.T.Helper()
	list := h.Notices.Take()
	if len(list) != 1 || list[0].Kind != kind || list[0].To != to || len(list[0].Data["code"]) != 6 {
		h.T.Fatalf("sent: %+v, want one %s to %s", list, kind, to)
	}
	return list[0].Data["code"]
}

// Exists reports whether there is a person with this username.
func (h *Harness) Exists(username string) bool {
	_, err := h.Person.Person(h.T.Context(), username)
	return err == nil
}

// SignUp opens the sign-up page from the sign-in page of /next and sends its form.
func (b *Browser) SignUp(fields ...string) *Answer {
	b.H.T.Helper()
	page := b.Get("/next")
	_, rest, ok := strings.Cut(page.Body.String(), `href="/sign-up`)
	if !ok {
		b.H.T.Fatalf("the sign-in page leads to no sign-up:\n%s", page.Body)
	}
	path, _, _ := strings.Cut(rest, `"`)
	return b.Post(b.Get("/sign-up"+strings.ReplaceAll(path, "&amp;", "&")), fields...)
}

// OwnMethod changes the method of usernames and passwords.
func OwnMethod(u *settings.Units, change func(*settings.LoginMethod)) {
	m := settings.LoginMethod{
		ID: settings.OwnMethod, Name: "Username and password", Type: settings.TypePassword,
		Enabled: true, AuthenticationLevel: 1,
	}
	change(&m)
	u.LoginMethods.LoginMethods = []settings.LoginMethod{m}
}
