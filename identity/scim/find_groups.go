package scim

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

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

// looksAt reports whether a filter names an attribute.
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
	if q.filter != nil || q.sortBy != nil || q.wants("members") {
		select {
		case s.scans <- struct{}{}:
			defer func() { <-s.scans }()
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
	err := s.deps.Identity.Person.View(r.Context(), func(tx storage.Tx) error {
		f := &groupFinder{Server: s, call: c, query: q, ctx: r.Context(), tx: tx, left: s.members}
		*p = page{}
		return f.fill(p)
	})
	if err != nil {
		return err
	}
	p.write(w, q)
	return nil
}

// groupFinder is a query about groups in its transaction.
type groupFinder struct {
	*Server
	*call
	*query

	ctx  context.Context //nolint:containedctx // of the one request
	tx   storage.Tx
	left int // members that the answer has room for
}

// tree is a group as a resource of the answer.
func (f *groupFinder) tree(g *person.Group, members bool) (object, error) {
	if err := f.ctx.Err(); err != nil {
		return nil, err
	}
	return f.groupTree(f.tx, g, members)
}

// keep counts the members of a group that stays in memory until the answer is written.
func (f *groupFinder) keep(o object) error {
	list, _ := o["members"].([]any)
	if f.left -= len(list); f.left < 0 {
		return bad(tooMany, fmt.Sprintf("the groups have more than %d members: ask for fewer, or with excludedAttributes=members", f.members))
	}
	return nil
}

func (f *groupFinder) fill(p *page) error {
	q := f.query
	inFilter := looksAt(q.filter, "members") || q.sortBy != nil && q.sortBy.name == "members"
	list, err := f.groupsFor(f.tx, f.call, q)
	if err != nil {
		return err
	}
	var found []sortableGroup
	for i := range list {
		o, err := f.tree(&list[i], inFilter)
		if err != nil {
			return err
		}
		if q.filter != nil && !q.filter.match(o) {
			continue
		}
		if err := f.keep(o); err != nil {
			return err
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
			if one.tree, err = f.tree(one.group, true); err != nil {
				return err
			}
			if err := f.keep(one.tree); err != nil {
				return err
			}
		}
		p.resources = append(p.resources, one.tree)
	}
	return nil
}

// groupsFor returns the groups of the partition that can match a query.
func (s *Server) groupsFor(tx storage.Tx, c *call, q *query) ([]person.Group, error) {
	name, byName := equals(q.filter, "displayName", "")
	id, byID := equals(q.filter, "id", "")
	if !byName && !byID {
		list, err := s.deps.Identity.Person.Groups(tx, c.partition, "", maxGroupsListed)
		if err == nil && len(list) == maxGroupsListed {
			err = bad(tooMany, "there are too many groups to look through")
		}
		return list, err
	}
	g, err := s.deps.Identity.Person.GroupByID(tx, id)
	if byName {
		g, err = s.deps.Identity.Person.Group(tx, c.partition, name)
	}
	if err == nil && c.holds(&g) != nil {
		return nil, nil
	}
	if errors.Is(err, person.ErrNoGroup) {
		return nil, nil
	}
	return []person.Group{g}, err
}

type sortableGroup struct {
	key     string
	missing bool
	group   *person.Group
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
