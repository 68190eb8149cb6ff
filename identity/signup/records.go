package signup

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// signUps are the forms that wait, by the hash of the browser's token for it.
var signUps = storage.NewTable[signUpRecord]("identity_sign_up")

// signUpRecord is a sign-up form that waits for the confirmation of its address.
type signUpRecord struct {
	Browser   string    `cbor:"1,keyasint"` // hash of the browser cookie
	Sealed    []byte    `cbor:"2,keyasint"` // a signUpInput
	ExpiresAt time.Time `cbor:"3,keyasint"`
}
