package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"time"
)

// Prover is a client with a key that makes proofs of it by ES256 (DPoP, RFC 9449), each another one. It is for one
// goroutine.
type Prover struct {
	key    *ecdsa.PrivateKey
	header string // encoded, with a dot
	prefix string // of jti
	made   int
}

// NewProver returns a client with a new key.
func NewProver() (*Prover, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, err
	}
	b64 := base64.RawURLEncoding.EncodeToString
	header := fmt.Sprintf(`{"typ":"dpop+jwt","alg":"ES256","jwk":{"kty":"EC","crv":"P-256","x":%q,"y":%q}}`, b64(point[1:33]), b64(point[33:]))
	return &Prover{key: key, header: b64([]byte(header)) + ".", prefix: b64(Random(12))}, nil
}

// Proof returns a proof for a request with an access token, or without one (""), and with a nonce of the server, or
// without one ("").
func (p *Prover) Proof(method, at, token, nonce string) (string, error) {
	p.made++
	claims := fmt.Sprintf(`{"jti":"%s%d","htm":%q,"htu":%q,"iat":%d`, p.prefix, p.made, method, at, time.Now().Unix())
	b64 := base64.RawURLEncoding.EncodeToString
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		claims += `,"ath":"` + b64(sum[:]) + `"`
	}
	if nonce != "" {
		claims += `,"nonce":"` + nonce + `"`
	}
	text := p.header + b64([]byte(claims+"}"))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, p.key, sum[:])
	if err != nil {
		return "", err
	}
	var sig [64]byte
	r.FillBytes(sig[:32])
	s.FillBytes(sig[32:])
	return text + "." + b64(sig[:]), nil
}
