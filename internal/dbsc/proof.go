package dbsc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"

	"github.com/go-jose/go-jose/v4"
)

const (
	proofType = "dbsc+jwt"
	maxProof  = 8 << 10 // bytes
	// The sizes of RSA keys in bits: smaller ones are weak, greater ones cost much CPU.
	minRSA, maxRSA = 2048, 4096
)

var algorithms = []jose.SignatureAlgorithm{jose.ES256, jose.RS256}

// errProof says that a proof is not one of the key.
var errProof = errors.New("the proof of the device is not valid")

// readProof returns the challenge that a proof answers, and the key that has signed it: that of a bound session, or for
// nil the one in the proof.
func readProof(text string, bound []byte) (challenge string, key []byte, err error) {
	if len(text) > maxProof {
		return "", nil, errProof
	}
	parsed, err := jose.ParseSignedCompact(text, algorithms)
	if err != nil {
		return "", nil, errProof
	}
	header := parsed.Signatures[0].Protected
	if typ, _ := header.ExtraHeaders[jose.HeaderType].(string); typ != proofType {
		return "", nil, errProof
	}
	var public any
	switch {
	case len(bound) > 0:
		public, err = x509.ParsePKIXPublicKey(bound)
	case header.JSONWebKey == nil || !header.JSONWebKey.IsPublic():
		return "", nil, errProof
	default:
		public = header.JSONWebKey.Key
	}
	if err != nil || !fits(public, jose.SignatureAlgorithm(header.Algorithm)) {
		return "", nil, errProof
	}
	payload, err := parsed.Verify(public)
	if err != nil {
		return "", nil, errProof
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if json.Unmarshal(payload, &claims) != nil || claims.ID == "" {
		return "", nil, errProof
	}
	if key, err = x509.MarshalPKIXPublicKey(public); err != nil {
		return "", nil, errProof
	}
	return claims.ID, key, nil
}

// fits reports whether a key is one for an algorithm, and neither weak nor costly.
func fits(key any, alg jose.SignatureAlgorithm) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return alg == jose.ES256 && k.Curve == elliptic.P256()
	case *rsa.PublicKey:
		return alg == jose.RS256 && k.N.BitLen() >= minRSA && k.N.BitLen() <= maxRSA && k.E < 1<<31
	}
	return false
}
