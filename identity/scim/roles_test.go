package scim_test

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// owners is the group that gives a role in the admin console.
const owners = "owners"

// withOwner is a harness in which ada is in the group owners, and bob in none. It returns ids.
func withOwner(t *testing.T) (h *harness, ada, bob, group string) {
	t.Helper()
	h = newHarness(t, func(c *identity.Config) {
		c.HasRole = func(_ string, groups []string) bool { return slices.Contains(groups, owners) }
	})
	ada = h.add("ada@example.com", map[string]any{
		"emails":       []any{map[string]any{"value": "ada@example.com", "primary": true}},
		"phoneNumbers": []any{map[string]any{"value": "+31612345678", "primary": true}}, "title": "Dr",
	})
	bob = h.add("bob@example.com", nil)
	group = h.addGroup("editors", ada)
	_, err := h.identity.Person.UpdateGroup(t.Context(), group, audit.Actor{ID: "owner"},
		func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
			c.Name = owners
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return h, ada, bob, group
}

// onAdministrators says of each handler of routes.go that changes something what of it is refused about people with a
// role in the console and groups that give one.
var onAdministrators = map[string]string{
	"createUser": "nothing: a new person has no group", "searchUsers": "nothing: it reads", "searchGroups": "nothing: it reads",
	"bulk":        "what its operations are refused",
	"replaceUser": "what they sign in with and are reached by", "patchUser": "likewise", "deleteUser": "all",
	"createGroup": "all", "replaceGroup": "all changes", "patchGroup": "all changes", "deleteGroup": "all",
}

// TestRoutesOnAdministrators: someone has decided about each route.
func TestRoutesOnAdministrators(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("routes.go")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:post|put|patch|del): s\.(\w+)`).FindAllSubmatch(source, -1) {
		seen[string(m[1])] = true
	}
	if got, want := slices.Sorted(maps.Keys(seen)), slices.Sorted(maps.Keys(onAdministrators)); !slices.Equal(got, want) {
		t.Errorf("routes.go changes something by %v, decided about is %v", got, want)
	}
}

// TestProgramsAndAdministrators: a program that provisions people takes no account of a person with a role, and gives
// no role. What else it says of such a person counts, and it can block them.
func TestProgramsAndAdministrators(t *testing.T) {
	t.Parallel()
	t.Run("attack 4085: what an administrator signs in with and is reached by", func(t *testing.T) {
		t.Parallel()
		h, ada, _, _ := withOwner(t)
		mine := []any{map[string]any{"value": "mallory@example.com", "primary": true}}
		for path, value := range map[string]any{
			"password": password, "userName": "mallory", "emails": mine, `emails[primary eq true].value`: "mallory@example.com",
			"phoneNumbers": []any{map[string]any{"value": "+31687654321", "primary": true}},
		} {
			h.refused(http.StatusForbidden, "", "PATCH", "/Users/"+ada, patch("replace", path, value))
		}
		whole := map[string]any{"schemas": []string{coreUser}, "userName": "ada@example.com", "emails": mine}
		h.refused(http.StatusForbidden, "", "PUT", "/Users/"+ada, whole)
		h.refused(http.StatusForbidden, "", "DELETE", "/Users/"+ada, nil)
		in := h.want(http.StatusOK, "POST", "/Bulk", map[string]any{
			"schemas":    []string{"urn:ietf:params:scim:api:messages:2.0:BulkRequest"},
			"Operations": []any{map[string]any{"method": "PATCH", "path": "/Users/" + ada, "data": patch("replace", "password", password)}},
		})
		if ops, _ := in.body["Operations"].([]any); len(ops) != 1 || ops[0].(map[string]any)["status"] != "403" {
			t.Errorf("Bulk = %s, want an operation with 403", in.raw)
		}
		h.want(http.StatusOK, "PATCH", "/Users/"+ada, patch("replace", "title", "Prof"))
		h.want(http.StatusOK, "PATCH", "/Users/"+ada,
			patch("replace", "emails", []any{map[string]any{"value": "Ada@example.com", "primary": true, "type": "work"}}))
		h.want(http.StatusOK, "PATCH", "/Users/"+ada, patch("replace", "active", false))
		h.refused(http.StatusForbidden, "", "PATCH", "/Users/"+ada, patch("replace", "active", true))
	})
	t.Run("attack 2772: a role that a program gives", func(t *testing.T) {
		t.Parallel()
		h, ada, bob, group := withOwner(t)
		other := h.addGroup("others", bob)
		group, other = "/Groups/"+group, "/Groups/"+other
		h.refused(http.StatusForbidden, "", "PATCH", group, patch("add", "members", []any{map[string]any{"value": bob}}))
		h.refused(http.StatusForbidden, "", "PATCH", group, patch("remove", "members", []any{map[string]any{"value": ada}}))
		h.refused(http.StatusForbidden, "", "PUT", group,
			map[string]any{"schemas": []string{coreGroup}, "displayName": owners, "members": []any{map[string]any{"value": bob}}})
		h.refused(http.StatusForbidden, "", "PATCH", other, patch("replace", "displayName", owners))
		h.refused(http.StatusForbidden, "", "PATCH", group, patch("replace", "displayName", "free"))
		h.refused(http.StatusForbidden, "", "DELETE", group, nil)
		h.want(http.StatusOK, "PUT", group,
			map[string]any{"schemas": []string{coreGroup}, "displayName": owners, "members": []any{map[string]any{"value": ada}}})
		h.want(http.StatusNoContent, "PATCH", other, patch("add", "members", []any{map[string]any{"value": ada}}))
		if got := h.groupsOf(bob); got != "others" {
			t.Errorf("groups of bob = %q, want others", got)
		}
	})
	t.Run("attack 2772: a group of the name of one that gives a role", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, func(c *identity.Config) {
			c.HasRole = func(_ string, groups []string) bool { return slices.Contains(groups, owners) }
		})
		bob := h.add("bob@example.com", nil)
		h.refused(http.StatusForbidden, "", "POST", "/Groups",
			map[string]any{"schemas": []string{coreGroup}, "displayName": owners, "members": []any{map[string]any{"value": bob}}})
		h.addGroup("staff", bob)
	})
}
