package samltest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1" //nolint:gosec // names providers in artifacts
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// artifactLife is the time during which an artifact can be resolved.
const artifactLife = 2 * time.Minute

// National is the stand-in of a national sign-in service, such as DigiD or a broker of eToegang. It answers by
// artifact, and refuses what such services refuse: requests that are not signed or not for it, unknown service
// providers, a back channel without the certificate that it knows, and artifacts that are unknown, old or used.
type National struct {
	*Provider
	// Front is the server for browsers, Back the one that resolves artifacts. Back demands a certificate.
	Front, Back *httptest.Server
	// Server is the key of Back.
	Server *Key

	mu       sync.Mutex // guards all below
	partners map[string]Partner
	waiting  map[string]waiting // by artifact
	refused  []string           // what was refused, in words
	asked    []Request          // requests that were accepted
	answer   func(q Request, name string) Answer
}

// Partner is a service provider that the service knows.
type Partner struct {
	EntityID, ACS string
	Signing       *x509.Certificate // of its requests
	Client        *x509.Certificate // of its back channel
	Encryption    *x509.Certificate // that assertions are encrypted for
}

type waiting struct {
	partner string
	answer  []byte
	until   time.Time
}

// NewNational starts the service. Close ends it.
func NewNational(entityID string, now func() time.Time) *National {
	n := &National{
		Provider: New(entityID, now), Server: NewServerKey("server of "+entityID, now()), partners: map[string]Partner{},
		waiting: map[string]waiting{}, answer: Honest,
	}
	n.Front = httptest.NewServer(http.HandlerFunc(n.serveFront))
	n.Back = httptest.NewUnstartedServer(http.HandlerFunc(n.serveBack))
	n.Back.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that tests end
	n.Back.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert,
		Certificates:     []tls.Certificate{{Certificate: [][]byte{n.Server.Certificate.Raw}, PrivateKey: n.Server.Signer}},
		VerifyConnection: n.checkClient,
	}
	n.Back.StartTLS()
	n.SSO, n.SLO, n.Artifact = n.Front.URL+"/sso", n.Front.URL+"/slo", n.Back.URL+"/artifact"
	return n
}

// NewServerKey is NewKey for a server at 127.0.0.1. Its certificate is its own authority.
func NewServerKey(name string, now time.Time) *Key {
	key := NewKey(name, now)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Signer.Public(), key.Signer)
	check(err)
	c, err := x509.ParseCertificate(der)
	check(err)
	return &Key{key.Signer, c}
}

// Close ends the servers.
func (n *National) Close() { n.Front.Close(); n.Back.Close() }

// Know makes a service provider known, or known again.
func (n *National) Know(p Partner) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.partners[p.EntityID] = p
}

// KnowMetadata makes a service provider known by its metadata, and returns it. client is the certificate of its back
// channel.
func (n *National) KnowMetadata(raw []byte, client *x509.Certificate) (Partner, error) {
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil {
		return Partner{}, err
	}
	acs := doc.FindElement("/EntityDescriptor/SPSSODescriptor/AssertionConsumerService")
	if acs == nil {
		return Partner{}, errors.New("the metadata are not those of a service provider")
	}
	p := Partner{EntityID: doc.Root().SelectAttrValue("entityID", ""), ACS: acs.SelectAttrValue("Location", ""), Client: client}
	for use, to := range map[string]**x509.Certificate{"signing": &p.Signing, "encryption": &p.Encryption} {
		key := doc.FindElement("//KeyDescriptor[@use='" + use + "']//X509Certificate")
		if key == nil {
			return Partner{}, fmt.Errorf("the metadata have no key for %s", use)
		}
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(key.Text()), ""))
		if err != nil {
			return Partner{}, err
		}
		if *to, err = x509.ParseCertificate(der); err != nil {
			return Partner{}, err
		}
	}
	n.Know(p)
	return p, nil
}

// AnswerWith lets a test make the answer for the person whose name was entered, instead of Honest.
func (n *National) AnswerWith(answer func(q Request, name string) Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

// Refused returns what was refused since the last call.
func (n *National) Refused() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.refused
	n.refused = nil
	return out
}

// Asked returns the last request that was accepted.
func (n *National) Asked() Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[len(n.asked)-1]
}

func (n *National) refuse(format string, args ...any) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = append(n.refused, fmt.Sprintf(format, args...))
	return n.refused[len(n.refused)-1]
}

func (n *National) partner(entityID string) (Partner, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.partners[entityID]
	return p, ok
}

// checkClient ends a handshake with an unknown certificate.
func (n *National) checkClient(s tls.ConnectionState) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.partners {
		if p.Client != nil && p.Client.Equal(s.PeerCertificates[0]) {
			return nil
		}
	}
	n.refused = append(n.refused, "an unknown client certificate")
	return errors.New("unknown certificate")
}

func (n *National) serveFront(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metadata":
		w.Header().Set("Content-Type", "application/samlmetadata+xml")
		_, _ = w.Write(n.Metadata())
	case "/sso":
		q, err := n.Read(r)
		if err != nil {
			http.Error(w, n.refuse("%v", err), http.StatusForbidden)
			return
		}
		n.ask(w, q)
	case "/enter":
		n.enter(w, r)
	default:
		http.NotFound(w, r)
	}
}

// Read reads an AuthnRequest by redirect, as strictly as the service does.
func (n *National) Read(r *http.Request) (Request, error) {
	q, err := ReadRequest(r)
	if err != nil {
		return q, err
	}
	p, ok := n.partner(q.SP)
	if !ok {
		return q, errors.New("an unknown issuer")
	}
	octets, sig, ok := strings.Cut(r.URL.RawQuery, "&Signature=")
	if !ok || r.Method != http.MethodGet {
		return q, errors.New("a request without a signature")
	}
	sig, err = url.QueryUnescape(sig)
	check(err)
	raw, err := base64.StdEncoding.DecodeString(sig)
	check(err)
	sum := sha256.Sum256([]byte(octets))
	if public, ok := p.Signing.PublicKey.(*rsa.PublicKey); !ok || rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], raw) != nil {
		return q, errors.New("a signature that does not verify")
	}
	root := q.XML.Root()
	switch {
	case q.Destination != n.SSO:
		return q, errors.New("a request for somebody else")
	case q.ACS == "" && root.SelectAttrValue("AssertionConsumerServiceIndex", "") == "1":
		q.ACS = p.ACS
	case q.ACS != p.ACS || !strings.HasSuffix(q.Binding, ":HTTP-Artifact"):
		return q, errors.New("an answer to another place, or not by artifact")
	}
	if asked := root.SelectElement("samlp:RequestedAuthnContext"); asked == nil || asked.SelectAttrValue("Comparison", "") != "minimum" ||
		len(asked.ChildElements()) != 1 {
		return q, errors.New("a request without exactly one lowest class")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, q)
	return q, nil
}

// Class returns the class that a request asks for.
func (q Request) Class() string {
	return q.XML.Root().FindElement("./RequestedAuthnContext/AuthnContextClassRef").Text()
}

// ask shows the page of the service: the number and the class of the person, or the way back.
func (n *National) ask(w http.ResponseWriter, q Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprintf(w, `<!doctype html><title>National service</title><form method="post" action="/enter"><input type="hidden" name="request" value="%s">`+
		`<input id="name" name="name"><input id="class" name="class" value="%s"><button id="allow">Log in</button><button id="cancel" name="cancel" value="1">Cancel</button></form>`,
		html.EscapeString(q.ID), html.EscapeString(q.Class()))
}

// enter answers a request as the person on the page says.
func (n *National) enter(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	asked, answer := n.asked, n.answer
	n.mu.Unlock()
	i := slices.IndexFunc(asked, func(q Request) bool { return q.ID == r.FormValue("request") })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	q := asked[i]
	a := answer(q, r.FormValue("name"))
	if a.Class, a.Session = r.FormValue("class"), "session of "+q.ID; r.FormValue("cancel") != "" {
		a = Cancelled(q)
	}
	http.Redirect(w, r, n.Issue(q, a), http.StatusSeeOther)
}

// Cancelled returns the answer for a person who has gone back.
func Cancelled(q Request) Answer {
	a := Honest(q, "")
	a.Status, a.Inner, a.SignResponse = Responder, "urn:oasis:names:tc:SAML:2.0:status:AuthnFailed", true
	return a
}

// Issue keeps an answer, and returns the address that the browser brings its artifact to.
func (n *National) Issue(q Request, a Answer) string {
	return n.IssueRaw(q, n.Response(a))
}

// IssueRaw is Issue for an answer that is written already.
func (n *National) IssueRaw(q Request, answer []byte) string {
	source := sha1.Sum([]byte(n.EntityID)) //nolint:gosec // see the import
	handle := make([]byte, 20)
	random(handle)
	artifact := base64.StdEncoding.EncodeToString(append(append([]byte{0, 4, 0, 0}, source[:]...), handle...))
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.waiting == nil {
		n.waiting = map[string]waiting{}
	}
	n.waiting[artifact] = waiting{q.SP, answer, n.Now().Add(artifactLife)}
	return q.ACS + "?" + url.Values{"SAMLart": {artifact}, "RelayState": {q.RelayState}}.Encode()
}

func (n *National) serveBack(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	check(err)
	resolve, err := n.readResolve(raw, r.TLS.PeerCertificates[0])
	if err != nil {
		http.Error(w, n.refuse("%v", err), http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "text/xml")
	_, _ = w.Write(n.Resolved(resolve.SelectAttrValue("ID", ""), n.take(resolve)))
}

// readResolve verifies an ArtifactResolve.
func (n *National) readResolve(raw []byte, client *x509.Certificate) (*etree.Element, error) {
	doc := etree.NewDocument()
	if err := doc.ReadFromBytes(raw); err != nil {
		return nil, err
	}
	resolve := doc.FindElement("/Envelope/Body/ArtifactResolve")
	if resolve == nil || resolve.SelectElement("Issuer") == nil {
		return nil, errors.New("a message that is no ArtifactResolve")
	}
	p, ok := n.partner(resolve.SelectElement("Issuer").Text())
	if !ok || !p.Client.Equal(client) {
		return nil, errors.New("an ArtifactResolve of an unknown issuer, or by another's certificate")
	}
	v := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{p.Signing}})
	v.Clock = dsig.NewFakeClockAt(n.Now())
	return v.Validate(resolve)
}

// take returns the answer that an artifact stands for, once. nil: the artifact is unknown.
func (n *National) take(resolve *etree.Element) []byte {
	artifact := resolve.SelectElement("Artifact").Text()
	n.mu.Lock()
	defer n.mu.Unlock()
	x, ok := n.waiting[artifact]
	delete(n.waiting, artifact)
	if !ok || x.partner != resolve.SelectElement("Issuer").Text() || n.Now().After(x.until) {
		n.refused = append(n.refused, "an artifact that is unknown, used or old")
		return nil
	}
	return x.answer
}

// Resolved returns the answer to the ArtifactResolve with that ID, signed. Without an answer in it the artifact was
// none. (SAML core 3.5.3)
func (n *National) Resolved(resolve string, answer []byte) []byte {
	doc := Parse(fmt.Appendf(nil, `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>`+
		`<samlp:ArtifactResponse xmlns:samlp=%q xmlns:saml=%q ID=%q Version="2.0" IssueInstant=%q InResponseTo=%q><saml:Issuer>%s</saml:Issuer>`+
		`<samlp:Status><samlp:StatusCode Value=%q/></samlp:Status></samlp:ArtifactResponse></soap:Body></soap:Envelope>`,
		Protocol, Assertion, n.ID(), n.Now().UTC().Format(time.RFC3339), resolve, escape(n.EntityID), Success))
	e := doc.FindElement("/Envelope/Body/ArtifactResponse")
	if answer != nil {
		e.AddChild(Parse(answer).Root())
	}
	Sign(e, Signature{Key: n.Key})
	return Bytes(doc)
}

// LogoutBySOAP returns a signed request to sign a person out, in an envelope.
func (n *National) LogoutBySOAP(to, nameID, session string) []byte {
	doc := Parse(fmt.Appendf(nil, `<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>`+
		`<samlp:LogoutRequest xmlns:samlp=%q xmlns:saml=%q ID=%q Version="2.0" IssueInstant=%q Destination=%q><saml:Issuer>%s</saml:Issuer>`+
		`<saml:NameID>%s</saml:NameID><samlp:SessionIndex>%s</samlp:SessionIndex></samlp:LogoutRequest></soap:Body></soap:Envelope>`,
		Protocol, Assertion, n.ID(), n.Now().UTC().Format(time.RFC3339), escape(to), escape(n.EntityID), escape(nameID), escape(session)))
	Sign(doc.FindElement("/Envelope/Body/LogoutRequest"), Signature{Key: n.Key})
	return Bytes(doc)
}

// SealedName returns a NameID of a kind in an EncryptedID, for the service provider with that entity ID. The content
// and its key stand next to each other, as brokers send them.
func SealedName(a Answer, recipient, kind, value string) string {
	e := Seal(a, "EncryptedID", fmt.Appendf(nil, `<saml:NameID xmlns:saml=%q NameQualifier=%q>%s</saml:NameID>`,
		Assertion, kind, escape(value)))
	key := e.FindElement(".//EncryptedKey")
	key.Parent().RemoveChild(key)
	key.CreateAttr("Recipient", recipient)
	key.CreateAttr("xmlns:xenc", xmlenc)
	e.AddChild(key)
	doc := etree.NewDocument()
	doc.SetRoot(e)
	return string(Bytes(doc))
}
