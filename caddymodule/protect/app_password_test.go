package protect

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func basicHeader(username, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(username+":"+password))
}

// withPassword sends a request as a program does.
func (g *gateway) withPassword(t testing.TB, host, target, authorization string, more ...string) answer {
	t.Helper()
	return g.raw(t, slices.Concat([]string{"GET " + target + " HTTP/1.1", "Host: " + host + ":" + g.port, authorization}, more)...)
}

// appPassword makes one that is good at the sites of these hosts.
func (g *gateway) appPassword(t testing.TB, hosts ...string) string {
	t.Helper()
	text, who := newToken(t, secret.AppPassword), person(1, "staff")
	who.AppPassword, who.ClientID = "phone", ""
	for _, host := range hosts {
		who.Audience = append(who.Audience, g.origin(host))
	}
	g.fake.set(func() { g.fake.tokens[text] = who })
	return text
}

func prompts(a answer) bool {
	return slices.Contains(a.Header.Values("WWW-Authenticate"), `Basic realm="gatehouse", charset="UTF-8"`)
}

func (g *gateway) used() []string {
	g.fake.mu.Lock()
	defer g.fake.mu.Unlock()
	list := g.fake.usedAt
	g.fake.usedAt = nil
	return list
}

func TestAppPasswords(t *testing.T) {
	g := startGateway(t)
	both := g.appPassword(t, "dav.localhost", "code.localhost", "open.test")
	bearer := func(text string) string { return "Authorization: Bearer " + text }
	g.attack(t, "a program gets in by Basic with any username, and by Bearer, and the upstream never sees the app password",
		func(t *testing.T) {
			for _, authorization := range []string{
				bearer(both), basicHeader("demo@example.com", both), basicHeader("git", both), basicHeader("", both),
				"Authorization: basic " + base64.StdEncoding.EncodeToString([]byte("ü:"+both)),
			} {
				s := g.passed(t, g.withPassword(t, "dav.localhost", "/calendars", authorization))
				one(t, s, "Remote-User", demoName)
				none(t, s, "Authorization")
				if got := g.used(); len(got) != 1 || !strings.HasPrefix(got[0], g.origin("dav.localhost")+" 127.0.0.1") {
					t.Errorf("uses = %q, want one at the site with the address", got)
				}
			}
		})
	g.attack(t, "attack 364: an app password leaves no trace on public paths, at sites that accept none, or in the log", func(t *testing.T) {
		none(t, g.passed(t, g.withPassword(t, "dav.localhost", "/public/x", basicHeader("x", both))), "Authorization")
		none(t, g.passed(t, g.withPassword(t, "public.test", "/public/x", basicHeader("x", both))), "Authorization")
		none(t, g.passed(t, g.withPassword(t, "public.test", "/public/x", bearer(both))), "Authorization")
	})
	g.attack(t, "attack 361: the app password of one site is refused at another, and where none are accepted", func(t *testing.T) {
		other := g.appPassword(t, "code.localhost")
		for _, a := range []answer{
			g.withPassword(t, "dav.localhost", "/", basicHeader("x", other)), g.withPassword(t, "dav.localhost", "/", bearer(other)),
			g.withPassword(t, "open.test", "/", bearer(both)),
			g.withPassword(t, "dav.localhost", "/", bearer(other), "X-Forwarded-Host: code.localhost"),
			g.raw(t, "GET / HTTP/1.1", "Host: dav.localhost", basicHeader("x", other)), // a host that is no origin of the site
		} {
			g.refused(t, a, http.StatusUnauthorized)
		}
		g.refused(t, g.withPassword(t, "open.test", "/", basicHeader("x", both)), http.StatusUnauthorized)
		if got := g.used(); len(got) != 0 {
			t.Errorf("refused requests count as uses: %q", got)
		}
	})
	g.attack(t, "attack 362: the password of the account, an access token or nonsense by Basic is not even looked up", func(t *testing.T) {
		for _, authorization := range []string{
			basicHeader("demo@example.com", "correct horse battery staple"), basicHeader("demo@example.com", g.user),
			basicHeader("x", both+"x"), basicHeader(both, ""),
			"Authorization: Basic", "Authorization: Basic ?", "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(both)),
			"Authorization: Basic " + strings.Repeat("QQ", 5000),
		} {
			g.fake.set(func() { g.fake.asked = 0 })
			a := g.withPassword(t, "dav.localhost", "/", authorization)
			g.refused(t, a, http.StatusUnauthorized)
			if !prompts(a) {
				t.Errorf("%.40s: WWW-Authenticate = %q, want Basic beside Bearer", authorization, a.Header.Values("WWW-Authenticate"))
			}
			if g.fake.asked != 0 {
				t.Errorf("%.40s is looked up", authorization)
			}
		}
		for _, authorization := range [][]string{{basicHeader("x", both), basicHeader("x", both)}, {basicHeader("x", both), bearer(both)}} {
			g.refused(t, g.withPassword(t, "dav.localhost", "/", authorization[0], authorization[1]), http.StatusBadRequest)
		}
	})
	g.attack(t, "attack 363: another site gets nothing by the Basic password that a browser has remembered", func(t *testing.T) {
		for _, header := range []string{
			"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: ",
			"Origin: https://evil.example", "Origin: null",
		} {
			a := g.withPassword(t, "dav.localhost", "/", basicHeader("x", both), header)
			g.refused(t, a, http.StatusUnauthorized)
			if prompts(a) {
				t.Errorf("%s: the other site makes the browser ask for a password", header)
			}
		}
		form := g.raw(t, "POST /delete HTTP/1.1", "Host: dav.localhost:"+g.port, "Content-Length: 0", basicHeader("x", both),
			"Origin: https://evil.example", "Accept: text/html")
		g.refused(t, form, http.StatusUnauthorized)
		for _, header := range []string{
			"Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: none",
			"Origin: " + g.origin("dav.localhost"), "X-Program: git",
		} {
			g.passed(t, g.withPassword(t, "dav.localhost", "/", basicHeader("x", both), header))
		}
		// A link from a mail reader opens the page for a person who is signed in, with a remembered password or without.
		cookie := g.session(t, "code.localhost", person(1, "staff"))
		link := []string{"Cookie: " + cookie, "Accept: text/html", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: cross-site"}
		none(t, g.passed(t, g.withPassword(t, "code.localhost", "/", basicHeader("x", both), link...)), "Authorization")
	})
	g.attack(t, "programs are asked for Basic and browsers are sent to sign in", func(t *testing.T) {
		for name, a := range map[string]answer{
			"git":                        g.raw(t, "GET /info/refs HTTP/1.1", "Host: code.localhost:"+g.port, "User-Agent: git/2.47", "Accept: */*"),
			"a program without a header": g.raw(t, "PROPFIND / HTTP/1.1", "Host: dav.localhost:"+g.port),
			"an expired token":           g.withPassword(t, "dav.localhost", "/", bearer(g.expired)),
		} {
			g.refused(t, a, http.StatusUnauthorized)
			if list := a.Header.Values("WWW-Authenticate"); len(list) != 3 || !strings.HasPrefix(list[0], "Bearer ") || !prompts(a) {
				t.Errorf("%s: WWW-Authenticate = %q, want Bearer, Basic and DPoP", name, list)
			}
		}
		g.refused(t, g.open(t, "code.localhost", "/"), http.StatusFound)
		for name, a := range map[string]answer{
			"a script of the page": g.raw(t, "GET /api HTTP/1.1", "Host: code.localhost:"+g.port, "Sec-Fetch-Site: same-origin",
				"Sec-Fetch-Mode: cors", "Accept: */*"),
			"a script in an old browser": g.raw(t, "GET /api HTTP/1.1", "Host: code.localhost:"+g.port,
				"Referer: "+g.origin("code.localhost")+"/", "Accept: */*"),
			"a form after the session's end": g.raw(t, "POST / HTTP/1.1", "Host: code.localhost:"+g.port, "Content-Length: 0", "Accept: text/html",
				"Sec-Fetch-Mode: navigate", "Sec-Fetch-Site: none"),
			"a site that accepts none":         g.raw(t, "GET / HTTP/1.1", "Host: open.test"),
			"a person who lacks a scope there": g.get(t, "c.test", "/"),
		} {
			if prompts(a) {
				t.Errorf("%s: the browser asks for a password", name)
			}
		}
		g.take()
	})
	g.attack(t, "attack 367: a revoked app password is refused with the next request", func(t *testing.T) {
		text := g.appPassword(t, "dav.localhost")
		g.passed(t, g.withPassword(t, "dav.localhost", "/", basicHeader("x", text)))
		g.fake.set(func() { delete(g.fake.tokens, text) })
		g.refused(t, g.withPassword(t, "dav.localhost", "/", basicHeader("x", text)), http.StatusUnauthorized)
	})
	g.attack(t, "scopes, and groups and levels of the person, count for app passwords too", func(t *testing.T) {
		for name, change := range map[string]func(*token.Introspection){
			"scope": func(who *token.Introspection) { who.Scope = []string{"b"} },
		} {
			text := g.appPassword(t, "dav.localhost")
			g.fake.set(func() { change(g.fake.tokens[text]) })
			if a := g.withPassword(t, "dav.localhost", "/", basicHeader("x", text)); a.StatusCode != http.StatusForbidden {
				t.Errorf("%s: status = %d, want 403", name, a.StatusCode)
			}
		}
		g.take()
	})
}

func TestAcceptInCaddyfile(t *testing.T) {
	t.Parallel()
	for block, want := range map[string]string{
		"accept app_passwords": "",
		"accept":               "accept",
		"accept passwords":     "app_passwords",
	} {
		err := new(Protect).UnmarshalCaddyfile(caddyfile.NewTestDispenser("protect {\n" + block + "\n}"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", block, err, want)
		}
	}
	p := &Protect{Accept: []string{acceptAppPasswords}}
	if err := p.consistent(); err == nil || !strings.Contains(err.Error(), "accept") {
		t.Errorf("accept at a site without a host: %v, want an error", err)
	}
}
