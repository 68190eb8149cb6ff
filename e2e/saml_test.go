package e2e

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// samlProvider describes how one service provider of the test talks to SimpleSAMLphp.
type samlProvider struct {
	id, name string
	options  string         // for the Caddyfile
	settings map[string]any // for SimpleSAMLphp
}

const emailFormat = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"

func signing(assertion, response bool, more ...map[string]any) map[string]any {
	out := map[string]any{"saml20.sign.assertion": assertion, "saml20.sign.response": response}
	for _, m := range more {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}

var samlProviders = []samlProvider{
	{id: "partner", name: "signed assertion", options: "name \"Partner account\"\nlevel 2\ncouple email", settings: signing(true, false)},
	{id: "response", name: "signed response", options: "couple email", settings: signing(false, true)},
	{id: "both", name: "both signed", options: "couple email", settings: signing(true, true)},
	{id: "encrypted", name: "encrypted", options: "couple email", settings: signing(true, true, map[string]any{"assertion.encryption": true})},
	{id: "artifact", name: "by artifact", options: "couple email\nartifact", settings: signing(false, true)},
	{id: "persistent", name: "persistent NameID", options: "couple email\nname_id persistent", settings: signing(true, true, map[string]any{
		"authproc": map[string]any{"1": map[string]any{"class": "saml:PersistentNameID", "attribute": "uid"}},
	})},
	{id: "email", name: "e-mail NameID", options: "couple email\nname_id email", settings: signing(true, true, map[string]any{
		"authproc": map[string]any{"1": map[string]any{"class": "saml:AttributeNameID", "attribute": "mail", "Format": emailFormat}},
	})},
	{
		id: "keys", name: "with key pairs of the configuration", options: "couple email\nsign rollover\ndecrypt rollover",
		settings: signing(true, true, map[string]any{"assertion.encryption": true}),
	},
	{
		id: "sealed", name: "signed assertion, then encrypted", options: "couple email",
		settings: signing(true, false, map[string]any{"assertion.encryption": true}),
	},
	{id: "renames", name: "identified by an attribute", options: "couple email\nidentify_by uid", settings: signing(true, true, map[string]any{
		"authproc":     map[string]any{"1": map[string]any{"class": "saml:PersistentNameID", "attribute": "uid"}},
		"NameIDFormat": "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent",
	})},
	{id: "transient", name: "transient NameID", options: "couple email\nname_id transient", settings: signing(true, true)},
}

// withSAML adds the providers to the configuration.
func withSAML(i *simpleSAML) func(string) string {
	var blocks strings.Builder
	ids := "identity"
	for _, p := range samlProviders {
		ids += " " + p.id
		fmt.Fprintf(&blocks, "\t\tidp %s saml {\n\t\t\tmetadata %s\n\t\t\tmap mail email\n\t\t\tmap mail username\n\t\t\tmap displayName displayName\n\t\t\t%s\n\t\t}\n",
			p.id, i.metadata(), strings.ReplaceAll(p.options, "\n", "\n\t\t\t"))
	}
	return func(caddyfile string) string {
		caddyfile = strings.Replace(caddyfile, "\t\tapi_client ops {", blocks.String()+"\t\tapi_client ops {", 1)
		caddyfile = strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
		return strings.Replace(caddyfile, "\t\t\tname \"The shop\"", "\t\t\tname \"The shop\"\n\t\t\tconsent off\n\t\t\tidps "+ids, 1)
	}
}

// TestSAML signs in at SimpleSAMLphp with each kind of answer that providers send, up to an upstream behind protect.
func TestSAML(t *testing.T) {
	t.Parallel()
	i := startSimpleSAML(t)
	p, s := openShopEdited(t, withSAML(i))
	addKeyPair(s, "rollover")
	for _, sp := range samlProviders {
		i.know(sp.id, s.Issuer+"/saml/"+sp.id+"/metadata", sp.settings)
	}
	b := s.browse(t)

	b.open(s.Wiki + "/")
	for _, size := range []struct {
		name          string
		width, height int64
	}{{"desktop", 1280, 800}, {"phone", 390, 844}} {
		b.screen(size.width, size.height, "light")
		b.shot("choose-" + size.name)
	}
	b.screen(1280, 800, "light")

	for _, sp := range samlProviders {
		t.Run(sp.name, func(t *testing.T) {
			b := b.in(t)
			b.forget()
			b.open(s.Wiki + "/deep?x=1")
			b.choose(sp.id)
			i.signIn(b, "alice", "alicepw", s.Wiki)
			if got := b.location(); got != s.Wiki+"/deep?x=1" {
				t.Fatalf("landed at %s, which says %q", got, b.text("body"))
			}
			if got := b.seen(); got.Email != "alice@example.org" || got.User != "alice@example.org" || got.Name != "Alice Example" {
				t.Errorf("the upstream saw %+v", got)
			}
			// an artifact arrives by GET
			if artifact := strings.Contains(read(t, s.log), `"method":"GET","host":"`+strings.TrimPrefix(s.Issuer, "http://")+`","path":"/saml/`+
				sp.id+`/acs"`); artifact != (sp.id == "artifact") {
				t.Errorf("the answer came by artifact: %t", artifact)
			}
		})
	}
	t.Run("the same person again", func(t *testing.T) {
		for _, id := range []string{"partner", "transient"} {
			b := b.in(t)
			b.forget()
			b.open(s.Wiki + "/")
			b.choose(id)
			i.signIn(b, "alice", "alicepw", s.Wiki)
			if got := b.location(); got != s.Wiki+"/" || b.seen().User != "alice@example.org" {
				t.Errorf("%s: landed at %s", id, got)
			}
		}
	})
	t.Run("another NameID for the same person", func(t *testing.T) {
		i.know("renames", s.Issuer+"/saml/renames/metadata", signing(true, true, map[string]any{
			"authproc":     map[string]any{"1": map[string]any{"class": "saml:AttributeNameID", "attribute": "mail", "Format": emailFormat}},
			"NameIDFormat": emailFormat,
		}))
		b := b.in(t)
		b.forget()
		b.open(s.Wiki + "/")
		b.choose("renames")
		i.signIn(b, "alice", "alicepw", s.Wiki)
		if got := b.location(); got != s.Wiki+"/" || b.seen().User != "alice@example.org" {
			t.Errorf("landed at %s, which says %q", got, b.text("body"))
		}
	})
	t.Run("managed", func(t *testing.T) { samlManaged(b.in(t), i) })
	t.Run("straight to the provider", func(t *testing.T) { samlStraight(b.in(t), i, p) })
	t.Run("refused", func(t *testing.T) { samlRefused(b.in(t), i, p) })
	t.Run("sign-out here", func(t *testing.T) { samlSignOutHere(b.in(t), i) })
	t.Run("sign-out there", func(t *testing.T) { samlSignOutThere(b.in(t), i) })
}

// in is the tab for a test within the test.
func (b *tab) in(t *testing.T) *tab { c := *b; c.t = t; return &c }

// choose selects a provider on the sign-in page.
func (b *tab) choose(id string) {
	b.t.Helper()
	selector := fmt.Sprintf(`a.provider[href*="idp=%s&"], a.provider[href$="idp=%s"]`, id, id)
	if !b.has(selector) {
		b.t.Fatalf("the page at %s does not offer %s: %s", b.location(), id, b.text("body"))
	}
	b.click(selector)
}

// addKeyPair makes a key pair and adds it to the configuration.
func addKeyPair(s *server, name string) {
	s.t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		s.t.Fatal(err)
	}
	like := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, like, like, key.Public(), key)
	if err != nil {
		s.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		s.t.Fatal(err)
	}
	text := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	s.secret("private key", base64.StdEncoding.EncodeToString(private))
	body := fmt.Sprintf(`{"key_pair":{"name":%q,"key_type":"RSA","private_key":%q,"public_key":%q}}`, name, text("PRIVATE KEY", private),
		text("CERTIFICATE", cert))
	if status, answer := s.configure(http.MethodPost, "/v2/config/certificates", body); status != http.StatusOK {
		s.t.Fatalf("add a key pair: %d %s", status, answer)
	}
}

// samlManaged adds the provider while the server runs, signs in there, and removes it.
func samlManaged(b *tab, i *simpleSAML) {
	t, s := b.t, b.s
	resp, err := http.Get(i.metadata())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	metadata, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	set := func(enabled bool) {
		t.Helper()
		body := fmt.Sprintf(`{"login_methods":{"login_methods":[{"id":"managed","name":"Managed account","type":"SAML","enabled":%t,"authentication_level":1,`+
			`"attribute_mappings":[{"id":"1","map_from":"mail","map_to":"email"},{"id":"2","map_from":"mail","map_to":"username"}],"saml_attributes":{"idp_metadata":%s}}]}}`, enabled, quote(string(metadata)))
		if status, answer := s.configure(http.MethodPost, "/api/v2/config", body); status != http.StatusNoContent {
			t.Fatalf("set the login method: %d %s", status, answer)
		}
	}
	set(true)
	i.know("managed", s.Issuer+"/saml/managed/metadata", signing(true, true))
	b.forget()
	b.open(s.Wiki + "/")
	b.choose("managed")
	i.signIn(b, "bob", "bobpw", s.Wiki)
	if got := b.seen(); got.User != "bob@example.org" || got.Email != "bob@example.org" {
		t.Errorf("the upstream saw %+v", got)
	}
	b.forget()
	b.open(s.Wiki + "/")
	b.choose("managed")
	i.asks(b)
	set(false)
	i.signIn(b, "bob", "bobpw", s.Issuer)
	if !strings.HasPrefix(b.location(), s.Issuer+"/saml/managed/acs") || b.has("#seen") {
		t.Errorf("the provider is switched off, and bob came to %s", b.location())
	}
	b.open(s.Wiki + "/")
	if b.has(`a.provider[href*="managed"]`) {
		t.Error("the provider is switched off, and offered")
	}
}

// samlStraight names the provider in the authorization request, in both ways.
func samlStraight(b *tab, i *simpleSAML, p *shop) {
	t := b.t
	for _, query := range []string{"idp=both", "external_idp=urn:com:service:saml:idp:both&external_idp_custom_param.branch=east"} {
		b.forget()
		b.open(p.address + "/?" + query)
		i.signIn(b, "alice", "alicepw", p.address)
		if got := b.text("h1"); got != "Signed in" {
			t.Fatalf("%s: the application says %q: %s", query, got, b.text("#text"))
		}
		if got := p.s.introspect(p.token.AccessToken); !got.Active {
			t.Errorf("%s: introspection = %+v", query, got)
		}
	}
	b.open(p.address + "/?idp=both&prompt=none")
	if got := b.text("h1"); got != "Signed in" {
		t.Errorf("prompt=none with a session of the provider says %q: %s", got, b.text("#text"))
	}
	b.forget()
	b.open(p.address + "/?idp=both&prompt=none")
	if got := b.text("#text"); !strings.HasPrefix(got, "login_required") {
		t.Errorf("prompt=none without a session says %q, want login_required", got)
	}
}

// samlRefused signs in as a person that the provider refuses, in a signed and in an unsigned answer: the application
// gets the reason.
func samlRefused(b *tab, i *simpleSAML, p *shop) {
	for _, id := range []string{"both", "partner"} {
		b.forget()
		b.open(p.address + "/?idp=" + id)
		i.signIn(b, "carol", "carolpw", p.address)
		want := "access_denied urn:oasis:names:tc:SAML:2.0:status:AuthnFailed no_existing_customer"
		if got := b.text("#text"); got != want {
			b.t.Errorf("%s: the application was told %q at %s, want %q", id, got, b.location(), want)
		}
	}
}

func samlSignOutHere(b *tab, i *simpleSAML) {
	b.forget()
	b.open(b.s.Wiki + "/")
	b.choose("partner")
	i.signIn(b, "alice", "alicepw", b.s.Wiki)
	b.leave()
	b.open(b.s.Wiki + "/")
	b.choose("partner")
	i.asks(b) // the session at the provider has ended too
}

// leave signs out of the site, and waits for the page at the end.
func (b *tab) leave() {
	b.t.Helper()
	b.open(b.s.Wiki + "/.gatehouse/logout")
	if b.has("main form button:not([type])") {
		b.click("main form button:not([type])")
	}
	b.until("location.origin === " + quote(b.s.Wiki) + " && location.pathname === '/.gatehouse/signed-out'")
}

func samlSignOutThere(b *tab, i *simpleSAML) {
	t := b.t
	b.forget()
	b.open(b.s.Wiki + "/")
	b.choose("partner")
	i.signIn(b, "alice", "alicepw", b.s.Wiki)
	if got := b.seen().User; got != "alice@example.org" {
		t.Fatalf("the upstream saw %q", got)
	}
	b.open(i.URL + "/saml2/idp/SingleLogoutService.php?" + url.Values{"ReturnTo": {i.URL + "/logout.php"}}.Encode())
	b.reaches(i.URL + "/logout.php")
	b.open(b.s.Wiki + "/")
	if !strings.HasPrefix(b.location(), b.s.Issuer) {
		t.Errorf("signed out at the provider, and still at %s", b.location())
	}
}
