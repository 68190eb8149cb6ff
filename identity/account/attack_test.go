package account_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestContactOfPINReset: where PIN reset links go to an e-mail address, a thief who has only the password cannot
// redirect them to a new address.
func TestContactOfPINReset(t *testing.T) {
	t.Parallel()
	h, u, _ := identitytest.NewWithPIN(t)
	u.Attributes.Verification.EmailEnabled = true
	u.EmailNotifications.StepUpAuthentication = false
	thief := h.Plain()
	t.Run("attack 266: an address for the link of a PIN, with the password alone", func(t *testing.T) {
		if a := contact(thief, "add", "thief@example.net"); !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
			t.Errorf("another address = %d to %q, want a step-up", a.Code, a.Header().Get("Location"))
		}
	})
	u.EmailNotifications.PINReset = false
	wantDone(t, "where nobody sends such links", contact(thief, "add", "new@example.org"), "/account/profile/confirm")
}

// TestOldAddressHears: a newly verified address receives the mail from then on if the present one is unverified. The
// present address is told so.
func TestOldAddressHears(t *testing.T) {
	t.Parallel()
	h, _, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled, u.EmailNotifications.AttributesUpdate.OnEmailUpdated = true, true
	p := person.NewPerson{Username: "ann", Password: secret.New("Another horse 2"), Email: "ann@example.com"}
	h.Add(p)
	b := h.Browser()
	b.SignIn("ann", "Another horse 2")
	m.Take()
	wantDone(t, "a new address", contact(b, "add", "thief@example.net"), "/account/profile/confirm")
	code := codeOf(t, m, "thief@example.net")
	t.Run("attack 241: an address that is verified beside one that is not", func(t *testing.T) {
		wantDone(t, "the code", sendTo(b, "/account/profile/confirm", "code", code), "/account/profile?done=added")
		if list := identitytest.WantNotices(t, "the new address", m, "email_updated ann@example.com"); len(list) == 1 &&
			list[0].Data["address"] != "thief@example.net" {
			t.Errorf("the notice says %q", list[0].Data)
		}
	})
	wantDone(t, "the primary one", contact(b, "primary", "thief@example.net"), "/account/profile?done=primary")
	identitytest.WantNotices(t, "the primary one", m, "email_updated thief@example.net")
}

// TestPasswordRenewsTheSession: changing the password also signs out a thief with a copy of this browser's cookie.
func TestPasswordRenewsTheSession(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	thief := h.Browser()
	maps.Copy(thief.Cookies, b.Cookies)
	before, err := h.SessionOf(b)
	if err != nil || !thief.IsSignedIn() {
		t.Fatal(err, thief.IsSignedIn())
	}
	wantDone(t, "the change", sendTo(b, "/account/security/password", "current", identitytest.DemoPassword, "password", "Another horse 2"),
		"/account/security/password?done=password")
	if thief.IsSignedIn() {
		t.Error("the cookie of before is good still")
	}
	after, err := h.SessionOf(b)
	if err != nil || after.SessionID != before.SessionID {
		t.Errorf("the session = %+v, %v; want %s to go on", after, err, before.SessionID)
	}
	h.CheckInvariants()
}

// TestActivityBehindTokens: the activity page finds account events even behind hundreds of token events.
func TestActivityBehindTokens(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	id := h.Details(identitytest.Demo).ID
	rec := &audit.Recorder{Random: rand.Reader, Now: h.Clock.Now}
	for range 3 {
		err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
			for range 300 {
				e, err := rec.New(audit.Type{Type: "token.AccessTokenRefreshedEvent", Name: "Access Token Refreshed"}, audit.Origin{})
				if err != nil {
					return err
				}
				e.PersonID = id
				if err := rec.Append(tx, e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if a := b.Get("/account/activity"); !strings.Contains(a.Body.String(), "You signed in") ||
		strings.Contains(a.Body.String(), "No activity yet") {
		t.Errorf("the page:\n%s", a.Body)
	}
}

// TestDeletedIsForgotten: except for the events, nothing that is left of a deleted person tells who they were.
func TestDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	h, b, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled = true
	b.Header = http.Header{"User-Agent": {"a browser of its own"}}
	b.Address = "198.51.100.9:1"
	h.Clock.Advance(2 * time.Minute)
	b.Get("/account")
	wantDone(t, "a new address", contact(b, "add", "second@example.org"), "/account/profile/confirm")
	code := codeOf(t, m, "second@example.org")
	wantDone(t, "the code", sendTo(b, "/account/profile/confirm", "code", code), "/account/profile?done=added")
	wantDone(t, "another address", contact(b, "add", "third@example.org"), "/account/profile/confirm")
	if a := sendTo(b, "/account/data/delete", "password", identitytest.DemoPassword); a.Code != http.StatusOK {
		t.Fatalf("the end = %d", a.Code)
	}
	for key, value := range h.Dump() {
		if strings.HasPrefix(key, "event_log/") {
			continue
		}
		for _, what := range []string{"second@example.org", "third@example.org", "Demo Person", "198.51.100.9", "a browser of its own"} {
			if strings.Contains(key+value, what) {
				t.Errorf("%q has %q", key, what)
			}
		}
	}
}

// TestStrangersKeepNobodyFromTheirAccount: attempts on the sign-in page do not count against a person who is signed in.
func TestStrangersKeepNobodyFromTheirAccount(t *testing.T) {
	t.Parallel()
	const path = "/account/security/password"
	h, b, _, _ := dashboard(t)
	for name := range b.Cookies { // as after a sign-in at a provider
		if strings.HasSuffix(name, "-device") {
			delete(b.Cookies, name)
		}
	}
	for i := range 25 {
		stranger := h.Browser()
		stranger.Address = fmt.Sprintf("198.51.100.%d:1", i)
		stranger.Try(identitytest.Demo, "wrong horse 1")
	}
	if a := h.Browser().Try(identitytest.Demo, identitytest.DemoPassword); a.Code != http.StatusTooManyRequests {
		t.Errorf("the sign-in page after 25 wrong ones = %d", a.Code)
	}
	for i := range 4 {
		if a := sendTo(b, path, "current", "wrong", "password", "Another horse 2"); a.Code != http.StatusUnprocessableEntity {
			t.Fatalf("wrong one %d of the person = %d", i, a.Code)
		}
	}
	wantDone(t, "the change", sendTo(b, path, "current", identitytest.DemoPassword, "password", "Another horse 2"), path+"?done=password")
	for range 5 {
		sendTo(b, path, "current", "wrong", "password", "Third horse 3")
	}
	if a := sendTo(b, path, "current", "Another horse 2", "password", "Third horse 3"); a.Code != http.StatusTooManyRequests {
		t.Errorf("after five wrong ones in the session = %d", a.Code)
	}
}

// TestEverywhereElse: ending all other sessions also signs out a thief with a copy of this browser's cookie.
func TestEverywhereElse(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	thief, other := h.Browser(), h.Browser()
	maps.Copy(thief.Cookies, b.Cookies)
	other.SignIn(identitytest.Demo, identitytest.DemoPassword)
	wantDone(t, "all others", sendTo(b, "/account/devices", "session", "others"), "/account/devices?done=ended")
	if !b.IsSignedIn() || thief.IsSignedIn() || other.IsSignedIn() {
		t.Errorf("signed in: here %t, a thief %t, elsewhere %t", b.IsSignedIn(), thief.IsSignedIn(), other.IsSignedIn())
	}
}

// TestEverywhereElseAndLater: a session that does not count at the moment, since its provider is disabled, ends with
// the others. It does not come back with its provider.
func TestEverywhereElseAndLater(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	t.Run("attack 6482: all other browsers, on the account page", func(t *testing.T) {
		thief, other := h.Browser(), h.Browser()
		thief.SignIn(identitytest.Demo, identitytest.DemoPassword)
		other.SignIn(identitytest.Demo, identitytest.DemoPassword)
		stolen, err := h.SessionOf(thief)
		if err != nil {
			t.Fatal(err)
		}
		identitytest.WhileOff(t, h.Store, stolen.SessionID, func() {
			if thief.IsSignedIn() {
				t.Error("the session counts while its provider is disabled")
			}
			wantDone(t, "all others", sendTo(b, "/account/devices", "session", "others"), "/account/devices?done=ended")
		})
		if thief.IsSignedIn() || other.IsSignedIn() || !b.IsSignedIn() {
			t.Errorf("signed in: the thief %t, elsewhere %t, here %t", thief.IsSignedIn(), other.IsSignedIn(), b.IsSignedIn())
		}
	})
}

// TestUnlinkedWhileOff: a person who loses the account at a disabled provider is not signed in when that is back.
func TestUnlinkedWhileOff(t *testing.T) {
	t.Parallel()
	t.Run("attack 6482: an account is disconnected while its provider is disabled", func(t *testing.T) {
		t.Parallel()
		e := identitytest.NewFederated(t)
		e.At("partner")
		b := e.Browser()
		opened := e.MustEnter(b, identitytest.Ann())
		if err := e.Person.SetPassword(t.Context(), opened.Subject, secret.New(identitytest.DemoPassword), identitytest.Ops); err != nil {
			t.Fatal(err)
		}
		e.MustEnter(b, identitytest.Ann()) // the new password has ended the session
		again, err := e.SessionOf(b)
		if err != nil {
			t.Fatal(err)
		}
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Disabled = true })(&e.Config)
		e.Start()
		if err := e.Account.Unlink(t.Context(), again.Subject, "partner", identitytest.Ops); err != nil {
			t.Fatal(err)
		}
		identitytest.WithProvider("partner", func(p *federation.Provider) { p.Disabled = false })(&e.Config)
		e.Start()
		if b.IsSignedIn() {
			t.Error("the session counts again")
		}
	})
}

// TestContactAgain: if it is too soon for another code, the form keeps the typed address. Typing the first address
// again leads back to the page for its code.
func TestContactAgain(t *testing.T) {
	t.Parallel()
	_, b, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled = true
	wantDone(t, "an address", contact(b, "add", "new@example.org"), "/account/profile/confirm")
	wantDone(t, "the same again", contact(b, "add", "new@example.org"), "/account/profile/confirm")
	codeOf(t, m, "new@example.org") // only one was sent
	if a := contact(b, "add", "other@example.org"); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") == "" ||
		!strings.Contains(a.Body.String(), `value="other@example.org"`) {
		t.Errorf("another one at once = %d\n%s", a.Code, a.Body)
	}
}

// TestOneEventEach: blocking a person writes one event, and none for changed details.
func TestOneEventEach(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t)
	before := h.Events()
	change := func(e person.Edit, fn func(*person.Details)) {
		t.Helper()
		e.By = identitytest.Ops
		if _, err := h.Person.UpdatePerson(t.Context(), h.Details(identitytest.Demo).ID, e,
			func(_ storage.Tx, d *person.Details) error { fn(d); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	change(person.Edit{}, func(d *person.Details) { d.State = person.Blocked })
	change(person.Edit{}, func(d *person.Details) { d.State, d.Profile.Gender = person.Active, "F" })
	change(person.Edit{Password: secret.New("Another horse 2")}, func(*person.Details) {})
	after := h.Events()
	for kind, want := range map[string]int{
		"PersonBlockedEvent": 1, "PersonActivatedEvent": 1, "PasswordChangedEvent": 1,
		"PersonUpdatedEvent": 1,
	} {
		if got := after["person."+kind] - before["person."+kind]; got != want {
			t.Errorf("%d events %s, want %d", got, kind, want)
		}
	}
}

// TestPartitionOnPasswordPage: password managers see the username exactly as it is typed to sign in, with its
// partition.
func TestPartitionOnPasswordPage(t *testing.T) {
	t.Parallel()
	h := identitytest.New(t, func(c *identity.Config) { c.Partitions = person.PartitionConfig{On: true} })
	h.Add(person.NewPerson{Username: "ann", Partition: "acme", Password: secret.New("Another horse 2")})
	b := h.Browser()
	b.SignIn(`acme\ann`, "Another horse 2")
	if a := b.Get("/account/security/password"); !strings.Contains(a.Body.String(), `value="acme\ann" autocomplete="username"`) {
		t.Errorf("the page:\n%s", a.Body)
	}
}

// TestDownloadNames: the members of the file have the same names as elsewhere, and empty lists are lists rather than
// null.
func TestDownloadNames(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	_, err := h.Person.UpdatePerson(t.Context(), h.Details(identitytest.Demo).ID, person.Edit{By: identitytest.Ops},
		func(_ storage.Tx, d *person.Details) error {
			d.Groups, d.Directory.CostCenter = nil, "12"
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	var file any
	if err := json.Unmarshal(b.Get("/account/data/download").Body.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
			t.Errorf("%s is null", path)
		case []any:
			for _, inner := range v {
				walk(path+"[]", inner)
			}
		case map[string]any:
			for name, inner := range v {
				if strings.ToLower(name) != name {
					t.Errorf("%s has a member %s", path, name)
				}
				walk(path+"."+name, inner)
			}
		}
	}
	walk("", file)
	if d, _ := file.(map[string]any)["directory"].(map[string]any); d["cost_center"] != "12" {
		t.Errorf("directory = %v", d)
	}
}

// between is a store that calls a function between two transactions of a request.
type between struct {
	storage.Store
	left int // reads until do is called
	do   func()
}

func (s *between) View(ctx context.Context, fn func(storage.Tx) error) error {
	err := s.Store.View(ctx, fn)
	if s.left--; s.left == 0 && s.do != nil {
		s.do()
	}
	return err
}

// TestBlockedMeanwhile: if a person is blocked at any point of their request, the request removes nothing.
func TestBlockedMeanwhile(t *testing.T) {
	t.Parallel()
	fired := true
	for after := 1; fired; after++ {
		h, _, _ := identitytest.NewWithPIN(t)
		b := h.Plain()
		b.Get("/account/security")
		b.Post(b.Get("/next"), "code", "471193")
		const path = "/account/security/remove?method=pin"
		form := b.Get(path)
		if form.CSRF() == "" {
			t.Fatalf("the page = %d\n%s", form.Code, form.Body)
		}
		fired = false
		inner := h.Store.Store
		h.Store.Store = &between{inner, after, func() {
			fired = true
			if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Ops); err != nil {
				t.Error(err)
			}
		}}
		b.Fill(form, path)
		h.Store.Store = inner
		if n := h.Events()["person.StepUpMethodRemovedEvent"]; fired && n != 0 {
			t.Errorf("blocked after read %d of the request, and the method is removed", after)
		} else if !fired && n != 1 {
			t.Errorf("without a block %d methods are removed, want 1", n)
		}
	}
}
