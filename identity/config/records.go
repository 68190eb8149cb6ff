package config

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	versions     = storage.NewTable[versionRecord]("config_version") // versionKey
	units        = storage.NewTable[unitRecord]("config_unit")       // name of the unit; one that was never changed has none
	keyPairs     = storage.NewTable[keyPairRecord]("config_key_pair")
	keyNames     = storage.NewTable[string]("config_key_pair_name")   // name -> id
	ownKeys      = storage.NewTable[keyPairRecord]("config_own_key")  // ownKey
	expiryLogged = storage.NewTable[struct{}]("config_expiry_logged") // day, name of a key pair
)

const (
	versionKey = "version"
	ownKey     = "saml"
)

// versionRecord names one state of everything that is configured: whoever has read it before knows whether it has changed.
type versionRecord struct {
	Version uint64 `cbor:"1,keyasint"` // grows with each change
	// Nonce tells a change that was written from one that was tried under the same number and undone.
	Nonce []byte `cbor:"2,keyasint"`
}

// unitRecord is a unit as JSON, without its secrets.
type unitRecord struct {
	JSON     []byte            `cbor:"1,keyasint"`
	Secrets  map[string][]byte `cbor:"2,keyasint,omitempty"` // sealed, by where they belong
	Revision uint64            `cbor:"3,keyasint"`           // the version of its last change
}

// keyPairRecord is a key pair by its id.
type keyPairRecord struct {
	Name        string    `cbor:"1,keyasint"`
	Type        string    `cbor:"2,keyasint"`           // RSA, EC or CERTIFICATE
	Private     []byte    `cbor:"3,keyasint,omitempty"` // PKCS#8, sealed
	Public      []byte    `cbor:"4,keyasint"`           // DER of the certificate, or of the SubjectPublicKeyInfo
	Certificate bool      `cbor:"5,keyasint,omitempty"`
	NotAfter    time.Time `cbor:"6,keyasint,omitempty"` // of the certificate
}
