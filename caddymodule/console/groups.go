package console

import (
	"cmp"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupsScreen is the list of the groups.
func groupsScreen() *screen {
	return &screen{
		name: "groups", path: "/groups", icon: "people", role: Viewer, show: (*Console).showGroups,
		acts: []*act{{name: "create-group", role: Operator, ask: askGroup, do: (*Console).createGroup}},
	}
}

// groupNames are the names of the groups that give roles.
func (c Config) groupNames() []string { return slices.Collect(maps.Values(c.Groups)) }

func (c *Console) showGroups(v *visit) (*page.Console, error) {
	q, after := strings.TrimSpace(v.URL.Query().Get("q")), v.URL.Query().Get("after")
	var list []person.Group
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		list, next = nil, ""
		if q != "" {
			g, err := c.Identity.Person.Group(tx, event.DefaultPartition, q)
			if err == nil {
				list = []person.Group{g}
				return nil
			}
			if !errors.Is(err, person.ErrNoGroup) {
				return err
			}
		}
		found, err := c.Identity.Person.Groups(tx, event.DefaultPartition, after, maxScan)
		for _, g := range found {
			if !strings.Contains(strings.ToLower(g.Name), strings.ToLower(q)) {
				continue
			}
			if list = append(list, g); len(list) == pageRows {
				next = g.Name
				break
			}
		}
		if len(found) == maxScan && next == "" {
			next = found[len(found)-1].Name
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &page.Table{Label: page.Say("console.groups.title"), Columns: []string{"console.column.group", "console.column.members", "console.column.role"}}
	for _, g := range list {
		row := page.TableRow{URL: groupPath(g.ID), Cells: []page.Cell{{Name: g.Name}, {Text: page.Say("console.count", "n", g.Members)}, {}}}
		if r := c.roleOfGroup(g.Partition, g.Name); r != Nobody {
			row.Cells[2] = roleCell(r)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = pagesOf(v, next)
	out := &page.Console{Title: page.Say("console.groups.title"), Actions: c.buttons(v), Parts: []page.ConsolePart{{Table: t}}}
	out.Filter = &page.Filter{Action: v.path(), Fields: []page.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: q, EnterKeyHint: "search"}}}
	if q != "" {
		out.Filter.Clear = v.path()
	}
	if len(list) == 0 && next == "" {
		out.Parts[0].Empty = c.empty(v, "console.groups.none", "create-group")
	}
	return out, nil
}

func askGroup(_ *Console, v *visit) (question, error) {
	q := question{fields: []page.Field{
		{Name: "group", Required: true, MaxLength: person.MaxName},
		{Name: "permissions", Hint: "console.field.permissions.hint"},
	}}
	if v.group != nil {
		q.fields[0].Value, q.fields[1].Value = v.group.Name, strings.Join(v.group.Permissions, " ")
		q.fill = []any{"n", v.group.Members}
	}
	return q, nil
}

func (c *Console) createGroup(v *visit, in url.Values) (result, error) {
	change := person.GroupChange{Name: strings.TrimSpace(in.Get("group")), Permissions: lines(in.Get("permissions"))}
	if c.roleOfGroup("", change.Name) != Nobody && v.role != Owner {
		return result{}, &problem{field: "group", key: "console.problem.role"}
	}
	g, err := c.Identity.Person.AddGroup(v.Context(), change, c.actor(v))
	return result{to: groupPath(g.ID)}, err
}

// groupScreen is one group.
func groupScreen() *screen {
	return &screen{
		name: "group", path: "/groups/{id}", role: Viewer, find: (*Console).findGroup, show: (*Console).showGroup,
		acts: []*act{
			{name: "add-member", role: Operator, may: (*Console).mayChangeShown, ask: (*Console).askMember, do: (*Console).addMember},
			{name: "remove-member", role: Operator, may: (*Console).mayChangeShown, danger: true, hidden: true, ask: (*Console).askLeaving, do: (*Console).removeMember},
			{name: "edit-group", role: Operator, may: (*Console).mayRename, ask: askGroup, do: (*Console).editGroup},
			{name: "remove-group", role: Operator, may: (*Console).mayRename, danger: true, ask: askGroupEnd, do: (*Console).removeGroup},
		},
	}
}

func groupPath(id string) string { return Root + "/groups/" + id }

func (c *Console) findGroup(v *visit) error {
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		g, err := c.Identity.Person.GroupByID(tx, v.PathValue("id"))
		if errors.Is(err, person.ErrNoGroup) {
			return front.NotFound()
		}
		v.group = &g
		return err
	})
}

// mayChange refuses a group that gives a role to everybody but owners.
func (c *Console) mayChange(v *visit, g person.Group) error {
	if c.roleOfGroup(g.Partition, g.Name) != Nobody && v.role != Owner {
		return denied("the group gives a role")
	}
	return nil
}

func (c *Console) mayChangeShown(v *visit) error { return c.mayChange(v, *v.group) }

// mayRename refuses the groups that the console hangs on.
func (c *Console) mayRename(v *visit) error {
	if c.roleOfGroup(v.group.Partition, v.group.Name) != Nobody {
		return denied("the rights of the console hang on the group")
	}
	return nil
}

func (c *Console) showGroup(v *visit) (*page.Console, error) {
	g := v.group
	out := &page.Console{Name: g.Name, Up: &page.Up{Label: page.Say("console.groups.title"), URL: Root + "/groups"}}
	if r := c.roleOfGroup(g.Partition, g.Name); r != Nobody {
		out.Tags = []page.Cell{roleCell(r)}
		out.Lead = page.Say("console.group.role")
	}
	var people []person.Person
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) error {
		ids, err := c.Identity.Person.Members(tx, g.ID, v.URL.Query().Get("after"), pageRows)
		if err != nil {
			return err
		}
		if next = ""; len(ids) == pageRows {
			next = ids[len(ids)-1]
		}
		people, err = c.Identity.Person.ManyPersons(tx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	facts := []page.ConsoleFact{{Label: "console.column.members", Cells: []page.Cell{{Text: page.Say("console.count", "n", g.Members)}}}, {Label: "console.field.permissions", Cells: []page.Cell{orNone(strings.Join(g.Permissions, ", "))}}}
	uses := page.ConsoleFact{Label: "console.group.uses"}
	places, err := c.GroupUses(v.Context(), g.Name)
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		uses.Cells = append(uses.Cells, page.Cell{Name: place, Code: true})
	}
	if len(uses.Cells) == 0 {
		uses.Cells = []page.Cell{{Text: page.Say("console.group.uses.none")}}
	}
	facts = append(facts, uses, page.ConsoleFact{Label: "console.column.created", Cells: []page.Cell{{Text: page.Say("console.time", "time", g.CreatedAt)}}})
	t := &page.Table{Label: page.Say("console.column.members"), Columns: []string{"console.column.person", "console.column.email", "console.column.state", "console.column.action"}}
	for _, p := range people {
		row := page.TableRow{URL: personPath(p.ID), Cells: []page.Cell{{Name: manage.Typed(p), Note: p.Name}, {Name: p.Email}, stateCell(p.State), {}}}
		if p.ID != v.me() && v.outranks(c.roleOf(p.Partition, p.Groups)) {
			row.Cells[3] = c.link(v, "remove-member", "person", p.ID)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = pagesOf(v, next)
	members := page.ConsolePart{ID: "members", Title: page.Say("console.column.members"), Table: t}
	if len(people) == 0 {
		members.Empty = c.empty(v, "console.group.none", "add-member")
	}
	out.Parts = []page.ConsolePart{{Facts: facts, Actions: c.buttons(v)}, members}
	return out, nil
}

func (c *Console) askMember(*visit) (question, error) {
	return question{fields: []page.Field{{Name: "username", Required: true, MaxLength: person.MaxUsername, Hint: "console.field.member.hint"}}}, nil
}

// personOf returns the person of a username or id.
func (c *Console) personOf(v *visit, who string) (person.Person, error) {
	return c.Identity.Person.Person(v.Context(), who)
}

func (c *Console) addMember(v *visit, in url.Values) (result, error) {
	p, err := c.personOf(v, strings.TrimSpace(in.Get("username")))
	if err != nil {
		return result{}, err
	}
	if p.ID == v.me() {
		return result{}, &problem{field: "username", key: "console.problem.self"}
	}
	return result{}, c.member(v, v.group.ID, p.ID, true)
}

func (c *Console) askLeaving(v *visit) (question, error) {
	id, hidden := chosen(v, "person")
	p, err := c.personOf(v, cmp.Or(id, "-"))
	if errors.Is(err, person.ErrNoPerson) { // gone by now
		return question{hidden: hidden, fill: []any{"what", "—"}}, nil
	}
	return question{hidden: hidden, fill: []any{"what", manage.Typed(p)}}, err
}

func (c *Console) removeMember(v *visit, in url.Values) (result, error) {
	return result{}, c.member(v, v.group.ID, in.Get("person"), false)
}

func (c *Console) editGroup(v *visit, in url.Values) (result, error) {
	name := strings.TrimSpace(in.Get("group"))
	if c.roleOfGroup(v.group.Partition, name) != Nobody {
		return result{}, &problem{field: "group", key: "console.problem.role"}
	}
	_, err := c.Identity.Person.UpdateGroup(v.Context(), v.group.ID, c.actor(v), func(tx storage.Tx, now person.Group, change *person.GroupChange) error {
		if c.roleOfGroup(now.Partition, now.Name) != Nobody {
			return denied("the rights of the console hang on the group")
		}
		change.Name, change.Permissions = name, lines(in.Get("permissions"))
		return c.recheck(tx, v)
	})
	return result{}, err
}

func askGroupEnd(_ *Console, v *visit) (question, error) {
	return question{fill: []any{"n", v.group.Members}}, nil
}

func (c *Console) removeGroup(v *visit, _ url.Values) (result, error) {
	return result{to: Root + "/groups"}, c.Identity.Person.RemoveGroup(v.Context(), v.group.ID, c.actor(v), nil)
}
