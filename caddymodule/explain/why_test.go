package explain_test

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// logged returns the lines of the log that hold all of these texts.
func logged(w *servertest.Walk, all ...string) (lines []string) {
	w.T.Helper()
	raw, err := os.ReadFile(w.Log)
	if err != nil {
		w.T.Fatal(err)
	}
next:
	for line := range strings.SplitSeq(string(raw), "\n") {
		for _, s := range all {
			if !strings.Contains(line, s) {
				continue next
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// TestWhyOfASite: a person who is kept from a site gets a reference, and the administrator learns everything from it.
func TestWhyOfASite(t *testing.T) {
	w := servertest.NewWalk(t)
	w.InIdentity = "person guest@example.com {\n\t\tpassword \"" + servertest.TestPassword + "\"\n\t\tgroups guests\n\t}"
	w.Reload()
	b := servertest.NewBrowser(t)
	res, body := b.Open(w.Wiki + "/reports?token=in-the-query")
	res, body = b.Submit(res, body, url.Values{"username": {"guest@example.com"}, "password": {servertest.TestPassword}})
	ref := servertest.Reference.FindString(body)
	if res.StatusCode != http.StatusForbidden || ref == "" {
		t.Fatalf("a person who is not in any of the groups gets %d and no reference: %s", res.StatusCode, body)
	}
	out := w.Run("", "why", strings.ToLower(ref))
	for _, want := range []string{
		"guest@example.com (person ",
		"was refused GET " + strings.TrimPrefix(w.Wiki, "http://") + "/reports: needs the group staff; has guests.",
		"Add the person",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("why %s = %s, want %q in it", ref, out, want)
		}
	}
	answer := servertest.Decode[map[string]any](t, w.Run("", "why", ref, "--json"))
	if answer["ref"] != ref || answer["reason"] != "group_missing" || answer["username"] != "guest@example.com" ||
		answer["path"] != "/reports" || strings.Contains(out, "in-the-query") {
		t.Errorf("why --json = %v", answer)
	}
	lines := logged(w, `"request refused"`, ref, `"username":"guest@example.com"`, `"wanted_groups":["staff"]`, `"groups":["guests"]`,
		`"reason":"group_missing"`, `"path":"/reports"`, `"method":"GET"`)
	if len(lines) != 1 || strings.Contains(lines[0], "in-the-query") {
		t.Errorf("log lines of the refusal = %q, want one that names person, site, path and groups", lines)
	}
	// A bad reference says so, and changes nothing.
	w.Refused("want a reference such as", "", "why", "nonsense!")
	w.Refused("no refusal of the last 24 hours", "", "why", "AAAA-AAAA")
	w.Refused("an argument is missing: write ", "", "why")
	if again := w.Run("", "why", ref); again != out {
		t.Errorf("after bad references: %s", again)
	}
	// A program that is refused finds the reference in the JSON.
	_, body = w.Do(w.Request(http.MethodGet, "http://"+w.API+"/", nil))
	got := servertest.Decode[map[string]string](t, body)
	if got["error"] != "unauthorized" || !servertest.Reference.MatchString(got["ref"]) {
		t.Fatalf("a request without a token gets %s, want a reference", body)
	}
	if out := w.Run("", "why", got["ref"]); !strings.Contains(out,
		"someone who was not signed in was refused GET "+w.API+"/: no token or session") {
		t.Errorf("why = %s", out)
	}
}

// TestWhyOfASignIn: a wrong password and an unknown name look alike on the page, and differ in the log, in the metrics
// and in why.
func TestWhyOfASignIn(t *testing.T) {
	w := servertest.NewWalk(t)
	w.InIdentity = "person blocked@example.com {\n\t\tpassword \"" + servertest.TestPassword + "\"\n\t}"
	w.Reload()
	w.Run("", "person", "block", "blocked@example.com")
	pages := map[string]string{}
	for _, tt := range []struct{ name, username, password, reason, said string }{
		{"wrong password", "demo@example.com", "typed-secret-1", "wrong_password", "demo@example.com (person "},
		{
			"unknown name", "typed-name@example.com", "typed-secret-2", "unknown_name",
			"someone who was not signed in was refused the sign-in by password",
		},
		{"blocked", "blocked@example.com", servertest.TestPassword, "person_blocked", "blocked@example.com (person "},
	} {
		b := servertest.NewBrowser(t)
		res, body := b.Open(w.Wiki + "/")
		res, body = b.Submit(res, body, url.Values{"username": {tt.username}, "password": {tt.password}})
		ref := servertest.Reference.FindString(body)
		if res.StatusCode < 400 || ref == "" {
			t.Fatalf("%s: %d and no reference: %s", tt.name, res.StatusCode, body)
		}
		_, notice, _ := strings.Cut(body, `id="problem"`)
		notice, _, _ = strings.Cut(notice, "</div></div>")
		pages[tt.name] = strings.ReplaceAll(notice, ref, "")
		if out := w.Run("", "why", ref); !strings.Contains(out, tt.said) || strings.Contains(out, "typed-") {
			t.Errorf("%s: why = %s, want %q and nothing that was typed", tt.name, out, tt.said)
		}
		if lines := logged(w, `"sign-in refused"`, ref, `"reason":"`+tt.reason+`"`, `"by":"password"`,
			`"client_ip":"127.0.0.1"`); len(lines) != 1 {
			t.Errorf("%s: log lines = %q, want one with its reason", tt.name, lines)
		}
		r := w.Request(http.MethodGet, w.Issuer()+"/api/events", nil)
		r.SetBasicAuth("ops", "the-secret-of-ops-in-all-of-these-tests")
		if tt.reason == "wrong_password" {
			person := servertest.Decode[map[string]any](t, w.Run("", "why", ref, "--json"))["person_id"].(string)
			r.URL.RawQuery = "limit=10&offset=0&userId=" + person
			if _, body := w.Do(r); !strings.Contains(body, `"ref":"`+ref+`"`) {
				t.Errorf("events of the person = %s, want one with the reference %s", body, ref)
			}
		}
	}
	if pages["wrong password"] != pages["unknown name"] {
		t.Errorf("the pages tell a stranger which names exist: %q", pages)
	}
	if res, body := servertest.NewBrowser(t).SignIn(w.Wiki + "/"); res.StatusCode != http.StatusOK {
		t.Fatalf("sign-in: %d %s", res.StatusCode, body)
	}
	if lines := logged(w, `"msg":"signed in"`, `"username":"demo@example.com"`, `"by":"password"`, `"provider":"identity"`,
		`"level":1`); len(lines) != 1 {
		t.Errorf("log lines of a sign-in = %q, want one", lines)
	}
	if lines := logged(w, `"gatehouse ready"`, `"issuer":"`+w.Issuer()+`"`, `"clients":1`, `"persons":2`, `"version":`,
		`"storage":`); len(lines) != 1 {
		t.Errorf("log lines of the start = %q, want one for the last configuration", logged(w, "gatehouse ready"))
	}
	if lines := logged(w, "typed-"); len(lines) != 0 {
		t.Errorf("what was typed is in the log: %q", lines)
	}
	_, metrics := w.Do(w.Request(http.MethodGet, "http://"+w.Admin+"/metrics", nil))
	site := strings.TrimPrefix(w.Wiki, "http://")
	for _, want := range []string{
		`gatehouse_sign_ins_total{idp="identity",method="password",reason="",result="ok"} 1`,
		`gatehouse_sign_ins_total{idp="identity",method="password",reason="wrong_password",result="refused"} 1`,
		`gatehouse_sign_ins_total{idp="identity",method="password",reason="unknown_name",result="refused"} 1`,
		`gatehouse_sign_ins_total{idp="identity",method="password",reason="person_blocked",result="refused"} 1`,
		"gatehouse_sessions 1",
		`gatehouse_protect_requests_total{reason="",result="allowed",site="` + site + `"} 1`,
		`gatehouse_protect_requests_total{reason="no_credentials",result="sign_in",site="` + site + `"} 4`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestWhyOfAClient: the log of a refused client names the client, the host of its redirect URI and the scope, and says
// why in words of OAuth instead of storage.
func TestWhyOfAClient(t *testing.T) {
	w := servertest.NewWalk(t)
	authorize := func(client, redirect string) (int, string) {
		q := url.Values{
			"client_id": {client}, "redirect_uri": {redirect}, "response_type": {"code"},
			"scope": {"orders.read"}, "state": {"the-state"},
		}
		res, body := w.Get("/oauth/authorize?" + q.Encode())
		return res.StatusCode, body
	}
	token := func(id, secret string, form url.Values) (int, string) {
		r := w.Request(http.MethodPost, w.Issuer()+"/oauth/token", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.SetBasicAuth(id, secret)
		res, body := w.Do(r)
		return res.StatusCode, body
	}
	grant := url.Values{"grant_type": {"client_credentials"}, "scope": {"everything"}}
	for _, tt := range []struct {
		name, reason, said string
		ask                func() (int, string)
		logged             []string
	}{
		{
			"unknown client", "client_unknown", "no client has this client_id",
			func() (int, string) { return authorize("shopp", "https://shop.example/cb") },
			[]string{`"client_id":"shopp"`, `"redirect_host":"shop.example"`, `"wanted_scopes":["orders.read"]`},
		},
		{
			"redirect URI", "redirect_uri_not_registered", "its host is evil.example",
			func() (int, string) { return authorize("reports", "https://evil.example/cb?x=the-query") },
			[]string{`"client_id":"reports"`, `"redirect_host":"evil.example"`},
		},
		{
			"wrong secret", "client_secret_wrong", "client reports was refused POST ",
			func() (int, string) { return token("reports", "a-wrong-secret-of-this-test", grant) },
			[]string{`"client_id":"reports"`, `"error":"invalid_client"`},
		},
		{
			"scope", "scope_not_allowed", "asked for everything",
			func() (int, string) { return token("reports", servertest.TestSecret, grant) },
			[]string{`"client_id":"reports"`, `"wanted_scopes":["everything"]`},
		},
		{"an API without credentials", "no_credentials", "was refused GET ", func() (int, string) {
			res, _ := w.Get("/api/events")
			return res.StatusCode, res.Header.Get("Gatehouse-Ref")
		}, []string{`"where":"api"`}},
		{"SCIM without credentials", "no_credentials", "/scim/v2/Users", func() (int, string) {
			res, body := w.Get("/scim/v2/Users")
			return res.StatusCode, body
		}, []string{`"where":"api"`}},
	} {
		status, body := tt.ask()
		ref := servertest.Reference.FindString(body)
		if status < 400 || ref == "" {
			t.Errorf("%s: %d and no reference: %s", tt.name, status, body)
			continue
		}
		if out := w.Run("", "why", ref); !strings.Contains(out, tt.said) {
			t.Errorf("%s: why = %s, want %q", tt.name, out, tt.said)
		}
		lines := logged(w, append(tt.logged, ref, `"reason":"`+tt.reason+`"`)...)
		if len(lines) != 1 || strings.Contains(lines[0], "storage") {
			t.Errorf("%s: log lines = %q, want one that names client and reason", tt.name, lines)
		}
	}
	for _, secret := range []string{"a-wrong-secret", "the-query", "the-state", servertest.TestSecret} {
		if lines := logged(w, secret); len(lines) != 0 {
			t.Errorf("%q is in the log: %q", secret, lines)
		}
	}
	_, metrics := w.Do(w.Request(http.MethodGet, "http://"+w.Admin+"/metrics", nil))
	for _, want := range []string{
		`gatehouse_token_errors_total{error="invalid_client"} 1`,
		`gatehouse_token_errors_total{error="invalid_scope"} 1`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}
