package forwardauth_test

import (
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatehouse-id/gatehouse/caddymodule/forwardauth"
	"github.com/gatehouse-id/gatehouse/caddymodule/introspect"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func ask(t *testing.T, g *forwardauth.Gates, q forwardauth.Question) forwardauth.Answer {
	t.Helper()
	a, err := g.Ask(t.Context(), q)
	if err != nil {
		t.Fatalf("Ask(%s %s%s) = %v", q.Method, q.Host, q.Target, err)
	}
	if a.Passed != (a.Status == http.StatusOK) {
		t.Fatalf("Ask(%s): passed = %t with status %d", q.Target, a.Passed, a.Status)
	}
	if !a.Passed && (len(a.Identity) > 0 || a.Cookie != "") {
		t.Fatalf("a refusal carries an identity: %v", a.Identity)
	}
	return a
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// onWiki is a browser that opens a page of the wiki.
func onWiki(target string, pairs ...string) forwardauth.Question {
	h := headers(pairs...)
	h.Set("Sec-Fetch-Mode", "navigate")
	return forwardauth.Question{
		Method: http.MethodGet, Scheme: "https", Host: "wiki.test", Target: target, Header: h, Gate: "wiki",
		Client: netip.MustParseAddr("192.0.2.7"),
	}
}

func TestPersonBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	session := i.session(wiki, ann())

	t.Run("the application learns who it is", func(t *testing.T) {
		t.Parallel()
		a := ask(t, g, onWiki("/page?x=1", "Cookie", "theme=dark; "+session+"; a=b"))
		if got := a.Identity.Get("Remote-User"); !a.Passed || got != "ann" {
			t.Fatalf("passed = %t, Remote-User = %q", a.Passed, got)
		}
		if a.Cookie != "theme=dark; a=b" {
			t.Errorf("Cookie = %q, want the others alone", a.Cookie)
		}
	})
	t.Run("a header that the person has not is sent empty", func(t *testing.T) {
		t.Parallel()
		a := ask(t, g, onWiki("/", "Cookie", session, "Remote-Email", "root@wiki.test", "remote_groups", "admins"))
		if v, there := a.Identity["Remote-Email"]; !there || len(v) != 1 || v[0] != "" {
			t.Errorf("Remote-Email = %q, %t: want it there and empty", v, there)
		}
		for _, name := range []string{"Remote-Email", "Remote_groups", "X-Original-Url"} {
			if !slices.Contains(a.Remove, name) {
				t.Errorf("%s is not removed, only %v", name, a.Remove)
			}
		}
	})
	t.Run("an open path passes nobody's identity on", func(t *testing.T) {
		t.Parallel()
		a := ask(t, g, onWiki("/open", "Remote-User", "root"))
		if !a.Passed || a.Identity.Get("Remote-User") != "" || len(a.Identity) != 5 {
			t.Errorf("passed = %t, identity = %v, want five empty headers", a.Passed, a.Identity)
		}
	})
	t.Run("a stranger is sent to sign in and comes back to the page", func(t *testing.T) {
		t.Parallel()
		a := ask(t, g, onWiki("/page?x=1"))
		if to := a.Header.Get("Location"); a.Status != http.StatusFound || !strings.HasPrefix(to, "https://issuer.test/oauth/site?") {
			t.Fatalf("status = %d, Location = %q", a.Status, to)
		}
		binding := strings.SplitN(strings.SplitN(a.Header.Get("Set-Cookie"), ";", 2)[0], "=", 2)
		back := ask(t, g, onWiki("/page?x=1&gatehouse_code=code", "Cookie", binding[0]+"="+binding[1]))
		if to := back.Header.Get("Location"); back.Status != http.StatusSeeOther || to != wiki+"/page?x=1" {
			t.Fatalf("after the sign-in: status = %d, Location = %q, body %s", back.Status, to, back.Body)
		}
		name := cookie.For(wiki).Name("site") + "="
		at := slices.IndexFunc(back.Header["Set-Cookie"], func(c string) bool { return strings.HasPrefix(c, name) })
		if at < 0 {
			t.Fatalf("no session in %q", back.Header["Set-Cookie"])
		}
		if a := ask(t, g, onWiki("/page?x=1", "Cookie", strings.SplitN(back.Header["Set-Cookie"][at], ";", 2)[0])); !a.Passed {
			t.Errorf("the session is refused: %d %s", a.Status, a.Body)
		}
	})
	t.Run("a script is told where to sign in", func(t *testing.T) {
		t.Parallel()
		q := onWiki("/api", "Referer", wiki+"/page")
		q.Header.Set("Sec-Fetch-Mode", "cors")
		a := ask(t, g, q)
		if want := `"login_url":"` + wiki + `/.gatehouse/sign-in?to=%2Fpage"`; a.Status != http.StatusUnauthorized ||
			!strings.Contains(string(a.Body), want) {
			t.Errorf("status = %d, body = %s, want %s", a.Status, a.Body, want)
		}
	})
	t.Run("a person of another group stays outside", func(t *testing.T) {
		t.Parallel()
		if a := ask(t, g, onWiki("/", "Cookie", i.session(wiki, ann("guests")))); a.Status != http.StatusForbidden {
			t.Errorf("status = %d, want 403", a.Status)
		}
	})
	t.Run("attack 379: the page after a sign-out lets nobody in", func(t *testing.T) {
		t.Parallel()
		for _, target := range []string{"/.gatehouse/signed-out", "/.gatehouse/assets/", "/.gatehouse/x"} {
			if a := ask(t, g, onWiki(target)); a.Status < http.StatusMultipleChoices {
				t.Errorf("%s: status = %d lets the request pass", target, a.Status)
			}
		}
	})
}

func TestProgramBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	q := forwardauth.Question{
		Method: http.MethodPost, Scheme: "http", Host: "api.test:8080", Target: "/orders", Gate: "api",
		Header: headers("Authorization", "Bearer "+i.bearer(ann())),
	}

	a := ask(t, g, q)
	if v, there := a.Identity["Authorization"]; !a.Passed || !there || v[0] != "" || !slices.Contains(a.Remove, "Authorization") {
		t.Errorf("passed = %t, Authorization = %q, %t: strip_token takes it out", a.Passed, v, there)
	}
	if q.Header.Get("Authorization") == "" {
		t.Error("the question has been changed")
	}
	for name, more := range map[string]url.Values{
		"scope": {"scope": {"read write"}}, "group": {"group": {"admins"}}, "level": {"level": {"3"}},
		"audience": {"audience": {"https://other.test"}},
	} {
		q.Narrow = more
		if a := ask(t, g, q); a.Passed {
			t.Errorf("%s does not narrow the gate", name)
		}
	}
	q.Narrow = url.Values{"group": {"admins", "staff"}, "level": {"2"}, "scope": {"read"}}
	if a := ask(t, g, q); !a.Passed {
		t.Errorf("what is met refuses: %d %s", a.Status, a.Body)
	}
	q.Narrow, q.Header = nil, headers("Authorization", "Bearer x y")
	if a := ask(t, g, q); a.Status != http.StatusBadRequest || a.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("a malformed token: status = %d, headers %v", a.Status, a.Header)
	}
	q.Header = nil
	if a := ask(t, g, q); a.Status != http.StatusUnauthorized || !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer ") {
		t.Errorf("without a token: status = %d, headers %v", a.Status, a.Header)
	}
}

func TestPolicyBehindAnotherProxy(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	g := i.gates()
	q := forwardauth.Question{
		Method: http.MethodGet, Scheme: "https", Host: "any.test", Target: "/", Gate: "office", Client: netip.MustParseAddr("::ffff:192.0.2.9"),
		Header: headers("Authorization", "Bearer "+i.bearer(ann()), "X-Forwarded-For", "192.0.2.1"),
	}
	if a := ask(t, g, q); !a.Passed {
		t.Fatalf("status = %d %s", a.Status, a.Body)
	}
	q.Client = netip.MustParseAddr("203.0.113.1")
	if a := ask(t, g, q); a.Status != http.StatusForbidden {
		t.Errorf("from elsewhere: status = %d, want 403", a.Status)
	}
	q.Client = netip.Addr{}
	if a := ask(t, g, q); a.Status != http.StatusBadRequest {
		t.Errorf("from an unknown address: status = %d, want 400", a.Status)
	}
	q.Client, q.Method = netip.MustParseAddr("192.0.2.9"), http.MethodDelete
	if a := ask(t, g, q); a.Status != http.StatusForbidden {
		t.Errorf("with another method: status = %d, want 403", a.Status)
	}
}

func TestDoubtLetsNobodyIn(t *testing.T) {
	t.Parallel()
	t.Run("attack 378: the store fails, and nothing runs yet", func(t *testing.T) {
		t.Parallel()
		i := newIssuer(t)
		g := i.gates()
		q := onWiki("/", "Cookie", i.session(wiki, ann()))
		i.set(func() { i.doubt = errors.New("disk") })
		if a := ask(t, g, q); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" {
			t.Errorf("status = %d, headers %v, want 503 with Retry-After", a.Status, a.Header)
		}
		i.set(func() { i.doubt, i.starting = nil, errors.New("starting") })
		if a := ask(t, g, q); a.Status != http.StatusServiceUnavailable {
			t.Errorf("status = %d, want 503", a.Status)
		}
	})
}

func TestQuestionThatNoRequestLedTo(t *testing.T) {
	t.Parallel()
	t.Run("attack 371: questions that no request led to", func(t *testing.T) {
		t.Parallel()
		g := newIssuer(t).gates()
		for name, change := range map[string]func(*forwardauth.Question){
			"no method":                 func(q *forwardauth.Question) { q.Method = "" },
			"two methods":               func(q *forwardauth.Question) { q.Method = "GET, POST" },
			"no scheme":                 func(q *forwardauth.Question) { q.Scheme = "" },
			"another scheme":            func(q *forwardauth.Question) { q.Scheme = "ftp" },
			"no host":                   func(q *forwardauth.Question) { q.Host = "" },
			"user in the host":          func(q *forwardauth.Question) { q.Host = "wiki.test@evil.test" },
			"two hosts":                 func(q *forwardauth.Question) { q.Host = "wiki.test, evil.test" },
			"no path":                   func(q *forwardauth.Question) { q.Target = "" },
			"no slash":                  func(q *forwardauth.Question) { q.Target = "page" },
			"a whole URL":               func(q *forwardauth.Question) { q.Target = wiki + "/" },
			"a line feed":               func(q *forwardauth.Question) { q.Target = "/a\nb" },
			"a broken escape":           func(q *forwardauth.Question) { q.Target = "/%zz" },
			"unknown gate":              func(q *forwardauth.Question) { q.Gate = "none" },
			"site of another":           func(q *forwardauth.Question) { q.Host = "other.test" },
			"scheme of another":         func(q *forwardauth.Question) { q.Scheme = "http" },
			"unknown parameter":         func(q *forwardauth.Question) { q.Narrow = url.Values{"public": {"/"}} },
			"empty group":               func(q *forwardauth.Question) { q.Narrow = url.Values{"group": {""}} },
			"two levels":                func(q *forwardauth.Question) { q.Narrow = url.Values{"level": {"1", "2"}} },
			"a level that is no number": func(q *forwardauth.Question) { q.Narrow = url.Values{"level": {"x"}} },
		} {
			q := onWiki("/")
			change(&q)
			bad := new(forwardauth.Malformed)
			if a, err := g.Ask(t.Context(), q); !errors.As(err, &bad) || a.Passed {
				t.Errorf("%s: Ask = %d, %v, want a Malformed", name, a.Status, err)
			}
		}
	})
}

// TestNarrowedGateAcceptsTheSameCredentials: parameters that ask for more leave a gate the credentials that it accepts,
// and each is asked about and counted once.
func TestNarrowedGateAcceptsTheSameCredentials(t *testing.T) {
	t.Parallel()
	const dav = "https://dav.test"
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"active":true,"sub":"1","username":"ada","scope":"read","groups":["staff"],"aud":["https://api.test"]}`)
	}))
	t.Cleanup(elsewhere.Close)
	i := newIssuer(t)
	files := &forwardauth.Gate{Origins: []string{dav}}
	files.Accept = []string{"app_passwords"}
	api := new(forwardauth.Gate)
	api.Introspect = &introspect.Options{URL: elsewhere.URL, Client: "ops", Secret: "x"}
	g := i.provisioned(&forwardauth.Gates{Named: map[string]*forwardauth.Gate{"dav": files, "api": api}}, nil)
	who := ann()
	who.AppPassword, who.Audience, who.UsageLimit = "1", []string{dav, wiki}, 9
	password := i.make(secret.AppPassword, "", who)
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:"+password))
	question := func(gate, host, authorization string) forwardauth.Question {
		return forwardauth.Question{
			Method: http.MethodGet, Scheme: "https", Host: host, Target: "/", Gate: gate, Header: headers("Authorization", authorization),
		}
	}
	for name, c := range map[string]struct {
		q         forwardauth.Question
		met, more url.Values
		count     func() int
	}{
		"an app password as a bearer token": {
			question("dav", "dav.test", "Bearer "+password),
			url.Values{"group": {"staff"}, "scope": {"read"}},
			url.Values{"group": {"admins"}},
			func() int { return i.used[password] },
		},
		"an app password by Basic": {
			question("dav", "dav.test", basic),
			url.Values{"group": {"staff"}, "level": {"2"}},
			url.Values{"scope": {"write"}},
			func() int { return i.used[password] },
		},
		"a token of another server": {
			question("api", "api.test", "Bearer theirs"),
			url.Values{"group": {"staff"}, "scope": {"read"}},
			url.Values{"group": {"admins"}},
			func() int { return int(asked.Load()) },
		},
		"a token of another server for the audience": {
			question("api", "api.test", "Bearer theirs"),
			url.Values{"audience": {"https://api.test"}},
			url.Values{"audience": {dav}},
			func() int { return int(asked.Load()) },
		},
	} {
		for _, narrow := range []url.Values{nil, c.met} {
			before := c.count()
			c.q.Narrow = narrow
			if a := ask(t, g, c.q); !a.Passed || a.Identity.Get("Remote-User") == "" || c.count() != before+1 {
				t.Errorf("%s, asked with %v: %d %s, for %q, and it was counted %d times", name, narrow, a.Status, a.Body,
					a.Identity.Get("Remote-User"), c.count()-before)
			}
		}
		c.q.Narrow = c.more
		if a := ask(t, g, c.q); a.Passed {
			t.Errorf("%s passes with %v", name, c.more)
		}
	}
}
