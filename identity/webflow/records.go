package webflow

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of sign-ins under way.
var (
	// FlowRecords are the sign-ins under way.
	FlowRecords = storage.NewTable[FlowRecord]("identity_flow") // flow id
)

// FlowRecord is a sign-in under way. It is bound to the browser that started it and can be used again: back and reload
// find it.
type FlowRecord struct {
	Demand    authn.Demand `cbor:"1,keyasint"`
	Browser   string       `cbor:"2,keyasint"` // hash of the browser cookie
	CreatedAt time.Time    `cbor:"3,keyasint"`
	ExpiresAt time.Time    `cbor:"4,keyasint"`
	// Invited is the person who accepts an invitation by the sign-in. Empty: it is for no invitation
	Invited string `cbor:"5,keyasint,omitempty"`
	// Activating is an inactive person whose password was right. nil: none
	Activating *ActivatingRecord `cbor:"6,keyasint,omitempty"`
	// Couple is the session of a person who wants to couple an identity of a provider. Empty: it is for a sign-in
	Couple string `cbor:"7,keyasint,omitempty"`
	// Typed is the username that was typed for this sign-in. Empty: none
	Typed string `cbor:"8,keyasint,omitempty"`
	// Elsewhere is a trusted URL to redirect to in place of the Return. Empty: the Return
	Elsewhere string `cbor:"9,keyasint,omitempty"`
	// Method is the one method of step-up that is good enough, used since CreatedAt. Empty: any that reaches the level
	Method string `cbor:"10,keyasint,omitempty"`
}

// ActivatingRecord is a right password of a person who is inactive.
type ActivatingRecord struct {
	PersonID string    `cbor:"1,keyasint"`
	Epoch    int64     `cbor:"2,keyasint,omitempty"` // of the person
	At       time.Time `cbor:"3,keyasint"`
}
