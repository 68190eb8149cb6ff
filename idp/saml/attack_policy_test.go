package saml_test

import (
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const (
	subject      = "./saml:Assertion/saml:Subject"
	confirmation = subject + "/saml:SubjectConfirmation"
	data         = confirmation + "/saml:SubjectConfirmationData"
	conditions   = "./saml:Assertion/saml:Conditions"
	statement    = "./saml:Assertion/saml:AuthnStatement"
)

// refusesAll checks that each change is refused although the provider has signed it, in each of the three ways of
// signing.
func (l *lab) refusesAll(t *testing.T, changes map[string]func(root *etree.Element)) {
	t.Helper()
	for what, change := range changes {
		for _, s := range signings {
			a := l.honest()
			a.SignResponse, a.SignAssertion, a.Edit = s.response, s.assertion, change
			t.Run(what+" "+s.name, func(t *testing.T) { l.refuses(t, l.idp.Response(a), "") })
		}
	}
}

func TestPolicyAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 157: an element is missing, and the provider has signed it so", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		changes := map[string]func(root *etree.Element){}
		for _, path := range []string{
			subject, subject + "/saml:NameID", conditions, data, "./saml:Assertion/saml:Issuer", "./saml:Issuer", statement, "./samlp:Status",
			"./samlp:Status/samlp:StatusCode",
			"./saml:Assertion", statement + "/saml:AuthnContext", conditions + "/saml:AudienceRestriction/saml:Audience",
		} {
			changes[path] = func(root *etree.Element) { remove(find(root, path)) }
		}
		changes["empty name"] = func(root *etree.Element) { find(root, subject+"/saml:NameID").SetText(" ") }
		changes["name of elements"] = func(root *etree.Element) {
			find(root, subject+"/saml:NameID").CreateElement("saml:NameID").SetText("x")
		}
		changes["base id"] = func(root *etree.Element) { find(root, subject+"/saml:NameID").Tag = "BaseID" }
		changes["instant"] = func(root *etree.Element) { find(root, statement).RemoveAttr("AuthnInstant") }
		l.refusesAll(t, changes)
		l.refuses(t, []byte(`<samlp:Response xmlns:samlp="`+samltest.Protocol+`"/>`), "")
		l.refuses(t, []byte(`<saml:Assertion xmlns:saml="`+samltest.Assertion+`"/>`), "not a Response")
	})
	t.Run("attack 158: the subject is not confirmed by bearing", func(t *testing.T) {
		t.Parallel()
		newLab(t).refusesAll(t, map[string]func(root *etree.Element){
			"none": func(root *etree.Element) { remove(find(root, confirmation)) },
			"holder of key": func(root *etree.Element) {
				find(root, confirmation).CreateAttr("Method", "urn:oasis:names:tc:SAML:2.0:cm:holder-of-key")
			},
			"vouches": func(root *etree.Element) {
				find(root, confirmation).CreateAttr("Method", "urn:oasis:names:tc:SAML:2.0:cm:sender-vouches")
			},
			"no method":    func(root *etree.Element) { find(root, confirmation).RemoveAttr("Method") },
			"two":          func(root *etree.Element) { find(root, subject).AddChild(find(root, confirmation).Copy()) },
			"recipient":    func(root *etree.Element) { find(root, data).CreateAttr("Recipient", acs+"/") },
			"no recipient": func(root *etree.Element) { find(root, data).RemoveAttr("Recipient") },
			"for ever":     func(root *etree.Element) { find(root, data).RemoveAttr("NotOnOrAfter") },
			"not before":   func(root *etree.Element) { find(root, data).CreateAttr("NotBefore", "2026-05-06T07:08:09Z") },
			"destination":  func(root *etree.Element) { root.CreateAttr("Destination", acs+"/") },
		})
	})
	t.Run("attack 159: the audience is not ours", func(t *testing.T) {
		t.Parallel()
		const restriction = conditions + "/saml:AudienceRestriction"
		l := newLab(t)
		l.refusesAll(t, map[string]func(root *etree.Element){
			"none":      func(root *etree.Element) { remove(find(root, restriction)) },
			"foreign":   func(root *etree.Element) { find(root, restriction+"/saml:Audience").SetText("https://other.example") },
			"longer":    func(root *etree.Element) { find(root, restriction+"/saml:Audience").SetText(sp + "/") },
			"condition": func(root *etree.Element) { find(root, conditions).CreateElement("saml:Condition") },
			"and": func(root *etree.Element) {
				other := find(root, restriction).Copy()
				find(other, "./saml:Audience").SetText("https://other.example")
				find(root, conditions).AddChild(other)
			},
		})
		// One matching audience in a restriction is enough.
		l.accepts(t, l.edited(func(root *etree.Element) {
			find(root, restriction).CreateElement("saml:Audience").SetText("https://other.example")
			find(root, conditions).CreateElement("saml:OneTimeUse")
		}), "anna@example")
	})
	t.Run("attack 161: times", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		set := func(path, name string, d time.Duration) func(root *etree.Element) {
			return func(root *etree.Element) {
				el := root
				if path != "" {
					el = find(root, path)
				}
				el.CreateAttr(name, l.now.Add(d).Format(time.RFC3339))
			}
		}
		l.refusesAll(t, map[string]func(root *etree.Element){
			"conditions over":      set(conditions, "NotOnOrAfter", -61*time.Second),
			"conditions later":     set(conditions, "NotBefore", 61*time.Second),
			"confirmation over":    set(data, "NotOnOrAfter", -61*time.Second),
			"response of later":    set("", "IssueInstant", 10*time.Minute),
			"assertion of later":   set("./saml:Assertion", "IssueInstant", 10*time.Minute),
			"response of before":   set("", "IssueInstant", -12*time.Minute),
			"assertion of before":  set("./saml:Assertion", "IssueInstant", -12*time.Minute),
			"session over":         set(statement, "SessionNotOnOrAfter", -time.Second),
			"session over now":     set(statement, "SessionNotOnOrAfter", 0),
			"sign-in of later":     set(statement, "AuthnInstant", 2*time.Minute),
			"no time":              func(root *etree.Element) { find(root, conditions).CreateAttr("NotOnOrAfter", "soon") },
			"no time of a session": func(root *etree.Element) { find(root, statement).CreateAttr("SessionNotOnOrAfter", "soon") },
		})
		for _, fine := range []func(root *etree.Element){
			set(conditions, "NotOnOrAfter", -59*time.Second), set(conditions, "NotBefore", 59*time.Second),
			set(data, "NotOnOrAfter", -59*time.Second),
			set("./saml:Assertion", "IssueInstant", 59*time.Second), set("", "IssueInstant", -10*time.Minute),
		} {
			l.accepts(t, l.edited(fine), "anna@example")
		}
		id := l.accepts(t, l.edited(set(statement, "SessionNotOnOrAfter", time.Minute)), "anna@example")
		if want := l.now.Add(time.Minute); !id.NotAfter.Equal(want) {
			t.Errorf("NotAfter = %s, want %s", id.NotAfter, want)
		}
	})
	t.Run("attack 162: the answer to another request", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		first := l.honest()
		l.begin(idp.Request{Flow: flow, MaxAge: -1})
		l.refuses(t, l.idp.Response(first), "another request")
		l.refusesAll(t, map[string]func(root *etree.Element){
			"missing":                 func(root *etree.Element) { root.RemoveAttr("InResponseTo") },
			"unknown":                 func(root *etree.Element) { root.CreateAttr("InResponseTo", "_unknown") },
			"empty":                   func(root *etree.Element) { root.CreateAttr("InResponseTo", "") },
			"missing in confirmation": func(root *etree.Element) { find(root, data).RemoveAttr("InResponseTo") },
			"unknown in confirmation": func(root *etree.Element) { find(root, data).CreateAttr("InResponseTo", "_unknown") },
			"of the first": func(root *etree.Element) {
				root.CreateAttr("InResponseTo", first.Request)
				find(root, data).CreateAttr("InResponseTo", first.Request)
			},
		})
	})
	t.Run("attack 163: the same answer twice", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		raw := l.idp.Response(l.honest())
		l.accepts(t, raw, "anna@example")
		l.refuses(t, raw, "used before")
		l.now = l.now.Add(2 * time.Minute) // the assertion is still valid
		l.refuses(t, raw, "used before")
		// another node or process
		second, err := saml.New(saml.Config{Metadata: string(l.idp.Metadata())}, l.env())
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		l.Provider = second
		l.refuses(t, raw, "used before")
		if l.until.Before(l.now) {
			t.Errorf("marked until %s, which is over before the answer", l.until)
		}
	})
	t.Run("attack 164: the same assertion in a new response", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		raw := l.idp.Response(l.honest())
		l.accepts(t, raw, "anna@example")
		doc := samltest.Parse(raw)
		doc.Root().CreateAttr("ID", "_new")
		l.refuses(t, samltest.Bytes(doc), "used before")
	})
	t.Run("attack 167: answers of one provider at another", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		other := samltest.New("https://other.example/entity", l.idp.Now)
		l.refuses(t, other.Response(l.honest()), "")
		other.Key = l.idp.Key // both providers sign with the same key
		l.refuses(t, other.Response(l.honest()), "issuer")
		a := l.honest()
		a.Edit = func(root *etree.Element) { find(root, "./saml:Issuer").SetText(partner) }
		l.refuses(t, other.Response(a), "issuer")
		l.refusesAll(t, map[string]func(root *etree.Element){
			"issuer": func(root *etree.Element) { find(root, "./saml:Assertion/saml:Issuer").SetText(other.EntityID) },
			"space":  func(root *etree.Element) { find(root, "./saml:Assertion/saml:Issuer").SetText(partner + " ") },
			"no entity": func(root *etree.Element) {
				find(root, "./saml:Assertion/saml:Issuer").CreateAttr("Format", "urn:oasis:names:tc:SAML:2.0:nameid-format:transient")
			},
		})
	})
	t.Run("attack 169: status words are text", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.Status, a.Message, a.SignResponse = samltest.Responder, "<script>alert(1)</script>&code=evil\r\nSet-Cookie: a\x7f\u00e9\"", true
		a.Edit = func(root *etree.Element) {
			find(root, "./samlp:Status/samlp:StatusCode").CreateAttr("Value", "urn:x\r\n\"é")
		}
		a.Message = strings.ReplaceAll(a.Message, "\x7f", "")
		_, err := l.finish(l.idp.Response(a))
		got, ok := err.(*idp.Rejection) //nolint:errorlint // the error is not wrapped
		if !ok {
			t.Fatalf("Finish = %v, want a rejection", err)
		}
		if want := "<script>alert(1)</script>&code=evil Set-Cookie: a??"; got.Cause != want {
			t.Errorf("cause %q, want %q", got.Cause, want)
		}
		if strings.ContainsFunc(got.SAMLStatus, func(c rune) bool { return c < ' ' || c > '~' || c == '"' }) {
			t.Errorf("status %q", got.SAMLStatus)
		}
		a = l.honest()
		a.SignResponse = true
		a.Edit = func(root *etree.Element) {
			find(root, "./samlp:Status/samlp:StatusCode").CreateAttr("Value", samltest.Responder)
		}
		l.refuses(t, l.idp.Response(a), "a status other than success")
	})
	t.Run("attack 171: names are what they are, to the letter", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, name := range []string{
			"Anna@example", "anna@example ", " anna@example", "anna\u0308", "\u00e4nna",
			"ａnna@example", "anna@example\u200b",
		} {
			a := l.honest()
			a.Edit = func(root *etree.Element) { find(root, subject+"/saml:NameID").SetText(name) }
			l.accepts(t, l.idp.Response(a), name)
		}
		for _, name := range []string{"anna\u0085", "anna\n", strings.Repeat("x", 1025)} {
			a := l.honest()
			a.Edit = func(root *etree.Element) { find(root, subject+"/saml:NameID").SetText(name) }
			l.refuses(t, l.idp.Response(a), "")
		}
	})
}
