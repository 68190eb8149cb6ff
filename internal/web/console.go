package web

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Console is the data of console: a page of the admin console. Texts are messages; names and values are shown as they
// are. Everything is optional but the title.
type Console struct {
	// Title is the heading. Name, what the page is about, takes its place if there is no such message.
	Title Text
	Name  string
	Sub   string // below the title, as it is
	Lead  Text
	Tags  []Cell // next to the title
	// Initials of the person that the page is about. Empty: it is about something else
	Initials string
	Logo     *Image // of the application that the page is about. nil: none
	Up       *Up
	// Done says what was just done, Problem what to do next.
	Done, Problem Text
	Undo          *ConsoleForm // undoes the change. nil: it cannot be undone
	// Actions are next to the title: the first one as a button, the others in a menu. Destructive ones are at the end of
	// the page.
	Actions []Action
	// AtStake says in numbers what the destructive actions would end.
	AtStake Text
	Tabs    []Choice // pages about the same subject
	Cards   []Card
	Filter  *Filter
	Parts   []ConsolePart
	// Refresh is the number of seconds after which the browser reloads the page. 0: never
	Refresh int
	// Live is the path of a stream of new rows for the table. With scripts they are added as they come, in place of the
	// Refresh. The page needs a Lead. Empty: there is no stream
	Live string
}

// Up is the way to the page above.
type Up struct {
	Label Text
	Name  string // in place of the label
	URL   string
}

// Filter is the form above a list. It is sent by GET, so the selection is part of the address.
type Filter struct {
	Action string
	Hidden []Hidden
	Fields []Field
	Submit string // message of the button, if the page is empty without the fields. Default: console.filter.apply
	Clear  string // the list without a filter. Empty: nothing is filtered
}

// Shown returns the fields that are always visible.
func (f *Filter) Shown() []Field { return f.Fields[:len(f.Fields)-len(f.folded())] }

// folded returns the fields below the first one. A form without which the page shows nothing is not folded.
func (f *Filter) folded() []Field {
	if f.Submit != "" || len(f.Fields) == 0 {
		return nil
	}
	return f.Fields[1:]
}

// Button returns the message of the button.
func (f *Filter) Button() string {
	if f.Submit == "" && len(f.Fields) == 1 && f.Fields[0].Type == "search" {
		return "console.search.submit"
	}
	return cmp.Or(f.Submit, "console.filter.apply")
}

// fold has the fields that narrow windows fold into one line.
type fold struct {
	Label  string
	Open   bool
	Fields []Field
}

// Fold returns the fields of a filter that narrow windows fold, or nil. They are unfolded if one of them selects
// something.
func (f *frame) Fold(of *Filter) *fold {
	out := &fold{Label: f.T("console.filters"), Fields: of.folded()}
	if len(out.Fields) == 0 {
		return nil
	}
	set := 0
	for i := range out.Fields {
		if out.Fields[i].selects() {
			set++
		}
	}
	if out.Open = set > 0; out.Open {
		out.Label = f.T("console.filters.set", "n", set)
	}
	return out
}

// selects reports whether the field of a filter has a value, other than a select that always has one.
func (f *Field) selects() bool {
	return f.Value != "" && (f.Type != "select" || slices.ContainsFunc(f.Options, func(o Option) bool { return o.Value == "" }))
}

// ConsolePart is a part of a page of the console.
type ConsolePart struct {
	ID          string // unique on the page; needed with a Title
	Title, Text Text
	Said        string // English text that is not translated, with code between backquotes
	Half        bool   // if there is room, it is next to the following part, which is a half too
	Facts       []ConsoleFact
	Charts      []Chart
	Choices     []Choice // among views of the part
	Table       *Table
	Fold        Text         // the line that the table is folded into. Empty: it is not folded
	Pick        *Pick        // actions for selected rows
	Buttons     *ConsoleForm // that the buttons in the table send. nil: there are none
	Empty       *Empty       // in place of a table without rows
	Secret      *Secret
	Source      string // lines of a configuration, to copy: with a button, if the part has an ID
	Frames      []Frame
	Form        *ConsoleForm
	Actions     []Action
}

// Frame shows another page within this one: a preview, in which nothing can be changed.
type Frame struct {
	Title Text
	URL   string // a path
}

// framed reports whether a page has frames.
func (c Console) framed() bool {
	return slices.ContainsFunc(c.Parts, func(p ConsolePart) bool { return len(p.Frames) > 0 })
}

// ConsoleFact is a label and its values.
type ConsoleFact struct {
	Label string
	Cells []Cell
}

// actions is the data of the template "actions".
type actions struct {
	*frame
	First, More []Action
}

// Acts returns the actions of the page except the destructive ones: the first as a button, and the others in a menu. A
// single other one is a button too.
func (f *frame) Acts() *actions {
	c, _ := f.Data.(Console)
	out := &actions{frame: f}
	for _, a := range c.Actions {
		switch {
		case a.Danger:
		case len(out.First) == 0:
			out.First = []Action{a}
		default:
			out.More = append(out.More, a)
		}
	}
	if len(out.More) == 1 {
		out.More[0].Quiet = true
		out.First, out.More = append(out.First, out.More[0]), nil
	}
	if len(out.First) == 0 {
		return nil
	}
	return out
}

// Onward returns the next action of an empty list, or nil if the page has an action that does the same.
func (f *frame) Onward(next *Action) *Action {
	c, _ := f.Data.(Console)
	if next != nil && slices.ContainsFunc(c.Actions, func(a Action) bool { return a.URL == next.URL }) {
		return nil
	}
	return next
}

// ActionName returns the words of a link or button.
func (f *frame) ActionName(a Action) string { return f.T(a.Label, a.Fill...) }

// Dangers returns the destructive actions of the page.
func (f *frame) Dangers() (out []Action) {
	c, _ := f.Data.(Console)
	for _, a := range c.Actions {
		if a.Danger {
			out = append(out, a)
		}
	}
	return out
}

// Reload is the number of seconds after which a browser without scripts reloads the page. 0: never
func (f *frame) Reload() int {
	if c, ok := f.Data.(Console); ok && c.Live != "" {
		return c.Refresh
	}
	return 0
}

// Pick makes the rows of a table selectable. The form is sent by GET to the address of the button that was used.
type Pick struct {
	Name    string // of the boxes
	Hidden  []Hidden
	All     Field // a box for all rows, also those of other pages
	Actions []Action
}

// Cell is one value: a message, or a name if there is no such message. Kind makes it a mark: good, warn, bad or plain.
type Cell struct {
	Text Text
	Name string
	Hint Text
	Note string // in place of the hint, as it is
	Wire string // the name that programs use, before the hint
	// Initials of the person that a row is about are shown before the name, which replaces them for screen readers.
	Initials string
	Logo     *Image // of the application, likewise. nil: none
	Kind     string
	URL      string
	Button   bool   // it sends the buttons' form of its part to the URL
	Code     bool   // it is copied rather than read
	Copy     string // name of the code on the page, for a button that copies it. Empty: no button
	// Quoted says that the name and the note are sentences with code between backquotes.
	Quoted bool
}

// None reports whether the cell has no value.
func (c Cell) None() bool {
	return (c.Name == "" || c.Name == "—") && c.Text.Key == "" && c.Note == "" && c.Hint.Key == ""
}

// Chart is a number over time, as bars. A table has the same numbers for people who cannot see it.
type Chart struct {
	Label  Text
	URL    string // of what is counted. Empty: there is no such page
	Total  string
	Counts []int64
	Bad    bool // it counts events that should not happen
	// Most is the highest of the counts in words, next to the top of the chart. Empty: there is nothing to see
	Most string
	// From and To are the ends of the axis below: when the first and the last count begin. Days says that they are days.
	From, To time.Time
	Days     bool
	// Low and High are the ends of an axis that is not time, as they are.
	Low, High string
}

// Ends returns the words of the axis of a chart.
func (f *frame) Ends(c Chart) []template.HTML {
	if c.Low != "" {
		return []template.HTML{ //nolint:gosec // escaped
			template.HTML("<span>" + template.HTMLEscapeString(c.Low) + "</span>"),
			template.HTML("<span>" + template.HTMLEscapeString(c.High) + "</span>"),
		}
	}
	if c.From.IsZero() {
		return nil
	}
	f.Needs("time")
	end := func(t time.Time) template.HTML {
		kind, words := "time", t.UTC().Format("15:04")
		if c.Days {
			kind, words = "day", f.Day(t)
		}
		return template.HTML(`<time datetime="` + t.UTC().Format(time.RFC3339) + `" data-only="` + kind + `">` + //nolint:gosec // escaped
			template.HTMLEscapeString(words) + `</time>`)
	}
	return []template.HTML{end(c.From), end(c.To)}
}

// Choice is one of several that a part can show.
type Choice struct {
	Label, URL string
	Current    bool
}

// The sizes of a chart, in its own units.
const (
	barWidth, barGap, chartHeight = 8, 2, 48
)

// bars are the data of the template "chart".
type bars struct {
	Width, Height int64
	Path          string
}

// Bars returns the bars of a chart as one path, which takes a third of the bytes of rectangles. A number that is not
// zero is always seen. A zero after the first of them is a line; before it there is nothing, since counting may not
// have begun. nil: all are zero
func (f *frame) Bars(c Chart) *bars {
	first := slices.IndexFunc(c.Counts, func(n int64) bool { return n > 0 })
	if first < 0 {
		return nil
	}
	out := &bars{Width: max(1, int64(len(c.Counts))*(barWidth+barGap)-barGap), Height: chartHeight}
	most := int64(1)
	for _, n := range c.Counts {
		most = max(most, n)
	}
	var path strings.Builder
	for i, n := range c.Counts {
		h := int64(1)
		switch {
		case i < first:
			continue
		case n > 0:
			h = max(3, n*chartHeight/most)
		}
		fmt.Fprintf(&path, "M%d %dh%dV%dh-%[3]dz", i*(barWidth+barGap), chartHeight-h, barWidth, chartHeight)
	}
	out.Path = path.String()
	return out
}

// Empty says that a list is empty, and what to do next.
type Empty struct {
	Text Text
	Next *Action
}

// Secret is shown once.
type Secret struct {
	Text  Text
	Value string
}

// ConsoleForm is a form that changes something. Cancel is the page that it was opened from.
type ConsoleForm struct {
	Action, CSRF, Submit, Cancel string
	Hidden                       []Hidden
	Fields                       []Field
	Danger                       bool
}

// Files reports whether the form has files.
func (c ConsoleForm) Files() bool {
	return slices.ContainsFunc(c.Fields, func(f Field) bool { return f.Type == "file" })
}

// fields returns the fields of its forms, in their order.
func (c Console) fields() (out []Field) {
	for _, p := range c.Parts {
		if p.Form != nil {
			out = append(out, p.Form.Fields...)
		}
	}
	return out
}

// longCode is the maximum number of characters of a value that fits into one column of facts, and longWord that of a
// word that a table does not break.
const longCode, longWord = 28, 20

// Long reports whether the fact has a value that needs more space than the others.
func (c ConsoleFact) Long() bool {
	return slices.ContainsFunc(c.Cells, func(in Cell) bool { return in.Code && utf8.RuneCountInString(in.Name) > longCode })
}

// HasActs reports whether a column has the actions of a row: it needs no visible heading.
func (t *Table) HasActs(column int) bool {
	return column > 0 && column < len(t.Columns) &&
		(t.Columns[column] == "console.column.action" || strings.HasPrefix(t.Columns[column], "console.act."))
}

// cell is the data of the template "cell".
type cell struct {
	Words template.HTML
	Hint  template.HTML
	Mark  bool
	Kind  string // of the mark. Empty: plain
	URL   string
	Form  string // id of the form that a button sends to the URL. Empty: it is a link
	Code  bool
	Copy  *copyButton
	Long  bool // a word is so long that a table has to break it

	Initials string
	Logo     *Image
}

// buttonsForm is the id of the form that the buttons in the tables of a page send.
const buttonsForm = "buttons"

// Cell returns a cell with its words.
func (f *frame) Cell(in Cell) cell {
	out := cell{ //nolint:gosec // escaped
		Words: breakable(in.Name), Hint: breakable(in.Note), Kind: in.Kind, URL: LocalPath(in.URL),
		Code: in.Code, Initials: in.Initials, Logo: in.Logo,
	}
	if in.Copy != "" {
		b := f.Copy(in.Copy)
		out.Copy = &b
	}
	if in.Button {
		out.Form = buttonsForm
	}
	if in.Quoted {
		out.Words, out.Hint = backquoted(in.Name), backquoted(in.Note)
	}
	if out.Mark = in.Kind != ""; in.Kind == "plain" {
		out.Kind = ""
	}
	if f.worded(in.Text, in.Name) {
		out.Words = f.Rich(in.Text)
		if in.Text.Key == "console.time" { // alone, and not within a sentence
			out.Words = template.HTML(strings.Replace(string(out.Words), "<time ", "<time data-ago ", 1)) //nolint:gosec // escaped by Rich
		}
	}
	if in.Hint.Key != "" {
		out.Hint = f.Rich(in.Hint)
	}
	if in.Wire != "" {
		out.Hint = wired(in.Wire, f.Say(in.Hint))
	}
	out.Words, out.Hint = f.placed(out.Words), f.placed(out.Hint)
	out.Long = hasLongWord(string(out.Words))
	return out
}

// hasLongWord reports whether a word is so long that a table has to break it, in text that is HTML already.
func hasLongWord(escaped string) bool {
	if len(escaped) <= longWord {
		return false
	}
	if strings.Contains(escaped, "<") {
		escaped = elements.ReplaceAllString(escaped, "")
	}
	return slices.ContainsFunc(strings.Fields(escaped), func(word string) bool { return utf8.RuneCountInString(word) > longWord })
}

// breaks marks the places where a long e-mail address, or the name of a setting, can be broken into lines.
var breaks = strings.NewReplacer("@", "@<wbr>", ".", ".<wbr>", "_", "_<wbr>")

// identifier matches a word that is an e-mail address or a name that programs use.
var identifier = regexp.MustCompile(`[\w.@\[\]+-]*\w[._@]\w[\w.@\[\]+-]*`)

// breakable returns a text as HTML. Long addresses and identifiers break between their parts.
func breakable(text string) template.HTML {
	if len(text) <= longWord { // no word of it is long
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	return template.HTML(identifier.ReplaceAllStringFunc(template.HTMLEscapeString(text), func(word string) string { //nolint:gosec // escaped
		if len(word) <= longWord || len(word) <= longCode && strings.Contains(word, "@") {
			return word
		}
		return breaks.Replace(word)
	}))
}

// elements match the markup between the words of a cell, such as that of a time.
var elements = regexp.MustCompile(`<[^>]*>`)

// SayHTML is Say with shortened places of the configuration.
func (f *frame) SayHTML(t Text) template.HTML {
	return f.placed(template.HTML(template.HTMLEscapeString(f.Say(t)))) //nolint:gosec // escaped
}

// Quoted shows words as they are, with code between backquotes.
func (f *frame) Quoted(s string) template.HTML { return backquoted(s) }

// backquoted shows text between backquotes as code.
func backquoted(s string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(s, "`") {
		if i%2 == 1 {
			b.WriteString("<code>" + string(breakable(part)) + "</code>")
		} else {
			b.WriteString(template.HTMLEscapeString(part))
		}
	}
	return template.HTML(b.String()) //nolint:gosec // escaped
}

// wired returns a hint after the name that programs use. Parts between backquotes are shown as code.
func wired(name, hint string) template.HTML {
	if name == "" {
		return backquoted(hint)
	}
	return "<code>" + breakable(name) + "</code> " + backquoted(hint)
}

// Heading returns the title of a page of the console.
func (f *frame) Heading() string {
	c, _ := f.Data.(Console)
	return f.nameOr(c.Title, c.Name)
}

// HeadingHTML returns the title as HTML, for the headline.
func (f *frame) HeadingHTML() template.HTML { return breakable(f.Heading()) }

// UpName returns the name of the page above.
func (f *frame) UpName(u Up) string { return cmp.Or(u.Name, f.Say(u.Label)) }
