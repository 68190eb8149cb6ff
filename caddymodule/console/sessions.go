package console

import (
	"cmp"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/places"
	"github.com/gatehouse-id/gatehouse/storage"
)

// endedAtOnce bounds the sessions that one form ends.
const endedAtOnce = 200

// sessionsScreen is the list of the live sessions. One is ended on the page of its person, all that have a place in
// common here.
func (c *Console) sessionsScreen() *frame.Screen {
	return &frame.Screen{
		Name: "sessions", Path: "/sessions", Icon: "device", Role: frame.Viewer, Show: c.showSessions,
		Acts: []*frame.Act{{Name: "end-listed", Role: frame.Helpdesk, Danger: true, Hidden: true, Ask: c.askEndListed, Do: c.endListed}},
	}
}

// filterOf reads which sessions are wanted.
func filterOf(q url.Values) manage.SessionFilter {
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	return manage.SessionFilter{Address: text("address"), Application: text("client"), Site: text("site"), Device: text("device")}
}

// valuesOf is the filter as an address has it.
func valuesOf(f manage.SessionFilter) url.Values {
	out := url.Values{}
	for name, value := range map[string]string{"address": f.Address, "client": f.Application, "site": f.Site, "device": f.Device} {
		if value != "" {
			out.Set(name, value)
		}
	}
	return out
}

// listedSessions are the sessions of a filter, as many as one form ends, without that of the visit. more tells that
// there are others. Without a filter there are none.
func (c *Console) listedSessions(v *frame.Visit, f manage.SessionFilter) (list []manage.SessionInfo, more bool, err error) {
	if f == (manage.SessionFilter{}) {
		return nil, false, &frame.Problem{Key: "console.problem.no_place"}
	}
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
func (c *Console) askEndListed(v *frame.Visit) (q frame.Question, err error) {
	f := filterOf(sent(v))
	for name, value := range valuesOf(f) {
		q.Hidden = append(q.Hidden, page.Hidden{Name: name, Value: value[0]})
		label := map[string]string{"address": "console.column.address", "client": "console.column.application", "site": "console.column.site", "device": "console.column.device"}[name]
		q.Facts = append(q.Facts, page.ConsoleFact{Label: label, Cells: []page.Cell{{Name: value[0]}}})
	}
	slices.SortFunc(q.Hidden, func(a, b page.Hidden) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(q.Facts, func(a, b page.ConsoleFact) int { return strings.Compare(a.Label, b.Label) })
	list, more, err := c.listedSessions(v, f)
	if frame.ProblemOf(err) != nil { // the form says so
		err = nil
	}
	who := map[string]bool{}
	for _, s := range list {
		who[s.Person] = true
	}
	count := func(n int) page.Cell {
		if more {
			return page.Cell{Text: page.Say("console.count.more", "n", n)}
		}
		return page.Cell{Text: page.Say("console.count", "n", n)}
	}
	q.Facts = append(q.Facts,
		page.ConsoleFact{Label: "console.fact.sessions", Cells: []page.Cell{count(len(list))}},
		page.ConsoleFact{Label: "console.persons.title", Cells: []page.Cell{count(len(who))}},
	)
	return q, err
}

// endListed ends the sessions that the filter selects, one by one. Whose they are is judged in the transaction of each.
func (c *Console) endListed(v *frame.Visit, in url.Values) (frame.Result, error) {
	f := filterOf(in)
	list, more, err := c.listedSessions(v, f)
	if err != nil {
		return frame.Result{}, err
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
				err = frame.Denied("the other one has as much to say")
			}
			return err
		}
		switch err := c.Manage.EndHeld(v.Context(), s.Person, "sessions", s.ID, by); {
		case refused:
			left++
		case errors.Is(err, manage.ErrGone):
		case err != nil:
			return frame.Result{}, err
		default:
			ended++
		}
	}
	back := v.Path() + "?" + valuesOf(f).Encode()
	out := &page.Console{
		Title: page.Say("console.act.end-listed"), Up: v.Up(), Done: page.Say("console.sessions.ended", "n", ended, "left", page.Say("console.number.left", "n", left)),
		Parts: []page.ConsolePart{{Actions: []page.Action{{Label: "console.sessions.title", URL: back}}}},
	}
	if more {
		out.Lead = page.Say("console.sessions.ended.more")
		out.Parts[0].Actions = append(out.Parts[0].Actions, page.Action{Label: "console.act.end-listed", URL: v.Path() + "/end-listed?" + valuesOf(f).Encode(), Danger: true})
	}
	return frame.Result{Page: out}, nil
}

func (c *Console) showSessions(v *frame.Visit) (*page.Console, error) {
	q := v.URL.Query()
	f := filterOf(q)
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
	if end := v.Screen.Act("end-listed"); len(list) > 0 && f != (manage.SessionFilter{}) && v.May(end) == nil {
		out.Actions = []page.Action{{Label: "console.act.end-listed", URL: v.Path() + "/end-listed?" + valuesOf(f).Encode(), Danger: true}}
	}
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
