package gateway

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/refusal"
)

// refusalsScreen lists who was refused during the last day, by sites, at the sign-in and elsewhere.
func (g *gateway) refusalsScreen() *frame.Screen {
	return &frame.Screen{Name: "refusals", Path: refusalsPath, Icon: "alert", Role: frame.Viewer, Show: g.showRefusals}
}

// places are where somebody can be refused.
var places = []string{refusal.Site, refusal.SignIn, refusal.StepUp, refusal.OAuth, refusal.API, refusal.Page}

func (g *gateway) showRefusals(v *frame.Visit) (*page.Console, error) {
	q := v.URL.Query()
	fields := []page.Field{
		{Name: "ref", Label: "console.field.ref", Hint: "console.field.ref.hint", Value: strings.TrimSpace(q.Get("ref"))},
		{Name: "person", Type: "search", Label: "console.column.person", Hint: "console.events.person.hint", Value: strings.TrimSpace(q.Get("person"))},
		{Name: "site", Label: "console.column.site", Value: strings.TrimSpace(q.Get("site"))},
		{Name: "where", Type: "select", Label: "console.column.where", Value: q.Get("where"), Options: []page.Option{{Label: "console.any"}}},
	}
	for _, where := range places {
		fields[3].Options = append(fields[3].Options, page.Option{Value: where, Label: "console.where." + where})
	}
	out := &page.Console{Title: page.Say("console.refusals.title"), Lead: page.Say("console.refusals.text"), Filter: &page.Filter{Action: v.Path(), Fields: fields}}
	f := refusal.Filter{Where: q.Get("where"), Behind: q.Get("after"), Limit: frame.Rows}
	if slices.ContainsFunc(fields, func(f page.Field) bool { return f.Value != "" }) {
		out.Filter.Clear = v.Path()
	}
	wrong := ""
	if typed := fields[0].Value; typed != "" {
		ref, err := refusal.ParseRef(typed)
		if err == nil {
			if err := v.Redirect(RefusalPath(ref)); err != nil {
				return nil, err
			}
			return nil, front.ErrAnswered
		}
		wrong = "ref"
	}
	if site := fields[2].Value; site != "" {
		f.Sites = []string{site}
		list, err := g.Sites()
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(list, func(s Site) bool { return s.ID == site }); i >= 0 {
			f.Sites = list[i].hosts()
		}
	}
	if who := fields[1].Value; who != "" {
		p, err := g.Identity.Person.Person(v.Context(), who)
		switch f.Person = p.ID; {
		case errors.Is(err, person.ErrNoPerson) && person.IsID(who):
			f.Person = who // who has been removed since
		case errors.Is(err, person.ErrNoPerson):
			wrong = "person"
		case err != nil:
			return nil, err
		}
	}
	for i := range fields {
		if fields[i].Name == wrong {
			fields[i].Problem = "console.problem.filter"
		}
	}
	var list []refusal.Refusal
	more := false
	if wrong == "" {
		var err error
		if list, more, err = g.Refusals.List(v.Context(), f); err != nil {
			return nil, err
		}
	}
	t, next := g.refusalTable(list, false), ""
	if more {
		next = list[len(list)-1].Ref
	}
	t.First, t.Next = v.Pages(next)
	out.Parts = []page.ConsolePart{{Table: t}}
	switch {
	case len(list) > 0:
	case out.Filter.Clear == "":
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.refusals.none")}
	default:
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none"), Next: &page.Action{Label: "console.filter.clear", URL: v.Path()}}
	}
	return out, nil
}

// refusalTable lists refusals. Reasons are English, as in the log. at: those of one site
func (g *gateway) refusalTable(list []refusal.Refusal, at bool) *page.Table {
	t := &page.Table{Label: page.Say("console.refusals.title"), Columns: []string{"console.column.request", "console.column.time", "console.column.person", "console.column.reason"}}
	for i := range list {
		f := &list[i]
		what := page.Cell{Name: strings.TrimSpace(f.Method + " " + f.Site + f.Path), Note: f.Ref}
		switch {
		case at:
			what.Name = strings.TrimSpace(f.Method + " " + f.Path)
		case f.Where == refusal.SignIn, f.Where == refusal.StepUp, what.Name == "":
			what = page.Cell{Text: page.Say("console.where." + f.Where), Note: f.Ref}
		}
		t.Rows = append(t.Rows, page.TableRow{URL: RefusalPath(f.Ref), Cells: []page.Cell{what, {Text: page.Say("console.time", "time", f.At)}, whoCell(f), {Name: f.Reason.Why(), Note: f.Detail}}})
	}
	return t
}

// whoCell is who was refused.
func whoCell(f *refusal.Refusal) page.Cell {
	switch {
	case f.PersonID != "":
		return page.Cell{Name: cmp.Or(f.Username, f.PersonID), URL: personPath(f.PersonID)}
	case f.Where == refusal.SignIn || f.Where == refusal.StepUp:
		return page.Cell{Text: page.Say("console.explain.stranger"), Note: f.ClientID} // where they came from
	case f.ClientID != "":
		return page.Cell{Name: f.ClientID, URL: applicationPath(f.ClientID)}
	}
	return page.Cell{Text: page.Say("console.explain.stranger")}
}

// refusalScreen tells why somebody was refused, and what the same request would get now.
func (g *gateway) refusalScreen() *frame.Screen {
	return &frame.Screen{Name: "refusal", Path: refusalsPath + "/{id}", Role: frame.Viewer, Show: g.showRefusal}
}

func (g *gateway) showRefusal(v *frame.Visit) (*page.Console, error) {
	out := &page.Console{Title: page.Say("console.refusal.title"), Up: &page.Up{Label: page.Say("console.refusals.title"), URL: frame.Root + refusalsPath}}
	ref, err := refusal.ParseRef(v.PathValue("id"))
	if err != nil {
		return nil, front.NotFound()
	}
	f, err := g.Refusals.Find(v.Context(), ref)
	if errors.Is(err, refusal.ErrUnknown) {
		out.Parts = []page.ConsolePart{{Empty: &page.Empty{Text: page.Say("console.refusal.gone", "ref", ref), Next: &page.Action{Label: "console.refusals.title", URL: frame.Root + refusalsPath}}}}
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	facts := []page.ConsoleFact{
		{Label: "console.field.why", Cells: []page.Cell{{Name: f.Reason.Why(), Note: f.Detail}}},
		{Label: "console.column.mend", Cells: []page.Cell{{Name: f.Reason.Mend()}}},
		{Label: "console.column.person", Cells: []page.Cell{whoCell(&f)}},
		{Label: "console.column.time", Cells: []page.Cell{{Text: page.Say("console.time", "time", f.At)}}},
		{Label: "console.field.ref", Cells: []page.Cell{{Name: f.Ref, Code: true}}},
		{Label: "console.column.where", Cells: []page.Cell{{Text: page.Say("console.where." + f.Where)}}},
	}
	if request := strings.TrimSpace(f.Method + " " + f.Site + f.Path); request != "" {
		facts = append(facts, page.ConsoleFact{Label: "console.field.request", Cells: []page.Cell{{Name: request, Code: true}}})
	}
	out.Lead = page.Say("console.refusal.sentence", "text", strings.Replace(f.Sentence(), " (person "+f.PersonID+")", "", 1)) // their page is one click away
	out.Parts = []page.ConsolePart{{Facts: facts}}
	if f.PersonID != "" {
		out.Parts[0].Actions = append(out.Parts[0].Actions, page.Action{Label: "console.refusals.person", URL: RefusalsOf(f.PersonID)})
	}
	if f.Where != refusal.Site {
		return out, nil
	}
	now, err := g.Explain(v.Request.Request, Question{Ref: f.Ref})
	bad := new(Wrong)
	switch {
	case errors.As(err, &bad), errors.Is(err, person.ErrNoPerson):
		out.Parts = append(out.Parts, page.ConsolePart{ID: "answer", Title: page.Say("console.refusal.now"), Text: page.Say("console.explain.problem", "reason", err.Error())})
		return out, nil
	case err != nil:
		return nil, err
	}
	parts := explained(now)
	parts[0].Title = page.Say("console.refusal.now")
	parts[0].Actions = []page.Action{{Label: "console.refusal.other", URL: frame.With(frame.Root+explainPath, "url", now.URL, "method", now.Method, "person", f.PersonID)}}
	out.Parts = append(out.Parts, parts...)
	return out, nil
}
