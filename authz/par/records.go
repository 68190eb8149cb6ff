package par

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. The expiry passed to storage is for collection.
var (
	pushed = storage.NewTable[record]("authz_par")          // hash of the reference
	open   = storage.NewTable[openRecord]("authz_par_open") // client, hash: requests that no one has finished
)

// openRecord is a request that no one has finished.
type openRecord struct {
	ExpiresAt time.Time `cbor:"1,keyasint"`
}

// record is a pushed request. It stays after it was finished, so it is not finished twice.
type record struct {
	ClientID  string              `cbor:"1,keyasint"`
	Params    map[string][]string `cbor:"2,keyasint"`
	ExpiresAt time.Time           `cbor:"3,keyasint"` // when a browser can no longer begin with it
	Spent     bool                `cbor:"4,keyasint,omitempty"`
}
