package api

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var usedIVs = storage.NewTable[ivRecord]("identity_credentials_iv") // hash of the key and the initialization vector

// ivRecord says that a password was encrypted under an initialization vector, which is not accepted again.
type ivRecord struct {
	Until time.Time `cbor:"1,keyasint"`
}
