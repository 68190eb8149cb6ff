package console

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// manyActs returns the acts on many persons at once, by the kinds of jobs, in the order of their buttons.
func (c *Console) manyActs() (out []*layout.Act) {
	for _, kind := range []string{admin.JobBlock, admin.JobUnblock, admin.JobJoin, admin.JobLeave, admin.JobEnd} {
		a := &layout.Act{Name: kind + "-many", Role: layout.Helpdesk, Hidden: true, Danger: kind == admin.JobBlock ||
			kind == admin.JobEnd, Ask: c.askMany(kind), Do: c.many(kind)}
		if kind == admin.JobJoin || kind == admin.JobLeave {
			a.Role = layout.Operator
		}
		out = append(out, a)
	}
	return out
}

// pick returns the part of the list that leads to the acts on many persons. nil: the person of the visit may do none of
// them.
func (c *Console) pick(v *layout.Visit, f personFilter) *web.Pick {
	out := &web.Pick{
		Name: "person", All: web.Field{Name: "all", Type: "checkbox", Label: "console.pick.all", Hint: "console.pick.all.hint"},
		Hidden: f.hidden(),
	}
	for _, a := range v.Screen.Acts {
		if strings.HasSuffix(a.Name, "-many") && v.May(a) == nil {
			out.Actions = append(out.Actions, web.Action{Label: "console.act." + a.Name, URL: v.Path() + "/" + a.Name, Danger: a.Danger})
		}
	}
	if len(out.Actions) == 0 {
		return nil
	}
	return out
}

// hidden is the filter as fields of a form. The group is called in, since acts have a field of that name.
func (f personFilter) hidden() []web.Hidden {
	return []web.Hidden{
		{Name: "q", Value: f.q},
		{Name: "in", Value: f.group},
		{Name: "state", Value: f.state},
		{Name: "partition", Value: f.partition},
	}
}

// sent are the fields that an act was opened with, or that its form has sent along.
func sent(v *layout.Visit) url.Values {
	if v.Method == http.MethodPost {
		return v.PostForm
	}
	return v.URL.Query()
}

// sentFilter is the filter among the fields of an act.
func (c *Console) sentFilter(v *layout.Visit) personFilter {
	in := sent(v)
	f := personFilter{q: strings.TrimSpace(in.Get("q")), group: in.Get("in"), state: in.Get("state")}
	if c.Identity.Person.Partitioned() {
		f.partition = in.Get("partition")
	}
	return f
}

// chosen is the persons that an act on many is about. ok is false if no one was chosen.
func (c *Console) chosen(v *layout.Visit) (sel admin.Selection, hidden []web.Hidden, ok bool, err error) {
	in := sent(v)
	if in.Has("all") {
		f := c.sentFilter(v)
		hidden = append(f.hidden(), web.Hidden{Name: "all", Value: "yes"})
		err = c.Store.View(v.Context(), func(tx storage.Tx) error {
			sel.Filter, ok, err = c.filter(tx, f)
			return err
		})
		return sel, hidden, ok, err
	}
	for _, id := range append(strings.Split(in.Get("persons"), ","), in["person"]...) {
		if person.IsID(id) && !slices.Contains(sel.Persons, id) && len(sel.Persons) < layout.Rows {
			sel.Persons = append(sel.Persons, id)
		}
	}
	// In a form each field stands once.
	return sel, []web.Hidden{{Name: "persons", Value: strings.Join(sel.Persons, ",")}}, len(sel.Persons) > 0, nil
}

// askMany says how much would be hit.
func (c *Console) askMany(kind string) func(*layout.Visit) (layout.Question, error) {
	return func(v *layout.Visit) (q layout.Question, err error) {
		sel, hidden, ok, err := c.chosen(v)
		if err != nil {
			return q, err
		}
		var n admin.Numbers
		if ok {
			err = c.Store.View(v.Context(), func(tx storage.Tx) error {
				n, err = c.Manage.Count(tx, sel, v.Now)
				return err
			})
		}
		fact := func(label string, n int, more bool) {
			cell := web.Cell{Text: web.Say("console.count", "n", n)}
			if more {
				cell.Text = web.Say("console.count.more", "n", n)
			}
			q.Facts = append(q.Facts, web.ConsoleFact{Label: label, Cells: []web.Cell{cell}})
		}
		q.Hidden = hidden
		fact("console.persons.title", n.Persons, n.More)
		switch kind {
		case admin.JobBlock:
			q.Fields = []web.Field{{Name: "reason", MaxLength: person.MaxLine, Hint: "console.field.reason.hint"}}
		case admin.JobJoin, admin.JobLeave:
			q.Fields = []web.Field{{Name: "group", Required: true, MaxLength: person.MaxName}}
		}
		if kind == admin.JobBlock || kind == admin.JobEnd {
			fact("console.fact.sessions", n.Sessions, n.MoreHeld)
			fact("console.fact.tokens", n.Tokens, n.MoreHeld)
		}
		return q, err
	}
}

// many begins work on many persons.
func (c *Console) many(kind string) func(*layout.Visit, url.Values) (layout.Result, error) {
	return func(v *layout.Visit, in url.Values) (layout.Result, error) {
		sel, _, ok, err := c.chosen(v)
		if err != nil {
			return layout.Result{}, err
		}
		if !ok {
			return layout.Result{}, &layout.Problem{Key: "console.problem.nobody_chosen"}
		}
		by := v.Actor()
		job := admin.NewJob{Selection: sel, Kind: kind, By: requester(v)}
		if job.Reason = strings.TrimSpace(in.Get("reason")); !person.IsText(job.Reason, person.MaxLine) {
			return layout.Result{}, &layout.Problem{Field: "reason", Key: "console.problem.value"}
		}
		if kind == admin.JobJoin || kind == admin.JobLeave {
			if job.Group, err = c.jobGroup(v, sel.Filter.Partition, strings.TrimSpace(in.Get("group"))); err != nil {
				return layout.Result{}, err
			}
		}
		id, err := c.Manage.StartJob(v.Context(), job, by)
		return layout.Result{To: jobPath(id)}, err
	}
}

// requester is the person of the visit as who asks for work that goes on without them.
func requester(v *layout.Visit) admin.Requester {
	by := v.Actor()
	return admin.Requester{
		ID: by.ID, Name: by.Name, Address: by.Origin.ClientIP, Agent: audit.Clean(by.Origin.UserAgent), Epoch: v.SignIn.Session.Epoch,
		Role: int(v.Role), BelowOwner: by.BelowOwner,
	}
}

// jobGroup returns the id of a group that a job can change. Roles are given and taken one by one.
func (c *Console) jobGroup(v *layout.Visit, partition, name string) (id string, err error) {
	if partition == "" {
		partition = audit.DefaultPartition
	}
	err = c.Store.View(v.Context(), func(tx storage.Tx) error {
		id, err = c.Identity.Person.GroupID(tx, partition, name)
		return err
	})
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", &layout.Problem{Field: "group", Key: "console.problem.no_group"}
	case c.frame.RoleOfGroup(partition, name) != layout.Nobody:
		return "", &layout.Problem{Field: "group", Key: "console.problem.role_one"}
	}
	return id, nil
}

// allowJob returns a *admin.Refusal unless the one who has asked for a job may do it to a person, by now. An import
// brings addresses, which decide who someone is, so people with a role are the owners' in one.
func (c *Console) allowJob(tx storage.Tx, by admin.Requester, kind, id string) error {
	u, err := c.Units(tx)
	if err != nil {
		return err
	}
	_, rec, err := c.Identity.Person.Find(tx, by.ID)
	if err != nil && !errors.Is(err, person.ErrNoPerson) {
		return err
	}
	role := c.frame.RoleOf(rec.PartitionName(), rec.Groups)
	if err != nil || !u.Features.AdminConsoleEnabled || rec.State != person.Active || rec.Epoch != by.Epoch || role < layout.Role(by.Role) {
		return &admin.Refusal{Why: admin.LeftRights, Over: true}
	}
	if id == "" { // of an import, someone who is new
		return nil
	}
	_, p, err := c.Identity.Person.Find(tx, id)
	if err != nil {
		return err
	}
	rank := c.frame.RoleOf(p.PartitionName(), p.Groups)
	switch {
	case p.State == person.Removed:
		return person.ErrNoPerson
	case id == by.ID, role != layout.Owner && rank >= role, role != layout.Owner && rank != layout.Nobody && kind == admin.JobImport:
		return &admin.Refusal{Why: admin.LeftRights}
	case rank == layout.Owner && (kind == admin.JobBlock || kind == admin.JobUnblock):
		return &admin.Refusal{Why: admin.LeftOwner}
	}
	return nil
}

// export is the filtered list as a file, in a stream.
func (c *Console) export(v *layout.Visit, _ url.Values) (layout.Result, error) {
	var filter admin.Filter
	ok := false
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		filter, ok, err = c.filter(tx, c.sentFilter(v))
		return err
	})
	if err == nil && !ok {
		err = &layout.Problem{Key: "console.problem.no_group"}
	}
	if err == nil {
		err = c.Manage.NoteExport(v.Context(), v.Actor())
	}
	q := personindex.Query{Partition: filter.Partition, Text: filter.Text, Group: filter.Group, State: filter.State}
	return layout.Result{File: &layout.File{Name: "persons.csv", Type: csvfile.Type, Write: func(w io.Writer) error {
		return personindex.Export(v.Context(), c.Store, c.Identity.Person, q, w)
	}}}, err
}

func (c *Console) askExport(v *layout.Visit) (layout.Question, error) {
	return layout.Question{Hidden: c.sentFilter(v).hidden()}, nil
}

// jobScreen is work on many persons, and how far it is.
func (c *Console) jobScreen() *layout.Screen {
	return &layout.Screen{
		Name: "job", Path: "/jobs/{id}", Role: layout.Viewer, Find: c.findJob, Show: c.showJob,
		Acts: append(c.importActs(), &layout.Act{
			Name: "stop-job", Role: layout.Helpdesk, Danger: true, Do: c.stopJob,
			When: func(v *layout.Visit) bool { return !shownJob(v).State.Ended() },
			May: func(v *layout.Visit) error {
				if v.Role < layout.Role(shownJob(v).By.Role) {
					return layout.Denied("someone of higher rank has begun it")
				}
				return nil
			},
		}),
	}
}

// jobTitle returns the name of a kind of work.
func jobTitle(kind string) web.Text {
	if kind == admin.JobImport {
		return web.Say("console.act.import")
	}
	return web.Say("console.act." + kind + "-many")
}

func jobPath(id string) string { return layout.Root + "/jobs/" + id }

// jobDetails is a job with the persons that it has left out.
type jobDetails struct {
	admin.Job

	left []admin.LeftOut
}

// shownJob is the job that the screen is about.
func shownJob(v *layout.Visit) *jobDetails { return v.About.(*jobDetails) }

func (c *Console) findJob(v *layout.Visit) error {
	d := new(jobDetails)
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		d.Job, d.left, err = c.Manage.FindJob(tx, v.PathValue("id"))
		return err
	})
	v.About = d
	if errors.Is(err, admin.ErrGone) {
		return webflow.NotFound()
	}
	return err
}

// jobCell is the state of a job as a mark.
func jobCell(s admin.JobState) web.Cell {
	kind := map[admin.JobState]string{
		admin.JobDone: "good", admin.JobRunning: "plain", admin.JobStopped: "warn", admin.JobRefused: "bad", admin.JobChecking: "plain",
		admin.JobWaiting: "warn", admin.JobFailed: "bad",
	}[s]
	return web.Cell{Text: web.Say("console.job." + string(s)), Kind: kind}
}

func (c *Console) showJob(v *layout.Visit) (*web.Console, error) {
	j := shownJob(v)
	out := &web.Console{
		Title: jobTitle(j.Kind), Up: &web.Up{Label: web.Say("console.persons.title"), URL: layout.Root + "/persons"},
		Tags: []web.Cell{jobCell(j.State)},
	}
	if j.State == admin.JobRunning || j.State == admin.JobChecking {
		out.Refresh, out.Lead = jobRefresh, web.Say("console.job.running.text", "n", jobRefresh)
	}
	if j.State == admin.JobRefused {
		out.Lead = web.Say("console.job.refused.text")
	}
	counts := []web.ConsoleFact{
		{Label: "console.job.count", Cells: []web.Cell{{Text: web.Say("console.count", "n", j.Done)}}},
		{Label: "console.job.left", Cells: []web.Cell{{Text: web.Say("console.count", "n", j.Left)}}},
	}
	facts := []web.ConsoleFact{
		{Label: "console.column.by", Cells: []web.Cell{{Name: j.By.Name, URL: personPath(j.By.ID)}}},
		{Label: "console.column.since", Cells: []web.Cell{{Text: web.Say("console.time", "time", j.Created)}}},
	}
	if j.GroupName != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.group", Cells: []web.Cell{{Name: j.GroupName, URL: groupPath(j.Group)}}})
	}
	if j.Reason != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.reason", Cells: []web.Cell{{Name: j.Reason}}})
	}
	if j.Import != nil {
		return out, c.showImport(v, out, facts)
	}
	out.Actions, out.Parts = v.Buttons(), []web.ConsolePart{{Facts: append(counts, facts...)}}
	if len(j.left) == 0 {
		return out, nil
	}
	var ids []string
	for _, l := range j.left {
		ids = append(ids, l.Person)
	}
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		names, err = c.Manage.Names(tx, ids)
		return err
	})
	t := &web.Table{Label: web.Say("console.job.left"), Columns: []string{"console.column.person", "console.column.outcome"}}
	for _, l := range j.left {
		row := web.TableRow{Cells: []web.Cell{{Name: l.Person}, {Text: web.Say("console.left." + l.Why)}}}
		if name := names[l.Person]; name != "" {
			row.URL, row.Cells[0] = personPath(l.Person), web.Cell{Name: name}
		}
		t.Rows = append(t.Rows, row)
	}
	out.Parts = append(out.Parts, web.ConsolePart{ID: "left", Title: web.Say("console.job.left"), Table: t})
	return out, err
}

func (c *Console) stopJob(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Manage.StopJob(v.Context(), shownJob(v).ID, v.Actor())
}

// jobsPart lists the newest work on many persons. ok reports whether there was any.
func (c *Console) jobsPart(tx storage.Tx) (part web.ConsolePart, ok bool, err error) {
	list, err := c.Manage.Jobs(tx, lastJobs)
	t := &web.Table{
		Label: web.Say("console.jobs.title"),
		Columns: []string{
			"console.column.action", "console.column.state", "console.job.count", "console.job.left",
			"console.column.by", "console.column.since",
		},
	}
	for _, j := range list {
		t.Rows = append(t.Rows, web.TableRow{URL: jobPath(j.ID), Cells: []web.Cell{
			{Text: jobTitle(j.Kind)},
			jobCell(j.State),
			{Name: strconv.Itoa(j.Done)},
			{Name: strconv.Itoa(j.Left)},
			{Name: j.By.Name},
			{Text: web.Say("console.time", "time", j.Created)},
		}})
	}
	return web.ConsolePart{ID: "jobs", Title: web.Say("console.jobs.title"), Table: t}, len(list) > 0, err
}
