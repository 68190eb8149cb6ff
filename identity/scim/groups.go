package scim

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupTree is a group as a resource, with its members of the partition where they are wanted.
func (s *Server) groupTree(tx storage.Tx, c *call, g *identity.Group, members bool) (object, error) {
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
		list, err := s.memberTrees(tx, c, g.ID)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			o["members"] = list
		}
	}
	s.seal(o, groupType, g.ID, g.CreatedAt, g.UpdatedAt, g.ID[:8]+"-"+strconv.FormatInt(g.Version, 10))
	return o, nil
}

func (s *Server) memberTrees(tx storage.Tx, c *call, group string) (out []any, err error) {
	for after := ""; ; {
		ids, err := s.Identity.Members(tx, group, after, chunk)
		if err != nil || len(ids) == 0 {
			return out, err
		}
		after = ids[len(ids)-1]
		list, err := s.Identity.ManyPersons(tx, ids)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			if s.Identity.PartitionOf(p) != c.partition {
				continue
			}
			one := object{"value": p.ID, "$ref": s.location(userType, p.ID), "type": "User"}
			put(one, "display", p.Name)
			if p.Name == "" {
				one["display"] = p.Username
			}
			out = append(out, one)
		}
	}
}

func (s *Server) groupOf(ctx context.Context, c *call, id string, members bool) (o object, err error) {
	err = s.Identity.Store.View(ctx, func(tx storage.Tx) error {
		g, err := s.Identity.GroupByID(tx, id)
		if err != nil {
			return err
		}
		o, err = s.groupTree(tx, c, &g, members)
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

// applyGroup makes a change of a resource that was sent whole. Members are added; whether the others go is the caller's.
func applyGroup(to *identity.GroupChange, o object) {
	ours, _ := o[ourGroup].(object)
	to.Name, to.ExternalID, to.Permissions = text(o, "displayName"), text(o, "externalId"), nil
	list, _ := ours["permissions"].([]any)
	for _, v := range list {
		if p, ok := v.(string); ok {
			to.Permissions = append(to.Permissions, p)
		}
	}
}

// memberIDs are the members that a resource or an operation names.
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
	v, err := readBody(w, r)
	if err != nil {
		return err
	}
	o, err := groupType.conform(v)
	if err != nil {
		return err
	}
	change := identity.GroupChange{Partition: c.partition}
	applyGroup(&change, o)
	list, _ := o["members"].([]any)
	if change.Add, err = memberIDs(list); err != nil {
		return err
	}
	g, err := s.Identity.AddGroup(r.Context(), change, c.by)
	if err != nil {
		return memberError(err)
	}
	made, err := s.groupOf(r.Context(), c, g.ID, true)
	if err != nil {
		return err
	}
	answer(w, http.StatusCreated, made, sel)
	return nil
}

// memberError: a member who is nobody is a value of the request, not the resource.
func memberError(err error) error {
	if errors.Is(err, identity.ErrNoPerson) {
		return bad(invalidValue, "members names somebody who is no person of this service")
	}
	return err
}

// replaceGroup serves PUT /scim/v2/Groups/{id}. (RFC 7644 3.5.1)
func (s *Server) replaceGroup(w http.ResponseWriter, r *http.Request, c *call) error {
	v, err := readBody(w, r)
	if err != nil {
		return err
	}
	o, err := groupType.conform(v)
	if err != nil {
		return err
	}
	list, _ := o["members"].([]any)
	ids, err := memberIDs(list)
	if err != nil {
		return err
	}
	return s.updateGroup(w, r, c, func(_ storage.Tx, _ object, change *identity.GroupChange) error {
		applyGroup(change, o)
		change.Add, change.Clear = ids, true
		return nil
	})
}

// patchGroup serves PATCH /scim/v2/Groups/{id}. (RFC 7644 3.5.2) Members are added and taken out by themselves: a group may have very many.
func (s *Server) patchGroup(w http.ResponseWriter, r *http.Request, c *call) error {
	v, err := readBody(w, r)
	if err != nil {
		return err
	}
	ops, err := parsePatch(groupType, v)
	if err != nil {
		return err
	}
	if ops, err = splitMembers(ops); err != nil {
		return err
	}
	return s.updateGroup(w, r, c, func(tx storage.Tx, now object, change *identity.GroupChange) error {
		p := memberPatch{Server: s, tx: tx, call: c, group: text(now, "id"), change: change}
		for _, op := range ops {
			about := op.path != nil && op.path.attr.name == "members"
			if !about {
				if err := groupType.apply(now, []operation{op}); err != nil {
					return err
				}
				continue
			}
			if err := p.apply(op); err != nil {
				return err
			}
		}
		applyGroup(change, now)
		return nil
	})
}

// splitMembers gives operations on the whole resource that name members among others a path.
func splitMembers(ops []operation) (out []operation, err error) {
	for _, op := range ops {
		o, ok := op.value.(object)
		if op.path != nil || !ok {
			out = append(out, op)
			continue
		}
		rest := object{}
		for name, v := range o {
			if !equalFold(name, "members") {
				rest[name] = v
				continue
			}
			p, err := groupType.path("members")
			if err != nil {
				return nil, err
			}
			out = append(out, operation{op.op, p, v})
		}
		if len(rest) > 0 {
			out = append(out, operation{op.op, nil, rest})
		}
	}
	return out, nil
}

// memberPatch gathers what the operations of a PATCH make of the members.
type memberPatch struct {
	*Server
	*call

	tx     storage.Tx
	group  string
	change *identity.GroupChange
}

func (p *memberPatch) apply(op operation) error {
	c := p.change
	if op.path.sub != nil {
		return bad(mutability, "members are added and removed, not changed")
	}
	if op.op != "remove" && op.path.filter != nil {
		return bad(invalidPath, "members are added without a condition")
	}
	var ids []string
	if op.value != nil {
		v, err := conform(op.path.attr, op.value, "members")
		if err != nil {
			return err
		}
		list, _ := v.([]any)
		if ids, err = memberIDs(list); err != nil {
			return err
		}
	}
	switch {
	case op.op == "add":
		c.Remove = slices.DeleteFunc(c.Remove, func(id string) bool { return slices.Contains(ids, id) })
		c.Add = append(c.Add, ids...)
	case op.op == "replace":
		c.Add, c.Remove, c.Clear = ids, nil, true
	case op.path.filter == nil && op.value == nil:
		c.Add, c.Remove, c.Clear = nil, nil, true
	default:
		if op.path.filter != nil {
			var err error
			if ids, err = p.meeting(op.path.filter); err != nil {
				return err
			}
		}
		c.Add = slices.DeleteFunc(c.Add, func(id string) bool { return slices.Contains(ids, id) })
		c.Remove = append(c.Remove, ids...)
	}
	if len(c.Add)+len(c.Remove) > maxOperations {
		return &identity.TooManyError{Field: "members", Most: maxOperations}
	}
	return nil
}

// meeting are the members that meet a condition. The usual one names a member.
func (p *memberPatch) meeting(f filter) ([]string, error) {
	if c, ok := f.(comparison); ok && c.op == "eq" && c.attr.name == "value" {
		id, _ := c.value.(string)
		return []string{id}, nil
	}
	list, err := p.memberTrees(p.tx, p.call, p.group)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, v := range list {
		if one, ok := v.(object); ok && f.match(one) {
			out = append(out, text(one, "value"))
		}
	}
	return out, nil
}

// updateGroup lets change say what a group is to be like.
func (s *Server) updateGroup(w http.ResponseWriter, r *http.Request, c *call, change func(tx storage.Tx, now object, to *identity.GroupChange) error) error {
	sel, err := selectionOfQuery(groupType, r.URL.Query())
	if err != nil {
		return err
	}
	id, err := resourceID(r)
	if err != nil {
		return err
	}
	_, err = s.Identity.UpdateGroup(r.Context(), id, c.by, func(tx storage.Tx, g identity.Group, to *identity.GroupChange) error {
		now, err := s.groupTree(tx, c, &g, false)
		if err != nil {
			return err
		}
		if err := unchanged(r, now); err != nil {
			return err
		}
		to.Partition = c.partition
		return change(tx, now, to)
	})
	if err != nil {
		return memberError(err)
	}
	o, err := s.groupOf(r.Context(), c, id, sel.wants("members"))
	if err != nil {
		return err
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
	err = s.Identity.RemoveGroup(r.Context(), id, c.by, func(tx storage.Tx, g identity.Group) error {
		o, err := s.groupTree(tx, c, &g, false)
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
func (s *Server) listGroups(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := queryOfURL(groupType, r)
	if err != nil {
		return err
	}
	return s.answerGroups(w, r, c, q)
}

// searchGroups serves POST /scim/v2/Groups/.search. (RFC 7644 3.4.3)
func (s *Server) searchGroups(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := queryOfBody(groupType, w, r)
	if err != nil {
		return err
	}
	return s.answerGroups(w, r, c, q)
}

// looksAt tells whether a filter is about an attribute.
func looksAt(f filter, name string) bool {
	switch f := f.(type) {
	case and:
		return looksAt(f.a, name) || looksAt(f.b, name)
	case or:
		return looksAt(f.a, name) || looksAt(f.b, name)
	case not:
		return looksAt(f.f, name)
	case some:
		return f.in == name
	case comparison:
		return f.attr.name == name
	}
	return false
}

const maxGroupsListed = 100_000 // groups that one request looks through

func (s *Server) answerGroups(w http.ResponseWriter, r *http.Request, c *call, q *query) error {
	p := &page{}
	inFilter := looksAt(q.filter, "members") || q.sortBy != nil && q.sortBy.name == "members"
	if q.filter != nil || q.sortBy != nil {
		select {
		case s.scans <- struct{}{}:
			defer func() { <-s.scans }()
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	err := s.Identity.Store.View(r.Context(), func(tx storage.Tx) error {
		*p = page{}
		list, err := s.groupsFor(tx, q)
		if err != nil {
			return err
		}
		var found []sortableGroup
		for i := range list {
			o, err := s.groupTree(tx, c, &list[i], inFilter)
			if err != nil {
				return err
			}
			if q.filter != nil && !q.filter.match(o) {
				continue
			}
			one := sortableGroup{group: &list[i], tree: o}
			if q.sortBy != nil {
				key, ok := q.key(o)
				one.key, one.missing = key, !ok
			}
			found = append(found, one)
		}
		sortGroups(found, q)
		p.total = len(found)
		from := min(q.start-1, len(found))
		for _, one := range found[from:min(from+q.count, len(found))] {
			if q.wants("members") && !inFilter {
				if one.tree, err = s.groupTree(tx, c, one.group, true); err != nil {
					return err
				}
			}
			p.resources = append(p.resources, one.tree)
		}
		return nil
	})
	if err != nil {
		return err
	}
	p.write(w, q)
	return nil
}

// groupsFor returns the groups that a query can be about.
func (s *Server) groupsFor(tx storage.Tx, q *query) ([]identity.Group, error) {
	name, byName := equals(q.filter, "displayName", "")
	id, byID := equals(q.filter, "id", "")
	if !byName && !byID {
		list, err := s.Identity.Groups(tx, "", maxGroupsListed)
		if err == nil && len(list) == maxGroupsListed {
			err = bad(tooMany, "there are too many groups to look through")
		}
		return list, err
	}
	g, err := s.Identity.GroupByID(tx, id)
	if byName {
		g, err = s.Identity.Group(tx, name)
	}
	if errors.Is(err, identity.ErrNoGroup) {
		return nil, nil
	}
	return []identity.Group{g}, err
}

type sortableGroup struct {
	key     string
	missing bool
	group   *identity.Group
	tree    object
}

func sortGroups(list []sortableGroup, q *query) {
	if q.sortBy == nil {
		return
	}
	slices.SortStableFunc(list, func(a, b sortableGroup) int {
		sign := strings.Compare(a.key, b.key)
		if a.missing != b.missing {
			sign = -1
			if a.missing {
				sign = 1
			}
		}
		if q.descending {
			sign = -sign
		}
		return sign
	})
}
