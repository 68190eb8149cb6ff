package policy

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// TestMatchersThatNeverMatch: a rule that no request can meet is a mistake, in the Caddyfile and in JSON alike.
func TestMatchersThatNeverMatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"path":["https://wiki.example.com/hr/*"]}`:       "a path has no scheme and no host: write match host, and the path alone",
		`{"path":["^/hr/.*"]}`:                             "it is a regular expression: write match path_regexp",
		`{"path":["hr/*"]}`:                                `"hr/*" matches no request, since a path begins with /: write /hr/*`,
		`{"path":["/a","hr"]}`:                             "write /hr",
		`{"path":[""]}`:                                    "write /*",
		`{"path":[]}`:                                      "names nothing",
		`{"path":["/a?x=1"]}`:                              "a path has no query",
		`{"path":["/a."]}`:                                 "write /a",
		`{"path":["/a/../b"]}`:                             "has no . and ..",
		`{"path":["//hr/*"]}`:                              "no empty segment where rules look at it: write /hr/*",
		`{"path":["/h%72/*"]}`:                             "r needs no escape in a path: write /hr/*",
		`{"path":["/%41bc"]}`:                              "A needs no escape in a path: write /Abc",
		`{"path":["/a%2Fb"]}`:                              "a path with %2F is refused before the rules",
		`{"path":["/a%2e%2e/b"]}`:                          "a path with %2e is refused before the rules",
		`{"path":["/a%00"]}`:                               "a path with %00 is refused before the rules",
		`{"path":["/100%"]}`:                               "write %25 for a percent sign",
		`{"path":["/a%zz"]}`:                               "%zz is not an escaped character",
		`{"path":["/a%20b/*","/caf%C3%A9","/a%*"]}`:        "",
		`{"path":["/a#b"]}`:                                "no fragment",
		`{"method":["DELET"]}`:                             "did you mean DELETE?",
		`{"method":["GET","put ","pst"]}`:                  "write each method separately",
		`{"method":["pacth"]}`:                             "did you mean PATCH?",
		`{"not":[{"method":["OPTION"]}]}`:                  "did you mean OPTIONS?",
		`{"method":["PROPFIND","m-search","FROBNICATE"]}`:  "",
		`{"not":[{"path":["hr/*"]}]}`:                      "write /hr/*",
		`{"path_regexp":{"pattern":"^hr/"}}`:               "write ^/hr/",
		`{"method":["POST,PUT"]}`:                          "write each method separately",
		`{"method":[]}`:                                    "names nothing",
		`{"host":["https://wiki.example.com"]}`:            "a host is a name alone",
		`{"host":[""]}`:                                    "a host is a name alone",
		`{"host":["wiki.example.com:443"]}`:                "without its port",
		`{"host":["wiki.example.com."]}`:                   "without a dot",
		`{"protocol":"spdy"}`:                              "known are",
		`{"path":["/hr/*","*.php","*"]}`:                   "",
		`{"path":["{http.request.uri.path}"]}`:             "",
		`{"path_regexp":{"pattern":"^/hr/|/x"}}`:           "",
		`{"path_regexp":{"pattern":"(?i)^/hr"}}`:           "",
		`{"method":["delete"]}`:                            "",
		`{"host":["*.example.com","::1","[::1]"]}`:         "",
		`{"protocol":"http/2+"}`:                           "",
		`{"client_ip":{"ranges":["10.0.0.0/8"]}}`:          "",
		`{"client_ip":{"ranges":["::ffff:10.0.0.0/104"]}}`: "write 10.0.0.0/8",
		`{"remote_ip":{"ranges":["::ffff:10.0.0.7"]}}`:     "write 10.0.0.7/32",
	} {
		var set caddy.ModuleMap
		if err := json.Unmarshal([]byte(text), &set); err != nil {
			t.Fatal(err)
		}
		err := CheckMatch(set)
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.Contains(got, want) {
				t.Errorf("CheckMatch(%s) = %q, want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("CheckMatch(%s) = nil, want %q", text, want)
		}
	}
}

// TestPolicyThatAllowsNothing: neither a policy that refuses everything nor one that refuses and never allows is meant.
func TestPolicyThatAllowsNothing(t *testing.T) {
	t.Parallel()
	for _, path := range []string{`["/*"]`, `["*"]`, `["/a","*"]`} {
		r := &Rule{Match: []caddy.ModuleMap{{"path": []byte(path)}}}
		if !r.everything() {
			t.Errorf("a deny rule for the path %s does not refuse everything", path)
		}
	}
	if r := (&Rule{Match: []caddy.ModuleMap{{"path": []byte(`["/*"]`), "method": []byte(`["PUT"]`)}}}); r.everything() {
		t.Error("a deny rule for a method refuses everything")
	}
	deny, allow := []*Rule{{Place: "Caddyfile:3"}}, []*Rule{{}}
	if f, ok := (&Policy{Deny: deny}).DeniesAlone("abroad"); !ok || f.Place != "Caddyfile:3" || f.About != "policy abroad" {
		t.Errorf("DeniesAlone = %+v, %t, want a finding", f, ok)
	}
	if _, ok := (&Policy{Deny: deny, Allow: allow}).DeniesAlone("office"); ok {
		t.Error("a policy that allows has the finding")
	}
}

// TestPartsOfMatchers: which parts of a request decide.
func TestPartsOfMatchers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"path":["/a"]}`:                                                  "path",
		`{"method":["PUT"]}`:                                               "method",
		`{"query":{"a":["1"]}}`:                                            "query a",
		`{"host":["a"]}`:                                                   "host",
		`{"client_ip":{"ranges":[]}}`:                                      "address",
		`{"remote_ip":{"ranges":[]}}`:                                      "address",
		`{"header":{"A":["1"]}}`:                                           "",
		`{"not":[{"method":["PUT"],"query":{"b":["1"]}}]}`:                 "method query b",
		`{"expression":{"expr":"{http.request.method} == 'PUT'"}}`:         "path method",
		`{"expression":"{query.debug} == '1' && client_ip('10.0.0.0/8')"}`: "path query address",
		`{"expression":"{http.request.uri.path}.startsWith('/a')"}`:        "path",
		`{"of_others":{}}`:                                                 "path method query host",
	} {
		var set caddy.ModuleMap
		if err := json.Unmarshal([]byte(text), &set); err != nil {
			t.Fatal(err)
		}
		p := partsOf(set)
		var got []string
		for name, is := range map[string]bool{
			"1 path": p.Path, "2 method": p.Method, "3 query": p.Query, "4 host": p.Host,
			"5 address": p.Address,
		} {
			if is {
				got = append(got, name)
			}
		}
		all := strings.Join(sorted(got), " ") + strings.Join(append([]string{""}, p.Params...), " ")
		if all != want {
			t.Errorf("partsOf(%s) = %q, want %q", text, all, want)
		}
	}
}

// sorted returns names in the order of the numbers in front of them, without these.
func sorted(numbered []string) (names []string) {
	for i := '1'; i <= '5'; i++ {
		for _, s := range numbered {
			if strings.HasPrefix(s, string(i)) {
				names = append(names, s[2:])
			}
		}
	}
	return names
}
