package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// opensScreen tells what a person can open: all sites, by the very code that decides about their requests, and all
// applications.
func (g *gateway) opensScreen() *frame.Screen {
	return &frame.Screen{Name: "opens", Path: "/persons/{id}/opens", Role: frame.Viewer, Find: g.findPerson, Show: g.showOpens}
}

// OpensPath is the page of what a person can open.
func OpensPath(id string) string { return personPath(id) + "/opens" }

func (g *gateway) findPerson(v *frame.Visit) error {
	id := v.PathValue("id")
	if !person.IsID(id) {
		return front.NotFound()
	}
	return g.Store.View(v.Context(), func(tx storage.Tx) error {
		_, rec, err := g.Identity.Person.Find(tx, id)
		if errors.Is(err, person.ErrNoPerson) || err == nil && rec.State == person.Removed {
			return front.NotFound()
		}
		if err != nil {
			return err
		}
		d, err := g.Manage.Details(tx, rec.Person(id), v.Now)
		v.About, v.Called = &d, manage.Typed(d.Person)
		return err
	})
}

// target is something that can be opened. The keys have the order of the list.
type target struct {
	key  string
	url  string // of a site
	use  *manage.Use
	name string
}

// targets are all sites and applications.
func (g *gateway) targets(v *frame.Visit, p *manage.PersonDetails) (out []target, err error) {
	list, err := g.Sites()
	if err != nil {
		return nil, err
	}
	for i := range list {
		seen := map[string]bool{}
		for n := range list[i].Gates {
			if u := list[i].Gates[n].example(); u != "" && !seen[u] {
				seen[u] = true
				out = append(out, target{key: fmt.Sprintf("s %s %03d", list[i].ID, n), url: u, name: u})
			}
		}
	}
	uses, err := g.Manage.Uses(v.Context(), p)
	for i := range uses {
		out = append(out, target{key: "t " + uses[i].ClientID, use: &uses[i], name: uses[i].Name})
	}
	return out, err
}

func (g *gateway) showOpens(v *frame.Visit) (*page.Console, error) {
	p := v.About.(*manage.PersonDetails)
	list, err := g.targets(v, p)
	if err != nil {
		return nil, err
	}
	q, after, next := strings.ToLower(strings.TrimSpace(v.URL.Query().Get("q"))), v.URL.Query().Get("after"), ""
	t := &page.Table{Label: page.Say("console.opens.title"), Columns: []string{"console.column.what", "console.field.kind", "console.column.outcome", "console.field.decides"}}
	for i, what := range list {
		if what.key <= after || !strings.Contains(strings.ToLower(what.name), q) {
			continue
		}
		if len(t.Rows) == frame.Rows {
			next = list[i-1].key
			break
		}
		row, err := g.openRow(v, p, &what)
		if err != nil {
			return nil, err
		}
		t.Rows = append(t.Rows, row)
	}
	t.First, t.Next = v.Pages(next)
	out := &page.Console{
		Title: page.Say("console.opens.title"), Lead: page.Say("console.opens.text", "name", v.Called), Up: &page.Up{Name: v.Called, URL: personPath(p.ID)}, Parts: []page.ConsolePart{{Table: t}},
		Filter: &page.Filter{Action: v.Path(), Fields: []page.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: v.URL.Query().Get("q"), EnterKeyHint: "search"}}},
	}
	if q != "" {
		out.Filter.Clear = v.Path()
	}
	if len(t.Rows) == 0 {
		out.Parts[0].Empty = &page.Empty{Text: page.Say("console.none")}
	}
	return out, nil
}

// openRow says whether the person can open something.
func (g *gateway) openRow(v *frame.Visit, p *manage.PersonDetails, what *target) (page.TableRow, error) {
	if what.use != nil {
		return useRow(p, what), nil
	}
	row := page.TableRow{URL: frame.With(frame.Root+explainPath, "url", what.url, "person", p.ID), Cells: []page.Cell{{Name: what.url}, {Text: page.Say("console.where.site")}}}
	e, err := g.Explain(v.Request.Request, Question{URL: what.url, Person: p.ID})
	if bad := new(Wrong); errors.As(err, &bad) {
		row.Cells = append(row.Cells, page.Cell{Name: "—"}, page.Cell{Name: bad.Reason})
		return row, nil
	}
	if err != nil {
		return row, err
	}
	rule, place := e.decider()
	decides := page.Cell{Name: cmp.Or(rule, e.why()), Note: place}
	if strings.HasSuffix(rule, place) {
		decides.Note = ""
	}
	row.Cells = append(row.Cells, verdictCell(e.Verdict), decides)
	return row, nil
}

// useRow says whether the person can use an application.
func useRow(p *manage.PersonDetails, what *target) page.TableRow {
	verdict, why := UseCells(p, what.use)
	return page.TableRow{URL: applicationPath(what.use.ClientID), Cells: []page.Cell{{Name: what.name}, {Text: page.Say("console.where.oauth")}, verdict, why}}
}

// UseCells say whether the person can use an application, and why not.
func UseCells(p *manage.PersonDetails, use *manage.Use) (outcome, why page.Cell) {
	verdict, best := "allow", 0
	for _, s := range p.Sessions {
		best = max(best, s.Level)
	}
	refused, state := new(oauth.Error), new(person.StateError)
	switch {
	case errors.As(use.Refused, &state):
		verdict, why = "deny", page.Cell{Text: page.Say("console.opens.state")}
	case errors.As(use.Refused, &refused):
		verdict, why = "deny", page.Cell{Name: refused.Description}
		if refused.Cause != nil {
			why.Name = refused.Cause.Error()
		}
	case use.Refused != nil:
		verdict, why = "deny", page.Cell{Name: use.Refused.Error()}
	case use.Level > max(best, 1):
		verdict, why = "step-up", page.Cell{Text: page.Say("console.level", "n", use.Level)}
	}
	return verdictCell(verdict), why
}
