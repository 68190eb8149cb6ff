package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/messages"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/admin/diagnostic"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxCounted = 1_000 // sessions; more would make the page slow where there are many
	latest     = 10    // events
	maxFailed  = 100   // messages
)

// overviewScreen shows the matters that need an administrator's attention.
func (c *Console) overviewScreen() *layout.Screen {
	return &layout.Screen{Name: "overview", Path: "", Icon: "chart", Role: layout.Viewer, Show: c.showOverview}
}

func (c *Console) showOverview(v *layout.Visit) (*web.Console, error) {
	var persons int64
	var live, failed int
	var list []audit.Numbered
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if persons, _, err = c.Identity.Person.CountPersons(tx, audit.DefaultPartition); err != nil {
			return err
		}
		if live, err = session.Count(tx, maxCounted); err != nil {
			return err
		}
		if failed, err = c.failedMessages(tx, v); err != nil {
			return err
		}
		list, _, names, err = c.Manage.Events(tx, audit.Search{Partition: audit.DefaultPartition, Limit: latest})
		return err
	})
	if err != nil {
		return nil, err
	}
	clients, err := c.Clients.List(v.Context())
	if err != nil {
		return nil, err
	}
	found, err := c.Findings(v.Context())
	if err != nil {
		return nil, err
	}
	sites, err := c.Gateway.Sites()
	if err != nil {
		return nil, err
	}
	sessions := strconv.Itoa(live)
	if live == maxCounted {
		sessions += "+"
	}
	out := &web.Console{Title: web.Say("console.overview.title"), Cards: []web.Card{
		{Icon: "person", Title: "console.persons.title", URL: layout.Root + "/persons", Text: web.Say("console.count", "n", persons)},
		{Icon: "device", Title: "console.sessions.title", URL: layout.Root + "/sessions", Text: web.Say("console.count", "n", sessions)},
		{Icon: "app", Title: "console.applications.title", URL: layout.Root + "/applications", Text: web.Say("console.count", "n", len(clients))},
		{
			Icon: "alert", Title: "console.findings.title", URL: layout.Root + "#findings", Text: web.Say("console.count", "n", len(found)),
			Kind: map[bool]string{true: "warn", false: "good"}[len(found) > 0],
		},
	}}
	if failed > 0 {
		text := web.Say("console.count", "n", failed)
		if failed > maxFailed {
			text = web.Say("console.count.more", "n", maxFailed)
		}
		out.Cards = append(out.Cards,
			web.Card{Icon: "mail", Title: "console.overview.failed", URL: messages.FailedPath, Text: text, Kind: "warn"})
	}
	waiting, err := c.waitingNow(v)
	if err != nil {
		return nil, err
	}
	if open := waiting["requests"]; open > 0 {
		out.Cards = append(out.Cards, web.Card{
			Icon: "inbox", Title: "console.requests.title", URL: layout.Root + "/requests?state=open",
			Text: web.Say("console.waits.requests", "n", open), Kind: "warn",
		})
	}
	if ends := waiting["keys"]; ends > 0 {
		out.Cards = append(out.Cards, web.Card{
			Icon: "key", Title: "console.keys.title", URL: layout.Root + "/keys", Text: web.Say("console.waits.keys", "n", ends), Kind: "warn",
		})
	}
	happened := web.ConsolePart{
		ID: "events", Title: web.Say("console.overview.events"), Table: c.eventTable(list, names, true),
		Actions: []web.Action{{Label: "console.person.events.all", URL: layout.Root + "/events"}},
	}
	counted, err := c.numbers(v)
	if err != nil {
		return nil, err
	}
	latency, err := c.latencyPart(v)
	if err != nil {
		return nil, err
	}
	machine, err := c.machineParts(v)
	if err != nil {
		return nil, err
	}
	if first, ok, err := c.checklist(v, len(clients)+len(sites)); err != nil {
		return nil, err
	} else if ok {
		out.Parts = append(out.Parts, first)
	}
	if len(found) > 0 {
		out.Parts = append(out.Parts, findingsPart(found, sites))
	}
	out.Parts = append(append(append(append(out.Parts, happened), counted...), latency), machine...)
	if len(found) == 0 {
		out.Parts = append(out.Parts, findingsPart(found, sites))
	}
	return out, nil
}

// failedMessages counts the messages that were given up, as long as they are kept.
func (c *Console) failedMessages(tx storage.Tx, v *layout.Visit) (n int, err error) {
	for _, o := range c.Manage.Outgoing {
		list, _, err := o.List(tx, true, "", maxFailed+1-n, v.Now)
		if err != nil {
			return 0, err
		}
		if n += len(list); n > maxFailed {
			break
		}
	}
	return n, nil
}

// causes are the screens where what findings are about is seen or fixed, by the first word of their options.
var causes = map[string]string{
	"client": "/applications/", "idp": "/providers/", "policy": "/policies/",
	"api_client": "/api-clients", "key_pair": "/keys", "group": "/groups", "groups": "/groups", "policies": "/policies", "storage": "/storage",
	"mail": "/settings", "sms": "/settings", "push": "/settings", "brand": "/messages/brand", "scope": "/settings", "identity": "/settings",
}

// causeOf is the screen where a finding can be followed up: that of the site, application, provider, person or policy
// that it is about, or else that of the settings, which name file and line.
func causeOf(f *diagnostic.Finding, guarded []sites.Site) string {
	option, _, _ := strings.Cut(f.About, ": ")
	kind, name, _ := strings.Cut(option, " ")
	if kind == "site" || kind == "forward_auth" {
		if to := sites.PathOfUser(name, guarded); to != "" {
			return to
		}
	}
	for i := range guarded {
		for _, g := range guarded[i].Gates {
			at := func(r sites.Rule) bool { return r.Place == f.Place }
			if f.Place != "" && (g.Place == f.Place || slices.ContainsFunc(g.Rules, at)) || kind == "site" && name != "" && g.Place == name ||
				kind == "forward_auth" && g.Name == name {
				return sites.SitePath(guarded[i].ID)
			}
		}
	}
	to, known := causes[kind]
	switch {
	case kind == "person":
		return layout.Root + "/persons?" + url.Values{"q": {name}}.Encode()
	case !known:
		return layout.Root + "/settings"
	case !strings.HasSuffix(to, "/"):
		return layout.Root + to
	case name == "":
		return layout.Root + strings.TrimSuffix(to, "/")
	}
	return layout.Root + to + url.PathEscape(name)
}

// findingsPart lists what is wrong, as `caddy gatehouse check` does. Findings are English: they name options.
func findingsPart(found []diagnostic.Finding, guarded []sites.Site) web.ConsolePart {
	part := web.ConsolePart{ID: "findings", Title: web.Say("console.findings.title")}
	if len(found) == 0 {
		part.Text = web.Say("console.findings.none")
		return part
	}
	t := &web.Table{
		Label:   web.Say("console.findings.title"),
		Columns: []string{"console.column.finding", "console.column.severity", "console.column.fix", "console.column.place"},
	}
	for _, f := range found {
		kind := "warn"
		if f.Severity == diagnostic.Error {
			kind = "bad"
		}
		t.Rows = append(t.Rows, web.TableRow{
			URL: causeOf(&f, guarded),
			Cells: []web.Cell{
				{Name: f.Reason, Quoted: true},
				{Text: web.Say("console.severity." + string(f.Severity)), Kind: kind},
				{Name: f.Fix, Quoted: true},
				{Name: f.Place, Code: f.Place != ""},
			},
		})
	}
	part.Table = t
	return part
}
