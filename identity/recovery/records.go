package recovery

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// textResets are the requests for a code by text message, by the hash of the browser cookie.
var textResets = storage.NewTable[textResetRecord]("identity_text_reset")

// textResetRecord is a request of a browser for a code by text message, which allows a new password.
type textResetRecord struct {
	PersonID  string    `cbor:"1,keyasint,omitempty"` // empty: no person matches, and no code was sent
	Typed     string    `cbor:"2,keyasint"`           // hash of the input, and of the device if the person knows it
	To        string    `cbor:"3,keyasint"`           // E.164
	ExpiresAt time.Time `cbor:"4,keyasint"`
}
