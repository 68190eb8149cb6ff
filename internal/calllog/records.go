package calllog

import (
	"encoding/binary"
	"strconv"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	blocks = storage.NewTable[blockRecord]("call_block") // lane, number of its first call -> block
	heads  = storage.NewTable[headRecord]("call_head")   // lane -> how far the log of a node goes
	never  time.Time                                     // Collect removes whole blocks
)

// encoding is that of the calls in a block, whose bytes the hash covers.
var encoding = func() cbor.EncMode {
	mode, err := cbor.EncOptions{Time: cbor.TimeUnixMicro, Sort: cbor.SortNone}.EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// blockRecord is consecutive calls of one node. Hash covers all of it, Previous the whole log before it.
type blockRecord struct {
	First    uint64    `cbor:"f"` // number of the first call; they count from 1
	Count    uint64    `cbor:"c"`
	Oldest   time.Time `cbor:"o"` // when the first of them began
	End      time.Time `cbor:"n"` // when the last of them ended; calls are written in the order of their ends
	Lines    [][]byte  `cbor:"l"` // encoded calls
	Previous []byte    `cbor:"p"` // hash of the block before, empty for the first
	Hash     []byte    `cbor:"h"`
}

func (b *blockRecord) last() uint64 { return b.First + b.Count - 1 }

// headRecord says how far a log goes, how much of it the events confirm, and how much was collected.
type headRecord struct {
	Block uint64 `cbor:"b"` // the first call of the last block. 0: the log is empty
	Last  uint64 `cbor:"l"` // the last call
	Hash  []byte `cbor:"h"` // of the last block

	Sealed uint64 `cbor:"s"` // the last call that an event confirms

	CutLast uint64    `cbor:"cl"` // the last call that was collected
	CutHash []byte    `cbor:"ch"` // of its block
	CutAt   time.Time `cbor:"ca"`
}

func laneKey(lane int) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(lane))) //nolint:gosec // there are few nodes
}

func blockKey(lane int, first uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(laneKey(lane)), first))
}

func laneOf(key string) int { return int(binary.BigEndian.Uint32([]byte(key))) }

// nameOf names the log of a node for administrators, like a chain of events.
func nameOf(lane int) string {
	if lane == 0 {
		return "/calls"
	}
	return "/calls/node" + strconv.Itoa(lane+1)
}
