package web_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// TestActionsOfAPage: one action is the way on, the others are in a menu, and what takes something away is at the end.
func TestActionsOfAPage(t *testing.T) {
	t.Parallel()
	action := func(label string, danger bool) web.Action { return web.Action{Label: label, URL: "/x", Danger: danger} }
	page := render(newRenderer(t, web.Brand{}), web.View{Template: "console", Data: web.Console{
		Title: web.Say("console.persons.title"), Parts: []web.ConsolePart{{Text: web.Say("console.persons.none")}},
		Actions: []web.Action{
			action("console.act.remove", true), action("console.act.edit", false), action("console.act.verify", false),
			action("console.act.data", false),
		},
	}}).Body.String()
	at := -1
	for _, want := range []string{
		`<a class="button" href="/x">`, `<details class="more">`, `<li><a href="/x">`, "</details>", "</h2>", `<a class="button quiet danger" href="/x">`,
	} {
		next := strings.Index(page, want)
		if next < at {
			t.Errorf("%q is at %d, before %d:\n%s", want, next, at, page)
		}
		at = next
	}
	if strings.Count(page, `class="button"`) != 1 {
		t.Errorf("the page has not one primary action:\n%s", page)
	}
}

// TestNumbersOfTables: columns of numbers alone are aligned, addresses and words are not, and times are marked for the
// script that says how long ago they are, unless they are within a sentence.
func TestNumbersOfTables(t *testing.T) {
	t.Parallel()
	row := func(cells ...string) (out web.TableRow) {
		for _, c := range cells {
			out.Cells = append(out.Cells, web.Cell{Name: c})
		}
		return out
	}
	at := time.Date(2035, 11, 21, 12, 0, 0, 0, time.UTC)
	first, second := row("1", "12", "—", "127.0.0.1", "3"), row("2", "1,204", "0.4 ms", "10.0.0.1", "many")
	second.Cells = append(second.Cells, web.Cell{Text: web.Say("console.time", "time", at)})
	page := render(newRenderer(t, web.Brand{}), web.View{Template: "console", Data: web.Console{
		Title: web.Say("console.persons.title"), Lead: web.Say("console.code.after", "time", at),
		Parts: []web.ConsolePart{{Table: &web.Table{
			Label: web.Say("console.persons.title"), Rows: []web.TableRow{first, second},
			Columns: []string{
				"console.column.name", "console.column.members", "console.column.answers", "console.column.address", "console.column.state",
				"console.column.time",
			},
		}}},
	}}).Body.String()
	if got := strings.Count(page, `<th scope="col" role="columnheader" class="num">`); got != 2 {
		t.Errorf("%d columns are of numbers, want 2:\n%s", got, page)
	}
	for _, want := range []string{
		`class="num" data-label="Members"><span>1,204</span>`, `<span>0.4 ms</span>`, `<time data-ago datetime="2035-11-21T12:00:00Z">`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Count(page, "data-ago") != 1 {
		t.Errorf("a time within a sentence is relative:\n%s", page)
	}
}

// TestFoldedFilters: a narrow window folds the filters below the search field, and they are open where one is set. A
// form without which there is nothing to see is not folded.
func TestFoldedFilters(t *testing.T) {
	t.Parallel()
	filter := func(group, state, submit string) *web.Filter {
		return &web.Filter{Action: "/admin/persons", Submit: submit, Fields: []web.Field{
			{Name: "q", Type: "search", Label: "console.field.search", Value: "ann"},
			{Name: "group", Label: "console.field.group", Value: group},
			{
				Name: "state", Type: "select", Label: "console.field.state", Value: state,
				Options: []web.Option{{Label: "console.any"}, {Value: "ACTIVE", Label: "console.state.active"}},
			},
			{Name: "locale", Type: "select", Label: "console.field.locale", Value: "nl", Options: []web.Option{{Value: "nl", Label: "nl"}}},
		}}
	}
	alone := filter("", "", "")
	alone.Fields = alone.Fields[:1]
	const fold, open = `<details class="more fold">`, `<details class="more fold" open>`
	for name, tt := range map[string]struct {
		filter *web.Filter
		want   string // before the folded fields. Empty: nothing is folded
		button string
	}{
		"nothing is set":    {filter("", "", ""), fold + `<summary class="button quiet">Filters</summary>`, "Apply"},
		"one is set":        {filter("", "ACTIVE", ""), open + `<summary class="button quiet">Filters (1)</summary>`, "Apply"},
		"two are set":       {filter("staff", "ACTIVE", ""), open + `<summary class="button quiet">Filters (2)</summary>`, "Apply"},
		"a search alone":    {alone, "", "Search"},
		"a form of its own": {filter("", "", "console.preview.show"), "", "Try"},
	} {
		page := render(newRenderer(t, web.Brand{}), web.View{Template: "console", Data: web.Console{
			Title: web.Say("console.persons.title"), Filter: tt.filter,
		}}).Body.String()
		search, at := strings.Index(page, `name="q"`), strings.Index(page, "<details")
		if tt.want == "" && at >= 0 || tt.want != "" && (!strings.Contains(page, tt.want) || at < search) {
			t.Errorf("%s: the page lacks %q after the search field:\n%s", name, tt.want, page)
		}
		first, last := strings.Index(page, `name="group"`), strings.Index(page, `name="locale"`)
		if tt.want != "" && (first < at || last > strings.Index(page, "</details>")) {
			t.Errorf("%s: the filters are not what is folded:\n%s", name, page)
		}
		if !strings.Contains(page, ">"+tt.button+"</button>") {
			t.Errorf("%s: no button says %q:\n%s", name, tt.button, page)
		}
	}
}

// TestHeadingsOfActions: a column of what can be done has its heading for screen readers alone.
func TestHeadingsOfActions(t *testing.T) {
	t.Parallel()
	page := render(newRenderer(t, web.Brand{}), web.View{Template: "console", Data: web.Console{
		Title: web.Say("console.queue.title"), Parts: []web.ConsolePart{{Table: &web.Table{
			Label:   web.Say("console.queue.title"),
			Columns: []string{"console.column.action", "console.column.to", "console.act.send-now", "console.column.action"},
			Rows: []web.TableRow{{Cells: []web.Cell{
				{Name: "Invited"},
				{Name: "ann@example.com"},
				{Text: web.Say("console.act.send-now"), URL: "/admin/a"},
				{Text: web.Say("console.act.remove"), URL: "/admin/b"},
			}}},
		}}},
	}}).Body.String()
	for _, want := range []string{
		`<th scope="col" role="columnheader">Action</th><th scope="col" role="columnheader">Recipient</th>`,
		`<th scope="col" role="columnheader"><span class="unseen">Send now</span></th>`,
		`<th scope="col" role="columnheader"><span class="unseen">Action</span></th>`,
		`data-label="Recipient"`, `<td role="cell" data-label=""><a href="/admin/a">Send now</a></td>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
