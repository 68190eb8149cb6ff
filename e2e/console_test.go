package e2e

import (
	"html"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/network"
)

var objectID = regexp.MustCompile(`/settings/(?:attributes|custom_messages|login_methods|organisations|redirects|step_up|ui_extension|email_notifications|password_policy|profile|messages|policies)|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|[A-Z2-7]{4}-[A-Z2-7]{4}|\b[0-9]{1,4}$`)

// messageID matches the text or the preview that a page is about.
var messageID = regexp.MustCompile(`(/messages/(?:texts|previews)/)[^/]+`)

// walkConsole visits every page of the console that links lead to, once for each kind of page, and returns the kinds
// with an address of each.
func (c *crawler) walkConsole(state string) map[string]string {
	c.t.Helper()
	c.state = state
	seen, pages, visited := map[string]string{}, map[string]int{}, map[string]bool{}
	for queue := []string{c.Issuer + "/admin", c.Issuer + "/admin/search?q=e", c.Issuer + "/admin/search?q=no+such+thing"}; len(queue) > 0; {
		next := queue[0]
		queue = queue[1:]
		u, err := url.Parse(next)
		if err != nil || u.Path != "/admin" && !strings.HasPrefix(u.Path, "/admin/") || u.Query().Has("live") ||
			strings.HasSuffix(u.Path, "/document") { // those load themselves again, or are previews of other pages
			continue
		}
		kind := objectID.ReplaceAllString(strings.Replace(messageID.ReplaceAllString(u.Path, "${1}{id}"), "/applications/shop",
			"/applications/reports", 1), "{id}") + " " + strings.Join(slices.Sorted(maps.Keys(u.Query())), " ")
		if visited[u.Path+kind] {
			continue
		}
		visited[u.Path+kind] = true
		limit := 1
		switch {
		case strings.HasPrefix(kind, "/admin/groups/{id} "):
			limit = 6 // those of the roles cannot be renamed
		case strings.HasSuffix(kind, "/{id} "):
			limit = 2 // of two persons one is the owner
		}
		if pages[kind]++; pages[kind] > limit {
			continue
		}
		seen[kind] = next
		a := c.fetch(c.cookies(), next)
		if a.status >= 400 {
			c.t.Errorf("%s: a link leads to %s, which answers %d", state, next, a.status)
			continue
		}
		if parts := partsOf(a.body); state == "owner" || !c.shapes[parts] {
			c.shapes[parts] = true
			queue = append(queue, c.visit(next)...)
		} else { // the browser has looked at a page of the same parts
			queue = append(queue, c.linksOf(a)...)
		}
		if *shots && state == "owner" && strings.HasPrefix(a.header.Get("Content-Type"), "text/html") {
			c.keepShots(kind, next)
		}
	}
	return seen
}

var (
	partOf = regexp.MustCompile(`<([a-z0-9]+)((?: class="[^"]*")?)`)
	linkOf = regexp.MustCompile(`<a [^>]*href="([^"]+)"`)
)

// partsOf returns the kinds of elements that a page has.
func partsOf(page string) string {
	_, main, _ := strings.Cut(page, "<main")
	kinds := map[string]bool{}
	for _, m := range partOf.FindAllString(main, -1) {
		kinds[m] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(kinds)), " ")
}

// linksOf returns the addresses that a page leads to.
func (c *crawler) linksOf(a fetched) []string {
	c.t.Helper()
	var links []string
	for _, m := range linkOf.FindAllStringSubmatch(a.body, -1) {
		u, err := a.where.Parse(html.UnescapeString(m[1]))
		if err != nil {
			c.t.Errorf("%s: a link to %q: %v", a.where, m[1], err)
			continue
		}
		u.Fragment = ""
		links = append(links, u.String())
	}
	return links
}

// TestConsole visits every screen of the admin console and the page of every act that an owner is offered, once for
// each kind of page, and then those that people of the other roles are offered: on each axe finds nothing in either
// scheme, nothing scrolls sideways at 320 pixels, Tab reaches every control, all words exist in four languages, and no
// link leads to what the role may not see.
func TestConsole(t *testing.T) {
	t.Parallel()
	roles := []string{"operator", "helpdesk", "viewer"}
	people := ""
	for _, role := range roles {
		people += "\t\t\tperson " + role + "@example.com {\n\t\t\t\tpassword {env.TEST_PASSWORD}\n\t\t\t\tgroups gatehouse-" + role +
			"\n\t\t\t}\n"
	}
	c := newCrawlerOf(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "\n\t\tidentity {",
			"\n\t\tidentity {\n\t\t\tadmin "+person+
				" {\n\t\t\t\tlevel 1\n\t\t\t\tsee_as owner\n\t\t\t}\n\t\t\tperson second@example.com {\n\t\t\t\tgroups staff\n\t\t\t}\n"+people, 1)
	})
	// A mail that the server refuses stays in the queue.
	c.mail.refuse.Store(true)
	welcome := filepath.Join(t.TempDir(), "welcome.json")
	if err := os.WriteFile(welcome, []byte(`{"email_notifications":{"welcome":{"on_api_enabled":true}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.must("", "config", "import", welcome)
	c.must(random(12)+"\n", "person", "add", "waits@example.com")
	c.mail.refusesOne(t)
	c.must("", "person", "remove", "waits@example.com")

	c.b.open(c.Issuer + "/admin")
	c.b.signIn(person, c.Password)
	if at := c.b.location(); !strings.HasPrefix(at, c.Issuer+"/admin") {
		t.Fatalf("after the sign-in the browser is at %s: %s", at, c.b.text("main"))
	}
	seen := c.walkConsole("owner")
	seeAs := "" // the page that lets the owner see an account
	for kind, address := range seen {
		if strings.HasSuffix(kind, "/see-as ") {
			seeAs = address
		}
	}
	t.Logf("%d pages of %d shapes looked at, %d by axe, and the height of %d lists", c.looked, len(c.shapes), c.tried, c.lists)
	if c.lists < 3 || c.tried < 20 {
		t.Errorf("the height of %d lists was looked at, and %d pages by axe, want more", c.lists, c.tried)
	}
	for route := range strings.Lines(read(t, "../admin/console/testdata/routes.txt")) {
		route = strings.TrimSpace(route)
		is := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(route), `\{id\}`, "[^/]+") + " ")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), is.MatchString) && !elsewhere(route) {
			t.Errorf("no link of the console leads to %s: %v", route, slices.Sorted(maps.Keys(seen)))
		}
	}
	// And the account of someone else, seen by the owner.
	c.b.open(seeAs)
	c.b.fill("[name=reason]", "They cannot find their devices")
	c.b.click("main form button:not([type])")
	c.state = "an owner who sees somebody"
	for _, path := range []string{
		"/account", "/account/profile", "/account/security", "/account/devices", "/account/applications",
		"/account/activity", "/account/data",
	} {
		c.visit(path)
		c.b.screen(1280, 800, "light")
		c.b.open(c.Issuer + path)
		c.b.shot("seen" + strings.ReplaceAll(path, "/", "-"))
		if at, banner := c.b.location(), c.b.has(".seeing"); banner != (path != "/account/data") || at != c.Issuer+path {
			t.Errorf("%s has a banner: %t, and the browser is at %s", path, banner, at)
		}
	}
	c.b.screen(320, 640, "dark")
	c.b.open(c.Issuer + "/account")
	c.b.shot("seen-account-narrow")
	c.b.click(".seeing button")
	if at := c.b.location(); !strings.HasPrefix(at, c.Issuer+"/admin/persons/") {
		t.Errorf("after the end the browser is at %s", at)
	}
	// Then the other roles, each with a browser of their own.
	owner := len(seen)
	for _, role := range roles {
		c.b = c.browse(t)
		c.b.open(c.Issuer + "/admin")
		c.b.signIn(role+"@example.com", c.Password)
		offered := c.walkConsole(role)
		if len(offered) < 20 || len(offered) >= owner {
			t.Errorf("%s is offered %d kinds of pages, the owner %d", role, len(offered), owner)
		}
		t.Logf("%s: %d kinds of pages, %d looked at so far", role, len(offered), c.looked)
	}
}

// elsewhere reports whether this server has nothing that a route could be about, or nothing to do there. They look like
// the others: each act is the same page with a form. The tests of the package console open all of them.
func elsewhere(route string) bool {
	return slices.ContainsFunc([]string{
		"/admin/jobs/", "/admin/limits/", "/admin/events/live", "/admin/events/alerts/{id}", "/admin/refusals/{id}", "/admin/requests/{id}",
		"/admin/requests/blocked/", "/admin/policies/{id}", "/admin/keys/", "/admin/providers/{id}/",
		"/admin/applications/{id}/", "/admin/persons/{id}/",
		"/admin/settings/{id}/reset-member", "/admin/settings/{id}/undo-settings",
		"/admin/messages/undo-messages", "/admin/messages/texts/{id}/reset-message", "/admin/messages/previews/{id}/",
		"/admin/persons/block-many", "/admin/persons/unblock-many", "/admin/persons/join-many", "/admin/persons/leave-many",
		"/admin/persons/end-many",
	}, func(begin string) bool { return strings.HasPrefix(route, begin) })
}

// keepShots leaves pictures of a page as it opens: without what the crawler has focused, unfolded or scrolled to.
func (c *crawler) keepShots(name, address string) {
	c.t.Helper()
	c.b.open(address)
	name = "console" + strings.NewReplacer("/", "_", " ", "_", "{", "", "}", "").Replace(strings.TrimSpace(strings.TrimPrefix(name, "/admin")))
	c.b.looks(name)
	for _, language := range []string{"de", "fr"} { // the longest words, on a phone
		call(c.b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{"Accept-Language": language}})
		c.b.screen(390, 800, "light")
		c.b.open(address)
		c.b.shot(name + "-390-" + language)
	}
	call(c.b, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{}})
	c.b.screen(1280, 800, "light")
}
