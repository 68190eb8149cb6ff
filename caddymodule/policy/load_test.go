package policy

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

func load(t testing.TB, name, text string) (*Policy, string, error) {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	return Load(ctx, name, []byte(text), func(path string) error {
		if !strings.HasPrefix(path, "/") {
			return coded.New("public_path", "want a path")
		}
		return nil
	})
}

// A policy that is sent to the configuration API decides as the same words in the Caddyfile do.
func TestLoad(t *testing.T) {
	t.Parallel()
	p, at, err := load(t, "office", `{
		"deny": [{"name": "archive", "match": [{"path": ["/archive/*"]}], "need": {"groups": ["guests"]}, "message": "Closed."}],
		"allow": [{"match": [{"path": ["/reports/*"], "method": ["GET"]}, {"path_regexp": {"pattern": "^/[a-z]{2,4}$"}}], "need": {"groups": ["staff"], "level": 2}, "when": ["mon-fri 07:00-19:00 Europe/Amsterdam"]}],
		"public": ["/healthz"]
	}`)
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	who := Facts{
		Now: monday, Browser: true,
		Who: &token.Introspection{Active: true, Level: 2, Person: &authn.Subject{Groups: []string{"staff"}}},
	}
	for request, want := range map[string]Outcome{
		"GET /reports/1": Allowed, "POST /reports/1": Denied,
		"GET /abc": Allowed, "GET /abcde": Denied,
	} {
		if d := p.judge(t, request, who); d.Outcome != want {
			t.Errorf("%s: %v, want %v", request, d.Outcome, want)
		}
	}
	if d := p.judge(t, "GET /reports/1", Facts{Now: monday}); d.Outcome != SignIn || d.Rule.Place != "policies.office.allow[0]" {
		t.Errorf("a stranger: %+v", d)
	}
	who.Who.Person.Groups = []string{"guests", "staff"}
	if d := p.judge(t, "GET /archive/1", who); d.Outcome != Denied || d.Rule == nil || d.Rule.Label() != "archive" ||
		d.Rule.Message != "Closed." {
		t.Errorf("what the deny rule refuses: %+v", d)
	}
	if !p.Parts().Path {
		t.Error("the path does not decide")
	}
}

// What cannot be used is refused with its place.
func TestLoadErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{`{}`, ": it has no rules"},
		{`{"allow":[{"when":["daily"]}]}`, "allow[0].when[0]: "},
		{`{"allow":[{},{"need":{"level":9}}]}`, "allow[1].need: level: "},
		{`{"allow":[{"need":{"max_age":"soon"}}]}`, "allow[0].need: max_age: "},
		{`{"allow":[{"need":{"groups":[""]}}]}`, "allow[0].need: groups: a value is empty"},
		{`{"allow":[{"need":{"claims":[{"name":"x","values":[]}]}}]}`, "allow[0].need: claim: want a name and a value"},
		{`{"deny":[{"message":"no"}]}`, "deny[0]: deny: this rule refuses everything to everyone"},
		{`{"allow":[{"match":[{"path":7}]}]}`, "allow[0].match: "},
		{`{"allow":[{"match":[{}]}]}`, "allow[0].match[0]: is empty"},
		{
			`{"allow":[{"match":[{"paths":["/x"]}]}]}`,
			"allow[0].match[0].paths: there is no such matcher for policies of the configuration API, did you mean path?",
		},
		{`{"allow":[{"match":[{"path_regexp":{"pattern":"("}}]}]}`, "allow[0].match: "},
		{`{"allow":[{"name":"a"},{"name":"a"}]}`, "allow[1].name: there is a rule a already"},
		{`{"public":["x"]}`, "public[0]: want a path"},
		{`{"allow":[` + strings.TrimSuffix(strings.Repeat(`{"need":{"groups":["a"]}},`, 201), ",") + `]}`, "more than 200 rules"},
	} {
		if _, at, err := load(t, "office", tt.text); err == nil || !strings.Contains(at+": "+err.Error(), tt.want) {
			t.Errorf("%.80s: %s: %v, want %q", tt.text, at, err, tt.want)
		} else if code, _ := coded.Of(err); code == "" {
			t.Errorf("%.80s: %v has no code, so pages have no words for it", tt.text, err)
		}
	}
	if _, _, err := load(t, "../x", `{"public":["/x"]}`); err == nil || !strings.Contains(err.Error(), "is not the name of a policy") {
		t.Errorf("a name with a slash: %v", err)
	}
}

// An API client that can change policies must not read the secrets and files of the server: a rule that compares a
// request with them would tell what they hold, character by character.
func TestLoadReadsNothingOfTheServer(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"allow":[{"match":[{"expression":{"expr":"{env.PATH}.startsWith('s')"}}]}]}`: "there is no such matcher",
		`{"allow":[{"match":[{"file":{"root":"/etc","try_files":["passwd"]}}]}]}`:      "there is no such matcher",
		`{"allow":[{"match":[{"vars":{"{env.PATH}":["s*"]}}]}]}`:                       "there is no such matcher",
		`{"allow":[{"match":[{"vars_regexp":{"{env.PATH}":{"pattern":"^s"}}}]}]}`:      "there is no such matcher",
		`{"allow":[{"match":[{"header":{"X-Guess":["{env.PATH}"]}}]}]}`:                "placeholders are for the Caddyfile",
		`{"allow":[{"match":[{"header":{"{env.PATH}":["x"]}}]}]}`:                      "placeholders are for the Caddyfile",
		`{"allow":[{"match":[{"path":["{file./etc/passwd}"]}]}]}`:                      "placeholders are for the Caddyfile",
		`{"allow":[{"match":[{"path":["/x{file./etc/passwd"]}]}]}`:                     "placeholders are for the Caddyfile",
		`{"allow":[{"match":[{"host":["{http.request.header.X}"]}]}]}`:                 "placeholders are for the Caddyfile",
		`{"allow":[{"match":[{"not":[{"query":{"a":["{env.PATH}"]}}]}]}]}`:             "not[0].query: ",
		`{"allow":[{"match":[{"not":[{"not":[{"expression":"true"}]}]}]}]}`:            "not[0].not[0].expression: there is no such matcher",
	} {
		if _, at, err := load(t, "office", text); err == nil || !strings.Contains(at+": "+err.Error(), want) {
			t.Errorf("%s: %s: %v, want %q", text, at, err, want)
		}
	}
	p, _, err := load(t, "office", `{"allow":[{"need":{"groups":["{env.PATH}"]}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	who := Facts{Now: monday, Who: &token.Introspection{Active: true, Person: &authn.Subject{Groups: []string{os.Getenv("PATH")}}}}
	if d := p.judge(t, "GET /", who); d.Outcome != Denied {
		t.Errorf("a group that is named by a placeholder: %v, want a refusal", d.Outcome)
	}
}
