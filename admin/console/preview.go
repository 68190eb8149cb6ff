package console

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// previewScreen tries a sign-in of a person at an application without anybody signing in: whether it would succeed, and
// what the application would learn. Nothing is issued.
func (c *Console) previewScreen() *layout.Screen {
	return &layout.Screen{
		Name: "preview", Path: "/applications/{id}/preview", Role: layout.Viewer,
		Find: c.findApplication, Show: c.showPreview,
	}
}

func previewPath(id string) string { return applicationPath(id) + "/preview" }

func (c *Console) showPreview(v *layout.Visit) (*web.Console, error) {
	a, who, scopes := shownClient(v), strings.TrimSpace(v.URL.Query().Get("person")), strings.TrimSpace(v.URL.Query().Get("scopes"))
	out := c.applicationPage(a, "console.preview.title")
	out.Lead = web.Say("console.preview.text", "name", v.Called)
	out.Filter = &web.Filter{Action: v.Path(), Submit: "console.preview.show", Fields: []web.Field{
		{Name: "person", Label: "console.field.username", Value: who, Hint: "console.field.member.hint", Required: true},
		{Name: "scopes", Label: "console.field.scopes", Value: scopes, Hint: "console.preview.scopes.hint"},
	}}
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
	var d admin.PersonDetails
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
		out.Parts = []web.ConsolePart{{Empty: &web.Empty{Text: web.Say("console.preview.machine")}}}
		return out, nil
	}
	made, err := c.Manage.Authz.Preview(v.Context(), &a.Client, p.ID, layout.Lines(scopes), use.Level)
	if err != nil {
		return nil, err
	}
	out.Parts = []web.ConsolePart{{
		ID: "sign-in", Title: web.Say("console.preview.sign_in"),
		Facts: previewFacts(&d, &use, &made, a.RedirectURIs),
	}, claimsPart(&made)}
	return out, nil
}

// previewFacts say how the sign-in would go.
func previewFacts(d *admin.PersonDetails, use *admin.Use, made *authz.Preview, redirects []string) []web.ConsoleFact {
	outcome, why := sites.UseCells(d, use)
	facts := []web.ConsoleFact{
		{Label: "console.column.person", Cells: []web.Cell{{Name: admin.Typed(d.Person), URL: personPath(d.ID)}}},
		{Label: "console.column.outcome", Cells: []web.Cell{outcome}},
	}
	if why.Name != "" || why.Text.Key != "" {
		facts[1].Cells = append(facts[1].Cells, why)
	}
	scopes := web.ConsoleFact{Label: "console.field.scopes", Cells: []web.Cell{layout.OrNone(strings.Join(made.Scope, ", "))}}
	if len(made.Refused) > 0 {
		scopes.Cells = append(scopes.Cells,
			web.Cell{Text: web.Say("console.preview.refused", "scopes", strings.Join(made.Refused, ", ")), Kind: "bad"})
	}
	facts = append(facts, scopes)
	if made.Level > 0 {
		facts = append(facts, web.ConsoleFact{
			Label: "console.column.level",
			Cells: []web.Cell{{Text: web.Say("console.level", "n", made.Level)}},
		})
	}
	asks := "console.preview.asks.no"
	if made.Asks {
		asks = "console.preview.asks.yes"
	}
	facts = append(facts, web.ConsoleFact{Label: "console.preview.asks", Cells: []web.Cell{{Text: web.Say(asks)}}})
	back := web.ConsoleFact{Label: "console.field.redirect_uris"}
	for _, u := range redirects {
		back.Cells = append(back.Cells, web.Cell{Name: u, Code: true})
	}
	if len(back.Cells) > 0 {
		facts = append(facts, back)
	}
	return facts
}

// claimsPart lists the claims, and where the application finds each.
func claimsPart(made *authz.Preview) web.ConsolePart {
	t := &web.Table{
		Label:   web.Say("console.preview.claims"),
		Columns: []string{"console.column.claim", "console.column.value", "console.column.id_token", "console.column.userinfo"},
	}
	all := maps.Clone(made.Userinfo)
	maps.Copy(all, made.IDToken)
	in := func(claims map[string]any, name string) web.Cell {
		if _, ok := claims[name]; ok {
			return web.Cell{Text: web.Say("console.yes"), Kind: "good"}
		}
		return layout.OrNone("")
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text, ok := all[name].(string)
		if !ok {
			raw, _ := json.Marshal(all[name]) // it has been JSON
			text = string(raw)
		}
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			{Name: name, Code: true},
			{Name: text},
			in(made.IDToken, name),
			in(made.Userinfo, name),
		}})
	}
	part := web.ConsolePart{ID: "claims", Title: web.Say("console.preview.claims"), Text: web.Say("console.preview.claims.text"), Table: t}
	if len(t.Rows) == 0 {
		part.Text, part.Empty = web.Text{}, &web.Empty{Text: web.Say("console.preview.claims.none")}
	}
	return part
}
