package policy

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/coded"
)

// textFile is the name of the text of a policy in errors.
const textFile = "policy-text"

// TextError is an error in the text of a policy. Line is from 1 on; 0: none in particular.
type TextError struct {
	Line    int
	Problem string
	cause   error
}

func (e *TextError) Error() string { return e.Problem }

func (e *TextError) Unwrap() error { return e.cause }

// placeInText matches the places that errors of the text name.
var placeInText = regexp.MustCompile(`(?:,? at |\b)` + textFile + `:(\d+)(?::? - Error during parsing: )?`)

// ReadText reads rules in the syntax of the block policy: allow, deny, public. Unlike in a Caddyfile, nothing is filled
// in and nothing is imported. lines are the lines on which the rules begin, those of deny first. The error is a
// *TextError.
func ReadText(text string, checkPublic func(string) error) (p *Policy, lines []int, err error) {
	tokens, err := caddyfile.Tokenize([]byte("policy x {\n"+text+"\n}"), textFile)
	if err != nil {
		return nil, nil, textError(err)
	}
	if wrong := checkBraces(tokens); wrong != nil {
		return nil, nil, wrong
	}
	d := caddyfile.NewDispenser(tokens)
	d.Next()
	read := map[string]*Policy{}
	if err := ReadNamed(d, read, checkPublic); err != nil {
		return nil, nil, textError(err)
	}
	p = read["x"]
	for _, r := range p.rules() {
		_, line, _ := strings.Cut(r.Place, ":")
		n, _ := strconv.Atoi(line)
		lines, r.Place = append(lines, n-1), ""
	}
	return p, lines, nil
}

var (
	errExtra    = coded.New("brace_extra", "there is a closing brace too many")
	errUnclosed = coded.New("brace_missing", "the closing brace of this block is missing")
)

// checkBraces finds a brace that is missing or too many. The first and the last one are around the text.
func checkBraces(tokens []caddyfile.Token) error {
	var open []int
	for i, t := range tokens {
		switch {
		case t.Quoted():
		case t.Text == "{":
			open = append(open, t.Line)
		case t.Text == "}" && len(open) == 1 && i < len(tokens)-1:
			return &TextError{Line: t.Line - 1, Problem: errExtra.Error(), cause: errExtra}
		case t.Text == "}":
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return &TextError{Line: max(1, open[len(open)-1]-1), Problem: errUnclosed.Error(), cause: errUnclosed}
	}
	return nil
}

// textError moves the line of an error out of its words.
func textError(err error) *TextError {
	out := &TextError{Problem: strings.TrimPrefix(err.Error(), "policy x: "), cause: err}
	if m := placeInText.FindStringSubmatch(out.Problem); m != nil {
		line, _ := strconv.Atoi(m[1])
		out.Line, out.Problem = max(1, line-1), strings.TrimSpace(placeInText.ReplaceAllString(out.Problem, ""))
	}
	return out
}

// WriteText returns the rules in the syntax of the block policy, or "" for a policy that has more than this syntax.
func (p *Policy) WriteText() string {
	var b strings.Builder
	for _, part := range []struct {
		word  string
		rules []*Rule
	}{{"deny", p.Deny}, {"allow", p.Allow}} {
		for _, r := range part.rules {
			b.WriteString(part.word + " {\n")
			for _, line := range r.lines() {
				b.WriteString("\t" + line + "\n")
			}
			b.WriteString("}\n")
		}
	}
	if len(p.Public) > 0 {
		b.WriteString(words("public", p.Public...) + "\n")
	}
	text := b.String()
	again, _, err := ReadText(text, func(string) error { return nil })
	if err != nil || !sameJSON(again, p) {
		return ""
	}
	return text
}

// sameJSON reports whether two policies are the same, wherever they are written.
func sameJSON(a, b *Policy) bool {
	var values [2]any
	for i, p := range []*Policy{a, b} {
		c := Policy{Public: p.Public}
		for _, list := range []struct {
			from []*Rule
			to   *[]*Rule
		}{{p.Deny, &c.Deny}, {p.Allow, &c.Allow}} {
			for _, r := range list.from {
				*list.to = append(*list.to, &Rule{Name: r.Name, Match: r.Match, Need: r.Need, When: r.When, Message: r.Message, Audit: r.Audit})
			}
		}
		raw, err := json.Marshal(c)
		if err != nil || json.Unmarshal(raw, &values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// lines are the options of a rule.
func (r *Rule) lines() (out []string) {
	add := func(word string, values ...string) {
		if len(values) > 0 && values[0] != "" {
			out = append(out, words(word, values...))
		}
	}
	add("name", r.Name)
	if len(r.Match) > 0 { // WriteText finds out whether there are more
		out = append(out, matchLines(r.Match[0])...)
	}
	n := &r.Need
	add("need groups", n.Groups...)
	add("need scopes", n.Scopes...)
	add("need level", string(n.Level))
	add("need assurance", string(n.Assurance))
	add("need max_age", string(n.MaxAge))
	for _, c := range n.Claims {
		add("need claim", slices.Concat([]string{c.Name}, c.Values)...)
	}
	add("need person", n.Persons...)
	add("need client", n.Clients...)
	add("need provider", n.Providers...)
	if n.DeviceBound {
		out = append(out, "need device_bound")
	}
	for _, w := range r.When {
		out = append(out, "when "+w)
	}
	add("message", r.Message)
	return out
}

// matchLines are the lines of a set of matchers that a policy of the configuration API can have.
func matchLines(set caddy.ModuleMap) (out []string) {
	for _, name := range sortedKeys(set) {
		begin := "match " + name
		switch name {
		case "path", "host", "method":
			var list []string
			if json.Unmarshal(set[name], &list) == nil {
				out = append(out, words(begin, list...))
			}
		case "client_ip", "remote_ip":
			var m struct {
				Ranges []string `json:"ranges"`
			}
			if json.Unmarshal(set[name], &m) == nil {
				out = append(out, words(begin, m.Ranges...))
			}
		case "protocol":
			var word string
			if json.Unmarshal(set[name], &word) == nil {
				out = append(out, words(begin, word))
			}
		case "path_regexp":
			var m caddyhttp.MatchRegexp
			if json.Unmarshal(set[name], &m) == nil {
				out = append(out, words(begin, named(m.Name, m.Pattern)...))
			}
		case "header_regexp":
			var fields map[string]caddyhttp.MatchRegexp
			if json.Unmarshal(set[name], &fields) == nil {
				for _, field := range sortedKeys(fields) {
					out = append(out, words(begin, named(fields[field].Name, field, fields[field].Pattern)...))
				}
			}
		case "header":
			var fields map[string][]string
			if json.Unmarshal(set[name], &fields) == nil {
				for _, field := range sortedKeys(fields) {
					if fields[field] == nil { // it must not be there
						out = append(out, words(begin, "!"+field))
					}
					for _, value := range fields[field] {
						out = append(out, words(begin, field, value))
					}
				}
			}
		case "query":
			var params map[string][]string
			if json.Unmarshal(set[name], &params) == nil {
				for _, param := range sortedKeys(params) {
					for _, value := range params[param] {
						out = append(out, words(begin, param+"="+value))
					}
				}
			}
		case "not":
			var sets []caddy.ModuleMap
			if json.Unmarshal(set[name], &sets) == nil {
				for _, one := range sets {
					inner := matchLines(one)
					for i, line := range inner {
						inner[i] = strings.TrimPrefix(line, "match ")
					}
					if len(inner) == 1 {
						out = append(out, begin+" "+inner[0])
						continue
					}
					out = append(out, begin+" {\n\t\t"+strings.Join(inner, "\n\t\t")+"\n\t}")
				}
			}
		}
	}
	return out
}

// named puts the optional name of a regular expression first.
func named(name string, rest ...string) []string {
	if name == "" {
		return rest
	}
	return append([]string{name}, rest...)
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// words are a line of the Caddyfile.
func words(first string, values ...string) string {
	for _, v := range values {
		first += " " + caddyfileutil.Quote(v)
	}
	return first
}
