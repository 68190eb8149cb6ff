package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// KeySize is the length in bytes of an encryption key.
const KeySize = 32

// ErrSealed says that sealed data cannot be opened: it is damaged, has another purpose, or was sealed with a key that
// is not in the ring.
var ErrSealed = errors.New("cannot open sealed data")

// Keyring seals with its first key and opens with any of its keys. It is safe for concurrent use.
type Keyring struct {
	keys   []sealingKey
	random io.Reader
}

type sealingKey struct {
	id   [4]byte
	aead cipher.AEAD
	root []byte
}

// NewKeyring takes keys of 32 bytes. The first one seals.
func NewKeyring(keys ...[]byte) (*Keyring, error) {
	if len(keys) == 0 {
		return nil, errors.New("no encryption key")
	}
	k := &Keyring{random: rand.Reader}
	for i, key := range keys {
		if len(key) != KeySize {
			return nil, fmt.Errorf("encryption key %d has %d bytes, want %d", i+1, len(key), KeySize)
		}
		aead, err := newAEAD(key, "gatehouse seal v1")
		if err != nil {
			return nil, err
		}
		sk := sealingKey{aead: aead, root: append([]byte(nil), key...)}
		copy(sk.id[:], MAC(key, "gatehouse key id v1"))
		k.keys = append(k.keys, sk)
	}
	return k, nil
}

// Seal encrypts and authenticates data, bound to its purpose (table and key of the record that will hold it).
func (k *Keyring) Seal(purpose string, data []byte) ([]byte, error) {
	first := k.keys[0]
	out := make([]byte, 0, len(first.id)+first.aead.NonceSize()+len(data)+first.aead.Overhead())
	out = append(out, first.id[:]...)
	nonce := make([]byte, first.aead.NonceSize())
	if _, err := io.ReadFull(k.random, nonce); err != nil {
		return nil, err
	}
	out = append(out, nonce...)
	return first.aead.Seal(out, nonce, data, []byte(purpose)), nil
}

// Open returns the data that Seal was given, or ErrSealed.
func (k *Keyring) Open(purpose string, sealed []byte) ([]byte, error) {
	for _, key := range k.keys {
		n := len(key.id)
		if len(sealed) < n+key.aead.NonceSize() || string(sealed[:n]) != string(key.id[:]) {
			continue
		}
		data, err := key.aead.Open(nil, sealed[n:n+key.aead.NonceSize()], sealed[n+key.aead.NonceSize():], []byte(purpose))
		if err == nil {
			return data, nil
		}
	}
	return nil, ErrSealed
}

// IsCurrent reports whether the first key of the ring sealed this. Data sealed with an older key can be sealed again.
func (k *Keyring) IsCurrent(sealed []byte) bool {
	id := k.keys[0].id
	return len(sealed) >= len(id) && string(sealed[:len(id)]) == string(id[:])
}

// HasOlder reports whether the ring has keys besides the first one.
func (k *Keyring) HasOlder() bool { return len(k.keys) > 1 }

// Derive returns 32 bytes for a purpose from the first key (HKDF-SHA256, RFC 5869), such as the key of CSRF tokens.
func (k *Keyring) Derive(purpose string) []byte { return derive(k.keys[0].root, purpose) }

// DeriveAll returns the result of Derive for every key of the ring, in order, so values made with an older key are
// still recognised.
func (k *Keyring) DeriveAll(purpose string) [][]byte {
	out := make([][]byte, len(k.keys))
	for i, key := range k.keys {
		out[i] = derive(key.root, purpose)
	}
	return out
}

// SealWithToken encrypts data that only the holder of the token can open: the key is derived from the token
// (HKDF-SHA256).
func SealWithToken(token, purpose string, data []byte) ([]byte, error) {
	aead, err := newAEAD([]byte(token), purpose)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(data)+aead.Overhead())
	if _, err := io.ReadFull(rand.Reader, nonce); err != nil {
		return nil, err
	}
	return aead.Seal(nonce, nonce, data, nil), nil
}

// OpenWithToken is the inverse of SealWithToken, or returns ErrSealed.
func OpenWithToken(token, purpose string, sealed []byte) ([]byte, error) {
	aead, err := newAEAD([]byte(token), purpose)
	if err != nil {
		return nil, err
	}
	if len(sealed) < aead.NonceSize() {
		return nil, ErrSealed
	}
	data, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], nil)
	if err != nil {
		return nil, ErrSealed
	}
	return data, nil
}

func newAEAD(key []byte, purpose string) (cipher.AEAD, error) {
	block, err := aes.NewCipher(derive(key, purpose))
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func derive(key []byte, purpose string) []byte {
	out, err := hkdf.Key(sha256.New, key, nil, purpose, KeySize)
	if err != nil {
		panic(err) // only for a length that SHA-256 cannot give
	}
	return out
}
