package console

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// What is done to a person. Each of it is one function of identity or manage, as for the commands.

// numbers are what ends with a person's sign-ins.
func (v *visit) numbers() []any {
	return []any{"sessions", len(v.person.Sessions), "tokens", len(v.person.Tokens) + len(v.person.AppPasswords)}
}

// askEnd says how much ends.
func (c *Console) askEnd(v *visit) (question, error) { return question{fill: v.numbers()}, nil }

// askPart asks about a part of the person that a parameter names.
func askPart(param string) func(*Console, *visit) (question, error) {
	return func(_ *Console, v *visit) (question, error) {
		what, hidden := chosen(v, param)
		return question{hidden: hidden, fill: []any{"what", what}}, nil
	}
}

func (c *Console) askEdit(v *visit) (question, error) {
	p := v.person
	return question{fields: []page.Field{
		{Name: "username", Value: p.Username, Required: true, MaxLength: person.MaxUsername},
		{Name: "name", Value: p.Name, MaxLength: person.MaxName},
		{Name: "given_name", Value: p.GivenName, MaxLength: person.MaxName},
		{Name: "family_name", Value: p.FamilyName, MaxLength: person.MaxName},
		{Name: "email", Type: "email", Value: p.Email},
		{Name: "email_verified", Type: "checkbox", Checked: p.EmailVerified, Hint: "console.field.email_verified.hint"},
		{Name: "locale", Value: p.Locale, Hint: "console.field.locale.hint"},
	}}, nil
}

// edit changes the profile. What is as it was is not sent, so that nothing is overwritten that somebody else changes.
func (c *Console) edit(v *visit, in url.Values) (result, error) {
	p, change := v.person, manage.PersonChange{}
	set := func(to **string, name, was string) {
		if now := strings.TrimSpace(in.Get(name)); now != was {
			*to = &now
		}
	}
	set(&change.Username, "username", p.Username)
	set(&change.Name, "name", p.Name)
	set(&change.GivenName, "given_name", p.GivenName)
	set(&change.FamilyName, "family_name", p.FamilyName)
	set(&change.Email, "email", p.Email)
	set(&change.Locale, "locale", p.Locale)
	if verified := in.Has("email_verified"); verified != p.EmailVerified || change.Email != nil {
		change.EmailVerified = &verified
	}
	return result{}, c.Manage.ChangePerson(v.Context(), p.ID, change, c.actor(v), func(tx storage.Tx, d *person.Details) error {
		if err := c.recheck(tx, v); err != nil {
			return err
		}
		if !v.outranks(c.roleOf(d.Partition, d.Groups)) {
			return denied("the other one has as much to say")
		}
		return nil
	})
}

func (c *Console) canReset(v *visit) bool {
	return c.Mails && v.person.Email != "" && is(person.Active, person.Inactive)(c, v) && v.Settings.PasswordLogin()
}

func (c *Console) askReset(v *visit) (question, error) {
	return question{fill: []any{"email", v.person.Email}}, nil
}

// sendReset sends the person a link for a new password.
func (c *Console) sendReset(v *visit, _ url.Values) (result, error) {
	if !c.canReset(v) {
		return result{}, &problem{key: "console.problem.no_mail"}
	}
	_, err := c.Identity.Enrol.HandReset(v.Context(), v.person.ID, true, c.actor(v))
	return result{}, err
}

func (c *Console) canLink(v *visit) bool {
	return is(person.Active, person.Inactive)(c, v) && v.Settings.PasswordLogin()
}

// makeLink shows a link for a new password once, for a person who gets no e-mail.
func (c *Console) makeLink(v *visit, _ url.Values) (result, error) {
	made, err := c.Identity.Enrol.HandReset(v.Context(), v.person.ID, false, c.actor(v))
	if err != nil {
		return result{}, err
	}
	return result{page: &page.Console{
		Title: page.Say("console.act.link.title"), Up: v.up(),
		Parts: []page.ConsolePart{{Secret: &page.Secret{Text: page.Say("console.link.once", "name", v.called(), "time", made.ExpiresAt), Value: made.Link}}},
	}}, nil
}

func (c *Console) inviteAgain(v *visit, _ url.Values) (result, error) {
	made, err := c.Identity.Enrol.InviteAgain(v.Context(), v.person.ID, c.actor(v))
	if err != nil || made.Sent {
		return result{}, err
	}
	return result{page: &page.Console{
		Title: page.Say("console.act.invite-again.title"), Up: v.up(),
		Parts: []page.ConsolePart{{Secret: &page.Secret{Text: page.Say("console.link.once", "name", v.called(), "time", made.ExpiresAt), Value: made.Link}}},
	}}, nil
}

func (c *Console) unlock(v *visit, _ url.Values) (result, error) {
	_, err := c.Identity.Proof.Unlock(v.Context(), v.person.ID, c.actor(v))
	return result{}, err
}

func (c *Console) endAll(v *visit, _ url.Values) (result, error) {
	return result{}, c.Identity.Person.EndSessions(v.Context(), v.person.ID, c.actor(v))
}

func (c *Console) endSession(v *visit, in url.Values) (result, error) {
	return result{}, c.Manage.EndHeld(v.Context(), v.person.ID, "sessions", part(in, "session"), c.actor(v))
}

// part is what a form names. An empty name would mean everything.
func part(in url.Values, name string) string {
	if value := in.Get(name); value != "" {
		return value
	}
	return "-"
}

// endHeld ends one of what the person holds.
func endHeld(kind, param string) func(*Console, *visit, url.Values) (result, error) {
	return func(c *Console, v *visit, in url.Values) (result, error) {
		return result{}, c.Manage.EndHeld(v.Context(), v.person.ID, kind, part(in, param), c.actor(v))
	}
}

func (c *Console) removeMethod(v *visit, in url.Values) (result, error) {
	return result{}, c.Identity.StepUp.RemoveStepUp(v.Context(), v.person.ID, in.Get("method"), c.actor(v))
}

func (c *Console) askBlock(v *visit) (question, error) {
	return question{fill: v.numbers(), fields: []page.Field{{Name: "reason", MaxLength: person.MaxLine, Hint: "console.field.reason.hint"}}}, nil
}

// block blocks the person. The reason stands in the event.
func (c *Console) block(v *visit, in url.Values) (result, error) {
	by := c.actor(v)
	by.Reason = strings.TrimSpace(in.Get("reason"))
	if !person.IsText(by.Reason, person.MaxLine) {
		return result{}, &problem{field: "reason", key: "console.problem.value"}
	}
	return result{}, c.Identity.Person.SetState(v.Context(), v.person.ID, person.Blocked, by)
}

func setState(to person.State) func(*Console, *visit, url.Values) (result, error) {
	return func(c *Console, v *visit, _ url.Values) (result, error) {
		return result{}, c.Identity.Person.SetState(v.Context(), v.person.ID, to, c.actor(v))
	}
}

func (c *Console) remove(v *visit, _ url.Values) (result, error) {
	err := c.Identity.Person.RemovePerson(v.Context(), v.person.ID, c.actor(v), func(tx storage.Tx, d *person.Details) error {
		if err := c.recheck(tx, v); err != nil {
			return err
		}
		if rank := c.roleOf(d.Partition, d.Groups); rank >= v.role {
			return denied("the other one has as much to say")
		}
		return nil
	})
	return result{to: Root + "/persons"}, err
}

func (c *Console) askJoin(*visit) (question, error) {
	return question{fields: []page.Field{{Name: "group", Required: true, MaxLength: person.MaxName}}}, nil
}

// join puts the person into a group.
func (c *Console) join(v *visit, in url.Values) (result, error) {
	return result{}, c.member(v, strings.TrimSpace(in.Get("group")), v.person.ID, true)
}

// leave takes the person out of a group.
func (c *Console) leave(v *visit, in url.Values) (result, error) {
	return result{}, c.member(v, in.Get("group"), v.person.ID, false)
}

// member puts a person into a group by its name or id, or takes one out. It is an act on the person, too, whose page it
// may not have come from. A group that gives a role takes an owner, and the last owner stays.
func (c *Console) member(v *visit, name, id string, in bool) error {
	g, err := c.groupOf(v, name, id)
	if err != nil {
		return err
	}
	_, err = c.Identity.Person.UpdateGroup(v.Context(), g.ID, c.actor(v), func(tx storage.Tx, now person.Group, change *person.GroupChange) error {
		if err := c.recheck(tx, v); err != nil {
			return err
		}
		if err := c.mayChange(v, now); err != nil {
			return err
		}
		if id == v.me() {
			return denied("nobody does this to themselves")
		}
		_, rec, err := c.Identity.Person.Find(tx, id)
		if err != nil {
			return err
		}
		if !v.outranks(c.roleOf(rec.PartitionName(), rec.Groups)) {
			return denied("the other one has as much to say")
		}
		if in {
			change.Add = []string{id}
			return nil
		}
		if change.Remove = []string{id}; c.roleOfGroup(now.Partition, now.Name) == Owner {
			return c.keepsOwner(tx, id)
		}
		return nil
	})
	return err
}

// groupOf returns the group of a name or id, in the partition of a person.
func (c *Console) groupOf(v *visit, name, personID string) (g person.Group, err error) {
	err = c.Store.View(v.Context(), func(tx storage.Tx) error {
		_, rec, err := c.Identity.Person.Find(tx, personID)
		if err != nil {
			return err
		}
		g, err = c.Identity.Person.Group(tx, rec.PartitionName(), name)
		return err
	})
	if errors.Is(err, person.ErrNoGroup) && slices.Contains(c.cfg.groupNames(), name) && v.role == Owner {
		// The first member of a group that gives a role makes it.
		g, err = c.Identity.Person.AddGroup(v.Context(), person.GroupChange{Name: name, Partition: event.DefaultPartition}, c.actor(v))
	}
	return g, err
}
