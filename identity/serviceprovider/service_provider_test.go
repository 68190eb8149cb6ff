package serviceprovider_test

import (
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

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	wikiSLO    = "https://wiki.example.com/slo"
	persistent = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"
	transient  = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
	emailName  = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
)

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

// inside adds elements after the issuer of a request.
func inside(elements string) []string { return []string{"</saml:Issuer>", "</saml:Issuer>" + elements} }

// attributes returns those of the assertion.
func attributes(d identitytest.Delivered) map[string][]string {
	out := map[string][]string{}
	for _, a := range d.Xml.FindElements(".//Attribute") {
		for _, v := range a.SelectElements("AttributeValue") {
			out[a.SelectAttrValue("Name", "")] = append(out[a.SelectAttrValue("Name", "")], v.Text())
		}
	}
	return out
}

// realOnes are service providers that are this program's own, on the other side.
func realOne(h *identitytest.Harness, id, host string) (*saml.Provider, serviceprovider.Provider) {
	h.T.Helper()
	used := map[string]bool{}
	key := samltest.NewKey("sp "+id, h.Clock.Now())
	p, err := saml.New(saml.Config{Metadata: h.Browser().Get("/sso/metadata").Body.String()}, idp.Env{
		ID: id, Issuer: host, Now: h.Clock.Now, Random: rand.Reader, Log: zap.NewNop(),
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
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() { p.Close() })
	w := httptest.NewRecorder()
	p.Handle(w, httptest.NewRequest(http.MethodGet, host+"/saml/"+id+"/metadata", nil), "metadata", nil)
	return p, serviceprovider.Provider{ID: id, Name: id, Metadata: w.Body.String()}
}

// TestServiceProviderSignIn: two service providers with signed requests and encrypted assertions sign a person in. Each
// knows the person by another name, the same each time, and takes no assertion of the other.
func TestServiceProviderSignIn(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	shop, shopSP := realOne(h, "shop", "https://shop.example.com")
	desk, deskSP := realOne(h, "desk", "https://desk.example.com")
	shopSP.Attributes = []serviceprovider.Attribute{
		{Source: "name"},
		{Source: "groups"},
		{Source: "email", Names: []serviceprovider.Name{{Format: "uri", Name: "urn:oid:0.9.2342.19200300.100.1.3"}}},
	}
	h.Serve(shopSP, deskSP)
	b := h.Browser()
	enter := func(p *saml.Provider, force bool) (*idp.Identity, identitytest.Delivered, []byte) {
		t.Helper()
		next, err := p.Begin(t.Context(), idp.Request{Flow: strings.Repeat("f", 43), Force: force, MaxAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		a := b.Get(strings.TrimPrefix(next.URL, identitytest.Issuer))
		if strings.Contains(a.Body.String(), `name="password"`) {
			a = b.Enter(a)
		}
		d := a.Deliver(t)
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
	if e := answered.Xml.FindElement("./EncryptedAssertion"); e == nil || answered.Xml.FindElement("./Assertion") != nil {
		t.Error("the assertion is not encrypted, although the metadata have a key for that")
	}
	if answered.Relay != strings.Repeat("f", 43) {
		t.Errorf("RelayState %q", answered.Relay)
	}
	t.Run("attack 394: the answer is taken to another service provider", func(t *testing.T) {
		if _, err := desk.Finish(t.Context(), state, sentOn(answered)); err == nil {
			t.Error("it takes the answer")
		}
	})
	h.Clock.Advance(time.Minute)
	again, _, _ := enter(shop, false)
	other, _, _ := enter(desk, false)
	if again.Subject != first.Subject || other.Subject == first.Subject {
		t.Errorf("names %q, %q at the shop and %q at the desk, want one for each service provider", first.Subject, again.Subject, other.Subject)
	}
	h.Clock.Advance(time.Minute)
	if forced, _, _ := enter(shop, true); !forced.AuthTime.Equal(h.Clock.Now()) {
		t.Errorf("ForceAuthn: signed in at %s, want now", forced.AuthTime)
	}
	if n := h.Events()["login.ServiceProviderSignedInEvent"]; n != 4 {
		t.Errorf("%d events of sign-ins at service providers, want 4", n)
	}
	h.CheckInvariants()
}

// sentOn is the request by which a browser brings an answer to a service provider.
func sentOn(d identitytest.Delivered) *http.Request {
	r := httptest.NewRequest(http.MethodPost, d.To, strings.NewReader(url.Values{"SAMLResponse": {d.Raw}, "RelayState": {d.Relay}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// TestServiceProviderAnswer: what an assertion says of the person and the sign-in, by redirect and by POST.
func TestServiceProviderAnswer(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t, identitytest.Wiki(func(p *serviceprovider.Provider) {
		p.Attributes = []serviceprovider.Attribute{
			{Source: "username"},
			{Source: "name", Names: []serviceprovider.Name{{Format: "basic", Name: "displayName"}}},
			{Source: "groups"},
			{Source: "nickname"},
		}
	}))
	b := h.Browser()
	x := h.AuthnRequest("_one")
	a := b.Do(http.MethodPost, "/sso/saml",
		url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(x))}, "RelayState": {`"><script>alert(1)</script>`}}.Encode())
	if a.Code != http.StatusSeeOther {
		t.Fatalf("a request by POST: %d\n%s", a.Code, a.Body)
	}
	a = b.Enter(b.Get(a.Header().Get("Location")))
	d := a.Deliver(t)
	t.Run("attack 177: markup as RelayState", func(t *testing.T) {
		if d.To != identitytest.WikiACS || d.Relay != `"><script>alert(1)</script>` || strings.Contains(a.Body.String(), "<script>alert") ||
			!slices.Equal(d.Status(), []string{"Success"}) {
			t.Errorf("to %q with %q and status %q", d.To, d.Relay, d.Status())
		}
	})
	want := map[string][]string{"username": {identitytest.Demo}, "displayName": {"Demo Person"}, "groups": {"staff", "editors"}}
	if got := attributes(d); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes %q, want %q", got, want)
	}
	for path, want := range map[string]string{
		".//Audience": identitytest.WikiEntity, "./Issuer": identitytest.Issuer + "/sso/metadata", ".//AuthnContextClassRef": samltest.Password,
	} {
		if got := d.Text(path); got != want {
			t.Errorf("%s = %q, want %q", path, got, want)
		}
	}
	t.Run("attack 178: what an answer says of the sign-in", func(t *testing.T) {
		data := d.Xml.FindElement(".//SubjectConfirmationData")
		until := data.SelectAttrValue("NotOnOrAfter", "")
		if data.SelectAttrValue("Recipient", "") != identitytest.WikiACS || data.SelectAttrValue("InResponseTo", "") != "_one" ||
			until > h.Clock.Now().Add(5*time.Minute+time.Second).Format(time.RFC3339) || data.SelectAttr("Address") != nil {
			t.Errorf("confirmation %v", data.Attr)
		}
		if n := len(d.Xml.FindElements(".//Signature")); n != 2 {
			t.Errorf("%d signatures, want one of the assertion and one of the response", n)
		}
	})
	// Signed in already: no page is between.
	if d := b.Request(h.AuthnRequest("_two", identitytest.WithAttributes(`IsPassive="true"`)...), "r").Deliver(t); d.Relay != "r" ||
		d.Status()[0] != "Success" {
		t.Errorf("a passive request of somebody who is signed in: %q", d.Status())
	}
	if d := b.Request(h.AuthnRequest("_three", ` AssertionConsumerServiceURL="`+identitytest.WikiACS+`"`,
		` AssertionConsumerServiceIndex="2"`), "").Deliver(t); d.To != identitytest.WikiACS+"/second" {
		t.Errorf("by index 2: to %s", d.To)
	}
	h.CheckInvariants()
}

// TestServiceProviderStatus: a service provider learns by a status why there is no sign-in.
func TestServiceProviderStatus(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t, identitytest.Wiki())
	context := func(comparison, class string) []string {
		return inside(`<samlp:RequestedAuthnContext Comparison="` + comparison + `"><saml:AuthnContextClassRef>` + class +
			`</saml:AuthnContextClassRef></samlp:RequestedAuthnContext>`)
	}
	policy := func(attributes string) []string { return inside(`<samlp:NameIDPolicy ` + attributes + `/>`) }
	named := func(attributes, name string) []string {
		return inside(`<saml:Subject><saml:NameID ` + attributes + `>` + name + `</saml:NameID></saml:Subject>`)
	}
	for name, c := range map[string]struct {
		signedIn bool
		change   []string
		want     string
	}{
		"passive, and no one is signed in":   {false, identitytest.WithAttributes(`IsPassive="true"`), "Responder NoPassive"},
		"passive, and a new sign-in":         {true, identitytest.WithAttributes(`IsPassive="true" ForceAuthn="true"`), "Responder NoPassive"},
		"a class that there is not":          {true, context("exact", "urn:example:retina"), "Responder NoAuthnContext"},
		"stronger than all":                  {true, context("better", "https://refeds.org/profile/mfa"), "Responder NoAuthnContext"},
		"not stronger than nothing":          {true, context("maximum", "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified"), "Success"},
		"a password":                         {true, context("exact", samltest.Password), "Success"},
		"a password at least":                {true, context("minimum", samltest.Password), "Success"},
		"an address that nobody has allowed": {true, policy(`Format="` + emailName + `"`), "Requester InvalidNameIDPolicy"},
		"a format that there is not": {
			true, policy(`Format="urn:oasis:names:tc:SAML:2.0:nameid-format:kerberos"`),
			"Requester InvalidNameIDPolicy",
		},
		"a name of an affiliation": {
			true, policy(`Format="` + persistent + `" SPNameQualifier="https://other.example"`),
			"Requester InvalidNameIDPolicy",
		},
		"a transient name":                {true, policy(`Format="` + transient + `"`), "Success"},
		"a transient name of SAML 1.1":    {true, policy(`Format="urn:oasis:names:tc:SAML:1.1:nameid-format:transient"`), "Success"},
		"an unspecified name of SAML 2.0": {true, policy(`Format="urn:oasis:names:tc:SAML:2.0:nameid-format:unspecified"`), "Success"},
		"an address by SAML 2.0": {
			true, policy(`Format="urn:oasis:names:tc:SAML:2.0:nameid-format:emailAddress"`),
			"Requester InvalidNameIDPolicy",
		},
		"another person is named": {true, named("", "root"), "Responder UnknownPrincipal"},
		"the person is named":     {true, named("", " "+identitytest.Demo+" "), "Success"},
		"the person is named in capitals": {
			true,
			named(`Format="urn:oasis:names:tc:SAML:2.0:nameid-format:unspecified"`, strings.ToUpper(identitytest.Demo)), "Success",
		},
		"a persistent name of no one": {true, named(`Format="`+persistent+`"`, identitytest.Demo), "Responder UnknownPrincipal"},
		"a transient name is named":   {true, named(`Format="`+transient+`"`, identitytest.Demo), "Responder UnknownPrincipal"},
		"the person of another affiliation": {
			true, named(`SPNameQualifier="https://other.example"`, identitytest.Demo),
			"Responder UnknownPrincipal",
		},
		"the person with a confirmation": {
			true,
			inside(`<saml:Subject><saml:NameID>` + identitytest.Demo + `</saml:NameID><saml:SubjectConfirmation Method="urn:x"/></saml:Subject>`),
			"Requester RequestUnsupported",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := h.Browser()
			if c.signedIn {
				b.SignIn(identitytest.Demo, identitytest.DemoPassword)
				h.Clock.Advance(time.Second)
			}
			d := b.Request(h.AuthnRequest("_"+base64.RawURLEncoding.EncodeToString([]byte(name)), c.change...), "relay").Deliver(t)
			if got := strings.Join(d.Status(), " "); got != c.want || d.Relay != "relay" || d.To != identitytest.WikiACS {
				t.Errorf("status %q to %s with %q, want %q", got, d.To, d.Relay, c.want)
			}
			if has := d.Xml.FindElement("./Assertion") != nil; has != (c.want == "Success") {
				t.Errorf("an assertion: %t", has)
			}
			if d.Xml.FindElement("./Signature") == nil {
				t.Error("the response is not signed")
			}
		})
	}
	t.Run("passive, and the person would get a page", func(t *testing.T) {
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		for i, change := range []func(*serviceprovider.Provider){
			func(p *serviceprovider.Provider) { p.Groups = []string{"admins"} },
			func(p *serviceprovider.Provider) {
				p.Attributes = []serviceprovider.Attribute{{Source: "phone_number", Required: true}}
			},
			func(p *serviceprovider.Provider) {
				p.Subject = serviceprovider.Subject{Format: "unspecified", Attribute: "phone_number"}
			},
		} {
			h.Serve(identitytest.Wiki(change))
			d := b.Request(h.AuthnRequest(fmt.Sprintf("_page%d", i), identitytest.WithAttributes(`IsPassive="true"`)...), "").Deliver(t)
			if got := strings.Join(d.Status(), " "); got != "Responder NoPassive" {
				t.Errorf("%d: status %q", i, got)
			}
		}
		h.Serve(identitytest.Wiki())
	})
	t.Run("a cancelled sign-in", func(t *testing.T) {
		b := h.Browser()
		a := b.Request(h.AuthnRequest("_cancelled"), "")
		cancel := regexp.MustCompile(`href="(/sso/continue[^"]*cancel=1)"`).FindStringSubmatch(a.Body.String())
		if cancel == nil {
			t.Fatalf("no link back\n%s", a.Body)
		}
		if got := b.Get(html.UnescapeString(cancel[1])).Deliver(t).Status(); !slices.Equal(got, []string{"Responder", "AuthnFailed"}) {
			t.Errorf("status %q", got)
		}
	})
	h.CheckInvariants()
}

// TestServiceProviderNames: how people are named, by the request and by the configuration.
func TestServiceProviderNames(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	name := func(p serviceprovider.Provider, id, format string) (string, string, *identitytest.Answer) {
		t.Helper()
		h.Serve(p)
		b := h.Browser()
		b.SignIn(identitytest.Demo, identitytest.DemoPassword)
		var change []string
		if format != "" {
			change = inside(`<samlp:NameIDPolicy Format="` + format + `"/>`)
		}
		a := b.Request(h.AuthnRequest(id, change...), "")
		if a.Code != http.StatusOK {
			return "", "", a
		}
		e := a.Deliver(t).Xml.FindElement(".//NameID")
		if e == nil {
			return "", "", a
		}
		return e.Text(), e.SelectAttrValue("Format", ""), a
	}
	subject := func(format, attribute, fallback string) serviceprovider.Provider {
		return identitytest.Wiki(func(p *serviceprovider.Provider) {
			p.Subject = serviceprovider.Subject{Format: format, Attribute: attribute, Fallback: fallback}
		})
	}
	first, format, _ := name(identitytest.Wiki(), "_n1", "")
	if again, _, _ := name(identitytest.Wiki(), "_n2", persistent); first == "" || again != first || format != persistent {
		t.Errorf("persistent: %q (%s), then %q", first, format, again)
	}
	once, _, _ := name(identitytest.Wiki(), "_n3", transient)
	if again, format, _ := name(identitytest.Wiki(), "_n4", transient); once == "" || again == once || format != transient {
		t.Errorf("transient: %q, then %q (%s)", once, again, format)
	}
	if v, format, _ := name(subject("email", "", ""), "_n5", ""); v != identitytest.Demo || format != emailName {
		t.Errorf("email: %q (%s)", v, format)
	}
	if v, _, _ := name(subject("unspecified", "", ""), "_n6", ""); v != identitytest.Demo {
		t.Errorf("unspecified: %q, want the username", v)
	}
	if v, _, _ := name(subject("unspecified", "nickname", "username"), "_n7", ""); v != identitytest.Demo {
		t.Errorf("a fallback: %q, want the username", v)
	}
	if v, _, a := name(subject("unspecified", "nickname", ""), "_n8", ""); v != "" || a.Code != http.StatusForbidden {
		t.Errorf("nothing to name the person by: %q, status %d, want a page", v, a.Code)
	}
	// Metadata that name a format are followed.
	if _, format, _ := name(identitytest.Wiki(func(p *serviceprovider.Provider) {
		p.Metadata = identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS, "<md:NameIDFormat>"+transient+"</md:NameIDFormat>")
	}), "_n9", ""); format != transient {
		t.Errorf("the metadata name transient: %s", format)
	}
}

// TestServiceProviderOfAnOrganisation: the service providers of the configuration API sign people in, with what their
// organisation and they say, and people are asked first.
func TestServiceProviderOfAnOrganisation(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	u := settings.Defaults()
	u.Organisations = []settings.Organisation{{
		ID: "acme", Name: "Acme", UserProfileAttributes: settings.UserProfileAttributes{
			SAMLSubjectName:         settings.SAMLSubjectName{Type: "username"},
			CustomAttributeMappings: settings.CustomAttributesMapping{AttributeToMapFrom: "name", AttributeToMapTo: "cn"},
			IdentityAttributes: map[string]settings.IdentityAttribute{"name": {
				AttributeName: "display_name", Label: "What we call you",
				ShowExtendedFields: true,
			}},
		},
		ServiceProviders: map[string]settings.ServiceProvider{"wiki": {
			ID: "wiki", Name: "The wiki", SAMLMetadata: identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS),
			IncludeUnmappedCustomAttributes: "true",
			IdentityAttributes: map[string]settings.IdentityAttribute{
				"groups": {Optional: true},
				"mail": {
					AttributeName: "email", Required: true, Verification: true,
					SAMLAttributeNames: map[string]string{"uri": "urn:oid:0.9.2342.19200300.100.1.3", "basic": "mail"},
				},
			},
		}},
	}}
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
	h.Serve()
	b := h.Browser()
	a := b.Enter(b.Request(h.AuthnRequest("_o1"), ""))
	for _, want := range []string{
		"The wiki wants to sign you in", "What we call you", "Demo Person", "E-mail address",
		`value="groups" checked`,
	} {
		if !strings.Contains(a.Body.String(), want) {
			t.Errorf("the page does not say %q\n%s", want, a.Body)
		}
	}
	a = b.Post(a, "decision", "allow", "shown-0", "email")
	if a.Code != http.StatusSeeOther && !strings.Contains(a.Body.String(), "wants to sign you in") {
		t.Errorf("a form that has not shown everything: %d, want to be asked again", a.Code)
	}
	a = b.Request(h.AuthnRequest("_o2"), "")
	form := url.Values{"csrf": {a.CSRF()}, "decision": {"allow"}, "shown-0": {"groups"}, "shown-1": {"email"}, "shown-2": {"display_name"}}
	action := html.UnescapeString(identitytest.FormAction.FindStringSubmatch(a.Body.String()[strings.Index(a.Body.String(), "<main"):])[1])
	d := b.Do(http.MethodPost, action, form.Encode()).Deliver(t)
	want := map[string][]string{
		"display_name": {"Demo Person"}, "urn:oid:0.9.2342.19200300.100.1.3": {identitytest.Demo},
		"mail": {identitytest.Demo},
	}
	if got := attributes(d); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("attributes %q, want %q", got, want)
	}
	if got := d.Text(".//NameID"); got != identitytest.Demo {
		t.Errorf("NameID %q, want the username", got)
	}
	if d := b.Request(h.AuthnRequest("_o3"), "").Deliver(t); len(attributes(d)) != 3 {
		t.Errorf("a second time: attributes %q, want no question and the same", attributes(d))
	}
	// Someone who does not allow it.
	other := h.Browser()
	u2 := u
	h.Units = func(storage.Tx) (*settings.Units, error) { return &u2, nil }
	o := u.Organisations[0]
	sp := o.ServiceProviders["wiki"]
	sp.IdentityAttributes = map[string]settings.IdentityAttribute{"username": {}}
	o.ServiceProviders = map[string]settings.ServiceProvider{"wiki": sp}
	u2.Organisations = []settings.Organisation{o}
	h.Serve()
	a = other.Enter(other.Request(h.AuthnRequest("_o4"), ""))
	if d := other.Post(a, "decision", "deny").Deliver(t); !slices.Equal(d.Status(), []string{"Responder", "RequestDenied"}) {
		t.Errorf("not allowed: %q", d.Status())
	}
	h.CheckInvariants()
}

// TestServiceProviderUnmapped: custom attributes are told under other names, and those without a row if that is said.
func TestServiceProviderUnmapped(t *testing.T) {
	t.Parallel()
	h := identitytest.NewServing(t)
	h.Config.Persons[0].Profile = &person.Profile{CustomAttributes: []person.CustomAttribute{
		{Name: "office", Value: "Utrecht"},
		{Name: "desk", Value: "12"},
	}}
	h.Config.Persons[0].Username = "mapped"
	sp := settings.ServiceProvider{
		ID: "wiki", SAMLMetadata: identitytest.MetadataAs(identitytest.WikiEntity, identitytest.WikiACS),
		CustomAttributeMappings: settings.CustomAttributesMapping{AttributeToMapFrom: "office", AttributeToMapTo: "l"},
		IdentityAttributes:      map[string]settings.IdentityAttribute{"office": {}},
	}
	for i, c := range []struct {
		unmapped string
		want     map[string][]string
	}{
		{"", map[string][]string{"l": {"Utrecht"}}},
		{"true", map[string][]string{"desk": {"12"}, "l": {"Utrecht"}}},
	} {
		sp.IncludeUnmappedCustomAttributes = c.unmapped
		u := settings.Defaults()
		u.Organisations = []settings.Organisation{{ID: "acme", ServiceProviders: map[string]settings.ServiceProvider{"wiki": sp}}}
		h.Units = func(storage.Tx) (*settings.Units, error) { return &u, nil }
		h.Serve()
		b := h.Browser()
		a := b.Post(b.Request(h.AuthnRequest(fmt.Sprintf("_u%d", i)), ""), "username", "mapped", "password", identitytest.DemoPassword)
		if a = b.Get(a.Header().Get("Location")); strings.Contains(a.Body.String(), "wants to sign you in") {
			a = b.Post(a, "decision", "allow", "shown-0", "office", "shown-1", "desk")
		}
		if got := attributes(a.Deliver(t)); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("unmapped %q: %q, want %q", c.unmapped, got, c.want)
		}
	}
}

// TestServiceProviderWithoutCookie: with cookie_based_saml_authentication off, each request needs a sign-in of its own.
func TestServiceProviderWithoutCookie(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t)
	h.WithKeys()
	h.Serve(identitytest.Wiki())
	b := h.Browser()
	again := func(id string) string { return b.Request(h.AuthnRequest(id), "r").Body.String() }
	b.Enter(b.Request(h.AuthnRequest("_one"), "r"))
	if page := again("_two"); strings.Contains(page, `name="password"`) {
		t.Errorf("on: somebody who is signed in is asked\n%s", page)
	}
	u.Features.CookieBasedSAMLAuthentication = false
	h.Clock.Advance(time.Minute)
	if page := again("_three"); !strings.Contains(page, `name="password"`) {
		t.Errorf("off: somebody who is signed in is not asked\n%s", page)
	}
	if d := b.Request(h.AuthnRequest("_four", identitytest.WithAttributes(`IsPassive="true"`)...),
		"r").Deliver(t); !slices.Contains(d.Status(), "NoPassive") {
		t.Errorf("off, without a page: %q", d.Status())
	}
	if d := b.Enter(b.Request(h.AuthnRequest("_five"), "r")).Deliver(t); !slices.Equal(d.Status(), []string{"Success"}) {
		t.Errorf("off, after another sign-in: %q", d.Status())
	}
}
