package e2e

import (
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var newJourneys = flag.Bool("journeys", false, "rewrite the table of tasks in docs/console.md")

const (
	journeysFile  = "../docs/console.md"
	journeysBegin = "<!-- tasks: written by e2e TestConsoleJourneys -->\n"
	journeysEnd   = "<!-- end of tasks -->\n"
	mostClicks    = 5 // of each of the first tasks
)

// journey is a task of an operator's week.
type journey struct {
	task string
	do   func(w *walk)
	// first says that it takes at most mostClicks on every screen, with and without scripts.
	first bool
}

// walk is one journey. It begins on the first page of the console.
type walk struct {
	*tab
	*cast

	j      *journeys
	script bool
	clicks int // on links and buttons, and forms that Enter sends; not typing, and not choosing from a list
}

// journeys is the server of all journeys.
type journeys struct {
	*server

	mail    *mailServer
	partner string // address of the metadata of a SAML provider
	casts   []*cast
}

// cast are the people that the tasks on one screen are about. Those of the first have no number.
type cast struct {
	n         int
	colleague string // has a phone with an authenticator app, and sessions
	visited   string
	ref       string // of the page with which the wiki has refused colleague
}

// named returns a name that no other cast has.
func (c *cast) named(name string) string {
	if c.n == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, c.n)
}

func newCast(n int) *cast {
	c := &cast{n: n}
	c.colleague, c.visited = c.named("second")+"@example.com", c.named("third")+"@example.com"
	return c
}

// colleague is that of the first cast.
const colleague = "second@example.com"

// journeyScreen is a screen on which the first tasks are done.
type journeyScreen struct {
	name   string
	width  int64
	script bool
	always bool // and not every night alone
}

// journeyScreens are those on which the first tasks are done: phones and desks, with and without scripts.
var journeyScreens = []journeyScreen{
	{"desk", 1280, true, true},
	{"phone", 390, true, true},
	{"phone without scripts", 390, false, true},
	{"desk without scripts", 1280, false, false},
}

// reference finds the number that the page of a refusal shows.
var reference = regexp.MustCompile(`\b[A-Z2-7]{4}-[A-Z2-7]{4}\b`)

// TestConsoleJourneys does the tasks of an operator's week in the admin console, in a real browser: all at a desk, and
// the first ones on each screen, where each takes at most five clicks. The table in the documentation has the numbers
// of the desk.
func TestConsoleJourneys(t *testing.T) {
	t.Parallel()
	screens := slices.DeleteFunc(slices.Clone(journeyScreens), func(s journeyScreen) bool {
		return !s.always && os.Getenv("GATEHOUSE_PAGES") != "all"
	})
	j := openJourneys(t, len(screens))
	var table strings.Builder
	table.WriteString("| task | clicks |\n|---|---|\n")
	for n, screen := range screens {
		b := j.browse(t)
		b.screen(screen.width, 800, "light")
		if !screen.script {
			call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
		}
		b.open(j.Issuer + "/admin")
		b.signIn(person, j.Password)
		for _, o := range allJourneys {
			if n > 0 && !o.first {
				continue
			}
			t.Run(screen.name+"/"+o.task, func(t *testing.T) {
				w := &walk{tab: b.in(t), cast: j.casts[n], j: j, script: screen.script}
				w.open(j.Issuer + "/admin")
				o.do(w)
				if o.first && w.clicks > mostClicks {
					t.Errorf("%d clicks, want at most %d", w.clicks, mostClicks)
				}
				if wide := eval[int64](w.tab, "document.documentElement.scrollWidth"); wide > screen.width {
					t.Errorf("%s is %d pixels wide on a screen of %d", w.location(), wide, screen.width)
				}
				if n == 0 {
					fmt.Fprintf(&table, "| %s | %d |\n", o.task, w.clicks)
				}
			})
		}
	}
	t.Logf("\n%s", table.String())
	text := read(t, journeysFile)
	before, rest, found := strings.Cut(text, journeysBegin)
	kept, after, ended := strings.Cut(rest, journeysEnd)
	if !found || !ended {
		t.Fatalf("%s has no place for the table of tasks: %q to %q", journeysFile, journeysBegin, journeysEnd)
	}
	if *newJourneys && !t.Failed() {
		if err := os.WriteFile(journeysFile, []byte(before+journeysBegin+table.String()+journeysEnd+after), //nolint:gosec // a document
			0o644); err != nil {
			t.Fatal(err)
		}
	} else if kept != table.String() {
		t.Errorf("%s has another table of tasks: go test -run TestConsoleJourneys -journeys\n%s", journeysFile, table.String())
	}
}

// openJourneys starts a server with an owner, people, groups, applications, and some life.
func openJourneys(t *testing.T, casts int) *journeys {
	t.Helper()
	j := &journeys{mail: newMailServer(t)}
	for n := range casts {
		j.casts = append(j.casts, newCast(n))
	}
	partner := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // the server itself, as a SAML provider
		pass(strings.TrimPrefix(j.Issuer, "http://"), false).ServeHTTP(w, r)
	}))
	t.Cleanup(partner.Close)
	authorities := filepath.Join(t.TempDir(), "authorities.pem")
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: partner.Certificate().Raw})
	if err := os.WriteFile(authorities, append([]byte(read(t, j.mail.certificate)), own...), 0o600); err != nil {
		t.Fatal(err)
	}
	j.server = startEdited(t, "", func(caddyfile string) string {
		caddyfile = mailed(j.mail, caddyfile)
		people := "\n\t\tidentity {\n\t\t\tadmin " + person + " {\n\t\t\t\tlevel 1\n\t\t\t}\n"
		for _, c := range j.casts {
			for username, name := range map[string]string{c.colleague: "Ben Bakker", c.visited: "Carla Jansen"} {
				people += "\t\t\tperson " + username + " {\n\t\t\t\tname " + quote(name) + "\n\t\t\t\tpassword {env.TEST_PASSWORD}\n\t\t\t\tgroups cleaners\n\t\t\t}\n"
			}
		}
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {\n", "\n\t\toutbound {\n\t\t\tallow 127.0.0.0/8 ::1/128\n\t\t}"+people, 1)
		caddyfile = strings.Replace(caddyfile, "protect "+apiScope, "protect "+apiScope+" {\n\t\tpolicy notes\n\t}", 1)
		return strings.Replace(caddyfile, "protect {\n\t\tlogin\n",
			"protect {\n\t\tlogin\n\t\tgroups staff\n\t\trequest_access on\n\t\tshadow {\n\t\t\tdeny {\n\t\t\t\tname plans\n\t\t\t\tmatch path /plans*\n\t\t\t}\n\t\t}\n", 1)
	}, "TEST_SMTP_PASSWORD="+j.mail.password, "SSL_CERT_FILE="+authorities)
	j.secret("password of the mail server", j.mail.password)
	if status, answer := j.configure(http.MethodPost, "/api/v2/config",
		`{"email_notifications":{"welcome":{"on_api_enabled":true}},"policies":{"notes":{"allow":[{"name":"staff","need":{"groups":["staff"]}}]}},`+
			`"features":{"accepting_invitation_enabled":true,"google_authenticator_step_up_authentication_enabled":true},`+
			`"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	if out, err := j.gatehouse("", "gatehouse", "client", "add", "blog", "--address", j.Admin, "--redirect-uris",
		"https://blog.example.com/callback", "--grants", "authorization_code", "--scopes", "openid"); err != nil {
		t.Fatalf("client add: %v\n%s", err, out)
	}
	j.partner = partner.URL + "/sso/metadata"
	j.await(j.Issuer + "/sso/metadata") // the first request makes a key, which can take longer than the server waits for a provider
	for _, c := range j.casts {
		j.prepare(t, c)
	}
	return j
}

// prepare gives a cast a phone, a refusal, a request for access, applications, and a mail that was given up.
func (j *journeys) prepare(t *testing.T, c *cast) {
	t.Helper()
	j.must("", "client", "add", c.named("grafana"), "--redirect-uris", "https://graphs.example.com/login/generic_oauth",
		"--grants", "authorization_code", "--scopes", "openid")
	j.mail.refused.Store(0)
	j.must(random(12)+"\n", "person", "add", c.named(bounces)+"@example.com")
	j.mail.refusesOne(t)
	j.must(random(12)+"\n", "person", "add", c.named("leaves")+"@example.com")
	b := j.browse(t)
	b.open(j.Issuer + "/account/security/authenticator")
	b.signIn(c.colleague, j.Password)
	secret := b.text("p.secret code")
	j.secret("secret of the app", strings.ReplaceAll(secret, " ", ""))
	b.fill("#code", appCode(t, secret, 0))
	b.click("main form button:not([type])")
	if status := b.open(j.Wiki + "/plans"); status != http.StatusForbidden {
		t.Fatalf("somebody without the group gets %d at the wiki", status)
	}
	if c.ref = reference.FindString(b.text("main")); c.ref == "" {
		t.Fatalf("the page of the refusal has no reference: %s", b.text("main"))
	}
	b.click("main a.button")
	b.fill("[name=reason]", "I write the plans")
	b.click("main form button")
}

// press clicks the first link or button that shows a text, and waits for the page that it leads to.
func (w *walk) press(label string) { w.t.Helper(); w.pressIn("body", label) }

// pressIn is press for a part of the page: of several that a selector and a text name, the first.
func (w *walk) pressIn(part, label string) {
	w.t.Helper()
	clicks := eval[int](w.tab, fmt.Sprintf(`(() => {
		document.querySelectorAll('[data-pressed]').forEach(e => e.removeAttribute('data-pressed'));
		const all = [...document.querySelectorAll(%[1]s)].flatMap(p => [...p.querySelectorAll('a[href],button,summary')]).filter(e =>
			[e.innerText, e.textContent, e.querySelector(':scope>span')?.textContent ?? ''].some(s =>
				s.replace(e.querySelector('.badge')?.innerText ?? '', '').trim() === %[2]s));
		const e = all.find(e => e.getClientRects().length > 0) ?? all.find(e => e.closest('.more,.folded'));
		if (!e) return 0;
		e.setAttribute('data-pressed', '');
		const menu = e.closest('details:not([open])');
		if (menu) menu.open = true; // by its button
		return menu ? 2 : 1;
	})()`, quote(part), quote(label)))
	if clicks == 0 {
		w.t.Fatalf("nothing to click shows %q on %s: %s", label, w.location(), w.text("body"))
	}
	w.clicks += clicks
	w.click("[data-pressed]")
}

// unfold opens the filters of a list, where a narrow window folds them.
func (w *walk) unfold() {
	w.t.Helper()
	w.clicks += eval[int](w.tab, `(() => {
		const fold = document.querySelector('.fold:not([open])');
		if (!fold?.querySelector('summary').checkVisibility()) return 0;
		fold.open = true; // by its line
		return 1;
	})()`)
}

// row clicks the link of the first row of a table that shows a text.
func (w *walk) row(text string) {
	w.t.Helper()
	w.mark(text)
	w.clicks++
	w.click("[data-row] a[href]")
}

// inRow clicks what shows a label in the first row that shows a text.
func (w *walk) inRow(text, label string) {
	w.t.Helper()
	w.mark(text)
	w.pressIn("[data-row]", label)
}

func (w *walk) mark(text string) {
	w.t.Helper()
	if !eval[bool](w.tab, fmt.Sprintf(`(() => {
		document.querySelectorAll('[data-row]').forEach(e => e.removeAttribute('data-row'));
		const e = [...document.querySelectorAll('tbody tr')].find(e => e.innerText.includes(%s));
		e?.setAttribute('data-row', '');
		return !!e;
	})()`, quote(text))) {
		w.t.Fatalf("no row shows %q on %s: %s", text, w.location(), w.text("main"))
	}
}

// search types into the search field of a list and sends it with Enter.
func (w *walk) search(text string) {
	w.t.Helper()
	w.send("main input[type=search]", text)
}

// find types into the search box of every page and opens the first result that shows a text.
func (w *walk) find(words, text string) {
	w.t.Helper()
	w.send("#find", words)
	w.row(text)
}

// send types into a field and sends its form with Enter.
func (w *walk) send(selector, text string) {
	w.t.Helper()
	w.fill(selector, text)
	w.clicks++
	w.lands(chromedp.SendKeys(chromedp.CSS(selector), "\r"))
}

// check clicks a box.
func (w *walk) check(selector string) {
	w.t.Helper()
	w.clicks++
	w.do(chromedp.Click(chromedp.CSS(selector)))
}

// application opens the page of the application of the cast.
func (w *walk) application() {
	w.t.Helper()
	w.send("#find", w.named("grafana"))
	w.clicks++
	w.click(`main a[href="/admin/applications/` + w.named("grafana") + `"]`)
}

// person opens the page of a person.
func (w *walk) person(username string) {
	w.t.Helper()
	w.press("People")
	w.search(username)
	w.row(username)
}

// later opens the page again until it shows a text, which a person does not do: it comes by itself.
func (w *walk) later(text string) {
	w.t.Helper()
	for range 200 {
		if strings.Contains(w.text("main"), text) {
			return
		}
		<-time.After(50 * time.Millisecond)
		w.open(w.location())
	}
	w.t.Fatalf("%s does not show %q: %s", w.location(), text, w.text("main"))
}

// download returns the file that a link leads to, which the browser would save.
func (w *walk) download(selector string) string {
	w.t.Helper()
	address := eval[string](w.tab, "document.querySelector("+quote(selector)+").href")
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range w.cookies() {
		req.AddCookie(&http.Cookie{Name: c.Name, Value: c.Value}) //nolint:gosec // of a request
	}
	resp, err := w.j.client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
		w.t.Fatalf("%s: %d %v: %.200s", req.URL, resp.StatusCode, err, raw)
	}
	return string(raw)
}

// shows fails the journey unless the page shows a text.
func (w *walk) shows(text string) {
	w.t.Helper()
	if got := w.text("main"); !strings.Contains(got, text) {
		w.t.Errorf("%s does not show %q: %s", w.location(), text, got)
	}
}

// allJourneys are the tasks. The first ones are those that come most often.
var allJourneys = []journey{
	{"Find a person", func(w *walk) {
		w.find(w.colleague, w.colleague)
		w.shows("Ben Bakker")
		w.until(`document.querySelector("main .initials").textContent === "BB"`)
	}, true},
	{"Find out why someone cannot open the wiki", func(w *walk) {
		w.press("Refusals")
		w.row(w.colleague)
		w.shows("staff")
	}, true},
	{"Let them in from there", func(w *walk) {
		w.press("Refusals")
		w.row(w.colleague)
		w.press("Add " + w.colleague + " to staff")
		w.pressIn("main form", "Add to a group")
		w.shows("staff")
	}, true},
	{"Grant a request for access", func(w *walk) {
		w.press("Requests")
		w.inRow(w.colleague, "Grant access")
		w.pressIn("main form", "Grant access")
		w.shows(w.colleague)
	}, true},
	{"Block an account everywhere", func(w *walk) {
		w.find(w.visited, w.visited)
		w.press("Block")
		w.fill("[name=reason]", "left the company")
		w.pressIn("main form", "Block")
		w.shows("The person is blocked.")
	}, true},
	{"Reset a lost phone", func(w *walk) {
		w.find(w.colleague, w.colleague)
		w.inRow("Authenticator app", "Remove")
		w.pressIn("main form", "Remove")
		w.shows("The method has been removed.")
	}, true},
	{"Invite three people", func(w *walk) {
		w.press("People")
		w.press("Invite people")
		var addresses []string
		for i := range 3 {
			addresses = append(addresses, fmt.Sprintf("%s-%d@example.com", w.named("new"), i))
		}
		w.types("[name=addresses]", strings.Join(addresses, ", "))
		w.pressIn("main form", "Invite people")
		w.shows(addresses[2])
	}, true},
	{"Add an application and copy its settings", func(w *walk) {
		w.press("Applications")
		w.press("Add an application")
		w.fill("[name=client_id]", w.named("cloud"))
		w.types("[name=redirect_uris]", "https://cloud.example.com/apps/user_oidc/code")
		w.pressIn("main form", "Add an application")
		w.shows("Copy this secret now.")
		w.shows("--clientid=" + w.named("cloud"))
		if w.script {
			w.clicks++
			eval[bool](w.tab, `navigator.clipboard.writeText = async text => { window.copied = text }, true`) // for want of a clipboard
			w.do(chromedp.Click(chromedp.CSS(`[data-copy^=settings]`)))
			w.until(`window.copied?.includes("--clientid=` + w.named("cloud") + ` --clientsecret=")`)
		}
	}, true},
	{"Change the redirect URI of an application", func(w *walk) {
		w.application()
		w.press("Edit")
		w.fill("#redirect_uris", "https://graphs.example.org/login/generic_oauth")
		w.pressIn("main form", "Save")
		w.shows("https://graphs.example.org/login/generic_oauth")
	}, true},
	{"Rotate the secret of an application without downtime", func(w *walk) {
		w.application()
		w.press("New secret")
		w.pressIn("main form", "New secret")
		w.shows("Copy this secret now.")
	}, true},
	{"Undo what was done by mistake", func(w *walk) {
		w.application()
		w.press("Switch off")
		w.pressIn("main form", "Switch off")
		w.shows("The application is off.")
		w.press("Undo")
		w.shows("The application is on.")
	}, true},
	{"Add Google", func(w *walk) {
		w.press("Sign-in providers")
		w.press("Add a provider")
		w.pick("[name=kind]", "google")
		w.pressIn("main form", "Continue")
		w.fill("[name=provider_id]", w.named("google"))
		w.fill(`[name="google_attributes.clientId"]`, "1234987819200.apps.googleusercontent.com")
		w.fill(`[name="google_attributes.client_secret"]`, random(24))
		w.pressIn("main form", "Add a provider")
		w.shows(w.j.Issuer + "/oidc/" + w.named("google") + "/callback")
	}, true},
	{"See who signed in today", func(w *walk) {
		w.press("Events")
		w.unfold()
		w.pick("[name=from]", time.Now().UTC().Format(time.DateOnly))
		w.send("[name=kind]", "login")
		w.shows(w.colleague)
	}, true},
	{"End all sessions of a person", func(w *walk) {
		w.find(w.colleague, w.colleague)
		w.press("End all sessions")
		w.pressIn("main form", "End all sessions")
		w.shows("All sessions have ended.")
	}, true},
	{"Ask for longer passwords", func(w *walk) {
		w.find("minimum length", "Minimum length")
		w.press("Edit")
		length := strconv.Itoa(10 + w.n)
		w.fill(`[name="password_policy.min_length"]`, length)
		w.pressIn("main form", "Save")
		w.shows(length)
	}, true},
	{"Send a failed message again", func(w *walk) {
		w.press("Messages")
		w.press("Failed")
		w.inRow(w.named(bounces)+"@example.com", "Send now")
		w.pressIn("main form", "Send now")
	}, true},
	{"Import people from a CSV file", func(w *walk) {
		w.find("import people", "Import people")
		file := filepath.Join(w.t.TempDir(), "people.csv")
		row := w.named("imported") + "@example.com"
		if err := os.WriteFile(file, []byte("username,email,name\n"+row+","+row+",Imported Person\n"), 0o600); err != nil {
			w.t.Fatal(err)
		}
		w.do(chromedp.SetUploadFiles(chromedp.CSS("[name=file]"), []string{file}))
		w.pressIn("main form", "Preview")
		w.later("Import these people")
		w.press("Import these people")
		w.pressIn("main form", "Import these people")
		w.later("Done")
	}, true},
	{"Export events", func(w *walk) {
		w.press("Events")
		w.clicks++
		if file := w.download(`main a[href*="events.csv"]`); !strings.Contains(file, person) {
			w.t.Errorf("the file of events is %.200s", file)
		}
	}, true},
	{"Make a group and open a site to it", func(w *walk) {
		w.press("Groups")
		w.press("Create a group")
		w.fill("[name=group]", w.named("writers"))
		w.pick("[name=policy]", "notes")
		w.pressIn("main form", "Create a group")
		w.shows(w.named("writers"))
	}, true},
	{"Remove an account at the person's wish", func(w *walk) {
		w.find(w.named("leaves"), w.named("leaves")+"@")
		w.press("Remove person")
		w.pressIn("main form", "Remove person")
		w.shows("The person has been removed.")
	}, true},
	{"Back up", func(w *walk) {
		w.press("Storage")
		w.press("Back up now")
		w.pressIn("main form", "Back up now")
	}, true},
	{"Add a person to a group", func(w *walk) {
		w.press("Groups")
		w.row("cleaners")
		w.press("Add a member")
		w.fill("[name=username]", w.visited)
		w.pressIn("main form", "Add a member")
		w.shows("The person has been added to the group.")
	}, false},
	{"Add an application", func(w *walk) {
		w.press("Applications")
		w.press("Add an application")
		w.fill("[name=client_id]", "forum")
		w.types("[name=redirect_uris]", "https://forum.example.com/callback")
		w.pressIn("main form", "Add an application")
		w.shows("Copy this secret now.")
	}, false},
	{"Give an application a logo", func(w *walk) {
		w.application()
		w.press("Upload logo")
		file := filepath.Join(w.t.TempDir(), "logo.png")
		var picture bytes.Buffer
		if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 64, 64))); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(file, picture.Bytes(), 0o600); err != nil {
			w.t.Fatal(err)
		}
		w.do(chromedp.SetUploadFiles(chromedp.CSS("[name=logo]"), []string{file}))
		w.pressIn("main form", "Upload logo")
		w.shows("The logo has been saved.")
		w.until(`document.querySelector('h1').previousElementSibling?.naturalWidth === 64`)
	}, false},
	{"Disable an application", func(w *walk) {
		w.press("Applications")
		w.row("forum")
		w.press("Switch off")
		w.pressIn("main form", "Switch off")
	}, false},
	{"Open an application to a group alone", func(w *walk) {
		w.press("Applications")
		w.row("forum")
		w.press("Edit")
		w.types("#client_groups", "nowhere")
		w.pressIn("main form", "Save")
		w.shows("there is no group")
		w.fill("#client_groups", "gatehouse-owner")
		w.pressIn("main form", "Save")
		w.shows("Allowed groups")
		w.shows("gatehouse-owner")
	}, false},
	{"Give a colleague the role helpdesk", func(w *walk) {
		w.person(w.colleague)
		w.press("Add to a group")
		w.fill("[name=group]", "gatehouse-helpdesk")
		w.pressIn("main form", "Add to a group")
		w.shows("Helpdesk")
	}, false},
	{"See what a person can open", func(w *walk) {
		w.person(w.colleague)
		w.press("What they can open")
		w.shows("The shop")
	}, false},
	{"See who is signed in from an address", func(w *walk) {
		w.press("Sessions")
		w.send("[name=address]", "127.0.0.1")
		w.shows(person)
	}, false},
	{"Add a SAML provider by its metadata address, and test it", func(w *walk) {
		w.press("Sign-in providers")
		w.press("Add a provider")
		w.pick("[name=kind]", "saml")
		w.fill("[name=metadata_url]", w.j.partner)
		w.pressIn("main form", "Continue")
		w.fill("[name=provider_name]", "Partner")
		w.fill("[name=provider_id]", "partner")
		w.check("[name=enabled]")
		w.pressIn("main form", "Add a provider")
		w.press("Test")
		w.pressIn("main form", "Test")
		w.shows("metadata")
	}, false},
	{"Change the order of the sign-in providers", func(w *walk) {
		first := func(want, other string) {
			w.t.Helper()
			v := w.j.visit(w.t, "", "")
			page := v.get(w.j.Issuer + "/account")
			for page.StatusCode/100 == 3 {
				to, err := page.Location()
				if err != nil {
					w.t.Fatal(err)
				}
				page = v.get(to.String())
			}
			raw, err := io.ReadAll(page.Body)
			page.Body.Close()
			one, two := strings.Index(string(raw), "idp="+want+`"`), strings.Index(string(raw), "idp="+other+`"`)
			if err != nil || one < 0 || two < one {
				w.t.Errorf("the sign-in page has %s at %d and %s at %d, %v, want the former first:\n%s", want, one, other, two, err, raw)
			}
		}
		w.press("Sign-in providers")
		w.row("Google")
		w.press("Switch on")
		w.pressIn("main form", "Switch on")
		first(w.named("google"), "partner")
		w.clicks = 0
		w.press("Sign-in providers")
		w.row("Partner")
		w.press("Move up")
		w.pressIn("main form", "Move up")
		w.shows("The provider has moved up.")
		first("partner", w.named("google"))
	}, false},
	{"Rotate the signing keys", func(w *walk) {
		w.press("Keys")
		w.press("Rotate signing keys")
		w.pressIn("main form", "Rotate signing keys")
		w.shows("Published, signs next")
	}, false},
	{"Put several people into a group", func(w *walk) {
		w.press("People")
		for _, name := range []string{w.colleague, w.named("new") + "-1@example.com"} {
			w.mark(name)
			w.check("[data-row] input[type=checkbox]")
		}
		w.press("Add people to a group")
		w.fill("[name=group]", "cleaners")
		w.pressIn("main form", "Add people to a group")
		w.until(`document.body.innerText.includes("Done")`)
	}, false},
	{"Write a rule that several sites share", func(w *walk) {
		w.press("Policies")
		w.press("Add a policy")
		w.fill("[name=policy]", "office")
		w.pressIn("main form", "Add a policy")
		w.check("[name=confirm]")
		w.pressIn("main form", "Add a policy")
		w.shows("Not used by any site")
	}, false},
	{"Follow what someone did", func(w *walk) {
		w.press("Events")
		w.send("[name=person]", w.colleague)
		w.shows(w.colleague)
	}, false},
	{"See what happened, by the reference of an error page", func(w *walk) {
		w.press("Refusals")
		w.send("[name=ref]", w.ref)
		w.shows("staff")
	}, false},
}
