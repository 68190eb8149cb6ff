package settingspages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/members"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/settings/wire"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/alias"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// unitScreen is the page of one unit: its members with their origins, and the same as JSON.
func (s *screens) unitScreen() *layout.Screen {
	hasFields := func(v *layout.Visit) (has bool) {
		return entryOf(v, valueOf(shownUnit(v)), func(f *members.Form, of reflect.Value) { has = len(f.Fields(of)) > 0 }) && has
	}
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

// stored reports whether a member has a stored value, even if that is the default.
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

// resetCell resets a member to its default: immediately if it is a single value, and after a confirmation if it is a
// list, whose entries are lost.
func resetCell(v *layout.Visit, m settings.Member) web.Cell {
	switch {
	case !stored(m):
		return web.Cell{}
	case !strings.ContainsAny(m.Value[:1], "[{"):
		return v.Button("reset-member", "member", m.Path)
	}
	return v.Link("reset-member", "member", m.Path)
}

// within returns the path of a member in its unit.
func within(path string) string {
	_, rest, _ := strings.Cut(path, ".")
	if rest == "" {
		return path
	}
	return rest
}

// memberCell shows a member by its label.
func memberCell(path, note string) web.Cell {
	return web.Cell{Text: web.Say(layout.MemberLabel(path)), Name: within(path), Note: note, Quoted: true}
}

// explainedCell shows a member by its label, its name in the API and an explanation.
func explainedCell(path string) web.Cell {
	return web.Cell{Text: web.Say(layout.MemberLabel(path)), Name: within(path), Hint: web.Say(layout.MemberHint(path)), Wire: within(path)}
}

// valueCell shows a value of a member.
func valueCell(m settings.Member, raw string) web.Cell {
	out := short(raw)
	if kind, _, _ := strings.Cut(m.Check, ","); kind == "enum" && out.Name != "" {
		out.Text, out.Code = web.Say(layout.WordLabel(out.Name)), false
	}
	return out
}

// originCell shows where the value of a member comes from.
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

// wordOf returns the option of the Caddyfile that sets a switch, or "".
func wordOf(path string) string {
	for _, w := range alias.Words {
		if slices.Contains(w.Paths, path) {
			return w.Name
		}
	}
	return ""
}

// words returns the stored switches as lines of a Caddyfile, as far as it has options for them.
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

// declared lists the entries of a unit in the Caddyfile. nil: there are none
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

// ownScreens are the paths of the screens that change some members.
var ownScreens = map[string]string{
	"login_methods.login_methods": "/providers", "policies": "/policies",
	"custom_messages.default": "/messages", "custom_messages.locales": "/messages", "messages": "/messages",
}

// valueOf returns a unit as a value of its type.
func valueOf(u *settings.UnitState) reflect.Value {
	all := reflect.New(reflect.TypeFor[settings.Units]()).Elem()
	for one := range wire.Fields(all.Type()) {
		if one.Name == u.Name {
			v := all.Field(one.Index)
			_ = json.Unmarshal(u.JSON, v.Addr().Interface()) // written by the settings
			return v
		}
	}
	return all
}

// entryOf calls do with the form of the unit, or of its entry that the page is about, and with the value that the form
// changes.
func entryOf(v *layout.Visit, unit reflect.Value, do func(f *members.Form, of reflect.Value)) bool {
	place, _ := v.Chosen("at")
	f := &members.Form{Open: v.Path() + "/edit-unit?at=", Skip: func(path string) bool { return ownScreens[path] != "" }}
	if v.Method == http.MethodPost {
		f.In = v.PostForm
	}
	return members.Entry(unit, place, shownUnit(v).Name, "", func(of reflect.Value, path, at string) {
		f.Path, f.At, f.Name = path, at, "entry"
		if place == "" {
			f.Name = path
		}
		do(f, of)
	})
}

// askUnit asks for the values of a unit, or of one of its entries. A form that was sent for another version shows the
// current values next to the typed ones.
func (s *screens) askUnit(v *layout.Visit) (q layout.Question, err error) {
	u := shownUnit(v)
	q = layout.Question{Submit: "console.save", Hidden: []web.Hidden{{Name: "tag", Value: u.Tag}}}
	if place, at := v.Chosen("at"); place != "" {
		q.Hidden = append(q.Hidden, at...)
	}
	if !entryOf(v, valueOf(u), func(f *members.Form, of reflect.Value) {
		if f.At != "" {
			q.Name = members.Called(of)
		}
		sent := v.PostForm.Get("tag")
		q.Fields, q.Parts = f.Again(of, sent != "" && sent != u.Tag)
		grouped(u, q.Fields)
	}) {
		return q, webflow.NotFound()
	}
	return q, nil
}

// editUnit saves the fields that differ from the current values. The buttons of its rows show the form again.
func (s *screens) editUnit(v *layout.Visit, in url.Values) (layout.Result, error) {
	u := shownUnit(v)
	if in.Get("tag") != u.Tag {
		return layout.Result{}, &layout.Problem{Key: "console.settings.moved"}
	}
	if members.Pressed(in) {
		q, err := s.askUnit(v)
		return layout.Result{Ask: &q}, err
	}
	next, refused := valueOf(u), func(err error) error { return err }
	var wrong *layout.Problem
	if !entryOf(v, next, func(f *members.Form, of reflect.Value) {
		wrong = f.Read(of)
		refused = func(err error) error { return f.Refused(of, err) }
	}) {
		return layout.Result{}, webflow.NotFound()
	}
	if wrong != nil {
		return layout.Result{}, wrong
	}
	changed := members.Changed(valueOf(u), next)
	if changed == nil { // saved as it was
		return layout.Result{}, nil
	}
	raw, err := json.Marshal(changed)
	if err != nil {
		return layout.Result{}, err
	}
	if _, err = s.Config.EditUnit(Write(v), u.Name, u.Tag, raw, next.Kind() != reflect.Struct, v.Actor()); err != nil {
		return layout.Result{}, refused(err)
	}
	return s.undoable(v)
}

// askReset shows the change that resets a member to its default.
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

// reset resets a member to its default.
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

// askJSON asks for the whole of a unit as JSON. A form that was sent for another version shows how it differs from the
// current value.
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

// editJSON replaces a unit. Typed secrets are never shown again: after an error they have to be typed again.
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
