package ratelimits

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/caddymodule/policy"
	"github.com/gatehouse-id/gatehouse/internal/limit"
)

// Subdirectives are the words of a site:
//
//	limit <number>/<period> per client|person|app_password|session|token|ip|site|claim <name> [burst <number>] {
//		match <matcher>...
//	}
//	quota <number>/<period> per client|person|app_password|session|token|site|claim <name> {
//		match <matcher>...
//	}
//	plan
func (o *Options) Subdirectives() caddyfileutil.Subdirectives {
	return caddyfileutil.Subdirectives{
		"limit": func(d *caddyfile.Dispenser) error { return read(d, &o.Limits, limits, &reference.Limit) },
		"quota": func(d *caddyfile.Dispenser) error { return read(d, &o.Quotas, quotas, &reference.Quota) },
		"plan":  caddyfileutil.Flag(&o.Plan),
	}
}

// read reads the line of a limit or quota. block is nil for those that have none.
func read(d *caddyfile.Dispenser, into *[]*Limit, k kind, block *reference.Block) error {
	l := &Limit{Place: fmt.Sprintf("%s:%d", d.File(), d.Line())}
	start := d.Token()
	if !d.NextArg() {
		return d.Errf("%s: want a number and a period, such as: %s 100/min per client", k.name, k.name)
	}
	l.Rate = d.Val()
	if _, err := limit.ParseRate(l.Rate); err != nil && !caddyfileutil.HasPlaceholder(l.Rate) {
		return caddyfileutil.At(start, fmt.Errorf("%s: %w", k.name, err))
	}
	for d.NextArg() {
		word := d.Val()
		if word != "per" && word != "burst" {
			return d.Errf("%s: unexpected %q: want `per <kind>` or `burst <number>`", k.name, word)
		}
		if word == "per" && l.Per != "" || word == "burst" && l.Burst != "" {
			return d.Errf("%s: %s is already set", k.name, word)
		}
		if !d.NextArg() {
			return d.Errf("%s: %s: a value is missing", k.name, word)
		}
		if word == "burst" {
			l.Burst = caddyfileutil.Count(d.Val())
			continue
		}
		if l.Per = d.Val(); l.Per == perClaim {
			if !d.NextArg() {
				return d.Errf("%s: per claim: the name of the claim is missing, as in: per claim department", k.name)
			}
			l.Claim = d.Val()
		}
	}
	if block == nil {
		if err := caddyfileutil.NoMore(d, k.name); err != nil {
			return err
		}
	} else if err := l.readMatch(d, k, block, start); err != nil {
		return err
	}
	if err := l.check(k); err != nil {
		return caddyfileutil.At(start, fmt.Errorf("%s: %w", k.name, err))
	}
	*into = append(*into, l)
	return nil
}

func (l *Limit) readMatch(d *caddyfile.Dispenser, k kind, block *reference.Block, start caddyfile.Token) error {
	match := policy.MatcherTokens{}
	if err := caddyfileutil.ReadBlock(d, k.name, block, caddyfileutil.Subdirectives{"match": match.Read}); err != nil {
		return err
	}
	set, err := match.Set(d)
	if err != nil {
		return err
	}
	if err := policy.CheckMatch(set); err != nil {
		return caddyfileutil.At(start, fmt.Errorf("%s: match %w", k.name, err))
	}
	if len(set) > 0 {
		l.Match = caddyhttp.RawMatcherSets{caddy.ModuleMap(set)}
	}
	return nil
}
