package token

import (
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. The names are those of authz, from which the package came, since they are on
// disk.
var (
	grants       = storage.NewTable[Grant]("authz_grant")          // grant id
	heldGrants   = storage.NewTable[heldList]("authz_grants")      // person, client
	accessTokens = storage.NewTable[Access]("authz_access")        // hash of the access token
	uses         = storage.NewTable[useRecord]("authz_access_use") // hash of an access token with a usage limit
	secrets      = storage.NewTable[secretRecord]("authz_secret")  // what it is for
	tallies      = storage.NewTable[tallyRecord]("authz_tally")    // minute, client, lane of the node from the second one on
	globals      = storage.NewTable[globalRecord]("authz_global")  // globalKey
)

const globalKey = "state"

// tallyRecord counts the tokens of a client in a minute that have no event of their own.
type tallyRecord struct {
	ClientID string    `cbor:"1,keyasint"`
	Minute   time.Time `cbor:"2,keyasint"`
	Tokens   int       `cbor:"3,keyasint"`
}

// globalRecord concerns every token at once.
type globalRecord struct {
	// Epoch grows with "revoke everything issued before now" and with each restore of a backup.
	Epoch int64 `cbor:"1,keyasint"`
}

// secretRecord is a secret that was made once for the store. It is sealed by each encryption key that was in use since,
// the newest first, so an old key can be dropped, and a return to the old key alone works too.
type secretRecord struct {
	Sealed [][]byte `cbor:"1,keyasint"`
}

// SignIn is the time and method of a sign-in, as tokens state them.
type SignIn struct {
	Subject   string    `cbor:"1,keyasint,omitempty"`
	SessionID string    `cbor:"2,keyasint,omitempty"`
	AuthTime  time.Time `cbor:"3,keyasint,omitempty"`
	Level     int       `cbor:"4,keyasint,omitempty"`
	AMR       []string  `cbor:"5,keyasint,omitempty"`
	Provider  string    `cbor:"6,keyasint,omitempty"`
	// Details are user_details.
	Details map[string][]string `cbor:"7,keyasint,omitempty"`
	// References are values of RFC 8176 in addition to those of AMR.
	References []string `cbor:"8,keyasint,omitempty"`
	Vouched    bool     `cbor:"9,keyasint,omitempty"` // as in authn.Result
}

// Counts reports whether the sign-in counts for its person, as they are now. One that someone else has vouched for does
// not once the person has a role in the admin console.
func (s *SignIn) Counts(who *authn.Subject) bool { return !s.Vouched || !who.Administrator }

// Epochs are those in force when the record was made. A record is invalid when one of them has changed.
type Epochs struct {
	Person int64 `cbor:"1,keyasint,omitempty"`
	Client int64 `cbor:"2,keyasint,omitempty"`
	Global int64 `cbor:"3,keyasint,omitempty"`
}

// Grant is the access that a person gave a client at one sign-in. Its tokens live as long as the record, so one Delete
// revokes them.
type Grant struct {
	SignIn    `cbor:"1,keyasint"`
	Epochs    Epochs    `cbor:"2,keyasint"`
	ClientID  string    `cbor:"3,keyasint"`
	Scope     []string  `cbor:"4,keyasint,omitempty"`
	Resources []string  `cbor:"5,keyasint,omitempty"`
	CreatedAt time.Time `cbor:"6,keyasint"`
	ExpiresAt time.Time `cbor:"7,keyasint"` // end of the rotation chain, or of the only access token
	Nonce     string    `cbor:"8,keyasint,omitempty"`

	Claims ClaimsRequest `cbor:"9,keyasint,omitzero"`
	// Confirmation is the binding of its refresh tokens. Those of clients with credentials are bound to these.
	Confirmation Confirmation `cbor:"10,keyasint,omitzero"`
	// AuthorizationDetails are those that the person has seen, in JSON. (RFC 9396)
	AuthorizationDetails string `cbor:"11,keyasint,omitempty"`
	// From is the client whose ID token it was given for: it ends with what the person has allowed that one. Empty: none.
	From string `cbor:"12,keyasint,omitempty"`
}

// heldList is the grants that a client has of a person, the oldest first.
type heldList struct {
	Held []heldGrant `cbor:"1,keyasint,omitempty"`
}

// heldGrant is a grant in the list of its person and client. An empty session is of no other grant.
type heldGrant struct {
	ID        string    `cbor:"1,keyasint"` // sorts by time
	Session   string    `cbor:"2,keyasint,omitempty"`
	ExpiresAt time.Time `cbor:"3,keyasint"`
	From      string    `cbor:"4,keyasint,omitempty"` // as in Grant
}

// Access is an access token: an opaque one by its hash, a JWT by its jti. GrantID is empty for client credentials.
type Access struct {
	GrantID   string    `cbor:"1,keyasint,omitempty"`
	ClientID  string    `cbor:"2,keyasint"`
	Subject   string    `cbor:"3,keyasint,omitempty"` // the person; empty for client credentials
	Scope     []string  `cbor:"4,keyasint,omitempty"`
	Audience  []string  `cbor:"5,keyasint,omitempty"`
	Epochs    Epochs    `cbor:"6,keyasint"`
	CreatedAt time.Time `cbor:"7,keyasint"`
	ExpiresAt time.Time `cbor:"8,keyasint"`
	Level     int       `cbor:"9,keyasint,omitempty"`
	AMR       []string  `cbor:"10,keyasint,omitempty"`
	AuthTime  time.Time `cbor:"11,keyasint,omitempty"`
	SessionID string    `cbor:"12,keyasint,omitempty"`
	// UsageLimit is the maximum number of uses; its useRecord has the number so far. 0: unlimited, without a useRecord.
	UsageLimit int    `cbor:"13,keyasint,omitempty"`
	Provider   string `cbor:"14,keyasint,omitempty"` // of the sign-in
	// Claims are those that the userinfo endpoint gives in addition to those of the scopes.
	Claims []string `cbor:"15,keyasint,omitempty"`
	// References are those of the sign-in.
	References   []string     `cbor:"16,keyasint,omitempty"`
	Confirmation Confirmation `cbor:"17,keyasint,omitzero"`
	// Actors act for the person or client, the present one first. (RFC 8693 4.1)
	Actors []Actor `cbor:"18,keyasint,omitempty"`
	// Sources are the tokens that it came from by exchange, the nearest first. It ends with each of them.
	Sources []Source `cbor:"19,keyasint,omitempty"`
	// AuthorizationDetails are in JSON. (RFC 9396)
	AuthorizationDetails string `cbor:"20,keyasint,omitempty"`
	// Verified is the VerifiedUserinfo of its grant.
	Verified string `cbor:"21,keyasint,omitempty"`
}

// Actor is a party that acts for another one.
type Actor struct {
	Subject  string `cbor:"1,keyasint"` // a person, the client itself, or a site
	ClientID string `cbor:"2,keyasint,omitempty"`
}

// Source is a token that another one came from.
type Source struct {
	Key      string `cbor:"1,keyasint,omitempty"` // of an access token. Empty: another kind
	ClientID string `cbor:"2,keyasint"`           // that it was issued to
	Epoch    int64  `cbor:"3,keyasint,omitempty"` // of that client
	// Of an actor's token, whose person and grant are not those of the token that came from it.
	GrantID     string `cbor:"4,keyasint,omitempty"`
	Person      string `cbor:"5,keyasint,omitempty"`
	PersonEpoch int64  `cbor:"6,keyasint,omitempty"`
}

// useRecord counts the uses of an access token with a usage limit. It is made with the token. If it is missing, the
// number of uses is unknown and the token invalid.
type useRecord struct {
	Count int `cbor:"1,keyasint"`
}
