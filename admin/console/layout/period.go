package layout

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Period is a time that a screen counts.
type Period struct {
	Name string // in addresses and messages
	Unit stats.Unit
	long time.Duration
	step time.Duration
}

// periods are all of them, from the shortest to the longest.
var periods = []Period{
	{"hour", stats.Minute, time.Hour, time.Minute},
	{"day", stats.Hour, 24 * time.Hour, time.Hour},
	{"month", stats.Day, 30 * 24 * time.Hour, 24 * time.Hour},
}

// Period is the time that the address of the screen names. Default: the last day
func (v *Visit) Period() Period {
	for _, p := range periods {
		if p.Name == v.URL.Query().Get("period") {
			return p
		}
	}
	return periods[1]
}

// Query asks for that time.
func (p Period) Query(now time.Time) stats.Query {
	until := now.UTC().Truncate(p.step).Add(p.step)
	return stats.Query{Unit: p.Unit, Since: until.Add(-p.long), Until: until}
}

// Periods are links to the screen with each of the times.
func (v *Visit) Periods() (out []web.Choice) {
	now := v.Period().Name
	for _, p := range periods {
		q := v.URL.Query()
		q.Del(SinceParam)
		q.Del("done")
		q.Set("period", p.Name)
		out = append(out, web.Choice{Label: "console.period." + p.Name, URL: v.Path() + "?" + q.Encode(), Current: p.Name == now})
	}
	return out
}

// Numbers is a part with charts, and a table that says the same.
type Numbers struct {
	Part  web.ConsolePart
	table *web.Table
	days  bool // each count is of a day
}

// NewNumbers returns an empty part for the period of the visit.
func (v *Visit) NewNumbers(id string, title web.Text) *Numbers {
	t := &web.Table{Label: title, Columns: []string{"console.column.time"}}
	return &Numbers{
		web.ConsolePart{ID: id, Title: title, Fold: web.Say("console.chart.table"), Choices: v.Periods(), Table: t},
		t,
		v.Period().Unit == stats.Day,
	}
}

// Begin takes away what was added, for a transaction that runs again.
func (n *Numbers) Begin() {
	n.Part.Charts, n.table.Rows, n.table.Columns = nil, nil, n.table.Columns[:1]
}

// Measure is a number over time.
type Measure struct {
	Key    string // of its name
	URL    string // of what it counts. Empty: there is no such page
	Bad    bool   // it counts what should not happen
	Starts []time.Time
	Counts []int64
	Total  int64
	// Say says a number in words. nil: the number
	Say func(n int64) string
}

// Add adds a chart, and a column of the table.
func (n *Numbers) Add(m Measure) {
	say := m.Say
	if say == nil {
		say = func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	chart := web.Chart{Label: web.Say(m.Key), URL: m.URL, Total: say(m.Total), Counts: m.Counts, Bad: m.Bad, Days: n.days}
	if len(m.Counts) > 0 && slices.Max(m.Counts) > 0 {
		chart.Most = say(slices.Max(m.Counts))
	}
	if len(m.Starts) > 0 {
		chart.From, chart.To = m.Starts[0], m.Starts[len(m.Starts)-1]
	}
	n.Part.Charts = append(n.Part.Charts, chart)
	n.table.Columns = append(n.table.Columns, m.Key)
	for i, at := range m.Starts {
		if i == len(n.table.Rows) {
			n.table.Rows = append(n.table.Rows, web.TableRow{Cells: []web.Cell{{Text: web.Say("console.time", "time", at)}}})
		}
		n.table.Rows[i].Cells = append(n.table.Rows[i].Cells, web.Cell{Name: say(m.Counts[i])})
	}
}

// With is an address with parameters. Those without a value are left out.
func With(path string, params ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(params); i += 2 {
		if params[i+1] != "" {
			q.Set(params[i], params[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}
