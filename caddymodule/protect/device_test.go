package protect

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestOffersDevices: a site offers to bind its sessions where identity has it on, the site does not say otherwise, and
// browsers can.
func TestOffersDevices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		on     bool
		option string
		scheme string
		want   bool
	}{
		"on": {true, "", "https", true}, "off": {false, "", "https", false}, "off at the site": {true, "off", "https", false},
		"http": {true, "", "http", false},
	} {
		p := &Protect{DeviceBound: c.option}
		x := p.devices(Entrance{Authority: new(fakeAuthority), DeviceBound: c.on}, &site{origin: c.scheme + "://wiki.test", scheme: c.scheme})
		if x.Offered != c.want {
			t.Errorf("%s: offered = %v, want %v", name, x.Offered, c.want)
		}
	}
}

// TestNeedDeviceBound: a rule that needs a bound device lets no other session pass, and no token.
func TestNeedDeviceBound(t *testing.T) {
	t.Run("attack 8321: a token, or a session without a device", func(t *testing.T) {
		g := startGateway(t)
		const host = "rules.localhost"
		who := func(bound bool, age time.Duration) *token.Introspection {
			p := person(2, "staff")
			p.DeviceBound, p.IssuedAt = bound, time.Now().Add(-age)
			return p
		}
		g.refused(t, g.open(t, host, "/bound/x"), http.StatusFound)
		g.passed(t, g.open(t, host, "/bound/x", "Cookie: "+g.session(t, host, who(true, time.Hour))))
		a := g.open(t, host, "/bound/x", "Cookie: "+g.session(t, host, who(false, time.Hour)))
		g.refused(t, a, http.StatusForbidden)
		if !strings.Contains(a.body, "bound device only") || a.Header.Get("Refresh") != "" {
			t.Errorf("a session without a device: Refresh %q, %s", a.Header.Get("Refresh"), a.body)
		}
		a = g.open(t, host, "/bound/x", "Cookie: "+g.session(t, host, who(false, time.Second)))
		if g.refused(t, a, http.StatusForbidden); a.Header.Get("Refresh") == "" {
			t.Error("a session that is being bound right now: the page does not load again by itself")
		}
		raw := newToken(t, secret.AccessToken)
		g.fake.set(func() { g.fake.tokens[raw] = who(false, time.Hour) })
		a = g.raw(t, "GET /bound/x HTTP/1.1", "Host: rules.test", "Authorization: Bearer "+raw)
		if g.refused(t, a, http.StatusForbidden); !strings.Contains(a.body, "not bound to a device") {
			t.Errorf("a token: %s", a.body)
		}
	})
}

// TestDevicePaths: the paths of the exchange are the handler's own at a site with login, and never reach the upstream.
func TestDevicePaths(t *testing.T) {
	g := startGateway(t)
	for _, path := range []string{dbsc.RegisterPath, dbsc.RefreshPath} {
		if a := g.open(t, "wiki.localhost", path); a.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET %s = %d, want 405", path, a.StatusCode)
		}
		a := g.raw(t, "POST "+path+" HTTP/1.1", "Host: wiki.localhost:"+g.port,
			"Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin", "Content-Length: 0")
		if a.StatusCode != http.StatusForbidden {
			t.Errorf("POST %s by a script = %d, want 403", path, a.StatusCode)
		}
	}
}
