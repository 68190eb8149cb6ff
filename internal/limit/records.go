package limit

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// used is the only stored record of the package: what was used of a quota in a period.
var used = storage.NewTable[usedRecord]("limit_used") // rule, start of the period, who -> how often

type usedRecord struct {
	Rule uint64    `cbor:"r"`
	Addr []byte    `cbor:"a,omitempty"`
	Name string    `cbor:"n,omitempty"`
	End  time.Time `cbor:"e"` // of the period
	Used int64     `cbor:"u"`
}

// keptAfter is the time that a record is kept after its period.
const keptAfter = day

func usedKey(k Key, start int64) string {
	return storage.Key(strconv.FormatUint(k.Rule, 16), strconv.FormatInt(start, 10), hex.EncodeToString(k.Addr[:]), k.Name)
}
