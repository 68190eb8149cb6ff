package invitation

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// invitations are the open invitations, by the id of the person.
var invitations = storage.NewTable[invitationRecord]("identity_invitation")

// invitationRecord is an invitation that the person has not accepted yet.
type invitationRecord struct {
	Email     string    `cbor:"1,keyasint"`           // address of the invited person
	Sent      bool      `cbor:"2,keyasint,omitempty"` // the link went there, so opening it verifies the address
	SentAt    time.Time `cbor:"3,keyasint"`
	ExpiresAt time.Time `cbor:"4,keyasint"`
	Tries     int       `cbor:"5,keyasint,omitempty"` // answers so far
	// Browser is the hash of the cookie of the browser that can accept: it has passed a check, or continues without
	// one (Skipped).
	Browser string `cbor:"6,keyasint,omitempty"`
	Skipped bool   `cbor:"7,keyasint,omitempty"`
	Number  string `cbor:"8,keyasint,omitempty"` // phone number that the check has verified
	// HandedTo is the audit.Actor.Untrusted who was shown the link, to hand it over. Empty: no one like that
	HandedTo string `cbor:"9,keyasint,omitempty"`
}
