package sites

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// lastDifferences is the number of requests on the page of a site for which its shadow rules decide otherwise.
const lastDifferences = 20

// tried are the counters of sites with shadow rules.
var tried = []struct{ measure, key string }{
	{stats.Tried, "console.shadow.tried"}, {stats.TriedRefusals, "console.shadow.refusals"}, {stats.TriedEntries, "console.shadow.entries"},
}

// hasTrial reports whether the site tries rules.
func (s *Site) hasTrial() bool {
	return slices.ContainsFunc(s.Gates, func(g Gate) bool { return g.Trial != nil })
}

// origins are those of the site.
func (s *Site) origins() (out []string) {
	for _, g := range s.Gates {
		out = append(out, g.Origins...)
	}
	return out
}

// shadowPart says how the rules that are tried would have decided: how often otherwise, from counters, and the last
// requests about which they would.
func (g *gateway) shadowPart(v *layout.Visit, s *Site) (web.ConsolePart, error) {
	part := web.ConsolePart{ID: "shadow", Title: web.Say("console.shadow.title"), Text: web.Say("console.shadow.text")}
	q := v.Period().Query(v.Now)
	q.By = stats.Site
	err := g.Store.View(v.Context(), func(tx storage.Tx) error {
		part.Facts = nil
		for _, m := range tried {
			q.Measure = m.measure
			totals, err := stats.Totals(tx, q, []string{s.Name})
			if err != nil {
				return err
			}
			part.Facts = append(part.Facts, web.ConsoleFact{Label: m.key, Cells: []web.Cell{{Name: strconv.FormatInt(totals[s.Name], 10)}}})
		}
		return nil
	})
	if err != nil {
		return part, err
	}
	list, err := g.Differences(v.Context(), s.origins(), lastDifferences)
	if err != nil {
		return part, err
	}
	part.Table = &web.Table{
		Label: web.Say("console.shadow.last"),
		Columns: []string{
			"console.column.time", "console.field.caller", "console.field.request", "console.column.outcome",
			"console.column.would", "console.column.rule",
		},
	}
	for i := range list {
		d := &list[i]
		who := web.Cell{Text: web.Say("console.explain.stranger")}
		switch {
		case d.PersonID != "":
			who = web.Cell{Name: cmp.Or(d.Username, d.PersonID), URL: personPath(d.PersonID)}
		case d.ClientID != "":
			who = web.Cell{Name: d.ClientID, URL: applicationPath(d.ClientID)}
		}
		rule := layout.OrNone(d.ShadowRule)
		if d.LiveRule != "" {
			rule.Hint = web.Say("console.shadow.live", "rule", d.LiveRule)
		}
		part.Table.Rows = append(part.Table.Rows, web.TableRow{Cells: []web.Cell{
			{Text: web.Say("console.time", "time", d.At)},
			who,
			{Name: d.Method + " " + d.Path, Code: true},
			verdictCell(d.Live),
			verdictCell(d.Shadow), rule,
		}})
	}
	if len(list) == 0 {
		part.Table, part.Empty = nil, &web.Empty{Text: web.Say("console.shadow.none")}
	}
	return part, nil
}

// trialPart lists the rules that a directive tries. part: that of the directive
func trialPart(t *Trial, part string, known map[string]bool) web.ConsolePart {
	out := web.ConsolePart{ID: part + "trial", Title: web.Say("console.shadow.rules")}
	if len(t.Asks) > 0 {
		out.Facts = append(out.Facts, codes("console.column.asks", t.Asks, ""))
	}
	if len(t.Policies) > 0 {
		out.Facts = append(out.Facts, policyFact(t.Policies, known))
	}
	if len(t.Rules) > 0 {
		out.Table = ruleTable(t.Rules, nil)
	}
	if len(out.Facts) == 0 && out.Table == nil {
		out.Text = web.Say("console.shadow.empty")
	}
	return out
}

// policyFact leads to policies. known: those that there are
func policyFact(names []string, known map[string]bool) web.ConsoleFact {
	f := codes("console.field.policies", names, "")
	for i, name := range names {
		if known[name] {
			f.Cells[i].URL = policyPath(name)
		}
	}
	return f
}

// hits returns the number of decisions of each rule in the period of the visit.
func (g *gateway) hits(v *layout.Visit, lists ...[]Rule) (out map[string]int64, err error) {
	var names []string
	for _, r := range slices.Concat(lists...) {
		if r.Counted != "" {
			names = append(names, r.Counted)
		}
	}
	if len(names) == 0 {
		return map[string]int64{}, nil
	}
	q := v.Period().Query(v.Now)
	q.Measure, q.By = stats.RuleDecisions, stats.Rule
	err = g.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		out, err = stats.Totals(tx, q, names)
		return err
	})
	return out, err
}
