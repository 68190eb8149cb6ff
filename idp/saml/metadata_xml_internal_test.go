package saml

import (
	"bytes"
	"crypto/x509"
	"encoding/binary"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

// fixture reads a file of testdata. Its recipe is testdata/recipe.py.
func fixture(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func signer(t *testing.T) *x509.Certificate {
	t.Helper()
	c, err := Config{MetadataCertificate: "testdata/signer.pem"}.trust()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var fixtureTime = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)

// TestMetadataXML reads what XML allows in metadata, with and without its signature, which other software has made.
func TestMetadataXML(t *testing.T) {
	t.Parallel()
	for name, entity := range map[string]string{
		"adfs.xml": "http://fs.example.com/adfs/services/trust", // takes the default namespace away: xmlns=""
		"odd.xml":  "https://idp.example.com/idp",               // xmlns:xml, CDATA, instructions, id in extensions, a negative serial number
	} {
		for what, trust := range map[string]*x509.Certificate{"signed": signer(t), "unsigned": nil} {
			t.Run(name+" "+what, func(t *testing.T) {
				t.Parallel()
				m, err := parseMetadata(fixture(t, name), trust, fixtureTime)
				if err != nil {
					t.Fatalf("parseMetadata(%s) = %v", name, err)
				}
				if m.EntityID != entity || len(m.Signing) != 1 || m.SSO[bindingRedirect] == "" {
					t.Errorf("parseMetadata(%s) = %+v, want %s with a key and an address", name, m, entity)
				}
				if err := m.usable(fixtureTime); err != nil {
					t.Errorf("usable(%s) = %v", name, err)
				}
			})
		}
	}
}

// TestMetadataXMLTampered: what is read beyond plain XML is covered by the signature all the same.
func TestMetadataXMLTampered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ file, old, new string }{
		{"adfs.xml", ` xmlns=""`, ``},
		{"adfs.xml", `a &amp; b`, `a &amp; c`},
		{"odd.xml", `Research & <more>`, `Research &amp; <more>`},
		{"odd.xml", `fold="yes"`, `fold="no"`},
		{"odd.xml", `<?editor fold="yes"?>`, ``},
		{"odd.xml", `id="1"`, `id="2"`},
		{"odd.xml", `https://idp.example.com/sso`, `https://evil.example/sso`},
	} {
		raw := fixture(t, tt.file)
		changed := bytes.Replace(raw, []byte(tt.old), []byte(tt.new), 1)
		if bytes.Equal(raw, changed) {
			t.Fatalf("%s does not contain %q", tt.file, tt.old)
		}
		if _, err := parseMetadata(changed, signer(t), fixtureTime); err == nil {
			t.Errorf("parseMetadata(%s with %q for %q) = nil, want an error", tt.file, tt.new, tt.old)
		}
	}
}

// TestMetadataXMLRefused: metadata is not read where parsers can differ.
func TestMetadataXMLRefused(t *testing.T) {
	t.Parallel()
	raw := string(fixture(t, "odd.xml"))
	for name, tt := range map[string]struct{ old, new string }{
		"document type":          {`<?xml version="1.0"?>`, `<!DOCTYPE x [<!ENTITY a "b">]>`},
		"document type later":    {`<!-- made by hand -->`, `<!DOCTYPE x>`},
		"entity":                 {`Location="https://idp.example.com/sso"`, `Location="https://idp.example.com/&sso;"`},
		"declaration again":      {`<!-- made by hand -->`, `<?xml version="1.0"?>`},
		"declaration inside":     {`<?editor fold="yes"?>`, `<?XML x?>`},
		"instruction cut":        {`<?editor fold="yes"?>`, `<?editor`},
		"instruction unnamed":    {`<?editor fold="yes"?>`, `<? x?>`},
		"CDATA cut":              {`]]>`, `]]`},
		"CDATA outside":          {`<!-- made by hand -->`, `<![CDATA[ ]]>`},
		"xml bound to another":   {`http://www.w3.org/XML/1998/namespace`, `urn:x`},
		"another bound to xml":   {`xmlns:xml=`, `xmlns:x=`},
		"prefix undeclared":      {`xmlns:x="urn:example:x" id="1"/>`, `xmlns:x="" id="1"/>`},
		"our ID in an extension": {`id="1"`, `id="all"`},
		"our ID misspelled":      {`<md:IDPSSODescriptor `, `<md:IDPSSODescriptor id="x" `},
		"version 1.1":            {`version="1.0"`, `version="1.1"`},
		"unknown encoding":       {`version="1.0"`, `version="1.0" encoding="EBCDIC-CP-US"`},
		"NUL":                    {`made by hand`, "\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(raw, tt.old) {
				t.Fatalf("the fixture does not contain %q", tt.old)
			}
			if m, err := parseMetadata([]byte(strings.Replace(raw, tt.old, tt.new, 1)), nil, fixtureTime); err == nil {
				t.Errorf("parseMetadata = %+v, want an error", m)
			}
		})
	}
}

// TestMetadataEncodings reads metadata that was saved in another encoding.
func TestMetadataEncodings(t *testing.T) {
	t.Parallel()
	plain := strings.Replace(string(fixture(t, "odd.xml")), `Research & <more>`, `Café`, 1)
	declare := func(encoding string) string {
		return strings.Replace(plain, `<?xml version="1.0"?>`, `<?xml version='1.0' encoding="`+encoding+`" standalone='yes' ?>`, 1)
	}
	wide := func(s string, order binary.AppendByteOrder) []byte {
		var out []byte
		for _, unit := range utf16.Encode([]rune(s)) {
			out = order.AppendUint16(out, unit)
		}
		return out
	}
	latin := func(s string) []byte { return bytes.ReplaceAll([]byte(s), []byte("é"), []byte{0xe9}) }
	for name, raw := range map[string][]byte{
		"UTF-8":                          []byte(plain),
		"UTF-8 with a mark":              []byte("\ufeff" + declare("UTF-8")),
		"UTF-16 little with a mark":      wide("\ufeff"+declare("UTF-16"), binary.LittleEndian),
		"UTF-16 big with a mark":         wide("\ufeff"+declare("utf-16"), binary.BigEndian),
		"UTF-16 with a mark, undeclared": wide("\ufeff"+plain, binary.LittleEndian),
		"UTF-16 without a mark":          wide(declare("UTF-16LE"), binary.LittleEndian),
		"Latin 1":                        latin(declare("ISO-8859-1")),
		"Windows":                        latin(declare("windows-1252")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, err := safexml.Metadata.Parse(raw, map[string]bool{})
			if err != nil || !strings.Contains(root.AllText(), "Café") {
				t.Fatalf("Parse = %v, want a document that says Café", err)
			}
			if m, err := parseMetadata(raw, nil, fixtureTime); err != nil || m.EntityID != "https://idp.example.com/idp" {
				t.Errorf("parseMetadata = %+v, %v", m, err)
			}
		})
	}
	for name, raw := range map[string][]byte{
		"UTF-16 cut": wide("\ufeff"+plain, binary.LittleEndian)[1:],
		"UTF-32":     append([]byte{0xff, 0xfe, 0, 0}, '<', 0, 0, 0),
		"Shift_JIS":  []byte(declare("Shift_JIS")),
	} {
		if _, err := safexml.Metadata.Parse(raw, map[string]bool{}); err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("Parse(%s) = %v, want an error that names UTF-8", name, err)
		}
	}
}

// TestRequestXML: a request can take the default namespace away. An answer, which signs someone in, cannot.
func TestRequestXML(t *testing.T) {
	t.Parallel()
	raw := []byte(`<samlp:AuthnRequest xmlns:samlp="` + nsProtocol + `" xmlns="` + nsAssertion +
		`" ID="_1"><Issuer>https://sp.example.com</Issuer>` +
		`<samlp:Extensions><hint xmlns="">x</hint></samlp:Extensions></samlp:AuthnRequest>`)
	n, err := OpenMessage(raw)
	if err != nil {
		t.Fatalf("OpenMessage = %v", err)
	}
	if hint := n.Elements[1].Elements[0]; hint.Space != "" || hint.Local != "hint" {
		t.Errorf("the extension is {%s}%s, want it in no namespace", hint.Space, hint.Local)
	}
	if _, err := safexml.Messages.Parse(raw, map[string]bool{}); err == nil {
		t.Error("Messages.Parse = nil, want an error")
	}
	for _, inner := range []string{`<![CDATA[x]]>`, `<?x y?>`, `<!-- x -->`} {
		if _, err := OpenMessage(bytes.Replace(raw, []byte(">x<"), []byte(">"+inner+"<"), 1)); err == nil {
			t.Errorf("OpenMessage with %s = nil, want an error", inner)
		}
	}
}
