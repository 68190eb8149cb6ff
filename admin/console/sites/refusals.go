package sites

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// refusalsScreen lists the refusals of the last day: at sites, at the sign-in and in the other places.
func (g *gateway) refusalsScreen() *layout.Screen {
	return &layout.Screen{Name: "refusals", Path: refusalsPath, Icon: "alert", Role: layout.Viewer, Show: g.showRefusals}
}

// places are the places of refusals.
var places = []string{denial.Site, denial.SignIn, denial.StepUp, denial.OAuth, denial.API, denial.Page}

func (g *gateway) showRefusals(v *layout.Visit) (*web.Console, error) {
	q := v.URL.Query()
	fields := []web.Field{
		{Name: "ref", Label: "console.field.ref", Hint: "console.field.ref.hint", Value: strings.TrimSpace(q.Get("ref"))},
		{
			Name: "person", Type: "search", Label: "console.column.person", Hint: "console.events.person.hint",
			Value: strings.TrimSpace(q.Get("person")),
		},
		{Name: "site", Label: "console.column.site", Value: strings.TrimSpace(q.Get("site"))},
		{Name: "where", Type: "select", Label: "console.column.where", Value: q.Get("where"), Options: []web.Option{{Label: "console.any"}}},
	}
	for _, where := range places {
		fields[3].Options = append(fields[3].Options, web.Option{Value: where, Label: "console.where." + where})
	}
	out := &web.Console{
		Title: web.Say("console.refusals.title"), Lead: web.Say("console.refusals.text"),
		Filter: &web.Filter{Action: v.Path(), Fields: fields},
	}
	f := denial.Filter{Where: q.Get("where"), Behind: q.Get("after"), Limit: layout.Rows}
	selects := func(f web.Field) bool { return f.Value != "" }
	if slices.ContainsFunc(fields, selects) {
		out.Filter.Clear = v.Path()
	}
	wrong, theirs := "", false
	if typed := fields[0].Value; typed != "" {
		ref, err := denial.ParseRef(typed)
		if err == nil {
			if err := v.Redirect(RefusalPath(ref)); err != nil {
				return nil, err
			}
			return nil, webflow.ErrAnswered
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
			f.Person = who // the person has been removed since
		case errors.Is(err, person.ErrNoPerson):
			wrong = "person"
		case err != nil:
			return nil, err
		default:
			if fields[1].Value = admin.Typed(p); who == p.ID { // from their page
				about := PersonPage(&p, g.RoleOf(p.Partition, p.Groups), "console.refusals.title")
				about.Filter, out, theirs = out.Filter, about, true
			}
		}
	}
	if theirs { // the page is about one person, who is not a field of the filter
		out.Filter.Hidden = []web.Hidden{{Name: "person", Value: f.Person}}
		if fields = slices.Delete(fields, 1, 2); !slices.ContainsFunc(fields, selects) {
			out.Filter.Clear = ""
		} else {
			out.Filter.Clear = refusalsOf(f.Person)
		}
		out.Filter.Fields = fields
	}
	for i := range fields {
		if fields[i].Name == wrong {
			fields[i].Problem = "console.problem.filter"
		}
	}
	var list []denial.Refusal
	more := false
	if wrong == "" {
		var err error
		if list, more, err = g.Refusals.List(v.Context(), f); err != nil {
			return nil, err
		}
	}
	t, next := g.refusalTable(list, false), ""
	if theirs { // the page names the person
		for _, r := range t.Rows {
			r.Cells[2] = web.Cell{}
		}
	}
	if more {
		next = list[len(list)-1].Ref
	}
	t.First, t.Next = v.Pages(next)
	out.Parts = []web.ConsolePart{{Table: t}}
	switch {
	case len(list) > 0:
	case out.Filter.Clear == "":
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.refusals.none")}
	default:
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none"), Next: &web.Action{Label: "console.filter.clear", URL: out.Filter.Clear}}
	}
	return out, nil
}

// refusalTable lists refusals. Reasons are English, as in the log. at: all are of one site
func (g *gateway) refusalTable(list []denial.Refusal, at bool) *web.Table {
	t := &web.Table{
		Label:   web.Say("console.refusals.title"),
		Columns: []string{"console.column.request", "console.column.time", "console.column.person", "console.column.reason"},
	}
	for i := range list {
		f := &list[i]
		what := web.Cell{Name: strings.TrimSpace(f.Method + " " + f.Site + f.Path), Note: f.Ref}
		switch {
		case at:
			what.Name = strings.TrimSpace(f.Method + " " + f.Path)
		case f.Where == denial.SignIn, f.Where == denial.StepUp, what.Name == "":
			what = web.Cell{Text: web.Say("console.where." + f.Where), Note: f.Ref}
		}
		t.Rows = append(t.Rows, web.TableRow{
			URL:   RefusalPath(f.Ref),
			Cells: []web.Cell{what, {Text: web.Say("console.time", "time", f.At)}, whoCell(f), {Name: f.Why(), Note: f.Detail}},
		})
	}
	return t
}

// whoCell shows the refused caller.
func whoCell(f *denial.Refusal) web.Cell {
	switch {
	case f.PersonID != "":
		return web.Cell{Name: cmp.Or(f.Username, f.PersonID), URL: personPath(f.PersonID)}
	case f.Where == denial.SignIn || f.Where == denial.StepUp:
		return web.Cell{Text: web.Say("console.explain.stranger"), Note: f.ClientID} // the application that they came from
	case f.ClientID != "":
		return web.Cell{Name: f.ClientID, URL: applicationPath(f.ClientID)}
	}
	return web.Cell{Text: web.Say("console.explain.stranger")}
}

// refusalScreen gives the reason of a refusal, and the outcome that the same request would have now.
func (g *gateway) refusalScreen() *layout.Screen {
	return &layout.Screen{Name: "refusal", Path: refusalsPath + "/{id}", Role: layout.Viewer, Show: g.showRefusal}
}

// remedies returns the actions that let the refused person in, for visitors who can do them: the grant of a request for
// access, and the groups that the site and its rules name.
func (g *gateway) remedies(v *layout.Visit, f *denial.Refusal) (out []web.Action, err error) {
	if f.Where != denial.Site || f.PersonID == "" || f.PersonID == v.Me() || v.Role < layout.Operator {
		return nil, nil
	}
	rank, has := layout.Nobody, []string(nil)
	err = g.Manage.Store.View(v.Context(), func(tx storage.Tx) error {
		_, rec, err := g.Identity.Person.Find(tx, f.PersonID)
		rank, has = g.RoleOf(rec.PartitionName(), rec.Groups), rec.Groups
		return err
	})
	if errors.Is(err, person.ErrNoPerson) {
		return nil, nil
	}
	if err != nil || !v.Outranks(rank) {
		return nil, err
	}
	list, err := g.Sites()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if !slices.Contains(list[i].hosts(), f.Site) {
			continue
		}
		for _, origin := range list[i].origins() {
			r, err := g.Access.Find(v.Context(), f.PersonID, origin)
			if errors.Is(err, access.ErrNone) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if r.State != access.Granted {
				out = append(out, web.Action{Label: "console.refusal.grant", URL: RequestPath(r.ID) + "/grant"})
			}
		}
		for _, group := range list[i].groups() {
			if !slices.Contains(has, group) && (v.Role == layout.Owner || g.RoleOfGroup("", group) == layout.Nobody) {
				out = append(out, web.Action{
					Label: "console.refusal.join", Fill: []any{"name", cmp.Or(f.Username, f.PersonID), "group", group},
					URL: layout.With(personPath(f.PersonID)+"/join", "group", group),
				})
			}
		}
	}
	return out, nil
}

func (g *gateway) showRefusal(v *layout.Visit) (*web.Console, error) {
	out := &web.Console{
		Title: web.Say("console.refusal.title"),
		Up:    &web.Up{Label: web.Say("console.refusals.title"), URL: layout.Root + refusalsPath},
	}
	ref, err := denial.ParseRef(v.PathValue("id"))
	if err != nil {
		return nil, webflow.NotFound()
	}
	f, err := g.Refusals.Find(v.Context(), ref)
	if errors.Is(err, denial.ErrUnknown) {
		out.Parts = []web.ConsolePart{{Empty: &web.Empty{
			Text: web.Say("console.refusal.gone", "ref", ref),
			Next: &web.Action{Label: "console.refusals.title", URL: layout.Root + refusalsPath},
		}}}
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	facts := []web.ConsoleFact{
		{Label: "console.field.why", Cells: []web.Cell{{Name: f.Why(), Note: f.Detail}}},
		{Label: "console.column.fix", Cells: []web.Cell{{Name: f.Reason.Fix()}}},
		{Label: "console.column.person", Cells: []web.Cell{whoCell(&f)}},
		{Label: "console.column.time", Cells: []web.Cell{{Text: web.Say("console.time", "time", f.At)}}},
		{Label: "console.field.ref", Cells: []web.Cell{{Name: f.Ref, Code: true}}},
		{Label: "console.column.where", Cells: []web.Cell{{Text: web.Say("console.where." + f.Where)}}},
	}
	if request := strings.TrimSpace(f.Method + " " + f.Site + f.Path); request != "" {
		facts = append(facts, web.ConsoleFact{Label: "console.field.request", Cells: []web.Cell{{Name: request, Code: true}}})
	}
	out.Lead = web.Say("console.refusal.sentence", "text",
		strings.Replace(f.Sentence(), " (person "+f.PersonID+")", "", 1)) // their page is one click away
	out.Parts = []web.ConsolePart{{Facts: facts}}
	if out.Actions, err = g.remedies(v, &f); err != nil {
		return nil, err
	}
	if f.PersonID != "" {
		out.Parts[0].Actions = append(out.Parts[0].Actions, web.Action{Label: "console.refusals.person", URL: refusalsOf(f.PersonID)})
	}
	if f.Where != denial.Site {
		return out, nil
	}
	now, err := g.Explain(v.Request.Request, Question{Ref: f.Ref})
	bad := new(Wrong)
	switch {
	case errors.As(err, &bad), errors.Is(err, person.ErrNoPerson):
		out.Parts = append(out.Parts, web.ConsolePart{
			ID: "answer", Title: web.Say("console.refusal.now"),
			Text: web.Say("console.explain.problem", "reason", web.Foreign(err.Error())),
		})
		return out, nil
	case err != nil:
		return nil, err
	}
	parts := explained(now)
	parts[0].Title = web.Say("console.refusal.now")
	parts[0].Actions = []web.Action{{
		Label: "console.refusal.other",
		URL:   layout.With(layout.Root+explainPath, "url", now.URL, "method", now.Method, "person", f.PersonID),
	}}
	out.Parts = append(out.Parts, parts...)
	return out, nil
}
