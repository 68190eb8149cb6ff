package identity_test

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// linkKinds are the pages that links open, by the kind of the link.
var linkKinds = map[challenge.LinkKind]string{
	"reset": "/reset", "activation": "/activate", "verification": "/verify", "invitation": "/invitation",
	"pin-reset": "/account/security/pin-reset",
}

// linking returns a harness in which every kind of link is switched on.
func linking(t *testing.T) *identitytest.Harness {
	t.Helper()
	h, u, _ := identitytest.NewWithReset(t)
	u.Features.AcceptingInvitationEnabled, u.Features.PINEnabled = true, true
	u.Features.PersonActivation.Enabled, u.Features.PersonActivation.Type = true, "EMAIL"
	u.EmailNotifications.AccountInvitation, u.Attributes.Verification.EmailEnabled = true, true
	return h
}

// newLink makes a link of a kind for a person, and returns its token.
func newLink(h *identitytest.Harness, kind challenge.LinkKind, personID string) (token string) {
	h.T.Helper()
	err := h.Store.Store.Update(h.T.Context(), func(tx storage.Tx) error {
		path, err := h.Proof.NewLink(tx, kind, personID, map[string]string{challenge.LinkTo: identitytest.Demo}, time.Hour, h.Clock.Now())
		_, token, _ = strings.Cut(path, "?token=")
		return err
	})
	if err != nil || token == "" {
		h.T.Fatalf("NewLink(%s) = %q, %v", kind, token, err)
	}
	return token
}

// TestLinkOfAnotherKind: a link works on its own page alone, and trying it elsewhere does not use it up.
func TestLinkOfAnotherKind(t *testing.T) {
	t.Parallel()
	for kind, own := range linkKinds {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			h := linking(t)
			if got := h.Proof.LinkPath(kind); got != own {
				t.Fatalf("links of the kind %s lead to %q, want %q: the list of this test is not whole", kind, got, own)
			}
			token := newLink(h, kind, h.IDOf(identitytest.Demo))
			for other, path := range linkKinds {
				if other == kind {
					continue
				}
				b := h.Browser()
				if other == "pin-reset" { // its page wants a sign-in first
					b.SignIn(identitytest.Demo, identitytest.DemoPassword)
				}
				form := b.Get(path + "?token=" + token)
				if form.Code < 400 {
					t.Errorf("GET %s with a link of the kind %s = %d\n%s", path, kind, form.Code, form.Body)
				}
				v := url.Values{"csrf": {form.CSRF()}, "password": {identitytest.FreshPassword}, "pin": {"827164"}, "again": {"827164"}}
				if a := b.Do(http.MethodPost, path, v.Encode()); a.Code < 400 {
					t.Errorf("POST %s with a link of the kind %s = %d", path, kind, a.Code)
				}
			}
			err := h.Store.Store.View(t.Context(), func(tx storage.Tx) error {
				_, err := h.Proof.ReadLink(tx, kind, token, h.Clock.Now())
				return err
			})
			if err != nil {
				t.Errorf("the link no longer works on its own page: %v", err)
			}
			h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword) // nothing has changed the password
		})
	}
}

// TestPeersSessions: what has broken sessions and flows of comparable products.
func TestPeersSessions(t *testing.T) {
	t.Parallel()
	t.Run("peer 6: the sign-in page does not keep the session of somebody else's cookie", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t, func(c *identity.Config) {
			c.Persons = append(c.Persons, person.NewPerson{Username: "mallory", Password: secret.New(identitytest.DemoPassword)})
		})
		attacker := h.Browser()
		attacker.SignIn("mallory", identitytest.DemoPassword)
		victim := h.Browser()
		victim.Cookies = maps.Clone(attacker.Cookies)
		before := attacker.Session()
		h.DemandLogin()
		if a := victim.Post(victim.Get("/next?mine=1"), "username", identitytest.Demo, "password",
			identitytest.DemoPassword); a.Code != http.StatusSeeOther {
			t.Fatalf("sign-in: %d", a.Code)
		}
		if victim.Session() == before || attacker.IsSignedIn() {
			t.Errorf("the victim has the session of before: %t, the attacker is still signed in: %t",
				victim.Session() == before, attacker.IsSignedIn())
		}
		if si, err := h.SessionOf(victim); err != nil || si.Subject != h.IDOf(identitytest.Demo) {
			t.Errorf("the victim's session = %+v, %v", si, err)
		}
	})
	t.Run("peer 22: a flow of another browser opens nothing for a browser that is signed in", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		attacker, victim := e.Browser(), e.Browser()
		victim.SignIn(identitytest.Demo, identitytest.DemoPassword)
		_, id, _ := strings.Cut(attacker.Do(http.MethodGet, "/next", "").Header().Get("Location"), "flow=")
		for _, path := range []string{
			"/sign-in", "/sign-in/wait", "/sign-in/complete", "/step-up", "/sign-in/activate", "/sign-in/choose",
			"/sign-in/passkey", "/sign-in/connect", "/sign-in/register", "/sign-in/provider/done",
		} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				a := victim.Do(method, path+"?flow="+id, "csrf=x&account=this")
				if a.Code < 400 {
					t.Errorf("%s %s = %d to %q, want a refusal", method, path, a.Code, a.Header().Get("Location"))
				}
			}
		}
		if a := victim.Do(http.MethodGet, "/sign-in/provider?flow="+id+"&id=partner", ""); a.Code < 400 {
			t.Errorf("GET /sign-in/provider = %d to %q", a.Code, a.Header().Get("Location"))
		}
		if attacker.IsSignedIn() || !strings.Contains(attacker.Get("/next").Body.String(), `name="password"`) {
			t.Error("the attacker's flow has gone on as the victim")
		}
	})
	t.Run("peer 23: what a form says of its flow changes nothing", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		b := h.Browser()
		page := b.Get("/next?a=1")
		a := b.Post(page, "username", identitytest.Demo, "password", identitytest.DemoPassword, "return", "https://evil.example",
			"redirect", "https://evil.example",
			"return_to", "/evil", "client_id", "evil", "level", "4", "demand", `{"Level":4}`, "response_type", "token")
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next?a=1" {
			t.Errorf("= %d to %q, want what the flow was begun for", a.Code, a.Header().Get("Location"))
		}
		h.WantLevel(b, 1)
		other := h.Browser()
		page = other.Get("/next?b=1")
		action, _, _ := strings.Cut(page.URL, "&")
		v := url.Values{"csrf": {page.CSRF()}, "username": {identitytest.Demo}, "password": {identitytest.DemoPassword}}
		a = other.Do(http.MethodPost, action+"&redirect=https%3A%2F%2Fevil.example&return=%2Fevil&level=4", v.Encode())
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next?b=1" {
			t.Errorf("with a query: %d to %q, want what the flow was begun for", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("peer 24: no new password without the link from the mail, in any order of steps", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithReset(t)
		b := h.Browser()
		try := func(step string) {
			t.Helper()
			for _, csrf := range []string{"", b.Get("/next").CSRF(), b.Get("/forgot").CSRF()} {
				v := url.Values{"csrf": {csrf}, "password": {identitytest.FreshPassword}, "username": {identitytest.Demo}}
				if a := b.Do(http.MethodPost, "/reset", v.Encode()); a.Code < 400 {
					t.Errorf("%s: POST /reset = %d to %q", step, a.Code, a.Header().Get("Location"))
				}
			}
		}
		try("at first")
		b.Forget(identitytest.Demo)
		link := h.Link(notify.ResetLink, identitytest.Demo)
		try("after the link was requested")
		b.Get("/reset/done")
		try("after the last page")
		owner := h.Browser()
		owner.Get(link)
		try("after the owner has opened the link")
		owner.Post(owner.Get("/reset"), "password", identitytest.FreshPassword)
		try("after the owner has a new password")
		if len(box.Take()) > 1 {
			t.Error("more than one new password was told")
		}
		h.Browser().SignIn(identitytest.Demo, identitytest.FreshPassword)
	})
}

// TestPeersLinking: what has broken the linking of accounts.
func TestPeersLinking(t *testing.T) {
	t.Parallel()
	t.Run("peer 27: the proof for one identity couples no other, and works once", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewLinking(t, false)
		e.At("partner")
		b := e.Browser()
		first := e.WantAsked("mallory", b, identitytest.Mallory())
		other := identitytest.Mallory()
		other.Subject, other.Email = "667", "second@evil.example"
		second := e.WantAsked("another identity", b, other)
		// The form of the first one, sent to the page of the second.
		_, flow, _ := strings.Cut(second.URL, "flow=")
		v := url.Values{"csrf": {first.CSRF()}, "username": {"carla"}, "password": {identitytest.DemoPassword}}
		if a := b.Do(http.MethodPost, "/sign-in/connect?flow="+flow, v.Encode()); a.Code < 400 {
			t.Errorf("the form of one for the other = %d", a.Code)
		}
		if a := b.Post(first, "username", "carla", "password", identitytest.DemoPassword); a.Code != http.StatusSeeOther {
			t.Fatalf("its own form = %d\n%s", a.Code, a.Body)
		}
		if page := b.Get("/account/security/accounts"); page.Code == http.StatusOK {
			v := url.Values{"csrf": {page.CSRF()}, "do": {"disconnect"}, "provider": {"partner"}}
			b.Do(http.MethodPost, "/account/security/accounts", v.Encode())
		}
		for range 2 {
			if a := b.Post(first, "username", "carla", "password", identitytest.DemoPassword); a.Code < 400 {
				t.Errorf("the form again, after unlinking = %d", a.Code)
			}
		}
		if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 1 {
			t.Errorf("%d identities were coupled, want 1", n)
		}
	})
	t.Run("peer 28: a link to the page from another site couples nothing without the password and the page's own token", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewLinking(t, false)
		e.At("partner", "identity")
		attacker, victim := e.Browser(), e.Browser()
		e.At("partner")
		page := e.WantAsked("mallory", attacker, identitytest.Mallory())
		victim.Post(victim.Get("/account/security"), "username", "carla", "password", identitytest.DemoPassword)
		if a := victim.Get(page.URL); a.Code < 400 {
			t.Errorf("the attacker's page in the victim's browser = %d", a.Code)
		}
		for _, csrf := range []string{"", page.CSRF()} {
			v := url.Values{"csrf": {csrf}, "username": {"carla"}, "password": {identitytest.DemoPassword}}
			victim.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
			if a := victim.Do(http.MethodPost, page.URL, v.Encode()); a.Code < 400 {
				t.Errorf("a form from another site = %d", a.Code)
			}
		}
		if n := e.Events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
			t.Errorf("%d identities were coupled, want none", n)
		}
	})
	t.Run("peer 41: nobody gets a username that is somebody else's address", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewRegistering(t)
		b := x.Browser()
		form := x.Arrive(b, identitytest.Ann())
		for _, name := range []string{identitytest.Demo, "DEMO@example.com", "demo＠example.com", "ｄｅｍｏ@example.com", "boss@example.com"} {
			a := b.Post(form, "username", name, "password", identitytest.FreshPassword, "password_again", identitytest.FreshPassword)
			if a.Code != http.StatusUnprocessableEntity {
				t.Errorf("username %q = %d, want 422", name, a.Code)
			}
		}
		x.At("identity")
		x.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
		if x.Persons() != 0 {
			t.Error("a person was created")
		}
	})
}

// TestPeersSwitches: a form that was open when its function was switched off does nothing any more.
func TestPeersSwitches(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path   string
		signed bool
		on     func(*settings.Units, bool)
		fields []string
	}{
		"peer 47: forgotten passwords": {
			"/forgot", false, func(u *settings.Units, on bool) { u.Features.PasswordResetEnabled = on },
			[]string{"username", identitytest.Demo},
		},
		"peer 47: sign-up": {
			"/sign-up", false, func(u *settings.Units, on bool) { u.Features.SignUpEnabled = on },
			[]string{"email", "new@example.com", "password", identitytest.FreshPassword},
		},
		"peer 47: PINs": {
			"/account/security/pin", true, func(u *settings.Units, on bool) { u.Features.PINEnabled = on },
			[]string{"pin", "827164", "again", "827164"},
		},
		"peer 47: sign-in": {
			"/next", false, func(u *settings.Units, on bool) { u.Features.LoginEnabled = on },
			[]string{"username", identitytest.Demo, "password", identitytest.DemoPassword},
		},
		"peer 47: authenticator apps": {
			"/account/security/authenticator", true,
			func(u *settings.Units, on bool) { u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = on },
			[]string{"code", "000000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, u, box := identitytest.NewWithReset(t)
			u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
			c.on(u, true)
			b := h.Browser()
			if c.signed {
				b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			}
			form := b.Get(c.path)
			if form.CSRF() == "" {
				t.Fatalf("GET %s = %d, no form\n%s", c.path, form.Code, form.Body)
			}
			c.on(u, false)
			before := h.Dump()
			a := b.Post(form, c.fields...)
			if a.Code < 400 {
				t.Errorf("POST = %d to %q, want a refusal", a.Code, a.Header().Get("Location"))
			}
			after := h.Dump()
			maps.DeleteFunc(after, func(k, v string) bool { return before[k] == v })
			if changed := slices.Collect(maps.Keys(after)); len(changed) > 0 || len(box.Take()) > 0 || !c.signed && b.IsSignedIn() {
				t.Errorf("POST has changed %q", changed)
			}
		})
	}
}

// TestPeersCodes: a code goes to where the account says.
func TestPeersCodes(t *testing.T) {
	t.Parallel()
	t.Run("peer 56: a code for a step-up goes to the stored address, whatever the form says", func(t *testing.T) {
		t.Parallel()
		h, _, box := identitytest.NewWithEmailCodes(t)
		b := h.Plain()
		page := b.Get("/next")
		b.Post(page, "send", "yes", "email", "mallory@evil.example", "to", "mallory@evil.example", "address",
			"mallory@evil.example", "phone", "+31600000000")
		if list := box.Take(); len(list) != 1 || list[0].To != identitytest.Demo {
			t.Errorf("sent: %+v, want one code to %s", list, identitytest.Demo)
		}
	})
}

// timeStandsStill replaces the store by one whose own clock does not move, so it collects nothing.
func timeStandsStill(h *identitytest.Harness) {
	h.T.Helper()
	then := h.Clock.Now()
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = func() time.Time { return then } })
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() { store.Close() }) //nolint:errcheck // in memory
	h.Store.Store = store
	h.Start()
}

// TestPeersExpiry: what has expired is refused while its record is still there.
func TestPeersExpiry(t *testing.T) {
	t.Parallel()
	t.Run("peer 59: expired sessions, without a sweeper", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		timeStandsStill(h)
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		h.Clock.Advance(24 * time.Hour)
		if h.Stored("identity_session") != 1 {
			t.Fatal("the record of the session is gone")
		}
		if a := b.Do(http.MethodGet, "/account", ""); b.IsSignedIn() || a.Code != http.StatusSeeOther ||
			!strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
			t.Errorf("a session of yesterday opens the account: %d", a.Code)
		}
	})
	t.Run("peer 59: expired flows, without a sweeper", func(t *testing.T) {
		t.Parallel()
		h := identitytest.New(t)
		timeStandsStill(h)
		b := h.Browser()
		form := b.Get("/next")
		h.Clock.Advance(90 * time.Minute)
		if a := b.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword); a.Code != http.StatusBadRequest ||
			b.IsSignedIn() {
			t.Errorf("a sign-in page of before = %d, want 400", a.Code)
		}
	})
	for kind, path := range linkKinds {
		t.Run("peer 59: expired links, without a sweeper", func(t *testing.T) {
			t.Parallel()
			h := linking(t)
			timeStandsStill(h)
			token := newLink(h, kind, h.IDOf(identitytest.Demo))
			h.Clock.Advance(61 * time.Minute)
			b := h.Browser()
			if kind == "pin-reset" {
				b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			}
			if a := b.Get(path + "?token=" + token); a.Code < 400 {
				t.Errorf("an expired link of the kind %s = %d", kind, a.Code)
			}
			err := h.Store.Store.View(t.Context(), func(tx storage.Tx) error {
				_, err := h.Proof.ReadLink(tx, kind, token, h.Clock.Now())
				return err
			})
			if !errors.Is(err, challenge.ErrNoLink) || h.Stored("identity_link") != 1 {
				t.Errorf("ReadLink(%s) = %v with %d records, want ErrNoLink and 1", kind, err, h.Stored("identity_link"))
			}
		})
	}
	t.Run("peer 59: expired invitations, without a sweeper", func(t *testing.T) {
		t.Parallel()
		x := identitytest.NewInviting(t)
		timeStandsStill(x.Federated.Harness)
		made := x.Invite(invitation.NewInvitation{Email: identitytest.Guest, Name: "Gail Guest"})
		link := x.Link()
		x.Clock.Advance(8 * 24 * time.Hour)
		if a := x.Browser().Get(link); a.Code < 400 || x.State(made.PersonID) != person.Invited {
			t.Errorf("an expired invitation = %d, the person is %s", a.Code, x.State(made.PersonID))
		}
	})
	t.Run("peer 59: expired codes, without a sweeper", func(t *testing.T) {
		t.Parallel()
		h, _, _ := identitytest.NewWithEmailCodes(t)
		box := new(notifytest.Notices)
		h.Notices = box
		timeStandsStill(h)
		b := h.Plain()
		page, code := b.Ask(box)
		h.Clock.Advance(11 * time.Minute)
		if a := b.Post(page, "code", code); a.Code < 400 || h.Stored("identity_sent_code") != 1 {
			t.Errorf("an expired code = %d", a.Code)
		}
		h.WantLevel(b, 1)
	})
}
