package settings

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	versions     = storage.NewTable[versionRecord]("config_version")    // versionKey
	units        = storage.NewTable[unitRecord]("config_unit")          // name of the unit; one that was never changed has no record
	lasts        = storage.NewTable[lastRecord]("config_last")          // lastKey
	boundClients = storage.NewTable[boundRecord]("config_bound_client") // folded name of an API client
	befores      = storage.NewTable[beforeRecord]("config_before")      // name of a unit that the last change has changed
)

const (
	versionKey = "version"
	lastKey    = "last"
)

// boundRecord is the organisation that has named an API client last.
type boundRecord struct {
	Organisation string `cbor:"1,keyasint"`
}

// lastRecord is the last change, while it can be undone.
type lastRecord struct {
	Revision uint64    `cbor:"1,keyasint"` // that it has made
	Units    []string  `cbor:"2,keyasint"`
	Actor    string    `cbor:"3,keyasint,omitempty"`
	At       time.Time `cbor:"4,keyasint"`
}

// beforeRecord is a unit as it was before the last change.
type beforeRecord struct {
	Stored bool       `cbor:"1,keyasint"` // false: it was never changed before
	Unit   unitRecord `cbor:"2,keyasint"`
}

// versionRecord names one state of the whole configuration, key pairs included. A cache compares it to know whether it
// is current.
type versionRecord struct {
	Version uint64 `cbor:"1,keyasint"` // grows with each change
	// Nonce tells a change that was written from one that was tried under the same number and undone.
	Nonce []byte `cbor:"2,keyasint"`
	// Quiet counts the changes that gave no member another value: a switch was set to the value that it had, or a picture
	// was changed.
	Quiet uint64 `cbor:"3,keyasint,omitempty"`
}

// unitRecord is a unit as JSON, without its secrets.
type unitRecord struct {
	JSON     []byte            `cbor:"1,keyasint"`
	Secrets  map[string][]byte `cbor:"2,keyasint,omitempty"` // sealed, by where they belong
	Revision uint64            `cbor:"3,keyasint"`           // the version of its last change
}
