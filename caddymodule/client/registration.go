package client

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	authzclient "github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/dcr"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// Registration lets clients register themselves (RFC 7591).
type Registration struct {
	// Who can register: open (everybody) or token (who has an access token with the scope client.register). Required.
	Who string `json:"who"`
	// The hosts of redirect URIs that lead to the web, and *.example.com for those below. Default: all.
	RedirectHosts []string `json:"redirect_hosts,omitempty"`
	// Private schemes of redirect URIs, besides those that are a domain name turned round. Default: cursor.
	Schemes []string `json:"schemes,omitempty"`
	// After what time a client is removed that no one uses. Default: 30d.
	Expires caddyfileutil.Duration `json:"expires,omitempty"`
	// How many clients one network can register, as in 10/h. Default: 10/h.
	Limit string `json:"limit,omitempty"`
	// How many there can be that have registered themselves. Default: 1000.
	Clients caddyfileutil.Count `json:"clients,omitempty"`
	// Whether a client can read, change and remove its registration (RFC 7592). Default: false.
	Management bool `json:"management,omitempty"`
}

var checkWho = caddyfileutil.OneOf(dcr.Open, dcr.Token)

// ReadRegistration reads
//
//	registration open|token {
//		redirect_hosts <host>...
//		schemes        <scheme>...
//		expires        <duration>
//		limit          <number>/m|h|d
//		clients        <number>
//		management
//	}
func ReadRegistration(d *caddyfile.Dispenser) (*Registration, error) {
	o, word := new(Registration), d.Val()
	if !d.NextArg() {
		return nil, d.Err("registration: say who can register: open, or token for those who have an access token with the scope " + dcr.Scope)
	}
	o.Who = d.Val()
	if err := caddyfileutil.Check(d, word, o.Who, checkWho); err != nil {
		return nil, err
	}
	if d.NextArg() {
		return nil, d.Errf("%s: unexpected argument %q", word, d.Val())
	}
	return o, caddyfileutil.ReadBlock(d, word, &reference.Registration, caddyfileutil.Subdirectives{
		"redirect_hosts": caddyfileutil.Values(&o.RedirectHosts, checkTrusted),
		"schemes":        caddyfileutil.Values(&o.Schemes, authzclient.CheckScheme),
		"expires":        caddyfileutil.Value(&o.Expires, caddyfileutil.CheckDuration),
		"limit":          caddyfileutil.Value(&o.Limit, checkLimit),
		"clients":        caddyfileutil.Value(&o.Clients, checkClients),
		"management":     caddyfileutil.Flag(&o.Management),
	})
}

// Build returns the configuration.
func (o *Registration) Build(r *caddyfileutil.Resolver) dcr.Config {
	of := func(name string) string { return "registration: " + name }
	cfg := dcr.Config{
		Who:           r.Plain("registration", o.Who, checkWho),
		RedirectHosts: r.List(of("redirect_hosts"), o.RedirectHosts, checkTrusted),
		Schemes:       r.List(of("schemes"), o.Schemes, authzclient.CheckScheme),
		Unused:        r.Duration(of("expires"), o.Expires),
		Clients:       r.Count(of("clients"), o.Clients, checkClients),
		Management:    o.Management,
	}
	if s, ok := r.Text(of("limit"), o.Limit, checkLimit); ok {
		cfg.Limit, cfg.Per, _ = parseLimit(s)
	}
	if o.Who == "" {
		r.Fail("registration: who is missing: open or token")
	}
	return cfg
}

func checkLimit(s string) error {
	_, _, err := parseLimit(s)
	return err
}

// parseLimit reads how often something can happen in a time, such as 10/h.
func parseLimit(s string) (n int, per time.Duration, err error) {
	number, unit, _ := strings.Cut(s, "/")
	n, err = strconv.Atoi(number)
	per = map[string]time.Duration{"m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[unit]
	if err != nil || n < 1 || n > 100_000 || per == 0 {
		return 0, 0, fmt.Errorf("%q is not a limit: write it like 10/h, with m, h or d", s)
	}
	return n, per, nil
}
