package adminapi

import (
	"cmp"
	"context"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

func adminListGroups(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	limit, err := pageSize(r.URL.Query().Get("limit"))
	if err != nil {
		return nil, err
	}
	page := Page[person.Group]{Items: []person.Group{}}
	partition := cmp.Or(r.URL.Query().Get("partition"), audit.DefaultPartition)
	if err := i.checkPartition(partition); err != nil {
		return nil, err
	}
	err = i.Store.View(r.Context(), func(tx storage.Tx) error {
		list, err := i.Identity.Person.Groups(tx, partition, r.URL.Query().Get("after"), limit)
		page.Items = append(page.Items[:0], list...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(page.Items) == limit {
		page.Next = page.Items[limit-1].Name
	}
	return page, nil
}

// GroupRequest says what a group is to be like. Permissions that are absent stay.
type GroupRequest struct {
	Group       string    `json:"group"`               // name, partition\name or id
	Partition   string    `json:"partition,omitempty"` // of the name. Default: the default one
	Name        string    `json:"name,omitempty"`
	Permissions *[]string `json:"permissions,omitempty"`
	Add         []string  `json:"add,omitempty"`    // usernames or ids
	Remove      []string  `json:"remove,omitempty"` // usernames or ids
}

func adminAddGroup(i *Instance, r *http.Request, in GroupRequest) (any, error) {
	c := person.GroupChange{}
	var err error
	if c.Partition, c.Name, err = i.groupName(&in); err != nil {
		return nil, err
	}
	if in.Permissions != nil {
		c.Permissions = *in.Permissions
	}
	return i.Identity.Person.AddGroup(r.Context(), c, caller(r))
}

// GroupAnswer is a group after a change.
type GroupAnswer struct {
	person.Group

	// Warnings are about what does not let in new members, who have a role in the console now.
	Warnings []string `json:"warnings,omitempty"`
}

func adminChangeGroup(i *Instance, r *http.Request, in GroupRequest) (any, error) {
	g, err := i.group(r.Context(), &in)
	if err != nil {
		return nil, i.aboutGroup(r, cmp.Or(in.Partition, audit.DefaultPartition), in.Group, err)
	}
	add, err := i.personIDs(r, in.Add)
	if err != nil {
		return nil, err
	}
	remove, err := i.personIDs(r, in.Remove)
	if err != nil {
		return nil, err
	}
	out := GroupAnswer{}
	change := func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
		if in.Name != "" {
			c.Name = in.Name
		}
		if in.Permissions != nil {
			c.Permissions = *in.Permissions
		}
		c.Add, c.Remove = add, remove
		return nil
	}
	out.Group, err = i.Identity.Person.UpdateGroup(r.Context(), g.ID, caller(r), change)
	if err == nil {
		out.Warnings, err = i.planted(r.Context(), add)
	}
	return out, err
}

// planted warns of what does not let people in who have got a role in the console.
func (i *Instance) planted(ctx context.Context, ids []string) (out []string, err error) {
	err = i.Store.View(ctx, func(tx storage.Tx) error {
		out = nil
		for _, id := range ids {
			_, rec, err := i.Identity.Person.Find(tx, id)
			if err != nil {
				return err
			}
			if !i.Identity.Person.HasRole(&rec) {
				continue
			}
			list, err := person.PlantedFor(tx, id)
			if err != nil {
				return err
			}
			for _, p := range list {
				out = append(out, p.Warning(rec.Username))
			}
		}
		return nil
	})
	return out, err
}

func adminRemoveGroup(i *Instance, r *http.Request, in GroupRequest) (any, error) {
	g, err := i.group(r.Context(), &in)
	if err != nil {
		return nil, i.aboutGroup(r, cmp.Or(in.Partition, audit.DefaultPartition), in.Group, err)
	}
	return Outcome{"removed"}, i.Identity.Person.RemoveGroup(r.Context(), g.ID, caller(r), nil)
}

// checkPartition refuses the name of a partition that this service does not have.
func (i *Instance) checkPartition(name string) error {
	if p := i.Identity.Person; name != audit.DefaultPartition && (!p.Partitioned() || !p.HasPartition(name)) {
		return badRequestf("there is no partition %q", name)
	}
	return nil
}

// groupName returns the partition and the name of a group that is named by partition\name, as persons are, or by the
// name and the partition.
func (i *Instance) groupName(in *GroupRequest) (partition, name string, err error) {
	partition, name, ok := i.Identity.Person.SplitName(in.Group)
	if in.Partition != "" {
		if ok = ok && (partition == in.Partition || name == in.Group); ok {
			partition = in.Partition
		}
	}
	if !ok {
		return "", "", badRequestf("the group %q is not in that partition", in.Group)
	}
	return partition, name, i.checkPartition(partition)
}

// group returns the group that a request names, by its name or id.
func (i *Instance) group(ctx context.Context, in *GroupRequest) (g person.Group, err error) {
	partition, name, err := i.groupName(in)
	if err != nil {
		return g, err
	}
	err = i.Store.View(ctx, func(tx storage.Tx) (err error) {
		g, err = i.Identity.Person.Group(tx, partition, name)
		return err
	})
	return g, err
}

// personIDs returns the ids of persons by their usernames or ids.
func (i *Instance) personIDs(r contextual, who []string) (ids []string, err error) {
	for _, w := range who {
		p, err := i.Identity.Person.Person(r.Context(), w)
		if err != nil {
			return nil, i.aboutPerson(r, w, err)
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}
