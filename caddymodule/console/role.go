package console

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Role is what a person may do in the console. Each may do what the ones before it may.
type Role int

// The roles. (docs/decisions.md#roles-of-the-console)
const (
	Nobody   Role = iota
	Viewer        // sees everything, changes nothing
	Helpdesk      // looks after people who have no role
	Operator      // and after groups and applications
	Owner         // and after the people who have a role
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

// roleOf returns the role of somebody in these groups of a partition. Groups of other partitions give none.
func (c *Console) roleOf(partition string, groups []string) (best Role) {
	if partition != "" && partition != event.DefaultPartition {
		return Nobody
	}
	for r, group := range c.cfg.Groups {
		if slices.Contains(groups, group) {
			best = max(best, r)
		}
	}
	return best
}

// roleOfGroup returns the role that a group of a partition gives.
func (c *Console) roleOfGroup(partition, name string) Role {
	return c.roleOf(partition, []string{name})
}

// lastOwnerError says that a change would leave the console without an owner. It is a page to a person who removes
// their own account, and a wrong value to commands and SCIM.
type lastOwnerError struct{}

func (lastOwnerError) Error() string {
	return "the person is the last owner of the admin console, who stays: make another one first"
}

func (e lastOwnerError) Unwrap() []error {
	return []error{
		&front.Answer{Status: http.StatusConflict, Key: "error.last_owner", Again: front.DataPath},
		&person.ValidationError{Field: "state", Problem: e.Error()},
	}
}

var errLastOwner error = lastOwnerError{}

// guardOwner keeps the last owner from being removed, by whom and where ever. It is a hook of the removal.
func (c *Console) guardOwner(tx storage.Tx, id string) error {
	u, err := c.Units(tx)
	if err != nil || !u.Features.AdminConsoleEnabled {
		return err
	}
	_, rec, err := c.Identity.Person.Find(tx, id)
	if err != nil || rec.State != person.Active || c.roleOf(rec.PartitionName(), rec.Groups) != Owner {
		return err
	}
	return c.keepsOwner(tx, id)
}

// keepsOwner returns errLastOwner unless an active person besides this one is an owner.
func (c *Console) keepsOwner(tx storage.Tx, without string) error {
	p := c.Identity.Person
	id, err := p.GroupID(tx, event.DefaultPartition, c.cfg.Groups[Owner])
	if err != nil {
		return err
	}
	if id == "" {
		return errLastOwner
	}
	const most = 200
	for after := ""; ; {
		ids, err := p.Members(tx, id, after, most)
		if err != nil {
			return err
		}
		people, err := p.ManyPersons(tx, ids)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(people, func(o person.Person) bool { return o.ID != without && o.State == person.Active }) {
			return nil
		}
		if len(ids) < most {
			return errLastOwner
		}
		after = ids[len(ids)-1]
	}
}
