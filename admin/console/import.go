package console

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/identity/ldapmigration"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// importActs returns the acts on an uploaded file.
func (c *Console) importActs() []*layout.Act {
	return []*layout.Act{
		{Name: "run-import", Role: layout.Operator, Ask: c.askRunImport, Do: c.runImport, When: func(v *layout.Visit) bool {
			j := shownJob(v)
			return j.State == admin.JobWaiting && v.Now.Before(j.Import.Until)
		}},
		{Name: "import-report", Role: layout.Operator, Do: c.importReport, When: func(v *layout.Visit) bool {
			j := shownJob(v)
			return j.Import != nil && j.Import.Parts > 0
		}},
	}
}

func (c *Console) askImport(v *layout.Visit) (layout.Question, error) {
	var waiting []admin.Job
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		waiting, err = c.Manage.WaitingImports(tx, v.Me(), v.Now)
		return err
	})
	if err != nil {
		return layout.Question{}, err
	}
	var facts []web.ConsoleFact
	if len(waiting) > 0 {
		facts = []web.ConsoleFact{{Label: "console.import.yours"}}
	}
	for _, j := range waiting {
		facts[0].Cells = append(facts[0].Cells, web.Cell{Text: web.Say("console.time", "time", j.Created), URL: jobPath(j.ID)})
	}
	var kinds []web.Option
	for _, kind := range importer.Kinds() {
		kinds = append(kinds, web.Option{Value: kind, Label: "console.import." + kind})
	}
	return layout.Question{Submit: "console.import.look", Facts: facts, Fields: []web.Field{
		{Name: "kind", Type: "select", Label: "console.import.kind", Options: kinds, Value: importer.CSV},
		{Name: "update", Type: "checkbox", Label: "console.import.update", Hint: "console.import.update.hint"},
		{
			Name: "file", Type: "file", Label: "console.import.file", Hint: "console.import.file.hint",
			HintFill: []any{"n", admin.MaxImport >> 20}, Required: true,
		},
		{Name: "hashes", Type: "file", Label: "console.import.hashes", Hint: "console.import.hashes.hint"},
	}}, nil
}

// importFile takes a file. No one comes before someone has seen what would.
func (c *Console) importFile(v *layout.Visit, in url.Values) (layout.Result, error) {
	id, err := c.Manage.StartImport(v.Context(),
		admin.NewImport{Kind: in.Get("kind"), Update: in.Has("update"), By: requester(v), Next: func() (io.Reader, error) {
			_, file, err := v.Upload.Next()
			return file, err
		}})
	large := new(http.MaxBytesError)
	switch {
	case errors.As(err, &large), errors.Is(err, admin.ErrImportLarge):
		return layout.Result{}, &layout.Problem{Field: "file", Key: "console.import.large"}
	case errors.Is(err, admin.ErrImportsWait):
		return layout.Result{}, &layout.Problem{Key: "console.import.wait", Fill: []any{"n", admin.MaxImportsWaiting}}
	case errors.Is(err, admin.ErrImportKind):
		return layout.Result{}, &layout.Problem{Field: "kind", Key: "console.problem.value"}
	case errors.Is(err, admin.ErrImportFiles):
		return layout.Result{}, &layout.Problem{Field: "file", Key: "console.import.files"}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*web.Forbidden)):
		return layout.Result{}, &layout.Problem{Field: "file", Key: "console.import.broken"}
	}
	return layout.Result{To: jobPath(id)}, err
}

func (c *Console) askRunImport(v *layout.Visit) (q layout.Question, err error) {
	if im := shownJob(v).Import; im != nil {
		q.Facts = countFacts(im.Checked, im.Skipped)
	}
	return q, nil
}

func (c *Console) runImport(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, c.Manage.RunImport(v.Context(), shownJob(v).ID, requester(v), v.Actor())
}

// importReport downloads what becomes of each person.
func (c *Console) importReport(v *layout.Visit, _ url.Values) (layout.Result, error) {
	j := shownJob(v)
	if j.Import == nil {
		return layout.Result{}, admin.ErrGone
	}
	return layout.Result{File: &layout.File{Name: "import.csv", Type: csvfile.Type, Write: func(w io.Writer) error {
		return c.Manage.ExportImport(v.Context(), j.ID, j.Import, w)
	}}}, nil
}

// countFacts say how many persons come.
func countFacts(n admin.ImportCount, skipped int) (out []web.ConsoleFact) {
	for _, f := range []struct {
		label string
		n     int
	}{
		{"console.import.created", n.Created},
		{"console.import.updated", n.Updated},
		{"console.import.exists", n.Exists},
		{"console.import.failed", n.Failed},
		{"console.import.skipped", skipped},
	} {
		if f.n > 0 || f.label == "console.import.created" {
			out = append(out, web.ConsoleFact{Label: f.label, Cells: []web.Cell{{Text: web.Say("console.count", "n", f.n)}}})
		}
	}
	return out
}

// showImport adds what the page of an import shows.
func (c *Console) showImport(v *layout.Visit, out *web.Console, facts []web.ConsoleFact) error {
	j := shownJob(v)
	facts = append([]web.ConsoleFact{{Label: "console.import.kind", Cells: []web.Cell{{Text: web.Say("console.import." + j.Import.Kind)}}}},
		facts...)
	counted := j.Import.Came
	switch j.State {
	case admin.JobChecking:
		counted = j.Import.Checked
	case admin.JobWaiting:
		counted = j.Import.Checked
		out.Lead = web.Say("console.import.waiting.text", "time", j.Import.Until)
	case admin.JobFailed:
		counted = j.Import.Checked
		out.Lead = web.Say("console.import.failed.text")
		facts = append(facts, web.ConsoleFact{Label: "console.import.problem", Cells: []web.Cell{{Text: web.Said(j.Import.Problem)}}})
	case admin.JobRunning:
		facts = append(facts, web.ConsoleFact{
			Label: "console.import.progress",
			Cells: []web.Cell{{Text: web.Say("console.import.of", "n", total(counted), "all", total(j.Import.Checked))}},
		})
	}
	out.Actions, out.Parts = v.Buttons(), []web.ConsolePart{{Facts: append(facts, countFacts(counted, j.Import.Skipped)...)}}
	if j.Import.Parts == 0 {
		return nil
	}
	remarkable := v.URL.Query().Get("only") == "remarks"
	var rows []admin.ImportRow
	var next string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		rows, next, err = c.Manage.ImportRows(tx, j.ID, j.Import, v.URL.Query().Get("after"), remarkable)
		return err
	})
	t := &web.Table{
		Label:   web.Say("console.import.report"),
		Columns: []string{"console.column.person", "console.column.outcome", "console.import.remarks", "console.import.line"},
	}
	for _, r := range rows {
		row := web.TableRow{Cells: []web.Cell{
			layout.OrNone(r.Username), outcomeCell(&r),
			{Name: strings.Join(remarksOf(&r), "; ")},
			{Name: strconv.Itoa(r.Line)},
		}}
		if r.ID != "" && r.Status != ldapmigration.Failed {
			row.URL = personPath(r.ID)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	part := web.ConsolePart{ID: "report", Title: web.Say("console.import.report"), Table: t, Choices: []web.Choice{
		{Label: "console.import.all", URL: v.Path(), Current: !remarkable},
		{Label: "console.import.remarkable", URL: v.Path() + "?only=remarks", Current: remarkable},
	}}
	if len(rows) == 0 && next == "" {
		part.Empty = &web.Empty{Text: web.Say("console.import.nothing")}
	}
	out.Parts = append(out.Parts, part)
	return err
}

func total(n admin.ImportCount) int { return n.Created + n.Updated + n.Exists + n.Failed }

// remarksOf say what does not come, and why. They are English, as those of the command are.
func remarksOf(r *admin.ImportRow) []string {
	if r.Problem != "" {
		return append([]string{r.Problem}, r.Notes...)
	}
	return r.Notes
}

// outcomeCell shows the outcome of the import for one person, or the expected one.
func outcomeCell(r *admin.ImportRow) web.Cell {
	kind := map[string]string{ldapmigration.Created: "good", ldapmigration.Updated: "good", ldapmigration.Exists: "plain"}[r.Status]
	if kind == "" {
		return web.Cell{Text: web.Say("console.import.row.failed"), Kind: "bad"}
	}
	key := "console.import.would." + r.Status
	if r.Came {
		key = "console.import.row." + r.Status
	}
	return web.Cell{Text: web.Say(key), Kind: kind}
}
