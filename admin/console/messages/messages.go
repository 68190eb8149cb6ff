// Package messages has the screens of the admin console for what people read: the texts of pages, e-mails and text
// messages in each language, the brand, and the queue of messages that are not sent yet. Changed texts are stored in
// the configuration unit custom_messages (identity/settings).
package messages

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/settingspages"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const messagesPath = "/messages"

// Deps are the dependencies of the screens.
type Deps struct {
	settingspages.Deps

	// Mail and SMS say how e-mails and text messages look.
	Mail notify.MailConfig
	SMS  notify.SMSConfig
	// Sender sends e-mails. nil: none are sent
	Sender   notify.Sender
	Recorder *audit.Recorder
	// Manage has the messages that are not handed over.
	Manage *admin.Service
}

// texts makes the screens.
type texts struct {
	Deps

	frame    *layout.Frame
	identity *identity.Service
	pages    *web.Renderer

	uses func() map[string][]string // ids of samples by the keys that they show
}

// Screens returns the screens, in the order of the navigation.
func Screens(f *layout.Frame, d Deps) []*layout.Screen {
	t := &texts{Deps: d, frame: f, identity: f.Identity, pages: f.Pages}
	t.uses = sync.OnceValue(t.findUses)
	return []*layout.Screen{
		t.messagesScreen(), t.textScreen(), t.previewsScreen(), t.previewScreen(), t.documentScreen(),
		t.brandScreen(), t.queueScreen(),
	}
}

// areas are the parts that texts belong to, by the beginnings of their keys. All others are of pages.
var areas = []struct{ name, begins string }{
	{"mail", "mail."},
	{"sms", "sms."},
	{"error", "error."},
	{"problem", "problem."},
	{"console", "console."},
	{"activity", "activity."},
	{"page", ""},
}

// areaOf is the part that a text belongs to.
func areaOf(key string) string {
	i := slices.IndexFunc(areas, func(a struct{ name, begins string }) bool { return strings.HasPrefix(key, a.begins) })
	return areas[i].name
}

// messagesScreen is the list of all texts in one language.
func (t *texts) messagesScreen() *layout.Screen {
	return &layout.Screen{
		Name: "messages", Path: messagesPath, Icon: "pencil", Role: layout.Viewer, Find: t.findLast, Show: t.showMessages,
		Acts: []*layout.Act{{
			Name: "undo-messages", Role: layout.Operator, Danger: true,
			When: func(v *layout.Visit) bool { return v.About.(*settings.LastChange) != nil },
			Ask:  func(v *layout.Visit) (layout.Question, error) { return t.AskUndo(v, v.About.(*settings.LastChange)) }, Do: t.Undo,
		}},
	}
}

// findLast reads the last change of the settings, if it was one of texts alone.
func (t *texts) findLast(v *layout.Visit) error {
	last, err := t.Config.LastChange(v.Context())
	if last != nil && slices.ContainsFunc(last.Changes,
		func(c settings.Change) bool { return !strings.HasPrefix(c.Path, "custom_messages.") }) {
		last = nil
	}
	v.About = last
	return err
}

// locale is the language that the address asks for, or the first.
func (t *texts) locale(v *layout.Visit) string {
	list := t.pages.Spoken(v.Context())
	spoken := t.pages.Lang(v.Request.Request, v.SignIn.Locales(), "") // that of the console
	for _, locale := range []string{v.URL.Query().Get("locale"), spoken} {
		for _, l := range list {
			if l.Locale == locale {
				return locale
			}
		}
	}
	return list[0].Locale
}

// localeField chooses one of the languages.
func (t *texts) localeField(ctx context.Context, now string) web.Field {
	f := web.Field{Name: "locale", Type: "select", Label: "console.field.locale", Value: now}
	for _, l := range t.pages.Spoken(ctx) {
		f.Options = append(f.Options, web.Option{Value: l.Locale, Label: l.Name})
	}
	return f
}

// filter is the filter in the address of the list.
type filter struct{ q, locale, area, state string }

func (t *texts) filter(v *layout.Visit) filter {
	q := v.URL.Query()
	return filter{strings.TrimSpace(q.Get("q")), t.locale(v), q.Get("area"), q.Get("state")}
}

// selects reports whether a text belongs to the list.
func (f filter) selects(w web.Wording) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(f.q)) }
	return (f.area == "" || areaOf(w.Key) == f.area) && (f.state != "changed" || w.Source != nil) &&
		(f.q == "" || has(w.Key) || has(w.Text) || has(w.BuiltIn))
}

func (t *texts) showMessages(v *layout.Visit) (*web.Console, error) {
	f, after := t.filter(v), v.URL.Query().Get("after")
	table := &web.Table{
		Label:   web.Say("console.messages.texts"),
		Columns: []string{"console.column.text", "console.column.state", "console.column.used"},
	}
	found, last, next := 0, "", ""
	for _, w := range t.pages.Wordings(v.Context(), f.locale) {
		if !f.selects(w) {
			continue
		}
		if found++; w.Key <= after {
			continue
		}
		if len(table.Rows) == layout.Rows {
			next = last
			continue
		}
		last = w.Key
		table.Rows = append(table.Rows,
			web.TableRow{
				URL:   textPath(w.Key) + "?" + url.Values{"locale": {f.locale}}.Encode(),
				Cells: []web.Cell{textCell(w), t.stateCell(w), t.usedCell(w.Key)},
			})
	}
	out := &web.Console{
		Title: web.Say("console.messages.title"), Lead: web.Say("console.messages.text"), Actions: v.Buttons(), Cards: cards(),
		Filter: t.messageFilter(v, f),
		Parts: []web.ConsolePart{{
			ID: "texts", Title: web.Say("console.messages.texts"),
			Text: web.Say("console.messages.found", "n", found), Table: table,
		}},
	}
	table.First, table.Next = v.Pages(next)
	if len(table.Rows) == 0 {
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// cards lead to the previews and the brand.
func cards() []web.Card {
	return []web.Card{
		{Icon: "device", Title: "console.previews.title", URL: layout.Root + previewsPath, Text: web.Say("console.previews.card")},
		{
			Icon: "mail", Title: "console.previews.mails", URL: layout.Root + previewsPath + "?group=mail",
			Text: web.Say("console.previews.mails.card"),
		},
		{Icon: "app", Title: "console.brand.title", URL: layout.Root + brandPath, Text: web.Say("console.brand.card")},
	}
}

func (t *texts) messageFilter(v *layout.Visit, f filter) *web.Filter {
	area := web.Field{
		Name: "area", Type: "select", Label: "console.field.area", Value: f.area,
		Options: []web.Option{{Label: "console.area.all"}},
	}
	for _, a := range areas {
		area.Options = append(area.Options, web.Option{Value: a.name, Label: "console.area." + a.name})
	}
	out := &web.Filter{Action: v.Path(), Fields: []web.Field{
		{Name: "q", Type: "search", Label: "console.field.search", Hint: "console.messages.search", Value: f.q},
		t.localeField(v.Context(), f.locale), area,
		{
			Name: "state", Type: "select", Label: "console.field.state", Value: f.state,
			Options: []web.Option{{Label: "console.text.all"}, {Value: "changed", Label: "console.text.changed"}},
		},
	}}
	if f.q != "" || f.area != "" || f.state != "" {
		out.Clear = v.Path() + "?" + url.Values{"locale": {f.locale}}.Encode()
	}
	return out
}

// maxListed is the number of characters of a text in the list.
const maxListed = 160

func short(text string) string {
	if r := []rune(text); len(r) > maxListed {
		return string(r[:maxListed]) + "…"
	}
	return text
}

// textCell is a text in a list, with its key.
func textCell(w web.Wording) web.Cell {
	return web.Cell{Name: short(cmp.Or(w.Text, "—")), Note: w.Key}
}

// stateCell says where a text comes from, and what it replaces. (settings.Overrides, web.Source)
func (t *texts) stateCell(w web.Wording) web.Cell {
	out := web.Cell{Kind: "plain"}
	switch {
	case w.Source == nil:
		return web.Cell{Text: web.Say("console.origin.builtin")}
	case w.Source.Layer == 0 && w.Source.Locale == "":
		out.Text = web.Say("console.text.every")
	case w.Source.Layer == 0:
		out.Text = web.Say("console.text.changed")
	case w.Source.Layer == 1:
		out.Text = web.Say("console.text.unit")
	default:
		out.Text, out.Note = web.Say("console.text.directory"), t.PlaceOf("identity: extension")
	}
	if w.BuiltIn != "" && out.Note == "" {
		out.Hint = web.Say("console.text.instead", "text", short(w.BuiltIn))
	}
	return out
}

// usedCell says where a text is seen first.
func (t *texts) usedCell(key string) web.Cell {
	if ids := t.usesOf(key); len(ids) > 0 {
		return web.Cell{Name: ids[0], URL: previewPath(ids[0])}
	}
	return web.Cell{Text: web.Say("console.area." + areaOf(key))}
}
