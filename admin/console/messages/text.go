package messages

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const textsPath = messagesPath + "/texts"

// textPath is that of the screen of a text.
func textPath(key string) string { return layout.Root + textsPath + "/" + url.PathEscape(key) }

// textScreen is one text in every language.
func (t *texts) textScreen() *layout.Screen {
	return &layout.Screen{
		Name: "text", Path: textsPath + "/{id}", Role: layout.Viewer, Find: t.findText, Show: t.showText,
		Acts: []*layout.Act{
			{Name: "edit-message", Role: layout.Operator, Hidden: true, Ask: t.askEdit, Do: t.edit},
			{Name: "reset-message", Role: layout.Operator, Hidden: true, Danger: true, When: t.isChanged, Ask: t.askReset, Do: t.reset},
		},
	}
}

// text is a message that a screen is about.
type text struct {
	key   string
	stock *settings.CustomMessages
	tag   string // of the unit
}

func shownText(v *layout.Visit) *text { return v.About.(*text) }

func (t *texts) findText(v *layout.Visit) (err error) {
	x := &text{key: v.PathValue("id")}
	if x.stock, x.tag, err = t.Config.CustomMessages(v.Context()); err != nil {
		return err
	}
	if !slices.ContainsFunc(t.pages.Spoken(v.Context()), func(l web.Spoken) bool {
		_, ok := t.pages.Wording(v.Context(), l.Locale, x.key)
		return ok
	}) {
		return webflow.NotFound()
	}
	v.About, v.Called = x, x.key
	return nil
}

// stored returns how the unit spells a locale, and the text there.
func (x *text) stored(locale string) (spelled, text string, ok bool) {
	if locale == settings.DefaultMessages {
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

// isChanged reports whether a text is stored in any language.
func (t *texts) isChanged(v *layout.Visit) bool {
	x := shownText(v)
	_, _, ok := x.stored(settings.DefaultMessages)
	return ok || slices.ContainsFunc(t.pages.Spoken(v.Context()), func(l web.Spoken) bool {
		_, _, ok := x.stored(l.Locale)
		return ok
	})
}

func (t *texts) showText(v *layout.Visit) (*web.Console, error) {
	x := shownText(v)
	table := &web.Table{
		Label: web.Say("console.messages.languages"),
		Columns: []string{
			"console.column.language", "console.column.text", "console.column.builtin", "console.column.origin",
			"console.column.action", "console.act.reset-message",
		},
	}
	row := func(name web.Cell, locale string, now, builtIn, origin web.Cell) {
		act := v.Link("edit-message", "locale", locale)
		reset := web.Cell{}
		if _, _, ok := x.stored(locale); ok {
			reset = v.Link("reset-message", "locale", locale)
		}
		table.Rows = append(table.Rows, web.TableRow{Cells: []web.Cell{name, now, builtIn, origin, act, reset}})
	}
	for _, l := range t.pages.Spoken(v.Context()) {
		w, _ := t.pages.Wording(v.Context(), l.Locale, x.key)
		origin := t.stateCell(w)
		origin.Hint = web.Text{} // it has a column
		builtIn := web.Cell{}
		if w.BuiltIn != w.Text {
			builtIn = layout.OrNone(w.BuiltIn)
		}
		row(web.Cell{Name: l.Name, Note: l.Locale}, l.Locale, web.Cell{Name: cmp.Or(w.Text, "—")}, builtIn, origin)
	}
	_, every, ok := x.stored(settings.DefaultMessages)
	origin := web.Cell{}
	if ok {
		origin = web.Cell{Text: web.Say("console.text.changed"), Kind: "plain"}
	}
	row(web.Cell{Text: web.Say("console.text.every"), Hint: web.Say("console.text.every.hint")}, settings.DefaultMessages,
		layout.OrNone(every), web.Cell{}, origin)
	out := &web.Console{
		Name: x.key, Up: &web.Up{
			Label: web.Say("console.messages.title"),
			URL:   layout.Root + messagesPath + "?" + url.Values{"locale": {t.locale(v)}}.Encode(),
		}, Actions: v.Buttons(),
		Parts: []web.ConsolePart{{ID: "languages", Title: web.Say("console.messages.languages"), Table: table}},
	}
	if facts := placeholderFacts(x.key); facts != nil {
		out.Parts = append(out.Parts,
			web.ConsolePart{ID: "names", Title: web.Say("console.text.names"), Text: web.Say("console.text.names.text"), Facts: facts})
	}
	used := web.ConsolePart{ID: "used", Title: web.Say("console.column.used"), Text: web.Say("console.text.used." + areaOf(x.key))}
	if ids := t.usesOf(x.key); len(ids) > 0 {
		used.Text, used.Table = web.Text{}, &web.Table{Label: used.Title, Columns: []string{"console.column.name", "console.column.key"}}
		for _, id := range ids[:min(len(ids), layout.Rows)] {
			name, err := t.title(v, exampleOf(id), t.locale(v)) // uses are found in examples
			if err != nil {
				return nil, err
			}
			used.Table.Rows = append(used.Table.Rows,
				web.TableRow{
					URL:   previewPath(id) + "?" + url.Values{"locale": {t.locale(v)}}.Encode(),
					Cells: []web.Cell{{Name: name}, {Name: id, Code: true}},
				})
		}
	}
	out.Parts = append(out.Parts, used)
	return out, nil
}

// names returns the names in braces that a text can have, and those that it must have.
func names(key string) (can, must []string, known bool) {
	can, must, known = web.PlaceholdersOf(key)
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
func placeholderFacts(key string) (out []web.ConsoleFact) {
	can, must, _ := names(key)
	if len(must) > 0 {
		out = append(out, web.ConsoleFact{Label: "console.text.names.must", Cells: []web.Cell{{Name: braces(must), Code: true}}})
	}
	can = slices.DeleteFunc(can, func(name string) bool { return slices.Contains(must, name) })
	if len(can) > 0 {
		out = append(out, web.ConsoleFact{Label: "console.text.names.can", Cells: []web.Cell{{Name: braces(can), Code: true}}})
	}
	return out
}

// markup matches what someone meant as HTML. Pages would show it as it stands.
var markup = regexp.MustCompile(`<[A-Za-z/!?]|&#?[A-Za-z0-9]+;`)

// check returns what is wrong with a text of a key.
func check(key, text string) error {
	wrong := func(key string, fill ...any) error { return &layout.Problem{Field: "text", Key: key, Fill: fill} }
	if text == "" {
		return wrong("console.problem.text_empty")
	}
	if markup.MatchString(text) {
		return wrong("console.problem.markup")
	}
	if err := web.CheckMessage(key, text); err != nil {
		return wrong("console.problem.setting", "reason", web.Foreign(err.Error()))
	}
	can, must, _ := names(key)
	has, rest := web.Placeholders(text), text
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
func (t *texts) chosen(v *layout.Visit) (locale, name string, hidden []web.Hidden) {
	locale, hidden = v.Chosen("locale")
	if locale == settings.DefaultMessages {
		return locale, "", hidden
	}
	list := t.pages.Spoken(v.Context())
	i := max(0, slices.IndexFunc(list, func(l web.Spoken) bool { return l.Locale == locale }))
	return list[i].Locale, list[i].Name, []web.Hidden{{Name: "locale", Value: list[i].Locale}}
}

// about are the facts of an act on a text in one language.
func about(name string, w web.Wording) []web.ConsoleFact {
	language := web.Cell{Name: name}
	if name == "" {
		language = web.Cell{Text: web.Say("console.text.every")}
	}
	return append([]web.ConsoleFact{
		{Label: "console.column.language", Cells: []web.Cell{language}},
		{Label: "console.column.builtin", Cells: []web.Cell{layout.OrNone(w.BuiltIn)}},
	}, placeholderFacts(w.Key)...)
}

// manyLines is the length in characters from which a text has a field of several lines.
const manyLines = 60

// askEdit asks for a text. A form that was sent for another version shows what holds now next to what was typed.
func (t *texts) askEdit(v *layout.Visit) (layout.Question, error) {
	x := shownText(v)
	locale, name, hidden := t.chosen(v)
	w, _ := t.pages.Wording(v.Context(), locale, x.key)
	value := w.Text
	if locale == settings.DefaultMessages {
		_, value, _ = x.stored(locale)
	}
	f := web.Field{Name: "text", Label: "console.column.text", Hint: "console.text.hint", Value: value, Required: true, MaxLength: 4000}
	if strings.Contains(w.BuiltIn+value, "\n") || utf8.RuneCountInString(cmp.Or(w.BuiltIn, value)) > manyLines {
		f.Type = "textarea"
	}
	q := layout.Question{
		Submit: "console.save", Facts: about(name, w), Hidden: append(hidden, web.Hidden{Name: "tag", Value: x.tag}),
		Fields: []web.Field{f},
	}
	if sent := v.PostForm.Get("tag"); sent != "" && sent != x.tag {
		q.Facts = append(q.Facts, web.ConsoleFact{Label: "console.column.now", Cells: []web.Cell{layout.OrNone(value)}})
	}
	return q, nil
}

func (t *texts) edit(v *layout.Visit, in url.Values) (layout.Result, error) {
	x := shownText(v)
	locale, _, _ := t.chosen(v)
	text := strings.TrimSpace(strings.ReplaceAll(in.Get("text"), "\r\n", "\n"))
	if err := check(x.key, text); err != nil {
		return layout.Result{}, err
	}
	spelled, before, ok := x.stored(locale)
	w, _ := t.pages.Wording(v.Context(), locale, x.key)
	if ok && before == text || !ok && locale != settings.DefaultMessages && w.Text == text {
		return layout.Result{}, &layout.Problem{Field: "text", Key: "console.problem.text_same"}
	}
	return layout.Result{}, settingspages.Refused("text",
		t.Config.SetMessage(settingspages.Write(v), spelled, x.key, text, in.Get("tag"), v.Actor()))
}

// askReset shows what goes, and what is shown afterwards.
func (t *texts) askReset(v *layout.Visit) (layout.Question, error) {
	x := shownText(v)
	locale, name, hidden := t.chosen(v)
	w, _ := t.pages.Wording(v.Context(), locale, x.key)
	_, now, _ := x.stored(locale)
	return layout.Question{
		Facts:  append(about(name, w), web.ConsoleFact{Label: "console.column.now", Cells: []web.Cell{layout.OrNone(now)}}),
		Hidden: append(hidden, web.Hidden{Name: "tag", Value: x.tag}),
	}, nil
}

func (t *texts) reset(v *layout.Visit, in url.Values) (layout.Result, error) {
	x := shownText(v)
	locale, _, _ := t.chosen(v)
	spelled, _, ok := x.stored(locale)
	if !ok {
		return layout.Result{}, &layout.Problem{Key: "console.problem.gone"}
	}
	return layout.Result{}, settingspages.Refused("", t.Config.RemoveMessage(settingspages.Write(v), spelled, x.key, in.Get("tag"), v.Actor()))
}
