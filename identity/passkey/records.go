package passkey

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of passkeys.
var (
	sets       = storage.NewTable[Set]("identity_passkey_set")             // person id
	owners     = storage.NewTable[string]("identity_passkey")              // hash of the credential id; the value is the person id
	challenges = storage.NewTable[Challenge]("identity_passkey_challenge") // purpose, then flow id or session id
)

// Set is the passkeys of a person. Handle is their name for the person: random, and the same for all of them.
type Set struct {
	Handle []byte    `cbor:"1,keyasint"`
	Keys   []Passkey `cbor:"2,keyasint,omitempty"`
	// Made counts all that were ever added.
	Made int `cbor:"3,keyasint,omitempty"`
}

// Passkey is the public part of a passkey.
type Passkey struct {
	ID         string   `cbor:"1,keyasint"` // our own, for addresses
	Credential []byte   `cbor:"2,keyasint"` // credential id
	PublicKey  []byte   `cbor:"3,keyasint"` // COSE
	Name       string   `cbor:"4,keyasint,omitempty"`
	Number     int      `cbor:"5,keyasint"`
	SignCount  uint32   `cbor:"6,keyasint,omitempty"`
	Transports []string `cbor:"7,keyasint,omitempty"`
	Model      []byte   `cbor:"8,keyasint,omitempty"` // AAGUID
	// BackupEligible says that it can be on several devices, BackedUp that it is.
	BackupEligible bool      `cbor:"9,keyasint,omitempty"`
	BackedUp       bool      `cbor:"10,keyasint,omitempty"`
	Since          time.Time `cbor:"11,keyasint"`
	Used           time.Time `cbor:"12,keyasint,omitempty"`
	// Suspect says that its counter has gone back: it is no longer accepted.
	Suspect bool `cbor:"13,keyasint,omitempty"`
	// Vouched says that the session it was added in was opened by an API client: it shows no more than that session did.
	Vouched bool `cbor:"14,keyasint,omitempty"`
	// Automatic says that the browser made it after a sign-in with a password, without a question.
	Automatic bool `cbor:"15,keyasint,omitempty"`
}

// Challenge is the challenge that a passkey has to sign, once.
type Challenge struct {
	Text      []byte    `cbor:"1,keyasint"`
	ExpiresAt time.Time `cbor:"2,keyasint"`
}
