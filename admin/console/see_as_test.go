package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// seenPages are the pages that are looked at.
var seenPages = []string{
	"/account", "/account/profile", "/account/security", "/account/devices",
	"/account/applications", "/account/activity",
}

// stop sends the form that ends it.
func (b *browser) stop() *answer { return b.submit(b.get("/account")) }

// sees lets an operator look at the account nobody@example.com.
func (h *harness) sees(username string) (b *browser, path string) {
	h.t.Helper()
	b, path = h.as(username), personPath(h.personID("nobody@example.com"))
	if a := b.acts(path+"/see-as", "reason", "ticket 4711"); a.url != "/account?done=see-as" || a.Code != http.StatusOK {
		h.t.Fatalf("see as: %d %s\n%s", a.Code, a.url, a.Body)
	}
	return b, path
}

// TestSeeAs: an administrator looks at the account of a person as the person sees it.
func TestSeeAs(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.setEmail("nobody@example.com")
	own := h.as("nobody@example.com")
	id := h.personID("nobody@example.com")
	before := h.signedIn(id)
	h.clock.Advance(time.Minute)
	b, path := h.sees("operator@example.com")
	for _, at := range seenPages {
		a := b.get(at)
		body := a.Body.String()
		if a.Code != http.StatusOK || a.url != at || !strings.Contains(body, "operator@example.com") ||
			!strings.Contains(body, "looking at the account of <b>nobody@example.com") &&
				!strings.Contains(body, "the account of nobody@example.com") || !strings.Contains(body, "12:16") {
			t.Errorf("GET %s = %d without the banner\n%s", at, a.Code, body)
		}
		if strings.Contains(body, `action="/sign-out"`) {
			t.Errorf("GET %s offers to sign out", at)
		}
	}
	if a := b.get("/account/devices"); !strings.Contains(a.Body.String(), "Firefox") || strings.Count(a.Body.String(), "This device") > 0 {
		t.Errorf("the devices are not those of the person\n%s", a.form())
	}
	if a := own.get("/account/activity"); !strings.Contains(a.form(), "An administrator looked at your account") {
		t.Errorf("the person is not told on the activity page\n%s", a.form())
	}
	told := 0
	for _, n := range h.notices.Take() {
		if n.Kind == notify.AccountSeen && n.PersonID == id && n.Data["administrator"] == "operator@example.com" &&
			n.Until.Equal(h.clock.Now().Add(15*time.Minute)) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("the person has got %d e-mails", told)
	}
	if now := h.signedIn(id); !now.Equal(before) {
		t.Errorf("the last sign-in of the person has moved from %s to %s", before, now)
	}
	h.must(h.store.View(t.Context(), func(tx storage.Tx) error {
		list, err := h.id.Session.OfPerson(tx, id, h.clock.Now())
		if len(list) != 1 {
			t.Errorf("the person has %d sessions, want the own one", len(list))
		}
		return err
	}))
	if a := b.stop(); a.Header().Get("Location") != path {
		t.Errorf("stopping leads to %d %q", a.Code, a.Header().Get("Location"))
	}
	if a := b.get("/account"); strings.Contains(a.Body.String(), "nobody@example.com") ||
		!strings.Contains(a.Body.String(), "operator@example.com") {
		t.Errorf("after the end the account is not the own one\n%s", a.Body)
	}
	var kinds []string
	for _, e := range h.allEvents(t.Context()) {
		if strings.HasPrefix(e.Type, "person.AccountSeen") {
			kinds = append(kinds, e.Type)
			if e.Actor != h.personID("operator@example.com") || e.PersonID != id || e.Type == "person.AccountSeenEvent" &&
				e.Reason != "ticket 4711" {
				t.Errorf("event = %+v", e)
			}
		}
	}
	if strings.Join(kinds, " ") != "person.AccountSeenEvent person.AccountSeenEndedEvent" {
		t.Errorf("events = %q", kinds)
	}
}

// TestSeeAsChangesNothing: attacks by an administrator who looks at an account.
func TestSeeAsChangesNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 554: an administrator who sees an account changes something or gets a token", func(t *testing.T) {
		h.as("nobody@example.com")
		b, path := h.sees("owner@example.com")
		other := personPath(h.personID("two.nobody@example.com"))
		before := h.events()
		for _, at := range []string{
			"/account/profile", "/account/contact", "/account/address", "/account/confirm", "/account/devices", "/account/applications",
			"/account/identities", "/account/data/delete", "/account/password", "/account/app-passwords",
			"/account/security/authenticator", "/account/security/pin", "/account/security/recovery", "/account/security/passkey", "/sign-out",
			"/sign-in", "/step-up", "/account/another-device", "/phone", "/forgot", "/account/connect",
			path + "/edit", path + "/block", path + "/see-as", other + "/remove", "/admin/persons/create", "/sso/saml",
		} {
			for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				csrf := b.get("/account/profile").csrf()
				a := b.do(method, at, url.Values{"csrf": {csrf}, "family_name": {"Changed"}}.Encode())
				if a.Code != http.StatusForbidden && a.Code != http.StatusMethodNotAllowed && a.Code != http.StatusNotFound {
					t.Errorf("%s %s = %d to %q", method, at, a.Code, a.Header().Get("Location"))
				}
			}
		}
		for _, at := range []string{
			"/account/data", "/account/data/download", "/account/app-passwords", "/account/password",
			"/account/security/authenticator", "/account/another-device", "/admin", "/admin/persons", path, "/step-up", "/sign-in", "/sign-out",
		} {
			if a := b.do(http.MethodGet, at, ""); a.Code != http.StatusForbidden && a.Code != http.StatusNotFound {
				t.Errorf("GET %s = %d to %q", at, a.Code, a.Header().Get("Location"))
			}
		}
		q := url.Values{
			"response_type": {"code"}, "client_id": {"shop"}, "redirect_uri": {"https://shop.example.com/cb"},
			"scope": {"openid"}, "state": {"s"},
		}
		if a := b.get("/oauth/authorize?" + q.Encode()); a.Code != http.StatusForbidden ||
			!strings.Contains(a.Body.String(), "someone else’s account") {
			t.Errorf("an authorization request = %d\n%s", a.Code, a.Body)
		}
		q.Set("prompt", "none")
		if a := b.do(http.MethodGet, "/oauth/authorize?"+q.Encode(), ""); strings.Contains(a.Header().Get("Location"), "code=") ||
			!strings.Contains(a.Header().Get("Location"), "error=login_required") {
			t.Errorf("a passive authorization request = %d %q", a.Code, a.Header().Get("Location"))
		}
		if after := h.events(); after != before {
			t.Errorf("something has happened: %s", after[len(before):])
		}
		stale := b.get("/account/profile?edit=name")
		b.stop()
		v := url.Values{"csrf": {stale.csrf()}}
		if stale.csrf() == "" {
			t.Error("the page has no form to attack with")
		}
		if a := b.do(http.MethodPost, "/account/profile", v.Encode()); a.Code != http.StatusForbidden {
			t.Errorf("a form of the account of somebody else, sent for the own one: %d", a.Code)
		}
	})
	t.Run("attack 555: seeing someone of equal or higher rank, oneself, without a reason, or when it is off", func(t *testing.T) {
		for who, whom := range map[string][]string{
			"operator@example.com": {"operator@example.com", "two.operator@example.com", "owner@example.com"},
			"owner@example.com":    {"owner@example.com", "two.owner@example.com"},
			"helpdesk@example.com": {"two.nobody@example.com"}, "viewer@example.com": {"two.nobody@example.com"},
		} {
			b := h.as(who)
			for _, name := range whom {
				if a := b.get(personPath(h.personID(name)) + "/see-as"); a.Code != http.StatusForbidden {
					t.Errorf("%s sees %s: %d", who, name, a.Code)
				}
			}
		}
		b, path := h.as("owner@example.com"), personPath(h.personID("two.nobody@example.com"))
		for _, reason := range []string{"", "  ", strings.Repeat("x", 2000), "a\nb"} {
			if a := b.acts(path+"/see-as", "reason", reason); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("reason %q: %d", reason, a.Code)
			}
		}
		b.console = h.strict // where it is off
		if a := b.get(path + "/see-as"); a.Code != http.StatusForbidden {
			t.Errorf("it is off, and leads to %d", a.Code)
		}
	})
	for _, c := range []struct {
		name string
		end  func(h *harness)
	}{
		{"after its time", func(h *harness) { h.clock.Advance(15 * time.Minute) }},
		{"when the role is taken", func(h *harness) { h.moves("operator@example.com", "gatehouse-operator", false) }},
		{"when the other one gets a role", func(h *harness) { h.moves("nobody@example.com", "gatehouse-operator", true) }},
		{"when the console is switched off", func(h *harness) { h.on = false }},
		{"when the other one is blocked", func(h *harness) {
			h.must(h.id.Person.SetState(h.t.Context(), h.personID("nobody@example.com"), person.Blocked, audit.Actor{ID: "test"}))
		}},
		{"when the administrator is blocked", func(h *harness) {
			h.must(h.id.Person.SetState(h.t.Context(), h.personID("operator@example.com"), person.Blocked, audit.Actor{ID: "test"}))
		}},
		{"with the session of the administrator", func(h *harness) {
			h.must(h.id.Person.EndSessions(h.t.Context(), h.personID("operator@example.com"), audit.Actor{ID: "test"}))
		}},
	} {
		t.Run("attack 556: an account is seen "+c.name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			b, _ := h.sees("operator@example.com")
			c.end(h)
			for _, at := range seenPages {
				if a := b.get(at); strings.Contains(a.Body.String(), "nobody@example.com") {
					t.Errorf("GET %s = %d shows the account of somebody else\n%s", at, a.Code, a.form())
				}
			}
		})
	}
	t.Run("attack 557: the end of a view by another site", func(t *testing.T) {
		h := newHarness(t)
		b, _ := h.sees("operator@example.com")
		b.site = "cross-site"
		if a := b.stop(); a.Code != http.StatusForbidden {
			t.Errorf("%d", a.Code)
		}
	})
}

// moves puts a person into a group, or takes one out.
func (h *harness) moves(username, group string, in bool) {
	h.t.Helper()
	id := h.personID(username)
	_, err := h.id.Person.UpdateGroup(h.t.Context(), h.groupID(group), audit.Actor{ID: "test"},
		func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
			if c.Add = []string{id}; !in {
				c.Add, c.Remove = nil, []string{id}
			}
			return nil
		})
	h.must(err)
}

// setEmail gives a person an address.
func (h *harness) setEmail(username string) {
	h.t.Helper()
	_, err := h.id.Person.UpdatePerson(h.t.Context(), h.personID(username), person.Edit{By: audit.Actor{ID: "test"}, Verified: true},
		func(_ storage.Tx, d *person.Details) error {
			d.Profile.EmailAddresses = []person.EmailAddress{{Value: username, Primary: true, Verified: true}}
			return nil
		})
	h.must(err)
}

// signedIn is the last sign-in of a person.
func (h *harness) signedIn(id string) (at time.Time) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(tx storage.Tx) (err error) {
		at, err = personindex.SignedIn(tx, id)
		return err
	}))
	return at
}
