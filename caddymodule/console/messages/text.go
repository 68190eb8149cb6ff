package messages

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/settings"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const textsPath = messagesPath + "/texts"

// textPath is that of the screen of a text.
func textPath(key string) string { return frame.Root + textsPath + "/" + url.PathEscape(key) }

// textScreen is one text in every language.
func (t *texts) textScreen() *frame.Screen {
	return &frame.Screen{
		Name: "text", Path: textsPath + "/{id}", Role: frame.Viewer, Find: t.findText, Show: t.showText,
		Acts: []*frame.Act{
			{Name: "edit-message", Role: frame.Operator, Hidden: true, Ask: t.askEdit, Do: t.edit},
			{Name: "reset-message", Role: frame.Operator, Hidden: true, Danger: true, When: t.isChanged, Ask: t.askReset, Do: t.reset},
		},
	}
}

// text is a message that a screen is about.
type text struct {
	key   string
	stock *config.CustomMessages
	tag   string // of the unit
}

func shownText(v *frame.Visit) *text { return v.About.(*text) }

func (t *texts) findText(v *frame.Visit) (err error) {
	x := &text{key: v.PathValue("id")}
	if x.stock, x.tag, err = t.Config.CustomMessages(v.Context()); err != nil {
		return err
	}
	if !slices.ContainsFunc(t.pages.Spoken(v.Context()), func(l page.Spoken) bool {
		_, ok := t.pages.Wording(v.Context(), l.Locale, x.key)
		return ok
	}) {
		return front.NotFound()
	}
	v.About, v.Called = x, x.key
	return nil
}

// stored returns how the unit spells a locale, and the text there.
func (x *text) stored(locale string) (spelled, text string, ok bool) {
	if locale == config.DefaultMessages {
		text, ok = x.stock.Default[x.key]
		return locale, text, ok
	}
	spelled = locale
	for name, texts := range x.stock.Locales {
		if strings.EqualFold(strings.ReplaceAll(name, "-", "_"), locale) {
			text, ok = texts[x.key]
			return name, text, ok
		}
	}
	return spelled, "", false
}

// isChanged tells whether a text is stored in any language.
func (t *texts) isChanged(v *frame.Visit) bool {
	x := shownText(v)
	_, _, ok := x.stored(config.DefaultMessages)
	return ok || slices.ContainsFunc(t.pages.Spoken(v.Context()), func(l page.Spoken) bool {
		_, _, ok := x.stored(l.Locale)
		return ok
	})
}

func (t *texts) showText(v *frame.Visit) (*page.Console, error) {
	x := shownText(v)
	table := &page.Table{Label: page.Say("console.messages.languages"), Columns: []string{"console.column.language", "console.column.text", "console.column.builtin", "console.column.origin", "console.column.action"}}
	row := func(name page.Cell, locale string, now, builtIn, origin page.Cell) {
		act := v.Link("edit-message", "locale", locale)
		cells := []page.Cell{name, now, builtIn, origin, act}
		if _, _, ok := x.stored(locale); ok {
			if reset := v.Link("reset-message", "locale", locale); reset.URL != "" {
				cells = append(cells, reset)
			}
		}
		table.Rows = append(table.Rows, page.TableRow{Cells: cells})
	}
	for _, l := range t.pages.Spoken(v.Context()) {
		w, _ := t.pages.Wording(v.Context(), l.Locale, x.key)
		origin := t.stateCell(w)
		origin.Hint = page.Text{} // it has a column
		row(page.Cell{Name: l.Name, Note: l.Locale}, l.Locale, page.Cell{Name: cmp.Or(w.Text, "—")}, frame.OrNone(w.BuiltIn), origin)
	}
	_, every, ok := x.stored(config.DefaultMessages)
	origin := frame.OrNone("")
	if ok {
		origin = page.Cell{Text: page.Say("console.text.changed"), Kind: "plain"}
	}
	row(page.Cell{Text: page.Say("console.text.every"), Hint: page.Say("console.text.every.hint")}, config.DefaultMessages, frame.OrNone(every), frame.OrNone(""), origin)
	out := &page.Console{
		Name: x.key, Up: &page.Up{Label: page.Say("console.messages.title"), URL: frame.Root + messagesPath + "?" + url.Values{"locale": {t.locale(v)}}.Encode()}, Actions: v.Buttons(),
		Parts: []page.ConsolePart{{ID: "languages", Title: page.Say("console.messages.languages"), Table: table}},
	}
	if facts := placeholderFacts(x.key); facts != nil {
		out.Parts = append(out.Parts, page.ConsolePart{ID: "names", Title: page.Say("console.text.names"), Text: page.Say("console.text.names.text"), Facts: facts})
	}
	used := page.ConsolePart{ID: "used", Title: page.Say("console.column.used"), Text: page.Say("console.text.used." + areaOf(x.key))}
	if ids := t.usesOf(x.key); len(ids) > 0 {
		used.Text, used.Table = page.Text{}, &page.Table{Label: used.Title, Columns: []string{"console.column.name", "console.column.key"}}
		for _, id := range ids[:min(len(ids), frame.Rows)] {
			name, err := t.called(v, exampleOf(id), t.locale(v)) // uses are found in examples
			if err != nil {
				return nil, err
			}
			used.Table.Rows = append(used.Table.Rows, page.TableRow{URL: previewPath(id) + "?" + url.Values{"locale": {t.locale(v)}}.Encode(), Cells: []page.Cell{{Name: name}, {Name: id, Code: true}}})
		}
	}
	out.Parts = append(out.Parts, used)
	return out, nil
}

// names returns the names in braces that a text can have, and those that it must have.
func names(key string) (can, must []string, known bool) {
	can, must, known = page.PlaceholdersOf(key)
	if known && strings.HasPrefix(key, "mail.") { // notify.MailConfig.Compose fills these in everywhere
		can = append(can, "brand", "name", "time", "to")
		slices.Sort(can)
		can = slices.Compact(can)
	}
	// Who leaves out the brand has written its name.
	must = slices.DeleteFunc(must, func(name string) bool { return name == "brand" })
	return can, must, known
}

func braces(list []string) string { return "{" + strings.Join(list, "}, {") + "}" }

// placeholderFacts say which names are filled in. nil: none are
func placeholderFacts(key string) (out []page.ConsoleFact) {
	can, must, _ := names(key)
	if len(must) > 0 {
		out = append(out, page.ConsoleFact{Label: "console.text.names.must", Cells: []page.Cell{{Name: braces(must), Code: true}}})
	}
	can = slices.DeleteFunc(can, func(name string) bool { return slices.Contains(must, name) })
	if len(can) > 0 {
		out = append(out, page.ConsoleFact{Label: "console.text.names.can", Cells: []page.Cell{{Name: braces(can), Code: true}}})
	}
	return out
}

// markup matches what somebody meant as HTML. Pages would show it as it stands.
var markup = regexp.MustCompile(`<[A-Za-z/!?]|&#?[A-Za-z0-9]+;`)

// check returns what is wrong with a text of a key.
func check(key, text string) error {
	wrong := func(key string, fill ...any) error { return &frame.Problem{Field: "text", Key: key, Fill: fill} }
	if text == "" {
		return wrong("console.problem.text_empty")
	}
	if markup.MatchString(text) {
		return wrong("console.problem.markup")
	}
	if err := page.CheckMessage(key, text); err != nil {
		return wrong("console.problem.setting", "reason", err.Error())
	}
	can, must, _ := names(key)
	has, rest := page.Placeholders(text), text
	for _, name := range has {
		rest = strings.ReplaceAll(rest, "{"+name+"}", "")
	}
	if strings.ContainsAny(rest, "{}") {
		return wrong("console.problem.braces", "example", "{name}")
	}
	if unknown := without(has, can); len(unknown) > 0 {
		if len(can) == 0 {
			return wrong("console.problem.names_none", "names", braces(unknown))
		}
		return wrong("console.problem.names_unknown", "names", braces(unknown), "known", braces(can))
	}
	if missing := without(must, has); len(missing) > 0 {
		return wrong("console.problem.names_missing", "names", braces(missing))
	}
	return nil
}

// without are the members of a list that another one has not.
func without(list, other []string) (out []string) {
	for _, name := range list {
		if !slices.Contains(other, name) {
			out = append(out, name)
		}
	}
	return out
}

// chosen is the language that an act is about. Without a name it is every language.
func (t *texts) chosen(v *frame.Visit) (locale, name string, hidden []page.Hidden) {
	locale, hidden = v.Chosen("locale")
	if locale == config.DefaultMessages {
		return locale, "", hidden
	}
	list := t.pages.Spoken(v.Context())
	i := max(0, slices.IndexFunc(list, func(l page.Spoken) bool { return l.Locale == locale }))
	return list[i].Locale, list[i].Name, []page.Hidden{{Name: "locale", Value: list[i].Locale}}
}

// about are the facts of an act on a text in one language.
func about(name string, w page.Wording) []page.ConsoleFact {
	language := page.Cell{Name: name}
	if name == "" {
		language = page.Cell{Text: page.Say("console.text.every")}
	}
	return append([]page.ConsoleFact{{Label: "console.column.language", Cells: []page.Cell{language}}, {Label: "console.column.builtin", Cells: []page.Cell{frame.OrNone(w.BuiltIn)}}}, placeholderFacts(w.Key)...)
}

// manyLines is the length in characters from which a text has a field of several lines.
const manyLines = 60

// askEdit asks for a text. A form that was sent for another version shows what holds now beside what was typed.
func (t *texts) askEdit(v *frame.Visit) (frame.Question, error) {
	x := shownText(v)
	locale, name, hidden := t.chosen(v)
	w, _ := t.pages.Wording(v.Context(), locale, x.key)
	value := w.Text
	if locale == config.DefaultMessages {
		_, value, _ = x.stored(locale)
	}
	f := page.Field{Name: "text", Label: "console.column.text", Hint: "console.text.hint", Value: value, Required: true, MaxLength: 4000}
	if strings.Contains(w.BuiltIn+value, "\n") || utf8.RuneCountInString(cmp.Or(w.BuiltIn, value)) > manyLines {
		f.Type = "textarea"
	}
	q := frame.Question{Submit: "console.save", Facts: about(name, w), Hidden: append(hidden, page.Hidden{Name: "tag", Value: x.tag}), Fields: []page.Field{f}}
	if sent := v.PostForm.Get("tag"); sent != "" && sent != x.tag {
		q.Facts = append(q.Facts, page.ConsoleFact{Label: "console.column.now", Cells: []page.Cell{frame.OrNone(value)}})
	}
	return q, nil
}

func (t *texts) edit(v *frame.Visit, in url.Values) (frame.Result, error) {
	x := shownText(v)
	locale, _, _ := t.chosen(v)
	text := strings.TrimSpace(strings.ReplaceAll(in.Get("text"), "\r\n", "\n"))
	if err := check(x.key, text); err != nil {
		return frame.Result{}, err
	}
	spelled, before, ok := x.stored(locale)
	w, _ := t.pages.Wording(v.Context(), locale, x.key)
	if ok && before == text || !ok && locale != config.DefaultMessages && w.Text == text {
		return frame.Result{}, &frame.Problem{Field: "text", Key: "console.problem.text_same"}
	}
	return frame.Result{}, settings.Refused("text", t.Config.SetMessage(settings.Write(v), spelled, x.key, text, in.Get("tag"), v.Actor()))
}

// askReset shows what goes, and what is shown afterwards.
func (t *texts) askReset(v *frame.Visit) (frame.Question, error) {
	x := shownText(v)
	locale, name, hidden := t.chosen(v)
	w, _ := t.pages.Wording(v.Context(), locale, x.key)
	_, now, _ := x.stored(locale)
	return frame.Question{Facts: append(about(name, w), page.ConsoleFact{Label: "console.column.now", Cells: []page.Cell{frame.OrNone(now)}}), Hidden: append(hidden, page.Hidden{Name: "tag", Value: x.tag})}, nil
}

func (t *texts) reset(v *frame.Visit, in url.Values) (frame.Result, error) {
	x := shownText(v)
	locale, _, _ := t.chosen(v)
	spelled, _, ok := x.stored(locale)
	if !ok {
		return frame.Result{}, &frame.Problem{Key: "console.problem.gone"}
	}
	return frame.Result{}, settings.Refused("", t.Config.RemoveMessage(settings.Write(v), spelled, x.key, in.Get("tag"), v.Actor()))
}
