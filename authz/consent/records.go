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
}
