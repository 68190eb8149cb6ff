package identity_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// farewell is a service provider that hears of the end of sessions.
func farewell(id string, key *samltest.Key, slo, soap string) serviceprovider.Provider {
	entity := "https://" + id + ".example.com/saml"
	return serviceprovider.Provider{ID: id, Name: id, Metadata: metadataAs(entity, "https://"+id+".example.com/acs", keyOf(key, "signing"), sloOf(slo, soap))}
}

// at signs the person in at a service provider that farewell has made, and returns name and SessionIndex.
func (b *browser) at(id string) (name, index string) {
	b.h.t.Helper()
	x := b.h.authnRequest("_"+rand.Text(), wikiEntity, "https://"+id+".example.com/saml", wikiACS, "https://"+id+".example.com/acs")
	a := b.request(x, "")
	if strings.Contains(a.Body.String(), `name="password"`) {
		a = b.enter(a)
	}
	d := a.deliver(b.h.t)
	return d.text(".//NameID"), d.xml.FindElement(".//AuthnStatement").SelectAttrValue("SessionIndex", "")
}

// logoutRequest is a LogoutRequest of a service provider.
func (h *harness) logoutRequest(id, sp, name, index string) string {
	session := ""
	if index != "" {
		session = "<samlp:SessionIndex>" + index + "</samlp:SessionIndex>"
	}
	return fmt.Sprintf(`<samlp:LogoutRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="%s" Version="2.0" IssueInstant="%s" Destination="%s/sso/logout">`+
		`<saml:Issuer>https://%s.example.com/saml</saml:Issuer><saml:NameID>%s</saml:NameID>%s</samlp:LogoutRequest>`, id, h.clock.Now().Format(time.RFC3339), issuer, sp, name, session)
}

// logoutResponse is the answer of a service provider.
func (h *harness) logoutResponse(id, sp, request, status string) string {
	return fmt.Sprintf(`<samlp:LogoutResponse xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="%s" InResponseTo="%s" Version="2.0" IssueInstant="%s" Destination="%s/sso/logout">`+
		`<saml:Issuer>https://%s.example.com/saml</saml:Issuer><samlp:Status><samlp:StatusCode Value="%s%s"/></samlp:Status></samlp:LogoutResponse>`,
		id, request, h.clock.Now().Format(time.RFC3339), issuer, sp, statusNS, status)
}

// leads follows redirects, and pages that forward, until a redirect leads away, and returns where.
func (b *browser) leads(target string) *url.URL {
	b.h.t.Helper()
	for range 10 {
		a := b.do(http.MethodGet, target, "")
		if target = a.Header().Get("Location"); strings.HasPrefix(target, "https://") && !strings.HasPrefix(target, issuer) {
			u, err := url.Parse(target)
			if err != nil {
				b.h.t.Fatal(err)
			}
			return u
		}
		if next, ok := strings.CutPrefix(a.Header().Get("Refresh"), "0; url="); ok && target == "" {
			target = next
		}
		if target == "" {
			b.h.t.Fatalf("%s: status %d, want a redirect to a service provider\n%.500s", a.url, a.Code, a.Body)
		}
	}
	b.h.t.Fatal("in circles")
	return nil
}

// logoutOf reads our LogoutRequest or LogoutResponse in an address.
func logoutOf(t *testing.T, u *url.URL) delivered {
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
	return delivered{to: u.Scheme + "://" + u.Host + u.Path, relay: u.Query().Get("RelayState"), raw: param, xml: got.XML.Root()}
}

// TestServiceProviderLogout: a sign-out reaches every service provider of the session, on whichever side it begins.
func TestServiceProviderLogout(t *testing.T) {
	t.Parallel()
	h := serving(t)
	wikiKey, deskKey := samltest.NewKey("sp", h.clock.Now()), samltest.NewKey("desk", h.clock.Now())
	const deskSLO = "https://desk.example.com/slo"
	h.serve(farewell("wiki", wikiKey, wikiSLO, ""), farewell("desk", deskKey, deskSLO, ""), farewell("quiet", wikiKey, "", ""))

	t.Run("begun here", func(t *testing.T) {
		b := h.browser()
		wikiName, wikiIndex := b.at("wiki")
		b.at("desk")
		b.at("quiet")
		page := b.get("/sign-out")
		a := b.post(page)
		if a.Code != http.StatusSeeOther || b.isSignedIn() {
			t.Fatalf("sign-out: %d, signed in %t", a.Code, b.isSignedIn())
		}
		// A page ends the chain of redirects that the form began: browsers would follow it to no other origin.
		a = b.get(a.Header().Get("Location"))
		var asked []string
		at, ok := strings.CutPrefix(a.Header().Get("Refresh"), "0; url=")
		if a.Code != http.StatusOK || !ok || !strings.HasPrefix(at, "/sso/leave?") {
			t.Fatalf("after the form: %d %s", a.Code, a.Header())
		}
		for range 2 {
			u := b.leads(at)
			d := logoutOf(t, u)
			if d.xml.Tag != "LogoutRequest" || u.Query().Get("Signature") == "" {
				t.Fatalf("%s in %s, want a signed LogoutRequest", d.xml.Tag, u)
			}
			sp, key := "wiki", wikiKey
			if d.to == deskSLO {
				sp, key = "desk", deskKey
			} else if d.text("./NameID") != wikiName || d.text("./SessionIndex") != wikiIndex {
				t.Errorf("the wiki is asked about %q in %q", d.text("./NameID"), d.text("./SessionIndex"))
			}
			asked = append(asked, sp)
			at = byRedirect("/sso/logout", "SAMLResponse", h.logoutResponse("_r"+sp, sp, d.xml.SelectAttrValue("ID", ""), "Success"), d.relay, key)
		}
		slices.Sort(asked)
		if a := b.get(at); !slices.Equal(asked, []string{"desk", "wiki"}) || a.url != "/sign-out" || !strings.Contains(a.Body.String(), "signed out") {
			t.Errorf("asked %q, then at %s (%d)", asked, a.url, a.Code)
		}
	})
	t.Run("begun by a service provider", func(t *testing.T) {
		b := h.browser()
		name, index := b.at("wiki")
		b.at("desk")
		u := b.leads(byRedirect("/sso/logout", "SAMLRequest", h.logoutRequest("_l1", "wiki", name, index), "back to the wiki", wikiKey))
		if b.isSignedIn() || u.Host != "desk.example.com" {
			t.Fatalf("at %s, signed in %t, want the desk to be told first", u, b.isSignedIn())
		}
		d := logoutOf(t, u)
		// The desk does not answer well: the way goes on, and the wiki is told that it is not complete.
		u = b.leads(byRedirect("/sso/logout", "SAMLResponse", h.logoutResponse("_r3", "desk", d.xml.SelectAttrValue("ID", ""), "Responder"), d.relay, deskKey))
		d = logoutOf(t, u)
		if d.to != wikiSLO || d.relay != "back to the wiki" || d.xml.Tag != "LogoutResponse" || d.xml.SelectAttrValue("InResponseTo", "") != "_l1" || !slices.Equal(d.status(), []string{"Success", "PartialLogout"}) {
			t.Errorf("at %s with %q: %s of %q, status %q", d.to, d.relay, d.xml.Tag, d.xml.SelectAttrValue("InResponseTo", ""), d.status())
		}
		if n := h.events()["session.SignedOutByServiceProviderEvent"]; n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
	t.Run("by POST, without a session index", func(t *testing.T) {
		one, two := h.browser(), h.browser()
		name, _ := one.at("wiki")
		two.at("wiki")
		x := signedBy(h.logoutRequest("_l2", "wiki", name, ""), samltest.Signature{Key: wikiKey})
		a := h.browser().do(http.MethodPost, "/sso/logout", url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(x))}}.Encode())
		if a.Code != http.StatusSeeOther || one.isSignedIn() || two.isSignedIn() {
			t.Errorf("status %d, signed in %t and %t, want all sessions of the person to end", a.Code, one.isSignedIn(), two.isSignedIn())
		}
	})
	t.Run("attack 393: a LogoutRequest that nobody has signed, or somebody else", func(t *testing.T) {
		b := h.browser()
		name, index := b.at("wiki")
		deskName, _ := b.at("desk")
		sign := func(x string, k *samltest.Key) string { return byRedirect("/sso/logout", "SAMLRequest", x, "", k) }
		old := h.logoutRequest("_l9", "wiki", name, index)
		for what, at := range map[string]string{
			"unsigned": sign(h.logoutRequest("_l3", "wiki", name, index), nil), "by another key": sign(h.logoutRequest("_l4", "wiki", name, index), deskKey),
			"of another service provider":   sign(h.logoutRequest("_l5", "desk", name, index), wikiKey),
			"another destination":           sign(strings.Replace(old, "/sso/logout", "/sso/saml", 1), wikiKey),
			"old":                           sign(strings.Replace(old, h.clock.Now().Format(time.RFC3339), h.clock.Now().Add(-time.Hour).Format(time.RFC3339), 1), wikiKey),
			"a response to nothing":         byRedirect("/sso/logout", "SAMLResponse", h.logoutResponse("_l6", "wiki", "_x", "Success"), "nothing", wikiKey),
			"a comment in the name":         sign(strings.Replace(old, name, name[:3]+"<!-- -->"+name[3:], 1), wikiKey),
			"a document type":               sign("<!DOCTYPE x>"+old, wikiKey),
			"a parameter of the other kind": byRedirect("/sso/logout", "SAMLResponse", old, "x", wikiKey),
		} {
			a := b.get(at)
			if refusedRequest(t, a, http.StatusBadRequest); !b.isSignedIn() {
				t.Fatalf("%s: the session has ended", what)
			}
		}
		// A name or session of another service provider ends nothing, and is not told apart from one that there is not.
		for _, at := range []string{sign(h.logoutRequest("_l7", "wiki", deskName, ""), wikiKey), sign(h.logoutRequest("_l8", "wiki", name, "other"), wikiKey)} {
			if u := b.leads(at); u.Host != "wiki.example.com" || !b.isSignedIn() {
				t.Errorf("at %s, signed in %t, want an answer and nothing else", u, b.isSignedIn())
			}
		}
		// A request is used once.
		used := sign(h.logoutRequest("_l10", "wiki", name, index), wikiKey)
		b.leads(used)
		again := h.browser()
		again.at("wiki")
		refusedRequest(t, again.get(used), http.StatusBadRequest)
		if !again.isSignedIn() {
			t.Error("a replayed request ends a session")
		}
	})
	h.checkInvariants()
}

// TestServiceProviderLogoutIsTheBrowsers: service providers know the name of a browser's way to them, and nothing comes
// of it without the browser.
func TestServiceProviderLogoutIsTheBrowsers(t *testing.T) {
	t.Parallel()
	h := serving(t)
	wikiKey, deskKey := samltest.NewKey("sp", h.clock.Now()), samltest.NewKey("desk", h.clock.Now())
	const deskSLO = "https://desk.example.com/slo"
	h.serve(farewell("wiki", wikiKey, wikiSLO, ""), farewell("desk", deskKey, deskSLO, ""))
	silent := func(t *testing.T, a *answer) {
		t.Helper()
		if to := a.Header().Get("Location"); to != "/sign-out" || strings.Contains(a.Body.String(), "SAMLRequest") {
			t.Errorf("a service provider that goes the way itself gets %d to %q", a.Code, to)
		}
	}
	t.Run("attack 397: a service provider goes the way of a browser", func(t *testing.T) {
		b := h.browser()
		b.at("wiki")
		b.at("desk")
		u := b.leads(b.post(b.get("/sign-out")).Header().Get("Location"))
		d, at := logoutOf(t, u), "/sso/leave?flow="
		silent(t, h.browser().do(http.MethodGet, at+d.relay, ""))
		sp, key, next := "wiki", wikiKey, "desk.example.com"
		if d.to == deskSLO {
			sp, key, next = "desk", deskKey, "wiki.example.com"
		}
		answer := byRedirect("/sso/logout", "SAMLResponse", h.logoutResponse("_a"+sp, sp, d.xml.SelectAttrValue("ID", ""), "Success"), d.relay, key)
		there := h.browser()
		silent(t, there.do(http.MethodGet, there.do(http.MethodGet, answer, "").Header().Get("Location"), ""))
		if u := b.leads(at + d.relay); u.Host != next {
			t.Errorf("the browser is led to %s, want %s", u, next)
		}
	})
	t.Run("attack 397: a service provider asks for a sign-out without the browser", func(t *testing.T) {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			b, there := h.browser(), h.browser()
			name, index := b.at("wiki")
			b.at("desk")
			x := h.logoutRequest("_w"+method, "wiki", name, index)
			target, body := byRedirect("/sso/logout", "SAMLRequest", x, "", wikiKey), ""
			if method == http.MethodPost {
				target = "/sso/logout"
				body = url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(signedBy(x, samltest.Signature{Key: wikiKey})))}}.Encode()
			}
			a := there.do(method, target, body)
			way := a.Header().Get("Location")
			a = there.do(http.MethodGet, way, "")
			if strings.Contains(a.Header().Get("Location")+a.Body.String(), "desk.example.com") || b.isSignedIn() {
				t.Fatalf("%s leads to %q, signed in %t", method, a.Header().Get("Location"), b.isSignedIn())
			}
			if method == http.MethodGet { // by the binding of the request
				u, err := url.Parse(a.Header().Get("Location"))
				if err != nil {
					t.Fatal(err)
				}
				if d := logoutOf(t, u); d.to != wikiSLO || !slices.Equal(d.status(), []string{"Success", "PartialLogout"}) {
					t.Errorf("at %s: %q, want that the desk was not told", d.to, d.status())
				}
			}
			silent(t, b.do(http.MethodGet, way, "")) // the answer has been given
		}
	})
	t.Run("what is interrupted can be sent again", func(t *testing.T) {
		for _, update := range []int64{1, 2} {
			b, there := h.browser(), h.browser()
			name, index := b.at("wiki")
			x := signedBy(h.logoutRequest(fmt.Sprintf("_again%d", update), "wiki", name, index), samltest.Signature{Key: wikiKey})
			body := url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(x))}}.Encode()
			there.leaves = update
			there.do(http.MethodPost, "/sso/logout", body)
			if !b.isSignedIn() {
				continue
			}
			there.leaves = 0
			if a := there.do(http.MethodPost, "/sso/logout", body); a.Code != http.StatusSeeOther || b.isSignedIn() {
				t.Errorf("after an end before update %d the same request gets %d, signed in %t", update, a.Code, b.isSignedIn())
			}
		}
	})
	h.checkInvariants()
}

// TestServiceProviderBackChannel: a service provider with a SOAP service is told without the browser, whatever ends the
// session, and can ask that way.
func TestServiceProviderBackChannel(t *testing.T) {
	t.Parallel()
	h := serving(t)
	key := samltest.NewKey("sp", h.clock.Now())
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
		x := signedBy(h.logoutResponse("_soap", "wiki", request.SelectAttrValue("ID", ""), status), samltest.Signature{Key: key})
		fmt.Fprintf(w, `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>%s</soap:Body></soap:Envelope>`, x)
		told <- struct{}{}
	}))
	t.Cleanup(server.Close)
	h.client = server.Client()
	h.serve(farewell("wiki", key, wikiSLO, server.URL))
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { h.ServiceProviders.Run(ctx) })
	t.Cleanup(func() { stop(); work.Wait() })
	b := h.browser()
	name, index := b.at("wiki")
	if a := b.post(b.get("/sign-out")); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/sign-out" {
		t.Errorf("sign-out leads to %q, want no way by the browser", a.Header().Get("Location"))
	}
	<-told
	mu.Lock()
	if !slices.Equal(heard, []string{name + " " + index}) {
		t.Errorf("heard %q, want the session of the person", heard)
	}
	mu.Unlock()
	b = h.browser()
	name, index = b.at("wiki")
	soap := func(x string) *answer {
		return h.browser().do(http.MethodPost, "/sso/logout/soap", `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>`+x+`</soap:Body></soap:Envelope>`)
	}
	ask := strings.Replace(h.logoutRequest("_s1", "wiki", name, index), ` Destination="`+issuer+`/sso/logout"`, "", 1)
	t.Run("attack 393: an envelope that nobody has signed", func(t *testing.T) {
		refusedRequest(t, soap(ask), http.StatusBadRequest)
		refusedRequest(t, soap(signedBy(ask, samltest.Signature{Key: samltest.NewKey("desk", h.clock.Now())})), http.StatusBadRequest)
		if !b.isSignedIn() {
			t.Fatal("the session has ended")
		}
	})
	a := soap(signedBy(ask, samltest.Signature{Key: key}))
	if a.Code != http.StatusOK || !strings.Contains(a.Body.String(), statusNS+"Success") || !strings.Contains(a.Body.String(), `InResponseTo="_s1"`) || b.isSignedIn() {
		t.Errorf("a request by SOAP: %d, signed in %t\n%s", a.Code, b.isSignedIn(), a.Body)
	}
	h.checkInvariants()
}
