package saml

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"slices"

	"github.com/beevik/etree"
	"github.com/crewjam/saml/xmlenc"

	"github.com/gatehouse-id/gatehouse/idp/saml/safexml"
)

// maxWrapped limits how often one message makes us use a private key: the number of our keys times the encrypted keys
// in the message.
const maxWrapped = 6

// errDecrypt is the only error that callers see, whichever step has failed.
var errDecrypt = errors.New("it does not decrypt")

// authenticated says of each accepted algorithm for content whether it detects changes.
var authenticated = map[string]bool{
	nsXenc + "aes128-cbc":   false,
	nsXenc + "aes192-cbc":   false,
	nsXenc + "aes256-cbc":   false,
	nsXenc11 + "aes128-gcm": true,
	nsXenc11 + "aes192-gcm": true,
	nsXenc11 + "aes256-gcm": true,
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
	method, _, err := contentAlgorithm(data)
	if err != nil {
		return nil, err
	}
	content, err := forLibrary(data, method)
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
			plain, err := open(w.el, content, k)
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
	el        *etree.Element // for the library
	recipient string         // that the sender names. Empty: none
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
	w.recipient = n.Attrs["Recipient"]
	w.el, err = forLibrary(n, method)
	return w, err
}

// contentAlgorithm returns the EncryptionMethod of the content, and whether its algorithm detects changes.
func contentAlgorithm(data *node) (method *node, isAuthenticated bool, err error) {
	if method, err = data.One(nsXenc, "EncryptionMethod"); err != nil {
		return nil, false, err
	}
	isAuthenticated, ok := authenticated[method.Attrs["Algorithm"]]
	if !ok || len(method.Children(nsXenc, "KeySize")) != len(method.Elements) {
		return nil, false, errors.New("it is encrypted with an algorithm that is not accepted")
	}
	return method, isAuthenticated, nil
}

// forLibrary returns EncryptedData or an EncryptedKey for the library, made only of what was looked at: it reads names
// and attributes in any namespace. A CipherReference is refused, because we would have to fetch the content.
func forLibrary(n, method *node) (*etree.Element, error) {
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
	octets, err := decodeBase64(text)
	if err != nil {
		return nil, err
	}
	el := etree.NewElement(n.Local)
	by := el.CreateElement(method.Local)
	by.CreateAttr("Algorithm", method.Attrs["Algorithm"])
	for _, c := range method.Elements {
		by.CreateElement(c.Local).CreateAttr("Algorithm", c.Attrs["Algorithm"])
	}
	el.CreateElement(data.Local).CreateElement(value.Local).SetText(base64.StdEncoding.EncodeToString(octets))
	return el, nil
}

// open decrypts the content key in wrapped with key, and the content with the content key.
func open(wrapped, content *etree.Element, key *rsa.PrivateKey) ([]byte, error) {
	secret, err := xmlenc.Decrypt(key, wrapped)
	if err != nil {
		return nil, err
	}
	return xmlenc.Decrypt(secret, content)
}
