package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

const undoButton = ">Undo</button>"

// undoes opens the page after an act and sends the form of its message.
func (b *browser) undoes(done *answer) *answer {
	b.h.t.Helper()
	if !strings.Contains(done.form(), undoButton) {
		b.h.t.Fatalf("%s: status %d, nothing to undo:\n%s", done.url, done.Code, done.form())
	}
	return b.get(b.submit(done).Header().Get("Location"))
}

// TestUndo: what was done by mistake is undone by one click on the message that says so.
func TestUndo(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_, err := h.az.Clients().Add(t.Context(), client.Client{
		ID: "wiki", RedirectURIs: []string{"https://wiki.example.com/cb"}, Grants: []string{"authorization_code"}, Scopes: []string{"openid"},
	}, audit.Actor{})
	h.must(err)
	id := h.personID("nobody@example.com")
	at, staff := "/admin/persons/"+id, h.groupID("staff")
	state := func() string {
		p, err := h.id.Person.Person(t.Context(), id)
		h.must(err)
		until := ""
		if !p.BlockedUntil.IsZero() {
			until = " until " + p.BlockedUntil.UTC().Format(time.DateOnly)
		}
		return string(p.State) + until + " " + strings.Join(p.Groups, ",")
	}
	disabled := func() string {
		list, err := h.az.Clients().List(t.Context())
		h.must(err)
		for _, a := range list {
			if a.ID == "wiki" && a.Disabled {
				return "off"
			}
		}
		return "on"
	}
	setting := func() string { return h.units().Redirects.URLAfterLogin }
	b := h.as("operator@example.com")
	for _, tt := range []struct {
		name, act string
		fields    []string
		read      func() string
		done      string // what read returns between
		event     string // of the undoing
	}{
		{"block", at + "/block", []string{"reason", "left"}, state, "BLOCKED staff", "person.PersonActivatedEvent"},
		{"leave a group", at + "/leave?group=staff", nil, state, "ACTIVE ", "person.PersonUpdatedEvent"},
		{"remove a member", "/admin/groups/" + staff + "/remove-member?person=" + id, nil, state, "ACTIVE ", "person.PersonUpdatedEvent"},
		{"switch off", "/admin/applications/wiki/disable", nil, disabled, "off", ""},
		{
			"a setting", "/admin/settings/redirects/edit-unit",
			[]string{"redirects.url_after_login", "https://new.example/"},
			setting,
			"https://new.example/", "configuration.ConfigurationUpdatedEvent",
		},
		{
			"the JSON of a unit", "/admin/settings/redirects/edit-json",
			[]string{"json", `{"url_after_login":"https://new.example/"}`},
			setting,
			"https://new.example/", "configuration.ConfigurationUpdatedEvent",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h.t = t
			before := tt.read()
			page := b.acts(tt.act, tt.fields...)
			if got := tt.read(); got != tt.done {
				t.Fatalf("after %s: %q, want %q:\n%s", tt.act, got, tt.done, page.form())
			}
			events := len(h.allEvents(t.Context()))
			if a := b.undoes(page); a.Code != http.StatusOK || tt.read() != before {
				t.Fatalf("undone = %d, %q, want %q:\n%s", a.Code, tt.read(), before, a.form())
			}
			list := h.allEvents(t.Context())[events:]
			if len(list) == 0 || list[0].Actor != h.personID("operator@example.com") || tt.event != "" && list[0].Type != tt.event {
				t.Errorf("events = %+v, want one of the person who undid it", list)
			}
		})
	}
	h.t = t
	t.Run("again", func(t *testing.T) {
		b.acts(at+"/block", "until", "2035-12-24")
		if b.undoes(b.acts(at + "/unblock")); state() != "BLOCKED until 2035-12-24 staff" {
			t.Errorf("an undone unblocking = %q", state())
		}
		b.acts(at + "/unblock")
	})
	t.Run("a block that ends later today", func(t *testing.T) {
		end := h.clock.Now().Add(5*time.Hour + 17*time.Second)
		h.must(h.id.Person.Block(t.Context(), id, end, audit.Actor{}))
		a := b.undoes(b.acts(at + "/unblock"))
		p, err := h.id.Person.Person(t.Context(), id)
		h.must(err)
		if a.Code != http.StatusOK || p.State != person.Blocked || !p.BlockedUntil.Equal(end) {
			t.Errorf("an undone unblocking = %d, %s until %s, want until %s:\n%s", a.Code, p.State, p.BlockedUntil, end, a.form())
		}
	})
}

// TestUndoOfWhatWasSo: an act that has changed nothing, or whose counterpart leads elsewhere than back, is not undone.
func TestUndoOfWhatWasSo(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.personID("nobody@example.com")
	b, at := h.as("operator@example.com"), "/admin/persons/"+id
	h.must(h.id.Person.SetState(t.Context(), h.personID("two.nobody@example.com"), person.Inactive, audit.Actor{}))
	for name, a := range map[string]*answer{
		"a member joins":               b.acts(at+"/join", "group", "staff"),
		"a stranger leaves":            b.acts(at + "/leave?group=" + h.newGroup("cleaners")),
		"settings are saved as before": b.acts("/admin/settings/redirects/edit-unit"),
		"an inactive person blocked":   b.acts("/admin/persons/" + h.personID("two.nobody@example.com") + "/block"),
	} {
		if a.Code != http.StatusOK || !strings.Contains(a.form(), `role="status"`) || strings.Contains(a.form(), undoButton) {
			t.Errorf("%s: status %d, want a message without a way back:\n%s", name, a.Code, a.form())
		}
	}
}

// TestUndoIsOfOnePersonAndMinute: no link makes an administrator undo something, and the way back ends after a minute.
func TestUndoIsOfOnePersonAndMinute(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.personID("nobody@example.com")
	b, other, at := h.as("operator@example.com"), h.as("two.operator@example.com"), "/admin/persons/"+id
	blocked := func() bool {
		p, err := h.id.Person.Person(t.Context(), id)
		h.must(err)
		return p.State == person.Blocked
	}
	done := b.acts(at + "/block")
	if !strings.Contains(done.form(), undoButton) {
		t.Fatalf("nothing to undo:\n%s", done.form())
	}
	for name, a := range map[string]*answer{
		"someone else":            other.get(at + "?done=block"),
		"another session":         h.as("operator@example.com").get(at + "?done=block"),
		"a message of other acts": b.get(at + "?done=unblock"),
		"another person":          b.get("/admin/persons/" + h.personID("two.nobody@example.com") + "?done=block"),
	} {
		if a.Code != http.StatusOK || strings.Contains(a.form(), undoButton) {
			t.Errorf("%s: status %d, and can undo:\n%s", name, a.Code, a.form())
		}
	}
	token := done.csrf()
	for name, a := range map[string]*answer{
		"without a token":    b.do(http.MethodPost, at+"/unblock", url.Values{"undo": {"block"}}.Encode()),
		"by another browser": other.do(http.MethodPost, at+"/unblock", url.Values{"undo": {"block"}, "csrf": {token}}.Encode()),
	} {
		if a.Code != http.StatusForbidden || !blocked() {
			t.Errorf("attack: %s: status %d, want %d", name, a.Code, http.StatusForbidden)
		}
	}
	h.clock.Advance(time.Minute)
	if a := b.get(at + "?done=block"); strings.Contains(a.form(), undoButton) {
		t.Errorf("it can be undone after a minute:\n%s", a.form())
	}
	before := h.allEvents(t.Context())
	a := b.submit(done)
	if a.Code != http.StatusUnprocessableEntity || !blocked() || !strings.Contains(a.form(), "too late") {
		t.Fatalf("after a minute = %d, want %d and an explanation:\n%s", a.Code, http.StatusUnprocessableEntity, a.form())
	}
	if after := h.allEvents(t.Context()); !slices.EqualFunc(before, after, func(a, b audit.Event) bool { return a.Type == b.Type }) {
		t.Errorf("it has events: %+v", after[len(before):])
	}
	if a := b.get(b.submit(a).Header().Get("Location")); a.Code != http.StatusOK || blocked() {
		t.Errorf("confirmed = %d, blocked: %t", a.Code, blocked())
	}
	if a := b.get(b.submit(done).Header().Get("Location")); blocked() {
		t.Errorf("an old form, sent again, blocks: %d", a.Code)
	}
}

// newGroup makes a group and returns its id.
func (h *harness) newGroup(name string) string {
	h.t.Helper()
	g, err := h.id.Person.AddGroup(h.t.Context(), person.GroupChange{Name: name, Partition: audit.DefaultPartition}, audit.Actor{})
	h.must(err)
	return g.ID
}
