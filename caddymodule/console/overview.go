package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/messages"
	"github.com/gatehouse-id/gatehouse/caddymodule/internal/finding"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxCounted = 1_000 // sessions; more would make the page slow where there are many
	latest     = 10    // events
	maxFailed  = 100   // messages
)

// overviewScreen is what needs an administrator's eye.
func (c *Console) overviewScreen() *frame.Screen {
	return &frame.Screen{Name: "overview", Path: "", Icon: "chart", Role: frame.Viewer, Show: c.showOverview}
}

func (c *Console) showOverview(v *frame.Visit) (*page.Console, error) {
	var persons int64
	var live, failed int
	var list []event.Numbered
	var names map[string]string
	err := c.Store.View(v.Context(), func(tx storage.Tx) (err error) {
		if persons, _, err = c.Identity.Person.CountPersons(tx, event.DefaultPartition); err != nil {
			return err
		}
		if live, err = session.Count(tx, maxCounted); err != nil {
			return err
		}
		if failed, err = c.failedMessages(tx, v); err != nil {
			return err
		}
		list, _, names, err = c.Manage.Events(tx, event.Search{Partition: event.DefaultPartition, Limit: latest})
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
	out := &page.Console{Title: page.Say("console.overview.title"), Cards: []page.Card{
		{Icon: "person", Title: "console.persons.title", URL: frame.Root + "/persons", Text: page.Say("console.count", "n", persons)},
		{Icon: "device", Title: "console.sessions.title", URL: frame.Root + "/sessions", Text: page.Say("console.count", "n", sessions)},
		{Icon: "app", Title: "console.applications.title", URL: frame.Root + "/applications", Text: page.Say("console.count", "n", len(clients))},
		{Icon: "alert", Title: "console.findings.title", URL: frame.Root + "#findings", Text: page.Say("console.count", "n", len(found)), Kind: map[bool]string{true: "warn", false: "good"}[len(found) > 0]},
	}}
	if failed > 0 {
		text := page.Say("console.count", "n", failed)
		if failed > maxFailed {
			text = page.Say("console.count.more", "n", maxFailed)
		}
		out.Cards = append(out.Cards, page.Card{Icon: "mail", Title: "console.overview.failed", URL: messages.FailedPath, Text: text, Kind: "warn"})
	}
	happened := page.ConsolePart{ID: "events", Title: page.Say("console.overview.events"), Table: c.eventTable(list, names, true), Actions: []page.Action{{Label: "console.person.events.all", URL: frame.Root + "/events"}}}
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
	out.Parts = append(append(append(counted, latency, findingsPart(found, sites)), machine...), happened)
	return out, nil
}

// failedMessages counts the messages that were given up, as long as they are kept.
func (c *Console) failedMessages(tx storage.Tx, v *frame.Visit) (n int, err error) {
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

// causes are the screens where what findings are about is seen or mended, by the first word of their options.
var causes = map[string]string{
	"client": "/applications/", "idp": "/providers/", "policy": "/policies/",
	"api_client": "/api-clients", "key_pair": "/keys", "group": "/groups", "groups": "/groups", "policies": "/policies", "storage": "/storage",
	"mail": "/settings", "sms": "/settings", "push": "/settings", "brand": "/messages/brand", "scope": "/settings", "identity": "/settings",
}

// causeOf is the screen where a finding can be followed up: that of the site, application, provider, person or policy
// that it is about, or else that of the settings, which name file and line.
func causeOf(f *finding.Finding, sites []gateway.Site) string {
	option, _, _ := strings.Cut(f.About, ": ")
	kind, name, _ := strings.Cut(option, " ")
	if kind == "site" || kind == "forward_auth" {
		if to := gateway.PathOfUser(name, sites); to != "" {
			return to
		}
	}
	for i := range sites {
		for _, g := range sites[i].Gates {
			at := func(r gateway.Rule) bool { return r.Place == f.Place }
			if f.Place != "" && (g.Place == f.Place || slices.ContainsFunc(g.Rules, at)) || kind == "site" && name != "" && g.Place == name || kind == "forward_auth" && g.Name == name {
				return gateway.SitePath(sites[i].ID)
			}
		}
	}
	to, known := causes[kind]
	switch {
	case kind == "person":
		return frame.Root + "/persons?" + url.Values{"q": {name}}.Encode()
	case !known:
		return frame.Root + "/settings"
	case !strings.HasSuffix(to, "/"):
		return frame.Root + to
	case name == "":
		return frame.Root + strings.TrimSuffix(to, "/")
	}
	return frame.Root + to + url.PathEscape(name)
}

// findingsPart lists what is wrong, as `caddy gatehouse check` does. Findings are English: they name options.
func findingsPart(found []finding.Finding, sites []gateway.Site) page.ConsolePart {
	part := page.ConsolePart{ID: "findings", Title: page.Say("console.findings.title")}
	if len(found) == 0 {
		part.Text = page.Say("console.findings.none")
		return part
	}
	t := &page.Table{Label: page.Say("console.findings.title"), Columns: []string{"console.column.finding", "console.column.severity", "console.column.mend", "console.column.place"}}
	for _, f := range found {
		kind := "warn"
		if f.Severity == finding.Error {
			kind = "bad"
		}
		t.Rows = append(t.Rows, page.TableRow{URL: causeOf(&f, sites), Cells: []page.Cell{{Name: f.Reason, Quoted: true}, {Text: page.Say("console.severity." + string(f.Severity)), Kind: kind}, {Name: f.Mend, Quoted: true}, {Name: f.Place, Code: f.Place != ""}}})
	}
	part.Table = t
	return part
}
