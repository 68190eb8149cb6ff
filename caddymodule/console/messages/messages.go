// Package messages is the part of the admin console about what people read: the texts of pages, e-mails and text
// messages in each language, what they look like, the brand, and which messages are not sent yet. Texts are stored in
// the unit custom_messages, which belongs to identity/config; how pages look is internal/page's, how mail does
// identity/notify's. What all pages of the console have in common is in the package frame.
package messages

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/settings"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const messagesPath = "/messages"

// Deps is what the screens work with.
type Deps struct {
	settings.Deps

	// Mail and SMS say how e-mails and text messages look.
	Mail notify.MailConfig
	SMS  notify.SMSConfig
	// Sender sends e-mails. nil: none are sent
	Sender   notify.Sender
	Recorder *event.Recorder
	// Manage has the messages that are not handed over.
	Manage *manage.Service
}

// texts makes the screens.
type texts struct {
	Deps

	frame    *frame.Frame
	identity *identity.Service
	pages    *page.Renderer

	uses func() map[string][]string // ids of samples by the keys that they show
}

// Screens returns the screens, in the order of the navigation.
func Screens(f *frame.Frame, d Deps) []*frame.Screen {
	t := &texts{Deps: d, frame: f, identity: f.Identity, pages: f.Pages}
	t.uses = sync.OnceValue(t.findUses)
	return []*frame.Screen{t.messagesScreen(), t.textScreen(), t.previewsScreen(), t.previewScreen(), t.documentScreen(), t.brandScreen(), t.queueScreen()}
}

// areas are the parts that texts belong to, by the beginnings of their keys. All others are of pages.
var areas = []struct{ name, begins string }{{"mail", "mail."}, {"sms", "sms."}, {"error", "error."}, {"problem", "problem."}, {"console", "console."}, {"activity", "activity."}, {"page", ""}}

// areaOf is the part that a text belongs to.
func areaOf(key string) string {
	i := slices.IndexFunc(areas, func(a struct{ name, begins string }) bool { return strings.HasPrefix(key, a.begins) })
	return areas[i].name
}

// messagesScreen is the list of all texts in one language.
func (t *texts) messagesScreen() *frame.Screen {
	return &frame.Screen{
		Name: "messages", Path: messagesPath, Icon: "pencil", Role: frame.Viewer, Find: t.findLast, Show: t.showMessages,
		Acts: []*frame.Act{{
			Name: "undo-messages", Role: frame.Operator, Danger: true, When: func(v *frame.Visit) bool { return v.About.(*config.LastChange) != nil },
			Ask: func(v *frame.Visit) (frame.Question, error) { return t.AskUndo(v, v.About.(*config.LastChange)) }, Do: t.Undo,
		}},
	}
}

// findLast reads the last change of the settings, if it was one of texts alone.
func (t *texts) findLast(v *frame.Visit) error {
	last, err := t.Config.LastChange(v.Context())
	if last != nil && slices.ContainsFunc(last.Changes, func(c config.Change) bool { return !strings.HasPrefix(c.Path, "custom_messages.") }) {
		last = nil
	}
	v.About = last
	return err
}

// locale is the language that the address asks for, or the first.
func (t *texts) locale(v *frame.Visit) string {
	list := t.pages.Spoken(v.Context())
	for _, l := range list {
		if l.Locale == v.URL.Query().Get("locale") {
			return l.Locale
		}
	}
	return list[0].Locale
}

// localeField chooses one of the languages.
func (t *texts) localeField(ctx context.Context, now string) page.Field {
	f := page.Field{Name: "locale", Type: "select", Label: "console.field.locale", Value: now}
	for _, l := range t.pages.Spoken(ctx) {
		f.Options = append(f.Options, page.Option{Value: l.Locale, Label: l.Name})
	}
	return f
}

// filter is what the address of the list says.
type filter struct{ q, locale, area, state string }

func (t *texts) filter(v *frame.Visit) filter {
	q := v.URL.Query()
	return filter{strings.TrimSpace(q.Get("q")), t.locale(v), q.Get("area"), q.Get("state")}
}

// selects tells whether a text belongs to the list.
func (f filter) selects(w page.Wording) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(f.q)) }
	return (f.area == "" || areaOf(w.Key) == f.area) && (f.state != "changed" || w.Source != nil) && (f.q == "" || has(w.Key) || has(w.Text) || has(w.BuiltIn))
}

func (t *texts) showMessages(v *frame.Visit) (*page.Console, error) {
	f, after := t.filter(v), v.URL.Query().Get("after")
	table := &page.Table{Label: page.Say("console.messages.texts"), Columns: []string{"console.column.text", "console.column.state", "console.column.used"}}
	found, last, next := 0, "", ""
	for _, w := range t.pages.Wordings(v.Context(), f.locale) {
		if !f.selects(w) {
			continue
		}
		if found++; w.Key <= after {
			continue
		}
		if len(table.Rows) == frame.Rows {
			next = last
			continue
		}
		last = w.Key
		table.Rows = append(table.Rows, page.TableRow{URL: textPath(w.Key) + "?" + url.Values{"locale": {f.locale}}.Encode(), Cells: []page.Cell{textCell(w), t.stateCell(w), t.usedCell(w.Key)}})
	}
	out := &page.Console{
		Title: page.Say("console.messages.title"), Lead: page.Say("console.messages.text"), Actions: v.Buttons(), Cards: cards(), Filter: t.messageFilter(v, f),
		Parts: []page.ConsolePart{{ID: "texts", Title: page.Say("console.messages.texts"), Text: page.Say("console.messages.found", "n", found), Table: table}},
	}
	table.First, table.Next = v.Pages(next)
	if len(table.Rows) == 0 {
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none"), Next: &page.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// cards lead to the previews and the brand.
func cards() []page.Card {
	return []page.Card{
		{Icon: "device", Title: "console.previews.title", URL: frame.Root + previewsPath, Text: page.Say("console.previews.card")},
		{Icon: "mail", Title: "console.previews.mails", URL: frame.Root + previewsPath + "?group=mail", Text: page.Say("console.previews.mails.card")},
		{Icon: "app", Title: "console.brand.title", URL: frame.Root + brandPath, Text: page.Say("console.brand.card")},
		{Icon: "clock", Title: "console.queue.title", URL: frame.Root + queuePath, Text: page.Say("console.queue.card")},
	}
}

func (t *texts) messageFilter(v *frame.Visit, f filter) *page.Filter {
	area := page.Field{Name: "area", Type: "select", Label: "console.field.area", Value: f.area, Options: []page.Option{{Label: "console.area.all"}}}
	for _, a := range areas {
		area.Options = append(area.Options, page.Option{Value: a.name, Label: "console.area." + a.name})
	}
	out := &page.Filter{Action: v.Path(), Fields: []page.Field{
		{Name: "q", Type: "search", Label: "console.field.search", Hint: "console.messages.search", Value: f.q},
		t.localeField(v.Context(), f.locale), area,
		{Name: "state", Type: "select", Label: "console.field.state", Value: f.state, Options: []page.Option{{Label: "console.text.all"}, {Value: "changed", Label: "console.text.changed"}}},
	}}
	if f.q != "" || f.area != "" || f.state != "" {
		out.Clear = v.Path() + "?" + url.Values{"locale": {f.locale}}.Encode()
	}
	return out
}

// maxListed is how many characters of a text the list shows.
const maxListed = 160

func short(text string) string {
	if r := []rune(text); len(r) > maxListed {
		return string(r[:maxListed]) + "…"
	}
	return text
}

// textCell is a text in a list, with its key.
func textCell(w page.Wording) page.Cell {
	return page.Cell{Name: short(cmp.Or(w.Text, "—")), Note: w.Key}
}

// stateCell says where a text comes from, and what it replaces. (config.Overrides, page.Source)
func (t *texts) stateCell(w page.Wording) page.Cell {
	out := page.Cell{Kind: "plain"}
	switch {
	case w.Source == nil:
		return page.Cell{Text: page.Say("console.origin.builtin")}
	case w.Source.Layer == 0 && w.Source.Locale == "":
		out.Text = page.Say("console.text.every")
	case w.Source.Layer == 0:
		out.Text = page.Say("console.text.changed")
	case w.Source.Layer == 1:
		out.Text = page.Say("console.text.unit")
	default:
		out.Text, out.Note = page.Say("console.text.directory"), t.PlaceOf("identity: extension")
	}
	if w.BuiltIn != "" && out.Note == "" {
		out.Hint = page.Say("console.text.instead", "text", short(w.BuiltIn))
	}
	return out
}

// usedCell says where a text is seen first.
func (t *texts) usedCell(key string) page.Cell {
	if ids := t.usesOf(key); len(ids) > 0 {
		return page.Cell{Name: ids[0], URL: previewPath(ids[0])}
	}
	return page.Cell{Text: page.Say("console.area." + areaOf(key))}
}
