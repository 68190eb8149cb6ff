package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// Subdirectives returns the options that add to a policy:
//
//	allow {
//		name    <name>
//		match   <matcher>...
//		need    groups|scopes|person|client|provider|agent <value>...
//		need    level|assurance <1..4>
//		need    max_age <duration>
//		need    claim <name> <value>...
//		need    device_bound
//		when    [<days>] <from>-<to> <zone>
//		audit   [log]
//	}
//	deny {
//		...
//		message <text>
//	}
func (p *Policy) Subdirectives() caddyfileutil.Subdirectives {
	return caddyfileutil.Subdirectives{
		"allow": func(d *caddyfile.Dispenser) error { return readRule(d, &p.Allow, &reference.Allow) },
		"deny":  func(d *caddyfile.Dispenser) error { return readRule(d, &p.Deny, &reference.Deny) },
	}
}

// ReadNamed reads a named policy into a map. checkPublic checks a public path.
//
//	policy <name> {
//		allow { ... }
//		deny { ... }
//		public <path>...
//	}
func ReadNamed(d *caddyfile.Dispenser, into map[string]*Policy, checkPublic func(string) error) error {
	var name string
	if err := caddyfileutil.ReadName(d, &name, checkPolicyName); err != nil {
		return err
	}
	if into[name] != nil {
		return d.Errf("policy %s is already defined: keep one of them", name)
	}
	p := new(Policy)
	start, known := d.Token(), p.Subdirectives()
	known["public"] = caddyfileutil.Values(&p.Public, checkPublic)
	if err := caddyfileutil.ReadBlock(d, "policy "+name, &reference.Policy, known); err != nil {
		return err
	}
	if p.Empty() && len(p.Public) == 0 {
		return caddyfileutil.At(start, coded.Errorf("policy_empty", "", "policy %s: it has no rules: write allow or deny blocks", name))
	}
	into[name] = p
	return nil
}

var policyName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkPolicyName(s string) error {
	if !policyName.MatchString(s) {
		return coded.Errorf("policy_name", "value", "%q is not the name of a policy: letters, digits and . _ -", s)
	}
	return nil
}

func readRule(d *caddyfile.Dispenser, into *[]*Rule, block *reference.Block) error {
	word := d.Val()
	r := &Rule{Place: fmt.Sprintf("%s:%d", d.File(), d.Line())}
	if d.NextArg() {
		return d.Errf("%s: unexpected argument %q: its parts belong in a block", word, d.Val())
	}
	match := MatcherTokens{}
	known := caddyfileutil.Subdirectives{
		"name":  caddyfileutil.Value(&r.Name, checkName),
		"match": r.readMatch(match),
		"need":  r.Need.ReadLine,
		"when":  r.readWhen,
	}
	deny := block == &reference.Deny
	if deny {
		known["message"] = caddyfileutil.Text(&r.Message)
	} else {
		known["audit"] = r.Audit.Read
	}
	start := d.Token()
	if err := caddyfileutil.ReadBlock(d, word, block, known); err != nil {
		return err
	}
	set, err := match.Set(d)
	if err != nil {
		return err
	}
	if err := CheckMatch(set); err != nil {
		return caddyfileutil.At(start, fmt.Errorf("%s: match %w", word, err))
	}
	if len(set) > 0 {
		r.Match = caddyhttp.RawMatcherSets{set}
	}
	if deny && r.everything() {
		return caddyfileutil.At(start, errDenyAll)
	}
	for _, other := range *into {
		if r.Name != "" && other.Name == r.Name {
			return caddyfileutil.At(start, coded.Errorf("rule_taken", "- name", "%s: there is a rule %s already, at %s: choose another name", word, r.Name, other.Place))
		}
	}
	*into = append(*into, r)
	return nil
}

func checkName(s string) error {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return coded.Errorf("rule_name", "value", "%q is not a name of a rule: at most 64 characters", s)
	}
	return nil
}

func (r *Rule) readWhen(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	text := strings.Join(args, " ")
	if _, err := parseWindow(text); err != nil {
		return d.WrapErr(fmt.Errorf("when: %w", err))
	}
	r.When = append(r.When, text)
	return caddyfileutil.NoMore(d, "when")
}

// ReadLine reads the words after need.
func (n *Need) ReadLine(d *caddyfile.Dispenser) error {
	read := caddyfileutil.Subdirectives{
		"groups":    caddyfileutil.Values(&n.Groups, nil),
		"scopes":    caddyfileutil.Values(&n.Scopes, caddyfileutil.CheckScope),
		"level":     caddyfileutil.Value(&n.Level, caddyfileutil.CheckLevel),
		"assurance": caddyfileutil.Value(&n.Assurance, caddyfileutil.CheckLevel),
		"max_age":   caddyfileutil.Value(&n.MaxAge, caddyfileutil.CheckDuration),
		"claim":     n.readClaim,
		"person":    caddyfileutil.Values(&n.Persons, nil),
		"client":    caddyfileutil.Values(&n.Clients, nil),
		"provider":  caddyfileutil.Values(&n.Providers, nil),

		"device_bound": caddyfileutil.Flag(&n.DeviceBound),
		"agent":        caddyfileutil.Values(&n.Agents, checkAgent),
	}
	words := slices.Sorted(maps.Keys(read))
	if !d.NextArg() {
		return d.Errf("need: say what is needed: one of %s", strings.Join(words, ", "))
	}
	word := d.Val()
	switch meant := spelling.Word(word, words); {
	case read[word] == nil && meant != "":
		return d.Errf("need: unrecognized %q, did you mean %s?", word, meant)
	case read[word] == nil:
		return d.Errf("need: unrecognized %q, known are: %s", word, strings.Join(words, ", "))
	case word == "level" && n.Level != "", word == "assurance" && n.Assurance != "", word == "max_age" && n.MaxAge != "":
		return d.Errf("need: %s is already set", word)
	}
	return read[word](d)
}

func (n *Need) readClaim(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Err("claim: want a name and a value, as in: need claim department finance")
	}
	n.Claims = append(n.Claims, Claim{Name: args[0], Values: args[1:]})
	return caddyfileutil.NoMore(d, "claim")
}

// MatcherTokens are the tokens of the matchers of a rule, by the name of the matcher. As in a named matcher of Caddy,
// several lines with one matcher are joined.
type MatcherTokens map[string][]caddyfile.Token

// Read reads a line or block of matchers after match.
func (m MatcherTokens) Read(d *caddyfile.Dispenser) error {
	found := false
	for nesting := d.Nesting(); d.NextArg() || d.NextBlock(nesting); {
		found = true
		name := d.Val()
		switch {
		case d.Token().Quoted(): // Caddy's short form of an expression
			t := d.Token().Clone()
			t.Text = "expression"
			m["expression"] = append(m["expression"], t, d.Token())
			continue
		case strings.HasPrefix(name, "@"):
			return d.Errf("match: %s is a named matcher, and those belong to directives: write the matcher itself, such as match path /admin/*", name)
		case strings.HasPrefix(name, "/"), name == "*":
			return d.Errf("match: the matcher is missing: write match path %s", name)
		}
		m[name] = append(m[name], d.NextSegment()...)
	}
	if !found {
		return d.Err("match: the matcher is missing: write for example match path /admin/*")
	}
	return nil
}

// Set returns the matchers as JSON.
func (m MatcherTokens) Set(d *caddyfile.Dispenser) (caddy.ModuleMap, error) {
	set := caddy.ModuleMap{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		mod, err := caddy.GetModule("http.matchers." + name)
		if err != nil {
			return nil, caddyfileutil.At(m[name][0], fmt.Errorf("match: %w", noMatcher(name)))
		}
		matcher := mod.New()
		reader, ok := matcher.(caddyfile.Unmarshaler)
		if !ok {
			return nil, caddyfileutil.At(m[name][0], fmt.Errorf("match: the matcher %s cannot be written in a Caddyfile", name))
		}
		if err := reader.UnmarshalCaddyfile(caddyfile.NewDispenser(m[name])); err != nil {
			return nil, err
		}
		if set[name], err = json.Marshal(matcher); err != nil {
			return nil, d.WrapErr(fmt.Errorf("match %s: %w", name, err))
		}
	}
	return set, nil
}

// timeWords and needWords are words that people try as matchers, although they are options of the rule.
var (
	timeWords = []string{"time", "times", "day", "days", "weekday", "weekdays", "weekend", "hour", "hours", "date", "schedule", "between"}
	needWords = []string{
		"group", "groups", "scope", "scopes", "level", "role", "roles", "user", "users", "person", "client", "provider",
		"claim", "max_age", "assurance",
	}
)

// noMatcher returns the error for an unknown matcher, with a suggestion.
func noMatcher(name string) error {
	var known []string
	for _, m := range caddy.GetModules("http.matchers") {
		known = append(known, m.ID.Name())
	}
	slices.Sort(known)
	instead := "known are: " + strings.Join(known, ", ")
	switch meant := spelling.Word(name, known); {
	case slices.Contains(timeWords, name):
		instead = "days and hours are an option of the rule, such as `when mon-fri 07:00-19:00 Europe/Amsterdam`"
	case slices.Contains(needWords, name):
		instead = "what people and clients must have is an option of the rule, such as `need groups staff`"
	case meant != "":
		instead = "did you mean " + meant + "?"
	}
	return fmt.Errorf("there is no matcher %s: %s", name, instead)
}

// AsksForPath reports whether a set of matchers can depend on the path. A matcher that is unknown here can.
func AsksForPath(set caddy.ModuleMap) bool { return partsOf(set).Path }
