package protect

import (
	"net/http"
	"testing"
)

var forgedIdentity = []string{
	"Remote-User: admin", "Remote-Groups: admins", "remote-email: admin@example.com", "Remote-Name: Admin", "X-Forwarded-For: 10.9.8.7",
	"X-Original-Url: /admin",
}

// A protect with a matcher still stands in front of the whole site: what it does not guard goes upstream without
// identity headers and cookies that only Gatehouse sets.
func TestMatcherLeavesNoForgedIdentity(t *testing.T) {
	g := startGateway(t)
	g.attack(t, "identity headers and cookies of a client outside the matcher", func(t *testing.T) {
		session := g.session(t, "half.localhost", person(2, "staff"))
		for _, host := range []string{"match.test", "post.test"} {
			s := g.passed(t, g.raw(t, append([]string{"GET /open HTTP/1.1", "Host: " + host, "Cookie: theirs=1; " + session, "Cookie: " + session},
				forgedIdentity...)...))
			none(t, s, "Remote-User", "Remote-Groups", "Remote-Email", "Remote-Name", "X-Original-Url")
			one(t, s, "X-Forwarded-For", "127.0.0.1")
			one(t, s, "Cookie", "theirs=1")
			one(t, s, "X-Placeholder", "||")
		}
		s := g.passed(t, g.raw(t, "GET /assets/x HTTP/1.1", "Host: notpath.test", "X-Auth-User: admin",
			"X_Auth.User: admin", "Remote-User: admin"))
		none(t, s, "X-Auth-User", "Remote-User")
	})
	g.attack(t, "a tunnel that is opened outside the matcher", func(t *testing.T) {
		s := g.passed(t, g.raw(t, "GET /open HTTP/1.1", "Host: match.test", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c",
			"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"))
		none(t, s, "Upgrade", "Http2-Settings")
	})
	g.attack(t, "a guarded path in another spelling", func(t *testing.T) {
		for _, path := range []string{
			"/api;/x", "/x/..;/api/x", "/api%5cx", "/api%00/x", "/api%252fx", "/x/../api/x", "//api/x", "/api%2fx", "/%61pi/x", "/./api/x",
			"/api\\x", "/api%ef%bc%8fx", "/api%20/../api/x",
		} {
			g.refused(t, g.raw(t, "GET "+path+" HTTP/1.1", "Host: match.test"), http.StatusBadRequest)
			g.refused(t, g.get(t, "match.test", path), http.StatusBadRequest)
		}
		for _, path := range []string{"/api/x", "/API/x", "/api/"} {
			g.refused(t, g.raw(t, "GET "+path+" HTTP/1.1", "Host: match.test"), http.StatusUnauthorized)
		}
		one(t, g.passed(t, g.get(t, "match.test", "/api/x")), "Remote-User", demoName)
		// Where the path decides nothing, any path goes on as it is.
		g.passed(t, g.raw(t, "GET /a%2fb;c HTTP/1.1", "Host: post.test"))
		g.refused(t, g.raw(t, "POST /a HTTP/1.1", "Host: post.test", "Content-Length: 0"), http.StatusUnauthorized)
	})
	g.attack(t, "what an earlier protect has set stays", func(t *testing.T) {
		s := g.passed(t, g.get(t, "second.test", "/open", "X-Auth-User: admin", "Remote-User: admin"))
		one(t, s, "X-Auth-User", demoID)
		one(t, s, "X-Placeholder", demoID+"|Demo Pérson|")
		none(t, s, "Remote-User")
		g.refused(t, g.get(t, "second.test", "/admin/x"), http.StatusForbidden)
	})
}

// Sign-in and sign-out of a site work on every path, whatever the matcher selects.
func TestMatcherKeepsSignOut(t *testing.T) {
	g := startGateway(t)
	session := g.session(t, "half.localhost", person(2, "staff"))
	g.passed(t, g.open(t, "half.localhost", "/open"))
	g.refused(t, g.open(t, "half.localhost", "/private/x"), http.StatusFound)
	g.passed(t, g.open(t, "half.localhost", "/private/x", "Cookie: "+session))
	g.refused(t, g.open(t, "half.localhost", logoutPath, "Cookie: "+session), http.StatusSeeOther)
	g.refused(t, g.open(t, "half.localhost", "/private/x", "Cookie: "+session), http.StatusFound)
}

// A script of another origin that wants to call an API is asked about by the browser first, without a token.
func TestPreflight(t *testing.T) {
	g := startGateway(t)
	ask := []string{"Origin: https://app.example.com", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: authorization"}
	preflight := func(host string, more ...string) answer {
		return g.raw(t, append(append([]string{"OPTIONS /x HTTP/1.1", "Host: " + host}, ask...), more...)...)
	}
	s := g.passed(t, preflight("preflight.test", forgedIdentity...))
	one(t, s, "Access-Control-Request-Method", "PUT")
	one(t, s, "X-Placeholder", "||")
	none(t, s, "Remote-User", "Remote-Groups")
	g.refused(t, preflight("open.test"), http.StatusUnauthorized)
	g.attack(t, "what only looks like a preflight", func(t *testing.T) {
		for _, lines := range [][]string{
			{"Authorization: Bearer " + g.expired},
			{"X-HTTP-Method-Override: DELETE"},
			{"X-Method-Override: DELETE"},
			{"X-HTTP-Method: DELETE"},
			{"Content-Length: 2", "", "hi"},
			{"Origin: https://b.example.com"},
			{"Transfer-Encoding: chunked", "", "2", "hi", "0"},
		} {
			g.refused(t, preflight("preflight.test", lines...), http.StatusUnauthorized)
		}
		g.refused(t, g.raw(t, "OPTIONS /x HTTP/1.1", "Host: preflight.test"), http.StatusUnauthorized)
		g.refused(t, g.raw(t, "OPTIONS /x HTTP/1.1", "Host: preflight.test", "Origin: https://app.example.com"), http.StatusUnauthorized)
		g.refused(t, g.raw(t, "DELETE /x HTTP/1.1", "Host: preflight.test", ask[0], ask[1]), http.StatusUnauthorized)
	})
}
