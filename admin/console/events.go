package console

import (
	"cmp"
	"errors"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	liveSeconds = 5 // after which the live page of events is loaded again
	dayForm     = "2006-01-02"
)

// eventsScreen is the list of events, newest first.
func (c *Console) eventsScreen() *layout.Screen {
	return &layout.Screen{Name: "events", Path: "/events", Icon: "clock", Role: layout.Viewer, Show: c.showEvents}
}

// eventsFileScreen is the same as a file.
func (c *Console) eventsFileScreen() *layout.Screen {
	return &layout.Screen{Name: "events", Path: "/events.csv", Role: layout.Viewer, Show: c.sendEvents}
}

// eventTable lists events. names are those of persons by their ids. subjects adds the subject of each event.
func (c *Console) eventTable(list []audit.Numbered, names map[string]string, subjects bool) *web.Table {
	t := &web.Table{
		Label:   web.Say("console.events.title"),
		Columns: []string{"console.column.event", "console.column.time", "console.column.person", "console.column.by", "console.column.from"},
	}
	if !subjects {
		t.Columns = []string{"console.column.event", "console.column.time", "console.column.by", "console.column.from"}
	}
	for _, e := range list {
		row := web.TableRow{
			URL:   eventPath(&e),
			Cells: []web.Cell{{Text: kindText(e.Type), Name: e.Name, Note: e.Reason}, {Text: web.Say("console.time", "time", e.Occurred)}},
		}
		if subjects {
			row.Cells = append(row.Cells, subjectCell(names, &e.Event))
		}
		row.Cells = append(row.Cells, actorCell(names, &e.Event), web.Cell{Name: e.ClientIP, URL: eventsOf("address", e.ClientIP), Note: e.Ref})
		if e.Ref != "" {
			row.URL = sites.RefusalPath(e.Ref)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// kindText names a type of event. Its message can be missing: another version of the program has written the event.
func kindText(of string) web.Text { return web.Say("console.kind." + of) }

// eventsOf leads to the events that have something in common. Empty: to none
func eventsOf(param, value string) string {
	if value == "" {
		return ""
	}
	return layout.Root + "/events?" + url.Values{param: {value}}.Encode()
}

// subjectCell names the subject of an event.
func subjectCell(names map[string]string, e *audit.Event) web.Cell {
	return personCell(names, e.PersonID, e.ClientID)
}

// actorCell says who has caused an event.
func actorCell(names map[string]string, e *audit.Event) web.Cell {
	if e.Actor == "" {
		return web.Cell{Text: web.Say("console.event.self")}
	}
	if e.Actor == e.PersonID && names[e.Actor] != "" { // who that is stands next to it
		return web.Cell{Text: web.Say("console.event.own")}
	}
	return personCell(names, e.Actor, cmp.Or(e.AgentUser, e.Actor))
}

// personCell is a link to a person, or what else is known.
func personCell(names map[string]string, id, otherwise string) web.Cell {
	if name := names[id]; name != "" {
		return web.Cell{Name: name, URL: personPath(id)}
	}
	return web.Cell{Name: otherwise}
}

// eventSearch reads what the address of the list selects. wrong is the field that it is not clear from.
func (c *Console) eventSearch(v *layout.Visit) (s audit.Search, wrong string, err error) {
	q := v.URL.Query()
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	s = audit.Search{
		Partition: cmp.Or(q.Get("partition"), audit.DefaultPartition), Client: text("client"), Address: text("address"),
		Ref: text("ref"), Limit: layout.Rows,
	}
	s.Types = strings.FieldsFunc(q.Get("kind"), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	if s.Behind, err = audit.ParseCursor(q.Get("after")); err != nil {
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

func (c *Console) showEvents(v *layout.Visit) (*web.Console, error) {
	s, wrong, err := c.eventSearch(v)
	if err != nil {
		return nil, err
	}
	var list []audit.Numbered
	var names map[string]string
	var behind, last audit.Cursor
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
	out := &web.Console{Title: web.Say("console.events.title"), Filter: c.eventFilter(v, wrong), Parts: []web.ConsolePart{{Table: t}}}
	out.Actions, out.Refresh = eventActions(v, wrong == "")
	out.Actions = append(out.Actions, c.alertActions(v, wrong == "")...)
	if out.Refresh > 0 {
		out.Lead, out.Live = web.Say("console.events.live.on", "n", liveSeconds), layout.Root+livePath+"?"+liveQuery(v, last).Encode()
	}
	switch {
	case len(list) == 0 && next != "":
		out.Parts[0].Text = web.Say("console.events.further")
	case len(list) == 0:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// eventActions are the ways from the list to the live page and back, and to the file. refresh: this is the live page.
func eventActions(v *layout.Visit, good bool) (list []web.Action, refresh int) {
	q := v.URL.Query()
	live := q.Get("live") == "1" && q.Get("after") == "" && good
	for _, name := range []string{layout.SinceParam, "done", "after", "live"} {
		q.Del(name)
	}
	file := web.Action{Label: "console.export", URL: v.Path() + ".csv?" + q.Encode()}
	if !live {
		q.Set("live", "1")
	}
	list = []web.Action{{Label: "console.events.live", URL: v.Path() + "?" + q.Encode()}}
	if live {
		list[0].Label, refresh = "console.events.live.stop", liveSeconds
	}
	if good {
		list = append(list, file)
	}
	return list, refresh
}

// sendEvents sends what the same filter selects as a CSV file.
func (c *Console) sendEvents(v *layout.Visit) (*web.Console, error) {
	s, wrong, err := c.eventSearch(v)
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		if err := v.Redirect(layout.Root + "/events?" + v.URL.Query().Encode()); err != nil {
			return nil, err
		}
		return nil, webflow.ErrAnswered
	}
	s.Behind = nil
	err = csvfile.Answer(v.W, "events.csv", func(w io.Writer) error { return c.Manage.ExportEvents(v.Context(), s, w) })
	if err == nil {
		err = webflow.ErrAnswered
	}
	return nil, err
}

func (c *Console) eventFilter(v *layout.Visit, wrong string) *web.Filter {
	q := v.URL.Query()
	out := &web.Filter{Action: v.Path(), Fields: []web.Field{
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
