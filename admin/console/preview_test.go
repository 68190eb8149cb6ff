package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestPreview: what an application would learn of a person is shown, and nothing is issued.
func TestPreview(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, c := range []client.Client{
		{
			ID: "wiki", Public: true, RedirectURIs: []string{"https://wiki.example.com/cb"}, Grants: []string{"authorization_code"},
			Scopes: []string{"openid", "profile", "groups"},
		},
		{
			ID: "eager", Public: true, RedirectURIs: []string{"https://eager.example.com/cb"}, Grants: []string{"authorization_code"},
			Scopes: []string{"openid", "profile"}, IDTokenClaims: true, Consent: "off",
		},
		{ID: "batch", Grants: []string{"client_credentials"}},
		{
			ID: "old", Public: true, RedirectURIs: []string{"https://old.example.com/cb"}, Grants: []string{"authorization_code"},
			Scopes: []string{"openid"}, Disabled: true,
		},
		{
			ID: "club", Public: true, RedirectURIs: []string{"https://club.example.com/cb"}, Grants: []string{"authorization_code"},
			Scopes: []string{"openid"}, Groups: []string{"gatehouse-owner"},
		},
	} {
		_, err := h.az.Clients().Add(t.Context(), c, audit.Actor{})
		h.must(err)
	}
	b, id := h.as("viewer@example.com"), h.personID("nobody@example.com")
	before := h.events()
	for _, c := range []struct {
		name, client, query string
		want, not           []string
	}{
		{"nobody is chosen", "wiki", "", []string{`name="person"`}, []string{`id="claims"`}},
		{"somebody unknown", "wiki", "person=nowhere@example.com", []string{"No one has that username"}, []string{`id="claims"`}},
		{
			"claims of the scopes", "wiki", "person=nobody@example.com",
			[]string{"Nobody Example", "[&#34;staff&#34;]", id, "is asked before"},
			[]string{"at_hash", "auth_time"},
		},
		{"by id", "wiki", "person=" + id, []string{"Nobody Example"}, nil},
		{"fewer scopes", "wiki", "person=" + id + "&scopes=openid", []string{id}, []string{"staff"}},
		{
			"a scope that is not allowed", "wiki", "person=" + id + "&scopes=openid+email",
			[]string{"Not allowed: email"},
			[]string{"email_verified"},
		},
		{"no claims", "wiki", "person=" + id + "&scopes=profile", []string{"the scope openid"}, []string{"Nobody Example"}},
		{"without consent", "eager", "person=" + id, []string{"isn’t asked"}, nil},
		{"no people", "batch", "person=" + id, []string{"No one signs in here"}, []string{`id="claims"`}},
		{"outside of its groups", "club", "person=" + id, []string{"needs the group gatehouse-owner; has staff"}, nil},
		{"switched off", "old", "person=" + id, []string{"the client is disabled"}, nil},
	} {
		a := b.get(previewPath(c.client) + "?" + c.query)
		if a.Code != http.StatusOK {
			t.Errorf("%s: status %d", c.name, a.Code)
		}
		for _, want := range c.want {
			if !strings.Contains(a.form(), want) {
				t.Errorf("%s: the page lacks %q\n%s", c.name, want, a.form())
			}
		}
		for _, not := range c.not {
			if strings.Contains(a.form(), not) {
				t.Errorf("%s: the page has %q\n%s", c.name, not, a.form())
			}
		}
	}
	if a := b.get(previewPath("eager") + "?person=" + id); strings.Count(a.form(), ">Yes<") < 2*strings.Count(a.form(), "<code>name</code>") {
		t.Errorf("the claims of the ID token are not told apart\n%s", a.form())
	}
	h.must(h.id.Person.SetState(t.Context(), id, person.Blocked, audit.Actor{ID: "test"}))
	if a := b.get(previewPath("wiki") + "?person=" + id); !strings.Contains(a.form(), "blocked or not active") {
		t.Errorf("a blocked person could sign in:\n%s", a.form())
	}
	if after := strings.ReplaceAll(h.events()[len(before):], "person.PersonBlockedEvent\n", ""); after != "" {
		t.Errorf("a preview has caused %s", after)
	}
}

// TestTemplates: each of the templates makes an application.
func TestTemplates(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	if len(templates) != 6 {
		t.Errorf("%d templates, want 6", len(templates))
	}
	for _, c := range templates {
		fields := []string{"template", c.name, "client_id", "new-" + c.name}
		if c.client.HasGrant(client.GrantCode) {
			fields = append(fields, "redirect_uris", "https://"+c.name+".example.com/cb")
		}
		if a := b.acts("/admin/applications/add", fields...); a.Code != http.StatusOK || strings.Contains(a.form(), `id="problem"`) {
			t.Errorf("template %s: %d\n%s", c.name, a.Code, a.form())
		}
		if _, err := h.az.Clients().Get(t.Context(), "new-"+c.name); err != nil {
			t.Errorf("template %s: %v", c.name, err)
		}
	}
}

// TestSessionsOfAPlaceEnd: all sessions of an address or application end by one form, but not those of people of equal
// or higher rank, nor the own one.
func TestSessionsOfAPlaceEnd(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	helpdesk, nobody, other, owner := h.as("helpdesk@example.com"), h.as("nobody@example.com"), h.as("two.nobody@example.com"),
		h.as("owner@example.com")
	in := func(b *browser) bool { return b.do(http.MethodGet, "/account", "").Code == http.StatusOK }
	if a := helpdesk.get("/admin/sessions"); strings.Contains(a.form(), "end-listed") {
		t.Error("a list without a filter offers to end all sessions")
	}
	if a := helpdesk.acts("/admin/sessions/end-listed"); a.Code != http.StatusUnprocessableEntity || !in(nobody) {
		t.Errorf("attack: all sessions end without a filter: %d", a.Code)
	}
	query := "?" + url.Values{"address": {"203.0.113.7"}}.Encode()
	if a := helpdesk.get("/admin/sessions" + query); !strings.Contains(a.form(), "/admin/sessions/end-listed"+query) {
		t.Errorf("no way to end the sessions of an address\n%s", a.form())
	}
	asked := helpdesk.get("/admin/sessions/end-listed" + query)
	if !strings.Contains(asked.form(), "203.0.113.7") || !strings.Contains(asked.form(), "<span>3</span>") {
		t.Errorf("the form says nothing of three sessions at an address\n%s", asked.form())
	}
	n := len(h.allEvents(t.Context()))
	a := helpdesk.submit(asked)
	for _, e := range h.allEvents(t.Context())[n:] {
		if e.Type != "session.SessionEndedEvent" || e.Actor != h.personID("helpdesk@example.com") {
			t.Errorf("the event of an end is %s by %s", e.Type, e.Actor)
		}
	}
	if got := len(h.allEvents(t.Context())) - n; got != 2 {
		t.Errorf("%d events, want one for each of two sessions", got)
	}
	if a.Code != http.StatusOK || !strings.Contains(a.form(), "2 sessions ended, 1 skipped.") {
		t.Errorf("%d\n%s", a.Code, a.form())
	}
	if in(nobody) || in(other) || !in(owner) || !in(helpdesk) {
		t.Errorf("signed in: nobody %t, two.nobody %t, owner %t, helpdesk %t; want the last two", in(nobody), in(other), in(owner), in(helpdesk))
	}
}

// TestEndWhatDoesNotCountNow: a session whose provider is disabled ends in the console, and does not come back with it.
func TestEndWhatDoesNotCountNow(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	helpdesk, id := h.as("helpdesk@example.com"), h.personID("nobody@example.com")
	in := func(b *browser) bool { return b.do(http.MethodGet, "/account", "").Code == http.StatusOK }
	for name, end := range map[string]func(session string) error{
		"attack 6482: the sessions of an address": func(string) error {
			page := helpdesk.get("/admin/sessions/end-listed?" + url.Values{"address": {"203.0.113.7"}}.Encode())
			if a := helpdesk.submit(page); !strings.Contains(a.form(), "1 session ended, none skipped.") {
				t.Errorf("%d\n%s", a.Code, a.form())
			}
			return nil
		},
		"attack 6482: one session, by its id": func(session string) error {
			return h.console.Manage.EndSession(t.Context(), session, audit.Actor{})
		},
		"attack 6482: all sessions of a person": func(string) error {
			return h.console.Manage.EndHeld(t.Context(), id, "sessions", "", audit.Actor{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			nobody := h.as("nobody@example.com")
			var open []session.Session
			h.must(h.store.View(t.Context(), func(tx storage.Tx) (err error) {
				open, err = h.id.Session.OfPerson(tx, id, h.clock.Now())
				return err
			}))
			if len(open) != 1 {
				t.Fatalf("%d sessions, want 1", len(open))
			}
			identitytest.WhileOff(t, h.store, open[0].ID, func() {
				if in(nobody) {
					t.Error("the session counts while its provider is disabled")
				}
				h.must(end(open[0].ID))
			})
			if in(nobody) {
				t.Error("the session counts again")
			}
		})
	}
}
