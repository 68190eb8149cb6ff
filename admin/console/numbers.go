package console

import (
	"slices"
	"strconv"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// mostSites is the maximum number of sites that are named for refused requests.
const mostSites = 10

// measures are the charts of the overview.
var measures = []struct {
	name, key string
	bad       bool
	daily     bool // it is counted per day alone
	path      string
}{
	{audit.CountSignIn, "console.chart.sign_ins", false, false, "/events?type=login.LoginSucceededEvent"},
	{audit.CountFailed, "console.chart.failures", true, false, "/events?type=login.LoginFailedEvent"},
	{stats.Denials, "console.chart.denials", true, false, "/sites"},
	{stats.ActivePersons, "console.chart.active", false, true, "/persons"},
}

// numbers are the parts of the overview that count, from counters alone.
func (c *Console) numbers(v *layout.Visit) ([]web.ConsolePart, error) {
	p := v.Period()
	q, shown := p.Query(v.Now), v.NewNumbers("numbers", web.Say("console.numbers.title"))
	var sites stats.Answer
	err := c.Store.View(v.Context(), func(tx storage.Tx) error {
		shown.Begin()
		for _, m := range measures {
			if m.daily && p.Unit != stats.Day {
				continue
			}
			q.Measure, q.By = m.name, ""
			a, err := stats.Read(tx, q)
			if err != nil {
				return err
			}
			s := a.Series[0]
			total := s.Total
			if m.daily { // the days are not added up
				total = slices.Max(s.Counts)
			}
			shown.Add(layout.Measure{Key: m.key, URL: layout.Root + m.path, Bad: m.bad, Starts: a.Starts, Counts: s.Counts, Total: total})
		}
		q.Measure, q.By = stats.Denials, stats.Site
		var err error
		sites, err = stats.Read(tx, q)
		return err
	})
	return []web.ConsolePart{shown.Part, sitesPart(sites)}, err
}

// sitesPart lists the sites that have refused most requests.
func sitesPart(a stats.Answer) web.ConsolePart {
	part := web.ConsolePart{ID: "denials", Title: web.Say("console.denials.title")}
	t := &web.Table{Label: web.Say("console.denials.title"), Columns: []string{"console.column.site", "console.column.refused"}}
	for _, s := range a.Series {
		if s.Total > 0 && len(t.Rows) < mostSites {
			row := web.TableRow{Cells: []web.Cell{{Name: s.Name}, {Name: strconv.FormatInt(s.Total, 10)}}}
			if s.Name != "" && s.Name != stats.Other {
				row.URL = sites.SitePath(s.Name)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if part.Table = t; len(t.Rows) == 0 {
		part.Table, part.Text = nil, web.Say("console.denials.none")
	}
	return part
}
