package sites

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// opensScreen tells what a person can open: all sites, by the very code that decides about their requests, and all
// applications.
func (g *gateway) opensScreen() *layout.Screen {
	return &layout.Screen{Name: "opens", Path: "/persons/{id}/opens", Role: layout.Viewer, Find: g.findPerson, Show: g.showOpens}
}

// opensPath is the page of what a person can open.
func opensPath(id string) string { return personPath(id) + "/opens" }

func (g *gateway) findPerson(v *layout.Visit) error {
	id := v.PathValue("id")
	if !person.IsID(id) {
		return webflow.NotFound()
	}
	return g.Store.View(v.Context(), func(tx storage.Tx) error {
		_, rec, err := g.Identity.Person.Find(tx, id)
		if errors.Is(err, person.ErrNoPerson) || err == nil && rec.State == person.Removed {
			return webflow.NotFound()
		}
		if err != nil {
			return err
		}
		d, err := g.Manage.Details(tx, rec.Person(id), v.Now)
		v.About, v.Called = &d, admin.Typed(d.Person)
		return err
	})
}

// target is something that can be opened. The keys have the order of the list.
type target struct {
	key  string
	url  string // of a site
	use  *admin.Use
	name string
}

// targets are all sites and applications.
func (g *gateway) targets(v *layout.Visit, p *admin.PersonDetails) (out []target, err error) {
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

func (g *gateway) showOpens(v *layout.Visit) (*web.Console, error) {
	p := v.About.(*admin.PersonDetails)
	list, err := g.targets(v, p)
	if err != nil {
		return nil, err
	}
	q, after, next := strings.ToLower(strings.TrimSpace(v.URL.Query().Get("q"))), v.URL.Query().Get("after"), ""
	t := &web.Table{
		Label:   web.Say("console.opens.title"),
		Columns: []string{"console.column.what", "console.field.kind", "console.column.outcome", "console.field.decides"},
	}
	for i, what := range list {
		if what.key <= after || !strings.Contains(strings.ToLower(what.name), q) {
			continue
		}
		if len(t.Rows) == layout.Rows {
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
	out := PersonPage(&p.Person, g.RoleOf(p.Partition, p.Groups), "console.opens.title")
	out.Lead, out.Parts = web.Say("console.opens.text", "name", v.Called), []web.ConsolePart{{Table: t}}
	out.Filter = &web.Filter{
		Action: v.Path(),
		Fields: []web.Field{{Name: "q", Type: "search", Label: "console.field.search", Value: v.URL.Query().Get("q"), EnterKeyHint: "search"}},
	}
	if q != "" {
		out.Filter.Clear = v.Path()
	}
	if len(t.Rows) == 0 {
		out.Parts[0].Empty = &web.Empty{Text: web.Say("console.none")}
	}
	return out, nil
}

// openRow says whether the person can open something.
func (g *gateway) openRow(v *layout.Visit, p *admin.PersonDetails, what *target) (web.TableRow, error) {
	if what.use != nil {
		return useRow(p, what), nil
	}
	row := web.TableRow{
		URL:   layout.With(layout.Root+explainPath, "url", what.url, "person", p.ID),
		Cells: []web.Cell{{Name: what.url}, {Text: web.Say("console.where.site")}},
	}
	e, err := g.Explain(v.Request.Request, Question{URL: what.url, Person: p.ID})
	if bad := new(Wrong); errors.As(err, &bad) {
		row.Cells = append(row.Cells, web.Cell{Name: "—"}, web.Cell{Text: web.Said(bad.Reason)})
		return row, nil
	}
	if err != nil {
		return row, err
	}
	rule, place := e.decider()
	decides := web.Cell{Name: cmp.Or(rule, e.why()), Note: place}
	if strings.HasSuffix(rule, place) {
		decides.Note = ""
	}
	row.Cells = append(row.Cells, verdictCell(e.Verdict), decides)
	return row, nil
}

// useRow says whether the person can use an application.
func useRow(p *admin.PersonDetails, what *target) web.TableRow {
	verdict, why := UseCells(p, what.use)
	return web.TableRow{
		URL:   applicationPath(what.use.ClientID),
		Cells: []web.Cell{{Name: what.name}, {Text: web.Say("console.where.oauth")}, verdict, why},
	}
}

// UseCells say whether the person can use an application, and why not.
func UseCells(p *admin.PersonDetails, use *admin.Use) (outcome, why web.Cell) {
	verdict, best := "allow", 0
	for _, s := range p.Sessions {
		best = max(best, s.Level)
	}
	refused, state := new(oauth.Error), new(person.StateError)
	switch {
	case errors.As(use.Refused, &state):
		verdict, why = "deny", web.Cell{Text: web.Say("console.opens.state")}
	case errors.As(use.Refused, &refused):
		verdict, why = "deny", web.Cell{Text: web.Said(refused.Description)}
		if refused.Cause != nil {
			why.Text = web.Said(refused.Cause.Error())
		}
	case use.Refused != nil:
		verdict, why = "deny", web.Cell{Text: web.Said(use.Refused.Error())}
	case use.Level > max(best, 1):
		verdict, why = "step-up", web.Cell{Text: web.Say("console.level", "n", use.Level)}
	}
	return verdictCell(verdict), why
}
