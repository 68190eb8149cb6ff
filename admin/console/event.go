package console

import (
	"errors"
	"net/url"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// eventScreen is one event, with everything that is known of it.
func (c *Console) eventScreen() *layout.Screen {
	return &layout.Screen{Name: "event", Path: "/events/{id}", Role: layout.Viewer, Find: c.findEvent, Show: c.showEvent}
}

// eventPath is the path of the page of an event.
func eventPath(e *audit.Numbered) string {
	path := layout.Root + "/events/" + url.PathEscape(e.Place())
	if e.Partition != "" && e.Partition != audit.DefaultPartition {
		path += "?" + url.Values{"partition": {e.Partition}}.Encode()
	}
	return path
}

func (c *Console) findEvent(v *layout.Visit) error {
	return c.Store.View(v.Context(), func(tx storage.Tx) error {
		e, err := audit.EventAt(tx, v.URL.Query().Get("partition"), v.PathValue("id"))
		if errors.Is(err, storage.ErrNotFound) {
			return webflow.NotFound()
		}
		v.About, v.Called = &e, e.Name
		return err
	})
}

func (c *Console) showEvent(v *layout.Visit) (*web.Console, error) {
	e := v.About.(*audit.Event)
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		names, err = c.Manage.Names(tx, []string{e.PersonID, e.Actor})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &web.Console{
		Title: kindText(e.Type), Name: e.Name,
		Up: &web.Up{Label: web.Say("console.events.title"), URL: layout.Root + "/events"},
	}
	var facts []web.ConsoleFact
	fact := func(label string, cells ...web.Cell) {
		facts = append(facts, web.ConsoleFact{Label: label, Cells: cells})
	}
	more := func(param, value string) web.Cell {
		return web.Cell{Text: web.Say("console.event.more"), URL: eventsOf(param, value)}
	}
	fact("console.column.time", web.Cell{Text: web.Say("console.time", "time", e.Occurred)})
	fact("console.field.kind", web.Cell{Name: e.Type, Code: true}, more("kind", e.Type))
	if e.PersonID != "" {
		fact("console.column.person", personCell(names, e.PersonID, e.PersonID), more("person", e.PersonID))
	}
	fact("console.column.by", actorCell(names, e))
	if e.ClientID != "" {
		fact("console.column.application", web.Cell{Name: e.ClientID}, more("client", e.ClientID))
	}
	if e.ClientIP != "" {
		fact("console.column.address", web.Cell{Name: e.ClientIP}, more("address", e.ClientIP))
	}
	if e.UserAgent != "" {
		fact("console.column.device", web.Cell{Text: webflow.AgentText(e.UserAgent), Note: e.UserAgent})
	}
	if e.Provider != "" {
		fact("console.column.provider", web.Cell{Name: e.Provider})
	}
	if e.Reason != "" {
		fact("console.field.reason", web.Cell{Name: e.Reason})
	}
	if e.Ref != "" {
		fact("console.field.ref", web.Cell{Name: e.Ref, URL: sites.RefusalPath(e.Ref)}, more("ref", e.Ref))
	}
	fact("console.field.id", web.Cell{Name: e.ID, Code: true})
	out.Parts = []web.ConsolePart{{Facts: facts}}
	return out, nil
}
