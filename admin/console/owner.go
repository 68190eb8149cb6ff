package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// lastOwnerError says that a change would leave the console without an owner. It is a page to a person who removes
// their own account, and a wrong value to commands and SCIM.
type lastOwnerError struct{}

func (lastOwnerError) Error() string {
	return "the person is the last owner of the admin console, who stays: make another one first"
}

func (e lastOwnerError) Unwrap() []error {
	return []error{
		&webflow.Answer{Status: http.StatusConflict, Key: "error.last_owner", Again: webflow.DataPath},
		&person.ValidationError{Field: "state", Problem: e.Error()},
		&layout.Problem{Key: "console.problem.last_owner"},
	}
}

var errLastOwner error = lastOwnerError{}

// namedOwnerError says that the configuration names a person as an owner: anyone who took the name of the removed
// person would be one.
type namedOwnerError struct{}

func (namedOwnerError) Error() string {
	return "the configuration names the person as an owner of the admin console: take the username out of `admin` and reload first"
}

func (e namedOwnerError) Unwrap() []error {
	return []error{
		&webflow.Answer{Status: http.StatusConflict, Key: "error.named_owner", Again: webflow.DataPath},
		&person.ValidationError{Field: "state", Problem: e.Error()},
		&layout.Problem{Key: "console.problem.named_owner"},
	}
}

// guardOwner keeps the last owner, and those that the configuration names, from being removed by anybody. It is a hook
// of the removal, so it holds for every page, command and API.
func (c *Console) guardOwner(tx storage.Tx, id string) error {
	_, rec, err := c.Identity.Person.Find(tx, id)
	if err != nil {
		return err
	}
	if c.Identity.Person.IsKept(&rec) {
		return namedOwnerError{}
	}
	u, err := c.Units(tx)
	if err != nil || !u.Features.AdminConsoleEnabled {
		return err
	}
	if rec.State != person.Active || c.frame.RoleOf(rec.PartitionName(), rec.Groups) != layout.Owner {
		return nil
	}
	return c.keepsOwner(tx, id)
}

// maxTold is the maximum number of owners that get a message.
const maxTold = 200

// TellOwners tells the owners that settings of sign-in have changed: who could change them unseen could sign in as an
// owner.
func (c *Console) TellOwners(tx storage.Tx, by audit.Actor, paths []string, now time.Time) error {
	if c.Mail == nil {
		return nil
	}
	p := c.Identity.Person
	id, err := p.GroupID(tx, audit.DefaultPartition, c.frame.Groups[layout.Owner])
	if err != nil || id == "" {
		return err
	}
	ids, err := p.Members(tx, id, "", maxTold)
	if err != nil {
		return err
	}
	for _, owner := range ids {
		_, rec, err := p.Find(tx, owner)
		if err != nil {
			return err
		}
		if rec.State != person.Active {
			continue
		}
		prof, err := person.ReadProfile(tx, owner, &rec)
		if err != nil {
			return err
		}
		n := person.Recipient{ID: owner, Record: &rec, Profile: &prof.Profile}.Notice(notify.SignInSettings, now)
		if n.To == "" {
			continue
		}
		n.Link = layout.Root + "/settings"
		n.Data["administrator"], n.Data["settings"] = cmp.Or(by.Name, by.ID), strings.Join(paths[:min(len(paths), maxToldPaths)], ", ")
		if err := c.Mail.Send(tx, n); err != nil {
			return err
		}
	}
	return nil
}

// maxToldPaths is the maximum number of settings that a message names.
const maxToldPaths = 20

// keepsOwner returns errLastOwner unless an active person besides this one is an owner.
func (c *Console) keepsOwner(tx storage.Tx, without string) error {
	p := c.Identity.Person
	id, err := p.GroupID(tx, audit.DefaultPartition, c.frame.Groups[layout.Owner])
	if err != nil {
		return err
	}
	if id == "" {
		return errLastOwner
	}
	const most = 200
	for after := ""; ; {
		ids, err := p.Members(tx, id, after, most)
		if err != nil {
			return err
		}
		people, err := p.ManyPersons(tx, ids)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(people, func(o person.Person) bool { return o.ID != without && o.State == person.Active }) {
			return nil
		}
		if len(ids) < most {
			return errLastOwner
		}
		after = ids[len(ids)-1]
	}
}
