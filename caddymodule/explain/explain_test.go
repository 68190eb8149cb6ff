package explain_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest"
)

// explainable is a site whose rules several kinds of requests meet.
const explainable = `
%s {
	@api path /api/*
	handle_path /moved/* {
		protect {
			login
			allow {
				name  moved
				match path /x
			}
		}
		respond "moved"
	}
	handle {
		protect {
			login
			deny {
				name    archive
				match   path /archive/*
				need    groups staff
				message "The archive is closed until Monday."
			}
			allow {
				name  reports
				match path /reports/* /archive/*
				need  groups staff
			}
			allow {
				name  vault
				match path /vault/*
				need  level 3
			}
			allow {
				name  office
				match path /office/*
				match client_ip 10.0.0.0/8
				when  mon-fri 07:00-19:00 Europe/Amsterdam
			}
			allow {
				name  local
				match path /local/*
				need  provider identity
			}
			public /healthz
		}
		respond @api "api"
		respond "inside"
	}
}
`

// An operator learns what a request would get, which rule decides and where that is written, and nothing reaches the
// upstream or the storage.
func TestExplain(t *testing.T) {
	w := servertest.NewWalk(t)
	config, host := w.Config, servertest.FreeAddr(t)
	site := "http://" + host
	w.Config = func() string { return config() + fmt.Sprintf(explainable, site) }
	w.Reload()
	for _, tt := range []struct {
		args string
		want []string
	}{
		{"--url $/reports/1", []string{
			"sign-in: it needs a sign-in", "a stranger", "allow reports: after sign-in (Caddyfile:",
			"allow vault: no: another request", "client sees  302",
		}},
		{
			"--url $/reports/1 --person demo@example.com",
			[]string{
				"allow: it passes", "demo@example.com (by session; groups staff; signed in 0s; level 1)", "> allow reports: fits (Caddyfile:",
				"Remote-User: demo@example.com", "Remote-Groups: staff", "goes on to  static_response",
			},
		},
		{
			"--url $/archive/1 --person demo@example.com",
			[]string{
				"deny: it is refused", "> deny  archive: fits", "client sees  403 access_denied",
				"message      The archive is closed until Monday.",
			},
		},
		{
			"--url $/vault/1 --person demo@example.com --level 1",
			[]string{"step-up: it needs a stronger sign-in", "(level 3)", "> allow vault: after step-up", "client sees  302"},
		},
		{"--url $/vault/1 --person demo@example.com --level 3", []string{"allow: it passes"}},
		{
			"--url $/office/1 --person demo@example.com --at 2026-11-23T12:00:00Z --ip 10.1.2.3",
			[]string{"allow: it passes", "> allow office: fits"},
		},
		{
			"--url $/office/1 --person demo@example.com --at 2026-11-22T12:00:00Z --ip 10.1.2.3",
			[]string{"deny: it is refused", "allow office: no: another time"},
		},
		{
			"--url $/office/1 --person demo@example.com --at 2026-11-23T12:00:00Z",
			[]string{"deny: it is refused", "no allow rule of the site matches", "allow office: no: another request"},
		},
		{"--url $/healthz", []string{"public: it passes without"}},
		{"--url $/moved/x", []string{"sign-in: ", "allow moved: after sign-in"}},
		{"--url $/reports//x --person demo@example.com", []string{"invalid: it is refused for everyone", "client sees  400"}},
		{
			"--url $/nothing --client reports --scopes orders.read",
			[]string{"client reports (by token; scopes orders.read)", "deny: it is refused"},
		},
		{"--url $/reports/1 --token ghat_nothing", []string{"sign-in: ", "note", "the token is unknown, expired, revoked or used up"}},
		{"--url $/reports/1 --method POST --header Remote-User:root", []string{"client sees  401 unauthorized", "challenge    Bearer realm"}},
	} {
		out := w.Run("", append([]string{"explain"}, strings.Fields(strings.ReplaceAll(tt.args, "$", site))...)...)
		for _, want := range tt.want {
			if !strings.Contains(out, want) {
				t.Errorf("explain %s =\n%s\nwant %q in it", tt.args, out, want)
			}
		}
	}
	for args, want := range map[string]string{
		"":                                    "say which request is meant",
		"--url /reports":                      "want the whole address",
		"--url http://nowhere.test":           "no site of the configuration answers",
		"--url $/x --ip here":                 "want an address such as 203.0.113.7",
		"--url $/x --at noon":                 "want a time such as",
		"--url $/x --level 7":                 "want 1 to 4",
		"--url $/x --person demi@example.com": "did you mean demo@example.com?",
		"--url $/x --person demo@example.com --token t": "leave person and client out",
		"--url $/x --header Host:evil":                  "the host is that of the url",
		"--url $/x --header X":                          "want a name and a value",
		"--url $/x --method G@T":                        "is not an HTTP method",
		"--ref nonsense!":                               "want a reference such as",
	} {
		w.Refused(want, "", append([]string{"explain"}, strings.Fields(strings.ReplaceAll(args, "$", site))...)...)
	}
	// The reference of a refusal stands for its person and request.
	b := servertest.NewBrowser(t)
	if res, body := b.SignIn(site + "/reports/1"); body != "inside" {
		t.Fatalf("sign-in: %d %s", res.StatusCode, body)
	}
	// What is told of a sign-in is what holds for it.
	if _, body := b.Open(site + "/local/1"); body != "inside" {
		t.Errorf("a page for those who signed in here: %s", body)
	}
	if out := w.Run("", "explain", "--person", "demo@example.com", "--url", site+"/local/1"); !strings.Contains(out, "provider identity") ||
		!strings.Contains(out, "> allow local: fits") {
		t.Errorf("explain after the sign-in = %s", out)
	}
	res, body := b.Open(site + "/archive/1?token=in-the-query")
	ref := servertest.Reference.FindString(body)
	if res.StatusCode != http.StatusForbidden || ref == "" {
		t.Fatalf("the archive: %d %s", res.StatusCode, body)
	}
	out := w.Run("", "explain", "--ref", ref)
	if !strings.Contains(out, "was refused GET "+host+"/archive/1") || !strings.Contains(out, "now:") ||
		!strings.Contains(out, "> deny  archive: fits") || strings.Contains(out, "in-the-query") {
		t.Errorf("explain --ref = %s", out)
	}
	answer := servertest.Decode[map[string]any](t, w.Run("", "explain", "--ref", ref, "--json"))
	if answer["url"] != site+"/archive/1" || answer["verdict"] != "deny" || answer["status"] != float64(403) ||
		answer["refused"].(map[string]any)["ref"] != ref {
		t.Errorf("explain --ref --json = %v", answer)
	}
}

// Rules are tested before anybody meets them, without a server: a table says who gets what, and what is otherwise is
// told with its line and the rule that decides.
func TestPolicyTest(t *testing.T) {
	s := servertest.NewServer(t)
	config, table := filepath.Join(s.Dir, "Caddyfile"), filepath.Join(s.Dir, "wiki.cases")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(config, s.Caddyfile()+fmt.Sprintf(explainable, "wiki.example.com"))
	test := func() (string, error) { return servertest.Run(t, "", "policy", "test", table, "--config", config) }
	const people = `site https://wiki.example.com
at 2026-11-23T12:00:00Z
person ada {
	groups staff admins
	level  1
	provider identity
}
person eve {
	groups guests
}
person robot {
	groups staff
	scopes orders.read
}
client deploy {
	scopes orders.read
}
`
	write(table, people+`
allow   ada    GET  /reports/1       rule reports
deny    eve    GET  /reports/1
deny    ada    GET  /archive/1       rule archive
sign-in -      GET  /reports/1
step-up ada    GET  /vault/1         rule vault
allow   ada    GET  /vault/1         level 3
allow   eve    GET  /office/1        ip 10.0.0.1
deny    eve    GET  /office/1        ip 203.0.113.1
deny    eve    GET  /office/1        ip 10.0.0.1 at 2026-11-22T12:00:00Z
public  -      GET  /healthz
allow   ada    GET  /local/1
invalid ada    GET  /reports//1
deny    robot  POST /reports/1       header "Accept: application/json"
deny    deploy GET  /reports/1
public  -      GET  http://`+s.Addr+`/anything
`)
	if out, err := test(); err != nil || !strings.Contains(out, "15 cases: 15 ok, 0 failed") {
		t.Fatalf("policy test = %s, %v", out, err)
	}
	write(table, people+"\nallow ada GET /archive/1\nallow eve GET /reports/1\nallow ada GET /reports/1 rule vault\n")
	out, err := test()
	if err == nil || !strings.Contains(err.Error(), "3 of 3 cases failed") {
		t.Errorf("policy test of cases that fail: %v", err)
	}
	for _, want := range []string{
		"wiki.cases:19: want allow, got deny: the rule archive at ", "wiki.cases:20: want allow, got deny: no rule decides, but protect at ",
		"no allow rule of the site matches",
		"wiki.cases:21: want the rule vault to decide: the rule reports at ", filepath.Base(config) + ":",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("policy test = %s, want %q in it", out, want)
		}
	}
	for text, want := range map[string]string{
		"":                               "has no cases",
		"allow ada GET http://x/":        "no one describes \"ada\"",
		"allow - GET /x":                 "a path needs a line `site",
		"alow - GET /x":                  "did you mean allow?",
		"allow - GET":                    "want who, method and path",
		"allow - GET http://x/ ip":       "want who, method and path",
		"allow - GET http://x/ on a":     "unrecognized \"on\"",
		"allow - GET http://x/ level 9":  "want 1 to 4",
		"allow - GET http://x/ age soon": "want a duration",
		"allow - GET http://x/ at noon":  "want a time such as",
		"allow - GET http://x/ ip here":  "want an address such as",
		"site wiki":                      "want the origin",
		"at":                             "want the time",
		"person":                         "want a name",
		"person a {\n\tcolour red\n}":    "a person has groups",
		"person a {\n\tgroups\n}":        "a value is missing",
		"client a {\n\tgroups x\n}":      "a client has scopes",
		"person a {\n}\nperson a {\n}":   "described twice",
	} {
		write(table, text)
		if out, err := test(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("policy test of %q = %s, %v, want %q", text, out, err, want)
		}
	}
	if _, err := servertest.Run(t, "", "policy", "test", table); err == nil {
		t.Error("policy test without --config succeeds")
	}
	write(config, "{\n\tgatehouse {\n\t}\n}\n")
	write(table, "public - GET http://x/\n")
	if _, err := test(); err == nil || !strings.Contains(err.Error(), "issuer is missing") {
		t.Errorf("policy test of a configuration that is wrong: %v", err)
	}
}
