package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupsScreen is the list of the groups.
func (c *Console) groupsScreen() *layout.Screen {
	return &layout.Screen{
		Name: "groups", Path: "/groups", Icon: "people", Role: layout.Viewer, Show: c.showGroups,
		Acts: []*layout.Act{{Name: "create-group", Role: layout.Operator, Ask: c.askNewGroup, Do: c.createGroup}},
	}
}

func (c *Console) showGroups(v *layout.Visit) (*web.Console, error) {
	q, after := strings.TrimSpace(v.URL.Query().Get("q")), v.URL.Query().Get("after")
	var list []person.Group
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		list, next = nil, ""
		if q != "" {
			g, err := c.Identity.Person.Group(tx, audit.DefaultPartition, q)
			if err == nil {
				list = []person.Group{g}
				return nil
			}
			if !errors.Is(err, person.ErrNoGroup) {
				return err
			}
		}
		found, err := c.Identity.Person.Groups(tx, audit.DefaultPartition, after, maxScan)
		for _, g := range found {
			if !strings.Contains(strings.ToLower(g.Name), strings.ToLower(q)) {
				continue
			}
			if list = append(list, g); len(list) == layout.Rows {
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
	t := &web.Table{
		Label:   web.Say("console.groups.title"),
		Columns: []string{"console.column.group", "console.column.members", "console.column.role"},
	}
	for _, g := range list {
		row := web.TableRow{URL: groupPath(g.ID), Cells: []web.Cell{{Name: g.Name}, {Text: web.Say("console.count", "n", g.Members)}, {}}}
		if r := c.frame.RoleOfGroup(g.Partition, g.Name); r != layout.Nobody {
			row.Cells[2] = layout.RoleCell(r)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	out := &web.Console{Title: web.Say("console.groups.title"), Actions: v.Buttons(), Parts: []web.ConsolePart{{Table: t}}}
	out.Filter = &web.Filter{
		Action: v.Path(),
		Fields: []web.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: q, EnterKeyHint: "search"}},
	}
	if q != "" {
		out.Filter.Clear = v.Path()
	}
	if len(list) == 0 && next == "" {
		out.Parts[0].Empty = v.Empty("console.groups.none", "create-group")
	}
	return out, nil
}

func askGroup(*layout.Visit) (layout.Question, error) {
	return layout.Question{Fields: []web.Field{
		{Name: "group", Required: true, MaxLength: person.MaxName},
		{Name: "permissions", Hint: "console.field.permissions.hint"},
	}}, nil
}

// askNewGroup also asks which site the group opens, if there is one whose policy is stored.
func (c *Console) askNewGroup(v *layout.Visit) (layout.Question, error) {
	q, _ := askGroup(v)
	list, err := c.opening(v)
	if len(list) > 0 {
		q.Fields = append(q.Fields, openedField(list, true))
	}
	return q, err
}

// askGroupEdit also lists what a new name breaks.
func (c *Console) askGroupEdit(v *layout.Visit) (layout.Question, error) {
	q, _ := askGroup(v)
	q.Fields[0].Value, q.Fields[1].Value = shownGroup(v).Name, strings.Join(shownGroup(v).Permissions, " ")
	uses, err := c.usesFact(v)
	q.Submit, q.Fill, q.Facts = "console.save", []any{"n", shownGroup(v).Members}, []web.ConsoleFact{uses}
	return q, err
}

func (c *Console) createGroup(v *layout.Visit, in url.Values) (layout.Result, error) {
	change := person.GroupChange{Name: strings.TrimSpace(in.Get("group")), Permissions: layout.Lines(in.Get("permissions"))}
	if c.frame.RoleOfGroup("", change.Name) != layout.Nobody && v.Role != layout.Owner {
		return layout.Result{}, &layout.Problem{Field: "group", Key: "console.problem.role"}
	}
	g, err := c.Identity.Person.AddGroup(v.Context(), change, v.Actor())
	if err == nil && in.Get("policy") != "" {
		err = c.letIn(v, in.Get("policy"), g.Name)
	}
	return layout.Result{To: groupPath(g.ID)}, err
}

// groupScreen is one group.
func (c *Console) groupScreen() *layout.Screen {
	return &layout.Screen{
		Name: "group", Path: "/groups/{id}", Role: layout.Viewer, Find: c.findGroup, Show: c.showGroup,
		Acts: []*layout.Act{
			{Name: "add-member", Role: layout.Operator, May: c.mayChangeShown, Ask: c.askMember, Do: c.addMember},
			c.openSiteAct(),
			{Name: "remove-member", Role: layout.Operator, May: c.mayChangeShown, Danger: true, Hidden: true, Ask: c.askLeaving, Do: c.removeMember},
			{Name: "edit-group", Role: layout.Operator, May: c.mayRename, Ask: c.askGroupEdit, Do: c.editGroup},
			{Name: "remove-group", Role: layout.Operator, May: c.mayRename, Danger: true, Ask: c.askGroupEnd, Do: c.removeGroup},
		},
	}
}

func groupPath(id string) string { return layout.Root + "/groups/" + id }

func (c *Console) findGroup(v *layout.Visit) error {
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		g, err := c.Identity.Person.GroupByID(tx, v.PathValue("id"))
		if errors.Is(err, person.ErrNoGroup) {
			return webflow.NotFound()
		}
		v.About, v.Called = &g, g.Name
		return err
	})
}

// mayChange allows changes to a group that gives a role to owners only.
func (c *Console) mayChange(v *layout.Visit, g person.Group) error {
	if c.frame.RoleOfGroup(g.Partition, g.Name) != layout.Nobody && v.Role != layout.Owner {
		return layout.Denied("the group gives a role")
	}
	return nil
}

func (c *Console) mayChangeShown(v *layout.Visit) error { return c.mayChange(v, *shownGroup(v)) }

// mayRename refuses the groups that give a role in the console.
func (c *Console) mayRename(v *layout.Visit) error {
	if c.frame.RoleOfGroup(shownGroup(v).Partition, shownGroup(v).Name) != layout.Nobody {
		return layout.Denied("the group gives rights in the console")
	}
	return nil
}

func (c *Console) showGroup(v *layout.Visit) (*web.Console, error) {
	g := shownGroup(v)
	out := &web.Console{Name: g.Name, Up: &web.Up{Label: web.Say("console.groups.title"), URL: layout.Root + "/groups"}}
	if r := c.frame.RoleOfGroup(g.Partition, g.Name); r != layout.Nobody {
		out.Tags = []web.Cell{layout.RoleCell(r)}
		out.Lead = web.Say("console.group.role")
	}
	var people []person.Person
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) error {
		ids, err := c.Identity.Person.Members(tx, g.ID, v.URL.Query().Get("after"), layout.Rows)
		if err != nil {
			return err
		}
		if next = ""; len(ids) == layout.Rows {
			next = ids[len(ids)-1]
		}
		people, err = c.Identity.Person.ManyPersons(tx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	facts := []web.ConsoleFact{
		{Label: "console.column.members", Cells: []web.Cell{{Text: web.Say("console.count", "n", g.Members)}}},
		{Label: "console.field.permissions", Cells: []web.Cell{layout.OrNone(strings.Join(g.Permissions, ", "))}},
	}
	uses, err := c.usesFact(v)
	if err != nil {
		return nil, err
	}
	facts = append(facts, uses, web.ConsoleFact{
		Label: "console.column.created",
		Cells: []web.Cell{{Text: web.Say("console.time", "time", g.CreatedAt)}},
	})
	t := &web.Table{
		Label:   web.Say("console.column.members"),
		Columns: []string{"console.column.person", "console.column.state", "console.column.action"},
	}
	for _, p := range people {
		row := web.TableRow{
			URL:   personPath(p.ID),
			Cells: []web.Cell{{Name: admin.Typed(p), Note: besides(&p), Initials: sites.Initials(&p)}, sites.StateCell(p.State), {}},
		}
		if p.ID != v.Me() && v.Outranks(c.frame.RoleOf(p.Partition, p.Groups)) {
			row.Cells[2] = v.Link("remove-member", "person", p.ID)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	members := web.ConsolePart{ID: "members", Title: web.Say("console.column.members"), Table: t}
	if len(people) == 0 {
		members.Empty = v.Empty("console.group.none", "add-member")
	}
	out.Actions, out.Parts = v.Buttons(), []web.ConsolePart{{Facts: facts}, members}
	out.AtStake = web.Say("console.act.remove-group.text", "n", g.Members, "name", g.Name)
	return out, nil
}

// usesFact lists the places in the configuration and the applications that name the group. Renaming the group does not
// change them.
func (c *Console) usesFact(v *layout.Visit) (web.ConsoleFact, error) {
	uses := web.ConsoleFact{Label: "console.group.uses"}
	places, err := c.GroupUses(v.Context(), shownGroup(v).Name)
	for _, place := range places {
		uses.Cells = append(uses.Cells, web.Cell{Name: place, Code: true})
	}
	if err == nil {
		var list []clientstore.Info
		list, err = c.Clients.List(v.Context())
		for i := range list {
			if a := &list[i]; a.Stored && slices.Contains(a.Groups, shownGroup(v).Name) {
				uses.Cells = append(uses.Cells, web.Cell{Name: a.Name, URL: applicationPath(a.ID)})
			}
		}
	}
	if len(uses.Cells) == 0 {
		uses.Cells = []web.Cell{{Text: web.Say("console.group.uses.none")}}
	}
	return uses, err
}

func (c *Console) askMember(*layout.Visit) (layout.Question, error) {
	return layout.Question{Fields: []web.Field{{
		Name: "username", Required: true, MaxLength: person.MaxUsername,
		Hint: "console.field.member.hint",
	}}}, nil
}

// personOf returns the person of a username or id.
func (c *Console) personOf(v *layout.Visit, who string) (person.Person, error) {
	return c.Identity.Person.Person(v.Context(), who)
}

func (c *Console) addMember(v *layout.Visit, in url.Values) (layout.Result, error) {
	p, err := c.personOf(v, strings.TrimSpace(in.Get("username")))
	if err != nil {
		return layout.Result{}, err
	}
	if p.ID == v.Me() {
		return layout.Result{}, &layout.Problem{Field: "username", Key: "console.problem.self"}
	}
	_, changed, err := c.member(v, shownGroup(v).ID, p.ID, true)
	return undone(changed, "remove-member", "person", p.ID), err
}

func (c *Console) askLeaving(v *layout.Visit) (layout.Question, error) {
	id, hidden := v.Chosen("person")
	p, err := c.personOf(v, cmp.Or(id, "-"))
	if errors.Is(err, person.ErrNoPerson) { // gone by now
		return layout.Question{Hidden: hidden, Fill: []any{"what", "—"}}, nil
	}
	return layout.Question{Hidden: hidden, Fill: []any{"what", admin.Typed(p)}}, err
}

func (c *Console) removeMember(v *layout.Visit, in url.Values) (layout.Result, error) {
	id := in.Get("person")
	_, changed, err := c.member(v, shownGroup(v).ID, id, false)
	return undone(changed, "add-member", "username", id), err
}

func (c *Console) editGroup(v *layout.Visit, in url.Values) (layout.Result, error) {
	name := strings.TrimSpace(in.Get("group"))
	if c.frame.RoleOfGroup(shownGroup(v).Partition, name) != layout.Nobody {
		return layout.Result{}, &layout.Problem{Field: "group", Key: "console.problem.role"}
	}
	_, err := c.Identity.Person.UpdateGroup(v.Context(), shownGroup(v).ID, v.Actor(),
		func(tx storage.Tx, now person.Group, change *person.GroupChange) error {
			if c.frame.RoleOfGroup(now.Partition, now.Name) != layout.Nobody {
				return layout.Denied("the group gives rights in the console")
			}
			change.Name, change.Permissions = name, layout.Lines(in.Get("permissions"))
			return v.Recheck(tx)
		})
	return layout.Result{}, err
}

func (c *Console) askGroupEnd(v *layout.Visit) (layout.Question, error) {
	uses, err := c.usesFact(v)
	return layout.Question{Fill: []any{"n", shownGroup(v).Members}, Facts: []web.ConsoleFact{uses}}, err
}

func (c *Console) removeGroup(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{To: layout.Root + "/groups"}, c.Identity.Person.RemoveGroup(v.Context(), shownGroup(v).ID, v.Actor(), nil)
}
