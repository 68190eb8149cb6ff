package console

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/gateway"
	"github.com/gatehouse-id/gatehouse/caddymodule/manage"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/refusal"
)

// gateway is a wiki and a shop, of which the wiki refuses everybody.
func (h *harness) gateway(m *manage.Service) gateway.Deps {
	h.refused = refusal.NewRecorder(h.store, nil, h.clock.Now, rand.Reader, zap.NewNop())
	h.ref = h.refused.Refuse(h.t.Context(), zap.NewNop(), refusal.Refusal{
		Where: refusal.Site, Reason: refusal.RuleDenied, Detail: "rule: nobody at night", Status: 403, Site: "wiki.example.com", Method: "GET", Path: "/admin",
		PersonID: h.personID("nobody@example.com"), Username: "nobody@example.com",
	}, nil)
	h.sites = []gateway.Site{
		{ID: "shop.example.com", Name: "shop.example.com", Gates: []gateway.Gate{{Kind: "forward_auth", Name: "shop", Origins: []string{"https://shop.example.com"}, Asks: []string{"login"}}}},
		{ID: "wiki.example.com", Name: "wiki.example.com", Gates: []gateway.Gate{{
			Kind: "protect", Place: "Caddyfile:20", Origins: []string{"https://wiki.example.com"}, Paths: []string{"/admin*"}, Open: []string{"/healthz"}, Asks: []string{"login", "level 2"}, Policies: []string{"office"},
			Rules: []gateway.Rule{{Kind: "deny", Name: "nobody at night", Place: "Caddyfile:22", Asks: []string{"when 22:00-06:00"}}, {Kind: "allow", Place: "Caddyfile:23"}},
		}}},
	}
	return gateway.Deps{
		Refusals: h.refused, Manage: m,
		Sites: func() ([]gateway.Site, error) {
			return h.sites, nil
		},
		Explain: func(_ *http.Request, q gateway.Question) (*gateway.Explanation, error) {
			switch {
			case q.Ref == h.ref:
				q.URL, q.Method = "https://wiki.example.com/admin", http.MethodGet
			case !strings.HasPrefix(q.URL, "https://"):
				return nil, &gateway.Wrong{Reason: "url: want the whole address, not " + q.URL}
			case q.Person == "zzz":
				return nil, person.ErrNoPerson
			}
			return &gateway.Explanation{
				URL: q.URL, Method: q.Method, Verdict: "deny", Caller: &gateway.Caller{PersonID: h.personID("nobody@example.com"), Username: "nobody@example.com", Groups: []string{"staff"}, Level: 1},
				Status: 403, Message: "Come back in the morning.", Notes: []string{"asked of " + q.Address + " at " + q.At},
				Steps: []gateway.Step{{Place: "Caddyfile:20", Verdict: "deny", Why: "a deny rule of the site fits the request", WantedLevel: 2, Rules: []gateway.Line{
					{Kind: "deny", Rule: "nobody at night", Place: "Caddyfile:22", Fit: "fits", Decides: true}, {Kind: "allow", Rule: "the rule at Caddyfile:23", Place: "Caddyfile:23", Fit: "not_asked"},
				}}},
			}, nil
		},
	}
}

// TestWhyWasThisPersonRefused: from a refusal to the rule that decided it is two clicks, on each way.
func TestWhyWasThisPersonRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("helpdesk@example.com")
	why := "/admin/refusals/" + h.ref
	for _, from := range []string{"/admin/refusals", "/admin/sites/wiki.example.com", "/admin/refusals?person=nobody@example.com", "/admin/refusals?site=wiki.example.com&where=site"} {
		if a := b.get(from); !strings.Contains(a.form(), `href="`+why+`"`) {
			t.Errorf("%s does not lead to %s:\n%s", from, why, a.form())
		}
	}
	for _, from := range []string{"/admin/refusals?site=shop.example.com", "/admin/refusals?person=owner@example.com", "/admin/refusals?where=oauth", "/admin/refusals?person=zzz", "/admin/sites/shop.example.com"} {
		if a := b.get(from); a.Code != http.StatusOK || strings.Contains(a.form(), why) {
			t.Errorf("%s = %d and shows the refusal of somebody else:\n%s", from, a.Code, a.form())
		}
	}
	typed := strings.ToLower(strings.ReplaceAll(h.ref, "-", " "))
	a := b.get("/admin/refusals?" + url.Values{"ref": {typed}}.Encode())
	for _, want := range []string{"nobody at night", "Caddyfile:22", "was refused GET wiki.example.com/admin", "Change the rule that the detail names", "Come back in the morning.", `href="/admin/persons/` + h.personID("nobody@example.com") + `"`} {
		if a.url != why || !strings.Contains(a.form(), want) {
			t.Errorf("the reference %q leads to %s without %q:\n%s", typed, a.url, want, a.form())
		}
	}
	h.clock.Advance(refusal.Kept)
	b = h.as("helpdesk@example.com")
	if a := b.get(why); a.Code != http.StatusOK || !strings.Contains(a.form(), "no longer kept") {
		t.Errorf("a day later: %d\n%s", a.Code, a.form())
	}
	if a := b.get("/admin/refusals/x"); a.Code != http.StatusNotFound {
		t.Errorf("a reference that is none: %d", a.Code)
	}
}

// TestExplainARequest: the page says what a request gets, by which rule, and what is wrong with what was asked.
func TestExplainARequest(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	ask := func(fields ...string) *answer {
		q := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			q.Set(fields[i], fields[i+1])
		}
		return b.get("/admin/sites/explain?" + q.Encode())
	}
	a := ask("url", "https://wiki.example.com/admin", "person", "nobody@example.com", "address", "203.0.113.9", "at", "2035-11-21 23:30", "method", "POST", "level", "2")
	for _, want := range []string{"POST https://wiki.example.com/admin", "Refused", "nobody at night", "Caddyfile:22", "asked of 203.0.113.9 at 2035-11-21T23:30:00Z", `value="2035-11-21 23:30"`, `<option value="POST" selected>`} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the explanation lacks %q:\n%s", want, a.form())
		}
	}
	for what, a := range map[string]*answer{
		"Nothing is known by this value": ask("url", "https://wiki.example.com", "person", "zzz"), "want the whole address, not wiki": ask("url", "wiki"),
		`id="at-problem"`: ask("url", "https://wiki.example.com", "at", "tonight"),
	} {
		if a.Code != http.StatusOK || !strings.Contains(a.form(), what) {
			t.Errorf("%s = %d without %q:\n%s", a.url, a.Code, what, a.form())
		}
	}
}

// TestSites: each site is listed with what it asks and does, and has a page that names its rules and their places.
func TestSites(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	a := b.get("/admin/sites?q=wiki")
	if !strings.Contains(a.form(), `href="/admin/sites/wiki.example.com"`) || strings.Contains(a.form(), "shop.example.com") || !strings.Contains(a.form(), "login · level 2 · policy office") {
		t.Errorf("the list of sites:\n%s", a.form())
	}
	a = b.get("/admin/sites/wiki.example.com")
	for _, want := range []string{"Caddyfile:20", "/admin*", "/healthz", "nobody at night", "when 22:00-06:00", "office", `href="/admin/sites/explain?url=https%3A%2F%2Fwiki.example.com%2Fadmin"`} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the page of a site lacks %q:\n%s", want, a.form())
		}
	}
	if a := b.get("/admin/sites/other.example.com"); a.Code != http.StatusNotFound {
		t.Errorf("a site that there is not: %d", a.Code)
	}
}

// TestWhatCanThisPersonOpen: the page of a person leads to all sites and applications, with what decides at each.
func TestWhatCanThisPersonOpen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.personID("nobody@example.com")
	b := h.as("owner@example.com")
	opens := "/admin/persons/" + id + "/opens"
	for _, want := range []string{`href="` + opens + `"`, `href="/admin/refusals?person=` + id + `"`} {
		if a := b.get("/admin/persons/" + id); !strings.Contains(a.form(), want) {
			t.Errorf("the page of a person lacks %s:\n%s", want, a.form())
		}
	}
	want := func(what string, wants ...string) {
		t.Helper()
		a := b.get(opens)
		for _, w := range wants {
			if a.Code != http.StatusOK || !strings.Contains(a.form(), w) {
				t.Errorf("%s: %d without %q:\n%s", what, a.Code, w, a.form())
			}
		}
	}
	add := func(c client.Client) {
		t.Helper()
		_, err := h.az.Clients().Add(t.Context(), c, event.Actor{})
		h.must(err)
	}
	add(client.Client{ID: "robot", Grants: []string{"client_credentials"}})
	add(client.Client{ID: "closed", Name: "Closed", RedirectURIs: []string{"https://closed.example.com/cb"}, Grants: []string{"authorization_code"}, Scopes: []string{"openid"}, Disabled: true})
	want("everything", "https://wiki.example.com/admin", "nobody at night", "Caddyfile:22", "Refused", `href="/admin/applications/shop"`, "The shop", "Allowed", "the client is disabled", `href="/admin/sites/explain?person=`+id+`&amp;url=https%3A%2F%2Fwiki.example.com%2Fadmin"`)
	if a := b.get(opens + "?q=robot"); strings.Contains(a.form(), "/admin/applications/robot") {
		t.Errorf("an application without people is listed:\n%s", a.form())
	}
	for i := range 60 {
		add(client.Client{ID: fmt.Sprintf("app%02d", i), RedirectURIs: []string{"https://app.example.com/cb"}, Grants: []string{"authorization_code"}, Scopes: []string{"openid"}})
	}
	if a := b.get(opens); !strings.Contains(a.form(), `rel="next"`) || strings.Contains(a.form(), "app59") {
		t.Errorf("65 applications are on one page:\n%s", a.form())
	}
	if a := b.get(opens + "?after=t+app40"); !strings.Contains(a.form(), "app59") || strings.Contains(a.form(), "app40<") {
		t.Errorf("the second page:\n%s", a.form())
	}
	if a := b.acts("/admin/persons/"+id+"/block", "reason", "left"); a.Code != http.StatusOK {
		t.Fatalf("block: %d", a.Code)
	}
	want("somebody blocked", "The account is blocked or not active")
}
