package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	verifyStep  = 64 // blocks read in one View, so no snapshot is held for long
	maxProblems = 20 // reported per chain
)

// Verified is the result of Verify for one chain.
type Verified struct {
	Chain    string    `json:"chain"`
	Lane     int       `json:"-"`                  // of the node that writes it
	Node     string    `json:"node,omitempty"`     // that node, or the last one in this lane. Verify does not know it
	Blocks   uint64    `json:"blocks"`             // checked
	Events   uint64    `json:"events"`             // checked
	Sealed   uint64    `json:"sealed_through"`     // number of the last event that is sealed
	SealedAt time.Time `json:"sealed_at,omitzero"` // when that was
	Unsealed uint64    `json:"unsealed"`           // events behind it
	Head     string    `json:"head"`               // block:hash of the last block; compare it with a copy
	From     uint64    `json:"from"`               // number of the first remaining event; those before were collected
	CutAt    time.Time `json:"collected_at,omitzero"`
	Problems []string  `json:"problems,omitempty"`
}

func (v *Verified) problem(format string, args ...any) {
	if len(v.Problems) < maxProblems {
		v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
	}
}

// Anchor is a head that was written down elsewhere. An attacker who can change everything in storage can build a
// consistent chain, but not one that contains this block.
type Anchor struct {
	Chain string
	Block uint64
	Hash  string // hexadecimal
}

// ParseAnchor reads an anchor in the form chain@block:hash, the Chain and Head of a Verified.
func ParseAnchor(s string) (a Anchor, err error) {
	chain, head, ok := strings.Cut(s, "@")
	number, hash, also := strings.Cut(head, ":")
	a = Anchor{Chain: chain, Hash: strings.ToLower(hash)}
	if a.Block, err = strconv.ParseUint(number, 10, 64); err != nil || !ok || !also || a.Block == 0 ||
		len(hash) != hex.EncodedLen(sha256.Size) {
		return a, fmt.Errorf("%q is not an anchor such as default@17:<hash>", s)
	}
	return a, nil
}

// Verify compares every chain with its blocks, the blocks with each other, and both with the anchors. An error means
// that Verify could not read the store; anything wrong with the events is listed in Problems. Only sealed events are
// checked. It can run while the store is in use. show, if it is not nil, is called for each event, perhaps several
// times.
func Verify(ctx context.Context, store storage.Store, show func(*Event), anchors ...Anchor) (list []Verified, err error) {
	var keys []string
	err = store.View(ctx, func(tx storage.Tx) error {
		found := map[string]bool{}
		keys = nil
		// A chain is known by its numbering, its head or its events, so removing one record does not hide it.
		for e, err := range nexts.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			found[e.Key], keys = true, append(keys, e.Key)
		}
		for e, err := range chains.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if !found[e.Key] {
				keys = append(keys, e.Key)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	found := &links{short: map[string]naming{}, replaced: map[string]naming{}}
	for _, key := range keys {
		v, err := verify(ctx, store, chainOf(key), anchors, found, show)
		if err != nil {
			return list, err
		}
		list = append(list, v)
	}
	list = found.tell(list)
	for _, a := range anchors {
		if !slices.ContainsFunc(list, func(v Verified) bool { return v.Chain == a.Chain }) {
			list = append(list, Verified{Chain: a.Chain, Problems: []string{"there is no such chain, but an anchor of it"}})
		}
	}
	return list, nil
}

// verification is a walk along a chain.
type verification struct {
	Verified
	chain    Chain
	anchors  []Anchor // of this chain
	links    *links
	show     func(*Event)
	begun    bool
	number   uint64 // of the last block that was looked at
	through  uint64 // the last event that it covers
	previous []byte // its hash
	end      bool
}

func verify(ctx context.Context, store storage.Store, c Chain, anchors []Anchor, found *links, show func(*Event)) (Verified, error) {
	w := verification{chain: c, links: found, show: show, Verified: Verified{Chain: c.String(), Lane: c.Lane}}
	for _, a := range anchors {
		if a.Chain == w.Chain {
			w.anchors = append(w.anchors, a)
		}
	}
	for !w.end {
		var next verification
		err := store.View(ctx, func(tx storage.Tx) error {
			next = w // a view that is run again begins where the last one has ended
			return next.step(tx)
		})
		if err != nil {
			return w.Verified, fmt.Errorf("verify events of %s: %w", c, err)
		}
		w = next
	}
	return w.Verified, nil
}

func (w *verification) shown(rec *record) {
	if w.show != nil {
		w.show(&rec.Event)
	}
}

// step checks the next blocks in one snapshot.
func (w *verification) step(tx storage.Tx) error {
	head, err := chainAt(tx, w.chain.key())
	if err != nil {
		return err
	}
	if !w.begun || head.CutBlock > w.number { // blocks collected meanwhile are not missing
		w.begun = true
		w.number, w.through, w.previous = head.CutBlock, head.CutEvent, head.CutHash
		w.From, w.CutAt = head.CutEvent+1, head.CutAt
		w.anchored(head.CutBlock, head.CutHash)
		if err := w.noneBefore(tx); err != nil {
			return err
		}
	}
	for range verifyStep {
		if w.number == head.Block {
			w.end = true
			return w.finish(tx, head)
		}
		if err := w.block(tx); err != nil {
			return err
		}
	}
	return nil
}

// noneBefore finds events before the first block.
func (w *verification) noneBefore(tx storage.Tx) error {
	for raw, err := range tx.Scan(storage.Range{Prefix: events.Key(w.chain.key()), Limit: 1}) {
		if err != nil {
			return err
		}
		if n := numberOf(string(raw.Key)); n <= w.through {
			w.problem("event %d was inserted: those up to %d have been collected", n, w.through)
		}
	}
	return nil
}

func (w *verification) block(tx storage.Tx) error {
	w.number++
	b, err := blocks.Get(tx, w.chain.at(w.number))
	if errors.Is(err, storage.ErrNotFound) {
		w.problem("block %d was removed", w.number)
		w.previous = nil
		return nil
	}
	if err != nil {
		return err
	}
	name := fmt.Sprintf("block %d (events %d to %d, sealed %s)", w.number, b.First, b.Last, b.SealedAt.UTC().Format(time.RFC3339))
	if !bytes.Equal(b.Hash, b.sum(w.chain, w.number)) {
		w.problem("%s was changed itself", name)
	}
	w.anchored(w.number, b.Hash)
	if w.previous != nil || w.number == 1 {
		if !bytes.Equal(b.Previous, w.previous) {
			w.problem("%s does not follow the block before it", name)
		}
		if b.First <= w.through {
			w.problem("%s begins before the last one ends", name)
		}
	}
	if err := w.links.look(tx, b.Heads,
		fmt.Sprintf("block %d of %s, sealed %s,", w.number, w.Chain, b.SealedAt.UTC().Format(time.RFC3339))); err != nil {
		return err
	}
	again, from := newBuilder(), w.through+1
	if w.previous == nil && w.number > 1 { // the block before is gone, and its hash with it
		from = b.First
	}
	expected, gone := b.First, gaps{}
	err = eachOf(tx, w.chain, blockRecord{First: from, Last: b.Last}, func(n uint64, raw storage.Record, rec record) error {
		w.shown(&rec)
		if n < b.First {
			w.problem("event %d was inserted before %s", n, name)
			return nil
		}
		gone.add(expected, n)
		expected = n + 1
		_, err := again.add(raw)
		return err
	})
	if err != nil {
		return err
	}
	gone.add(expected, b.Last+1)
	switch {
	case again.rec.Count < b.Count:
		w.problem("%s has lost %d of %d events: %s", name, b.Count-again.rec.Count, b.Count, gone)
	case again.rec.Count > b.Count:
		w.problem("%s has %d events that were inserted", name, again.rec.Count-b.Count)
	case !bytes.Equal(again.digest.Sum(nil), b.Digest):
		w.problem("an event of %s was changed, or exchanged with another", name)
	case b.Count < b.Last-b.First+1:
		w.problem("%s: %d events were missing when it was sealed", name, b.Last-b.First+1-b.Count)
	}
	w.Blocks++
	w.Events += again.rec.Count
	w.through, w.previous, w.Sealed, w.SealedAt = b.Last, b.Hash, b.Last, b.SealedAt
	return nil
}

// gaps are the numbers that are missing in a block.
type gaps []string

// add notes the numbers from one on, and before another.
func (g *gaps) add(from, before uint64) {
	switch {
	case from+1 == before:
		*g = append(*g, strconv.FormatUint(from, 10))
	case from < before:
		*g = append(*g, fmt.Sprintf("%d to %d", from, before-1))
	}
}

func (g gaps) String() string {
	if len(g) > maxProblems {
		g = append(g[:maxProblems:maxProblems], "more")
	}
	return strings.Join(g, ", ")
}

// anchored compares the hash of a block with the anchors of its number.
func (w *verification) anchored(number uint64, hash []byte) {
	for _, a := range w.anchors {
		if a.Block == number && a.Hash != hex.EncodeToString(hash) {
			w.problem("block %d is not the one of the anchor", number)
		}
	}
}

// finish checks what comes after the last block.
func (w *verification) finish(tx storage.Tx, head chainRecord) error {
	w.Head = fmt.Sprintf("%d:%s", head.Block, hex.EncodeToString(head.Hash))
	if w.Sealed == 0 {
		w.Sealed = head.Event
	}
	for _, a := range w.anchors {
		if a.Block > head.Block {
			w.problem("the chain ends with block %d, before that of the anchor, %d", head.Block, a.Block)
		}
	}
	if !bytes.Equal(head.Hash, w.previous) && w.previous != nil || head.Event != w.through && w.previous != nil {
		w.problem("the head of the chain does not fit its last block")
	}
	for e, err := range blocks.Scan(tx, storage.Range{Prefix: []byte(w.chain.key()), After: []byte(w.chain.at(head.Block)), Limit: 1}) {
		if err != nil {
			return err
		}
		w.problem("block %d stands behind the head of the chain, which says %d is the last", numberOf(e.Key), head.Block)
	}
	next, err := nexts.Get(tx, w.chain.key())
	if errors.Is(err, storage.ErrNotFound) {
		w.problem("the number of the next event was removed")
		return nil
	}
	if err != nil {
		return err
	}
	if next <= head.Event {
		w.problem("the next event would be number %d, and %d is sealed", next, head.Event)
		return nil
	}
	for raw, err := range tx.Scan(storage.Range{Prefix: events.Key(w.chain.key()), After: events.Key(w.chain.at(head.Event))}) {
		if err != nil {
			return err
		}
		if n := numberOf(string(raw.Key)); n >= next {
			w.problem("event %d was inserted: the next one would be number %d", n, next)
			return nil
		}
		rec, err := events.Decode(raw.Value)
		if err != nil {
			return err
		}
		w.shown(&rec)
		w.Unsealed++
	}
	if want := next - 1 - head.Event; w.Unsealed < want {
		w.problem("%d events behind the last block are missing", want-w.Unsealed)
	}
	return nil
}
