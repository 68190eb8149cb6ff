package actiontoken

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of action tokens.
var (
	tokens = storage.NewTable[Record]("identity_action_token") // hash of the token
	// tokensOf has the hashes of a person's tokens.
	tokensOf      = storage.NewTable[string]("identity_action_token_of")      // person id, token id
	signInTickets = storage.NewTable[ticketRecord]("identity_sign_in_ticket") // hash of the ticket
)

// Record is an action token.
type Record struct {
	ID          string    `cbor:"1,keyasint"`
	PersonID    string    `cbor:"2,keyasint"`
	Epoch       int64     `cbor:"3,keyasint,omitempty"` // of the person
	Actions     []Action  `cbor:"4,keyasint"`
	RedirectURI string    `cbor:"5,keyasint,omitempty"`
	Level       int       `cbor:"6,keyasint,omitempty"` // 0: as configured
	AppToWeb    bool      `cbor:"7,keyasint,omitempty"`
	CreatedAt   time.Time `cbor:"8,keyasint"`
	ExpiresAt   time.Time `cbor:"9,keyasint"`
	// Session is the session in which the person has made it on a page. The token ends with that session and gives no
	// more than it. Empty: an API client has made it.
	Session string `cbor:"10,keyasint,omitempty"`
	// Ceiling is the highest level of its LOGIN. 0: none
	Ceiling int  `cbor:"11,keyasint,omitempty"`
	Roles   bool `cbor:"12,keyasint,omitempty"` // as in NewActionToken
	// Global is the epoch of all sessions. A restore and "End everything" end tokens too.
	Global int64 `cbor:"13,keyasint,omitempty"`
}

// ticketRecord is a ticket that signs a person in once.
type ticketRecord struct {
	PersonID    string    `cbor:"1,keyasint"`
	Epoch       int64     `cbor:"2,keyasint,omitempty"` // of the person
	Level       int       `cbor:"3,keyasint"`
	RedirectURI string    `cbor:"4,keyasint,omitempty"`
	ExpiresAt   time.Time `cbor:"5,keyasint"`
	Session     string    `cbor:"6,keyasint,omitempty"` // as in Record
	Roles       bool      `cbor:"7,keyasint,omitempty"` // as in Record
	Global      int64     `cbor:"8,keyasint,omitempty"` // as in Record
}
