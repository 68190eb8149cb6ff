package trustedbrowser

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Browsers are the browsers that persons trust.
var Browsers = storage.NewTable[Record]("identity_trusted_browser") // person id, id

// Record is a browser that a person trusts. It is valid while the epochs are those of now.
type Record struct {
	Secret    string    `cbor:"1,keyasint"`           // hash of the secret in the cookie, which changes with each use
	Epoch     int64     `cbor:"2,keyasint,omitempty"` // of the person
	Global    int64     `cbor:"3,keyasint,omitempty"` // of all sessions
	Since     time.Time `cbor:"4,keyasint"`
	Used      time.Time `cbor:"5,keyasint"`
	ExpiresAt time.Time `cbor:"6,keyasint"`
	// Address and Agent say where it was last used from: IP address and User-Agent.
	Address string `cbor:"7,keyasint,omitempty"`
	Agent   string `cbor:"8,keyasint,omitempty"`
}
