package console

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// previewScreen tries a sign-in of a person at an application without anybody signing in: whether it would succeed, and
// what the application would learn. Nothing is issued.
func (c *Console) previewScreen() *frame.Screen {
	return &frame.Screen{Name: "preview", Path: "/applications/{id}/preview", Role: frame.Viewer, Find: c.findApplication, Show: c.showPreview}
}

func previewPath(id string) string { return applicationPath(id) + "/preview" }

func (c *Console) showPreview(v *frame.Visit) (*page.Console, error) {
	a, who, scopes := shownClient(v), strings.TrimSpace(v.URL.Query().Get("person")), strings.TrimSpace(v.URL.Query().Get("scopes"))
	out := &page.Console{
		Title: page.Say("console.preview.title"), Lead: page.Say("console.preview.text", "name", v.Called), Up: &page.Up{Name: v.Called, URL: applicationPath(a.ID)},
		Filter: &page.Filter{Action: v.Path(), Submit: "console.preview.show", Fields: []page.Field{
			{Name: "person", Label: "console.field.username", Value: who, Hint: "console.field.member.hint", Required: true},
			{Name: "scopes", Label: "console.field.scopes", Value: scopes, Hint: "console.preview.scopes.hint"},
		}},
	}
	if who == "" {
		return out, nil
	}
	p, err := c.personOf(v, who)
	if errors.Is(err, person.ErrNoPerson) {
		out.Filter.Fields[0].Problem = "console.problem.no_person"
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	var d manage.PersonDetails
	err = c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		d, err = c.Manage.Details(tx, p, v.Now)
		return err
	})
	if err != nil {
		return nil, err
	}
	use, forPeople, err := c.Manage.UseOf(v.Context(), &a.Client, &d)
	if err != nil {
		return nil, err
	}
	if !forPeople {
		out.Parts = []page.ConsolePart{{Empty: &page.Empty{Text: page.Say("console.preview.machine")}}}
		return out, nil
	}
	made, err := c.Manage.Authz.Preview(v.Context(), &a.Client, p.ID, frame.Lines(scopes), use.Level)
	if err != nil {
		return nil, err
	}
	out.Parts = []page.ConsolePart{{ID: "sign-in", Title: page.Say("console.preview.sign_in"), Facts: previewFacts(&d, &use, &made, a.RedirectURIs)}, claimsPart(&made)}
	return out, nil
}

// previewFacts say how the sign-in would go.
func previewFacts(d *manage.PersonDetails, use *manage.Use, made *authz.Preview, redirects []string) []page.ConsoleFact {
	outcome, why := gateway.UseCells(d, use)
	facts := []page.ConsoleFact{
		{Label: "console.column.person", Cells: []page.Cell{{Name: manage.Typed(d.Person), URL: personPath(d.ID)}}},
		{Label: "console.column.outcome", Cells: []page.Cell{outcome}},
	}
	if why.Name != "" || why.Text.Key != "" {
		facts[1].Cells = append(facts[1].Cells, why)
	}
	scopes := page.ConsoleFact{Label: "console.field.scopes", Cells: []page.Cell{frame.OrNone(strings.Join(made.Scope, ", "))}}
	if len(made.Refused) > 0 {
		scopes.Cells = append(scopes.Cells, page.Cell{Text: page.Say("console.preview.refused", "scopes", strings.Join(made.Refused, ", ")), Kind: "bad"})
	}
	facts = append(facts, scopes)
	if made.Level > 0 {
		facts = append(facts, page.ConsoleFact{Label: "console.column.level", Cells: []page.Cell{{Text: page.Say("console.level", "n", made.Level)}}})
	}
	asks := "console.preview.asks.no"
	if made.Asks {
		asks = "console.preview.asks.yes"
	}
	facts = append(facts, page.ConsoleFact{Label: "console.preview.asks", Cells: []page.Cell{{Text: page.Say(asks)}}})
	back := page.ConsoleFact{Label: "console.field.redirect_uris"}
	for _, u := range redirects {
		back.Cells = append(back.Cells, page.Cell{Name: u, Code: true})
	}
	if len(back.Cells) > 0 {
		facts = append(facts, back)
	}
	return facts
}

// claimsPart lists the claims, and where the application finds each.
func claimsPart(made *authz.Preview) page.ConsolePart {
	t := &page.Table{Label: page.Say("console.preview.claims"), Columns: []string{"console.column.claim", "console.column.value", "console.column.id_token", "console.column.userinfo"}}
	all := maps.Clone(made.Userinfo)
	maps.Copy(all, made.IDToken)
	in := func(claims map[string]any, name string) page.Cell {
		if _, ok := claims[name]; ok {
			return page.Cell{Text: page.Say("console.yes"), Kind: "good"}
		}
		return frame.OrNone("")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, ok := all[name].(string)
		if !ok {
			raw, _ := json.Marshal(all[name]) // it has been JSON
			text = string(raw)
		}
		t.Rows = append(t.Rows, page.TableRow{Cells: []page.Cell{{Name: name, Code: true}, {Name: text}, in(made.IDToken, name), in(made.Userinfo, name)}})
	}
	part := page.ConsolePart{ID: "claims", Title: page.Say("console.preview.claims"), Text: page.Say("console.preview.claims.text"), Table: t}
	if len(t.Rows) == 0 {
		part.Text, part.Empty = page.Text{}, &page.Empty{Text: page.Say("console.preview.claims.none")}
	}
	return part
}
