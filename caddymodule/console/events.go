package console

import (
	"cmp"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
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

// actorsOf returns the actors and the subjects of events.
func actorsOf(list []event.Event) (ids []string) {
	for _, e := range list {
		for _, id := range []string{e.PersonID, e.Actor} {
			if person.IsID(id) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// eventTable lists events. names are those of persons by their ids. whom: with the subject of each event.
func (c *Console) eventTable(list []event.Event, names map[string]string, whom bool) *page.Table {
	t := &page.Table{Label: page.Say("console.events.title"), Columns: []string{"console.column.event", "console.column.time", "console.column.person", "console.column.by", "console.column.from"}}
	if !whom {
		t.Columns = []string{"console.column.event", "console.column.time", "console.column.by", "console.column.from"}
	}
	for _, e := range list {
		row := page.TableRow{Cells: []page.Cell{{Name: e.Name, Note: e.Reason}, {Text: page.Say("console.time", "time", e.Occurred)}}}
		if whom {
			row.Cells = append(row.Cells, personCell(names, e.PersonID, e.ClientID))
		}
		by := personCell(names, e.Actor, cmp.Or(e.AgentUser, e.Actor))
		if e.Actor == "" {
			by = page.Cell{Text: page.Say("console.event.self")}
		}
		row.Cells = append(row.Cells, by, page.Cell{Name: e.ClientIP, Note: e.Ref})
		if e.Ref != "" {
			row.URL = gateway.RefusalPath(e.Ref)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
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
	s.Partition = cmp.Or(q.Get("partition"), event.DefaultPartition)
	s.Client, s.Limit = strings.TrimSpace(q.Get("client")), frame.Rows
	if kind := strings.TrimSpace(q.Get("kind")); kind != "" {
		s.Types = []string{kind}
	}
	if text := q.Get("after"); text != "" {
		if s.Behind, err = event.ParseCursor(text); err != nil {
			s.Behind = nil // the beginning
		}
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
	if who := strings.TrimSpace(q.Get("person")); who != "" {
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
	q := v.URL.Query()
	s, wrong, err := c.eventSearch(v)
	if err != nil {
		return nil, err
	}
	var list []event.Event
	var names map[string]string
	next := ""
	if wrong == "" {
		err = c.Store.View(v.Context(), func(tx storage.Tx) error {
			found, behind, err := s.Find(tx)
			if err != nil {
				return err
			}
			list, next = nil, ""
			for _, e := range found {
				list = append(list, e.Event)
			}
			if next = ""; behind != nil {
				next = behind.String()
			}
			names, err = c.Manage.Names(tx, actorsOf(list))
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	t := c.eventTable(list, names, true)
	t.First, t.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.events.title"), Filter: c.eventFilter(v, wrong), Parts: []page.ConsolePart{{Table: t}}}
	live := q.Get("live") == "1" && q.Get("after") == ""
	if live {
		out.Refresh, out.Lead = liveSeconds, page.Say("console.events.live.on", "n", liveSeconds)
	}
	q.Del(frame.SinceParam)
	if q.Del("after"); live {
		q.Del("live")
	} else {
		q.Set("live", "1")
	}
	label := "console.events.live"
	if live {
		label = "console.events.live.stop"
	}
	out.Actions = []page.Action{{Label: label, URL: v.Path() + "?" + q.Encode()}}
	if len(list) == 0 && next == "" {
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none"), Next: &page.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

func (c *Console) eventFilter(v *frame.Visit, wrong string) *page.Filter {
	q := v.URL.Query()
	out := &page.Filter{Action: v.Path(), Fields: []page.Field{
		{Name: "person", Type: "search", Label: "console.column.person", Hint: "console.events.person.hint"},
		{Name: "kind", Label: "console.field.kind", Hint: "console.events.kind.hint"},
		{Name: "client", Label: "console.column.application"},
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
