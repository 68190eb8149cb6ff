package audit

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. A place or number is the last eight bytes of its key, so keys sort by it.
var (
	events = storage.NewTable[record]("event_log")        // chain, number -> event
	stamps = storage.NewTable[stamp]("event_log")         // the same record, with only the fields that a block needs
	nexts  = storage.NewTable[uint64]("event_next")       // chain -> the number of its next event
	index  = storage.NewTable[Ref]("event_index")         // by, who, place -> where the event is
	counts = storage.NewTable[countRecord]("event_count") // by, who -> number of entries
	chains = storage.NewTable[chainRecord]("event_chain") // chain -> how far it is sealed, and where it begins
	blocks = storage.NewTable[blockRecord]("event_block") // chain, number -> block
	// The lists by type, client, address and reference. See posting.go.
	postings = storage.NewTable[postingRecord]("event_posting") // by, value, chain, block -> which events of the block
	listings = storage.NewTable[listingRecord]("event_listing") // chain -> which blocks are listed
	never    = time.Time{}                                      // the Keeper collects here, block by block
)

// Chain is a sequence of events with seals of its own: the events of a partition that one node writes, or its brief
// events, which are collected earlier.
type Chain struct {
	Partition string
	Brief     bool
	Lane      int // of the node that writes it. All events are in lane 0 while one process alone uses a storage
}

const (
	kept  = "kept"
	brief = "brief"
	// laneMark stands between the kind of a chain and its lane. The first lane has neither: it is the chain of before
	// there were lanes.
	laneMark = "/"
)

// Prepared because every writer uses the chains of the default partition.
var (
	defaultBrief = string(storage.Prefix(DefaultPartition, brief))
	defaultKept  = string(storage.Prefix(DefaultPartition, kept))
)

// key is the key of the chain's own records, and the prefix of the keys of its events and blocks. No key is the
// beginning of another one.
func (c Chain) key() string {
	kind := kept
	if c.Brief {
		kind = brief
	}
	switch {
	case c.Lane > 0:
		kind += laneMark + strconv.Itoa(c.Lane)
	case c.Partition == DefaultPartition && c.Brief:
		return defaultBrief
	case c.Partition == DefaultPartition:
		return defaultKept
	}
	return string(storage.Prefix(c.Partition, kind))
}

// String names the chain for administrators: the partition, with /tokens for the brief events, and with the number of
// the node from the second one on.
func (c Chain) String() string {
	s := c.Partition
	if c.Brief {
		s += "/tokens"
	}
	if c.Lane > 0 {
		s += "/node" + strconv.Itoa(c.Lane+1)
	}
	return s
}

// at is the key of an event or block of the chain.
func (c Chain) at(n uint64) string { return numbered(c.key(), n) }

func numbered(prefix string, n uint64) string {
	b := make([]byte, 0, len(prefix)+8)
	return string(binary.BigEndian.AppendUint64(append(b, prefix...), n))
}

// numberOf is the inverse of numbered.
func numberOf(key string) uint64 { return binary.BigEndian.Uint64([]byte(key[len(key)-8:])) }

func chainOf(key string) Chain {
	parts := storage.Parts(key)
	kind, lane, _ := strings.Cut(parts[1], laneMark)
	n, _ := strconv.Atoi(lane)
	return Chain{Partition: parts[0], Brief: kind == brief, Lane: n}
}

// record is an event and its places in the indexes, which count from 1.
type record struct {
	Event

	AsPerson uint64 `cbor:"xp,omitempty"`
	AsActor  uint64 `cbor:"xa,omitempty"`
	AsBoth   uint64 `cbor:"xb,omitempty"`
}

// stamp is the part of an event that its block and the lists need.
type stamp struct {
	ID       string    `cbor:"i"`
	Type     string    `cbor:"t"`
	Occurred time.Time `cbor:"o"`
	ClientID string    `cbor:"c"`
	ClientIP string    `cbor:"ip"`
	Ref      string    `cbor:"f"`
}

// postingRecord is the numbers of the events of a block that a list has: the first, and the steps between them as
// varints.
type postingRecord struct {
	_ struct{} `cbor:",toarray"`

	First uint64
	Steps []byte
}

// listingRecord says that the events of the blocks From to Through are in the lists. There are none if From is higher.
type listingRecord struct {
	From    uint64 `cbor:"f"`
	Through uint64 `cbor:"t"`
}

// Ref refers to an event that is not brief: from an index, or from a queue of events to pass on.
type Ref struct {
	Partition string `cbor:"p,omitempty"` // "": DefaultPartition
	Number    uint64 `cbor:"n"`
	Lane      int    `cbor:"l,omitempty"`
}

// countRecord counts the entries under one key of an index.
type countRecord struct {
	Next  uint64 `cbor:"n"` // the place of the next entry
	Dense uint64 `cbor:"d"` // every place from here up to Next has an entry
	Count uint64 `cbor:"c"` // all entries, including those before Dense
}

// chainRecord says how far a chain is sealed, and how much of it was collected.
type chainRecord struct {
	Block uint64 `cbor:"b"` // the last block; they count from 1
	Event uint64 `cbor:"e"` // the last event in it
	Hash  []byte `cbor:"h"` // of the last block

	// The checkpoint: the last collected block, so the first remaining block can be checked against it.
	CutBlock uint64    `cbor:"cb,omitempty"`
	CutEvent uint64    `cbor:"ce,omitempty"`
	CutHash  []byte    `cbor:"ch,omitempty"`
	CutAt    time.Time `cbor:"ca"`

	// Named is the number of the last event of each other chain that a block of this one names, and NamedAt when that
	// was.
	Named   map[string]uint64 `cbor:"nm,omitempty"`
	NamedAt time.Time         `cbor:"na"`
}

// blockRecord seals consecutive events, or none: then it is there for its Heads. Hash covers every other field,
// Previous the whole chain before it.
type blockRecord struct {
	Previous []byte    `cbor:"p"` // hash of the block before, empty for the first
	First    uint64    `cbor:"f"` // number of the first event
	Last     uint64    `cbor:"l"` // number of the last event
	FirstID  string    `cbor:"fi"`
	LastID   string    `cbor:"li"`
	Count    uint64    `cbor:"c"` // can be less than the numbers span: some were missing already
	Newest   time.Time `cbor:"n"` // time of the latest event
	SealedAt time.Time `cbor:"t"`
	Digest   []byte    `cbor:"d"` // SHA-256 over the numbers and stored encodings of the events
	Hash     []byte    `cbor:"h"`
	// Heads are the ends of other chains at that time, of those that had grown. A chain of which something was taken
	// from the end is shorter than another one says.
	Heads []headRecord `cbor:"hd,omitempty"`
}

// headRecord names a block of another chain, which was its last one.
type headRecord struct {
	Chain string `cbor:"c"` // its key
	Block uint64 `cbor:"b"`
	Event uint64 `cbor:"e"` // the last event that is sealed
	Hash  []byte `cbor:"h"` // of the block
}
