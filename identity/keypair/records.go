package keypair

import (
	"bytes"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. The tables have the prefix of the configuration that the key pairs are part of.
var (
	keyPairs     = storage.NewTable[record]("config_key_pair")
	keyNames     = storage.NewTable[string]("config_key_pair_name")   // name -> id
	ownKeys      = storage.NewTable[record]("config_own_key")         // ownKey
	expiryLogged = storage.NewTable[struct{}]("config_expiry_logged") // day, name of a key pair
)

const ownKey = "saml"

// record is a key pair by its id.
type record struct {
	Name        string    `cbor:"1,keyasint"`
	Type        string    `cbor:"2,keyasint"`           // RSA, EC, CERTIFICATE or KEYTAB
	Private     []byte    `cbor:"3,keyasint,omitempty"` // PKCS#8 or a keytab, sealed
	Public      []byte    `cbor:"4,keyasint"`           // DER of the certificate, or of the SubjectPublicKeyInfo
	Certificate bool      `cbor:"5,keyasint,omitempty"`
	NotAfter    time.Time `cbor:"6,keyasint,omitempty"` // of the certificate
}

// same tells whether two records hold the same key pair.
func (r record) same(o record) bool {
	return r.Name == o.Name && r.Type == o.Type && r.Certificate == o.Certificate && bytes.Equal(r.Public, o.Public) && bytes.Equal(r.Private, o.Private)
}
