package command

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupsPage is one page of groups in the order of their names.
type groupsPage struct {
	Items []person.Group `json:"items"`
	Next  string         `json:"next,omitempty"` // the value of after for the next page
}

func adminListGroups(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	limit := 100
	if s := r.URL.Query().Get("limit"); s != "" {
		var err error
		if limit, err = strconv.Atoi(s); err != nil || limit < 1 || limit > maxPersons {
			return nil, badRequestf("limit is not between 1 and %d", maxPersons)
		}
	}
	page := groupsPage{Items: []person.Group{}}
	err := i.Store.View(r.Context(), func(tx storage.Tx) error {
		list, err := i.Identity.Person.Groups(tx, r.URL.Query().Get("after"), limit)
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

// groupRequest says what a group is to be like. Permissions that are absent stay.
type groupRequest struct {
	Group       string    `json:"group"` // name or id
	Name        string    `json:"name,omitempty"`
	Permissions *[]string `json:"permissions,omitempty"`
	Add         []string  `json:"add,omitempty"`    // usernames or ids
	Remove      []string  `json:"remove,omitempty"` // usernames or ids
}

func adminAddGroup(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in groupRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	c := person.GroupChange{Name: in.Group}
	if in.Permissions != nil {
		c.Permissions = *in.Permissions
	}
	return i.Identity.Person.AddGroup(r.Context(), c, caller(r))
}

func adminChangeGroup(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in groupRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	g, err := i.group(r.Context(), in.Group)
	if err != nil {
		return nil, err
	}
	add, err := i.personIDs(r.Context(), in.Add)
	if err != nil {
		return nil, err
	}
	remove, err := i.personIDs(r.Context(), in.Remove)
	if err != nil {
		return nil, err
	}
	return i.Identity.Person.UpdateGroup(r.Context(), g.ID, caller(r), func(_ storage.Tx, _ person.Group, c *person.GroupChange) error {
		if in.Name != "" {
			c.Name = in.Name
		}
		if in.Permissions != nil {
			c.Permissions = *in.Permissions
		}
		c.Add, c.Remove = add, remove
		return nil
	})
}

func adminRemoveGroup(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	var in groupRequest
	if err := body(r, &in); err != nil {
		return nil, err
	}
	g, err := i.group(r.Context(), in.Group)
	if err != nil {
		return nil, err
	}
	return outcome{"removed"}, i.Identity.Person.RemoveGroup(r.Context(), g.ID, caller(r), nil)
}

// group returns the group of a name or id.
func (i *Instance) group(ctx context.Context, nameOrID string) (g person.Group, err error) {
	err = i.Store.View(ctx, func(tx storage.Tx) (err error) {
		g, err = i.Identity.Person.Group(tx, nameOrID)
		return err
	})
	return g, err
}

// personIDs returns the ids of persons by their usernames or ids.
func (i *Instance) personIDs(ctx context.Context, who []string) (ids []string, err error) {
	for _, w := range who {
		p, err := i.Identity.Person.Person(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w, err)
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}
