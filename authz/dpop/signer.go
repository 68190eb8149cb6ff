package dpop

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/base64"
	"math/big"
	"strings"
	"sync"

	"github.com/go-jose/go-jose/v4"
)

// signer is the key in the header of a proof.
type signer struct {
	key any
	alg jose.SignatureAlgorithm
	jkt string // thumbprint (RFC 7638)
}

var strictBase64 = base64.RawURLEncoding.Strict()

// open returns the payload of a proof whose header, of so many bytes, is that of the signer. nil: the signature is
// wrong. split is false when parse must read the proof: there is no signer, it is not for ES256, or the text has an
// unusual form.
func (s *signer) open(raw string, header int) (payload []byte, split bool) {
	if s == nil || s.alg != jose.ES256 {
		return nil, false
	}
	key, isEC := s.key.(*ecdsa.PublicKey)
	dot := strings.LastIndexByte(raw, '.')
	if !isEC || dot <= header {
		return nil, false
	}
	payload, err := strictBase64.DecodeString(raw[header+1 : dot])
	if err != nil || len(payload) == 0 {
		return nil, false
	}
	sig, err := strictBase64.DecodeString(raw[dot+1:])
	if err != nil || len(sig) != 64 { // RFC 7518 3.4
		return nil, false
	}
	sum := sha256.Sum256([]byte(raw[:dot]))
	if !ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
		return nil, true
	}
	return payload, true
}

// The bounds of the signers that are kept.
const (
	maxSigners = 2048    // in a generation
	maxHeader  = 1 << 10 // bytes
)

// signers are those of good proofs, by the header as it was sent. When there are many, those that were not seen again
// are forgotten.
type signers struct {
	mu          sync.RWMutex // guards all below
	young, aged map[string]*signer
}

// find returns a signer, or nil.
func (s *signers) find(header string) *signer {
	s.mu.RLock()
	by := s.young[header]
	old := s.aged[header]
	s.mu.RUnlock()
	if by == nil && old != nil {
		s.keep(header, old)
		return old
	}
	return by
}

func (s *signers) keep(header string, by *signer) {
	if len(header) > maxHeader {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || len(s.young) >= maxSigners {
		s.aged, s.young = s.young, map[string]*signer{}
	}
	s.young[strings.Clone(header)] = by
}
