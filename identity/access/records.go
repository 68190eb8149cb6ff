package access

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// requests has one record of a person and a site.
var requests = storage.NewTable[requestRecord]("identity_access_request")

type requestRecord struct {
	State    State     `cbor:"1,keyasint"`
	Username string    `cbor:"2,keyasint"`
	Reason   string    `cbor:"3,keyasint"`
	AskedAt  time.Time `cbor:"4,keyasint"`
	// What an operator has decided.
	DecidedAt time.Time `cbor:"5,keyasint,omitempty"`
	DecidedBy string    `cbor:"6,keyasint,omitempty"`
	Note      string    `cbor:"7,keyasint,omitempty"`
	// Of a grant.
	Ends     time.Time `cbor:"8,keyasint,omitempty"`
	Uses     int       `cbor:"9,keyasint,omitempty"` // 0: any number
	Used     int       `cbor:"10,keyasint,omitempty"`
	UseLasts time.Time `cbor:"11,keyasint,omitempty"` // until when the use that has begun lasts

	ToldAt time.Time `cbor:"12,keyasint,omitempty"` // when operators were told of a request last
}
