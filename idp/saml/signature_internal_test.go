package saml

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestVerifiedIsWhatWasSigned bypasses the front door and the counting of signatures: even for documents that they
// refuse, verification returns only what the provider has signed.
func TestVerifiedIsWhatWasSigned(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	p := samltest.New("https://idp.example/entity", func() time.Time { return now })
	answer := samltest.Answer{SP: "sp", ACS: "acs", Request: "_q", NameID: "anna", SignAssertion: true}
	evil := func(el *etree.Element) *etree.Element {
		c := el.Copy()
		c.FindElement(".//saml:NameID").SetText("admin")
		return c
	}
	bare := func(el *etree.Element) *etree.Element {
		c := el.Copy()
		c.RemoveChild(c.SelectElement("ds:Signature"))
		return c
	}
	const in = "./saml:Assertion"
	tests := []struct {
		name string
		wrap func(root *etree.Element)
		good bool // a signature is valid
	}{
		{"honest", func(*etree.Element) {}, true},
		{"evil around the signed", func(root *etree.Element) {
			signed := root.FindElement(in)
			e := evil(bare(signed))
			root.RemoveChild(signed)
			e.AddChild(signed)
			root.AddChild(e)
		}, true},
		{"signed inside of its own signature", func(root *etree.Element) {
			signed := root.FindElement(in)
			original := bare(signed)
			signed.FindElement(".//saml:NameID").SetText("admin")
			signed.SelectElement("ds:Signature").CreateElement("ds:Object").AddChild(original)
		}, false},
		{"evil first, with the same ID", func(root *etree.Element) {
			signed := root.FindElement(in)
			root.InsertChildAt(signed.Index(), evil(signed))
		}, true},
		{"evil inside of the signed", func(root *etree.Element) {
			signed := root.FindElement(in)
			signed.AddChild(evil(bare(signed)))
		}, false},
		{"comment", func(root *etree.Element) {
			root.FindElement(".//saml:NameID").InsertChildAt(0, etree.NewComment("x"))
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := answer
			a.Tamper = tt.wrap
			root, err := safexml.FromTree(samltest.Parse(p.Response(a)).Root())
			if err != nil {
				t.Fatal(err)
			}
			verifies := false
			var walk func(n *node)
			walk = func(n *node) {
				if out, err := verifyElement(n, []*x509.Certificate{p.Key.Certificate}, now); err == nil && out != nil {
					verifies = true
					if text := out.AllText(); strings.Contains(text, "admin") || !strings.Contains(text, "anna") {
						t.Errorf("verified %q", text)
					}
				}
				for _, c := range n.Elements {
					walk(c)
				}
			}
			walk(root)
			if verifies != tt.good {
				t.Errorf("something verifies: %t, want %t", verifies, tt.good)
			}
		})
	}
}
