package main

import (
	"fmt"
	"slices"
)

// figures are the medians of all rounds of one row.
type figures struct {
	rate, cpu, own, p99 float64 // requests a second, µs of the server and of the generator for each, p99 in ms
}

// medians measures the targets one after the other, round after round, so other load on the machine affects all of
// them, and prints a row for each.
func (b *bench) medians(targets ...namedTarget) (map[string]figures, error) {
	all := map[string][]sample{}
	for range *rounds {
		for _, n := range targets {
			done := b.profileOf(n.name, length())
			s, err := load(n.t, length(), 0)
			done()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", n.name, err)
			}
			all[n.name] = append(all[n.name], s)
			if err := b.ctx.Err(); err != nil {
				return nil, err
			}
		}
	}
	out := map[string]figures{}
	for _, n := range targets {
		out[n.name] = mediansOf(all[n.name])
		b.row(n.name, out[n.name])
	}
	return out, nil
}

func mediansOf(samples []sample) figures {
	var r, c, o, p []float64
	for _, s := range samples {
		r, c, o, p = append(r, s.rate()), append(c, s.perRequest(s.cpu)), append(o, s.perRequest(s.own)),
			append(p, float64(s.p99.Microseconds())/1000)
	}
	return figures{median(r), median(c), median(o), median(p)}
}

// The sites and endpoints that only read.
const (
	rowFloor         = "load generator alone, 16 connections"
	rowOpen          = "site without protect"
	rowClient        = "protect, client token"
	rowPerson        = "protect, person's token"
	rowCookie        = "protect, session cookie"
	rowJWT           = "protect, JWT access token"
	rowProxy         = "plain Caddy, reverse_proxy"
	rowNames         = "plain Caddy, reverse_proxy, a person's headers set"
	rowClean         = "plain Caddy, reverse_proxy, a person's headers deleted"
	rowForward       = "plain Caddy, forward_auth to a trivial service"
	rowRespond       = "plain Caddy, respond"
	rowIntrospect    = "introspection, client token"
	rowIntrospecting = "introspection, person's token"
)

// sites are the requests to the sites of our server.
func (b *bench) sites() []namedTarget {
	return []namedTarget{
		{rowOpen, b.open()},
		{rowClient, b.api("client")},
		{rowPerson, b.api("person")},
		{rowCookie, b.wiki()},
		{rowJWT, b.api("jwt")},
	}
}

// introspections are the questions of an API client about tokens.
func (b *bench) introspections() []namedTarget {
	return []namedTarget{
		{rowIntrospect, b.introspect("client", 16)},
		{rowIntrospecting, b.introspect("person", 16)},
	}
}

// speed compares requests that only read.
func (b *bench) speed() error {
	targets := slices.Concat([]namedTarget{{rowFloor, b.floor(16)}}, b.sites(), []namedTarget{
		{rowProxy, b.plain(0)},
		{rowNames, b.plain(3)},
		{rowClean, b.plain(4)},
		{rowForward, b.plain(1)},
		{rowRespond, b.plain(2)},
	}, b.introspections())
	const rowGateway = "oauth2-proxy, session cookie"
	proxy, err := b.oauth2Proxy()
	if err != nil {
		return err
	}
	if proxy != nil {
		defer proxy.kill()
		targets = append(targets, namedTarget{rowGateway, proxy.target})
	} else {
		b.notRun(rowGateway, "oauth2-proxy")
	}
	f, err := b.medians(targets...)
	if err != nil {
		return err
	}
	b.atLeast("protect / the same site without: client token", f[rowClient].rate/f[rowOpen].rate, 0.97)
	b.atLeast("protect / the same site without: person's token", f[rowPerson].rate/f[rowOpen].rate, 0.95)
	b.atLeast("protect / the same site without: session cookie", f[rowCookie].rate/f[rowOpen].rate, 0.95)
	b.atLeast("protect / the same site without: JWT access token", f[rowJWT].rate/f[rowOpen].rate, 0.95)
	// What the first can reach at most: Caddy itself, which deletes the headers that no one else may set and looks
	// whether there is a token, not what it is worth.
	b.atLeast("plain Caddy with a person's headers deleted / without", f[rowClean].rate/f[rowProxy].rate, 0.97)
	// What the three after it can reach at most: Caddy itself, setting the same headers without asking who it is.
	b.atLeast("plain Caddy with a person's headers set / without", f[rowNames].rate/f[rowProxy].rate, 0.95)
	b.atMost("protect, person's token / plain Caddy with a person's headers set, processor", f[rowPerson].cpu/f[rowNames].cpu, 1)
	b.atLeast("protect / plain Caddy's reverse_proxy", f[rowClient].rate/f[rowProxy].rate, 1)
	b.atLeast("protect / plain Caddy's forward_auth", f[rowClient].rate/f[rowForward].rate, 1.9)
	if proxy != nil {
		b.atLeast("protect with a session cookie / oauth2-proxy", f[rowCookie].rate/f[rowGateway].rate, 1)
	}
	b.atMost("introspection / plain Caddy's respond, processor: client", f[rowIntrospect].cpu/f[rowRespond].cpu, 1.5)
	b.atMost("introspection / plain Caddy's respond, processor: person", f[rowIntrospecting].cpu/f[rowRespond].cpu, 1.6)
	return nil
}
