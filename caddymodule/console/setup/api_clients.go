package setup

import (
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/personal"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/tally"
	"github.com/gatehouse-id/gatehouse/storage"
)

const apiClientsPath = "/api-clients"

// apiClientsScreen is the programs that have credentials: API clients, and programs with app passwords of people.
func (s *setup) apiClientsScreen() *frame.Screen {
	return &frame.Screen{Name: "api-clients", Path: apiClientsPath, Icon: "gear", Role: frame.Viewer, Show: s.showAPIClients}
}

func (s *setup) showAPIClients(v *frame.Visit) (*page.Console, error) {
	clients := s.Authz.Clients().APIClients()
	var last []tally.Last
	var owned []personal.Owned
	var names map[string]string
	next := ""
	err := s.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		last = nil
		for i := range clients {
			l, _, err := tally.LastOf(tx, tally.Calls, tally.APIClient, clients[i].ID)
			if err != nil {
				return err
			}
			last = append(last, l)
		}
		if owned, next, err = s.Authz.AppPasswords().All(tx, v.URL.Query().Get("after"), frame.Rows, v.Now); err != nil {
			return err
		}
		var ids []string
		for i := range owned {
			ids = append(ids, owned[i].Person)
		}
		names, err = s.Names(tx, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	programs := &page.Table{Label: page.Say("console.api-clients.programs"), Columns: []string{"console.field.client_id", "console.column.apis", "console.column.state", "console.column.seen", "console.column.address", "console.column.place"}}
	for i := range clients {
		c := &clients[i]
		programs.Rows = append(programs.Rows, page.TableRow{Cells: []page.Cell{
			{Name: c.ID, Code: true}, {Name: strings.Join(c.APIs, ", "), Note: strings.Join(c.Partitions, ", ")}, enabledCell(!c.Disabled), when(last[i].At), frame.OrNone(last[i].Address), {Name: s.PlaceOf("api_client " + c.ID), Code: true},
		}})
	}
	secrets := &page.Table{Label: page.Say("console.person.app_passwords"), Columns: []string{"console.column.name", "console.column.person", "console.column.sites", "console.column.seen", "console.column.address", "console.column.uses"}}
	for i := range owned {
		o := &owned[i]
		at := pathOf("/persons", o.Person)
		name := names[o.Person]
		if name == "" {
			name = o.Person
		}
		secrets.Rows = append(secrets.Rows, page.TableRow{URL: at + "#app_passwords", Cells: []page.Cell{
			{Name: o.Name}, {Name: name, URL: at}, {Name: strings.Join(o.Sites, ", ")}, when(o.Last), frame.OrNone(o.LastAddress), {Name: usesOf(o.Count, o.Limit)},
		}})
	}
	secrets.First, secrets.Next = v.Pages(next)
	out := &page.Console{Title: page.Say("console.api-clients.title"), Lead: page.Say("console.api-clients.text"), Parts: []page.ConsolePart{
		{ID: "programs", Title: page.Say("console.api-clients.programs"), Text: page.Say("console.api-clients.programs.text"), Table: programs},
		{ID: "secrets", Title: page.Say("console.person.app_passwords"), Text: page.Say("console.api-clients.secrets.text"), Table: secrets},
	}}
	if len(clients) == 0 {
		out.Parts[0].Table, out.Parts[0].Text, out.Parts[0].Empty = nil, page.Text{}, &page.Empty{Text: page.Say("console.api-clients.none")}
	}
	if len(owned) == 0 && next == "" {
		out.Parts[1].Empty = &page.Empty{Text: page.Say("console.api-clients.secrets.none")}
	}
	return out, nil
}

// usesOf is how often an app password was used, of how many times.
func usesOf(count, limit int) string {
	if limit == 0 {
		return strconv.Itoa(count)
	}
	return strconv.Itoa(count) + " / " + strconv.Itoa(limit)
}
