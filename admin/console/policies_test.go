package console

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestPolicyTestInTheConsole: cases are put to a policy as it is and as it is edited; nothing is saved.
func TestPolicyTestInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.policy("nights", "nobody at night")
	b := h.as("viewer@example.com")
	see := func(a *answer, status int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if a.Code != status || !strings.Contains(a.form(), want) {
				t.Errorf("%s = %d, want %d and %q:\n%s", a.url, a.Code, status, want, a.form())
			}
		}
	}
	const office, nights = "/admin/policies/office/test-policy", "/admin/policies/nights/test-policy"
	see(b.get("/admin/policies/office"), http.StatusOK, `href="`+office+`"`)
	see(b.get(office), http.StatusOK, "site https://wiki.example.com", "person ann {", "sign-in -    GET")
	if a := b.get(office); strings.Contains(a.form(), `name="rules"`) {
		t.Errorf("a policy of the Caddyfile can be edited:\n%s", a.form())
	}
	see(b.submit(b.get(office), "cases", "allow ann GET /"), http.StatusOK, "GET https://wiki.example.com/office", "staff at work",
		"Caddyfile:31", "All 2 cases get the expected result.", "Sign-in required", "allow ann GET /</textarea>")
	see(b.submit(b.get(office), "cases", "nonsense"), http.StatusUnprocessableEntity, "unrecognized nonsense", "nonsense</textarea>")
	see(b.get(nights), http.StatusOK, "nobody at night")
	edited := `{"deny":[{"name":"nobody at all","when":["12:00-13:00"]}]}`
	see(b.submit(b.get(nights), "cases", "allow ann GET /", "rules", edited), http.StatusOK, "Stored", "Edited", "nobody at all",
		"1 of 2 cases doesn’t get the expected result.", "Unexpected")
	see(b.submit(b.get(nights), "cases", "allow ann GET /", "rules", `{"deny":[{"name":`), http.StatusUnprocessableEntity, "saved like this")
	see(b.get("/admin/policies/nights"), http.StatusOK, "nobody at night")
}

// TestOverruledPolicy: a policy of the Caddyfile shows how the stored one of its name differs.
func TestOverruledPolicy(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	if a := b.get("/admin/policies/office"); strings.Contains(a.form(), "A stored policy of the same name") {
		t.Errorf("there is no stored one:\n%s", a.form())
	}
	h.policy("nights", "nobody at night")
	h.declared["nights"] = settings.FixedPolicy{
		Place:  "Caddyfile:60",
		Policy: settings.Policy{Allow: []settings.PolicyRule{{Name: "anybody"}}},
	}
	if a := b.get("/admin/policies/nights"); !strings.Contains(a.form(), "A stored policy of the same name") ||
		!strings.Contains(a.form(), "&#34;name&#34;: &#34;nobody at night&#34;") {
		t.Errorf("the page does not show the stored one:\n%s", a.form())
	}
}

// policies are those of the Caddyfile, of which the wiki uses one.
func policies(c *settings.Config) {
	c.Policies = map[string]settings.FixedPolicy{"office": {
		Place:  "Caddyfile:30",
		Policy: settings.Policy{Allow: []settings.PolicyRule{{Name: "staff at work"}}},
	}}
	c.PolicyUsers = func(name string) []string {
		if name == "office" || name == "used" {
			return []string{"wiki.example.com (Caddyfile:20)"}
		}
		return nil
	}
	c.CheckPolicy = func(_ string, p settings.Policy) (string, error) {
		if len(p.Allow)+len(p.Deny)+len(p.Public) == 0 {
			return "", errors.New("it has no rules: write allow, deny or public")
		}
		return "", nil
	}
}

// policy stores a policy with one rule, and returns its name.
func (h *harness) policy(name, rule string) string {
	h.t.Helper()
	long := rule
	if len(rule) > 64 {
		rule = "long"
	}
	_, err := h.settings.Edit(settings.WithRights(h.t.Context(), settings.Owner), audit.Actor{ID: "admin"}, func(u *settings.Units) error {
		u.Policies[name] = settings.Policy{Deny: []settings.PolicyRule{{
			Name: rule, When: []string{"22:00-06:00"},
			Match: []map[string]any{{"path": []any{long}}},
		}}}
		return nil
	})
	h.must(err)
	return name
}

// TestPolicies: policies of the Caddyfile are shown with their places, stored ones are changed after their changes have
// been seen, and nothing that is wrong or in use goes through.
func TestPolicies(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.policy("used", "nobody at night")
	b := h.as("operator@example.com")
	see := func(a *answer, status int, wants ...string) *answer {
		t.Helper()
		for _, want := range wants {
			if a.Code != status || !strings.Contains(a.form(), want) {
				t.Errorf("%s = %d, want %d and %q:\n%s", a.url, a.Code, status, want, a.form())
			}
		}
		return a
	}
	see(b.get("/admin/policies"), 200, `href="/admin/policies/office"`, `href="/admin/policies/used"`, "wiki.example.com (Caddyfile:20)",
		`href="/admin/policies/add-policy"`)
	if a := see(b.get("/admin/policies/office"), 200, "staff at work", "Caddyfile:31", "Caddyfile:30", "when mon-fri 07:00-19:00",
		"in the Caddyfile"); strings.Contains(a.form(), "edit-policy") || strings.Contains(a.form(), "remove-policy") {
		t.Errorf("a policy of the Caddyfile can be changed:\n%s", a.form())
	}
	see(b.get("/admin/policies/used"), 200, "nobody at night", "deny[0]", "when 22:00-06:00", `href="/admin/policies/used/edit-policy"`)
	see(b.acts("/admin/policies/used/remove-policy"), 422, "wiki.example.com (Caddyfile:20) uses this policy. Remove it from protect there first.")
	see(b.acts("/admin/policies/office/edit-policy", "rules", `{"public":["/"]}`, "confirm", "yes"), 422,
		"This policy is in the Caddyfile (Caddyfile:30). Change it there.")

	edit := "/admin/policies/used/edit-policy"
	see(b.acts(edit, "rules", `{"deny": [`, "confirm", "yes"), 422, "saved like this")
	see(b.acts(edit, "rules", `{"denies": []}`, "confirm", "yes"), 422, "denies")
	see(b.acts(edit, "rules", `{}`, "confirm", "yes"), 422, "it has no rules")
	const next = `{"deny":[{"name":"nobody at noon","when":["12:00-13:00"],"match":[{"path":["nobody at night"]}]}]}`
	see(b.acts(edit, "rules", next), 422, "&#34;name&#34;: &#34;nobody at night&#34;", "&#34;name&#34;: &#34;nobody at noon&#34;",
		"Review the changes", `value="yes"`)
	see(b.get("/admin/policies/used"), 200, "when 22:00-06:00")
	// It is tried first unless the form says otherwise.
	see(b.get(edit), 200, "The copy is called used-next", `<option value="try"`)
	see(b.acts(edit, "rules", next, "confirm", "yes"), 200, "<h1>used-next</h1>", "when 12:00-13:00", "Saved.",
		"shadow {\n\t\tpolicy used-next\n")
	see(b.get("/admin/policies/used"), 200, "when 22:00-06:00")
	see(b.acts(edit, "rules", next, "confirm", "yes"), 422, `id="apply-problem"`, "used-next already exists")
	if a := b.get("/admin/policies/used-next/edit-policy"); strings.Contains(a.form(), `name="apply"`) {
		t.Errorf("a policy that no site uses is to be tried first:\n%s", a.form())
	}
	see(b.acts("/admin/policies/used-next/edit-policy", "rules", strings.ReplaceAll(next, "noon", "one"), "confirm", "yes"), 200,
		"<h1>used-next</h1>", "nobody at one")
	see(b.acts(edit, "rules", next, "apply", "now", "confirm", "yes"), 200, "<h1>used</h1>", "when 12:00-13:00", "Saved.")

	opened := b.get(edit)
	h.policy("used", "somebody else")
	see(b.submit(opened, "rules", next, "apply", "now", "confirm", "yes"), 422, "Someone else changed this",
		"&#34;name&#34;: &#34;somebody else&#34;")
	see(b.get("/admin/policies/used"), 200, "somebody else")

	see(b.acts("/admin/policies/add-policy", "policy", "office", "rules", next, "confirm", "yes"), 422, "exists")
	see(b.acts("/admin/policies/add-policy", "policy", "lunch", "rules", next, "confirm", "yes"), 200, "nobody at noon",
		"The policy has been added")
	see(b.acts("/admin/policies/lunch/remove-policy"), 200, "The policy has been removed")
	if a := b.get("/admin/policies/lunch"); a.Code != http.StatusNotFound {
		t.Errorf("a removed policy: %d", a.Code)
	}
	owner := h.personID("operator@example.com")
	h.actHasEvent(b, owner, "/admin/policies/add-policy", "configuration.ConfigurationUpdatedEvent", "policy", "tea",
		"rules", next, "confirm", "yes")
	h.actHasEvent(b, owner, "/admin/policies/tea/edit-policy", "configuration.ConfigurationUpdatedEvent", "rules",
		strings.ReplaceAll(next, "noon", "five"), "confirm", "yes")
	h.actHasEvent(b, owner, "/admin/policies/tea/remove-policy", "configuration.ConfigurationUpdatedEvent")
}
