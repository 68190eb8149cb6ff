package console

import (
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// canary is in every payload.
const canary = "xq7z"

// TestStoredTextStaysText puts every payload of the XSS matrix into the names of a person, a group and an application,
// and into what a filter says, and opens every screen with an eighth of them. GATEHOUSE_PAGES=all (make nightly) opens
// it with a quarter, GATEHOUSE_PAYLOADS=all with each.
func TestStoredTextStaysText(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	t.Run("attack 536: names that are markup", func(t *testing.T) {
		raw, err := os.ReadFile("../../e2e/testdata/xss.txt")
		h.must(err)
		list := strings.Split(strings.TrimSpace(string(raw)), "\n")
		if len(list) < 40 {
			t.Fatalf("%d payloads, want 40", len(list))
		}
		b, by := h.as("owner@example.com"), audit.Actor{ID: "admin", Name: list[0]}
		victim := h.personID("nobody@example.com")
		thin, rare := 8, 8 // rare: on pages of acts
		if os.Getenv("GATEHOUSE_PAGES") == "all" {
			thin, rare = 4, 4
		}
		if os.Getenv("GATEHOUSE_PAYLOADS") == "all" {
			thin, rare = 1, 4
		}
		shown, routes, opened := 0, h.routes(), map[string]bool{}
		for i, payload := range list {
			by.Name = payload
			_, err := h.id.Person.UpdatePerson(t.Context(), victim, person.Edit{By: by}, func(_ storage.Tx, d *person.Details) error {
				d.Profile.Name = person.Name{DisplayName: payload, FirstName: payload, LastName: payload}
				return nil
			})
			h.must(err)
			group := strings.TrimSpace(strings.ReplaceAll(payload, ",", ";"))
			g, err := h.id.Person.AddGroup(t.Context(), person.GroupChange{Name: group, Permissions: []string{payload}, Add: []string{victim}}, by)
			h.must(err)
			id := "app" + string(rune('a'+i%26)) + string(rune('a'+i/26))
			_, err = h.az.Clients().Add(t.Context(),
				client.Client{
					ID: id, Name: payload, Secrets: []secret.String{secret.New(strings.Repeat("s", 40))},
					Grants: []string{"client_credentials"},
				}, by)
			h.must(err)
			refused := h.refused.Refuse(t.Context(), zap.NewNop(),
				denial.Refusal{
					Where: denial.Site, Reason: denial.RuleDenied, Detail: payload, Site: payload, Method: "GET", Path: payload,
					PersonID: victim, Username: payload,
				}, nil)
			h.policy("xss", strings.TrimSpace(payload))
			gate := &h.sites[2].Gates[0]
			gate.Asks, gate.Paths, gate.Policies, gate.Rules[0].Name, gate.Rules[0].Asks = []string{payload}, []string{payload},
				[]string{payload}, payload, []string{payload}
			gate.Trial = &sites.Trial{
				Asks: []string{payload}, Policies: []string{payload},
				Rules: []sites.Rule{{Kind: "deny", Name: payload, Place: payload, Asks: []string{payload}}},
			}
			q := url.Values{
				"q": {payload}, "ref": {payload}, "site": {payload}, "where": {payload}, "person": {payload}, "address": {payload},
				"group": {payload}, "kind": {payload}, "client": {payload}, "device": {payload}, "param": {payload}, "what": {payload},
			}.Encode()
			hostile := map[string]string{
				"persons": victim, "groups": g.ID, "applications": id, "refusals": refused, "policies": "xss",
				"sites": h.sites[2].ID, "requests": h.request("nobody@example.com", payload),
			}
			var every []string
			for j, route := range routes {
				path := strings.TrimPrefix(route, layout.Root)
				if (thin > 1 || !h.isScreen(path)) && (i+j)%rare != 0 {
					continue // the page of an act shows what its screen shows: a part of the payloads is enough
				}
				about, ok := hostile[strings.Split(path+"/", "/")[1]]
				if !ok {
					about = h.objects(path, "owner")[0]
				}
				every = append(every, at(path, about), at(path, about)+"?"+q)
			}
			for k, path := range slices.Concat(every, h.setupPaths(payload, q), h.upkeepPaths(payload, q, by), h.alertPaths(payload, q, by),
				h.settingsPaths(payload, q), h.messagesPaths(payload, q), []string{
					layout.Root, personPath(victim), personPath(victim) + "/edit", personPath(victim) + "/leave?" + url.Values{"group": {group}}.Encode(),
					groupPath(g.ID), groupPath(g.ID) + "/edit-group", applicationPath(id), applicationPath(id) + "/disable",
					layout.Root + "/persons?" + q, layout.Root + "/groups?" + q, layout.Root + "/sessions?" + q, layout.Root + "/sessions/end-listed?" + q,
					applicationPath("shop") + "/preview?" + q,
					applicationPath("shop") + "/preview?" + url.Values{"person": {victim}, "scopes": {"openid " + payload}}.Encode(),
					layout.Root + "/applications?" + q, layout.Root + "/events?" + q, layout.Root + "/events", layout.Root + "/events/1", newestEvent(b),
					layout.Root + "/groups", layout.Root + "/applications",
					layout.Root + "/sites?" + q, layout.Root + "/sites/" + h.sites[2].ID, layout.Root + "/refusals?" + q,
					layout.Root + "/refusals?ref=" + url.QueryEscape(payload), layout.Root + "/refusals", layout.Root + "/refusals/" + refused,
					personPath(victim) + "/opens", layout.Root + "/policies?" + q, layout.Root + "/policies/xss",
					layout.Root + "/policies/xss/edit-policy", layout.Root + "/requests?" + q,
					layout.Root + "/sites/explain?" + url.Values{
						"url": {payload}, "person": {payload}, "at": {payload}, "address": {payload},
						"method": {payload}, "level": {payload},
					}.Encode(),
					layout.Root + "/sites/explain?" + url.Values{"url": {"https://" + payload}, "address": {payload}}.Encode(),
				}) {
				if k >= len(every) && (i+k-len(every))%thin != 0 {
					continue
				}
				a := b.get(path)
				if a.Code == http.StatusOK {
					opened[routeOf(routes, a.url)] = true
				}
				if strings.Contains(a.Body.String(), canary) {
					shown++
				}
				if !strings.HasPrefix(a.Header().Get("Content-Type"), "text/html") {
					if a.Header().Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(a.Header().Get("Content-Disposition"), "attachment") {
						t.Fatalf("GET %s is a file that a browser may take for a page: %v", path, a.Header())
					}
				} else if what := markup(a.Body.String()); what != "" {
					t.Fatalf("GET %s makes %s of the payload %q", path, what, payload)
				}
			}
			h.must(h.id.Person.RemoveGroup(t.Context(), g.ID, by, nil))
		}
		for _, route := range routes {
			if !opened[route] && route != layout.Root+livePath { // it is no page
				t.Errorf("%s was not opened with a payload", route)
			}
		}
		if shown < 15*len(list)/thin {
			t.Errorf("only %d pages have shown a payload", shown)
		}
	})
}

// markup returns the element or attribute that a payload has become, or "".
func markup(body string) string {
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if strings.Contains(n.Data, canary) || n.Data == "iframe" && !isPreview(n) || n.Data == "object" || n.Data == "math" || n.Data == "base" {
			return "the element " + n.Data
		}
		for _, a := range n.Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			switch {
			case strings.HasPrefix(a.Key, "on"), strings.Contains(a.Key, canary):
				return "the attribute " + a.Key
			case n.Data == "script" && a.Key == "src" && !strings.HasPrefix(a.Val, "/assets/"), strings.HasPrefix(value, "javascript:") &&
				a.Key != "value" && a.Key != "content":
				return "a script"
			}
		}
	}
	return ""
}

// isPreview reports whether a frame shows a preview, which can do nothing.
func isPreview(n *html.Node) bool {
	attr := map[string]string{}
	for _, a := range n.Attr {
		attr[a.Key] = a.Val
	}
	return strings.HasPrefix(attr["src"], layout.Root+"/messages/previews/") && attr["sandbox"] == "allow-same-origin" && attr["srcdoc"] == ""
}

// newestEvent is the page of the newest event.
func newestEvent(b *browser) string {
	b.h.t.Helper()
	_, after, found := strings.Cut(b.get(layout.Root+"/events").form(), `<a class="row" href="`)
	if !found {
		b.h.t.Fatal("there is no event")
	}
	path, _, _ := strings.Cut(after, `"`)
	return path
}
