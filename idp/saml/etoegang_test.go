package saml_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// TestEToegangLevels: likewise at a broker of eToegang.
func TestEToegangLevels(t *testing.T) {
	t.Parallel()
	levels(t, saml.EToegang, []string{loa + "1", loa + "2", loa + "2plus", loa + "3", loa + "4"}, []int{1, 1, 2, 3, 4},
		func(n *nation, c string) (*idp.Identity, error) {
			return n.answers("p-1", class(c), func(a *samltest.Answer) { a.Format = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent" })
		})
}

// with gives an answer these attributes.
func with(elements ...string) func(*samltest.Answer) {
	return func(a *samltest.Answer) {
		a.Format, a.Class = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient", loa+"3"
		a.Edit = func(root *etree.Element) {
			statement := find(root, "./Assertion").CreateElement("saml:AttributeStatement")
			for _, raw := range elements {
				statement.AddChild(samltest.Parse([]byte(raw)).Root())
			}
		}
	}
}

// TestEToegang: a broker names the person in encrypted attributes, for our entity ID and the key that is named.
func TestEToegang(t *testing.T) {
	t.Parallel()
	const acting, legal, bsn, pseudo = "urn:etoegang:core:ActingSubjectID", "urn:etoegang:core:LegalSubjectID",
		"urn:etoegang:1.12:EntityConcernedID:BSN", "urn:etoegang:1.12:EntityConcernedID:PseudoID"
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	sealing, others := samltest.NewKey("sealing", now), samltest.NewKey("others", now)
	n := newNation(t, saml.EToegang, "substantial", func(c *saml.Config) {
		c.EntityID, c.Via, c.Decrypt, c.ClientKey = dv, "urn:etoegang:EB:00000004000000149000:entities:9009", []string{"sealing"}, "client"
		c.Mapping = idp.Mapping{Attributes: []idp.Attribute{
			{From: bsn, To: "bsn"},
			{From: "urn:etoegang:1.9:attribute:FirstName", To: "given_name"},
		}}
	})
	n.named["sealing"] = sealing
	root := n.query.XML.Root()
	if via := root.FindElement("./Scoping/IDPList/IDPEntry"); via == nil ||
		!strings.HasSuffix(via.SelectAttrValue("ProviderID", ""), ":9009") || n.query.SP != dv ||
		root.SelectAttr("AssertionConsumerServiceURL") != nil || root.SelectAttr("ProtocolBinding") != nil ||
		root.SelectElement("NameIDPolicy") != nil {
		t.Errorf("the request is %s", samltest.Bytes(n.query.XML))
	}
	to := func(k *samltest.Key, content string) samltest.Answer {
		return samltest.Answer{Encrypt: k.Certificate, Content: content}
	}
	name := func(attribute string, sealed ...string) string {
		return `<saml:Attribute xmlns:saml="` + samltest.Assertion + `" Name="` + attribute + `"><saml:AttributeValue>` +
			strings.Join(sealed, `</saml:AttributeValue><saml:AttributeValue>`) + `</saml:AttributeValue></saml:Attribute>`
	}
	sealed := func(k *samltest.Key, recipient, kind, value string) string {
		return samltest.SealedName(to(k, samltest.AES256CBC), recipient, kind, value)
	}
	encrypted := func(k *samltest.Key, raw string) string {
		doc := etree.NewDocument()
		doc.SetRoot(samltest.Seal(to(k, samltest.AES256GCM), "EncryptedAttribute", []byte(raw)))
		return string(samltest.Bytes(doc))
	}
	const representation, company, elsewhere = "urn:etoegang:core:Representation", "urn:etoegang:1.9:EntityConcernedID:KvKnr",
		"urn:etoegang:DV:2:entities:1"
	anna := name("urn:etoegang:1.9:attribute:FirstName", "Anna")
	first := encrypted(sealing, anna)
	actingFor := name(legal, sealed(sealing, dv, bsn, "123456782"))
	forOthers := sealed(others, elsewhere, bsn, "123456782")
	for _, tt := range []struct {
		name         string
		elements     []string
		subject, bsn string // without a subject it is refused
	}{
		{"a number", []string{name(acting, sealed(sealing, dv, bsn, "111222333")), first}, bsn + ":111222333", "111222333"},
		{"a pseudonym", []string{name(legal, sealed(sealing, dv, pseudo, "p1")), first}, pseudo + ":p1", ""},
		{
			"both: the number",
			[]string{name(acting, sealed(sealing, dv, pseudo, "p1"), sealed(sealing, dv, bsn, "111222333")), first},
			bsn + ":111222333", "111222333",
		},
		{
			"acting for somebody",
			[]string{actingFor, name(acting, sealed(sealing, dv, pseudo, "p2")), first},
			pseudo + ":p2", "123456782",
		},
		{"with a name for others", []string{name(acting, forOthers, sealed(sealing, dv, pseudo, "p1")), first}, pseudo + ":p1", ""},
		{"attack 873: a company alone", []string{name(legal, sealed(sealing, dv, company, "12345678")), first}, "", ""},
		{"attack 784: sealed for another key", []string{name(acting, sealed(others, dv, bsn, "111222333"))}, "", ""},
		{"attack 784: an attribute for another key", []string{encrypted(others, anna)}, "", ""},
		{
			"attack 784: an attribute that is no attribute",
			[]string{encrypted(sealing, `<saml:NameID xmlns:saml="`+samltest.Assertion+`">x</saml:NameID>`)},
			"", "",
		},
		{
			"attack 784: two pseudonyms",
			[]string{name(acting, sealed(sealing, dv, pseudo, "p1"), sealed(sealing, dv, pseudo, "p2"))},
			"", "",
		},
		{"attack 784: only names for others", []string{name(acting, forOthers)}, "", ""},
		{
			"attack 890: who acts for a citizen is named for others only",
			[]string{actingFor, name(acting, sealed(others, elsewhere, pseudo, "p2"))},
			"", "",
		},
		{"attack 890: who acts for a citizen is not named", []string{actingFor, name(acting)}, "", ""},
		{
			"attack 890: somebody acts for a citizen, and no name says who",
			[]string{actingFor, name(representation, "true")},
			"", "",
		},
		{"nobody acts for them", []string{actingFor, name(representation, "false"), first}, bsn + ":123456782", "123456782"},
		{"attack 890: a name without its kind", []string{name(acting, sealed(sealing, dv, "", "111222333"))}, "", ""},
		{"attack 784: a hundred of them", slices.Repeat([]string{first}, 100), "", ""},
		{"no name that lasts", []string{anna}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, err := n.answers("changes", with(tt.elements...))
			switch {
			case tt.subject == "" && (err == nil || id != nil):
				t.Errorf("Finish = %+v, want it refused", id)
			case tt.subject == "":
			case err != nil:
				t.Errorf("Finish = %v %v", err, errors.Unwrap(err))
			case id.Subject != tt.subject || strings.Join(id.Details["bsn"], " ") != tt.bsn ||
				strings.Join(id.Details["given_name"], "") != "Anna" || id.Level != 3:
				t.Errorf("Finish = %+v, want %s with %q", id, tt.subject, tt.bsn)
			}
		})
	}
	t.Run("attack 891: who acts for a citizen is not taken for them by identify_by", func(t *testing.T) {
		n := newNation(t, saml.EToegang, "substantial", func(c *saml.Config) {
			c.EntityID, c.Decrypt, c.ClientKey, c.IdentifyBy = dv, []string{"sealing"}, "client", bsn
		})
		n.named["sealing"] = sealing
		for _, tt := range []struct {
			name     string
			elements []string
			stable   string
		}{
			{"the citizen", []string{name(acting, sealed(sealing, dv, bsn, "123456782"))}, "123456782"},
			{"who acts for them", []string{name(acting, sealed(sealing, dv, pseudo, "p2")), actingFor}, ""},
		} {
			id, err := n.answers("changes", with(tt.elements...))
			if err != nil || id.Stable != tt.stable {
				t.Errorf("%s: %+v, %v, want to be known by %q", tt.name, id, err, tt.stable)
			}
		}
	})
	t.Run("an encrypted assertion", func(t *testing.T) {
		id, err := n.answers("p-1", func(a *samltest.Answer) {
			a.Format, a.Encrypt, a.SignResponse = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", sealing.Certificate, true
		})
		if err != nil || id.Subject != "p-1" {
			t.Errorf("Finish = %+v, %v", id, err)
		}
	})
	metadata := httptest.NewRecorder()
	n.Handle(metadata, httptest.NewRequest(http.MethodGet, sp, nil), "metadata", &ending{})
	for _, want := range []string{`entityID="` + dv + `"`, "AttributeConsumingService", bsn, url.PathEscape("acs")} {
		if !strings.Contains(metadata.Body.String(), want) {
			t.Errorf("our metadata lack %s: %s", want, metadata.Body)
		}
	}
}
