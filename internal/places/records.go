package places

import "github.com/gatehouse-id/gatehouse/storage"

// Every stored record of the package.
var (
	entries = storage.NewTable[struct{}]("session_place")        // kind, value, session
	steps   = storage.NewTable[stepRecord]("session_place_step") // name of a source: how much of it is listed
)

// stepRecord says how far the records of an earlier version are listed.
type stepRecord struct {
	After []byte `cbor:"1,keyasint,omitempty"` // stored key
	Done  bool   `cbor:"2,keyasint,omitempty"`
}
