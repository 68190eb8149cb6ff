package web

import (
	"strings"
	"testing"
)

// TestTrimmed checks that a column is there only if it says something in a row, such as actions to those who may.
func TestTrimmed(t *testing.T) {
	t.Parallel()
	const action = "console.column.action"
	name, act := Cell{Name: "ada"}, Cell{Text: Say("console.act.leave"), URL: "/admin/leave"}
	for what, c := range map[string]struct {
		columns []string
		cells   [][]Cell
		want    int // columns
	}{
		"nothing to do":           {[]string{"console.column.person", action}, [][]Cell{{name, {}}, {name, {}}}, 1},
		"something in one row":    {[]string{"console.column.person", action}, [][]Cell{{name, {}}, {name, act}}, 2},
		"another column is empty": {[]string{"console.column.person", "console.column.from"}, [][]Cell{{name, {}}}, 1},
		"the one between":         {[]string{"console.column.person", "console.column.from", action}, [][]Cell{{name, {}, act}}, 2},
		"a hint alone":            {[]string{"console.column.person", "console.column.from"}, [][]Cell{{name, {Note: "x"}}}, 2},
		"the only column":         {[]string{action}, [][]Cell{{{}}}, 1},
		"no button of two":        {[]string{"console.column.person", "console.act.grant", "console.act.refuse"}, [][]Cell{{name, {}, {}}}, 1},
		"the first of two":        {[]string{"console.column.person", "console.act.grant", "console.act.refuse"}, [][]Cell{{name, act, {}}}, 2},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			in := &Table{Columns: c.columns}
			for _, cells := range c.cells {
				in.Rows = append(in.Rows, TableRow{Cells: cells})
			}
			out := new(frame).Trimmed(in)
			if len(out.Columns) != c.want || len(out.Rows) != len(in.Rows) || len(in.Columns) != len(c.columns) ||
				len(in.Rows[0].Cells) != len(c.columns) {
				t.Fatalf("%q with %d rows, want %d columns; the table itself has %q now", out.Columns, len(out.Rows), c.want, in.Columns)
			}
			for i, r := range out.Rows {
				if len(r.Cells) != c.want {
					t.Errorf("row %d has %d cells, want %d", i, len(r.Cells), c.want)
				}
			}
		})
	}
	if new(frame).Trimmed(nil) != nil {
		t.Error("no table became one")
	}
}

// TestWordsOfCells checks which values have a word that a table breaks, and which need two columns of facts.
func TestWordsOfCells(t *testing.T) {
	t.Parallel()
	for words, long := range map[string]bool{
		"demo@example.com":                                 false,
		"Publish next keys":                                false,
		strings.Repeat("ö", longWord):                      false, // letters count, not bytes
		strings.Repeat("a", longWord+1):                    true,
		"somebody.with.a.long.name@department.example.com": true,
	} {
		if got := new(frame).Cell(Cell{Name: words}).Long; got != long {
			t.Errorf("%q has a word to break: %t, want %t", words, got, long)
		}
	}
	if new(frame).Cell(Cell{Name: "`publish-next`", Quoted: true}).Long {
		t.Error("the element around a word counts as a part of it")
	}
	for code, long := range map[string]bool{"shop": false, "https://auth.example.com/saml/partner/acs": true} {
		if got := (ConsoleFact{Cells: []Cell{{Name: "a"}, {Name: code, Code: true}}}).Long(); got != long {
			t.Errorf("%q takes two columns: %t, want %t", code, got, long)
		}
	}
}

// TestLongNamesBreakBetweenTheirParts: an address or the name of a setting that is too long for its line breaks between
// its parts, also within a sentence. Sentences, short names and the path of an address stay as they are, and markup
// stays text.
func TestLongNamesBreakBetweenTheirParts(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ann@example.com": "ann@example.com",
		"marie-christine.vandenberghe@subsidiary.example":    "marie-christine.<wbr>vandenberghe@<wbr>subsidiary.<wbr>example",
		"<b>.marie-christine@subsidiary.corporation.example": "&lt;b&gt;.<wbr>marie-christine@<wbr>subsidiary.<wbr>corporation.<wbr>example",
		"features.accepting_invitation_enabled":              "features.<wbr>accepting_<wbr>invitation_<wbr>enabled",
		"email_notifications.welcome, features.pin":          "email_<wbr>notifications.<wbr>welcome, features.pin",
		"policies.office.allow[0]":                           "policies.<wbr>office.<wbr>allow[0]",
		"allow[0]":                                           "allow[0]",
		"https://wiki.example.com/a/long/path.html":          "https://wiki.example.com/a/long/path.html",
		"A sentence. It is longer than a line of facts.":     "A sentence. It is longer than a line of facts.",
	} {
		f := new(frame)
		f.Data = Console{Name: name}
		if got := string(f.HeadingHTML()); got != want {
			t.Errorf("HeadingHTML of %q = %q, want %q", name, got, want)
		}
	}
}

// TestBars: a chart shows what was counted. Before the first number there is nothing, between numbers a line is a zero,
// and a small number is seen next to a large one.
func TestBars(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string][]int64{
		"":               {0, 0, 0},
		"M20 0h8V48h-8z": {0, 0, 5},
		"M0 0h8V48h-8zM10 47h8V48h-8zM20 47h8V48h-8z":  {5, 0, 0},
		"M10 45h8V48h-8zM20 47h8V48h-8zM30 0h8V48h-8z": {0, 1, 0, 1000},
	} {
		got := ""
		if b := new(frame).Bars(Chart{Counts: counts}); b != nil {
			got = b.Path
		}
		if got != want {
			t.Errorf("the bars of %d are %q, want %q", counts, got, want)
		}
	}
}
