package actiontoken

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of action tokens.
var (
	Records       = storage.NewTable[Record]("identity_action_token")         // hash of the token
	RecordsOf     = storage.NewTable[string]("identity_action_token_of")      // person id, token id; the value is the hash of the token
	signInTickets = storage.NewTable[ticketRecord]("identity_sign_in_ticket") // hash of the ticket
)

// Record is what an action token does, once.
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
	// Session is that in which the person has made it on a page: it ends with it, and is worth no more. Empty: somebody else has made it
	Session string `cbor:"10,keyasint,omitempty"`
}

// ticketRecord signs a person in, once.
type ticketRecord struct {
	PersonID    string    `cbor:"1,keyasint"`
	Epoch       int64     `cbor:"2,keyasint,omitempty"` // of the person
	Level       int       `cbor:"3,keyasint"`
	RedirectURI string    `cbor:"4,keyasint,omitempty"`
	ExpiresAt   time.Time `cbor:"5,keyasint"`
	Session     string    `cbor:"6,keyasint,omitempty"` // as in Record
}
