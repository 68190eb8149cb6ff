package console

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// opening stores a policy that a site uses and that lets a group in.
func (h *harness) opening() {
	h.t.Helper()
	_, err := h.settings.Edit(settings.WithRights(h.t.Context(), settings.Owner), audit.Actor{ID: "admin"}, func(u *settings.Units) error {
		u.Policies["used"] = settings.Policy{Allow: []settings.PolicyRule{{Name: "staff", Need: settings.PolicyNeed{Groups: []string{"staff"}}}}}
		return nil
	})
	h.must(err)
}

// TestOpenSite: a group gets a rule in a stored policy that a site uses, once, when it is made or later. A policy
// without rules that allow is not offered, since such a rule would refuse everyone else.
func TestOpenSite(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	h.policy("used", "nobody at night") // denies alone
	if a := b.get("/admin/groups/create-group"); strings.Contains(a.form(), `name="policy"`) {
		t.Errorf("a policy without rules that allow is offered:\n%s", a.form())
	}
	h.opening()
	made := b.acts("/admin/groups/create-group", "group", "editors", "policy", "used")
	if made.Code != http.StatusOK {
		t.Fatalf("a group that opens a site: %d\n%s", made.Code, made.form())
	}
	path, _, _ := strings.Cut(made.url, "?")
	if a := b.acts(path+"/open-site", "policy", "used"); a.Code != http.StatusOK || !strings.Contains(a.form(), "The group has access.") {
		t.Errorf("the same again: %d\n%s", a.Code, a.form())
	}
	if a := b.acts(path+"/open-site", "policy", "office"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a policy of the Caddyfile: %d\n%s", a.Code, a.form())
	}
	allow := h.units().Policies["used"].Allow
	if len(allow) != 2 || allow[0].Name != "staff" || allow[1].Name != "editors" || !slices.Equal(allow[1].Need.Groups, []string{"editors"}) {
		t.Errorf("the rules are %+v", allow)
	}
}
