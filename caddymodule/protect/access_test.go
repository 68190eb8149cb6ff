package protect

import (
	"bufio"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/recheck"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// fakeAccess grants what a test says, by site and person.
type fakeAccess struct {
	store *badgerstore.Store // tells open requests of changes; nil: they are looked at again every few milliseconds
	now   func() time.Time

	mu     sync.Mutex // guards what follows
	states map[string]AccessState
	ends   map[string]time.Time // of grants; absent: in an hour
	asked  []string
	used   int
}

func (f *fakeAccess) Holds(ctx context.Context, personID, site string) (ok bool, on recheck.Basis, err error) {
	find := func(tx storage.Tx) error {
		if tx != nil {
			if _, err := tx.GetMany([]byte("grants/all")); err != nil {
				return err
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		now, key := f.now(), site+" "+personID
		if on.Until = f.ends[key]; on.Until.IsZero() {
			on.Until = now.Add(time.Hour)
		}
		ok = f.states[key] == AccessGranted && on.Until.After(now)
		return nil
	}
	if f.store == nil {
		return ok, recheck.Basis{}, find(nil)
	}
	on.Reading, err = f.store.Track(ctx, find)
	return ok, on, err
}

func (f *fakeAccess) Use(ctx context.Context, personID, site string) (bool, error) {
	ok, _, err := f.Holds(ctx, personID, site)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used++
	return ok, err
}

func (f *fakeAccess) State(_ context.Context, personID, site string) (AccessState, string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.states[site+" "+personID], "<b>ask & wait</b>", nil
}

func (f *fakeAccess) Ask(_ context.Context, site, reason string, by audit.Actor) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(reason) < 3 {
		return "access.problem.reason", nil
	}
	f.states[site+" "+by.ID] = AccessOpen
	f.asked = append(f.asked, by.Name+" "+reason)
	return "", nil
}

func (f *fakeAccess) set(site, personID string, state AccessState) {
	f.end(site, personID, state, time.Time{})
}

// uses returns the number of requests that a grant has let in, or nearly so.
func (f *fakeAccess) uses() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.used
}

// end is set for a grant that ends by itself.
func (f *fakeAccess) end(site, personID string, state AccessState, at time.Time) {
	f.mu.Lock()
	f.states[site+" "+personID], f.ends[site+" "+personID] = state, at
	f.mu.Unlock()
	if f.store != nil {
		if err := f.store.Update(context.Background(),
			func(tx storage.Tx) error { return tx.Put([]byte("grants/all"), nil, time.Time{}) }); err != nil {
			panic(err)
		}
	}
}

var askHref = regexp.MustCompile(`href="(/\.gatehouse/access\?[^"]*)"`)

// TestRequestAccess: a person without the group asks for access on the page that refuses, and passes once it is
// granted.
func TestRequestAccess(t *testing.T) {
	g := startGateway(t)
	const host = "ask.localhost"
	guest := person(2, "guests")
	jar := cookie.For(g.origin(host))
	binding := jar.Name(cookie.KindBrowser) + "=" + newToken(t, secret.SiteCode)
	c := g.session(t, host, guest) + "; " + binding
	refused := func() answer {
		t.Helper()
		a := g.open(t, host, "/plans?a=1", "Cookie: "+c)
		g.refused(t, a, http.StatusForbidden)
		return a
	}
	m := askHref.FindStringSubmatch(refused().body)
	if m == nil {
		t.Fatal("the page of the refusal has no link to ask for access")
	}
	to := html.UnescapeString(m[1])
	a := g.open(t, host, to, "Cookie: "+c)
	csrf := csrfField.FindStringSubmatch(a.body)
	if a.StatusCode != http.StatusOK || csrf == nil || !strings.Contains(a.body, `name="reason"`) {
		t.Fatalf("the page is %d %s", a.StatusCode, a.body)
	}
	post := func(from, cookies, token, reason string) answer {
		t.Helper()
		return g.submit(t, entry{
			host: host, target: to, kind: urlencoded, from: from, cookies: []string{cookies},
			body: url.Values{"csrf": {token}, "reason": {reason}}.Encode(),
		})
	}
	attempts := map[string]answer{
		"another site asks in the person's name": post("cross-site", c, csrf[1], "minutes"),
		"without the token of the page":          post("same-origin", c, "", "minutes"),
		"in another browser": post("same-origin",
			g.session(t, host, guest)+"; "+jar.Name(cookie.KindBrowser)+"="+newToken(t, secret.SiteCode), csrf[1], "minutes"),
	}
	t.Run("attack 331: somebody else asks in the person's name", func(t *testing.T) {
		for name, a := range attempts {
			if a.StatusCode != http.StatusForbidden || len(g.access.asked) > 0 {
				t.Errorf("%s: %d, asked %q", name, a.StatusCode, g.access.asked)
			}
		}
	})
	if a := post("same-origin", c, csrf[1], "x"); a.StatusCode != http.StatusUnprocessableEntity ||
		!strings.Contains(a.body, "3 to 300 characters") {
		t.Errorf("without a reason the page is %d %s", a.StatusCode, a.body)
	}
	if a := post("same-origin", c, csrf[1], "minutes"); a.StatusCode != http.StatusSeeOther || len(g.access.asked) != 1 ||
		g.access.asked[0] != demoName+" minutes" {
		t.Fatalf("asking answers %d, and %q is asked for", a.StatusCode, g.access.asked)
	}
	if a := g.open(t, host, to, "Cookie: "+c); !strings.Contains(a.body, "You’ve asked for access") ||
		strings.Contains(a.body, `name="reason"`) || !strings.Contains(a.body, "Try ask.localhost") || strings.Contains(a.body, "Cancel") {
		t.Errorf("the page after it is %s", a.body)
	}
	if a := refused(); !strings.Contains(a.body, "An administrator decides") || askHref.MatchString(a.body) {
		t.Errorf("the page of the refusal is %s", a.body)
	}
	g.access.set(g.origin(host), guest.Subject, AccessRefused)
	if a := refused(); !strings.Contains(a.body, "&lt;b&gt;ask &amp; wait&lt;/b&gt;") || !askHref.MatchString(a.body) {
		t.Errorf("the page after a refusal is %s", a.body)
	}
	g.access.set(g.origin(host), guest.Subject, AccessGranted)
	one(t, g.passed(t, g.open(t, host, "/plans?a=1", "Cookie: "+c)), "Remote-User", demoName)
	g.access.set(g.origin(host), guest.Subject, AccessNone)
	refused()
}

// TestGrantsOverruleGroupsAlone: a grant is no way past deny rules, levels, partitions, or into other sites.
func TestGrantsOverruleGroupsAlone(t *testing.T) {
	g := startGateway(t)
	guest := person(2, "guests")
	for _, host := range []string{"ask.localhost", "askrules.localhost", "step.localhost"} {
		g.access.set(g.origin(host), guest.Subject, AccessGranted)
	}
	low, away := person(1, "guests"), person(3, "guests")
	away.Person.Partition = "north"
	for name, c := range map[string]struct {
		host, target string
		level        int
		status       int
	}{
		"the site":                                    {"ask.localhost", "/x", 2, http.StatusOK},
		"no rule allows":                              {"askrules.localhost", "/else", 1, http.StatusOK},
		"attack 332: a deny rule":                     {"askrules.localhost", "/never", 3, http.StatusForbidden},
		"attack 332: the level of the site":           {"ask.localhost", "/x", 1, http.StatusFound},
		"attack 332: the level of a rule for others":  {"askrules.localhost", "/admin/x", 1, http.StatusFound},
		"the level of a rule for others, reached":     {"askrules.localhost", "/admin/x", 3, http.StatusOK},
		"attack 332: a site that does not ask for it": {"step.localhost", "/x", 2, http.StatusForbidden},
		"attack 332: another partition":               {"ask.localhost", "/x", 4, http.StatusForbidden},
	} {
		who := guest
		switch c.level {
		case 1:
			who = low
		case 3:
			who = person(3, "guests")
		case 4:
			who = away
		}
		a := g.open(t, c.host, c.target, "Cookie: "+g.session(t, c.host, who))
		g.take()
		t.Run(name, func(t *testing.T) {
			if a.StatusCode != c.status {
				t.Errorf("status = %d, want %d", a.StatusCode, c.status)
			}
		})
	}
	// A bearer token of the same person gets nothing by it.
	g.fake.set(func() { g.fake.tokens[g.user] = guest })
	g.refused(t, g.get(t, "ask.localhost:"+g.port, "/x"), http.StatusForbidden)
	t.Run("attack 333: a stream outlasts its grant", func(t *testing.T) {
		g.reply("/events", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
		conn := caddytest.Dial(t, g.addr)
		fmt.Fprintf(conn, "GET /events HTTP/1.1\r\nHost: ask.localhost:%s\r\nAccept: text/event-stream\r\nCookie: %s\r\n\r\n", g.port,
			g.session(t, "ask.localhost", guest))
		br := bufio.NewReader(conn)
		res, err := http.ReadResponse(br, nil)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("the stream begins with %v, %v", res, err)
		}
		g.access.set(g.origin("ask.localhost"), guest.Subject, AccessNone)
		io.Copy(io.Discard, res.Body) //nolint:errcheck // it ends in any way
	})
}

// TestGrantAboveALimit: a request that a limit refuses costs no use of a grant, and one that a grant lets in counts
// once.
func TestGrantAboveALimit(t *testing.T) {
	g := startGateway(t)
	const host = "asklimit.localhost"
	guest := person(2, "guests")
	c := "Cookie: " + g.session(t, host, guest)
	g.refused(t, g.open(t, host, "/", c), http.StatusForbidden) // costs nothing
	g.access.set(g.origin(host), guest.Subject, AccessGranted)
	for n := range 2 {
		a := g.open(t, host, "/", c)
		g.passed(t, a)
		if want := fmt.Sprintf(`"person h";r=%d;`, 1-n); !strings.Contains(a.Header.Get("RateLimit"), want) {
			t.Errorf("RateLimit = %s, want %s", a.Header.Get("RateLimit"), want)
		}
	}
	used := g.access.uses()
	for range 3 {
		g.refused(t, g.open(t, host, "/", c), http.StatusTooManyRequests)
	}
	if n := g.access.uses() - used; used != 2 || n != 0 {
		t.Errorf("two requests that passed used the grant %d times, and three refused ones %d times", used, n)
	}
}
