package saml_test

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

func TestSignatures(t *testing.T) {
	t.Parallel()
	ec := samltest.NewKey("ec", time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	tests := []struct {
		name string
		how  samltest.Signature
	}{
		{"by default", samltest.Signature{}},
		{"SHA-384", samltest.Signature{Method: samltest.RSASHA384, Digest: samltest.SHA384}},
		{"SHA-512", samltest.Signature{Method: samltest.RSASHA512, Digest: samltest.SHA512}},
		{"ECDSA", samltest.Signature{Key: ec}},
		{"ECDSA SHA-512", samltest.Signature{Key: ec, Method: samltest.ECDSASHA512}},
		{"inclusive", samltest.Signature{Canonical: samltest.Inclusive}},
		{"inclusive 1.1", samltest.Signature{Canonical: samltest.Inclusive11}},
		{"with a list of prefixes", samltest.Signature{Prefixes: "xs"}},
		{"without KeyInfo", samltest.Signature{NoKeyInfo: true}},
		{"KeyInfo with a name alone", samltest.Signature{KeyInfo: `<ds:KeyName>idp</ds:KeyName>`}},
	}
	for _, tt := range tests {
		for _, s := range signings {
			t.Run(tt.name+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				l.open(saml.Config{Metadata: string(l.idp.Metadata(ec))})
				a := l.honest()
				a.Signature, a.SignResponse, a.SignAssertion = tt.how, s.response, s.assertion
				l.accepts(t, l.idp.Response(a), "anna@example")
			})
		}
	}
}

// TestVerified: all content of an answer is read completely and unchanged.
func TestVerified(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *saml.Config) {
		c.Mapping = idp.Mapping{Attributes: []idp.Attribute{
			{From: "groups", To: "groups"},
			{From: "mail", To: "email"},
			{From: "friendly", To: "name"},
			{From: "id", To: "id"},
		}}
		c.Levels = map[string]int{"urn:example:strong": 3}
	})
	a := l.honest()
	a.NameID, a.Format, a.Class = " Anna  & <b> ", "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", "urn:example:strong"
	a.AuthnInstant, a.SessionUntil = l.now.Add(-time.Hour), l.now.Add(time.Hour)
	a.Attributes = []samltest.Attribute{
		{Name: "groups", Values: []string{"a", "b"}},
		{Name: "urn:oid:0.9.2342.19200300.100.1.3", FriendlyName: "something", Values: []string{"anna@example"}},
		{Name: "groups", Values: []string{"c", "a"}},
		{Name: "urn:example:1", FriendlyName: "friendly", Values: []string{"Anna"}},
	}
	a.Edit = func(root *etree.Element) {
		s := find(root, "./saml:Assertion/saml:AttributeStatement")
		id := samltest.Parse([]byte(`<saml:Attribute xmlns:saml="` + samltest.Assertion +
			`" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" Name="id"><saml:AttributeValue><saml:NameID>inner</saml:NameID>` +
			`</saml:AttributeValue><saml:AttributeValue xsi:nil="true"/><saml:AttributeValue><x/></saml:AttributeValue></saml:Attribute>`)).Root()
		s.AddChild(id)
	}
	id := l.accepts(t, l.idp.Response(a), " Anna  & <b> ")
	want := map[string][]string{"groups": {"a", "b", "c"}, "email": {"anna@example"}, "name": {"Anna"}, "id": {"inner"}}
	if !reflect.DeepEqual(id.Details, want) {
		t.Errorf("details = %v, want %v", id.Details, want)
	}
	if id.Level != 3 || !id.AuthTime.Equal(a.AuthnInstant) || !id.NotAfter.Equal(a.SessionUntil) {
		t.Errorf("level %d at %s until %s, want 3 at %s until %s", id.Level, id.AuthTime, id.NotAfter, a.AuthnInstant, a.SessionUntil)
	}
	if got, want := l.until, l.now.Add(6*time.Minute); !got.Equal(want) {
		t.Errorf("marked until %s, want %s: NotOnOrAfter and the skew", got, want)
	}
}

func TestEncrypted(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		samltest.AES128CBC, samltest.AES192CBC, samltest.AES256CBC, samltest.AES128GCM,
		samltest.AES192GCM, samltest.AES256GCM,
	} {
		for _, s := range signings {
			t.Run(content+"/"+s.name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				a := l.honest()
				a.SignResponse, a.SignAssertion = s.response, s.assertion
				a.Encrypt, a.Content = samltest.NewKey("sp", l.now).Certificate, content
				raw := l.idp.Response(a)
				if strings.Contains(string(raw), "anna@example") {
					t.Fatal("the script has not encrypted")
				}
				l.accepts(t, raw, "anna@example")
			})
		}
	}
	for _, tt := range []struct{ name, transport, digest, mask string }{
		{"MGF1P with SHA-1 named", samltest.OAEPMGF1P, samltest.SHA1, ""},
		{"MGF1P with SHA-256", samltest.OAEPMGF1P, samltest.SHA256, ""},
		{"OAEP", samltest.OAEP, "", ""},
		{"OAEP with SHA-256", samltest.OAEP, samltest.SHA256, samltest.MGFSHA256},
		{"OAEP with SHA-256 and the mask by SHA-1", samltest.OAEP, samltest.SHA256, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a := l.honest()
			a.Encrypt, a.Transport, a.OAEPDigest, a.OAEPMask = samltest.NewKey("sp", l.now).Certificate, tt.transport, tt.digest, tt.mask
			l.accepts(t, l.idp.Response(a), "anna@example")
		})
	}
	t.Run("the name alone", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.Encrypt, a.EncryptID = samltest.NewKey("sp", l.now).Certificate, true
		l.accepts(t, l.idp.Response(a), "anna@example")
	})
	t.Run("the key beside the content", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.Encrypt = samltest.NewKey("sp", l.now).Certificate
		a.Tamper = func(root *etree.Element) {
			key := find(root, "./saml:EncryptedAssertion/xenc:EncryptedData/ds:KeyInfo/xenc:EncryptedKey")
			info := key.Parent()
			info.RemoveChild(key)
			key.CreateAttr("xmlns:xenc", "http://www.w3.org/2001/04/xmlenc#")
			key.CreateAttr("Id", "_key")
			retrieval := info.CreateElement("ds:RetrievalMethod")
			retrieval.CreateAttr("URI", "#_key")
			find(root, "./saml:EncryptedAssertion").AddChild(key)
		}
		l.accepts(t, l.idp.Response(a), "anna@example")
	})
	for _, tt := range []struct{ name, content, transport, reason string }{
		{"PKCS #1 v1.5", samltest.AES256GCM, samltest.PKCS1, "algorithm that is not accepted"},
		{"triple DES", samltest.TripleDES, samltest.OAEPMGF1P, "algorithm that is not accepted"},
	} {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			a := l.honest()
			a.SignResponse, a.Encrypt, a.Content, a.Transport = true, samltest.NewKey("sp", l.now).Certificate, tt.content, tt.transport
			l.refuses(t, l.idp.Response(a), tt.reason)
		})
	}
	t.Run("to somebody else is refused", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.Encrypt = samltest.NewKey("another sp", l.now).Certificate
		l.refuses(t, l.idp.Response(a), "does not decrypt")
	})
}

func TestUnsolicited(t *testing.T) {
	t.Parallel()
	l := newLab(t, func(c *saml.Config) { c.AllowUnsolicited = true })
	a := l.honest()
	a.Request = ""
	raw := l.idp.Response(a)
	id, err := l.finishState(nil, raw)
	if err != nil || id.Subject != "anna@example" {
		t.Errorf("Finish = %+v, %v", id, err)
	}
	id, err = l.finishState(nil, raw)
	l.refused(t, id, err, "used before")
	a.Request = "_of_somebody"
	id, err = l.finishState(nil, l.idp.Response(a))
	l.refused(t, id, err, "names a request")

	l = newLab(t)
	a = l.honest()
	a.Request = ""
	id, err = l.finishState(nil, l.idp.Response(a))
	l.refused(t, id, err, "unsolicited")
}

// TestRelayStateOfTheProvider: with an unsolicited answer the RelayState is the provider's own. A GUID or a slug is not
// taken for the name of a sign-in that began here.
func TestRelayStateOfTheProvider(t *testing.T) {
	t.Parallel()
	for name, relay := range map[string]string{
		"a GUID":           "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
		"a slug":           "customer-portal-homepage",
		"a digest in hex":  strings.Repeat("0123456789abcdef", 4),
		"shorter than one": flow[1:],
		"longer than one":  flow + "a",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, func(c *saml.Config) { c.AllowUnsolicited = true })
			a := l.honest()
			a.Request = ""
			form := url.Values{"SAMLResponse": {base64.StdEncoding.EncodeToString(l.idp.Response(a))}, "RelayState": {relay}}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, acs, strings.NewReader(form.Encode()))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if began, err := l.FlowOf(r); began != "" || err != nil {
				t.Errorf("FlowOf = %q, %v, want none of ours", began, err)
			}
			if id, err := l.Finish(t.Context(), nil, r); err != nil || id.Subject != "anna@example" {
				t.Errorf("Finish = %+v, %v", id, err)
			}
		})
	}
}

func TestForceAuthn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.begin(idp.Request{Flow: flow, MaxAge: -1, Force: true})
	a := l.honest()
	a.AuthnInstant = l.now.Add(-2 * time.Minute)
	l.refuses(t, l.idp.Response(a), "did not sign the person in again")
	a.AuthnInstant = l.now
	l.accepts(t, l.idp.Response(a), "anna@example")
}

// TestCannotTell: if an assertion cannot be marked as used, the person is not signed in and the answer is not called
// invalid.
func TestCannotTell(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.once = errors.New("the disk is full")
	id, err := l.finish(l.idp.Response(l.honest()))
	if id != nil || !errors.Is(err, l.once) || errors.As(err, new(*idp.Invalid)) {
		t.Errorf("Finish = %v, %v, want the storage's error", id, err)
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	const denied = "urn:oasis:names:tc:SAML:2.0:status:RequestDenied"
	tests := []struct {
		name string
		edit func(*samltest.Answer)
		want idp.Rejection
	}{
		{
			"message", func(a *samltest.Answer) { a.Inner, a.Message = denied, " no_existing_customer\n" },
			idp.Rejection{SAMLStatus: denied, Cause: "no_existing_customer"},
		},
		{"one code", func(*samltest.Answer) {}, idp.Rejection{SAMLStatus: samltest.Responder}},
		{
			"detail", func(a *samltest.Answer) { a.Detail = `<a xmlns="urn:x">no <b>account</b></a>` },
			idp.Rejection{SAMLStatus: samltest.Responder, Cause: "no account"},
		},
		{
			"message before detail", func(a *samltest.Answer) { a.Message, a.Detail = "m", "<d/>" },
			idp.Rejection{SAMLStatus: samltest.Responder, Cause: "m"},
		},
		{
			"long", func(a *samltest.Answer) { a.Message = strings.Repeat("x", 300) },
			idp.Rejection{SAMLStatus: samltest.Responder, Cause: strings.Repeat("x", 256)},
		},
		{
			"no passive", func(a *samltest.Answer) { a.Inner = "urn:oasis:names:tc:SAML:2.0:status:NoPassive" },
			idp.Rejection{SAMLStatus: "urn:oasis:names:tc:SAML:2.0:status:NoPassive", Passive: true},
		},
	}
	for _, tt := range tests {
		for _, signed := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				a := l.honest()
				a.Status, a.SignResponse = samltest.Responder, signed
				tt.edit(&a)
				id, err := l.finish(l.idp.Response(a))
				var got *idp.Rejection
				if id != nil || !errors.As(err, &got) {
					t.Fatalf("Finish = %v, %v, want a rejection", id, err)
				}
				if got.SAMLStatus != tt.want.SAMLStatus || got.Cause != tt.want.Cause || got.Passive != tt.want.Passive {
					t.Errorf("Finish = %+v, want %+v", got, tt.want)
				}
			})
		}
	}
}

// TestMany: ten thousand values, as for a person in many groups, are read fast enough.
func TestMany(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.honest()
	groups := make([]string, 3000)
	for i := range groups {
		groups[i] = "group"
	}
	a.Attributes = []samltest.Attribute{{Name: "groups", Values: groups}}
	a.SignResponse = true
	l.accepts(t, l.idp.Response(a), "anna@example")
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for _, form := range []string{
		"2006-01-02T15:04:05Z", "2006-01-02T15:04:05.123456789Z", "2006-01-02T15:04:05",
		"2006-01-02T15:04:05+00:00",
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.accepts(t, l.edited(func(root *etree.Element) {
				find(root, "./saml:Assertion").CreateAttr("IssueInstant", l.now.Format(form))
			}), "anna@example")
		})
	}
	for _, bad := range []string{
		"", "now", "2026-05-06", "2026-05-06T07:08:09,5Z", "2026-13-06T07:08:09Z", "12026-05-06T07:08:09Z",
		"2026-05-06T07:08:09Z\n",
	} {
		t.Run("not "+bad, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.refuses(t, l.edited(func(root *etree.Element) {
				find(root, "./saml:Assertion").CreateAttr("IssueInstant", bad)
			}), "IssueInstant")
		})
	}
}

// TestDefaultNamespaces: Microsoft's providers use default namespaces instead of prefixes.
func TestDefaultNamespaces(t *testing.T) {
	t.Parallel()
	for _, s := range signings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			raw := string(samltest.Bytes(l.idp.Unsigned(l.honest())))
			raw = strings.NewReplacer(` xmlns:samlp="`, ` xmlns="`, ` xmlns:saml="`+samltest.Assertion+`"`, "", "samlp:", "",
				"<saml:Issuer>", `<Issuer xmlns="`+samltest.Assertion+`">`, "<saml:Assertion", `<Assertion xmlns="`+samltest.Assertion+`"`,
				"saml:", "").Replace(raw)
			doc := samltest.Parse([]byte(raw))
			if s.assertion {
				samltest.Sign(find(doc.Root(), "./Assertion"), samltest.Signature{Key: l.idp.Key})
			}
			if s.response {
				samltest.Sign(doc.Root(), samltest.Signature{Key: l.idp.Key})
			}
			l.accepts(t, samltest.Bytes(doc), "anna@example")
		})
	}
}
