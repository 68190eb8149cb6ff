package consent

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var consents = storage.NewTable[Record]("authz_consent") // person, client

// Record is a remembered consent of a person for a client.
type Record struct {
	// Scope has the scopes of all uses and of Plain, as Details has the authorization details.
	Scope     []string  `cbor:"1,keyasint,omitempty"`
	CreatedAt time.Time `cbor:"2,keyasint"`
	UpdatedAt time.Time `cbor:"3,keyasint"`
	// Uses are the permissions for resources, and for a client that no one has registered, the newest last.
	Uses []Use `cbor:"4,keyasint,omitempty"`
	// Details are authorization details in JSON, the newest last.
	Details []string `cbor:"5,keyasint,omitempty"`
	// Plain is the permission for tokens without an audience. nil: it was never given.
	Plain *Plain `cbor:"6,keyasint,omitempty"`
}

// Plain is the permission that names no resource, of all times that it was given.
type Plain struct {
	Scope   []string `cbor:"1,keyasint,omitempty"`
	Details []string `cbor:"2,keyasint,omitempty"`
}

// Use is a permission of a client: the scopes together, and For, the hash of the purpose of its tokens. If no one has
// registered it, that is also of who it said it is, and of where it is sent.
type Use struct {
	For   string   `cbor:"1,keyasint"`
	Scope []string `cbor:"2,keyasint,omitempty"`
	// Details are the authorization details together, in JSON.
	Details string `cbor:"3,keyasint,omitempty"`
}
