package grant

import (
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. Tokens and codes are stored as keys, by their hash (secret.Hash), never as
// values. Records' own times and the epochs decide about validity; the expiry passed to storage is for collection.
var (
	codes     = storage.NewTable[Code]("authz_code")                   // hash of the code
	refreshes = storage.NewTable[refreshRecord]("authz_refresh")       // hash of the refresh token
	answers   = storage.NewTable[answerRecord]("authz_refresh_answer") // hash of the spent refresh token
)

// Code is an authorization code. It stays after it was spent, so a replay is detected and its tokens are revoked.
type Code struct {
	token.SignIn `cbor:"1,keyasint"`
	Epochs       token.Epochs `cbor:"2,keyasint"`
	ClientID     string       `cbor:"3,keyasint"`
	RedirectURI  string       `cbor:"4,keyasint"`
	RedirectSent bool         `cbor:"5,keyasint,omitempty"`
	Scope        []string     `cbor:"6,keyasint,omitempty"`
	Nonce        string       `cbor:"7,keyasint,omitempty"`
	Challenge    string       `cbor:"8,keyasint,omitempty"`
	Resources    []string     `cbor:"9,keyasint,omitempty"`
	CreatedAt    time.Time    `cbor:"10,keyasint"`
	ExpiresAt    time.Time    `cbor:"11,keyasint"`
	Spent        bool         `cbor:"12,keyasint,omitempty"` // redeemed, or burned by a failed check
	GrantID      string       `cbor:"13,keyasint,omitempty"` // what it gave

	Claims token.ClaimsRequest `cbor:"14,keyasint,omitzero"`
	// Confirmation is the proof that the sender must give to redeem it.
	Confirmation token.Confirmation `cbor:"15,keyasint,omitzero"`
	// AuthorizationDetails are those that the person has seen, in JSON. (RFC 9396)
	AuthorizationDetails string `cbor:"16,keyasint,omitempty"`
}

// refreshRecord is one refresh token of a rotation chain. It stays after it was spent, so a reuse is detected.
type refreshRecord struct {
	GrantID   string    `cbor:"1,keyasint"`
	ClientID  string    `cbor:"2,keyasint"`
	Scope     []string  `cbor:"3,keyasint,omitempty"` // the most that it gives, never more than the grant
	CreatedAt time.Time `cbor:"4,keyasint"`
	ExpiresAt time.Time `cbor:"5,keyasint"`
	// SpentAt is the time of its rotation; zero: not yet.
	SpentAt time.Time `cbor:"6,keyasint,omitempty"`
	// Successor is the hash of the refresh token that replaced it.
	Successor string `cbor:"7,keyasint,omitempty"`
}

// answerRecord is the token response of a rotation, sealed with a key derived from the spent token. It is repeated
// within the grace period while the successor is unspent. A record of its own can be collected long before the spent
// token.
type answerRecord struct {
	Sealed []byte `cbor:"1,keyasint"`
	// Print is that of the request that it answers.
	Print string `cbor:"2,keyasint,omitempty"`
}
