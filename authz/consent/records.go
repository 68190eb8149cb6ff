package consent

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var consents = storage.NewTable[Record]("authz_consent") // person, client

// Record is what a person allowed a client, remembered.
type Record struct {
	Scope     []string  `cbor:"1,keyasint,omitempty"`
	CreatedAt time.Time `cbor:"2,keyasint"`
	UpdatedAt time.Time `cbor:"3,keyasint"`
	// Uses are what was allowed for resources, and to a client that no one has registered, the newest last.
	Uses []Use `cbor:"4,keyasint,omitempty"`
	// Details are authorization details in JSON, the newest last.
	Details []string `cbor:"5,keyasint,omitempty"`
}

// Use is what a client was allowed: the scopes together, and For, the hash of what its tokens are for. If no one has
// registered it, that is also of who it said it is, and of where it is sent.
type Use struct {
	For   string   `cbor:"1,keyasint"`
	Scope []string `cbor:"2,keyasint,omitempty"`
	// Details are the authorization details together, in JSON.
	Details string `cbor:"3,keyasint,omitempty"`
}
