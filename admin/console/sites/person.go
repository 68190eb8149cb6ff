package sites

import (
	"cmp"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// PersonPage is a page about a person: their name, status and role, and the tabs that lead to what concerns them.
// current is the title of the tab that it is.
func PersonPage(p *person.Person, rank layout.Role, current string) *web.Console {
	username := admin.Typed(*p)
	out := &web.Console{
		Name: cmp.Or(p.Name, username), Initials: Initials(p), Tags: []web.Cell{StateCell(p.State)},
		Up: &web.Up{Label: web.Say("console.persons.title"), URL: layout.Root + "/persons"},
	}
	if rank != layout.Nobody {
		out.Tags = append(out.Tags, layout.RoleCell(rank))
	}
	if p.Name != "" {
		out.Sub = username
	}
	for _, tab := range []web.Choice{
		{Label: "console.person.tab", URL: personPath(p.ID)},
		{Label: "console.opens.title", URL: opensPath(p.ID)},
		{Label: "console.refusals.title", URL: refusalsOf(p.ID)},
	} {
		tab.Current = tab.Label == current
		out.Tabs = append(out.Tabs, tab)
	}
	return out
}

// StateCell is the state of a person as a mark.
func StateCell(s person.State) web.Cell {
	kind := map[person.State]string{person.Active: "good", person.Invited: "plain", person.Inactive: "warn", person.Blocked: "bad"}[s]
	return web.Cell{Text: web.Say("console.state." + strings.ToLower(string(s))), Kind: kind}
}

// Initials are those of the name of a person, or of the username.
func Initials(p *person.Person) string { return web.Initials(cmp.Or(p.Name, p.Username)) }

// refusalsOf is the list of the refusals of a person.
func refusalsOf(personID string) string {
	return layout.With(layout.Root+refusalsPath, "person", personID)
}

func personPath(id string) string { return layout.Root + "/persons/" + url.PathEscape(id) }
