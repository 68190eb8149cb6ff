package samlidp_test

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestEncryption: by which algorithms an assertion is encrypted. Without a word in the metadata they are those that
// lasso and xmlsec of Debian 12 read, too.
func TestEncryption(t *testing.T) {
	t.Parallel()
	const (
		gcm256, gcm128 = "http://www.w3.org/2009/xmlenc11#aes256-gcm", "http://www.w3.org/2009/xmlenc11#aes128-gcm"
		cbc            = "http://www.w3.org/2001/04/xmlenc#aes256-cbc"
		newer, older   = "http://www.w3.org/2009/xmlenc11#rsa-oaep", "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p"
	)
	key := samltest.NewKey("sp", now)
	for name, c := range map[string]struct {
		methods       []string
		content, wrap string // content "": not encrypted
	}{
		"none named":       {nil, gcm256, older},
		"content alone":    {[]string{gcm256, cbc}, gcm256, older},
		"128 bits":         {[]string{gcm128}, gcm128, older},
		"the older form":   {[]string{gcm256, older}, gcm256, older},
		"the newer form":   {[]string{gcm256, newer}, gcm256, newer},
		"both forms":       {[]string{gcm256, older, newer}, gcm256, newer},
		"nothing we write": {[]string{cbc, older}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response := respond(t, describe(t, samlidp.Options{}, c.methods, key.Certificate))
			algorithm := func(path string) string {
				if e := response.FindElement(path); e != nil {
					return e.SelectAttrValue("Algorithm", "")
				}
				return ""
			}
			content, wrap := algorithm("//EncryptedData/EncryptionMethod"), algorithm("//EncryptedKey/EncryptionMethod")
			if content != c.content || wrap != c.wrap {
				t.Errorf("encrypted by %q, its key by %q, want %q and %q", content, wrap, c.content, c.wrap)
			}
			if plain := response.FindElement("//Assertion") != nil; plain != (c.content == "") {
				t.Errorf("an assertion that everybody can read: %t", plain)
			}
		})
	}
}

// TestEncryptionWhateverTheCertificateSays: SAML trusts the key and not its certificate, so an assertion is encrypted
// for a key whose certificate has expired, too. Without encryption it would pass the browser as plain text. One that is
// valid now comes first.
func TestEncryptionWhateverTheCertificateSays(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	current := samltest.NewKey("sp", now).Certificate
	expired := samltest.NewKeyUntil("old sp", now.Add(-400*day), now.Add(-day)).Certificate
	early := samltest.NewKeyUntil("new sp", now.Add(day), now.Add(400*day)).Certificate
	ending := samltest.NewKeyUntil("sp", now.Add(-day), now.Add(10*day)).Certificate
	for name, c := range map[string]struct {
		published []*x509.Certificate
		want      *x509.Certificate
		accepts   bool // expired_certificates
		warns     bool
	}{
		"attack 5827: expired":        {[]*x509.Certificate{expired}, expired, false, true},
		"not valid yet":               {[]*x509.Certificate{early}, early, false, false},
		"expired before current":      {[]*x509.Certificate{expired, current}, current, false, false},
		"not valid yet, then current": {[]*x509.Certificate{early, current}, current, false, false},
		"expires soon":                {[]*x509.Certificate{ending}, ending, false, true},
		"expired, and accepted":       {[]*x509.Certificate{expired}, expired, true, false},
		"any, and accepted":           {[]*x509.Certificate{expired, current}, current, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := describe(t, samlidp.Options{AcceptExpired: c.accepts}, nil, c.published...)
			response := respond(t, source)
			if response.FindElement("//Assertion") != nil {
				t.Error("everybody can read the assertion")
			}
			if e := response.FindElement("//EncryptedKey//X509Certificate"); e == nil {
				t.Error("the assertion names no key that it is encrypted for")
			} else if e.Text() != base64.StdEncoding.EncodeToString(c.want.Raw) {
				t.Errorf("the assertion is encrypted for another key than that of %q", c.want.Subject.CommonName)
			}
			said := fmt.Sprint(source.Warnings(t.Context()))
			if strings.Contains(said, "the last certificate for encryption") != c.warns {
				t.Errorf("Warnings = %s, want one about the certificate: %t", said, c.warns)
			}
		})
	}
}

// describe returns metadata with certificates for encryption by some methods.
func describe(t *testing.T, o samlidp.Options, methods []string, certificates ...*x509.Certificate) *samlidp.Source {
	t.Helper()
	var keys, named strings.Builder
	for _, m := range methods {
		fmt.Fprintf(&named, `<md:EncryptionMethod Algorithm=%q/>`, m)
	}
	for _, c := range certificates {
		fmt.Fprintf(&keys, `<md:KeyDescriptor use="encryption"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data>`+
			`</ds:KeyInfo>%s</md:KeyDescriptor>`, base64.StdEncoding.EncodeToString(c.Raw), named.String())
	}
	source, err := samlidp.NewSource(fmt.Sprintf(`<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" `+
		`xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s"><md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">%s`+
		`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s" index="0"/>`+
		`</md:SPSSODescriptor></md:EntityDescriptor>`, entity, keys.String(), service), o, nil, clock, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// respond returns the response with an assertion for a service provider.
func respond(t *testing.T, source *samlidp.Source) *etree.Document {
	t.Helper()
	own := samltest.NewKey("idp", now)
	w := samlidp.Writer{
		EntityID: "https://auth.example.com/sso/metadata", Random: rand.Reader, Now: clock,
		Key: &idp.Key{Signer: own.Signer, Certificate: own.Certificate},
	}
	m := source.Known()
	next, err := w.Respond(samlidp.Answer{
		Metadata: m, Service: m.DefaultService(), Request: "_one", NameID: samlidp.NameID{Value: "anna"}, AuthTime: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(next.Form.Fields[0].Value)
	if err != nil {
		t.Fatal(err)
	}
	response := etree.NewDocument()
	if err := response.ReadFromBytes(raw); err != nil {
		t.Fatal(err)
	}
	return response
}
