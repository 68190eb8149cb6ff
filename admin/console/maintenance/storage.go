package maintenance

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/shellword"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	most         = 1000 // records of a class that are counted
	listed       = 10   // backups
	runningEvery = 3    // seconds after which the page is loaded again while a backup is made
	storagePath  = "/storage"
	// timer is the line of a table of cron jobs that makes a backup every night. % is special there.
	timer = `30 2 * * *  caddy gatehouse backup /var/backups/gatehouse-$(date +\%F).backup`
)

// class is a kind of records, with the tables that have them.
type class struct {
	name   string // in messages
	tables []string
}

// classes are the records that are counted up to a limit. People and events have counters of their own.
var classes = []class{
	{"sessions", []string{"identity_session"}},
	{"site_sessions", []string{"authz_site_session"}},
	{"grants", []string{"authz_grant"}},
	{"tokens", []string{"authz_access", "authz_refresh"}},
	{"app_passwords", []string{"authz_app_password"}},
	{"messages", []string{"mail", "sms", "push", "webhook"}},
}

// number is the number of records. More says that there are more.
type number struct {
	n    int64
	more bool
}

func (n number) cell() web.Cell {
	if n.more {
		return web.Cell{Text: web.Say("console.count.more", "n", n.n)}
	}
	return web.Cell{Text: web.Say("console.count", "n", n.n)}
}

// count counts the records of some classes, up to a limit for each.
func count(tx storage.Tx, of ...string) (map[string]number, error) {
	tables := map[string]storage.TableInfo{}
	for _, t := range storage.Tables() {
		tables[t.Name] = t
	}
	out := map[string]number{}
	for _, c := range classes {
		if len(of) > 0 && !slices.Contains(of, c.name) {
			continue
		}
		var sum number
		for _, name := range c.tables {
			n, err := tables[name].Count(tx, most+1)
			if err != nil {
				return nil, err
			}
			sum.n += int64(n)
		}
		if sum.n > most {
			sum = number{most, true}
		}
		out[c.name] = sum
	}
	return out, nil
}

// storageScreen is the records: how many, how large, and their copies.
func (u *upkeep) storageScreen() *layout.Screen {
	return &layout.Screen{
		Name: "storage", Path: storagePath, Icon: "storage", Role: layout.Viewer, Show: u.showStorage,
		Acts: []*layout.Act{
			{Name: "backup-now", Role: layout.Operator, Ask: u.askBackup, Do: u.backUp},
			{Name: "backup-schedule", Role: layout.Operator, Ask: u.askSchedule, Do: u.setSchedule},
			{Name: "test-restore", Role: layout.Operator, Do: u.tryRestore},
			{Name: "end-everything", Role: layout.Owner, Danger: true, Ask: u.askEnd, Do: u.endEverything},
		},
	}
}

func (u *upkeep) showStorage(v *layout.Visit) (*web.Console, error) {
	var persons, events int64
	var counted map[string]number
	var made []backup.Backup
	var plan backup.Planned
	var trial backup.Trial
	err := u.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if persons, _, err = u.Identity.Person.CountPersons(tx, audit.DefaultPartition); err != nil {
			return err
		}
		if events, err = audit.Kept(tx); err != nil {
			return err
		}
		if counted, err = count(tx); err != nil {
			return err
		}
		if plan, err = u.Backups.Plan(tx); err != nil {
			return err
		}
		if trial, err = u.Backups.LastTrial(tx, v.Now); err != nil {
			return err
		}
		made, err = u.Backups.List(tx, listed, v.Now)
		return err
	})
	if err != nil {
		return nil, err
	}
	engine, err := u.engineFacts()
	if err != nil {
		return nil, err
	}
	records := &web.Table{Label: web.Say("console.storage.records"), Columns: []string{"console.column.class", "console.column.count"}}
	row := func(name string, n number) {
		records.Rows = append(records.Rows, web.TableRow{Cells: []web.Cell{{Text: web.Say("console.class." + name)}, n.cell()}})
	}
	row("persons", number{n: persons})
	for _, c := range classes {
		row(c.name, counted[c.name])
	}
	row("events", number{n: events})
	out := &web.Console{Title: web.Say("console.storage.title"), Actions: v.Buttons(), Parts: []web.ConsolePart{
		{Facts: engine},
		{
			ID: "backups", Title: web.Say("console.storage.backups"), Text: web.Say("console.storage.backups.text", "path", u.Backups.Dir),
			Table: backupTable(made),
		},
		schedulePart(&plan), trialPart(&trial),
		{ID: "timer", Title: web.Say("console.storage.timer"), Text: web.Say("console.storage.timer.text"), Source: timer},
		{ID: "restore", Title: web.Say("console.storage.restore"), Text: web.Say("console.storage.restore.text"), Source: u.restoreLine(made)},
		{ID: "records", Title: web.Say("console.storage.records"), Text: web.Say("console.storage.records.text", "n", most), Table: records},
	}}
	if u.Engine != "badger" {
		out.Parts[0].Text = web.Say("console.storage.elsewhere")
	}
	if len(made) == 0 {
		out.Parts[1].Table, out.Parts[1].Empty = nil, v.Empty("console.storage.backups.none", "backup-now")
	}
	if trial.State == backup.Running || slices.ContainsFunc(made, func(b backup.Backup) bool { return b.State == backup.Running }) {
		out.Refresh, out.Lead = runningEvery, web.Say("console.job.running.text", "n", runningEvery)
	}
	return out, nil
}

// engineFacts say where the records are, and how large they are where the engine tells.
func (u *upkeep) engineFacts() ([]web.ConsoleFact, error) {
	facts := []web.ConsoleFact{
		{Label: "console.storage.engine", Cells: []web.Cell{{Text: web.Say("console.engine." + u.Engine)}}},
		{Label: "console.column.place", Cells: []web.Cell{{Name: u.Place, Code: true}}},
	}
	if at := u.PlaceOf("storage"); at != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.origin", Cells: []web.Cell{{Name: at, Code: true}}})
	}
	if u.Size != nil {
		size, err := u.Size()
		if err != nil {
			return nil, err
		}
		facts = append(facts, web.ConsoleFact{Label: "console.storage.size", Cells: []web.Cell{{Name: bytes(size)}}})
	}
	if u.Free != nil {
		facts = append(facts, web.ConsoleFact{Label: "console.machine.free", Cells: []web.Cell{{Name: humanize.IBytes(u.Free())}}})
	}
	return facts, nil
}

// bytes is a size in words.
func bytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) } //nolint:gosec // not negative

// backupTable lists backups, the newest first.
func backupTable(list []backup.Backup) *web.Table {
	t := &web.Table{
		Label:   web.Say("console.storage.backups"),
		Columns: []string{"console.column.file", "console.column.time", "console.column.size", "console.column.by", "console.column.state"},
	}
	for i := range list {
		b := &list[i]
		file := web.Cell{Name: b.File, Note: b.Host}
		if b.File == "" {
			file = web.Cell{Text: web.Say("console.backup.elsewhere")}
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			file, when(b.Began),
			{Name: bytes(b.Bytes)},
			layout.OrNone(b.By),
			stateCell(b, "console.backup.records"),
		}})
	}
	return t
}

// stateCell says how far a backup is, and in the words of a message how many records were read.
func stateCell(b *backup.Backup, records string) web.Cell {
	state := web.Cell{
		Text: web.Say("console.backup." + string(b.State)),
		Kind: map[backup.State]string{backup.Done: "good", backup.Failed: "bad", backup.Running: "plain"}[b.State],
	}
	switch {
	case b.Problem != "":
		state.Hint = web.Said(b.Problem)
	case b.Records > 0:
		state.Hint = web.Say(records, "n", strconv.FormatInt(b.Records, 10))
	}
	return state
}

// restoreLine is the command that tries the newest backup in a directory of its own.
func (u *upkeep) restoreLine(list []backup.Backup) string {
	file := "/var/backups/gatehouse.backup"
	if i := slices.IndexFunc(list, func(b backup.Backup) bool { return b.State == backup.Done && b.File != "" }); i >= 0 {
		file = list[i].File
	}
	return "caddy gatehouse restore " + shellword.Quote(file) + " --storage /tmp/gatehouse-restore-test"
}

// askBackup says where the file will be.
func (u *upkeep) askBackup(*layout.Visit) (layout.Question, error) {
	q := layout.Question{Facts: []web.ConsoleFact{{Label: "console.backup.directory", Cells: []web.Cell{{Name: u.Backups.Dir, Code: true}}}}}
	if u.Free != nil {
		q.Facts = append(q.Facts, web.ConsoleFact{Label: "console.machine.free", Cells: []web.Cell{{Name: humanize.IBytes(u.Free())}}})
	}
	return q, nil
}

// refusals are the messages to an operator about backups that do not begin.
var refusals = map[error]string{
	backup.ErrUnsupported: "console.problem.backup_unsupported", backup.ErrRunning: "console.problem.backup_running",
	backup.ErrMany: "console.problem.backup_many", backup.ErrNone: "console.problem.backup_none",
	backup.ErrRoom: "console.problem.backup_room",
}

func (u *upkeep) backUp(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, u.refusal(u.Backups.Start(v.Context(), v.Actor()))
}

// refusal returns the message to an operator about an error.
func (u *upkeep) refusal(err error) error {
	for known, key := range refusals {
		if errors.Is(err, known) {
			return &layout.Problem{Key: key, Fill: []any{"n", backup.MostFiles, "path", u.Backups.Dir}}
		}
	}
	return err
}

// askEnd says how much would end.
func (u *upkeep) askEnd(v *layout.Visit) (q layout.Question, err error) {
	ending := []string{"sessions", "site_sessions", "grants", "tokens", "app_passwords"}
	var counted map[string]number
	err = u.Store.View(v.Context(), func(tx storage.Tx) error {
		counted, err = count(tx, ending...)
		return err
	})
	for _, name := range ending {
		q.Facts = append(q.Facts, web.ConsoleFact{Label: "console.class." + name, Cells: []web.Cell{counted[name].cell()}})
	}
	return q, err
}

func (u *upkeep) endEverything(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, u.EndEverything(context.WithoutCancel(v.Context()), v.Actor())
}
