package saml

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
	"github.com/gatehouse-id/gatehouse/internal/clocktest"
)

func texts(elements []*etree.Element) []string {
	var out []string
	for _, e := range elements {
		out = append(out, e.Text())
	}
	return out
}

func TestBegin(t *testing.T) {
	t.Parallel()
	const pw, card = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport", "urn:oasis:names:tc:SAML:2.0:ac:classes:Smartcard"
	for _, tt := range []struct {
		name  string
		cfg   Config
		q     idp.Request
		attrs map[string]string // "": absent
		path  map[string][]string
	}{
		{
			"plain",
			Config{},
			idp.Request{MaxAge: -1},
			map[string]string{
				"ForceAuthn": "", "IsPassive": "", "ProviderName": "", "ProtocolBinding": bindingPost,
				"AssertionConsumerServiceURL": issuer0 + "/saml/partner/acs", "Destination": ssoAt, "Version": "2.0",
				"IssueInstant": "2026-03-04T05:06:07Z",
			},
			map[string][]string{"./Issuer": {issuer0 + "/saml/partner/metadata"}, "./RequestedAuthnContext": nil, "./Extensions": nil},
		},
		{"prompt=login", Config{}, idp.Request{Force: true, MaxAge: -1}, map[string]string{"ForceAuthn": "true", "IsPassive": ""}, nil},
		{"max_age", Config{}, idp.Request{MaxAge: time.Minute}, map[string]string{"ForceAuthn": "true"}, nil},
		{"prompt=none", Config{}, idp.Request{Passive: true, MaxAge: -1}, map[string]string{"IsPassive": "true", "ForceAuthn": ""}, nil},
		{
			"the client's name",
			Config{},
			idp.Request{ProviderName: `The "shop" & <more>`, MaxAge: -1},
			map[string]string{"ProviderName": `The "shop" & <more>`},
			nil,
		},
		{
			"a name for all",
			Config{ProviderName: "Example"},
			idp.Request{ProviderName: "The shop", MaxAge: -1},
			map[string]string{"ProviderName": "Example"},
			nil,
		},
		{"artifact", Config{Artifact: true}, idp.Request{MaxAge: -1}, map[string]string{"ProtocolBinding": bindingArtifact}, nil},
		{
			"comparison and classes",
			Config{AuthnContext: &AuthnContext{"minimum", []string{pw, card}}},
			idp.Request{MaxAge: -1},
			nil,
			map[string][]string{"./RequestedAuthnContext[@Comparison='minimum']/AuthnContextClassRef": {pw, card}},
		},
		{
			"classes of a level",
			Config{Levels: map[string]int{card: 3, pw: 2, "urn:c:1": 1, "urn:c:3": 3}},
			idp.Request{Level: 2, MaxAge: -1},
			nil,
			map[string][]string{"./RequestedAuthnContext[@Comparison='exact']/AuthnContextClassRef": {pw, "urn:c:3", card}},
		},
		{
			"no level",
			Config{Levels: map[string]int{card: 3}},
			idp.Request{Level: 1, MaxAge: -1},
			nil,
			map[string][]string{"./RequestedAuthnContext": nil},
		},
		{
			"a level that no class has",
			Config{Levels: map[string]int{card: 3}},
			idp.Request{Level: 4, MaxAge: -1},
			nil,
			map[string][]string{"./RequestedAuthnContext": nil},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.cfg)
			e, query, state := w.begin(tt.q)
			if got := query.Get(paramRelay); got != flowID {
				t.Errorf("RelayState = %q, want the flow", got)
			}
			for name, want := range tt.attrs {
				if got := e.SelectAttrValue(name, ""); got != want {
					t.Errorf("%s = %q, want %q", name, got, want)
				}
			}
			for path, want := range tt.path {
				if got := texts(e.FindElements(path)); !slices.Equal(got, want) {
					t.Errorf("%s = %q, want %q", path, got, want)
				}
			}
			var f flow
			if err := json.Unmarshal(state, &f); err != nil || f.ID != e.SelectAttrValue("ID", "") || f.Idp != entity || len(f.ID) != 41 {
				t.Errorf("state = %s, %v, want the ID %s and the provider", state, err, e.SelectAttrValue("ID", ""))
			}
			if forced := e.SelectAttr("ForceAuthn") != nil; forced == f.Since.IsZero() {
				t.Errorf("state = %s: an older sign-in is taken: %t, asked again: %t", state, f.Since.IsZero(), forced)
			}
		})
	}
}

func TestNameIDPolicy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ format, want, create string }{
		{"", "", "true"},
		{"persistent", formatPersistent, "true"},
		{"email", formatEmail, "true"},
		{"transient", formatTransient, ""},
		{"urn:example:format", "urn:example:format", "true"},
	} {
		e, _, _ := newWorld(t, Config{NameID: tt.format}).begin(idp.Request{MaxAge: -1})
		policy := e.SelectElement("NameIDPolicy")
		if got, create := policy.SelectAttrValue("Format", ""), policy.SelectAttrValue("AllowCreate", ""); got != tt.want || create != tt.create {
			t.Errorf("name_id %q asks for %q, AllowCreate %q, want %q, %q", tt.format, got, create, tt.want, tt.create)
		}
	}
}

// TestRedirectSignature verifies the octets of the query as a provider does.
func TestRedirectSignature(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Config{})
	next, err := w.Begin(t.Context(), idp.Request{Flow: flowID, MaxAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	own, signed, _ := strings.Cut(next.URL, paramRequest+"=")
	if own != ssoAt+"&" {
		t.Errorf("the address begins with %q, want that of the provider with its query", own)
	}
	octets, sig, _ := strings.Cut(paramRequest+"="+signed, "&"+paramSig+"=")
	sig, err = url.QueryUnescape(sig)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(sig)
	if err != nil {
		t.Fatal(err)
	}
	if err := ourKey().Certificate.CheckSignature(x509.SHA256WithRSA, []byte(octets), raw); err != nil {
		t.Errorf("signature over %s: %v", octets, err)
	}
	if err := rsa.VerifyPKCS1v15(ourKey().Signer.Public().(*rsa.PublicKey), crypto.SHA256, sum(octets), raw); err != nil {
		t.Error(err)
	}
	if !strings.Contains(octets, "&"+paramAlg+"="+url.QueryEscape(algRSASHA256)) {
		t.Errorf("signed octets %s do not name RSA with SHA-256", octets)
	}
}

func sum(s string) []byte { h := sha256.Sum256([]byte(s)); return h[:] }

// TestPostBinding: a provider without the redirect binding, and a request that is too long for an address.
func TestPostBinding(t *testing.T) {
	t.Parallel()
	redirect := `<md:SingleSignOnService Binding="` + bindingRedirect + `" Location="` + ssoAt + `"/>`
	huge := map[string][]string{}
	for i := range 20 {
		for j := range 20 {
			key := strings.Repeat("k", 60) + string(rune('a'+i))
			huge[key] = append(huge[key], strings.Repeat(string(rune('a'+(i*j)%26))+`"<é`, 128))
		}
	}
	for _, tt := range []struct {
		name, metadata string
		custom         map[string][]string
	}{
		{"no redirect binding", without(metadataOf(entity, idpKey()), redirect), map[string][]string{"branch": {"east"}}},
		{"too long for an address", metadataOf(entity, idpKey()), noise(huge)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Config{Metadata: tt.metadata})
			next, err := w.Begin(t.Context(), idp.Request{Flow: flowID, MaxAge: -1, Custom: tt.custom})
			if err != nil {
				t.Fatal(err)
			}
			if next.Form == nil || next.Form.Action != sloAt+"/post" {
				t.Fatalf("Begin = %+v, want a form for the provider", next)
			}
			fields := map[string]string{}
			for _, f := range next.Form.Fields {
				fields[f.Name] = f.Value
			}
			raw, err := base64.StdEncoding.DecodeString(fields[paramRequest])
			if err != nil || fields[paramRelay] != flowID {
				t.Fatalf("fields %v: %v", fields, err)
			}
			e := parsed(t, raw)
			var order []string
			for _, c := range e.ChildElements() {
				order = append(order, c.Tag)
			}
			if want := []string{"Issuer", "Signature", "Extensions", "NameIDPolicy"}; !slices.Equal(order, want) {
				t.Errorf("children are %v, want %v", order, want)
			}
			ctx := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{ourKey().Certificate}})
			ctx.Clock = dsig.NewFakeClockAt(start)
			if _, err := ctx.Validate(e); err != nil {
				t.Errorf("the signature of the request: %v", err)
			}
		})
	}
}

// noise replaces the values by random text, which cannot be compressed.
func noise(in map[string][]string) map[string][]string {
	h := sum("noise")
	for _, values := range in {
		for i := range values {
			var b strings.Builder
			for b.Len() < 500 {
				h = sum(string(h))
				b.WriteString(base64.StdEncoding.EncodeToString(h))
			}
			values[i] = b.String()
		}
	}
	return in
}

func TestCustomParameters(t *testing.T) {
	t.Parallel()
	hostile := []string{
		`</Value></CustomParameter><evil/>`, `"' onload="x`, `<![CDATA[x]]>`, `<!-- -->`, `&lt;&#0;`, "a\x00b\x1bc", "line\r\nend\ttab",
		"\ufffe\uffff", "\xff\xfe", "ünï✓ 𝒳", "]]>", `<?php echo 1?>`, strings.Repeat("x", 512),
	}
	for _, binding := range []string{"redirect", "post"} {
		t.Run("attack 37: markup and controls in custom parameters by "+binding, func(t *testing.T) {
			t.Parallel()
			metadata := metadataOf(entity, idpKey())
			if binding == "post" {
				metadata = without(metadata, `<md:SingleSignOnService Binding="`+bindingRedirect+`" Location="`+ssoAt+`"/>`)
			}
			w := newWorld(t, Config{Metadata: metadata})
			custom := map[string][]string{"b": {"1", "2"}, `a"<&>'`: {"x"}, "hostile": hostile}
			var e *etree.Element
			if binding == "redirect" {
				e, _, _ = w.begin(idp.Request{MaxAge: -1, Custom: custom})
			} else {
				next, err := w.Begin(t.Context(), idp.Request{Flow: flowID, MaxAge: -1, Custom: custom})
				if err != nil {
					t.Fatal(err)
				}
				raw, err := base64.StdEncoding.DecodeString(next.Form.Fields[0].Value)
				if err != nil {
					t.Fatal(err)
				}
				e = parsed(t, raw)
				if _, err := safexml.Messages.Parse(raw, map[string]bool{}); err != nil {
					t.Errorf("our own front door says: %v", err)
				}
				ctx := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{ourKey().Certificate}})
				ctx.Clock = dsig.NewFakeClockAt(start)
				if _, err := ctx.Validate(e.Copy()); err != nil {
					t.Errorf("the signature of the request: %v", err)
				}
			}
			list := e.FindElement("./Extensions/CustomParameters")
			if list == nil || list.NamespaceURI() != nsCustom {
				t.Fatalf("there is no CustomParameters in %s", nsCustom)
			}
			got := map[string][]string{}
			var keys []string
			for _, p := range list.ChildElements() {
				key := p.SelectAttrValue("Key", "")
				keys = append(keys, key)
				for _, v := range p.ChildElements() {
					if p.Tag != "CustomParameter" || v.Tag != "Value" || len(v.ChildElements()) != 0 {
						t.Errorf("%s/%s is not what a parameter is made of", p.Tag, v.Tag)
					}
					got[key] = append(got[key], v.Text())
				}
			}
			if !slices.Equal(keys, []string{`a"<&>'`, "b", "hostile"}) || !slices.Equal(got["b"], []string{"1", "2"}) {
				t.Errorf("parameters = %q", got)
			}
			for i, v := range got["hostile"] {
				if want := plain(hostile[i]); v != want {
					t.Errorf("value %d = %q, want %q", i, v, want)
				}
			}
			if len(e.ChildElements()) > 4 || e.FindElement("//evil") != nil {
				t.Error("the parameters have become elements of their own")
			}
		})
	}
}

func TestBeginErrors(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"key pair unknown": {Sign: []string{"nobody"}},
		"no binding": {Metadata: without(metadataOf(entity, idpKey()),
			`<md:SingleSignOnService Binding="`+bindingRedirect+`" Location="`+ssoAt+`"/>`,
			`<md:SingleSignOnService Binding="`+bindingPost+`" Location="`+sloAt+`/post"/>`) + " "},
	} {
		w := &world{t: t, clock: clocktest.New(start), used: map[string]bool{}}
		p, err := New(cfg.or(metadataOf(entity, idpKey())), newEnv(w))
		if err != nil {
			continue // already refused
		}
		if next, err := p.Begin(t.Context(), idp.Request{Flow: flowID}); err == nil {
			t.Errorf("%s: Begin = %+v, want an error", name, next)
		}
		p.Close()
	}
}

func (c Config) or(metadata string) Config {
	if c.Metadata == "" {
		c.Metadata = metadata
	}
	return c
}
