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
	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// maxScan bounds the records that are read for one page of a list with a filter. The next page goes on from there.
	maxScan = 2000
	// maxInvited bounds the addresses of one form.
	maxInvited = 50
	// lastJobs is the number of the newest jobs in the list of persons, jobRefresh the interval at which the page of
	// one reloads.
	lastJobs   = 5
	jobRefresh = 3
)

// personsScreen is the list of the persons.
func (c *Console) personsScreen() *layout.Screen {
	return &layout.Screen{
		Name: "persons", Path: "/persons", Icon: "person", Role: layout.Viewer, Show: c.showPersons,
		Acts: append([]*layout.Act{
			{Name: "invite", Role: layout.Helpdesk, Ask: c.askInvite, Do: c.invite},
			{Name: "create", Role: layout.Operator, Ask: c.askCreate, Do: c.create},
			{Name: "import", Role: layout.Operator, Upload: admin.MaxImport, Ask: c.askImport, Do: c.importFile},
			{Name: "export", Role: layout.Operator, Hidden: true, Ask: c.askExport, Do: c.export},
		}, c.manyActs()...),
	}
}

// personFilter selects persons, as the address of the list says.
type personFilter struct{ q, group, state, partition string }

func (f personFilter) none() bool { return f.q == "" && f.group == "" && f.state == "" }

// states are the states that a list can be limited to.
var states = []person.State{person.Active, person.Invited, person.Inactive, person.Blocked}

func (c *Console) showPersons(v *layout.Visit) (*web.Console, error) {
	q := v.URL.Query()
	f := personFilter{strings.TrimSpace(q.Get("q")), q.Get("group"), q.Get("state"), ""}
	if c.Identity.Person.Partitioned() {
		f.partition = q.Get("partition")
	}
	var list []personindex.Found
	var next string
	var jobs web.ConsolePart
	hasJobs := false
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if list, next, err = c.findPersons(tx, f, q.Get("after")); err == nil {
			jobs, hasJobs, err = c.jobsPart(tx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &web.Table{
		Label:   web.Say("console.persons.title"),
		Columns: []string{"console.column.person", "console.column.groups", "console.column.state", "console.field.signed_in"},
	}
	for _, p := range list {
		row := web.TableRow{URL: personPath(p.ID), Pick: p.ID, Cells: []web.Cell{
			{Name: admin.Typed(p.Person), Note: besides(&p.Person), Initials: sites.Initials(&p.Person)},
			{Name: strings.Join(p.Groups, ", ")},
			sites.StateCell(p.State), layout.OrNone(""),
		}}
		if !p.Seen.IsZero() {
			row.Cells[3] = web.Cell{Text: web.Say("console.time", "time", p.Seen)}
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	out := &web.Console{
		Title: web.Say("console.persons.title"), Actions: v.Buttons(), Filter: c.personFilters(v, f),
		Parts: []web.ConsolePart{{Table: t}},
	}
	if hasJobs {
		out.Parts = append(out.Parts, jobs)
	}
	switch {
	case len(list) > 0 || next != "":
		out.Parts[0].Pick = c.pick(v, f)
		if export := v.Screen.Act("export"); v.May(export) == nil {
			q := url.Values{}
			for _, h := range f.hidden() {
				q.Set(h.Name, h.Value)
			}
			out.Actions = append(out.Actions, web.Action{Label: "console.act.export", URL: v.Path() + "/export?" + q.Encode()})
		}
	case f.none():
		out.Parts[0].Empty = v.Empty("console.persons.none", "create")
	default:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// besides returns the note of a person in a list, next to the username.
func besides(p *person.Person) string {
	note := []string{p.Name, p.Email}
	if strings.EqualFold(p.Email, p.Username) {
		note = note[:1]
	}
	return strings.Trim(strings.Join(note, " · "), " ·")
}

func (c *Console) personFilters(v *layout.Visit, f personFilter) *web.Filter {
	options := []web.Option{{Value: "", Label: "console.any"}}
	for _, s := range states {
		options = append(options, web.Option{Value: string(s), Label: "console.state." + strings.ToLower(string(s))})
	}
	out := &web.Filter{Action: v.Path(), Fields: []web.Field{
		{Name: "q", Type: "search", Label: "console.field.search", Hint: "console.persons.search", Value: f.q, EnterKeyHint: "search"},
		{Name: "group", Label: "console.field.group", Value: f.group},
		{Name: "state", Type: "select", Label: "console.field.state", Value: f.state, Options: options},
	}}
	if c.Identity.Person.Partitioned() {
		out.Fields = append(out.Fields, web.Field{Name: "partition", Label: "console.field.partition", Value: f.partition})
	}
	if !f.none() || f.partition != "" {
		out.Clear = v.Path()
	}
	return out
}

// filter is the filter as it is stored and searched. ok is false if it can select no one.
func (c *Console) filter(tx storage.Tx, f personFilter) (out admin.Filter, ok bool, err error) {
	out = admin.Filter{Partition: cmp.Or(f.partition, audit.DefaultPartition), Text: f.q, State: person.State(f.state)}
	if !slices.Contains(states, out.State) {
		out.State = ""
	}
	if f.group == "" {
		return out, true, nil
	}
	out.Group, err = c.Identity.Person.GroupID(tx, out.Partition, f.group)
	return out, out.Group != "", err
}

// findPersons returns a page of the persons that a filter selects, past after, and what continues the list.
func (c *Console) findPersons(tx storage.Tx, f personFilter, after string) (list []personindex.Found, next string, err error) {
	q, ok, err := c.filter(tx, f)
	if err != nil || !ok {
		return nil, "", err
	}
	found, err := personindex.Find(tx, c.Identity.Person,
		personindex.Query{Partition: q.Partition, Text: q.Text, Group: q.Group, State: q.State, After: after, Limit: layout.Rows})
	if errors.Is(err, personindex.ErrCursor) { // of another list
		return nil, "", nil
	}
	return found.Persons, found.Next, err
}

func (c *Console) askCreate(*layout.Visit) (layout.Question, error) {
	return layout.Question{Fields: []web.Field{
		{Name: "username", Required: true, MaxLength: person.MaxUsername},
		{Name: "given_name", MaxLength: person.MaxName},
		{Name: "family_name", MaxLength: person.MaxName},
		{Name: "email", Type: "email", Hint: "console.field.email.hint"},
		{Name: "password", Type: "password", Autocomplete: "new-password", Hint: "console.field.password.hint"},
		{Name: "group", Hint: "console.field.groups.hint", Label: "console.field.groups"},
	}}, nil
}

// create adds a person.
func (c *Console) create(v *layout.Visit, in url.Values) (layout.Result, error) {
	n := person.NewPerson{
		Username: strings.TrimSpace(in.Get("username")), GivenName: strings.TrimSpace(in.Get("given_name")),
		FamilyName: strings.TrimSpace(in.Get("family_name")),
		Email:      strings.TrimSpace(in.Get("email")), Password: secret.New(in.Get("password")), Groups: layout.Lines(in.Get("group")),
	}
	if in.Get("password") == "" {
		n.Password = secret.String{}
	}
	if err := c.mayGive(v, n.Groups); err != nil {
		return layout.Result{}, err
	}
	p, err := c.Identity.Person.AddPerson(v.Context(), n, v.Actor())
	return layout.Result{To: personPath(p.ID)}, err
}

// mayGive refuses groups that give a role, unless an owner gives them. Groups that do not exist are not made by the
// way.
func (c *Console) mayGive(v *layout.Visit, groups []string) error {
	for _, g := range groups {
		if c.frame.RoleOf("", []string{g}) != layout.Nobody && v.Role != layout.Owner {
			return &layout.Problem{Field: "group", Key: "console.problem.role"}
		}
	}
	if len(groups) > 0 && v.Role < layout.Operator {
		return &layout.Problem{Field: "group", Key: "console.problem.not_yours"}
	}
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		for _, g := range groups {
			id, err := c.Identity.Person.GroupID(tx, audit.DefaultPartition, g)
			if err != nil {
				return err
			}
			if id == "" && c.frame.RoleOf("", []string{g}) == layout.Nobody {
				return &layout.Problem{Field: "group", Key: "console.problem.no_group"}
			}
		}
		return nil
	})
}

func (c *Console) askInvite(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fields: []web.Field{
		{Name: "addresses", Type: "textarea", Required: true, Hint: "console.field.addresses.hint"},
		{Name: "group", Hint: "console.field.groups.hint", Label: "console.field.groups"},
	}, Fill: []any{"n", maxInvited}, Off: invitationsOff(v)}, nil
}

// askInviteAgain asks nothing but whether it is meant.
func askInviteAgain(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Off: invitationsOff(v)}, nil
}

// invitationsOff says that no one can be invited. nil: they can
func invitationsOff(v *layout.Visit) *web.Empty {
	if v.Settings.Features.AcceptingInvitationEnabled {
		return nil
	}
	return &web.Empty{
		Text: web.Say("console.problem.invitations_off"),
		Next: &web.Action{Label: "console.settings.title", URL: layout.Root + "/settings"},
	}
}

// invite invites the owners of addresses, one by one. What came of each is shown.
func (c *Console) invite(v *layout.Visit, in url.Values) (layout.Result, error) {
	addresses, groups := layout.Lines(in.Get("addresses")), layout.Lines(in.Get("group"))
	switch {
	case len(addresses) == 0:
		return layout.Result{}, &layout.Problem{Field: "addresses", Key: "console.problem.addresses"}
	case len(addresses) > maxInvited:
		return layout.Result{}, &layout.Problem{Field: "addresses", Key: "console.problem.too_many_addresses", Fill: []any{"n", maxInvited}}
	}
	for _, a := range addresses {
		if !person.IsEmail(a) {
			return layout.Result{}, &layout.Problem{Field: "addresses", Key: "console.problem.address", Fill: []any{"address", a}}
		}
	}
	if err := c.mayGive(v, groups); err != nil {
		return layout.Result{}, err
	}
	t := &web.Table{
		Label:   web.Say("console.act.invite"),
		Columns: []string{"console.column.email", "console.column.outcome", "console.column.link"},
	}
	for _, a := range addresses {
		made, err := c.Identity.Invitation.Invite(v.Context(), invitation.NewInvitation{Email: a, Groups: groups}, v.Actor())
		row := web.TableRow{Cells: []web.Cell{{Name: a}, {Text: web.Say("console.invited.sent"), Kind: "good"}, {}}}
		if wrong := layout.ProblemOf(err); wrong != nil {
			if wrong.Key == "console.problem.invitations_off" {
				return layout.Result{}, err
			}
			row.Cells[1] = web.Cell{Text: web.Say(wrong.Key, wrong.Fill...), Kind: "bad"}
		} else if err != nil {
			return layout.Result{}, err
		} else {
			row.URL = personPath(made.PersonID)
		}
		if made.Link != "" {
			row.Cells[1], row.Cells[2] = web.Cell{Text: web.Say("console.invited.link"), Kind: "warn"}, web.Cell{Name: made.Link, Code: true}
		}
		t.Rows = append(t.Rows, row)
	}
	return layout.Result{Page: &web.Console{
		Title: web.Say("console.done.invite"), Up: v.Up(), Lead: web.Say("console.invited.text"),
		Parts: []web.ConsolePart{{Table: t}},
	}}, nil
}

// personPath is the page of a person.
func personPath(id string) string { return layout.Root + "/persons/" + id }
