package saml_test

import (
	"encoding/base64"
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
	"github.com/gatehouse-id/gatehouse/internal/modeltest"
)

func TestXMLAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 148: comments cut no text", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for _, place := range []string{
			"./saml:Assertion/saml:Subject/saml:NameID", "./saml:Assertion/saml:AttributeStatement/saml:Attribute/saml:AttributeValue",
			"./saml:Issuer",
			"./saml:Assertion/saml:Conditions/saml:AudienceRestriction/saml:Audience", "./saml:Assertion/saml:Issuer",
		} {
			l.refuses(t, l.tampered(func(root *etree.Element) { find(root, place).InsertChildAt(0, etree.NewComment(" ")) }), "a comment")
		}
		raw := string(l.edited(func(root *etree.Element) {
			find(root, "./saml:Assertion/saml:Subject/saml:NameID").SetText("admin@x.evil")
		}))
		l.refuses(t, []byte(strings.Replace(raw, "admin@x.evil", "admin@x<!-- -->.evil", 1)), "a comment")
		l.refuses(t, []byte(raw+"<!-- -->"), "a comment")
		l.accepts(t, []byte(raw), "admin@x.evil")
	})
	t.Run("attack 149: other ways of writing text", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		raw := string(l.idp.Response(l.honest()))
		name := func(s string) string {
			return strings.Replace(raw, ">anna@example</saml:NameID>", ">"+s+"</saml:NameID>", 1)
		}
		for what, doc := range map[string]string{
			"CDATA":                     name("<![CDATA[anna]]>@example"),
			"instruction":               name("anna<?x ?>@example"),
			"instruction before":        `<?xml-stylesheet href="x"?>` + raw,
			"NUL":                       name("anna\x00@example"),
			"NUL by reference":          name("anna&#0;@example"),
			"control":                   name("anna\x01@example"),
			"unknown entity":            name("anna&nbsp;@example"),
			"surrogate":                 name("anna&#xd800;@example"),
			"not UTF-8":                 name("anna\xff@example"),
			"overlong":                  name("anna\xc0\xbc@example"),
			"UTF-16":                    string(utf16le(raw)),
			"UTF-16 declared":           `<?xml version="1.0" encoding="UTF-16"?>` + raw,
			"UTF-7 declared":            `<?xml version="1.0" encoding="UTF-7"?>` + raw,
			"Latin 1 declared":          `<?xml version="1.0" encoding="ISO-8859-1"?>` + raw,
			"version 1.1":               `<?xml version="1.1"?>` + raw,
			"text behind":               raw + "x",
			"root behind":               raw + raw,
			"text before":               "x" + raw,
			"byte order mark":           "\ufeff" + raw,
			"space before declaration":  " <?xml version=\"1.0\"?>" + raw,
			"cut":                       raw[:len(raw)-1],
			"nothing":                   "",
			"two declarations":          `<?xml version="1.0"?><?xml version="1.0"?>` + raw,
			"no end":                    strings.Replace(raw, "</saml:NameID>", "", 1),
			"end of something else":     strings.Replace(raw, "</saml:NameID>", "</saml:NameId>", 1),
			"attribute without quotes":  strings.Replace(raw, `Version="2.0"`, `Version=2.0`, 1),
			"attribute with markup":     strings.Replace(raw, `Version="2.0"`, `Version="2.0<"`, 1),
			"attributes without a gap":  strings.Replace(raw, `Version="2.0" `, `Version="2.0"`, 1),
			"name with a letter beyond": strings.ReplaceAll(raw, "saml:Subject", "saml:Sübject"),
		} {
			t.Run(what, func(t *testing.T) { l.refuses(t, []byte(doc), "not well formed") })
		}
		l.accepts(t, []byte(`<?xml version="1.0" encoding="utf-8"?>`+"\n"+name("&#97;nna@&#x65;xample")), "anna@example")
	})
	t.Run("attack 149: a document type, before anything is expanded", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		raw := string(l.idp.Response(l.honest()))
		for _, dtd := range []string{
			`<!DOCTYPE x>`,
			`<!DOCTYPE x SYSTEM "file:///etc/passwd">`,
			`<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">]>`,
			`<!DOCTYPE x [<!ENTITY a SYSTEM "https://evil.example/">]>`,
			`<!DOCTYPE x [<!ATTLIST saml:Assertion ID ID #IMPLIED>]>`,
		} {
			l.refuses(t, []byte(dtd+raw), "not well formed")
			l.refuses(t, []byte(`<?xml version="1.0"?>`+dtd+raw), "not well formed")
		}
	})
	t.Run("attack 151: namespaces that read differently to different readers", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		for what, change := range map[string]func(root *etree.Element){
			"relative":   func(root *etree.Element) { root.CreateAttr("xmlns:x", "relative") },
			"empty":      func(root *etree.Element) { root.CreateAttr("xmlns:x", "") },
			"undeclared": func(root *etree.Element) { find(root, "./saml:Assertion").CreateAttr("xmlns", "") },
			"unbound":    func(root *etree.Element) { root.CreateElement("x:y") },
			"unbound at": func(root *etree.Element) { root.CreateAttr("x:y", "z") },
			"redefined":  func(root *etree.Element) { find(root, "./saml:Assertion").CreateAttr("xmlns:saml", samltest.Protocol) },
			"shadowed": func(root *etree.Element) {
				find(root, "./saml:Assertion/saml:Subject").CreateAttr("xmlns:saml", "urn:x")
			},
			"xml":      func(root *etree.Element) { root.CreateAttr("xmlns:xml", "urn:x") },
			"xmlns":    func(root *etree.Element) { root.CreateAttr("xmlns:xmlns", "urn:x") },
			"reserved": func(root *etree.Element) { root.CreateAttr("xmlns:x", "http://www.w3.org/2000/xmlns/") },
			"space":    func(root *etree.Element) { root.CreateAttr("xmlns:x", "urn:x y") },
			"three":    func(root *etree.Element) { root.CreateElement("x:y:z").CreateAttr("xmlns:x", "urn:x") },
		} {
			t.Run(what, func(t *testing.T) {
				l.refuses(t, l.tampered(change), "")
				a := l.honest()
				a.SignAssertion, a.SignResponse = true, true
				a.Tamper = change
				l.refuses(t, l.idp.Response(a), "")
			})
		}
		// An empty canonical form has a well-known digest.
		l.refuses(t, l.tampered(func(root *etree.Element) {
			find(root, signature+"/ds:SignedInfo/ds:Reference/ds:DigestValue").SetText("47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=")
		}), "not the provider's")
	})
	t.Run("attack 152: one attribute under two names", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		raw := string(l.idp.Response(l.honest()))
		for _, more := range []string{
			`ID="_x" ID="_y"`, `samlp:ID="_x"`, `xmlns:a="urn:x" xmlns:b="urn:x" a:c="1" b:c="2"`,
			`xmlns:a="urn:x" a:c="1" a:c="2"`, `Version="2.0"`,
		} {
			l.refuses(t, []byte(strings.Replace(raw, `Version="2.0"`, `Version="2.0" `+more, 1)), "not well formed")
		}
	})
	t.Run("attack 153: documents that cost more than they are worth", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		open, closed := `<samlp:Response xmlns:samlp="`+samltest.Protocol+`">`, `</samlp:Response>`
		deep := func(n int) string { return strings.Repeat("<a>", n) + strings.Repeat("</a>", n) }
		for what, doc := range map[string]struct{ raw, reason string }{
			"200,000 deep":       {open + deep(200_000) + closed, "bytes"},
			"64 deep":            {open + deep(64) + closed, "too deep"},
			"wide":               {open + strings.Repeat("<a/>", 10_000) + closed, "too many"},
			"63 deep many times": {open + strings.Repeat(deep(62), 80) + closed, "too many"},
			"5 MB":               {open + strings.Repeat("<a/>", 5<<18) + closed, "bytes"},
			"1 MB attribute":     {open + `<a b="` + strings.Repeat("x", 1<<20) + `"/>` + closed, "bytes"},
			"attributes":         {open + "<a" + manyAttributes(33) + "/>" + closed, "too many attributes"},
			"all attributes":     {open + strings.Repeat("<a"+manyAttributes(16)+"/>", 1_000) + closed, "too many"},
			"scope":              {open + "<a" + manyPrefixes(26) + ">" + strings.Repeat("<a/>", 6_000) + "</a>" + closed, "too many"},
			"namespaces":         {open + manyNamespaces(40) + closed, "too many namespaces"},
			"long name":          {open + "<" + strings.Repeat("a", 300) + "/>" + closed, "name is missing, or too long"},
		} {
			t.Run(what, func(t *testing.T) { l.refuses(t, []byte(doc.raw), doc.reason) })
		}
	})
	t.Run("attack 156: ciphertexts that are changed all answer the same", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			content string
			signed  bool
			reason  string
		}{
			{samltest.AES128CBC, true, "the answer: the signature is not the provider's"},
			{samltest.AES128CBC, false, "the encrypted assertion: it does not decrypt"},
			{samltest.AES256GCM, false, "the encrypted assertion: it does not decrypt"},
		} {
			l := newLab(t)
			a := l.honest()
			a.SignResponse, a.Encrypt, a.Content = tt.signed, samltest.NewKey("sp", l.now).Certificate, tt.content
			raw := l.idp.Response(a)
			const value = "./saml:EncryptedAssertion/xenc:EncryptedData/xenc:CipherData/xenc:CipherValue"
			for i := range modeltest.Rounds(60, 200) {
				doc := samltest.Parse(raw)
				cipher := find(doc.Root(), value)
				octets, err := base64.StdEncoding.DecodeString(cipher.Text())
				if err != nil {
					t.Fatal(err)
				}
				octets[len(octets)-1-i] ^= byte(i + 1)
				if i%10 == 0 { // and all lengths, including those that are not whole blocks
					octets = octets[:i/2]
				}
				cipher.SetText(base64.StdEncoding.EncodeToString(octets))
				_, err = l.finish(samltest.Bytes(doc))
				if err == nil || err.Error() != "idp: "+tt.reason {
					t.Fatalf("%s %d: Finish = %v, want %q", tt.content, i, err, tt.reason)
				}
			}
		}
	})
	t.Run("attack 156: what is encrypted is looked at as closely as the rest", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := samltest.Answer{Encrypt: samltest.NewKey("sp", l.now).Certificate}
		inner := samltest.Bytes(samltest.Parse([]byte(`<saml:Assertion xmlns:saml="` + samltest.Assertion + `" ID="_evil"/>`)))
		for what, plain := range map[string]string{
			"unsigned": string(inner), "nothing": "", "a comment": "<!-- -->" + string(inner), "a document type": "<!DOCTYPE x>" + string(inner),
			"two": string(inner) + string(inner), "a response": `<samlp:Response xmlns:samlp="` + samltest.Protocol + `"/>`,
			"prefixes of elsewhere": "<saml:Assertion/>",
			"nested":                strings.Replace(string(inner), "/>", ">"+string(inner)+"</saml:Assertion>", 1),
			"deep":                  strings.Repeat("<a>", 70) + strings.Repeat("</a>", 70),
		} {
			t.Run(what, func(t *testing.T) {
				l.refuses(t, l.tampered(func(root *etree.Element) {
					remove(find(root, "./saml:Assertion"))
					root.AddChild(samltest.Seal(a, "EncryptedAssertion", []byte(plain)))
				}), "")
			})
		}
	})
	t.Run("attack 156: parts of encryption that are missing or ask for more", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.Encrypt = samltest.NewKey("sp", l.now).Certificate
		const data = "./saml:EncryptedAssertion/xenc:EncryptedData"
		for what, change := range map[string]func(root *etree.Element){
			"no data":    func(root *etree.Element) { remove(find(root, data)) },
			"no method":  func(root *etree.Element) { remove(find(root, data+"/xenc:EncryptionMethod")) },
			"no key":     func(root *etree.Element) { remove(find(root, data+"/ds:KeyInfo/xenc:EncryptedKey")) },
			"no KeyInfo": func(root *etree.Element) { remove(find(root, data+"/ds:KeyInfo")) },
			"no cipher":  func(root *etree.Element) { remove(find(root, data+"/xenc:CipherData")) },
			"empty key": func(root *etree.Element) {
				find(root, data+"/ds:KeyInfo/xenc:EncryptedKey/xenc:CipherData/xenc:CipherValue").SetText("")
			},
			"another key": func(root *etree.Element) {
				find(root, data+"/ds:KeyInfo/xenc:EncryptedKey/xenc:CipherData/xenc:CipherValue").SetText(strings.Repeat("AAAA", 85) + "AA==")
			},
			"a reference": func(root *etree.Element) {
				find(root, data+"/xenc:CipherData").CreateElement("xenc:CipherReference").CreateAttr("URI", "https://evil.example/")
			},
			"two data": func(root *etree.Element) {
				root.SelectElement("saml:EncryptedAssertion").AddChild(find(root, data).Copy())
			},
			"content alone": func(root *etree.Element) {
				find(root, data).CreateAttr("Type", "http://www.w3.org/2001/04/xmlenc#Content")
			},
			"parameters": func(root *etree.Element) {
				find(root, data+"/ds:KeyInfo/xenc:EncryptedKey/xenc:EncryptionMethod").CreateElement("xenc:OAEPparams")
			},
			"many keys": func(root *etree.Element) {
				info := find(root, data+"/ds:KeyInfo")
				key := find(info, "./xenc:EncryptedKey")
				find(key, "./xenc:CipherData/xenc:CipherValue").SetText(strings.Repeat("AAAA", 85) + "AA==")
				for range 100 {
					info.AddChild(key.Copy())
				}
			},
		} {
			t.Run(what, func(t *testing.T) {
				b := a
				b.Tamper = change
				l.refuses(t, l.idp.Response(b), "the encrypted assertion")
			})
		}
	})
}

func TestMetadataAttacks(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	good := string(l.idp.Metadata())
	for what, raw := range map[string]string{
		"document type": "<!DOCTYPE x>" + good,
		"script":        strings.Replace(good, "https://idp.example/sso", "javascript:alert(1)", 1),
		"data":          strings.Replace(good, "https://idp.example/sso", "data:text/html,x", 1),
		"user name":     strings.Replace(good, "https://idp.example/sso", "https://a@idp.example/sso", 1),
		"no entity":     strings.Replace(good, "entityID=", "other=", 1),
		"no key":        strings.Replace(good, `use="signing"`, `use="encryption"`, 1),
		"no key in it":  strings.Replace(good, "X509Certificate>", "X509Other>", 2),
		"broken key":    strings.Replace(good, "<ds:X509Certificate>", "<ds:X509Certificate>AAAA", 1),
		"no endpoint":   strings.ReplaceAll(good, "SingleSignOnService", "OtherService"),
		"other product": strings.ReplaceAll(good, "IDPSSODescriptor", "SPSSODescriptor"),
		"SAML 1.1":      strings.Replace(good, "urn:oasis:names:tc:SAML:2.0:protocol", "urn:oasis:names:tc:SAML:1.1:protocol", 1),
		"not XML":       "hello",
		"two providers": `<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata">` +
			good + strings.Replace(good, `ID="`, `ID="_2`, 1) + `</md:EntitiesDescriptor>`,
		"over": strings.Replace(good, "entityID=", `validUntil="2026-05-06T07:08:09Z" entityID=`, 1),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			if p, err := saml.New(saml.Config{Metadata: "<" + strings.TrimPrefix(raw, "<")}, l.env()); err == nil {
				p.Close()
				t.Errorf("New takes %s", what)
			}
		})
	}
}

func utf16le(s string) []byte {
	out := []byte{0xff, 0xfe}
	for _, c := range utf16.Encode([]rune(s)) {
		out = binary.LittleEndian.AppendUint16(out, c)
	}
	return out
}

func manyAttributes(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(" a" + strings.Repeat("a", i) + `="x"`)
	}
	return b.String()
}

// manyNamespaces nests elements. Each declares a prefix that stays in scope.
func manyNamespaces(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("<a xmlns:n" + strings.Repeat("a", i) + `="urn:x">`)
	}
	return b.String() + strings.Repeat("</a>", n)
}
