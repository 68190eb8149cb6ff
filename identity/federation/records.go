package federation

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of identity providers.
var (
	ProviderFlows = storage.NewTable[providerFlowRecord]("identity_provider_flow") // hash of the flow's name
	endings       = storage.NewTable[endingRecord]("identity_provider_end")        // hash of the flow's name
	refusals      = storage.NewTable[refusalRecord]("identity_refusal")            // hash of the browser cookie, hash of the Return
	sessionNames  = storage.NewTable[struct{}]("identity_held_name")               // provider, hash of issuer and subject or name, session id
	onces         = storage.NewTable[onceRecord]("identity_once")                  // provider, hash of the key
)

// providerFlowRecord is a sign-in that a browser was sent to a provider for. It takes one answer.
type providerFlowRecord struct {
	Provider  string    `cbor:"1,keyasint"`
	SignIn    string    `cbor:"2,keyasint,omitempty"` // flow id of the sign-in; empty: nobody has asked for the answer
	Tracker   string    `cbor:"3,keyasint"`           // hash of the tracker cookie
	State     []byte    `cbor:"4,keyasint,omitempty"` // of the provider, sealed
	Answered  bool      `cbor:"5,keyasint,omitempty"`
	Identity  []byte    `cbor:"6,keyasint,omitempty"` // verified, sealed; once there is an answer
	CreatedAt time.Time `cbor:"7,keyasint"`
	ExpiresAt time.Time `cbor:"8,keyasint"`
	// Typed is what somebody has typed who comes for the first time, sealed, until it is confirmed. Empty: nothing
	Typed []byte `cbor:"9,keyasint,omitempty"`
}

// endingRecord is a sign-out that a browser was sent to a provider for, after it has signed out here.
type endingRecord struct {
	Provider  string    `cbor:"1,keyasint"`
	Tracker   string    `cbor:"2,keyasint"`           // hash of the tracker cookie
	Return    string    `cbor:"3,keyasint"`           // URL
	Held      []byte    `cbor:"4,keyasint,omitempty"` // sealed
	State     []byte    `cbor:"5,keyasint,omitempty"` // of the provider, sealed
	ExpiresAt time.Time `cbor:"6,keyasint"`
}

// refusalRecord is why a provider has signed nobody in, until whoever asked is told.
type refusalRecord struct {
	Code       string    `cbor:"1,keyasint"`
	Reason     string    `cbor:"2,keyasint"`
	SAMLStatus string    `cbor:"3,keyasint,omitempty"`
	Cause      string    `cbor:"4,keyasint,omitempty"`
	ExpiresAt  time.Time `cbor:"5,keyasint"`
}

// onceRecord says that something was used.
type onceRecord struct {
	Until time.Time `cbor:"1,keyasint"`
}
