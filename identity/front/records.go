package front

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of sign-ins under way.
var (
	FlowRecords = storage.NewTable[FlowRecord]("identity_flow") // flow id
)

// FlowRecord is a sign-in under way. It is bound to the browser that started it and is not used up: back and reload find it again.
type FlowRecord struct {
	Demand    login.Demand `cbor:"1,keyasint"`
	Browser   string       `cbor:"2,keyasint"` // hash of the browser cookie
	CreatedAt time.Time    `cbor:"3,keyasint"`
	ExpiresAt time.Time    `cbor:"4,keyasint"`
	// Invited is the person who accepts an invitation by it. Empty: nobody
	Invited string `cbor:"5,keyasint,omitempty"`
	// Activating is whose password was right, and who has to be activated first. nil: nobody
	Activating *ActivatingRecord `cbor:"6,keyasint,omitempty"`
	// Couple is the session whose person the identity of a provider is to sign in from now on. Empty: it signs somebody in.
	Couple string `cbor:"7,keyasint,omitempty"`
	// Typed is the username that somebody has typed for this sign-in. Empty: none
	Typed string `cbor:"8,keyasint,omitempty"`
	// Elsewhere is where the person goes in place of the Return, which is known to be good. Empty: to the Return
	Elsewhere string `cbor:"9,keyasint,omitempty"`
}

// ActivatingRecord is a right password of a person who is inactive.
type ActivatingRecord struct {
	PersonID string    `cbor:"1,keyasint"`
	Epoch    int64     `cbor:"2,keyasint,omitempty"` // of the person
	At       time.Time `cbor:"3,keyasint"`
}
