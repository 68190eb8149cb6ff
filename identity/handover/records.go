package handover

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// handovers has the persons with an account from an old directory, and which names and addresses belonged to people who
// were removed. Neither is asked for in an old directory again. Names are kept as hashes.
var handovers = storage.NewTable[handoverRecord]("identity_handover") // kind, partition or provider, hash

// The kinds of keys.
const (
	byName    = "name"    // partition and the hash of a folded username
	bySubject = "subject" // provider and its key of the account
	gone      = "gone"    // partition and the hash of a folded username or address
)

type handoverRecord struct {
	PersonID string    `cbor:"1,keyasint"`
	At       time.Time `cbor:"2,keyasint"`
}
