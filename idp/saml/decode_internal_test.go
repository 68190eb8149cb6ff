package saml

import (
	"encoding/base64"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const bindings = "urn:oasis:names:tc:SAML:2.0:bindings:"

// describe writes an EntityDescriptor with a role of an identity provider. Each piece replaces the part of that name.
func describe(pieces map[string]string) string {
	part := map[string]string{
		"entity": `entityID="https://idp.example"`, "role": `protocolSupportEnumeration="` + nsProtocol + `"`, "before": "", "after": "",
		"keys":      keyDescriptor(`use="signing"`, "idp"),
		"endpoints": `<md:SingleSignOnService Binding="` + bindingRedirect + `" Location="https://idp.example/sso"/>`,
	}
	maps.Copy(part, pieces)
	return fmt.Sprintf(`<md:EntityDescriptor xmlns:md="%s" xmlns:ds="%s" %s>%s<md:IDPSSODescriptor %s>%s%s</md:IDPSSODescriptor>%s</md:EntityDescriptor>`,
		nsMetadata, nsDsig, part["entity"], part["before"], part["role"], part["keys"], part["endpoints"], part["after"])
}

func keyDescriptor(use string, names ...string) string {
	return `<md:KeyDescriptor ` + use + `><ds:KeyInfo>` + keyData(names...) + `</ds:KeyInfo></md:KeyDescriptor>`
}

func keyData(names ...string) string {
	out := ""
	for _, name := range names {
		out += `<ds:X509Data><ds:X509Certificate>` + base64.StdEncoding.EncodeToString(samltest.NewKey(name, start).Certificate.Raw) +
			`</ds:X509Certificate></ds:X509Data>`
	}
	return out
}

// TestMetadataShapes shows what is read from metadata and what is left out.
func TestMetadataShapes(t *testing.T) {
	t.Parallel()
	const other = `<md:AttributeAuthorityDescriptor protocolSupportEnumeration="x" cacheDuration="never" validUntil="never">` +
		`<md:AttributeService Binding="` + bindings + `SOAP" Location="javascript:alert(1)"/></md:AttributeAuthorityDescriptor>`
	// all says everything that is read, in one line.
	all := func(m *idpMetadata) string {
		var names []string
		for _, c := range m.Signing {
			names = append(names, c.Subject.CommonName)
		}
		return fmt.Sprintln(m.EntityID, names, m.SSO[bindingRedirect], m.SSO[bindingPost], m.SLO[bindingRedirect], m.SLO[bindingPost], m.ARS,
			m.NameIDFormats, m.WantAuthnRequestsSigned)
	}
	said := func(keys, redirect, post, sloRedirect, sloPost, ars, formats string, signed bool) string {
		return fmt.Sprintln("https://idp.example", "["+keys+"]", redirect, post, sloRedirect, sloPost, ars, "["+formats+"]", signed)
	}
	const sso = "https://idp.example/sso"
	none := said("idp", sso, "", "{ }", "{ }", "map[]", "", false)
	good := describe(nil)
	unprefixed := strings.NewReplacer("<md:", "<", "</md:", "</", "xmlns:md", "xmlns").Replace(good)
	for _, tt := range []struct{ name, raw, want string }{
		{"the least", good, none},
		{"a default namespace", unprefixed, none},
		{"other prefixes", strings.NewReplacer("md:", "m:", "ds:", "d:", ":md=", ":m=", ":ds=", ":d=").Replace(good), none},
		{
			"comments and a declaration",
			`<?xml version="1.0" encoding="UTF-8"?><!-- x -->` + strings.ReplaceAll(good, "<ds:KeyInfo>", "<!-- key --><ds:KeyInfo>") +
				"<!-- y -->", none,
		},
		{"one of a federation", `<md:EntitiesDescriptor xmlns:md="` + nsMetadata + `"><md:EntitiesDescriptor>` + good +
			`</md:EntitiesDescriptor>` +
			`<md:EntityDescriptor entityID="https://sp.example">` + other + `</md:EntityDescriptor></md:EntitiesDescriptor>`, none},
		{"other roles, extensions and people, which are not read", describe(map[string]string{
			"before": `<md:Extensions><md:SingleSignOnService Binding="x" Location="javascript:alert(1)"/></md:Extensions>` + other +
				`<md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:1.1:protocol"/>`,
			"after": other + `<md:ContactPerson contactType="support"/><md:ContactPerson contactType="technical"/>`,
		}), none},
		{"services of the role that are not read", describe(map[string]string{
			"keys": `<md:Extensions/>` + keyDescriptor("", "idp") + `<md:Organization/><md:ManageNameIDService Binding="` + bindingPost +
				`" Location="nowhere"/>`,
		}), none},
		{"elements and attributes of other vocabularies", describe(map[string]string{
			"keys": `<x:KeyDescriptor xmlns:x="urn:x" use="signing">` + keyData("other") + `</x:KeyDescriptor>` +
				strings.Replace(keyDescriptor(`use="signing" xmlns:x="urn:x" x:use="encryption"`, "idp"), "<ds:X509Data>",
					`<x:X509Data><x:X509Certificate>AAAA</x:X509Certificate></x:X509Data><ds:X509Data>`, 1),
			"endpoints": `<x:SingleSignOnService xmlns:x="urn:x" Binding="` + bindingRedirect + `" Location="https://evil.example/"/>` +
				`<md:SingleSignOnService xmlns:x="urn:x" Binding="` + bindingRedirect + `" Location="` + sso + `" x:Location="https://evil.example/"/>`,
		}), none},
		{"lifetimes that the library cannot read", describe(map[string]string{
			"entity": `entityID="https://idp.example" cacheDuration="P9999Y" validUntil="2099-01-01T00:00:00"`,
			"role":   `protocolSupportEnumeration="` + nsProtocol + `" cacheDuration="PT90M" validUntil="2099-01-01T00:00:00"`,
		}), none},
		{"several protocols", describe(map[string]string{"role": `protocolSupportEnumeration="urn:x ` + nsProtocol + ` urn:y"`}), none},
		{"keys for everything, for signatures and for encryption, several in one element", describe(map[string]string{
			"keys": keyDescriptor("", "a", "b") + keyDescriptor(`use="encryption"`, "c") + keyDescriptor(`use="signing"`, "d", "ec e"),
		}), said("a b d ec e", sso, "", "{ }", "{ }", "map[]", "", false)},
		{
			"a key for encryption without KeyInfo",
			describe(map[string]string{"keys": keyDescriptor("", "idp") + `<md:KeyDescriptor use="encryption"/>`}), none,
		},
		{"every endpoint, the first of each binding", describe(map[string]string{
			"role": `protocolSupportEnumeration="` + nsProtocol + `" WantAuthnRequestsSigned="1"`,
			"endpoints": `<md:ArtifactResolutionService index="3" Binding="` + bindings + `SOAP" Location=" https://idp.example/ars "/>` +
				`<md:ArtifactResolutionService index="65535" Binding="` + bindings + `SOAP" Location="https://idp.example/ars2"/>` +
				`<md:SingleLogoutService Binding="` + bindingPost + `" Location="https://idp.example/slo" ResponseLocation="` + "\n" +
				`https://idp.example/back"/>` +
				`<md:SingleLogoutService Binding="` + bindingRedirect + `" Location="https://idp.example/slo"/>` +
				`<md:NameIDFormat> urn:x </md:NameIDFormat><md:NameIDFormat>urn:y</md:NameIDFormat>` +
				`<md:SingleSignOnService Binding="urn:mace:shibboleth:1.0:profiles:AuthnRequest" Location="https://idp.example/shibboleth"/>` +
				`<md:SingleSignOnService Binding="` + bindingPost + `" Location="https://idp.example/post?a=b&amp;c=d"/>` +
				`<md:SingleSignOnService Binding="` + bindingRedirect + `" Location="https://idp.example/sso"/>` +
				`<md:SingleSignOnService Binding="` + bindingRedirect + `" Location="https://idp.example/second"/>`,
		}), said("idp", sso, "https://idp.example/post?a=b&c=d", "{https://idp.example/slo https://idp.example/slo}",
			"{https://idp.example/slo https://idp.example/back}", "map[3:https://idp.example/ars 65535:https://idp.example/ars2]",
			"urn:x urn:y", true)},
		{
			"a flag that is not a boolean",
			describe(map[string]string{"role": `protocolSupportEnumeration="` + nsProtocol + `" WantAuthnRequestsSigned="yes"`}), none,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, err := parseMetadata([]byte(tt.raw), nil, start)
			if err != nil {
				t.Fatalf("parseMetadata: %v\n%s", err, tt.raw)
			}
			if got := all(m); got != tt.want {
				t.Errorf("read %s\nwant %s", got, tt.want)
			}
			if _, unknown := m.SSO["urn:mace:shibboleth:1.0:profiles:AuthnRequest"]; unknown {
				t.Error("an endpoint of an unknown binding is read")
			}
		})
	}
}

// TestMetadataRefused has metadata that the front door lets through and that is refused nevertheless.
func TestMetadataRefused(t *testing.T) {
	t.Parallel()
	sso := func(location string) string {
		return `<md:SingleSignOnService Binding="` + bindingRedirect + `" Location="https://idp.example/sso"/>` +
			`<md:SingleSignOnService Binding="` + bindingPost + `" Location="` + location + `"/>`
	}
	for name, tt := range map[string]struct {
		pieces map[string]string
		reason string
	}{
		"KeyInfo twice": {map[string]string{"keys": `<md:KeyDescriptor><ds:KeyInfo>` + keyData("idp") +
			`</ds:KeyInfo><ds:KeyInfo/></md:KeyDescriptor>`}, "KeyInfo twice"},
		"no KeyInfo": {map[string]string{"keys": keyDescriptor("", "idp") + `<md:KeyDescriptor/>`}, "no KeyInfo"},
		"artifacts, no index": {map[string]string{"keys": keyDescriptor("", "idp") +
			`<md:ArtifactResolutionService Binding="x" Location="https://idp.example/"/>`}, "without an index"},
		"a negative index": {map[string]string{"keys": keyDescriptor("", "idp") +
			`<md:ArtifactResolutionService index="-1" Binding="x" Location="https://idp.example/"/>`}, "without an index"},
		"no address": {
			map[string]string{"endpoints": `<md:SingleSignOnService Binding="` + bindingPost + `"/>`},
			"not an http address",
		},
		"a relative address": {map[string]string{"endpoints": sso("/sso")}, "not an http address"},
		"a script":           {map[string]string{"endpoints": sso("javascript:alert(1)")}, "not an http address"},
		"a fragment":         {map[string]string{"endpoints": sso("https://idp.example/#a")}, "not an http address"},
		"an unknown binding": {
			map[string]string{"endpoints": `<md:SingleSignOnService Binding="urn:x" Location="https://idp.example/"/>`},
			"no SingleSignOnService",
		},
		"two roles": {
			map[string]string{"after": `<md:IDPSSODescriptor protocolSupportEnumeration="` + nsProtocol + `"/>`},
			"two roles",
		},
		"expired, in the role": {
			map[string]string{"role": `protocolSupportEnumeration="` + nsProtocol + `" validUntil="2026-03-04T05:06:07Z"`},
			"valid until",
		},
		"an empty time":         {map[string]string{"entity": `entityID="https://idp.example" validUntil=""`}, "validUntil"},
		"a negative duration":   {map[string]string{"entity": `entityID="https://idp.example" cacheDuration="-P1D"`}, "cacheDuration"},
		"entityID of elsewhere": {map[string]string{"entity": `xmlns:x="urn:x" x:entityID="https://idp.example"`}, "entityID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m, err := parseMetadata([]byte(describe(tt.pieces)), nil, start); err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("parseMetadata = %+v, %v, want an error with %q", m, err, tt.reason)
			}
		})
	}
}

// TestLibraryBehindTheDoor holds that the library's decoder sees nothing that the front door has refused, and nothing
// that is not signed where it must be.
func TestLibraryBehindTheDoor(t *testing.T) {
	t.Parallel()
	good := describe(nil)
	root := func(inner string) string {
		return strings.Replace(good, "<md:IDPSSODescriptor", inner+"<md:IDPSSODescriptor", 1)
	}
	p := samltest.New("https://idp.example", func() time.Time { return start })
	signed := string(p.SignedMetadata(p.Key))
	refused := map[string]string{
		"a document type":     "<!DOCTYPE md:EntityDescriptor>" + good,
		"entities that grow":  `<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>` + good,
		"a file":              `<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>` + good,
		"2 MiB":               root("<md:Extensions>" + strings.Repeat("x", 2<<20) + "</md:Extensions>"),
		"65 deep":             root(strings.Repeat("<md:Extensions>", 65) + strings.Repeat("</md:Extensions>", 65)),
		"100,000 deep":        root(strings.Repeat("<a>", 100_000) + strings.Repeat("</a>", 100_000)),
		"10,000 elements":     root(strings.Repeat("<md:Extensions/>", 10_000)),
		"33 attributes":       root("<a" + manyNames(33) + "/>"),
		"an unknown entity":   root("&nbsp;"),
		"a control character": root("\x01"),
		"not UTF-8":           root("\xff"),
		"an unbound prefix":   root("<x:y/>"),
		"an ID twice": strings.Replace(root(`<md:Extensions ID="_a"/>`), "<md:EntityDescriptor",
			`<md:EntityDescriptor ID="_a"`, 1),
		"two documents":               good + good,
		"half a document":             good[:len(good)/2],
		"UTF-16":                      "\xff\xfe<\x00a\x00/\x00>\x00",
		"not XML":                     "hello",
		"nothing":                     "",
		"another document":            `<md:AffiliationDescriptor xmlns:md="` + nsMetadata + `"/>`,
		"an EntityDescriptor of none": strings.ReplaceAll(good, nsMetadata, "urn:x"),
	}
	calls := 0
	spy := func(n *node, into any) error { calls++; return decode(n, into) }
	for name, raw := range refused {
		if m, err := readMetadata(strings.NewReader(raw), "", nil, start, spy); err == nil || calls != 0 {
			t.Errorf("%s: readMetadata = %+v, %v, and the library has seen %d elements", name, m, err, calls)
		}
		calls = 0
	}
	for name, raw := range map[string]string{
		"CDATA": root("<![CDATA[x]]>"), "an instruction": root("<?x y?>"),
		"another encoding": `<?xml version="1.0" encoding="ISO-8859-1"?>` + good,
	} { // legal in metadata
		if _, err := readMetadata(strings.NewReader(raw), "", nil, start, spy); err != nil || calls != 1 {
			t.Errorf("%s: readMetadata = %v after %d elements, want the entity alone", name, err, calls)
		}
		calls = 0
		if _, err := safexml.Messages.Parse([]byte(raw), map[string]bool{}); err == nil {
			t.Errorf("%s: a message may have it", name)
		}
	}
	for name, raw := range map[string]string{
		"unsigned": good, "changed": strings.Replace(signed, "/sso", "/evil", 1),
		"signed by another key": signed,
	} {
		trust := p.Key.Certificate
		if name == "signed by another key" {
			trust = samltest.NewKey("other", start).Certificate
		}
		if m, err := readMetadata(strings.NewReader(raw), "", trust, start, spy); err == nil || calls != 0 {
			t.Errorf("%s: readMetadata = %+v, %v, and the library has seen %d elements", name, m, err, calls)
		}
		calls = 0
	}
	if _, err := readMetadata(strings.NewReader(signed), "", p.Key.Certificate, start, spy); err != nil || calls != 1 {
		t.Errorf("readMetadata = %v after %d elements, want the entity alone", err, calls)
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ` c%d=""`, i)
	}
	return b.String()
}

// TestLibraryUse holds how much of the library there is: schema types, which carry no clock, no random source and no
// judgement, in the files that write messages and metadata and in the one that reads metadata, and decryption. Text is
// decoded nowhere.
func TestLibraryUse(t *testing.T) {
	t.Parallel()
	const library = "github.com/crewjam/saml"
	uses := map[string][]string{
		"artifact.go":    {"ArtifactResolve"},
		"peer.go":        {"EntityDescriptor"},
		"idpmetadata.go": {"EntityDescriptor", "IDPSSODescriptor", "KeyDescriptor", "SOAPBinding"},
		"logout.go": {
			"LogoutRequest", "LogoutResponse", "NameID", "SessionIndex", "Status", "StatusCode",
			"StatusRequester", "StatusResponder",
		},
		"request.go": {
			"AuthnRequest", "HTTPArtifactBinding", "HTTPPostBinding", "HTTPRedirectBinding", "IDPEntry", "IDPList", "Issuer",
			"NameIDPolicy", "RequestedAuthnContext", "Scoping",
		},
		"spmetadata.go": {
			"Attribute", "AttributeConsumingService", "EncryptionMethod", "Endpoint", "EntityDescriptor", "IndexedEndpoint",
			"KeyDescriptor", "KeyInfo",
			"LocalizedName", "NameIDFormat", "RequestedAttribute", "SOAPBinding", "SPSSODescriptor", "X509Certificate", "X509Data",
		},
	}
	ciphers := map[string][]string{"decrypt.go": {"Decrypt"}}
	decoders := map[string][]string{
		"decode.go":     {"Attr", "CharData", "Name", "NewTokenDecoder", "StartElement", "Token"},
		"spmetadata.go": {"Marshal"},
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	door, err := filepath.Glob("safexml/*.go")
	if err != nil || len(door) == 0 {
		t.Fatalf("files of the front door: %q, %v", door, err)
	}
	for _, name := range append(files, door...) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, raw, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if path := strings.Trim(i.Path.Value, `"`); strings.HasPrefix(path, library+"/") && path != library+"/xmlenc" ||
				path == library && (i.Name == nil || i.Name.Name != "schema") {
				t.Errorf("%s imports %s, want %s, as schema, and its xmlenc alone", name, path, library)
			}
		}
		if got := selected(file, "xmlenc"); !slices.Equal(got, ciphers[name]) {
			t.Errorf("%s uses %q of the library's xmlenc, want %q", name, got, ciphers[name])
		}
		if got := selected(file, "schema"); !slices.Equal(got, uses[name]) {
			t.Errorf("%s uses %q of the library, want %q", name, got, uses[name])
		}
		if got := selected(file, "xml"); !slices.Equal(got, decoders[name]) {
			t.Errorf("%s uses %q of encoding/xml, want %q", name, got, decoders[name])
		}
	}
}

// selected returns the names that a file uses of a package, sorted.
func selected(file *ast.File, pkg string) []string {
	names := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg {
				names[s.Sel.Name] = true
			}
		}
		return true
	})
	return slices.Sorted(maps.Keys(names))
}

// TestOwnMetadataLifetime holds that our metadata names no end: providers keep it for years.
func TestOwnMetadataLifetime(t *testing.T) {
	t.Parallel()
	raw, err := newWorld(t, Config{}).ownMetadata(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e := parsed(t, raw)
	if until := e.SelectAttr("validUntil"); until != nil {
		t.Errorf("validUntil = %q", until.Value)
	}
	if got := e.SelectAttrValue("cacheDuration", ""); got != "PT1H" {
		t.Errorf("cacheDuration = %q", got)
	}
	if !strings.HasPrefix(string(raw), "<md:EntityDescriptor ") || !strings.Contains(string(raw), "<ds:X509Certificate>MII") {
		t.Errorf("the usual prefixes are missing in %.200s", raw)
	}
}
