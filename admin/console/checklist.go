package console

import (
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// lookedOwners is the number of owners whose second factors are looked for, lookedBackups that of the newest backups.
const lookedOwners, lookedBackups = 20, 5

// step is something that a new installation needs.
type step struct {
	name string // of its messages: console.step.<name>
	done bool
	url  string // where it is done
}

// checklist lists the needs of a new installation, for those who can meet them. ok: there is anything left
func (c *Console) checklist(v *layout.Visit, things int) (part web.ConsolePart, ok bool, err error) {
	if v.Role < layout.Operator {
		return part, false, nil
	}
	var owner, people, saved, failed bool
	err = c.Store.View(v.Context(), func(tx storage.Tx) error {
		n, _, err := c.Identity.Person.CountPersons(tx, audit.DefaultPartition)
		if err != nil {
			return err
		}
		owners, strong, err := c.strongOwner(tx, v)
		if err != nil {
			return err
		}
		made, err := c.Upkeep.Backups.List(tx, lookedBackups, v.Now)
		if err != nil {
			return err
		}
		given, err := c.failedMessages(tx, v)
		owner, people, failed = strong, n > int64(owners), given > 0
		saved = slices.ContainsFunc(made, func(b backup.Backup) bool { return b.State == backup.Done })
		return err
	})
	if err != nil {
		return part, false, err
	}
	steps := []step{
		{"mail", c.Mails && !failed, layout.Root + "/messages/queue"},
		{"factor", owner, "/account/security"},
		{"application", things > 0, layout.Root + "/applications/add"},
		{"people", people, layout.Root + "/persons/invite"},
		{"backup", saved, layout.Root + "/storage/backup-now"},
	}
	title := web.Say("console.checklist.title")
	part = web.ConsolePart{
		ID: "checklist", Title: title, Text: web.Say("console.checklist.text"),
		Table: &web.Table{Label: title, Columns: []string{"console.column.step", "console.column.state"}},
	}
	for _, s := range steps {
		row := web.TableRow{Cells: []web.Cell{
			{Text: web.Say("console.step." + s.name)},
			{Text: web.Say("console.step.done"), Kind: "good"},
		}}
		if !s.done {
			ok, row.URL = true, s.url
			row.Cells[0].Hint = web.Say("console.step." + s.name + ".hint")
			row.Cells[1] = web.Cell{Text: web.Say("console.step.open"), Kind: "plain"}
		}
		part.Table.Rows = append(part.Table.Rows, row)
	}
	return part, ok, nil
}

// strongOwner returns how many owners there are, and whether one of them has a second factor.
func (c *Console) strongOwner(tx storage.Tx, v *layout.Visit) (n int, strong bool, err error) {
	g, err := c.Identity.Person.Group(tx, audit.DefaultPartition, c.frame.OwnerGroup())
	if errors.Is(err, person.ErrNoGroup) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	ids, err := c.Identity.Person.Members(tx, g.ID, "", lookedOwners)
	if err != nil {
		return 0, false, err
	}
	for _, id := range ids {
		_, rec, err := c.Identity.Person.Find(tx, id)
		if err != nil {
			return 0, false, err
		}
		d, err := c.Manage.Details(tx, rec.Person(id), v.Now)
		if err != nil {
			return 0, false, err
		}
		strong = strong || d.StepUp.Passkeys > 0 || d.StepUp.Authenticator || d.StepUp.Phones > 0
	}
	return len(ids), strong, nil
}
