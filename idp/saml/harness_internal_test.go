package saml

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beevik/etree"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
)

// newKey creates a key pair with a certificate that is valid for ten years.
func newKey(name string) *idp.Key {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: start.AddDate(-1, 0, 0), NotAfter: start.AddDate(9, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return &idp.Key{Name: name, Certificate: cert, Signer: key}
}

var (
	start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

	ourKey   = sync.OnceValue(func() *idp.Key { return newKey("ours") })
	nextKey  = sync.OnceValue(func() *idp.Key { return newKey("next") })
	idpKey   = sync.OnceValue(func() *idp.Key { return newKey("idp") })
	otherKey = sync.OnceValue(func() *idp.Key { return newKey("other") })
)

const (
	issuer0   = "https://auth.example.com"
	entity    = "https://idp.example.com/entity"
	ssoAt     = "https://idp.example.com/sso?tenant=a%20b"
	sloAt     = "https://idp.example.com/slo"
	sloBackAt = "https://idp.example.com/slo/back"
	arsAt     = "https://idp.example.com/ars"
	flowID    = "0123456789abcdefghijklmnopqrstuvwxyzABCDE_-"
)

// transport answers requests to every host.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answerOf(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

// world is a provider and its surroundings.
type world struct {
	*Provider

	t     *testing.T
	clock *clocktest.Clock
	host  *scriptedHost

	mu    sync.Mutex // guards used
	used  map[string]bool
	calls transport // what Env.Client does
	check transport // what Env.Checked does
}

func newEnv(w *world) idp.Env {
	refuse := func(which string) transport {
		return func(*http.Request) (*http.Response, error) { return nil, errors.New("no request by " + which) }
	}
	if w.calls == nil {
		w.calls = refuse("Client")
	}
	if w.check == nil {
		w.check = refuse("Checked")
	}
	return idp.Env{
		ID: "partner", Issuer: issuer0, Now: w.clock.Now, Random: rand.Reader, Log: zap.NewNop(),
		Client: &http.Client{Transport: w.calls}, Checked: &http.Client{Transport: w.check},
		Once: func(_ context.Context, key string, _ time.Time) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.used[key] {
				return idp.ErrReplayed
			}
			w.used[key] = true
			return nil
		},
		KeyPair: func(_ context.Context, name string) (*idp.Key, error) {
			switch name {
			case "":
				return ourKey(), nil
			case "next":
				return nextKey(), nil
			}
			return nil, fmt.Errorf("there is no key pair %q", name)
		},
	}
}

// newWorld creates a provider from cfg. Without metadata in cfg it gets that of the scripted provider.
func newWorld(t *testing.T, cfg Config, options ...func(*world)) *world {
	t.Helper()
	w := &world{t: t, clock: clocktest.New(start), used: map[string]bool{}, host: &scriptedHost{}}
	for _, o := range options {
		o(w)
	}
	if cfg.Metadata == "" {
		cfg.Metadata = metadataOf(entity, idpKey())
	}
	p, err := New(cfg, newEnv(w))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	w.Provider = p
	return w
}

// metadataOf is the metadata of the scripted provider, with every binding.
func metadataOf(id string, keys ...*idp.Key) string {
	var certs strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&certs, `<md:KeyDescriptor use="signing"><ds:KeyInfo xmlns:ds="%s"><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`,
			nsDsig, base64.StdEncoding.EncodeToString(k.Certificate.Raw))
	}
	return fmt.Sprintf(`<md:EntityDescriptor xmlns:md="%s" entityID="%s"><md:IDPSSODescriptor protocolSupportEnumeration="%s">%s`+
		`<md:ArtifactResolutionService Binding="urn:oasis:names:tc:SAML:2.0:bindings:SOAP" Location="%s" index="7"/>`+
		`<md:SingleLogoutService Binding="%s" Location="%s" ResponseLocation="%s"/><md:SingleLogoutService Binding="%s" Location="%s"/>`+
		`<md:SingleSignOnService Binding="%s" Location="%s"/><md:SingleSignOnService Binding="%s" Location="%s/post"/>`+
		`</md:IDPSSODescriptor></md:EntityDescriptor>`,
		nsMetadata, id, nsProtocol, certs.String(), arsAt, bindingRedirect, sloAt, sloBackAt, bindingPost, sloAt, bindingRedirect,
		ssoAt, bindingPost, sloAt)
}

func without(metadata string, pieces ...string) string {
	for _, p := range pieces {
		if !strings.Contains(metadata, p) {
			panic("the metadata has no " + p)
		}
		metadata = strings.ReplaceAll(metadata, p, "")
	}
	return metadata
}

// begin starts a sign-in by redirect. It returns the request, its parameters and the stored state.
func (w *world) begin(q idp.Request) (*etree.Element, url.Values, []byte) {
	w.t.Helper()
	if q.Flow == "" {
		q.Flow = flowID
	}
	next, err := w.Begin(w.t.Context(), q)
	if err != nil {
		w.t.Fatalf("Begin: %v", err)
	}
	if next.URL == "" {
		w.t.Fatalf("Begin = a form for %s, want an address", next.Form.Action)
	}
	u, err := url.Parse(next.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.inflated(u.Query().Get(paramRequest)), u.Query(), next.State
}

func (w *world) inflated(message string) *etree.Element {
	w.t.Helper()
	raw, err := inflate(message)
	if err != nil {
		w.t.Fatal(err)
	}
	return parsed(w.t, raw)
}

func parsed(t *testing.T, raw []byte) *etree.Element {
	t.Helper()
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return doc.Root()
}

const instant = "2006-01-02T15:04:05Z" // of SAML messages

// message is a protocol message of another party, without content.
func message(kind, id, issuer, destination string, now time.Time) *etree.Element {
	e := etree.NewElement("samlp:" + kind)
	for _, a := range []struct{ name, value string }{
		{"xmlns:samlp", nsProtocol},
		{"xmlns:saml", nsAssertion},
		{"ID", id},
		{"Version", version},
		{"IssueInstant", now.UTC().Format(instant)},
		{"Destination", destination},
	} {
		if a.value != "" {
			e.CreateAttr(a.name, a.value)
		}
	}
	e.CreateElement("saml:Issuer").SetText(issuer)
	return e
}

// answerTo returns an unsigned answer to one of our requests.
func (w *world) answerTo(request string) *etree.Element {
	now := w.clock.Now().Format(instant)
	later := w.clock.Now().Add(5 * time.Minute).Format(instant)
	answers := ""
	if request != "" {
		answers = fmt.Sprintf(`InResponseTo="%s"`, request)
	}
	id, err := newID(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	e := parsed(w.t, fmt.Appendf(nil,
		`<samlp:Response xmlns:samlp="%s" xmlns:saml="%s" ID="R%s" Version="2.0" IssueInstant="%s" Destination="%s" %s>`+
			`<saml:Issuer>%s</saml:Issuer><samlp:Status><samlp:StatusCode Value="%s"/></samlp:Status>`+
			`<saml:Assertion ID="%s" Version="2.0" IssueInstant="%s"><saml:Issuer>%s</saml:Issuer>`+
			`<saml:Subject><saml:NameID Format="%s" NameQualifier="%s">p-1234</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer">`+
			`<saml:SubjectConfirmationData Recipient="%s" NotOnOrAfter="%s" %s/></saml:SubjectConfirmation></saml:Subject>`+
			`<saml:Conditions NotBefore="%s" NotOnOrAfter="%s"><saml:AudienceRestriction><saml:Audience>%s</saml:Audience></saml:AudienceRestriction></saml:Conditions>`+
			`<saml:AuthnStatement AuthnInstant="%s" SessionIndex="s-1" SessionNotOnOrAfter="%s"><saml:AuthnContext><saml:AuthnContextClassRef>urn:class:two</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>`+
			`<saml:AttributeStatement>`+
			`<saml:Attribute Name="urn:oid:0.9.2342.19200300.100.1.3"><saml:AttributeValue>alice@example.org</saml:AttributeValue></saml:Attribute>`+
			`<saml:Attribute Name="urn:oid:0.9.2342.19200300.100.1.1"><saml:AttributeValue>alice</saml:AttributeValue></saml:Attribute>`+
			`<saml:Attribute Name="https://claims.example.com/group" FriendlyName="groups"><saml:AttributeValue>staff</saml:AttributeValue><saml:AttributeValue>admins</saml:AttributeValue></saml:Attribute>`+
			`</saml:AttributeStatement></saml:Assertion></samlp:Response>`,
		nsProtocol, nsAssertion, id, now, w.at("acs"), answers, entity, statusSuccess, id, now, entity, formatPersistent, entity,
		w.at("acs"), later, answers,
		now, later, w.entityID, now, w.clock.Now().Add(8*time.Hour).Format(instant)))
	return e
}

// posted returns a callback with the answer, after signing it.
func (w *world) posted(e *etree.Element, relay string) *http.Request {
	w.t.Helper()
	if err := sign(e, idpKey()); err != nil {
		w.t.Fatal(err)
	}
	return w.form("acs", url.Values{paramResponse: {encoded(w.t, e)}, paramRelay: {relay}})
}

func (w *world) form(op string, values url.Values) *http.Request {
	r := httptest.NewRequestWithContext(w.t.Context(), http.MethodPost, w.at(op), strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func encoded(t *testing.T, e *etree.Element) string {
	t.Helper()
	raw, err := write(e)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// scriptedHost stands for the identity service.
type scriptedHost struct {
	queries []idp.EndQuery
	err     error // of EndSessions
	state   []byte
	ret     string
	went    *idp.Next
	failed  error
}

func (h *scriptedHost) EndSessions(_ context.Context, q idp.EndQuery, _ *http.Request) (int, error) {
	h.queries = append(h.queries, q)
	return 1, h.err
}

func (h *scriptedHost) Ended(_ http.ResponseWriter, _ *http.Request, flow string) ([]byte, string, error) {
	if flow != flowID || h.state == nil {
		return nil, "", idp.ErrNoFlow
	}
	state := bytes.Clone(h.state)
	h.state = nil
	return state, h.ret, nil
}

func (*scriptedHost) Home() string { return "/home" }

func (h *scriptedHost) Go(_ http.ResponseWriter, _ *http.Request, n *idp.Next) { h.went = n }

func (h *scriptedHost) Fail(_ http.ResponseWriter, _ *http.Request, err error) { h.failed = err }

func isInvalid(err error) bool { return errors.As(err, new(*idp.Invalid)) }
