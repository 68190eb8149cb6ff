package sitesession

import (
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sessions is the only table of the package. Its name is that of authz, from which the package came, since it is on
// disk. The key is the hash of the cookie.
var sessions = storage.NewTable[sessionRecord]("authz_site_session")

// sessionRecord is a browser's session at a protected site. It depends on the issuer's session and ends with it.
type sessionRecord struct {
	token.SignIn `cbor:"1,keyasint"`
	Epochs       token.Epochs `cbor:"2,keyasint"`
	Origin       string       `cbor:"3,keyasint"`
	CreatedAt    time.Time    `cbor:"4,keyasint"`
	ExpiresAt    time.Time    `cbor:"5,keyasint"`
	// DeviceKey is the public key of the device that the session is bound to. (package dbsc) Empty: none
	DeviceKey []byte `cbor:"6,keyasint,omitempty"`
}
