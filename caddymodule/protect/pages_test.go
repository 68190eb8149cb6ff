package protect

import (
	"html"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz"
)

// send is open with POST: a form that is sent.
func (g *gateway) send(t testing.TB, host, target string, headers ...string) answer {
	t.Helper()
	return g.raw(t, slices.Concat([]string{
		"POST " + target + " HTTP/1.1", "Host: " + host + ":" + g.port, "Accept: text/html", "Sec-Fetch-Mode: navigate",
		"Sec-Fetch-Site: same-origin", "Content-Length: 0",
	}, headers)...)
}

func isPage(a answer) bool { return strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") }

// A form is sent after the session has ended: the person reads what happened and how to go on, not JSON.
func TestFormAfterTheSessionHasEnded(t *testing.T) {
	g := startGateway(t)
	const host = "wiki.localhost"
	for name, c := range map[string]struct{ referer, want string }{
		"from its page":        {g.origin(host) + "/edit?page=1&x=%2F", "/edit?page=1&amp;x=%2F"},
		"after a sign-in":      {g.origin(host) + "/edit?page=1&gatehouse_code=spent", "/edit?page=1"},
		"without a page":       {"", "/"},
		"from another site":    {"https://evil.test/x", "/"},
		"from a strange page":  {g.origin(host) + "//evil.test", "/"},
		"from one of our own":  {g.origin(host) + "/.gatehouse/signed-out", "/"},
		"from another's port":  {"http://" + host + ":1/x", "/"},
		"from a broken header": {"http://[", "/"},
	} {
		var headers []string
		if c.referer != "" {
			headers = append(headers, "Referer: "+c.referer)
		}
		a := g.send(t, host, "/save", headers...)
		g.refused(t, a, http.StatusUnauthorized)
		if !isPage(a) || !strings.Contains(a.body, `href="`+c.want+`"`) || !strings.Contains(a.body, "You’ve been signed out") ||
			a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: the answer is %q %s, want a page with a link to %s", name, a.Header, a.body, c.want)
		}
	}
	a := g.raw(t, "POST /save HTTP/1.1", "Host: "+host+":"+g.port, "Accept: application/json", "Sec-Fetch-Mode: cors",
		"Sec-Fetch-Site: same-origin", "Content-Length: 0")
	if g.refused(t, a, http.StatusUnauthorized); isPage(a) {
		t.Errorf("a script reads %q, want JSON", a.body)
	}
}

// A person without the group reads who is signed in, and can go on as someone else or to their account.
func TestRefusalOffersAnotherAccount(t *testing.T) {
	g := startGateway(t)
	const host = "step.localhost"
	c := "Cookie: " + g.session(t, host, person(2, "guests"))
	a := g.open(t, host, "/plans?a=1&b=2", c)
	g.refused(t, a, http.StatusForbidden)
	for _, want := range []string{
		demoName, `href="/.gatehouse/another-account?to=%2Fplans%3Fa%3D1%26b%3D2"`, "Use another account",
		`href="https://issuer.test/account"`,
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page is %s, want %q in it", a.body, want)
		}
	}
	for to, want := range map[string]string{
		"?to=%2Fplans%3Fa%3D1%26b%3D2": "/plans?a=1&b=2", "": "/", "?to=https%3A%2F%2Fevil.test%2F": "/", "?to=%2F%2Fevil.test": "/",
		"?to=%2F%5Cevil.test": "/", "?to=%0D%0A": "/",
	} {
		a = g.open(t, host, switchPath+to, c)
		g.refused(t, a, http.StatusFound)
		g.fake.set(func() {
			if f := g.fake.flows[len(g.fake.flows)-1]; f.Return != g.origin(host)+want || !f.Another || f.Level != 2 {
				t.Errorf("%s: flow = %+v, want another account and the way back to %s", to, f, want)
			}
		})
	}
	// Without a session there is no one to name.
	if a = g.open(t, host, "/.gatehouse/nothing"); strings.Contains(a.body, "another-account") {
		t.Errorf("the page is %s, want no other account on it", a.body)
	}
}

// The pages at a site can be read in another language, which the browser keeps for that site. Its upstream does not
// learn of it.
func TestLanguageOfPagesAtASite(t *testing.T) {
	g := startGateway(t)
	const host = "step.localhost"
	c := g.session(t, host, person(2, "guests"))
	choose := func(target, from string) answer {
		return g.raw(t, "GET "+target+" HTTP/1.1", "Host: "+host+":"+g.port, "Accept: text/html",
			"Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: "+from)
	}
	link := regexp.MustCompile(`href="(/\.gatehouse/language\?[^"]*)" hreflang="de"`)
	for name, tt := range map[string]struct {
		target, want string // want is the target of the link back
		headers      []string
	}{
		"a refusal":        {"/plans?a=1&b=2", "/plans?a=1&b=2", []string{"Cookie: " + c}},
		"a path not there": {"/.gatehouse/nothing", "/.gatehouse/nothing", nil},
		"after a sign-out": {authz.SiteSignedOut, authz.SiteSignedOut, nil},
	} {
		a := g.open(t, host, tt.target, tt.headers...)
		m := link.FindStringSubmatch(a.body)
		if m == nil {
			t.Fatalf("%s: no link to German:\n%s", name, a.body)
		}
		to := html.UnescapeString(m[1])
		chosen := choose(to, "same-origin")
		cookies := chosen.Cookies()
		if chosen.StatusCode != http.StatusSeeOther || chosen.Header.Get("Location") != tt.want || len(cookies) != 1 || cookies[0].Value != "de" {
			t.Fatalf("%s: GET %s = %d %v, want a cookie and the way back to %s", name, to, chosen.StatusCode, chosen.Header, tt.want)
		}
		kept := cookies[0].Name + "=" + cookies[0].Value
		a = g.open(t, host, tt.target, "Cookie: "+strings.Join(append([]string{kept}, sent(tt.headers)...), "; "))
		if got := a.Header.Get("Content-Language"); got != "de" {
			t.Errorf("%s: the page is in %q afterwards, want de", name, got)
		}
		passed := g.passed(t, g.get(t, "pub.localhost:"+g.port, "/public/x", "Cookie: "+kept))
		if got := passed.values("Cookie"); len(got) != 0 {
			t.Errorf("%s: the upstream gets the cookies %q", name, got)
		}
	}
	for name, tt := range map[string]struct{ to, from, want string }{
		"attack: another site chooses":   {"/.gatehouse/language?to=de&back=%2F", "cross-site", "/"},
		"attack: the way back leads out": {"/.gatehouse/language?to=xx&back=%2F%2Fevil.test", "same-origin", "/"},
	} {
		a := choose(tt.to, tt.from)
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != tt.want || len(a.Cookies()) != 0 {
			t.Errorf("%s: %d %v, want the way to %s without a cookie", name, a.StatusCode, a.Header, tt.want)
		}
	}
}

// sent are the cookies among header lines.
func sent(headers []string) (cookies []string) {
	for _, h := range headers {
		if c, ok := strings.CutPrefix(h, "Cookie: "); ok {
			cookies = append(cookies, c)
		}
	}
	return cookies
}

// Sign-out from the site itself asks nothing and ends on a page that says so; from anywhere else the issuer asks.
func TestSignOutAtOnce(t *testing.T) {
	g := startGateway(t)
	const host = "wiki.localhost"
	tests := []struct {
		name, method string
		headers      []string
		atOnce       bool
	}{
		{"a link of the site", "GET", []string{"Sec-Fetch-Site: same-origin"}, true},
		{"a form of the site", "POST", []string{"Sec-Fetch-Site: same-origin", "Content-Length: 0"}, true},
		{"a form, old browser", "POST", []string{"Origin: " + g.origin(host), "Content-Length: 0"}, true},
		{"typed, or a link in an e-mail", "GET", []string{"Sec-Fetch-Site: none"}, false},
		{"a link of another site", "GET", []string{"Sec-Fetch-Site: cross-site"}, false},
		{"a link of a sister site", "GET", []string{"Sec-Fetch-Site: same-site"}, false},
		{"a link, old browser", "GET", nil, false},
		{"two claims", "GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: cross-site"}, false},
	}
	for _, tt := range tests {
		c := g.session(t, host, person(1))
		a := g.raw(t, slices.Concat([]string{
			tt.method + " " + logoutPath + " HTTP/1.1", "Host: " + host + ":" + g.port,
			"Sec-Fetch-Mode: navigate", "Cookie: " + c,
		}, tt.headers)...)
		g.refused(t, a, http.StatusSeeOther)
		if to := a.Header.Get("Location"); strings.HasSuffix(to, "&at_once") != tt.atOnce {
			t.Errorf("%s: sent to %q, at once must be %t", tt.name, to, tt.atOnce)
		}
	}
	a := g.open(t, host, authz.SiteSignedOut)
	g.refused(t, a, http.StatusOK)
	if !strings.Contains(a.body, "You’re signed out") || !strings.Contains(a.body, `href="/"`) {
		t.Errorf("the page is %s, want one that says so with a way back", a.body)
	}
	c := g.session(t, host, person(1))
	if a = g.open(t, host, authz.SiteSignedOut, "Cookie: "+c); a.StatusCode != http.StatusSeeOther ||
		a.Header.Get("Location") != g.origin(host)+"/" {
		t.Errorf("signed in again: %d to %q, want the site", a.StatusCode, a.Header.Get("Location"))
	}
}

// The application is down: a person reads that, and the log says it, whatever the Caddyfile logs.
func TestUpstreamDown(t *testing.T) {
	g := startGateway(t)
	const host = "down.localhost"
	c := "Cookie: " + g.session(t, host, person(1))
	a := g.open(t, host, "/board?x=1&token=opensesame", c)
	g.refused(t, a, http.StatusBadGateway)
	if !isPage(a) || !strings.Contains(a.body, "This site isn’t responding") ||
		!strings.Contains(a.body, `href="/board?x=1&amp;token=opensesame"`) {
		t.Errorf("the answer is %q %s, want a page with a way to try again", a.Header, a.body)
	}
	log, err := os.ReadFile(g.log)
	if err != nil {
		t.Fatal(err)
	}
	line := ""
	for l := range strings.Lines(string(log)) {
		if strings.Contains(l, "upstream not reached") {
			line = l
		}
	}
	if !strings.Contains(line, `"path":"/board"`) || !strings.Contains(line, `"level":"error"`) || !strings.Contains(line, host) ||
		strings.Contains(line, "opensesame") {
		t.Errorf("the log says %q, want site and path without the query", line)
	}
	if a = g.raw(t, "GET /api HTTP/1.1", "Host: "+host+":"+g.port, "Accept: application/json", c); a.StatusCode != http.StatusBadGateway ||
		isPage(a) {
		t.Errorf("a script reads %d %q, want 502 as Caddy answers it", a.StatusCode, a.body)
	}
}

// A client that holds its body back until it is asked for reads its refusal at once.
func TestExpectContinueWithoutToken(t *testing.T) {
	g := startGateway(t)
	for _, host := range []string{"open.test", "wiki.localhost:" + g.port, "public.test"} {
		for _, length := range []string{"1", "200000", "300000"} {
			a := g.raw(t, "POST /x HTTP/1.1", "Host: "+host, "Expect: 100-continue", "Content-Length: "+length)
			if g.refused(t, a, http.StatusUnauthorized); !a.Close {
				t.Errorf("%s: the connection goes on, though nobody knows whether a body follows", host)
			}
		}
	}
	a := g.raw(t, "POST /x HTTP/1.1", "Host: open.test", "Authorization: Bearer "+g.user, "Expect: 100-continue",
		"Transfer-Encoding: chunked", "", "2", "hi", "0", "")
	if a.StatusCode == http.StatusContinue {
		a = readAnswer(t, a.conn, a.br, "POST")
	}
	if s := g.passed(t, a); !strings.HasPrefix(s.body, "hi") {
		t.Errorf("the upstream saw the body %q", s.body)
	}
}

func TestNameFallsBack(t *testing.T) {
	g := startGateway(t)
	g.fake.set(func() { delete(g.fake.tokens[g.user].Person.Profile, "name") })
	s := g.passed(t, g.get(t, "open.test", "/"))
	one(t, s, "Remote-Name", demoName)
	one(t, s, "X-Placeholder", demoID+"|"+demoName+"|")
}
