package console

import (
	"cmp"
	"errors"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/sheet"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	liveSeconds = 5 // after which the live page of events is loaded again
	dayForm     = "2006-01-02"
)

// eventsScreen is the list of events, newest first.
func (c *Console) eventsScreen() *frame.Screen {
	return &frame.Screen{Name: "events", Path: "/events", Icon: "clock", Role: frame.Viewer, Show: c.showEvents}
}

// eventsFileScreen is the same as a file.
func (c *Console) eventsFileScreen() *frame.Screen {
	return &frame.Screen{Name: "events", Path: "/events.csv", Role: frame.Viewer, Show: c.sendEvents}
}

// eventTable lists events. names are those of persons by their ids. whom adds the subject of each event.
func (c *Console) eventTable(list []event.Numbered, names map[string]string, whom bool) *page.Table {
	t := &page.Table{Label: page.Say("console.events.title"), Columns: []string{"console.column.event", "console.column.time", "console.column.person", "console.column.by", "console.column.from"}}
	if !whom {
		t.Columns = []string{"console.column.event", "console.column.time", "console.column.by", "console.column.from"}
	}
	for _, e := range list {
		row := page.TableRow{URL: eventPath(&e), Cells: []page.Cell{{Text: kindText(e.Type), Name: e.Name, Note: e.Reason}, {Text: page.Say("console.time", "time", e.Occurred)}}}
		if whom {
			row.Cells = append(row.Cells, subjectCell(names, &e.Event))
		}
		row.Cells = append(row.Cells, actorCell(names, &e.Event), page.Cell{Name: e.ClientIP, URL: eventsOf("address", e.ClientIP), Note: e.Ref})
		if e.Ref != "" {
			row.URL = gateway.RefusalPath(e.Ref)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// kindText names a type of event. Its message can be missing: another version of the program has written the event.
func kindText(of string) page.Text { return page.Say("console.kind." + of) }

// eventsOf leads to the events that have something in common. Empty: to none
func eventsOf(param, value string) string {
	if value == "" {
		return ""
	}
	return frame.Root + "/events?" + url.Values{param: {value}}.Encode()
}

// subjectCell names the subject of an event.
func subjectCell(names map[string]string, e *event.Event) page.Cell {
	return personCell(names, e.PersonID, e.ClientID)
}

// actorCell says who has caused an event.
func actorCell(names map[string]string, e *event.Event) page.Cell {
	if e.Actor == "" {
		return page.Cell{Text: page.Say("console.event.self")}
	}
	if e.Actor == e.PersonID && names[e.Actor] != "" { // who that is stands next to it
		return page.Cell{Text: page.Say("console.event.own")}
	}
	return personCell(names, e.Actor, cmp.Or(e.AgentUser, e.Actor))
}

// personCell is a link to a person, or what else is known.
func personCell(names map[string]string, id, otherwise string) page.Cell {
	if name := names[id]; name != "" {
		return page.Cell{Name: name, URL: personPath(id)}
	}
	return page.Cell{Name: otherwise}
}

// eventSearch reads what the address of the list selects. wrong is the field that it is not clear from.
func (c *Console) eventSearch(v *frame.Visit) (s event.Search, wrong string, err error) {
	q := v.URL.Query()
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	s = event.Search{Partition: cmp.Or(q.Get("partition"), event.DefaultPartition), Client: text("client"), Address: text("address"), Ref: text("ref"), Limit: frame.Rows}
	s.Types = strings.FieldsFunc(q.Get("kind"), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	if s.Behind, err = event.ParseCursor(q.Get("after")); err != nil {
		s.Behind = nil // the beginning
	}
	for name, to := range map[string]*time.Time{"from": &s.Since, "to": &s.Until} {
		text := q.Get(name)
		if text == "" {
			continue
		}
		at, err := time.Parse(dayForm, text)
		if err != nil {
			return s, name, nil
		}
		if *to = at; name == "to" {
			*to = at.AddDate(0, 0, 1) // the day included
		}
	}
	if who := text("person"); who != "" {
		p, err := c.personOf(v, who)
		switch {
		case err == nil:
			s.Person = p.ID
		case errors.Is(err, person.ErrNoPerson) && person.IsID(who):
			s.Person = who // a removed person has events
		case errors.Is(err, person.ErrNoPerson):
			return s, "person", nil
		default:
			return s, "", err
		}
	}
	return s, "", nil
}

func (c *Console) showEvents(v *frame.Visit) (*page.Console, error) {
	s, wrong, err := c.eventSearch(v)
	if err != nil {
		return nil, err
	}
	var list []event.Numbered
	var names map[string]string
	var behind, last event.Cursor
	if wrong == "" {
		err = c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
			if last, err = s.Last(tx); err != nil {
				return err
			}
			list, behind, names, err = c.Manage.Events(tx, s)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	next := ""
	if len(behind) > 0 {
		next = behind.String()
	}
	t := c.eventTable(list, names, true)
	t.First, t.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.events.title"), Filter: c.eventFilter(v, wrong), Parts: []page.ConsolePart{{Table: t}}}
	out.Actions, out.Refresh = eventActions(v, wrong == "")
	out.Actions = append(out.Actions, c.alertActions(v, wrong == "")...)
	if out.Refresh > 0 {
		out.Lead, out.Live = page.Say("console.events.live.on", "n", liveSeconds), frame.Root+livePath+"?"+liveQuery(v, last).Encode()
	}
	switch {
	case len(list) == 0 && next != "":
		out.Parts[0].Text = page.Say("console.events.further")
	case len(list) == 0:
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none"), Next: &page.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// eventActions are the ways from the list to the live page and back, and to the file. refresh: this is the live page.
func eventActions(v *frame.Visit, good bool) (list []page.Action, refresh int) {
	q := v.URL.Query()
	live := q.Get("live") == "1" && q.Get("after") == "" && good
	for _, name := range []string{frame.SinceParam, "done", "after", "live"} {
		q.Del(name)
	}
	file := page.Action{Label: "console.export", URL: v.Path() + ".csv?" + q.Encode()}
	if !live {
		q.Set("live", "1")
	}
	list = []page.Action{{Label: "console.events.live", URL: v.Path() + "?" + q.Encode()}}
	if live {
		list[0].Label, refresh = "console.events.live.stop", liveSeconds
	}
	if good {
		list = append(list, file)
	}
	return list, refresh
}

// sendEvents sends what the same filter selects as a CSV file.
func (c *Console) sendEvents(v *frame.Visit) (*page.Console, error) {
	s, wrong, err := c.eventSearch(v)
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		if err := v.Redirect(frame.Root + "/events?" + v.URL.Query().Encode()); err != nil {
			return nil, err
		}
		return nil, front.ErrAnswered
	}
	s.Behind = nil
	err = sheet.Answer(v.W, "events.csv", func(w io.Writer) error { return c.Manage.ExportEvents(v.Context(), s, w) })
	if err == nil {
		err = front.ErrAnswered
	}
	return nil, err
}

func (c *Console) eventFilter(v *frame.Visit, wrong string) *page.Filter {
	q := v.URL.Query()
	out := &page.Filter{Action: v.Path(), Fields: []page.Field{
		{Name: "person", Type: "search", Label: "console.column.person", Hint: "console.events.person.hint"},
		{Name: "kind", Label: "console.field.kind", Hint: "console.events.kind.hint"},
		{Name: "client", Label: "console.column.application"},
		{Name: "address", Label: "console.column.address"},
		{Name: "ref", Label: "console.field.ref"},
		{Name: "from", Type: "date", Label: "console.field.from"},
		{Name: "to", Type: "date", Label: "console.field.to"},
	}}
	for i := range out.Fields {
		f := &out.Fields[i]
		if f.Value = q.Get(f.Name); f.Value != "" {
			out.Clear = v.Path()
		}
		if f.Name == wrong {
			f.Problem = "console.problem.filter"
		}
	}
	return out
}
