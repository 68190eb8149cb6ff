package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The actions on a person. Each of them is one function of identity or admin, as for the commands.

// numbers returns the counts of things that end with a person's sign-ins.
func numbers(v *layout.Visit) []any {
	p := shownPerson(v)
	return []any{
		"sessions", web.Say("console.number.sessions", "n", len(p.Sessions)), "tokens",
		web.Say("console.number.tokens", "n", len(p.Tokens)+len(p.AppPasswords)),
	}
}

// askEnd asks with the numbers of what ends.
func (c *Console) askEnd(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: numbers(v)}, nil
}

// askPart asks about a part of the person that a parameter names.
func askPart(param string) func(*layout.Visit) (layout.Question, error) {
	return func(v *layout.Visit) (layout.Question, error) {
		what, hidden := v.Chosen(param)
		return layout.Question{Hidden: hidden, Fill: []any{"what", what}}, nil
	}
}

func (c *Console) askEdit(v *layout.Visit) (layout.Question, error) {
	p := shownPerson(v)
	// Applications trust usernames, so the helpdesk must not choose one.
	return layout.Question{Submit: "console.save", Fields: []web.Field{
		{Name: "username", Value: p.Username, Required: true, MaxLength: person.MaxUsername, ReadOnly: v.Role < layout.Operator},
		{Name: "name", Value: p.Name, MaxLength: person.MaxName},
		{Name: "given_name", Value: p.GivenName, MaxLength: person.MaxName},
		{Name: "family_name", Value: p.FamilyName, MaxLength: person.MaxName},
		{Name: "email", Type: "email", Value: p.Email},
		{Name: "email_verified", Type: "checkbox", Checked: p.EmailVerified, Hint: "console.field.email_verified.hint"},
		{Name: "locale", Value: p.Locale, Hint: "console.field.locale.hint"},
	}}, nil
}

// edit changes the profile. Unchanged fields are not sent, so they do not overwrite the changes of someone else.
func (c *Console) edit(v *layout.Visit, in url.Values) (layout.Result, error) {
	p, change := shownPerson(v), admin.PersonChange{}
	set := func(to **string, name, was string) {
		if now := strings.TrimSpace(in.Get(name)); now != was {
			*to = &now
		}
	}
	if set(&change.Username, "username", p.Username); change.Username != nil && v.Role < layout.Operator {
		return layout.Result{}, &layout.Problem{Field: "username", Key: "console.problem.username_not_yours"}
	}
	set(&change.Name, "name", p.Name)
	set(&change.GivenName, "given_name", p.GivenName)
	set(&change.FamilyName, "family_name", p.FamilyName)
	set(&change.Email, "email", p.Email)
	set(&change.Locale, "locale", p.Locale)
	if verified := in.Has("email_verified"); verified != p.EmailVerified || change.Email != nil {
		change.EmailVerified = &verified
	}
	return layout.Result{}, c.Manage.ChangePerson(v.Context(), p.ID, change, v.Actor(), func(tx storage.Tx, d *person.Details) error {
		if err := v.Recheck(tx); err != nil {
			return err
		}
		if !v.Outranks(c.frame.RoleOf(d.Partition, d.Groups)) {
			return layout.Denied("the other person is of equal or higher rank")
		}
		return nil
	})
}

func (c *Console) canReset(v *layout.Visit) bool {
	return c.Mails && shownPerson(v).Email != "" && inState(person.Active, person.Inactive)(v) && v.Settings.PasswordLogin()
}

func (c *Console) askReset(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: []any{"email", shownPerson(v).Email}}, nil
}

// sendReset sends the person a link for a new password.
func (c *Console) sendReset(v *layout.Visit, _ url.Values) (layout.Result, error) {
	if !c.canReset(v) {
		return layout.Result{}, &layout.Problem{Key: "console.problem.no_mail"}
	}
	_, err := c.Identity.Recovery.HandReset(v.Context(), shownPerson(v).ID, true, v.Actor())
	return layout.Result{}, err
}

func (c *Console) canLink(v *layout.Visit) bool {
	return inState(person.Active, person.Inactive)(v) && v.Settings.PasswordLogin()
}

// makeLink shows a link for a new password once, for a person who gets no e-mail.
func (c *Console) makeLink(v *layout.Visit, _ url.Values) (layout.Result, error) {
	made, err := c.Identity.Recovery.HandReset(v.Context(), shownPerson(v).ID, false, v.Actor())
	if err != nil {
		return layout.Result{}, err
	}
	return layout.Result{Page: &web.Console{
		Title: web.Say("console.act.link.title"), Up: v.Up(),
		Parts: []web.ConsolePart{{Secret: &web.Secret{
			Text:  web.Say("console.link.once", "name", v.Called, "time", made.ExpiresAt),
			Value: made.Link,
		}}},
	}}, nil
}

func (c *Console) inviteAgain(v *layout.Visit, _ url.Values) (layout.Result, error) {
	made, err := c.Identity.Invitation.InviteAgain(v.Context(), shownPerson(v).ID, v.Actor())
	if err != nil || made.Sent {
		return layout.Result{}, err
	}
	return layout.Result{Page: &web.Console{
		Title: web.Say("console.act.invite-again.title"), Up: v.Up(),
		Parts: []web.ConsolePart{{Secret: &web.Secret{
			Text:  web.Say("console.link.once", "name", v.Called, "time", made.ExpiresAt),
			Value: made.Link,
		}}},
	}}, nil
}

func (c *Console) unlock(v *layout.Visit, _ url.Values) (layout.Result, error) {
	_, err := c.Identity.Proof.Unlock(v.Context(), shownPerson(v).ID, v.Actor())
	return layout.Result{}, err
}

func (c *Console) endAll(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Identity.Person.EndSessions(v.Context(), shownPerson(v).ID, v.Actor())
}

func (c *Console) endSession(v *layout.Visit, in url.Values) (layout.Result, error) {
	return layout.Result{}, c.Manage.EndHeld(v.Context(), shownPerson(v).ID, "sessions", layout.Part(in, "session"), v.Actor())
}

// endHeld ends a token, a consent or an app password of the person.
func (c *Console) endHeld(kind, param string) func(*layout.Visit, url.Values) (layout.Result, error) {
	return func(v *layout.Visit, in url.Values) (layout.Result, error) {
		return layout.Result{}, c.Manage.EndHeld(v.Context(), shownPerson(v).ID, kind, layout.Part(in, param), v.Actor())
	}
}

// askRemoveMethod offers to tell the person by e-mail, with a link to the page that sets up another one. The person is
// always told about the removal of passkeys.
func (c *Console) askRemoveMethod(v *layout.Visit) (layout.Question, error) {
	method, hidden := v.Chosen("method")
	ask := layout.Question{Hidden: hidden, Fill: []any{"what", web.Say("console.method." + method)}}
	if to := shownPerson(v).Email; c.Mails && to != "" && method != session.MethodPasskey {
		ask.Fields = []web.Field{{Name: "mail", Type: "checkbox", Checked: true, Hint: "console.field.mail.hint"}}
		ask.Facts = []web.ConsoleFact{{Label: "console.field.email", Cells: []web.Cell{{Name: to}}}}
	}
	return ask, nil
}

func (c *Console) removeMethod(v *layout.Visit, in url.Values) (layout.Result, error) {
	r := mfa.Removal{Method: in.Get("method"), Mail: in.Has("mail")}
	return layout.Result{}, c.Identity.StepUp.RemoveStepUp(v.Context(), shownPerson(v).ID, r, v.Actor())
}

func (c *Console) askBlock(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fill: numbers(v), Fields: []web.Field{
		{Name: "reason", MaxLength: person.MaxLine, Hint: "console.field.reason.hint"},
		{Name: "until", Type: "date", Hint: "console.field.until.hint"},
	}}, nil
}

// block blocks the person, until a day if one is entered. The reason is in the event.
func (c *Console) block(v *layout.Visit, in url.Values) (layout.Result, error) {
	by := v.Actor()
	by.Reason = strings.TrimSpace(in.Get("reason"))
	if !person.IsText(by.Reason, person.MaxLine) {
		return layout.Result{}, &layout.Problem{Field: "reason", Key: "console.problem.value"}
	}
	var until time.Time
	if day := in.Get("until"); day != "" {
		var err error
		// The form of an Undo has a time of day too. A date field would not show it, so it is a field of its own.
		if until, err = time.Parse(time.DateTime, day+" "+cmp.Or(in.Get("until_time"), "00:00:00")); err != nil {
			return layout.Result{}, &layout.Problem{Field: "until", Key: "console.problem.until"}
		}
	}
	out := layout.Result{}
	if shownPerson(v).State == person.Active { // in another state, the person would be active afterwards
		out.Undo = &layout.Undo{Act: "unblock"}
	}
	err := c.Identity.Person.Block(v.Context(), shownPerson(v).ID, until, by)
	if e := new(person.ValidationError); errors.As(err, &e) && e.Field == "until" {
		err = &layout.Problem{Field: "until", Key: "console.problem.until"}
	}
	return out, err
}

// unblock makes the person active.
func (c *Console) unblock(v *layout.Visit, _ url.Values) (out layout.Result, err error) {
	p := shownPerson(v)
	if p.State == person.Blocked {
		out.Undo = &layout.Undo{Act: "block"}
		if until := p.BlockedUntil.UTC(); !p.BlockedUntil.IsZero() {
			out.Undo.Values = url.Values{"until": {until.Format(time.DateOnly)}, "until_time": {until.Format(time.TimeOnly)}}
		}
	}
	return out, c.Identity.Person.SetState(v.Context(), p.ID, person.Active, v.Actor())
}

func (c *Console) remove(v *layout.Visit, _ url.Values) (layout.Result, error) {
	err := c.Identity.Person.RemovePerson(v.Context(), shownPerson(v).ID, v.Actor(), func(tx storage.Tx, d *person.Details) error {
		if err := v.Recheck(tx); err != nil {
			return err
		}
		if rank := c.frame.RoleOf(d.Partition, d.Groups); rank >= v.Role {
			return layout.Denied("the other person is of equal or higher rank")
		}
		return nil
	})
	return layout.Result{To: layout.Root + "/persons"}, err
}

func (c *Console) askJoin(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Fields: []web.Field{
		{Name: "group", Value: v.URL.Query().Get("group"), Required: true, MaxLength: person.MaxName},
	}}, nil
}

// join puts the person into a group.
func (c *Console) join(v *layout.Visit, in url.Values) (layout.Result, error) {
	g, changed, err := c.member(v, strings.TrimSpace(in.Get("group")), shownPerson(v).ID, true)
	return undone(changed, "leave", "group", g), err
}

// leave takes the person out of a group.
func (c *Console) leave(v *layout.Visit, in url.Values) (layout.Result, error) {
	g, changed, err := c.member(v, in.Get("group"), shownPerson(v).ID, false)
	return undone(changed, "join", "group", g), err
}

// undone returns the result of an act that another act with one field undoes, if it has changed anything.
func undone(changed bool, act, field, value string) (out layout.Result) {
	if changed {
		out.Undo = &layout.Undo{Act: act, Values: url.Values{field: {value}}}
	}
	return out
}

// member adds a person to a group, named by its name or id, or removes one. It is checked as an act on the person too,
// since it may come from another page. Only an owner can change a group that gives a role, and the last owner stays. It
// returns the id of the group, and whether the membership has changed.
func (c *Console) member(v *layout.Visit, name, id string, in bool) (group string, changed bool, err error) {
	g, err := c.groupOf(v, name, id)
	if err != nil {
		return "", false, err
	}
	_, err = c.Identity.Person.UpdateGroup(v.Context(), g.ID, v.Actor(),
		func(tx storage.Tx, now person.Group, change *person.GroupChange) error {
			if err := v.Recheck(tx); err != nil {
				return err
			}
			if err := c.mayChange(v, now); err != nil {
				return err
			}
			if id == v.Me() {
				return layout.Denied("you cannot do this to yourself")
			}
			_, rec, err := c.Identity.Person.Find(tx, id)
			if err != nil {
				return err
			}
			if !v.Outranks(c.frame.RoleOf(rec.PartitionName(), rec.Groups)) {
				return layout.Denied("the other person is of equal or higher rank")
			}
			changed = slices.Contains(rec.Groups, now.Name) != in
			if in {
				change.Add = []string{id}
				return nil
			}
			if change.Remove = []string{id}; c.frame.RoleOfGroup(now.Partition, now.Name) == layout.Owner {
				return c.keepsOwner(tx, id)
			}
			return nil
		})
	return g.ID, changed, err
}

// groupOf returns the group with a name or id, in the partition of a person.
func (c *Console) groupOf(v *layout.Visit, name, personID string) (g person.Group, err error) {
	err = c.Store.View(v.Context(), func(tx storage.Tx) error {
		_, rec, err := c.Identity.Person.Find(tx, personID)
		if err != nil {
			return err
		}
		g, err = c.Identity.Person.Group(tx, rec.PartitionName(), name)
		return err
	})
	if errors.Is(err, person.ErrNoGroup) && slices.Contains(c.frame.GroupNames(), name) && v.Role == layout.Owner {
		// A group that gives a role is created with its first member.
		g, err = c.Identity.Person.AddGroup(v.Context(), person.GroupChange{Name: name, Partition: audit.DefaultPartition}, v.Actor())
	}
	return g, err
}
