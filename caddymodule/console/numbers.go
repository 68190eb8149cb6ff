package console

import (
	"net/url"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/tally"
	"github.com/gatehouse-id/gatehouse/storage"
)

// periods are the times that the overview counts, by the words of its address. The first is the default.
var periods = []struct {
	name string
	unit tally.Unit
	long time.Duration
	step time.Duration
}{
	{"day", tally.Hour, 24 * time.Hour, time.Hour},
	{"hour", tally.Minute, time.Hour, time.Minute},
	{"month", tally.Day, 30 * 24 * time.Hour, 24 * time.Hour},
}

// mostSites is how many sites are named that have refused requests.
const mostSites = 10

// measures are what the overview draws.
var measures = []struct {
	name, key string
	bad       bool
	daily     bool // it is counted per day alone
}{
	{event.CountSignIn, "console.chart.sign_ins", false, false},
	{event.CountFailed, "console.chart.failures", true, false},
	{tally.Denials, "console.chart.denials", true, false},
	{tally.ActivePersons, "console.chart.active", false, true},
}

// numbers are the parts of the overview that count, from counters alone.
func (c *Console) numbers(v *frame.Visit) ([]page.ConsolePart, error) {
	p := periods[0]
	for _, other := range periods {
		if other.name == v.URL.Query().Get("period") {
			p = other
		}
	}
	until := v.Now.UTC().Truncate(p.step).Add(p.step)
	q := tally.Query{Unit: p.unit, Since: until.Add(-p.long), Until: until}
	part := page.ConsolePart{ID: "numbers", Title: page.Say("console.numbers.title"), Fold: page.Say("console.chart.table")}
	for _, o := range []int{1, 0, 2} { // from the shortest to the longest
		name := periods[o].name
		part.Choices = append(part.Choices, page.Choice{Label: "console.period." + name, URL: frame.Root + "?" + url.Values{"period": {name}}.Encode(), Current: name == p.name})
	}
	t := &page.Table{Label: page.Say("console.numbers.title"), Columns: []string{"console.column.time"}}
	var sites tally.Answer
	err := c.Store.View(v.Context(), func(tx storage.Tx) error {
		part.Charts, t.Rows, t.Columns = nil, nil, t.Columns[:1]
		for _, m := range measures {
			if m.daily && p.unit != tally.Day {
				continue
			}
			q.Measure, q.By = m.name, ""
			a, err := tally.Read(tx, q)
			if err != nil {
				return err
			}
			addMeasure(&part, t, a, m.key, m.bad, m.daily)
		}
		q.Measure, q.By = tally.Denials, tally.Site
		var err error
		sites, err = tally.Read(tx, q)
		return err
	})
	part.Table = t
	return []page.ConsolePart{part, sitesPart(sites)}, err
}

// addMeasure adds a chart, and a column of the table. most says that the days are not added up.
func addMeasure(part *page.ConsolePart, t *page.Table, a tally.Answer, key string, bad, most bool) {
	s := a.Series[0]
	total := s.Total
	if most {
		total = 0
		for _, n := range s.Counts {
			total = max(total, n)
		}
	}
	part.Charts = append(part.Charts, page.Chart{Label: page.Say(key), Total: strconv.FormatInt(total, 10), Counts: s.Counts, Bad: bad})
	t.Columns = append(t.Columns, key)
	for i, at := range a.Starts {
		if i == len(t.Rows) {
			t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{{Text: page.Say("console.time", "time", at)}}})
		}
		t.Rows[i].Cells = append(t.Rows[i].Cells, page.Cell{Name: strconv.FormatInt(s.Counts[i], 10)})
	}
}

// sitesPart lists the sites that have refused most requests.
func sitesPart(a tally.Answer) page.ConsolePart {
	part := page.ConsolePart{ID: "denials", Title: page.Say("console.denials.title")}
	t := &page.Table{Label: page.Say("console.denials.title"), Columns: []string{"console.column.site", "console.column.refused"}}
	for _, s := range a.Series {
		if s.Total > 0 && len(t.Rows) < mostSites {
			t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{{Name: s.Name}, {Name: strconv.FormatInt(s.Total, 10)}}})
		}
	}
	if part.Table = t; len(t.Rows) == 0 {
		part.Table, part.Text = nil, page.Say("console.denials.none")
	}
	return part
}
