package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// endedAtOnce bounds the sessions that one form ends.
const endedAtOnce = 200

// sessionsScreen is the list of the live sessions. One is ended on the page of its person, all that have a place in
// common here.
func (c *Console) sessionsScreen() *layout.Screen {
	return &layout.Screen{
		Name: "sessions", Path: "/sessions", Icon: "device", Role: layout.Viewer, Show: c.showSessions,
		Acts: []*layout.Act{{Name: "end-listed", Role: layout.Helpdesk, Danger: true, Hidden: true, Ask: c.askEndListed, Do: c.endListed}},
	}
}

// filterOf reads which sessions are wanted.
func filterOf(q url.Values) admin.SessionFilter {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return admin.SessionFilter{Address: text("address"), Application: text("client"), Site: text("site"), Device: text("device")}
}

// valuesOf is the filter as an address has it.
func valuesOf(f admin.SessionFilter) url.Values {
	out := url.Values{}
	for name, value := range map[string]string{"address": f.Address, "client": f.Application, "site": f.Site, "device": f.Device} {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// listedSessions are the sessions of a filter that can be ended, as many as one form ends, without that of the visit.
// more tells that there are others. Without a filter there are none.
func (c *Console) listedSessions(v *layout.Visit, f admin.SessionFilter) (list []admin.SessionInfo, more bool, err error) {
	if f == (admin.SessionFilter{}) {
		return nil, false, &layout.Problem{Key: "console.problem.no_place"}
	}
	f.Dormant = true
	err = c.Store.View(v.Context(), func(tx storage.Tx) error {
		list = nil
		for after := ""; ; {
			some, next, err := c.Manage.Sessions(tx, f, after, endedAtOnce, v.Now)
			if err != nil {
				return err
			}
			for _, s := range some {
				if s.ID != v.SignIn.ID {
					list = append(list, s)
				}
			}
			if after = next; next == "" || len(list) >= endedAtOnce {
				more = next != ""
				return nil
			}
		}
	})
	return list, more, err
}

// askEndListed says how many sessions and people are hit.
func (c *Console) askEndListed(v *layout.Visit) (q layout.Question, err error) {
	f := filterOf(sent(v))
	for name, value := range valuesOf(f) {
		q.Hidden = append(q.Hidden, web.Hidden{Name: name, Value: value[0]})
		label := map[string]string{
			"address": "console.column.address", "client": "console.column.application", "site": "console.column.site",
			"device": "console.column.device",
		}[name]
		q.Facts = append(q.Facts, web.ConsoleFact{Label: label, Cells: []web.Cell{{Name: value[0]}}})
	}
	slices.SortFunc(q.Hidden, func(a, b web.Hidden) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(q.Facts, func(a, b web.ConsoleFact) int { return strings.Compare(a.Label, b.Label) })
	list, more, err := c.listedSessions(v, f)
	if layout.ProblemOf(err) != nil { // the form says so
		err = nil
	}
	who := map[string]bool{}
	for _, s := range list {
		who[s.Person] = true
	}
	count := func(n int) web.Cell {
		if more {
			return web.Cell{Text: web.Say("console.count.more", "n", n)}
		}
		return web.Cell{Text: web.Say("console.count", "n", n)}
	}
	q.Facts = append(q.Facts,
		web.ConsoleFact{Label: "console.fact.sessions", Cells: []web.Cell{count(len(list))}},
		web.ConsoleFact{Label: "console.persons.title", Cells: []web.Cell{count(len(who))}},
	)
	return q, err
}

// endListed ends the sessions that the filter selects, one by one. Whose they are is judged in the transaction of each.
func (c *Console) endListed(v *layout.Visit, in url.Values) (layout.Result, error) {
	f := filterOf(in)
	list, more, err := c.listedSessions(v, f)
	if err != nil {
		return layout.Result{}, err
	}
	ended, left := 0, 0
	for _, s := range list {
		by, refused := v.Actor(), false
		by.Check = func(tx storage.Tx) error {
			if err := v.Recheck(tx); err != nil {
				return err
			}
			_, p, err := c.Identity.Person.Find(tx, s.Person)
			if refused = err == nil && s.Person != v.Me() && !v.Outranks(c.frame.RoleOf(p.PartitionName(), p.Groups)); refused {
				err = layout.Denied("the other person is of equal or higher rank")
			}
			return err
		}
		switch err := c.Manage.EndHeld(v.Context(), s.Person, "sessions", s.ID, by); {
		case refused:
			left++
		case errors.Is(err, admin.ErrGone):
		case err != nil:
			return layout.Result{}, err
		default:
			ended++
		}
	}
	back := v.Path() + "?" + valuesOf(f).Encode()
	out := &web.Console{
		Title: web.Say("console.act.end-listed"), Up: v.Up(),
		Done:  web.Say("console.sessions.ended", "n", ended, "left", web.Say("console.number.left", "n", left)),
		Parts: []web.ConsolePart{{Actions: []web.Action{{Label: "console.sessions.title", URL: back}}}},
	}
	if more {
		out.Lead = web.Say("console.sessions.ended.more")
		out.Parts[0].Actions = append(out.Parts[0].Actions,
			web.Action{Label: "console.act.end-listed", URL: v.Path() + "/end-listed?" + valuesOf(f).Encode(), Danger: true})
	}
	return layout.Result{Page: out}, nil
}

func (c *Console) showSessions(v *layout.Visit) (*web.Console, error) {
	q := v.URL.Query()
	f := filterOf(q)
	var list []admin.SessionInfo
	var devices []string
	next := ""
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if devices, err = c.Manage.Devices(tx); err != nil {
			return err
		}
		list, next, err = c.Manage.Sessions(tx, f, q.Get("after"), layout.Rows, v.Now)
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &web.Table{
		Label: web.Say("console.sessions.title"),
		Columns: []string{
			"console.column.person", "console.column.device", "console.column.address", "console.column.level",
			"console.column.since", "console.column.seen",
		},
	}
	for _, s := range list {
		t.Rows = append(t.Rows, web.TableRow{URL: personPath(s.Person) + "#sessions", Cells: []web.Cell{
			{Name: s.Username},
			{Text: webflow.AgentText(s.Agent), URL: sessionsOf(v, "device", sessionindex.DeviceOf(s.Agent))},
			{Name: s.Address, URL: sessionsOf(v, "address", s.Address)},
			{Name: strconv.Itoa(s.Level)},
			{Text: web.Say("console.time", "time", s.Since)},
			{Text: web.Say("console.time", "time", s.Seen)},
		}})
	}
	t.First, t.Next = v.Pages(next)
	out := &web.Console{Title: web.Say("console.sessions.title"), Lead: web.Say("console.sessions.text"), Parts: []web.ConsolePart{{Table: t}}}
	out.Filter = sessionFilter(v, f, devices)
	if end := v.Screen.Act("end-listed"); len(list) > 0 && f != (admin.SessionFilter{}) && v.May(end) == nil {
		out.Actions = []web.Action{{Label: "console.act.end-listed", URL: v.Path() + "/end-listed?" + valuesOf(f).Encode(), Danger: true}}
	}
	switch {
	case len(list) == 0 && next != "":
		out.Parts[0].Text = web.Say("console.sessions.further")
	case len(list) == 0:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// sessionsOf leads to the sessions that have something in common. Empty: to none
func sessionsOf(v *layout.Visit, param, value string) string {
	if value == "" {
		return ""
	}
	return v.Path() + "?" + url.Values{param: {value}}.Encode()
}

func sessionFilter(v *layout.Visit, f admin.SessionFilter, devices []string) *web.Filter {
	out := &web.Filter{Action: v.Path(), Fields: []web.Field{
		{Name: "address", Type: "search", Label: "console.column.address", Value: f.Address},
		{Name: "client", Label: "console.column.application", Value: f.Application},
		{Name: "site", Label: "console.column.site", Value: f.Site, Hint: "console.sessions.site.hint"},
		{Name: "device", Type: "select", Label: "console.column.device", Value: f.Device, Options: []web.Option{{Label: "console.any"}}},
	}}
	known := f.Device == ""
	for _, d := range devices {
		known = known || d == f.Device
		out.Fields[3].Options = append(out.Fields[3].Options, web.Option{Value: d, Label: d})
	}
	if !known { // nothing is there any more
		out.Fields[3].Options = append(out.Fields[3].Options, web.Option{Value: f.Device, Label: f.Device})
	}
	if cmp.Or(f.Address, f.Application, f.Site, f.Device) != "" {
		out.Clear = v.Path()
	}
	return out
}
