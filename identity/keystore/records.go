package keystore

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

	// Next are the next keys, and Former the former ones, or nil.
	Next   *spare `cbor:"7,keyasint,omitempty"`
	Former *spare `cbor:"8,keyasint,omitempty"`
}

// spare is a key pair next to the one that is used.
type spare struct {
	Private  []byte    `cbor:"1,keyasint"`
	Public   []byte    `cbor:"2,keyasint"`
	NotAfter time.Time `cbor:"3,keyasint,omitempty"` // of the certificate. Zero: Public is a public key alone
	Since    time.Time `cbor:"4,keyasint"`           // that it is what it is
}

// same reports whether two records hold the same key pair.
func (r record) same(o record) bool {
	return r.Name == o.Name && r.Type == o.Type && r.Certificate == o.Certificate && bytes.Equal(r.Public, o.Public) &&
		bytes.Equal(r.Private, o.Private) &&
		r.Next.same(o.Next) && r.Former.same(o.Former)
}

func (s *spare) same(o *spare) bool {
	if s == nil || o == nil {
		return s == o
	}
	return bytes.Equal(s.Public, o.Public) && bytes.Equal(s.Private, o.Private)
}

// as is the record with the keys of a spare in place of its own. One of them can have a certificate and the other not.
func (r record) as(s *spare) record {
	r.Private, r.Public, r.Certificate, r.NotAfter, r.Next, r.Former = s.Private, s.Public, !s.NotAfter.IsZero(), s.NotAfter, nil, nil
	return r
}

// spares returns the keys of a record besides its own, the next ones first.
func (r record) spares() (out []*spare) {
	for _, s := range []*spare{r.Next, r.Former} {
		if s != nil {
			out = append(out, s)
		}
	}
	return out
}
