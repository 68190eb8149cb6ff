package providers

import (
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const apiClientsPath = "/api-clients"

// apiClientsScreen is the programs that have credentials: API clients, and programs with app passwords of people.
func (s *setup) apiClientsScreen() *layout.Screen {
	return &layout.Screen{Name: "api-clients", Path: apiClientsPath, Icon: "plug", Role: layout.Viewer, Show: s.showAPIClients}
}

func (s *setup) showAPIClients(v *layout.Visit) (*web.Console, error) {
	clients := s.Authz.Clients().APIClients()
	var last []stats.Last
	var owned []apppassword.Owned
	var names map[string]string
	next := ""
	err := s.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		last = nil
		for i := range clients {
			l, _, err := stats.LastOf(tx, stats.Calls, stats.APIClient, clients[i].ID)
			if err != nil {
				return err
			}
			last = append(last, l)
		}
		if owned, next, err = s.Authz.AppPasswords().All(tx, v.URL.Query().Get("after"), layout.Rows, v.Now); err != nil {
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
	programs := &web.Table{
		Label: web.Say("console.api-clients.programs"),
		Columns: []string{
			"console.field.client_id", "console.column.apis", "console.column.state", "console.column.seen",
			"console.column.address", "console.column.place",
		},
	}
	for i := range clients {
		c := &clients[i]
		programs.Rows = append(programs.Rows, web.TableRow{Cells: []web.Cell{
			{Name: c.ID, Code: true},
			{Name: strings.Join(c.APIs, ", "), Note: strings.Join(c.Partitions, ", ")},
			enabledCell(!c.Disabled),
			when(last[i].At), layout.OrNone(last[i].Address),
			{Name: s.PlaceOf("api_client " + c.ID), Code: true},
		}})
	}
	secrets := &web.Table{
		Label: web.Say("console.person.app_passwords"),
		Columns: []string{
			"console.column.name", "console.column.person", "console.column.sites", "console.column.seen",
			"console.column.address", "console.column.uses",
		},
	}
	for i := range owned {
		o := &owned[i]
		at := pathOf("/persons", o.Person)
		name := names[o.Person]
		if name == "" {
			name = o.Person
		}
		secrets.Rows = append(secrets.Rows, web.TableRow{URL: at + "#app_passwords", Cells: []web.Cell{
			{Name: o.Name},
			{Name: name, URL: at},
			{Name: strings.Join(o.Sites, ", ")},
			when(o.Last), layout.OrNone(o.LastAddress),
			{Name: usesOf(o.Count, o.Limit)},
		}})
	}
	secrets.First, secrets.Next = v.Pages(next)
	out := &web.Console{Title: web.Say("console.api-clients.title"), Lead: web.Say("console.api-clients.text"), Parts: []web.ConsolePart{
		{ID: "programs", Title: web.Say("console.api-clients.programs"), Text: web.Say("console.api-clients.programs.text"), Table: programs},
		{ID: "secrets", Title: web.Say("console.person.app_passwords"), Text: web.Say("console.api-clients.secrets.text"), Table: secrets},
	}}
	if len(clients) == 0 {
		out.Parts[0].Table, out.Parts[0].Text, out.Parts[0].Empty = nil, web.Text{}, &web.Empty{Text: web.Say("console.api-clients.none")}
	}
	if len(owned) == 0 && next == "" {
		out.Parts[1].Empty = &web.Empty{Text: web.Say("console.api-clients.secrets.none")}
	}
	return out, nil
}

// usesOf returns the number of uses of an app password, and their limit.
func usesOf(count, limit int) string {
	if limit == 0 {
		return strconv.Itoa(count)
	}
	return strconv.Itoa(count) + " / " + strconv.Itoa(limit)
}
