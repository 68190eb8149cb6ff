package saml_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestPeers plays what other products have fallen for.
func TestPeers(t *testing.T) {
	t.Parallel()
	t.Run("peer 31: an address whose query already holds parameters of SAML", func(t *testing.T) {
		t.Parallel()
		for _, query := range []string{
			"SAMLResponse=x", "SAMLRequest=x", "RelayState=x", "Signature=x", "SigAlg=x", "SAMLEncoding=x", "SAMLart=x", "a=b&RelayState",
			"%53AMLRequest=x", "a;RelayState=x", "%zz=x",
		} {
			for what, put := range map[string]func(*samltest.Provider, string){
				"sign-in": func(p *samltest.Provider, to string) { p.SSO = to }, "sign-out": func(p *samltest.Provider, to string) { p.SLO = to },
				"artifacts": func(p *samltest.Provider, to string) { p.Artifact = to },
			} {
				l := newLab(t)
				put(l.idp, "https://idp.example/at?"+query)
				p, err := saml.New(saml.Config{Metadata: string(l.idp.Metadata())}, l.env())
				if err == nil || !strings.Contains(err.Error(), "of the SAML protocol") {
					t.Errorf("%s at ?%s: New = %v, want a refusal", what, query, err)
				}
				if p != nil {
					p.Close()
				}
			}
		}
		// A query of the provider's own comes first, and every parameter is there once.
		l := newLab(t)
		l.idp.SSO = "https://idp.example/sso?tenant=a%26SAMLRequest%3Dx"
		l.open(saml.Config{Metadata: string(l.idp.Metadata())})
		next, err := l.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(next.URL)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"tenant", "SAMLRequest", "RelayState", "SigAlg", "Signature"} {
			if got := u.Query()[name]; len(got) != 1 {
				t.Errorf("%s is there %d times in %s", name, len(got), next.URL)
			}
		}
	})
	t.Run("peer 32: an encrypted assertion of the attacker's beside the signed one", func(t *testing.T) {
		t.Parallel()
		for _, content := range []string{samltest.AES128CBC, samltest.AES256GCM} {
			for _, s := range signings {
				for where, put := range map[string]func(root, sealed *etree.Element){
					"at the end":    func(root, sealed *etree.Element) { root.AddChild(sealed) },
					"before it":     func(root, sealed *etree.Element) { root.InsertChildAt(find(root, "./saml:Assertion").Index(), sealed) },
					"in its place":  func(root, sealed *etree.Element) { remove(find(root, "./saml:Assertion")); root.AddChild(sealed) },
					"in Extensions": func(root, sealed *etree.Element) { root.InsertChildAt(1, extensions(sealed)) },
					"in the signed one": func(root, sealed *etree.Element) {
						find(root, "./saml:Assertion").AddChild(sealed)
					},
				} {
					l := newLab(t)
					a := l.honest()
					a.SignResponse, a.SignAssertion = s.response, s.assertion
					a.Tamper = func(root *etree.Element) {
						doc := etree.NewDocument()
						doc.SetRoot(evil(bare(find(root, "./saml:Assertion"))))
						doc.Root().CreateAttr("ID", "_evil")
						put(root, samltest.Seal(samltest.Answer{Encrypt: samltest.NewKey("sp", l.now).Certificate, Content: content},
							"EncryptedAssertion", samltest.Bytes(doc)))
					}
					t.Run(s.name+" "+where, func(t *testing.T) { l.refuses(t, l.idp.Response(a), "") })
				}
			}
		}
	})
	t.Run("peer 63: a name and an address that are cut by markup", func(t *testing.T) {
		t.Parallel()
		const whole = "boss@example.org.evil.example"
		cut := func(el *etree.Element, token etree.Token, rest string) {
			el.SetText("boss@example.org")
			el.AddChild(token)
			el.CreateText(rest)
		}
		for what, edit := range map[string]func(el *etree.Element){
			"a comment":        func(el *etree.Element) { cut(el, etree.NewComment(""), ".evil.example") },
			"CDATA":            func(el *etree.Element) { cut(el, etree.NewCData(".evil"), ".example") },
			"an instruction":   func(el *etree.Element) { cut(el, etree.NewProcInst("x", ""), ".evil.example") },
			"an element":       func(el *etree.Element) { cut(el, etree.NewElement("saml:x"), ".evil.example") },
			"several texts":    func(el *etree.Element) { cut(el, etree.NewText(".evil"), ".example") },
			"nothing, all one": func(el *etree.Element) { el.SetText(whole) },
		} {
			for _, where := range []string{".//saml:NameID", ".//saml:AttributeValue"} {
				for _, s := range signings {
					l := newLab(t, func(c *saml.Config) { c.Mapping.Attributes = []idp.Attribute{{From: "mail", To: "email"}} })
					a := l.honest()
					if where == ".//saml:NameID" {
						a.Format = "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
					}
					a.SignResponse, a.SignAssertion = s.response, s.assertion
					a.Edit = func(root *etree.Element) { // the provider has signed it so: its users choose their names
						if where == ".//saml:NameID" {
							remove(find(root, ".//saml:AttributeStatement"))
						}
						edit(find(root, where))
					}
					id, err := l.finish(l.idp.Response(a))
					if err == nil && id.Email != whole && id.Email != "" && id.EmailVerified {
						t.Errorf("%s in %s, %s: email %q", what, where, s.name, id.Email)
					}
					if err == nil && where == ".//saml:NameID" && id.Subject != whole {
						t.Errorf("%s in %s, %s: subject %q", what, where, s.name, id.Subject)
					}
					if err != nil {
						l.refused(t, nil, err, "")
					}
				}
			}
		}
		// References are text like any other, and are never cut.
		l := newLab(t, func(c *saml.Config) { c.Mapping.Attributes = []idp.Attribute{{From: "mail", To: "email"}} })
		a := l.honest()
		a.Attributes[0].Values[0] = whole
		raw := strings.Replace(string(l.idp.Response(a)), "boss@example.org.evil", "boss&#64;example&#x2e;org&#46;evil", 1)
		if id, err := l.finish([]byte(raw)); err != nil || id.Email != whole {
			t.Errorf("references: %+v, %v, want %s", id, err, whole)
		}
	})
}

func extensions(inside *etree.Element) *etree.Element {
	e := etree.NewElement("samlp:Extensions")
	e.AddChild(inside)
	return e
}

// TestStraySignature: an answer with a signature in a place where nothing verifies it is refused, although the
// signatures in their places are the provider's.
func TestStraySignature(t *testing.T) {
	t.Parallel()
	// stray is an element with a signature that looks like the provider's own.
	stray := func(root *etree.Element) *etree.Element {
		e := etree.NewElement("x:y")
		e.CreateAttr("xmlns:x", "urn:example:x")
		sig := root.FindElement(".//ds:Signature")
		if sig == nil {
			e.AddChild(samltest.Parse([]byte(`<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/>`)).Root())
			return e
		}
		e.AddChild(sig.Copy())
		return e
	}
	status := func(root *etree.Element) *etree.Element { return find(root, "./samlp:Status") }
	for what, put := range map[string]func(root *etree.Element){
		"in Extensions":   func(root *etree.Element) { root.InsertChildAt(1, extensions(stray(root))) },
		"in StatusDetail": func(root *etree.Element) { status(root).CreateElement("samlp:StatusDetail").AddChild(stray(root)) },
		"in StatusMessage": func(root *etree.Element) {
			status(root).CreateElement("samlp:StatusMessage").AddChild(stray(root).ChildElements()[0].Copy())
		},
		"behind the assertion": func(root *etree.Element) { root.AddChild(stray(root).ChildElements()[0].Copy()) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a := l.honest()
			a.SignResponse, a.SignAssertion, a.Tamper = false, true, put
			l.refuses(t, l.idp.Response(a), "")
		})
	}
	// In the assertion it is signed along, so the provider itself has put it there.
	for _, where := range []string{
		".//saml:Subject", ".//saml:AttributeValue", ".//saml:Conditions",
		".//saml:AuthnContext", ".//saml:Attribute",
	} {
		for _, s := range signings {
			t.Run("in "+where+" "+s.name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				a := l.honest()
				a.SignResponse, a.SignAssertion = s.response, s.assertion
				a.Edit = func(root *etree.Element) { find(root, where).AddChild(stray(root)) }
				l.refuses(t, l.idp.Response(a), "a signature in the wrong place")
			})
		}
	}
	t.Run("in an encrypted assertion", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.SignResponse, a.SignAssertion = false, true
		a.Encrypt = samltest.NewKey("sp", l.now).Certificate
		a.Edit = func(root *etree.Element) { find(root, ".//saml:AttributeValue").AddChild(stray(root)) }
		l.refuses(t, l.idp.Response(a), "a signature in the wrong place")
	})
}
