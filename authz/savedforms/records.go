package savedforms

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The tables are keyed by origin and id of a form.
var (
	forms  = storage.NewTable[formRecord]("authz_parked_form")
	bodies = storage.NewTable[bodyRecord]("authz_parked_body")
)

// formRecord names the owner of a form. It is apart from the body so that forms can be counted without reading them.
type formRecord struct {
	Browser   string    `cbor:"1,keyasint"` // hash of the cookie that binds the form to a browser
	PersonID  string    `cbor:"2,keyasint"`
	Size      int       `cbor:"3,keyasint"` // of the body in bytes
	CreatedAt time.Time `cbor:"4,keyasint"`
	ExpiresAt time.Time `cbor:"5,keyasint"`
}

// bodyRecord is a Form, sealed with the keyring.
type bodyRecord struct {
	Sealed []byte `cbor:"1,keyasint"`
}
