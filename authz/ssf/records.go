package ssf

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	streams    = storage.NewTable[streamRecord]("authz_signal_stream")     // client
	deliveries = storage.NewTable[deliveryRecord]("authz_signal_delivery") // client
	subjects   = storage.NewTable[subjectRecord]("authz_signal_subject")   // id of the stream, sub
	items      = storage.NewTable[itemRecord]("authz_signal_item")         // id of the stream, jti
	leftovers  = storage.NewTable[leftoverRecord]("authz_signal_leftover") // id of a stream that was deleted
)

// streamRecord is the stream of a client, as the client has configured it.
type streamRecord struct {
	ID          string    `cbor:"1,keyasint"`
	Method      string    `cbor:"2,keyasint"`           // methodPush or methodPoll
	Endpoint    string    `cbor:"3,keyasint,omitempty"` // of a push
	Header      []byte    `cbor:"4,keyasint,omitempty"` // Authorization of a push, sealed
	Requested   []string  `cbor:"5,keyasint,omitempty"` // events; none: all
	Description string    `cbor:"6,keyasint,omitempty"`
	Status      string    `cbor:"7,keyasint"`
	Reason      string    `cbor:"8,keyasint,omitempty"` // of the status
	Subjects    int       `cbor:"9,keyasint,omitempty"` // how many were named
	CreatedAt   time.Time `cbor:"10,keyasint"`
	VerifiedAt  time.Time `cbor:"11,keyasint,omitzero"` // when a verification was last asked for
}

// deliveryRecord is the state of pushing to a client.
type deliveryRecord struct {
	Tries int       `cbor:"1,keyasint,omitempty"` // that have failed since the last success
	Next  time.Time `cbor:"2,keyasint,omitzero"`  // no try before; while one server pushes, the end of its claim
}

// subjectRecord says that a receiver has named someone.
type subjectRecord struct {
	Removed bool `cbor:"1,keyasint,omitempty"` // asked not to hear of
}

// leftoverRecord says that items and subjects of a stream are to be removed.
type leftoverRecord struct{}

// itemRecord is an event that a receiver is to be told of.
type itemRecord struct {
	Kind    kind      `cbor:"1,keyasint"`
	Person  string    `cbor:"2,keyasint,omitempty"`
	Session string    `cbor:"3,keyasint,omitempty"`
	By      string    `cbor:"4,keyasint,omitempty"` // initiating_entity
	Detail  string    `cbor:"5,keyasint,omitempty"` // of the kind: a credential, the state of a verification
	Change  string    `cbor:"6,keyasint,omitempty"` // of a credential
	At      time.Time `cbor:"7,keyasint,omitzero"`  // zero: not seen by the worker yet
}
