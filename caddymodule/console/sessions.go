package console

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sessionsScreen is the list of the live sessions. They are ended on the page of their person, who may have a role.
func (c *Console) sessionsScreen() *frame.Screen {
	return &frame.Screen{Name: "sessions", Path: "/sessions", Icon: "device", Role: frame.Viewer, Show: c.showSessions}
}

func (c *Console) showSessions(v *frame.Visit) (*page.Console, error) {
	q := v.URL.Query()
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	f := manage.SessionFilter{Address: text("address"), Application: text("client"), Site: text("site"), Device: text("device")}
	var list []manage.SessionInfo
	var devices []string
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if devices, err = c.Manage.Devices(tx); err != nil {
			return err
		}
		list, next, err = c.Manage.Sessions(tx, f, q.Get("after"), frame.Rows, v.Now)
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &page.Table{Label: page.Say("console.sessions.title"), Columns: []string{"console.column.person", "console.column.device", "console.column.address", "console.column.level", "console.column.since", "console.column.seen"}}
	for _, s := range list {
		t.Rows = append(t.Rows, page.TableRow{URL: personPath(s.Person) + "#sessions", Cells: []page.Cell{
			{Name: s.Username},
			{Text: front.AgentText(s.Agent), URL: sessionsOf(v, "device", places.DeviceOf(s.Agent))},
			{Name: s.Address, URL: sessionsOf(v, "address", s.Address)},
			{Text: page.Say("console.level", "n", s.Level)},
			{Text: page.Say("console.time", "time", s.Since)},
			{Text: page.Say("console.time", "time", s.Seen)},
		}})
	}
	t.First, t.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.sessions.title"), Lead: page.Say("console.sessions.text"), Parts: []page.ConsolePart{{Table: t}}}
	out.Filter = sessionFilter(v, f, devices)
	switch {
	case len(list) == 0 && next != "":
		out.Parts[0].Text = page.Say("console.sessions.further")
	case len(list) == 0:
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none"), Next: &page.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// sessionsOf leads to the sessions that have something in common. Empty: to none
func sessionsOf(v *frame.Visit, param, value string) string {
	if value == "" {
		return ""
	}
	return v.Path() + "?" + url.Values{param: {value}}.Encode()
}

func sessionFilter(v *frame.Visit, f manage.SessionFilter, devices []string) *page.Filter {
	out := &page.Filter{Action: v.Path(), Fields: []page.Field{
		{Name: "address", Type: "search", Label: "console.column.address", Value: f.Address},
		{Name: "client", Label: "console.column.application", Value: f.Application},
		{Name: "site", Label: "console.column.site", Value: f.Site, Hint: "console.sessions.site.hint"},
		{Name: "device", Type: "select", Label: "console.column.device", Value: f.Device, Options: []page.Option{{Label: "console.any"}}},
	}}
	known := f.Device == ""
	for _, d := range devices {
		known = known || d == f.Device
		out.Fields[3].Options = append(out.Fields[3].Options, page.Option{Value: d, Label: d})
	}
	if !known { // nothing is there any more
		out.Fields[3].Options = append(out.Fields[3].Options, page.Option{Value: f.Device, Label: f.Device})
	}
	if cmp.Or(f.Address, f.Application, f.Site, f.Device) != "" {
		out.Clear = v.Path()
	}
	return out
}
