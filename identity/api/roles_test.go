package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// owners is the group that gives a role in the admin console.
const owners = "owners"

func withRoles(c *identity.Config, _ *api.Deps) {
	c.HasRole = func(_ string, groups []string) bool { return slices.Contains(groups, owners) }
}

// join puts a person into groups.
func (h *people) join(personID string, groups ...string) {
	h.Helper()
	_, err := h.persons.Person.UpdatePerson(h.Context(), personID, person.Edit{By: audit.Actor{ID: "test"}},
		func(_ storage.Tx, d *person.Details) error {
			d.Groups = groups
			return nil
		})
	if err != nil {
		h.Fatal(err)
	}
}

// onAdministrators says of each operation that changes something what it answers about a person with a role in the
// console. 0: what it answers about anyone else, since it lets no one into the account.
var onAdministrators = map[string]struct {
	status int
	body   any
}{
	"POST /api/credentials/validate":        {},
	"POST /api/credentials/token":           {}, // TestTokenOfAnAdministrator
	"POST /api/credentials/tokens/validate": {},
	"POST /api/persons/{id}/tokens": {
		http.StatusBadRequest,
		map[string]any{"actions": []any{map[string]any{"type": "PERSON_ACTIVATION"}}},
	},
	"DELETE /api/persons/{id}/tokens":         {},
	"DELETE /api/persons/{id}/tokens/{token}": {},
	"POST /api/persons/{id}/codes":            {http.StatusForbidden, map[string]any{"for": "step-up"}},
	"POST /api/persons/invitations": {
		http.StatusForbidden,
		map[string]any{"email": "new@example.com", "groups": []string{owners}},
	},
	"POST /api/persons/{id}/invitation":                   {http.StatusForbidden, nil},
	"DELETE /api/persons/{id}/invitation":                 {http.StatusForbidden, nil},
	"POST /api/persons/{id}/phone-numbers/code":           {http.StatusForbidden, map[string]any{"number": "+31612345678"}},
	"POST /api/persons/{id}/phone-numbers/verify":         {http.StatusForbidden, map[string]any{"number": "+31612345678", "code": "123456"}},
	"POST /api/persons/{id}/mobile-login":                 {http.StatusForbidden, map[string]any{"token": "x"}},
	"POST /api/persons/{id}/mobile-login/answer":          {http.StatusForbidden, map[string]any{"token": "x", "approve": true}},
	"POST /api/persons/{id}/identity-card":                {},
	"DELETE /api/persons/{id}/assurance":                  {},
	"DELETE /api/persons/{id}/sessions":                   {},
	"DELETE /api/sessions/{session}":                      {},
	"DELETE /api/persons/{id}/trusted-browsers":           {},
	"DELETE /api/persons/{id}/trusted-browsers/{browser}": {},
	"PUT /api/storage/{id}/{key}":                         {},
	"DELETE /api/storage/{id}/{key}":                      {},
	"DELETE /api/storage/{id}":                            {},
}

// TestOperationsOnAdministrators: an API client without a role does not get into the account of a person with one.
func TestOperationsOnAdministrators(t *testing.T) {
	t.Parallel()
	h := newTokens(t, withRoles)
	h.set(func(u *settings.Units) {
		u.Features.MobileAuthenticationEnabled, u.Features.AcceptingInvitationEnabled = true, true
	})
	ids := map[bool]string{false: h.add(person.NewPerson{Username: "guest"}), true: h.add(person.NewPerson{Username: "ada"})}
	h.join(ids[true], owners)
	seen := map[string]bool{}
	for _, op := range api.Operations() {
		if op.Method == http.MethodGet {
			continue
		}
		name := op.Method + " " + op.Path
		want, decided := onAdministrators[name]
		if seen[name] = true; !decided {
			t.Errorf("%s: nobody has decided whether it is for people with a role", name)
			continue
		}
		t.Run("attack 5671: "+name, func(t *testing.T) {
			for role, id := range ids {
				path := strings.NewReplacer("{id}", id, "{token}", id, "{session}", "x", "{browser}", "x", "{key}", "x").Replace(op.Path)
				got := h.call(op.Method, path, want.body).status()
				if refused := got == http.StatusForbidden; refused != (role && want.status == http.StatusForbidden) &&
					op.Path != "/api/persons/invitations" {
					t.Errorf("%s for a person with a role (%t) = %d", name, role, got)
				}
				if role && want.status != 0 && got != want.status {
					t.Errorf("%s for a person with a role = %d, want %d", name, got, want.status)
				}
			}
		})
	}
	for name := range onAdministrators {
		if !seen[name] {
			t.Errorf("%s: there is no such operation", name)
		}
	}
	h.call(http.MethodPost, "/api/persons/invitations", map[string]any{"email": "new@example.com", "groups": []string{"staff"}}).check(t,
		"an invitation without a role", http.StatusCreated, 0)
}

// TestActivationOfAnAdministrator: a token of an API client activates no one with a role, also if it was made before.
func TestActivationOfAnAdministrator(t *testing.T) {
	t.Parallel()
	h := newTokens(t, withRoles)
	id := h.add(person.NewPerson{Username: "ada", Inactive: true})
	token := h.token(id, activation())
	h.join(id, owners)
	h.process(token).check(t, "attack 5671: an activation", http.StatusBadRequest, 3012)
	if p, err := h.persons.Person.Person(t.Context(), "ada"); err != nil || p.State != person.Inactive {
		t.Errorf("the person is %s (%v), want INACTIVE", p.State, err)
	}
}

// TestSessionsOfAnAdministrator: a session that an app has opened, on whose word alone the person is signed in, ends
// when the person gets a role.
func TestSessionsOfAnAdministrator(t *testing.T) {
	t.Parallel()
	h, path := phonePeople(t, withRoles)
	id := h.person(demo)
	answer := func(what, token, number string, status int) {
		t.Helper()
		h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number}).check(t, what, status, 0)
	}
	s, token, number, at := h.shows()
	late, other, otherNumber, otherAt := h.shows()
	answer("before the role", token, number, http.StatusNoContent)
	s.get(at)
	account := func() string { _, url := s.get("/account/profile"); return url }
	if at := account(); at != "/account/profile" {
		t.Fatalf("the account is at %s", at)
	}
	answer("an approval of before the role", other, otherNumber, http.StatusNoContent)
	h.join(id, owners)
	t.Run("attack 7601: what an API client began before the role", func(t *testing.T) {
		if at := account(); at == "/account/profile" {
			t.Error("the session of before the role is open")
		}
		if late.get(otherAt); late.signedIn() {
			t.Error("an approval of before the role signs in")
		}
	})
}
