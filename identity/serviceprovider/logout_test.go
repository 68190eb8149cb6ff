package serviceprovider_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// farewell is a service provider that hears of the end of sessions.
func farewell(id string, key *samltest.Key, slo, soap string) serviceprovider.Provider {
	entity := "https://" + id + ".example.com/saml"
	return serviceprovider.Provider{
		ID: id, Name: id,
		Metadata: identitytest.MetadataAs(entity, "https://"+id+".example.com/acs", keyOf(key, "signing"), sloOf(slo, soap)),
	}
}

// at signs the person in at a service provider that farewell has made, and returns name and SessionIndex.
func at(b *identitytest.Browser, id string) (name, index string) {
	b.H.T.Helper()
	x := b.H.AuthnRequest("_"+rand.Text(), identitytest.WikiEntity, "https://"+id+".example.com/saml", identitytest.WikiACS,
		"https://"+id+".example.com/acs")
	a := b.Request(x, "")
	if strings.Contains(a.Body.String(), `name="password"`) {
		a = b.Enter(a)
	}
	d := a.Deliver(b.H.T)
	return d.Text(".//NameID"), d.Xml.FindElement(".//AuthnStatement").SelectAttrValue("SessionIndex", "")
}

// logoutRequest is a LogoutRequest of a service provider.
func logoutRequest(h *identitytest.Harness, id, sp, name, index string) string {
	session := ""
	if index != "" {
		session = "<samlp:SessionIndex>" + index + "</samlp:SessionIndex>"
	}
	return fmt.Sprintf(`<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="%s" Version="2.0" IssueInstant="%s" Destination="%s/sso/logout">`+
		`<saml:Issuer>https://%s.example.com/saml</saml:Issuer><saml:NameID>%s</saml:NameID>%s</samlp:LogoutRequest>`, id,
		h.Clock.Now().Format(time.RFC3339), identitytest.Issuer, sp, name, session)
}

// logoutResponse is the answer of a service provider.
func logoutResponse(h *identitytest.Harness, id, sp, request, status string) string {
	return fmt.Sprintf(`<samlp:LogoutResponse xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="%s" InResponseTo="%s" Version="2.0" IssueInstant="%s" Destination="%s/sso/logout">`+
		`<saml:Issuer>https://%s.example.com/saml</saml:Issuer><samlp:Status><samlp:StatusCode Value="%s%s"/></samlp:Status></samlp:LogoutResponse>`,
		id, request, h.Clock.Now().Format(time.RFC3339), identitytest.Issuer, sp, identitytest.StatusNS, status)
}

// leads follows redirects, and pages that forward, until a redirect leads away, and returns where.
func leads(b *identitytest.Browser, target string) *url.URL {
	b.H.T.Helper()
	for range 10 {
		a := b.Do(http.MethodGet, target, "")
		if target = a.Header().Get("Location"); strings.HasPrefix(target, "https://") && !strings.HasPrefix(target, identitytest.Issuer) {
			u, err := url.Parse(target)
			if err != nil {
				b.H.T.Fatal(err)
			}
			return u
		}
		if next, ok := strings.CutPrefix(a.Header().Get("Refresh"), "0; url="); ok && target == "" {
			target = next
		}
		if target == "" {
			b.H.T.Fatalf("%s: status %d, want a redirect to a service provider\n%.500s", a.URL, a.Code, a.Body)
		}
	}
	b.H.T.Fatal("in circles")
	return nil
}

// farewellPage is the page that signs a person out of service providers.
type farewellPage struct {
	frames []string
	end    string
}

var frameTag = regexp.MustCompile(`<iframe src="([^"]*)"`)

func farewellOf(t *testing.T, a *identitytest.Answer) (out farewellPage) {
	t.Helper()
	var ok bool
	if out.end, ok = strings.CutPrefix(a.Header().Get("Refresh"), "5; url="); a.Code != http.StatusOK || !ok ||
		!strings.HasPrefix(out.end, "/sso/leave?") {
		t.Fatalf("%s = %d %s, want a page that goes on by itself\n%s", a.URL, a.Code, a.Header(), a.Body)
	}
	for _, m := range frameTag.FindAllStringSubmatch(a.Body.String(), -1) {
		out.frames = append(out.frames, html.UnescapeString(m[1]))
	}
	return out
}

// logoutOf reads our LogoutRequest or LogoutResponse in an address.
func logoutOf(t *testing.T, u *url.URL) identitytest.Delivered {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, u.String(), nil)
	param := "SAMLRequest"
	if u.Query().Has("SAMLResponse") {
		param = "SAMLResponse"
		q := u.Query()
		q.Set("SAMLRequest", q.Get("SAMLResponse"))
		r = httptest.NewRequest(http.MethodGet, "/?"+q.Encode(), nil)
	}
	got, err := samltest.ReadRequest(r)
	if err != nil {
		t.Fatalf("%s in %s: %v", param, u, err)
	}
	return identitytest.Delivered{To: u.Scheme + "://" + u.Host + u.Path, Relay: u.Query().Get("RelayState"), Raw: param, Xml: got.XML.Root()}
}

// TestServiceProviderLogout: a sign-out reaches every service provider of the session, on whichever side it begins.
func TestServiceProviderLogout(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	wikiKey, deskKey := samltest.NewKey("sp", h.Clock.Now()), samltest.NewKey("desk", h.Clock.Now())
	const deskSLO = "https://desk.example.com/slo"
	h.Serve(farewell("wiki", wikiKey, wikiSLO, ""), farewell("desk", deskKey, deskSLO, ""), farewell("quiet", wikiKey, "", ""))

	t.Run("begun here", func(t *testing.T) {
		b := h.Browser()
		wikiName, wikiIndex := at(b, "wiki")
		at(b, "desk")
		at(b, "quiet")
		page := b.Get("/sign-out")
		a := b.Post(page)
		if a.Code != http.StatusSeeOther || b.IsSignedIn() {
			t.Fatalf("sign-out: %d, signed in %t", a.Code, b.IsSignedIn())
		}
		// A page ends the chain of redirects that the form began: browsers would follow it to no other origin.
		way := farewellOf(t, b.Get(a.Header().Get("Location")))
		var asked []string
		for _, at := range way.frames {
			u := leads(b, at)
			d := logoutOf(t, u)
			if d.Xml.Tag != "LogoutRequest" || u.Query().Get("Signature") == "" {
				t.Fatalf("%s in %s, want a signed LogoutRequest", d.Xml.Tag, u)
			}
			sp, key := "wiki", wikiKey
			if d.To == deskSLO {
				sp, key = "desk", deskKey
			} else if d.Text("./NameID") != wikiName || d.Text("./SessionIndex") != wikiIndex {
				t.Errorf("the wiki is asked about %q in %q", d.Text("./NameID"), d.Text("./SessionIndex"))
			}
			asked = append(asked, sp)
			if a := b.Get(identitytest.ByRedirect("/sso/logout", "SAMLResponse",
				logoutResponse(h, "_r"+sp, sp, d.Xml.SelectAttrValue("ID", ""), "Success"), d.Relay, key)); a.Code != http.StatusOK {
				t.Errorf("the answer of the %s = %d, want 200", sp, a.Code)
			}
		}
		slices.Sort(asked)
		if a := b.Get(way.end); !slices.Equal(asked, []string{"desk", "wiki"}) || a.URL != "/sign-out" ||
			!strings.Contains(a.Body.String(), "signed out") {
			t.Errorf("asked %q, then at %s (%d)", asked, a.URL, a.Code)
		}
	})
	t.Run("a service provider keeps the browser", func(t *testing.T) {
		b := h.Browser()
		at(b, "wiki")
		at(b, "desk")
		way := farewellOf(t, b.Get(b.Post(b.Get("/sign-out")).Header().Get("Location")))
		left := ""
		for _, at := range way.frames {
			d := logoutOf(t, leads(b, at))
			if d.To == deskSLO {
				b.Get(identitytest.ByRedirect("/sso/logout", "SAMLResponse",
					logoutResponse(h, "_kept", "desk", d.Xml.SelectAttrValue("ID", ""), "Success"), d.Relay, deskKey))
			} else {
				left = at // the wiki shows a page of its own
			}
		}
		a := b.Get(way.end)
		if body := a.Body.String(); a.Code != http.StatusOK || !strings.Contains(body, html.EscapeString(left)) ||
			strings.Contains(body, "Sign out of desk") {
			t.Fatalf("at the end: %d, want a link to the wiki alone\n%s", a.Code, body)
		}
		// By the link the browser itself goes there, and is told the rest when it comes back.
		d := logoutOf(t, leads(b, left))
		a = b.Get(identitytest.ByRedirect("/sso/logout", "SAMLResponse",
			logoutResponse(h, "_late", "wiki", d.Xml.SelectAttrValue("ID", ""), "Success"), d.Relay, wikiKey))
		if a.Code != http.StatusOK || strings.Contains(a.Body.String(), "/sso/leave") {
			t.Errorf("after the link: %d\n%s", a.Code, a.Body)
		}
	})
	t.Run("begun by a service provider", func(t *testing.T) {
		b := h.Browser()
		name, index := at(b, "wiki")
		at(b, "desk")
		way := farewellOf(t, b.Get(identitytest.ByRedirect("/sso/logout", "SAMLRequest", logoutRequest(h, "_l1", "wiki", name, index),
			"back to the wiki", wikiKey)))
		if b.IsSignedIn() || len(way.frames) != 1 {
			t.Fatalf("%d frames, signed in %t, want the desk to be told first", len(way.frames), b.IsSignedIn())
		}
		d := logoutOf(t, leads(b, way.frames[0]))
		// The desk does not answer well: the browser goes on, and the wiki is told that it is not complete.
		b.Get(identitytest.ByRedirect("/sso/logout", "SAMLResponse",
			logoutResponse(h, "_r3", "desk", d.Xml.SelectAttrValue("ID", ""), "Responder"), d.Relay, deskKey))
		d = logoutOf(t, leads(b, way.end))
		if d.To != wikiSLO || d.Relay != "back to the wiki" || d.Xml.Tag != "LogoutResponse" ||
			d.Xml.SelectAttrValue("InResponseTo", "") != "_l1" || !slices.Equal(d.Status(), []string{"Success", "PartialLogout"}) {
			t.Errorf("at %s with %q: %s of %q, status %q", d.To, d.Relay, d.Xml.Tag, d.Xml.SelectAttrValue("InResponseTo", ""), d.Status())
		}
		if n := h.Events()["session.SignedOutByServiceProviderEvent"]; n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
	t.Run("by POST, without a session index", func(t *testing.T) {
		one, two := h.Browser(), h.Browser()
		name, _ := at(one, "wiki")
		at(two, "wiki")
		x := signedBy(logoutRequest(h, "_l2", "wiki", name, ""), samltest.Signature{Key: wikiKey})
		a := h.Browser().Do(http.MethodPost, "/sso/logout", url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(x))}}.Encode())
		if a.Code != http.StatusSeeOther || one.IsSignedIn() || two.IsSignedIn() {
			t.Errorf("status %d, signed in %t and %t, want all sessions of the person to end", a.Code, one.IsSignedIn(), two.IsSignedIn())
		}
	})
	t.Run("a signed LogoutRequest that is refused", func(t *testing.T) {
		b := h.Browser()
		name, index := at(b, "wiki")
		x := strings.Replace(logoutRequest(h, "_late1", "wiki", name, index), h.Clock.Now().Format(time.RFC3339),
			h.Clock.Now().Add(-time.Hour).Format(time.RFC3339), 1)
		d := logoutOf(t, leads(b, identitytest.ByRedirect("/sso/logout", "SAMLRequest", x, "relay", wikiKey)))
		if d.To != wikiSLO || d.Relay != "relay" || d.Xml.Tag != "LogoutResponse" || d.Xml.SelectAttrValue("InResponseTo", "") != "_late1" ||
			!slices.Equal(d.Status(), []string{"Requester"}) {
			t.Errorf("at %s with %q: %s of %q, status %q", d.To, d.Relay, d.Xml.Tag, d.Xml.SelectAttrValue("InResponseTo", ""), d.Status())
		}
		if !b.IsSignedIn() {
			t.Error("a refused request has ended the session")
		}
	})
	t.Run("attack 393: a LogoutRequest that nobody has signed, or somebody else", func(t *testing.T) {
		b := h.Browser()
		name, index := at(b, "wiki")
		deskName, _ := at(b, "desk")
		sign := func(x string, k *samltest.Key) string {
			return identitytest.ByRedirect("/sso/logout", "SAMLRequest", x, "", k)
		}
		old := logoutRequest(h, "_l9", "wiki", name, index)
		for what, at := range map[string]string{
			"unsigned":                    sign(logoutRequest(h, "_l3", "wiki", name, index), nil),
			"by another key":              sign(logoutRequest(h, "_l4", "wiki", name, index), deskKey),
			"of another service provider": sign(logoutRequest(h, "_l5", "desk", name, index), wikiKey),
			"another destination":         sign(strings.Replace(old, "/sso/logout", "/sso/saml", 1), wikiKey),
			"a response to nothing": identitytest.ByRedirect("/sso/logout", "SAMLResponse",
				logoutResponse(h, "_l6", "wiki", "_x", "Success"), "nothing", wikiKey),
			"a comment in the name": sign(strings.Replace(old, name, name[:3]+"<!-- -->"+name[3:], 1), wikiKey),
			"old, and unsigned": sign(strings.Replace(old, h.Clock.Now().Format(time.RFC3339),
				h.Clock.Now().Add(-time.Hour).Format(time.RFC3339), 1), nil),
			"a document type":               sign("<!DOCTYPE x>"+old, wikiKey),
			"a parameter of the other kind": identitytest.ByRedirect("/sso/logout", "SAMLResponse", old, "x", wikiKey),
		} {
			a := b.Get(at)
			if refusedRequest(t, a, http.StatusBadRequest); !b.IsSignedIn() {
				t.Fatalf("%s: the session has ended", what)
			}
			if !strings.Contains(a.Body.String(), "This sign-out link") || !strings.Contains(a.Body.String(), `href="/sign-out"`) {
				t.Errorf("%s: the page is not about signing out\n%s", what, a.Body)
			}
		}
		// A name or session of another service provider ends nothing, and is not told apart from one that there is not.
		for _, at := range []string{
			sign(logoutRequest(h, "_l7", "wiki", deskName, ""), wikiKey),
			sign(logoutRequest(h, "_l8", "wiki", name, "other"), wikiKey),
		} {
			if u := leads(b, at); u.Host != "wiki.example.com" || !b.IsSignedIn() {
				t.Errorf("at %s, signed in %t, want an answer and nothing else", u, b.IsSignedIn())
			}
		}
		// A request is used once.
		used := sign(logoutRequest(h, "_l10", "wiki", name, index), wikiKey)
		b.Get(used)
		again := h.Browser()
		at(again, "wiki")
		refusedRequest(t, again.Get(used), http.StatusBadRequest)
		if !again.IsSignedIn() {
			t.Error("a replayed request ends a session")
		}
	})
	h.CheckInvariants()
}

// TestServiceProviderLogoutAfterManySessions: a person has signed in at a service provider so often that most of the
// sessions it knows by their name have ended. A sign-out there finds the live ones.
func TestServiceProviderLogoutAfterManySessions(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	h.Config.Session.PerPerson = 500
	key := samltest.NewKey("sp", h.Clock.Now())
	h.Serve(farewell("wiki", key, wikiSLO, ""))
	name := ""
	signIn := func(n int) (list []*identitytest.Browser, indexes []string) {
		for range n {
			b, index := h.Browser(), ""
			name, index = at(b, "wiki")
			list, indexes = append(list, b), append(indexes, index)
		}
		return list, indexes
	}
	open := func(list []*identitytest.Browser) (n int) {
		for _, b := range list {
			if b.IsSignedIn() {
				n++
			}
		}
		return n
	}
	byRedirect := func(id string) []string {
		at := identitytest.ByRedirect("/sso/logout", "SAMLRequest", logoutRequest(h, id, "wiki", name, ""), "", key)
		return logoutOf(t, leads(h.Browser(), at)).Status()
	}
	old, _ := signIn(120)
	h.Clock.Advance(2 * time.Hour)
	if n := open(old); n != 0 {
		t.Fatalf("%d sessions are open after two hours without use, want none", n)
	}
	t.Run("attack 9178: sessions that have ended hide the live ones", func(t *testing.T) {
		browsers, indexes := signIn(20)
		named := strings.Join(indexes[:10], "</samlp:SessionIndex><samlp:SessionIndex>")
		ask := strings.Replace(logoutRequest(h, "_many1", "wiki", name, named), "/sso/logout", "/sso/logout/soap", 1)
		a := h.Browser().Do(http.MethodPost, "/sso/logout/soap", `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>`+
			signedBy(ask, samltest.Signature{Key: key})+`</soap:Body></soap:Envelope>`)
		if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), identitytest.StatusNS+"Success") {
			t.Errorf("a request by SOAP: %d, want success\n%s", a.Code, a.Body)
		}
		if ended, left := open(browsers[:10]), open(browsers[10:]); ended != 0 || left != 10 {
			t.Errorf("by their indexes: %d of 10 sessions are open, and %d of the 10 others", ended, left)
		}
		if status := byRedirect("_many2"); !slices.Equal(status, []string{"Success"}) || open(browsers) != 0 {
			t.Errorf("by the name alone: status %q, %d sessions are open", status, open(browsers))
		}
	})
	t.Run("more live sessions than one request ends", func(t *testing.T) {
		browsers, _ := signIn(104)
		status := byRedirect("_many3")
		if n := open(browsers); !slices.Equal(status, []string{"Responder", "PartialLogout"}) || n != 4 {
			t.Errorf("status %q, %d sessions are open, want 4 and that the service provider is told", status, n)
		}
		if status = byRedirect("_many4"); !slices.Equal(status, []string{"Success"}) || open(browsers) != 0 {
			t.Errorf("when it asks again: status %q, %d sessions are open", status, open(browsers))
		}
	})
	h.CheckInvariants()
}

// framing is a watcher of a server with a client that is told by the browser.
type framing struct{ identitytest.NoWatcher }

// shopFrame is the page of that client.
const shopFrame = "https://shop.example.com/signed-out?sid=1"

// LogoutFrames implements person.Watcher.
func (framing) LogoutFrames(context.Context, string, string) ([]string, error) {
	return []string{shopFrame}, nil
}

// TestServiceProviderLogoutLoadsFrames: a sign-out that a service provider begins reaches the applications of OpenID
// Connect that are told by the browser, and ends at the service provider.
func TestServiceProviderLogoutLoadsFrames(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	wikiKey := samltest.NewKey("sp", h.Clock.Now())
	h.Serve(farewell("wiki", wikiKey, wikiSLO, ""))
	h.Person.Watch(h.ServiceProviders.WithWatcher(framing{}))
	b := h.Browser()
	name, index := at(b, "wiki")
	a := b.Get(identitytest.ByRedirect("/sso/logout", "SAMLRequest", logoutRequest(h, "_l1", "wiki", name, index), "back", wikiKey))
	if b.IsSignedIn() || a.Code != http.StatusOK || !strings.Contains(a.Body.String(), `<iframe src="`+shopFrame+`"`) {
		t.Fatalf("at %s with %d, signed in %t, want a page that loads the frame\n%s", a.URL, a.Code, b.IsSignedIn(), a.Body)
	}
	d := logoutOf(t, leads(b, farewellOf(t, a).end))
	if d.To != wikiSLO || d.Xml.Tag != "LogoutResponse" || !slices.Equal(d.Status(), []string{"Success"}) {
		t.Errorf("then at %s: %s, status %q", d.To, d.Xml.Tag, d.Status())
	}
}

// TestServiceProviderLogoutIsTheBrowsers: service providers know the name of a browser's way to them, and nothing comes
// of it without the browser.
func TestServiceProviderLogoutIsTheBrowsers(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	wikiKey, deskKey := samltest.NewKey("sp", h.Clock.Now()), samltest.NewKey("desk", h.Clock.Now())
	const deskSLO = "https://desk.example.com/slo"
	h.Serve(farewell("wiki", wikiKey, wikiSLO, ""), farewell("desk", deskKey, deskSLO, ""))
	silent := func(t *testing.T, a *identitytest.Answer) {
		t.Helper()
		if to := a.Header().Get("Location"); to != "/sign-out" || strings.Contains(a.Body.String(), "SAMLRequest") {
			t.Errorf("a service provider that goes the way itself gets %d to %q", a.Code, to)
		}
	}
	t.Run("attack 397: a service provider goes the way of a browser", func(t *testing.T) {
		b := h.Browser()
		at(b, "wiki")
		at(b, "desk")
		way := farewellOf(t, b.Get(b.Post(b.Get("/sign-out")).Header().Get("Location")))
		d := logoutOf(t, leads(b, way.frames[0]))
		for _, at := range append(way.frames, way.end, "/sso/leave?flow="+strings.Split(d.Relay, ".")[0]) {
			silent(t, h.Browser().Do(http.MethodGet, at, ""))
		}
		sp, key := "wiki", wikiKey
		if d.To == deskSLO {
			sp, key = "desk", deskKey
		}
		answer := identitytest.ByRedirect("/sso/logout", "SAMLResponse",
			logoutResponse(h, "_a"+sp, sp, d.Xml.SelectAttrValue("ID", ""), "Success"), d.Relay, key)
		if a := h.Browser().Get(answer); a.Code != http.StatusOK || strings.Contains(a.Body.String(), "/sso/leave") {
			t.Errorf("another browser brings the answer: %d, and reads who is left\n%s", a.Code, a.Body)
		}
		if a := b.Get(way.end); strings.Count(a.Body.String(), "/sso/leave") != 1 {
			t.Errorf("the browser at the end: %d\n%s", a.Code, a.Body)
		}
	})
	t.Run("attack 397: a service provider asks for a sign-out without the browser", func(t *testing.T) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			b, there := h.Browser(), h.Browser()
			name, index := at(b, "wiki")
			at(b, "desk")
			x := logoutRequest(h, "_w"+method, "wiki", name, index)
			target, body := identitytest.ByRedirect("/sso/logout", "SAMLRequest", x, "", wikiKey), ""
			if method == http.MethodPost {
				target = "/sso/logout"
				body = url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(signedBy(x, samltest.Signature{Key: wikiKey})))}}.Encode()
			}
			a := there.Do(method, target, body)
			way := a.Header().Get("Location")
			a = there.Do(http.MethodGet, way, "")
			if strings.Contains(a.Header().Get("Location")+a.Body.String(), "desk.example.com") || b.IsSignedIn() {
				t.Fatalf("%s leads to %q, signed in %t", method, a.Header().Get("Location"), b.IsSignedIn())
			}
			if method == http.MethodGet { // by the binding of the request
				u, err := url.Parse(a.Header().Get("Location"))
				if err != nil {
					t.Fatal(err)
				}
				if d := logoutOf(t, u); d.To != wikiSLO || !slices.Equal(d.Status(), []string{"Success", "PartialLogout"}) {
					t.Errorf("at %s: %q, want that the desk was not told", d.To, d.Status())
				}
			}
			silent(t, b.Do(http.MethodGet, way, "")) // the answer has been given
		}
	})
	t.Run("what is interrupted can be sent again", func(t *testing.T) {
		for _, update := range []int64{1, 2} {
			b, there := h.Browser(), h.Browser()
			name, index := at(b, "wiki")
			x := signedBy(logoutRequest(h, fmt.Sprintf("_again%d", update), "wiki", name, index), samltest.Signature{Key: wikiKey})
			body := url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(x))}}.Encode()
			there.Leaves = update
			there.Do(http.MethodPost, "/sso/logout", body)
			if !b.IsSignedIn() {
				continue
			}
			there.Leaves = 0
			if a := there.Do(http.MethodPost, "/sso/logout", body); a.Code != http.StatusSeeOther || b.IsSignedIn() {
				t.Errorf("after an end before update %d the same request gets %d, signed in %t", update, a.Code, b.IsSignedIn())
			}
		}
	})
	h.CheckInvariants()
}

// TestServiceProviderBackChannel: a service provider with a SOAP service is told without the browser, whatever ends the
// session, and can ask that way.
func TestServiceProviderBackChannel(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	key := samltest.NewKey("sp", h.Clock.Now())
	var mu sync.Mutex
	var heard []string
	status := "Success"
	told := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		root := samltest.Parse(raw).Root()
		request := root.FindElement("./Body/LogoutRequest")
		heard = append(heard, request.FindElement("./NameID").Text()+" "+request.FindElement("./SessionIndex").Text())
		x := signedBy(logoutResponse(h, "_soap", "wiki", request.SelectAttrValue("ID", ""), status), samltest.Signature{Key: key})
		fmt.Fprintf(w, `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>%s</soap:Body></soap:Envelope>`, x)
		told <- struct{}{}
	}))
	t.Cleanup(server.Close)
	h.Client = server.Client()
	h.Serve(farewell("wiki", key, wikiSLO, server.URL))
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { h.ServiceProviders.Run(ctx) })
	t.Cleanup(func() { stop(); work.Wait() })
	b := h.Browser()
	name, index := at(b, "wiki")
	if a := b.Post(b.Get("/sign-out")); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/sign-out" {
		t.Errorf("sign-out leads to %q, want no way by the browser", a.Header().Get("Location"))
	}
	<-told
	mu.Lock()
	if !slices.Equal(heard, []string{name + " " + index}) {
		t.Errorf("heard %q, want the session of the person", heard)
	}
	mu.Unlock()
	b = h.Browser()
	name, index = at(b, "wiki")
	soap := func(x string) *identitytest.Answer {
		return h.Browser().Do(http.MethodPost, "/sso/logout/soap",
			`<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>`+x+`</soap:Body></soap:Envelope>`)
	}
	ask := strings.Replace(logoutRequest(h, "_s1", "wiki", name, index), ` Destination="`+identitytest.Issuer+`/sso/logout"`, "", 1)
	t.Run("attack 393: an envelope that nobody has signed", func(t *testing.T) {
		refusedRequest(t, soap(ask), http.StatusBadRequest)
		refusedRequest(t, soap(signedBy(ask, samltest.Signature{Key: samltest.NewKey("desk", h.Clock.Now())})), http.StatusBadRequest)
		if !b.IsSignedIn() {
			t.Fatal("the session has ended")
		}
	})
	a := soap(signedBy(ask, samltest.Signature{Key: key}))
	if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), identitytest.StatusNS+"Success") ||
		!strings.Contains(a.Body.String(), `InResponseTo="_s1"`) || b.IsSignedIn() {
		t.Errorf("a request by SOAP: %d, signed in %t\n%s", a.Code, b.IsSignedIn(), a.Body)
	}
	h.CheckInvariants()
}

// TestProviderLogoutTellsServiceProviders: a sign-out that an identity provider begins in this browser asks the service
// providers that are told by the browser, and goes back to the provider afterwards.
func TestProviderLogoutTellsServiceProviders(t *testing.T) {
	t.Parallel()
	const back = "https://idp.example/done?SAMLResponse=1"
	e := identitytest.NewFederated(t)
	e.WithKeys()
	deskKey := samltest.NewKey("desk", e.Clock.Now())
	const deskSLO = "https://desk.example.com/slo"
	e.Serve(farewell("desk", deskKey, deskSLO, ""))
	ann := identitytest.Ann()
	ann.Sessions = []string{"sid-1"}
	b := e.Browser()
	e.At("partner")
	e.MustEnter(b, ann)
	at(b, "desk")
	e.Partner.OnHandle(func(w http.ResponseWriter, r *http.Request, _ string, h idp.Host) bool {
		n, err := h.EndSessions(r.Context(), idp.EndQuery{Issuer: identitytest.PartnerIssuer, Sessions: []string{"sid-1"}}, r)
		if n != 1 || err != nil {
			t.Errorf("EndSessions = %d, %v, want 1", n, err)
		}
		h.Go(w, r, &idp.Next{URL: back})
		return true
	})
	way := farewellOf(t, b.Get(b.Do(http.MethodGet, "/oidc/partner/slo", "").Header().Get("Location")))
	if b.IsSignedIn() || len(way.frames) != 1 {
		t.Fatalf("signed in %t, frames %q, want a frame for desk", b.IsSignedIn(), way.frames)
	}
	d := logoutOf(t, leads(b, way.frames[0]))
	if d.To != deskSLO || d.Xml.Tag != "LogoutRequest" {
		t.Errorf("the frame leads to %s with %s, want a LogoutRequest to %s", d.To, d.Xml.Tag, deskSLO)
	}
	answer := identitytest.ByRedirect("/sso/logout", "SAMLResponse",
		logoutResponse(e.Harness, "_adesk", "desk", d.Xml.SelectAttrValue("ID", ""), "Success"), d.Relay, deskKey)
	b.Get(answer)
	if to := b.Do(http.MethodGet, way.end, "").Header().Get("Location"); to != back {
		t.Errorf("in the end the browser is sent to %q, want %s", to, back)
	}
}
