package console

import (
	"errors"
	"net/url"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// eventScreen is one event, with everything that is known of it.
func (c *Console) eventScreen() *frame.Screen {
	return &frame.Screen{Name: "event", Path: "/events/{id}", Role: frame.Viewer, Find: c.findEvent, Show: c.showEvent}
}

// eventPath is the path of the page of an event.
func eventPath(e *event.Numbered) string {
	path := frame.Root + "/events/" + url.PathEscape(e.Place())
	if e.Partition != "" && e.Partition != event.DefaultPartition {
		path += "?" + url.Values{"partition": {e.Partition}}.Encode()
	}
	return path
}

func (c *Console) findEvent(v *frame.Visit) error {
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		e, err := event.EventAt(tx, v.URL.Query().Get("partition"), v.PathValue("id"))
		if errors.Is(err, storage.ErrNotFound) {
			return front.NotFound()
		}
		v.About, v.Called = &e, e.Name
		return err
	})
}

func (c *Console) showEvent(v *frame.Visit) (*page.Console, error) {
	e := v.About.(*event.Event)
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		names, err = c.Manage.Names(tx, []string{e.PersonID, e.Actor})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &page.Console{Title: kindText(e.Type), Name: e.Name, Up: &page.Up{Label: page.Say("console.events.title"), URL: frame.Root + "/events"}}
	var facts []page.ConsoleFact
	fact := func(label string, cells ...page.Cell) {
		facts = append(facts, page.ConsoleFact{Label: label, Cells: cells})
	}
	more := func(param, value string) page.Cell {
		return page.Cell{Text: page.Say("console.event.more"), URL: eventsOf(param, value)}
	}
	fact("console.column.time", page.Cell{Text: page.Say("console.time", "time", e.Occurred)})
	fact("console.field.kind", page.Cell{Name: e.Type, Code: true}, more("kind", e.Type))
	if e.PersonID != "" {
		fact("console.column.person", personCell(names, e.PersonID, e.PersonID), more("person", e.PersonID))
	}
	fact("console.column.by", actorCell(names, e))
	if e.ClientID != "" {
		fact("console.column.application", page.Cell{Name: e.ClientID}, more("client", e.ClientID))
	}
	if e.ClientIP != "" {
		fact("console.column.address", page.Cell{Name: e.ClientIP}, more("address", e.ClientIP))
	}
	if e.UserAgent != "" {
		fact("console.column.device", page.Cell{Text: front.AgentText(e.UserAgent), Note: e.UserAgent})
	}
	if e.Provider != "" {
		fact("console.column.provider", page.Cell{Name: e.Provider})
	}
	if e.Reason != "" {
		fact("console.field.reason", page.Cell{Name: e.Reason})
	}
	if e.Ref != "" {
		fact("console.field.ref", page.Cell{Name: e.Ref, URL: gateway.RefusalPath(e.Ref)}, more("ref", e.Ref))
	}
	fact("console.field.id", page.Cell{Name: e.ID, Code: true})
	out.Parts = []page.ConsolePart{{Facts: facts}}
	return out, nil
}
