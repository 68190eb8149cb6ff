package client

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Encryption are the algorithms for encrypting a response to a client: of the key and of the content. (RFC 7518 4, 5)
type Encryption struct{ Alg, Enc string }

// EncryptionAlgorithms and ContentEncryptions are those that answers can be encrypted with, the default of the second
// first. RSA1_5 can be attacked by asking (RFC 3218), and a secret is no key for this.
var (
	EncryptionAlgorithms = []string{string(jose.RSA_OAEP_256), string(jose.ECDH_ES), string(jose.ECDH_ES_A256KW)}
	ContentEncryptions   = []string{string(jose.A256GCM), string(jose.A128CBC_HS256)}
)

// IDTokenEncryption returns the encryption of its ID tokens. Without Alg they are not.
func (c *Client) IDTokenEncryption() Encryption {
	return Encryption{c.IDTokenEncAlg, c.IDTokenEnc}.withDefault()
}

// UserinfoEncryption returns the encryption of its userinfo responses. Without Alg they are not.
func (c *Client) UserinfoEncryption() Encryption {
	return Encryption{c.UserinfoEncAlg, c.UserinfoEnc}.withDefault()
}

func (e Encryption) withDefault() Encryption {
	if e.Enc == "" {
		e.Enc = ContentEncryptions[0]
	}
	return e
}

func (e Encryption) check(p *Problems, option string) {
	p.oneOf(option, e.Alg, EncryptionAlgorithms...)
	p.oneOf(option, e.Enc, ContentEncryptions...)
	if e.Alg == "" && e.Enc != "" {
		p.Addf("%s: %s needs one of RSA-OAEP-256, ECDH-ES, ECDH-ES+A256KW before it", option, e.Enc)
	}
}

func (c *Client) checkEncryption(p *Problems) {
	Encryption{c.IDTokenEncAlg, c.IDTokenEnc}.check(p, "id_token_encryption")
	Encryption{c.UserinfoEncAlg, c.UserinfoEnc}.check(p, "userinfo_encryption")
	p.oneOf("userinfo_alg", c.UserinfoAlg, SignatureAlgorithms...)
	if c.UserinfoEncAlg != "" && c.UserinfoAlg == "" {
		p.Addf("userinfo_encryption: encrypted responses are signed first: add userinfo_alg")
	}
	for _, o := range [...]struct{ option, alg string }{{"id_token_encryption", c.IDTokenEncAlg}, {"userinfo_encryption", c.UserinfoEncAlg}} {
		if c.JWKS != nil && slices.Contains(EncryptionAlgorithms, o.alg) && EncryptionKey(c.JWKS.Keys, o.alg) == nil {
			p.Addf("%s: no key of jwks is for %s", o.option, o.alg)
		}
	}
}

// EncryptionKey returns the key that something is encrypted for: the first one whose use is encryption, otherwise one
// without a use. nil: no key fits.
func EncryptionKey(keys []jose.JSONWebKey, alg string) *jose.JSONWebKey {
	var found *jose.JSONWebKey
	for i := range keys {
		key := &keys[i]
		if !canEncrypt(key) || key.Algorithm != "" && key.Algorithm != alg {
			continue
		}
		if _, isRSA := key.Key.(*rsa.PublicKey); isRSA != (alg == string(jose.RSA_OAEP_256)) {
			continue
		}
		if key.Use == "enc" {
			return key
		}
		if found == nil {
			found = key
		}
	}
	return found
}

func canEncrypt(key *jose.JSONWebKey) bool {
	if !key.Valid() || (key.Use != "" && key.Use != "enc") || (key.Algorithm != "" && !slices.Contains(EncryptionAlgorithms, key.Algorithm)) {
		return false
	}
	switch k := key.Key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey: // ECDH on the same curve
		return true
	}
	return false
}
