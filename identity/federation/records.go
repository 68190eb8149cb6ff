package federation

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of identity providers.
var (
	// ProviderFlows are the browsers that are at a provider for a sign-in, and the answers.
	ProviderFlows = storage.NewTable[providerFlowRecord]("identity_provider_flow") // hash of the flow's name
	endings       = storage.NewTable[endingRecord]("identity_provider_end")        // hash of the flow's name
	refusals      = storage.NewTable[refusalRecord]("identity_refusal")            // hash of the browser cookie, hash of the Return
	sessionNames  = storage.NewTable[struct{}]("identity_held_name")               // provider, hash of issuer and subject or name, session id
	onces         = storage.NewTable[onceRecord]("identity_once")                  // provider, hash of the key
)

// providerFlowRecord is a browser's way to a provider and back, for a sign-in. It takes one answer.
type providerFlowRecord struct {
	Provider  string    `cbor:"1,keyasint"`
	SignIn    string    `cbor:"2,keyasint,omitempty"` // flow id of the sign-in. Empty: the answer was not asked for
	Tracker   string    `cbor:"3,keyasint"`           // hash of the tracker cookie
	State     []byte    `cbor:"4,keyasint,omitempty"` // of the provider, sealed
	Answered  bool      `cbor:"5,keyasint,omitempty"`
	Identity  []byte    `cbor:"6,keyasint,omitempty"` // verified, sealed. Empty: no answer yet
	CreatedAt time.Time `cbor:"7,keyasint"`
	ExpiresAt time.Time `cbor:"8,keyasint"`
	// Typed is the input of a newcomer, sealed, until it is confirmed. Empty: nothing
	Typed []byte `cbor:"9,keyasint,omitempty"`
	// Proved is the person whose password was typed to link the identity with their account. Empty: no one's
	Proved string `cbor:"10,keyasint,omitempty"`
	// New says that a newcomer who was asked for an account has none.
	New bool `cbor:"11,keyasint,omitempty"`
}

// endingRecord is a browser's way to a provider and back, for a sign-out that has happened here.
type endingRecord struct {
	Provider  string    `cbor:"1,keyasint"`
	Tracker   string    `cbor:"2,keyasint"`           // hash of the tracker cookie
	Return    string    `cbor:"3,keyasint"`           // URL
	Held      []byte    `cbor:"4,keyasint,omitempty"` // sealed
	State     []byte    `cbor:"5,keyasint,omitempty"` // of the provider, sealed
	ExpiresAt time.Time `cbor:"6,keyasint"`
}

// refusalRecord is why a provider has not signed a person in, until the application that asked is told.
type refusalRecord struct {
	Code       string    `cbor:"1,keyasint"`
	Reason     string    `cbor:"2,keyasint"`
	SAMLStatus string    `cbor:"3,keyasint,omitempty"`
	Cause      string    `cbor:"4,keyasint,omitempty"`
	ExpiresAt  time.Time `cbor:"5,keyasint"`
}

// onceRecord says that a provider has used something that is valid once.
type onceRecord struct {
	Until time.Time `cbor:"1,keyasint"`
}
