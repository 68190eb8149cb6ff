package policy

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func anyPath(string) error { return nil }

// TestWriteText: what is written in the syntax of the Caddyfile is read as the same rules; a policy that has more than
// this syntax is not written.
func TestWriteText(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, policy, want string }{
		{"groups", `{"allow":[{"name":"staff","need":{"groups":["staff","the board"]}}]}`, `need groups staff "the board"`},
		{"levels", `{"allow":[{"need":{"level":"3","assurance":"2","max_age":"1h"}}]}`, "need level 3\n\tneed assurance 2\n\tneed max_age 1h"},
		{
			"callers", `{"allow":[{"need":{"persons":["ann"],"clients":["ci"],"providers":["corp"],"scopes":["orders.read"]}}]}`,
			"need scopes orders.read\n\tneed person ann\n\tneed client ci\n\tneed provider corp",
		},
		{"claims", `{"allow":[{"need":{"claims":[{"name":"department","values":["finance","a b"]}]}}]}`, `need claim department finance "a b"`},
		{"hours", `{"allow":[{"when":["mon-fri 07:00-19:00 Europe/Amsterdam"]}]}`, "when mon-fri 07:00-19:00 Europe/Amsterdam"},
		{"message", `{"deny":[{"match":[{"path":["/a"]}],"message":"Say \"please\" {first}"}]}`, `message "Say \"please\" {first}"`},
		{"paths and methods", `{"deny":[{"match":[{"path":["/a/*","/b"],"method":["POST"]}]}]}`, "match method POST\n\tmatch path /a/* /b"},
		{"addresses", `{"deny":[{"match":[{"client_ip":{"ranges":["192.0.2.0/24"]}}]}]}`, "match client_ip 192.0.2.0/24"},
		{"headers", `{"deny":[{"match":[{"header":{"X-A":["1","2"],"X-B":null}}]}]}`, "match header X-A 1\n\tmatch header X-A 2\n\tmatch header !X-B"},
		{"expressions", `{"deny":[{"match":[{"path_regexp":{"pattern":"^/x{2}$"}}]}]}`, `match path_regexp ^/x{2}$`},
		{"named expression", `{"deny":[{"match":[{"header_regexp":{"X-A":{"name":"a","pattern":"^b"}}}]}]}`, "match header_regexp a X-A ^b"},
		{"query", `{"deny":[{"match":[{"query":{"debug":["1"]}}]}]}`, "match query debug=1"},
		{"not", `{"deny":[{"match":[{"not":[{"path":["/a"]}]}]}]}`, "match not path /a"},
		{"not two", `{"deny":[{"match":[{"not":[{"method":["GET"],"path":["/a"]},{"host":["h.example"]}]}]}]}`, "match not host h.example"},
		{"protocol", `{"deny":[{"match":[{"protocol":"http"}]}]}`, "match protocol http"},
		{"public", `{"public":["/health","/a b"]}`, `public /health "/a b"`},
		{"one of two sets", `{"deny":[{"match":[{"path":["/a"]},{"path":["/b"]}]}]}`, ""},
		{"a matcher without words here", `{"deny":[{"match":[{"vars":{"a":["b"]}}]}]}`, ""},
		{"backslash at the end", `{"deny":[{"match":[{"path":["/a"]}],"message":"a\\"}]}`, "message `" + `a\` + "`"},
	} {
		p := new(Policy)
		if err := json.Unmarshal([]byte(tc.policy), p); err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		text := p.WriteText()
		if tc.want == "" {
			if text != "" {
				t.Errorf("%s is written as\n%s", tc.name, text)
			}
			continue
		}
		if !strings.Contains(text, tc.want) {
			t.Errorf("%s is written as\n%s\nwant %q", tc.name, text, tc.want)
			continue
		}
		again, _, err := ReadText(text, anyPath)
		var got, want any
		raw, _ := json.Marshal(again)
		if err != nil || json.Unmarshal(raw, &got) != nil || json.Unmarshal([]byte(tc.policy), &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read again as %s, %v, want %s", tc.name, raw, err, tc.policy)
		}
	}
}

// TestReadText: what is wrong is said with its line, and nothing of the server is filled in.
func TestReadText(t *testing.T) {
	t.Setenv("TEXT_OF_POLICY", "from the environment")
	for _, tc := range []struct {
		name, text string
		line       int
		reason     string
	}{
		{"an option that is misspelled", "allow {\n\tneeds groups staff\n}", 2, "did you mean need?"},
		{"a need that is misspelled", "allow {\n\tname a\n\tneed group staff\n}", 3, "did you mean groups?"},
		{"a matcher that does not exist", "deny {\n\tmatch weekday sun\n}", 2, "days and hours are an option of the rule"},
		{"an hour that does not exist", "\n\nallow {\n\twhen 25:00-26:00\n}", 4, "when"},
		{"no rules", "", 0, "it has no rules"},
		{"a brace is missing", "allow {\n\tneed groups staff\n", 1, "closing brace of this block is missing"},
		{"a brace too many", "allow {\n\tneed groups staff\n}\n}\nallow {\n}", 4, "brace too many"},
		{"no file is imported", "import /etc/passwd", 1, "import"},
	} {
		_, _, err := ReadText(tc.text, anyPath)
		wrong := new(TextError)
		if !errors.As(err, &wrong) || tc.line > 0 && wrong.Line != tc.line || !strings.Contains(wrong.Problem, tc.reason) ||
			strings.Contains(wrong.Problem, textFile+":") || strings.Contains(wrong.Problem, "policy x") {
			t.Errorf("%s: %+v, want line %d and %q", tc.name, err, tc.line, tc.reason)
		}
	}
	p, lines, err := ReadText("allow {\n\tname {$TEXT_OF_POLICY}\n}\n\ndeny {\n\tmatch path /a\n}\nallow {\n\tname {env.TEXT_OF_POLICY}\n}", anyPath)
	if err != nil || !slices.Equal(lines, []int{5, 1, 8}) {
		t.Fatalf("lines = %d, %v", lines, err)
	}
	if p.Allow[0].Name != "{$TEXT_OF_POLICY}" || p.Allow[1].Name != "{env.TEXT_OF_POLICY}" {
		t.Errorf("names = %q and %q, want them as they are written", p.Allow[0].Name, p.Allow[1].Name)
	}
}
