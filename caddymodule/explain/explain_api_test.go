package explain_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// explained asks the API as an API client.
func explained(s *servertest.Server, client string, body map[string]any, want int) (text string) {
	s.T.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		s.T.Fatal(err)
	}
	r := s.Request(http.MethodPost, s.Issuer()+"/api/v1/explain", strings.NewReader(string(raw)))
	r.Header.Set("Content-Type", "application/json")
	if client != "" {
		r.SetBasicAuth(client, servertest.OpsSecret)
	}
	resp, text := s.Do(r)
	if resp.StatusCode != want {
		s.T.Errorf("explain %s as %q = %d %s, want %d", raw, client, resp.StatusCode, text, want)
	}
	return text
}

// An API client gets the answer of the command, and is told nothing that it could not read elsewhere.
func TestExplainByAPI(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = servertest.APIClient("rules", "policies") + servertest.APIClient("all",
		"policies persons introspection events configuration") + servertest.APIClient("other", "configuration persons")
	s.Site = "protect orders.read {\n\t\tpolicy office\n\t}"
	s.MustLoad()
	site := "http://" + s.API
	token := s.Token()
	if got := explained(s, "rules", map[string]any{"url": site + "/a", "client": "reports", "scopes": []string{"orders.read"}},
		http.StatusOK); !strings.Contains(got, `"reason":"policy_missing"`) {
		t.Errorf("without the policy: %s", got)
	}
	body := map[string]any{"allow": []map[string]any{{"name": "a", "match": []map[string]any{{"path": []string{"/a"}}}}}}
	raw, err := json.Marshal(map[string]any{"policies": map[string]any{"office": body}})
	if err != nil {
		t.Fatal(err)
	}
	s.Run(string(raw), "config", "import", "-")
	got := explained(s, "rules", map[string]any{"url": site + "/a", "client": "reports", "scopes": []string{"orders.read"}}, http.StatusOK)
	for _, want := range []string{
		`"verdict":"allow"`, `"rule":"a","place":"policies.office.allow[0]","fit":"fits","decides":true`,
		`"client_id":"reports"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("explain has no %s: %s", want, got)
		}
	}
	if got := explained(s, "all", map[string]any{"url": site + "/b", "token": token}, http.StatusOK); !strings.Contains(got,
		`"verdict":"deny"`) || strings.Contains(got, token) {
		t.Errorf("with a token: %s", got)
	}
	if got := explained(s, "all", map[string]any{"url": site + "/b", "person": "demo@example.com"}, http.StatusOK); !strings.Contains(got,
		`"username":"demo@example.com"`) {
		t.Errorf("a person: %s", got)
	}
	for name, tt := range map[string]struct {
		client string
		body   map[string]any
		status int
		want   string
	}{
		"without credentials": {"", map[string]any{"url": site}, 401, "authentication is required"},
		"of another API":      {"other", map[string]any{"url": site}, 403, "may not use this API"},
		"about a person": {
			"rules",
			map[string]any{"url": site, "person": "demo@example.com"},
			403,
			"to ask about persons the API client needs the API persons",
		},
		"about nobody": {"rules", map[string]any{"url": site, "person": "nobody@example.com"}, 403, "to ask about persons"},
		"about a token": {
			"rules",
			map[string]any{"url": site, "token": token},
			403,
			"to ask about tokens the API client needs the API introspection",
		},
		"about a refusal": {"rules", map[string]any{"ref": "AAAA-BBBB"}, 403, "to ask about persons"},
		"no such refusal": {"all", map[string]any{"ref": "AAAA-BBBB"}, 404, "no refusal of the last 24 hours"},
		"no such person":  {"all", map[string]any{"url": site, "person": "demi@example.com"}, 404, `"no such person"`},
		"nothing":         {"rules", map[string]any{}, 400, "url: is required, or a ref"},
		"a wrong member":  {"rules", map[string]any{"uri": site}, 400, "uri: unknown member"},
		"a wrong address": {"rules", map[string]any{"url": "/a"}, 400, "want the whole address"},
		"a wrong level":   {"rules", map[string]any{"url": site, "level": 9}, 400, "want 1 to 4"},
	} {
		if got := explained(s, tt.client, tt.body, tt.status); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %s, want %q", name, got, tt.want)
		}
	}
	s.Run(`{"features":{"configuration_api_enabled":false}}`, "config", "import", "-")
	explained(s, "rules", map[string]any{"url": site}, http.StatusConflict)
}

// For a site that another proxy serves, the gate that this proxy asks is explained.
func TestExplainGate(t *testing.T) {
	s := servertest.NewServer(t)
	s.Extra = `forward_auth wiki {
			origins https://wiki.example.com
			login
			groups staff
		}
		policy office {
			allow {
				name readers
				match method GET
			}
		}`
	s.MustLoad()
	for _, tt := range []struct {
		args string
		want []string
	}{
		{
			"--url https://wiki.example.com/x --person demo@example.com",
			[]string{
				"allow: it passes", "gate", "forward_auth wiki", "Remote-User: demo@example.com",
				"no site here serves wiki.example.com: another proxy does, and asks forward_auth wiki",
			},
		},
		{
			"--url https://wiki.example.com/x",
			[]string{"sign-in: ", "client sees  302", "a proxy with the profile nginx gets 401 in place of 302"},
		},
		{"--url https://other.example.com/x --gate office --client reports", []string{"gate", "policy office", "> allow readers: fits"}},
		{"--url https://other.example.com/x --gate office --client reports --method POST", []string{"deny: it is refused"}},
	} {
		out := s.Run("", append([]string{"explain", "--address", s.Admin}, strings.Fields(tt.args)...)...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("explain %s =\n%s\nwant %q in it", tt.args, out, want)
			}
		}
	}
	for args, want := range map[string]string{
		"--url https://nowhere.example.com/x":             "no site of the configuration answers",
		"--url https://wiki.example.com/x --gate nothing": "there is no forward_auth and no policy of this name",
		"--url https://other.example.com/x --gate wiki":   "the site is not one of this forward_auth",
	} {
		s.Refused(want, "", append([]string{"explain"}, strings.Fields(args)...)...)
	}
}

// What an operator has granted is part of the answer, in words, and is not used up by it.
func TestExplainGrantedAccess(t *testing.T) {
	w := servertest.NewWalk(t)
	config, site := w.Config, "http://"+servertest.FreeAddr(t)
	w.Config = func() string {
		return config() + fmt.Sprintf("\n%s {\n\tprotect {\n\t\tlogin\n\t\tgroups editors\n\t\trequest_access on\n\t}\n\trespond \"inside\"\n}\n", site)
	}
	w.Reload()
	ask := func(more ...string) string {
		t.Helper()
		return w.Run("", append([]string{"explain", "--person", "demo@example.com", "--url", site + "/page"}, more...)...)
	}
	if out := ask(); !strings.Contains(out, "deny: it is refused") {
		t.Errorf("before it is granted: %s", out)
	}
	b := servertest.NewBrowser(t)
	b.SignIn(site + "/page")
	page, body := b.Open(site + "/.gatehouse/access?to=/page")
	if res, body := b.Submit(page, body, url.Values{"reason": {"for the report"}}); res.StatusCode != http.StatusOK {
		t.Fatalf("asking for access: %d %s", res.StatusCode, body)
	}
	w.Run("", "access", "grant", "demo@example.com", site, "--for", "1h", "--uses", "2")
	for range 3 { // more often than there are uses
		out := ask()
		for _, want := range []string{
			"allow: it passes", "groups and rules refuse it, but access that an operator has granted lets it pass",
			"has granted demo@example.com access to " + site + " until ", "2 of 2 uses are left",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("with a grant: %s\nwant %q in it", out, want)
			}
		}
	}
	if out := ask("--at", "2100-01-01T00:00:00Z", "--age", "1m"); !strings.Contains(out, "deny: it is refused") {
		t.Errorf("after its end: %s", out)
	}
	if _, body := b.Open(site + "/page"); body != "inside" {
		t.Errorf("and live: %s", body)
	}
}
