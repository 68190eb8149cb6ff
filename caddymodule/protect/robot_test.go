package protect

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/botauth"
	"github.com/gatehouse-id/gatehouse/internal/botauth/botauthtest"
)

// rulesOfRobots lets a robot read the documents, no robot at all read the drafts, and staff do everything.
const rulesOfRobots = `"public":["/open/*"],"rules":{"deny":[{"name":"drafts","match":[{"path":["/docs/drafts/*"]}],"robot":true},
	{"name":"not for it","match":[{"path":["/open/private"]}],"need":{"agents":["%[1]s"]}}],
	"allow":[{"name":"robots","match":[{"path":["/docs/*"]}],"need":{"agents":["%[1]s"]}},{"need":{"groups":["staff"]}}]}`

func startRobots(t *testing.T) (*gateway, *botauthtest.Robot) {
	t.Helper()
	b := botauthtest.New(t)
	return startGateway(t, func(f *fakeAuthority) {
		f.robots, f.robot = botauth.New(time.Now), b.Domain
		f.robots.Fetch(b.Client)
	}), b
}

// signed returns a request of a robot.
func (g *gateway) signed(t *testing.T, b *botauthtest.Robot, host, target string, headers ...string) answer {
	t.Helper()
	lines := []string{"GET " + target + " HTTP/1.1", "Host: " + host}
	for name, value := range b.Sign(host, time.Now()) {
		lines = append(lines, name+": "+value)
	}
	return g.raw(t, append(lines, headers...)...)
}

// TestRobots: a robot passes where a rule lets it, by its signature, and nowhere else. Nothing of a person goes
// upstream with it.
func TestRobots(t *testing.T) {
	g, b := startRobots(t)
	for _, host := range []string{"robots.test", "robots.localhost:" + g.port} {
		s := g.passed(t, g.signed(t, b, host, "/docs/a"))
		if got := append(s.values("X-Auth-User"), s.values("X-Placeholder")...); !slices.Equal(got, []string{"||"}) {
			t.Errorf("%s: a robot has the identity %q upstream", host, got)
		}
		g.refused(t, g.signed(t, b, host, "/docs/drafts/a"), http.StatusForbidden)
		g.refused(t, g.signed(t, b, host, "/open/private"), http.StatusForbidden)
		g.passed(t, g.signed(t, b, host, "/open/else"))
		g.passed(t, g.raw(t, "GET /open/private HTTP/1.1", "Host: "+host))
	}
	g.refused(t, g.signed(t, b, "robots.test", "/else"), http.StatusUnauthorized)
	g.passed(t, g.raw(t, "GET /docs/a HTTP/1.1", "Host: robots.test", "Authorization: Bearer "+g.user))
	g.passed(t, g.raw(t, "GET /docs/drafts/a HTTP/1.1", "Host: robots.test", "Authorization: Bearer "+g.user))
	g.passed(t, g.signed(t, b, "robots.test", "/docs/a", "Authorization: Bearer "+g.expired)) // as a robot
	for name, a := range map[string]answer{
		"attack 8342: a User-Agent":                   g.raw(t, "GET /docs/a HTTP/1.1", "Host: robots.test", "User-Agent: Googlebot/2.1"),
		"attack 8342: a signature for another site":   g.raw(t, append([]string{"GET /docs/a HTTP/1.1", "Host: robots.test"}, g.lines(b, "robots.localhost")...)...),
		"attack 8342: another robot":                  g.signed(t, botauthtest.New(t), "robots.test", "/docs/a"),
		"attack 8342: a site that asks for a group":   g.signed(t, b, "norobots.test", "/docs/a"),
		"attack 8342: a header of the robot's domain": g.raw(t, "GET /docs/a HTTP/1.1", "Host: robots.test", `Signature-Agent: sig1="https://`+b.Domain+`"`),
	} {
		t.Run(name, func(t *testing.T) { g.refused(t, a, http.StatusUnauthorized) })
	}
	t.Run("attack 8342: a request of a robot a second time", func(t *testing.T) {
		lines := append([]string{"GET /docs/a HTTP/1.1", "Host: robots.test"}, g.lines(b, "robots.test")...)
		g.passed(t, g.raw(t, lines...))
		g.refused(t, g.raw(t, lines...), http.StatusUnauthorized)
	})
	g.invariants(t)
}

// TestOpenRequestsOfRobots: a request of a robot that lasts ends when the rules let it in no longer.
func TestOpenRequestsOfRobots(t *testing.T) {
	g, b := startRobots(t)
	t.Run("attack 1626: a robot stays connected after the rules have changed", func(t *testing.T) {
		g.fake.set(func() { g.fake.hasRules = func(string) bool { return true } })
		a := g.signed(t, b, "robots.test", "/docs/ws", handshake...)
		if a.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("status = %d, want 101", a.StatusCode)
		}
		roundTrip(t, a, "still here")
		g.fake.set(func() { g.fake.hasRules = func(string) bool { return false } })
		if rest, err := io.ReadAll(a.br); err != nil || !strings.HasSuffix(string(rest), "\x88\x02\x03\xf0") {
			t.Errorf("the end of the connection was % x, %v, want a close frame 1008", rest, err)
		}
	})
}

// lines returns the headers of a signature for a host.
func (g *gateway) lines(b *botauthtest.Robot, host string) (out []string) {
	for name, value := range b.Sign(host, time.Now()) {
		out = append(out, name+": "+value)
	}
	return out
}

// TestSiteNeedsAgent: need agent belongs in a rule, since a site asks of everyone what it asks.
func TestSiteNeedsAgent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"need agent bot.example":                             "belongs in a rule",
		"allow {\n need agent bot.example\n need level 2\n}": "ask for nothing else besides it",
		"allow {\n need agent https://bot.example\n}":        "is not the domain of a robot",
		"allow {\n match agent\n}":                           "name the domain of a robot",
		"allow {\n match robot bot.example\n}":               "name domains by match agent",
		"allow {\n match agent *\n}":                         "is not the domain of a robot",
	} {
		p := new(Protect)
		err := p.UnmarshalCaddyfile(caddyfile.NewTestDispenser("protect {\n" + text + "\n}"))
		if err == nil {
			ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
			err = p.loadRules(ctx, func(_, _, _ string) *policy.Policy { return nil })
			cancel()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
