package web

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Table is a list. The first cell of a row is its name, and a link if the row has an address.
type Table struct {
	Label   Text
	Columns []string // messages
	Rows    []TableRow
	// First and Next are the beginning and the following part of the list. Empty: no such part
	First, Next string
}

// TableRow is a line of a table.
type TableRow struct {
	URL   string
	Cells []Cell
	Pick  string // value of the box that chooses it. Empty: it has none
}

// rows is the data of the template "rows". All that is asked about a cell is answered before the template runs: calling
// a method from it for each cell takes longer than the cell.
type rows struct {
	Rows []line
	Pick string // name of the boxes. Empty: there are none
}

// line is a row of a table as the template sees it.
type line struct {
	Pick, Name string // value of its box, and what the row is about
	Cells      []tableCell
}

// tableCell is a cell of a table. What the cell has is not embedded: to find it takes templates several times as long.
type tableCell struct {
	Cell   cell
	Row    string // address of what the row is about, in its first cell
	Label  string // heading of the column, where narrow windows show it next to the cell
	Number bool   // it is compared digit by digit
	None   bool   // it has no value: narrow windows leave it out
}

// compared are the columns where it counts that there is no value.
var compared = []string{"console.column.before", "console.column.after", "console.column.now", "console.column.typed"}

// RowsOf returns what the template "rows" sees.
func (f *frame) RowsOf(t *Table, p *Pick) rows {
	out := rows{Rows: make([]line, len(t.Rows))}
	if p != nil {
		out.Pick = p.Name
	}
	numbers, labels := f.Numbers(t), make([]string, len(t.Columns))
	for i := 1; i < len(labels); i++ { // the first cell names the row, and needs no heading
		labels[i] = f.columnOf(t, i)
	}
	for n, r := range t.Rows {
		to := line{Pick: r.Pick, Cells: make([]tableCell, len(r.Cells))}
		for i, in := range r.Cells {
			c := tableCell{Cell: f.Cell(in)}
			if i == 0 {
				c.Row, to.Name = r.URL, f.nameOr(in.Text, in.Name)
			} else {
				c.None = in.None() && !slices.Contains(compared, t.Columns[min(i, len(t.Columns)-1)])
			}
			if i < len(labels) {
				c.Number, c.Label = numbers[i], labels[i]
			}
			to.Cells[i] = c
		}
		out.Rows[n] = to
	}
	return out
}

// number matches what a column of numbers has.
var number = regexp.MustCompile(`^(?:—|[<>≤]? ?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?\+?(?: (?:ms|s|%|[KMGT]?i?B))?)?$`)

// Numbers reports of each column of a table whether it has numbers alone, of which dashes can take the place.
func (f *frame) Numbers(t *Table) []bool {
	out := make([]bool, len(t.Columns))
	for i := 1; i < len(out); i++ {
		for _, r := range t.Rows {
			if i >= len(r.Cells) {
				continue
			}
			c := r.Cells[i]
			if c.Kind != "" || c.Code || c.Text.Key != "console.count" && (c.Text.Key != "" || !number.MatchString(c.Name)) {
				out[i] = false
				break
			}
			out[i] = out[i] || c.Text.Key != "" || strings.ContainsAny(c.Name, "0123456789")
		}
	}
	return out
}

// Rows returns the rows of a table alone, as a page of the console shows them.
func (p *Renderer) Rows(r *http.Request, locales []string, t *Table) (string, error) {
	f := frame{language: p.match(r, locales, ""), needed: new(scriptSet), files: p.files}
	page, err := p.templates.page("console")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = page.ExecuteTemplate(&b, "rows", f.RowsOf(t, nil))
	return b.String(), err
}

// Trimmed returns the table without columns that say nothing in any row, such as actions for those who may not.
func (f *frame) Trimmed(t *Table) *Table {
	if c, _ := f.Data.(Console); t == nil || c.Live != "" { // rows that come later can say something
		return t
	}
	out := *t
	for column := len(t.Columns) - 1; column > 0; column-- {
		if slices.ContainsFunc(out.Rows, func(r TableRow) bool {
			return column < len(r.Cells) && (r.Cells[column].Name == "—" || !r.Cells[column].None())
		}) {
			continue
		}
		out.Columns, out.Rows = slices.Delete(slices.Clone(out.Columns), column, column+1), slices.Clone(out.Rows)
		for i, r := range out.Rows {
			if column < len(r.Cells) {
				out.Rows[i].Cells = slices.Delete(slices.Clone(r.Cells), column, column+1)
			}
		}
	}
	return &out
}

// plainColumns are those whose cells are understood without their heading.
var plainColumns = []string{"console.column.state", "console.column.severity", "console.column.time"}

// columnOf returns the heading of the column of a cell, which narrow windows show next to it. What can be done with a
// row, and its status, need none.
func (f *frame) columnOf(t *Table, i int) string {
	if i >= len(t.Columns) || t.Columns[i] == "" || slices.Contains(plainColumns, t.Columns[i]) || t.HasActs(i) {
		return ""
	}
	return f.T(t.Columns[i])
}
