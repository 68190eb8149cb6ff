package scim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupTree is a group as a resource, with its members if they are selected.
func (s *Server) groupTree(tx storage.Tx, g *person.Group, members bool) (object, error) {
	o := object{"id": g.ID, "displayName": g.Name, "schemas": []any{coreGroup, ourGroup}}
	put(o, "externalId", g.ExternalID)
	permissions := make([]any, 0, len(g.Permissions))
	for _, p := range g.Permissions {
		permissions = append(permissions, p)
	}
	o[ourGroup] = object{}
	if len(permissions) > 0 {
		o[ourGroup] = object{"permissions": permissions}
	}
	if members {
		list, err := s.memberTrees(tx, g.ID)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			o["members"] = list
		}
	}
	s.describe(o, groupType, g.ID, g.CreatedAt, g.UpdatedAt)
	setVersion(o, g.ID[:8]+"-"+strconv.FormatInt(g.Version, 10))
	return o, nil
}

func (s *Server) memberTrees(tx storage.Tx, group string) (out []any, err error) {
	for after := ""; ; {
		ids, err := s.deps.Identity.Person.Members(tx, group, after, chunk)
		if err != nil || len(ids) == 0 {
			return out, err
		}
		after = ids[len(ids)-1]
		list, err := s.deps.Identity.Person.ManyPersons(tx, ids)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			one := object{"value": p.ID, "$ref": s.location(userType, p.ID), "type": "User"}
			put(one, "display", p.Name)
			if p.Name == "" {
				one["display"] = p.Username
			}
			out = append(out, one)
		}
	}
}

// holds refuses a group of another partition as one that does not exist.
func (c *call) holds(g *person.Group) error {
	if cmp.Or(g.Partition, audit.DefaultPartition) != c.partition {
		return notFound()
	}
	return nil
}

func (s *Server) groupOf(ctx context.Context, c *call, id string, members bool) (o object, err error) {
	err = s.deps.Identity.Person.View(ctx, func(tx storage.Tx) error {
		g, err := s.deps.Identity.Person.GroupByID(tx, id)
		if err != nil {
			return err
		}
		if err := c.holds(&g); err != nil {
			return err
		}
		o, err = s.groupTree(tx, &g, members)
		return err
	})
	return o, err
}

// readGroup serves GET /scim/v2/Groups/{id}. (RFC 7644 3.4.1)
func (s *Server) readGroup(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	sel, err := selectionOfQuery(groupType, r.URL.Query())
	if err != nil {
		return err
	}
	o, err := s.groupOf(r.Context(), c, id, sel.wants("members"))
	if err != nil {
		return err
	}
	return answerRead(w, r, groupType, o)
}

// applyGroup makes a change of a whole resource. Members are added; whether the others are removed is up to the caller.
func applyGroup(to *person.GroupChange, o object) {
	ours, _ := o[ourGroup].(object)
	to.Name, to.ExternalID, to.Permissions = text(o, "displayName"), text(o, "externalId"), nil
	list, _ := ours["permissions"].([]any)
	for _, v := range list {
		if p, ok := v.(string); ok {
			to.Permissions = append(to.Permissions, p)
		}
	}
}

// memberIDs returns the members that a resource or an operation names.
func memberIDs(list []any) (out []string, err error) {
	for _, v := range list {
		one, _ := v.(object)
		if kind := text(one, "type"); kind != "" && !strings.EqualFold(kind, "User") {
			return nil, bad(invalidValue, "members of members are not supported: type wants User")
		}
		out = append(out, text(one, "value"))
	}
	return out, nil
}

// createGroup serves POST /scim/v2/Groups. (RFC 7644 3.3)
func (s *Server) createGroup(w http.ResponseWriter, r *http.Request, c *call) error {
	sel, err := selectionOfQuery(groupType, r.URL.Query())
	if err != nil {
		return err
	}
	read := new(reader)
	o, err := read.readResource(w, r, groupType)
	if err != nil {
		return err
	}
	change := person.GroupChange{Partition: c.partition}
	applyGroup(&change, o)
	list, _ := o["members"].([]any)
	if change.Add, err = memberIDs(list); err != nil {
		return err
	}
	g, err := s.deps.Identity.Person.AddGroup(r.Context(), change, c.by)
	if err != nil {
		return memberError(err)
	}
	made, err := s.groupOf(r.Context(), c, g.ID, true)
	if err != nil {
		return err
	}
	s.tellLeft(w, r, c, read.left)
	answer(w, http.StatusCreated, made, sel)
	return nil
}

// memberError: an unknown member is a wrong value in the request, and not a missing resource. The answer names those
// that look like ids, since nothing else of a request is repeated.
func memberError(err error) error {
	unknown := new(person.UnknownMembersError)
	if !errors.As(err, &unknown) {
		return err
	}
	ids := slices.DeleteFunc(slices.Clone(unknown.IDs), func(id string) bool { return !person.IsID(id) })
	text := "members names someone who is not a person of this service"
	switch named, all := min(len(ids), maxUnknown), len(unknown.IDs); {
	case named == 0:
		text += fmt.Sprintf(": %d of the values cannot be an id", all)
	case named < all:
		text += fmt.Sprintf(": %s and %d more", strings.Join(ids[:named], ", "), all-named)
	default:
		text += ": " + strings.Join(ids, ", ")
	}
	return bad(invalidValue, text)
}

// maxUnknown is the maximum number of unknown members that an answer names.
const maxUnknown = 20

// replaceGroup serves PUT /scim/v2/Groups/{id}. (RFC 7644 3.5.1)
func (s *Server) replaceGroup(w http.ResponseWriter, r *http.Request, c *call) error {
	read := new(reader)
	o, err := read.readResource(w, r, groupType)
	if err != nil {
		return err
	}
	list, _ := o["members"].([]any)
	ids, err := memberIDs(list)
	if err != nil {
		return err
	}
	return s.updateGroup(w, r, c, read, func(_ storage.Tx, _ object, change *person.GroupChange) error {
		applyGroup(change, o)
		change.Add, change.Clear = ids, true
		return nil
	})
}

// updateGroup changes a group as change says.
func (s *Server) updateGroup(w http.ResponseWriter, r *http.Request, c *call, read *reader,
	change func(tx storage.Tx, now object, to *person.GroupChange) error,
) error {
	sel, err := selectionOfQuery(groupType, r.URL.Query())
	if err != nil {
		return err
	}
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	_, err = s.deps.Identity.Person.UpdateGroup(r.Context(), id, c.by, func(tx storage.Tx, g person.Group, to *person.GroupChange) error {
		if err := c.holds(&g); err != nil {
			return err
		}
		now, err := s.groupTree(tx, &g, false)
		if err != nil {
			return err
		}
		if err := unchanged(r, now); err != nil {
			return err
		}
		return change(tx, now, to)
	})
	if err != nil {
		return memberError(err)
	}
	s.tellLeft(w, r, c, read.left)
	quiet := r.Method == http.MethodPatch && sel.isAll()
	o, err := s.groupOf(r.Context(), c, id, !quiet && sel.wants("members"))
	if err != nil {
		return err
	}
	if quiet { // RFC 7644 3.5.2: a client that adds one member to a hundred thousand does not want them all back
		meta, _ := o["meta"].(object)
		w.Header().Set("ETag", text(meta, "version"))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	answer(w, http.StatusOK, o, sel)
	return nil
}

// deleteGroup serves DELETE /scim/v2/Groups/{id}. (RFC 7644 3.6)
func (s *Server) deleteGroup(w http.ResponseWriter, r *http.Request, c *call) error {
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	err = s.deps.Identity.Person.RemoveGroup(r.Context(), id, c.by, func(tx storage.Tx, g person.Group) error {
		if err := c.holds(&g); err != nil {
			return err
		}
		o, err := s.groupTree(tx, &g, false)
		if err != nil {
			return err
		}
		return unchanged(r, o)
	})
	if err != nil {
		return err
	}
	headers(w)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// listGroups serves GET /scim/v2/Groups. (RFC 7644 3.4.2)
