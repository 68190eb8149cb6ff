package samlidp

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	_ "crypto/sha1" //nolint:gosec // OAEP with it is not weak, and some service providers know no other
	_ "crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp/saml"
)

const (
	nsXenc   = "http://www.w3.org/2001/04/xmlenc#"
	nsXenc11 = "http://www.w3.org/2009/xmlenc11#"

	aes128GCM = nsXenc11 + "aes128-gcm"
	aes256GCM = nsXenc11 + "aes256-gcm"
	oaep      = nsXenc11 + "rsa-oaep"
	oaepSHA1  = nsXenc + "rsa-oaep-mgf1p"
	sha256URI = nsXenc + "sha256"
	mgfSHA256 = nsXenc11 + "mgf1sha256"
)

// encrypt returns an EncryptedAssertion. The content is encrypted by AES-GCM, with 256 bits unless the service provider
// names 128 alone. Its key is wrapped by RSA-OAEP with SHA-1, which every implementation knows, or with SHA-256 if the
// service provider names the newer form. (XML Encryption 1.1, 5.5.2; docs/decisions/saml.md#saml-assertions)
func (w *Writer) encrypt(assertion *etree.Element, to *x509.Certificate, methods []string) (*etree.Element, error) {
	public, ok := to.PublicKey.(*rsa.PublicKey)
	if !ok {
		return nil, errors.New("samlidp: the key for encryption is not RSA")
	}
	content, size := aes256GCM, 32
	if slices.Contains(methods, aes128GCM) && !slices.Contains(methods, aes256GCM) {
		content, size = aes128GCM, 16
	}
	plain, err := saml.Write(assertion)
	if err != nil {
		return nil, err
	}
	key := make([]byte, size)
	if _, err := io.ReadFull(w.Random, key); err != nil {
		return nil, err
	}
	sealed, err := seal(w.Random, key, plain)
	if err != nil {
		return nil, err
	}
	modern := slices.Contains(methods, oaep)
	hash := crypto.SHA256
	if !modern {
		hash = crypto.SHA1
	}
	wrapped, err := rsa.EncryptOAEP(hash.New(), w.Random, public, key, nil)
	if err != nil {
		return nil, fmt.Errorf("samlidp: encrypt: %w", err)
	}
	e := etree.NewElement("saml:EncryptedAssertion")
	e.CreateAttr("xmlns:saml", saml.NSAssertion)
	data := e.CreateElement("xenc:EncryptedData")
	data.CreateAttr("xmlns:xenc", nsXenc)
	data.CreateAttr("Type", nsXenc+"Element")
	data.CreateElement("xenc:EncryptionMethod").CreateAttr("Algorithm", content)
	info := data.CreateElement("ds:KeyInfo")
	info.CreateAttr("xmlns:ds", saml.NSDsig)
	wrap := info.CreateElement("xenc:EncryptedKey")
	method := wrap.CreateElement("xenc:EncryptionMethod")
	if modern {
		method.CreateAttr("Algorithm", oaep)
		method.CreateElement("ds:DigestMethod").CreateAttr("Algorithm", sha256URI)
		mask := method.CreateElement("xenc11:MGF")
		mask.CreateAttr("xmlns:xenc11", nsXenc11)
		mask.CreateAttr("Algorithm", mgfSHA256)
	} else {
		method.CreateAttr("Algorithm", oaepSHA1) // without DigestMethod: SHA-1
	}
	cipherValue(wrap, wrapped)
	cipherValue(data, sealed)
	return e, nil
}

func cipherValue(e *etree.Element, value []byte) {
	e.CreateElement("xenc:CipherData").CreateElement("xenc:CipherValue").SetText(base64.StdEncoding.EncodeToString(value))
}

// seal encrypts by AES-GCM. The nonce comes first. (XML Encryption 1.1, 5.2.4)
func seal(random io.Reader, key, plain []byte) ([]byte, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, gcm.NonceSize())
	if _, err := io.ReadFull(random, nonce); err != nil {
		return nil, err
	}
	return gcm.Seal(nonce, nonce, plain, nil), nil
}
