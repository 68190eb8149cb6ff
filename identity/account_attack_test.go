package identity_test

import (
	"crypto/rand"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestContactOfPINReset: where a link for another PIN is sent to an address, whoever knows the password alone must not have it sent elsewhere.
func TestContactOfPINReset(t *testing.T) {
	t.Parallel()
	h, u, _ := pinned(t)
	u.Attributes.Verification.EmailEnabled = true
	u.EmailNotifications.StepUpAuthentication = false
	thief := h.browser()
	thief.plain()
	t.Run("attack 266: an address for the link of a PIN, with the password alone", func(t *testing.T) {
		if a := thief.contact("add", "thief@example.net"); !strings.HasPrefix(a.Header().Get("Location"), "/step-up?flow=") {
			t.Errorf("another address = %d to %q, want a step-up", a.Code, a.Header().Get("Location"))
		}
	})
	u.EmailNotifications.PINReset = false
	wantDone(t, "where nobody sends such links", thief.contact("add", "new@example.org"), "/account/profile/confirm")
}

// TestOldAddressHears: whoever verifies an address beside one that is not takes over the mail, which is told to who had it.
func TestOldAddressHears(t *testing.T) {
	t.Parallel()
	h, _, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled, u.EmailNotifications.AttributesUpdate.OnEmailUpdated = true, true
	p := identity.NewPerson{Username: "ann", Password: secret.New("Another horse 2"), Email: "ann@example.com"}
	h.add(p)
	b := h.browser()
	b.signIn("ann", "Another horse 2")
	m.Take()
	wantDone(t, "a new address", b.contact("add", "thief@example.net"), "/account/profile/confirm")
	code := codeOf(t, m, "thief@example.net")
	t.Run("attack 241: an address that is verified beside one that is not", func(t *testing.T) {
		wantDone(t, "the code", b.sendTo("/account/profile/confirm", "code", code), "/account/profile?done=added")
		if list := heard(t, "the new address", m, "email_updated ann@example.com"); len(list) == 1 && list[0].Data["address"] != "thief@example.net" {
			t.Errorf("the notice says %q", list[0].Data)
		}
	})
	wantDone(t, "the primary one", b.contact("primary", "thief@example.net"), "/account/profile?done=primary")
	heard(t, "the primary one", m, "email_updated thief@example.net")
}

// TestPasswordRenewsTheSession: whoever has taken the cookie of the browser in which the password is changed is out as well.
func TestPasswordRenewsTheSession(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	thief := h.browser()
	maps.Copy(thief.cookies, b.cookies)
	before, err := h.session(b)
	if err != nil || !thief.isSignedIn() {
		t.Fatal(err, thief.isSignedIn())
	}
	wantDone(t, "the change", b.sendTo("/account/security/password", "current", demoPassword, "password", "Another horse 2"), "/account/security/password?done=password")
	if thief.isSignedIn() {
		t.Error("the cookie of before is good still")
	}
	after, err := h.session(b)
	if err != nil || after.SessionID != before.SessionID {
		t.Errorf("the session = %+v, %v; want %s to go on", after, err, before.SessionID)
	}
	h.checkInvariants()
}

// TestActivityBehindTokens: what happened to the account is found behind ever so many events of tokens.
func TestActivityBehindTokens(t *testing.T) {
	t.Parallel()
	h, b, _, _ := dashboard(t)
	id := h.details(demo).ID
	rec := &event.Recorder{Random: rand.Reader, Now: h.clock.Now}
	for range 3 {
		err := h.store.Update(t.Context(), func(tx storage.Tx) error {
			for range 300 {
				e, err := rec.New(event.Type{Type: "token.AccessTokenRefreshedEvent", Name: "Access Token Refreshed"}, event.Origin{})
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
	if a := b.get("/account/activity"); !strings.Contains(a.Body.String(), "You signed in") || strings.Contains(a.Body.String(), "Nothing yet") {
		t.Errorf("the page:\n%s", a.Body)
	}
}

// TestDeletedIsForgotten: what is left of a person who is gone tells who they were to nobody, but for the events.
func TestDeletedIsForgotten(t *testing.T) {
	t.Parallel()
	h, b, u, m := dashboard(t)
	u.Attributes.Verification.EmailEnabled = true
	b.header = http.Header{"User-Agent": {"a browser of its own"}}
	b.address = "198.51.100.9:1"
	h.clock.Advance(2 * time.Minute)
	b.get("/account")
	wantDone(t, "a new address", b.contact("add", "second@example.org"), "/account/profile/confirm")
	code := codeOf(t, m, "second@example.org")
	wantDone(t, "the code", b.sendTo("/account/profile/confirm", "code", code), "/account/profile?done=added")
	wantDone(t, "another address", b.contact("add", "third@example.org"), "/account/profile/confirm")
	if a := b.sendTo("/account/data/delete", "password", demoPassword); a.Code != http.StatusOK {
		t.Fatalf("the end = %d", a.Code)
	}
	for key, value := range h.dump() {
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
