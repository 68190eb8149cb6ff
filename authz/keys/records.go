package keys

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

var signingKeys = storage.NewTable[keyRecord]("authz_key") // key id

// keyRecord is a signing key. The private part is sealed by the encryption key.
type keyRecord struct {
	Algorithm  string    `cbor:"1,keyasint"` // RS256, ES256, EdDSA, or one of ML-DSA
	Private    []byte    `cbor:"2,keyasint"` // PKCS #8, or the seed of ML-DSA, sealed
	CreatedAt  time.Time `cbor:"3,keyasint"` // published from then on
	ActiveFrom time.Time `cbor:"4,keyasint"` // signs from then on
	RetiresAt  time.Time `cbor:"5,keyasint"` // signs no more; zero while it is the newest
	GoneAt     time.Time `cbor:"6,keyasint"` // no longer published; zero while it is the newest
}

// collectAt is the time at which the record can be removed. Zero: it stays.
func (r *keyRecord) collectAt() time.Time {
	if r.GoneAt.IsZero() {
		return never
	}
	return r.GoneAt.Add(keyKept)
}
