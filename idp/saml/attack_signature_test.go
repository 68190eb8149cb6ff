package saml_test

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const signature = "./saml:Assertion/ds:Signature"

func TestSignatureAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 141: without the provider's signature", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		stranger := samltest.NewKey("stranger", l.now)
		a := l.honest()
		a.SignAssertion = false
		l.refuses(t, l.idp.Response(a), "neither")
		l.refuses(t, l.tampered(func(root *etree.Element) { find(root, signature+"/ds:SignatureValue").SetText("") }), "signature")
		l.refuses(t, l.tampered(func(root *etree.Element) {
			find(root, signature+"/ds:SignedInfo/ds:Reference/ds:DigestValue").SetText("")
		}), "digest")
		a = l.honest()
		a.Signature.Key = stranger
		l.refuses(t, l.idp.Response(a), "no certificate of the provider matches")
		a.Signature.KeyInfo = `<ds:KeyValue><ds:RSAKeyValue><ds:Modulus>AQAB</ds:Modulus><ds:Exponent>AQAB</ds:Exponent></ds:RSAKeyValue></ds:KeyValue>`
		l.refuses(t, l.idp.Response(a), "not the provider's")
		a.Signature.KeyInfo = `<ds:X509Data><ds:X509Certificate>` + base64.StdEncoding.EncodeToString(l.idp.Key.Certificate.Raw) +
			`</ds:X509Certificate></ds:X509Data>`
		l.refuses(t, l.idp.Response(a), "not the provider's")
		// The provider's signature with the certificate of another key.
		l.refuses(t, l.tampered(func(root *etree.Element) {
			find(root, signature+"/ds:KeyInfo/ds:X509Data/ds:X509Certificate").SetText(base64.StdEncoding.EncodeToString(stranger.Certificate.Raw))
		}), "no certificate of the provider matches")
		l.refuses(t, l.tampered(func(root *etree.Element) {
			find(root, signature+"/ds:KeyInfo/ds:X509Data/ds:X509Certificate").SetText("AAAA")
		}), "malformed certificate")
		l.refuses(t, l.tampered(func(root *etree.Element) {
			sig := find(root, signature)
			sig.Parent().InsertChildAt(sig.Index(), sig.Copy())
		}), "Signature twice")
		a = l.honest()
		a.SignResponse = true // one of two signatures is broken
		a.Tamper = func(root *etree.Element) { find(root, "./ds:Signature/ds:SignatureValue").SetText("AAAA") }
		l.refuses(t, l.idp.Response(a), "not the provider's")
		l.refuses(t, l.tampered(func(root *etree.Element) { // a signature in the wrong place
			sig := find(root, signature)
			parent := sig.Parent()
			parent.RemoveChild(sig)
			parent.AddChild(sig)
		}), "in the wrong place")
	})
	t.Run("attack 142: one of the two is signed, the other one is changed", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.SignResponse, a.SignAssertion = true, false
		a.Tamper = func(root *etree.Element) { evil(root) }
		l.refuses(t, l.idp.Response(a), "not the provider's")
		for name, change := range map[string]func(root *etree.Element){
			"Destination":     func(root *etree.Element) { root.CreateAttr("Destination", "https://other.example/acs") },
			"no Destination":  func(root *etree.Element) { root.RemoveAttr("Destination") },
			"InResponseTo":    func(root *etree.Element) { root.CreateAttr("InResponseTo", "_other") },
			"no InResponseTo": func(root *etree.Element) { root.RemoveAttr("InResponseTo") },
			"Status": func(root *etree.Element) {
				find(root, "./samlp:Status/samlp:StatusCode").CreateAttr("Value", samltest.Responder)
			},
			"no Status":         func(root *etree.Element) { remove(find(root, "./samlp:Status")) },
			"Issuer":            func(root *etree.Element) { find(root, "./saml:Issuer").SetText("https://other.example") },
			"no Issuer":         func(root *etree.Element) { remove(find(root, "./saml:Issuer")) },
			"Version":           func(root *etree.Element) { root.CreateAttr("Version", "1.1") },
			"something unknown": func(root *etree.Element) { root.CreateElement("samlp:Other") },
		} {
			t.Run(name, func(t *testing.T) { l.refuses(t, l.tampered(change), "") })
		}
	})
	t.Run("attack 143: what the reference points to", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, uri := range []string{"#", "#_other", "#xpointer(/)", "https://idp.example/assertion", "_other"} {
			a := l.honest()
			a.Signature.URI = uri
			l.refuses(t, l.idp.Response(a), "reference to another element")
		}
		l.refuses(t, l.tampered(func(root *etree.Element) { find(root, signature+"/ds:SignedInfo/ds:Reference").CreateAttr("URI", "") }),
			"reference to another")
		for name, edit := range map[string]func(as *etree.Element){
			"no ID":        func(as *etree.Element) { as.RemoveAttr("ID") },
			"Id":           func(as *etree.Element) { as.RemoveAttr("ID"); as.CreateAttr("Id", "_x") },
			"id":           func(as *etree.Element) { as.CreateAttr("id", "_x") },
			"xml:id":       func(as *etree.Element) { as.CreateAttr("xml:id", "_x") },
			"saml:ID":      func(as *etree.Element) { as.CreateAttr("saml:ID", "_x") },
			"twice":        func(as *etree.Element) { as.CreateAttr("ID", as.Parent().SelectAttrValue("ID", "")) },
			"empty":        func(as *etree.Element) { as.CreateAttr("ID", "") },
			"no name":      func(as *etree.Element) { as.CreateAttr("ID", "1 2") },
			"of the wrong": func(as *etree.Element) { find(as, "./saml:Subject").CreateAttr("Id", "_x") },
		} {
			t.Run(name, func(t *testing.T) {
				l.refuses(t, l.edited(func(root *etree.Element) { edit(find(root, "./saml:Assertion")) }), "")
			})
		}
	})
	t.Run("attack 144: two references, one of which covers the assertion", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		other := `<ds:Reference URI="#_other"><ds:Transforms><ds:Transform Algorithm="` + samltest.Enveloped +
			`"/><ds:Transform Algorithm="` + samltest.Exclusive +
			`"/></ds:Transforms><ds:DigestMethod Algorithm="` + samltest.SHA256 + `"/><ds:DigestValue>` + strings.Repeat("A", 43) +
			`=</ds:DigestValue></ds:Reference>`
		for _, how := range []samltest.Signature{{Before: other}, {After: other}} {
			a := l.honest()
			a.Signature = how
			l.refuses(t, l.idp.Response(a), "Reference twice")
		}
	})
	t.Run("attack 146: certificates that are not good", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		old := samltest.NewKeyUntil("old", l.now.AddDate(-2, 0, 0), l.now.Add(-time.Second))
		next := samltest.NewKeyUntil("next", l.now.Add(time.Hour), l.now.AddDate(1, 0, 0))
		l.open(saml.Config{Metadata: string(l.idp.Metadata(old, next))})
		for _, key := range []*samltest.Key{old, next} {
			for _, bare := range []bool{true, false} {
				a := l.honest()
				a.Signature.Key, a.Signature.NoKeyInfo = key, bare
				l.refuses(t, l.idp.Response(a), "")
			}
		}
		l.accepts(t, l.idp.Response(l.honest()), "anna@example")
		other := samltest.New("https://other.example/entity", l.idp.Now)
		a := l.honest()
		a.Signature.Key = other.Key
		l.refuses(t, l.idp.Response(a), "no certificate of the provider matches")

		dated := strings.Replace(string(l.idp.Metadata()), "entityID=",
			`validUntil="`+l.now.Add(time.Minute).Format(time.RFC3339)+`" entityID=`, 1)
		l.open(saml.Config{Metadata: dated})
		l.now = l.now.Add(2 * time.Minute)
		if id, err := l.finish(l.idp.Response(l.honest())); id != nil || err == nil {
			t.Errorf("Finish = %v, %v with metadata that has expired", id, err)
		}
		if _, err := saml.New(saml.Config{Metadata: dated}, l.env()); err == nil || !strings.Contains(err.Error(), "valid until") {
			t.Errorf("New = %v with metadata that has expired", err)
		}
	})
	t.Run("attack 147: transforms, canonicalizations and algorithms that are not believed", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, transforms := range [][]string{
			{},
			{samltest.Enveloped},
			{samltest.Exclusive},
			{samltest.Exclusive, samltest.Enveloped},
			{samltest.Enveloped, samltest.WithComments},
			{samltest.Enveloped, "http://www.w3.org/TR/1999/REC-xslt-19991116"},
			{samltest.Enveloped, "http://www.w3.org/TR/1999/REC-xpath-19991116", samltest.Exclusive},
			{samltest.Enveloped, "http://www.w3.org/2002/06/xmldsig-filter2"},
			{samltest.Enveloped, "http://www.w3.org/2000/09/xmldsig#base64"},
			{samltest.Enveloped, samltest.Exclusive, samltest.Exclusive},
			{samltest.Enveloped, ""},
		} {
			a := l.honest()
			a.Signature.Transforms = transforms
			t.Run(strings.Join(transforms, " "), func(t *testing.T) { l.refuses(t, l.idp.Response(a), "") })
		}
		for _, how := range []samltest.Signature{
			{Method: samltest.RSASHA1},
			{Digest: samltest.SHA1},
			{Method: samltest.HMACSHA256},
			{Canonical: samltest.WithComments},
			{Prefixes: "xml"},
			{Prefixes: "xs xmlns"},
		} {
			a := l.honest()
			a.Signature = how
			t.Run(how.Method+how.Digest+how.Canonical+how.Prefixes, func(t *testing.T) { l.refuses(t, l.idp.Response(a), "") })
		}
		for _, method := range []string{"none", "", "http://www.w3.org/2007/05/xmldsig-more#sha256-rsa-MGF1", samltest.ECDSASHA256} {
			t.Run("method "+method, func(t *testing.T) {
				l.refuses(t, l.tampered(func(root *etree.Element) {
					find(root, signature+"/ds:SignedInfo/ds:SignatureMethod").CreateAttr("Algorithm", method)
				}), "")
			})
		}
	})
}
