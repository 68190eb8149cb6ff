package account

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of the account pages.
var (
	newContacts   = storage.NewTable[newContactRecord]("identity_new_contact")   // session id
	typedContacts = storage.NewTable[newContactRecord]("identity_typed_contact") // session id
	// ownLinkOf has the id of the action token behind the link that a person has made for another device.
	ownLinkOf = storage.NewTable[string]("identity_own_link_of") // person id
)

// newContactRecord is an address or number that a person claims. In newContacts it waits for the code that was sent
// there; in typedContacts it is kept while the person steps up.
type newContactRecord struct {
	Kind      string    `cbor:"1,keyasint"`
	Value     string    `cbor:"2,keyasint"`
	ExpiresAt time.Time `cbor:"3,keyasint"`
	// Flow is the sign-in that continues after the confirmation. Empty: the person was at their profile.
	Flow string `cbor:"4,keyasint,omitempty"`
}
