package challenge

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of proofs.
var (
	DeviceRecords  = storage.NewTable[DeviceRecord]("identity_device")                // person id, hash of the device cookie
	FailureRecords = storage.NewTable[FailureRecord]("identity_failure")              // kind of counter, person or name, source
	waits          = storage.NewTable[string]("identity_wait")                        // end of the wait, key of the counter -> that key
	sentCodes      = storage.NewTable[sentCodeRecord]("identity_sent_code")           // purpose, hash of the subject
	deliveredCodes = storage.NewTable[deliveredCodeRecord]("identity_delivered_code") // purpose, person id
	linkRecords    = storage.NewTable[LinkRecord]("identity_link")                    // hash of the token
	linksOf        = storage.NewTable[string]("identity_link_of")                     // person id, kind; the value is the hash of the newest
)

// LinkRecord is a link that was sent to a person. It works once.
type LinkRecord struct {
	Kind      string            `cbor:"1,keyasint"`
	PersonID  string            `cbor:"2,keyasint"`
	Epoch     int64             `cbor:"3,keyasint,omitempty"` // of the person
	Global    int64             `cbor:"4,keyasint,omitempty"` // of all sessions: a restore ends links too
	Data      map[string]string `cbor:"5,keyasint,omitempty"`
	CreatedAt time.Time         `cbor:"6,keyasint"`
	ExpiresAt time.Time         `cbor:"7,keyasint"`
}

// DeviceRecord says that a person has signed in with a browser before.
type DeviceRecord struct {
	Epoch int64     `cbor:"1,keyasint,omitempty"` // of the person: a new password makes all devices unknown
	Seen  time.Time `cbor:"2,keyasint"`
}

// FailureRecord is the state of a Counter.
type FailureRecord struct {
	Failures int       `cbor:"1,keyasint"`
	First    time.Time `cbor:"2,keyasint"` // of this window
	Until    time.Time `cbor:"3,keyasint"` // no attempt is accepted before
}

// sentCodeRecord is a code that was sent.
type sentCodeRecord struct {
	Bound     string    `cbor:"1,keyasint"`
	Hash      []byte    `cbor:"2,keyasint"`
	Tries     int       `cbor:"3,keyasint,omitempty"`
	SentAt    time.Time `cbor:"4,keyasint"`
	ExpiresAt time.Time `cbor:"5,keyasint"`
}

// deliveredCodeRecord is a code that is delivered outside of this service.
type deliveredCodeRecord struct {
	Hash      []byte    `cbor:"1,keyasint"`
	Epoch     int64     `cbor:"2,keyasint,omitempty"` // of the person
	Tries     int       `cbor:"3,keyasint,omitempty"`
	MadeAt    time.Time `cbor:"4,keyasint"`
	From      time.Time `cbor:"5,keyasint"` // it does not work before
	ExpiresAt time.Time `cbor:"6,keyasint"`
	// SetBy names an untrusted actor who has made the code, as in person.EmailAddress.
	SetBy string `cbor:"7,keyasint,omitempty"`
}
