package settingspages

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/settings/effect"
	"github.com/gatehouse-id/gatehouse/internal/alias"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// unitScreen is one unit: its members with their origins, and the same as JSON.
func (s *screens) unitScreen() *layout.Screen {
	hasFields := func(v *layout.Visit) bool { return slices.ContainsFunc(shownUnit(v).Members, isField) }
	isStored := func(v *layout.Visit) bool { return slices.ContainsFunc(shownUnit(v).Members, stored) }
	fits := func(v *layout.Visit) bool { return len(readable(string(shownUnit(v).JSON), "  ")) <= maxEdited }
	may := func(v *layout.Visit) error {
		if settings.DecidesSignIn(shownUnit(v).Name) && v.Role != layout.Owner {
			return layout.Denied("only owners can change the unit")
		}
		return nil
	}
	return &layout.Screen{
		Name: "unit", Path: settingsPath + "/{id}", Role: layout.Viewer, Find: s.findUnit, Show: s.showUnit,
		Acts: []*layout.Act{
			{Name: "edit-unit", Role: layout.Operator, When: hasFields, May: may, Ask: s.askUnit, Do: s.editUnit},
			{Name: "edit-json", Role: layout.Operator, When: fits, May: may, Ask: s.askJSON, Do: s.editJSON},
			{Name: "reset-member", Role: layout.Operator, Hidden: true, When: isStored, May: may, Ask: askReset, Do: s.reset},
			{Name: "undo-settings", Role: layout.Operator, Danger: true, Hidden: true, May: may, Ask: s.askUndo, Do: s.Undo},
		},
	}
}

// stored reports whether a member has a value of its own, be it that of the default.
func stored(m settings.Member) bool { return m.Origin == settings.FromStorage }

func (s *screens) showUnit(v *layout.Visit) (*web.Console, error) {
	u := shownUnit(v)
	set, rest := s.memberTable("console.unit.set"), s.memberTable("console.unit.rest")
	for _, m := range u.Members {
		t := rest
		if m.Origin != settings.FromDefault || m.Value != m.Standard {
			t = set
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			explainedCell(m.Path), valueCell(m, m.Value),
			valueCell(m, m.Standard), s.originCell(m), resetCell(v, m),
		}})
	}
	out := &web.Console{
		Title: v.Words, Name: u.Name, Up: &web.Up{Label: web.Say("console.settings.title"), URL: layout.Root + settingsPath},
		Actions: v.Buttons(),
	}
	if len(set.Rows) > 0 {
		buttons, err := v.ButtonForm("reset-member", web.Hidden{Name: "tag", Value: u.Tag})
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, web.ConsolePart{ID: "set", Title: web.Say("console.unit.set"), Table: set, Buttons: buttons})
	}
	if len(rest.Rows) > 0 {
		out.Parts = append(out.Parts,
			web.ConsolePart{
				ID: "rest", Title: web.Say("console.unit.rest"), Fold: web.Say("console.unit.rest.fold", "n", len(rest.Rows)),
				Table: rest,
			})
	}
	declared, err := s.declared(v, u.Name)
	if err != nil {
		return nil, err
	}
	if declared != nil {
		out.Parts = append(out.Parts,
			web.ConsolePart{ID: "declared", Title: web.Say("console.unit.declared"), Text: web.Say("console.unit.declared.text"), Table: declared})
	}
	if lines := s.words([]settings.UnitState{*u}); lines != "" {
		out.Parts = append(out.Parts,
			web.ConsolePart{
				ID: "caddyfile", Title: web.Say("console.settings.caddyfile"),
				Text: web.Say("console.settings.caddyfile.text"), Source: lines,
			})
	}
	out.Parts = append(out.Parts,
		web.ConsolePart{
			ID: "json", Title: web.Say("console.policy.json"), Text: web.Say("console.unit.json.text"),
			Source: readable(`{"`+u.Name+`":`+string(u.JSON)+`}`, "  "),
		})
	return out, nil
}

func (s *screens) memberTable(label string) *web.Table {
	return &web.Table{
		Label: web.Say(label),
		Columns: []string{
			"console.column.member", "console.column.value", "console.column.default", "console.field.origin",
			"console.act.reset-member",
		},
	}
}

// resetCell gives a member its default: at once where it is one value, and after a look at a list, whose
// entries are lost.
func resetCell(v *layout.Visit, m settings.Member) web.Cell {
	switch {
	case !stored(m):
		return web.Cell{}
	case isField(m) && !isURLs(m):
		return v.Button("reset-member", "member", m.Path)
	}
	return v.Link("reset-member", "member", m.Path)
}

// within is the path of a member in its unit.
func within(path string) string {
	_, rest, _ := strings.Cut(path, ".")
	if rest == "" {
		return path
	}
	return rest
}

// memberCell is a member in a table, by its label.
func memberCell(path, note string) web.Cell {
	return web.Cell{Text: web.Say(layout.MemberLabel(path)), Name: within(path), Note: note, Quoted: true}
}

// explainedCell is a member in a table, by its label, its name in the API and what it does.
func explainedCell(path string) web.Cell {
	return web.Cell{Text: web.Say(layout.MemberLabel(path)), Name: within(path), Hint: web.Say(layout.MemberHint(path)), Wire: within(path)}
}

// valueCell is a value of a member in a table.
func valueCell(m settings.Member, raw string) web.Cell {
	out := short(raw)
	if kind, _, _ := strings.Cut(m.Check, ","); kind == "enum" && out.Name != "" {
		out.Text, out.Code = web.Say(layout.WordLabel(out.Name)), false
	}
	return out
}

// originCell says where the value of a member comes from.
func (s *screens) originCell(m settings.Member) web.Cell {
	place := ""
	if word := wordOf(m.Path); word != "" && (m.Origin == settings.FromCaddyfile || m.Overrules) {
		place = s.PlaceOf("identity: " + word)
	}
	switch {
	case m.Overrules:
		return web.Cell{Text: web.Say("console.origin.overrules"), Kind: "warn", Note: place}
	case m.Origin == settings.FromStorage:
		return web.Cell{Text: web.Say("console.origin.settings"), Kind: "plain"}
	case m.Origin == settings.FromCaddyfile:
		return web.Cell{Text: web.Say("console.origin.configuration"), Kind: "plain", Note: place}
	}
	return web.Cell{Text: web.Say("console.origin.default")}
}

// wordOf is the word of the Caddyfile that sets a switch, or "".
func wordOf(path string) string {
	for _, w := range alias.Words {
		if slices.Contains(w.Paths, path) {
			return w.Name
		}
	}
	return ""
}

// words are the lines of a Caddyfile that say what is stored, as far as the Caddyfile has words for it.
func (s *screens) words(list []settings.UnitState) string {
	values := map[string]string{}
	for i := range list {
		for _, m := range list[i].Members {
			if m.Switch && m.Origin == settings.FromStorage {
				values[m.Path] = m.Value
			}
		}
	}
	var lines []string
	for _, w := range alias.Words {
		value := values[w.Paths[0]]
		if value == "" || slices.ContainsFunc(w.Paths, func(path string) bool { return values[path] != value }) {
			continue
		}
		lines = append(lines, "\t"+w.Name+" "+map[string]string{"true": "on", "false": "off"}[value])
	}
	if len(lines) == 0 {
		return ""
	}
	return "identity {\n" + strings.Join(lines, "\n") + "\n}"
}

// declared lists what the Caddyfile has of a unit. nil: nothing
func (s *screens) declared(v *layout.Visit, unit string) (*web.Table, error) {
	t := &web.Table{Label: web.Say("console.unit.declared"), Columns: []string{"console.column.name", "console.field.origin"}}
	switch unit {
	case "login_methods":
		u, err := s.Config.Current(v.Context())
		if err != nil {
			return nil, err
		}
		for _, m := range u.LoginMethods.LoginMethods {
			if !m.Removable && m.ID != settings.OwnMethod {
				t.Rows = append(t.Rows, web.TableRow{
					URL:   layout.Root + "/providers/" + url.PathEscape(m.ID),
					Cells: []web.Cell{{Name: m.ID}, {Name: s.PlaceOf("idp " + m.ID), Code: true}},
				})
			}
		}
	case "policies":
		list, err := s.Config.Policies(v.Context())
		if err != nil {
			return nil, err
		}
		for i := range list {
			if p := &list[i]; !p.Stored() {
				t.Rows = append(t.Rows, web.TableRow{
					URL:   layout.Root + "/policies/" + url.PathEscape(p.Name),
					Cells: []web.Cell{{Name: p.Name}, {Name: p.Place, Code: true}},
				})
			}
		}
	}
	if len(t.Rows) == 0 {
		return nil, nil //nolint:nilnil // nothing is declared
	}
	return t, nil
}

// isField reports whether a member has a field of its own in the form: a switch, a number, one of several words, a text
// or a list of addresses. One that does nothing yet has none.
func isField(m settings.Member) bool {
	e, _ := effect.Of(m.Path)
	return isURLs(m) || e.Does != "" && !strings.ContainsAny(m.Value[:1], "[{n")
}

// isURLs reports whether a member is a list of addresses, each of which is a line of its field.
func isURLs(m settings.Member) bool {
	return m.Path == "redirects.url_whitelist" || m.Path == "features.action_token.whitelisted_urls"
}

// urlsOf returns the addresses of such a list.
func urlsOf(raw string) (out []string) {
	var list []settings.WhitelistedURL
	_ = json.Unmarshal([]byte(raw), &list) // as the settings have written it
	for _, w := range list {
		out = append(out, w.URL)
	}
	return out
}

// typedURLs is the list of the addresses in a field. Those that were there keep their ids.
func typedURLs(m settings.Member, text string) string {
	var typed []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			typed = append(typed, line)
		}
	}
	if slices.Equal(typed, urlsOf(m.Value)) {
		return m.Value
	}
	list := []map[string]string{}
	for _, address := range typed {
		list = append(list, map[string]string{"url": address})
	}
	raw, _ := json.Marshal(list) //nolint:errchkjson // texts
	return string(raw)
}

// fieldOf is the field of a member, with its value.
func fieldOf(m settings.Member) web.Field {
	f := web.Field{
		Name: m.Path, Label: layout.MemberLabel(m.Path), Called: within(m.Path), Hint: layout.MemberHint(m.Path), Wire: within(m.Path),
	}
	kind, args, _ := strings.Cut(m.Check, ",")
	switch {
	case isURLs(m):
		f.Type, f.Value = "textarea", strings.Join(urlsOf(m.Value), "\n")
	case m.Switch:
		f.Type, f.Checked = "checkbox", m.Value == "true"
	case kind == "enum":
		f.Type, f.Value = "select", textOf(m.Value)
		words := strings.Split(args, "|")
		if !slices.Contains(words, f.Value) { // not set yet: a browser would send the first word
			words = slices.Insert(words, 0, f.Value)
		}
		for _, word := range words {
			f.Options = append(f.Options, web.Option{Value: word, Label: layout.WordLabel(word)})
		}
	default:
		f.Value = textOf(m.Value)
		if kind == "int" {
			f.InputMode, f.MaxLength, f.Required = "numeric", 12, true
		}
	}
	return f
}

// textOf is a value as it stands in a field.
func textOf(raw string) string {
	var text string
	if json.Unmarshal([]byte(raw), &text) != nil {
		return raw
	}
	return text
}

// typed is the value of a field, as JSON. One that is as its page has shown it is as it was, blanks around it included.
func typed(m settings.Member, in url.Values) string {
	switch value := strings.TrimSpace(in.Get(m.Path)); {
	case isURLs(m):
		return typedURLs(m, value)
	case m.Switch:
		return strconv.FormatBool(in.Has(m.Path))
	case value == strings.TrimSpace(textOf(m.Value)):
		return m.Value
	case strings.HasPrefix(m.Value, `"`):
		raw, err := json.Marshal(value)
		if err != nil {
			return `""`
		}
		return string(raw)
	default:
		if _, err := strconv.Atoi(value); err != nil {
			raw, _ := json.Marshal(value) //nolint:errchkjson // a text: what is wrong with it, the settings say
			return string(raw)
		}
		return value
	}
}

// askUnit asks for the values of a unit. A form that was sent for another version shows what holds now next to what was
// typed.
func (s *screens) askUnit(v *layout.Visit) (layout.Question, error) {
	u := shownUnit(v)
	q := layout.Question{Submit: "console.save", Hidden: []web.Hidden{{Name: "tag", Value: u.Tag}}}
	for _, m := range u.Members {
		if isField(m) {
			q.Fields = append(q.Fields, fieldOf(m))
		}
	}
	if sent := v.PostForm.Get("tag"); sent != "" && sent != u.Tag {
		t := &web.Table{
			Label:   web.Say("console.unit.typed"),
			Columns: []string{"console.column.member", "console.column.now", "console.column.typed"},
		}
		for _, m := range u.Members {
			if isField(m) && typed(m, v.PostForm) != m.Value {
				t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
					memberCell(m.Path, ""), valueCell(m, m.Value),
					valueCell(m, typed(m, v.PostForm)),
				}})
			}
		}
		q.Parts = []web.ConsolePart{{ID: "typed", Title: web.Say("console.unit.typed"), Text: web.Say("console.unit.typed.text"), Table: t}}
	}
	return q, nil
}

// editUnit saves the fields that differ from what holds.
func (s *screens) editUnit(v *layout.Visit, in url.Values) (layout.Result, error) {
	u := shownUnit(v)
	if in.Get("tag") != u.Tag {
		return layout.Result{}, &layout.Problem{Key: "console.settings.moved"}
	}
	members := map[string]any{}
	var first string
	for _, m := range u.Members {
		if !isField(m) {
			continue
		}
		if value := typed(m, in); value != m.Value {
			if wrong := wrongNumber(m, value); wrong != nil {
				return layout.Result{}, wrong
			}
			set(members, strings.Split(within(m.Path), "."), json.RawMessage(value))
			if first == "" {
				first = m.Path
			}
		}
	}
	if first == "" { // saved as it was
		return layout.Result{}, nil
	}
	raw, err := json.Marshal(members)
	if err != nil {
		return layout.Result{}, err
	}
	_, err = s.Config.EditUnit(Write(v), u.Name, u.Tag, raw, false, v.Actor())
	if err != nil {
		return layout.Result{}, Refused(s.blamed(u, err, first), err)
	}
	return s.undoable(v)
}

// askReset shows the change that gives a member its default.
func askReset(v *layout.Visit) (q layout.Question, err error) {
	u := shownUnit(v)
	path, hidden := v.Chosen("member")
	q.Hidden = append(hidden, web.Hidden{Name: "tag", Value: u.Tag})
	for _, m := range u.Members {
		if m.Path == path && m.Value != m.Standard {
			change := settings.Change{Path: path, From: json.RawMessage(m.Value), To: json.RawMessage(m.Standard)}
			q.Parts = []web.ConsolePart{{
				ID: "changes", Title: web.Say("console.settings.changes"), Table: changeTable([]settings.Change{change}),
			}}
		}
	}
	return q, nil
}

// reset gives a member its default.
func (s *screens) reset(v *layout.Visit, in url.Values) (layout.Result, error) {
	u := shownUnit(v)
	path, _ := v.Chosen("member")
	switch {
	case in.Get("tag") != u.Tag:
		return layout.Result{}, &layout.Problem{Key: "console.settings.moved"}
	case !slices.ContainsFunc(u.Members, func(m settings.Member) bool { return m.Path == path && stored(m) }):
		return layout.Result{}, &layout.Problem{Key: "console.problem.gone"}
	}
	if _, err := s.Config.ResetMember(Write(v), u.Name, u.Tag, path, v.Actor()); err != nil {
		return layout.Result{}, Refused("", err)
	}
	return s.undoable(v)
}

// wrongNumber says what is wrong with the value of a number, or nil.
func wrongNumber(m settings.Member, value string) *layout.Problem {
	kind, args, _ := strings.Cut(m.Check, ",")
	if kind != "int" {
		return nil
	}
	low, high, _ := strings.Cut(args, ",")
	least, _ := strconv.Atoi(low)
	most, _ := strconv.Atoi(high)
	if n, err := strconv.Atoi(value); err != nil || n < least || n > most {
		return &layout.Problem{Field: m.Path, Key: "console.problem.number", Fill: []any{"from", least, "to", most}}
	}
	return nil
}

// blamed is the field that an error is about: the one whose path it begins with, or the first that was changed.
func (s *screens) blamed(u *settings.UnitState, err error, first string) string {
	if err == nil {
		return ""
	}
	best := ""
	for _, m := range u.Members {
		if path := within(m.Path); isField(m) && (strings.HasPrefix(err.Error(), path+":") || strings.Contains(err.Error(), " "+path+":")) &&
			len(m.Path) > len(best) {
			best = m.Path
		}
	}
	if best == "" {
		return first
	}
	return best
}

// set sets a member of an object and the objects around it.
func set(members map[string]any, path []string, value json.RawMessage) {
	for len(path) > 1 {
		below, ok := members[path[0]].(map[string]any)
		if !ok {
			below = map[string]any{}
			members[path[0]] = below
		}
		members, path = below, path[1:]
	}
	members[path[0]] = value
}

// askJSON asks for the whole of a unit as JSON. A form that was sent for another version shows how it differs from what
// holds now.
func (s *screens) askJSON(v *layout.Visit) (layout.Question, error) {
	u := shownUnit(v)
	text := readable(string(u.JSON), "  ")
	q := layout.Question{
		Submit: "console.save", Hidden: []web.Hidden{{Name: "tag", Value: u.Tag}},
		Fields: []web.Field{{
			Name: "json", Type: "textarea", Label: "console.policy.json", Hint: "console.unit.json.hint",
			Value: text, Required: true,
		}},
	}
	if sent := v.PostForm.Get("tag"); sent != "" && sent != u.Tag {
		mine, _ := withoutSecrets(unix(v.PostForm.Get("json")))
		if lines := layout.Diff(text, readable(mine, "  ")); len(lines) > 0 {
			q.Parts = []web.ConsolePart{{
				ID: "typed", Title: web.Say("console.unit.typed"), Text: web.Say("console.unit.typed.text"),
				Source: strings.Join(lines, "\n"),
			}}
		}
	}
	return q, nil
}

// editJSON replaces a unit. Secrets that were typed are in no page: where something is wrong, they are typed again.
func (s *screens) editJSON(v *layout.Visit, in url.Values) (layout.Result, error) {
	u, text := shownUnit(v), unix(in.Get("json"))
	clean, had := withoutSecrets(text)
	in.Set("json", clean)
	var err error
	switch {
	case in.Get("tag") != u.Tag:
		err = &layout.Problem{Key: "console.settings.moved"}
	default:
		_, err = s.Config.EditUnit(Write(v), u.Name, u.Tag, []byte(text), true, v.Actor())
		err = Refused("json", err)
	}
	if wrong := layout.ProblemOf(err); wrong != nil && had && len(wrong.Fill) > 0 {
		return layout.Result{}, &layout.Problem{Field: "json", Key: "console.unit.again", Fill: wrong.Fill}
	}
	if err != nil {
		return layout.Result{}, err
	}
	return s.undoable(v)
}
