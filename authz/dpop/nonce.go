package dpop

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// A nonce says when it was made, and that one of the processes of the store has made it. None is stored.

const (
	nonceLife = 5 * time.Minute
	nonceStep = 30 // seconds in which all nonces are the same

	nonceTime = 8  // bytes
	nonceSum  = 16 // bytes
)

func (p *Proofs) nonce(now time.Time) string {
	var b [nonceTime + nonceSum]byte
	at := now.Unix()
	at = max(at-at%nonceStep, p.deps.Memory.afterFence(now))
	binary.BigEndian.PutUint64(b[:], uint64(at)) //nolint:gosec // after 1970
	sum := p.nonces[0].MAC(string(b[:nonceTime]))
	copy(b[nonceTime:], sum[:])
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// nonceEnds returns when a nonce expires. It is false when that has happened, or no one here has made it.
func (p *Proofs) nonceEnds(nonce string, now time.Time) (time.Time, bool) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || len(b) != nonceTime+nonceSum {
		return time.Time{}, false
	}
	for _, key := range p.nonces {
		sum := key.MAC(string(b[:nonceTime]))
		if subtle.ConstantTimeCompare(b[nonceTime:], sum[:nonceSum]) != 1 {
			continue
		}
		made := time.Unix(int64(binary.BigEndian.Uint64(b)), 0) //nolint:gosec // we have made it
		ends := made.Add(nonceLife)
		return ends, ends.After(now) && !made.After(now.Add(window)) // made by a process whose clock is ahead
	}
	return time.Time{}, false
}
