package account

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of the account pages.
var (
	newContacts   = storage.NewTable[newContactRecord]("identity_new_contact")   // session id
	typedContacts = storage.NewTable[newContactRecord]("identity_typed_contact") // session id
	ownLinkOf     = storage.NewTable[string]("identity_own_link_of")             // person id; the value is the id of the token that they have made on a page
)

// newContactRecord is an address or number that a person says is theirs, until a code that was sent there shows it.
type newContactRecord struct {
	Kind      string    `cbor:"1,keyasint"`
	Value     string    `cbor:"2,keyasint"`
	ExpiresAt time.Time `cbor:"3,keyasint"`
	// Flow is the sign-in that goes on once it is confirmed. Empty: the person was at their profile
	Flow string `cbor:"4,keyasint,omitempty"`
}
