package protect

import (
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
)

// checkOff: a site can do without what identity has on.
var checkOff = caddyfileutil.OneOf("off")

// siteCredential is the credential of a browser at a site: its session, and what shows that it is on the device that
// the session is bound to.
func siteCredential(s *site, rec *credentials) credential {
	return credential{site: s, token: rec.cookie(s.jar, kindSession), second: rec.cookie(s.jar, dbsc.Cookie)}
}

// devices returns how the browsers of a site bind their sessions to a device.
func (p *Protect) devices(in Entrance, s *site) *dbsc.Exchange {
	var noted func(dbsc.Outcome)
	if in.Counter != nil {
		noted = in.Counter.CountDevice
	}
	return in.Authority.SiteDevices(s.origin, in.DeviceBound && p.DeviceBound == "" && s.scheme == "https", noted)
}

// binding is the longest time that a browser takes to bind a new session to its device.
const binding = 15 * time.Second

// awaitDevice lets a browser that opens a page try again while it may be binding its session to the device, which it
// does on the side.
func (p *Protect) awaitDevice(g *requestState) {
	if g.who != nil && isNavigation(g.r) && p.now().Sub(g.who.IssuedAt) < binding {
		g.Header().Set("Refresh", "2")
	}
}

// serveDevice answers a request to one of the paths of package dbsc.
func (p *Protect) serveDevice(g *requestState, rec *credentials, in Entrance) {
	r := g.r.WithContext(g.r.Context())
	r.URL = original(g.r)
	p.devices(in, g.site).Serve(g.ResponseWriter, dbsc.Request{Request: r, Token: rec.cookie(g.site.jar, kindSession)})
}

// forgetSecond takes away the second cookie of a session that has ended, so a browser that has the key asks for another
// one before its next request.
func (g *requestState) forgetSecond(rec *credentials) {
	if (g.who == nil || !g.who.Active) && rec.cookie(g.site.jar, dbsc.Cookie) != "" {
		g.site.jar.Clear(g.ResponseWriter, dbsc.Cookie)
	}
}
