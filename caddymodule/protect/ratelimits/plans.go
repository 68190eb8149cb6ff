package ratelimits

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
	"github.com/gatehouse-id/gatehouse/internal/spelling"
)

// Plan is the limits of those who hold it, at all sites with plan together.
type Plan struct {
	// How fast its holders can go on. Default: as fast as they want.
	Limits []*Limit `json:"limits,omitempty"`
	// How often they can come in a period. Default: any number.
	Quotas []*Limit `json:"quotas,omitempty"`
	// Whether it is the plan of everyone who has no other. Default: false.
	Default bool `json:"default,omitempty"`
}

// GroupPlan is the plan of the people in a group.
type GroupPlan struct {
	// The group. Required.
	Group string `json:"group"`
	// The name of the plan. Required.
	Plan string `json:"plan"`
}

// Plans are all plans and those who hold them. The client's own plan counts first, then that of the first group of the
// person, and then the default.
type Plans struct {
	clients  map[string][]*rule // of the configuration
	named    map[string][]*rule // by the names of the plans, for other clients
	groups   []groupRules
	standard []*rule
}

type groupRules struct {
	group string
	rules []*rule
}

var planName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func checkPlanName(s string) error {
	if !planName.MatchString(s) {
		return fmt.Errorf("%q is not the name of a plan: letters, digits and . _ -", s)
	}
	return nil
}

// ReadPlan reads a plan into a map:
//
//	plan <name> {
//		limit <number>/<period> [per <kind>] [burst <number>]
//		quota <number>/<period> [per <kind>]
//		default
//	}
func ReadPlan(d *caddyfile.Dispenser, into map[string]*Plan) error {
	var name string
	if err := caddyfileutil.ReadName(d, &name, checkPlanName); err != nil {
		return err
	}
	if into[name] != nil {
		return d.Errf("plan %s is already defined: keep one of them", name)
	}
	p := new(Plan)
	start := d.Token()
	if err := caddyfileutil.ReadBlock(d, "plan "+name, &reference.Plan, caddyfileutil.Subdirectives{
		"limit":   func(d *caddyfile.Dispenser) error { return read(d, &p.Limits, planLimits, nil) },
		"quota":   func(d *caddyfile.Dispenser) error { return read(d, &p.Quotas, planQuotas, nil) },
		"default": caddyfileutil.Flag(&p.Default),
	}); err != nil {
		return err
	}
	if len(p.Limits)+len(p.Quotas) == 0 {
		return caddyfileutil.At(start, fmt.Errorf("plan %s: %w", name, errNothing))
	}
	for other, o := range into {
		if p.Default && o.Default {
			return caddyfileutil.At(start, fmt.Errorf("plan %s: %s is the default already", name, other))
		}
	}
	into[name] = p
	return nil
}

var errNothing = errors.New("it has neither a limit nor a quota")

// ReadGroup reads the plan of a group:
//
//	group <name> {
//		plan <name>
//	}
func ReadGroup(d *caddyfile.Dispenser, into *[]GroupPlan) error {
	g := GroupPlan{}
	if err := caddyfileutil.ReadName(d, &g.Group, nil); err != nil {
		return err
	}
	if slices.ContainsFunc(*into, func(o GroupPlan) bool { return o.Group == g.Group }) {
		return d.Errf("group %s is already defined: keep one of them", g.Group)
	}
	start := d.Token()
	if err := caddyfileutil.ReadBlock(d, "group "+g.Group, &reference.Group, caddyfileutil.Subdirectives{
		"plan": caddyfileutil.Value(&g.Plan, checkPlanName),
	}); err != nil {
		return err
	}
	if g.Plan == "" {
		return caddyfileutil.At(start, fmt.Errorf("group %s: plan is missing", g.Group))
	}
	*into = append(*into, g)
	return nil
}

// ProvisionPlans prepares the plans. clients has the plan of each client that has one. nil: there are no plans.
func ProvisionPlans(ctx caddy.Context, res *caddyfileutil.Resolver, plans map[string]*Plan, clients map[string]string, groups []GroupPlan,
) (*Plans, error) {
	names := slices.Sorted(maps.Keys(plans))
	byClient, byPerson := map[string][]*rule{}, map[string][]*rule{}
	out := &Plans{clients: map[string][]*rule{}, named: byClient}
	standard := ""
	for _, name := range names {
		var err error
		if byClient[name], byPerson[name], err = plans[name].provision(ctx, res, name); err != nil {
			return nil, err
		}
		if !plans[name].Default {
			continue
		}
		if standard != "" {
			return nil, fmt.Errorf("plan %s: %s is the default already", name, standard)
		}
		standard, out.standard = name, byPerson[name]
	}
	find := func(of, name string) error {
		if plans[name] != nil {
			return nil
		}
		if meant := spelling.Word(name, names); meant != "" {
			return fmt.Errorf("%s: plan: there is no plan %s, did you mean %s?", of, name, meant)
		}
		return fmt.Errorf("%s: plan: there is no plan %s: write it in the global block, as `plan %s { limit 100/min }`", of, name, name)
	}
	for _, id := range slices.Sorted(maps.Keys(clients)) {
		if err := find("client "+id, clients[id]); err != nil {
			return nil, err
		}
		out.clients[id] = byClient[clients[id]]
	}
	for _, g := range groups {
		if err := find("group "+g.Group, g.Plan); err != nil {
			return nil, err
		}
		out.groups = append(out.groups, groupRules{g.Group, byPerson[g.Plan]})
	}
	if len(plans) == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	return out, nil
}

// provision returns the rules of a plan for clients and for people.
func (p *Plan) provision(ctx caddy.Context, res *caddyfileutil.Resolver, name string) (client, person []*rule, err error) {
	if len(p.Limits)+len(p.Quotas) == 0 {
		return nil, nil, fmt.Errorf("plan %s: %w", name, errNothing)
	}
	in := Scope{Site: "plan " + name}
	for _, list := range []struct {
		kind
		of []*Limit
	}{{planLimits, p.Limits}, {planQuotas, p.Quotas}} {
		for _, l := range list.of {
			r, err := l.provision(ctx, res, list.kind, in)
			if err != nil {
				return nil, nil, caddyfileutil.AtPlace(l.Place, fmt.Errorf("plan %s: %s: %w", name, list.name, err))
			}
			r.text += " of the plan " + name
			r.about, r.bucket.About = r.text, r.text
			client = append(client, r)
		}
	}
	nameRules(client)
	for i, r := range client {
		held := *r
		person = append(person, &held)
		if r.per == perHolder {
			client[i].per, person[i].per = perClient, perPerson
		}
	}
	return client, person, nil
}

// HasDefault reports whether everyone has a plan.
func (p *Plans) HasDefault() bool { return p != nil && p.standard != nil }

// of returns the rules of the plan of a caller. nil: it has none.
func (p *Plans) of(who *token.Introspection) []*rule {
	if rules := p.clients[who.ClientID]; rules != nil && who.ClientID != "" {
		return rules
	}
	if who.Client != nil && p.named[who.Client.Plan] != nil {
		return p.named[who.Client.Plan]
	}
	if who.Person != nil {
		for _, g := range p.groups {
			if slices.Contains(who.Person.Groups, g.group) {
				return g.rules
			}
		}
	}
	return p.standard
}
