package protect

import (
	"bufio"
	"fmt"
	"html"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/savedforms"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/caddymodule/servertest/caddytest"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const keptSite = "kept.localhost"

const urlencoded = "application/x-www-form-urlencoded"

// entry is a form that someone sends.
type entry struct {
	host, target, kind, body string
	cookies                  []string
	from                     string   // Sec-Fetch-Site. "-": not sent
	headers                  []string // further ones
}

func (g *gateway) submit(t testing.TB, e entry) answer {
	t.Helper()
	lines := []string{
		"POST " + e.target + " HTTP/1.1", "Host: " + e.host + ":" + g.port, "Accept: text/html",
		"Content-Type: " + e.kind, fmt.Sprintf("Content-Length: %d", len(e.body)),
	}
	if e.from != "-" {
		lines = append(lines, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: "+e.from)
	}
	if len(e.cookies) > 0 {
		lines = append(lines, "Cookie: "+strings.Join(e.cookies, "; "))
	}
	lines = append(lines, e.headers...)
	return g.raw(t, strings.Join(lines, "\r\n")+"\r\n\r\n"+e.body)
}

// anEntry is a form of the demo person in a browser whose session has ended.
func (g *gateway) anEntry(t testing.TB) entry {
	t.Helper()
	session := g.session(t, keptSite, person(2, "staff"))
	g.endSession(keptSite, session)
	browser := cookie.For(g.origin(keptSite)).Name(cookie.KindBrowser) + "=" + newToken(t, secret.SiteCode)
	return entry{
		host: keptSite, target: "/save?draft=1&x=%2F", kind: urlencoded, body: "a=1&b=%C3%A9&b=2+3",
		cookies: []string{session, browser}, from: "same-origin",
	}
}

func (g *gateway) endSession(host, cookie string) {
	_, raw, _ := strings.Cut(cookie, "=")
	g.fake.set(func() { delete(g.fake.sessions, g.origin(host)+" "+raw) })
}

// park sends a form that is kept, and returns the address of its page.
func (g *gateway) park(t testing.TB, e entry) string {
	t.Helper()
	a := g.submit(t, e)
	g.refused(t, a, http.StatusUnauthorized)
	to := keptLink(a)
	if to == "" || !strings.Contains(a.body, "it’s kept for 10 minutes") {
		t.Fatalf("the form is not kept: %s", a.body)
	}
	return to
}

var keptHref = regexp.MustCompile(`href="([^"]*gatehouse_kept=[^"]*)"`)

// keptLink returns where the page of a refusal leads to send the form, or "".
func keptLink(a answer) string {
	if m := keptHref.FindStringSubmatch(a.body); m != nil {
		return html.UnescapeString(m[1])
	}
	return ""
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// button presses the button of the page at an address.
func (g *gateway) button(t testing.TB, e entry, to, csrf string) answer {
	t.Helper()
	e.target, e.kind, e.body = to, urlencoded, "csrf="+csrf
	return g.submit(t, e)
}

// page opens the page that sends a kept form and returns the token of its button.
func (g *gateway) page(t testing.TB, e entry, to string) (csrf string, a answer) {
	t.Helper()
	a = g.open(t, e.host, to, "Cookie: "+strings.Join(e.cookies, "; "))
	if m := csrfField.FindStringSubmatch(a.body); m != nil {
		csrf = m[1]
	}
	return csrf, a
}

// signedIn is the entry's browser after its person, or another one, has signed in again.
func (g *gateway) signedIn(t testing.TB, e entry, who *token.Introspection) entry {
	t.Helper()
	e.cookies = slices.Clone(e.cookies)
	e.cookies[0] = g.session(t, e.host, who)
	return e
}

// TestKeptForm: a person's form meets an ended session, and arrives once, byte for byte, after the sign-in.
func TestKeptForm(t *testing.T) {
	g := startGateway(t)
	file := "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.bin\"\r\n\r\n\x00\x01\xff\r\n--x--\r\n"
	for name, change := range map[string]func(*entry){
		"fields":                  func(*entry) {},
		"a file":                  func(e *entry) { e.kind, e.body = "multipart/form-data; boundary=x", file },
		"the largest":             func(e *entry) { e.body = "a=" + strings.Repeat("x", savedforms.MaxBody-2) },
		"nothing in it":           func(e *entry) { e.body = "" },
		"to the start page":       func(e *entry) { e.target = "/" },
		"a browser without hints": func(e *entry) { e.from = "-"; e.headers = []string{"Origin: " + g.origin(keptSite)} },
		"a sign-in too old": func(e *entry) {
			who := person(2, "staff")
			who.AuthTime = who.AuthTime.Add(-13 * time.Hour)
			e.cookies[0] = g.session(t, keptSite, who)
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := g.anEntry(t)
			e.headers = []string{"Referer: " + g.origin(keptSite) + "/edit?page=7"}
			change(&e)
			to := g.park(t, e)
			if a := g.open(t, keptSite, to, "Cookie: "+strings.Join(e.cookies, "; ")); a.StatusCode != http.StatusFound {
				t.Fatalf("without a session the page answers %d, want the way to the sign-in", a.StatusCode)
			}
			g.fake.set(func() {
				if f := g.fake.flows[len(g.fake.flows)-1]; f.Return != g.origin(keptSite)+to {
					t.Errorf("the sign-in comes back to %s, want %s", f.Return, to)
				}
			})
			e = g.signedIn(t, e, person(2, "staff"))
			csrf, a := g.page(t, e, to)
			if a.StatusCode != http.StatusOK || csrf == "" || !strings.Contains(a.body, "Send it now") ||
				a.Header.Get("Referrer-Policy") != "same-origin" {
				t.Fatalf("the page is %d %s", a.StatusCode, a.body)
			}
			g.take()
			again := e
			again.headers = []string{"Origin: " + g.origin(keptSite), "Referer: " + g.origin(keptSite) + to}
			s := g.passed(t, g.button(t, again, to, csrf))
			if s.method != http.MethodPost || s.target != e.target || s.body != e.body {
				t.Errorf("the upstream saw %s %s %.80q, want %s %.80q", s.method, s.target, s.body, e.target, e.body)
			}
			one(t, s, "Content-Type", e.kind)
			one(t, s, "Content-Length", fmt.Sprint(len(e.body)))
			one(t, s, "Remote-User", demoName)
			none(t, s, "Cookie")
			if name == "fields" {
				one(t, s, "Referer", g.origin(keptSite)+"/edit?page=7")
			}
			a = g.button(t, e, to, csrf)
			if g.refused(t, a, http.StatusGone); !strings.Contains(a.body, "nothing left to send") {
				t.Errorf("a second press answers %s", a.body)
			}
		})
	}
}

// TestKeptFormIsDeleted: the person does not want it sent.
func TestKeptFormIsDeleted(t *testing.T) {
	g := startGateway(t)
	e := g.anEntry(t)
	to := g.park(t, e)
	e = g.signedIn(t, e, person(2, "staff"))
	csrf, _ := g.page(t, e, to)
	d := e
	d.target, d.body = to, "csrf="+csrf+"&discard=yes"
	if a := g.submit(t, d); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != g.origin(keptSite)+"/" {
		t.Errorf("deleting answers %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	g.refused(t, g.button(t, e, to, csrf), http.StatusGone)
}

// TestNotEveryFormIsKept: what is no form of the site's own pages, from a browser that was signed in, leaves no trace.
func TestNotEveryFormIsKept(t *testing.T) {
	g := startGateway(t)
	refused := func(t *testing.T, change func(*entry)) {
		t.Helper()
		e := g.anEntry(t)
		change(&e)
		a := g.submit(t, e)
		if g.refused(t, a, http.StatusUnauthorized); keptLink(a) != "" {
			t.Errorf("the form is kept: %s", a.body)
		}
		g.fake.set(func() { g.fake.closed = false })
	}
	for name, change := range map[string]func(*entry){
		"attack 341: another site sends it":               func(e *entry) { e.from = "cross-site" },
		"attack 341: a sister site sends it":              func(e *entry) { e.from = "same-site" },
		"attack 341: a bookmark cannot":                   func(e *entry) { e.from = "none" },
		"attack 341: an old browser names another origin": func(e *entry) { e.from = "-"; e.headers = []string{"Origin: https://evil.test"} },
		"attack 341: an old browser names none":           func(e *entry) { e.from = "-" },
		"attack 342: a stranger without a cookie":         func(e *entry) { e.cookies = e.cookies[1:] },
		"attack 342: a stranger with a made-up cookie": func(e *entry) {
			e.cookies[0] = cookie.For(g.origin(keptSite)).Name(kindSession) + "=" + newToken(t, secret.SiteSession)
		},
		"attack 342: a network that has begun too much": func(*entry) { g.fake.set(func() { g.fake.closed = true }) },
		"attack 343: one byte too many":                 func(e *entry) { e.body = strings.Repeat("x", savedforms.MaxBody+1) },
		"attack 343: JSON":                              func(e *entry) { e.kind, e.body = "application/json", "{}" },
		"attack 343: text/plain":                        func(e *entry) { e.kind = "text/plain" },
		"attack 343: parts without a boundary":          func(e *entry) { e.kind = "multipart/form-data" },
		"attack 343: a compressed body":                 func(e *entry) { e.headers = []string{"Content-Encoding: gzip"} },
		"attack 343: two types":                         func(e *entry) { e.headers = []string{"Content-Type: text/html"} },
		"attack 343: a script's request": func(e *entry) {
			e.from = "-"
			e.headers = []string{"Sec-Fetch-Mode: cors", "Sec-Fetch-Site: same-origin"}
		},
		"a site that does not ask for it": func(e *entry) { e.host = "wiki.localhost" },
	} {
		t.Run(name, func(t *testing.T) { refused(t, change) })
	}
	t.Run("attack 343: a body that ends early", func(t *testing.T) {
		e := g.anEntry(t)
		conn := caddytest.Dial(t, g.addr)
		fmt.Fprintf(conn, "POST /save HTTP/1.1\r\nHost: %s:%s\r\nAccept: text/html\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\n"+
			"Content-Type: %s\r\nContent-Length: %d\r\nCookie: %s\r\n\r\n%s", e.host, g.port, e.kind, len(e.body)+1,
			strings.Join(e.cookies, "; "), e.body)
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		a := readAnswer(t, conn, bufio.NewReader(conn), http.MethodPost)
		if g.refused(t, a, http.StatusUnauthorized); keptLink(a) != "" {
			t.Errorf("a part of a form is kept: %s", a.body)
		}
	})
	t.Run("attack 342: no more than five of a person", func(t *testing.T) {
		e := g.anEntry(t)
		var first string
		for i := range 6 {
			if to := g.park(t, e); i == 0 {
				first = to
			}
			g.fake.set(func() { g.fake.clock += time.Second })
		}
		_, a := g.page(t, g.signedIn(t, e, person(2, "staff")), first)
		g.refused(t, a, http.StatusGone)
	})
}

// TestAttacksOnKeptForms: who has the address of the page, or a part of what the browser has, sends nothing.
func TestAttacksOnKeptForms(t *testing.T) {
	g := startGateway(t)
	other := person(2, "staff")
	other.Subject = "0b2f9d2c-1111-4111-8111-111111111111"
	// setUp returns the browser of the person who has signed in again, the page's address and the token of its button.
	setUp := func(t *testing.T) (entry, string, string) {
		t.Helper()
		e := g.anEntry(t)
		to := g.park(t, e)
		e = g.signedIn(t, e, person(2, "staff"))
		csrf, _ := g.page(t, e, to)
		return e, to, csrf
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, e *entry, to, csrf *string)
		status int
	}{
		"attack 344: another site presses the button": {
			func(_ *testing.T, e *entry, _, _ *string) { e.from = "cross-site" },
			http.StatusForbidden,
		},
		"attack 344: without the page's token": {func(_ *testing.T, _ *entry, _, csrf *string) { *csrf = "" }, http.StatusForbidden},
		"attack 344: another form's token": {func(t *testing.T, e *entry, _, csrf *string) {
			*csrf, _ = g.page(t, *e, g.park(t, g.anEntry(t)))
			if *csrf == "" {
				*csrf = "x"
			}
		}, http.StatusForbidden},
		"attack 345: another browser of the same person": {func(t *testing.T, e *entry, to, csrf *string) {
			e.cookies[1] = cookie.For(g.origin(keptSite)).Name(cookie.KindBrowser) + "=" + newToken(t, secret.SiteCode)
		}, http.StatusForbidden},
		"attack 345: a browser without the cookie": {
			func(_ *testing.T, e *entry, _, _ *string) { e.cookies = e.cookies[:1] },
			http.StatusForbidden,
		},
		"attack 346: after ten minutes": {func(*testing.T, *entry, *string, *string) {
			g.fake.set(func() { g.fake.clock += 10*time.Minute + time.Second })
		}, http.StatusGone},
		"attack 347: to another path": {func(_ *testing.T, _ *entry, to,
			_ *string,
		) {
			*to = strings.Replace(*to, "/save", "/delete", 1)
		}, http.StatusGone},
		"attack 347: with another query": {func(_ *testing.T, _ *entry, to,
			_ *string,
		) {
			*to = strings.Replace(*to, "draft=1", "draft=0", 1)
		}, http.StatusGone},
		"attack 347: to an open path": {func(_ *testing.T, _ *entry, to,
			_ *string,
		) {
			*to = "/open?" + (*to)[strings.Index(*to, keptParam):]
		}, http.StatusGone},
		"attack 347: two at once": {
			func(_ *testing.T, _ *entry, to, _ *string) { *to += "&" + keptParam + "=x" },
			http.StatusBadRequest,
		},
		"attack 348: another person has signed in": {
			func(t *testing.T, e *entry, _, _ *string) { *e = g.signedIn(t, *e, other) },
			http.StatusForbidden,
		},
		"attack 348: with a bearer token": {func(_ *testing.T, e *entry, _,
			_ *string,
		) {
			e.headers = []string{"Authorization: Bearer " + g.user}
		}, http.StatusBadRequest},
		"the session has ended again": {
			func(_ *testing.T, e *entry, _, _ *string) { g.endSession(keptSite, e.cookies[0]) },
			http.StatusUnauthorized,
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, to, csrf := setUp(t)
			c.change(t, &e, &to, &csrf)
			g.refused(t, g.button(t, e, to, csrf), c.status)
		})
	}
	t.Run("attack 348: another person opens the page, which deletes the form", func(t *testing.T) {
		e, to, csrf := setUp(t)
		_, a := g.page(t, g.signedIn(t, e, other), to)
		if g.refused(t, a, http.StatusForbidden); !strings.Contains(a.body, "entered with another account") {
			t.Errorf("the page is %s", a.body)
		}
		g.refused(t, g.button(t, e, to, csrf), http.StatusGone)
	})
	t.Run("attack 345: another browser opens the page", func(t *testing.T) {
		e, to, _ := setUp(t)
		e.cookies = e.cookies[:1]
		_, a := g.page(t, e, to)
		g.refused(t, a, http.StatusGone)
	})
	t.Run("attack 347: at another site", func(t *testing.T) {
		e, to, csrf := setUp(t)
		e.host = "also.localhost"
		_, raw, _ := strings.Cut(e.cookies[1], "=")
		e.cookies = []string{g.session(t, e.host, person(2, "staff")), cookie.For(g.origin(e.host)).Name(cookie.KindBrowser) + "=" + raw}
		_, a := g.page(t, e, to)
		g.refused(t, a, http.StatusGone)
		g.refused(t, g.button(t, e, to, csrf), http.StatusForbidden)
	})
	t.Run("attack 349: headers of the button do not become the form's", func(t *testing.T) {
		e, to, csrf := setUp(t)
		e.headers = []string{"Remote-User: root", "X-Original-Url: /admin", "Trailer: Remote-User", "Content-Encoding: identity", "Digest: x"}
		s := g.passed(t, g.button(t, e, to, csrf))
		one(t, s, "Remote-User", demoName)
		one(t, s, "Content-Type", urlencoded)
		none(t, s, "X-Original-Url", "Trailer", "Content-Encoding", "Digest", "Transfer-Encoding")
	})
	t.Run("attack 349: the page does not name a path as markup", func(t *testing.T) {
		e := g.anEntry(t)
		e.target = "/%3Cscript%3E"
		to := g.park(t, e)
		_, a := g.page(t, g.signedIn(t, e, person(2, "staff")), to)
		if strings.Contains(a.body, "<script>") {
			t.Errorf("the page is %s", a.body)
		}
	})
}
