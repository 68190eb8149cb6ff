package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// remoteMatchers are the matchers that a policy of the configuration API can have. Others read files, variables or
// expressions of the server, which is for the operator who writes the Caddyfile.
var remoteMatchers = []string{
	"client_ip", "header", "header_regexp", "host", "method", "not", "path", "path_regexp",
	"protocol", "query", "remote_ip",
}

// Load reads and prepares the JSON of a policy that someone has sent, and not the operator's own configuration: no
// placeholder is resolved, and rules are named by their place in the JSON. checkPublic checks a public path. On an
// error, at is the member that it is about.
func Load(ctx caddy.Context, name string, raw []byte, checkPublic func(string) error) (p *Policy, at string, err error) {
	if err := checkPolicyName(name); err != nil {
		return nil, "", err
	}
	p = new(Policy)
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, "", err
	}
	if p.Empty() && len(p.Public) == 0 {
		return nil, "", coded.New("policy_empty", "it has no rules: write allow, deny or public")
	}
	if len(p.rules()) > maxRules {
		return nil, "", coded.Errorf("policy_rules", "max", "more than %d rules", maxRules)
	}
	for i, open := range p.Public {
		if err := checkPublic(open); err != nil {
			return nil, "public[" + strconv.Itoa(i) + "]", err
		}
	}
	ctx, cancel := caddy.NewContext(ctx)
	defer cancel() // the modules stay usable: none of these matchers has anything to clean up
	for _, part := range []struct {
		kind  string
		rules []*Rule
	}{{"deny", p.Deny}, {"allow", p.Allow}} {
		for i, r := range part.rules {
			at := part.kind + "[" + strconv.Itoa(i) + "]"
			if part.kind == "deny" && r.everything() {
				return nil, at, errDenyAll
			}
			if of, err := r.load(ctx, part.rules[:i]); err != nil {
				return nil, strings.TrimSuffix(at+"."+of, "."), err
			}
			r.Place = "policies." + name + "." + at
		}
	}
	p.CountAs("policy " + name)
	return p, "", nil
}

// load prepares a rule, and says which member is wrong.
func (r *Rule) load(ctx caddy.Context, before []*Rule) (of string, err error) {
	r.Place = ""
	if err := checkName(r.Name); err != nil {
		return "name", err
	}
	if r.Name != "" && slices.ContainsFunc(before, func(o *Rule) bool { return o.Name == r.Name }) {
		return "name", coded.Errorf("rule_taken", "name", "there is a rule %s already: choose another name", r.Name)
	}
	for i, set := range r.Match {
		if len(set) == 0 {
			return "match[" + strconv.Itoa(i) + "]", coded.New("empty_match", "is empty: leave it out for every request")
		}
		if of, err := remoteSet(set); err != nil {
			return "match[" + strconv.Itoa(i) + "]." + of, err
		}
	}
	for i, text := range r.When {
		if _, err := parseWindow(text); err != nil {
			return "when[" + strconv.Itoa(i) + "]", err
		}
	}
	if err := r.provision(ctx, caddyfileutil.NewVerbatimResolver()); err != nil {
		if text, ok := strings.CutPrefix(err.Error(), "match: "); ok {
			if inner := new(coded.Error); errors.As(err, &inner) {
				return "match", fmt.Errorf("%s%w", strings.TrimSuffix(text, inner.Error()), inner)
			}
			return "match", coded.Errorf("policy_part", "reason", "%s", text)
		}
		return "need", coded.Errorf("policy_part", "reason", "%s", err)
	}
	return "", nil
}

// remoteSet checks a set of matchers.
func remoteSet(set caddy.ModuleMap) (of string, err error) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains(remoteMatchers, name) {
			const none = "there is no such matcher for policies of the configuration API, "
			if meant := spelling.Word(name, remoteMatchers); meant != "" {
				return name, coded.Errorf("matcher_meant", "meant", none+"did you mean %s?", meant)
			}
			return name, coded.Errorf("matcher", "list", none+"known are: %s", strings.Join(remoteMatchers, ", "))
		}
		if name == "not" {
			var inner []caddy.ModuleMap
			if err := json.Unmarshal(set[name], &inner); err != nil {
				return name, coded.New("match_list", `want a list of sets of matchers, such as [{"path": ["/admin/*"]}]`)
			}
			for i, set := range inner {
				if of, err := remoteSet(set); err != nil {
					return name + "[" + strconv.Itoa(i) + "]." + of, err
				}
			}
			continue
		}
		var value any
		if err := json.Unmarshal(set[name], &value); err != nil {
			return name, err
		}
		if text := placeholderIn(value); text != "" {
			return name, coded.Errorf("placeholder", "value", "%q: placeholders are for the Caddyfile, since they can read files and secrets of the server", text)
		}
	}
	return "", nil
}

// braces are a placeholder, or the number of repetitions in a regular expression.
var (
	braces      = regexp.MustCompile(`\{[^{}]*\}?`)
	repetitions = regexp.MustCompile(`^\{\d+(,\d*)?\}$`)
)

// placeholderIn returns a placeholder in a value. "": it has no placeholder.
func placeholderIn(v any) string {
	switch v := v.(type) {
	case string:
		for _, text := range braces.FindAllString(v, -1) {
			if !repetitions.MatchString(text) {
				return text
			}
		}
	case []any:
		for _, one := range v {
			if text := placeholderIn(one); text != "" {
				return text
			}
		}
	case map[string]any:
		for name, one := range v {
			if text := placeholderIn(name); text != "" {
				return text
			}
			if text := placeholderIn(one); text != "" {
				return text
			}
		}
	}
	return ""
}

// Book are the policies of the configuration API at one moment. It is not changed.
type Book struct{ policies map[string]*Policy }

// NewBook returns the book of some policies.
func NewBook(policies map[string]*Policy) *Book { return &Book{policies} }

// Named returns a policy, or nil. A book that is nil has none.
func (b *Book) Named(name string) *Policy {
	if b == nil {
		return nil
	}
	return b.policies[name]
}

// All are the policies by their names. They must not be changed.
func (b *Book) All() map[string]*Policy {
	if b == nil {
		return nil
	}
	return b.policies
}
