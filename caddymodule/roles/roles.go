// Package roles reads from JSON and the Caddyfile who has a role in the admin console. The rights of each role are in
// admin/console/layout.
package roles

import (
	"maps"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/caddyfileutil"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/reference"
)

// Admin are the holders of a role in the admin console.
type Admin struct {
	// The usernames of owners. One that does not exist is created, without a password. Default: none.
	Owners []string `json:"owners,omitempty"`
	// The authentication level that a session needs there, 1 to 4. Default: 2.
	Level caddyfileutil.Count `json:"level,omitempty"`
	// The groups whose members have a role, by the names of the roles: viewer, helpdesk, operator, owner. Default:
	// gatehouse- and the name of the role.
	Groups map[string]string `json:"groups,omitempty"`
	// The role from which on someone can look at the accounts of people of lower rank, for 15 minutes and without
	// changing anything: operator or owner. Default: off, no one can.
	SeeAs string `json:"see_as,omitempty"`
}

// Read reads
//
//	admin [<username>...] {
//		level    <1 to 4>
//		viewer   <group>
//		helpdesk <group>
//		operator <group>
//		owner    <group>
//		see_as   off|operator|owner
//	}
func Read(d *caddyfile.Dispenser) (*Admin, error) {
	a := &Admin{Groups: map[string]string{}}
	for d.NextArg() {
		a.Owners = append(a.Owners, d.Val())
	}
	words, groups := caddyfileutil.Subdirectives{
		"level":  caddyfileutil.Value(&a.Level, caddyfileutil.CheckLevel),
		"see_as": caddyfileutil.Value(&a.SeeAs, nil),
	}, map[string]*string{}
	for name := range layout.Roles() {
		groups[name] = new(string)
		words[name] = caddyfileutil.Value(groups[name], nil)
	}
	if err := caddyfileutil.ReadBlock(d, "admin", &reference.Admin, words); err != nil {
		return nil, err
	}
	for name, group := range groups {
		if *group != "" {
			a.Groups[name] = *group
		}
	}
	return a, nil
}

// Build returns the configuration of the console, and the owners. a can be nil.
func (a *Admin) Build(r *caddyfileutil.Resolver) (cfg layout.Config, owners []string) {
	if a == nil {
		return cfg, nil
	}
	owners = r.List("identity: admin", a.Owners, nil)
	cfg.Level = r.Count("identity: admin level", a.Level, caddyfileutil.CheckLevel)
	switch seeAs := r.Plain("identity: admin see_as", a.SeeAs, nil); seeAs {
	case "", "off":
	case layout.Operator.String(), layout.Owner.String():
		cfg.SeeAs = layout.Roles()[seeAs]
	default:
		r.Fail("identity: admin: see_as %q is unknown, known are: off, operator, owner", seeAs)
	}
	cfg.Groups = map[layout.Role]string{}
	roles, seen := layout.Roles(), map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(a.Groups)) {
		role, known := roles[name]
		if !known {
			r.Fail("identity: admin: unknown role %q, %s", name,
				caddyfileutil.DidYouMean(name, slices.Sorted(maps.Keys(roles)), "known are: viewer, helpdesk, operator, owner"))
			continue
		}
		cfg.Groups[role] = r.Plain("identity: admin "+name, a.Groups[name], nil)
	}
	for _, name := range slices.Sorted(maps.Keys(roles)) { // those that have their default, too
		group := cfg.Group(roles[name])
		if seen[group] != "" {
			r.Fail("identity: admin: %s and %s have the same group %q: a group gives one role", seen[group], name, group)
		}
		seen[group] = name
	}
	return cfg, owners
}
