package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const lastEvents = 50 // on the page of a person

// personScreen is one person.
func (c *Console) personScreen() *frame.Screen {
	return &frame.Screen{
		Name: "person", Path: "/persons/{id}", Role: frame.Viewer, Find: c.findPerson, Rank: c.rankOfPerson, Show: c.showPerson,
		Acts: []*frame.Act{
			{Name: "edit", Role: frame.Helpdesk, Ask: c.askEdit, Do: c.edit},
			{Name: "verify", Role: frame.Helpdesk, When: func(v *frame.Visit) bool { return shownPerson(v).Email != "" && !shownPerson(v).EmailVerified }, Ask: c.askVerify, Do: c.verify},
			{Name: "reset", Role: frame.Helpdesk, When: c.canReset, Ask: c.askReset, Do: c.sendReset},
			{Name: "link", Role: frame.Owner, When: c.canLink, Do: c.makeLink},
			{Name: "invite-again", Role: frame.Helpdesk, When: is(person.Invited), Ask: askInviteAgain, Do: c.inviteAgain},
			{Name: "code", Role: frame.Operator, When: canHaveCode, Do: c.makeCode},
			{Name: "unlock", Role: frame.Helpdesk, When: func(v *frame.Visit) bool { return !shownPerson(v).SignInWaits.IsZero() }, Do: c.unlock},
			{Name: "end", Role: frame.Helpdesk, Own: true, Danger: true, When: func(v *frame.Visit) bool { return len(shownPerson(v).Sessions) > 0 }, Ask: c.askEnd, Do: c.endAll},
			{Name: "end-session", Role: frame.Helpdesk, Own: true, Danger: true, Hidden: true, Ask: askPart("session"), Do: c.endSession},
			{Name: "untrust-all", Role: frame.Helpdesk, Danger: true, When: func(v *frame.Visit) bool { return len(shownPerson(v).TrustedBrowsers) > 0 }, Ask: askUntrust, Do: c.untrustAll},
			{Name: "untrust", Role: frame.Helpdesk, Danger: true, Hidden: true, Ask: askPart("browser"), Do: c.untrust},
			{Name: "revoke", Role: frame.Helpdesk, Danger: true, Hidden: true, Ask: askPart("token"), Do: c.endHeld("tokens", "token")},
			{Name: "withdraw", Role: frame.Helpdesk, Danger: true, Hidden: true, Ask: askPart("client"), Do: c.endHeld("consents", "client")},
			{Name: "revoke-password", Role: frame.Helpdesk, Danger: true, Hidden: true, Ask: askPart("password"), Do: c.endHeld("app_passwords", "password")},
			{Name: "remove-method", Role: frame.Helpdesk, Danger: true, Hidden: true, Ask: askPart("method"), Do: c.removeMethod},
			{Name: "unlink", Role: frame.Helpdesk, Danger: true, Hidden: true, Ask: c.askUnlink, Do: c.unlink},
			{Name: "join", Role: frame.Operator, Ask: c.askJoin, Do: c.join},
			{Name: "leave", Role: frame.Operator, Danger: true, Hidden: true, Ask: askPart("group"), Do: c.leave},
			{Name: "block", Role: frame.Helpdesk, Spares: true, Danger: true, When: is(person.Active, person.Inactive, person.Invited), Ask: c.askBlock, Do: c.block},
			{Name: "unblock", Role: frame.Helpdesk, Spares: true, When: is(person.Blocked, person.Inactive), Do: c.setState(person.Active)},
			c.seeAsAct(),
			c.mergeAct(),
			{Name: "data", Role: frame.Operator, Do: c.downloadData},
			{Name: "remove", Role: frame.Operator, Spares: true, Danger: true, Ask: c.askEnd, Do: c.remove},
		},
	}
}

// is tells whether the person is in one of the states.
func is(of ...person.State) func(*frame.Visit) bool {
	return func(v *frame.Visit) bool {
		for _, s := range of {
			if shownPerson(v).State == s {
				return true
			}
		}
		return false
	}
}

// findPerson reads the person of the path.
func (c *Console) findPerson(v *frame.Visit) error {
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
		d, err := c.Manage.Details(tx, rec.Person(id), v.Now)
		v.About, v.Called, v.Rank, v.Self = &d, manage.Typed(d.Person), c.frame.RoleOf(d.Partition, d.Groups), id == v.Me()
		return err
	})
}

// rankOfPerson reads the role of the person of the path.
func (c *Console) rankOfPerson(v *frame.Visit, tx storage.Tx) (frame.Role, error) {
	_, rec, err := c.Identity.Person.Find(tx, shownPerson(v).ID)
	return c.frame.RoleOf(rec.PartitionName(), rec.Groups), err
}

func (c *Console) showPerson(v *frame.Visit) (*page.Console, error) {
	p := shownPerson(v)
	out := &page.Console{Name: v.Called, Up: &page.Up{Label: page.Say("console.persons.title"), URL: frame.Root + "/persons"}, Tags: []page.Cell{stateCell(p.State)}}
	if v.Rank != frame.Nobody {
		out.Tags = append(out.Tags, roleCell(v.Rank))
	}
	if v.Self {
		out.Lead = page.Say("console.person.self")
	} else if v.May(v.Screen.Act("edit")) != nil && v.Role >= frame.Helpdesk {
		out.Lead = page.Say("console.person.above")
	}
	var happened []event.Numbered
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		happened, _, names, err = c.Manage.Events(tx, event.Search{Partition: cmp.Or(p.Partition, event.DefaultPartition), Person: p.ID, Limit: lastEvents})
		return err
	})
	if err != nil {
		return nil, err
	}
	out.Parts = []page.ConsolePart{
		{Facts: c.profile(v), Actions: append(v.Buttons(), c.waysOn(p.ID)...)}, c.methodsPart(v), c.groupsPart(v), c.sessionsPart(v), c.accessPart(v), c.consentsPart(v),
	}
	if len(p.Linked) > 0 {
		out.Parts = slices.Insert(out.Parts, 2, c.linkedPart(v))
	}
	if len(p.TrustedBrowsers) > 0 {
		at := slices.IndexFunc(out.Parts, func(part page.ConsolePart) bool { return part.ID == "sessions" })
		out.Parts = slices.Insert(out.Parts, at+1, c.trustedPart(v))
	}
	if len(p.AppPasswords) > 0 {
		out.Parts = append(out.Parts, c.appPasswordsPart(v))
	}
	more := frame.Root + "/events?" + url.Values{"person": {v.Called}}.Encode()
	last := page.ConsolePart{ID: "events", Title: page.Say("console.person.events"), Table: c.eventTable(happened, names, false)}
	if len(happened) > 0 {
		last.Actions = []page.Action{{Label: "console.person.events.all", URL: more}}
	} else {
		last.Empty = &page.Empty{Text: page.Say("console.person.events.none")}
	}
	out.Parts = append(out.Parts, last)
	return out, nil
}

// waysOn lead from a person to what concerns them elsewhere.
func (c *Console) waysOn(id string) []page.Action {
	return []page.Action{{Label: "console.opens.title", URL: gateway.OpensPath(id)}, {Label: "console.refusals.title", URL: gateway.RefusalsOf(id)}}
}

// roleCell is a role as a mark.
func roleCell(r frame.Role) page.Cell {
	return page.Cell{Text: page.Say("console.role." + r.String()), Kind: "plain"}
}

func (c *Console) profile(v *frame.Visit) []page.ConsoleFact {
	p := shownPerson(v)
	facts := []page.ConsoleFact{{Label: "console.field.name", Cells: []page.Cell{frame.OrNone(p.Name)}}, {Label: "console.field.email", Cells: []page.Cell{frame.OrNone(p.Email)}}}
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
	if !p.SignedIn.IsZero() {
		facts = append(facts, page.ConsoleFact{Label: "console.field.signed_in", Cells: []page.Cell{{Text: page.Say("console.time", "time", p.SignedIn)}}})
	}
	if !p.BlockedUntil.IsZero() {
		facts = append(facts, page.ConsoleFact{Label: "console.field.blocked", Cells: []page.Cell{{Text: page.Say("console.time", "time", p.BlockedUntil), Kind: "bad"}}})
	}
	if place := c.PlaceOf("person " + p.Username); place != "" {
		facts = append(facts, page.ConsoleFact{Label: "console.field.origin", Cells: []page.Cell{{Name: place, Code: true}}})
	}
	if !p.SignInWaits.IsZero() {
		facts = append(facts, page.ConsoleFact{Label: "console.field.waits", Cells: []page.Cell{{Text: page.Say("console.person.waits", "time", p.SignInWaits), Kind: "warn"}}})
	}
	return facts
}

// methodsPart is how the person signs in.
func (c *Console) methodsPart(v *frame.Visit) page.ConsolePart {
	set := shownPerson(v).StepUp
	t := &page.Table{Label: page.Say("console.person.methods"), Columns: []string{"console.column.method", "console.column.state", "console.column.action"}}
	add := func(name string, has bool, state page.Text, removable bool) {
		if !has {
			return
		}
		row := page.TableRow{Cells: []page.Cell{{Text: page.Say("console.method." + name)}, {Text: state}, {}}}
		if removable {
			row.Cells[2] = v.Link("remove-method", "method", name)
		}
		t.Rows = append(t.Rows, row)
	}
	add("password", shownPerson(v).HasPassword, page.Say("console.method.set"), false)
	add("passkey", set.Passkeys > 0, page.Say("console.method.passkeys", "n", set.Passkeys), true)
	add("authenticator", set.Authenticator, page.Say("console.method.codes", "n", set.RecoveryCodes), true)
	pin := page.Say("console.method.set")
	if set.PINLocked {
		pin = page.Say("console.method.locked")
	}
	add("pin", set.PIN, pin, true)
	add("push", set.Phones > 0, page.Say("console.method.phones", "n", set.Phones), true)
	part := page.ConsolePart{ID: "methods", Title: page.Say("console.person.methods"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = &page.Empty{Text: page.Say("console.person.methods.none")}
	}
	return part
}

// linkedPart is which accounts elsewhere sign the person in.
func (c *Console) linkedPart(v *frame.Visit) page.ConsolePart {
	t := &page.Table{Label: page.Say("console.person.linked"), Columns: []string{"console.column.provider", "console.column.since", "console.column.action"}}
	for _, l := range shownPerson(v).Linked {
		row := page.TableRow{Cells: []page.Cell{{Name: l.Name}, frame.OrNone(""), v.Link("unlink", "provider", l.Provider)}}
		if !l.Since.IsZero() {
			row.Cells[1] = page.Cell{Text: page.Say("console.time", "time", l.Since)}
		}
		t.Rows = append(t.Rows, row)
	}
	return page.ConsolePart{ID: "linked", Title: page.Say("console.person.linked"), Table: t}
}

func (c *Console) groupsPart(v *frame.Visit) page.ConsolePart {
	t := &page.Table{Label: page.Say("console.groups.title"), Columns: []string{"console.column.group", "console.column.action"}}
	for _, g := range shownPerson(v).Groups {
		row := page.TableRow{Cells: []page.Cell{{Name: g, URL: frame.Root + "/groups?" + url.Values{"q": {g}}.Encode()}, {}}}
		if c.mayGive(v, []string{g}) == nil {
			row.Cells[1] = v.Link("leave", "group", g)
		}
		t.Rows = append(t.Rows, row)
	}
	part := page.ConsolePart{ID: "groups", Title: page.Say("console.groups.title"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = v.Empty("console.person.groups.none", "join")
	}
	return part
}

func (c *Console) sessionsPart(v *frame.Visit) page.ConsolePart {
	t := &page.Table{Label: page.Say("console.sessions.title"), Columns: []string{"console.column.device", "console.column.address", "console.column.level", "console.column.seen", "console.column.action"}}
	for _, s := range shownPerson(v).Sessions {
		first := page.Cell{Text: front.AgentText(s.Agent)}
		if s.ID == v.SignIn.ID {
			first.Hint = page.Say("console.session.this")
		}
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{first, {Name: s.Address}, {Text: page.Say("console.level", "n", s.Level)}, {Text: page.Say("console.time", "time", s.Seen)}, v.Link("end-session", "session", s.ID)}})
	}
	part := page.ConsolePart{ID: "sessions", Title: page.Say("console.sessions.title"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = &page.Empty{Text: page.Say("console.person.sessions.none")}
	}
	return part
}

// heldPart lists what the person holds.
func (c *Console) heldPart(v *frame.Visit, id string, items []authz.Item, row func(*authz.Item) page.TableRow, columns ...string) page.ConsolePart {
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

func (c *Console) accessPart(v *frame.Visit) page.ConsolePart {
	return c.heldPart(v, "access", shownPerson(v).Tokens, func(i *authz.Item) page.TableRow {
		return page.TableRow{Cells: []page.Cell{{Name: i.ClientID, URL: applicationPath(i.ClientID)}, {Name: i.Scope}, {Text: page.Say("console.time", "time", i.CreatedAt)}, v.Link("revoke", "token", i.ID)}}
	}, "console.column.application", "console.column.scopes", "console.column.created", "console.column.action")
}

func (c *Console) consentsPart(v *frame.Visit) page.ConsolePart {
	return c.heldPart(v, "consents", shownPerson(v).Consents, func(i *authz.Item) page.TableRow {
		return page.TableRow{Cells: []page.Cell{{Name: i.ClientID, URL: applicationPath(i.ClientID)}, {Name: i.Scope}, {Text: page.Say("console.time", "time", i.CreatedAt)}, v.Link("withdraw", "client", i.ClientID)}}
	}, "console.column.application", "console.column.scopes", "console.column.created", "console.column.action")
}

func (c *Console) appPasswordsPart(v *frame.Visit) page.ConsolePart {
	return c.heldPart(v, "app_passwords", shownPerson(v).AppPasswords, func(i *authz.Item) page.TableRow {
		return page.TableRow{Cells: []page.Cell{{Name: i.Name}, {Name: strings.Join(i.Sites, ", ")}, {Text: page.Say("console.time", "time", i.CreatedAt)}, v.Link("revoke-password", "password", i.ID)}}
	}, "console.column.name", "console.column.sites", "console.column.created", "console.column.action")
}
