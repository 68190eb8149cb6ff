package certificate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/certificate"
)

var (
	now       = time.Date(2035, 3, 1, 12, 0, 0, 0, time.UTC)
	cn        = asn1.ObjectIdentifier{2, 5, 4, 3}
	o         = asn1.ObjectIdentifier{2, 5, 4, 10}
	ou        = asn1.ObjectIdentifier{2, 5, 4, 11}
	c         = asn1.ObjectIdentifier{2, 5, 4, 6}
	dc        = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	homegrown = asn1.ObjectIdentifier{1, 2, 3, 4}
)

func attr(kind asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: kind, Value: value}
}

func step(attrs ...pkix.AttributeTypeAndValue) pkix.RelativeDistinguishedNameSET { return attrs }

// named returns a certificate whose subject is these steps, in the order of the certificate.
func named(t *testing.T, steps ...pkix.RelativeDistinguishedNameSET) *x509.Certificate {
	t.Helper()
	raw, err := asn1.Marshal(pkix.RDNSequence(steps))
	if err != nil {
		t.Fatal(err)
	}
	return issue(t, &x509.Certificate{RawSubject: raw})
}

func issue(t *testing.T, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(1), now.Add(-time.Hour), now.Add(time.Hour)
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestSubjectDN(t *testing.T) {
	t.Parallel()
	t.Run("attack 443: distinguished names that look alike", testSubjectDN)
}

func testSubjectDN(t *testing.T) {
	t.Parallel()
	robot := named(t, step(attr(c, "NL")), step(attr(o, "Example")), step(attr(cn, "robot")))
	comma := named(t, step(attr(cn, "robot,O=Example,C=NL")))
	several := named(t, step(attr(o, "Example")), step(attr(cn, "robot"), attr(ou, "Machines")))
	printable := named(t, step(attr(o, asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte("Example")})), step(attr(cn, "robot")))
	nul := named(t, step(attr(o, "Example")), step(attr(cn, asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte("robot\x00.evil")})))
	number := named(t, step(attr(o, "Example")), step(attr(homegrown, "7")))
	longer := named(t, step(attr(c, "NL")), step(attr(o, "Example")), step(attr(cn, "robot")), step(attr(cn, "evil")))
	space := named(t, step(attr(cn, " robot ")))
	tree := named(t, step(attr(dc, "com")), step(attr(dc, "example")), step(attr(cn, "Jürgen")))
	for _, tt := range []struct {
		dn   string
		cert *x509.Certificate
		want bool
	}{
		{"CN=robot,O=Example,C=NL", robot, true},
		{"cn=robot, o = Example,  2.5.4.6=NL", robot, true},
		{"CN=robot,O=Example,OID.2.5.4.6=NL", robot, true},
		{"CN=robot,O=#0c074578616d706c65,C=NL", robot, true},
		{`CN=\72obot,O=Example,C=NL`, robot, true},
		{`CN=robot\,O=Example\,C=NL`, comma, true},
		{`CN=robot\,O=Example\,C=NL`, robot, false},
		{"CN=robot,O=Example,C=NL", comma, false},
		{"C=NL,O=Example,CN=robot", robot, false}, // another order
		{"CN=robot,O=Example", robot, false},
		{"CN=robot", robot, false},
		{"CN=robot,O=Example,C=NL", longer, false},
		{"CN=Robot,O=Example,C=NL", robot, false},
		{"CN=robot,OU=Example,C=NL", robot, false},
		{"CN=robot+OU=Machines,O=Example", several, true},
		{"OU=Machines + CN=robot,O=Example", several, true},
		{"CN=robot,OU=Machines,O=Example", several, false},
		{"CN=robot,O=Example", printable, true}, // the encoding of a text says nothing
		{"CN=robot,O=Example", nul, false},
		{`CN=robot\00.evil,O=Example`, nul, true},
		{"1.2.3.4=7,O=Example", number, true},
		{`CN=\ robot\ `, space, true},
		{"CN=robot", space, false},
		{"CN=Jürgen,DC=example,DC=com", tree, true},
		{"CN=Jurgen,DC=example,DC=com", tree, false},
		{`CN=J\c3\bcrgen,DC=example,DC=com`, tree, true},
	} {
		s := certificate.Subject{DN: tt.dn}
		if err := s.Check(); err != nil {
			t.Errorf("Check(%q) = %v", tt.dn, err)
		}
		if got := s.Matches(tt.cert); got != tt.want {
			t.Errorf("Matches(%q) for %s = %v, want %v", tt.dn, tt.cert.Subject, got, tt.want)
		}
		if own := (&certificate.Subject{DN: certificate.NameOf(tt.cert.RawSubject)}); own.DN != "" &&
			!strings.Contains(own.DN, "\x00") && !own.Matches(tt.cert) {
			t.Errorf("the name %q that is shown of a certificate is not that of the certificate", own.DN)
		}
	}
	for _, dn := range []string{
		"", "robot", "CN=", "CN", "=robot", "CN=robot,", ",CN=robot", "CN=robot;O=Example", `CN="robot"`, "CN=<robot>",
		`CN=robot\`, `CN=ro\bot`, `CN=ro\zz`,
		"FOO=bar", "1=x", "1..2=x", "01.2=x", "CN=#zz", "CN=#0500", "CN=#", "CN=robot+", "CN=\xff", `CN=\ff`, "CN=a\x00b",
	} {
		s := certificate.Subject{DN: dn}
		if s.Check() == nil {
			t.Errorf("Check(%q) = nil, want an error", dn)
		}
		if s.Matches(robot) || s.Matches(named(t)) {
			t.Errorf("Matches(%q) = true", dn)
		}
	}
}

func TestAlternativeNames(t *testing.T) {
	t.Parallel()
	t.Run("attack 443: alternative names that look alike", testAlternativeNames)
}

func testAlternativeNames(t *testing.T) {
	t.Parallel()
	uri, err := url.Parse("spiffe://example.com/robot")
	if err != nil {
		t.Fatal(err)
	}
	robot := issue(t, &x509.Certificate{
		Subject:  pkix.Name{CommonName: "named.example.com"},
		DNSNames: []string{"other.example.com", "robot.example.com"}, URIs: []*url.URL{uri},
		IPAddresses: []net.IP{net.ParseIP("192.0.2.7"), net.ParseIP("2001:db8::7")}, EmailAddresses: []string{"Robot@example.com"},
	})
	wild := issue(t, &x509.Certificate{DNSNames: []string{"*.example.com"}})
	text := issue(t, &x509.Certificate{DNSNames: []string{"192.0.2.7", "robot@example.com"}})
	for _, tt := range []struct {
		kind, name string
		cert       *x509.Certificate
		want       bool
	}{
		{"san_dns", "robot.example.com", robot, true},
		{"san_dns", "ROBOT.example.com", robot, true},
		{"san_dns", "named.example.com", robot, false}, // the common name is no host name
		{"san_dns", "robot.example.co", robot, false},
		{"san_dns", "robot.example.com", wild, false},
		{"san_uri", "spiffe://example.com/robot", robot, true},
		{"san_uri", "spiffe://example.com/Robot", robot, false},
		{"san_uri", "spiffe://example.com/robot/", robot, false},
		{"san_uri", "SPIFFE://example.com/robot", robot, false},
		{"san_ip", "192.0.2.7", robot, true},
		{"san_ip", "2001:DB8:0::7", robot, true},
		{"san_ip", "192.0.2.8", robot, false},
		{"san_ip", "192.0.2.7", text, false},
		{"san_email", "Robot@EXAMPLE.com", robot, true},
		{"san_email", "robot@example.com", robot, false},
		{"san_email", "robot@example.com", text, false},
		{"subject_dn", "CN=robot.example.com", robot, false},
	} {
		s := certificate.SubjectOf(tt.kind, tt.name)
		if err := s.Check(); err != nil {
			t.Errorf("Check(%s %s) = %v", tt.kind, tt.name, err)
		}
		if got := s.Matches(tt.cert); got != tt.want {
			t.Errorf("Matches(%s %s) = %v, want %v", tt.kind, tt.name, got, tt.want)
		}
	}
	for _, s := range []*certificate.Subject{
		{},
		{DNS: "a.example", Email: "b@example.com"},
		{DNS: "*.example.com"},
		{DNS: "https://a.example"},
		{DNS: "bücher.example"},
		{DNS: "a.example."},
		{URI: "robot"},
		{URI: "a:b c"},
		{IP: "192.0.2"},
		{IP: "fe80::1%eth0"},
		{IP: "::ffff:192.0.2.7"},
		{Email: "robot"},
		{Email: "@example.com"},
		{Email: "a@b@c"},
	} {
		if s.Check() == nil || s.Matches(robot) && (s.DNS == "" || s.Email == "") {
			t.Errorf("Check(%+v) = nil or it matches, want an error", s)
		}
	}
	if s := certificate.SubjectOf("subject", "x"); s != nil {
		t.Errorf("SubjectOf(subject) = %v, want nil", s)
	}
}
