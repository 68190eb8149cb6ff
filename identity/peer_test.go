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
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/enrol"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/notify/notifytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// linkKinds are the pages that links open, by the kind of the link.
var linkKinds = map[proof.LinkKind]string{
	"reset": "/reset", "activation": "/activate", "verification": "/verify", "invitation": "/invitation", "pin-reset": "/account/security/pin-reset",
}

// linking returns a harness in which every kind of link is switched on.
func linking(t *testing.T) *harness {
	t.Helper()
	h, u, _ := resettable(t)
	u.Features.AcceptingInvitationEnabled, u.Features.PINEnabled = true, true
	u.Features.PersonActivation.Enabled, u.Features.PersonActivation.Type = true, "EMAIL"
	u.EmailNotifications.AccountInvitation, u.Attributes.Verification.EmailEnabled = true, true
	return h
}

// newLink makes a link of a kind for a person, and returns its token.
func (h *harness) newLink(kind proof.LinkKind, personID string) (token string) {
	h.t.Helper()
	err := h.store.Store.Update(h.t.Context(), func(tx storage.Tx) error {
		path, err := h.Proof.NewLink(tx, kind, personID, map[string]string{proof.LinkTo: demo}, time.Hour, h.clock.Now())
		_, token, _ = strings.Cut(path, "?token=")
		return err
	})
	if err != nil || token == "" {
		h.t.Fatalf("NewLink(%s) = %q, %v", kind, token, err)
	}
	return token
}

func (h *harness) idOf(username string) string {
	h.t.Helper()
	p, err := h.Person.Person(h.t.Context(), username)
	if err != nil {
		h.t.Fatal(err)
	}
	return p.ID
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
			token := h.newLink(kind, h.idOf(demo))
			for other, path := range linkKinds {
				if other == kind {
					continue
				}
				b := h.browser()
				if other == "pin-reset" { // its page wants a sign-in first
					b.signIn(demo, demoPassword)
				}
				form := b.get(path + "?token=" + token)
				if form.Code < 400 {
					t.Errorf("GET %s with a link of the kind %s = %d\n%s", path, kind, form.Code, form.Body)
				}
				v := url.Values{"csrf": {form.csrf()}, "password": {freshPassword}, "pin": {"827164"}, "again": {"827164"}}
				if a := b.do(http.MethodPost, path, v.Encode()); a.Code < 400 {
					t.Errorf("POST %s with a link of the kind %s = %d", path, kind, a.Code)
				}
			}
			err := h.store.Store.View(t.Context(), func(tx storage.Tx) error {
				_, err := h.Proof.ReadLink(tx, kind, token, h.clock.Now())
				return err
			})
			if err != nil {
				t.Errorf("the link no longer works on its own page: %v", err)
			}
			h.browser().signIn(demo, demoPassword) // nothing has changed the password
		})
	}
}

// TestPeersSessions: what has broken sessions and flows of comparable products.
func TestPeersSessions(t *testing.T) {
	t.Parallel()
	t.Run("peer 6: the sign-in page does not keep the session of somebody else's cookie", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, func(c *identity.Config) {
			c.Persons = append(c.Persons, person.NewPerson{Username: "mallory", Password: secret.New(demoPassword)})
		})
		attacker := h.browser()
		attacker.signIn("mallory", demoPassword)
		victim := h.browser()
		victim.cookies = maps.Clone(attacker.cookies)
		before := attacker.session()
		h.demandLogin()
		if a := victim.post(victim.get("/next?mine=1"), "username", demo, "password", demoPassword); a.Code != http.StatusSeeOther {
			t.Fatalf("sign-in: %d", a.Code)
		}
		if victim.session() == before || attacker.isSignedIn() {
			t.Errorf("the victim has the session of before: %t, the attacker is still signed in: %t", victim.session() == before, attacker.isSignedIn())
		}
		if si, err := h.session(victim); err != nil || si.Subject != h.idOf(demo) {
			t.Errorf("the victim's session = %+v, %v", si, err)
		}
	})
	t.Run("peer 22: a flow of another browser opens nothing for a browser that is signed in", func(t *testing.T) {
		t.Parallel()
		e := newElsewhere(t)
		attacker, victim := e.browser(), e.browser()
		victim.signIn(demo, demoPassword)
		_, id, _ := strings.Cut(attacker.do(http.MethodGet, "/next", "").Header().Get("Location"), "flow=")
		for _, path := range []string{"/sign-in", "/sign-in/wait", "/sign-in/complete", "/step-up", "/sign-in/activate", "/sign-in/choose", "/sign-in/passkey", "/sign-in/connect", "/sign-in/register", "/sign-in/provider/done"} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				a := victim.do(method, path+"?flow="+id, "csrf=x&account=this")
				if a.Code < 400 {
					t.Errorf("%s %s = %d to %q, want a refusal", method, path, a.Code, a.Header().Get("Location"))
				}
			}
		}
		if a := victim.do(http.MethodGet, "/sign-in/provider?flow="+id+"&id=partner", ""); a.Code < 400 {
			t.Errorf("GET /sign-in/provider = %d to %q", a.Code, a.Header().Get("Location"))
		}
		if attacker.isSignedIn() || !strings.Contains(attacker.get("/next").Body.String(), `name="password"`) {
			t.Error("the attacker's flow has gone on as the victim")
		}
	})
	t.Run("peer 23: what a form says of its flow changes nothing", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.browser()
		page := b.get("/next?a=1")
		a := b.post(page, "username", demo, "password", demoPassword, "return", "https://evil.example", "redirect", "https://evil.example",
			"return_to", "/evil", "client_id", "evil", "level", "4", "demand", `{"Level":4}`, "response_type", "token")
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next?a=1" {
			t.Errorf("= %d to %q, want what the flow was begun for", a.Code, a.Header().Get("Location"))
		}
		h.wantLevel(b, 1)
		other := h.browser()
		page = other.get("/next?b=1")
		action, _, _ := strings.Cut(page.url, "&")
		v := url.Values{"csrf": {page.csrf()}, "username": {demo}, "password": {demoPassword}}
		a = other.do(http.MethodPost, action+"&redirect=https%3A%2F%2Fevil.example&return=%2Fevil&level=4", v.Encode())
		if a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/next?b=1" {
			t.Errorf("with a query: %d to %q, want what the flow was begun for", a.Code, a.Header().Get("Location"))
		}
	})
	t.Run("peer 24: no new password without the link from the mail, in any order of steps", func(t *testing.T) {
		t.Parallel()
		h, _, box := resettable(t)
		b := h.browser()
		try := func(step string) {
			t.Helper()
			for _, csrf := range []string{"", b.get("/next").csrf(), b.get("/forgot").csrf()} {
				v := url.Values{"csrf": {csrf}, "password": {freshPassword}, "username": {demo}}
				if a := b.do(http.MethodPost, "/reset", v.Encode()); a.Code < 400 {
					t.Errorf("%s: POST /reset = %d to %q", step, a.Code, a.Header().Get("Location"))
				}
			}
		}
		try("at first")
		b.forget(demo)
		link := h.link(notify.ResetLink, demo)
		try("after the link was requested")
		b.get("/reset/done")
		try("after the last page")
		owner := h.browser()
		owner.get(link)
		try("after the owner has opened the link")
		owner.post(owner.get("/reset"), "password", freshPassword)
		try("after the owner has a new password")
		if len(box.Take()) > 1 {
			t.Error("more than one new password was told")
		}
		h.browser().signIn(demo, freshPassword)
	})
}

// TestPeersLinking: what has broken the linking of accounts.
func TestPeersLinking(t *testing.T) {
	t.Parallel()
	t.Run("peer 27: the proof for one identity couples no other, and works once", func(t *testing.T) {
		t.Parallel()
		e := newLinking(t, false)
		e.at("partner")
		b := e.browser()
		first := e.wantAsked("mallory", b, mallory())
		other := mallory()
		other.Subject, other.Email = "667", "second@evil.example"
		second := e.wantAsked("another identity", b, other)
		// The form of the first one, sent to the page of the second.
		_, flow, _ := strings.Cut(second.url, "flow=")
		v := url.Values{"csrf": {first.csrf()}, "username": {"carla"}, "password": {demoPassword}}
		if a := b.do(http.MethodPost, "/sign-in/connect?flow="+flow, v.Encode()); a.Code < 400 {
			t.Errorf("the form of one for the other = %d", a.Code)
		}
		if a := b.post(first, "username", "carla", "password", demoPassword); a.Code != http.StatusSeeOther {
			t.Fatalf("its own form = %d\n%s", a.Code, a.Body)
		}
		if page := b.get("/account/security/accounts"); page.Code == http.StatusOK {
			v := url.Values{"csrf": {page.csrf()}, "do": {"disconnect"}, "provider": {"partner"}}
			b.do(http.MethodPost, "/account/security/accounts", v.Encode())
		}
		for range 2 {
			if a := b.post(first, "username", "carla", "password", demoPassword); a.Code < 400 {
				t.Errorf("the form again, after unlinking = %d", a.Code)
			}
		}
		if n := e.events()["person.ExternalIdentityCoupledEvent"]; n != 1 {
			t.Errorf("%d identities were coupled, want 1", n)
		}
	})
	t.Run("peer 28: a link to the page from another site couples nothing without the password and the page's own token", func(t *testing.T) {
		t.Parallel()
		e := newLinking(t, false)
		e.at("partner", "identity")
		attacker, victim := e.browser(), e.browser()
		e.at("partner")
		page := e.wantAsked("mallory", attacker, mallory())
		victim.post(victim.get("/account/security"), "username", "carla", "password", demoPassword)
		if a := victim.get(page.url); a.Code < 400 {
			t.Errorf("the attacker's page in the victim's browser = %d", a.Code)
		}
		for _, csrf := range []string{"", page.csrf()} {
			v := url.Values{"csrf": {csrf}, "username": {"carla"}, "password": {demoPassword}}
			victim.header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
			if a := victim.do(http.MethodPost, page.url, v.Encode()); a.Code < 400 {
				t.Errorf("a form from another site = %d", a.Code)
			}
		}
		if n := e.events()["person.ExternalIdentityCoupledEvent"]; n != 0 {
			t.Errorf("%d identities were coupled, want none", n)
		}
	})
	t.Run("peer 41: nobody gets a username that is somebody else's address", func(t *testing.T) {
		t.Parallel()
		x := newRegistering(t)
		b := x.browser()
		form := x.arrive(b, ann())
		for _, name := range []string{demo, "DEMO@example.com", "demo＠example.com", "ｄｅｍｏ@example.com", "boss@example.com"} {
			a := b.post(form, "username", name, "password", freshPassword, "password_again", freshPassword)
			if a.Code != http.StatusUnprocessableEntity {
				t.Errorf("username %q = %d, want 422", name, a.Code)
			}
		}
		x.at("identity")
		x.browser().signIn(demo, demoPassword)
		if x.persons() != 0 {
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
		on     func(*config.Units, bool)
		fields []string
	}{
		"peer 47: forgotten passwords": {"/forgot", false, func(u *config.Units, on bool) { u.Features.PasswordResetEnabled = on }, []string{"username", demo}},
		"peer 47: sign-up":             {"/sign-up", false, func(u *config.Units, on bool) { u.Features.SignUpEnabled = on }, []string{"email", "new@example.com", "password", freshPassword}},
		"peer 47: PINs":                {"/account/security/pin", true, func(u *config.Units, on bool) { u.Features.PINEnabled = on }, []string{"pin", "827164", "again", "827164"}},
		"peer 47: sign-in":             {"/next", false, func(u *config.Units, on bool) { u.Features.LoginEnabled = on }, []string{"username", demo, "password", demoPassword}},
		"peer 47: authenticator apps":  {"/account/security/authenticator", true, func(u *config.Units, on bool) { u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = on }, []string{"code", "000000"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, u, box := resettable(t)
			u.StepUp.Actions.AllowSetInitialStepUpMethodEnabled = true
			c.on(u, true)
			b := h.browser()
			if c.signed {
				b.signIn(demo, demoPassword)
			}
			form := b.get(c.path)
			if form.csrf() == "" {
				t.Fatalf("GET %s = %d, no form\n%s", c.path, form.Code, form.Body)
			}
			c.on(u, false)
			before := h.dump()
			a := b.post(form, c.fields...)
			if a.Code < 400 {
				t.Errorf("POST = %d to %q, want a refusal", a.Code, a.Header().Get("Location"))
			}
			after := h.dump()
			maps.DeleteFunc(after, func(k, v string) bool { return before[k] == v })
			if changed := slices.Collect(maps.Keys(after)); len(changed) > 0 || len(box.Take()) > 0 || !c.signed && b.isSignedIn() {
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
		h, _, box := mailing(t)
		b := h.plain()
		page := b.get("/next")
		b.post(page, "send", "yes", "email", "mallory@evil.example", "to", "mallory@evil.example", "address", "mallory@evil.example", "phone", "+31600000000")
		if list := box.Take(); len(list) != 1 || list[0].To != demo {
			t.Errorf("sent: %+v, want one code to %s", list, demo)
		}
	})
}

// timeStandsStill replaces the store by one whose own clock does not move, so it collects nothing.
func (h *harness) timeStandsStill() {
	h.t.Helper()
	then := h.clock.Now()
	store, err := badgerstore.OpenMemory(func(o *badgerstore.Options) { o.Now = func() time.Time { return then } })
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { store.Close() }) //nolint:errcheck // in memory
	h.store.Store = store
	h.start()
}

// TestPeersExpiry: what has expired is refused while its record is still there.
func TestPeersExpiry(t *testing.T) {
	t.Parallel()
	t.Run("peer 59: expired sessions, without a sweeper", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.timeStandsStill()
		b := h.browser()
		b.signIn(demo, demoPassword)
		h.clock.Advance(24 * time.Hour)
		if h.stored("identity_session") != 1 {
			t.Fatal("the record of the session is gone")
		}
		if a := b.do(http.MethodGet, "/account", ""); b.isSignedIn() || a.Code != http.StatusSeeOther || !strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
			t.Errorf("a session of yesterday opens the account: %d", a.Code)
		}
	})
	t.Run("peer 59: expired flows, without a sweeper", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.timeStandsStill()
		b := h.browser()
		form := b.get("/next")
		h.clock.Advance(90 * time.Minute)
		if a := b.post(form, "username", demo, "password", demoPassword); a.Code != http.StatusBadRequest || b.isSignedIn() {
			t.Errorf("a sign-in page of before = %d, want 400", a.Code)
		}
	})
	for kind, path := range linkKinds {
		t.Run("peer 59: expired links, without a sweeper", func(t *testing.T) {
			t.Parallel()
			h := linking(t)
			h.timeStandsStill()
			token := h.newLink(kind, h.idOf(demo))
			h.clock.Advance(61 * time.Minute)
			b := h.browser()
			if kind == "pin-reset" {
				b.signIn(demo, demoPassword)
			}
			if a := b.get(path + "?token=" + token); a.Code < 400 {
				t.Errorf("an expired link of the kind %s = %d", kind, a.Code)
			}
			err := h.store.Store.View(t.Context(), func(tx storage.Tx) error {
				_, err := h.Proof.ReadLink(tx, kind, token, h.clock.Now())
				return err
			})
			if !errors.Is(err, proof.ErrNoLink) || h.stored("identity_link") != 1 {
				t.Errorf("ReadLink(%s) = %v with %d records, want ErrNoLink and 1", kind, err, h.stored("identity_link"))
			}
		})
	}
	t.Run("peer 59: expired invitations, without a sweeper", func(t *testing.T) {
		t.Parallel()
		x := newInviting(t)
		x.timeStandsStill()
		made := x.invite(enrol.NewInvitation{Email: guest, Name: "Gail Guest"})
		link := x.link()
		x.clock.Advance(8 * 24 * time.Hour)
		if a := x.browser().get(link); a.Code < 400 || x.state(made.PersonID) != person.Invited {
			t.Errorf("an expired invitation = %d, the person is %s", a.Code, x.state(made.PersonID))
		}
	})
	t.Run("peer 59: expired codes, without a sweeper", func(t *testing.T) {
		t.Parallel()
		h, _, _ := mailing(t)
		box := new(notifytest.Notices)
		h.notices = box
		h.timeStandsStill()
		b := h.plain()
		page, code := b.ask(box)
		h.clock.Advance(11 * time.Minute)
		if a := b.post(page, "code", code); a.Code < 400 || h.stored("identity_sent_code") != 1 {
			t.Errorf("an expired code = %d", a.Code)
		}
		h.wantLevel(b, 1)
	})
}
