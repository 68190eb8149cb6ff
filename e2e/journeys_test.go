package e2e

import (
	"encoding/pem"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var newJourneys = flag.Bool("journeys", false, "rewrite the table of tasks in docs/console.md")

const (
	journeysFile  = "../docs/console.md"
	journeysBegin = "<!-- tasks: written by e2e TestConsoleJourneys -->\n"
	journeysEnd   = "<!-- end of tasks -->\n"
	mostClicks    = 5 // of each of the first ten tasks
)

// journey is a task of an operator's week.
type journey struct {
	task string
	do   func(w *walk)
}

// walk is one journey. It begins on the first page of the console.
type walk struct {
	*tab

	j      *journeys
	clicks int // on links and buttons, and forms that Enter sends; not typing, and not choosing from a list
}

// journeys is the server of all journeys.
type journeys struct {
	*server

	mail    *mailServer
	partner string // address of the metadata of a SAML provider
	ref     string // of the page with which the wiki has refused colleague
}

const (
	colleague = "second@example.com" // has a phone with an authenticator app, and sessions
	visited   = "third@example.com"
)

// names are the full names of the people.
var names = map[string]string{colleague: `"Ben Bakker"`, visited: `"Carla Jansen"`}

// reference finds the number that the page of a refusal shows.
var reference = regexp.MustCompile(`\b[A-Z2-7]{4}-[A-Z2-7]{4}\b`)

// TestConsoleJourneys does the tasks of an operator's week in the admin console, in a real browser. Each of the first
// ten takes at most five clicks. The table in the documentation has the numbers.
func TestConsoleJourneys(t *testing.T) {
	t.Parallel()
	j := openJourneys(t)
	b := j.browse(t)
	b.open(j.Issuer + "/admin")
	b.signIn(person, j.Password)
	var table strings.Builder
	table.WriteString("| task | clicks |\n|---|---|\n")
	for i, o := range allJourneys {
		t.Run(o.task, func(t *testing.T) {
			w := &walk{tab: b.in(t), j: j}
			w.open(j.Issuer + "/admin")
			o.do(w)
			if i < 10 && w.clicks > mostClicks {
				t.Errorf("%d clicks, want at most %d", w.clicks, mostClicks)
			}
			fmt.Fprintf(&table, "| %s | %d |\n", o.task, w.clicks)
		})
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
func openJourneys(t *testing.T) *journeys {
	t.Helper()
	j := &journeys{mail: newMailServer(t)}
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
		for _, name := range []string{colleague, visited} {
			people += "\t\t\tperson " + name + " {\n\t\t\t\tname " + names[name] + "\n\t\t\t\tpassword {env.TEST_PASSWORD}\n\t\t\t\tgroups cleaners\n\t\t\t}\n"
		}
		caddyfile = strings.Replace(caddyfile, "\n\t\tidentity {\n", "\n\t\toutbound {\n\t\t\tallow 127.0.0.0/8 ::1/128\n\t\t}"+people, 1)
		return strings.Replace(caddyfile, "protect {\n\t\tlogin\n",
			"protect {\n\t\tlogin\n\t\tgroups staff\n\t\trequest_access on\n\t\tshadow {\n\t\t\tdeny {\n\t\t\t\tname plans\n\t\t\t\tmatch path /plans*\n\t\t\t}\n\t\t}\n", 1)
	}, "TEST_SMTP_PASSWORD="+j.mail.password, "SSL_CERT_FILE="+authorities)
	j.secret("password of the mail server", j.mail.password)
	if status, answer := j.configure(http.MethodPost, "/api/v2/config",
		`{"features":{"accepting_invitation_enabled":true,"google_authenticator_step_up_authentication_enabled":true},`+
			`"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`); status != http.StatusNoContent {
		t.Fatalf("configure: %d %s", status, answer)
	}
	if out, err := j.gatehouse("", "gatehouse", "client", "add", "blog", "--address", j.Admin, "--redirect-uris",
		"https://blog.example.com/callback", "--grants", "authorization_code", "--scopes", "openid"); err != nil {
		t.Fatalf("client add: %v\n%s", err, out)
	}
	j.partner = partner.URL + "/sso/metadata"
	j.await(j.Issuer + "/sso/metadata") // the first request makes a key, which can take longer than the server waits for a provider
	b := j.browse(t)
	b.open(j.Issuer + "/account/security/authenticator")
	b.signIn(colleague, j.Password)
	secret := b.text("p.secret code")
	j.secret("secret of the app", strings.ReplaceAll(secret, " ", ""))
	b.fill("#code", appCode(t, secret, 0))
	b.click("main form button:not([type])")
	if status := b.open(j.Wiki + "/plans"); status != http.StatusForbidden {
		t.Fatalf("somebody without the group gets %d at the wiki", status)
	}
	if j.ref = reference.FindString(b.text("main")); j.ref == "" {
		t.Fatalf("the page of the refusal has no reference: %s", b.text("main"))
	}
	b.click("main a.button")
	b.fill("[name=reason]", "I write the plans")
	b.click("main form button")
	return j
}

// press clicks the first link or button that shows a text, and waits for the page that it leads to.
func (w *walk) press(label string) { w.t.Helper(); w.pressIn("body", label) }

// pressIn is press for a part of the page: of several that a selector and a text name, the first.
func (w *walk) pressIn(part, label string) {
	w.t.Helper()
	clicks := eval[int](w.tab, fmt.Sprintf(`(() => {
		document.querySelectorAll('[data-pressed]').forEach(e => e.removeAttribute('data-pressed'));
		const all = [...document.querySelectorAll(%[1]s)].flatMap(p => [...p.querySelectorAll('a[href],button,summary')]).filter(e =>
			[e.innerText, e.textContent].some(s => s.replace(e.querySelector('.badge')?.innerText ?? '', '').trim() === %[2]s));
		const e = all.find(e => e.getClientRects().length > 0) ?? all.find(e => e.closest('.more'));
		if (!e) return 0;
		e.setAttribute('data-pressed', '');
		const menu = e.closest('.more:not([open])');
		if (menu) menu.open = true; // by its button
		return menu ? 2 : 1;
	})()`, quote(part), quote(label)))
	if clicks == 0 {
		w.t.Fatalf("nothing to click shows %q on %s: %s", label, w.location(), w.text("body"))
	}
	w.clicks += clicks
	w.click("[data-pressed]")
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

// person opens the page of a person.
func (w *walk) person(username string) {
	w.t.Helper()
	w.press("People")
	w.search(username)
	w.row(username)
}

// write types into an empty field of several lines.
func (w *walk) write(selector, text string) {
	w.t.Helper()
	w.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// shows fails the journey unless the page shows a text.
func (w *walk) shows(text string) {
	w.t.Helper()
	if got := w.text("main"); !strings.Contains(got, text) {
		w.t.Errorf("%s does not show %q: %s", w.location(), text, got)
	}
}

// allJourneys are the tasks. The first ten are those that come most often.
var allJourneys = []journey{
	{"Invite ten people", func(w *walk) {
		w.press("People")
		w.press("Invite people")
		var addresses []string
		for i := range 10 {
			addresses = append(addresses, fmt.Sprintf("new%d@example.com", i))
		}
		w.write("[name=addresses]", strings.Join(addresses, ", "))
		w.pressIn("main form", "Invite people")
		w.shows("new9@example.com")
	}},
	{"Find out why someone cannot open the wiki", func(w *walk) {
		w.press("Refusals")
		w.row(colleague)
		w.shows("staff")
	}},
	{"Approve a request for access", func(w *walk) {
		w.press("Requests")
		w.row(colleague)
		w.press("Grant access")
		w.pressIn("main form", "Grant access")
		w.shows(colleague)
	}},
	{"Reset a lost phone", func(w *walk) {
		w.person(colleague)
		w.inRow("Authenticator app", "Remove")
		w.pressIn("main form", "Remove")
		w.shows("The method has been removed.")
	}},
	{"Rotate the secret of an application without downtime", func(w *walk) {
		w.press("Applications")
		w.row("blog")
		w.press("New secret")
		w.pressIn("main form", "New secret")
		w.shows("Copy this secret now.")
	}},
	{"Block an account everywhere", func(w *walk) {
		w.person(visited)
		w.press("Block")
		w.fill("[name=reason]", "left the company")
		w.pressIn("main form", "Block")
		w.shows("The person is blocked.")
	}},
	{"Add a person to a group", func(w *walk) {
		w.press("Groups")
		w.row("cleaners")
		w.press("Add a member")
		w.fill("[name=username]", visited)
		w.pressIn("main form", "Add a member")
		w.shows("The person is in the group.")
	}},
	{"End all sessions of a person", func(w *walk) {
		w.person(colleague)
		w.press("End all sessions")
		w.pressIn("main form", "End all sessions")
		w.shows("All sessions have ended.")
	}},
	{"Add an application", func(w *walk) {
		w.press("Applications")
		w.press("Add an application")
		w.fill("[name=client_id]", "forum")
		w.write("[name=redirect_uris]", "https://forum.example.com/callback")
		w.pressIn("main form", "Add an application")
		w.shows("Copy this secret now.")
	}},
	{"Disable an application", func(w *walk) {
		w.press("Applications")
		w.row("forum")
		w.press("Switch off")
		w.pressIn("main form", "Switch off")
	}},
	{"Give a colleague the role helpdesk", func(w *walk) {
		w.person(colleague)
		w.press("Add to a group")
		w.fill("[name=group]", "gatehouse-helpdesk")
		w.pressIn("main form", "Add to a group")
		w.shows("Helpdesk")
	}},
	{"See what a person can open", func(w *walk) {
		w.person(colleague)
		w.press("What this person can open")
		w.shows("The shop")
	}},
	{"See who is signed in from an address", func(w *walk) {
		w.press("Sessions")
		w.send("[name=address]", "127.0.0.1")
		w.shows(person)
	}},
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
	}},
	{"Rotate the signing keys", func(w *walk) {
		w.press("Keys")
		w.press("Rotate signing keys")
		w.pressIn("main form", "Rotate signing keys")
		w.shows("Published, signs next")
	}},
	{"Put several people into a group", func(w *walk) {
		w.press("People")
		for _, name := range []string{colleague, "new1@example.com"} {
			w.mark(name)
			w.check("[data-row] input[type=checkbox]")
		}
		w.press("Add people to a group")
		w.fill("[name=group]", "cleaners")
		w.pressIn("main form", "Add people to a group")
		w.until(`document.body.innerText.includes("Done")`)
	}},
	{"Write a rule that several sites share", func(w *walk) {
		w.press("Policies")
		w.press("Add a policy")
		w.fill("[name=policy]", "office")
		w.pressIn("main form", "Add a policy")
		w.check("[name=confirm]")
		w.pressIn("main form", "Add a policy")
		w.shows("No site uses it")
	}},
	{"Follow what someone did", func(w *walk) {
		w.press("Events")
		w.send("[name=person]", colleague)
		w.shows(colleague)
	}},
	{"See what happened, by the reference of an error page", func(w *walk) {
		w.press("Refusals")
		w.send("[name=ref]", w.j.ref)
		w.shows("staff")
	}},
	{"Remove an account at the person's wish", func(w *walk) {
		w.person("new2@example.com")
		w.press("Remove person")
		w.pressIn("main form", "Remove person")
		w.shows("The person has been removed.")
	}},
}
