package samlidp_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

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
	key, own := samltest.NewKey("sp", now), samltest.NewKey("idp", now)
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
			var methods strings.Builder
			for _, m := range c.methods {
				fmt.Fprintf(&methods, `<md:EncryptionMethod Algorithm=%q/>`, m)
			}
			doc := fmt.Sprintf(`<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s">`+
				`<md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"><md:KeyDescriptor use="encryption">`+
				`<ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo>%s</md:KeyDescriptor>`+
				`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s" index="0"/>`+
				`</md:SPSSODescriptor></md:EntityDescriptor>`, entity, base64.StdEncoding.EncodeToString(key.Certificate.Raw),
				methods.String(), service)
			source, err := samlidp.NewSource(doc, samlidp.Options{}, nil, clock, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			w := samlidp.Writer{
				EntityID: "https://auth.example.com/sso/metadata", Random: rand.Reader, Now: clock,
				Key: &idp.Key{Signer: own.Signer, Certificate: own.Certificate},
			}
			m := source.Known()
			next, err := w.Respond(samlidp.Answer{
				Metadata: m, Service: m.DefaultService(), Request: "_one",
				NameID: samlidp.NameID{Value: "anna"}, AuthTime: now,
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
