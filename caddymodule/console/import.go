package console

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/migration"
	"github.com/gatehouse-id/gatehouse/identity/personfile"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/sheet"
	"github.com/gatehouse-id/gatehouse/storage"
)

// importActs are what is done with a file that was uploaded.
func (c *Console) importActs() []*frame.Act {
	return []*frame.Act{
		{Name: "run-import", Role: frame.Operator, Ask: c.askRunImport, Do: c.runImport, When: func(v *frame.Visit) bool {
			j := shownJob(v)
			return j.State == manage.JobWaiting && v.Now.Before(j.Import.Until)
		}},
		{Name: "import-report", Role: frame.Operator, Do: c.importReport, When: func(v *frame.Visit) bool {
			j := shownJob(v)
			return j.Import != nil && j.Import.Parts > 0
		}},
	}
}

func (c *Console) askImport(v *frame.Visit) (frame.Question, error) {
	var waiting []manage.Job
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		waiting, err = c.Manage.WaitingImports(tx, v.Me(), v.Now)
		return err
	})
	if err != nil {
		return frame.Question{}, err
	}
	var facts []page.ConsoleFact
	if len(waiting) > 0 {
		facts = []page.ConsoleFact{{Label: "console.import.yours"}}
	}
	for _, j := range waiting {
		facts[0].Cells = append(facts[0].Cells, page.Cell{Text: page.Say("console.time", "time", j.Created), URL: jobPath(j.ID)})
	}
	var kinds []page.Option
	for _, kind := range personfile.Kinds() {
		kinds = append(kinds, page.Option{Value: kind, Label: "console.import." + kind})
	}
	return frame.Question{Submit: "console.import.look", Facts: facts, Fields: []page.Field{
		{Name: "kind", Type: "select", Label: "console.import.kind", Options: kinds, Value: personfile.Keycloak},
		{Name: "update", Type: "checkbox", Label: "console.import.update", Hint: "console.import.update.hint"},
		{Name: "file", Type: "file", Label: "console.import.file", Hint: "console.import.file.hint", HintFill: []any{"n", manage.MaxImport >> 20}, Required: true},
		{Name: "hashes", Type: "file", Label: "console.import.hashes", Hint: "console.import.hashes.hint"},
	}}, nil
}

// importFile takes a file. Nobody comes before somebody has seen what would.
func (c *Console) importFile(v *frame.Visit, in url.Values) (frame.Result, error) {
	id, err := c.Manage.StartImport(v.Context(), manage.NewImport{Kind: in.Get("kind"), Update: in.Has("update"), By: requester(v), Next: func() (io.Reader, error) {
		_, file, err := v.Upload.Next()
		return file, err
	}})
	large := new(http.MaxBytesError)
	switch {
	case errors.As(err, &large), errors.Is(err, manage.ErrImportLarge):
		return frame.Result{}, &frame.Problem{Field: "file", Key: "console.import.large"}
	case errors.Is(err, manage.ErrImportsWait):
		return frame.Result{}, &frame.Problem{Key: "console.import.wait", Fill: []any{"n", manage.MaxImportsWaiting}}
	case errors.Is(err, manage.ErrImportKind):
		return frame.Result{}, &frame.Problem{Field: "kind", Key: "console.problem.value"}
	case errors.Is(err, manage.ErrImportFiles):
		return frame.Result{}, &frame.Problem{Field: "file", Key: "console.import.files"}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, new(*page.Forbidden)):
		return frame.Result{}, &frame.Problem{Field: "file", Key: "console.import.broken"}
	}
	return frame.Result{To: jobPath(id)}, err
}

func (c *Console) askRunImport(v *frame.Visit) (q frame.Question, err error) {
	if im := shownJob(v).Import; im != nil {
		q.Facts = countFacts(im.Checked, im.Skipped)
	}
	return q, nil
}

func (c *Console) runImport(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{}, c.Manage.RunImport(v.Context(), shownJob(v).ID, requester(v), v.Actor())
}

// importReport downloads what becomes of each person.
func (c *Console) importReport(v *frame.Visit, _ url.Values) (frame.Result, error) {
	j := shownJob(v)
	if j.Import == nil {
		return frame.Result{}, manage.ErrGone
	}
	return frame.Result{File: &frame.File{Name: "import.csv", Type: sheet.Type, Write: func(w io.Writer) error {
		return c.Manage.ExportImport(v.Context(), j.ID, j.Import, w)
	}}}, nil
}

// countFacts say how many persons come.
func countFacts(n manage.ImportCount, skipped int) (out []page.ConsoleFact) {
	for _, f := range []struct {
		label string
		n     int
	}{{"console.import.created", n.Created}, {"console.import.updated", n.Updated}, {"console.import.exists", n.Exists}, {"console.import.failed", n.Failed}, {"console.import.skipped", skipped}} {
		if f.n > 0 || f.label == "console.import.created" {
			out = append(out, page.ConsoleFact{Label: f.label, Cells: []page.Cell{{Text: page.Say("console.count", "n", f.n)}}})
		}
	}
	return out
}

// showImport adds what the page of an import shows.
func (c *Console) showImport(v *frame.Visit, out *page.Console, facts []page.ConsoleFact) error {
	j := shownJob(v)
	facts = append([]page.ConsoleFact{{Label: "console.import.kind", Cells: []page.Cell{{Text: page.Say("console.import." + j.Import.Kind)}}}}, facts...)
	counted := j.Import.Came
	switch j.State {
	case manage.JobChecking:
		counted = j.Import.Checked
	case manage.JobWaiting:
		counted = j.Import.Checked
		out.Lead = page.Say("console.import.waiting.text", "time", j.Import.Until)
	case manage.JobFailed:
		counted = j.Import.Checked
		out.Lead = page.Say("console.import.failed.text")
		facts = append(facts, page.ConsoleFact{Label: "console.import.problem", Cells: []page.Cell{{Name: j.Import.Problem}}})
	case manage.JobRunning:
		facts = append(facts, page.ConsoleFact{Label: "console.import.progress", Cells: []page.Cell{{Text: page.Say("console.import.of", "n", total(counted), "all", total(j.Import.Checked))}}})
	}
	out.Parts = []page.ConsolePart{{Facts: append(facts, countFacts(counted, j.Import.Skipped)...), Actions: v.Buttons()}}
	if j.Import.Parts == 0 {
		return nil
	}
	remarkable := v.URL.Query().Get("only") == "remarks"
	var rows []manage.ImportRow
	var next string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		rows, next, err = c.Manage.ImportRows(tx, j.ID, j.Import, v.URL.Query().Get("after"), remarkable)
		return err
	})
	t := &page.Table{Label: page.Say("console.import.report"), Columns: []string{"console.column.person", "console.column.outcome", "console.import.remarks", "console.import.line"}}
	for _, r := range rows {
		row := page.TableRow{Cells: []page.Cell{frame.OrNone(r.Username), outcomeCell(&r), {Name: strings.Join(remarksOf(&r), "; ")}, {Name: strconv.Itoa(r.Line)}}}
		if r.ID != "" && r.Status != migration.Failed {
			row.URL = personPath(r.ID)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	part := page.ConsolePart{ID: "report", Title: page.Say("console.import.report"), Table: t, Choices: []page.Choice{
		{Label: "console.import.all", URL: v.Path(), Current: !remarkable},
		{Label: "console.import.remarkable", URL: v.Path() + "?only=remarks", Current: remarkable},
	}}
	if len(rows) == 0 && next == "" {
		part.Empty = &page.Empty{Text: page.Say("console.import.nothing")}
	}
	out.Parts = append(out.Parts, part)
	return err
}

func total(n manage.ImportCount) int { return n.Created + n.Updated + n.Exists + n.Failed }

// remarksOf say what does not come, and why. They are English, as those of the command are.
func remarksOf(r *manage.ImportRow) []string {
	if r.Problem != "" {
		return append([]string{r.Problem}, r.Notes...)
	}
	return r.Notes
}

// outcomeCell is what becomes of a person, or would.
func outcomeCell(r *manage.ImportRow) page.Cell {
	kind := map[string]string{migration.Created: "good", migration.Updated: "good", migration.Exists: "plain"}[r.Status]
	if kind == "" {
		return page.Cell{Text: page.Say("console.import.row.failed"), Kind: "bad"}
	}
	key := "console.import.would." + r.Status
	if r.Came {
		key = "console.import.row." + r.Status
	}
	return page.Cell{Text: page.Say(key), Kind: kind}
}
