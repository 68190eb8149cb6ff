package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// crawler visits the pages of a server in one browser and checks each of them. It discovers the pages itself, so it
// covers future ones too.
type crawler struct {
	*everything
	b       *tab
	axe     string
	keys    []string // of messages, longest first
	seen    map[string]bool
	shapes  map[string]bool // of the pages that were looked at
	parts   map[string]bool // kinds of elements that axe and the keyboard went over
	state   string          // the browser's user, for messages
	forms   []form          // of the pages of this state
	looked  int
	tried   int    // by axe and the keyboard
	lists   int    // whose height was looked at
	foreign string // another browser's token against forgery
}

// TestCrawl visits every page from every route and every link: as a stranger, as a person who has signed in, and as one
// who has stepped up. On each page axe finds nothing, nothing scrolls sideways, and Tab reaches every control and shows
// the focus. The headers are right, all words exist in four languages, and no form accepts a submission that it did not
// produce.
func TestCrawl(t *testing.T) {
	t.Parallel()
	c := newCrawler(t)
	pages := identityRoutes(t)
	pages = append(pages, "/nowhere", "/oauth/authorize", "/oauth/authorize?client_id=nobody", "/oauth/logout", "/oauth/logout?client_id=shop",
		"/oauth/consent", "/oauth/site")
	c.walk("stranger", append(slices.Clone(pages), c.shop.address+"/")...)
	if !c.has("#password") {
		c.b.open(c.shop.address + "/")
	}
	c.b.signIn(person, "not the password")
	c.look("stranger: wrong password")
	c.b.signIn(person, c.Password)
	c.look("consent")
	c.walk("signed in", append(slices.Clone(pages), c.shop.address+"/", c.shop.address+"/?prompt=select_account",
		c.shop.address+"/?prompt=login")...)
	c.raise()
	c.walk("stepped up", append(slices.Clone(pages), c.shop.address+"/?acr_values=urn:gatehouse:level:3")...)
	t.Logf("%d pages of %d shapes looked at, %d by axe, with %v", c.looked, len(c.shapes), c.tried, c.on)
	if c.looked < 25 || c.tried < 10 {
		t.Errorf("%d pages, %d by axe, want more", c.looked, c.tried)
	}
}

func newCrawler(t *testing.T) *crawler { return newCrawlerOf(t, nil) }

// newCrawlerOf is newCrawler with a Caddyfile that edit changes. nil: it is as it is.
func newCrawlerOf(t *testing.T, edit func(caddyfile string) string) *crawler {
	t.Helper()
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	c := &crawler{axe: string(axe), seen: map[string]bool{}, shapes: map[string]bool{}, parts: map[string]bool{}}
	topics, err := filepath.Glob("../internal/web/messages/en/*.json")
	if err != nil || len(topics) == 0 {
		t.Fatalf("%d files of messages, %v", len(topics), err)
	}
	for _, topic := range topics {
		var messages map[string]string
		raw, err := os.ReadFile(topic)
		if err == nil {
			err = json.Unmarshal(raw, &messages)
		}
		if err != nil {
			t.Fatal(err)
		}
		for key := range messages {
			if strings.Contains(key, ".") {
				c.keys = append(c.keys, key)
			}
		}
	}
	c.everything = openEverything(t, edit, nil)
	c.b = c.browse(t)
	other := c.fetch("", c.Issuer+"/sign-in")
	if m := csrfField.FindStringSubmatch(other.body); m != nil {
		c.foreign = m[1]
	} else {
		t.Fatalf("the sign-in page has no token: %s", other.body)
	}
	return c
}

func (c *crawler) has(selector string) bool { c.t.Helper(); return c.b.has(selector) }

// walk visits the pages and everything that they link to. Each kind of page is visited once per state, in whatever
// flow.
func (c *crawler) walk(state string, addresses ...string) {
	c.t.Helper()
	c.state, c.forms = state, nil
	queue := slices.Clone(addresses)
	for len(queue) > 0 {
		next := queue[0]
		queue = append(queue[1:], c.visit(next)...)
	}
	for _, f := range c.forms {
		c.forge(f)
	}
	c.postAll(addresses)
	for i, f := range c.forms {
		if f.asksFor() && !slices.ContainsFunc(c.forms[:i],
			func(g form) bool { return pathOf(g.Page) == pathOf(f.Page) && g.names() == f.names() }) {
			c.fillIn(f)
		}
	}
}

// fillIn sends a form empty, then with wrong values, and visits the results.
func (c *crawler) fillIn(f form) {
	c.t.Helper()
	for _, how := range []string{"empty", "filled in"} {
		if how == "filled in" && c.state == "signed in" {
			continue // wrong passwords and codes would count against the person, who has to step up later
		}
		c.b.open(f.Page)
		status := c.b.lands(chromedp.Evaluate[chromedp.Void](f.script(how == "filled in")))
		name := fmt.Sprintf("%s: %s, sent %s", c.state, pathOf(f.Page), how)
		if status >= 500 {
			c.t.Errorf("%s: status %d", name, status)
		}
		if strings.HasPrefix(c.b.location(), c.Issuer) {
			c.look(name)
		}
	}
}

// visit visits one page, and returns the links on it.
func (c *crawler) visit(address string) []string {
	c.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = c.Issuer + address
	}
	a := c.fetch(c.cookies(), address)
	if a.where == nil || !strings.HasPrefix(a.where.String(), c.Issuer) || c.seen[c.kind(a)] {
		return nil // it leads elsewhere, or was visited
	}
	c.seen[c.kind(a)] = true
	name := c.state + ": " + a.where.Path
	if a.status >= 500 {
		c.t.Errorf("%s: status %d", name, a.status)
	}
	public := strings.HasPrefix(a.where.Path, "/assets/") || a.where.Path == "/favicon.ico" ||
		strings.HasPrefix(a.header.Get("Content-Type"), "application/samlmetadata+xml")
	if a.header.Get("Cache-Control") != "no-store" && !public {
		c.t.Errorf("%s: Cache-Control %q, want no-store", name, a.header.Get("Cache-Control"))
	}
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("Content-Disposition") != "" {
		return nil
	}
	c.headers(name, a)
	c.languages(name, address)
	c.b.open(address)
	if !strings.HasPrefix(c.b.location(), c.Issuer) {
		return nil
	}
	c.look(name)
	c.forms = append(c.forms, readForms(c.b)...)
	var links []string
	for _, l := range eval[[]string](c.b, `[...document.querySelectorAll('a[href]')].map(a => a.href)`) {
		l, _, _ = strings.Cut(l, "#")
		if strings.HasPrefix(l, c.Issuer+"/") {
			links = append(links, l)
		}
	}
	return links
}

// kind returns what two pages must share to be the same: path, status, parameter names, and parameter values that are
// words.
func (c *crawler) kind(a fetched) string {
	var parts []string
	for name, values := range a.where.Query() {
		if v := values[0]; word.MatchString(v) {
			name += "=" + v
		}
		parts = append(parts, name)
	}
	slices.Sort(parts)
	return fmt.Sprint(c.state, a.status, a.where.Path, parts)
}

var (
	word      = regexp.MustCompile(`^[a-z_-]{1,20}$`)
	verbatim  = regexp.MustCompile(`(?s)<(?:pre|code|textarea)\b.*?</(?:pre|code|textarea)>`) // lines of a Caddyfile and of JSON have braces
	tags      = regexp.MustCompile(`(?s)<[^>]*>`)
	csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)
	langOf    = regexp.MustCompile(`<html lang="([^"]*)"`)
)

// headers checks the headers that every page must have. (Content Security Policy Level 3)
func (c *crawler) headers(name string, a fetched) {
	c.t.Helper()
	policy := a.header.Get("Content-Security-Policy")
	directives := map[string]string{}
	for d := range strings.SplitSeq(policy, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(d), " ")
		directives[key] = value
	}
	for _, d := range []string{"default-src", "object-src", "base-uri", "frame-ancestors"} {
		if directives[d] != "'none'" {
			c.t.Errorf("%s: the policy has %s %q, want 'none'", name, d, directives[d])
		}
	}
	if directives["style-src"] != "'self'" || directives["form-action"] == "" || strings.Contains(policy, "unsafe") ||
		strings.Contains(policy, "*") || strings.Contains(policy, "data:") {
		c.t.Errorf("attack 272: %s: the policy is %q", name, policy)
	}
	if s := directives["script-src"]; s != "" && s != "'none'" && s != "'self'" && !strings.HasPrefix(s, "'sha256-") {
		c.t.Errorf("%s: scripts from %q", name, s)
	}
	for header, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff",
		"Referrer-Policy": "same-origin", "Access-Control-Allow-Origin": "",
	} {
		if got := a.header.Get(header); got != want {
			c.t.Errorf("%s: %s %q, want %q", name, header, got, want)
		}
	}
	if !strings.Contains(a.header.Get("Vary"), "Cookie") || !strings.Contains(a.header.Get("Vary"), "Accept-Language") {
		c.t.Errorf("%s: Vary %q, want the cookie and the language", name, a.header.Get("Vary"))
	}
}

// languages requests the page in each language, and checks its language and that every message exists and is filled in.
func (c *crawler) languages(name, address string) {
	c.t.Helper()
	for _, language := range []string{"en", "nl", "de", "fr"} {
		a := c.fetch(c.cookies(), address, "Accept-Language", language)
		m := langOf.FindStringSubmatch(a.body)
		if m == nil || m[1] != language {
			c.t.Errorf("%s: asked for in %s it is in %q", name, language, m)
			continue
		}
		if a.where.Path == "/admin/messages" || strings.HasPrefix(a.where.Path, "/admin/messages/") {
			continue // these pages are about texts that are not filled in, and name them by their keys
		}
		words := " " + strings.Join(strings.Fields(tags.ReplaceAllString(verbatim.ReplaceAllString(a.body, " "), " ")), " ") + " "
		for _, key := range c.keys {
			if strings.Contains(words, " "+key+" ") {
				c.t.Errorf("%s in %s: the message %s is missing", name, language, key)
			}
		}
		if i := strings.IndexAny(words, "{}"); i >= 0 {
			c.t.Errorf("%s in %s: something is not filled in: %q", name, language, words[max(0, i-40):min(len(words), i+40)])
		}
	}
}

// overhanging are the tables, lists and controls that are wider than the card that they stand in.
const overhanging = `(() => {
	const card = document.querySelector('main'), style = getComputedStyle(card), edge = card.getBoundingClientRect();
	return [...card.querySelectorAll('table, dl, ul, .button, input:not([type=hidden]), select, textarea, pre')].filter(e => {
		const at = e.getBoundingClientRect();
		return at.width > 0 && (at.right > edge.right - parseFloat(style.paddingRight) + 1 || at.left < edge.left + parseFloat(style.paddingLeft) - 1);
	}).map(e => e.tagName + ' ' + e.className + ' ' + (e.innerText ?? '').slice(0, 40));
})()`

// listHeight is a script that returns how high a list of the console is with twenty rows as high as its own, in
// pixels, with its menus and filters folded. 0: the page is no list, or has too few rows to tell.
const listHeight = `(() => {
	const [list, more] = [document.querySelectorAll('main section .list'), [...document.querySelectorAll('.more[open]')]];
	const rows = list.length == 1 && document.querySelectorAll('main section').length == 1 ? list[0].tBodies[0].rows.length : 0;
	if (rows < 5) return 0;
	more.forEach(e => e.open = false);
	const [table, page] = [list[0].offsetHeight, document.documentElement.scrollHeight];
	more.forEach(e => e.open = true);
	return Math.round(page - table + 20 * table / rows);
})()`

// maxWeight bounds what a screen of the console loads: the bytes of HTML, style sheets, scripts and pictures as they
// are sent. The font counts once for all pages, and has a bound of its own.
const maxWeight = 60_000

// weight is a script that returns the bytes of the page and of what it has loaded, from a cache or not. 0: some of
// them are unknown.
const weight = `(() => {
	const sizes = [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].filter(e =>
		['navigation', 'link', 'script', 'img', 'css'].includes(e.initiatorType) && !e.name.endsWith('.woff2')).map(e => e.encodedBodySize);
	return sizes.includes(0) ? 0 : sizes.reduce((n, size) => n + size, 0);
})()`

// look checks the page that the browser shows, for attacks 284 and 287 too.
func (c *crawler) look(name string) {
	c.t.Helper()
	c.looked++
	b := c.b
	facts := eval[struct {
		Title, H1         string
		H1s, Inline, Kept int
		Blank             []string
		HTML              string
		Scripts           []string
		Weight            int
	}](b, `({
		Title: document.title, H1: document.querySelector('h1')?.innerText ?? '', H1s: document.querySelectorAll('h1').length,
		Inline: document.querySelectorAll('[style],style').length + [...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(n => n.startsWith('on'))).length,
		Kept: localStorage.length + sessionStorage.length,
		Blank: [...document.querySelectorAll('[target]')].filter(e => !(e.rel ?? '').includes('noopener')).map(e => e.outerHTML),
		HTML: document.documentElement.outerHTML,
		Scripts: [...document.scripts].map(s => s.src),
		Weight: `+weight+`,
	})`)
	if strings.HasPrefix(pathOf(b.location()), "/admin") {
		if facts.Weight > maxWeight || facts.Weight == 0 {
			c.t.Errorf("%s: the page and what it loads weigh %d bytes, want at most %d", name, facts.Weight, maxWeight)
		}
	}
	if facts.Title == "" || facts.H1s != 1 || facts.H1 == "" || facts.Inline != 0 {
		c.t.Errorf("%s: title %q, %d h1 %q, %d inline styles and handlers", name, facts.Title, facts.H1s, facts.H1, facts.Inline)
	}
	if facts.Kept != 0 {
		c.t.Errorf("attack 284: %s: the page keeps %d things in the browser's storage", name, facts.Kept)
	}
	if len(facts.Blank) != 0 {
		c.t.Errorf("attack 287: %s: links to another window without noopener: %q", name, facts.Blank)
	}
	for _, src := range facts.Scripts {
		if src == "" {
			continue // the form that submits itself
		}
		if text := c.fetch("", src).body; text == "" || strings.Contains(text, "postMessage") || strings.Contains(text, "opener") ||
			strings.Contains(text, "Storage") {
			c.t.Errorf("attack 287: %s: the script %s speaks to other windows or keeps something: %.100q", name, src, text)
		}
	}
	for _, cookie := range c.cookieValues() {
		if strings.Contains(facts.HTML, cookie) || strings.Contains(b.location(), cookie) {
			c.t.Errorf("attack 284: %s: the page or its address holds a cookie's value", name)
		}
	}
	if strings.Contains(facts.HTML, c.Password) {
		c.t.Errorf("attack 284: %s: the page holds the password", name)
	}
	shape := eval[string](b, `[...document.querySelectorAll('main, main *')].map(e => e.tagName + '.' + e.className + e.id).join(' ')`)
	if c.shapes[shape] {
		return // a page with the same parts was checked before
	}
	c.shapes[shape] = true
	eval[bool](b, `(document.querySelectorAll('.more').forEach(menu => menu.open = true), true)`)
	known := os.Getenv("GATEHOUSE_PAGES") != "all"
	for _, part := range eval[[]string](b, kindsOfParts) {
		known = known && c.parts[part]
		c.parts[part] = true
	}
	for _, screen := range []struct {
		width, height int64
		all           bool // also where only the order or number of the parts is new
	}{{320, 640, true}, {390, 844, false}, {640, 400, false}, {1280, 900, true}} { // a narrow phone, a phone, 200 % of 1280 by 800, a desktop
		if known && !screen.all {
			continue
		}
		b.screen(screen.width, screen.height, "light")
		page := eval[struct {
			Wide, High int64
			Over       []string
		}](b, `({Wide: document.documentElement.scrollWidth, High: `+listHeight+`, Over: `+overhanging+`})`)
		if page.Wide > screen.width || len(page.Over) > 0 {
			c.t.Errorf("%s is %d pixels wide on a screen of %d, and beyond the edge of the card are %q", name, page.Wide, screen.width, page.Over)
			b.shot("crawl-wide-" + strings.NewReplacer("/", "_", ":", "", " ", "-").Replace(name))
		}
		if screen.width == 390 && page.High > 0 {
			c.lists++
		}
		if screen.width == 390 && page.High > 4*screen.height {
			c.t.Errorf("%s is %d pixels high with twenty rows, want at most four screens of %d", name, page.High, screen.height)
		}
	}
	if known {
		return
	}
	c.tried++
	schemes := []string{"dark", "light"}
	if strings.Contains(name, ", sent") {
		schemes = schemes[1:] // the colours of these parts were checked before
	}
	for _, scheme := range schemes {
		b.screen(1280, 800, scheme)
		for _, v := range violations(b, c.axe, scheme) {
			c.t.Errorf("%s, %s: %s", name, scheme, v)
		}
	}
	c.tabs(name)
}

// kindsOfParts is a script that returns the kinds of elements of a page: by class, type, attributes, whether a field
// has a label, and the element around it. Axe and the keyboard find on a page of known kinds what they found before. In
// make nightly they try all pages.
const kindsOfParts = `[...new Set([...document.querySelectorAll('main, main *')].map(e =>
	[e.parentElement.tagName, e.parentElement.className, e.tagName, e.className, e.type, e.labels?.length, ...e.getAttributeNames().sort()].join(' ')))]`

// raise steps up with a code from an e-mail, and sets up an authenticator app.
func (c *crawler) raise() {
	c.t.Helper()
	const submit = "main form button:not([type=button])"
	c.b.open(c.Issuer + "/account/security/authenticator")
	if at := c.b.location(); strings.HasPrefix(at, c.Issuer+"/step-up") {
		c.look("step-up: the methods there are")
		c.b.open(at + "&method=email")
		c.look("step-up: before a code is sent")
		c.b.click(submit)
		c.look("step-up: a code is sent")
		code := ""
		for code == "" { // other people get messages too, and the person gets some without a code
			if header, parts := c.mail.next(c.t); strings.Contains(header.Get("To"), person) {
				code = regexp.MustCompile(`\b\d{6}\b`).FindString(parts["text/plain"])
			}
		}
		c.b.fill("[name=code]", "000000")
		c.b.click(submit)
		c.look("step-up: a wrong code")
		c.b.fill("[name=code]", code)
		c.b.click(submit)
	}
	secret := regexp.MustCompile(`(?:[A-Z2-7]{4} ){7}[A-Z2-7]{4}`).FindString(c.b.text("main"))
	c.secret("secret of the app", strings.ReplaceAll(secret, " ", ""))
	if secret == "" {
		c.t.Fatalf("no secret of an app on %s: %s", c.b.location(), c.b.text("main"))
	}
	c.b.fill("[name=code]", appCode(c.t, secret, 0))
	c.b.click(submit)
	c.look("recovery codes")
}

// cookies is the browser's Cookie header.
func (c *crawler) cookies() string {
	c.t.Helper()
	var parts []string
	for name, value := range c.b.jar() {
		parts = append(parts, name+"="+value)
	}
	return strings.Join(parts, "; ")
}

func (c *crawler) cookieValues() (out []string) {
	for _, v := range c.b.jar() {
		if len(v) > 16 {
			out = append(out, v)
		}
	}
	return out
}

// untouched returns what must not change: the number of events, and that the browser is signed in.
func (c *crawler) untouched() string {
	c.t.Helper()
	status, answer := c.configure(http.MethodGet, "/api/events?userId="+url.QueryEscape(c.personID())+"&limit=1&offset=0", "")
	var found struct {
		Pagination struct {
			Total int `json:"totalResults"`
		} `json:"pagination"`
	}
	if err := json.Unmarshal([]byte(answer), &found); err != nil || status != http.StatusOK {
		c.t.Fatalf("events = %d %s: %v", status, answer, err)
	}
	a := c.fetch(c.cookies(), c.Issuer+"/account")
	return fmt.Sprintf("%d events, the account page leads to %s", found.Pagination.Total, a.where.Path)
}

func (c *crawler) personID() string {
	c.t.Helper()
	resp, err := http.Get("http://" + c.Admin + "/gatehouse/persons")
	if err != nil {
		c.t.Fatal(err)
	}
	list := body[any](c.t, resp)
	raw, _ := json.Marshal(list) // it was parsed from JSON
	m := regexp.MustCompile(`"id":"([^"]+)"[^}]*"username":"` + person + `"`).FindSubmatch(raw)
	if m == nil {
		c.t.Fatalf("no id of %s in %s", person, raw)
	}
	return string(m[1])
}

// forge sends a form as an attacker would make a browser send it.
func (c *crawler) forge(f form) {
	c.t.Helper()
	if !strings.EqualFold(f.Method, "post") || !strings.HasPrefix(f.Action, c.Issuer) {
		return
	}
	name := fmt.Sprintf("attack 282: %s: the form of %s to %s", c.state, pathOf(f.Page), pathOf(f.Action))
	ours := f.values()
	without, foreign := f.values(), f.values()
	without.Del("csrf")
	foreign.Set("csrf", c.foreign)
	before := c.untouched()
	for how, try := range map[string]struct {
		form   url.Values
		header []string
	}{
		"without its token":             {without, []string{"Sec-Fetch-Site", "same-origin"}},
		"with a token of another":       {foreign, []string{"Sec-Fetch-Site", "same-origin"}},
		"from another site":             {ours, []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}},
		"from a page of no origin":      {ours, []string{"Origin", "null"}},
		"from a neighbour of our site":  {ours, []string{"Sec-Fetch-Site", "same-site", "Origin", "https://blog.localhost"}},
		"by a browser that says little": {without, nil},
	} {
		a := c.post(f.Action, try.form, try.header...)
		// the step-up comes before the form is read
		stepUp := a.status == http.StatusSeeOther && a.where.Path == "/step-up"
		if a.status != http.StatusForbidden && !stepUp && !asksAgain(f.Page, a) {
			c.t.Errorf("%s, %s: status %d to %s, want 403", name, how, a.status, a.where)
		}
	}
	if after := c.untouched(); after != before {
		c.t.Errorf("%s: now %s, before %s", name, after, before)
	}
}

// postAll posts an empty form to every path: it is refused, or the person has to sign in first.
func (c *crawler) postAll(paths []string) {
	c.t.Helper()
	before := c.untouched()
	for _, p := range paths {
		if !strings.HasPrefix(p, "/") {
			continue
		}
		a := c.post(c.Issuer+p, url.Values{}, "Sec-Fetch-Site", "same-origin")
		// the same target as for GET
		away := a.status == http.StatusSeeOther && a.where.Path != pathOf(p) && a.where.Path == c.fetch(c.cookies(), c.Issuer+p).where.Path
		away = away || a.status == http.StatusSeeOther && (a.where.Path == "/sign-in" || a.where.Path == "/step-up")
		if !away && !asksAgain(p, a) && (a.status < 400 || a.status >= 500) {
			c.t.Errorf("%s: POST %s of nothing: status %d to %s, want a refusal", c.state, p, a.status, a.where)
		}
	}
	if after := c.untouched(); after != before {
		c.t.Errorf("%s: posting nothing: now %s, before %s", c.state, after, before)
	}
}

// asksAgain reports whether the answer to a post is the page that asks for confirmation: clients can post a sign-out.
// (OpenID Connect RP-Initiated Logout 2)
func asksAgain(page string, a fetched) bool {
	return a.status == http.StatusSeeOther && a.where.Path == pathOf(page) && (a.where.Path == "/oauth/logout" || a.where.Path == "/sign-out")
}

func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Path
}
