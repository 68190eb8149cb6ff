package gateway

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// Examination is what the doctor looks at: a page of a site of the configuration, which nobody types in.
type Examination struct {
	URL    string
	Public string // a path that is open, or looks as if it was
	Proxy  string // that serves the site
}

// Finding is what one probe of the doctor has shown.
type Finding struct {
	Probe, Verdict string // ok, failed or warning
	What, Mend     string
}

// ErrBusy is the error of a doctor who looks at something else.
var ErrBusy = errors.New("the doctor looks at another site")

// Doctor probes a site.
type Doctor interface {
	// Proxies are those that there are mends for. Own is the one for sites of Gatehouse itself.
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
func (g *gateway) doctorAct() *frame.Act {
	return &frame.Act{Name: "doctor", Role: frame.Operator, When: func(v *frame.Visit) bool {
		origins, _ := v.About.(*Site).probed()
		return len(origins) > 0
	}, Ask: g.askDoctor, Do: g.runDoctor}
}

func (g *gateway) askDoctor(v *frame.Visit) (q frame.Question, err error) {
	origins, of := v.About.(*Site).probed()
	at := page.Field{Name: "origin", Type: "select", Label: "console.doctor.origin"}
	foreign := false
	for _, origin := range origins {
		at.Options = append(at.Options, page.Option{Value: origin, Label: origin})
		foreign = foreign || of[origin].Kind != "protect"
	}
	if q.Fields = []page.Field{at}; foreign {
		all, own := g.Doctor.Proxies()
		with := page.Field{Name: "proxy", Type: "select", Label: "console.doctor.proxy", Hint: "console.doctor.proxy.hint"}
		for _, name := range all {
			if name != own {
				with.Options = append(with.Options, page.Option{Value: name, Label: name})
			}
		}
		q.Fields = append(q.Fields, with)
	}
	return q, nil
}

// runDoctor probes an origin that the configuration names, and no other: the form chooses one of a list.
func (g *gateway) runDoctor(v *frame.Visit, in url.Values) (frame.Result, error) {
	origins, of := v.About.(*Site).probed()
	origin := in.Get("origin")
	if !slices.Contains(origins, origin) {
		return frame.Result{}, &frame.Problem{Field: "origin", Key: "console.problem.value"}
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
			return frame.Result{}, &frame.Problem{Field: "proxy", Key: "console.problem.value"}
		}
	}
	if err := g.Manage.NoteExamination(v.Context(), origin, v.Actor()); err != nil {
		return frame.Result{}, err
	}
	found, err := g.Doctor.Examine(v.Context(), e)
	bad := new(Wrong)
	switch {
	case errors.Is(err, ErrBusy):
		return frame.Result{}, &frame.Problem{Key: "console.doctor.busy"}
	case errors.As(err, &bad):
		return frame.Result{}, &frame.Problem{Key: "console.doctor.problem", Fill: []any{"reason", bad.Reason}}
	case err != nil:
		return frame.Result{}, err
	}
	return frame.Result{Page: doctorPage(v, e, found)}, nil
}

// plainPath is a path without what stands for anything.
func plainPath(pattern string) string {
	path := "/" + strings.Trim(strings.ReplaceAll(pattern, "*", ""), "/")
	if strings.ContainsAny(path, " ?#{}\\") {
		return "/"
	}
	return path
}

// doctorPage says what the probes have shown: what needs mending first. Findings are English, as in the command.
func doctorPage(v *frame.Visit, e Examination, found []Finding) *page.Console {
	out := &page.Console{Title: page.Say("console.doctor.title"), Up: v.Up(), Actions: []page.Action{{Label: "console.doctor.again", URL: v.Path() + "/doctor"}}}
	bad := page.ConsolePart{ID: "findings", Title: page.Say("console.doctor.findings"), Table: &page.Table{Label: page.Say("console.doctor.findings"), Columns: []string{"console.column.probe", "console.column.outcome", "console.column.found", "console.column.mend"}}}
	good := page.ConsolePart{ID: "passed", Title: page.Say("console.doctor.passed"), Fold: page.Say("console.doctor.table"), Table: &page.Table{Label: page.Say("console.doctor.passed"), Columns: []string{"console.column.probe", "console.column.found"}}}
	failed := false
	for _, f := range found {
		if f.Verdict == "ok" {
			good.Table.Rows = append(good.Table.Rows, page.TableRow{Cells: []page.Cell{{Name: f.Probe}, {Name: f.What, Quoted: true}}})
			continue
		}
		kind := map[string]string{"failed": "bad"}[f.Verdict]
		if failed = failed || kind == "bad"; kind == "" {
			kind = "warn"
		}
		bad.Table.Rows = append(bad.Table.Rows, page.TableRow{Cells: []page.Cell{{Name: f.Probe}, {Text: page.Say("console.doctor." + f.Verdict), Kind: kind}, {Name: f.What, Quoted: true}, {Name: f.Mend, Quoted: true}}})
	}
	switch {
	case failed:
		out.Problem = page.Say("console.doctor.bad", "address", e.URL)
	case len(bad.Table.Rows) > 0:
		out.Lead = page.Say("console.doctor.doubt", "address", e.URL)
	default:
		out.Done = page.Say("console.doctor.good", "n", len(found), "address", e.URL)
	}
	if len(bad.Table.Rows) > 0 {
		out.Parts = append(out.Parts, bad)
	}
	if len(good.Table.Rows) > 0 {
		out.Parts = append(out.Parts, good)
	}
	return out
}
