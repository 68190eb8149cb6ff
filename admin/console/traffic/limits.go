package traffic

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// limitsScreen lists who is near a limit or quota or above it, at this server.
func (t *traffic) limitsScreen() *layout.Screen {
	return &layout.Screen{
		Name: "limits", Path: "/limits", Icon: "gauge", Role: layout.Viewer, Show: t.showLimits,
		Acts: []*layout.Act{{Name: "lift-limit", Role: layout.Operator, Hidden: true, Ask: t.askLift, Do: t.lift}},
	}
}

// anyShare is the least share of a limit that counts as used.
const anyShare = 1e-9

func (t *traffic) showLimits(v *layout.Visit) (*web.Console, error) {
	q := v.URL.Query()
	fields := []web.Field{
		{Name: "caller", Type: "search", Label: "console.column.caller", Hint: "console.limits.caller.hint"},
		{Name: "site", Label: "console.limits.of"},
		{Name: "used", Type: "select", Label: "console.column.part", Options: []web.Option{
			{Label: "console.limits.near"}, {Value: "over", Label: "console.limits.over"}, {Value: "any", Label: "console.limits.any"},
		}},
	}
	filtered := fill(fields, q, "")
	who, of := strings.TrimSpace(q.Get("caller")), strings.ToLower(strings.TrimSpace(q.Get("site")))
	id := who
	if who != "" {
		known, ok, err := t.personNamed(v, who)
		if err != nil {
			return nil, err
		}
		if ok {
			id = known
		}
	}
	share := map[string]float64{"any": anyShare, "over": 1}[q.Get("used")]
	list := t.Manage.NearLimits(cmp.Or(share, admin.NearShare), layout.Rows, v.Now, func(u *admin.LimitUse) bool {
		return (who == "" || u.Caller == who || u.Caller == id) && (of == "" || strings.Contains(strings.ToLower(u.Limit), of)) &&
			(share != 1 || u.WaitSecs > 0)
	})
	table, err := t.limitTable(v, list)
	if err != nil {
		return nil, err
	}
	out := &web.Console{
		Title: web.Say("console.limits.title"), Lead: web.Say("console.limits.text", "n", int(100*admin.NearShare)),
		Actions: []web.Action{{Label: "console.usage.title", URL: layout.Root + usagePath, Quiet: true}},
		Filter:  &web.Filter{Action: v.Path(), Fields: fields}, Parts: []web.ConsolePart{{Table: table}},
	}
	if filtered {
		out.Filter.Clear = v.Path()
	}
	switch {
	case len(list) == layout.Rows:
		out.Parts[0].Text = web.Say("console.limits.more", "n", layout.Rows)
	case len(list) > 0:
	case filtered:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	default:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.limits.none")}
	}
	return out, nil
}

func (t *traffic) limitTable(v *layout.Visit, list []admin.LimitUse) (*web.Table, error) {
	table := &web.Table{
		Label: web.Say("console.limits.title"),
		Columns: []string{
			"console.column.caller", "console.column.limit", "console.column.part", "console.column.state", "console.column.full_again",
		},
	}
	lifts := v.Role >= v.Screen.Act("lift-limit").Role
	if lifts {
		table.Columns = append(table.Columns, "console.act.lift-limit")
	}
	var ids []string
	for i := range list {
		ids = append(ids, list[i].Caller)
	}
	names, err := t.names(v, ids)
	if err != nil {
		return nil, err
	}
	for i := range list {
		u := &list[i]
		url, name := caller(u, names)
		state := web.Cell{Text: web.Say("console.limits.state.free")}
		switch {
		case u.WaitSecs > 0:
			state = web.Cell{Text: web.Say("console.limits.state.over"), Kind: "bad"}
		case float64(u.Used) >= admin.NearShare*float64(u.Of):
			state = web.Cell{Text: web.Say("console.limits.state.near"), Kind: "warn"}
		}
		row := web.TableRow{URL: url, Cells: []web.Cell{
			name,
			{Name: u.Limit, Code: true},
			used(u), state,
			{Text: web.Say("console.time", "time", v.Now.Add(time.Duration(u.ResetSecs)*time.Second))},
		}}
		if lifts {
			row.Cells = append(row.Cells, v.Link("lift-limit", "limit", u.ID))
		}
		table.Rows = append(table.Rows, row)
	}
	return table, nil
}

func used(u *admin.LimitUse) web.Cell {
	return web.Cell{Text: web.Say("console.limits.used", "n", strconv.FormatInt(u.Used, 10), "of", strconv.FormatInt(u.Of, 10))}
}

// caller names the one who is counted, with the page about them. names are those of persons by their ids.
func caller(u *admin.LimitUse, names map[string]string) (url string, _ web.Cell) {
	if u.Kind == "" {
		return "", web.Cell{Text: web.Say("console.limits.kind.site")}
	}
	out := web.Cell{Name: cmp.Or(names[u.Caller], u.Caller), Hint: web.Say("console.limits.kind." + u.Kind)}
	switch {
	case u.Kind == "client":
		url = applicationPath(u.Caller)
	case u.Kind == "person" && names[u.Caller] != "":
		url = personPath(u.Caller)
	}
	return url, out
}

func (t *traffic) askLift(v *layout.Visit) (q layout.Question, err error) {
	id, hidden := v.Chosen("limit")
	u, err := t.Manage.FindLimit(id, v.Now)
	if layout.ProblemOf(err) != nil { // the form says so
		return layout.Question{Hidden: hidden}, nil
	}
	if err != nil {
		return q, err
	}
	names, err := t.names(v, []string{u.Caller})
	if err != nil {
		return q, err
	}
	_, who := caller(&u, names)
	fact := func(label string, c web.Cell) web.ConsoleFact {
		return web.ConsoleFact{Label: label, Cells: []web.Cell{c}}
	}
	return layout.Question{Hidden: hidden, Facts: []web.ConsoleFact{
		fact("console.column.caller", who), fact("console.column.limit", web.Cell{Name: u.Limit, Code: true}),
		fact("console.column.part", used(&u)),
	}}, nil
}

func (t *traffic) lift(v *layout.Visit, in url.Values) (layout.Result, error) {
	return layout.Result{}, t.Manage.LiftLimit(v.Context(), in.Get("limit"), v.Actor())
}
