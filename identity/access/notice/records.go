package notice

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// counts has one record, of the requests that operators are told of.
var counts = storage.NewTable[countRecord]("identity_access_notice")

type countRecord struct {
	Since time.Time `cbor:"1,keyasint"`
	Told  int       `cbor:"2,keyasint"`
}
