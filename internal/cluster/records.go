package cluster

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	identities = storage.NewTable[identityRecord]("cluster_identity") // identityKey
	nodes      = storage.NewTable[nodeRecord]("cluster_node")         // id of the node
	terms      = storage.NewTable[termRecord]("cluster_lease")        // role
	ends       = storage.NewTable[endRecord]("cluster_lease_end")     // role; apart from its term, which each write reads
	lanes      = storage.NewTable[laneRecord]("cluster_lane")         // lane, in two digits
)

const identityKey = "store"

// identityRecord tells the records of one installation from those of another.
type identityRecord struct {
	ID     string    `cbor:"1,keyasint"`
	MadeAt time.Time `cbor:"2,keyasint"`
	// Format is the format that a program must be able to read and write. It grows, once all nodes can, when an older
	// program would misread a record, or lose by writing it what must not be lost.
	Format int `cbor:"3,keyasint,omitempty"`
}

// nodeRecord is a process that uses the storage. Each node writes its own alone.
type nodeRecord struct {
	Host    string    `cbor:"1,keyasint"`
	Version string    `cbor:"2,keyasint,omitempty"`
	Started time.Time `cbor:"3,keyasint"`
	// Seen is by the clock of the storage.
	Seen time.Time `cbor:"4,keyasint"`
	// Ahead is the lead of the node's clock over that of the storage, in microseconds.
	Ahead int64 `cbor:"5,keyasint,omitempty"`
	// Lag is the time that the storage took to write the previous record, in microseconds.
	Lag   int64    `cbor:"6,keyasint,omitempty"`
	Roles []string `cbor:"7,keyasint,omitempty"`
	// Format is the newest form of records that the node can read and write. 0: 1
	Format int `cbor:"8,keyasint,omitempty"`
	// Lane is that of its events, from 1. 0: it has none of its own
	Lane int `cbor:"9,keyasint,omitempty"`
}

// laneRecord says which node adds to a lane of events, or did last.
type laneRecord struct {
	Node  string    `cbor:"1,keyasint"`
	Host  string    `cbor:"2,keyasint"`
	Since time.Time `cbor:"3,keyasint"`
}

// termRecord says which node has a role. Number grows with each change, so a node that was paused knows that its term
// is over.
type termRecord struct {
	Node   string `cbor:"1,keyasint"`
	Number uint64 `cbor:"2,keyasint"`
}

// endRecord says until when a term lasts, by the clock of the storage.
type endRecord struct {
	Number uint64    `cbor:"1,keyasint"`
	Until  time.Time `cbor:"2,keyasint"`
}
