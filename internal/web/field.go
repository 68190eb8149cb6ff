package web

import (
	"cmp"
	"html/template"
	"slices"
	"strconv"
	"strings"
)

// Text is a message by its key, with pairs of name and value to fill in. A key without a message is shown as it is.
type Text struct {
	Key  string
	Fill []any
}

// Say returns a text.
func Say(key string, fill ...any) Text { return Text{key, fill} }

// Field is a field of a form. Label, Hint, Problem and Lines are messages; values are shown as they are.
//
//	{{template "field" ($.Field $f)}}
type Field struct {
	// Name of the field in the form, and its id unless there is an ID.
	Name, ID string
	// Type: text, textarea, search, email, tel, password, date, select, country for a list of them, checkbox, checks for
	// a box for each option, whose names follow that of the field, file, code for one-time codes, secret for a code that
	// onlookers must not read, rows for a list whose entries have fields of their own. Default: text
	Type  string
	Label string
	// Called is the label if the key Label has no message. It is shown as it is.
	Called string
	// LabelFill, HintFill and ProblemFill are pairs of name and value for their messages. {brand} is filled in
	// everywhere.
	LabelFill, HintFill, ProblemFill []any
	Hint                             string // under the label's field. Empty: none
	// Wire is the name that programs use. It is shown before the hint. Empty: it is not shown
	Wire string
	// Problem is shown below the field and says what to do next. Empty: none
	Problem string
	// Invalid marks a field whose problem is described in the notice above the form.
	Invalid bool
	Value   string // of a checkbox: what it sends. Default there: yes
	Checked bool
	// Autocomplete is a token of HTML. Default: off, for codes one-time-code
	Autocomplete string
	// InputMode of codes. Default: numeric
	InputMode, EnterKeyHint string
	Required                bool
	ReadOnly                bool
	Focus                   bool
	MinLength, MaxLength    int // characters; 0: none. No MaxLength for passwords: browsers cut what is pasted.
	Options                 []Option
	Lines                   []Text // a list under the field, such as the rules of the password policy
	// Rows are the entries of a list. Its buttons send the form with rowsButton and the name of the list or an entry.
	Rows []FieldRow
	// Group is the message of the part of a long form that the field is in. Adjacent fields of one group fold together.
	// Differs says that the value is not the default: its group is open.
	Group   string
	Differs bool
	// Full says that no entry can be added, Ordered that the entries can be moved.
	Full, Ordered bool
}

// Option is one of a select, or of several boxes. Label is a message.
type Option struct {
	Value, Label string
	Checked      bool // of a box
}

// FieldRow is an entry of a list in a form.
type FieldRow struct {
	Name   string // of the hidden field that has Origin, and the id of the entry
	Origin string // identifies the stored entry
	Called string // in its heading, as it is. Empty: its number alone
	Open   string // path of a page with the rest of the entry. Empty: none
	Focus  bool
	Fields []Field
}

// FieldNamed returns the field of a name among fields and the entries of their lists, or nil.
func FieldNamed(name string, list []Field) *Field {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
		for j := range list[i].Rows {
			if f := FieldNamed(name, list[i].Rows[j].Fields); f != nil {
				return f
			}
		}
	}
	return nil
}

// FieldGroup has adjacent fields of a form that fold together. Without a Label they do not fold.
type FieldGroup struct {
	Label   string
	Open    bool
	Differs int // fields whose value is not the default
	Fields  []Field
}

// Groups returns the fields of a form by their groups.
func (f *ConsoleForm) Groups() (out []FieldGroup) {
	for i := range f.Fields {
		one := &f.Fields[i]
		if len(out) == 0 || out[len(out)-1].Label != one.Group {
			out = append(out, FieldGroup{Label: one.Group})
		}
		g := &out[len(out)-1]
		if g.Fields = append(g.Fields, *one); one.Differs {
			g.Differs++
		}
		g.Open = g.Open || one.Differs || one.Problem != "" || one.focused()
	}
	return out
}

// focused reports whether an entry of the list, or a field of one, has the focus or a problem, which takes it.
func (f *Field) focused() bool {
	return slices.ContainsFunc(f.Rows, func(r FieldRow) bool {
		return r.Focus || slices.ContainsFunc(r.Fields, func(f Field) bool { return f.Focus || f.Problem != "" || f.focused() })
	})
}

// Fields puts the focus on the first field with a problem or, if one notice describes several fields, on the first
// empty one of them. If there is no such field, a notice above the form takes the focus itself; without a notice it is
// on the first empty field. Fields also tells on-screen keyboards what Enter does.
func Fields(notice bool, list ...Field) []Field {
	empty, invalid, last := -1, -1, -1
	for i, f := range list {
		if f.Invalid && (invalid < 0 || f.Value == "" && list[invalid].Value != "") {
			invalid = i
		}
		if slices.Contains([]string{"checkbox", "checks", "rows", "select", "country", "file"}, f.Type) {
			continue
		}
		if empty < 0 && f.Value == "" && !f.ReadOnly {
			empty = i
		}
		last = i
	}
	focus := invalid
	if i := slices.IndexFunc(list, func(f Field) bool { return f.Problem != "" }); i >= 0 {
		focus = i
	}
	if focus < 0 && !notice {
		focus = empty
	}
	if slices.ContainsFunc(list, func(f Field) bool { return f.focused() }) {
		focus = -1
	}
	out := slices.Clone(list)
	for i := range out {
		out[i].Focus = i == focus
		if i == last {
			out[i].EnterKeyHint = "go"
		} else if out[i].EnterKeyHint == "" {
			out[i].EnterKeyHint = "next"
		}
	}
	return out
}

// field is the data of the template "field": a Field with its texts. Nothing is embedded, since templates find a member
// of an embedded struct ten times slower than one of its own, and the attributes of the input are one value, since each
// value costs a call.
type field struct {
	ID, Type      string
	Label         string
	Hint, Problem template.HTML
	// Names and Attributes are the attributes of the input or select, with a space in front of each.
	Names, Attributes template.HTMLAttr
	Lines             []string
	Options           []option
	Value             string // of a textarea
	IsCode            bool
	Reveal            string // label of the button that reveals the input. Empty: no such button
	// Of a list: its entries, and the button that adds one.
	Name, Describes string
	Rows            []fieldRow
	Add, Open       string
	Focus           bool // of a list, or of boxes
}

// fieldRow is the data of an entry of a list.
type fieldRow struct {
	Name, Origin, Title string
	Focus               bool
	Fields              []field
	Open                string
	Buttons             []rowButton
}

// rowButton changes the entries of a list. Value says how, and of which.
type rowButton struct{ Label, Value string }

// fieldRows returns the entries of a list with their texts.
func (f *frame) fieldRows(in Field) (out []fieldRow) {
	for i, r := range in.Rows {
		title := cmp.Or(r.Called, f.T("console.rows.entry", "n", i+1))
		row := fieldRow{Name: r.Name, Origin: r.Origin, Title: title, Focus: r.Focus, Open: r.Open}
		for _, one := range r.Fields {
			row.Fields = append(row.Fields, f.Field(one))
		}
		if in.Ordered && i > 0 {
			row.Buttons = append(row.Buttons, rowButton{f.T("console.rows.up"), "up " + r.Name})
		}
		if in.Ordered && i+1 < len(in.Rows) {
			row.Buttons = append(row.Buttons, rowButton{f.T("console.rows.down"), "down " + r.Name})
		}
		row.Buttons = append(row.Buttons, rowButton{f.T("console.rows.remove"), "remove " + r.Name})
		out = append(out, row)
	}
	return out
}

// HasRows reports whether a form has lists of entries. Their buttons come before the one that sends it.
func (f *ConsoleForm) HasRows() bool {
	return slices.ContainsFunc(f.Fields, func(f Field) bool { return f.Type == "rows" })
}

type option struct {
	Value, Label string
	Selected     bool
}

// Field returns the field with its texts.
func (f *frame) Field(in Field) field {
	out := field{ID: cmp.Or(in.ID, in.Name), Label: f.label(in)}
	var by []string
	if in.Hint != "" {
		out.Hint = wired(in.Wire, f.Say(Text{in.Hint, in.HintFill}))
		by = append(by, out.ID+"-hint")
	}
	for _, l := range in.Lines {
		out.Lines = append(out.Lines, f.Say(l))
	}
	if len(out.Lines) > 0 {
		by = append(by, out.ID+"-lines")
	}
	switch {
	case in.Problem != "":
		out.Problem = f.Rich(Text{in.Problem, in.ProblemFill})
		by = append(by, out.ID+"-problem")
	case in.Invalid:
		by = append(by, "problem")
	}
	for _, o := range in.Options {
		out.Options = append(out.Options, option{o.Value, f.T(o.Label), o.Checked || o.Value == in.Value})
	}
	if in.Type == "country" {
		out.Options = f.countries(in.Value)
	}
	if f.addressed && isUsername(in) {
		in.Type, in.InputMode = "email", "email"
	}
	if in.Type == "password" {
		f.Needs("password")
		out.Reveal = f.T("field.reveal", "label", out.Label)
	}
	out.Focus = in.Focus
	if out.Name = in.Name; in.Type == "rows" {
		if out.Rows = f.fieldRows(in); !in.Full {
			out.Add = f.T("console.rows.add")
		}
		out.Open = f.T("console.rows.open")
	}
	out.IsCode = in.Type == "code" || in.Type == "secret"
	out.Describes = strings.Join(by, " ")
	in.complete()
	in.Invalid = in.Invalid || in.Problem != ""
	if in.Type == "textarea" {
		out.Value, in.Value = in.Value, ""
	}
	out.Type, out.Names, out.Attributes = in.Type, in.names(out.ID), in.attributes(out.IsCode, out.Describes)
	return out
}

// isUsername reports whether people type their username into the field.
func isUsername(f Field) bool { return strings.HasPrefix(f.Autocomplete, "username") }

// Unchecked returns an attribute of a form that keeps browsers from checking it, if they would refuse usernames that
// the service accepts: older ones, those with a partition, and addresses with letters of any script.
func (f *frame) Unchecked(list []Field) template.HTMLAttr {
	if f.addressed && slices.ContainsFunc(list, func(in Field) bool { return isUsername(in) && !in.ReadOnly }) {
		return " novalidate"
	}
	return ""
}

// label returns the words of a field's label.
func (f *frame) label(in Field) string {
	if _, known := f.find(in.Label); in.Called != "" && !known {
		return in.Called
	}
	return f.Say(Text{in.Label, in.LabelFill})
}

// complete fills in the attributes that follow from the type.
func (f *Field) complete() {
	switch f.Type {
	case "":
		f.Type = "text"
	case "code":
		f.Type, f.InputMode, f.Autocomplete = "text", cmp.Or(f.InputMode, "numeric"), cmp.Or(f.Autocomplete, "one-time-code")
	case "secret":
		f.Type = "password"
	case "country":
		f.Type = "select"
	case "checkbox":
		f.Value = cmp.Or(f.Value, "yes")
	}
	f.Autocomplete = cmp.Or(f.Autocomplete, "off")
}

// names returns the attributes that identify the input.
func (f *Field) names(id string) template.HTMLAttr {
	var b attributes
	b.addIf(f.Type != "select" && f.Type != "textarea", "type", f.Type)
	b.add("id", id)
	b.add("name", f.Name)
	return template.HTMLAttr(b.String()) //nolint:gosec // add escapes every value
}

// attributes returns all other attributes. by are the ids of the texts that describe the input.
func (f *Field) attributes(isCode bool, by string) template.HTMLAttr {
	var b attributes
	if f.Type != "select" && f.Type != "checkbox" && f.Type != "file" {
		b.addIf(f.Value != "", "value", f.Value)
		b.add("autocomplete", f.Autocomplete)
		if isCode && f.Type == "text" || f.Type == "email" || strings.Contains(f.Autocomplete, "username") {
			b.add("autocapitalize", "none")
			b.add("autocorrect", "off")
			b.add("spellcheck", "false")
		}
		b.addIf(f.InputMode != "", "inputmode", f.InputMode)
		b.addIf(f.MinLength != 0, "minlength", strconv.Itoa(f.MinLength))
		b.addIf(f.MaxLength != 0, "maxlength", strconv.Itoa(f.MaxLength))
		b.addIf(f.EnterKeyHint != "", "enterkeyhint", f.EnterKeyHint)
	} else if f.Type != "file" { // file inputs have neither a value nor an autocompletion
		b.addIf(f.Type == "checkbox", "value", f.Value)
		b.add("autocomplete", f.Autocomplete)
	}
	b.addIf(by != "", "aria-describedby", by)
	b.addIf(f.Invalid, "aria-invalid", "true")
	b.mark(f.Type == "checkbox" && f.Checked, "checked")
	b.mark(f.Required, "required")
	b.mark(f.ReadOnly && f.Type != "select" && f.Type != "checkbox", "readonly")
	b.mark(f.Focus && f.Type != "checkbox", "autofocus")
	return template.HTMLAttr(b.String()) //nolint:gosec // add escapes every value
}

// attributes writes the attributes of a tag.
type attributes struct{ strings.Builder }

// escapeValue escapes what could end a quoted value, and the plus sign as html/template does: in UTF-7, which a browser
// could be made to guess, it begins a character.
var escapeValue = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "+", "&#43;", "\x00", "\uFFFD")

func (b *attributes) add(name, value string) {
	b.WriteString(" " + name + `="`)
	_, _ = escapeValue.WriteString(b, value) // a Builder returns no error
	b.WriteByte('"')
}

func (b *attributes) addIf(ok bool, name, value string) {
	if ok {
		b.add(name, value)
	}
}

// mark adds an attribute without a value.
func (b *attributes) mark(ok bool, name string) {
	if ok {
		b.WriteString(" " + name)
	}
}

// Say returns the words of a text.
func (f *frame) Say(t Text) string {
	return f.T(t.Key, append([]any{"brand", f.Brand.Name}, t.Fill...)...)
}

// worded reports whether a text is shown in place of a name: there is such a message, or no name.
func (f *frame) worded(t Text, name string) bool {
	if t.Key == "" {
		return false
	}
	_, known := f.find(t.Key)
	return known || name == ""
}

// nameOr returns a text, or a name if there is no such message.
func (f *frame) nameOr(t Text, name string) string {
	if f.worded(t, name) {
		return f.Say(t)
	}
	return name
}

// notice is the data of the template "notice".
type notice struct {
	Kind, Text, Ref string
	Focus           bool
}

// Notice returns a notice of a kind: info, good, warn, or bad. Fields with Invalid refer to a bad notice, which takes
// the focus unless one of them has it; a page has at most one. An empty key gives no notice.
//
//	{{template "notice" ($.Notice "bad" $d.Problem "time" ($.Duration $d.Wait))}}
func (f *frame) Notice(kind, key string, fill ...any) notice {
	if key == "" {
		return notice{}
	}
	n := notice{Kind: kind, Text: f.Say(Text{key, fill})}
	if kind == "bad" && f.Ref != "" {
		n.Ref = f.T("error.ref", "ref", f.Ref)
	}
	n.Focus = kind == "bad" && !slices.ContainsFunc(fieldsOf(f.Data), func(f Field) bool { return f.Focus && f.Type != "checkbox" })
	return n
}

// Row is a line of a list with its actions. Name is shown as it is. Title replaces it if that message exists. Mark,
// after it, and Details, under it, are messages.
//
//	<ul class="rows">{{range $d.Rows}}{{template "row" ($.Row .)}}{{end}}</ul>
type Row struct {
	// Icon: person, key, door, check, device, mail, phone, app. Empty: none
	Icon    string
	Logo    *Image // in place of the icon. nil: none
	Name    string
	Title   Text
	Mark    Text
	Details []Text
	Scopes  []ScopeLine // a list under them
	Links   []Link      // external links under it
	Actions []Action
}

// Link leads to another site and sends it no referrer. Text is a message. A URL that is neither http nor https is left
// out.
type Link struct {
	Text Text
	URL  string
}

// Action is a link, or with a CSRF token a form of one button. Label is a message.
type Action struct {
	Label, URL string
	Fill       []any // of the label
	CSRF       string
	Fields     []Hidden // of the form
	// About says what the action concerns, for people who do not see the row. Default: its name
	About string
	// Danger says that it is destructive.
	Danger bool
	// Quiet says that it is a secondary action, though it is shown first.
	Quiet bool
}

// row is the data of the template "row".
type row struct {
	Icon    string
	Logo    *Image
	Name    string
	Mark    string
	Details []template.HTML
	Scopes  []string
	Links   []link
	Actions []action
}

type link struct{ Text, URL string }

type action struct {
	Label, URL, CSRF, About string
	Fields                  []Hidden
	Danger                  bool
}

// Row returns the row with its texts.
func (f *frame) Row(in Row) row {
	in.Name = f.nameOr(in.Title, in.Name)
	out := row{Icon: in.Icon, Logo: in.Logo, Name: in.Name}
	if in.Mark.Key != "" {
		out.Mark = f.Say(in.Mark)
	}
	for _, d := range in.Details {
		out.Details = append(out.Details, f.Rich(d))
	}
	for _, s := range in.Scopes {
		out.Scopes = append(out.Scopes, f.Scope(s))
	}
	for _, l := range in.Links {
		if isWeb(l.URL) {
			out.Links = append(out.Links, link{f.Say(l.Text), l.URL})
		}
	}
	for _, a := range in.Actions {
		if a.About == "" {
			a.About = in.Name
		}
		out.Actions = append(out.Actions, action{f.T(a.Label), a.URL, a.CSRF, a.About, a.Fields, a.Danger})
	}
	return out
}

// buttons is the data of the template "buttons".
type buttons struct{ Submit, Cancel, CancelURL string }

// Buttons returns the end of a form: its submit button, and a link back if cancelURL is not empty.
//
//	{{template "buttons" ($.Buttons "profile.save" $d.Cancel)}}
func (f *frame) Buttons(submit, cancelURL string) buttons {
	b := buttons{Submit: f.T(submit), CancelURL: cancelURL}
	if cancelURL != "" {
		b.Cancel = f.T("sign_in.cancel")
	}
	return b
}

// back is the data of the template "back".
type back struct{ Text, URL string }

// Back returns the link back to the application that asks, or out of the current task.
//
//	{{template "back" ($.Back $d.Cancel)}}
func (f *frame) Back(url string) back {
	if f.Client.Name != "" {
		return back{f.T("sign_in.cancel.client", "client", f.Client.Name), url}
	}
	return back{f.T("sign_in.cancel"), url}
}

// icons are the drawings by name.
var icons = map[string]template.HTML{
	"person":  `<circle cx="12" cy="8" r="4"/><path d="M4 21a8 8 0 0 1 16 0"/>`,
	"eye":     `<path d="M2 12s3.6-6.5 10-6.5S22 12 22 12s-3.6 6.5-10 6.5S2 12 2 12z"/><circle cx="12" cy="12" r="2.5"/><line x1="4" y1="20" x2="20" y2="4"/>`,
	"key":     `<circle cx="8" cy="15" r="4.5"/><path d="m11.5 11.5 8-8M16 7l3 3"/>`,
	"door":    `<path d="M10 4h9v16h-9M3 12h11M10 8l4 4-4 4"/>`,
	"globe":   `<circle cx="12" cy="12" r="9"/><path d="M3 12h18M12 3a14 14 0 0 1 0 18M12 3a14 14 0 0 0 0 18"/>`,
	"check":   `<path d="m5 12.5 4.5 4.5L19 7.5"/>`,
	"alert":   `<circle cx="12" cy="12" r="9"/><path d="M12 7.5v5.5M12 16.5h.01"/>`,
	"lock":    `<rect x="4" y="11" width="16" height="10" rx="2"/><path d="M8 11V7a4 4 0 0 1 8 0v4"/>`,
	"device":  `<rect x="3" y="4" width="18" height="12" rx="2"/><path d="M8 20h8M12 16v4"/>`,
	"mail":    `<rect x="3" y="5" width="18" height="14" rx="2"/><path d="m4 7 8 6 8-6"/>`,
	"phone":   `<rect x="7" y="2" width="10" height="20" rx="2"/><path d="M11 18h2"/>`,
	"app":     `<rect x="4" y="4" width="6" height="6" rx="1"/><rect x="14" y="4" width="6" height="6" rx="1"/><rect x="4" y="14" width="6" height="6" rx="1"/><rect x="14" y="14" width="6" height="6" rx="1"/>`,
	"info":    `<circle cx="12" cy="12" r="9"/><path d="M12 11v5.5M12 7.5h.01"/>`,
	"pencil":  `<path d="m4 20 1-4L16 5l3 3L8 19z"/>`,
	"chart":   `<path d="M4 20V4M4 20h16M8 16v-4M12.500 16V8M17 16v-6"/>`,
	"gear":    `<circle cx="12" cy="12" r="3"/><path d="M12 3v3M12 18v3M3 12h3M18 12h3M5.600 5.600l2.100 2.100M16.300 16.300l2.100 2.100M18.400 5.600l-2.100 2.100M7.700 16.300l-2.100 2.100"/>`,
	"people":  `<circle cx="9" cy="8" r="3.500"/><path d="M2.500 20a6.500 6.500 0 0 1 13 0M16 5a3.500 3.500 0 0 1 0 6.500M18 14.500a6.500 6.500 0 0 1 3.500 5.500"/>`,
	"storage": `<ellipse cx="12" cy="5.5" rx="8" ry="2.5"/><path d="M4 5.5v13c0 1.4 3.6 2.5 8 2.5s8-1.1 8-2.5v-13M4 12c0 1.4 3.6 2.5 8 2.5s8-1.1 8-2.5"/>`,
	"menu":    `<path d="M4 7h16M4 12h16M4 17h16"/>`,
	"inbox":   `<path d="m3 13 3-8h12l3 8v6H3zM3 13h5l2 3h4l2-3h5"/>`,
	"search":  `<circle cx="10.5" cy="10.5" r="6.5"/><path d="m15.5 15.5 5 5"/>`,
	"bell":    `<path d="M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4"/>`,
	"plug":    `<path d="M9 3v5M15 3v5M6 8h12v3a6 6 0 0 1-12 0zM12 17v4"/>`,
	"enter":   `<path d="M14 4h5v16h-5M4 12h10M10 8l4 4-4 4"/>`,
	"gauge":   `<path d="M5 19a9 9 0 1 1 14 0M12 14l4.500-5"/>`,
	"list":    `<path d="M9 6h11M9 12h11M9 18h11M4.500 6h.01M4.500 12h.01M4.500 18h.01"/>`,
	"clock":   `<circle cx="12" cy="12" r="9"/><path d="M12 7v5l3.5 2"/>`,
}

// icon returns the drawing of this name, or nothing.
func icon(name string) template.HTML {
	if icons[name] == "" {
		return ""
	}
	return `<svg viewBox="0 0 24 24" aria-hidden="true">` + icons[name] + `</svg>`
}
