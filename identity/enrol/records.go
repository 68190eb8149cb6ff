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

// textResetRecord is a request of a browser for a code by text message, which allows a new password.
type textResetRecord struct {
	PersonID  string    `cbor:"1,keyasint,omitempty"` // empty: no person matches, and no code was sent
	Typed     string    `cbor:"2,keyasint"`           // hash of the input, and of the device if the person knows it
	To        string    `cbor:"3,keyasint"`           // E.164
	ExpiresAt time.Time `cbor:"4,keyasint"`
}

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
}

// signUpRecord is a sign-up form that waits for the confirmation of its address.
type signUpRecord struct {
	Browser   string    `cbor:"1,keyasint"` // hash of the browser cookie
	Sealed    []byte    `cbor:"2,keyasint"` // a signUpInput
	ExpiresAt time.Time `cbor:"3,keyasint"`
}
