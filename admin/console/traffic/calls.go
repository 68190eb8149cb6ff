package traffic

import (
	"cmp"
	"io"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const callsPath = "/calls"

// callsScreen searches the calls that sites have recorded.
func (t *traffic) callsScreen() *layout.Screen {
	return &layout.Screen{Name: "calls", Path: callsPath, Icon: "list", Role: layout.Viewer, Show: t.showCalls}
}

// callsFileScreen is the same as a file.
func (t *traffic) callsFileScreen() *layout.Screen {
	return &layout.Screen{Name: "calls", Path: callsPath + ".csv", Role: layout.Viewer, Show: t.sendCalls}
}

// callSearch reads what the address of the list selects. wrong is the field that it is not clear from.
func (t *traffic) callSearch(v *layout.Visit) (s calllog.Search, wrong string, err error) {
	q := v.URL.Query()
	text := func(name string) string { return strings.TrimSpace(q.Get(name)) }
	s = calllog.Search{Client: text("client"), Address: text("address"), Site: text("site"), Path: text("path"), Limit: layout.Rows}
	if s.Behind, err = audit.ParseCursor(q.Get("after")); err != nil {
		s.Behind = nil // the beginning
	}
	if s.Since, s.Until, wrong = days(q); wrong != "" {
		return s, wrong, nil
	}
	if who := text("person"); who != "" {
		id, ok, err := t.personNamed(v, who)
		if err != nil || !ok {
			return s, "person", err
		}
		s.Person = id
	}
	return s, "", nil
}

func (t *traffic) showCalls(v *layout.Visit) (*web.Console, error) {
	s, wrong, err := t.callSearch(v)
	if err != nil {
		return nil, err
	}
	var list []calllog.Found
	var behind audit.Cursor
	if wrong == "" {
		err = t.Store.View(v.Context(), func(tx storage.Tx) (err error) {
			list, behind, err = s.Find(tx)
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
	table := callTable(v, list)
	table.First, table.Next = v.Pages(next)
	out := &web.Console{
		Title: web.Say("console.calls.title"), Lead: web.Say("console.calls.text"), Parts: []web.ConsolePart{{Table: table}},
		Filter: &web.Filter{Action: v.Path(), Fields: []web.Field{
			{Name: "person", Type: "search", Label: "console.column.person", Hint: "console.events.person.hint"},
			{Name: "client", Label: "console.column.application"},
			{Name: "site", Label: "console.column.site"},
			{Name: "path", Label: "console.field.path", Hint: "console.calls.path.hint"},
			{Name: "address", Label: "console.column.address"},
			{Name: "from", Type: "date", Label: "console.field.from"},
			{Name: "to", Type: "date", Label: "console.field.to"},
		}},
	}
	filtered := filter(v, out, wrong)
	switch {
	case len(list) > 0:
	case next != "":
		out.Parts[0].Text = web.Say("console.calls.further")
	case filtered:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	default:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.calls.none")}
	}
	return out, nil
}

func callTable(v *layout.Visit, list []calllog.Found) *web.Table {
	table := &web.Table{
		Label: web.Say("console.calls.title"),
		Columns: []string{
			"console.column.request", "console.column.time", "console.column.person", "console.column.application",
			"console.column.outcome", "console.column.address",
		},
	}
	for i := range list {
		c := &list[i]
		who := web.Cell{Name: "—"}
		if c.PersonID != "" {
			who = web.Cell{Name: cmp.Or(c.Username, c.PersonID), URL: personPath(c.PersonID)}
		}
		_, host, _ := strings.Cut(c.Site, "://")
		table.Rows = append(table.Rows, web.TableRow{Cells: []web.Cell{
			{Name: c.Method + " " + host + c.Path, Note: c.Ref},
			{Text: web.Say("console.time", "time", c.At)},
			who, clientCell(c.ClientID),
			{Name: c.Outcome()},
			{Name: c.IP, URL: v.Path() + "?" + url.Values{"address": {c.IP}}.Encode(), Note: c.UserAgent},
		}})
	}
	return table
}

// sendCalls sends what the same filter selects as a CSV file.
func (t *traffic) sendCalls(v *layout.Visit) (*web.Console, error) {
	s, wrong, err := t.callSearch(v)
	if err != nil {
		return nil, err
	}
	if wrong != "" {
		return nil, redirect(v, layout.Root+callsPath+"?"+v.URL.Query().Encode())
	}
	s.Behind = nil
	if err := csvfile.Answer(v.W, "calls.csv", func(w io.Writer) error { return s.Export(v.Context(), t.Store, w) }); err != nil {
		return nil, err
	}
	return nil, webflow.ErrAnswered
}
