package saml_test

import (
	"testing"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestReboundPrefixes: a prefix can mean something else further inside, as in an answer that a provider has put
// together from documents that each have their own ns0 and ns1.
func TestReboundPrefixes(t *testing.T) {
	t.Parallel()
	for what, edit := range map[string]func(root *etree.Element){
		"not used": func(root *etree.Element) { find(root, "./saml:Assertion").CreateAttr("xmlns:samlp", "urn:other") },
		"used by an attribute": func(root *etree.Element) {
			a := find(root, ".//saml:Attribute")
			a.CreateAttr("xmlns:samlp", "urn:other")
			a.CreateAttr("samlp:tag", "1")
		},
		"there and back": func(root *etree.Element) {
			find(root, "./saml:Assertion").CreateAttr("xmlns:samlp", "urn:other")
			find(root, "./saml:Assertion").CreateAttr("samlp:tag", "1")
			a := find(root, ".//saml:Attribute")
			a.CreateAttr("xmlns:samlp", samltest.Protocol)
			a.CreateAttr("samlp:tag", "2")
		},
		"the prefix of the assertion, outside": func(root *etree.Element) {
			// As <p:Response xmlns:p="…protocol"><p:Assertion xmlns:p="…assertion">, but for parts that the script looks for.
			status := find(root, "./samlp:Status")
			status.Space = "saml"
			status.CreateAttr("xmlns:saml", samltest.Protocol)
			find(status, "./samlp:StatusCode").Space = "saml"
		},
	} {
		for _, s := range signings {
			for _, how := range []samltest.Signature{{}, {Canonical: samltest.Inclusive}, {Prefixes: "samlp saml xs"}} {
				t.Run(what+"/"+s.name+"/"+how.Canonical+how.Prefixes, func(t *testing.T) {
					t.Parallel()
					l := newLab(t)
					a := l.honest()
					a.SignResponse, a.SignAssertion, a.Signature, a.Edit = s.response, s.assertion, how, edit
					l.accepts(t, l.idp.Response(a), "anna@example")
				})
			}
		}
	}
	t.Run("attack 151: a prefix that is bound again after signing", func(t *testing.T) {
		t.Parallel()
		for what, tamper := range map[string]func(root *etree.Element){
			"the subject":   func(root *etree.Element) { find(root, ".//saml:Subject").CreateAttr("xmlns:saml", "urn:evil") },
			"the name":      func(root *etree.Element) { find(root, ".//saml:NameID").CreateAttr("xmlns:saml", samltest.Protocol) },
			"an attribute":  func(root *etree.Element) { find(root, ".//saml:Attribute").CreateAttr("xmlns:saml", "urn:evil") },
			"nil":           func(root *etree.Element) { find(root, ".//saml:AttributeValue").CreateAttr("xmlns:xsi", "urn:evil") },
			"the signature": func(root *etree.Element) { find(root, ".//ds:SignedInfo").CreateAttr("xmlns:ds", "urn:evil") },
			"the reference": func(root *etree.Element) { find(root, ".//ds:Reference").CreateAttr("xmlns:ds", "urn:evil") },
			"a second name": func(root *etree.Element) {
				n := find(root, ".//saml:NameID").Copy()
				n.SetText("admin@example")
				n.CreateAttr("xmlns:saml", "urn:evil")
				find(root, ".//saml:Subject").AddChild(n)
			},
		} {
			for _, s := range signings {
				for _, canonical := range []string{samltest.Exclusive, samltest.Inclusive} {
					l := newLab(t)
					a := l.honest()
					a.SignResponse, a.SignAssertion, a.Signature.Canonical, a.Tamper = s.response, s.assertion, canonical, tamper
					t.Run(what+"/"+s.name, func(t *testing.T) { l.refuses(t, l.idp.Response(a), "") })
				}
			}
		}
		// Exclusive canonicalization leaves a declaration out that nothing uses: it changes nothing that is read.
		l := newLab(t)
		a := l.honest()
		a.Tamper = func(root *etree.Element) { find(root, ".//saml:Subject").CreateAttr("xmlns:samlp", "urn:evil") }
		l.accepts(t, l.idp.Response(a), "anna@example")
	})
}
