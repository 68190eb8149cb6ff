package serviceprovider_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// signedBy returns a message with a signature inside.
func signedBy(x string, how samltest.Signature) string {
	doc := samltest.Parse([]byte(x))
	samltest.Sign(doc.Root(), how)
	return string(samltest.Bytes(doc))
}

// refusedRequest checks that a request gets a page and no form for a service provider.
func refusedRequest(t *testing.T, a *identitytest.Answer, status int) {
	t.Helper()
	if body := a.Body.String(); a.Code != status || strings.Contains(body, "SAMLResponse") || strings.Contains(body, `action="http`) {
		t.Errorf("%s: status %d, want %d and no form\n%.300s", a.URL, a.Code, status, body)
	}
}

// TestServiceProviderRequestAttacks: requests that must not be believed lead to a page, and never to an address that
// they name.
func TestServiceProviderRequestAttacks(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	key, other := samltest.NewKey("sp", h.Clock.Now()), samltest.NewKey("ec other", h.Clock.Now())
	const deskEntity = "https://desk.example.com/saml"
	h.Serve(identitytest.Wiki(), serviceprovider.Provider{
		ID: "desk", Name: "Desk", Metadata: strings.Replace(identitytest.MetadataAs(deskEntity, "https://desk.example.com/acs",
			keyOf(key, "signing")), "<md:SPSSODescriptor", `<md:SPSSODescriptor AuthnRequestsSigned="true"`, 1),
	})
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	n := 0
	request := func(change ...string) string { n++; return h.AuthnRequest(fmt.Sprintf("_a%d", n), change...) }
	desk := func(change ...string) string {
		return request(append([]string{identitytest.WikiEntity, deskEntity, identitytest.WikiACS, "https://desk.example.com/acs"}, change...)...)
	}
	signed := func(x string, k *samltest.Key) string {
		return identitytest.ByRedirect("/sso/saml", "SAMLRequest", x, "r", k)
	}
	post := func(x, relay string) *identitytest.Answer {
		return b.Do(http.MethodPost, "/sso/saml",
			url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(x))}, "RelayState": {relay}}.Encode())
	}
	if d := b.Get(signed(desk(), key)).Deliver(t); d.Status()[0] != "Success" {
		t.Fatalf("a good request: %q", d.Status())
	}
	if a := post(signedBy(desk(), samltest.Signature{Key: key}), ""); a.Code != http.StatusSeeOther {
		t.Fatalf("a good request by POST: %d\n%s", a.Code, a.Body)
	}
	acs := ` AssertionConsumerServiceURL="` + identitytest.WikiACS + `"`
	for name, requests := range map[string][]string{
		"attack 172: the response is sent to another place": {
			request(identitytest.WikiACS, "https://evil.example/acs"), request(identitytest.WikiACS, identitytest.WikiACS+".evil.example"),
			request(identitytest.WikiACS, identitytest.WikiACS+"/"), request(identitytest.WikiACS, identitytest.WikiACS+"?x=1"),
			request(identitytest.WikiACS, "https://wiki.example.com@evil.example/acs"),
			request(identitytest.WikiACS, strings.ToUpper(identitytest.WikiACS)), request(identitytest.WikiACS, "javascript:alert(1)"),
			request(acs, ` AssertionConsumerServiceIndex="3"`), request(acs, ` AssertionConsumerServiceIndex="-1"`),
			request(acs, acs+` AssertionConsumerServiceIndex="1"`),
			request(acs, acs+` ProtocolBinding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Artifact"`),
			request(acs, acs+` ProtocolBinding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect"`),
		},
		"attack 174: a request without what it needs": {
			request(`<saml:Issuer>`+identitytest.WikiEntity+`</saml:Issuer>`, ""), request(identitytest.WikiEntity, ""),
			request(identitytest.WikiEntity, "https://unknown.example"), request(identitytest.WikiEntity+"</", identitytest.WikiEntity+" </"),
			request(`Version="2.0"`, ""), request(`Version="2.0"`, `Version="3.0"`), request(`Version="2.0"`, `Version="1.1"`),
			request(` ID="_a`, ` id="_a`),
			request(identitytest.Issuer+"/sso/saml", identitytest.Issuer+"/sso/logout"),
			request(identitytest.Issuer+"/sso/saml", "https://other.example/sso/saml"), "", "<", "<a/>",
			strings.ReplaceAll(request(), "AuthnRequest", "LogoutRequest"), strings.ReplaceAll(request(), "SAML:2.0:protocol", "SAML:1.1:protocol"),
			request("<saml:Issuer>", `<saml:Issuer Format="urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress">`),
		},
		"attack 176: a request of another time": {
			request(h.Clock.Now().Format(time.RFC3339), h.Clock.Now().Add(-12*time.Minute).Format(time.RFC3339)),
			request(h.Clock.Now().Format(time.RFC3339), h.Clock.Now().Add(3*time.Minute).Format(time.RFC3339)),
			request(h.Clock.Now().Format(time.RFC3339), "yesterday"), request(` IssueInstant="`+h.Clock.Now().Format(time.RFC3339)+`"`, ""),
		},
		"attack 391: a request whose signature is missing, weak or of somebody else": {
			desk(), signedBy(desk(), samltest.Signature{Key: other}), signedBy(desk(), samltest.Signature{Key: key, Method: samltest.RSASHA1}),
			signedBy(desk(), samltest.Signature{Key: key, Digest: samltest.SHA1}),
			signedBy(desk(), samltest.Signature{Key: key, Method: samltest.HMACSHA256}),
			signedBy(desk(), samltest.Signature{Key: key, URI: "" + "#_other"}),
			signedBy(desk(), samltest.Signature{Key: key, Canonical: samltest.WithComments}),
			strings.Replace(signedBy(desk(), samltest.Signature{Key: key}), "/acs", "/acs/second", 1),
			signedBy(request(), samltest.Signature{Key: key}), // the wiki has no key
			wrapped(signedBy(desk(), samltest.Signature{Key: key}), "https://desk.example.com/acs/second"),
			strings.Replace(signedBy(desk(), samltest.Signature{Key: key}), ` Destination="`+identitytest.Issuer+`/sso/saml"`, "", 1),
		},
		"attack 392: a request with a document type, comments, or too much of everything": {
			`<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + request(), `<!DOCTYPE a SYSTEM "https://evil.example/x.dtd">` + request(),
			request(identitytest.WikiEntity, "https://wiki<!-- -->.example.com/saml"),
			request("<saml:Issuer>", "<?php ?><saml:Issuer>"), request(identitytest.WikiEntity, "<![CDATA["+identitytest.WikiEntity+"]]>"),
			request("<saml:Issuer>", strings.Repeat("<saml:a>", 70)+strings.Repeat("</saml:a>", 70)+"<saml:Issuer>"),
			request(identitytest.WikiEntity, identitytest.WikiEntity+strings.Repeat(" ", 70<<10)),
			request(identitytest.WikiEntity, "&#x68;ttps://evil.example"),
			request("</saml:Issuer>", "</saml:Issuer><saml:Issuer>"+identitytest.WikiEntity+"</saml:Issuer>"),
			request("<saml:Issuer>", strings.Repeat(`<saml:a/>`, 11_000)+"<saml:Issuer>"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, x := range requests {
				refusedRequest(t, b.Get(signed(x, nil)), http.StatusBadRequest)
				refusedRequest(t, post(x, ""), http.StatusBadRequest)
			}
		})
	}
	t.Run("attack 391: a query that is not what was signed", func(t *testing.T) {
		good := signed(desk(), key)
		for _, change := range []string{
			strings.Replace(good, "RelayState=r", "RelayState=https%3A%2F%2Fevil.example", 1),
			strings.Replace(good, "rsa-sha256", "rsa-sha512", 1), good + "&RelayState=x",
			strings.Replace(good, "http%3A%2F%2Fwww.w3.org%2F2001%2F04%2Fxmldsig-more%23rsa-sha256",
				"http%3A%2F%2Fwww.w3.org%2F2000%2F09%2Fxmldsig%23rsa-sha1", 1),
			good[:strings.Index(good, "&Signature=")], strings.Replace(good, "&Signature=", "&Signature=AAAA", 1), good + "&SAMLRequest=x",
			strings.Replace(good, "SAMLRequest", "SAMLResponse", 1),
			signed(desk(), samltest.NewKey("stranger", h.Clock.Now())), good + "&SAMLEncoding=none",
		} {
			refusedRequest(t, b.Get(change), http.StatusBadRequest)
		}
	})
	t.Run("attack 176: a request is answered once", func(t *testing.T) {
		x := identitytest.ByRedirect("/sso/saml", "SAMLRequest", request(), "", nil)
		first := b.Get(x)
		first.Deliver(t)
		refusedRequest(t, b.Get(x), http.StatusBadRequest)
		refusedRequest(t, b.Get(first.URL), http.StatusBadRequest)
		// Two answers to one request that was opened twice before the first one.
		y := identitytest.ByRedirect("/sso/saml", "SAMLRequest", request(), "", nil)
		one, two := b.Do(http.MethodGet, y, ""), b.Do(http.MethodGet, y, "")
		b.Get(one.Header().Get("Location")).Deliver(t)
		refusedRequest(t, b.Get(two.Header().Get("Location")), http.StatusBadRequest)
	})
	t.Run("attack 396: a RelayState that is long or has control characters", func(t *testing.T) {
		for _, relay := range []string{strings.Repeat("x", 1025), "a\r\nSet-Cookie: x=y", "a\x00b"} {
			refusedRequest(t, b.Get(identitytest.ByRedirect("/sso/saml", "SAMLRequest", request(), relay, nil)), http.StatusBadRequest)
		}
		if d := b.Request(request(), "javascript:alert(1)//\"'><x>").Deliver(t); d.Relay != "javascript:alert(1)//\"'><x>" ||
			d.To != identitytest.WikiACS {
			t.Errorf("RelayState %q to %q", d.Relay, d.To)
		}
	})
	h.CheckInvariants()
}

// wrapped puts a signed request into another one that asks for another address.
func wrapped(x, acs string) string {
	doc := samltest.Parse([]byte(x))
	inner := doc.Root().Copy()
	root := doc.Root()
	root.CreateAttr("ID", "_evil")
	root.CreateAttr("AssertionConsumerServiceURL", acs)
	if sig := root.SelectElement("ds:Signature"); sig != nil {
		root.RemoveChild(sig)
	}
	root.CreateElement("samlp:Extensions").AddChild(inner)
	out := etree.NewDocument()
	out.SetRoot(root)
	return string(samltest.Bytes(out))
}

// TestServiceProviderAdmission: who signs in at a service provider, how strongly, and from where.
func TestServiceProviderAdmission(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	staff := func(p *serviceprovider.Provider) { p.Groups = []string{"admins"} }
	t.Run("attack 179: a person who may not, a sign-in that is too weak, a link to nowhere", func(t *testing.T) {
		h.Serve(identitytest.Wiki(staff))
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		refusedRequest(t, b.Request(h.AuthnRequest("_g1"), ""), http.StatusForbidden)
		h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) { p.Groups = []string{"admins", "staff"} }))
		b.Request(h.AuthnRequest("_g2"), "").Deliver(t)
		h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) { p.Assurance = 2 }))
		refusedRequest(t, b.Request(h.AuthnRequest("_g3"), ""), http.StatusForbidden)
		h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) { p.Level = 2 }))
		if got := b.Request(h.AuthnRequest("_g4"), "").Deliver(t).Status(); strings.Join(got, " ") != "Responder NoAuthnContext" {
			t.Errorf("a level that nobody reaches here: %q", got)
		}
		h.Serve(identitytest.Wiki())
		for _, id := range []string{"wiki", "nothing", "..%2Fwiki"} {
			refusedRequest(t, b.Get("/sso/start/"+id), http.StatusNotFound)
		}
	})
	t.Run("attack 179: a sign-in that is raised first", func(t *testing.T) {
		h, _ := identitytest.NewStepping(t, 3)
		h.WithKeys()
		secret, _, _ := h.Plain().AddApp(identitytest.AuthenticatorPage)
		mfa := inside(`<samlp:RequestedAuthnContext><saml:AuthnContextClassRef>https://refeds.org/profile/mfa</saml:AuthnContextClassRef></samlp:RequestedAuthnContext>`)
		for i, c := range []struct {
			level  int
			change []string
		}{{2, nil}, {0, mfa}} {
			h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) { p.Level = c.level }))
			b := h.Plain()
			h.Clock.Advance(time.Minute)
			a := b.Request(h.AuthnRequest(fmt.Sprintf("_m%d", i), c.change...), "")
			if !strings.HasPrefix(a.URL, "/step-up?flow=") {
				t.Fatalf("%+v leads to %s, want a step-up", c, a.URL)
			}
			if d := b.Get(b.Post(a, "code",
				h.Code(secret)).Header().Get("Location")).Deliver(t); d.Text(".//AuthnContextClassRef") != "https://refeds.org/profile/mfa" {
				t.Errorf("after the step-up: %q", d.Text(".//AuthnContextClassRef"))
			}
		}
	})
	t.Run("attack 396: a link here names where to go at the service provider", func(t *testing.T) {
		h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) {
			p.Starts, p.Relays = true, []string{"https://wiki.example.com/start"}
		}))
		b := h.Browser()
		d := b.Enter(b.Get("/sso/start/wiki?RelayState=" + url.QueryEscape("https://wiki.example.com/start"))).Deliver(t)
		if d.Relay != "https://wiki.example.com/start" || d.To != identitytest.WikiACS || d.Xml.SelectAttr("InResponseTo") != nil ||
			d.Xml.FindElement(".//SubjectConfirmationData").SelectAttr("InResponseTo") != nil {
			t.Errorf("begun here: to %s with %q", d.To, d.Relay)
		}
		b.Get("/sso/start/wiki").Deliver(t)
		for _, relay := range []string{"https://evil.example", "https://wiki.example.com/start/../x", "//evil.example"} {
			refusedRequest(t, b.Get("/sso/start/wiki?RelayState="+url.QueryEscape(relay)), http.StatusBadRequest)
		}
	})
	t.Run("attack 179: a service provider that is gone while the person signs in", func(t *testing.T) {
		h.Serve(identitytest.Wiki())
		b := h.Browser()
		a := b.Request(h.AuthnRequest("_g6"), "")
		h.Serve()
		refusedRequest(t, b.Enter(a), http.StatusBadRequest)
		h.Serve(identitytest.Wiki())
		a = h.Browser().Request(h.AuthnRequest("_g7"), "")
		h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) {
			p.Metadata = identitytest.MetadataAs(identitytest.WikiEntity, "https://wiki.example.com/moved")
		}))
		refusedRequest(t, b.Get("/sso/continue?"+strings.SplitN(a.URL, "redirect=", 2)[0]), http.StatusNotFound)
	})
	t.Run("an attribute that the person lacks", func(t *testing.T) {
		h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) {
			p.Attributes = []serviceprovider.Attribute{{Source: "phone_number", Required: true}}
		}))
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		a := b.Request(h.AuthnRequest("_g8"), "")
		refusedRequest(t, a, http.StatusForbidden)
		if !strings.Contains(a.Body.String(), `href="/account/profile"`) {
			t.Errorf("no way to complete the profile\n%s", a.Body)
		}
	})
	h.CheckInvariants()
}

// interrupted is a store in which something happens before a certain read.
type interrupted struct {
	storage.Store

	left   atomic.Int64 // reads until then
	happen func()
}

func (i *interrupted) View(ctx context.Context, fn func(storage.Tx) error) error {
	if i.left.Add(-1) == 0 {
		i.happen()
	}
	return i.Store.View(ctx, fn)
}

// TestServiceProviderWithoutThePerson: a person who is removed while a service provider is answered is not our failure,
// whichever read it is that misses them.
func TestServiceProviderWithoutThePerson(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t, identitytest.Wiki())
	i := &interrupted{Store: h.Store.Store}
	h.Store.Store = i
	for n := int64(1); ; n++ {
		username := fmt.Sprintf("leaver%d", n)
		p := h.Add(person.NewPerson{Username: username, Password: secret.New(identitytest.DemoPassword)})
		b := h.Browser()
		b.SignIn(username, identitytest.DemoPassword)
		i.happen = func() {
			if err := h.Person.RemovePerson(t.Context(), p.ID, identitytest.Ops,
				func(storage.Tx, *person.Details) error { return nil }); err != nil {
				t.Error(err)
			}
		}
		i.left.Store(n)
		a := b.Request(h.AuthnRequest(fmt.Sprintf("_gone%d", n)), "")
		if i.left.Swap(0) > 0 { // answered with fewer reads
			a.Deliver(t)
			break
		}
		if a.Code >= http.StatusInternalServerError || n > 30 {
			t.Fatalf("removed before read %d: status %d\n%s", n, a.Code, a.Body)
		}
	}
	h.CheckInvariants()
}

// TestServiceProviderOfTheSameName: one that takes the entity ID of another signs no one in there, however it begins
// and whichever metadata arrive first. It asks less of people than the other.
func TestServiceProviderOfTheSameName(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	staff := func(p *serviceprovider.Provider) { p.Groups = []string{"admins"} }
	evil := serviceprovider.Provider{
		ID: "evil", Name: "Evil",
		Metadata: identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS), Starts: true,
	}
	h.Serve(identitytest.Wiki(staff), evil)
	b := h.Browser()
	b.SignIn(identitytest.Demo, identitytest.DemoPassword)
	refusedRequest(t, b.Get("/sso/start/evil"), http.StatusBadRequest)
	refusedRequest(t, b.Request(h.AuthnRequest("_same1"), ""), http.StatusForbidden)

	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS)) //nolint:errcheck // the client is gone
	}))
	t.Cleanup(server.Close)
	h.Client = server.Client()
	h.Serve(identitytest.Wiki(staff, func(p *serviceprovider.Provider) { p.Metadata = server.URL }), evil)
	refusedRequest(t, b.Request(h.AuthnRequest("_same2"), ""), http.StatusForbidden)
	h.CheckInvariants()
}

// TestServiceProviderTakesAName: the API client of an organisation adds an application with the entity ID of someone
// else's, and asks less of people there.
func TestServiceProviderTakesAName(t *testing.T) {
	t.Parallel()
	evil := settings.Organisation{
		ID: "acme",
		ServiceProviders: map[string]settings.ServiceProvider{"evil": {
			ID: "evil", Name: "Evil",
			SAMLMetadata: identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS),
		}},
	}
	// lists lets these organisations be the ones of the settings, in this order.
	lists := func(h *identitytest.Harness, list ...settings.Organisation) {
		u := settings.Defaults()
		u.Organisations = list
		h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	}
	umbra := func(metadata string) settings.Organisation {
		return settings.Organisation{
			ID: "umbra",
			ServiceProviders: map[string]settings.ServiceProvider{"wiki": {
				ID: "wiki", Name: "The wiki", SAMLMetadata: metadata,
				RequiredAuthenticationLevel: 4,
			}},
		}
	}
	entered := func(a *identitytest.Answer) bool {
		return a.Code == http.StatusOK && strings.Contains(a.Body.String(), "SAMLResponse") && a.Deliver(t).Xml.FindElement("./Assertion") != nil
	}
	t.Run("attack 869: of an organisation that stands behind it", func(t *testing.T) {
		t.Parallel()
		h := identitytest.NewServing(t)
		up := true
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if !up {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			io.WriteString(w, identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS)) //nolint:errcheck // the client is gone
		}))
		t.Cleanup(server.Close)
		h.Client = server.Client()
		b := h.Browser()
		for i, metadata := range []string{identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS), server.URL} {
			lists(h, umbra(metadata))
			h.Serve()
			if i == 0 {
				b.SignIn(identitytest.Demo, identitytest.DemoPassword)
			}
			if a := b.Request(h.AuthnRequest(fmt.Sprintf("_held%d", i)), ""); entered(a) {
				t.Fatalf("the wiki has let somebody in below its level: %s", a.Body)
			}
			for _, when := range []string{"at once", "after a restart", "while its metadata cannot be read"} {
				lists(h, evil, umbra(metadata))
				up = when != "while its metadata cannot be read"
				if when != "at once" {
					h.Serve()
				}
				if a := b.Get("/sso/start/evil"); a.Code < 400 {
					t.Errorf("attack, %s: a sign-in that begins at evil: %d", when, a.Code)
				}
				if a := b.Request(h.AuthnRequest(fmt.Sprintf("_taken%d%s", i, when[:2])), ""); entered(a) || strings.Contains(a.Body.String(), "Evil") {
					t.Errorf("attack, %s: evil answers the wiki: %d %s", when, a.Code, a.Body)
				}
			}
			up = true
		}
		lists(h, evil)
		h.Serve()
		if a := b.Get("/sso/start/evil"); !entered(a) {
			t.Errorf("when the wiki is gone its entity ID is free: %d %s, want a sign-in", a.Code, a.Body)
		}
		h.CheckInvariants()
	})
	t.Run("attack 869: of the Caddyfile, which it excludes from SAML", func(t *testing.T) {
		t.Parallel()
		h := identitytest.NewServing(t)
		excluding := evil
		excluding.ServiceProviders = maps.Clone(evil.ServiceProviders)
		excluding.ServiceProviders["wiki"] = settings.ServiceProvider{ID: "wiki", Type: "OIDC"}
		lists(h, excluding)
		h.Serve(identitytest.Wiki())
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		refusedRequest(t, b.Get("/sso/start/evil"), http.StatusBadRequest)
		refusedRequest(t, b.Request(h.AuthnRequest("_excluded"), ""), http.StatusBadRequest)
	})
}

// TestServiceProviderValues: what people can write about themselves stays a value.
func TestServiceProviderValues(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	const hostile = `</saml:AttributeValue><saml:Attribute Name="admin"><!-- ]]> & "x"`
	h.Config.Persons[0].Name = hostile
	h.Config.Persons[0].Username = "hostile"
	h.Serve(identitytest.Wiki(func(p *serviceprovider.Provider) {
		p.Attributes = []serviceprovider.Attribute{{Source: "name"}}
		p.Subject = serviceprovider.Subject{Format: "unspecified", Attribute: "name"}
	}))
	t.Run("attack 181: a profile value that looks like an attribute", func(t *testing.T) {
		b := h.Browser()
		a := b.Post(b.Request(h.AuthnRequest("_v1"), ""), "username", "hostile", "password", identitytest.DemoPassword)
		d := b.Get(a.Header().Get("Location")).Deliver(t)
		if got := attributes(d); len(got) != 1 || got["name"][0] != hostile || d.Text(".//NameID") != hostile ||
			len(d.Xml.FindElements(".//Attribute")) != 1 {
			t.Errorf("attributes %q, NameID %q", got, d.Text(".//NameID"))
		}
	})
}

// TestServiceProviderMetadataAttacks: metadata that name a place where no one must be sent are refused.
func TestServiceProviderMetadataAttacks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	good := identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS)
	valid := func(m string) error { return serviceprovider.CheckMetadata(m, now) }
	if err := valid(good); err != nil {
		t.Fatal(err)
	}
	t.Run("attack 173: metadata that lead elsewhere", func(t *testing.T) {
		for _, to := range []string{
			"javascript:alert(1)", "data:text/html,x", "ftp://wiki.example.com/", "//wiki.example.com/",
			"https://user:pass@wiki.example.com/", "https://wiki.example.com/#x", "https:///x", identitytest.WikiACS + "?SAMLResponse=x",
			identitytest.WikiACS + "?RelayState=x",
		} {
			if valid(identitytest.MetadataAs(identitytest.WikiEntity, to)) == nil {
				t.Errorf("an AssertionConsumerService at %q is accepted", to)
			}
		}
		for what, m := range map[string]string{
			"no entity ID":    strings.Replace(good, `entityID="`+identitytest.WikiEntity+`"`, "", 1),
			"no service":      strings.ReplaceAll(good, "AssertionConsumerService", "Other"),
			"an index twice":  strings.Replace(good, `index="2"`, `index="1"`, 1),
			"a document type": `<!DOCTYPE x>` + good,
			"an old end":      strings.Replace(good, "<md:EntityDescriptor", `<md:EntityDescriptor validUntil="2001-01-01T00:00:00Z"`, 1),
			"two of them": `<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata">` +
				good + strings.Replace(good, identitytest.WikiEntity, identitytest.WikiEntity+"2", 1) + `</md:EntitiesDescriptor>`,
			"an identity provider":        strings.ReplaceAll(good, "SPSSO", "IDPSSO"),
			"artifact alone":              strings.ReplaceAll(good, "HTTP-POST", "HTTP-Artifact"),
			"signatures without a key":    strings.Replace(good, "<md:SPSSODescriptor", `<md:SPSSODescriptor AuthnRequestsSigned="true"`, 1),
			"a logout service by script:": identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS, sloOf("javascript:alert(1)", "")),
		} {
			if valid(m) == nil {
				t.Errorf("%s: accepted", what)
			}
		}
	})
}
