package policy

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// read returns the policy of a block of the Caddyfile.
func read(text string) (*Policy, error) {
	p := new(Policy)
	d := caddyfile.NewTestDispenser("policy {\n" + text + "\n}")
	d.Next()
	known := p.Subdirectives()
	known["public"] = caddyfileutil.Values(&p.Public, nil)
	return p, caddyfileutil.ReadBlock(d, "policy", &reference.Policy, known)
}

func start(t testing.TB, text string) *Policy {
	t.Helper()
	p, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	if err := p.Provision(ctx, "policy", caddyfileutil.NewResolver(caddy.NewReplacer())); err != nil {
		t.Fatal(err)
	}
	return p
}

// judge decides about "GET /path" for someone.
func (p *Policy) judge(t testing.TB, request string, who Facts) Decision {
	t.Helper()
	method, path, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, path, nil)
	w := httptest.NewRecorder()
	s, err := p.Select(caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, new(caddyhttp.Server)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s.Judge(who)
}

var monday = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// someone is a person of some groups, with a session at the site of a level, who signed in an hour ago.
func somebody(level int, groups ...string) Facts {
	return Facts{Browser: true, Now: monday, Who: &token.Introspection{
		Active: true, Subject: "p1", Level: level, AuthTime: monday.Add(-time.Hour), ClientID: "wiki", Provider: "office",
		Person: &authn.Subject{
			ID: "p1", Username: "ada", Groups: groups,
			Profile: map[string]string{"department": "finance", "email": "ada@example.com"},
			Details: map[string][]string{"roles": {"reader", "writer"}},
		},
	}}
}

// machine is a client with a token of its own.
func machine(scope ...string) Facts {
	return Facts{Now: monday, Who: &token.Introspection{Active: true, Subject: "deploy", ClientID: "deploy", Scope: scope}}
}

// bearer is a person's token.
func bearer(f Facts, scope ...string) Facts {
	f.Browser, f.Who.Scope = false, scope
	return f
}

const rules = `
deny {
	name abroad
	match not client_ip 10.0.0.0/8
	match path /hr/*
	message Only from the office.
}
deny {
	name contractors
	match path /hr/*
	need groups contractors
}
allow {
	name admins
	match path /admin/*
	match method POST DELETE
	need groups admins
	need level 3
}
allow {
	name readers
	match path /admin/*
	match method GET
	need groups admins auditors
	need max_age 30m
}
allow {
	name deploy
	match path /deploy
	need client deploy
	need scopes deploy
}
allow {
	name office
	match path /hr/* /wiki/*
	need groups staff
	when mon-fri 07:00-19:00 Europe/Amsterdam
}`

func TestJudge(t *testing.T) {
	t.Parallel()
	p := start(t, rules)
	sunday := func(f Facts) Facts { f.Now = f.Now.Add(-24 * time.Hour); return f }
	stranger := Facts{Now: monday}
	for _, c := range []struct {
		what, request string
		who           Facts
		want          Outcome
		rule          string
	}{
		{"staff", "GET /wiki/x", somebody(1, "staff"), Allowed, "office"},
		{"staff on a Sunday", "GET /wiki/x", sunday(somebody(1, "staff")), Denied, ""},
		{"a guest", "GET /wiki/x", somebody(1, "guests"), Denied, ""},
		{"a stranger", "GET /wiki/x", stranger, SignIn, "office"},
		{"a stranger on a Sunday", "GET /wiki/x", sunday(stranger), Denied, ""},
		{"a stranger where no rule is", "GET /other", stranger, Denied, ""},
		{"staff where no rule is", "GET /other", somebody(1, "staff"), Denied, ""},
		{"an administrator", "POST /admin/x", somebody(3, "admins"), Allowed, "admins"},
		{"an administrator with a password", "POST /admin/x", somebody(1, "admins"), StepUp, "admins"},
		{"staff at the strongest level", "POST /admin/x", somebody(4, "staff"), Denied, ""},
		{"a method of no rule", "PUT /admin/x", somebody(4, "admins"), Denied, ""},
		{"an auditor who signed in long ago", "GET /admin/x", somebody(1, "auditors"), Renew, "readers"},
		{"a client", "GET /deploy", machine("deploy"), Allowed, "deploy"},
		{"a client without the scope", "GET /deploy", machine("read"), Scope, "deploy"},
		{"a client where persons are wanted", "POST /admin/x", machine("deploy"), Denied, ""},
		{"a person where a client is wanted", "GET /deploy", somebody(4, "admins"), Denied, ""},
		{"staff from elsewhere", "GET /hr/x", somebody(4, "staff"), Denied, "abroad"},
		{"a stranger from elsewhere", "GET /hr/x", stranger, Denied, "abroad"},
		{"an ended session", "GET /wiki/x", Facts{Now: monday, Who: &token.Introspection{}}, SignIn, "office"},
	} {
		got := p.judge(t, c.request, c.who)
		name := ""
		if got.Rule != nil {
			name = got.Rule.Name
		}
		if got.Outcome != c.want || name != c.rule {
			t.Errorf("%s, %s: outcome %d by %q, want %d by %q", c.what, c.request, got.Outcome, name, c.want, c.rule)
		}
	}
}

func paying() Facts {
	f := machine("deploy")
	f.Who.AuthorizationDetails = `[{"actions":["initiate"],"type":"payment"}]`
	return f
}

// Each kind of need decides, both ways.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for need, c := range map[string]struct {
		who  Facts
		want Outcome
	}{
		"groups staff admins":         {somebody(1, "staff"), Allowed},
		"groups admins":               {somebody(1, "staff"), Denied},
		"level 2":                     {somebody(2), Allowed},
		"level 4":                     {somebody(3), StepUp},
		"max_age 61m":                 {somebody(1), Allowed},
		"max_age 1h":                  {somebody(1), Renew},
		"claim department hr finance": {somebody(1), Allowed},
		"claim department hr":         {somebody(1), Denied},
		"claim roles writer":          {somebody(1), Allowed},
		"claim roles reader,writer":   {somebody(1), Denied},
		"claim nothing x":             {somebody(1), Denied},
		"claim sub p1":                {somebody(1), Allowed},

		"claim authorization_details.payment initiate": {paying(), Allowed},
		"claim authorization_details.payment cancel":   {paying(), Denied},
		"claim authorization_details.account initiate": {paying(), Denied},

		"claim email ada@example.com":    {somebody(1), Allowed},
		"person ada":                     {somebody(1), Allowed},
		"person p1":                      {somebody(1), Allowed},
		"person eve":                     {somebody(1), Denied},
		"client wiki":                    {somebody(1), Allowed},
		"client other":                   {somebody(1), Denied},
		"provider office":                {somebody(1), Allowed},
		"provider home":                  {somebody(1), Denied},
		"scopes read write":              {bearer(somebody(1), "read", "write"), Allowed},
		"scopes read  write":             {bearer(somebody(1), "read"), Scope},
		"scopes everything":              {somebody(1), Allowed}, // a browser
		"level 1":                        {machine(), Denied},
		"max_age 24h":                    {machine(), Denied},
		"claim username deploy":          {machine(), Denied},
		"claim client_id deploy":         {machine(), Allowed},
		"groups x\nneed level 4":         {somebody(1, "staff"), Denied},
		"groups staff\nneed level 4":     {somebody(1, "staff"), StepUp},
		"claim sub p1\nneed claim sub x": {somebody(1), Denied},
	} {
		if got := start(t, "allow {\nneed "+need+"\n}").judge(t, "GET /", c.who).Outcome; got != c.want {
			t.Errorf("need %s: %d, want %d", need, got, c.want)
		}
	}
}

// What a scope demands is asked of a browser, which has no scopes of its own, and not of a token, which has the scope.
// A deny rule for a scope holds at every level.
func TestLevelsOfScopes(t *testing.T) {
	t.Parallel()
	demands := func(scope string) (level, assurance int) {
		return map[string]int{"pay": 3, "read": 1}[scope], map[string]int{"vote": 2}[scope]
	}
	assured := func(f Facts) Facts {
		f.Who.Person.Assurance = authn.Assurance{{Kind: authn.EvidenceDocument, By: "desk", Level: 2, Until: monday.Add(time.Hour)}}
		return f
	}
	for name, c := range map[string]struct {
		rule string
		who  Facts
		want Outcome
	}{
		"browser below":              {"allow {\nneed scopes read pay\n}", somebody(2), StepUp},
		"browser there":              {"allow {\nneed scopes read pay\n}", somebody(3), Allowed},
		"browser, other scope":       {"allow {\nneed scopes read\n}", somebody(1), Allowed},
		"the rule wants more":        {"allow {\nneed scopes pay\nneed level 4\n}", somebody(3), StepUp},
		"group lacking":              {"allow {\nneed scopes pay\nneed groups admins\n}", somebody(1), Denied},
		"identity not assured":       {"allow {\nneed scopes vote pay\n}", somebody(1), Unassured},
		"identity assured":           {"allow {\nneed scopes vote\n}", assured(somebody(1)), Allowed},
		"token":                      {"allow {\nneed scopes pay\n}", bearer(somebody(1), "pay"), Allowed},
		"token without":              {"allow {\nneed scopes pay\n}", bearer(somebody(4)), Scope},
		"machine":                    {"allow {\nneed scopes pay\n}", machine("pay"), Allowed},
		"the next rule is not asked": {"allow {\nneed scopes pay\n}\nallow {\nneed groups staff\n}", somebody(1, "staff"), StepUp},
		"deny, browser below":        {"deny {\nneed scopes pay\n}", somebody(1), Denied},
		"deny, identity not assured": {"deny {\nneed scopes vote\n}", somebody(1), Denied},
		"deny, token without":        {"deny {\nneed scopes pay\n}", bearer(somebody(1)), Allowed},
	} {
		c.who.Demands = demands
		if got := start(t, c.rule).judge(t, "GET /", c.who).Outcome; got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	vote := assured(somebody(1))
	vote.Demands = demands
	if at := (&Need{Scopes: []string{"vote"}}).Changes(vote); !at.Equal(monday.Add(time.Hour)) {
		t.Errorf("a need of a scope changes at %v, want the end of what assures the identity", at)
	}
}

// An address that no one has verified is no claim: anybody can have typed it.
func TestNeedIgnoresUnverifiedEmail(t *testing.T) {
	t.Parallel()
	p := start(t, "allow {\nneed claim email ada@example.com\n}")
	eve := somebody(1)
	eve.Who.Person.Profile["email_verified"] = "false"
	if got := p.judge(t, "GET /", eve).Outcome; got != Denied {
		t.Errorf("outcome %d for an unverified address, want a refusal", got)
	}
}

// Without allow rules the other conditions of the site decide, and deny rules still refuse.
func TestDenyAlone(t *testing.T) {
	t.Parallel()
	p := start(t, "deny {\nmatch path /private/*\nneed groups guests\n}")
	for request, want := range map[string]Outcome{"GET /": Allowed, "GET /private/x": Denied} {
		if got := p.judge(t, request, somebody(1, "guests")).Outcome; got != want {
			t.Errorf("%s: %d, want %d", request, got, want)
		}
	}
	if got := p.judge(t, "GET /private/x", Facts{Now: monday}).Outcome; got != SignIn {
		t.Errorf("a stranger: %d, want to sign in", got)
	}
}

// TestRobotsThatRulesName: match robot is about all robots, and names none of them.
func TestRobotsThatRulesName(t *testing.T) {
	t.Parallel()
	const (
		every  = "deny {\n match robot\n}\n"
		naming = "deny {\n match agent *.bots.example\n}\nallow {\n need agent bot.example.com\n}\n"
	)
	for _, tt := range []struct {
		rules, domain string
		wanted, named bool
	}{
		{every, "bot.example.com", true, false},
		{naming, "bot.example.com", true, true},
		{naming, "a.bots.example", true, true},
		{naming, "else.example", false, false},
		{every + naming, "else.example", true, false},
		{every + naming, "bot.example.com", true, true},
	} {
		if wanted, named := start(t, tt.rules).Wants(tt.domain); wanted != tt.wanted || named != tt.named {
			t.Errorf("%s of %q: wanted %t, named %t; want %t and %t", tt.domain, tt.rules, wanted, named, tt.wanted, tt.named)
		}
	}
}

func TestRuleErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"deny {\n}":                                        "refuses everything to everyone",
		"deny {\nname x\n}":                                "refuses everything to everyone",
		"allow x":                                          "unexpected argument",
		"allow {\nmatch\n}":                                "the matcher is missing",
		"allow {\nmatch path /x\nmatch\n}":                 "the matcher is missing",
		"allow {\nmatch /x\n}":                             "write match path /x",
		"allow {\nmatch @x\n}":                             "named matcher",
		"allow {\nmatch pth /x\n}":                         "there is no matcher pth",
		"allow {\nneed\n}":                                 "say what is needed",
		"allow {\nneed group x\n}":                         "did you mean groups?",
		"allow {\nneed moon\n}":                            "known are",
		"allow {\nneed groups\n}":                          "a value is missing",
		"allow {\nneed level 5\n}":                         "level",
		"allow {\nneed level 2\nneed level 3\n}":           "level is already set",
		"allow {\nneed max_age soon\n}":                    "max_age",
		"allow {\nneed claim x\n}":                         "want a name and a value",
		"allow {\nwhen daily\n}":                           "want days, hours and a time zone",
		"allow {\nmessage x\n}":                            "unrecognized subdirective",
		"allow {\nname a\n}\nallow {\nname a\n}":           "choose another name",
		"allow {\nname a\nname b\n}":                       "already set",
		"allow {\nname " + strings.Repeat("x", 65) + "\n}": "at most 64",
		"allow {\nneed groups a\n}\nmatch path /x":         "unrecognized subdirective",
		"allow {\nneed groups a {\nb\n}\n}":                "has no block",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A rule that never decides is told, with the one that decides before it, and no other.
func TestUnreachableRules(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"allow {\nname a\n}\nallow {\nname b\nneed groups x\n}":                                                     "b is never reached, since a comes first and lets everybody in",
		"allow {\nname a\nmatch path /x\n}\nallow {\nname b\nmatch path /x\nneed groups x\n}":                       "b is never reached, since a comes first and lets everybody in",
		"allow {\nname a\nneed groups x\n}\nallow {\nname b\nmatch path /x\nneed groups x\n}":                       "b is never reached, since a comes first and asks the same",
		"deny {\nname no\nmatch path /x\n}\nallow {\nname b\nmatch path /x\nneed groups x\n}":                       "b is never reached, since no comes first and refuses everybody",
		"deny {\nname a\nmatch path /x\nneed groups x\n}\ndeny {\nname b\nmatch path /x\nneed groups x\n}":          "b changes nothing, since a refuses the same",
		"allow {\nname a\nwhen mon 08:00-09:00 UTC\n}\nallow {\nname b\nwhen mon 08:00-09:00 UTC\nneed groups x\n}": "b is never reached, since a comes first and lets everybody in",
		"public /x\ndeny {\nname no\nmatch path /x\nneed groups guests\n}":                                          "no refuses persons on a path that is open to everybody by public /x",
		"allow {\nname a\nmatch path /x\n}\nallow {\nname b\n}":                                                     "",
		"allow {\nname a\nwhen mon 08:00-09:00 UTC\n}\nallow {\nname b\n}":                                          "",
		"allow {\nname a\nneed groups x\n}\nallow {\nname b\nneed groups y\n}":                                      "",
		"allow {\nname a\nneed groups x\n}\nallow {\nname b\nneed groups x\nneed level 2\n}":                        "",
		"deny {\nname no\nmatch path /x\nneed groups guests\n}\nallow {\nname b\nmatch path /x\n}":                  "",
		"deny {\nname no\nmatch path /x\nwhen mon 08:00-09:00 UTC\n}\nallow {\nname b\nmatch path /x\n}":            "",
		"deny {\nname a\nmatch path /x\nneed groups x\n}\ndeny {\nname b\nmatch path /x\nneed groups y\n}":          "",
	} {
		found := start(t, text).Findings("policy", Names{})
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || !strings.Contains(found[0].Reason, want)) {
			t.Errorf("%s\nfindings %v, want %q", text, found, want)
		}
	}
}

// What the Caddyfile says can be said in JSON, and a wrong value there names the rule's place.
func TestProvisionErrors(t *testing.T) {
	t.Parallel()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	for want, p := range map[string]*Policy{
		"when: ":               {Allow: []*Rule{{When: []string{"daily"}}}},
		"level: ":              {Allow: []*Rule{{Need: Need{Level: "9"}}}},
		"claim: want":          {Allow: []*Rule{{Need: Need{Claims: []Claim{{Name: "x"}}}}}},
		"match: ":              {Deny: []*Rule{{Match: caddyhttp.RawMatcherSets{{"nothing": []byte("{}")}}}}},
		"more than 200 rules":  {Allow: make([]*Rule, 201)},
		", at Caddyfile:7":     {Allow: []*Rule{{When: []string{"daily"}, Place: "Caddyfile:7"}}},
		"policy staff: when: ": {Deny: []*Rule{{When: []string{"daily"}}}},
	} {
		if err := p.Provision(ctx, "policy staff", caddyfileutil.NewResolver(caddy.NewReplacer())); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What is known of the paths of a rule never changes what its matchers say.
func FuzzPrefixes(f *testing.F) {
	for _, path := range []string{
		"/admin/x", "/ADMIN/x", "//admin/x", "/./admin/x", "/admin", "/admin/../x", "/%61dmin/x", "/ſtaff/x",
		"/\u212aelvin", "/a.php", "/files/a.php/x", "/",
	} {
		f.Add(path)
	}
	p := start(f, "allow {\nmatch path /admin/* /staff/* /kelvin\n}\nallow {\nmatch path /files/*.php\n}\nallow {\nmatch path *.php\n}\nallow {\nmatch path /adm%20in/*\n}")
	f.Fuzz(func(t *testing.T, path string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.Path = path
		r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
		got, err := p.Select(r, nil)
		want, wantErr := selectRules(p.Allow, r, "")
		if (err == nil) != (wantErr == nil) || err == nil && !slices.Equal(got.allow, want) {
			t.Errorf("%q: %d rules fit, and %d by their matchers alone, %v, %v", path, len(got.allow), len(want), err, wantErr)
		}
	})
}

// What a policy of twenty rules costs each request.
func BenchmarkPolicy(b *testing.B) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "allow {\nmatch path /area%d/*\nmatch method GET POST\nneed groups g%d staff\nneed level 1\n}\n", i, i)
	}
	p := start(b, text.String())
	r := httptest.NewRequest("GET", "/area19/x", nil)
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
	who := somebody(1, "staff")
	b.ReportAllocs()
	for b.Loop() {
		s, err := p.Select(r, nil)
		if err != nil || s.Judge(who).Outcome != Allowed {
			b.Fatal("not allowed", err)
		}
	}
}
