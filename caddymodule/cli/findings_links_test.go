package cli_test

import (
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

var findingRow = regexp.MustCompile(`<tr role="row"><td role="cell" data-label=""><a class="row" href="([^"]+)">(.*?)</a>`)

// TestFindingsLeadToTheirCause: each finding on the overview has a link to the page of what it is about. The page is
// there, and everybody may open it who sees the finding.
func TestFindingsLeadToTheirCause(t *testing.T) {
	s := servertest.NewServer(t)
	servertest.WriteFile(t, filepath.Join(s.Dir, "units.json"), `{"features":{"password_reset_enabled":true,"sms_enabled":true}}`, 0o600)
	people := ""
	for _, role := range []string{"viewer", "helpdesk", "operator"} {
		people += "person " + role + "@example.com {\n\tpassword \"" + servertest.TestPassword + "\"\n\tgroups gatehouse-" + role + "\n}\n"
	}
	s.InIdentity = "bootstrap " + filepath.Join(s.Dir, "units.json") + "\nadmin demo@example.com {\n\tlevel 1\n}\n" + people
	s.Extra = `client typo {
			secret ` + servertest.TestSecret + `
			grants client_credentials
			scopes profil
		}
		api_client logins {
			secret the-secret-of-logins-in-all-of-these-tests
			apis credentials
		}
		policy office {
			allow {
				match path /x
			}
			allow {
				name late
				match path /x
				need groups staff
			}
		}
		forward_auth_from 10.0.0.0/8
		forward_auth wiki {
			login
			origins https://wiki.example.com
			groups staf
		}
		forward_auth bare {
			scopes nothing.has.it
		}`
	s.Site = `protect /assets/* orders.read {
		policy offices
		groups nowhere
		allow {
			match path /x
		}
		allow {
			name later
			match path /x
			need groups staff
		}
	}`
	s.MustLoad()
	s.Run("", "person", "set", "viewer@example.com", "--username", "looker@example.com")
	s.MustLoad()
	if err := os.Chmod(filepath.Join(s.Dir, "store.key"), 0o644); err != nil {
		t.Fatal(err)
	}
	wants := map[string]string{
		`client typo: client reports has the same secret`:                    "/admin/applications/typo",
		`client typo: no scope block and no standard has the scope "profil"`: "/admin/applications/typo",
		`api_client logins: the credentials API takes no passwords`:          "/admin/api-clients",
		`late is never reached`:                                         "/admin/policies/office",
		`later is never reached`:                                        "/admin/sites/" + s.API,
		`the matcher leaves all other paths of the site open`:           "/admin/sites/" + s.API,
		`the policy offices is not in the Caddyfile`:                    "/admin/sites/" + s.API,
		`no one in the configuration is in the group "staf"`:            "/admin/sites/wiki.example.com",
		`no client and no scope block names the scope "nothing.has.it"`: "/admin/sites/forward_auth%20bare",
		`the group "nowhere" does not exist`:                            "/admin/groups",
		`person looker@example.com: is no longer in the Caddyfile`:      "/admin/persons?q=looker%40example.com",
		`the encryption key, ` + filepath.Join(s.Dir, "store.key"):      "/admin/storage",
		`settings: features.password_reset_enabled is on`:               "/admin/settings",
		`settings: features.sms_enabled is on`:                          "/admin/settings",
	}
	for role, name := range map[string]string{"viewer": "looker", "helpdesk": "helpdesk", "operator": "operator", "owner": "demo"} {
		b := servertest.NewBrowser(t)
		resp, body := b.Open(s.Issuer() + "/admin")
		_, body = b.Submit(resp, body, url.Values{"username": {name + "@example.com"}, "password": {servertest.TestPassword}})
		_, part, _ := strings.Cut(body, `id="findings"`)
		part, _, _ = strings.Cut(part, "</table>")
		found := findingRow.FindAllStringSubmatch(part, -1)
		if n := strings.Count(part, "<tr role") - 1; n != len(found) || n != len(wants) {
			t.Errorf("%s: %d findings with %d links, want %d:\n%s", role, n, len(found), len(wants), part)
		}
		for finding, want := range wants {
			i := slices.IndexFunc(found, func(m []string) bool {
				said := html.UnescapeString(m[2])
				return strings.HasPrefix(strings.TrimPrefix(said, "protect: "), finding)
			})
			if i < 0 {
				t.Errorf("%s: the overview lacks the finding %q", role, finding)
				continue
			}
			to := html.UnescapeString(found[i][1])
			if to != want {
				t.Errorf("%s: the finding %q leads to %s, want %s", role, finding, to, want)
			}
			resp, body := b.Open(s.Issuer() + to)
			if resp.StatusCode != http.StatusOK || resp.Request.URL.RequestURI() != to || !strings.Contains(body, "<main") {
				t.Errorf("%s: the finding %q leads to %s, which answers %d at %s", role, finding, to, resp.StatusCode, resp.Request.URL)
			}
		}
	}
}
