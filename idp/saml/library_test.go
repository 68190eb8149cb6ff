package saml_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	schema "github.com/crewjam/saml"
	"github.com/crewjam/saml/samlsp"
	dsig "github.com/russellhaering/goxmldsig"

	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestLibrary gives the answers of other tests to crewjam/saml too, with its strictest switches, and metadata. Where it
// says something else than we do, the decision of what the library is used for has a row.
func TestLibrary(t *testing.T) {
	schema.MaxIssueDelay, schema.MaxClockSkew = 10*time.Minute, time.Minute // package variables, ours in these tests
	t.Parallel()
	t.Run("answers", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T){
			"TestSignatureAttacks": TestSignatureAttacks, "TestWrapping": TestWrapping, "TestTwoAssertions": TestTwoAssertions,
			"TestXMLAttacks": TestXMLAttacks, "TestPolicyAttacks": TestPolicyAttacks,
			"TestEncrypted": TestEncrypted, "TestSignedThenEncrypted": TestSignedThenEncrypted, "TestSignatures": TestSignatures,
			"TestVerified": TestVerified, "TestDefaultNamespaces": TestDefaultNamespaces, "TestTimes": TestTimes,
			"TestUnsolicited": TestUnsolicited, "TestForceAuthn": TestForceAuthn, "TestStatus": TestStatus,
		} {
			t.Run(name, test)
		}
	})
	compare(t, &verdicts, "### Answers")
	compare(t, metadataVerdicts(t), "### Metadata of identity providers")
}

// verdicts are those about answers.
var verdicts samltest.Verdicts

func compare(t *testing.T, v *samltest.Verdicts, heading string) {
	t.Helper()
	lacks, has, err := v.Unlike("../../docs/adr/0010-saml-library-0.6.md", heading)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", heading, v)
	if len(lacks)+len(has) > 0 {
		t.Errorf("the table of %q lacks\n%s\nand has without reason\n%s", heading, strings.Join(lacks, "\n"), strings.Join(has, "\n"))
	}
}

// library is crewjam/saml as a service provider, next to ours. nil: we judge alone.
type library struct {
	sp   *schema.ServiceProvider
	used sync.Map
}

const ofLibrary = "TestLibrary/answers/"

func libraryOf(t testing.TB) *library {
	if !strings.HasPrefix(t.Name(), ofLibrary) {
		return nil
	}
	return &library{}
}

// open makes a service provider from what ours is made of.
func (b *library) open(l *lab, cfg saml.Config) {
	if b == nil {
		return
	}
	var metadata schema.EntityDescriptor
	if err := xml.Unmarshal([]byte(cfg.Metadata), &metadata); err != nil {
		l.t.Fatal(err)
	}
	key := samltest.NewKey("sp", l.now)
	b.sp = &schema.ServiceProvider{
		EntityID: sp, Key: key.Signer, Certificate: key.Certificate, AcsURL: address(l.t, acs), IDPMetadata: &metadata,
		RejectUnknownConditions: true, RequireSignedResponseForCBC: true, RejectExpiredIDPMetadata: true, RejectSHA1Signatures: true,
		AllowIDPInitiated: cfg.AllowUnsolicited, ReplayCache: b,
	}
}

func address(t testing.TB, s string) url.URL {
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return *u
}

// Consume implements schema.AssertionReplayCache.
func (b *library) Consume(id string, until time.Time) error {
	if _, there := b.used.LoadOrStore(id, until); there {
		return schema.ErrAssertionReplayed
	}
	return nil
}

// parse returns what the library reads from an answer. It must not panic.
func (b *library) parse(l *lab, state, raw []byte) (*schema.Assertion, error) {
	defer func() {
		if p := recover(); p != nil {
			l.t.Errorf("the library panics: %v\n%s", p, raw)
		}
	}()
	b.sp.Clock = dsig.NewFakeClockAt(l.now)
	var requests []string
	if state != nil {
		requests = []string{l.query.ID}
	}
	return b.sp.ParseXMLResponse(raw, requests, b.sp.AcsURL)
}

// judge notes what the library says about an answer that we have judged.
func (b *library) judge(l *lab, state, raw []byte, ours error) {
	if b == nil || len(raw) > 64<<10 { // large documents cost it too much time
		return
	}
	a, err := b.parse(l, state, raw)
	verdicts.Add(caseOf(l.name), err, ours)
	if err == nil && a.Subject.NameID.Value == "admin@example" { // see evil
		l.t.Errorf("%s: the library believes the attacker\n%s", l.name, raw)
	}
	if err == nil && ours != nil {
		b.used.Clear() // the next answer can have the same assertion
	}
}

var (
	signing   = regexp.MustCompile(`[ /](response|assertion|both)( keep (true|false))?$`)
	attackIn  = regexp.MustCompile(`^.*/(attack \d+: )([^/]*/)?`)
	addressIn = regexp.MustCompile(`https?://\S*/|\b[a-z0-9-]+#\b`)
)

// caseOf returns what a test calls the case that it is about: without its function, the way of signing and addresses.
func caseOf(test string) string {
	s := strings.ReplaceAll(strings.TrimPrefix(test, ofLibrary), "_", " ")
	s = attackIn.ReplaceAllString(signing.ReplaceAllString(s, ""), "$1")
	s = addressIn.ReplaceAllString(s, "")
	if name, found := strings.CutPrefix(s, "Test"); found {
		return strings.Replace(name, "/", ": ", 1)
	}
	return s
}

// TestLibraryMutations changes valid answers, and looks whether the library reads something else from them.
func TestLibraryMutations(t *testing.T) {
	t.Parallel()
	m := newMutator(t)
	b := &library{}
	b.open(m.lab, saml.Config{Metadata: string(m.idp.Metadata())})
	b.sp.ReplayCache, b.sp.RequireSignedResponseForCBC = nil, false
	var want []string
	for _, raw := range m.base {
		if a, err := b.parse(m.lab, m.state, raw); err == nil {
			want = append(want, said(a))
		}
	}
	accepted := 0
	for seed := range uint64(mutationCount(t)) {
		raw, kind := m.mutate(seed)
		a, err := b.parse(m.lab, m.state, raw)
		if err != nil {
			continue
		}
		accepted++
		if got := said(a); !slices.Contains(want, got) {
			t.Errorf("from mutation %d (%s) the library reads %s\n%s", seed, kind, got, raw)
		}
	}
	t.Logf("%d accepted with the same meaning", accepted)
}

// said returns all that an assertion tells about the person.
func said(a *schema.Assertion) string {
	raw, err := json.Marshal([]any{a.Subject.NameID, a.AttributeStatements, a.AuthnStatements})
	return fmt.Sprint(string(raw), err)
}

// metadataVerdicts judges metadata of identity providers.
func metadataVerdicts(t *testing.T) *samltest.Verdicts {
	t.Helper()
	l := newLab(t)
	good := string(l.idp.Metadata())
	put := func(old, with string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %s in %s", old, good)
		}
		return strings.Replace(good, old, with, 1)
	}
	other := strings.NewReplacer("xmlns:md=", `xmlns:x="urn:x" xmlns:md=`)
	role := func(attrs string) string {
		return put("</md:EntityDescriptor>", `<md:AttributeAuthorityDescriptor `+attrs+
			` protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol"/></md:EntityDescriptor>`)
	}
	var v samltest.Verdicts
	for name, raw := range map[string]string{
		"as it should be":                  good,
		"an empty validUntil":              put("entityID=", `validUntil="" entityID=`),
		"a validUntil in words":            put("entityID=", `validUntil="soon" entityID=`),
		"a validUntil that is over":        put("entityID=", `validUntil="2026-05-06T07:08:09Z" entityID=`),
		"a cacheDuration of centuries":     put("entityID=", `cacheDuration="P999999Y" entityID=`),
		"a negative cacheDuration":         put("entityID=", `cacheDuration="-P1D" entityID=`),
		"an endpoint of another namespace": other.Replace(strings.ReplaceAll(good, "md:SingleSignOnService", "x:SingleSignOnService")),
		"an address of another namespace":  other.Replace(strings.ReplaceAll(good, " Location=", " x:Location=")),
		"an entityID of another namespace": other.Replace(put(" entityID=", " x:entityID=")),
		"a mistake in another role":        role(`validUntil="soon"`),
		"a document type":                  "<!DOCTYPE x>" + good,
		"an address of script":             put("https://idp.example/sso", "javascript:alert(1)"),
		"an address of data":               put("https://idp.example/sso", "data:text/html,x"),
		"an address with a user name":      put("https://idp.example/sso", "https://a@idp.example/sso"),
		"no entityID":                      put("entityID=", "other="),
		"no key that signs":                put(`use="signing"`, `use="encryption"`),
		"a certificate that is broken":     put("<ds:X509Certificate>", "<ds:X509Certificate>AAAA"),
		"no endpoint":                      strings.ReplaceAll(good, "SingleSignOnService", "OtherService"),
		"a service provider":               strings.ReplaceAll(good, "IDPSSODescriptor", "SPSSODescriptor"),
		"of SAML 1.1":                      put("SAML:2.0:protocol", "SAML:1.1:protocol"),
		"two providers": `<md:EntitiesDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata">` + good + put(`ID="`, `ID="_2`) +
			`</md:EntitiesDescriptor>`,
	} {
		_, err := samlsp.ParseMetadata([]byte(raw))
		p, ours := saml.New(saml.Config{Metadata: raw}, l.env())
		if ours == nil {
			p.Close()
		}
		v.Add(name, err, ours)
	}
	return &v
}
