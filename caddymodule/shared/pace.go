package shared

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/internal/ratelimit"
)

// Anyone can begin to sign in, and what was begun is kept for hours, in the sizes that strangers choose. A record
// counts once for each KiB. These bounds are far above what an office behind one address needs, and far below what
// fills a disk.
var beginLimits = ratelimit.Limits{PerSecond: 40, Burst: 4000, Keys: 1 << 14}

// beginPace bounds how many sign-ins begin in one network.
type beginPace struct {
	now      func() time.Time
	networks *ratelimit.Limiter[netip.Prefix]
}

func newBeginPace(now func() time.Time) *beginPace {
	return &beginPace{now: now, networks: ratelimit.New[netip.Prefix](beginLimits)}
}

// Admit counts one more sign-in that the client of a request begins, of which as many bytes are stored. false: its
// network has begun too many. Loopback addresses are not counted: they belong to a proxy that trusted_proxies does not
// name, so everybody would share one bucket.
func (p *beginPace) Admit(r *http.Request, size int) bool {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Unmap().IsLoopback() {
		return true
	}
	return p.take(addr, size)
}

func (p *beginPace) take(addr netip.Addr, size int) bool {
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 48 // the most that one customer of a provider gets
	}
	network, err := addr.Prefix(bits)
	return err != nil || p.networks.AllowN(network, p.now(), max(1, (size+1023)/1024))
}
