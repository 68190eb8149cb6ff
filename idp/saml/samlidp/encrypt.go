package samlidp

import (
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/beevik/etree"
	"github.com/crewjam/saml/xmlenc"

	"github.com/gatehouse-id/gatehouse/idp/saml"
)

const (
	aes128GCM = "http://www.w3.org/2009/xmlenc11#aes128-gcm"
	aes256GCM = "http://www.w3.org/2009/xmlenc11#aes256-gcm"
	oaep      = "http://www.w3.org/2009/xmlenc11#rsa-oaep"
	element   = "http://www.w3.org/2001/04/xmlenc#Element"
)

// encrypt returns an EncryptedAssertion. The content is encrypted by AES-GCM, with 256 bits unless the service provider
// names 128 alone. Its key is wrapped by RSA-OAEP with SHA-1, which every implementation knows, or with SHA-256 if the
// service provider names the newer form. (XML Encryption 1.1, 5.5.2; docs/decisions/saml.md#saml-assertions)
func encrypt(assertion *etree.Element, to *x509.Certificate, methods []string) (*etree.Element, error) {
	by := xmlenc.OAEP()
	by.DigestMethod = xmlenc.SHA1
	if slices.Contains(methods, oaep) {
		by = xmlenc.OAEP_SHA256()
	}
	by.BlockCipher = xmlenc.AES256GCM
	if slices.Contains(methods, aes128GCM) && !slices.Contains(methods, aes256GCM) {
		by.BlockCipher = xmlenc.AES128GCM
	}
	plain, err := saml.Write(assertion)
	if err != nil {
		return nil, err
	}
	data, err := by.Encrypt(to, plain, nil)
	if err != nil {
		return nil, fmt.Errorf("samlidp: encrypt: %w", err)
	}
	data.CreateAttr("Type", element)
	e := etree.NewElement("saml:EncryptedAssertion")
	e.CreateAttr("xmlns:saml", saml.NSAssertion)
	e.AddChild(data)
	return e, nil
}
