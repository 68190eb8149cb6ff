package registry

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

var clients = storage.NewTable[clientRecord]("authz_client") // client id; those added by command

var clientStates = storage.NewTable[clientState]("authz_client_state") // client id

var assertions = storage.NewTable[struct{}]("authz_assertion") // client, hash of the jti of a used client assertion

// clientState is what changes about a client of either origin.
type clientState struct {
	// Epoch grows with "revoke everything of this client".
	Epoch int64 `cbor:"1,keyasint"`
}

// clientRecord is a client that was added by command; Client is its configuration in JSON, with hashed secrets.
type clientRecord struct {
	Client    []byte    `cbor:"1,keyasint"`
	CreatedAt time.Time `cbor:"2,keyasint"`
}
