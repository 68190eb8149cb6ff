package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/registry"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// applicationScreen is one client. Those of the Caddyfile are shown and not changed.
func applicationScreen() *screen {
	return &screen{
		name: "application", path: "/applications/{id}", role: Viewer, find: (*Console).findApplication, show: (*Console).showApplication,
		acts: []*act{
			{name: "rotate", role: Operator, when: hasSecret, ask: askRotate, do: (*Console).rotate},
			{name: "end-old", role: Operator, danger: true, when: hasSecret, do: (*Console).endOld},
			{name: "disable", role: Operator, danger: true, when: func(_ *Console, v *visit) bool { return v.client.Stored && !v.client.Disabled }, do: disable(true)},
			{name: "enable", role: Operator, when: func(_ *Console, v *visit) bool { return v.client.Stored && v.client.Disabled }, do: disable(false)},
			{name: "revoke-client", role: Operator, danger: true, do: (*Console).revokeClient},
			{name: "remove-client", role: Operator, danger: true, when: func(_ *Console, v *visit) bool { return v.client.Stored }, do: (*Console).removeClient},
		},
	}
}

func (c *Console) findApplication(v *visit) error {
	list, err := c.Clients.List(v.Context())
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(a registry.Info) bool { return a.ID == v.PathValue("id") })
	if i < 0 {
		return front.NotFound()
	}
	v.client = &list[i]
	return nil
}

// hasSecret tells whether the client has a secret that is made here.
func hasSecret(_ *Console, v *visit) bool {
	return v.client.Stored && !v.client.Public && slices.Contains([]string{"", "post", "basic"}, v.client.AuthMethod)
}

func (c *Console) showApplication(v *visit) (*page.Console, error) {
	a := v.client
	out := &page.Console{Name: v.called(), Up: &page.Up{Label: page.Say("console.applications.title"), URL: Root + "/applications"}, Tags: []page.Cell{enabledCell(a), originCell(a.Origin)}}
	kind := "console.client.confidential"
	if a.Public {
		kind = "console.client.public"
	}
	facts := []page.ConsoleFact{
		{Label: "console.field.client_id", Cells: []page.Cell{{Name: a.ID, Code: true}}},
		{Label: "console.field.client_kind", Cells: []page.Cell{{Text: page.Say(kind)}}},
		{Label: "console.field.grants", Cells: []page.Cell{orNone(strings.Join(a.Grants, ", "))}},
		{Label: "console.field.scopes", Cells: []page.Cell{orNone(strings.Join(a.Scopes, ", "))}},
	}
	if a.Origin == registry.OriginConfiguration {
		out.Lead = page.Say("console.client.declared")
		if place := c.PlaceOf("client " + a.ID); place != "" {
			facts = append(facts, page.ConsoleFact{Label: "console.field.origin", Cells: []page.Cell{{Name: place, Code: true}}})
		}
	}
	if !a.CreatedAt.IsZero() {
		facts = append(facts, page.ConsoleFact{Label: "console.column.created", Cells: []page.Cell{{Text: page.Say("console.time", "time", a.CreatedAt)}}})
	}
	uris := page.ConsoleFact{Label: "console.field.redirect_uris"}
	for _, u := range a.RedirectURIs {
		uris.Cells = append(uris.Cells, page.Cell{Name: u, Code: true})
	}
	if len(uris.Cells) > 0 {
		facts = append(facts, uris)
	}
	out.Parts = []page.ConsolePart{
		{Facts: facts, Actions: c.buttons(v)},
		{ID: "caddyfile", Title: page.Say("console.client.source"), Text: page.Say("console.client.source.text"), Source: c.SourceOf(&a.Client)},
	}
	return out, nil
}

func askRotate(*Console, *visit) (question, error) {
	return question{fields: []page.Field{{Name: "keep", Type: "checkbox", Checked: true, Hint: "console.field.keep.hint"}}}, nil
}

// rotate makes a new secret. The one of before stays valid if the form says so, until it is ended.
func (c *Console) rotate(v *visit, in url.Values) (result, error) {
	secret, err := c.Clients.ReplaceSecret(v.Context(), v.client.ID, in.Has("keep"), c.actor(v))
	if err != nil {
		return result{}, err
	}
	return c.secretPage(v.client.ID, secret), nil
}

func (c *Console) endOld(v *visit, _ url.Values) (result, error) {
	return result{}, c.Clients.EndOldSecrets(v.Context(), v.client.ID, c.actor(v))
}

func disable(to bool) func(*Console, *visit, url.Values) (result, error) {
	return func(c *Console, v *visit, _ url.Values) (result, error) {
		return result{}, c.Clients.Change(v.Context(), v.client.ID, "disabled", c.actor(v), func(n *client.Client) error {
			n.Disabled = to
			return nil
		})
	}
}

func (c *Console) revokeClient(v *visit, _ url.Values) (result, error) {
	return result{}, c.Clients.Revoke(v.Context(), v.client.ID, c.actor(v))
}

func (c *Console) removeClient(v *visit, _ url.Values) (result, error) {
	return result{to: Root + "/applications"}, c.Clients.Remove(v.Context(), v.client.ID, c.actor(v))
}
