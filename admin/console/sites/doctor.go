package sites

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Examination is the subject of an examination by the doctor: a page of a site of the configuration, which no one types
// in.
type Examination struct {
	URL    string
	Public string // a path that is open, or looks as if it was
	Proxy  string // that serves the site
}

// Finding is the result of one probe of the doctor.
type Finding struct {
	Probe, Verdict string // ok, failed or warning
	What, Fix      string
}

// ErrBusy is the error of a doctor who looks at something else.
var ErrBusy = errors.New("the doctor looks at another site")

// Doctor probes a site.
type Doctor interface {
	// Proxies are those that there are fixes for. Own is the one for sites of Gatehouse itself.
	Proxies() (all []string, own string)
	// Examine sends the requests. Errors: ErrBusy, a *Wrong, or a failure.
	Examine(ctx context.Context, e Examination) ([]Finding, error)
}

// probed are the origins of a site that the doctor can look at, and the directive that decides about each.
func (s *Site) probed() (origins []string, of map[string]*Gate) {
	of = map[string]*Gate{}
	for i := range s.Gates {
		for _, origin := range s.Gates[i].Origins {
			if u, err := url.Parse(origin); err == nil && u.Host != "" && !strings.ContainsAny(u.Host, "*{") && of[origin] == nil {
				origins, of[origin] = append(origins, origin), &s.Gates[i]
			}
		}
	}
	return origins, of
}

// doctorAct has a site probed: does anything get past it?
func (g *gateway) doctorAct() *layout.Act {
	return &layout.Act{Name: "doctor", Role: layout.Operator, When: func(v *layout.Visit) bool {
		origins, _ := v.About.(*Site).probed()
		return len(origins) > 0
	}, Ask: g.askDoctor, Do: g.runDoctor}
}

func (g *gateway) askDoctor(v *layout.Visit) (q layout.Question, err error) {
	origins, of := v.About.(*Site).probed()
	at := web.Field{Name: "origin", Type: "select", Label: "console.doctor.origin"}
	foreign := false
	for _, origin := range origins {
		at.Options = append(at.Options, web.Option{Value: origin, Label: origin})
		foreign = foreign || of[origin].Kind != "protect"
	}
	if q.Fields = []web.Field{at}; foreign {
		all, own := g.Doctor.Proxies()
		with := web.Field{Name: "proxy", Type: "select", Label: "console.doctor.proxy", Hint: "console.doctor.proxy.hint"}
		for _, name := range all {
			if name != own {
				with.Options = append(with.Options, web.Option{Value: name, Label: name})
			}
		}
		q.Fields = append(q.Fields, with)
	}
	return q, nil
}

// runDoctor probes an origin that the configuration names, and no other: the form chooses one of a list.
func (g *gateway) runDoctor(v *layout.Visit, in url.Values) (layout.Result, error) {
	origins, of := v.About.(*Site).probed()
	origin := in.Get("origin")
	if !slices.Contains(origins, origin) {
		return layout.Result{}, &layout.Problem{Field: "origin", Key: "console.problem.value"}
	}
	gate := of[origin]
	all, own := g.Doctor.Proxies()
	e := Examination{URL: gate.exampleAt(origin), Public: "/healthz", Proxy: own}
	if len(gate.Open) > 0 {
		if open := plainPath(gate.Open[0]); open != "/" {
			e.Public = open
		}
	}
	if gate.Kind != "protect" {
		if e.Proxy = in.Get("proxy"); e.Proxy == own || !slices.Contains(all, e.Proxy) {
			return layout.Result{}, &layout.Problem{Field: "proxy", Key: "console.problem.value"}
		}
	}
	if err := g.Manage.NoteExamination(v.Context(), origin, v.Actor()); err != nil {
		return layout.Result{}, err
	}
	found, err := g.Doctor.Examine(v.Context(), e)
	bad := new(Wrong)
	switch {
	case errors.Is(err, ErrBusy):
		return layout.Result{}, &layout.Problem{Key: "console.doctor.busy"}
	case errors.As(err, &bad):
		return layout.Result{}, &layout.Problem{Key: "console.doctor.problem", Fill: []any{"reason", web.Foreign(bad.Reason)}}
	case err != nil:
		return layout.Result{}, err
	}
	return layout.Result{Page: doctorPage(v, e, found)}, nil
}

// plainPath is a path without what stands for anything.
func plainPath(pattern string) string {
	path := "/" + strings.Trim(strings.ReplaceAll(pattern, "*", ""), "/")
	if strings.ContainsAny(path, " ?#{}\\") {
		return "/"
	}
	return path
}

// doctorPage says what the probes have shown: what needs fixing first. Findings are English, as in the command.
func doctorPage(v *layout.Visit, e Examination, found []Finding) *web.Console {
	out := &web.Console{
		Title: web.Say("console.doctor.title"), Up: v.Up(),
		Actions: []web.Action{{Label: "console.doctor.again", URL: v.Path() + "/doctor"}},
	}
	bad := web.ConsolePart{
		ID: "findings", Title: web.Say("console.doctor.findings"),
		Table: &web.Table{
			Label:   web.Say("console.doctor.findings"),
			Columns: []string{"console.column.probe", "console.column.outcome", "console.column.found", "console.column.fix"},
		},
	}
	good := web.ConsolePart{
		ID: "passed", Title: web.Say("console.doctor.passed"), Fold: web.Say("console.doctor.table"),
		Table: &web.Table{Label: web.Say("console.doctor.passed"), Columns: []string{"console.column.probe", "console.column.found"}},
	}
	failed := false
	for _, f := range found {
		if f.Verdict == "ok" {
			good.Table.Rows = append(good.Table.Rows, web.TableRow{Cells: []web.Cell{{Name: f.Probe}, {Name: f.What, Quoted: true}}})
			continue
		}
		kind := map[string]string{"failed": "bad"}[f.Verdict]
		if failed = failed || kind == "bad"; kind == "" {
			kind = "warn"
		}
		bad.Table.Rows = append(bad.Table.Rows,
			web.TableRow{Cells: []web.Cell{
				{Name: f.Probe},
				{Text: web.Say("console.doctor." + f.Verdict), Kind: kind},
				{Name: f.What, Quoted: true},
				{Name: f.Fix, Quoted: true},
			}})
	}
	switch {
	case failed:
		out.Problem = web.Say("console.doctor.bad", "address", e.URL)
	case len(bad.Table.Rows) > 0:
		out.Lead = web.Say("console.doctor.doubt", "address", e.URL)
	default:
		out.Done = web.Say("console.doctor.good", "n", len(found), "address", e.URL)
	}
	if len(bad.Table.Rows) > 0 {
		out.Parts = append(out.Parts, bad)
	}
	if len(good.Table.Rows) > 0 {
		out.Parts = append(out.Parts, good)
	}
	return out
}
