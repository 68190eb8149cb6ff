package clientstore

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. The names are those of authz, from which the package came, since they are on
// disk.
var (
	clients      = storage.NewTable[clientRecord]("authz_client")      // client id; those added by command
	clientStates = storage.NewTable[clientState]("authz_client_state") // client id
	// documents are clients with a metadata document to which someone has consented: client id
	documents = storage.NewTable[documentRecord]("authz_client_document")
	// registrations are the clients that have registered themselves and that no operator has changed since: client id
	registrations = storage.NewTable[registrationRecord]("authz_client_registration")
	// client, hash of the jti of a used client assertion
	assertions = storage.NewTable[struct{}]("authz_assertion")
)

// clientState is the variable part of a client, whether it is declared or stored.
type clientState struct {
	// Epoch grows with "revoke everything of this client".
	Epoch int64 `cbor:"1,keyasint"`
}

// clientRecord is a client that was added by command; Client is its configuration in JSON, with hashed secrets.
type clientRecord struct {
	Client    []byte    `cbor:"1,keyasint"`
	CreatedAt time.Time `cbor:"2,keyasint"`
	// Registered says that the client has registered itself.
	Registered bool `cbor:"4,keyasint,omitempty"`
	// By is the id of the actor who added it.
	By string `cbor:"5,keyasint,omitempty"`
}

// registrationRecord is the record of a client that has registered itself, as long as no one else has changed it.
type registrationRecord struct {
	CreatedAt time.Time `cbor:"1,keyasint"`
	UsedAt    time.Time `cbor:"2,keyasint,omitzero"` // when a person signed in last, to a day. Zero: no one did
	// Token is the hash of the token by which the client reads and changes its registration. Empty: it cannot.
	Token string `cbor:"3,keyasint,omitempty"`
	// Metadata are those of the registration, in JSON.
	Metadata []byte `cbor:"4,keyasint"`
}

// documentRecord is a client as its metadata document described it when someone consented last.
type documentRecord struct {
	Document []byte `cbor:"1,keyasint"` // in JSON
}
