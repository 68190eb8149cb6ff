package saml

import (
	"context"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rsa"
	_ "crypto/sha1" //nolint:gosec // the usual digest of RSA-OAEP, which needs no collision resistance
	_ "crypto/sha256"
	_ "crypto/sha512"
	"errors"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

// maxWrapped limits how often one message makes us use a private key: the number of our keys times the encrypted keys
// in the message.
const maxWrapped = 6

// errDecrypt is the only error that callers see, whichever step has failed.
var errDecrypt = errors.New("it does not decrypt")

// contentAlgorithm describes how the content is encrypted: with AES and a key of size bytes.
type contentAlgorithm struct {
	size          int
	authenticated bool
}

var contentAlgorithms = map[string]contentAlgorithm{
	nsXenc + "aes128-cbc":   {16, false},
	nsXenc + "aes192-cbc":   {24, false},
	nsXenc + "aes256-cbc":   {32, false},
	nsXenc11 + "aes128-gcm": {16, true},
	nsXenc11 + "aes192-gcm": {24, true},
	nsXenc11 + "aes256-gcm": {32, true},
}

var oaepHashes = map[string]crypto.Hash{
	nsDsig + "sha1":   crypto.SHA1,
	nsXenc + "sha256": crypto.SHA256,
	"http://www.w3.org/2001/04/xmldsig-more#sha384": crypto.SHA384,
	nsXenc + "sha512": crypto.SHA512,
}

var maskHashes = map[string]crypto.Hash{
	nsXenc11 + "mgf1sha1":   crypto.SHA1,
	nsXenc11 + "mgf1sha256": crypto.SHA256,
	nsXenc11 + "mgf1sha384": crypto.SHA384,
	nsXenc11 + "mgf1sha512": crypto.SHA512,
}

// decrypt opens an EncryptedAssertion or EncryptedID and returns the element in it, which must be space:name. If the
// content has no authentication (CBC), a valid signature covers the ciphertext, or the caller is evenly: otherwise our
// answers would help an attacker to guess the plaintext.
func (v *verifier) decrypt(ctx context.Context, n *node, ids map[string]bool, space, name string) (*node, error) {
	if v.keys == nil {
		return nil, errors.New("it is encrypted, and no key for decryption is configured")
	}
	data, wrapped, err := encryptedParts(n)
	if err != nil {
		return nil, err
	}
	algorithm, err := contentAlgorithmOf(data)
	if err != nil {
		return nil, err
	}
	content, err := cipherValue(data)
	if err != nil {
		return nil, err
	}
	keys, err := v.keys(ctx)
	if err != nil {
		return nil, &unknownError{err}
	}
	// A key that names us spares those of the others.
	if slices.ContainsFunc(wrapped, func(w wrappedKey) bool { return w.recipient == v.entityID }) {
		wrapped = slices.DeleteFunc(wrapped, func(w wrappedKey) bool { return w.recipient != v.entityID })
	}
	tries := 0
	for _, w := range wrapped {
		for _, k := range keys {
			if tries++; tries > maxWrapped {
				return nil, errDecrypt
			}
			plain, err := open(w, k, algorithm, content)
			if err != nil {
				continue
			}
			inner, err := safexml.Messages.Parse(plain, ids)
			if err != nil || !inner.Is(space, name) {
				return nil, errDecrypt
			}
			return inner, nil
		}
	}
	return nil, errDecrypt
}

// unknownError is a failure on our side. It says nothing about the message.
type unknownError struct{ cause error }

func (e *unknownError) Error() string { return e.cause.Error() }
func (e *unknownError) Unwrap() error { return e.cause }

// wrappedKey is an xenc:EncryptedKey.
type wrappedKey struct {
	options   rsa.OAEPOptions
	recipient string // whom the sender has wrapped it for. Empty: not said
	value     []byte
}

// encryptedParts finds the content and its encrypted keys, which are in its KeyInfo or next to it.
func encryptedParts(n *node) (data *node, keys []wrappedKey, err error) {
	if err := n.Closed("{"+nsXenc+"}EncryptedData", "{"+nsXenc+"}EncryptedKey"); err != nil {
		return nil, nil, err
	}
	if data, err = n.One(nsXenc, "EncryptedData"); err != nil {
		return nil, nil, err
	}
	if t := data.Attrs["Type"]; t != "" && t != nsXenc+"Element" {
		return nil, nil, errors.New("the encrypted content is not an element")
	}
	if err := data.Closed("EncryptionMethod", "CipherData", "{"+nsDsig+"}KeyInfo"); err != nil {
		return nil, nil, err
	}
	nodes := n.Children(nsXenc, "EncryptedKey")
	info, err := data.Child(nsDsig, "KeyInfo")
	if err != nil {
		return nil, nil, err
	}
	if info != nil {
		nodes = append(nodes, info.Children(nsXenc, "EncryptedKey")...)
	}
	for _, k := range nodes {
		w, err := newWrappedKey(k)
		if err != nil {
			return nil, nil, err
		}
		keys = append(keys, w)
	}
	if len(keys) == 0 {
		return nil, nil, errors.New("it is encrypted, but contains no encrypted key")
	}
	return data, keys, nil
}

// forOthers reports whether every encrypted key names a recipient, and none of them is us.
func forOthers(n *node, entityID string) bool {
	keys := n.Children(nsXenc, "EncryptedKey")
	for _, data := range n.Children(nsXenc, "EncryptedData") {
		for _, info := range data.Children(nsDsig, "KeyInfo") {
			keys = append(keys, info.Children(nsXenc, "EncryptedKey")...)
		}
	}
	return len(keys) > 0 && !slices.ContainsFunc(keys, func(k *node) bool { to := k.Attrs["Recipient"]; return to == "" || to == entityID })
}

func newWrappedKey(n *node) (w wrappedKey, err error) {
	method, err := n.One(nsXenc, "EncryptionMethod")
	if err != nil {
		return w, err
	}
	// OAEPparams are refused: providers do not send them.
	if err := method.Closed("{"+nsDsig+"}DigestMethod", "{"+nsXenc11+"}MGF"); err != nil {
		return w, err
	}
	algorithm := method.Attrs["Algorithm"]
	// PKCS #1 v1.5 is refused because of padding oracles.
	if algorithm != nsXenc+"rsa-oaep-mgf1p" && algorithm != nsXenc11+"rsa-oaep" {
		return w, errors.New("its key is encrypted with an algorithm that is not accepted")
	}
	w.options.Hash, w.options.MGFHash = crypto.SHA1, crypto.SHA1 // XML Encryption 1.1, 5.5.2: defaults
	digest, err := method.Child(nsDsig, "DigestMethod")
	if err != nil {
		return w, err
	}
	if digest != nil {
		w.options.Hash = oaepHashes[digest.Attrs["Algorithm"]]
	}
	mask, err := method.Child(nsXenc11, "MGF")
	if err != nil {
		return w, err
	}
	if mask != nil {
		w.options.MGFHash = maskHashes[mask.Attrs["Algorithm"]]
	}
	if w.options.Hash == 0 || w.options.MGFHash == 0 || mask != nil && strings.HasSuffix(algorithm, "mgf1p") {
		return w, errors.New("its key is encrypted with a digest that is not accepted")
	}
	w.recipient = n.Attrs["Recipient"]
	w.value, err = cipherValue(n)
	return w, err
}

func contentAlgorithmOf(data *node) (contentAlgorithm, error) {
	method, err := data.One(nsXenc, "EncryptionMethod")
	if err != nil {
		return contentAlgorithm{}, err
	}
	a, ok := contentAlgorithms[method.Attrs["Algorithm"]]
	if !ok || len(method.Children(nsXenc, "KeySize")) != len(method.Elements) {
		return a, errors.New("it is encrypted with an algorithm that is not accepted")
	}
	return a, nil
}

// cipherValue returns the octets of CipherData. A CipherReference is refused, because we would have to fetch the
// content.
func cipherValue(n *node) ([]byte, error) {
	data, err := n.One(nsXenc, "CipherData")
	if err != nil {
		return nil, err
	}
	if err := data.Closed("CipherValue"); err != nil {
		return nil, err
	}
	value, err := data.One(nsXenc, "CipherValue")
	if err != nil {
		return nil, err
	}
	text, err := value.Text()
	if err != nil {
		return nil, err
	}
	return decodeBase64(text)
}

// open decrypts the content key in w with key, and the content with the content key.
func open(w wrappedKey, key crypto.Decrypter, a contentAlgorithm, content []byte) ([]byte, error) {
	public, ok := key.Public().(*rsa.PublicKey)
	if !ok || len(w.value) != public.Size() {
		return nil, errDecrypt
	}
	secret, err := key.Decrypt(nil, w.value, &w.options)
	if err != nil || len(secret) != a.size {
		return nil, errDecrypt
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, errDecrypt
	}
	if a.authenticated {
		return openGCM(block, content)
	}
	return openCBC(block, content)
}

func openGCM(block cipher.Block, content []byte) ([]byte, error) {
	gcm, err := cipher.NewGCM(block)
	if err != nil || len(content) < gcm.NonceSize()+gcm.Overhead() {
		return nil, errDecrypt
	}
	nonce, sealed := content[:gcm.NonceSize()], content[gcm.NonceSize():]
	plain, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, errDecrypt
	}
	return plain, nil
}

// openCBC removes the padding by its last byte. (XML Encryption 1.1, 5.2.1)
func openCBC(block cipher.Block, content []byte) ([]byte, error) {
	if len(content) < 2*aes.BlockSize || len(content)%aes.BlockSize != 0 {
		return nil, errDecrypt
	}
	plain := make([]byte, len(content)-aes.BlockSize)
	cipher.NewCBCDecrypter(block, content[:aes.BlockSize]).CryptBlocks(plain, content[aes.BlockSize:])
	padding := int(plain[len(plain)-1])
	if padding < 1 || padding > aes.BlockSize {
		return nil, errDecrypt
	}
	return plain[:len(plain)-padding], nil
}
