package saml

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

func TestParseMetadata(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	key := func(name, use string) string {
		return `<md:KeyDescriptor` + use + `><ds:KeyInfo><ds:KeyName>` + name + `</ds:KeyName><ds:X509Data><ds:X509Certificate>` + "\n  " +
			base64.StdEncoding.EncodeToString(samltest.NewKey(name, now).Certificate.Raw) + "\n" +
			`</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`
	}
	raw := "\ufeff" + `<?xml version="1.0" encoding="UTF-8"?>
<!-- of a federation -->
<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" ID="all" cacheDuration="P1DT2H" validUntil="2027-01-01T00:00:00Z">
 <md:EntityDescriptor entityID="https://sp.example"><md:SPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></md:EntityDescriptor>
 <md:EntityDescriptor entityID="https://idp.example" validUntil="2026-06-01T00:00:00Z" xmlns:xml="http://www.w3.org/XML/1998/namespace">
  <md:Extensions><x:y xmlns:x="urn:x" xml:lang="en"/></md:Extensions>
  <md:IDPSSODescriptor WantAuthnRequestsSigned="true" protocolSupportEnumeration="urn:oasis:names:tc:SAML:1.1:protocol urn:oasis:names:tc:SAML:2.0:protocol" cacheDuration="PT90M">
   ` + key("idp", ` use="signing"`) + key("ec idp", "") + key("seals", ` use="encryption"`) + `
   <md:ArtifactResolutionService Binding="urn:oasis:names:tc:SAML:1.0:bindings:SOAP-binding" Location="https://idp.example/ars1" index="1"/>
   <md:ArtifactResolutionService Binding="urn:oasis:names:tc:SAML:2.0:bindings:SOAP" Location="https://idp.example/ars2" index="2"/>
   <md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/slo" ResponseLocation="https://idp.example/slo/answer"/>
   <md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="https://idp.example/slo"/>
   <md:NameIDFormat>
     urn:oasis:names:tc:SAML:2.0:nameid-format:transient</md:NameIDFormat>
   <md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/sso?a=b&amp;c=d"/>
   <md:SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.example/second"/>
  </md:IDPSSODescriptor>
 </md:EntityDescriptor>
</md:EntitiesDescriptor>`
	raw = strings.Replace(raw, ` xmlns:xml="http://www.w3.org/XML/1998/namespace"`, "", 1)
	m, err := parseMetadata([]byte(raw), nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Signing) != 2 {
		t.Fatalf("%d certificates, want the two that sign", len(m.Signing))
	}
	if !slices.Equal(m.Published, m.Signing) {
		t.Errorf("%d certificates are published, want the two that sign", len(m.Published))
	}
	m.Signing, m.Published = nil, nil
	const binding = "urn:oasis:names:tc:SAML:2.0:bindings:"
	want := &idpMetadata{
		EntityID: "https://idp.example", SSO: map[string]string{binding + "HTTP-Redirect": "https://idp.example/sso?a=b&c=d"},
		SLO: map[string]sloEndpoint{
			binding + "HTTP-Redirect": {"https://idp.example/slo", "https://idp.example/slo/answer"},
			binding + "HTTP-POST":     {"https://idp.example/slo", "https://idp.example/slo"},
		},
		ARS: map[int]string{2: "https://idp.example/ars2"}, NameIDFormats: []string{formatTransient}, WantAuthnRequestsSigned: true,
		ValidUntil: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), CacheDuration: 90 * time.Minute,
	}
	if !reflect.DeepEqual(m, want) {
		t.Errorf("parseMetadata = %+v, want %+v", m, want)
	}
	if _, err := parseMetadata([]byte(raw), nil, now.AddDate(0, 1, 0)); err == nil || !strings.Contains(err.Error(), "valid until") {
		t.Errorf("parseMetadata = %v after validUntil", err)
	}
}

func TestWeakKeys(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.AddDate(-1, 0, 0), NotAfter: now.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, small.Public(), small)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	p := samltest.New("https://idp.example", func() time.Time { return now })
	weak := &samltest.Key{Signer: small, Certificate: c}
	m, err := parseMetadata(p.Metadata(weak), nil, now)
	if err != nil || len(m.Signing) != 1 {
		t.Errorf("parseMetadata = %v, %v, want the strong key alone", m, err)
	}
	p.Key = weak
	if _, err := parseMetadata(p.Metadata(), nil, now); err == nil || !strings.Contains(err.Error(), "too weak") {
		t.Errorf("parseMetadata = %v for a key of 1024 bits", err)
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for in, want := range map[string]time.Duration{
		"PT1H": time.Hour, "P1D": day, "P1Y2M3DT4H5M6.7S": 365*day + 60*day + 3*day + 4*time.Hour + 5*time.Minute + 6*time.Second,
		"P9999Y": 10 * 365 * day, "PT9999999999S": 10 * 365 * day, "P": 0,
	} {
		if got, err := parseDuration(in); got != want || err != nil {
			t.Errorf("parseDuration(%q) = %s, %v, want %s", in, got, err, want)
		}
	}
	for _, in := range []string{"", "1h", "-P1D", "P1", "PT1D", "P1DT1HX", "P99999999999999999999D"} {
		if got, err := parseDuration(in); err == nil {
			t.Errorf("parseDuration(%q) = %s, want an error", in, got)
		}
	}
}
