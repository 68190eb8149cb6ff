package console

import (
	"slices"
	"strconv"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/tally"
	"github.com/gatehouse-id/gatehouse/storage"
)

// mostSites is how many sites are named that have refused requests.
const mostSites = 10

// measures are what the overview draws.
var measures = []struct {
	name, key string
	bad       bool
	daily     bool // it is counted per day alone
	path      string
}{
	{event.CountSignIn, "console.chart.sign_ins", false, false, "/events?type=login.LoginSucceededEvent"},
	{event.CountFailed, "console.chart.failures", true, false, "/events?type=login.LoginFailedEvent"},
	{tally.Denials, "console.chart.denials", true, false, "/sites"},
	{tally.ActivePersons, "console.chart.active", false, true, "/persons"},
}

// numbers are the parts of the overview that count, from counters alone.
func (c *Console) numbers(v *frame.Visit) ([]page.ConsolePart, error) {
	p := v.Period()
	q, shown := p.Query(v.Now), v.NewNumbers("numbers", page.Say("console.numbers.title"))
	var sites tally.Answer
	err := c.Store.View(v.Context(), func(tx storage.Tx) error {
		shown.Begin()
		for _, m := range measures {
			if m.daily && p.Unit != tally.Day {
				continue
			}
			q.Measure, q.By = m.name, ""
			a, err := tally.Read(tx, q)
			if err != nil {
				return err
			}
			s := a.Series[0]
			total := s.Total
			if m.daily { // the days are not added up
				total = slices.Max(s.Counts)
			}
			shown.Add(frame.Measure{Key: m.key, URL: frame.Root + m.path, Bad: m.bad, Starts: a.Starts, Counts: s.Counts, Total: total})
		}
		q.Measure, q.By = tally.Denials, tally.Site
		var err error
		sites, err = tally.Read(tx, q)
		return err
	})
	return []page.ConsolePart{shown.Part, sitesPart(sites)}, err
}

// sitesPart lists the sites that have refused most requests.
func sitesPart(a tally.Answer) page.ConsolePart {
	part := page.ConsolePart{ID: "denials", Title: page.Say("console.denials.title")}
	t := &page.Table{Label: page.Say("console.denials.title"), Columns: []string{"console.column.site", "console.column.refused"}}
	for _, s := range a.Series {
		if s.Total > 0 && len(t.Rows) < mostSites {
			row := page.TableRow{Cells: []page.Cell{{Name: s.Name}, {Name: strconv.FormatInt(s.Total, 10)}}}
			if s.Name != "" && s.Name != tally.Other {
				row.URL = gateway.SitePath(s.Name)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if part.Table = t; len(t.Rows) == 0 {
		part.Table, part.Text = nil, page.Say("console.denials.none")
	}
	return part
}
