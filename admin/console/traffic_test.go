package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/calllog"
	"github.com/gatehouse-id/gatehouse/internal/limit"
	"github.com/gatehouse-id/gatehouse/internal/usage"
)

// counted has a caller use a limit of ten requests in an hour, and returns the id of that.
func (h *harness) counted(kind byte, name, about string, n int) string {
	h.t.Helper()
	rate, err := limit.ParseRate("10/h")
	h.must(err)
	b, err := limit.NewBucket(rate, 0)
	h.must(err)
	b.About = about
	k := limit.Key{Rule: 7, Name: name}
	k.Addr[0] = kind
	for range n {
		h.limits.Take(false, k, b, h.clock.Now())
	}
	return k.ID()
}

// nears has a client come near a limit.
func (h *harness) nears(client string) string {
	return h.counted(limit.AClient, client, "10/h per client at wiki.example.com", 9)
}

// TestLimits: who is near or above a limit is listed, per site and caller, and an operator lifts it once.
func TestLimits(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	if a := b.get("/admin/limits"); !strings.Contains(a.form(), "No one is near a limit") {
		t.Errorf("without limits:\n%s", a.form())
	}
	nobody := h.personID("nobody@example.com")
	near := h.nears("shop")
	over := h.counted(limit.APerson, nobody, "10/h per person at api.example.com", 12)
	h.counted(limit.AClient, "quiet", "10/h per client at wiki.example.com", 2)
	for query, want := range map[string]string{
		"":                           "nobody@example.com shop",
		"?used=any":                  "nobody@example.com quiet shop",
		"?used=over":                 "nobody@example.com",
		"?site=wiki.example.com":     "shop",
		"?site=WIKI&used=any":        "quiet shop",
		"?caller=nobody@example.com": "nobody@example.com",
		"?caller=" + nobody:          "nobody@example.com",
		"?caller=shop":               "shop",
		"?caller=zzz":                "",
	} {
		form, got := b.get("/admin/limits"+query).form(), ""
		_, rows, _ := strings.Cut(form, "<tbody")
		for _, name := range []string{"nobody@example.com", "quiet", "shop"} {
			if strings.Contains(rows, ">"+name+"<") {
				got = strings.TrimSpace(got + " " + name)
			}
		}
		if got != want {
			t.Errorf("/admin/limits%s lists %q, want %q\n%s", query, got, want, form)
		}
	}
	form := b.get("/admin/limits").form()
	for _, want := range []string{
		"10/h per person at api.example.com", "10 of 10", "9 of 10", "Refused", "/admin/persons/" + nobody, "/admin/applications/shop",
		"/admin/limits/lift-limit?limit=" + url.QueryEscape(over),
	} {
		if !strings.Contains(form, want) {
			t.Errorf("the list lacks %q:\n%s", want, form)
		}
	}
	if a := b.get("/admin/limits/lift-limit?limit=" + url.QueryEscape(over)); !strings.Contains(a.form(), "nobody@example.com") ||
		!strings.Contains(a.form(), "10 of 10") {
		t.Errorf("the question does not say who has used what:\n%s", a.form())
	}
	a := b.acts("/admin/limits/lift-limit?limit=" + url.QueryEscape(over))
	if !strings.Contains(a.form(), "has been reset") || strings.Contains(a.form(), ">nobody@example.com<") {
		t.Errorf("after it was lifted:\n%s", a.form())
	}
	for _, id := range []string{over, "", "1.2", near + "x"} {
		if a := b.acts("/admin/limits/lift-limit?limit=" + url.QueryEscape(id)); a.Code != http.StatusUnprocessableEntity ||
			!strings.Contains(a.form(), "no longer exists") {
			t.Errorf("the id %q: status %d\n%s", id, a.Code, a.form())
		}
	}
	form = h.as("viewer@example.com").get("/admin/limits").form()
	if strings.Contains(form, "lift-limit") || !strings.Contains(form, ">shop<") {
		t.Errorf("a viewer is shown the way to lift a limit, or no list:\n%s", form)
	}
}

// TestCalls: recorded calls are found by person, client, site, path, address and day, page by page, and as a file.
func TestCalls(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	if a := b.get("/admin/calls"); !strings.Contains(a.form(), "audit log") || !strings.Contains(a.form(), "No calls recorded yet") {
		t.Errorf("without calls:\n%s", a.form())
	}
	nobody := h.personID("nobody@example.com")
	add := func(c calllog.Call) {
		c.At, c.Method, c.Verdict, c.Status = h.clock.Now(), http.MethodGet, "allow", http.StatusOK
		h.calls.Add(&c)
	}
	const name = "nobody@example.com"
	add(calllog.Call{Site: "https://wiki.example.com", Path: "/hr/plan", PersonID: nobody, Username: name, IP: "203.0.113.9"})
	h.clock.Advance(24 * time.Hour)
	add(calllog.Call{Site: "https://api.example.com", Path: "/orders/7", ClientID: "shop", IP: "203.0.113.10"})
	for n := range 60 {
		add(calllog.Call{Site: "https://api.example.com", Path: fmt.Sprintf("/stock/%d", n), ClientID: "=cmd", IP: "203.0.113.11"})
	}
	h.must(h.calls.Flush(t.Context()))
	b = h.as("viewer@example.com")
	for query, want := range map[string]string{
		"person=nobody@example.com": "/hr/plan", "person=" + nobody: "/hr/plan", "client=shop": "/orders/7",
		"path=/orders/*": "/orders/7", "path=/orders/7": "/orders/7", "site=wiki.example.com": "/hr/plan",
		"site=https%3A%2F%2Fwiki.example.com": "/hr/plan", "address=203.0.113.10": "/orders/7",
		"to=2035-11-21": "/hr/plan", "path=/orders": "", "person=owner@example.com": "", "from=2035-11-23": "",
		"person=zzz": "", "from=soon": "",
	} {
		a, got := b.get("/admin/calls?"+query), ""
		for _, path := range []string{"/hr/plan", "/orders/7", "/stock/5"} {
			if strings.Contains(a.form(), path+"<") {
				got += path
			}
		}
		if a.Code != http.StatusOK || got != want {
			t.Errorf("/admin/calls?%s = %d with %q, want %q\n%s", query, a.Code, got, want, a.form())
		}
	}
	if a := b.get("/admin/calls?from=soon"); !strings.Contains(a.form(), `id="from-problem"`) {
		t.Errorf("an invalid day has no problem:\n%s", a.form())
	}
	form := b.get("/admin/calls").form()
	for _, want := range []string{"GET api.example.com/stock/59", "1-62", "/admin/calls.csv", "after="} {
		if !strings.Contains(form, want) {
			t.Errorf("the list lacks %q:\n%s", want, form)
		}
	}
	a := b.do(http.MethodGet, "/admin/calls.csv?client="+url.QueryEscape("=cmd"), "")
	lines := strings.Split(strings.TrimSpace(a.Body.String()), "\r\n")
	if a.Code != http.StatusOK || len(lines) != 61 || !strings.Contains(lines[1], "https://api.example.com,GET,/stock/59,allow,,200") ||
		!strings.Contains(lines[1], "'=cmd") {
		t.Errorf("calls.csv = %d, %d lines: %s", a.Code, len(lines), lines[:2])
	}
	if a := b.do(http.MethodGet, "/admin/calls.csv?person=zzz", ""); a.Code != http.StatusSeeOther {
		t.Errorf("a file of no one: %d", a.Code)
	}
}

// TestUsage: the requests of applications are listed by site and day, and are a file for a bill.
func TestUsage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	if a := b.get("/admin/limits/usage"); !strings.Contains(a.form(), "No application used a protected site") {
		t.Errorf("without usage:\n%s", a.form())
	}
	c := usage.New(h.store, h.clock.Now, zap.NewNop())
	for range 7 {
		c.Site("api.example.com").Passed("shop", h.clock.Now())
	}
	c.Site("api.example.com").Limited("shop", h.clock.Now())
	c.Site("wiki.example.com").Passed("blog", h.clock.Now().AddDate(0, -2, 0))
	h.must(c.Flush(t.Context()))
	for query, want := range map[string]string{
		"": "shop", "?client=shop": "shop", "?client=sho": "", "?site=api.example.com": "shop", "?site=wiki.example.com": "",
		"?from=2035-09-01": "shop blog", "?from=2035-09-01&to=2035-10-01": "blog", "?from=2035-11-22": "", "?to=soon": "",
		"?from=2035-12-01&to=2035-11-01": "", "?after=nonsense": "shop",
	} {
		a, got := b.get("/admin/limits/usage"+query), ""
		for _, name := range []string{"shop", "blog"} {
			if strings.Contains(a.form(), `href="/admin/applications/`+name+`"`) {
				got = strings.TrimSpace(got + " " + name)
			}
		}
		if a.Code != http.StatusOK || got != want {
			t.Errorf("/admin/limits/usage%s = %d with %q, want %q\n%s", query, a.Code, got, want, a.form())
		}
	}
	for query, field := range map[string]string{"?to=soon": "to", "?from=2035-12-01&to=2035-11-01": "from"} {
		if a := b.get("/admin/limits/usage" + query); !strings.Contains(a.form(), `id="`+field+`-problem"`) {
			t.Errorf("%s has no problem at %s:\n%s", query, field, a.form())
		}
		if a := b.do(http.MethodGet, "/admin/limits/usage.csv"+query, ""); a.Code != http.StatusSeeOther {
			t.Errorf("a file of %s: %d", query, a.Code)
		}
	}
	a := b.do(http.MethodGet, "/admin/limits/usage.csv?client=shop", "")
	if want := "day,client_id,site,requests,limited\r\n2035-11-21,shop,api.example.com,7,1\r\n"; a.Body.String() != want {
		t.Errorf("usage.csv = %q, want %q", a.Body, want)
	}
}
