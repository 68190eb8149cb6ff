package personindex

import (
	"encoding/binary"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	dues   = storage.NewTable[dueRecord]("identity_lookup_due")  // when, id -> who may have changed
	places = storage.NewTable[struct{}]("identity_lookup")       // what, partition, value, person id
	known  = storage.NewTable[knownRecord]("identity_lookup_of") // person id -> where the person is listed
	steps  = storage.NewTable[stepRecord]("identity_lookup_step")
	never  = time.Time{}
)

// What persons are listed by.
const (
	byName  = "name"  // each word of the name
	byState = "state" // every state but active
	bySeen  = "seen"  // the last sign-in
)

// dueRecord says that a person may have changed. It is written blindly, so those who write it never meet.
type dueRecord struct {
	Person string    `cbor:"p"`
	Seen   time.Time `cbor:"s,omitzero"` // when the person signed in. Zero: something else
}

// knownRecord is the place of a person in the lists.
type knownRecord struct {
	Partition string       `cbor:"pt"`
	Words     []string     `cbor:"w,omitempty"`
	State     person.State `cbor:"s,omitempty"` // empty: active
	Seen      time.Time    `cbor:"t,omitzero"`
}

// stepRecord is the progress of listing the persons of an earlier version.
type stepRecord struct {
	After string `cbor:"a,omitempty"`
	Done  bool   `cbor:"d,omitempty"`
}

// keys are the keys of all places of a person.
func (k *knownRecord) keys(id string) (out []string) {
	for _, w := range k.Words {
		out = append(out, storage.Key(byName, k.Partition, w, id))
	}
	if k.State != "" {
		out = append(out, storage.Key(byState, k.Partition, string(k.State), id))
	}
	if !k.Seen.IsZero() {
		out = append(out, seenKey(k.Partition, k.Seen)+id)
	}
	return out
}

// seenKey is the key of a sign-in, in the order of time, in front of the person.
func seenKey(partition string, at time.Time) string {
	return string(storage.Prefix(bySeen, partition)) + stamp(at)
}

const stampLong = 8

func stamp(at time.Time) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro()))) //nolint:gosec // after 1970
}

func timeOf(stamp string) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(stamp[:stampLong])))).UTC() //nolint:gosec // from stamp
}
