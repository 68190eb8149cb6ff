package console

import (
	"net/url"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sessionsScreen is the list of the live sessions. They are ended on the page of their person, who may have a role.
func (c *Console) sessionsScreen() *frame.Screen {
	return &frame.Screen{Name: "sessions", Path: "/sessions", Icon: "device", Role: frame.Viewer, Show: c.showSessions}
}

func (c *Console) showSessions(v *frame.Visit) (*page.Console, error) {
	q := v.URL.Query()
	address := q.Get("address")
	var list []manage.SessionInfo
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		list, next = nil, q.Get("after")
		for read := 0; read < maxScan && len(list) < frame.Rows; read += frame.Rows {
			var some []manage.SessionInfo
			if some, next, err = c.Manage.Sessions(tx, next, frame.Rows-len(list), v.Now); err != nil {
				return err
			}
			for _, s := range some {
				if address == "" || s.Address == address {
					list = append(list, s)
				}
			}
			if next == "" {
				break
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := &page.Table{Label: page.Say("console.sessions.title"), Columns: []string{"console.column.person", "console.column.device", "console.column.address", "console.column.level", "console.column.since", "console.column.seen"}}
	for _, s := range list {
		t.Rows = append(t.Rows, page.TableRow{URL: personPath(s.Person) + "#sessions", Cells: []page.Cell{
			{Name: s.Username},
			{Text: front.AgentText(s.Agent)},
			{Name: s.Address, URL: v.Path() + "?" + url.Values{"address": {s.Address}}.Encode()},
			{Text: page.Say("console.level", "n", s.Level)},
			{Text: page.Say("console.time", "time", s.Since)},
			{Text: page.Say("console.time", "time", s.Seen)},
		}})
	}
	t.First, t.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.sessions.title"), Lead: page.Say("console.sessions.text"), Parts: []page.ConsolePart{{Table: t}}}
	out.Filter = &page.Filter{Action: v.Path(), Fields: []page.Field{{Name: "address", Type: "search", Label: "console.column.address", Value: address}}}
	if address != "" {
		out.Filter.Clear = v.Path()
	}
	if len(list) == 0 && next == "" {
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none")}
	}
	return out, nil
}
