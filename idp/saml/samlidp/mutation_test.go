package samlidp_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samlidp"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const (
	entity  = "https://wiki.example.com/saml"
	service = "https://wiki.example.com/acs"
	signOn  = "https://auth.example.com/sso/saml"
	logout  = "https://auth.example.com/sso/logout"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func clock() time.Time { return now }

// xmlOf is the metadata of a service provider with signed requests.
func xmlOf(keys ...*samltest.Key) string {
	var certificates strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&certificates, `<md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`, base64.StdEncoding.EncodeToString(k.Certificate.Raw))
	}
	return fmt.Sprintf(`<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s">`+
		`<md:SPSSODescriptor AuthnRequestsSigned="true" protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">%s`+
		`<md:SingleLogoutService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://wiki.example.com/slo"/>`+
		`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s" index="0"/>`+
		`<md:AssertionConsumerService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="%s/2" index="1"/>`+
		`</md:SPSSODescriptor></md:EntityDescriptor>`, entity, certificates.String(), service, service)
}

// metadata is xmlOf as we read it.
func metadata(t testing.TB, keys ...*samltest.Key) *samlidp.Metadata {
	t.Helper()
	source, err := samlidp.NewSource(xmlOf(keys...), samlidp.Options{}, nil, clock, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return source.Known()
}

// message is a valid message, or one that a test has changed.
type message struct {
	xml   string
	query string // of the redirect binding. Empty: xml goes by POST
}

func (m message) request() *http.Request {
	if m.query != "" {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = m.query
		return r
	}
	r := httptest.NewRequest(http.MethodPost, "/",
		strings.NewReader(url.Values{"SAMLRequest": {base64.StdEncoding.EncodeToString([]byte(m.xml))}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// read returns what a message says, or nil if it is refused.
func read(m *samlidp.Metadata, r *http.Request, out bool) (any, error) {
	in, err := samlidp.Receive(r)
	if err != nil {
		return nil, err
	}
	if in.Issuer != m.EntityID {
		return nil, errors.New("unknown")
	}
	if out {
		return m.ReadLogout(context.Background(), in,
			samlidp.LogoutWant{Destination: logout, Now: clock, Once: func(context.Context, string, time.Time) error { return nil }})
	}
	return m.AuthnRequest(in, samlidp.Want{Destination: signOn, Now: clock})
}

// TestMutations changes signed AuthnRequests and LogoutRequests, as often as GATEHOUSE_MUTATIONS says (make faults:
// 10,000). One that is accepted says what the original says, and none causes a panic.
func TestMutations(t *testing.T) {
	t.Parallel()
	n := 400
	if s := os.Getenv("GATEHOUSE_MUTATIONS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	key, ec := samltest.NewKey("sp", now), samltest.NewKey("ec", now)
	m := metadata(t, key, ec)
	at := now.Format(time.RFC3339)
	head := `xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_one" Version="2.0" IssueInstant="` + at + `"`
	texts := map[bool]string{
		false: `<samlp:AuthnRequest ` + head + ` Destination="` + signOn + `" AssertionConsumerServiceURL="` + service +
			`" ForceAuthn="true"><saml:Issuer>` + entity + `</saml:Issuer>` +
			`<samlp:NameIDPolicy Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent" AllowCreate="true"/>` +
			`<samlp:RequestedAuthnContext Comparison="minimum"><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></samlp:RequestedAuthnContext></samlp:AuthnRequest>`,
		true: `<samlp:LogoutRequest ` + head + ` Destination="` + logout + `"><saml:Issuer>` + entity +
			`</saml:Issuer><saml:NameID>anna@example</saml:NameID><samlp:SessionIndex>one</samlp:SessionIndex></samlp:LogoutRequest>`,
	}
	for out, text := range texts {
		var base []message
		for _, k := range []*samltest.Key{key, ec} {
			doc := samltest.Parse([]byte(text))
			samltest.Sign(doc.Root(), samltest.Signature{Key: k})
			base = append(base, message{xml: string(samltest.Bytes(doc))})
			octets := "SAMLRequest=" + url.QueryEscape(deflated(t, text)) + "&RelayState=r&SigAlg=" +
				url.QueryEscape(map[bool]string{true: samltest.RSASHA256, false: samltest.ECDSASHA256}[k == key])
			base = append(base, message{
				xml:   text,
				query: octets + "&Signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(samltest.Signature{Key: k}.Octets([]byte(octets)))),
			})
		}
		want, err := read(m, base[0].request(), out)
		if err != nil {
			t.Fatalf("a good message: %v %v", err, errors.Unwrap(err))
		}
		t.Run("attack 395: changed messages", func(t *testing.T) {
			accepted := 0
			for seed := range uint64(n) {
				changed, kind := mutate(t, base, seed)
				got, err := read(m, changed.request(), out)
				if err != nil {
					continue
				}
				accepted++
				if !reflect.DeepEqual(got, want) {
					t.Errorf("mutation %d (%s) is accepted and says %+v, want %+v\n%s %s", seed, kind, got, want, changed.xml, changed.query)
				}
			}
			t.Logf("%d mutations (logout %t), %d accepted with the same meaning", n, out, accepted)
		})
	}
}

func deflated(t testing.TB, x string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, x); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// mutate changes one message.
func mutate(t testing.TB, base []message, seed uint64) (message, string) {
	t.Helper()
	dice := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // repeatable on purpose
	m := base[dice.IntN(len(base))]
	if m.query != "" {
		q := []byte(m.query)
		switch dice.IntN(4) {
		case 0:
			q[dice.IntN(len(q))] = "&=%+Aa0_"[dice.IntN(8)]
			return message{m.xml, string(q)}, "a byte of the query"
		case 1:
			pairs := strings.Split(m.query, "&")
			i := dice.IntN(len(pairs))
			return message{m.xml, strings.Join(append(pairs[:i:i], pairs[i+1:]...), "&")}, "a parameter less"
		case 2:
			return message{m.xml, m.query + "&" + strings.Split(m.query, "&")[dice.IntN(4)]}, "a parameter twice"
		}
		return message{m.xml, strings.Replace(m.query, "SAMLRequest="+url.QueryEscape(deflated(t, m.xml)),
			"SAMLRequest="+url.QueryEscape(deflated(t, edit(dice, m.xml))), 1)}, "another message under the signature"
	}
	return message{xml: edit(dice, m.xml)}, "the document"
}

// edit changes a document: bytes, tags, attributes, texts, and parts in other places.
func edit(dice *rand.Rand, x string) string {
	cut := func() (int, int) {
		a, b := dice.IntN(len(x)), dice.IntN(len(x))
		return min(a, b), max(a, b)
	}
	switch dice.IntN(8) {
	case 0:
		i := dice.IntN(len(x))
		return x[:i] + string("<>&\"'/ aZ0_:-!"[dice.IntN(14)]) + x[i+1:]
	case 1:
		i, j := cut()
		return x[:i] + x[j:]
	case 2:
		i, j := cut()
		k := dice.IntN(len(x))
		return x[:k] + x[i:j] + x[k:]
	case 3:
		words := []string{service, entity, "_one", "anna@example", "2.0", "true", "one", signOn, logout, "minimum"}
		others := []string{
			service + "/2", "https://evil.example", "_two", "root@example", "3.0", "false", "two", "", "<!---->", "exact",
			"&#x61;", "<![CDATA[x]]>",
		}
		return strings.Replace(x, words[dice.IntN(len(words))], others[dice.IntN(len(others))], 1+dice.IntN(2))
	case 4: // the signed message inside of another one
		end := strings.Index(x, "</saml:Issuer>") + len("</saml:Issuer>")
		root := x[:strings.IndexByte(x, '>')+1]
		name := strings.Fields(strings.TrimPrefix(root, "<"))[0]
		return strings.Replace(root, "_one", "_evil", 1) + "<saml:Issuer>" + entity + "</saml:Issuer><samlp:Extensions>" + x +
			"</samlp:Extensions>" + x[end:strings.LastIndex(x, "</"+name)] + "</" + name + ">"
	case 5:
		i := strings.LastIndexByte(x[:1+dice.IntN(len(x)-1)], '<')
		return x[:max(i, 0)] + []string{
			"<!-- x -->", "<?x y?>", "<!DOCTYPE a>", "<saml:Issuer>" + entity + "</saml:Issuer>", "<ds:Signature/>",
			" ", "\n",
		}[dice.IntN(7)] + x[max(i, 0):]
	case 6:
		return strings.Replace(x, "xmlns:saml=",
			[]string{`xmlns:x="urn:x" xmlns:saml=`, `xmlns:SAML=`, `xmlns="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml=`}[dice.IntN(3)], 1)
	}
	i := strings.Index(x, "<ds:SignatureValue>")
	return x[:max(i, 0)] + strings.ToLower(x[max(i, 0):])
}

// TestForeignMessages: what is no message is refused as such.
func TestForeignMessages(t *testing.T) {
	t.Parallel()
	m := metadata(t, samltest.NewKey("sp", now))
	var refused *idp.Invalid
	for _, query := range []string{
		"", "SAMLRequest=", "SAMLart=x", "SAMLRequest=%zz", "SAMLRequest=AAAA&SAMLResponse=AAAA",
		"SAMLRequest=" + strings.Repeat("A", 70<<10),
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.RawQuery = query
		if _, err := read(m, r, false); !errors.As(err, &refused) {
			t.Errorf("%.40q: %v, want an Invalid", query, err)
		}
	}
}
