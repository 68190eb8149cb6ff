package explain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// Cases are requests and what an operator wants them to get.
type Cases struct {
	List    []Case
	callers map[string]caller
	known   func(name string) (protect.Caller, error)
	site    string
	at      time.Time
}

// Case is one line of a file of cases.
type Case struct {
	Place  string          // file:line
	Want   protect.Verdict // or a denial, for any reason. Empty: nothing is wanted
	Caller string          // "-": a stranger
	Rule   string          // which must decide. Empty: any
	Request

	at    time.Time
	level int
	age   time.Duration
}

type caller struct {
	who     token.Introspection
	browser bool
	age     time.Duration
}

// wanted are the words that begin a case.
var wanted = map[string]protect.Verdict{
	"allow": protect.Allow, "deny": protect.Deny, "sign-in": protect.SignIn, "step-up": protect.StepUp, "renew": protect.Again,
	"public": protect.Open, "invalid": protect.Invalid, "?": "",
}

// ReadCases reads a file of cases, in the syntax of a Caddyfile:
//
//	site <origin>
//	at   <time>
//	person <name> {
//		groups|scopes <value>...
//		level <1..4>
//		age <duration>
//		client|provider|partition|id <value>
//		claim <name> <value>...
//	}
//	client <id> {
//		scopes <scope>...
//	}
//	allow|deny|sign-in|step-up|renew|public|invalid|? <caller> <method> <path|url> [<word> <value>]...
//
// known returns callers that the file does not describe. nil: there are none.
func ReadCases(text []byte, file string, known func(name string) (protect.Caller, error)) (*Cases, error) {
	tokens, err := caddyfile.Tokenize(text, file)
	if err != nil && !errors.Is(err, io.EOF) { // an empty file
		return nil, err
	}
	c := &Cases{callers: map[string]caller{}, known: known}
	d := caddyfile.NewDispenser(tokens)
	for d.Next() {
		if err := c.line(d); err != nil {
			return nil, d.WrapErr(err)
		}
	}
	if len(c.List) == 0 {
		return nil, fmt.Errorf("%s has no cases: write for example `allow ada GET /reports`", file)
	}
	return c, nil
}

// line reads one line or block.
func (c *Cases) line(d *caddyfile.Dispenser) (err error) {
	word := d.Val()
	if want, ok := wanted[word]; ok {
		return c.readCase(d, want)
	}
	switch word {
	case "site":
		if !d.AllArgs(&c.site) || !strings.Contains(c.site, "://") {
			return fmt.Errorf("site: want the origin of the cases that follow, such as https://wiki.example.com")
		}
		c.site = strings.TrimSuffix(c.site, "/")
		return nil
	case "at":
		var at string
		if !d.AllArgs(&at) {
			return fmt.Errorf("at: want the time of the cases that follow")
		}
		c.at, err = readTime(at)
		return err
	case "person", "client":
		return c.readCaller(d, word)
	}
	known := append(slices.Collect(maps.Keys(wanted)), "site", "at", "person", "client")
	if meant := spelling.Word(word, known); meant != "" {
		return fmt.Errorf("unrecognized %q, did you mean %s?", word, meant)
	}
	slices.Sort(known)
	return fmt.Errorf("unrecognized %q, a line begins with one of %s", word, strings.Join(known, ", "))
}

func readTime(s string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return at, fmt.Errorf("at: want a time such as 2026-11-23T12:00:00Z, not %q", s)
	}
	return at, nil
}

// readCaller reads a person or client.
func (c *Cases) readCaller(d *caddyfile.Dispenser, kind string) error {
	var name string
	if !d.Args(&name) || name == "{" || name == "-" {
		return fmt.Errorf("%s: want a name", kind)
	}
	if _, twice := c.callers[name]; twice {
		return fmt.Errorf("%s: %s is described twice", kind, name)
	}
	out := caller{browser: kind == "person", who: token.Introspection{Active: true, Subject: name, TokenType: token.TypeBearer}}
	w := &out.who
	if kind == "client" {
		w.ClientID = name
	} else {
		w.Level, w.Person = 1, &authn.Subject{
			ID: name, Active: true, Username: name, Profile: map[string]string{},
			Details: map[string][]string{},
		}
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		word, args := d.Val(), d.RemainingArgs()
		if len(args) == 0 {
			return fmt.Errorf("%s %s: %s: a value is missing", kind, name, word)
		}
		if err := out.member(word, args); err != nil {
			return fmt.Errorf("%s %s: %w", kind, name, err)
		}
	}
	c.callers[name] = out
	return nil
}

func (o *caller) member(word string, args []string) (err error) {
	w := &o.who
	switch {
	case word == "scopes":
		w.Scope, o.browser = args, false
		return nil
	case w.Person == nil:
		return fmt.Errorf("unrecognized %q: a client has scopes", word)
	case word == "groups":
		w.Person.Groups = args
		return nil
	case word == "claim" && len(args) > 1:
		if w.Person.Details[args[0]] = args[1:]; len(args) == 2 {
			w.Person.Profile[args[0]] = args[1]
		}
		return nil
	case len(args) > 1 || word == "claim":
		return fmt.Errorf("%s: want one value, or a name and values for a claim", word)
	}
	switch word {
	case "level":
		w.Level, err = readLevel(args[0])
	case "assurance":
		level, err := readAssurance(args[0])
		w.Person.Assurance = authn.Assurance{{Kind: authn.EvidenceDocument, By: "the case", Level: level}}
		return err
	case "age":
		o.age, err = readAge(args[0])
	case "client":
		w.ClientID, o.browser = args[0], false
	case "provider":
		w.Provider = args[0]
	case "partition":
		w.Person.Partition = args[0]
	case "id":
		w.Subject, w.Person.ID = args[0], args[0]
	default:
		return fmt.Errorf("unrecognized %q: a person has groups, scopes, level, assurance, age, client, provider, partition, id and claim", word)
	}
	return err
}

func readAssurance(s string) (int, error) {
	n, err := readLevel(s)
	if err != nil {
		return 0, fmt.Errorf("assurance: want 1 to 4, not %q", s)
	}
	return n, nil
}

func readLevel(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 4 {
		return 0, fmt.Errorf("level: want 1 to 4, not %q", s)
	}
	return n, nil
}

func readAge(s string) (time.Duration, error) {
	age, err := time.ParseDuration(s)
	if err != nil || age < 0 {
		return 0, fmt.Errorf("age: want a duration such as 2h, not %q", s)
	}
	return age, nil
}

func (c *Cases) readCase(d *caddyfile.Dispenser, want protect.Verdict) (err error) {
	k := Case{Place: fmt.Sprintf("%s:%d", d.File(), d.Line()), Want: want, at: c.at, age: -1, Request: Request{Headers: http.Header{}}}
	args := d.RemainingArgs()
	if len(args) < 3 || len(args)%2 == 0 {
		return fmt.Errorf("%s: want who, method and path, then pairs of a word and a value, as in: %s ada GET /reports level 2", d.Val(), want)
	}
	if k.Caller, k.Method, k.URL = args[0], args[1], args[2]; strings.HasPrefix(k.URL, "/") {
		if c.site == "" {
			return fmt.Errorf("a path needs a line `site https://wiki.example.com` before it")
		}
		k.URL = c.site + k.URL
	}
	if _, ok := c.callers[k.Caller]; !ok && k.Caller != "-" {
		if err := c.recognize(k.Caller); err != nil {
			return err
		}
	}
	for i := 3; i < len(args); i += 2 {
		word, value := args[i], args[i+1]
		switch word {
		case "rule":
			k.Rule = value
		case "ip":
			k.IP = value
		case "at":
			k.at, err = readTime(value)
		case "level":
			k.level, err = readLevel(value)
		case "age":
			k.age, err = readAge(value)
		case "header":
			name, v, ok := strings.Cut(value, ":")
			if !ok {
				return fmt.Errorf("header: want \"Name: value\", not %q", value)
			}
			k.Headers.Add(strings.TrimSpace(name), strings.TrimSpace(v))
		default:
			return fmt.Errorf("unrecognized %q, known are rule, at, ip, level, age, header", word)
		}
		if err != nil {
			return err
		}
	}
	c.List = append(c.List, k)
	return nil
}

// recognize looks for a caller that the file does not describe.
func (c *Cases) recognize(name string) error {
	if c.known != nil {
		found, err := c.known(name)
		if err != nil {
			return err
		}
		if found.Who != nil {
			out := caller{who: *found.Who, browser: found.Browser}
			if out.who.Person != nil {
				out.age = found.Now.Sub(out.who.AuthTime)
			}
			c.callers[name] = out
			return nil
		}
	}
	return fmt.Errorf("no one describes %q: write a block `person %s { … }` before it, or - for a stranger", name, name)
}

// Outcome is the outcome of a case.
type Outcome struct {
	Case   string  `json:"case"` // file:line
	OK     bool    `json:"ok"`
	Reason string  `json:"reason,omitempty"` // what is other than wanted, or what it gets if nothing is wanted
	Answer *Answer `json:"answer,omitempty"`
}

// Run puts every case to what answers. now is the time of cases that name none.
func (c *Cases) Run(ctx context.Context, ask func(context.Context, Request, protect.Caller) (*Answer, error),
	now time.Time,
) (out []Outcome, err error) {
	for i := range c.List {
		k := &c.List[i]
		a, err := ask(ctx, k.Request, c.callerOf(k, now))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Place, err)
		}
		o := Outcome{Case: k.Place, Answer: a}
		rule, place := a.Decider()
		switch {
		case k.Want == "" && k.Rule == "":
			o.OK, o.Reason = true, "got "+string(a.Verdict)
		case k.Want != "" && a.Verdict != k.Want:
			o.Reason = fmt.Sprintf("want %s, got %s", k.Want, a.Verdict)
		case k.Rule != "" && rule != k.Rule && place != k.Rule:
			o.Reason = "want the rule " + k.Rule + " to decide"
		default:
			o.OK = true
		}
		if o.Reason != "" {
			switch {
			case rule != "" && strings.HasSuffix(rule, place):
				o.Reason += ": " + rule + " decides"
			case rule != "":
				o.Reason += ": the rule " + rule + " at " + place + " decides"
			case len(a.Steps) == 0:
				o.Reason += ": no protect stands on its way"
			default:
				last := a.Steps[len(a.Steps)-1]
				o.Reason += ": no rule decides, but protect at " + last.Place
				if last.Why != "" {
					o.Reason += ", since " + last.Why
				}
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// Decider is the rule that has decided, and its place.
func (a *Answer) Decider() (rule, place string) {
	for i := len(a.Steps) - 1; i >= 0; i-- {
		for _, l := range a.Steps[i].Rules {
			if l.Decides {
				return l.Rule, l.Place
			}
		}
	}
	return "", ""
}

// callerOf returns who makes the request of a case.
func (c *Cases) callerOf(k *Case, now time.Time) protect.Caller {
	if !k.at.IsZero() {
		now = k.at
	}
	o, ok := c.callers[k.Caller]
	if !ok {
		return protect.Caller{Now: now}
	}
	who := o.who
	if k.level > 0 && who.Person != nil {
		who.Level = k.level
	}
	if age := o.age; who.Person != nil {
		if k.age >= 0 {
			age = k.age
		}
		who.AuthTime = now.Add(-age)
	}
	return protect.Caller{Who: &who, Browser: o.browser, Now: now}
}
