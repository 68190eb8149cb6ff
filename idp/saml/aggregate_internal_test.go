package saml

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestAggregate reads one provider of a federation's metadata, which other software has signed.
func TestAggregate(t *testing.T) {
	t.Parallel()
	raw := fixture(t, "aggregate.xml")
	for what, trust := range map[string]*x509.Certificate{"signed": signer(t), "unsigned": nil} {
		for i, until := range map[int]string{1: "2126-01-01", 2: "2125-01-01", 3: "2126-01-01"} {
			entity := fmt.Sprintf("https://idp%d.example.com/idp", i)
			m, err := readMetadata(bytes.NewReader(raw), entity, trust, fixtureTime, decode)
			if err != nil {
				t.Errorf("readMetadata(%s, %s) = %v", entity, what, err)
				continue
			}
			if want := fmt.Sprintf("https://idp%d.example.com/sso?a=1&b=2", i); m.EntityID != entity ||
				m.SSO[bindingRedirect] != want || len(m.Signing) != 1 {
				t.Errorf("readMetadata(%s, %s) = %+v, want the address %s and a key", entity, what, m, want)
			}
			if got := m.ValidUntil.Format(time.DateOnly); got != until || m.CacheDuration != 6*time.Hour {
				t.Errorf("readMetadata(%s, %s) is valid until %s for %s, want %s as around it, for 6h", entity, what, got, m.CacheDuration, until)
			}
		}
	}
	if _, err := parseMetadata(raw, nil, fixtureTime); err == nil || !strings.Contains(err.Error(), "entity") {
		t.Errorf("parseMetadata = %v, want an error that names the option entity", err)
	}
	for entity, want := range map[string]string{
		"https://idp9.example.com/idp": "no entity",
		"https://sp1.example.com/sp":   "not that of an identity provider",
	} {
		if _, err := readMetadata(bytes.NewReader(raw), entity, nil, fixtureTime, decode); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("readMetadata(%s) = %v, want %q", entity, err, want)
		}
	}
	if _, err := readMetadata(bytes.NewReader(raw), "https://idp2.example.com/idp", nil, time.Date(2125, 6, 1, 0, 0, 0, 0, time.UTC),
		decode); err == nil || !strings.Contains(err.Error(), "valid until") {
		t.Errorf("readMetadata = %v after the end of what is around the entity", err)
	}
}

// The attack: the metadata of a federation is changed on its way.
func TestAggregateTampered(t *testing.T) {
	t.Parallel()
	raw := string(fixture(t, "aggregate.xml"))
	const entity = "https://idp3.example.com/idp"
	evil := `<EntityDescriptor entityID="` + entity + `"><IDPSSODescriptor protocolSupportEnumeration="` +
		nsProtocol + `"/></EntityDescriptor>`
	signature := raw[strings.Index(raw, "<ds:Signature "):]
	signature = signature[:strings.Index(signature, "</ds:Signature>")+len("</ds:Signature>")]
	for name, tt := range map[string]struct{ old, new string }{
		"the address":             {"https://idp3.example.com/sso", "https://evil.example/sso"},
		"another member":          {"https://idp1.example.com/sso", "https://evil.example/sso"},
		"a text":                  {"Institute 2", "Institute 4"},
		"a reference":             {"c\nd'", "c\td&#9;'"},
		"an instruction":          {"<?keep this?>", "<?keep that?>"},
		"a namespace":             {`<plain xmlns=""`, `<plain`},
		"white space":             {"</EntitiesDescriptor><EntityDescriptor", "</EntitiesDescriptor> <EntityDescriptor"},
		"the lifetime":            {"2126-01-01", "2127-01-01"},
		"the inner lifetime":      {"2125-01-01", "2127-01-01"},
		"an entity at the end":    {"</f:EntityDescriptor><!-- 3 -->\n", "</f:EntityDescriptor>" + evil},
		"the signature is gone":   {signature, ""},
		"the signature is late":   {signature + "\n", "<Extensions/>" + signature},
		"the signature is inside": {signature, "<Extensions>" + signature + "</Extensions>"},
		"two signatures":          {signature, signature + signature},
		"the entity twice":        {"<!-- 3 -->\n", evil + "<!-- 3 -->\n"},
		"the root has another ID": {`ID="federation"`, `ID="other"`},
		"text after the root":     {"</EntitiesDescriptor>\x00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := strings.Replace(raw, tt.old, tt.new, 1)
			if name == "text after the root" {
				changed = raw + "x"
			}
			if changed == raw {
				t.Fatalf("the fixture does not contain %q", tt.old)
			}
			if m, err := readMetadata(strings.NewReader(changed), entity, signer(t), fixtureTime, decode); err == nil {
				t.Errorf("readMetadata = %+v, want an error", m)
			}
		})
	}
	other := samltest.NewKey("another federation", fixtureTime).Certificate
	if m, err := readMetadata(strings.NewReader(raw), entity, other, fixtureTime, decode); err == nil {
		t.Errorf("readMetadata = %+v with the certificate of another", m)
	}
	for cut := range 200 {
		if m, err := readMetadata(strings.NewReader(raw[:len(raw)*cut/200]), entity, signer(t), fixtureTime, decode); err == nil {
			t.Fatalf("readMetadata = %+v for %d bytes of %d", m, len(raw)*cut/200, len(raw))
		}
	}
}

// TestAggregateMember: a member of an unsigned federation is believed by its own signature.
func TestAggregateMember(t *testing.T) {
	t.Parallel()
	entity := string(fixture(t, "adfs.xml"))
	raw := `<md:EntitiesDescriptor xmlns:md="` + nsMetadata + `" xmlns:x="urn:x">` + entity + `</md:EntitiesDescriptor>`
	const id = "http://fs.example.com/adfs/services/trust"
	if m, err := readMetadata(strings.NewReader(raw), id, signer(t), fixtureTime, decode); err != nil || m.EntityID != id {
		t.Errorf("readMetadata = %+v, %v, want %s", m, err, id)
	}
	if m, err := readMetadata(strings.NewReader(entity), id, signer(t), fixtureTime, decode); err != nil || m.EntityID != id {
		t.Errorf("readMetadata of the member alone = %+v, %v, want %s", m, err, id)
	}
	changed := strings.Replace(raw, "https://fs.example.com/adfs/ls/", "https://evil.example/", 1)
	if m, err := readMetadata(strings.NewReader(changed), id, signer(t), fixtureTime, decode); err == nil {
		t.Errorf("readMetadata = %+v of a changed member", m)
	}
}

// TestAggregateLarge reads a federation that is far larger than what is kept of it.
func TestAggregateLarge(t *testing.T) {
	t.Parallel()
	const entity = "https://idp.example/meant"
	p := samltest.New(entity, func() time.Time { return fixtureTime })
	member := `<EntityDescriptor xmlns="` + nsMetadata + `" entityID="https://other.example/idp"><Extensions><a>` +
		strings.Repeat("text ", 2000) + `</a></Extensions></EntityDescriptor>`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<EntitiesDescriptor xmlns="`+nsMetadata+`">`)
		for range 1000 {
			_, _ = io.WriteString(w, member)
		}
		_, _ = w.Write(p.Metadata())
		_, _ = io.WriteString(w, `</EntitiesDescriptor>`)
	}))
	t.Cleanup(server.Close)
	r, err := Open(t.Context(), server.URL, true, server.Client(), Version{}, func(*http.Response) {})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close() //nolint:errcheck // only read
	m, err := readMetadata(r, entity, nil, fixtureTime, decode)
	if err != nil || m.EntityID != entity {
		t.Errorf("readMetadata = %+v, %v, want %s", m, err, entity)
	}
}

// TestCanonical: the canonical form of a stream is that of the library, which reads whole documents.
func TestCanonical(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{samltest.Exclusive, samltest.Inclusive, samltest.Inclusive11} {
		for _, prefixes := range []string{"", "x unused #default"} {
			key := samltest.NewKey("federation", fixtureTime)
			doc := samltest.Parse([]byte(`<EntitiesDescriptor xmlns="` + nsMetadata +
				`" xmlns:x="urn:x" xmlns:unused="urn:y" b="2" x:a="1" ID="all">` +
				`<x:y z="&lt;&#10;&quot;">a &amp; b<z xmlns="" xmlns:x="urn:z"><x:w/><v xmlns="urn:v"/></z></x:y>` +
				`<EntityDescriptor entityID="https://idp.example"><c xmlns=""/><x:d/></EntityDescriptor></EntitiesDescriptor>`))
			samltest.Sign(doc.Root(), samltest.Signature{Key: key, Canonical: algorithm, Prefixes: prefixes})
			root, around, err := pick(bytes.NewReader(samltest.Bytes(doc)), "https://idp.example", key.Certificate, fixtureTime)
			if err != nil {
				t.Errorf("pick(%s, %q) = %v", algorithm, prefixes, err)
				continue
			}
			if c, d := root.Elements[0], root.Elements[1]; len(around) != 1 || c.Space != "" || d.Space != "urn:x" {
				t.Errorf("pick(%s, %q) has {%s}%s and {%s}%s", algorithm, prefixes, c.Space, c.Local, d.Space, d.Local)
			}
		}
	}
}

// FuzzPick: a stream is read as the same whole document, and never with a panic.
func FuzzPick(f *testing.F) {
	f.Add([]byte(`<EntitiesDescriptor xmlns="` + nsMetadata +
		`"><EntityDescriptor entityID="a"><x xmlns="" y='"&#xD;'>&lt;]]&gt;</x><?p q?></EntityDescriptor></EntitiesDescriptor>`))
	f.Add([]byte(`<EntityDescriptor entityID="a" xmlns="` + nsMetadata + `"><![CDATA[<]]></EntityDescriptor>`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		picked, err := safexml.Pick(bytes.NewReader(raw), "a", nil)
		if err != nil {
			return
		}
		root, err := safexml.Metadata.Parse(raw, map[string]bool{})
		if err != nil {
			return // limits of a whole document
		}
		if whole := find(root); whole == nil || whole.AllText() != picked.Entity.AllText() || len(whole.Elements) != len(picked.Entity.Elements) {
			t.Errorf("Pick and Parse read %q differently", raw)
		}
	})
}

func find(n *node) *node {
	if n.Is(nsMetadata, "EntityDescriptor") && n.Attrs["entityID"] == "a" {
		return n
	}
	for _, c := range n.Elements {
		if found := find(c); found != nil {
			return found
		}
	}
	return nil
}
