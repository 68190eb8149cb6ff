package console

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/docs/integrations"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// connectionScreen has what an application must know of the issuer, as the settings of one that the guides know, or as
// addresses and keys.
func (c *Console) connectionScreen() *layout.Screen {
	return &layout.Screen{
		Name: "connection", Path: "/applications/{id}/connection", Role: layout.Viewer,
		Find: c.findApplication, Show: c.showConnection,
	}
}

// applicationPage is a page about an application: its name and status, and the tabs that lead to what concerns it.
// current is the title of the tab that it is.
func (c *Console) applicationPage(a *clientstore.Info, current string) *web.Console {
	out := &web.Console{
		Name: cmp.Or(a.Name, a.ID), Up: &web.Up{Label: web.Say("console.applications.title"), URL: layout.Root + "/applications"},
		Logo: c.logoOf(a), Tags: []web.Cell{enabledCell(a), originCell(a.Origin)},
	}
	for _, tab := range []web.Choice{
		{Label: "console.application.tab", URL: applicationPath(a.ID)},
		{Label: "console.connection.title", URL: applicationPath(a.ID) + "/connection"},
		{Label: "console.preview.title", URL: previewPath(a.ID)},
	} {
		tab.Current = tab.Label == current
		out.Tabs = append(out.Tabs, tab)
	}
	return out
}

func (c *Console) showConnection(v *layout.Visit) (*web.Console, error) {
	a := shownClient(v)
	guide := integrations.Fitting(a.RedirectURIs)
	if v.URL.Query().Has("for") {
		guide = integrations.Find(v.URL.Query().Get("for"))
	}
	out := c.applicationPage(a, "console.connection.title")
	out.Lead = web.Say("console.connection.text")
	if len(a.RedirectURIs) > 0 {
		choice := web.Field{
			Name: "for", Type: "select", Label: "console.connection.for",
			Options: []web.Option{{Label: "console.connection.other"}},
		}
		for _, g := range integrations.All() {
			choice.Options = append(choice.Options, web.Option{Value: g.ID, Label: g.Name})
		}
		if guide != nil {
			choice.Value = guide.ID
		}
		out.Filter = &web.Filter{Action: v.Path(), Submit: "console.connection.show", Fields: []web.Field{choice}}
	}
	out.Parts = append(c.snippets(guide, a.ID, "", a.RedirectURIs), c.connectionPart(a))
	return out, nil
}

// snippets are the settings of an application for a client. guide nil: none
func (c *Console) snippets(guide *integrations.Guide, id, secret string, redirects []string) (out []web.ConsolePart) {
	if guide == nil {
		return nil
	}
	steps := guide.For(integrations.Client{Issuer: c.Manage.Authz.Endpoints().Issuer, ID: id, Secret: secret, RedirectURIs: redirects})
	for i, s := range steps {
		part := web.ConsolePart{Said: s.Text, Source: s.Code}
		if i == 0 {
			part.ID, part.Title = "settings", web.Say("console.connection.settings", "name", guide.Name)
		}
		if len(s.Rows) > 0 {
			part.Table = &web.Table{
				Label:   web.Say("console.connection.settings", "name", guide.Name),
				Columns: []string{"console.connection.setting", "console.connection.value"},
			}
			for _, r := range s.Rows {
				part.Table.Rows = append(part.Table.Rows, web.TableRow{Cells: []web.Cell{{Name: r[0]}, {Name: r[1], Quoted: true}}})
			}
		}
		// what belongs together is one part
		if n := len(out); n > 0 && s.Text == "" && out[n-1].Source == "" && out[n-1].Table == nil {
			out[n-1].Source, out[n-1].Table = part.Source, part.Table
			part = out[n-1]
			out = out[:n-1]
		}
		if part.Source != "" && part.ID == "" {
			part.ID = fmt.Sprintf("settings-%d", i)
		}
		out = append(out, part)
	}
	return out
}

// connectionPart has the addresses that a client needs, and what else it must know.
func (c *Console) connectionPart(a *clientstore.Info) web.ConsolePart {
	at := c.Manage.Authz.Endpoints()
	openID := slices.Contains(a.Scopes, client.ScopeOpenID)
	browser := a.HasGrant(client.GrantCode) || a.HasGrant(client.GrantIDToken)
	part := web.ConsolePart{ID: "addresses", Title: web.Say("console.connection.addresses")}
	for _, f := range []struct {
		name, value string
		shown       bool
	}{
		{"client_id", a.ID, true},
		{"issuer", at.Issuer, true},
		{"discovery", at.Discovery, openID},
		{"authorization_endpoint", at.Authorization, browser},
		{"device_endpoint", at.DeviceAuthorization, a.HasGrant(client.GrantDevice)},
		{"token_endpoint", at.Token, len(a.Grants) > 1 || !a.HasGrant(client.GrantIDToken)},
		{"userinfo_endpoint", at.Userinfo, openID},
		{"jwks_uri", at.JWKS, openID},
		{"end_session_endpoint", at.EndSession, openID && browser},
	} {
		if f.shown {
			part.Facts = append(part.Facts, web.ConsoleFact{
				Label: "console.field." + f.name, Cells: []web.Cell{{Name: f.value, Code: true, Copy: "copy-" + f.name}},
			})
		}
	}
	if !a.Public {
		where := "console.connection.secret"
		if a.Origin == clientstore.OriginConfiguration {
			where = "console.unit.declared"
		}
		part.Facts = slices.Insert(part.Facts, 1, web.ConsoleFact{
			Label: "console.field.client_secret", Cells: []web.Cell{{Text: web.Say(where)}},
		})
	}
	return part
}
