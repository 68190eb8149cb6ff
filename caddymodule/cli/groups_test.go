package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// Groups that a site or a rule asks for and that no one was ever given are found, from what the storage has, and are
// found no more once they are there.
func TestCheckReportsGroupsThatDoNotExist(t *testing.T) {
	s := servertest.WithPolicies(t)
	s.Site = `protect {
		login http://` + s.API + `
		groups readers staff
		policy office later
		need groups robots staff mapped
		allow {
			match path /a
			need groups admins
		}
	}`
	s.Extra += "policy office {\n\t\t\tdeny {\n\t\t\t\tmatch path /b\n\t\t\t\tneed groups guests\n\t\t\t}\n\t\t}"
	s.Extra += "\nidp directory ldap {\n\t\t\turl ldap://127.0.0.1:1\n\t\t\ttemplate uid=%s,ou=people,dc=example,dc=com\n\t\t\tgroups {\n\t\t\t\tmap admins mapped\n\t\t\t}\n\t\t}"
	s.MustLoad()
	s.MustCall("PUT", servertest.PoliciesPath+"/later",
		servertest.RuleJSON{"allow": []servertest.RuleJSON{{"need": servertest.RuleJSON{"groups": []string{"testers", "staff"}}}}},
		http.StatusCreated)
	s.Run("", "group", "add", "tester")
	for _, group := range []string{"readers", "robots", "admins", "guests"} {
		s.WantFinding("warning Caddyfile:", `the group "`+group+`" does not exist, so no one is in it`, "caddy gatehouse group add "+group)
	}
	s.WantFinding("warning policies.later.allow[0]", `the group "testers" does not exist`, `did you mean "tester"?`)
	if all, _ := s.Findings(); strings.Contains(all, `"staff"`) || strings.Contains(all, `"mapped"`) ||
		strings.Count(all, "does not exist") != 5 {
		t.Errorf("findings:\n%s", all)
	}
	for _, group := range []string{"readers", "robots", "admins", "guests", "testers"} {
		s.Run("", "group", "add", group)
	}
	if all, _ := s.Findings(); strings.Contains(all, "does not exist") {
		t.Errorf("check once the groups are there:\n%s", all)
	}
}
