package cluster

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var identities = storage.NewTable[identityRecord]("cluster_identity") // identityKey

const identityKey = "store"

// identityRecord tells the records of one installation from those of another.
type identityRecord struct {
	ID     string    `cbor:"1,keyasint"`
	MadeAt time.Time `cbor:"2,keyasint"`
	// Format is what a program must be able to read. It grows when an older program would misread a record.
	Format int `cbor:"3,keyasint,omitempty"`
}
