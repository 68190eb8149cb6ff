package console

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/sites"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/stats"
)

// gateway is a wiki and a shop, of which the wiki refuses everybody.
func (h *harness) gateway(m *admin.Service) sites.Deps {
	h.access = access.New(access.Deps{Store: h.store, Events: h.recorder, Now: h.clock.Now})
	h.refused = denial.NewRecorder(h.store, nil, h.clock.Now, rand.Reader, zap.NewNop())
	h.ref = h.refused.Refuse(h.t.Context(), zap.NewNop(), denial.Refusal{
		Where: denial.Site, Reason: denial.RuleDenied, Detail: "rule: nobody at night", Status: 403, Site: "wiki.example.com",
		Method: "GET", Path: "/admin",
		PersonID: h.personID("nobody@example.com"), Username: "nobody@example.com",
	}, nil)
	h.sites = []sites.Site{
		{
			ID: "shop.example.com", Name: "shop.example.com",
			Gates: []sites.Gate{{Kind: "forward_auth", Name: "shop", Origins: []string{"https://shop.example.com"}, Asks: []string{"login"}}},
		},
		{ID: "trial.example.com", Name: "trial.example.com", Gates: []sites.Gate{{
			Kind: "protect", Place: "Caddyfile:50", Origins: []string{"https://trial.example.com"}, Asks: []string{"login"},
			Trial: &sites.Trial{
				Policies: []string{"office"}, Asks: []string{"need groups staff"},
				Rules: []sites.Rule{{Kind: "deny", Name: "plans", Place: "Caddyfile:55"}},
			},
		}}},
		{ID: "wiki.example.com", Name: "wiki.example.com", Gates: []sites.Gate{{
			Kind: "protect", Place: "Caddyfile:20", Origins: []string{"https://wiki.example.com"}, Paths: []string{"/admin*"},
			Open: []string{"/healthz"}, Asks: []string{"login", "level 2"}, Policies: []string{"office"},
			Rules: []sites.Rule{{
				Kind: "deny", Name: "nobody at night", Place: "Caddyfile:22", Asks: []string{"when 22:00-06:00"},
				Counted: "site wiki.example.com: deny nobody at night",
			}, {Kind: "allow", Place: "Caddyfile:23"}},
		}}},
	}
	return sites.Deps{
		Refusals: h.refused, Manage: m, Settings: h.settings, Access: h.access,
		Rules: func(policy string) []sites.Rule {
			return map[string][]sites.Rule{"office": {{
				Kind: "allow", Name: "staff at work", Place: "Caddyfile:31",
				Asks: []string{"need groups staff", "when mon-fri 07:00-19:00"}, Counted: "policy office: allow staff at work",
			}}}[policy]
		},
		Sites: func() ([]sites.Site, error) {
			return h.sites, nil
		},
		Differences: func(_ context.Context, origins []string, _ int) ([]sites.Difference, error) {
			if !slices.Contains(origins, "https://trial.example.com") {
				return nil, nil
			}
			return []sites.Difference{{
				At: h.clock.Now(), Site: "https://trial.example.com", Method: "GET", Path: "/plans/2027", PersonID: h.personID("nobody@example.com"),
				Username: "nobody@example.com",
				Live:     "allow", LiveRule: "everybody", Shadow: "deny", ShadowRule: "plans",
			}}, nil
		},
		Doctor: &h.doctor,
		TestPolicy: func(_ *http.Request, name string, p *settings.Policy, cases string) ([]sites.Tested, error) {
			if strings.Contains(cases, "nonsense") {
				return nil, &sites.Wrong{Field: "cases", Reason: "unrecognized nonsense"}
			}
			one := sites.Tested{
				Caller: "ann", Method: "GET", URL: "https://wiki.example.com/" + name, Want: "allow", Got: "allow",
				Rule: "staff at work", Place: "Caddyfile:31", OK: true,
			}
			if p != nil && len(p.Deny) > 0 && p.Deny[0].Name == "nobody at all" {
				one.Got, one.Rule, one.Place, one.OK = "deny", "nobody at all", "policies.x.deny[0]", false
			}
			return []sites.Tested{one, {Caller: "-", Method: "GET", URL: "https://wiki.example.com/", Got: "sign-in", OK: true}}, nil
		},
		Explain: func(_ *http.Request, q sites.Question) (*sites.Explanation, error) {
			switch {
			case q.Ref == h.ref:
				q.URL, q.Method = "https://wiki.example.com/admin", http.MethodGet
			case !strings.HasPrefix(q.URL, "https://"):
				return nil, &sites.Wrong{Reason: "url: want the whole address, not " + q.URL}
			case q.Person == "zzz":
				return nil, person.ErrNoPerson
			}
			return &sites.Explanation{
				URL: q.URL, Method: q.Method, Verdict: "deny",
				Caller: &sites.Caller{PersonID: h.personID("nobody@example.com"), Username: "nobody@example.com", Groups: []string{"staff"}, Level: 1},
				Status: 403, Message: "Come back in the morning.", Notes: []string{"asked of " + q.Address + " at " + q.At},
				Steps: []sites.Step{{
					Place: "Caddyfile:20", Verdict: "deny", Why: "a deny rule of the site matches the request",
					WantedLevel: 2, Rules: []sites.Line{
						{Kind: "deny", Rule: "nobody at night", Place: "Caddyfile:22", Fit: "fits", Decides: true},
						{Kind: "allow", Rule: "the rule at Caddyfile:23", Place: "Caddyfile:23", Fit: "not_asked"},
					},
				}},
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
	for _, from := range []string{
		"/admin/refusals", "/admin/sites/wiki.example.com", "/admin/refusals?person=nobody@example.com",
		"/admin/refusals?site=wiki.example.com&where=site",
	} {
		if a := b.get(from); !strings.Contains(a.form(), `href="`+why+`"`) {
			t.Errorf("%s does not lead to %s:\n%s", from, why, a.form())
		}
	}
	for _, from := range []string{
		"/admin/refusals?site=shop.example.com", "/admin/refusals?person=owner@example.com",
		"/admin/refusals?where=oauth", "/admin/refusals?person=zzz", "/admin/sites/shop.example.com",
	} {
		if a := b.get(from); a.Code != http.StatusOK || strings.Contains(a.form(), why) {
			t.Errorf("%s = %d and shows the refusal of somebody else:\n%s", from, a.Code, a.form())
		}
	}
	typed := strings.ToLower(strings.ReplaceAll(h.ref, "-", " "))
	a := b.get("/admin/refusals?" + url.Values{"ref": {typed}}.Encode())
	for _, want := range []string{
		"nobody at night", "Caddyfile:22", "was refused GET wiki.example.com/admin",
		"Change the rule that the detail names", "Come back in the morning.", `href="/admin/persons/` + h.personID("nobody@example.com") + `"`,
	} {
		if a.url != why || !strings.Contains(a.form(), want) {
			t.Errorf("the reference %q leads to %s without %q:\n%s", typed, a.url, want, a.form())
		}
	}
	h.clock.Advance(denial.Kept)
	b = h.as("helpdesk@example.com")
	if a := b.get(why); a.Code != http.StatusOK || !strings.Contains(a.form(), "no longer exists") {
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
	a := ask("url", "https://wiki.example.com/admin", "person", "nobody@example.com", "address", "203.0.113.9", "at", "2035-11-21 23:30",
		"method", "POST", "level", "2")
	for _, want := range []string{
		"POST https://wiki.example.com/admin", "Refused", "nobody at night", "Caddyfile:22",
		"asked of 203.0.113.9 at 2035-11-21T23:30:00Z", `value="2035-11-21 23:30"`, `<option value="POST" selected>`,
	} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the explanation lacks %q:\n%s", want, a.form())
		}
	}
	for what, a := range map[string]*answer{
		"No match for this value":          ask("url", "https://wiki.example.com", "person", "zzz"),
		"want the whole address, not wiki": ask("url", "wiki"),
		`id="at-problem"`:                  ask("url", "https://wiki.example.com", "at", "tonight"),
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
	if !strings.Contains(a.form(), `href="/admin/sites/wiki.example.com"`) || strings.Contains(a.form(), "shop.example.com") ||
		!strings.Contains(a.form(), "login · level 2 · policy office") {
		t.Errorf("the list of sites:\n%s", a.form())
	}
	a = b.get("/admin/sites/wiki.example.com")
	for _, want := range []string{
		"Caddyfile:20", "/admin*", "/healthz", "nobody at night", "when 22:00-06:00", "office",
		`href="/admin/sites/explain?url=https%3A%2F%2Fwiki.example.com%2Fadmin"`,
	} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the page of a site lacks %q:\n%s", want, a.form())
		}
	}
	if a := b.get("/admin/sites/other.example.com"); a.Code != http.StatusNotFound {
		t.Errorf("a site that there is not: %d", a.Code)
	}
}

// TestShadowInTheConsole: the page of a site says how often the rules that it tries would have decided otherwise, and
// about which requests; the page of a policy leads to the sites that use or try it, and back; rules tell how often they
// have decided.
func TestShadowInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	counts := stats.NewBuffer(h.store, h.clock.Now, rand.Reader, zap.NewNop())
	for range 40 {
		counts.Site("trial.example.com").Tried(true, true)
	}
	for range 17 {
		counts.Site("trial.example.com").Tried(true, false)
	}
	counts.Site("trial.example.com").Tried(false, true)
	for range 23 {
		counts.Rule("policy office: allow staff at work").Decided()
	}
	for range 31 {
		counts.Rule("site wiki.example.com: deny nobody at night").Decided()
	}
	counts.Flush(t.Context())
	h.count()
	a := b.get("/admin/policies/office")
	if !strings.Contains(a.form(), "<span>23</span>") || !strings.Contains(a.form(), `href="/admin/sites/trial.example.com"`) ||
		!strings.Contains(a.form(), `href="/admin/sites/wiki.example.com"`) {
		t.Errorf("the page of a policy does not lead to its sites:\n%s", a.form())
	}
	a = b.get("/admin/sites/trial.example.com")
	for _, want := range []string{
		"<span>58</span>", "<span>17</span>", "<span>1</span>", "GET /plans/2027", "nobody@example.com",
		"Current decision: everybody", `href="/admin/policies/office"`, "Caddyfile:55", "need groups staff",
		`href="/admin/sites/trial.example.com?period=month"`,
	} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the page of a site that tries rules lacks %q:\n%s", want, a.form())
		}
	}
	if a := b.get("/admin/sites/wiki.example.com"); !strings.Contains(a.form(), "<span>31</span>") ||
		!strings.Contains(a.form(), `href="/admin/policies/office"`) || strings.Contains(a.form(), `id="shadow"`) {
		t.Errorf("the page of a site that tries no rules:\n%s", a.form())
	}
}

// doctor remembers what it was asked to look at.
type doctor struct {
	asked []sites.Examination
	found []sites.Finding
	err   error
}

func (*doctor) Proxies() (all []string, own string) { return []string{"nginx", "protect"}, "protect" }

func (d *doctor) Examine(_ context.Context, e sites.Examination) ([]sites.Finding, error) {
	d.asked = append(d.asked, e)
	return d.found, d.err
}

// TestDoctorInTheConsole: an operator has a site probed at an address that the configuration names, and reads what got
// past and what to do.
func TestDoctorInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	const wiki, shop = "/admin/sites/wiki.example.com/doctor", "/admin/sites/shop.example.com/doctor"
	ask := func(target string, fields ...string) *answer { return b.submit(b.get(target), fields...) }
	h.doctor.found = []sites.Finding{{Probe: "no one is signed in", Verdict: "ok", What: "refused with 302"}}
	if a := ask(wiki, "origin", "https://wiki.example.com"); a.Code != http.StatusOK ||
		!strings.Contains(a.form(), "were refused, as expected") || !strings.Contains(a.form(), "refused with 302") {
		t.Errorf("a sound site: %d\n%s", a.Code, a.form())
	}
	if want := (sites.Examination{URL: "https://wiki.example.com/admin", Public: "/healthz", Proxy: "protect"}); len(h.doctor.asked) != 1 ||
		h.doctor.asked[0] != want {
		t.Errorf("the doctor looked at %v, want %v", h.doctor.asked, want)
	}
	events := h.allEvents(t.Context())
	if e := events[len(events)-1]; e.Type != "console.SiteExaminationEvent" || e.Actor != h.personID("operator@example.com") ||
		e.Reason != "https://wiki.example.com" {
		t.Errorf("the event of the examination is %+v", e)
	}
	h.doctor.found = append(h.doctor.found,
		sites.Finding{Probe: "the method HEAD", Verdict: "failed", What: "the answer is 200", Fix: "take the matcher away"},
		sites.Finding{Probe: "// in front of the path", Verdict: "warning", What: "the answer is 404"})
	for _, want := range []string{"that should be refused got through", "the method HEAD", "take the matcher away", "Unclear"} {
		if a := ask(shop, "origin", "https://shop.example.com", "proxy", "nginx"); !strings.Contains(a.form(), want) {
			t.Errorf("what got past lacks %q:\n%s", want, a.form())
		}
	}
	h.doctor.err = sites.ErrBusy
	if a := ask(wiki, "origin", "https://wiki.example.com"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.form(), "half a minute") {
		t.Errorf("a doctor who is busy: %d\n%s", a.Code, a.form())
	}
	h.doctor.err = &sites.Wrong{Reason: "the proxy: connection refused"}
	if a := ask(wiki, "origin", "https://wiki.example.com"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.form(), "connection refused") {
		t.Errorf("a site that is down: %d\n%s", a.Code, a.form())
	}
	t.Run("attack 833: the doctor goes nowhere but to the sites of the configuration", func(t *testing.T) {
		h.doctor.asked, h.doctor.err = nil, nil
		before := h.events()
		for _, fields := range [][]string{
			{"origin", "http://169.254.169.254"},
			{"origin", "https://shop.example.com"},
			{"origin", ""},
			{"origin", "https://wiki.example.com@evil.example"},
			{"url", "http://127.0.0.1:2019/", "origin", "http://127.0.0.1:2019"},
		} {
			if a := ask(wiki, fields...); a.Code != http.StatusUnprocessableEntity {
				t.Errorf("%q = %d, want 422", fields, a.Code)
			}
		}
		if a := ask(shop, "origin", "https://shop.example.com", "proxy", "protect"); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("a proxy that is none = %d, want 422", a.Code)
		}
		if now := h.events(); len(h.doctor.asked) > 0 || now != before {
			t.Errorf("the doctor looked at %v, and wrote %q", h.doctor.asked, now[len(before):])
		}
	})
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
	name := `<h1 id="about">Nobody Example</h1>`
	for path, tab := range map[string]string{
		"/admin/persons/" + id: "Overview", opens: "What they can open", "/admin/refusals?person=" + id: "Refusals",
	} {
		if a := b.get(path); !strings.Contains(a.form(), name) || !strings.Contains(a.form(), `aria-current="page">`+tab+"<") {
			t.Errorf("%s is no tab %s of the page of a person:\n%s", path, tab, a.form())
		}
	}
	for query, clear := range map[string]bool{"": false, "&site=shop.example.com": true, "&where=oauth": true} {
		a := b.get("/admin/refusals?person=" + id + query)
		if !strings.Contains(a.form(), name) || !strings.Contains(a.form(), `<input type="hidden" name="person" value="`+id+`">`) ||
			strings.Contains(a.form(), `<a href="/admin/refusals?person=`+id+`">Show all</a>`) != clear {
			t.Errorf("the filter %q leaves the page of the person:\n%s", query, a.form())
		}
	}
	const who = `role="columnheader">Person</th>`
	if a := b.get("/admin/refusals?person=" + id); !strings.Contains(a.form(), h.ref) || strings.Contains(a.form(), who) {
		t.Errorf("each refusal on the page of a person says who it is:\n%s", a.form())
	}
	if a := b.get("/admin/refusals"); !strings.Contains(a.form(), who) {
		t.Errorf("the list of all refusals does not say whose they are:\n%s", a.form())
	}
	if a := b.get("/admin/refusals?person=nobody@example.com"); strings.Contains(a.form(), name) {
		t.Errorf("a filter for a person made their page of the list:\n%s", a.form())
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
		_, err := h.az.Clients().Add(t.Context(), c, audit.Actor{})
		h.must(err)
	}
	add(client.Client{ID: "robot", Grants: []string{"client_credentials"}})
	add(client.Client{
		ID: "closed", Name: "Closed", RedirectURIs: []string{"https://closed.example.com/cb"},
		Grants: []string{"authorization_code"}, Scopes: []string{"openid"}, Disabled: true,
	})
	want("everything", "https://wiki.example.com/admin", "nobody at night", "Caddyfile:22", "Refused", `href="/admin/applications/shop"`,
		"The shop", "Allowed", "the client is disabled",
		`href="/admin/sites/explain?person=`+id+`&amp;url=https%3A%2F%2Fwiki.example.com%2Fadmin"`)
	if a := b.get(opens + "?q=robot"); strings.Contains(a.form(), "/admin/applications/robot") {
		t.Errorf("an application without people is listed:\n%s", a.form())
	}
	for i := range 60 {
		add(client.Client{
			ID: fmt.Sprintf("app%02d", i), RedirectURIs: []string{"https://app.example.com/cb"},
			Grants: []string{"authorization_code"}, Scopes: []string{"openid"},
		})
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
