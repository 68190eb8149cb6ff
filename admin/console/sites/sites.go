package sites

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// counted are the counters of each site.
var counted = []struct {
	measure, key string
	bad          bool
}{
	{stats.Admissions, "console.column.allowed", false},
	{stats.Denials, "console.column.refused", true},
	{stats.StepUps, "console.column.step_ups", false},
}

// sitesScreen is the list of the sites.
func (g *gateway) sitesScreen() *layout.Screen {
	return &layout.Screen{Name: "sites", Path: sitesPath, Icon: "globe", Role: layout.Viewer, Show: g.showSites}
}

// waysOn lead from sites to what explains them.
func waysOn(url string) []web.Action {
	return []web.Action{{Label: "console.explain.title", URL: layout.With(layout.Root+explainPath, "url", url)}}
}

func (g *gateway) showSites(v *layout.Visit) (*web.Console, error) {
	list, err := g.Sites()
	if err != nil {
		return nil, err
	}
	q, after := strings.ToLower(strings.TrimSpace(v.URL.Query().Get("q"))), v.URL.Query().Get("after")
	totals, err := g.totals(v, list)
	if err != nil {
		return nil, err
	}
	t := &web.Table{Label: web.Say("console.sites.title"), Columns: []string{"console.column.site", "console.column.asks"}}
	for _, m := range counted {
		t.Columns = append(t.Columns, m.key)
	}
	next := ""
	for i := range list {
		s := &list[i]
		if s.ID <= after || !strings.Contains(strings.ToLower(s.ID+"\n"+strings.Join(s.hosts(), "\n")), q) {
			continue
		}
		if len(t.Rows) == layout.Rows {
			next = list[i-1].ID
			break
		}
		row := web.TableRow{URL: SitePath(s.ID), Cells: []web.Cell{{Name: s.ID}, s.asks()}}
		for _, m := range counted {
			n := web.Cell{Name: "—"}
			if s.Name != "" {
				n.Name = strconv.FormatInt(totals[m.measure][s.Name], 10)
			}
			row.Cells = append(row.Cells, n)
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	out := &web.Console{
		Title: web.Say("console.sites.title"), Actions: waysOn(""), Parts: []web.ConsolePart{{Choices: v.Periods(), Table: t}},
		Filter: &web.Filter{
			Action: v.Path(),
			Fields: []web.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: v.URL.Query().Get("q"), EnterKeyHint: "search"}},
		},
	}
	if q != "" {
		out.Filter.Clear = v.Path()
	}
	switch {
	case len(list) == 0:
		out.Filter, out.Parts = nil, []web.ConsolePart{{Empty: &web.Empty{Text: web.Say("console.sites.none")}}}
	case len(t.Rows) == 0:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// asks summarizes the requirements of a site.
func (s *Site) asks() web.Cell {
	var words, names []string
	for _, g := range s.Gates {
		words = append(words, g.Asks...)
		names = append(names, g.Policies...)
	}
	slices.Sort(names)
	words = dedupe(words)
	if names = slices.Compact(names); len(names) > 0 {
		words = append(words, "policy "+strings.Join(names, " "))
	}
	return web.Cell{Name: cmp.Or(strings.Join(words, " · "), "—"), Code: len(words) > 0}
}

// dedupe keeps the first of each word.
func dedupe(list []string) (out []string) {
	for _, w := range list {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// totals are the numbers of the period, by measure and site.
func (g *gateway) totals(v *layout.Visit, sites []Site) (out map[string]map[string]int64, err error) {
	var names []string
	for i := range sites {
		if sites[i].Name != "" {
			names = append(names, sites[i].Name)
		}
	}
	q := v.Period().Query(v.Now)
	q.By = stats.Site
	err = g.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		out = map[string]map[string]int64{}
		for _, m := range counted {
			q.Measure = m.measure
			if out[m.measure], err = stats.Totals(tx, q, names); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// siteScreen is one site.
func (g *gateway) siteScreen() *layout.Screen {
	return &layout.Screen{
		Name: "site", Path: sitesPath + "/{id}", Role: layout.Viewer, Find: g.findSite, Show: g.showSite,
		Acts: []*layout.Act{g.doctorAct()},
	}
}

func (g *gateway) findSite(v *layout.Visit) error {
	list, err := g.Sites()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(s Site) bool { return s.ID == v.PathValue("id") })
	if i < 0 {
		return webflow.NotFound()
	}
	v.About, v.Called = &list[i], list[i].ID
	return nil
}

// lastRefusals is the number of refusals on the page of a site.
const lastRefusals = 20

func (g *gateway) showSite(v *layout.Visit) (*web.Console, error) {
	s := v.About.(*Site)
	out := &web.Console{
		Name: s.ID, Up: &web.Up{Label: web.Say("console.sites.title"), URL: layout.Root + sitesPath},
		Actions: append(v.Buttons(), waysOn(s.example())...),
	}
	policies, err := g.Settings.Policies(v.Context())
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for i := range policies {
		known[policies[i].Name] = true
	}
	var rules [][]Rule
	for i := range s.Gates {
		rules = append(rules, s.Gates[i].Rules)
	}
	hits, err := g.hits(v, rules...)
	if err != nil {
		return nil, err
	}
	for i := range s.Gates {
		out.Parts = append(out.Parts, gateParts(v, &s.Gates[i], i, known, hits)...)
	}
	if s.Name != "" {
		numbers, err := g.numbers(v, s.Name)
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, numbers)
	}
	if s.Name != "" && s.hasTrial() {
		shadow, err := g.shadowPart(v, s)
		if err != nil {
			return nil, err
		}
		out.Parts = append(out.Parts, shadow)
	}
	found, _, err := g.Refusals.List(v.Context(), denial.Filter{Where: denial.Site, Sites: s.hosts(), Limit: lastRefusals})
	if err != nil {
		return nil, err
	}
	part := web.ConsolePart{
		ID: "refusals", Title: web.Say("console.site.refusals"), Table: g.refusalTable(found, true),
		Actions: []web.Action{{Label: "console.site.refusals.all", URL: layout.With(layout.Root+refusalsPath, "site", s.ID)}},
	}
	if len(found) == 0 {
		part.Table, part.Actions, part.Empty = nil, nil, &web.Empty{Text: web.Say("console.site.refusals.none")}
	}
	out.Parts = append(out.Parts, part)
	return out, nil
}

// example is an address of the site, to ask about.
func (s *Site) example() string {
	for _, g := range s.Gates {
		if len(g.Origins) > 0 {
			return g.example()
		}
	}
	return ""
}

// example is an address that the gate decides about.
func (g *Gate) example() string {
	if len(g.Origins) == 0 {
		return ""
	}
	return g.exampleAt(g.Origins[0])
}

// exampleAt is an address at an origin that the gate decides about.
func (g *Gate) exampleAt(origin string) string {
	if len(g.Paths) > 0 {
		return origin + strings.ReplaceAll(g.Paths[0], "*", "")
	}
	return origin + "/"
}

// codes are values as they stand in the Caddyfile.
func codes(label string, list []string, otherwise string) web.ConsoleFact {
	f := web.ConsoleFact{Label: label}
	for _, s := range list {
		f.Cells = append(f.Cells, web.Cell{Name: s, Code: true})
	}
	if len(list) == 0 {
		f.Cells = []web.Cell{{Text: web.Say(otherwise)}}
	}
	return f
}

// gateParts say what a directive asks, and list its own rules, with how often each has decided, and those that it
// tries. known: the policies that there are
func gateParts(v *layout.Visit, g *Gate, i int, known map[string]bool, hits map[string]int64) []web.ConsolePart {
	id := "gate" + strconv.Itoa(i)
	facts := []web.ConsoleFact{
		codes("console.field.origins", g.Origins, "console.site.any"),
		codes("console.field.paths", g.Paths, "console.site.all"), codes("console.column.asks", g.Asks, "console.site.credential"),
	}
	if len(g.Open) > 0 {
		facts = append(facts, codes("console.field.open", g.Open, ""))
	}
	if len(g.Policies) > 0 {
		facts = append(facts, policyFact(g.Policies, known))
	}
	if g.Place != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.origin", Cells: []web.Cell{{Name: g.Place, Code: true}}})
	}
	title := web.Say("console.gate." + g.Kind)
	if g.Name != "" {
		title = web.Say("console.gate.named", "name", g.Name)
	}
	out := []web.ConsolePart{{ID: id, Title: title, Facts: facts}}
	if len(g.Rules) > 0 {
		out[0].Table, out[0].Choices = ruleTable(g.Rules, hits), v.Periods()
	}
	if g.Trial != nil {
		out = append(out, trialPart(g.Trial, id, known))
	}
	return out
}

// ruleTable lists rules, with how often each has decided. hits nil: that is not counted
func ruleTable(list []Rule, hits map[string]int64) *web.Table {
	t := &web.Table{
		Label:   web.Say("console.rules.title"),
		Columns: []string{"console.column.rule", "console.column.does", "console.column.conditions", "console.column.place"},
	}
	if hits != nil {
		t.Columns = append(t.Columns, "console.column.decisions")
	}
	for _, r := range list {
		about := web.Cell{Text: web.Say("console.site.all")}
		if len(r.Asks) > 0 {
			about = web.Cell{Name: strings.Join(r.Asks, " · "), Code: true}
		}
		row := web.TableRow{Cells: []web.Cell{
			{Name: cmp.Or(r.Name, r.Place, "—")},
			kindCell(r.Kind), about,
			{Name: r.Place, Code: r.Place != ""},
		}}
		if hits != nil {
			row.Cells = append(row.Cells, web.Cell{Name: strconv.FormatInt(hits[r.Counted], 10)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// kindCell says what a rule does.
func kindCell(kind string) web.Cell {
	return web.Cell{Text: web.Say("console.rule." + kind), Kind: map[string]string{"allow": "good", "deny": "bad"}[kind]}
}

// numbers shows the activity of the site, from counters alone.
func (g *gateway) numbers(v *layout.Visit, name string) (web.ConsolePart, error) {
	q, shown := v.Period().Query(v.Now), v.NewNumbers("numbers", web.Say("console.numbers.title"))
	q.By, q.Value = stats.Site, name
	err := g.Store.View(v.Context(), func(tx storage.Tx) error {
		shown.Begin()
		for _, m := range counted {
			q.Measure = m.measure
			a, err := stats.Read(tx, q)
			if err != nil {
				return err
			}
			shown.Add(layout.Measure{Key: m.key, Bad: m.bad, Starts: a.Starts, Counts: a.Series[0].Counts, Total: a.Series[0].Total})
		}
		return nil
	})
	return shown.Part, err
}
