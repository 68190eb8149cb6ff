package console

import (
	"context"
	"crypto/rand"
	"errors"
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
					Place: "Caddyfile:20", Verdict: "deny", Why: "a deny rule of the site fits the request",
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
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); stats.New(h.store, h.clock.Now, zap.NewNop()).Run(ctx) }()
	a := b.get("/admin/policies/office")
	for !strings.Contains(a.form(), "<span>23</span>") && t.Context().Err() == nil {
		a = b.get("/admin/policies/office")
	}
	stop()
	<-done
	if !strings.Contains(a.form(), `href="/admin/sites/trial.example.com"`) ||
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

// TestPolicyTestInTheConsole: cases are put to a policy as it is and as it is edited; nothing is saved.
func TestPolicyTestInTheConsole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.policy("nights", "nobody at night")
	b := h.as("viewer@example.com")
	see := func(a *answer, status int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if a.Code != status || !strings.Contains(a.form(), want) {
				t.Errorf("%s = %d, want %d and %q:\n%s", a.url, a.Code, status, want, a.form())
			}
		}
	}
	const office, nights = "/admin/policies/office/test-policy", "/admin/policies/nights/test-policy"
	see(b.get("/admin/policies/office"), http.StatusOK, `href="`+office+`"`)
	see(b.get(office), http.StatusOK, "site https://wiki.example.com", "person ann {", "sign-in -    GET")
	if a := b.get(office); strings.Contains(a.form(), `name="rules"`) {
		t.Errorf("a policy of the Caddyfile can be edited:\n%s", a.form())
	}
	see(b.submit(b.get(office), "cases", "allow ann GET /"), http.StatusOK, "GET https://wiki.example.com/office", "staff at work",
		"Caddyfile:31", "All 2 cases get the expected result.", "Sign-in required", "allow ann GET /</textarea>")
	see(b.submit(b.get(office), "cases", "nonsense"), http.StatusUnprocessableEntity, "unrecognized nonsense", "nonsense</textarea>")
	see(b.get(nights), http.StatusOK, "nobody at night")
	edited := `{"deny":[{"name":"nobody at all","when":["12:00-13:00"]}]}`
	see(b.submit(b.get(nights), "cases", "allow ann GET /", "rules", edited), http.StatusOK, "Stored", "Edited", "nobody at all",
		"1 of 2 cases doesn’t get the expected result.", "Unexpected")
	see(b.submit(b.get(nights), "cases", "allow ann GET /", "rules", `{"deny":[{"name":`), http.StatusUnprocessableEntity, "saved like this")
	see(b.get("/admin/policies/nights"), http.StatusOK, "nobody at night")
}

// TestOverruledPolicy: a policy of the Caddyfile shows how the stored one of its name differs.
func TestOverruledPolicy(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	if a := b.get("/admin/policies/office"); strings.Contains(a.form(), "A stored policy of the same name") {
		t.Errorf("there is no stored one:\n%s", a.form())
	}
	h.policy("nights", "nobody at night")
	h.declared["nights"] = settings.FixedPolicy{
		Place:  "Caddyfile:60",
		Policy: settings.Policy{Allow: []settings.PolicyRule{{Name: "anybody"}}},
	}
	if a := b.get("/admin/policies/nights"); !strings.Contains(a.form(), "A stored policy of the same name") ||
		!strings.Contains(a.form(), "&#34;name&#34;: &#34;nobody at night&#34;") {
		t.Errorf("the page does not show the stored one:\n%s", a.form())
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

// policies are those of the Caddyfile, of which the wiki uses one.
func policies(c *settings.Config) {
	c.Policies = map[string]settings.FixedPolicy{"office": {
		Place:  "Caddyfile:30",
		Policy: settings.Policy{Allow: []settings.PolicyRule{{Name: "staff at work"}}},
	}}
	c.PolicyUsers = func(name string) []string {
		if name == "office" || name == "used" {
			return []string{"wiki.example.com (Caddyfile:20)"}
		}
		return nil
	}
	c.CheckPolicy = func(_ string, p settings.Policy) (string, error) {
		if len(p.Allow)+len(p.Deny)+len(p.Public) == 0 {
			return "", errors.New("it has no rules: write allow, deny or public")
		}
		return "", nil
	}
}

// policy stores a policy with one rule, and returns its name.
func (h *harness) policy(name, rule string) string {
	h.t.Helper()
	long := rule
	if len(rule) > 64 {
		rule = "long"
	}
	_, err := h.settings.Edit(settings.WithRights(h.t.Context(), settings.Owner), audit.Actor{ID: "admin"}, func(u *settings.Units) error {
		u.Policies[name] = settings.Policy{Deny: []settings.PolicyRule{{
			Name: rule, When: []string{"22:00-06:00"},
			Match: []map[string]any{{"path": []any{long}}},
		}}}
		return nil
	})
	h.must(err)
	return name
}

// TestPolicies: policies of the Caddyfile are shown with their places, stored ones are changed after their changes have
// been seen, and nothing that is wrong or in use goes through.
func TestPolicies(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.policy("used", "nobody at night")
	b := h.as("operator@example.com")
	see := func(a *answer, status int, wants ...string) *answer {
		t.Helper()
		for _, want := range wants {
			if a.Code != status || !strings.Contains(a.form(), want) {
				t.Errorf("%s = %d, want %d and %q:\n%s", a.url, a.Code, status, want, a.form())
			}
		}
		return a
	}
	see(b.get("/admin/policies"), 200, `href="/admin/policies/office"`, `href="/admin/policies/used"`, "wiki.example.com (Caddyfile:20)",
		`href="/admin/policies/add-policy"`)
	if a := see(b.get("/admin/policies/office"), 200, "staff at work", "Caddyfile:31", "Caddyfile:30", "when mon-fri 07:00-19:00",
		"in the Caddyfile"); strings.Contains(a.form(), "edit-policy") || strings.Contains(a.form(), "remove-policy") {
		t.Errorf("a policy of the Caddyfile can be changed:\n%s", a.form())
	}
	see(b.get("/admin/policies/used"), 200, "nobody at night", "deny[0]", "when 22:00-06:00", `href="/admin/policies/used/edit-policy"`)
	see(b.acts("/admin/policies/used/remove-policy"), 422, "wiki.example.com (Caddyfile:20) uses this policy. Remove it from protect there first.")
	see(b.acts("/admin/policies/office/edit-policy", "rules", `{"public":["/"]}`, "confirm", "yes"), 422,
		"This policy is in the Caddyfile (Caddyfile:30). Change it there.")

	edit := "/admin/policies/used/edit-policy"
	see(b.acts(edit, "rules", `{"deny": [`, "confirm", "yes"), 422, "saved like this")
	see(b.acts(edit, "rules", `{"denies": []}`, "confirm", "yes"), 422, "denies")
	see(b.acts(edit, "rules", `{}`, "confirm", "yes"), 422, "it has no rules")
	const next = `{"deny":[{"name":"nobody at noon","when":["12:00-13:00"],"match":[{"path":["nobody at night"]}]}]}`
	see(b.acts(edit, "rules", next), 422, "&#34;name&#34;: &#34;nobody at night&#34;", "&#34;name&#34;: &#34;nobody at noon&#34;",
		"Review the changes", `value="yes"`)
	see(b.get("/admin/policies/used"), 200, "when 22:00-06:00")
	// It is tried first unless the form says otherwise.
	see(b.get(edit), 200, "The copy is called used-next", `<option value="try"`)
	see(b.acts(edit, "rules", next, "confirm", "yes"), 200, "<h1>used-next</h1>", "when 12:00-13:00", "Saved.",
		"shadow {\n\t\tpolicy used-next\n")
	see(b.get("/admin/policies/used"), 200, "when 22:00-06:00")
	see(b.acts(edit, "rules", next, "confirm", "yes"), 422, `id="apply-problem"`, "used-next already exists")
	if a := b.get("/admin/policies/used-next/edit-policy"); strings.Contains(a.form(), `name="apply"`) {
		t.Errorf("a policy that no site uses is to be tried first:\n%s", a.form())
	}
	see(b.acts("/admin/policies/used-next/edit-policy", "rules", strings.ReplaceAll(next, "noon", "one"), "confirm", "yes"), 200,
		"<h1>used-next</h1>", "nobody at one")
	see(b.acts(edit, "rules", next, "apply", "now", "confirm", "yes"), 200, "<h1>used</h1>", "when 12:00-13:00", "Saved.")

	opened := b.get(edit)
	h.policy("used", "somebody else")
	see(b.submit(opened, "rules", next, "apply", "now", "confirm", "yes"), 422, "Someone else changed this",
		"&#34;name&#34;: &#34;somebody else&#34;")
	see(b.get("/admin/policies/used"), 200, "somebody else")

	see(b.acts("/admin/policies/add-policy", "policy", "office", "rules", next, "confirm", "yes"), 422, "exists")
	see(b.acts("/admin/policies/add-policy", "policy", "lunch", "rules", next, "confirm", "yes"), 200, "nobody at noon",
		"The policy has been added")
	see(b.acts("/admin/policies/lunch/remove-policy"), 200, "The policy has been removed")
	if a := b.get("/admin/policies/lunch"); a.Code != http.StatusNotFound {
		t.Errorf("a removed policy: %d", a.Code)
	}
	owner := h.personID("operator@example.com")
	h.actHasEvent(b, owner, "/admin/policies/add-policy", "configuration.ConfigurationUpdatedEvent", "policy", "tea",
		"rules", next, "confirm", "yes")
	h.actHasEvent(b, owner, "/admin/policies/tea/edit-policy", "configuration.ConfigurationUpdatedEvent", "rules",
		strings.ReplaceAll(next, "noon", "five"), "confirm", "yes")
	h.actHasEvent(b, owner, "/admin/policies/tea/remove-policy", "configuration.ConfigurationUpdatedEvent")
}

// request has someone ask for access, with the reason. It returns the id.
func (h *harness) request(username string, reason ...string) string {
	h.t.Helper()
	const site = "https://wiki.example.com"
	id := h.personID(username)
	err := h.access.Ask(h.t.Context(), site, strings.Join(append(reason, "for the audit"), " "), audit.Actor{ID: id, Name: username})
	if !errors.Is(err, access.ErrOpen) && !errors.Is(err, access.ErrTooSoon) {
		h.must(err)
	}
	r, err := h.access.Find(h.t.Context(), id, site)
	h.must(err)
	return r.ID
}

// TestRequests: what people ask for is granted for a while, refused or taken back, each with its event; no one grants
// themselves anything.
func TestRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.request("nobody@example.com")
	path, me := "/admin/requests/"+id, h.personID("operator@example.com")
	b := h.as("operator@example.com")
	see := func(a *answer, status int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if a.Code != status || !strings.Contains(a.form(), want) {
				t.Errorf("%s = %d, want %d and %q:\n%s", a.url, a.Code, status, want, a.form())
			}
		}
	}
	see(b.get("/admin/requests"), 200, `href="`+path+`"`, "for the audit", "Open", `href="/admin/requests/waiting"`)
	see(b.get("/admin/requests"), 200, `href="`+path+`/grant"`, `href="`+path+`/refuse"`) // in the row
	if a := h.as("viewer@example.com").get("/admin/requests"); strings.Contains(a.form(), "/grant") || strings.Contains(a.form(), "/refuse") {
		t.Errorf("a viewer is offered to decide:\n%s", a.form())
	}
	see(b.get("/admin/requests?state=granted"), 200, "Nothing matches")
	see(b.acts(path+"/grant", "hours", "many"), 422, "This value isn")
	see(b.acts(path+"/grant", "hours", "100000"), 422, "365 days")
	h.actHasEvent(b, me, path+"/grant", "access.AccessGrantedEvent", "hours", "8", "uses", "3", "note", "until tonight")
	see(b.get(path), 200, "Granted", "3/3", "until tonight", path+"/revoke-access")
	if ok, _, err := h.access.Holds(t.Context(), h.personID("nobody@example.com"), "https://wiki.example.com"); !ok || err != nil {
		t.Errorf("what was granted does not hold: %t, %v", ok, err)
	}
	h.actHasEvent(b, me, path+"/revoke-access", "access.AccessRevokedEvent")
	see(b.acts(path+"/refuse"), 422, "Someone else changed this")
	h.actHasEvent(b, me, "/admin/requests/"+h.request("two.nobody@example.com")+"/refuse",
		"access.AccessRefusedEvent", "note", "ask your team")
	for _, username := range []string{"operator@example.com", "two.owner@example.com"} {
		if a := b.get("/admin/requests/" + h.request(username) + "/grant"); a.Code != http.StatusForbidden {
			t.Errorf("an operator grants %s access: %d", username, a.Code)
		}
	}
	if a := b.get("/admin/requests/nothing"); a.Code != http.StatusNotFound {
		t.Errorf("an unknown request: %d", a.Code)
	}
}

// TestRefusalIsMended: the page of a refusal leads those who may to a group of the site, and to the grant of a request.
func TestRefusalIsMended(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	nobody := h.personID("nobody@example.com")
	_, err := h.id.Person.AddGroup(t.Context(), person.GroupChange{Name: "board"}, audit.Actor{})
	h.must(err)
	for i := range h.sites {
		if h.sites[i].ID == "wiki.example.com" {
			h.sites[i].Gates[0].Asks = append(h.sites[i].Gates[0].Asks, "groups board gatehouse-owner")
		}
	}
	join, grant := personPath(nobody)+"/join?group=board", "/admin/requests/"+h.request("nobody@example.com")+"/grant"
	for role, want := range map[string]bool{"viewer": false, "helpdesk": false, "operator": true, "owner": true} {
		page := h.as(role + "@example.com").get("/admin/refusals/" + h.ref).form()
		if got := strings.Contains(page, `href="`+join+`"`) && strings.Contains(page, "Add nobody@example.com to board") &&
			strings.Contains(page, `href="`+grant+`"`); got != want {
			t.Errorf("%s is offered to let the person in: %t, want %t\n%s", role, got, want, page)
		}
		if got := strings.Contains(page, "join?group=gatehouse-owner"); got != (role == "owner") {
			t.Errorf("%s is offered to make an owner: %t", role, got)
		}
	}
	b := h.as("operator@example.com")
	if a := b.get(join); a.Code != http.StatusOK || !strings.Contains(a.form(), `value="board"`) {
		t.Errorf("GET %s = %d\n%s", join, a.Code, a.form())
	}
	b.acts(personPath(nobody)+"/join", "group", "board")
	if page := b.get("/admin/refusals/" + h.ref).form(); strings.Contains(page, "join?group=board") {
		t.Errorf("someone in the group is to be added to it\n%s", page)
	}
	b.acts(grant, "hours", "1")
	if page := b.get("/admin/refusals/" + h.ref).form(); strings.Contains(page, grant) {
		t.Errorf("a request that is granted is to be granted\n%s", page)
	}
}
