package uservalues

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// values has one record of a person, an application and a key.
var values = storage.NewTable[valueRecord]("identity_value")

type valueRecord struct {
	Value     []byte    `cbor:"1,keyasint"`
	UpdatedAt time.Time `cbor:"2,keyasint"`
	Tag       string    `cbor:"3,keyasint,omitempty"`
}
