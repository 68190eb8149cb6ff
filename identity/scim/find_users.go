package scim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxScanned = 500_000 // persons that one request looks through
	chunk      = 256     // of them at a time
)

// findUsers answers a query. With an index that takes a few reads, and a list of everybody by userName counts without
// reading; everything else reads through the partition.
func (s *Server) findUsers(ctx context.Context, c *call, q *query) (*page, error) {
	f := &finder{Server: s, call: c, query: q}
	byName := q.sortBy == nil || q.sortBy.name == "userName"
	ids, indexed := f.indexes()
	if !indexed && q.filter != nil || !byName {
		select {
		case s.scans <- struct{}{}:
			defer func() { <-s.scans }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p := &page{}
	err := s.deps.Identity.Person.View(ctx, func(tx storage.Tx) error {
		f.tx, f.groups, f.ctx = tx, s.groupIDs(tx, c, map[string]string{}), ctx
		*p = page{}
		switch {
		case ids != nil:
			return f.fromIndex(p, ids)
		case q.filter == nil && byName:
			return f.all(p)
		}
		return f.scan(p, byName)
	})
	return p, err
}

// finder is a query in its transaction.
type finder struct {
	*Server
	*call
	*query

	ctx    context.Context //nolint:containedctx // of the one request
	tx     storage.Tx
	groups func(string) (string, error)
}

// indexes returns functions that find the few persons who can match the filter.
func (f *finder) indexes() (ids func() ([]string, error), ok bool) {
	if f.filter == nil {
		return nil, false
	}
	one := func(id string, err error) ([]string, error) {
		if err != nil {
			if asError(err).Status == 404 {
				err = nil
			}
			return nil, err
		}
		return []string{id}, nil
	}
	if v, ok := equals(f.filter, "id", ""); ok {
		return func() ([]string, error) { return one(v, nil) }, true
	}
	if v, ok := equals(f.filter, "userName", ""); ok {
		return func() ([]string, error) { return one(f.deps.Identity.Person.ByUsername(f.tx, f.partition, v)) }, true
	}
	if v, ok := equals(f.filter, "externalId", ""); ok {
		return func() ([]string, error) { return f.deps.Identity.Person.ByExternalID(f.tx, f.partition, v) }, true
	}
	if v, ok := equals(f.filter, "emails", "value"); ok {
		return func() ([]string, error) { return f.deps.Identity.Person.ByEmail(f.tx, f.partition, v) }, true
	}
	return nil, false
}

// resource returns a person as a resource of the page. Its version is that of the whole resource, even if only a part
// is selected.
func (f *finder) resource(d *person.Details) (object, error) { return f.userTree(d, f.groups) }

func (f *finder) fromIndex(p *page, find func() ([]string, error)) error {
	ids, err := find()
	if err != nil {
		return err
	}
	list, err := f.deps.Identity.Person.ManyDetails(f.tx, slices.DeleteFunc(ids, func(id string) bool { return len(id) != 36 }))
	if err != nil {
		return err
	}
	m := f.newMatches()
	for i := range list {
		if err := m.look(&list[i]); err != nil {
			return err
		}
	}
	return m.fill(p)
}

// all returns a page of everybody in the order of usernames.
func (f *finder) all(p *page) error {
	total, version, err := f.deps.Identity.Person.CountPersons(f.tx, f.partition)
	if err != nil {
		return err
	}
	p.total = int(total)
	if f.count == 0 || f.start > p.total {
		return nil
	}
	skip := f.start - 1
	place := cursor{f.partition, f.descending, version, f.start}
	after, known := f.cursors.get(place)
	if known {
		skip = 0
	}
	var ids []string
	last := ""
	err = f.deps.Identity.Person.PersonIDs(f.tx, f.partition, after, f.descending, func(folded, id string) (bool, error) {
		if skip > 0 {
			skip--
			return true, nil
		}
		ids, last = append(ids, id), folded
		return len(ids) < f.count, nil
	})
	if err != nil {
		return err
	}
	place.start += len(ids)
	f.cursors.put(place, last)
	list, err := f.deps.Identity.Person.ManyDetails(f.tx, ids)
	if err != nil {
		return err
	}
	for i := range list {
		o, err := f.resource(&list[i])
		if err != nil {
			return err
		}
		p.resources = append(p.resources, o)
	}
	return nil
}

// scan reads through everybody of the partition.
func (f *finder) scan(p *page, byName bool) error {
	m := f.newMatches()
	m.ordered = byName
	var ids []string
	seen := 0
	look := func() error {
		list, err := f.deps.Identity.Person.ManyDetails(f.tx, ids)
		ids = ids[:0]
		for i := 0; i < len(list) && err == nil; i++ {
			err = m.look(&list[i])
		}
		if err == nil {
			err = f.ctx.Err()
		}
		return err
	}
	err := f.deps.Identity.Person.PersonIDs(f.tx, f.partition, "", byName && f.descending, func(_, id string) (bool, error) {
		if seen++; seen > maxScanned {
			return false, bad(tooMany, fmt.Sprintf("no index answers this, and there are more than %d persons to look through", maxScanned))
		}
		if ids = append(ids, id); len(ids) < chunk {
			return true, nil
		}
		return true, look()
	})
	if err == nil {
		err = look()
	}
	if err != nil {
		return err
	}
	return m.fill(p)
}

// matchList gathers the matches of a filter. In the order of the scan it holds one page; in another order it holds the
// keys of all.
type matchList struct {
	*finder

	ordered bool
	total   int
	page    []object
	sorted  []sortable
}

type sortable struct {
	key     string
	missing bool
	id      string
}

func (f *finder) newMatches() *matchList {
	return &matchList{finder: f, ordered: f.sortBy == nil}
}

func (m *matchList) look(d *person.Details) error {
	if d.Partition != m.partition {
		return nil
	}
	o, err := m.userDraft(d, m.groups)
	if err != nil || m.filter != nil && !m.filter.match(o) {
		return err
	}
	m.total++
	if !m.ordered {
		key, ok := m.key(o)
		m.sorted = append(m.sorted, sortable{key, !ok, d.ID})
		return nil
	}
	if m.total >= m.start && len(m.page) < m.count {
		version(o)
		m.page = append(m.page, o)
	}
	return nil
}

// fill completes the page. Resources without a value come last in ascending order. (RFC 7644 3.4.2.3)
func (m *matchList) fill(p *page) error {
	p.total, p.resources = m.total, m.page
	if m.ordered {
		return nil
	}
	slices.SortFunc(m.sorted, func(a, b sortable) int {
		sign := strings.Compare(a.key, b.key)
		switch {
		case a.missing != b.missing && a.missing:
			sign = 1
		case a.missing != b.missing:
			sign = -1
		case sign == 0:
			sign = strings.Compare(a.id, b.id)
		}
		if m.descending {
			sign = -sign
		}
		return sign
	})
	from := min(m.start-1, len(m.sorted))
	ids := make([]string, 0, m.count)
	for _, one := range m.sorted[from:min(from+m.count, len(m.sorted))] {
		ids = append(ids, one.id)
	}
	list, err := m.deps.Identity.Person.ManyDetails(m.tx, ids)
	if err != nil {
		return err
	}
	for i := range list {
		o, err := m.resource(&list[i])
		if err != nil {
			return err
		}
		p.resources = append(p.resources, o)
	}
	return nil
}

// cursors remember where a page ended, so a client that reads page after page does not count from the beginning each
// time. They are valid until a person is added, removed or renamed; then the page is found by counting again.
type cursors struct {
	mu   sync.Mutex // guards all below
	at   map[cursor]string
	ring []cursor
	next int
}

// cursor names the beginning of a page.
type cursor struct {
	partition  string
	descending bool
	version    int64
	start      int
}

const maxCursors = 256

func (c *cursors) get(at cursor) (after string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after, ok = c.at[at]
	return after, ok
}

func (c *cursors) put(at cursor, after string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.at, c.ring = map[cursor]string{}, make([]cursor, maxCursors)
	}
	if _, ok := c.at[at]; !ok {
		delete(c.at, c.ring[c.next])
		c.ring[c.next] = at
		c.next = (c.next + 1) % maxCursors
	}
	c.at[at] = after
}
