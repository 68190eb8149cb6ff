package protect

import (
	"context"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const rulesOfSite = `"policies":["office"],"public":["/open/*"],"rules":{
	"deny":[
		{"name":"closed","match":[{"path":["/open/closed","/closed/*"]}],"message":"The archive is closed until Monday."},
		{"name":"spoofed","match":[{"header":{"Remote-User":["*"]}}]},
		{"name":"guests","match":[{"path":["/office/plans/*"]}],"need":{"groups":["guests"]}}],
	"allow":[
		{"name":"admins","match":[{"path":["/admin/*"],"method":["POST"]}],"need":{"groups":["admins"],"level":"3"}},
		{"name":"recent","match":[{"path":["/recent/*"]}],"need":{"max_age":"10m"}},
		{"name":"writers","match":[{"path":["/write"]}],"need":{"scopes":["write"]}},
		{"name":"known","match":[{"path":["/known/*"]}],"need":{"assurance":"2"}},
		{"name":"bound","match":[{"path":["/bound/*"]}],"need":{"device_bound":true}},
		{"name":"scoped","match":[{"path":["/scoped/*"]}],"need":{"scopes":["assured"]}},
		{"name":"strong","match":[{"path":["/strong/*"]}],"need":{"scopes":["write","strong"]}},
		{"name":"night","match":[{"path":["/events","/ws"]}],"need":{"groups":["staff"]}}]}`

// rulesGateway adds tokens of persons and of a client to a gateway.
func rulesGateway(t *testing.T) (g *gateway, tokens map[string]string) {
	g = startGateway(t)
	tokens = map[string]string{}
	for name, who := range map[string]*token.Introspection{
		"staff": person(1, "staff"), "guest": person(4, "guests"), "both": person(1, "staff", "guests"), "admin": person(3, "admins"),
		"weak admin": person(1, "admins"),
		"client":     {Active: true, Subject: "deploy", ClientID: "deploy", Scope: []string{"write"}},
	} {
		tokens[name] = newToken(t, secret.AccessToken)
		g.fake.tokens[tokens[name]] = who
	}
	old := person(1, "staff")
	old.AuthTime = time.Now().Add(-time.Hour)
	tokens["old"] = newToken(t, secret.AccessToken)
	g.fake.tokens[tokens["old"]] = old
	return g, tokens
}

func TestRules(t *testing.T) {
	g, tokens := rulesGateway(t)
	for _, c := range []struct {
		who, request string
		status       int
		challenge    string // part of it
	}{
		{"staff", "GET /office/x", http.StatusOK, ""},
		{"guest", "GET /office/x", http.StatusForbidden, "access_denied"},
		{"both", "GET /office/x", http.StatusOK, ""},
		{"both", "GET /office/plans/x", http.StatusForbidden, "access_denied"},
		{"", "GET /office/x", http.StatusUnauthorized, "Bearer"},
		{"", "GET /elsewhere", http.StatusForbidden, "access_denied"},
		{"staff", "GET /elsewhere", http.StatusForbidden, "access_denied"},
		{"admin", "POST /admin/x", http.StatusOK, ""},
		{"admin", "GET /admin/x", http.StatusForbidden, "access_denied"},
		{"weak admin", "POST /admin/x", http.StatusUnauthorized, `acr_values="urn:gatehouse:level:3"`},
		{"staff", "POST /admin/x", http.StatusForbidden, "access_denied"},
		{"staff", "GET /recent/x", http.StatusOK, ""},
		{"old", "GET /recent/x", http.StatusUnauthorized, "max_age=600"},
		{"client", "GET /recent/x", http.StatusForbidden, "access_denied"},
		{"client", "GET /write", http.StatusOK, ""},
		{
			"staff", "GET /write", http.StatusForbidden,
			`insufficient_scope", error_description="the token lacks a scope that is required here", scope="write"`,
		},
		{"", "GET /open/x", http.StatusOK, ""},
		{"", "GET /open/closed", http.StatusForbidden, "access_denied"},
		{"staff", "GET /open/closed", http.StatusForbidden, "access_denied"},
		{"admin", "GET /closed/x", http.StatusForbidden, "access_denied"},
		// Rules are about the path that the upstream reads: any other spelling of one is refused.
		{"staff", "GET /office/../admin/x", http.StatusBadRequest, ""},
		{"staff", "GET //office/x", http.StatusBadRequest, ""},
		{"staff", "GET /office/plans%2fx", http.StatusBadRequest, ""},
		{"staff", "GET /office;/plans/x", http.StatusBadRequest, ""},
	} {
		lines := []string{c.request + " HTTP/1.1", "Host: rules.test"}
		if c.who != "" {
			lines = append(lines, "Authorization: Bearer "+tokens[c.who])
		}
		a := g.raw(t, lines...)
		if c.status == http.StatusOK {
			g.passed(t, a)
			continue
		}
		if g.refused(t, a, c.status); !strings.Contains(a.Header.Get("WWW-Authenticate"), c.challenge) {
			t.Errorf("%s, %s: challenge %q, want %q", c.who, c.request, a.Header.Get("WWW-Authenticate"), c.challenge)
		}
	}
	if a := g.raw(t, "GET /closed/x HTTP/1.1", "Host: rules.test", "Authorization: Bearer "+tokens["staff"]); !strings.Contains(a.body,
		"The archive is closed until Monday.") {
		t.Errorf("the answer does not say what the rule says: %s", a.body)
	}
	// A header that only Gatehouse sets is deleted before rules look at the request.
	g.passed(t, g.raw(t, "GET /office/x HTTP/1.1", "Host: rules.test", "Authorization: Bearer "+tokens["staff"], "Remote-User: root"))
	log, err := os.ReadFile(g.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"reason":"denied_by_rule"`, `rule: closed`, `"reason":"no_rule_allows"`,
		`"reason":"level_too_low"`, `"wanted_level":3`,
	} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log does not say %s", want)
		}
	}
}

// A browser is sent to sign in, or to sign in again or at a higher level, only where that would let the person in.
func TestRulesAtLogin(t *testing.T) {
	g := startGateway(t)
	const host = "rules.localhost"
	asked := func(a answer) fakeFlow {
		t.Helper()
		g.refused(t, a, http.StatusFound)
		return g.fake.flows[len(g.fake.flows)-1]
	}
	if f := asked(g.open(t, host, "/office/x")); f.Level != 0 || f.MaxAge != 0 {
		t.Errorf("a stranger is asked for level %d and age %v", f.Level, f.MaxAge)
	}
	g.refused(t, g.open(t, host, "/elsewhere"), http.StatusForbidden)
	old := person(1, "staff")
	old.AuthTime = time.Now().Add(-time.Hour)
	if f := asked(g.open(t, host, "/recent/x", "Cookie: "+g.session(t, host, old))); f.MaxAge != 10*time.Minute {
		t.Errorf("somebody who signed in long ago is asked for an age of %v", f.MaxAge)
	}
	a := g.open(t, host, "/closed/x", "Cookie: "+g.session(t, host, person(1, "staff")))
	if g.refused(t, a, http.StatusForbidden); !strings.Contains(a.body, "The archive is closed until Monday.") ||
		!strings.Contains(a.body, "demo@example.com") {
		t.Errorf("the page does not say what the rule says, and to whom: %s", a.body)
	}
	g.passed(t, g.open(t, host, "/write", "Cookie: "+g.session(t, host, person(1)))) // a session at the site has every scope
}

// A scope that a site or a rule needs and that has a level is asked of a browser as that level is: the browser is
// sent to sign in at it and comes back, a script gets a challenge that names it, and a sign-in that does not reach it
// ends in a page. A token has the scope or lacks it.
func TestNeedScopesAsksForTheirLevel(t *testing.T) {
	g := startGateway(t)
	for _, at := range []string{"rules.localhost /strong/x?y=1", "strong.localhost /x?y=1"} {
		host, path, _ := strings.Cut(at, " ")
		session := func(level int) string { return "Cookie: " + g.session(t, host, person(level)) }
		asked := func(a answer) {
			t.Helper()
			g.refused(t, a, http.StatusFound)
			if f := g.fake.flows[len(g.fake.flows)-1]; f.Level != 3 || f.Return != g.origin(host)+path {
				t.Errorf("%s: asked for level %d, to come back to %s; want level 3 and the same address", at, f.Level, f.Return)
			}
		}
		g.refused(t, g.open(t, host, path), http.StatusFound) // a stranger signs in first
		asked(g.open(t, host, path, session(1)))
		g.passed(t, g.open(t, host, path, session(3)))

		script := []string{"GET " + path + " HTTP/1.1", "Host: " + host + ":" + g.port, "Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin"}
		a := g.raw(t, append(slices.Clone(script), session(2))...)
		g.refused(t, a, http.StatusUnauthorized)
		if got := a.Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="insufficient_user_authentication"`) ||
			!strings.Contains(got, `acr_values="urn:gatehouse:level:3"`) {
			t.Errorf("%s: the challenge for a script is %q, want the level", at, got)
		}
		raw := newToken(t, secret.AccessToken)
		token := append(slices.Clone(script), "Authorization: Bearer "+raw)
		with := func(level int, scopes ...string) answer {
			who := person(level)
			who.Scope = scopes
			g.fake.set(func() { g.fake.tokens[raw] = who })
			return g.raw(t, token...)
		}
		a = with(4, "write")
		g.refused(t, a, http.StatusForbidden)
		if got := a.Header.Get("WWW-Authenticate"); !strings.Contains(got, `error="insufficient_scope"`) || !strings.Contains(got, `strong"`) {
			t.Errorf("%s: the challenge for a token without the scope is %q", at, got)
		}
		g.passed(t, with(1, "write", "strong"))

		for _, request := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS"} {
			g.attack(t, "attack 874: "+request+" "+at+" below the level of the scope, which is claimed", func(t *testing.T) {
				g.refused(t, g.raw(t, request+" "+path+" HTTP/1.1", "Host: "+host+":"+g.port, "Sec-Fetch-Mode: navigate", "Accept: text/html",
					"Content-Length: 0", session(2), "Scope: strong", "X-Scope: strong", "Remote-User: root"), http.StatusFound, http.StatusUnauthorized)
			})
		}
		g.attack(t, "attack 874: a sign-in that does not reach the level of the scope at "+at, func(t *testing.T) {
			cookies := map[string]string{}
			for range maxKept + 1 {
				var line []string
				for name, value := range cookies {
					line = append(line, name+"="+value)
				}
				a := g.open(t, host, path, "Cookie: "+strings.Join(line, "; "))
				if a.StatusCode == http.StatusFound { // the issuer of the test signs in at level 2, whatever is asked
					keepCookies(cookies, a)
					line = nil
					for name, value := range cookies {
						line = append(line, name+"="+value)
					}
					a = g.open(t, host, withCode(path, g.code(t)), "Cookie: "+strings.Join(line, "; "))
					g.refused(t, a, http.StatusSeeOther)
					keepCookies(cookies, a)
					continue
				}
				g.refused(t, a, http.StatusBadRequest)
				return
			}
			t.Error("the browser goes round for ever")
		})
	}
}

// keepCookies does with the cookies of an answer what a browser does.
func keepCookies(cookies map[string]string, a answer) {
	for _, c := range a.Cookies() {
		if cookies[c.Name] = c.Value; c.MaxAge < 0 {
			delete(cookies, c.Name)
		}
	}
}

// What the site needs of every request.
func TestSiteNeed(t *testing.T) {
	g := startGateway(t)
	for name, c := range map[string]struct {
		who    *token.Introspection
		status int
	}{
		"weak":    {person(1), http.StatusUnauthorized},
		"strong":  {person(2), http.StatusOK},
		"nobody":  {&token.Introspection{}, http.StatusUnauthorized},
		"another": {&token.Introspection{Active: true, Subject: "x", ClientID: "x"}, http.StatusForbidden},
	} {
		raw := newToken(t, secret.AccessToken)
		g.fake.set(func() { g.fake.tokens[raw] = c.who })
		a := g.raw(t, "GET / HTTP/1.1", "Host: need.test", "Authorization: Bearer "+raw)
		if c.status == http.StatusOK {
			g.passed(t, a)
		} else if g.refused(t, a, c.status); name == "weak" && !strings.Contains(a.Header.Get("WWW-Authenticate"), "level:2") {
			t.Errorf("%s: challenge %q", name, a.Header.Get("WWW-Authenticate"))
		}
	}
}

// known is a person whose identity is assured at a level. 0: it is not.
func known(level int) *token.Introspection {
	who := person(1, "staff")
	if level > 0 {
		who.Person.Assurance = authn.Assurance{{Kind: authn.EvidenceDocument, By: "desk", Level: level, Until: time.Now().Add(time.Hour)}}
	}
	return who
}

// Who the person is has to be known: by a rule, by the site, or since a scope demands it. No sign-in fixes that, so no
// one is sent to one: browsers get a page that says what is lacking.
func TestAssuranceOfSites(t *testing.T) {
	g := startGateway(t)
	for _, at := range []string{"known.localhost /", "scoped.localhost /", "rules.localhost /known/x", "rules.localhost /scoped/x"} {
		host, path, _ := strings.Cut(at, " ")
		g.refused(t, g.open(t, host, path), http.StatusFound) // a stranger signs in
		for level, open := range map[int]bool{0: false, 1: false, 2: true, 3: true} {
			a := g.open(t, host, path, "Cookie: "+g.session(t, host, known(level)))
			if open {
				g.passed(t, a)
				continue
			}
			g.refused(t, a, http.StatusForbidden)
			if !strings.Contains(a.body, "Your identity needs to be confirmed") || !strings.Contains(a.body, "demo@example.com") {
				t.Errorf("%s, level %d: %s, want a page that says so", at, level, a.body)
			}
		}
	}
	raw := newToken(t, secret.AccessToken)
	set := func(who *token.Introspection) { g.fake.set(func() { g.fake.tokens[raw] = who }) }
	ask := func(host, path string) answer {
		return g.raw(t, "GET "+path+" HTTP/1.1", "Host: "+host, "Authorization: Bearer "+raw, "X-Assurance: 4", "Identity_Assurance_Level: 4")
	}
	set(known(1))
	if a := ask("rules.test", "/known/x"); a.StatusCode != http.StatusForbidden ||
		!strings.Contains(a.body, "the identity of the person is not assured") {
		t.Errorf("a token of a person below the level: %d %s", a.StatusCode, a.body)
	}
	set(&token.Introspection{Active: true, Subject: "deploy", ClientID: "deploy"})
	g.refused(t, ask("rules.test", "/known/x"), http.StatusForbidden)
	set(known(2))
	g.passed(t, ask("rules.test", "/known/x"))
	t.Run("attack 780: a header of the client", func(t *testing.T) {
		if got := g.passed(t, ask("known.localhost", "/")).values("X-Assurance"); !slices.Equal(got, []string{"2"}) {
			t.Errorf("the upstream reads the level %q, want 2", got)
		}
	})
	log, err := os.ReadFile(g.log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(log), `"reason":"identity_assurance_too_low"`) ||
		!strings.Contains(string(log), "needs identity assurance level 2; has 1") {
		t.Error("the log does not say what was lacking")
	}
}

// An open stream ends when a rule does not let its person in any more.
func TestStreamEndsByRule(t *testing.T) {
	g := startGateway(t)
	g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
	raw := newToken(t, secret.AccessToken)
	g.fake.set(func() { g.fake.tokens[raw] = person(1, "staff") })
	a := g.raw(t, slices.Concat([]string{"GET /ws HTTP/1.1", "Host: rules.test", "Authorization: Bearer " + raw}, handshake)...)
	if a.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status = %d, want 101", a.StatusCode)
	}
	roundTrip(t, a, "hello")
	g.fake.set(func() { g.fake.tokens[raw] = person(1, "guests") })
	if rest, err := io.ReadAll(a.br); err != nil || len(rest) == 0 {
		t.Errorf("the end of the connection was % x, %v, want a close frame", rest, err)
	}
}

func TestRuleErrors(t *testing.T) {
	t.Parallel()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	defer cancel()
	none := func(string, string, string) *policy.Policy { return nil }
	for want, p := range map[string]*Protect{
		"protect: need: level: ":         {Need: policy.Need{Level: "9"}},
		"protect: policy: public: ":      {Rules: policy.Policy{Public: []string{"/*"}}},
		"refuses everything to everyone": {Rules: policy.Policy{Deny: []*policy.Rule{{Name: "x"}}}},
	} {
		p.fixed = new(ruling)
		if err := p.loadRules(ctx, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
