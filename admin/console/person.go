package console

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const lastEvents = 10 // on the page of a person

// personScreen is the page of one person.
func (c *Console) personScreen() *layout.Screen {
	return &layout.Screen{
		Name: "person", Path: "/persons/{id}", Role: layout.Viewer, Find: c.findPerson, Rank: c.rankOfPerson, Show: c.showPerson,
		Acts: []*layout.Act{
			{Name: "edit", Role: layout.Helpdesk, Ask: c.askEdit, Do: c.edit},
			{
				Name: "verify", Role: layout.Helpdesk,
				When: func(v *layout.Visit) bool { return shownPerson(v).Email != "" && !shownPerson(v).EmailVerified },
				Ask:  c.askVerify, Do: c.verify,
			},
			{Name: "reset", Role: layout.Helpdesk, When: c.canReset, Ask: c.askReset, Do: c.sendReset},
			{Name: "link", Role: layout.Owner, When: c.canLink, Do: c.makeLink},
			{Name: "invite-again", Role: layout.Helpdesk, When: inState(person.Invited), Ask: askInviteAgain, Do: c.inviteAgain},
			{Name: "code", Role: layout.Operator, When: canHaveCode, Do: c.makeCode},
			{Name: "unlock", Role: layout.Helpdesk, When: func(v *layout.Visit) bool { return !shownPerson(v).SignInWaits.IsZero() }, Do: c.unlock},
			{
				Name: "end", Role: layout.Helpdesk, Own: true, Danger: true,
				When: func(v *layout.Visit) bool { return len(shownPerson(v).Sessions) > 0 }, Ask: c.askEnd, Do: c.endAll,
			},
			{Name: "end-session", Role: layout.Helpdesk, Own: true, Danger: true, Hidden: true, Ask: askPart("session"), Do: c.endSession},
			{
				Name: "untrust-all", Role: layout.Helpdesk, Danger: true,
				When: func(v *layout.Visit) bool { return len(shownPerson(v).TrustedBrowsers) > 0 }, Ask: askUntrust, Do: c.untrustAll,
			},
			{Name: "untrust", Role: layout.Helpdesk, Danger: true, Hidden: true, Ask: askPart("browser"), Do: c.untrust},
			{Name: "revoke", Role: layout.Helpdesk, Danger: true, Hidden: true, Ask: askPart("token"), Do: c.endHeld("tokens", "token")},
			{Name: "withdraw", Role: layout.Helpdesk, Danger: true, Hidden: true, Ask: askPart("client"), Do: c.endHeld("consents", "client")},
			{
				Name: "revoke-password", Role: layout.Helpdesk, Danger: true, Hidden: true, Ask: askPart("password"),
				Do: c.endHeld("app_passwords", "password"),
			},
			{Name: "remove-method", Role: layout.Helpdesk, Danger: true, Hidden: true, Ask: c.askRemoveMethod, Do: c.removeMethod},
			{Name: "unlink", Role: layout.Helpdesk, Danger: true, Hidden: true, Ask: c.askUnlink, Do: c.unlink},
			{Name: "join", Role: layout.Operator, Hidden: true, Ask: c.askJoin, Do: c.join},
			{Name: "leave", Role: layout.Operator, Danger: true, Hidden: true, Ask: askPart("group"), Do: c.leave},
			{
				Name: "block", Role: layout.Helpdesk, Spares: true, Danger: true, When: inState(person.Active, person.Inactive, person.Invited),
				Ask: c.askBlock, Do: c.block,
			},
			{Name: "unblock", Role: layout.Helpdesk, Spares: true, When: inState(person.Blocked, person.Inactive), Do: c.unblock},
			c.seeAsAct(),
			c.mergeAct(),
			{Name: "data", Role: layout.Operator, Do: c.downloadData},
			{Name: "remove", Role: layout.Operator, Spares: true, Danger: true, Ask: c.askEnd, Do: c.remove},
		},
	}
}

// inState reports whether the person is in one of the states.
func inState(of ...person.State) func(*layout.Visit) bool {
	return func(v *layout.Visit) bool {
		for _, s := range of {
			if shownPerson(v).State == s {
				return true
			}
		}
		return false
	}
}

// findPerson reads the person of the path.
func (c *Console) findPerson(v *layout.Visit) error {
	id := v.PathValue("id")
	if !person.IsID(id) {
		return webflow.NotFound()
	}
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		_, rec, err := c.Identity.Person.Find(tx, id)
		if errors.Is(err, person.ErrNoPerson) || err == nil && rec.State == person.Removed {
			return webflow.NotFound()
		}
		if err != nil {
			return err
		}
		d, err := c.Manage.Details(tx, rec.Person(id), v.Now)
		v.About, v.Called, v.Rank, v.Self = &d, admin.Typed(d.Person), c.frame.RoleOf(d.Partition, d.Groups), id == v.Me()
		return err
	})
}

// rankOfPerson reads the role of the person of the path.
func (c *Console) rankOfPerson(v *layout.Visit, tx storage.Tx) (layout.Role, error) {
	_, rec, err := c.Identity.Person.Find(tx, shownPerson(v).ID)
	return c.frame.RoleOf(rec.PartitionName(), rec.Groups), err
}

func (c *Console) showPerson(v *layout.Visit) (*web.Console, error) {
	p := shownPerson(v)
	out := sites.PersonPage(&p.Person, v.Rank, "console.person.tab")
	out.Actions, out.AtStake = v.Buttons(), web.Say("console.zone.person", numbers(v)...)
	if v.Self {
		out.Lead = web.Say("console.person.self")
	} else if v.May(v.Screen.Act("edit")) != nil && v.Role >= layout.Helpdesk {
		out.Lead = web.Say("console.person.above")
	}
	var happened []audit.Numbered
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		happened, _, names, err = c.Manage.Events(tx,
			audit.Search{Partition: cmp.Or(p.Partition, audit.DefaultPartition), Person: p.ID, Limit: lastEvents})
		return err
	})
	if err != nil {
		return nil, err
	}
	halves := []web.ConsolePart{c.methodsPart(v), c.sessionsPart(v), c.groupsPart(v)}
	if len(p.Linked) > 0 {
		halves = append(halves, c.linkedPart(v))
	}
	for i := range len(halves) / 2 * 2 { // an odd one has the line to itself
		halves[i].Half = true
	}
	out.Parts = append([]web.ConsolePart{{Facts: c.profile(v)}}, halves...)
	if len(p.TrustedBrowsers) > 0 {
		out.Parts = append(out.Parts, c.trustedPart(v))
	}
	out.Parts = append(out.Parts, c.accessPart(v), c.consentsPart(v))
	if len(p.AppPasswords) > 0 {
		out.Parts = append(out.Parts, c.appPasswordsPart(v))
	}
	more := layout.Root + "/events?" + url.Values{"person": {v.Called}}.Encode()
	last := web.ConsolePart{ID: "events", Title: web.Say("console.person.events"), Table: c.eventTable(happened, names, false)}
	if len(happened) > 0 {
		last.Actions = []web.Action{{Label: "console.person.events.all", URL: more}}
	} else {
		last.Empty = &web.Empty{Text: web.Say("console.person.events.none")}
	}
	out.Parts = append(out.Parts, last)
	return out, nil
}

func (c *Console) profile(v *layout.Visit) []web.ConsoleFact {
	p := shownPerson(v)
	facts := []web.ConsoleFact{{Label: "console.field.email", Cells: []web.Cell{layout.OrNone(p.Email)}}}
	if p.Email != "" {
		mark := web.Cell{Text: web.Say("console.email.unverified"), Kind: "warn"}
		if p.EmailVerified {
			mark = web.Cell{Text: web.Say("console.email.verified"), Kind: "good"}
		}
		facts[0].Cells = append(facts[0].Cells, mark)
	}
	if p.Phone != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.phone", Cells: []web.Cell{{Name: p.Phone}}})
	}
	if p.Locale != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.locale", Cells: []web.Cell{{Name: p.Locale}}})
	}
	facts = append(facts,
		web.ConsoleFact{Label: "console.field.id", Cells: []web.Cell{{Name: p.ID, Code: true}}},
		web.ConsoleFact{Label: "console.column.created", Cells: []web.Cell{{Text: web.Say("console.time", "time", p.CreatedAt)}}},
	)
	if !p.SignedIn.IsZero() {
		facts = append(facts, web.ConsoleFact{
			Label: "console.field.signed_in",
			Cells: []web.Cell{{Text: web.Say("console.time", "time", p.SignedIn)}},
		})
	}
	if !p.BlockedUntil.IsZero() {
		facts = append(facts, web.ConsoleFact{
			Label: "console.field.blocked",
			Cells: []web.Cell{{Text: web.Say("console.time", "time", p.BlockedUntil), Kind: "bad"}},
		})
	}
	if place := c.PlaceOf("person " + p.Username); place != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.origin", Cells: []web.Cell{{Name: place, Code: true}}})
	}
	if !p.SignInWaits.IsZero() {
		facts = append(facts, web.ConsoleFact{
			Label: "console.field.waits",
			Cells: []web.Cell{{Text: web.Say("console.person.waits", "time", p.SignInWaits), Kind: "warn"}},
		})
	}
	return facts
}

// methodsPart shows the sign-in methods of the person.
func (c *Console) methodsPart(v *layout.Visit) web.ConsolePart {
	set := shownPerson(v).StepUp
	t := &web.Table{
		Label:   web.Say("console.person.methods"),
		Columns: []string{"console.column.method", "console.column.state", "console.column.action"},
	}
	add := func(name string, has bool, state web.Text, removable bool) {
		if !has {
			return
		}
		row := web.TableRow{Cells: []web.Cell{{Text: web.Say("console.method." + name)}, {Text: state}, {}}}
		if removable {
			row.Cells[2] = v.Link("remove-method", "method", name)
		}
		t.Rows = append(t.Rows, row)
	}
	add("password", shownPerson(v).HasPassword, web.Say("console.method.set"), false)
	for _, planted := range shownPerson(v).Planted {
		what := web.Cell{Name: planted.Value}
		if planted.Value == "" {
			what = web.Cell{Text: web.Say("console.method." + planted.Kind)}
		}
		by := web.Cell{Text: web.Say("console.method.planted", "by", cmp.Or(planted.By, "API")), Hint: web.Say("console.method.planted.hint")}
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{what, by, {}}})
	}
	add("passkey", set.Passkeys > 0, web.Say("console.method.passkeys", "n", set.Passkeys), true)
	add("authenticator", set.Authenticator, web.Say("console.method.codes", "n", set.RecoveryCodes), true)
	pin := web.Say("console.method.set")
	if set.PINLocked {
		pin = web.Say("console.method.locked")
	}
	add("pin", set.PIN, pin, true)
	add("push", set.Phones > 0, web.Say("console.method.phones", "n", set.Phones), true)
	part := web.ConsolePart{ID: "methods", Title: web.Say("console.person.methods"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = &web.Empty{Text: web.Say("console.person.methods.none")}
	}
	return part
}

// linkedPart shows the accounts at identity providers that sign the person in.
func (c *Console) linkedPart(v *layout.Visit) web.ConsolePart {
	t := &web.Table{
		Label:   web.Say("console.person.linked"),
		Columns: []string{"console.column.provider", "console.column.since", "console.column.action"},
	}
	for _, l := range shownPerson(v).Linked {
		row := web.TableRow{Cells: []web.Cell{{Name: l.Name}, layout.OrNone(""), v.Link("unlink", "provider", l.Provider)}}
		if !l.Since.IsZero() {
			row.Cells[1] = web.Cell{Text: web.Say("console.time", "time", l.Since)}
		}
		t.Rows = append(t.Rows, row)
	}
	return web.ConsolePart{ID: "linked", Title: web.Say("console.person.linked"), Table: t}
}

func (c *Console) groupsPart(v *layout.Visit) web.ConsolePart {
	t := &web.Table{Label: web.Say("console.groups.title"), Columns: []string{"console.column.group", "console.column.action"}}
	for _, g := range shownPerson(v).Groups {
		row := web.TableRow{Cells: []web.Cell{{Name: g, URL: layout.Root + "/groups?" + url.Values{"q": {g}}.Encode()}, {}}}
		if c.mayGive(v, []string{g}) == nil {
			row.Cells[1] = v.Link("leave", "group", g)
		}
		t.Rows = append(t.Rows, row)
	}
	part := web.ConsolePart{ID: "groups", Title: web.Say("console.groups.title"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = v.Empty("console.person.groups.none", "join")
	} else if v.May(v.Screen.Act("join")) == nil {
		part.Actions = []web.Action{{Label: "console.act.join", URL: v.Path() + "/join"}}
	}
	return part
}

func (c *Console) sessionsPart(v *layout.Visit) web.ConsolePart {
	t := &web.Table{
		Label: web.Say("console.sessions.title"),
		Columns: []string{
			"console.column.device", "console.column.address", "console.column.seen",
			"console.column.action",
		},
	}
	for _, s := range shownPerson(v).Sessions {
		first := web.Cell{Text: webflow.AgentText(s.Agent)}
		if s.ID == v.SignIn.ID {
			first.Hint = web.Say("console.session.this")
		} else if s.DeviceBound {
			first.Hint = web.Say("console.session.bound")
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			first,
			{Name: s.Address, Hint: web.Say("console.level", "n", s.Level)},
			{Text: web.Say("console.time", "time", s.Seen)},
			v.Link("end-session", "session", s.ID),
		}})
	}
	part := web.ConsolePart{ID: "sessions", Title: web.Say("console.sessions.title"), Table: t}
	if len(t.Rows) == 0 {
		part.Empty = &web.Empty{Text: web.Say("console.person.sessions.none")}
	}
	return part
}

// heldPart lists tokens, consents or app passwords of the person.
func (c *Console) heldPart(v *layout.Visit, id string, items []authz.Item, row func(*authz.Item) web.TableRow,
	columns ...string,
) web.ConsolePart {
	t := &web.Table{Label: web.Say("console.person." + id), Columns: columns}
	for i := range items {
		t.Rows = append(t.Rows, row(&items[i]))
	}
	part := web.ConsolePart{ID: id, Title: web.Say("console.person." + id), Table: t}
	if len(items) == 0 {
		part.Empty = &web.Empty{Text: web.Say("console.person." + id + ".none")}
	}
	return part
}

func (c *Console) accessPart(v *layout.Visit) web.ConsolePart {
	return c.heldPart(v, "access", shownPerson(v).Tokens, func(i *authz.Item) web.TableRow {
		return web.TableRow{Cells: []web.Cell{
			{Name: i.ClientID, URL: applicationPath(i.ClientID)},
			{Name: i.Scope},
			{Text: web.Say("console.time", "time", i.CreatedAt)},
			v.Link("revoke", "token", i.ID),
		}}
	}, "console.column.application", "console.column.scopes", "console.column.created", "console.column.action")
}

func (c *Console) consentsPart(v *layout.Visit) web.ConsolePart {
	return c.heldPart(v, "consents", shownPerson(v).Consents, func(i *authz.Item) web.TableRow {
		return web.TableRow{Cells: []web.Cell{
			{Name: i.ClientID, URL: applicationPath(i.ClientID)},
			{Name: i.Scope},
			{Text: web.Say("console.time", "time", i.CreatedAt)},
			v.Link("withdraw", "client", i.ClientID),
		}}
	}, "console.column.application", "console.column.scopes", "console.column.created", "console.column.action")
}

func (c *Console) appPasswordsPart(v *layout.Visit) web.ConsolePart {
	return c.heldPart(v, "app_passwords", shownPerson(v).AppPasswords, func(i *authz.Item) web.TableRow {
		return web.TableRow{Cells: []web.Cell{
			{Name: i.Name},
			{Name: strings.Join(i.Sites, ", ")},
			{Text: web.Say("console.time", "time", i.CreatedAt)},
			v.Link("revoke-password", "password", i.ID),
		}}
	}, "console.column.name", "console.column.sites", "console.column.created", "console.column.action")
}
