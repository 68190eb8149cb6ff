package saml_test

import (
	"strconv"
	"testing"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// evil changes the person that the assertion in el is about, and returns el.
func evil(el *etree.Element) *etree.Element {
	for _, name := range el.FindElements(".//saml:NameID") {
		name.SetText("admin@example")
	}
	for _, value := range el.FindElements(".//saml:AttributeValue") {
		value.SetText("admin@example")
	}
	return el
}

// bare returns a copy of el without its signature.
func bare(el *etree.Element) *etree.Element {
	c := el.Copy()
	for _, sig := range c.SelectElements("ds:Signature") {
		c.RemoveChild(sig)
	}
	return c
}

// wrap applies one of the eight wrapping attacks, numbered as in SAML Raider, to the existing signature: for 1 and 2 to
// that of the response if there is one, otherwise to that of the assertion. With keep, the evil element keeps the ID of
// the original.
func wrap(n int, root *etree.Element, keep bool) {
	assertion := find(root, "./saml:Assertion")
	sig := root.SelectElement("ds:Signature")
	if sig == nil || n > 2 {
		if sig = assertion.SelectElement("ds:Signature"); sig == nil {
			sig = find(root, "./ds:Signature")
		}
	}
	rename := func(el *etree.Element) {
		if !keep {
			el.CreateAttr("ID", "_evil")
		}
	}
	switch n {
	case 1, 2:
		original := bare(root)
		if n == 1 {
			sig.AddChild(original)
		} else {
			sig.Parent().InsertChildAt(sig.Index(), original)
		}
		rename(root)
		evil(assertion)
	case 3:
		e := evil(bare(assertion))
		rename(e)
		root.InsertChildAt(assertion.Index(), e)
	case 4:
		e := evil(bare(assertion))
		rename(e)
		root.RemoveChild(assertion)
		root.AddChild(e)
		e.AddChild(assertion)
	case 5:
		original := bare(assertion)
		rename(evil(assertion))
		root.AddChild(original)
	case 6:
		original := bare(assertion)
		rename(evil(assertion))
		sig.AddChild(original)
	case 7:
		e := evil(bare(assertion))
		rename(e)
		extensions := etree.NewElement("samlp:Extensions")
		extensions.AddChild(e)
		root.InsertChildAt(1, extensions)
	case 8:
		original := bare(assertion)
		rename(evil(assertion))
		sig.CreateElement("ds:Object").AddChild(original)
	}
}

func TestWrapping(t *testing.T) {
	t.Parallel()
	names := []string{
		"attack 130: the signed response inside of the signature of an evil one",
		"attack 131: the signed response before the signature of an evil one",
		"attack 132: an evil assertion before the signed one",
		"attack 133: the signed assertion inside of an evil one",
		"attack 134: an evil assertion with the signature of a copy at the end",
		"attack 135: an evil assertion with the signed one inside of the signature",
		"attack 136: an evil assertion in Extensions",
		"attack 137: an evil assertion with the signed one in an Object",
	}
	for i, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, s := range signings {
				for _, keep := range []bool{false, true} {
					l := newLab(t)
					a := l.honest()
					a.SignResponse, a.SignAssertion = s.response, s.assertion
					a.Tamper = func(root *etree.Element) { wrap(i+1, root, keep) }
					t.Run(s.name+" keep "+strconv.FormatBool(keep), func(t *testing.T) { l.refuses(t, l.idp.Response(a), "") })
				}
			}
		})
	}
}

func TestTwoAssertions(t *testing.T) {
	t.Parallel()
	t.Run("attack 138: an unsigned assertion before or after the signed one", func(t *testing.T) {
		t.Parallel()
		for _, before := range []bool{true, false} {
			l := newLab(t)
			l.refuses(t, l.tampered(func(root *etree.Element) {
				as := find(root, "./saml:Assertion")
				e := evil(bare(as))
				e.CreateAttr("ID", "_evil")
				at := as.Index()
				if !before {
					at++
				}
				root.InsertChildAt(at, e)
			}), "exactly one assertion")
		}
		l := newLab(t)
		a := l.honest()
		a.SignResponse = true
		a.Edit = func(root *etree.Element) { // refused even if the provider has signed it: the person is ambiguous
			e := evil(find(root, "./saml:Assertion").Copy())
			e.CreateAttr("ID", "_evil")
			root.AddChild(e)
		}
		l.refuses(t, l.idp.Response(a), "exactly one assertion")
		a.Edit = nil
		a.Encrypt = samltest.NewKey("sp", l.now).Certificate
		a.Tamper = func(root *etree.Element) {
			root.AddChild(samltest.Parse([]byte(`<saml:Assertion xmlns:saml="` + samltest.Assertion + `" ID="_evil"/>`)).Root())
		}
		a.SignResponse = false
		l.refuses(t, l.idp.Response(a), "exactly one assertion")
	})
	t.Run("attack 139: the signed assertion hidden, an evil one in its place", func(t *testing.T) {
		t.Parallel()
		places := map[string]func(root, evil, signed *etree.Element){
			"Extensions": func(root, _, signed *etree.Element) {
				x := etree.NewElement("samlp:Extensions")
				x.AddChild(signed)
				root.InsertChildAt(1, x)
			},
			"Advice": func(_, evil, signed *etree.Element) {
				x := etree.NewElement("saml:Advice")
				x.AddChild(signed)
				evil.InsertChildAt(3, x)
			},
			"ds:Object": func(_, evil, signed *etree.Element) {
				sig := find(signed, "./ds:Signature")
				signed.RemoveChild(sig)
				evil.InsertChildAt(1, sig)
				sig.CreateElement("ds:Object").AddChild(signed)
			},
			"StatusDetail": func(root, _, signed *etree.Element) {
				find(root, "./samlp:Status").CreateElement("samlp:StatusDetail").AddChild(signed)
			},
			"AttributeValue": func(_, evil, signed *etree.Element) {
				find(evil, "./saml:AttributeStatement/saml:Attribute").CreateElement("saml:AttributeValue").AddChild(signed)
			},
		}
		for name, place := range places {
			for _, s := range signings[1:] {
				l := newLab(t)
				a := l.honest()
				a.SignResponse, a.SignAssertion = s.response, s.assertion
				a.Tamper = func(root *etree.Element) {
					signed := find(root, "./saml:Assertion")
					e := evil(bare(signed))
					e.CreateAttr("ID", "_evil")
					root.RemoveChild(signed)
					root.AddChild(e)
					place(root, e, signed)
				}
				t.Run(name+" "+s.name, func(t *testing.T) { l.refuses(t, l.idp.Response(a), "") })
			}
		}
	})
}
