package traffic

import (
	"errors"
	"io"
	"strconv"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/csvfile"
	"github.com/gatehouse-id/gatehouse/internal/usage"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const usagePath = "/limits/usage"

// usageScreen lists how many requests clients have made, per site and day.
func (t *traffic) usageScreen() *layout.Screen {
	return &layout.Screen{Name: "usage", Path: usagePath, Role: layout.Viewer, Show: t.showUsage}
}

// usageFileScreen is the same as a file.
func (t *traffic) usageFileScreen() *layout.Screen {
	return &layout.Screen{Name: "usage", Path: usagePath + ".csv", Role: layout.Viewer, Show: t.sendUsage}
}

// usageQuery reads what the address of the page selects. wrong is the field that it is not clear from.
func usageQuery(v *layout.Visit) (q usage.Query, wrong string) {
	q, err := usage.ParseQuery(v.URL.Query(), v.Now)
	if bad := new(usage.DayError); errors.As(err, &bad) {
		return q, bad.Param
	}
	q.Limit = layout.Rows
	return q, ""
}

func (t *traffic) showUsage(v *layout.Visit) (*web.Console, error) {
	q, wrong := usageQuery(v)
	var list []usage.Row
	next := ""
	if wrong == "" {
		err := t.Store.View(v.Context(), func(tx storage.Tx) (err error) {
			list, next, err = q.Find(tx)
			return err
		})
		switch {
		case errors.Is(err, usage.ErrDays):
			wrong = "from"
		case errors.Is(err, usage.ErrCursor): // the beginning
			return nil, redirect(v, v.Path())
		case err != nil:
			return nil, err
		}
	}
	table := &web.Table{
		Label: web.Say("console.usage.title"),
		Columns: []string{
			"console.column.application", "console.column.day", "console.column.site", "console.column.requests", "console.column.limited",
		},
	}
	for _, r := range list {
		row := web.TableRow{URL: applicationPath(r.Client), Cells: []web.Cell{
			{Name: r.Client}, {Name: r.Day}, {Name: r.Site}, {Name: strconv.FormatInt(r.Requests, 10)}, {Name: strconv.FormatInt(r.Limited, 10)},
		}}
		if r.Client == usage.Other {
			row.URL = ""
		}
		table.Rows = append(table.Rows, row)
	}
	table.First, table.Next = v.Pages(next)
	out := &web.Console{
		Title: web.Say("console.usage.title"), Lead: web.Say("console.usage.text"), Parts: []web.ConsolePart{{Table: table}},
		Up: &web.Up{Label: web.Say("console.limits.title"), URL: layout.Root + "/limits"},
		Filter: &web.Filter{Action: v.Path(), Fields: []web.Field{
			{Name: "client", Type: "search", Label: "console.column.application"},
			{Name: "site", Label: "console.column.site"},
			{Name: "from", Type: "date", Label: "console.field.from"},
			{Name: "to", Type: "date", Label: "console.field.to"},
		}},
	}
	filter(v, out, wrong)
	switch {
	case len(list) > 0:
	case next != "":
		out.Parts[0].Text = web.Say("console.usage.further")
	default:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.usage.none")}
	}
	return out, nil
}

// sendUsage sends what the same filter selects as a CSV file.
func (t *traffic) sendUsage(v *layout.Visit) (*web.Console, error) {
	q, wrong := usageQuery(v)
	if wrong == "" {
		q.After = ""
		err := csvfile.Answer(v.W, "usage.csv", func(w io.Writer) error { return q.Export(v.Context(), t.Store, w) })
		if err == nil {
			err = webflow.ErrAnswered
		}
		if !errors.Is(err, usage.ErrDays) {
			return nil, err
		}
	}
	return nil, redirect(v, layout.Root+usagePath+"?"+v.URL.Query().Encode())
}
