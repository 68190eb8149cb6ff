package members

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Again returns the fields of an object, and if they were sent for another state of it (moved), what holds now next to
// what was typed. Rows are then those of now, since the others were made of other entries.
func (f *Form) Again(v reflect.Value, moved bool) ([]web.Field, []web.ConsolePart) {
	typed := f.Fields(v)
	if !moved {
		return typed, nil
	}
	sent := f.In
	f.In = nil
	now := f.Fields(v)
	t := &web.Table{
		Label:   web.Say("console.unit.typed"),
		Columns: []string{"console.column.member", "console.column.now", "console.column.typed"},
	}
	for i := range now {
		before, after := wordsOf(&now[i]), wordsOf(&typed[i])
		if now[i].Type != "password" && !reflect.DeepEqual(before, after) {
			name := web.Cell{Text: web.Say(now[i].Label), Name: now[i].Called, Quoted: true}
			t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{name, before, after}})
		}
	}
	f.In = sent
	forget(sent)
	return f.Fields(v), []web.ConsolePart{{
		ID: "typed", Title: web.Say("console.unit.typed"), Text: web.Say("console.unit.typed.text"), Table: t,
	}}
}

// forget takes the rows out of a form.
func forget(in url.Values) {
	maps.DeleteFunc(in, func(name string, values []string) bool {
		return strings.ContainsRune(name, '[') || slices.Equal(values, []string{"rows"})
	})
}

// wordsOf returns the content of a field, for a table.
func wordsOf(f *web.Field) web.Cell {
	switch f.Type {
	case "checkbox":
		return web.Cell{Text: web.Say(map[bool]string{true: "console.value.true", false: "console.value.false"}[f.Checked])}
	case "select":
		return web.Cell{Text: web.Say(layout.WordLabel(f.Value))}
	case "rows":
		return layout.OrNone(linesOfRows(f.Rows))
	}
	return layout.OrNone(strings.TrimSpace(f.Value))
}

// linesOfRows has a line for each row.
func linesOfRows(rows []web.FieldRow) string {
	var lines []string
	for i := range rows {
		var words []string
		for _, f := range rows[i].Fields {
			for _, o := range f.Options {
				if o.Checked {
					words = append(words, o.Value)
				}
			}
			if f.Value != "" {
				words = append(words, f.Value)
			}
		}
		lines = append(lines, strings.Join(words, " · "))
	}
	return strings.Join(lines, "\n")
}
