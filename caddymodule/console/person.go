package console

import (
	"errors"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const lastEvents = 20 // on the page of a person

// personScreen is one person.
func personScreen() *screen {
	return &screen{
		name: "person", path: "/persons/{id}", role: Viewer, find: (*Console).findPerson, show: (*Console).showPerson,
		acts: []*act{
			{name: "edit", role: Helpdesk, ask: (*Console).askEdit, do: (*Console).edit},
			{name: "reset", role: Helpdesk, when: (*Console).canReset, ask: (*Console).askReset, do: (*Console).sendReset},
			{name: "link", role: Owner, when: (*Console).canLink, do: (*Console).makeLink},
			{name: "invite-again", role: Helpdesk, when: is(person.Invited), do: (*Console).inviteAgain},
			{name: "unlock", role: Helpdesk, when: func(_ *Console, v *visit) bool { return !v.person.SignInWaits.IsZero() }, do: (*Console).unlock},
			{name: "end", role: Helpdesk, own: true, danger: true, when: func(_ *Console, v *visit) bool { return len(v.person.Sessions) > 0 }, ask: (*Console).askEnd, do: (*Console).endAll},
			{name: "end-session", role: Helpdesk, own: true, danger: true, hidden: true, ask: askPart("session"), do: (*Console).endSession},
			{name: "revoke", role: Helpdesk, danger: true, hidden: true, ask: askPart("token"), do: endHeld("tokens", "token")},
			{name: "withdraw", role: Helpdesk, danger: true, hidden: true, ask: askPart("client"), do: endHeld("consents", "client")},
			{name: "revoke-password", role: Helpdesk, danger: true, hidden: true, ask: askPart("password"), do: endHeld("app_passwords", "password")},
			{name: "remove-method", role: Helpdesk, danger: true, hidden: true, ask: askPart("method"), do: (*Console).removeMethod},
			{name: "join", role: Operator, ask: (*Console).askJoin, do: (*Console).join},
			{name: "leave", role: Operator, danger: true, hidden: true, ask: askPart("group"), do: (*Console).leave},
			{name: "block", role: Helpdesk, spares: true, danger: true, when: is(person.Active, person.Inactive, person.Invited), ask: (*Console).askBlock, do: (*Console).block},
			{name: "unblock", role: Helpdesk, spares: true, when: is(person.Blocked, person.Inactive), do: setState(person.Active)},
			{name: "remove", role: Operator, spares: true, danger: true, ask: (*Console).askEnd, do: (*Console).remove},
		},
	}
}

// is tells whether the person is in one of the states.
func is(of ...person.State) func(*Console, *visit) bool {
	return func(_ *Console, v *visit) bool {
		for _, s := range of {
			if v.person.State == s {
				return true
			}
		}
		return false
	}
}

// findPerson reads the person of the path.
func (c *Console) findPerson(v *visit) error {
	id := v.PathValue("id")
	if !person.IsID(id) {
		return front.NotFound()
	}
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		_, rec, err := c.Identity.Person.Find(tx, id)
		if errors.Is(err, person.ErrNoPerson) || err == nil && rec.State == person.Removed {
			return front.NotFound()
		}
		if err != nil {
			return err
		}
		d, err := c.Manage.Details(tx, rec.Person(id), v.now)
		v.person, v.rank, v.self = &d, c.roleOf(d.Partition, d.Groups), id == v.me()
		return err
	})
}

func (c *Console) showPerson(v *visit) (*page.Console, error) {
	p := v.person
	out := &page.Console{Name: v.called(), Up: &page.Up{Label: page.Say("console.persons.title"), URL: Root + "/persons"}, Tags: []page.Cell{stateCell(p.State)}}
	if v.rank != Nobody {
		out.Tags = append(out.Tags, roleCell(v.rank))
	}
	if v.self {
		out.Lead = page.Say("console.person.self")
	} else if c.may(v, v.screen.act("edit")) != nil && v.role >= Helpdesk {
		out.Lead = page.Say("console.person.above")
	}
	var happened []event.Event
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if happened, _, err = event.Find(tx, event.Query{Person: p.ID, Limit: lastEvents}); err != nil {
			return err
		}
		names, err = c.Manage.Names(tx, actorsOf(happened))
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Parts = []page.ConsolePart{
		{Facts: c.profile(v), Actions: c.buttons(v)}, c.methodsPart(v), c.groupsPart(v), c.sessionsPart(v), c.accessPart(v), c.consentsPart(v),
	}
	if len(p.AppPasswords) > 0 {
		out.Parts = append(out.Parts, c.appPasswordsPart(v))
	}
	more := Root + "/events?" + url.Values{"person": {v.called()}}.Encode()
	last := page.ConsolePart{ID: "events", Title: page.Say("console.person.events"), Table: c.eventTable(happened, names, false)}
	if len(happened) > 0 {
		last.Actions = []page.Action{{Label: "console.person.events.all", URL: more}}
	} else {
		last.Empty = &page.Empty{Text: page.Say("console.person.events.none")}
	}
	out.Parts = append(out.Parts, last)
	return out, nil
}

// roleCell is a role as a mark.
func roleCell(r Role) page.Cell {
	return page.Cell{Text: page.Say("console.role." + roleNames[r]), Kind: "plain"}
}

func (c *Console) profile(v *visit) []page.ConsoleFact {
	p := v.person
	facts := []page.ConsoleFact{{Label: "console.field.name", Cells: []page.Cell{orNone(p.Name)}}, {Label: "console.field.email", Cells: []page.Cell{orNone(p.Email)}}}
	if p.Email != "" {
		mark := page.Cell{Text: page.Say("console.email.unverified"), Kind: "warn"}
		if p.EmailVerified {
			mark = page.Cell{Text: page.Say("console.email.verified"), Kind: "good"}
		}
		facts[1].Cells = append(facts[1].Cells, mark)
	}
	if p.Phone != "" {
		facts = append(facts, page.ConsoleFact{Label: "console.field.phone", Cells: []page.Cell{{Name: p.Phone}}})
	}
	if p.Locale != "" {
		facts = append(facts, page.ConsoleFact{Label: "console.field.locale", Cells: []page.Cell{{Name: p.Locale}}})
	}
	facts = append(facts,
		page.ConsoleFact{Label: "console.field.id", Cells: []page.Cell{{Name: p.ID, Code: true}}},
		page.ConsoleFact{Label: "console.column.created", Cells: []page.Cell{{Text: page.Say("console.time", "time", p.CreatedAt)}}},
	)
	if place := c.PlaceOf("person " + p.Username); place != "" {
		facts = append(facts, page.ConsoleFact{Label: "console.field.origin", Cells: []page.Cell{{Name: place, Code: true}}})
	}
	if !p.SignInWaits.IsZero() {
		facts = append(facts, page.ConsoleFact{Label: "console.field.waits", Cells: []page.Cell{{Text: page.Say("console.person.waits", "time", p.SignInWaits), Kind: "warn"}}})
	}
	return facts
}

// orNone is a value, or a dash for none.
func orNone(s string) page.Cell {
	if s == "" {
		return page.Cell{Name: "—"}
	}
	return page.Cell{Name: s}
}

// methodsPart is how the person signs in.
func (c *Console) methodsPart(v *visit) page.ConsolePart {
	set := v.person.StepUp
	t := &page.Table{Label: page.Say("console.person.methods"), Columns: []string{"console.column.method", "console.column.state", "console.column.action"}}
	add := func(name string, has bool, state page.Text, removable bool) {
		if !has {
			return
		}
		row := page.TableRow{Cells: []page.Cell{{Text: page.Say("console.method." + name)}, {Text: state}, {}}}
		if removable {
			row.Cells[2] = c.link(v, "remove-method", "method", name)
		}
		t.Rows = append(t.Rows, row)
	}
	add("password", v.person.HasPassword, page.Say("console.method.set"), false)
	add("passkey", set.Passkeys > 0, page.Say("console.method.count", "n", set.Passkeys), true)
	add("authenticator", set.Authenticator, page.Say("console.method.codes", "n", set.RecoveryCodes), true)
	pin := page.Say("console.method.set")
	if set.PINLocked {
		pin = page.Say("console.method.locked")
	}
	add("pin", set.PIN, pin, true)
	add("push", set.Phones > 0, page.Say("console.method.count", "n", set.Phones), true)
	part := page.ConsolePart{ID: "methods", Title: page.Say("console.person.methods"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = &page.Empty{Text: page.Say("console.person.methods.none")}
	}
	return part
}

func (c *Console) groupsPart(v *visit) page.ConsolePart {
	t := &page.Table{Label: page.Say("console.groups.title"), Columns: []string{"console.column.group", "console.column.action"}}
	for _, g := range v.person.Groups {
		row := page.TableRow{Cells: []page.Cell{{Name: g, URL: Root + "/groups?" + url.Values{"q": {g}}.Encode()}, {}}}
		if c.mayGive(v, []string{g}) == nil {
			row.Cells[1] = c.link(v, "leave", "group", g)
		}
		t.Rows = append(t.Rows, row)
	}
	part := page.ConsolePart{ID: "groups", Title: page.Say("console.groups.title"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = c.empty(v, "console.person.groups.none", "join")
	}
	return part
}

func (c *Console) sessionsPart(v *visit) page.ConsolePart {
	t := &page.Table{Label: page.Say("console.sessions.title"), Columns: []string{"console.column.device", "console.column.address", "console.column.level", "console.column.seen", "console.column.action"}}
	for _, s := range v.person.Sessions {
		first := page.Cell{Text: front.AgentText(s.Agent)}
		if s.ID == v.SignIn.ID {
			first.Hint = page.Say("console.session.this")
		}
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{first, {Name: s.Address}, {Text: page.Say("console.level", "n", s.Level)}, {Text: page.Say("console.time", "time", s.Seen)}, c.link(v, "end-session", "session", s.ID)}})
	}
	part := page.ConsolePart{ID: "sessions", Title: page.Say("console.sessions.title"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = &page.Empty{Text: page.Say("console.person.sessions.none")}
	}
	return part
}

// heldPart lists what the person holds.
func (c *Console) heldPart(v *visit, id string, items []authz.Item, row func(*authz.Item) page.TableRow, columns ...string) page.ConsolePart {
	t := &page.Table{Label: page.Say("console.person." + id), Columns: columns}
	for i := range items {
		t.Rows = append(t.Rows, row(&items[i]))
	}
	part := page.ConsolePart{ID: id, Title: page.Say("console.person." + id), Table: t}
	if len(items) == 0 {
		part.Empty = &page.Empty{Text: page.Say("console.person." + id + ".none")}
	}
	return part
}

func (c *Console) accessPart(v *visit) page.ConsolePart {
	return c.heldPart(v, "access", v.person.Tokens, func(i *authz.Item) page.TableRow {
		return page.TableRow{Cells: []page.Cell{{Name: i.ClientID, URL: applicationPath(i.ClientID)}, {Name: i.Scope}, {Text: page.Say("console.time", "time", i.CreatedAt)}, c.link(v, "revoke", "token", i.ID)}}
	}, "console.column.application", "console.column.scopes", "console.column.created", "console.column.action")
}

func (c *Console) consentsPart(v *visit) page.ConsolePart {
	return c.heldPart(v, "consents", v.person.Consents, func(i *authz.Item) page.TableRow {
		return page.TableRow{Cells: []page.Cell{{Name: i.ClientID, URL: applicationPath(i.ClientID)}, {Name: i.Scope}, {Text: page.Say("console.time", "time", i.CreatedAt)}, c.link(v, "withdraw", "client", i.ClientID)}}
	}, "console.column.application", "console.column.scopes", "console.column.created", "console.column.action")
}

func (c *Console) appPasswordsPart(v *visit) page.ConsolePart {
	return c.heldPart(v, "app_passwords", v.person.AppPasswords, func(i *authz.Item) page.TableRow {
		return page.TableRow{Cells: []page.Cell{{Name: i.Name}, {Name: strings.Join(i.Sites, ", ")}, {Text: page.Say("console.time", "time", i.CreatedAt)}, c.link(v, "revoke-password", "password", i.ID)}}
	}, "console.column.name", "console.column.sites", "console.column.created", "console.column.action")
}
