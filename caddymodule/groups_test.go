package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
)

// Groups that a site or a rule asks for and that nobody was ever given are found, from what the storage has, and are
// found no more once they are there.
func TestCheckReportsGroupsThatDoNotExist(t *testing.T) {
	s := withPolicies(t)
	s.site = `protect {
		login http://` + s.api + `
		groups readers staff
		policy office later
		need groups robots staff mapped
		allow {
			match path /a
			need groups admins
		}
	}`
	s.extra += "policy office {\n\t\t\tdeny {\n\t\t\t\tmatch path /b\n\t\t\t\tneed groups guests\n\t\t\t}\n\t\t}"
	s.extra += "\nidp directory ldap {\n\t\t\turl ldap://127.0.0.1:1\n\t\t\ttemplate uid=%s,ou=people,dc=example,dc=com\n\t\t\tgroups {\n\t\t\t\tmap admins mapped\n\t\t\t}\n\t\t}"
	s.mustLoad()
	s.mustCall("PUT", policiesPath+"/later", ruleJSON{"allow": []ruleJSON{{"need": ruleJSON{"groups": []string{"testers", "staff"}}}}}, http.StatusCreated)
	s.run("", "group", "add", "tester")
	for _, group := range []string{"readers", "robots", "admins", "guests"} {
		s.wantFinding("warning Caddyfile:", `the group "`+group+`" does not exist, so nobody is in it`, "caddy gatehouse group add "+group)
	}
	s.wantFinding("warning policies.later.allow[0]", `the group "testers" does not exist`, `did you mean "tester"?`)
	if all, _ := s.findings(); strings.Contains(all, `"staff"`) || strings.Contains(all, `"mapped"`) || strings.Count(all, "does not exist") != 5 {
		t.Errorf("findings:\n%s", all)
	}
	for _, group := range []string{"readers", "robots", "admins", "guests", "testers"} {
		s.run("", "group", "add", group)
	}
	if all, _ := s.findings(); strings.Contains(all, "does not exist") {
		t.Errorf("check once the groups are there:\n%s", all)
	}
}
