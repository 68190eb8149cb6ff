package identity_test

import (
	"bytes"
	"compress/flate"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	wikiEntity = "https://wiki.example.com/saml"
	wikiACS    = "https://wiki.example.com/acs"
	wikiSLO    = "https://wiki.example.com/slo"
	persistent = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
	transient  = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
	emailName  = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
	statusNS   = "urn:oasis:names:tc:SAML:2.0:status:"
)

// serving makes the harness an identity provider for service providers.
func serving(t testing.TB, providers ...serviceprovider.Provider) *harness {
	t.Helper()
	h := newHarness(t)
	h.withKeys()
	h.serve(providers...)
	return h
}

// withKeys gives the service key pairs.
func (h *harness) withKeys() {
	own := samltest.NewKey("idp", h.clock.Now())
	h.keyPair = func(_ context.Context, name string) (*idp.Key, error) {
		if name != "" {
			own := samltest.NewKey(name, h.clock.Now())
			return &idp.Key{Name: name, Certificate: own.Certificate, Signer: own.Signer}, nil
		}
		return &idp.Key{Certificate: own.Certificate, Signer: own.Signer}, nil
	}
}

// serve starts the service again with these service providers.
func (h *harness) serve(providers ...serviceprovider.Provider) {
	h.t.Helper()
	for i := range providers {
		if err := providers[i].Validate(h.clock.Now()); err != nil {
			h.t.Fatal(err)
		}
	}
	h.cfg.ServiceProviders.Providers = providers
	h.start()
	h.Person.Watch(h.ServiceProviders.Beside(nothing{}))
}

// nothing is the watcher of a server without clients.
type nothing struct{}

func (nothing) SessionEnded(storage.Tx, string, string) error  { return nil }
func (nothing) SessionsEnded(storage.Tx, string, string) error { return nil }
func (nothing) TokensEnded(storage.Tx, string, string) error   { return nil }
func (nothing) LogoutFrames(context.Context, string, string) ([]string, error) {
	return nil, nil
}

// metadataAs is the metadata of a service provider.
func metadataAs(entity, acs string, more ...string) string {
	return fmt.Sprintf(`<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s">`+
		`<md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">%s`+
		`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s" index="1" isDefault="true"/>`+
		`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s/second" index="2"/>`+
		`</md:SPSSODescriptor></md:EntityDescriptor>`, entity, strings.Join(more, ""), acs, acs)
}

// keyOf is the KeyDescriptor of a key.
func keyOf(k *samltest.Key, use string) string {
	return fmt.Sprintf(`<md:KeyDescriptor use=%q><ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`,
		use, base64.StdEncoding.EncodeToString(k.Certificate.Raw))
}

// sloOf are the logout services of a service provider.
func sloOf(location, soap string) string {
	out := ""
	if location != "" {
		out = fmt.Sprintf(`<md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location=%q/>`, location)
	}
	if soap != "" {
		out += fmt.Sprintf(`<md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:SOAP" Location=%q/>`, soap)
	}
	return out
}

// wiki is a service provider that signs nothing.
func wiki(change ...func(*serviceprovider.Provider)) serviceprovider.Provider {
	p := serviceprovider.Provider{ID: "wiki", Name: "The wiki", Metadata: metadataAs(wikiEntity, wikiACS)}
	for _, f := range change {
		f(&p)
	}
	return p
}

// authnRequest is an AuthnRequest. Replace what a test needs.
func (h *harness) authnRequest(id string, change ...string) string {
	x := fmt.Sprintf(`<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="%s" Version="2.0" IssueInstant="%s" `+
		`Destination="%s/sso/saml" AssertionConsumerServiceURL="%s"><saml:Issuer>%s</saml:Issuer></samlp:AuthnRequest>`,
		id, h.clock.Now().Format(time.RFC3339), issuer, wikiACS, wikiEntity)
	for i := 0; i+1 < len(change); i += 2 {
		if !strings.Contains(x, change[i]) {
			h.t.Fatalf("the request has no %q", change[i])
		}
		x = strings.ReplaceAll(x, change[i], change[i+1])
	}
	return x
}

// inside adds elements after the issuer of a request.
func inside(elements string) []string { return []string{"</saml:Issuer>", "</saml:Issuer>" + elements} }

// with adds attributes to a request.
func with(attributes string) []string {
	return []string{` Version="2.0"`, ` Version="2.0" ` + attributes}
}

func deflated(x string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write([]byte(x))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// byRedirect is the address that brings a message. key signs it. nil: nothing does.
func byRedirect(path, param, x, relay string, key *samltest.Key) string {
	octets := param + "=" + url.QueryEscape(deflated(x))
	if relay != "" {
		octets += "&RelayState=" + url.QueryEscape(relay)
	}
	if key != nil {
		octets += "&SigAlg=" + url.QueryEscape(samltest.RSASHA256)
		octets += "&Signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(samltest.Signature{Key: key}.Octets([]byte(octets))))
	}
	return path + "?" + octets
}

// request opens a request by redirect.
func (b *browser) request(x, relay string) *answer {
	b.h.t.Helper()
	return b.get(byRedirect("/sso/saml", "SAMLRequest", x, relay, nil))
}

var (
	hidden  = regexp.MustCompile(`<input type="hidden" name="([A-Za-z]+)" value="([^"]*)">`)
	formTo  = regexp.MustCompile(`<form method="post" action="([^"]*)"`)
	policed = regexp.MustCompile(`form-action ([^;]*)`)
)

// delivered is a message in a form that goes to a service provider.
type delivered struct {
	to, relay string
	raw       string
	xml       *etree.Element
}

// deliver reads the page that brings a message to a service provider.
func (a *answer) deliver(t testing.TB) delivered {
	t.Helper()
	form := formTo.FindStringSubmatch(a.Body.String())
	if a.Code != http.StatusOK || form == nil {
		t.Fatalf("%s: status %d, want a form for a service provider\n%s", a.url, a.Code, a.Body)
	}
	d := delivered{to: html.UnescapeString(form[1])}
	for _, m := range hidden.FindAllStringSubmatch(a.Body.String(), -1) {
		switch m[1] {
		case "SAMLResponse", "SAMLRequest":
			d.raw = html.UnescapeString(m[2])
		case "RelayState":
			d.relay = html.UnescapeString(m[2])
		}
	}
	raw, err := base64.StdEncoding.DecodeString(d.raw)
	if err != nil || len(raw) == 0 {
		t.Fatalf("%s: no message in the form to %s\n%s", a.url, d.to, a.Body)
	}
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil {
		t.Fatal(err)
	}
	d.xml = doc.Root()
	if got := policed.FindStringSubmatch(a.Header().Get("Content-Security-Policy")); got == nil || got[1] != d.to {
		t.Errorf("form-action %q, want %s alone", got, d.to)
	}
	return d
}

// status returns the status codes of a response, the outer one first.
func (d delivered) status() []string {
	var out []string
	for e := d.xml.FindElement("./Status/StatusCode"); e != nil; e = e.SelectElement("StatusCode") {
		out = append(out, strings.TrimPrefix(e.SelectAttrValue("Value", ""), statusNS))
	}
	return out
}

func (d delivered) text(path string) string {
	e := d.xml.FindElement(path)
	if e == nil {
		return ""
	}
	return e.Text()
}

// attributes returns those of the assertion.
func (d delivered) attributes() map[string][]string {
	out := map[string][]string{}
	for _, a := range d.xml.FindElements(".//Attribute") {
		for _, v := range a.SelectElements("AttributeValue") {
			out[a.SelectAttrValue("Name", "")] = append(out[a.SelectAttrValue("Name", "")], v.Text())
		}
	}
	return out
}

// enter signs the person in on the page that a request has led to, and returns what comes after.
func (b *browser) enter(a *answer) *answer {
	b.h.t.Helper()
	a = b.post(a, "username", demo, "password", demoPassword)
	if a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("sign-in: status %d\n%s", a.Code, a.Body)
	}
	return b.get(a.Header().Get("Location"))
}

// realOnes are service providers that are this program's own, on the other side.
func (h *harness) realOne(id, host string) (*saml.Provider, serviceprovider.Provider) {
	h.t.Helper()
	used := map[string]bool{}
	key := samltest.NewKey("sp "+id, h.clock.Now())
	p, err := saml.New(saml.Config{Metadata: h.browser().get("/sso/metadata").Body.String()}, idp.Env{
		ID: id, Issuer: host, Now: h.clock.Now, Random: rand.Reader, Log: zap.NewNop(),
		Once: func(_ context.Context, k string, _ time.Time) error {
			if used[k] {
				return idp.ErrReplayed
			}
			used[k] = true
			return nil
		},
		KeyPair: func(context.Context, string) (*idp.Key, error) {
			return &idp.Key{Certificate: key.Certificate, Signer: key.Signer}, nil
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { p.Close() })
	w := httptest.NewRecorder()
	p.Handle(w, httptest.NewRequest(http.MethodGet, host+"/saml/"+id+"/metadata", nil), "metadata", nil)
	return p, serviceprovider.Provider{ID: id, Name: id, Metadata: w.Body.String()}
}

// TestServiceProviderSignIn: two service providers with signed requests and encrypted assertions sign a person in. Each
// knows the person by another name, the same each time, and takes no assertion of the other.
func TestServiceProviderSignIn(t *testing.T) {
	t.Parallel()
	h := serving(t)
	shop, shopSP := h.realOne("shop", "https://shop.example.com")
	desk, deskSP := h.realOne("desk", "https://desk.example.com")
	shopSP.Attributes = []serviceprovider.Attribute{{Source: "name"}, {Source: "groups"}, {Source: "email", Names: []serviceprovider.Name{{Format: "uri", Name: "urn:oid:0.9.2342.19200300.100.1.3"}}}}
	h.serve(shopSP, deskSP)
	b := h.browser()
	enter := func(p *saml.Provider, force bool) (*idp.Identity, delivered, []byte) {
		t.Helper()
		next, err := p.Begin(t.Context(), idp.Request{Flow: strings.Repeat("f", 43), Force: force, MaxAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		a := b.get(strings.TrimPrefix(next.URL, issuer))
		if strings.Contains(a.Body.String(), `name="password"`) {
			a = b.enter(a)
		}
		d := a.deliver(t)
		id, err := p.Finish(t.Context(), next.State, sentOn(d))
		if err != nil {
			t.Fatalf("the service provider refuses the answer: %v %v", err, errors.Unwrap(err))
		}
		return id, d, next.State
	}
	first, answered, state := enter(shop, false)
	if first.Subject == "" || strings.Contains(first.Subject, "@") || !strings.HasSuffix(first.Form, persistent) || first.Level != 1 {
		t.Errorf("the person is %+v, want a random persistent name", first)
	}
	if e := answered.xml.FindElement("./EncryptedAssertion"); e == nil || answered.xml.FindElement("./Assertion") != nil {
		t.Error("the assertion is not encrypted, although the metadata have a key for that")
	}
	if answered.relay != strings.Repeat("f", 43) {
		t.Errorf("RelayState %q", answered.relay)
	}
	t.Run("attack 394: the answer is taken to another service provider", func(t *testing.T) {
		if _, err := desk.Finish(t.Context(), state, sentOn(answered)); err == nil {
			t.Error("it takes the answer")
		}
	})
	h.clock.Advance(time.Minute)
	again, _, _ := enter(shop, false)
	other, _, _ := enter(desk, false)
	if again.Subject != first.Subject || other.Subject == first.Subject {
		t.Errorf("names %q, %q at the shop and %q at the desk, want one for each service provider", first.Subject, again.Subject, other.Subject)
	}
	h.clock.Advance(time.Minute)
	if forced, _, _ := enter(shop, true); !forced.AuthTime.Equal(h.clock.Now()) {
		t.Errorf("ForceAuthn: signed in at %s, want now", forced.AuthTime)
	}
	if n := h.events()["login.ServiceProviderSignedInEvent"]; n != 4 {
		t.Errorf("%d events of sign-ins at service providers, want 4", n)
	}
	h.checkInvariants()
}

// sentOn is the request by which a browser brings an answer to a service provider.
func sentOn(d delivered) *http.Request {
	r := httptest.NewRequest(http.MethodPost, d.to, strings.NewReader(url.Values{"SAMLResponse": {d.raw}, "RelayState": {d.relay}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// TestServiceProviderAnswer: what an assertion says of the person and the sign-in, by redirect and by POST.
func TestServiceProviderAnswer(t *testing.T) {
	t.Parallel()
	h := serving(t, wiki(func(p *serviceprovider.Provider) {
		p.Attributes = []serviceprovider.Attribute{{Source: "username"}, {Source: "name", Names: []serviceprovider.Name{{Format: "basic", Name: "displayName"}}}, {Source: "groups"}, {Source: "nickname"}}
	}))
	b := h.browser()
	x := h.authnRequest("_one")
	a := b.do(http.MethodPost, "/sso/saml", url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(x))}, "RelayState": {`"><script>alert(1)</script>`}}.Encode())
	if a.Code != http.StatusSeeOther {
		t.Fatalf("a request by POST: %d\n%s", a.Code, a.Body)
	}
	a = b.enter(b.get(a.Header().Get("Location")))
	d := a.deliver(t)
	t.Run("attack 177: markup as RelayState", func(t *testing.T) {
		if d.to != wikiACS || d.relay != `"><script>alert(1)</script>` || strings.Contains(a.Body.String(), "<script>alert") || !slices.Equal(d.status(), []string{"Success"}) {
			t.Errorf("to %q with %q and status %q", d.to, d.relay, d.status())
		}
	})
	want := map[string][]string{"username": {demo}, "displayName": {"Demo Person"}, "groups": {"staff", "editors"}}
	if got := d.attributes(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes %q, want %q", got, want)
	}
	for path, want := range map[string]string{
		".//Audience": wikiEntity, "./Issuer": issuer + "/sso/metadata", ".//AuthnContextClassRef": samltest.Password,
	} {
		if got := d.text(path); got != want {
			t.Errorf("%s = %q, want %q", path, got, want)
		}
	}
	t.Run("attack 178: what an answer says of the sign-in", func(t *testing.T) {
		data := d.xml.FindElement(".//SubjectConfirmationData")
		until := data.SelectAttrValue("NotOnOrAfter", "")
		if data.SelectAttrValue("Recipient", "") != wikiACS || data.SelectAttrValue("InResponseTo", "") != "_one" || until > h.clock.Now().Add(5*time.Minute+time.Second).Format(time.RFC3339) || data.SelectAttr("Address") != nil {
			t.Errorf("confirmation %v", data.Attr)
		}
		if n := len(d.xml.FindElements(".//Signature")); n != 2 {
			t.Errorf("%d signatures, want one of the assertion and one of the response", n)
		}
	})
	// Signed in already: no page is between.
	if d := b.request(h.authnRequest("_two", with(`IsPassive="true"`)...), "r").deliver(t); d.relay != "r" || d.status()[0] != "Success" {
		t.Errorf("a passive request of somebody who is signed in: %q", d.status())
	}
	if d := b.request(h.authnRequest("_three", ` AssertionConsumerServiceURL="`+wikiACS+`"`, ` AssertionConsumerServiceIndex="2"`), "").deliver(t); d.to != wikiACS+"/second" {
		t.Errorf("by index 2: to %s", d.to)
	}
	h.checkInvariants()
}

// TestServiceProviderStatus: a service provider learns by a status why there is no sign-in.
func TestServiceProviderStatus(t *testing.T) {
	t.Parallel()
	h := serving(t, wiki())
	context := func(comparison, class string) []string {
		return inside(`<samlp:RequestedAuthnContext Comparison="` + comparison + `"><saml:AuthnContextClassRef>` + class + `</saml:AuthnContextClassRef></samlp:RequestedAuthnContext>`)
	}
	policy := func(attributes string) []string { return inside(`<samlp:NameIDPolicy ` + attributes + `/>`) }
	for name, c := range map[string]struct {
		signedIn bool
		change   []string
		want     string
	}{
		"passive, and nobody is signed in":   {false, with(`IsPassive="true"`), "Responder NoPassive"},
		"passive, and a new sign-in":         {true, with(`IsPassive="true" ForceAuthn="true"`), "Responder NoPassive"},
		"a class that there is not":          {true, context("exact", "urn:example:retina"), "Responder NoAuthnContext"},
		"stronger than all":                  {true, context("better", "https://refeds.org/profile/mfa"), "Responder NoAuthnContext"},
		"not stronger than nothing":          {true, context("maximum", "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"), "Success"},
		"a password":                         {true, context("exact", samltest.Password), "Success"},
		"a password at least":                {true, context("minimum", samltest.Password), "Success"},
		"an address that nobody has allowed": {true, policy(`Format="` + emailName + `"`), "Requester InvalidNameIDPolicy"},
		"a format that there is not":         {true, policy(`Format="urn:oasis:names:tc:SAML:2.0:nameid-format:kerberos"`), "Requester InvalidNameIDPolicy"},
		"a name of an affiliation":           {true, policy(`Format="` + persistent + `" SPNameQualifier="https://other.example"`), "Requester InvalidNameIDPolicy"},
		"a transient name":                   {true, policy(`Format="` + transient + `"`), "Success"},
		"the person is named":                {true, inside(`<saml:Subject><saml:NameID>root</saml:NameID></saml:Subject>`), "Requester RequestUnsupported"},
	} {
		t.Run(name, func(t *testing.T) {
			b := h.browser()
			if c.signedIn {
				b.signIn(demo, demoPassword)
				h.clock.Advance(time.Second)
			}
			d := b.request(h.authnRequest("_"+base64.RawURLEncoding.EncodeToString([]byte(name)), c.change...), "relay").deliver(t)
			if got := strings.Join(d.status(), " "); got != c.want || d.relay != "relay" || d.to != wikiACS {
				t.Errorf("status %q to %s with %q, want %q", got, d.to, d.relay, c.want)
			}
			if has := d.xml.FindElement("./Assertion") != nil; has != (c.want == "Success") {
				t.Errorf("an assertion: %t", has)
			}
			if d.xml.FindElement("./Signature") == nil {
				t.Error("the response is not signed")
			}
		})
	}
	t.Run("passive, and the person would get a page", func(t *testing.T) {
		b := h.browser()
		b.signIn(demo, demoPassword)
		for i, change := range []func(*serviceprovider.Provider){
			func(p *serviceprovider.Provider) { p.Groups = []string{"admins"} },
			func(p *serviceprovider.Provider) {
				p.Attributes = []serviceprovider.Attribute{{Source: "phone_number", Required: true}}
			},
			func(p *serviceprovider.Provider) {
				p.Subject = serviceprovider.Subject{Format: "unspecified", Attribute: "phone_number"}
			},
		} {
			h.serve(wiki(change))
			d := b.request(h.authnRequest(fmt.Sprintf("_page%d", i), with(`IsPassive="true"`)...), "").deliver(t)
			if got := strings.Join(d.status(), " "); got != "Responder NoPassive" {
				t.Errorf("%d: status %q", i, got)
			}
		}
		h.serve(wiki())
	})
	t.Run("a cancelled sign-in", func(t *testing.T) {
		b := h.browser()
		a := b.request(h.authnRequest("_cancelled"), "")
		cancel := regexp.MustCompile(`href="(/sso/continue[^"]*cancel=1)"`).FindStringSubmatch(a.Body.String())
		if cancel == nil {
			t.Fatalf("no link back\n%s", a.Body)
		}
		if got := b.get(html.UnescapeString(cancel[1])).deliver(t).status(); !slices.Equal(got, []string{"Responder", "AuthnFailed"}) {
			t.Errorf("status %q", got)
		}
	})
	h.checkInvariants()
}

// TestServiceProviderNames: how people are named, by the request and by the configuration.
func TestServiceProviderNames(t *testing.T) {
	t.Parallel()
	h := serving(t)
	name := func(p serviceprovider.Provider, id, format string) (string, string, *answer) {
		t.Helper()
		h.serve(p)
		b := h.browser()
		b.signIn(demo, demoPassword)
		var change []string
		if format != "" {
			change = inside(`<samlp:NameIDPolicy Format="` + format + `"/>`)
		}
		a := b.request(h.authnRequest(id, change...), "")
		if a.Code != http.StatusOK {
			return "", "", a
		}
		e := a.deliver(t).xml.FindElement(".//NameID")
		if e == nil {
			return "", "", a
		}
		return e.Text(), e.SelectAttrValue("Format", ""), a
	}
	subject := func(format, attribute, fallback string) serviceprovider.Provider {
		return wiki(func(p *serviceprovider.Provider) {
			p.Subject = serviceprovider.Subject{Format: format, Attribute: attribute, Fallback: fallback}
		})
	}
	first, format, _ := name(wiki(), "_n1", "")
	if again, _, _ := name(wiki(), "_n2", persistent); first == "" || again != first || format != persistent {
		t.Errorf("persistent: %q (%s), then %q", first, format, again)
	}
	once, _, _ := name(wiki(), "_n3", transient)
	if again, format, _ := name(wiki(), "_n4", transient); once == "" || again == once || format != transient {
		t.Errorf("transient: %q, then %q (%s)", once, again, format)
	}
	if v, format, _ := name(subject("email", "", ""), "_n5", ""); v != demo || format != emailName {
		t.Errorf("email: %q (%s)", v, format)
	}
	if v, _, _ := name(subject("unspecified", "", ""), "_n6", ""); v != demo {
		t.Errorf("unspecified: %q, want the username", v)
	}
	if v, _, _ := name(subject("unspecified", "nickname", "username"), "_n7", ""); v != demo {
		t.Errorf("a fallback: %q, want the username", v)
	}
	if v, _, a := name(subject("unspecified", "nickname", ""), "_n8", ""); v != "" || a.Code != http.StatusForbidden {
		t.Errorf("nothing to name the person by: %q, status %d, want a page", v, a.Code)
	}
	// Metadata that name a format are followed.
	if _, format, _ := name(wiki(func(p *serviceprovider.Provider) {
		p.Metadata = metadataAs(wikiEntity, wikiACS, "<md:NameIDFormat>"+transient+"</md:NameIDFormat>")
	}), "_n9", ""); format != transient {
		t.Errorf("the metadata name transient: %s", format)
	}
}

// TestServiceProviderOfAnOrganisation: the service providers of the configuration API sign people in, with what their
// organisation and they say, and people are asked first.
func TestServiceProviderOfAnOrganisation(t *testing.T) {
	t.Parallel()
	h := serving(t)
	u := config.Defaults()
	u.Organisations = []config.Organisation{{
		ID: "acme", Name: "Acme", UserProfileAttributes: config.UserProfileAttributes{
			SAMLSubjectName: config.SAMLSubjectName{Type: "username"}, CustomAttributeMappings: config.CustomAttributesMapping{AttributeToMapFrom: "name", AttributeToMapTo: "cn"},
			IdentityAttributes: map[string]config.IdentityAttribute{"name": {AttributeName: "display_name", Label: "What we call you", ShowExtendedFields: true}},
		},
		ServiceProviders: map[string]config.ServiceProvider{"wiki": {
			ID: "wiki", Name: "The wiki", SAMLMetadata: metadataAs(wikiEntity, wikiACS), IncludeUnmappedCustomAttributes: "true",
			IdentityAttributes: map[string]config.IdentityAttribute{
				"groups": {Optional: true}, "mail": {AttributeName: "email", Required: true, Verification: true, SAMLAttributeNames: map[string]string{"uri": "urn:oid:0.9.2342.19200300.100.1.3", "basic": "mail"}},
			},
		}},
	}}
	h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
	h.serve()
	b := h.browser()
	a := b.enter(b.request(h.authnRequest("_o1"), ""))
	for _, want := range []string{"The wiki wants to sign you in", "What we call you", "Demo Person", "E-mail address", `value="groups" checked`} {
		if !strings.Contains(a.Body.String(), want) {
			t.Errorf("the page does not say %q\n%s", want, a.Body)
		}
	}
	a = b.post(a, "decision", "allow", "shown-0", "email")
	if a.Code != http.StatusSeeOther && !strings.Contains(a.Body.String(), "wants to sign you in") {
		t.Errorf("a form that has not shown everything: %d, want to be asked again", a.Code)
	}
	a = b.request(h.authnRequest("_o2"), "")
	form := url.Values{"csrf": {a.csrf()}, "decision": {"allow"}, "shown-0": {"groups"}, "shown-1": {"email"}, "shown-2": {"display_name"}}
	action := html.UnescapeString(formTo.FindStringSubmatch(a.Body.String()[strings.Index(a.Body.String(), "<main"):])[1])
	d := b.do(http.MethodPost, action, form.Encode()).deliver(t)
	want := map[string][]string{"display_name": {"Demo Person"}, "urn:oid:0.9.2342.19200300.100.1.3": {demo}, "mail": {demo}}
	if got := d.attributes(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes %q, want %q", got, want)
	}
	if got := d.text(".//NameID"); got != demo {
		t.Errorf("NameID %q, want the username", got)
	}
	if d := b.request(h.authnRequest("_o3"), "").deliver(t); len(d.attributes()) != 3 {
		t.Errorf("a second time: attributes %q, want no question and the same", d.attributes())
	}
	// Somebody who does not allow it.
	other := h.browser()
	u2 := u
	h.units = func(storage.Tx) (*config.Units, error) { return &u2, nil }
	o := u.Organisations[0]
	sp := o.ServiceProviders["wiki"]
	sp.IdentityAttributes = map[string]config.IdentityAttribute{"username": {}}
	o.ServiceProviders = map[string]config.ServiceProvider{"wiki": sp}
	u2.Organisations = []config.Organisation{o}
	h.serve()
	a = other.enter(other.request(h.authnRequest("_o4"), ""))
	if d := other.post(a, "decision", "deny").deliver(t); !slices.Equal(d.status(), []string{"Responder", "RequestDenied"}) {
		t.Errorf("not allowed: %q", d.status())
	}
	h.checkInvariants()
}

// TestServiceProviderUnmapped: custom attributes are told under other names, and those without a row if that is said.
func TestServiceProviderUnmapped(t *testing.T) {
	t.Parallel()
	h := serving(t)
	h.cfg.Persons[0].Profile = &person.Profile{CustomAttributes: []person.CustomAttribute{{Name: "office", Value: "Utrecht"}, {Name: "desk", Value: "12"}}}
	h.cfg.Persons[0].Username = "mapped"
	sp := config.ServiceProvider{
		ID: "wiki", SAMLMetadata: metadataAs(wikiEntity, wikiACS), CustomAttributeMappings: config.CustomAttributesMapping{AttributeToMapFrom: "office", AttributeToMapTo: "l"},
		IdentityAttributes: map[string]config.IdentityAttribute{"office": {}},
	}
	for i, c := range []struct {
		unmapped string
		want     map[string][]string
	}{
		{"", map[string][]string{"l": {"Utrecht"}}},
		{"true", map[string][]string{"desk": {"12"}, "l": {"Utrecht"}}},
	} {
		sp.IncludeUnmappedCustomAttributes = c.unmapped
		u := config.Defaults()
		u.Organisations = []config.Organisation{{ID: "acme", ServiceProviders: map[string]config.ServiceProvider{"wiki": sp}}}
		h.units = func(storage.Tx) (*config.Units, error) { return &u, nil }
		h.serve()
		b := h.browser()
		a := b.post(b.request(h.authnRequest(fmt.Sprintf("_u%d", i)), ""), "username", "mapped", "password", demoPassword)
		if a = b.get(a.Header().Get("Location")); strings.Contains(a.Body.String(), "wants to sign you in") {
			a = b.post(a, "decision", "allow", "shown-0", "office", "shown-1", "desk")
		}
		if got := a.deliver(t).attributes(); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("unmapped %q: %q, want %q", c.unmapped, got, c.want)
		}
	}
}

// TestServiceProviderWithoutCookie: with cookie_based_saml_authentication off, each request needs a sign-in of its own.
func TestServiceProviderWithoutCookie(t *testing.T) {
	t.Parallel()
	h, u := configured(t)
	h.withKeys()
	h.serve(wiki())
	b := h.browser()
	again := func(id string) string { return b.request(h.authnRequest(id), "r").Body.String() }
	b.enter(b.request(h.authnRequest("_one"), "r"))
	if page := again("_two"); strings.Contains(page, `name="password"`) {
		t.Errorf("on: somebody who is signed in is asked\n%s", page)
	}
	u.Features.CookieBasedSAMLAuthentication = false
	h.clock.Advance(time.Minute)
	if page := again("_three"); !strings.Contains(page, `name="password"`) {
		t.Errorf("off: somebody who is signed in is not asked\n%s", page)
	}
	if d := b.request(h.authnRequest("_four", with(`IsPassive="true"`)...), "r").deliver(t); !slices.Contains(d.status(), "NoPassive") {
		t.Errorf("off, without a page: %q", d.status())
	}
	if d := b.enter(b.request(h.authnRequest("_five"), "r")).deliver(t); !slices.Equal(d.status(), []string{"Success"}) {
		t.Errorf("off, after another sign-in: %q", d.status())
	}
}
