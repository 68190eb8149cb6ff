package mldsa

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
)

// The functions of crypto/x509 of the same names, with keys of ML-DSA (RFC 9881) as in Go 1.27.

// identifiers are the object identifiers of the parameter sets. (RFC 9881 2)
var identifiers = map[*set]asn1.ObjectIdentifier{
	&set44: {2, 16, 840, 1, 101, 3, 4, 3, 17},
	&set65: {2, 16, 840, 1, 101, 3, 4, 3, 18},
	&set87: {2, 16, 840, 1, 101, 3, 4, 3, 19},
}

var errOther = errors.New("not a key of ML-DSA")

// ErrNoSeed says that a private key is an expanded one alone.
var ErrNoSeed = errors.New("the private key of ML-DSA has no seed")

// setOf returns the parameter set of an identifier, whose parameters must be absent. (RFC 9881 2) Error: errOther.
func setOf(alg pkix.AlgorithmIdentifier) (p Parameters, err error) {
	for of, id := range identifiers {
		if alg.Algorithm.Equal(id) {
			if len(alg.Parameters.FullBytes) > 0 {
				return p, errors.New("the identifier of ML-DSA has parameters")
			}
			return Parameters{of}, nil
		}
	}
	return p, errOther
}

// subjectPublicKeyInfo is a public key. (RFC 5280 4.1)
type subjectPublicKeyInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	Key       asn1.BitString
}

// MarshalPKIXPublicKey returns a public key as a SubjectPublicKeyInfo. (RFC 9881 4)
func MarshalPKIXPublicKey(key crypto.PublicKey) ([]byte, error) {
	k, ok := key.(*PublicKey)
	if !ok {
		return x509.MarshalPKIXPublicKey(key)
	}
	return asn1.Marshal(subjectPublicKeyInfo{
		pkix.AlgorithmIdentifier{Algorithm: identifiers[k.of.set]}, asn1.BitString{Bytes: k.Bytes(), BitLength: 8 * len(k.encoded)},
	})
}

// ParsePKIXPublicKey reads a SubjectPublicKeyInfo. The key is a *PublicKey if it is one of ML-DSA.
func ParsePKIXPublicKey(der []byte) (any, error) {
	key, err := parsePublic(der)
	if errors.Is(err, errOther) {
		return x509.ParsePKIXPublicKey(der)
	}
	return key, err
}

func parsePublic(der []byte) (*PublicKey, error) {
	var info subjectPublicKeyInfo
	if rest, err := asn1.Unmarshal(der, &info); err != nil || len(rest) > 0 {
		return nil, errOther
	}
	p, err := setOf(info.Algorithm)
	if err != nil {
		return nil, err
	}
	if info.Key.BitLength != 8*p.PublicKeySize() {
		return nil, errors.New("the public key of " + p.String() + " has another size")
	}
	return NewPublicKey(p, info.Key.Bytes)
}

// privateKeyInfo is a private key in PKCS#8. (RFC 5958 2)
type privateKeyInfo struct {
	Version    int
	Algorithm  pkix.AlgorithmIdentifier
	Key        []byte
	Attributes asn1.RawValue `asn1:"optional,tag:0"`
	Public     asn1.RawValue `asn1:"optional,tag:1"`
}

// seedTag is the tag of a seed alone: [0] IMPLICIT OCTET STRING. (RFC 9881 6)
const seedTag = "tag:0"

// MarshalPKCS8PrivateKey returns a private key in PKCS#8, one of ML-DSA as its seed alone. (RFC 9881 6)
func MarshalPKCS8PrivateKey(key crypto.Signer) ([]byte, error) {
	k, ok := key.(*PrivateKey)
	if !ok {
		return x509.MarshalPKCS8PrivateKey(key)
	}
	seed, err := asn1.MarshalWithParams(k.Bytes(), seedTag)
	if err != nil {
		return nil, err
	}
	return asn1.Marshal(privateKeyInfo{Algorithm: pkix.AlgorithmIdentifier{Algorithm: identifiers[k.public.of.set]}, Key: seed})
}

// ParsePKCS8PrivateKey reads a private key in PKCS#8. One of ML-DSA, a *PrivateKey, has its seed, or seed and expanded
// key, which must belong together (RFC 9881 8). Error: ErrNoSeed.
func ParsePKCS8PrivateKey(der []byte) (any, error) {
	key, err := parsePrivate(der)
	if errors.Is(err, errOther) {
		return x509.ParsePKCS8PrivateKey(der)
	}
	return key, err
}

func parsePrivate(der []byte) (*PrivateKey, error) {
	var info privateKeyInfo
	if rest, err := asn1.Unmarshal(der, &info); err != nil || len(rest) > 0 {
		return nil, errOther
	}
	p, err := setOf(info.Algorithm)
	if err != nil {
		return nil, err
	}
	var seed []byte
	if rest, err := asn1.UnmarshalWithParams(info.Key, &seed, seedTag); err == nil && len(rest) == 0 {
		return newPrivateKey(p, seed)
	}
	var both struct{ Seed, Expanded []byte }
	if rest, err := asn1.Unmarshal(info.Key, &both); err != nil || len(rest) > 0 {
		return nil, ErrNoSeed
	}
	key, err := newPrivateKey(p, both.Seed)
	if err != nil {
		return nil, err
	}
	if expanded, err := key.key.MarshalBinary(); err != nil || !bytes.Equal(expanded, both.Expanded) {
		return nil, errors.New("seed and expanded key of " + p.String() + " are of different keys")
	}
	return key, nil
}
