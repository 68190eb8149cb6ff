package console

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupsScreen is the list of the groups.
func (c *Console) groupsScreen() *frame.Screen {
	return &frame.Screen{
		Name: "groups", Path: "/groups", Icon: "people", Role: frame.Viewer, Show: c.showGroups,
		Acts: []*frame.Act{{Name: "create-group", Role: frame.Operator, Ask: askGroup, Do: c.createGroup}},
	}
}

func (c *Console) showGroups(v *frame.Visit) (*page.Console, error) {
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
			if list = append(list, g); len(list) == frame.Rows {
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
		if r := c.frame.RoleOfGroup(g.Partition, g.Name); r != frame.Nobody {
			row.Cells[2] = roleCell(r)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.groups.title"), Actions: v.Buttons(), Parts: []page.ConsolePart{{Table: t}}}
	out.Filter = &page.Filter{Action: v.Path(), Fields: []page.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: q, EnterKeyHint: "search"}}}
	if q != "" {
		out.Filter.Clear = v.Path()
	}
	if len(list) == 0 && next == "" {
		out.Parts[0].Empty = v.Empty("console.groups.none", "create-group")
	}
	return out, nil
}

func askGroup(*frame.Visit) (frame.Question, error) {
	return frame.Question{Fields: []page.Field{
		{Name: "group", Required: true, MaxLength: person.MaxName},
		{Name: "permissions", Hint: "console.field.permissions.hint"},
	}}, nil
}

// askGroupEdit says what a new name breaks.
func (c *Console) askGroupEdit(v *frame.Visit) (frame.Question, error) {
	q, _ := askGroup(v)
	q.Fields[0].Value, q.Fields[1].Value = shownGroup(v).Name, strings.Join(shownGroup(v).Permissions, " ")
	uses, err := c.usesFact(v)
	q.Submit, q.Fill, q.Facts = "console.save", []any{"n", shownGroup(v).Members}, []page.ConsoleFact{uses}
	return q, err
}

func (c *Console) createGroup(v *frame.Visit, in url.Values) (frame.Result, error) {
	change := person.GroupChange{Name: strings.TrimSpace(in.Get("group")), Permissions: frame.Lines(in.Get("permissions"))}
	if c.frame.RoleOfGroup("", change.Name) != frame.Nobody && v.Role != frame.Owner {
		return frame.Result{}, &frame.Problem{Field: "group", Key: "console.problem.role"}
	}
	g, err := c.Identity.Person.AddGroup(v.Context(), change, v.Actor())
	return frame.Result{To: groupPath(g.ID)}, err
}

// groupScreen is one group.
func (c *Console) groupScreen() *frame.Screen {
	return &frame.Screen{
		Name: "group", Path: "/groups/{id}", Role: frame.Viewer, Find: c.findGroup, Show: c.showGroup,
		Acts: []*frame.Act{
			{Name: "add-member", Role: frame.Operator, May: c.mayChangeShown, Ask: c.askMember, Do: c.addMember},
			{Name: "remove-member", Role: frame.Operator, May: c.mayChangeShown, Danger: true, Hidden: true, Ask: c.askLeaving, Do: c.removeMember},
			{Name: "edit-group", Role: frame.Operator, May: c.mayRename, Ask: c.askGroupEdit, Do: c.editGroup},
			{Name: "remove-group", Role: frame.Operator, May: c.mayRename, Danger: true, Ask: c.askGroupEnd, Do: c.removeGroup},
		},
	}
}

func groupPath(id string) string { return frame.Root + "/groups/" + id }

func (c *Console) findGroup(v *frame.Visit) error {
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		g, err := c.Identity.Person.GroupByID(tx, v.PathValue("id"))
		if errors.Is(err, person.ErrNoGroup) {
			return front.NotFound()
		}
		v.About, v.Called = &g, g.Name
		return err
	})
}

// mayChange refuses a group that gives a role to everybody but owners.
func (c *Console) mayChange(v *frame.Visit, g person.Group) error {
	if c.frame.RoleOfGroup(g.Partition, g.Name) != frame.Nobody && v.Role != frame.Owner {
		return frame.Denied("the group gives a role")
	}
	return nil
}

func (c *Console) mayChangeShown(v *frame.Visit) error { return c.mayChange(v, *shownGroup(v)) }

// mayRename refuses the groups that the console hangs on.
func (c *Console) mayRename(v *frame.Visit) error {
	if c.frame.RoleOfGroup(shownGroup(v).Partition, shownGroup(v).Name) != frame.Nobody {
		return frame.Denied("the rights of the console hang on the group")
	}
	return nil
}

func (c *Console) showGroup(v *frame.Visit) (*page.Console, error) {
	g := shownGroup(v)
	out := &page.Console{Name: g.Name, Up: &page.Up{Label: page.Say("console.groups.title"), URL: frame.Root + "/groups"}}
	if r := c.frame.RoleOfGroup(g.Partition, g.Name); r != frame.Nobody {
		out.Tags = []page.Cell{roleCell(r)}
		out.Lead = page.Say("console.group.role")
	}
	var people []person.Person
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) error {
		ids, err := c.Identity.Person.Members(tx, g.ID, v.URL.Query().Get("after"), frame.Rows)
		if err != nil {
			return err
		}
		if next = ""; len(ids) == frame.Rows {
			next = ids[len(ids)-1]
		}
		people, err = c.Identity.Person.ManyPersons(tx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	facts := []page.ConsoleFact{{Label: "console.column.members", Cells: []page.Cell{{Text: page.Say("console.count", "n", g.Members)}}}, {Label: "console.field.permissions", Cells: []page.Cell{frame.OrNone(strings.Join(g.Permissions, ", "))}}}
	uses, err := c.usesFact(v)
	if err != nil {
		return nil, err
	}
	facts = append(facts, uses, page.ConsoleFact{Label: "console.column.created", Cells: []page.Cell{{Text: page.Say("console.time", "time", g.CreatedAt)}}})
	t := &page.Table{Label: page.Say("console.column.members"), Columns: []string{"console.column.person", "console.column.email", "console.column.state", "console.column.action"}}
	for _, p := range people {
		row := page.TableRow{URL: personPath(p.ID), Cells: []page.Cell{{Name: manage.Typed(p), Note: p.Name}, {Name: p.Email}, stateCell(p.State), {}}}
		if p.ID != v.Me() && v.Outranks(c.frame.RoleOf(p.Partition, p.Groups)) {
			row.Cells[3] = v.Link("remove-member", "person", p.ID)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	members := page.ConsolePart{ID: "members", Title: page.Say("console.column.members"), Table: t}
	if len(people) == 0 {
		members.Empty = v.Empty("console.group.none", "add-member")
	}
	out.Parts = []page.ConsolePart{{Facts: facts, Actions: v.Buttons()}, members}
	return out, nil
}

// usesFact is where the configuration names the group: these places do not follow a new name.
func (c *Console) usesFact(v *frame.Visit) (page.ConsoleFact, error) {
	uses := page.ConsoleFact{Label: "console.group.uses"}
	places, err := c.GroupUses(v.Context(), shownGroup(v).Name)
	for _, place := range places {
		uses.Cells = append(uses.Cells, page.Cell{Name: place, Code: true})
	}
	if len(uses.Cells) == 0 {
		uses.Cells = []page.Cell{{Text: page.Say("console.group.uses.none")}}
	}
	return uses, err
}

func (c *Console) askMember(*frame.Visit) (frame.Question, error) {
	return frame.Question{Fields: []page.Field{{Name: "username", Required: true, MaxLength: person.MaxUsername, Hint: "console.field.member.hint"}}}, nil
}

// personOf returns the person of a username or id.
func (c *Console) personOf(v *frame.Visit, who string) (person.Person, error) {
	return c.Identity.Person.Person(v.Context(), who)
}

func (c *Console) addMember(v *frame.Visit, in url.Values) (frame.Result, error) {
	p, err := c.personOf(v, strings.TrimSpace(in.Get("username")))
	if err != nil {
		return frame.Result{}, err
	}
	if p.ID == v.Me() {
		return frame.Result{}, &frame.Problem{Field: "username", Key: "console.problem.self"}
	}
	return frame.Result{}, c.member(v, shownGroup(v).ID, p.ID, true)
}

func (c *Console) askLeaving(v *frame.Visit) (frame.Question, error) {
	id, hidden := v.Chosen("person")
	p, err := c.personOf(v, cmp.Or(id, "-"))
	if errors.Is(err, person.ErrNoPerson) { // gone by now
		return frame.Question{Hidden: hidden, Fill: []any{"what", "—"}}, nil
	}
	return frame.Question{Hidden: hidden, Fill: []any{"what", manage.Typed(p)}}, err
}

func (c *Console) removeMember(v *frame.Visit, in url.Values) (frame.Result, error) {
	return frame.Result{}, c.member(v, shownGroup(v).ID, in.Get("person"), false)
}

func (c *Console) editGroup(v *frame.Visit, in url.Values) (frame.Result, error) {
	name := strings.TrimSpace(in.Get("group"))
	if c.frame.RoleOfGroup(shownGroup(v).Partition, name) != frame.Nobody {
		return frame.Result{}, &frame.Problem{Field: "group", Key: "console.problem.role"}
	}
	_, err := c.Identity.Person.UpdateGroup(v.Context(), shownGroup(v).ID, v.Actor(), func(tx storage.Tx, now person.Group, change *person.GroupChange) error {
		if c.frame.RoleOfGroup(now.Partition, now.Name) != frame.Nobody {
			return frame.Denied("the rights of the console hang on the group")
		}
		change.Name, change.Permissions = name, frame.Lines(in.Get("permissions"))
		return v.Recheck(tx)
	})
	return frame.Result{}, err
}

func (c *Console) askGroupEnd(v *frame.Visit) (frame.Question, error) {
	uses, err := c.usesFact(v)
	return frame.Question{Fill: []any{"n", shownGroup(v).Members}, Facts: []page.ConsoleFact{uses}}, err
}

func (c *Console) removeGroup(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{To: frame.Root + "/groups"}, c.Identity.Person.RemoveGroup(v.Context(), shownGroup(v).ID, v.Actor(), nil)
}
