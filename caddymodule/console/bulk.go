package console

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/lookup"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/sheet"
	"github.com/gatehouse-id/gatehouse/storage"
)

// manyActs are what is done to many persons at once, by the kinds of jobs, in the order of their buttons.
func (c *Console) manyActs() (out []*frame.Act) {
	for _, kind := range []string{manage.JobBlock, manage.JobUnblock, manage.JobJoin, manage.JobLeave, manage.JobEnd} {
		a := &frame.Act{Name: kind + "-many", Role: frame.Helpdesk, Hidden: true, Danger: kind == manage.JobBlock || kind == manage.JobEnd, Ask: c.askMany(kind), Do: c.many(kind)}
		if kind == manage.JobJoin || kind == manage.JobLeave {
			a.Role = frame.Operator
		}
		out = append(out, a)
	}
	return out
}

// pick is what leads from the list to the acts on many persons. nil: the person of the visit may do none of them.
func (c *Console) pick(v *frame.Visit, f personFilter) *page.Pick {
	out := &page.Pick{Name: "person", All: page.Field{Name: "all", Type: "checkbox", Label: "console.pick.all", Hint: "console.pick.all.hint"}, Hidden: f.hidden()}
	for _, a := range v.Screen.Acts {
		if strings.HasSuffix(a.Name, "-many") && v.May(a) == nil {
			out.Actions = append(out.Actions, page.Action{Label: "console.act." + a.Name, URL: v.Path() + "/" + a.Name, Danger: a.Danger})
		}
	}
	if len(out.Actions) == 0 {
		return nil
	}
	return out
}

// hidden is the filter as fields of a form. The group is called in, since acts have a field of that name.
func (f personFilter) hidden() []page.Hidden {
	return []page.Hidden{{Name: "q", Value: f.q}, {Name: "in", Value: f.group}, {Name: "state", Value: f.state}, {Name: "partition", Value: f.partition}}
}

// sent are the fields that an act was opened with, or that its form has sent along.
func sent(v *frame.Visit) url.Values {
	if v.Method == http.MethodPost {
		return v.PostForm
	}
	return v.URL.Query()
}

// sentFilter is the filter among the fields of an act.
func (c *Console) sentFilter(v *frame.Visit) personFilter {
	in := sent(v)
	f := personFilter{q: strings.TrimSpace(in.Get("q")), group: in.Get("in"), state: in.Get("state")}
	if c.Identity.Person.Partitioned() {
		f.partition = in.Get("partition")
	}
	return f
}

// chosen is the persons that an act on many is about. ok is false if nobody was chosen.
func (c *Console) chosen(v *frame.Visit) (sel manage.Selection, hidden []page.Hidden, ok bool, err error) {
	in := sent(v)
	if in.Has("all") {
		f := c.sentFilter(v)
		hidden = append(f.hidden(), page.Hidden{Name: "all", Value: "yes"})
		err = c.Store.View(v.Context(), func(tx storage.Tx) error {
			sel.Filter, ok, err = c.filter(tx, f)
			return err
		})
		return sel, hidden, ok, err
	}
	for _, id := range append(strings.Split(in.Get("persons"), ","), in["person"]...) {
		if person.IsID(id) && !slices.Contains(sel.Persons, id) && len(sel.Persons) < frame.Rows {
			sel.Persons = append(sel.Persons, id)
		}
	}
	// In a form each field stands once.
	return sel, []page.Hidden{{Name: "persons", Value: strings.Join(sel.Persons, ",")}}, len(sel.Persons) > 0, nil
}

// askMany says how much would be hit.
func (c *Console) askMany(kind string) func(*frame.Visit) (frame.Question, error) {
	return func(v *frame.Visit) (q frame.Question, err error) {
		sel, hidden, ok, err := c.chosen(v)
		if err != nil {
			return q, err
		}
		var n manage.Numbers
		if ok {
			err = c.Store.View(v.Context(), func(tx storage.Tx) error {
				n, err = c.Manage.Count(tx, sel, v.Now)
				return err
			})
		}
		fact := func(label string, n int, more bool) {
			cell := page.Cell{Text: page.Say("console.count", "n", n)}
			if more {
				cell.Text = page.Say("console.count.more", "n", n)
			}
			q.Facts = append(q.Facts, page.ConsoleFact{Label: label, Cells: []page.Cell{cell}})
		}
		q.Hidden = hidden
		fact("console.persons.title", n.Persons, n.More)
		switch kind {
		case manage.JobBlock:
			q.Fields = []page.Field{{Name: "reason", MaxLength: person.MaxLine, Hint: "console.field.reason.hint"}}
		case manage.JobJoin, manage.JobLeave:
			q.Fields = []page.Field{{Name: "group", Required: true, MaxLength: person.MaxName}}
		}
		if kind == manage.JobBlock || kind == manage.JobEnd {
			fact("console.fact.sessions", n.Sessions, n.MoreHeld)
			fact("console.fact.tokens", n.Tokens, n.MoreHeld)
		}
		return q, err
	}
}

// many begins work on many persons.
func (c *Console) many(kind string) func(*frame.Visit, url.Values) (frame.Result, error) {
	return func(v *frame.Visit, in url.Values) (frame.Result, error) {
		sel, _, ok, err := c.chosen(v)
		if err != nil {
			return frame.Result{}, err
		}
		if !ok {
			return frame.Result{}, &frame.Problem{Key: "console.problem.nobody_chosen"}
		}
		by := v.Actor()
		job := manage.NewJob{Selection: sel, Kind: kind, By: requester(v)}
		if job.Reason = strings.TrimSpace(in.Get("reason")); !person.IsText(job.Reason, person.MaxLine) {
			return frame.Result{}, &frame.Problem{Field: "reason", Key: "console.problem.value"}
		}
		if kind == manage.JobJoin || kind == manage.JobLeave {
			if job.Group, err = c.jobGroup(v, sel.Filter.Partition, strings.TrimSpace(in.Get("group"))); err != nil {
				return frame.Result{}, err
			}
		}
		id, err := c.Manage.StartJob(v.Context(), job, by)
		return frame.Result{To: jobPath(id)}, err
	}
}

// requester is the person of the visit as who asks for work that goes on without them.
func requester(v *frame.Visit) manage.Requester {
	by := v.Actor()
	return manage.Requester{
		ID: by.ID, Name: by.Name, Address: by.Origin.ClientIP, Agent: event.Clean(by.Origin.UserAgent), Epoch: v.SignIn.Session.Epoch, Role: int(v.Role), BelowOwner: by.BelowOwner,
	}
}

// jobGroup returns the id of a group that a job can change. Roles are given and taken one by one.
func (c *Console) jobGroup(v *frame.Visit, partition, name string) (id string, err error) {
	if partition == "" {
		partition = event.DefaultPartition
	}
	err = c.Store.View(v.Context(), func(tx storage.Tx) error {
		id, err = c.Identity.Person.GroupID(tx, partition, name)
		return err
	})
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", &frame.Problem{Field: "group", Key: "console.problem.no_group"}
	case c.frame.RoleOfGroup(partition, name) != frame.Nobody:
		return "", &frame.Problem{Field: "group", Key: "console.problem.role_one"}
	}
	return id, nil
}

// allowJob returns a *manage.Refusal unless the one who has asked for a job may do it to a person, by now. An import
// brings addresses, which decide who somebody is, so people with a role are the owners' in one.
func (c *Console) allowJob(tx storage.Tx, by manage.Requester, kind, id string) error {
	u, err := c.Units(tx)
	if err != nil {
		return err
	}
	_, rec, err := c.Identity.Person.Find(tx, by.ID)
	if err != nil && !errors.Is(err, person.ErrNoPerson) {
		return err
	}
	role := c.frame.RoleOf(rec.PartitionName(), rec.Groups)
	if err != nil || !u.Features.AdminConsoleEnabled || rec.State != person.Active || rec.Epoch != by.Epoch || role < frame.Role(by.Role) {
		return &manage.Refusal{Why: manage.LeftRights, Over: true}
	}
	if id == "" { // of an import, somebody who is new
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
	case id == by.ID, role != frame.Owner && rank >= role, role != frame.Owner && rank != frame.Nobody && kind == manage.JobImport:
		return &manage.Refusal{Why: manage.LeftRights}
	case rank == frame.Owner && (kind == manage.JobBlock || kind == manage.JobUnblock):
		return &manage.Refusal{Why: manage.LeftOwner}
	}
	return nil
}

// export is the filtered list as a file, in a stream.
func (c *Console) export(v *frame.Visit, _ url.Values) (frame.Result, error) {
	var filter manage.Filter
	ok := false
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		filter, ok, err = c.filter(tx, c.sentFilter(v))
		return err
	})
	if err == nil && !ok {
		err = &frame.Problem{Key: "console.problem.no_group"}
	}
	if err == nil {
		err = c.Manage.NoteExport(v.Context(), v.Actor())
	}
	q := lookup.Query{Partition: filter.Partition, Text: filter.Text, Group: filter.Group, State: filter.State}
	return frame.Result{File: &frame.File{Name: "persons.csv", Type: sheet.Type, Write: func(w io.Writer) error {
		return lookup.Export(v.Context(), c.Store, c.Identity.Person, q, w)
	}}}, err
}

func (c *Console) askExport(v *frame.Visit) (frame.Question, error) {
	return frame.Question{Hidden: c.sentFilter(v).hidden()}, nil
}

// jobScreen is work on many persons, and how far it is.
func (c *Console) jobScreen() *frame.Screen {
	return &frame.Screen{
		Name: "job", Path: "/jobs/{id}", Role: frame.Viewer, Find: c.findJob, Show: c.showJob,
		Acts: append(c.importActs(), &frame.Act{
			Name: "stop-job", Role: frame.Helpdesk, Danger: true, Do: c.stopJob,
			When: func(v *frame.Visit) bool { return !shownJob(v).State.Ended() },
			May: func(v *frame.Visit) error {
				if v.Role < frame.Role(shownJob(v).By.Role) {
					return frame.Denied("somebody with more to say has begun it")
				}
				return nil
			},
		}),
	}
}

// jobTitle is what a kind of work is called.
func jobTitle(kind string) page.Text {
	if kind == manage.JobImport {
		return page.Say("console.act.import")
	}
	return page.Say("console.act." + kind + "-many")
}

func jobPath(id string) string { return frame.Root + "/jobs/" + id }

// jobDetails is a job with the persons that it has left out.
type jobDetails struct {
	manage.Job

	left []manage.LeftOut
}

// shownJob is the job that the screen is about.
func shownJob(v *frame.Visit) *jobDetails { return v.About.(*jobDetails) }

func (c *Console) findJob(v *frame.Visit) error {
	d := new(jobDetails)
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		d.Job, d.left, err = c.Manage.FindJob(tx, v.PathValue("id"))
		return err
	})
	v.About = d
	if errors.Is(err, manage.ErrGone) {
		return front.NotFound()
	}
	return err
}

// jobCell is the state of a job as a mark.
func jobCell(s manage.JobState) page.Cell {
	kind := map[manage.JobState]string{
		manage.JobDone: "good", manage.JobRunning: "plain", manage.JobStopped: "warn", manage.JobRefused: "bad", manage.JobChecking: "plain", manage.JobWaiting: "warn", manage.JobFailed: "bad",
	}[s]
	return page.Cell{Text: page.Say("console.job." + string(s)), Kind: kind}
}

func (c *Console) showJob(v *frame.Visit) (*page.Console, error) {
	j := shownJob(v)
	out := &page.Console{Title: jobTitle(j.Kind), Up: &page.Up{Label: page.Say("console.persons.title"), URL: frame.Root + "/persons"}, Tags: []page.Cell{jobCell(j.State)}}
	if j.State == manage.JobRunning || j.State == manage.JobChecking {
		out.Refresh, out.Lead = jobRefresh, page.Say("console.job.running.text", "n", jobRefresh)
	}
	if j.State == manage.JobRefused {
		out.Lead = page.Say("console.job.refused.text")
	}
	counts := []page.ConsoleFact{
		{Label: "console.job.count", Cells: []page.Cell{{Text: page.Say("console.count", "n", j.Done)}}},
		{Label: "console.job.left", Cells: []page.Cell{{Text: page.Say("console.count", "n", j.Left)}}},
	}
	facts := []page.ConsoleFact{
		{Label: "console.column.by", Cells: []page.Cell{{Name: j.By.Name, URL: personPath(j.By.ID)}}},
		{Label: "console.column.since", Cells: []page.Cell{{Text: page.Say("console.time", "time", j.Created)}}},
	}
	if j.GroupName != "" {
		facts = append(facts, page.ConsoleFact{Label: "console.field.group", Cells: []page.Cell{{Name: j.GroupName, URL: groupPath(j.Group)}}})
	}
	if j.Reason != "" {
		facts = append(facts, page.ConsoleFact{Label: "console.field.reason", Cells: []page.Cell{{Name: j.Reason}}})
	}
	if j.Import != nil {
		return out, c.showImport(v, out, facts)
	}
	out.Parts = []page.ConsolePart{{Facts: append(counts, facts...), Actions: v.Buttons()}}
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
	t := &page.Table{Label: page.Say("console.job.left"), Columns: []string{"console.column.person", "console.column.outcome"}}
	for _, l := range j.left {
		row := page.TableRow{Cells: []page.Cell{{Name: l.Person}, {Text: page.Say("console.left." + l.Why)}}}
		if name := names[l.Person]; name != "" {
			row.URL, row.Cells[0] = personPath(l.Person), page.Cell{Name: name}
		}
		t.Rows = append(t.Rows, row)
	}
	out.Parts = append(out.Parts, page.ConsolePart{ID: "left", Title: page.Say("console.job.left"), Table: t})
	return out, err
}

func (c *Console) stopJob(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, c.Manage.StopJob(v.Context(), shownJob(v).ID, v.Actor())
}

// jobsPart lists the newest work on many persons. ok tells whether there was any.
func (c *Console) jobsPart(tx storage.Tx) (part page.ConsolePart, ok bool, err error) {
	list, err := c.Manage.Jobs(tx, lastJobs)
	t := &page.Table{Label: page.Say("console.jobs.title"), Columns: []string{"console.column.action", "console.column.state", "console.job.count", "console.job.left", "console.column.by", "console.column.since"}}
	for _, j := range list {
		t.Rows = append(t.Rows, page.TableRow{URL: jobPath(j.ID), Cells: []page.Cell{
			{Text: jobTitle(j.Kind)},
			jobCell(j.State),
			{Name: strconv.Itoa(j.Done)},
			{Name: strconv.Itoa(j.Left)},
			{Name: j.By.Name},
			{Text: page.Say("console.time", "time", j.Created)},
		}})
	}
	return page.ConsolePart{ID: "jobs", Title: page.Say("console.jobs.title"), Table: t}, len(list) > 0, err
}
