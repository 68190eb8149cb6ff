package samlidp_test

import (
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	schema "github.com/crewjam/saml"
	dsig "github.com/russellhaering/goxmldsig"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const (
	head = `xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_one" ` +
		`Version="2.0" IssueInstant="2026-11-21T12:00:00Z"`
	issuer   = `<saml:Issuer>` + entity + `</saml:Issuer>`
	acs      = ` AssertionConsumerServiceURL="` + service + `"`
	signsOn  = `<samlp:AuthnRequest ` + head + ` Destination="` + signOn + `"` + acs + `>` + issuer + `</samlp:AuthnRequest>`
	signsOut = `<samlp:LogoutRequest ` + head + ` Destination="` + logout + `">` + issuer +
		`<saml:NameID>anna@example</saml:NameID><samlp:SessionIndex>one</samlp:SessionIndex></samlp:LogoutRequest>`
)

// TestLibrary gives requests to crewjam/saml as an identity provider too, with its strictest switches. Where it says
// something else than we do, the decision of what the library is used for has a row.
func TestLibrary(t *testing.T) {
	schema.MaxIssueDelay, schema.MaxClockSkew = 10*time.Minute, time.Minute // package variables, ours in this test
	t.Parallel()
	c := &comparison{t: t, key: samltest.NewKey("sp", now), ec: samltest.NewKey("ec", now), other: samltest.NewKey("other", now)}
	c.described = xmlOf(c.key, c.ec)
	c.unsigned()
	for _, out := range []bool{false, true} {
		c.signed(out)
	}
	c.sessions()
	lacks, has, err := c.verdicts.Unlike("../../../docs/adr/0010-saml-library-0.6.md", "### Requests")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(&c.verdicts)
	if len(lacks)+len(has) > 0 {
		t.Errorf("the table lacks\n%s\nand has without reason\n%s", strings.Join(lacks, "\n"), strings.Join(has, "\n"))
	}
}

// comparison gives the same messages to both.
type comparison struct {
	t              *testing.T
	verdicts       samltest.Verdicts
	key, ec, other *samltest.Key
	described      string // metadata of a service provider that signs
}

// try sends a message of the service provider that metadata describe. Without a query it goes by POST.
func (c *comparison) try(name, metadata string, m message, out bool) {
	c.t.Helper()
	defer func() {
		if p := recover(); p != nil {
			c.t.Errorf("%s: the library panics: %v", name, p)
		}
	}()
	source, err := samlidp.NewSource(metadata, samlidp.Options{}, nil, clock, zap.NewNop())
	if err == nil {
		_, err = read(source.Known(), m.request(), out)
	}
	c.verdicts.Add(name, c.library(metadata, m.request(), out), err)
}

// library is the verdict of crewjam/saml.
func (c *comparison) library(metadata string, r *http.Request, out bool) error {
	var sp schema.EntityDescriptor
	if err := xml.Unmarshal([]byte(metadata), &sp); err != nil {
		return err
	}
	own := samltest.NewKey("idp", now)
	idp := &schema.IdentityProvider{
		Signer: own.Signer, Certificate: own.Certificate, SSOURL: address(c.t, signOn), LogoutURL: address(c.t, logout),
		ServiceProviderProvider: provider{&sp}, Clock: dsig.NewFakeClockAt(now), RejectSHA1Signatures: true, StrictACSBinding: true,
	}
	if out {
		q, err := schema.NewIdpLogoutRequest(idp, r)
		if err != nil {
			return err
		}
		return q.Validate()
	}
	q, err := schema.NewIdpAuthnRequest(idp, r)
	if err != nil {
		return err
	}
	return q.Validate()
}

// provider implements schema.ServiceProviderProvider.
type provider struct{ known *schema.EntityDescriptor }

func (p provider) GetServiceProvider(_ *http.Request, id string) (*schema.EntityDescriptor, error) {
	if id != p.known.EntityID {
		return nil, os.ErrNotExist
	}
	return p.known, nil
}

func address(t testing.TB, s string) url.URL {
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return *u
}

// put replaces a part of a message that must be in it.
func (c *comparison) put(x, old, with string) string {
	c.t.Helper()
	if !strings.Contains(x, old) {
		c.t.Fatalf("no %s in %s", old, x)
	}
	return strings.Replace(x, old, with, 1)
}

// query is a message of the redirect binding. key nil: not signed.
func (c *comparison) query(x, relay string, key *samltest.Key) string {
	q := "SAMLRequest=" + url.QueryEscape(deflated(c.t, x)) + "&RelayState=" + url.QueryEscape(relay)
	if key == nil {
		return q
	}
	q += "&SigAlg=" + url.QueryEscape(map[bool]string{true: samltest.ECDSASHA256, false: samltest.RSASHA256}[key == c.ec])
	return q + "&Signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(samltest.Signature{Key: key}.Octets([]byte(q))))
}

// with returns a message with a signature inside.
func (c *comparison) with(x string, how samltest.Signature) message {
	if how.Key == nil {
		how.Key = c.key
	}
	doc := samltest.Parse([]byte(x))
	samltest.Sign(doc.Root(), how)
	return message{xml: string(samltest.Bytes(doc))}
}

// unsigned are requests of a service provider that does not sign.
func (c *comparison) unsigned() {
	open := strings.Replace(xmlOf(), `AuthnRequestsSigned="true"`, "", 1)
	const binding = ` ProtocolBinding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-`
	for name, x := range map[string]string{
		"as it should be":                         signsOn,
		"attack 172: another address":             c.put(signsOn, service, "https://evil.example/acs"),
		"attack 172: a longer address":            c.put(signsOn, service, service+".evil.example"),
		"attack 172: an address with a query":     c.put(signsOn, service, service+"?x=1"),
		"attack 172: an address with a user name": c.put(signsOn, service, "https://wiki.example.com@evil.example/acs"),
		"attack 172: an address in capitals":      c.put(signsOn, service, strings.ToUpper(service)),
		"attack 172: an address of script":        c.put(signsOn, service, "javascript:alert(1)"),
		"attack 172: an index of nothing":         c.put(signsOn, acs, ` AssertionConsumerServiceIndex="3"`),
		"attack 172: a negative index":            c.put(signsOn, acs, ` AssertionConsumerServiceIndex="-1"`),
		"attack 172: index and address":           c.put(signsOn, acs, acs+` AssertionConsumerServiceIndex="1"`),
		"attack 172: by artifact":                 c.put(signsOn, acs, acs+binding+`Artifact"`),
		"attack 172: by redirect":                 c.put(signsOn, acs, acs+binding+`Redirect"`),
		"attack 172: by artifact, to the default": c.put(signsOn, acs, binding+`Artifact"`),
		"attack 174: no Issuer":                   c.put(signsOn, issuer, ""),
		"attack 174: an empty Issuer":             c.put(signsOn, entity+"<", "<"),
		"attack 174: an unknown Issuer":           c.put(signsOn, entity+"<", "https://unknown.example<"),
		"attack 174: an Issuer with a space":      c.put(signsOn, entity+"<", entity+" <"),
		"attack 174: an Issuer of another format": c.put(signsOn, "<saml:Issuer", `<saml:Issuer Format="urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"`),
		"attack 174: no version":                  c.put(signsOn, `Version="2.0"`, ""),
		"attack 174: version 3.0":                 c.put(signsOn, `Version="2.0"`, `Version="3.0"`),
		"attack 174: an ID of another spelling":   c.put(signsOn, " ID=", " id="),
		"attack 174: another destination":         c.put(signsOn, signOn, logout),
		"attack 174: another message":             strings.ReplaceAll(signsOn, "AuthnRequest", "LogoutRequest"),
		"attack 174: of SAML 1.1":                 c.put(signsOn, "SAML:2.0:protocol", "SAML:1.1:protocol"),
		"attack 174: an unknown element":          c.put(signsOn, issuer, issuer+"<samlp:Other/>"),
		"attack 176: 12 minutes old":              c.put(signsOn, "12:00:00", "11:48:00"),
		"attack 176: of the future":               c.put(signsOn, "12:00:00", "12:03:00"),
		"attack 176: an instant in words":         c.put(signsOn, "2026-11-21T12:00:00Z", "yesterday"),
		"attack 176: no instant":                  c.put(signsOn, ` IssueInstant="2026-11-21T12:00:00Z"`, ""),
		"attack 392: a document type":             `<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>` + signsOn,
		"attack 392: a comment in the Issuer":     c.put(signsOn, entity+"<", "https://wiki<!-- -->.example.com/saml<"),
		"attack 392: an instruction":              c.put(signsOn, issuer, "<?php ?>"+issuer),
		"attack 392: CDATA":                       c.put(signsOn, entity+"<", "<![CDATA["+entity+"]]><"),
		"attack 392: 70 deep":                     c.put(signsOn, issuer, strings.Repeat("<saml:a>", 70)+strings.Repeat("</saml:a>", 70)+issuer),
		"attack 392: 70 KB":                       c.put(signsOn, entity+"<", entity+strings.Repeat(" ", 70<<10)+"<"),
		"attack 392: two Issuers":                 c.put(signsOn, issuer, issuer+issuer),
		"attack 392: 11,000 elements":             c.put(signsOn, issuer, strings.Repeat(`<saml:a/>`, 11_000)+issuer),
		"attack 392: nothing":                     "",
	} {
		c.try(name, open, message{xml: x}, false)
		c.try(name, open, message{query: c.query(x, "r", nil)}, false)
	}
}

// signed are requests of a service provider that signs.
func (c *comparison) signed(out bool) {
	x, destination := signsOn, signOn
	if out {
		x, destination = signsOut, logout
	}
	destination = ` Destination="` + destination + `"`
	for name, m := range map[string]message{
		"signed as it should be":                     c.with(x, samltest.Signature{}),
		"signed by ECDSA":                            c.with(x, samltest.Signature{Key: c.ec}),
		"attack 391: not signed":                     {xml: x},
		"attack 391: by another key":                 c.with(x, samltest.Signature{Key: c.other}),
		"attack 391: SHA-1":                          c.with(x, samltest.Signature{Method: samltest.RSASHA1}),
		"attack 391: SHA-1 as digest":                c.with(x, samltest.Signature{Digest: samltest.SHA1}),
		"attack 391: HMAC":                           c.with(x, samltest.Signature{Method: samltest.HMACSHA256}),
		"attack 391: a reference to another element": c.with(x, samltest.Signature{URI: "#_other"}),
		"attack 391: with comments":                  c.with(x, samltest.Signature{Canonical: samltest.WithComments}),
		"attack 391: transforms in the other order":  c.with(x, samltest.Signature{Transforms: []string{samltest.Exclusive, samltest.Enveloped}}),
		"attack 391: changed":                        {xml: c.put(c.with(x, samltest.Signature{}).xml, "_one", "_two")},
		"attack 391: without destination":            c.with(c.put(x, destination, ""), samltest.Signature{}),
		"attack 391: the destination removed":        {xml: c.put(c.with(x, samltest.Signature{}).xml, destination, "")},
		"attack 391: a signature at the end":         {xml: moved(c.with(x, samltest.Signature{}).xml)},
		"a query signed as it should be":             {query: c.query(x, "r", c.key)},
		"a query signed by ECDSA":                    {query: c.query(x, "r", c.ec)},
		"attack 391: a query by another key":         {query: c.query(x, "r", c.other)},
		"attack 391: a query that is not signed":     {query: c.query(x, "r", nil)},
		"attack 391: another RelayState":             {query: c.put(c.query(x, "r", c.key), "RelayState=r", "RelayState=s")},
		"attack 391: no RelayState":                  {query: c.put(c.query(x, "r", c.key), "&RelayState=r", "")},
		"attack 391: RelayState twice":               {query: c.query(x, "r", c.key) + "&RelayState=x"},
		"attack 391: two messages":                   {query: c.query(x, "r", c.key) + "&SAMLRequest=x"},
		"attack 391: a response":                     {query: c.put(c.query(x, "r", c.key), "SAMLRequest", "SAMLResponse")},
		"attack 391: an unknown encoding":            {query: c.query(x, "r", c.key) + "&SAMLEncoding=none"},
		"attack 391: another algorithm in the query": {query: c.put(c.query(x, "r", c.key), "rsa-sha256", "rsa-sha512")},
		"attack 391: a broken query":                 {query: c.put(c.query(x, "r", c.key), "&Signature=", "&Signature=AAAA")},
		"attack 391: two signatures, one broken":     {query: c.query(c.put(c.with(x, samltest.Signature{}).xml, "_one", "_two"), "r", c.key)},
		"attack 391: two signatures, one foreign":    {query: c.query(c.with(x, samltest.Signature{Key: c.other}).xml, "r", c.key)},
		"attack 396: a RelayState of 1025 bytes":     {query: c.query(x, strings.Repeat("x", 1025), c.key)},
		"attack 396: a RelayState with line ends":    {query: c.query(x, "a\r\nSet-Cookie: x=y", c.key)},
	} {
		c.try(name, c.described, m, out)
	}
	old := samltest.NewKeyUntil("sp", now.AddDate(-2, 0, 0), now.Add(-time.Hour))
	c.try("attack 146: an expired certificate", xmlOf(old), c.with(x, samltest.Signature{Key: old}), out)
	c.try("attack 146: a query by an expired certificate", xmlOf(old), message{query: c.query(x, "r", old)}, out)
	c.try("attack 146: metadata that have expired", c.put(c.described, "entityID=", `validUntil="2026-11-21T11:00:00Z" entityID=`),
		c.with(x, samltest.Signature{}), out)
}

// sessions are LogoutRequests that name the session in another way.
func (c *comparison) sessions() {
	for name, x := range map[string]string{
		"no name":               c.put(signsOut, "<saml:NameID>anna@example</saml:NameID>", ""),
		"two names":             c.put(signsOut, "</saml:NameID>", "</saml:NameID><saml:NameID>root</saml:NameID>"),
		"elements in the name":  c.put(signsOut, "anna@", "anna<saml:x/>@"),
		"an empty name":         c.put(signsOut, "anna@example", " "),
		"an empty session":      c.put(signsOut, ">one<", "><"),
		"elements in a session": c.put(signsOut, ">one<", ">one<saml:x/><"),
		"51 sessions": c.put(signsOut, "<samlp:SessionIndex>one</samlp:SessionIndex>",
			strings.Repeat("<samlp:SessionIndex>one</samlp:SessionIndex>", 51)),
		"after its end":      c.put(signsOut, "<samlp:LogoutRequest", `<samlp:LogoutRequest NotOnOrAfter="2026-11-21T11:58:00Z"`),
		"an end in words":    c.put(signsOut, "<samlp:LogoutRequest", `<samlp:LogoutRequest NotOnOrAfter="soon"`),
		"an unknown element": c.put(signsOut, issuer, issuer+"<samlp:Other/>"),
	} {
		c.try("attack 393: "+name, c.described, c.with(x, samltest.Signature{}), true)
	}
	c.try("attack 393: a comment in the name", c.described, message{xml: c.put(c.with(signsOut, samltest.Signature{}).xml, "anna@", "anna<!-- -->@")}, true)
}

// moved returns a message whose signature comes last.
func moved(x string) string {
	doc := samltest.Parse([]byte(x))
	s := doc.Root().SelectElement("ds:Signature")
	doc.Root().RemoveChild(s)
	doc.Root().AddChild(s)
	return string(samltest.Bytes(doc))
}
