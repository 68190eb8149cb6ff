package caddymodule

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Anybody can begin to sign in, and what was begun is kept for hours. These bounds are far beyond an office behind one address and far
// below what fills a disk.
const (
	beginsPerSecond = 40
	beginsBurst     = 4000
	maxNetworks     = 1 << 14 // that are remembered
)

// pace bounds how much the people of one network begin.
type pace struct {
	now func() time.Time

	mu sync.Mutex // guards of
	of map[netip.Prefix]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

func newPace(now func() time.Time) *pace { return &pace{now: now, of: map[netip.Prefix]bucket{}} }

// admit counts one more beginning of the client of a request, and is false when there were too many. Addresses of this machine are not
// counted: they are a proxy's that trusted_proxies does not name, behind which everybody is.
func (p *pace) admit(r *http.Request) bool {
	text, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Unmap().IsLoopback() {
		return true
	}
	return p.take(addr)
}

func (p *pace) take(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 48 // what one customer of a provider has at the most
	}
	network, err := addr.Prefix(bits)
	if err != nil {
		return true
	}
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	b, known := p.of[network]
	if !known {
		b = bucket{beginsBurst, now}
		p.forget(now)
	}
	b = b.fill(now)
	ok := b.left >= 1
	if ok {
		b.left--
	}
	p.of[network] = b
	return ok
}

func (b bucket) fill(now time.Time) bucket {
	return bucket{min(beginsBurst, b.left+max(0, now.Sub(b.at).Seconds())*beginsPerSecond), now}
}

// forget makes room for one more network: those that are full again, or all when there are none.
func (p *pace) forget(now time.Time) {
	if len(p.of) < maxNetworks {
		return
	}
	for network, b := range p.of {
		if b.fill(now).left >= beginsBurst {
			delete(p.of, network)
		}
	}
	if len(p.of) >= maxNetworks {
		clear(p.of)
	}
}
