package layout

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Role is the set of rights of a person in the console. Each may do what the ones before it may.
type Role int

// The roles. (docs/decisions/console.md#roles-of-the-console)
const (
	Nobody   Role = iota
	Viewer        // sees everything, changes nothing
	Helpdesk      // manages people without a role
	Operator      // manages groups and applications too
	Owner         // manages people with a role too
)

// roleNames are the words of the roles in the Caddyfile, in messages and in the names of their groups.
var roleNames = map[Role]string{Viewer: "viewer", Helpdesk: "helpdesk", Operator: "operator", Owner: "owner"}

// Roles returns the roles by their names in the Caddyfile.
func Roles() map[string]Role {
	out := map[string]Role{}
	for r, name := range roleNames {
		out[name] = r
	}
	return out
}

// String returns the name of the role in the Caddyfile and in messages.
func (r Role) String() string { return roleNames[r] }

// complete fills in the defaults.
func (c Config) complete() Config {
	c.Level = cmp.Or(c.Level, 2)
	groups := map[Role]string{}
	for r, name := range roleNames {
		groups[r] = cmp.Or(c.Groups[r], "gatehouse-"+name)
	}
	c.Groups = groups
	return c
}

// Group is the group of a role.
func (c Config) Group(r Role) string { return c.complete().Groups[r] }

// OwnerGroup is the group of the owners.
func (c Config) OwnerGroup() string { return c.Group(Owner) }

// RoleOf returns the role of someone in these groups of a partition. Groups of other partitions give none.
func (c Config) RoleOf(partition string, groups []string) (best Role) {
	if partition != "" && partition != audit.DefaultPartition {
		return Nobody
	}
	for r, name := range roleNames {
		if slices.Contains(groups, cmp.Or(c.Groups[r], "gatehouse-"+name)) {
			best = max(best, r)
		}
	}
	return best
}

// RoleOfGroup returns the role that a group of a partition gives.
func (f *Frame) RoleOfGroup(partition, name string) Role {
	return f.RoleOf(partition, []string{name})
}

// GroupNames are the names of the groups that give roles.
func (c Config) GroupNames() []string { return slices.Collect(maps.Values(c.Groups)) }

// RoleCell is a role as a mark.
func RoleCell(r Role) web.Cell {
	return web.Cell{Text: web.Say("console.role." + r.String()), Kind: "plain"}
}
