package identitytest

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// WikiEntity is the entity ID of the service provider wiki.
const WikiEntity = "https://wiki.example.com/saml"

// WikiACS is the address at which the wiki takes answers.
const WikiACS = "https://wiki.example.com/acs"

// StatusNS begins the status codes of SAML.
const StatusNS = "urn:oasis:names:tc:SAML:2.0:status:"

// NewServing makes the harness an identity provider for service providers.
func NewServing(t testing.TB, providers ...serviceprovider.Provider) *Harness {
	t.Helper()
	h := New(t)
	h.WithKeys()
	h.Serve(providers...)
	return h
}

// WithKeys gives the service key pairs.
func (h *Harness) WithKeys() {
	own := samltest.NewKey("idp", h.Clock.Now())
	h.keyPair = func(_ context.Context, name string) (*idp.Key, error) {
		if name != "" {
			own := samltest.NewKey(name, h.Clock.Now())
			return &idp.Key{Name: name, Certificate: own.Certificate, Signer: own.Signer}, nil
		}
		bare := &idp.Key{Signer: own.Signer} // next keys that have no certificate to publish
		return &idp.Key{Certificate: own.Certificate, Signer: own.Signer, Others: []*idp.Key{bare}}, nil
	}
}

// Serve starts the service again with these service providers.
func (h *Harness) Serve(providers ...serviceprovider.Provider) {
	h.T.Helper()
	for i := range providers {
		if err := providers[i].Validate(); err != nil {
			h.T.Fatal(err)
		}
	}
	h.Config.ServiceProviders.Providers = providers
	h.Start()
	h.Person.Watch(h.ServiceProviders.WithWatcher(NoWatcher{}))
}

// NoWatcher is the watcher of a server without clients.
type NoWatcher struct{}

// SessionEnded implements session.Watcher.
func (NoWatcher) SessionEnded(storage.Tx, string, string) error { return nil }

// SessionsEnded implements session.Watcher.
func (NoWatcher) SessionsEnded(storage.Tx, string, string) error { return nil }

// TokensEnded implements session.Watcher.
func (NoWatcher) TokensEnded(storage.Tx, string, string) error { return nil }

// LogoutFrames implements session.Watcher.
func (NoWatcher) LogoutFrames(context.Context, string, string) ([]string, error) {
	return nil, nil
}

// MetadataAs is the metadata of a service provider.
func MetadataAs(entity, acs string, more ...string) string {
	return fmt.Sprintf(`<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s">`+
		`<md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">%s`+
		`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s" index="1" isDefault="true"/>`+
		`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s/second" index="2"/>`+
		`</md:SPSSODescriptor></md:EntityDescriptor>`, entity, strings.Join(more, ""), acs, acs)
}

// Wiki is a service provider that signs nothing.
func Wiki(change ...func(*serviceprovider.Provider)) serviceprovider.Provider {
	p := serviceprovider.Provider{ID: "wiki", Name: "The wiki", Metadata: MetadataAs(WikiEntity, WikiACS)}
	for _, f := range change {
		f(&p)
	}
	return p
}

// AuthnRequest is an AuthnRequest. Replace what a test needs.
func (h *Harness) AuthnRequest(id string, change ...string) string {
	x := fmt.Sprintf(`<samlp:AuthnRequest xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="%s" Version="2.0" IssueInstant="%s" `+
		`Destination="%s/sso/saml" AssertionConsumerServiceURL="%s"><saml:Issuer>%s</saml:Issuer></samlp:AuthnRequest>`,
		id, h.Clock.Now().Format(time.RFC3339), Issuer, WikiACS, WikiEntity)
	for i := 0; i+1 < len(change); i += 2 {
		if !strings.Contains(x, change[i]) {
			h.T.Fatalf("the request has no %q", change[i])
		}
		x = strings.ReplaceAll(x, change[i], change[i+1])
	}
	return x
}

// WithAttributes adds attributes to a request.
func WithAttributes(attributes string) []string {
	return []string{` Version="2.0"`, ` Version="2.0" ` + attributes}
}

// Deflate compresses a message for an address.
func Deflate(x string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, flate.BestCompression)
	_, _ = w.Write([]byte(x))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// ByRedirect is the address that brings a message. key signs it. nil: nothing does.
func ByRedirect(path, param, x, relay string, key *samltest.Key) string {
	octets := param + "=" + url.QueryEscape(Deflate(x))
	if relay != "" {
		octets += "&RelayState=" + url.QueryEscape(relay)
	}
	if key != nil {
		octets += "&SigAlg=" + url.QueryEscape(samltest.RSASHA256)
		octets += "&Signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(samltest.Signature{Key: key}.Octets([]byte(octets))))
	}
	return path + "?" + octets
}

// Request opens a request by redirect.
func (b *Browser) Request(x, relay string) *Answer {
	b.H.T.Helper()
	return b.Get(ByRedirect("/sso/saml", "SAMLRequest", x, relay, nil))
}

// HiddenField matches a hidden field of a form.
var HiddenField = regexp.MustCompile(`<input type="hidden" name="([A-Za-z]+)" value="([^"]*)">`)

// FormAction matches the address of a form.
var FormAction = regexp.MustCompile(`<form method="post" action="([^"]*)"`)

// FormPolicy matches the addresses to which a page may send forms.
var FormPolicy = regexp.MustCompile(`form-action ([^;]*)`)

// Delivered is a message in a form that goes to a service provider.
type Delivered struct {
	To, Relay string
	Raw       string
	Xml       *etree.Element
}

// Deliver reads the page that brings a message to a service provider.
func (a *Answer) Deliver(t testing.TB) Delivered {
	t.Helper()
	form := FormAction.FindStringSubmatch(a.Body.String())
	if a.Code != http.StatusOK || form == nil {
		t.Fatalf("%s: status %d, want a form for a service provider\n%s", a.URL, a.Code, a.Body)
	}
	d := Delivered{To: html.UnescapeString(form[1])}
	for _, m := range HiddenField.FindAllStringSubmatch(a.Body.String(), -1) {
		switch m[1] {
		case "SAMLResponse", "SAMLRequest":
			d.Raw = html.UnescapeString(m[2])
		case "RelayState":
			d.Relay = html.UnescapeString(m[2])
		}
	}
	raw, err := base64.StdEncoding.DecodeString(d.Raw)
	if err != nil || len(raw) == 0 {
		t.Fatalf("%s: no message in the form to %s\n%s", a.URL, d.To, a.Body)
	}
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil {
		t.Fatal(err)
	}
	d.Xml = doc.Root()
	if got := FormPolicy.FindStringSubmatch(a.Header().Get("Content-Security-Policy")); got == nil || got[1] != d.To {
		t.Errorf("form-action %q, want %s alone", got, d.To)
	}
	return d
}

// Status returns the status codes of a response, the outer one first.
func (d Delivered) Status() []string {
	var out []string
	for e := d.Xml.FindElement("./Status/StatusCode"); e != nil; e = e.SelectElement("StatusCode") {
		out = append(out, strings.TrimPrefix(e.SelectAttrValue("Value", ""), StatusNS))
	}
	return out
}

// Text returns the text of an element of the message.
func (d Delivered) Text(path string) string {
	e := d.Xml.FindElement(path)
	if e == nil {
		return ""
	}
	return e.Text()
}

// Enter signs the person in on the page that a request has led to, and returns what comes after.
func (b *Browser) Enter(a *Answer) *Answer {
	b.H.T.Helper()
	a = b.Post(a, "username", Demo, "password", DemoPassword)
	if a.Code != http.StatusSeeOther {
		b.H.T.Fatalf("sign-in: status %d\n%s", a.Code, a.Body)
	}
	return b.Get(a.Header().Get("Location"))
}
