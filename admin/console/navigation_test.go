package console

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/outbox"
)

// menus returns the words of the navigation of a page as it is read: those of its links, each after its group, the
// current one with a star. A page has two: one at its side, and one that a button of narrow windows opens.
func menus(t *testing.T, page string) (out [][]string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	for nav := range doc.Descendants() {
		if nav.Data != "nav" || !strings.HasPrefix(attribute(nav, "class"), "menu") {
			continue
		}
		var list []string
		for n := range nav.Descendants() {
			switch n.Data {
			case "ul":
				list = append(list, attribute(n, "aria-label")+":")
			case "a":
				words := ""
				for c := range n.Descendants() {
					if c.Type == html.TextNode && attribute(c.Parent, "aria-hidden") == "" {
						words = strings.TrimSpace(words + " " + c.Data)
					}
				}
				if attribute(n, "aria-current") == "page" {
					words += " *"
				}
				list = append(list, words)
			}
		}
		out = append(out, list)
	}
	return out
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// TestNavigation: the screens are in four groups, the same at the side and behind the button of narrow windows, with
// what waits there, and the current one is marked, also on the pages below it.
func TestNavigation(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	soon, late := h.clock.Now().Add(20*24*time.Hour), h.clock.Now().Add(200*24*time.Hour)
	h.machine.Certificates = []keystore.Expiry{{Name: "partner", NotAfter: soon}, {Name: "other", NotAfter: late}}
	request := h.request("nobody@example.com")
	h.queue(notify.Notice{Kind: notify.Welcome, To: "nobody@example.com", PersonID: h.personID("nobody@example.com")})
	h.server.answer(fmt.Errorf("550 no such user: %w", outbox.ErrRefused))
	h.tries()
	want := strings.Split("People:|People|Groups|Sessions|Requests 1 open request|"+
		"Access:|Sites|Applications|Policies|Limits|Sign-in providers|API clients|Refusals|"+
		"Activity:|Overview 1 finding *|Events|Calls|Messages 1 failed message|Alerts|"+
		"System:|Settings|Brand and texts|Keys 1 certificate expires soon|Storage", "|")
	b := h.as("operator@example.com")
	got := menus(t, b.get("/admin").Body.String())
	if len(got) != 2 || !slices.Equal(got[0], want) || !slices.Equal(got[1], want) {
		t.Errorf("the navigation is %q, want %q twice", got, want)
	}
	for path, entry := range map[string]string{
		"/admin/persons/" + h.personID("nobody@example.com"): "People *",
		queuePath:              "Messages 1 failed message *",
		"/admin/messages":      "Brand and texts *",
		"/admin/events/alerts": "Alerts *",
		"/admin/events":        "Events *",
	} {
		page := b.get(path).Body.String()
		list := menus(t, page)
		stars := slices.DeleteFunc(slices.Clone(list[0]), func(s string) bool { return !strings.HasSuffix(s, "*") })
		if len(stars) != 1 || stars[0] != entry {
			t.Errorf("%s marks %q, want %q", path, stars, entry)
		}
		if name, _, _ := strings.Cut(strings.TrimSuffix(entry, " *"), " 1 "); !strings.Contains(page, "<b>"+name+"</b></summary>") {
			t.Errorf("%s does not name %q beside the button of the menu", path, name)
		}
	}
	// What was done changes the numbers at once.
	b.acts("/admin/requests/"+request+"/grant", "hours", "1")
	if got := menus(t, b.get("/admin").Body.String()); !slices.Contains(got[0], "Requests") {
		t.Errorf("after the grant the navigation is %q", got)
	}
}

// TestScreensInTheNavigation: what has an icon is in one group of the navigation.
func TestScreensInTheNavigation(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	page := h.as("owner@example.com").get("/admin/groups").Body.String()
	for _, s := range h.console.screens {
		in := strings.Count(page, `<li><a href="`+layout.Root+s.Path+`"`)
		if want := map[bool]int{true: 2}[s.Icon != ""]; in != want && s.Path != "" {
			t.Errorf("the navigation names %s %d times, want %d", s.Name, in, want)
		}
	}
}

// TestWaitingIsCountedSeldom: the pages of a minute do not examine the configuration again and again.
func TestWaitingIsCountedSeldom(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	asked := 0
	h.console.Machine = func(context.Context) (Machine, error) { asked++; return Machine{}, nil }
	b := h.as("viewer@example.com")
	for range 5 {
		b.get("/admin/groups")
	}
	if asked != 1 {
		t.Errorf("five pages asked %d times, want once", asked)
	}
	h.clock.Advance(time.Minute)
	if b.get("/admin/groups"); asked != 2 {
		t.Errorf("a minute later the servers were asked %d times, want twice", asked)
	}
}
