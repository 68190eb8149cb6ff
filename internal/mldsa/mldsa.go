// Package mldsa makes and verifies signatures of ML-DSA (FIPS 204). Its names are those of crypto/mldsa in Go 1.27,
// which takes its place.
package mldsa

import (
	"crypto"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/cloudflare/circl/sign"
	"github.com/cloudflare/circl/sign/mldsa/mldsa44"
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/cloudflare/circl/sign/mldsa/mldsa87"
)

// PrivateKeySize is the size of the seed that a private key is stored as.
const PrivateKeySize = 32

var (
	set44 = set{mldsa44.Scheme(), hedged(mldsa44.SignTo, mldsa44.SignatureSize)}
	set65 = set{mldsa65.Scheme(), hedged(mldsa65.SignTo, mldsa65.SignatureSize)}
	set87 = set{mldsa87.Scheme(), hedged(mldsa87.SignTo, mldsa87.SignatureSize)}
)

type set struct {
	scheme sign.Scheme
	sign   func(private sign.PrivateKey, message []byte) ([]byte, error)
}

// hedged signs with fresh randomness and an empty context. (FIPS 204 3.4)
func hedged[K any](signTo func(private *K, message, context []byte, randomized bool, signature []byte) error, size int,
) func(sign.PrivateKey, []byte) ([]byte, error) {
	return func(private sign.PrivateKey, message []byte) ([]byte, error) {
		key, ok := any(private).(*K)
		if !ok {
			return nil, sign.ErrTypeMismatch
		}
		signature := make([]byte, size)
		return signature, signTo(key, message, nil, true, signature)
	}
}

// Parameters is a parameter set. Its zero value is invalid.
type Parameters struct{ set *set }

// MLDSA44 is of security category 2.
func MLDSA44() Parameters { return Parameters{&set44} }

// MLDSA65 is of security category 3.
func MLDSA65() Parameters { return Parameters{&set65} }

// MLDSA87 is of security category 5.
func MLDSA87() Parameters { return Parameters{&set87} }

// String is the name of the parameter set, such as ML-DSA-44.
func (p Parameters) String() string { return p.set.scheme.Name() }

// PublicKeySize is the size of an encoded public key.
func (p Parameters) PublicKeySize() int { return p.set.scheme.PublicKeySize() }

// SignatureSize is the size of a signature.
func (p Parameters) SignatureSize() int { return p.set.scheme.SignatureSize() }

// PublicKey is a public key. Only NewPublicKey and private keys make valid ones.
type PublicKey struct {
	of      Parameters
	encoded string
	key     sign.PublicKey
}

// NewPublicKey reads an encoded public key. (FIPS 204 pkDecode)
func NewPublicKey(params Parameters, encoding []byte) (*PublicKey, error) {
	key, err := params.set.scheme.UnmarshalBinaryPublicKey(encoding)
	if err != nil {
		return nil, fmt.Errorf("public key of %s: %w", params, err)
	}
	return &PublicKey{params, string(encoding), key}, nil
}

// Bytes is the encoded key.
func (k *PublicKey) Bytes() []byte { return []byte(k.encoded) }

// Parameters is the parameter set of the key.
func (k *PublicKey) Parameters() Parameters { return k.of }

// Equal reports whether x is the same key.
func (k *PublicKey) Equal(x crypto.PublicKey) bool {
	other, ok := x.(*PublicKey)
	return ok && other.of == k.of && other.encoded == k.encoded
}

// PrivateKey is a private key. It implements crypto.Signer.
type PrivateKey struct {
	seed   [PrivateKeySize]byte
	key    sign.PrivateKey
	public *PublicKey
}

// GenerateKey returns a new key.
func GenerateKey(params Parameters) (*PrivateKey, error) {
	seed := make([]byte, PrivateKeySize)
	rand.Read(seed) //nolint:errcheck // it never fails
	return newPrivateKey(params, seed)
}

// newPrivateKey returns the key of a seed. (FIPS 204 KeyGen_internal)
func newPrivateKey(params Parameters, seed []byte) (*PrivateKey, error) {
	if len(seed) != PrivateKeySize {
		return nil, fmt.Errorf("private key of %s: want a seed of %d bytes", params, PrivateKeySize)
	}
	public, private := params.set.scheme.DeriveKey(seed)
	encoding, err := public.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return &PrivateKey{[PrivateKeySize]byte(seed), private, &PublicKey{params, string(encoding), public}}, nil
}

// Bytes is the seed.
func (k *PrivateKey) Bytes() []byte { return k.seed[:] }

// PublicKey is the public part.
func (k *PrivateKey) PublicKey() *PublicKey { return k.public }

// Public is the public part, a *PublicKey.
func (k *PrivateKey) Public() crypto.PublicKey { return k.public }

// Sign signs a message, which is not hashed before. The randomness is the system's.
func (k *PrivateKey) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts != nil && opts.HashFunc() != 0 {
		return nil, errors.New("ML-DSA signs messages, not their hashes")
	}
	return k.public.of.set.sign(k.key, message)
}

// Verify returns nil if a key has signed a message.
func Verify(public *PublicKey, message, signature []byte) error {
	if !public.of.set.scheme.Verify(public.key, message, signature, nil) {
		return errors.New("the signature of " + public.of.String() + " is invalid")
	}
	return nil
}
