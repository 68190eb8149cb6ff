package console

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// meanwhile is a store in which something happens right before the next transaction that writes.
type meanwhile struct {
	storage.Store

	mu   sync.Mutex // guards then
	then func()
}

func (m *meanwhile) set(then func()) { m.mu.Lock(); defer m.mu.Unlock(); m.then = then }

// Update implements storage.Store.
func (m *meanwhile) Update(ctx context.Context, fn func(storage.Tx) error) error {
	m.mu.Lock()
	then := m.then
	m.then = nil
	m.mu.Unlock()
	if then != nil {
		then()
	}
	return m.Store.Update(ctx, fn)
}

// TestRightsThatAreLostMeanwhile: an administrator whose role is taken away, or whose victim becomes an owner, after
// the page was opened and the form was checked, changes nothing: every act looks again in its transaction.
func TestRightsThatAreLostMeanwhile(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 551: the role is lost between the check and the change", func(t *testing.T) {
		_, err := h.az.Clients().Add(t.Context(),
			client.Client{
				ID: "wiki", RedirectURIs: []string{"https://wiki.example.com/cb"}, Grants: []string{"authorization_code"},
				Scopes: []string{"openid"},
			}, audit.Actor{})
		h.must(err)
		victim := h.personID("nobody@example.com")
		// member puts someone into a group, or takes them out.
		member := func(group, id string, in bool) {
			_, err := h.id.Person.UpdateGroup(t.Context(), h.groupID(group), audit.Actor{ID: "test"},
				func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
					if c.Add = []string{id}; !in {
						c.Add, c.Remove = nil, []string{id}
					}
					return nil
				})
			h.must(err)
		}
		operator := h.personID("operator@example.com")
		h.as("nobody@example.com")
		h.trusts("nobody@example.com", "kept")
		b := h.as("operator@example.com")
		for _, c := range []struct {
			path   string
			fields []string
		}{
			{personPath(victim) + "/edit", []string{"name", "Evil", "email", "evil@example.com", "username", "nobody@example.com"}},
			{personPath(victim) + "/untrust-all", nil},
			{personPath(victim) + "/end", nil},
			{personPath(victim) + "/block", nil},
			{personPath(victim) + "/data", nil},
			{personPath(victim) + "/join", []string{"group", "staff"}},
			{personPath(victim) + "/remove", nil},
			{"/admin/persons/create", []string{"username", "evil@example.com", "password", password}},
			{"/admin/persons/invite", []string{"addresses", "evil@example.com"}},
			{"/admin/groups/create-group", []string{"group", "evil"}},
			{"/admin/applications/add", []string{"template", "web", "client_id", "evil", "redirect_uris", "https://evil.example.com/cb"}},
			{"/admin/applications/wiki/rotate", []string{"keep", "yes"}},
			{"/admin/applications/wiki/disable", nil},
			{"/admin/applications/wiki/revoke-client", nil},
			{"/admin/applications/wiki/remove-client", nil},
		} {
			for what, lost := range map[string]func(in bool){
				"the role is taken away":    func(in bool) { member("gatehouse-operator", operator, in) },
				"the victim gets more role": func(in bool) { member("gatehouse-owner", victim, !in) },
			} {
				if strings.HasPrefix(what, "the victim") && !strings.HasPrefix(c.path, personPath(victim)) {
					continue
				}
				asked := b.get(c.path)
				if asked.csrf() == "" {
					t.Fatalf("GET %s = %d", c.path, asked.Code)
				}
				before := len(h.allEvents(t.Context()))
				h.meanwhile.set(func() { lost(false) })
				if a := b.submit(asked, c.fields...); a.Code != http.StatusForbidden {
					t.Errorf("POST %s while %s = %d, want 403\n%s", c.path, what, a.Code, a.form())
				}
				h.meanwhile.set(nil)
				for _, e := range h.allEvents(t.Context())[before:] {
					if e.Actor == operator {
						t.Errorf("POST %s while %s has done %s", c.path, what, e.Type)
					}
				}
				lost(true)
			}
		}
	})
}
