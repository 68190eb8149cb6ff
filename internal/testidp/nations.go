package main

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

// Names of the scheme eToegang.
const (
	actingSubject = "urn:etoegang:core:ActingSubjectID"
	pseudonym     = "urn:etoegang:1.12:EntityConcernedID:PseudoID"
	firstName     = "urn:etoegang:1.9:attribute:FirstName"
	familyName    = "urn:etoegang:1.9:attribute:FamilyName"
	transient     = "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
)

// startNations starts the stand-ins of DigiD and of a broker for eIDAS, with the certificates on their back channels.
func startNations() (all []standIn, keys []keyPair, err error) {
	client := samltest.NewKey("client", time.Now())
	add := func(name, kind string, k *samltest.Key) {
		certificate := &pem.Block{Type: "CERTIFICATE", Bytes: k.Certificate.Raw}
		var private any
		if kind == "RSA" {
			private = k.Signer
		}
		pair, wrong := newKeyPair(name, kind, private, certificate)
		keys, err = append(keys, pair), errors.Join(err, wrong)
	}
	add("back-channel", "RSA", client)
	for _, id := range []string{"digid", "eidas"} {
		n := samltest.NewNational("urn:stand-in:"+id, time.Now)
		add(id+"-tls", "CERTIFICATE", n.Server)
		b := &broker{National: n}
		if id == "eidas" {
			n.AnswerWith(b.answer)
		}
		all = append(all, standIn{
			id: id, told: map[string]string{"url": n.Front.URL, "metadata": n.Front.URL + "/metadata"},
			connect: func(issuer string) error {
				return b.connect(issuer+"/saml/"+id+"/metadata", client.Certificate)
			},
		})
	}
	return all, keys, err
}

// broker is a national service, with the service provider that it has connected.
type broker struct {
	*samltest.National

	mu      sync.Mutex // guards partner
	partner samltest.Partner
}

func (b *broker) connect(metadata string, client *x509.Certificate) error {
	res, err := http.Get(metadata) //nolint:gosec // of the Gatehouse under test
	if err != nil {
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", metadata, res.Status)
	}
	p, err := b.KnowMetadata(raw, client)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.partner = p
	return err
}

// answer is that of a broker for eIDAS: the assertion is encrypted, and names the person by a pseudonym that is
// encrypted once more.
func (b *broker) answer(q samltest.Request, name string) samltest.Answer {
	b.mu.Lock()
	to := b.partner
	b.mu.Unlock()
	a := samltest.Honest(q, "changes")
	a.Format, a.Encrypt, a.SignResponse = transient, to.Encryption, true
	a.Attributes = []samltest.Attribute{{Name: firstName, Values: []string{"Anna"}}, {Name: familyName, Values: []string{"Example"}}}
	a.Edit = func(root *etree.Element) {
		x := root.FindElement("//AttributeStatement").CreateElement("saml:Attribute")
		x.CreateAttr("Name", actingSubject)
		sealed := samltest.SealedName(samltest.Answer{Encrypt: to.Encryption, Content: samltest.AES256CBC}, to.EntityID, pseudonym, name)
		x.CreateElement("saml:AttributeValue").AddChild(samltest.Parse([]byte(sealed)).Root())
	}
	return a
}
