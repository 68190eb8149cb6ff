// Package settingspages has the screens of the admin console for the configuration units: where a value is set, and how
// it is changed, exported, imported and undone. Units are checked and stored by identity/settings, as for the
// configuration API. Sign-in providers, keys and policies have screens of their own.
package settingspages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	settingsPath = "/settings"
	// maxEdited is the size in bytes of JSON that a form has room for, with what escaping adds.
	maxEdited = 32 << 10
)

// Deps are the dependencies of the screens.
type Deps struct {
	Config *settings.Service
	Store  storage.Store
	// PlaceOf returns the place of an option in the Caddyfile, as file:line, or "".
	PlaceOf func(option string) string
	// Names returns the usernames of persons by their ids.
	Names func(tx storage.Tx, ids []string) (map[string]string, error)
}

type screens struct{ Deps }

// Screens returns the screens, in the order of the navigation.
func Screens(d Deps) []*layout.Screen {
	s := &screens{d}
	return []*layout.Screen{s.settingsScreen(), s.unitScreen()}
}

// settingsScreen is the list of the units, with the acts on all of them.
func (s *screens) settingsScreen() *layout.Screen {
	undoable := func(v *layout.Visit) bool { return v.About.(*overview).last != nil }
	return &layout.Screen{
		Name: "settings", Path: settingsPath, Icon: "gear", Role: layout.Viewer, Find: s.findSettings, Show: s.showSettings,
		Acts: []*layout.Act{
			{Name: "export-settings", Role: layout.Viewer, Quiet: true, Do: s.export},
			{Name: "compare-settings", Role: layout.Viewer, Ask: askFile, Do: s.compare},
			{Name: "import-settings", Role: layout.Operator, Ask: s.askImport, Do: s.importFile},
			{Name: "undo-settings", Role: layout.Operator, Danger: true, When: undoable, Ask: s.askUndo, Do: s.Undo},
		},
	}
}

// overview is all units at one moment.
type overview struct {
	units []settings.UnitState
	tag   string
	last  *settings.LastChange // nil: nothing can be undone
}

func (s *screens) findSettings(v *layout.Visit) (err error) {
	o := &overview{}
	v.About = o
	if o.units, o.tag, err = s.Config.UnitStates(v.Context()); err == nil {
		o.last, err = s.Config.LastChange(v.Context())
	}
	return err
}

func (s *screens) showSettings(v *layout.Visit) (*web.Console, error) {
	o := v.About.(*overview)
	t := &web.Table{
		Label:   web.Say("console.settings.units"),
		Columns: []string{"console.column.unit", "console.column.differs", "console.column.stored", "console.column.caddyfile"},
	}
	for i := range o.units {
		u := &o.units[i]
		var differs, stored, declared int
		for _, m := range u.Members {
			switch m.Origin {
			case settings.FromStorage:
				stored++
			case settings.FromCaddyfile:
				declared++
			}
			if m.Value != m.Standard {
				differs++
			}
		}
		t.Rows = append(t.Rows, web.TableRow{URL: UnitPath(u.Name), Cells: []web.Cell{
			{Text: web.Say("console.unit." + u.Name), Name: u.Name, Note: u.Name}, number(differs), number(stored), number(declared),
		}})
	}
	out := &web.Console{
		Title: web.Say("console.settings.title"), Lead: web.Say("console.settings.text"), Actions: v.Buttons(),
		Parts: []web.ConsolePart{{Table: t}},
	}
	if o.last != nil {
		facts, err := s.lastFacts(v, o.last)
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts,
			web.ConsolePart{ID: "last", Title: web.Say("console.settings.last"), Facts: facts, Table: swapped(o.last.Changes)})
	}
	if lines := s.words(o.units); lines != "" {
		out.Parts = append(out.Parts,
			web.ConsolePart{
				ID: "caddyfile", Title: web.Say("console.settings.caddyfile"),
				Text: web.Say("console.settings.caddyfile.text"), Source: lines,
			})
	}
	return out, nil
}

// number shows a number, or a dash for none.
func number(n int) web.Cell {
	if n == 0 {
		return layout.OrNone("")
	}
	return web.Cell{Name: strconv.Itoa(n)}
}

// lastFacts say who made the last change, and when.
func (d Deps) lastFacts(v *layout.Visit, last *settings.LastChange) ([]web.ConsoleFact, error) {
	var names map[string]string
	err := d.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		names, err = d.Names(tx, []string{last.Actor})
		return err
	})
	who := web.Cell{Name: last.Actor, Code: true}
	if name := names[last.Actor]; name != "" {
		who = web.Cell{Name: name, URL: layout.Root + "/persons/" + url.PathEscape(last.Actor)}
	}
	return []web.ConsoleFact{
		{Label: "console.column.by", Cells: []web.Cell{who}},
		{Label: "console.column.time", Cells: []web.Cell{{Text: web.Say("console.time", "time", last.At)}}},
	}, err
}

// swapped lists a change, given the change that would undo it.
func swapped(undo []settings.Change) *web.Table {
	out := slices.Clone(undo)
	for i := range out {
		out[i].From, out[i].To = out[i].To, out[i].From
	}
	return changeTable(out)
}

// changeTable lists changes, with a row for each member.
func changeTable(list []settings.Change) *web.Table {
	t := &web.Table{
		Label:   web.Say("console.settings.changes"),
		Columns: []string{"console.column.member", "console.column.before", "console.column.after"},
	}
	for _, c := range list {
		if bytes.Equal(c.From, c.To) { // only secrets differ
			t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
				memberCell(c.Path, "`"+c.Path+"`"), layout.OrNone(""),
				{Text: web.Say("console.settings.secret")},
			}})
			continue
		}
		for _, d := range differences(c.Path, decoded(c.From), decoded(c.To)) {
			t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{memberCell(d.path, "`"+d.path+"`"), shown(d.from), shown(d.to)}})
		}
	}
	return t
}

// maxShown is the maximum number of characters of a value in a table.
const maxShown = 300

// short is a JSON value in a table.
func short(raw string) web.Cell { return shown(decoded([]byte(raw))) }

// decoded returns a JSON value. Numbers stay as they are written.
func decoded(raw []byte) (value any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return nil
	}
	return value
}

// shown is a value in a table.
func shown(value any) web.Cell {
	var text string
	switch v := value.(type) {
	case nil:
	case bool:
		return web.Cell{Text: web.Say("console.value." + strconv.FormatBool(v))}
	case string:
		text = v
	default:
		if empty(value) {
			return layout.OrNone("")
		}
		if words := texts(value); words != nil {
			text = strings.Join(words, "\n")
			break
		}
		if entries := summaries(value); entries != nil {
			text = strings.Join(entries, ", ")
			break
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return layout.OrNone("")
		}
		text = readable(string(raw), "")
	}
	if text == "" {
		return layout.OrNone("")
	}
	if r := []rune(text); len(r) > maxShown {
		text = string(r[:maxShown]) + "…"
	}
	return web.Cell{Name: text, Code: true}
}

// readable is JSON for people: indented, and without escapes that only HTML needs.
func readable(raw, indent string) string {
	var b bytes.Buffer
	var value any
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	if d.Decode(&value) != nil {
		return raw
	}
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if e.Encode(value) != nil {
		return raw
	}
	return strings.TrimSpace(b.String())
}

// Write returns the context for writes by the visitor: they must still have the role at that moment.
func Write(v *layout.Visit) context.Context { return v.Writing() }

// Refused returns an error about settings as the problem of a field, and other errors unchanged.
func Refused(field string, err error) error {
	switch e := new(jsonapi.Error); {
	case errors.As(err, &e) && e.Status == http.StatusPreconditionFailed:
		return &layout.Problem{Key: "console.settings.moved"}
	case e.Status > 0 && e.Status < 500:
		return layout.SettingProblem(field, e)
	}
	return err
}

// secretMember matches a member of a text, JSON or nearly, whose value is a secret or a private key.
var secretMember = regexp.MustCompile(`("(?:client_secret|password|private_key)"\s*:\s*)"(?:[^"\\\n]|\\.)+"?`)

// withoutSecrets returns a text with the secrets of login methods and the private keys in it emptied, for a form that
// is shown again.
func withoutSecrets(text string) (out string, had bool) {
	out = secretMember.ReplaceAllString(text, `$1""`)
	if strings.Contains(out, "PRIVATE KEY") { // in an unknown member
		return "", true
	}
	return out, out != text
}

// export downloads the settings as the command config export prints them.
func (s *screens) export(v *layout.Visit, _ url.Values) (layout.Result, error) {
	raw, err := s.Config.Export(v.Context())
	if err != nil {
		return layout.Result{}, err
	}
	return layout.Result{File: &layout.File{Name: "gatehouse-settings.json", Type: "application/json", Write: func(w io.Writer) error {
		_, err := io.WriteString(w, readable(string(raw), "  ")+"\n")
		return err
	}}}, nil
}

func fileField() web.Field {
	return web.Field{Name: "json", Type: "textarea", Label: "console.settings.file", Hint: "console.settings.file.hint", Required: true}
}

func askFile(*layout.Visit) (layout.Question, error) {
	return layout.Question{Fields: []web.Field{fileField()}}, nil
}

// diff returns what an import of the form's JSON would change. JSON with secrets is refused, and they are taken out of
// the form, which is shown again.
func (s *screens) diff(v *layout.Visit, in url.Values) ([]settings.Change, error) {
	if clean, had := withoutSecrets(in.Get("json")); had {
		in.Set("json", clean)
		return nil, &layout.Problem{Field: "json", Key: "console.settings.secrets"}
	}
	list, err := s.Config.Diff(v.Context(), []byte(in.Get("json")))
	return list, Refused("json", err)
}

// compare shows how the settings differ from a file.
func (s *screens) compare(v *layout.Visit, in url.Values) (layout.Result, error) {
	list, err := s.diff(v, in)
	if err != nil {
		return layout.Result{}, err
	}
	out := &web.Console{
		Title: web.Say("console.act.compare-settings.title"), Up: v.Up(),
		Lead: web.Say("console.settings.differs", "n", len(list)),
	}
	if len(list) == 0 {
		out.Lead, out.Done = web.Text{}, web.Say("console.settings.same")
	} else {
		out.Parts = []web.ConsolePart{{ID: "changes", Title: web.Say("console.settings.changes"), Table: changeTable(list)}}
	}
	return layout.Result{Page: out}, nil
}

// askImport asks for a file. Once it has been sent, the page shows what would change, and the form has the entity tag
// of the settings that it was compared with.
func (s *screens) askImport(v *layout.Visit) (layout.Question, error) {
	q := layout.Question{Submit: "console.settings.look", Fields: []web.Field{fileField()}}
	if v.PostForm.Get("json") == "" {
		return q, nil
	}
	list, err := s.diff(v, v.PostForm)
	if len(list) == 0 || err != nil {
		return q, nil //nolint:nilerr // the act has reported it
	}
	q.Submit = ""
	q.Hidden = []web.Hidden{{Name: "tag", Value: v.About.(*overview).tag}, {Name: "seen", Value: printOf(v.PostForm)}}
	q.Parts = []web.ConsolePart{{ID: "changes", Title: web.Say("console.settings.changes"), Table: changeTable(list)}}
	q.Fields = append(q.Fields, web.Field{Name: "confirm", Type: "checkbox", Label: "console.policy.confirm"})
	return q, nil
}

// unix returns a text with Unix line ends. Forms send CRLF.
func unix(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// printOf returns a hash of the text in a form, for comparison.
func printOf(in url.Values) string {
	sum := sha256.Sum256([]byte(unix(in.Get("json"))))
	return hex.EncodeToString(sum[:])
}

// importFile shows what a file would change, and applies it once the person has confirmed that.
func (s *screens) importFile(v *layout.Visit, in url.Values) (layout.Result, error) {
	list, err := s.diff(v, in)
	if err != nil {
		return layout.Result{}, err
	}
	switch {
	case len(list) == 0:
		return layout.Result{}, &layout.Problem{Field: "json", Key: "console.settings.same"}
	case in.Get("seen") != printOf(in):
		q, err := s.askImport(v)
		return layout.Result{Ask: &q}, err
	case !in.Has("confirm"):
		return layout.Result{}, &layout.Problem{Field: "confirm", Key: "console.policy.look"}
	}
	if err := s.Config.ImportAt(Write(v), []byte(in.Get("json")), in.Get("tag"), v.Actor()); err != nil {
		return layout.Result{}, Refused("json", err)
	}
	return s.undoable(v)
}

// undoable returns the result of a change of the settings, which the act undo-settings undoes. A form that was saved
// unchanged has nothing to undo: the last change is older than the visit.
func (s *screens) undoable(v *layout.Visit) (out layout.Result, err error) {
	last, err := s.Config.LastChange(v.Context())
	if last != nil && last.Actor == v.Me() && !last.At.Before(v.Now) {
		out.Undo = &layout.Undo{Act: "undo-settings", Values: url.Values{"change": {strconv.FormatUint(last.ID, 10)}}}
	}
	return out, err
}

// askUndo shows the change that would be undone, and who made it.
func (s *screens) askUndo(v *layout.Visit) (layout.Question, error) {
	last, err := s.Config.LastChange(v.Context())
	if err != nil {
		return layout.Question{}, err
	}
	return s.AskUndo(v, last)
}

// AskUndo shows the change that would be undone, and who made it. nil: nothing can be undone
func (d Deps) AskUndo(v *layout.Visit, last *settings.LastChange) (q layout.Question, err error) {
	if last == nil {
		q.Parts = []web.ConsolePart{{Empty: &web.Empty{Text: web.Say("console.settings.nothing")}}}
		return q, nil
	}
	q.Hidden = []web.Hidden{{Name: "change", Value: strconv.FormatUint(last.ID, 10)}}
	q.Parts = []web.ConsolePart{{ID: "changes", Title: web.Say("console.settings.changes"), Table: changeTable(last.Changes)}}
	q.Facts, err = d.lastFacts(v, last)
	return q, err
}

// Undo undoes the change that the form of AskUndo has shown.
func (d Deps) Undo(v *layout.Visit, in url.Values) (layout.Result, error) {
	id, err := strconv.ParseUint(in.Get("change"), 10, 64)
	if err != nil {
		return layout.Result{}, &layout.Problem{Key: "console.settings.nothing"}
	}
	_, err = d.Config.Undo(Write(v), id, v.Actor())
	return layout.Result{}, Refused("", err)
}

// UnitPath returns the address of the page of a unit.
func UnitPath(name string) string { return layout.Root + settingsPath + "/" + url.PathEscape(name) }

// shownUnit is the unit that the screen is about.
func shownUnit(v *layout.Visit) *settings.UnitState { return v.About.(*settings.UnitState) }

func (s *screens) findUnit(v *layout.Visit) error {
	list, _, err := s.Config.UnitStates(v.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(u settings.UnitState) bool { return u.Name == v.PathValue("id") })
	if i < 0 {
		return webflow.NotFound()
	}
	v.About, v.Called, v.Words = &list[i], list[i].Name, web.Say("console.unit."+list[i].Name)
	return nil
}
