package enrol

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of enrolment.
var (
	textResets  = storage.NewTable[textResetRecord]("identity_text_reset")  // hash of the browser cookie
	invitations = storage.NewTable[invitationRecord]("identity_invitation") // person id
	signUps     = storage.NewTable[signUpRecord]("identity_sign_up")        // hash of the browser's token for it
)

// textResetRecord is a browser in which somebody has asked for a code on the telephone, to choose a new password.
type textResetRecord struct {
	PersonID  string    `cbor:"1,keyasint,omitempty"` // empty: nobody, who is told nothing
	Typed     string    `cbor:"2,keyasint"`           // hash of what was typed, and of the device where the person knows it
	To        string    `cbor:"3,keyasint"`           // E.164
	ExpiresAt time.Time `cbor:"4,keyasint"`
}

// invitationRecord is an invitation that a person has not accepted yet.
type invitationRecord struct {
	Email     string    `cbor:"1,keyasint"`           // the address that it is for
	Sent      bool      `cbor:"2,keyasint,omitempty"` // the link went there: whoever opens it reads it
	SentAt    time.Time `cbor:"3,keyasint"`
	ExpiresAt time.Time `cbor:"4,keyasint"`
	Tries     int       `cbor:"5,keyasint,omitempty"` // answers that were taken
	// Browser is the hash of the cookie of the browser that may accept: it has shown that the person is meant, or goes on without (Skipped).
	Browser string `cbor:"6,keyasint,omitempty"`
	Skipped bool   `cbor:"7,keyasint,omitempty"`
	Number  string `cbor:"8,keyasint,omitempty"` // the telephone number that was shown
}

// signUpRecord is what somebody has typed who signs up, until the address is confirmed.
type signUpRecord struct {
	Browser   string    `cbor:"1,keyasint"` // hash of the browser cookie
	Sealed    []byte    `cbor:"2,keyasint"`
	ExpiresAt time.Time `cbor:"3,keyasint"`
}
