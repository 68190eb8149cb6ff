package saml_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const (
	citizen = "s00000000:111222333" // by the rule of eleven
	basis   = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"
	midden  = "urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorContract"
	subst   = "urn:oasis:names:tc:SAML:2.0:ac:classes:Smartcard"
	hoog    = "urn:oasis:names:tc:SAML:2.0:ac:classes:SmartcardPKI"
	loa     = "urn:etoegang:core:assurance-class:loa"
	dv      = "urn:etoegang:DV:00000001123456789000:entities:0001"
)

// nation is a service provider with the stand-in of a national service.
type nation struct {
	*lab
	service *samltest.National
	client  *samltest.Key
	named   map[string]*samltest.Key // key pairs of the configuration
}

// newNation opens a service provider of a scheme that the service knows.
func newNation(t *testing.T, scheme, assurance string, edit ...func(*saml.Config)) *nation {
	t.Helper()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	n := &nation{lab: &lab{t: t, now: now}, client: samltest.NewKey("client", now)}
	n.service = samltest.NewNational("https://service.example/entity", func() time.Time { return n.now })
	t.Cleanup(n.service.Close)
	n.idp = n.service.Provider
	n.named = map[string]*samltest.Key{"client": n.client, "server": n.service.Server, "other": samltest.NewServerKey("other", now)}
	cfg := saml.Config{
		Metadata: n.service.Front.URL + "/metadata", Scheme: scheme, Assurance: assurance, ClientKey: "client",
		ServerCertificate: "server",
	}
	for _, e := range edit {
		e(&cfg)
	}
	n.reopen(cfg)
	return n
}

// reopen makes the service provider of a configuration.
func (n *nation) reopen(cfg saml.Config) {
	n.t.Helper()
	env := n.env()
	transport := &http.Transport{}
	n.t.Cleanup(transport.CloseIdleConnections)
	env.Client = &http.Client{Transport: transport, Timeout: 5 * time.Second}
	env.Checked = env.Client
	own := env.KeyPair
	env.KeyPair = func(ctx context.Context, name string) (*idp.Key, error) {
		if name == "" {
			return own(ctx, name)
		}
		k := n.named[name]
		if k == nil {
			return nil, errors.New("there is no such key pair")
		}
		return &idp.Key{Name: name, Certificate: k.Certificate, Signer: k.Signer}, nil
	}
	env.Certificate = func(_ context.Context, name string) (*x509.Certificate, error) {
		if n.named[name] == nil {
			return nil, errors.New("there is no such key pair")
		}
		return n.named[name].Certificate, nil
	}
	p, err := saml.New(cfg, env)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { p.Close() })
	n.Provider = p
	entity := sp
	if cfg.EntityID != "" {
		entity = cfg.EntityID
	}
	n.service.Know(samltest.Partner{
		EntityID: entity, ACS: acs, Signing: samltest.NewKey("sp", n.now).Certificate,
		Client: n.client.Certificate,
	})
	n.ask(idp.Request{MaxAge: -1})
}

// ask begins a sign-in that the service accepts.
func (n *nation) ask(q idp.Request) {
	n.t.Helper()
	q.Flow = flow
	next, err := n.Begin(n.t.Context(), q)
	if err != nil {
		n.t.Fatal(err)
	}
	n.state = next.State
	if n.query, err = n.service.Read(httptest.NewRequest(http.MethodGet, next.URL, nil)); err != nil {
		n.t.Fatalf("the service refuses the request: %v", err)
	}
}

// brings finishes the sign-in with what our address has in its query.
func (n *nation) brings(address string) (*idp.Identity, error) {
	return n.Finish(n.t.Context(), n.state, httptest.NewRequest(http.MethodGet, address, nil))
}

// answers finishes a new sign-in with the answer of a person.
func (n *nation) answers(name string, edit ...func(*samltest.Answer)) (*idp.Identity, error) {
	n.t.Helper()
	n.ask(idp.Request{MaxAge: -1})
	a := samltest.Honest(n.query, name)
	a.Class, a.Session = n.query.Class(), "session-1"
	for _, e := range edit {
		e(&a)
	}
	return n.brings(n.service.Issue(n.query, a))
}

func class(c string) func(*samltest.Answer) { return func(a *samltest.Answer) { a.Class = c } }

// TestDigiD: a sign-in by artifact, on a back channel with certificates.
func TestDigiD(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "middle", func(c *saml.Config) {
		c.Mapping = idp.Mapping{Attributes: []idp.Attribute{{From: "bsn", To: "citizen_number"}}}
	})
	root := n.query.XML.Root()
	if root.SelectElement("NameIDPolicy") != nil || n.query.Class() != midden {
		t.Errorf("the request asks for %s", samltest.Bytes(n.query.XML))
	}
	id, err := n.answers(citizen)
	if err != nil {
		t.Fatal(err)
	}
	if id.Subject != citizen || id.Level != 2 || !slices.Equal(id.Details["citizen_number"], []string{"111222333"}) {
		t.Errorf("Finish = %+v", id)
	}
	if old, err := n.answers("s00000001:111222333"); err != nil || old.Subject == id.Subject {
		t.Errorf("a number of another register: %+v, %v", old, err)
	}
	for _, name := range []string{
		"111222333", "s00000000:111222334", "s00000000:000000000", "s00000002:111222333", "s00000000:1112223330",
		"s00000000:111222333 ", "x",
	} {
		if id, err := n.answers(name); err == nil || id != nil {
			t.Errorf("the NameID %q signs in %+v", name, id)
		}
	}
	_, err = n.answers(citizen, func(a *samltest.Answer) { *a = samltest.Cancelled(n.query) })
	if no := new(idp.Rejection); !errors.As(err, &no) || !no.Cancelled || !strings.HasSuffix(no.SAMLStatus, ":AuthnFailed") {
		t.Errorf("gone back: %v, want a rejection that says so", err)
	}
	if _, err := n.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1, Passive: true}); !errors.As(err, new(*idp.Rejection)) {
		t.Errorf("without a page: %v, want a rejection", err)
	}
}

// TestDigiDLevels: each level asks for its class, and takes no lower one.
func TestDigiDLevels(t *testing.T) {
	t.Parallel()
	levels(t, saml.DigiD, []string{basis, midden, subst, hoog}, []int{1, 2, 3, 4},
		func(n *nation, c string) (*idp.Identity, error) { return n.answers(citizen, class(c)) })
}

// TestEToegangLevels: likewise at a broker of eToegang.
func TestEToegangLevels(t *testing.T) {
	t.Parallel()
	levels(t, saml.EToegang, []string{loa + "1", loa + "2", loa + "2plus", loa + "3", loa + "4"}, []int{1, 1, 2, 3, 4},
		func(n *nation, c string) (*idp.Identity, error) {
			return n.answers("p-1", class(c), func(a *samltest.Answer) { a.Format = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent" })
		})
}

func levels(t *testing.T, scheme string, classes []string, worth []int, answer func(*nation, string) (*idp.Identity, error)) {
	t.Helper()
	for i, name := range saml.SchemeLevels(scheme) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNation(t, scheme, name)
			if got := n.query.Class(); got != classes[i] {
				t.Errorf("the request asks for %s, want %s", got, classes[i])
			}
			for j, c := range classes {
				id, err := answer(n, c)
				if j >= i {
					if err != nil || id.Level != worth[j] {
						t.Errorf("an answer with %s: %+v, %v", c, id, err)
					}
					continue
				}
				if !errors.As(err, new(*idp.Rejection)) || id != nil {
					t.Errorf("attack 780: an answer with %s signs in %+v (%v)", c, id, err)
				}
			}
			for _, c := range []string{"", "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified", classes[i] + "x"} {
				if id, err := answer(n, c); c != "" && (err == nil || id != nil) {
					t.Errorf("attack 780: an answer with %q signs in %+v", c, id)
				}
			}
			// An application can ask for more than the configuration does.
			n.ask(idp.Request{MaxAge: -1, Level: 4})
			if got := n.query.Class(); got != classes[len(classes)-1] {
				t.Errorf("a request for level 4 asks for %s", got)
			}
			a := samltest.Honest(n.query, citizen)
			a.Class = classes[len(classes)-2]
			if id, err := n.brings(n.service.Issue(n.query, a)); err == nil {
				t.Errorf("attack 780: an answer below what the application asks for signs in %+v", id)
			}
		})
	}
}

// TestBackChannel: the certificates on the back channel, ours and theirs.
func TestBackChannel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		edit  func(*nation)
		cfg   func(*saml.Config)
		words string // of the error. Empty: it works
	}{
		{name: "as agreed"},
		{
			name:  "attack 781: a certificate that they do not know",
			edit:  func(n *nation) { n.named["client"] = samltest.NewKey("stranger", n.now) },
			words: "does not accept the certificate of client_key",
		},
		{
			name: "attack 781: no certificate", cfg: func(c *saml.Config) { c.Scheme, c.Assurance, c.Artifact, c.ClientKey = "", "", true, "" },
			words: "does not accept the certificate of client_key",
		},
		{name: "attack 781: another server", edit: func(n *nation) { n.named["server"] = n.named["other"] }, words: "shows another certificate"},
		{
			name: "attack 781: the same key in a certificate that has expired", edit: func(n *nation) { n.now = n.now.AddDate(2, 0, 0) },
			words: "has expired",
		},
		{
			name: "attack 781: a server that only the system would trust", cfg: func(c *saml.Config) { c.ServerCertificate = "" },
			words: "unknown authority",
		},
		{name: "our key pair is gone", edit: func(n *nation) { delete(n.named, "client") }, words: "no such key pair"},
		{name: "their certificate is gone", edit: func(n *nation) { delete(n.named, "server") }, words: "no such key pair"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNation(t, saml.DigiD, "basic")
			if tt.cfg != nil {
				cfg := saml.Config{
					Metadata: n.service.Front.URL + "/metadata", Scheme: saml.DigiD, Assurance: "basic", ClientKey: "client",
					ServerCertificate: "server",
				}
				tt.cfg(&cfg)
				lax := cfg.Scheme == ""
				if lax {
					cfg.AuthnContext = &saml.AuthnContext{Comparison: "minimum", Classes: []string{basis}}
				}
				n.reopen(cfg)
			}
			address := n.service.Issue(n.query, samltest.Honest(n.query, citizen))
			if tt.edit != nil {
				tt.edit(n)
			}
			id, err := n.brings(address)
			if tt.words == "" {
				if err != nil || id.Subject != citizen {
					t.Errorf("Finish = %+v, %v", id, err)
				}
			} else if id != nil || err == nil || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("Finish = %+v, %v, want words with %q", id, err, tt.words)
			}
			steps := n.Check(t.Context())
			if said := steps.Err(); (said == nil) != (tt.words == "") || said != nil && n.now.Year() == 2026 &&
				!strings.Contains(said.Error(), tt.words) {
				t.Errorf("Check = %v in %+v, want words with %q", said, steps, tt.words)
			}
		})
	}
}

// TestArtifactOnce: the service gives each answer away once, to its recipient, and not for long. What it does not give
// away signs no one in, and neither does an answer that comes another way.
func TestArtifactOnce(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "basic")
	address := n.service.Issue(n.query, samltest.Honest(n.query, citizen))
	if _, err := n.brings(address); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, id *idp.Identity, err error) {
		t.Helper()
		if id != nil || !errors.As(err, new(*idp.Invalid)) {
			t.Errorf("%s: %+v, %v, want *idp.Invalid", what, id, err)
		}
	}
	id, err := n.brings(address)
	refused("attack 782: a used artifact", id, err)
	n.ask(idp.Request{MaxAge: -1})
	address = n.service.Issue(n.query, samltest.Honest(n.query, citizen))
	n.now = n.now.Add(3 * time.Minute)
	id, err = n.brings(address)
	refused("attack 782: an old artifact", id, err)
	if said := n.service.Refused(); len(said) != 2 {
		t.Errorf("the service refused %q, want two artifacts", said)
	}

	n.ask(idp.Request{MaxAge: -1})
	address = n.service.Issue(n.query, samltest.Honest(n.query, citizen))
	n.ask(idp.Request{MaxAge: -1})
	id, err = n.brings(address)
	refused("attack 782: the artifact of another sign-in", id, err)

	raw := n.service.Response(samltest.Honest(n.query, citizen))
	id, err = n.finish(raw)
	refused("attack 782: a signed answer that the browser brings itself", id, err)
}

// TestNationalRefusesRequests: the stand-in refuses what such a service refuses, so what it accepts means something.
func TestNationalRefusesRequests(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "basic")
	next, err := n.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	bare, _, _ := strings.Cut(next.URL, "&SigAlg")
	for what, address := range map[string]string{"unsigned": bare, "changed": strings.Replace(next.URL, "RelayState=0", "RelayState=1", 1)} {
		if _, err := n.service.Read(httptest.NewRequest(http.MethodGet, address, nil)); err == nil {
			t.Errorf("a request that is %s is accepted", what)
		}
	}
	n.service.Know(samltest.Partner{
		EntityID: sp, ACS: "https://elsewhere.example/acs", Signing: samltest.NewKey("sp", n.now).Certificate,
		Client: n.client.Certificate,
	})
	if _, err := n.service.Read(httptest.NewRequest(http.MethodGet, next.URL, nil)); err == nil {
		t.Error("an answer to another place is promised")
	}
	stranger := newNation(t, saml.EToegang, "low", func(c *saml.Config) { c.EntityID = dv })
	if next, err = stranger.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.service.Read(httptest.NewRequest(http.MethodGet, next.URL, nil)); err == nil ||
		!strings.Contains(err.Error(), "unknown issuer") {
		t.Errorf("an unknown issuer: %v", err)
	}
}

// TestDigiDLogout: the service signs a person out by a request of its own.
func TestDigiDLogout(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "basic")
	slo := strings.Replace(acs, "/acs", "/slo", 1)
	ask := func(body []byte, kind string) (*httptest.ResponseRecorder, *ending) {
		r := httptest.NewRequest(http.MethodPost, slo, bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w, h := httptest.NewRecorder(), &ending{}
		if !n.Handle(w, r, "slo", h) {
			t.Fatal("there is no such endpoint")
		}
		return w, h
	}
	request := n.service.LogoutBySOAP(slo, citizen, "session-1")
	w, h := ask(request, "text/xml; charset=utf-8")
	if len(h.queries) != 1 || h.queries[0].Issuer != n.service.EntityID || len(h.queries[0].Sessions) != 1 {
		t.Fatalf("%d %s ends %+v (%v), want one session", w.Code, w.Body, h.queries, h.failed)
	}
	answer := etree.NewDocument()
	if err := answer.ReadFromBytes(w.Body.Bytes()); err != nil {
		t.Fatal(err)
	}
	said := answer.FindElement("/Envelope/Body/LogoutResponse")
	asked := samltest.Parse(request).FindElement("/Envelope/Body/LogoutRequest")
	if said == nil || said.SelectElement("Signature") == nil || said.SelectAttrValue("InResponseTo", "") != asked.SelectAttrValue("ID", "") ||
		said.FindElement("./Status/StatusCode").SelectAttrValue("Value", "") != samltest.Success {
		t.Errorf("the answer is %s", w.Body)
	}
	unsigned := samltest.Parse(n.service.LogoutBySOAP(slo, citizen, "session-1"))
	remove(unsigned.FindElement(".//Signature"))
	for what, body := range map[string][]byte{
		"attack 783: the same again":      request,
		"attack 783: without a signature": samltest.Bytes(unsigned),
		"attack 783: of another person": bytes.Replace(n.service.LogoutBySOAP(slo, citizen, "session-1"),
			[]byte("111222333"), []byte("123456782"), 1),
		"attack 783: for another endpoint": n.service.LogoutBySOAP("https://other.example/slo", citizen, "session-1"),
		"attack 783: no envelope":          []byte("<x/>"),
		"attack 783: too long":             bytes.Repeat([]byte("x"), 2<<20),
	} {
		t.Run(what, func(t *testing.T) {
			if w, h := ask(body, "text/xml"); h.failed == nil || len(h.queries) > 0 {
				t.Errorf("%d ends %+v", w.Code, h.queries)
			}
		})
	}
	w, h = ask(n.service.LogoutBySOAP(slo, citizen, strings.Repeat("x", 5000)), "text/xml")
	if h.failed != nil || len(h.queries) > 0 || !strings.Contains(w.Body.String(), "urn:oasis:names:tc:SAML:2.0:status:Requester") {
		t.Errorf("a signed request with a malformed session: %d %s ends %+v (%v), want status Requester", w.Code, w.Body, h.queries, h.failed)
	}
	if _, h := ask(n.service.LogoutBySOAP(slo, citizen, "session-1"), "application/x-www-form-urlencoded"); h.failed == nil ||
		len(h.queries) > 0 {
		t.Errorf("as a form it ends %+v", h.queries)
	}
	metadata := httptest.NewRecorder()
	n.Handle(metadata, httptest.NewRequest(http.MethodGet, sp, nil), "metadata", &ending{})
	if got := metadata.Body.String(); !strings.Contains(got, `bindings:SOAP" Location="`+slo) ||
		strings.Contains(got, `bindings:HTTP-POST" Location="`+acs) {
		t.Errorf("our metadata are %s", got)
	}
}

// ending remembers what a provider wants of the identity service.
type ending struct {
	queries []idp.EndQuery
	failed  error
}

func (e *ending) EndSessions(_ context.Context, q idp.EndQuery, _ *http.Request) (int, error) {
	e.queries = append(e.queries, q)
	return 1, nil
}

func (*ending) Ended(http.ResponseWriter, *http.Request, string) ([]byte, string, error) {
	return nil, "", idp.ErrNoFlow
}
func (*ending) Home() string                                             { return "/" }
func (*ending) Go(http.ResponseWriter, *http.Request, *idp.Next)         {}
func (e *ending) Fail(_ http.ResponseWriter, _ *http.Request, err error) { e.failed = err }

// TestEToegang: a broker names the person in encrypted attributes, for our entity ID and the key that is named.
func TestEToegang(t *testing.T) {
	t.Parallel()
	const acting, legal, bsn, pseudo = "urn:etoegang:core:ActingSubjectID", "urn:etoegang:core:LegalSubjectID",
		"urn:etoegang:1.12:EntityConcernedID:BSN", "urn:etoegang:1.12:EntityConcernedID:PseudoID"
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	sealing, others := samltest.NewKey("sealing", now), samltest.NewKey("others", now)
	n := newNation(t, saml.EToegang, "substantial", func(c *saml.Config) {
		c.EntityID, c.Via, c.Decrypt, c.ClientKey = dv, "urn:etoegang:EB:00000004000000149000:entities:9009", []string{"sealing"}, "client"
		c.Mapping = idp.Mapping{Attributes: []idp.Attribute{
			{From: bsn, To: "bsn"},
			{From: "urn:etoegang:1.9:attribute:FirstName", To: "given_name"},
		}}
	})
	n.named["sealing"] = sealing
	root := n.query.XML.Root()
	if via := root.FindElement("./Scoping/IDPList/IDPEntry"); via == nil ||
		!strings.HasSuffix(via.SelectAttrValue("ProviderID", ""), ":9009") || n.query.SP != dv ||
		root.SelectAttr("AssertionConsumerServiceURL") != nil || root.SelectAttr("ProtocolBinding") != nil ||
		root.SelectElement("NameIDPolicy") != nil {
		t.Errorf("the request is %s", samltest.Bytes(n.query.XML))
	}
	to := func(k *samltest.Key, content string) samltest.Answer {
		return samltest.Answer{Encrypt: k.Certificate, Content: content}
	}
	name := func(attribute string, sealed ...string) string {
		return `<saml:Attribute xmlns:saml="` + samltest.Assertion + `" Name="` + attribute + `"><saml:AttributeValue>` +
			strings.Join(sealed, `</saml:AttributeValue><saml:AttributeValue>`) + `</saml:AttributeValue></saml:Attribute>`
	}
	sealed := func(k *samltest.Key, recipient, kind, value string) string {
		return samltest.SealedName(to(k, samltest.AES256CBC), recipient, kind, value)
	}
	attribute := func(k *samltest.Key, raw string) *etree.Element {
		return samltest.Seal(to(k, samltest.AES256GCM), "EncryptedAttribute", []byte(raw))
	}
	plain := func(xml string) *etree.Element { return samltest.Parse([]byte(xml)).Root() }
	first := `<saml:Attribute xmlns:saml="` + samltest.Assertion +
		`" Name="urn:etoegang:1.9:attribute:FirstName"><saml:AttributeValue>Anna</saml:AttributeValue></saml:Attribute>`
	for _, tt := range []struct {
		name     string
		elements func() []*etree.Element
		subject  string // empty: refused
		bsn      string
	}{
		{"a number", func() []*etree.Element {
			return []*etree.Element{plain(name(acting, sealed(sealing, dv, bsn, "111222333"))), attribute(sealing, first)}
		}, bsn + ":111222333", "111222333"},
		{"a pseudonym", func() []*etree.Element {
			return []*etree.Element{plain(name(legal, sealed(sealing, dv, pseudo, "p1"))), attribute(sealing, first)}
		}, pseudo + ":p1", ""},
		{"both: the number", func() []*etree.Element {
			return []*etree.Element{
				plain(name(acting, sealed(sealing, dv, pseudo, "p1"), sealed(sealing, dv, bsn, "111222333"))),
				attribute(sealing, first),
			}
		}, bsn + ":111222333", "111222333"},
		{"acting for somebody", func() []*etree.Element {
			return []*etree.Element{
				plain(name(legal, sealed(sealing, dv, bsn, "123456782"))),
				plain(name(acting, sealed(sealing, dv, pseudo, "p2"))), attribute(sealing, first),
			}
		}, pseudo + ":p2", "123456782"},
		{"with a name for others", func() []*etree.Element {
			return []*etree.Element{plain(name(acting, sealed(others, "urn:etoegang:DV:2:entities:1", bsn, "123456782"),
				sealed(sealing, dv, pseudo, "p1"))), attribute(sealing, first)}
		}, pseudo + ":p1", ""},
		{"attack 873: a company alone", func() []*etree.Element {
			return []*etree.Element{
				plain(name(legal, sealed(sealing, dv, "urn:etoegang:1.9:EntityConcernedID:KvKnr", "12345678"))),
				attribute(sealing, first),
			}
		}, "", ""},
		{"attack 784: sealed for another key", func() []*etree.Element {
			return []*etree.Element{plain(name(acting, sealed(others, dv, bsn, "111222333")))}
		}, "", ""},
		{"attack 784: an attribute for another key", func() []*etree.Element { return []*etree.Element{attribute(others, first)} }, "", ""},
		{"attack 784: an attribute that is no attribute", func() []*etree.Element {
			return []*etree.Element{attribute(sealing, `<saml:NameID xmlns:saml="`+samltest.Assertion+`">x</saml:NameID>`)}
		}, "", ""},
		{"attack 784: two pseudonyms", func() []*etree.Element {
			return []*etree.Element{plain(name(acting, sealed(sealing, dv, pseudo, "p1"), sealed(sealing, dv, pseudo, "p2")))}
		}, "", ""},
		{"attack 784: only names for others", func() []*etree.Element {
			return []*etree.Element{plain(name(acting, sealed(others, "urn:etoegang:DV:2:entities:1", bsn, "123456782")))}
		}, "", ""},
		{"attack 890: who acts for a citizen is named for others only", func() []*etree.Element {
			return []*etree.Element{
				plain(name(legal, sealed(sealing, dv, bsn, "123456782"))),
				plain(name(acting, sealed(others, "urn:etoegang:DV:2:entities:1", pseudo, "p2"))),
			}
		}, "", ""},
		{"attack 890: who acts for a citizen is not named", func() []*etree.Element {
			return []*etree.Element{plain(name(legal, sealed(sealing, dv, bsn, "123456782"))), plain(name(acting))}
		}, "", ""},
		{"attack 890: somebody acts for a citizen, and no name says who", func() []*etree.Element {
			return []*etree.Element{
				plain(name(legal, sealed(sealing, dv, bsn, "123456782"))),
				plain(name("urn:etoegang:core:Representation", "true")),
			}
		}, "", ""},
		{"nobody acts for them", func() []*etree.Element {
			return []*etree.Element{
				plain(name(legal, sealed(sealing, dv, bsn, "123456782"))),
				plain(name("urn:etoegang:core:Representation", "false")), attribute(sealing, first),
			}
		}, bsn + ":123456782", "123456782"},
		{"attack 890: a name without its kind", func() []*etree.Element {
			return []*etree.Element{plain(name(acting, sealed(sealing, dv, "", "111222333")))}
		}, "", ""},
		{"attack 784: a hundred of them", func() (out []*etree.Element) {
			for range 100 {
				out = append(out, attribute(sealing, first))
			}
			return out
		}, "", ""},
		{"no name that lasts", func() []*etree.Element { return []*etree.Element{plain(first)} }, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, err := n.answers("changes", func(a *samltest.Answer) {
				a.Format, a.Class = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient", loa+"3"
				a.Edit = func(root *etree.Element) {
					statement := find(root, "./Assertion").CreateElement("saml:AttributeStatement")
					for _, e := range tt.elements() {
						statement.AddChild(e)
					}
				}
			})
			switch {
			case tt.subject == "" && (err == nil || id != nil):
				t.Errorf("Finish = %+v, want it refused", id)
			case tt.subject == "":
			case err != nil:
				t.Errorf("Finish = %v %v", err, errors.Unwrap(err))
			case id.Subject != tt.subject || strings.Join(id.Details["bsn"], " ") != tt.bsn ||
				strings.Join(id.Details["given_name"], "") != "Anna" || id.Level != 3:
				t.Errorf("Finish = %+v, want %s with %q", id, tt.subject, tt.bsn)
			}
		})
	}
	t.Run("attack 891: who acts for a citizen is not taken for them by identify_by", func(t *testing.T) {
		n := newNation(t, saml.EToegang, "substantial", func(c *saml.Config) {
			c.EntityID, c.Decrypt, c.ClientKey, c.IdentifyBy = dv, []string{"sealing"}, "client", bsn
		})
		n.named["sealing"] = sealing
		for _, tt := range []struct {
			name, acting, stable string
		}{
			{"the citizen", sealed(sealing, dv, bsn, "123456782"), "123456782"},
			{"who acts for them", sealed(sealing, dv, pseudo, "p2"), ""},
		} {
			id, err := n.answers("changes", func(a *samltest.Answer) {
				a.Format, a.Class = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient", loa+"3"
				a.Edit = func(root *etree.Element) {
					statement := find(root, "./Assertion").CreateElement("saml:AttributeStatement")
					statement.AddChild(plain(name(acting, tt.acting)))
					if tt.stable == "" {
						statement.AddChild(plain(name(legal, sealed(sealing, dv, bsn, "123456782"))))
					}
				}
			})
			if err != nil || id.Stable != tt.stable {
				t.Errorf("%s: %+v, %v, want to be known by %q", tt.name, id, err, tt.stable)
			}
		}
	})
	t.Run("an encrypted assertion", func(t *testing.T) {
		id, err := n.answers("p-1", func(a *samltest.Answer) {
			a.Format, a.Encrypt, a.SignResponse = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", sealing.Certificate, true
		})
		if err != nil || id.Subject != "p-1" {
			t.Errorf("Finish = %+v, %v", id, err)
		}
	})
	metadata := httptest.NewRecorder()
	n.Handle(metadata, httptest.NewRequest(http.MethodGet, sp, nil), "metadata", &ending{})
	for _, want := range []string{`entityID="` + dv + `"`, "AttributeConsumingService", bsn, url.PathEscape("acs")} {
		if !strings.Contains(metadata.Body.String(), want) {
			t.Errorf("our metadata lack %s: %s", want, metadata.Body)
		}
	}
}

// TestSchemeConfig: what a scheme decides is not decided a second time.
func TestSchemeConfig(t *testing.T) {
	t.Parallel()
	good := saml.Config{Metadata: "https://service.example/metadata", Scheme: saml.DigiD, Assurance: "middle", ClientKey: "client"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(*saml.Config){
		"no level":             func(c *saml.Config) { c.Assurance = "" },
		"a level of another":   func(c *saml.Config) { c.Assurance = "low_plus" },
		"no certificate":       func(c *saml.Config) { c.ClientKey = "" },
		"an unknown scheme":    func(c *saml.Config) { c.Scheme = "x" },
		"a service of another": func(c *saml.Config) { c.Via = "urn:x:y" },
		"a context": func(c *saml.Config) {
			c.AuthnContext = &saml.AuthnContext{Comparison: "exact", Classes: []string{"urn:x:y"}}
		},
		"levels":                   func(c *saml.Config) { c.Levels = map[string]int{"urn:x:y": 4} },
		"unsolicited":              func(c *saml.Config) { c.AllowUnsolicited = true },
		"a level without a scheme": func(c *saml.Config) { c.Scheme = "" },
		"an entity ID":             func(c *saml.Config) { c.EntityID = "no uri" },
	} {
		c := good
		if edit(&c); c.Validate() == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}
