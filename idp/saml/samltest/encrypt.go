package samltest

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"

	"github.com/beevik/etree"
)

// Algorithms of encryption.
const (
	xmlenc   = "http://www.w3.org/2001/04/xmlenc#"
	xmlenc11 = "http://www.w3.org/2009/xmlenc11#"

	AES128CBC = xmlenc + "aes128-cbc"
	AES192CBC = xmlenc + "aes192-cbc"
	AES256CBC = xmlenc + "aes256-cbc"
	AES128GCM = xmlenc11 + "aes128-gcm"
	AES192GCM = xmlenc11 + "aes192-gcm"
	AES256GCM = xmlenc11 + "aes256-gcm"
	TripleDES = xmlenc + "tripledes-cbc"

	OAEPMGF1P = xmlenc + "rsa-oaep-mgf1p"
	OAEP      = xmlenc11 + "rsa-oaep"
	PKCS1     = xmlenc + "rsa-1_5"
	MGFSHA256 = xmlenc11 + "mgf1sha256"
)

var sizes = map[string]int{AES128CBC: 16, AES128GCM: 16, AES192CBC: 24, AES192GCM: 24, AES256CBC: 32, AES256GCM: 32, TripleDES: 24}

// seal returns el encrypted, inside an element with the given name.
func (a Answer) seal(name string, el *etree.Element) *etree.Element {
	alone := etree.NewDocument()
	check(alone.ReadFromBytes(canonical(el, Exclusive, "xs xsi")))
	return Seal(a, name, Bytes(alone))
}

// Seal encrypts plain as the answer says, inside an element saml:name.
func Seal(a Answer, name string, plain []byte) *etree.Element {
	content, transport := or(a.Content, AES256GCM), or(a.Transport, OAEPMGF1P)
	secret := make([]byte, sizes[content])
	random(secret)
	digest, mask := "", ""
	if a.OAEPDigest != "" {
		digest = fmt.Sprintf(`<ds:DigestMethod xmlns:ds=%q Algorithm=%q/>`, xmldsig, a.OAEPDigest)
	}
	if a.OAEPMask != "" {
		mask = fmt.Sprintf(`<xenc11:MGF xmlns:xenc11=%q Algorithm=%q/>`, xmlenc11, a.OAEPMask)
	}
	return Parse(fmt.Appendf(nil, `<saml:%s xmlns:saml=%q><xenc:EncryptedData xmlns:xenc=%q Type="http://www.w3.org/2001/04/xmlenc#Element">`+
		`<xenc:EncryptionMethod Algorithm=%q/><ds:KeyInfo xmlns:ds=%q><xenc:EncryptedKey><xenc:EncryptionMethod Algorithm=%q>%s%s</xenc:EncryptionMethod>`+
		`<xenc:CipherData><xenc:CipherValue>%s</xenc:CipherValue></xenc:CipherData></xenc:EncryptedKey></ds:KeyInfo>`+
		`<xenc:CipherData><xenc:CipherValue>%s</xenc:CipherValue></xenc:CipherData></xenc:EncryptedData></saml:%s>`,
		name, Assertion, xmlenc, content, xmldsig, transport, digest, mask,
		base64.StdEncoding.EncodeToString(a.wrap(transport, secret)), base64.StdEncoding.EncodeToString(encrypt(content, secret, plain)),
		name)).Root()
}

func (a Answer) wrap(transport string, secret []byte) []byte {
	public := a.Encrypt.PublicKey.(*rsa.PublicKey)
	var out []byte
	var err error
	if transport == PKCS1 {
		out, err = rsa.EncryptPKCS1v15(rand.Reader, public, secret) //nolint:staticcheck // tests check that it is refused
	} else {
		out, err = rsa.EncryptOAEPWithOptions(rand.Reader, public, secret, &rsa.OAEPOptions{
			Hash: hashes[or(a.OAEPDigest, SHA1)], MGFHash: map[string]crypto.Hash{"": crypto.SHA1, MGFSHA256: crypto.SHA256}[a.OAEPMask],
		})
	}
	check(err)
	return out
}

func encrypt(content string, secret, plain []byte) []byte {
	if content == TripleDES { // never opened
		return make([]byte, 64)
	}
	block, err := aes.NewCipher(secret)
	check(err)
	if content == AES128GCM || content == AES192GCM || content == AES256GCM {
		gcm, err := cipher.NewGCM(block)
		check(err)
		nonce := make([]byte, gcm.NonceSize())
		random(nonce)
		return gcm.Seal(nonce, nonce, plain, nil)
	}
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	padded := append(append([]byte(nil), plain...), make([]byte, padding)...)
	padded[len(padded)-1] = byte(padding)
	out := make([]byte, aes.BlockSize+len(padded))
	random(out[:aes.BlockSize])
	cipher.NewCBCEncrypter(block, out[:aes.BlockSize]).CryptBlocks(out[aes.BlockSize:], padded)
	return out
}

func random(b []byte) {
	_, err := rand.Read(b)
	check(err)
}
