package limit

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// used has what was used of quotas in their periods.
var used = storage.NewTable[usedRecord]("limit_used") // rule, start of the period, who -> how often

// shares are the buckets that several nodes share.
var shares = storage.NewTable[shareRecord]("limit_shared") // rule, who -> how far it is used

// shareRecord is a bucket. What nodes have leased counts as used.
type shareRecord struct {
	Full  int64        `cbor:"f"` // when it would be full, in nanoseconds since 1970
	Wants []wantRecord `cbor:"w,omitempty"`
}

// wantRecord is the number of requests that a node expects until its next exchange, or of a quota its lease.
type wantRecord struct {
	Node  uint64 `cbor:"n"`
	Count int64  `cbor:"c"`
	At    int64  `cbor:"t"`
}

func shareKey(k Key) string {
	return storage.Key(strconv.FormatUint(k.Rule, 16), hex.EncodeToString(k.Addr[:]), k.Name)
}

type usedRecord struct {
	Rule uint64    `cbor:"r"`
	Addr []byte    `cbor:"a,omitempty"`
	Name string    `cbor:"n,omitempty"`
	End  time.Time `cbor:"e"` // of the period
	Used int64     `cbor:"u"`
	// Ahead has the leases of the nodes, which are not in Used.
	Ahead []wantRecord `cbor:"l,omitempty"`
}

// keptAfter is the time that a record is kept after its period.
const keptAfter = day

func usedKey(k Key, start int64) string {
	return storage.Key(strconv.FormatUint(k.Rule, 16), strconv.FormatInt(start, 10), hex.EncodeToString(k.Addr[:]), k.Name)
}
