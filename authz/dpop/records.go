package dpop

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	// A used proof is of no use after the expiry, which is that of the proof.
	used    = storage.NewTable[struct{}]("authz_dpop")              // hash of the key and jti of a proof that was used
	running = storage.NewTable[runningRecord]("authz_dpop_running") // empty
)

// runningRecord is the mark of a process that has uses in memory, or has had them.
type runningRecord struct {
	// Runs says that it has not ended, or could not write all that was used.
	Runs bool `cbor:"1,keyasint,omitempty"`
	// Fence is that of the process: a proof that existed then could have been used before it. Zero: none.
	Fence time.Time `cbor:"2,keyasint"`
}
