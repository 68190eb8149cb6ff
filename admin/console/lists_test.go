package console

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cluster"
	"github.com/gatehouse-id/gatehouse/internal/sessionindex"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestListsGoOn: a list shows everybody, page by page, and never stops at the first ones.
func TestListsGoOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	for i := range 120 {
		_, err := h.id.Person.AddPerson(t.Context(), person.NewPerson{
			Username: fmt.Sprintf("p%03d@example.com", i), FamilyName: fmt.Sprintf("Number%03d", i), Groups: []string{[]string{"even", "odd"}[i%2]},
		}, audit.Actor{})
		h.must(err)
	}
	h.listPersons()
	for what, c := range map[string]struct {
		path string
		all  int
	}{
		"everybody":           {"/admin/persons", 130},
		"the even ones":       {"/admin/persons?group=even", 60},
		"a beginning":         {"/admin/persons?q=p0", 100},
		"an address":          {"/admin/persons?q=p077@example.com", 1},
		"a family name":       {"/admin/persons?q=number11", 10},
		"nobody":              {"/admin/persons?q=zzz", 0},
		"the blocked ones":    {"/admin/persons?state=BLOCKED", 0},
		"the groups":          {"/admin/groups", 7},
		"groups by a word":    {"/admin/groups?q=gatehouse", 4},
		"events of one type":  {"/admin/events?kind=person.PersonCreated", 130},
		"events of no person": {"/admin/events?person=zzz", 0},
		"of several types":    {"/admin/events?kind=person.PersonCreated,+login.nothing", 130},
		"from an address":     {"/admin/events?address=127.0.0.1&kind=person", 130},
		"from nowhere":        {"/admin/events?address=192.0.2.99", 0},
		"of no refusal":       {"/admin/events?ref=zzz", 0},
	} {
		rows, pages := 0, 0
		for path := c.path; path != "" && pages < 20; pages++ {
			a := b.get(path)
			rows += strings.Count(a.form(), `<tr role="row"><td`)
			path = ""
			if _, after, ok := strings.Cut(a.form(), `<a class="button quiet" href="`); ok && strings.Contains(a.form(), `rel="next"`) {
				for _, link := range strings.Split(after, `href="`) {
					if to, rest, ok := strings.Cut(link, `"`); ok && strings.HasPrefix(rest, ` rel="next"`) {
						path = strings.ReplaceAll(to, "&amp;", "&")
					}
				}
			}
		}
		if rows != c.all {
			t.Errorf("%s: %d rows on %d pages, want %d", what, rows, pages, c.all)
		}
	}
	if a := b.get("/admin/persons?" + url.Values{"q": {"zzz"}}.Encode()); !strings.Contains(a.form(), `href="/admin/persons"`) {
		t.Errorf("an empty list has no way on:\n%s", a.form())
	}
}

// TestApplicationsWithAddresses: an application whose id is an address, as with a metadata document, has a page
// like any other, and acts on it stay in the console.
func TestApplicationsWithAddresses(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b, id := h.as("operator@example.com"), "https://app.example.com/client.json"
	_, err := h.az.Clients().Add(t.Context(),
		client.Client{
			ID: id, RedirectURIs: []string{"https://app.example.com/cb"}, Grants: []string{"authorization_code"},
			Scopes: []string{"openid"},
		}, audit.Actor{})
	h.must(err)
	if a := b.get(applicationPath(id)); a.Code != http.StatusOK || !strings.Contains(a.form(), id) {
		t.Errorf("GET %s = %d\n%s", a.url, a.Code, a.form())
	}
	if a := b.acts(applicationPath(id) + "/disable"); a.url != layout.Root+"?done=disable" || !strings.Contains(a.form(), `role="status"`) {
		t.Errorf("the act leads to %s", a.url)
	}
}

// TestOverviewCounts: sign-ins and failures of the last hour are drawn, and stand in a table.
func TestOverviewCounts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	h.as("nobody@example.com")
	h.clock.Advance(time.Minute)
	h.count()
	for _, period := range []string{"hour", "day", "month", "nonsense"} {
		a := b.get("/admin?period=" + period)
		if a.Code != 200 || !strings.Contains(a.form(), "<b>2</b>") || !strings.Contains(a.form(), `none" aria-hidden="true"><path d="M`) ||
			!strings.Contains(a.form(), "<details>") {
			t.Errorf("the overview of %s = %d\n%s", period, a.Code, a.form())
		}
		if active := strings.Contains(a.form(), "active people per day"); active != (period == "month") {
			t.Errorf("the overview of %s has people per day: %t", period, active)
		}
	}
}

// TestOverviewOfServers: the overview says which servers run, what waits to be sent, how much of the disk is left, and
// which certificate ends next.
func TestOverviewOfServers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	now := h.clock.Now()
	h.machine = Machine{
		Nodes: []cluster.Info{
			{ID: "a1", Host: "gate-1", Version: "v1.2.3", Started: now.Add(-time.Hour), Seen: now, Alive: true, This: true, Lag: 3},
			{ID: "a2", Host: "gate-2", Version: "v1.2.2", Started: now.Add(-time.Hour), Seen: now.Add(-time.Minute), Lag: 41},
			{ID: "a3", Host: "gate-3", Alive: true, Problem: "its clock is <b>wrong</b>"},
		},
		Waiting: map[string]int{"mail": 17, "push": MostWaiting},
		Free:    5 << 30,
		Certificates: []keystore.Expiry{
			{Name: "later", NotAfter: now.AddDate(1, 0, 0)},
			{Name: "surf", NotAfter: now.AddDate(0, 0, 9), Soon: true},
		},
	}
	a := h.as("viewer@example.com").get("/admin").form()
	for _, want := range []string{
		"gate-1", "v1.2.2", "3 ms", "41 ms", "Running", "Not responding", "Not serving", "its clock is &lt;b&gt;wrong",
		"E-mails waiting to be sent", "17", "More than 1000", "5.0 GiB", "surf", `>surf</a>`, "9 days left", "later", `href="/admin/keys"`,
		`href="/admin/events?type=login.LoginFailedEvent"`, `href="/admin/storage"`, `href="/admin/messages/queue?channel=mail"`,
		`href="/admin/messages/queue?channel=push"`,
	} {
		if !strings.Contains(a, want) {
			t.Errorf("the overview lacks %q\n%s", want, a)
		}
	}
	for _, not := range []string{"Text messages not sent"} {
		if strings.Contains(a, not) {
			t.Errorf("the overview has %q\n%s", not, a)
		}
	}
	h.machine = Machine{Nodes: h.machine.Nodes[:1]}
	if a := h.as("viewer@example.com").get("/admin").form(); strings.Contains(a, "not sent yet") || strings.Contains(a, "Free disk space") {
		t.Errorf("the overview tells of what there is not\n%s", a)
	}
}

// TestOverviewOfLatency: how long sites took to decide is drawn, and stands in a table with shares.
func TestOverviewOfLatency(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	if a := b.get("/admin").form(); !strings.Contains(a, "No site decided on a request in this period.") {
		t.Errorf("nothing was decided\n%s", a)
	}
	counts := stats.NewBuffer(h.store, h.clock.Now, rand.Reader, zap.NewNop())
	for range 198 {
		counts.Judged(80 * time.Microsecond)
	}
	counts.Judged(2 * time.Millisecond)
	counts.Judged(time.Minute)
	counts.Flush(t.Context())
	h.count()
	a := b.get("/admin")
	for _, want := range []string{
		"99th percentile", "<b>≤ 0.1 ms</b>", "<span>198</span>", "99 %", "≤ 2.5 ms", "99.5 %", "&gt; 1000 ms", "100 %",
	} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the overview lacks %q\n%s", want, a.form())
		}
	}
}

// TestEventsAsFile: the file has what the filter of the list selects, whatever the page, and no cell that a spreadsheet
// computes.
func TestEventsAsFile(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	for i := range 600 {
		_, err := h.id.Person.AddPerson(t.Context(), person.NewPerson{Username: fmt.Sprintf("p%03d@example.com", i)},
			audit.Actor{ID: "ops", Name: `=HYPERLINK("http://evil.example")`, Origin: audit.Origin{ClientIP: "192.0.2.9"}})
		h.must(err)
	}
	first := b.get("/admin/events?address=192.0.2.9")
	if !strings.Contains(first.form(), `href="/admin/events.csv?address=192.0.2.9"`) {
		t.Errorf("the list has no way to the file\n%s", first.form())
	}
	a := b.get("/admin/events.csv?address=192.0.2.9&after=5")
	if lines := strings.Count(a.Body.String(), "\r\n"); a.Code != http.StatusOK || lines != 601 ||
		!strings.HasPrefix(a.Header().Get("Content-Type"), "text/csv") {
		t.Errorf("GET %s = %d, %d lines of %s, want 601 of text/csv", a.url, a.Code, lines, a.Header().Get("Content-Type"))
	}
	if strings.Contains(a.Body.String(), ",=HYPERLINK") || strings.Contains(a.Body.String(), `,"=HYPERLINK`) ||
		!strings.Contains(a.Body.String(), "'=HYPERLINK") {
		t.Error("the file has a formula")
	}
	if a := b.get("/admin/events.csv?from=nonsense"); a.Code != http.StatusOK || !strings.Contains(a.form(), `aria-invalid`) {
		t.Errorf("a file of nothing clear = %d\n%s", a.Code, a.form())
	}
	one := b.get(newestEvent(b))
	if !strings.Contains(one.form(), "/admin/events?address=192.0.2.9") ||
		!strings.Contains(one.form(), "/admin/events?kind=person.PersonCreatedEvent") {
		t.Errorf("the page of an event leads to no others\n%s", one.form())
	}
	for _, at := range []string{"/admin/events/999999", "/admin/events/zzz", "/admin/events/0", "/admin/events/1023:1"} {
		if a := b.get(at); a.Code != http.StatusNotFound {
			t.Errorf("GET %s = %d, want 404", at, a.Code)
		}
	}
}

// TestSessionsByPlace: sessions are found by address, device, application and site, while they last.
func TestSessionsByPlace(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	gone := h.as("two.nobody@example.com")
	inShop := h.as("nobody@example.com")
	gone.submit(gone.get("/sign-out"))
	sessionID := ""
	h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
		list, err := h.id.Session.OfPerson(tx, h.personID("nobody@example.com"), h.clock.Now())
		if err != nil || len(list) != 1 {
			t.Fatalf("%d sessions, %v", len(list), err)
		}
		sessionID = list[0].ID
		if err := sessionindex.Note(tx, sessionindex.Application, "shop", sessionID, time.Time{}); err != nil {
			return err
		}
		return sessionindex.Note(tx, sessionindex.Site, "https://wiki.example.com", sessionID, time.Time{})
	}))
	for query, want := range map[string]int{
		"": 2, "address=203.0.113.7": 2, "address=203.0.113.8": 0, "device=Firefox+/+Linux": 2, "device=Safari+/+iPhone": 0,
		"client=shop": 1, "client=wiki": 0, "site=https://wiki.example.com": 1, "client=shop&address=203.0.113.8": 0,
		"address=203.0.113.7&client=shop&device=Firefox+/+Linux&site=https://wiki.example.com": 1,
	} {
		a := b.get("/admin/sessions?" + query)
		if rows := strings.Count(a.form(), `<tr role="row"><td`); rows != want {
			t.Errorf("%q shows %d sessions, want %d", query, rows, want)
		}
	}
	if a := b.get("/admin/sessions"); !strings.Contains(a.form(), `<option value="Firefox / Linux"`) ||
		!strings.Contains(a.form(), "/admin/sessions?device=Firefox") {
		t.Errorf("no way to the sessions of a device\n%s", a.form())
	}
	inShop.submit(inShop.get("/sign-out"))
	if a := b.get("/admin/sessions?client=shop"); strings.Contains(a.form(), `<tr role="row"><td`) {
		t.Error("a session that has ended is listed")
	}
}

// TestSecondClick: a form for a new secret that is sent twice makes one, so the secret in use stays valid. Only then
// are there old ones to revoke.
func TestSecondClick(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_, err := h.az.Clients().Add(t.Context(),
		client.Client{
			ID: "wiki", RedirectURIs: []string{"https://wiki.example.com/cb"}, Grants: []string{"authorization_code"},
			Scopes: []string{"openid"},
		}, audit.Actor{})
	h.must(err)
	b := h.as("owner@example.com")
	offers := func(old bool) {
		t.Helper()
		if a := b.get(applicationPath("wiki")); strings.Contains(a.form(), applicationPath("wiki")+"/end-old") != old {
			t.Errorf("the page of an application with old secrets (%v):\n%s", old, a.form())
		}
	}
	offers(false)
	form := b.get(applicationPath("wiki") + "/rotate")
	if a := b.submit(form, "keep", "yes"); a.Code != http.StatusOK || !strings.Contains(a.Body.String(), `id="secret"`) {
		t.Fatalf("the first click: %d\n%s", a.Code, a.form())
	}
	offers(true)
	if a := b.submit(form, "keep", "yes"); a.Code != http.StatusUnprocessableEntity || strings.Contains(a.Body.String(), `id="secret"`) {
		t.Errorf("the second click: %d\n%s", a.Code, a.form())
	}
}

// TestApplicationIsUsed: an application says when it was last used for someone, and leads to the sessions that have its
// tokens.
func TestApplicationIsUsed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("viewer@example.com")
	if a := b.get(applicationPath("shop")); !strings.Contains(a.form(), "<dt>Last sign-in</dt><dd><span>—</span>") ||
		strings.Contains(a.form(), "client=shop") {
		t.Errorf("an application that no one has used says:\n%s", a.form())
	}
	e, err := h.recorder.New(audit.Type{Type: "token.TokenIssuedEvent", Name: "Token Issued", Counts: audit.CountActive}, audit.Self)
	h.must(err)
	e.PersonID, e.ClientID = h.personID("viewer@example.com"), "shop"
	h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
		list, err := h.id.Session.OfPerson(tx, e.PersonID, h.clock.Now())
		if err != nil {
			return err
		}
		if err := sessionindex.Note(tx, sessionindex.Application, "shop", list[0].ID, time.Time{}); err != nil {
			return err
		}
		return h.recorder.Append(tx, e)
	}))
	h.clock.Advance(time.Minute)
	h.count()
	a := b.get(applicationPath("shop"))
	if !strings.Contains(a.form(), "<dt>Last sign-in</dt><dd><span><time") || !strings.Contains(a.form(), `<a href="/admin/sessions?client=shop">1</a>`) {
		t.Errorf("the page of an application that is used does not lead to its session:\n%s", a.form())
	}
}
