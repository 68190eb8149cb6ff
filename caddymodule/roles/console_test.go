package roles_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// openConsole opens a page of the console as demo@example.com, who signs in on the way.
func openConsole(b *servertest.Browser, s *servertest.Server, path string) (*http.Response, string) {
	b.T.Helper()
	resp, body := b.Open(s.Issuer() + path)
	if strings.Contains(body, `name="password"`) {
		resp, body = b.Submit(resp, body, url.Values{"username": {"demo@example.com"}, "password": {servertest.TestPassword}})
	}
	return resp, body
}

// TestAdminConsole: the console is off by default; `admin` makes an owner who has no password yet, `admin invite`
// prints a link, and its reader chooses a password and is in.
func TestAdminConsole(t *testing.T) {
	s := servertest.NewServer(t)
	s.MustLoad()
	if resp, _ := s.Get("/admin"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET /admin without the switch = %d, want 404", resp.StatusCode)
	}
	s.Refused("admin_console on", "", "admin", "invite", "ann@example.com")
	s.InIdentity = "admin ann@example.com demo@example.com {\n\tlevel 1\n\thelpdesk support\n}"
	s.MustLoad()
	for _, name := range []string{"ann@example.com", "demo@example.com"} {
		if out := s.Run("", "person", "show", name); !strings.Contains(out, "gatehouse-owner") {
			t.Errorf("person show %s = %s", name, out)
		}
	}
	s.MustLoad() // a reload changes nothing
	// Someone else who took the name would be an owner at the next start.
	for _, name := range []string{"ann@example.com", "demo@example.com"} {
		s.Refused("names the person", "", "person", "set", name, "--username", "other@example.com")
		s.Run("", "person", "set", name, "--username", strings.ToUpper(name[:1])+name[1:])
		s.Run("", "person", "set", name, "--username", name)
	}
	s.Run("", "group", "add", "support")
	s.Run("", "group", "add", "gatehouse-helpdesk")
	link := strings.TrimSpace(s.Run("", "admin", "invite", "ann@example.com"))
	if !strings.HasPrefix(link, s.Issuer()+"/reset?token=") {
		t.Fatalf("admin invite prints %q", link)
	}
	b := servertest.NewBrowser(t)
	page, body := b.Open(link)
	if page, body = b.Submit(page, body, url.Values{"password": {"the password of ann"}}); page.StatusCode != http.StatusOK {
		t.Fatalf("the new password: %d\n%s", page.StatusCode, body)
	}
	// The link leads to the console by the sign-in.
	if page, body = b.Submit(page, body,
		url.Values{"username": {"ann@example.com"}, "password": {"the password of ann"}}); !strings.Contains(body, `href="/admin/persons"`) {
		t.Fatalf("the console after the sign-in: %d\n%s", page.StatusCode, body)
	}
	if _, body = b.Open(s.Issuer() + "/admin/groups?q=support"); !strings.Contains(body, "Helpdesk") {
		t.Errorf("the group that the Caddyfile names has no role:\n%s", body)
	}
	if _, body = b.Open(s.Issuer() + "/admin/groups?q=gatehouse-helpdesk"); strings.Contains(body, "Helpdesk") {
		t.Errorf("the group of the default name has a role:\n%s", body)
	}
	if _, body = b.Open(s.Issuer() + "/admin/applications/reports"); !strings.Contains(body, "client reports {") ||
		!strings.Contains(body, "Caddyfile:") || strings.Contains(body, "/admin/applications/reports/remove-client") {
		t.Errorf("an application of the Caddyfile is shown as:\n%s", body)
	}
	if out := s.Run("", "admin", "invite", "carl@example.com"); !strings.Contains(out, "/reset?token=") {
		t.Errorf("admin invite of somebody new = %s", out)
	}
	s.InIdentity = "admin ann@example.com\n\tadmin_console off"
	s.MustLoad()
	if resp, _ := s.Get("/admin"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("GET /admin with admin_console off = %d, want 404", resp.StatusCode)
	}
	for lines, problem := range map[string]string{
		"admin ann@example.com {\n\tlevel 5\n}":                  "level",
		"admin ann@example.com {\n\tboss x\n}":                   "boss",
		"admin ann@example.com {\n\thelpdesk a\n\toperator a\n}": "have the same group",
		"admin ann@example.com {\n\tviewer gatehouse-owner\n}":   "have the same group",
		"admin ann@example.com\n\tadmin ben@example.com":         "admin",
		"admin ann@example.com {\n\tviewer\n}":                   "viewer",
	} {
		s.InIdentity = lines
		if err := s.TryLoad(); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want an error about %q", lines, err, problem)
		}
	}
}

// TestConsoleExplainsSites: an administrator finds the sites of the Caddyfile with what they have done, the person whom
// one of them has refused, and the reason, by the very code that refuses.
func TestConsoleExplainsSites(t *testing.T) {
	w := servertest.NewWalk(t)
	w.InIdentity = "person guest@example.com {\n\t\tpassword \"" + servertest.TestPassword +
		"\"\n\t\tgroups guests\n\t}\n\tadmin demo@example.com {\n\t\tlevel 1\n\t}"
	w.Reload()
	guest, owner := servertest.NewBrowser(t), servertest.NewBrowser(t)
	resp, body := guest.Open(w.Wiki + "/reports?token=in-the-query")
	_, body = guest.Submit(resp, body, url.Values{"username": {"guest@example.com"}, "password": {servertest.TestPassword}})
	ref, host := servertest.Reference.FindString(body), strings.TrimPrefix(w.Wiki, "http://")
	see := func(path string, wants ...string) string {
		t.Helper()
		resp, body := openConsole(owner, w.Server, path)
		for _, want := range wants {
			if resp.StatusCode != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("GET %s = %d without %q:\n%s", path, resp.StatusCode, want, body)
			}
		}
		return body
	}
	see("/admin/sites", `href="/admin/sites/`+host+`"`, "login · groups staff", strings.TrimPrefix(w.Shop, "http://"))
	see("/admin/sites/"+host, "groups staff", "Caddyfile:", `href="/admin/refusals/`+ref+`"`, w.Wiki)
	see("/admin/refusals?person=guest@example.com", `href="/admin/refusals/`+ref+`"`)
	see("/admin/refusals/"+ref, "needs the group staff; has guests", "guest@example.com", "protect at Caddyfile:")
	ask := "/admin/sites/explain?" + url.Values{"url": {w.Wiki + "/reports"}, "person": {"demo@example.com"}}.Encode()
	see(ask, "Allowed", "Remote-User", "reverse_proxy")
	see(strings.Replace(ask, "demo", "guest", 1), "Refused", "needs the group staff; has guests")
	see(strings.Replace(ask, "demo", "nobody", 1), "No match for this value")
	guestID := regexp.MustCompile(`/admin/persons/([0-9a-f-]{30,})`).FindStringSubmatch(see("/admin/refusals/"+ref, ref))[1]
	see("/admin/persons/"+guestID+"/opens", w.Wiki+"/", "needs the group staff; has guests", w.Shop+"/", "Allowed")
	if body := see("/admin/refusals"); strings.Contains(body, "in-the-query") {
		t.Errorf("the list of refusals has the query of a request:\n%s", body)
	}
}

// TestConsoleTestsPolicies: cases are put to a policy by the very code that decides, about real people and those that
// the cases describe; and the doctor finds nothing that gets past a site.
func TestConsoleTestsPolicies(t *testing.T) {
	w := servertest.NewWalk(t)
	w.InIdentity = "admin demo@example.com {\n\t\tlevel 1\n\t}"
	w.Extra = `policy office {
			deny {
				name  archive
				match path /archive/*
			}
			allow {
				name  reports
				match path /reports/*
				need  groups staff
			}
			allow {
				name  vault
				match path /vault/*
				need  level 3
				need  scopes vault.open
			}
		}`
	w.Reload()
	owner := servertest.NewBrowser(t)
	ask := func(path string, in url.Values) string {
		t.Helper()
		resp, body := openConsole(owner, w.Server, path)
		_, form, _ := strings.Cut(body, "<main") // above it one signs out
		_, body = owner.Submit(resp, form, in)
		return body
	}
	const people = "site https://wiki.example.com\nperson eve {\n groups guests\n level 3\n}\n"
	body := ask("/admin/policies/office/test-policy",
		url.Values{"cases": {people +
			"allow demo@example.com GET /reports/1\ndeny eve GET /reports/1\n? eve GET /vault/x\nstep-up demo@example.com GET /vault/x\nsign-in - GET /reports/1\ndeny eve GET /archive/1 rule archive\n"}})
	if !strings.Contains(body, "All 6 cases get the expected result.") || !strings.Contains(body, "archive") ||
		!strings.Contains(body, "Caddyfile:") {
		t.Errorf("the table of cases:\n%s", body)
	}
	body = ask("/admin/policies/office/test-policy", url.Values{"cases": {people + "allow eve GET /archive/1\n"}})
	if !strings.Contains(body, "1 of 1 cases doesn’t get the expected result.") {
		t.Errorf("a case that gets something else:\n%s", body)
	}
	for cases, want := range map[string]string{
		people + "allow nobody@example.com GET /":                              "no one describes",
		"allow demo@example.com GET /":                                         "a path needs a line",
		people + "let eve GET /":                                               "unrecognized",
		people + strings.Repeat("deny eve GET /x\n", 201):                      "at most 200 cases",
		people + "deny eve GET /x header \"Host: other.example.com\"":          "the host is that of the url",
		"site https://wiki.example.com\nallow {env.HOME} GET /reports/{$HOME}": "no one describes &#34;{env.HOME}&#34;",
	} {
		if body := ask("/admin/policies/office/test-policy", url.Values{"cases": {cases}}); !strings.Contains(body, want) {
			t.Errorf("%q: no word of %q:\n%s", cases, want, body)
		}
	}
	host := strings.TrimPrefix(w.Wiki, "http://")
	if body := ask("/admin/sites/"+host+"/doctor", url.Values{"origin": {w.Wiki}}); !strings.Contains(body,
		"were refused, as expected") || strings.Contains(body, "Got through") {
		t.Errorf("the doctor at a site with protect:\n%s", body)
	}
}

// TestConsoleEditsPolicies: an owner writes a policy in the syntax of the Caddyfile. Errors name their line, cases are
// tested by the rules that are not stored yet, and what is stored is written in the same syntax.
func TestConsoleEditsPolicies(t *testing.T) {
	w := servertest.NewWalk(t)
	w.InIdentity = "admin demo@example.com {\n\t\tlevel 1\n\t}"
	w.Reload()
	owner := servertest.NewBrowser(t)
	ask := func(path string, in url.Values) string {
		t.Helper()
		resp, body := openConsole(owner, w.Server, path)
		_, form, _ := strings.Cut(body, "<main")
		_, body = owner.Submit(resp, form, in)
		return body
	}
	const (
		add   = "/admin/policies/add-policy"
		rules = "deny {\n\tname archive\n\tmatch path /archive/*\n}\nallow {\n\tname reports\n\tneed groups staff\n}\n"
		cases = "site https://wiki.example.com\nallow demo@example.com GET /reports/1\ndeny demo@example.com GET /archive/1\n"
	)
	for name, tc := range map[string]struct{ rules, cases, want string }{
		"a word that is misspelled": {"allow {\n\tneed group staff\n}", "", "Line 2: need: unrecognized &#34;group&#34;, did you mean groups?"},
		"everything is refused":     {"allow {\n\tneed groups staff\n}\n\ndeny {\n}", "", "Line 5: "},
		"a placeholder":             {"allow {\n\tneed groups staff\n}\nallow {\n\tmatch header X-A {env.HOME}\n}", "", "Line 4: "},
		"a file of the server":      {"allow {\n\tneed groups staff\n}\nallow {\n\tmatch file /etc/passwd\n}", "", "Line 4: "},
		"no brace":                  {"allow {\n\tneed groups staff", "", "Line 1: The closing brace of this block is missing."},
		"an invalid level":          {"allow {\n\n\tneed level 9\n}", "", "Line 3: "},
		"what the API lacks":        {"allow {\n\taudit log\n}", "", "Line 1: “audit” works only for policies in the Caddyfile."},
		"cases":                     {rules, "site https://wiki.example.com\nallow nobody@example.com GET /", "no one describes"},
		"a case that differs":       {rules, "site https://wiki.example.com\nallow demo@example.com GET /archive/1", "1 of 1 cases doesn’t get the expected result."},
	} {
		typed := strings.ReplaceAll(tc.rules, "\n", "\r\n") // as browsers send it
		body := ask(add, url.Values{"policy": {"office"}, "rules": {typed}, "cases": {tc.cases}})
		if !strings.Contains(body, tc.want) {
			t.Errorf("%s: no word of %q:\n%s", name, tc.want, body)
		}
	}
	body := ask(add, url.Values{"policy": {"office"}, "rules": {rules}, "cases": {cases}})
	if !strings.Contains(body, "All 2 cases get the expected result.") ||
		!strings.Contains(body, "&#43; \tneed groups staff") {
		t.Errorf("a policy that is not stored yet:\n%s", body)
	}
	body = ask(add, url.Values{"policy": {"office"}, "rules": {rules}, "cases": {cases}, "confirm": {"yes"}})
	if !strings.Contains(body, "policy office {\n\tdeny {\n\t\tname archive\n\t\tmatch path /archive/*\n\t}\n") || !strings.Contains(body, "shadow {") {
		t.Errorf("the policy that was stored:\n%s", body)
	}
	_, body = openConsole(owner, w.Server, "/admin/policies/office/edit-policy")
	if !strings.Contains(body, ">\n"+strings.TrimSpace(rules)+"</textarea>") {
		t.Errorf("the form has other rules than were stored:\n%s", body)
	}
}
