package calllog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	verifyStep  = 16 // blocks read in one View
	maxProblems = 20 // reported for each log
)

// Verify is audit.Verify, and compares the logs of calls with themselves and with the events that confirm them.
func Verify(ctx context.Context, store storage.Store, anchors ...audit.Anchor) ([]audit.Verified, error) {
	logs := map[int]*verification{}
	of := func(lane int) *verification {
		if logs[lane] == nil {
			logs[lane] = &verification{lane: lane, seals: map[uint64]seal{}, Verified: audit.Verified{Chain: nameOf(lane), Lane: lane}}
		}
		return logs[lane]
	}
	own := func(a audit.Anchor) bool { return strings.HasPrefix(a.Chain, nameOf(0)) }
	list, err := audit.Verify(ctx, store, func(e *audit.Event) {
		if s, ok := sealOf(e); ok {
			of(s.lane).seals[s.last] = s
		}
	}, slices.DeleteFunc(slices.Clone(anchors), own)...)
	if err != nil {
		return list, err
	}
	if err := store.View(ctx, func(tx storage.Tx) error {
		for e, err := range heads.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			of(laneOf(e.Key))
		}
		return nil
	}); err != nil {
		return list, err
	}
	for _, a := range slices.DeleteFunc(slices.Clone(anchors), func(a audit.Anchor) bool { return !own(a) }) {
		known := false
		for _, w := range logs {
			if known = known || w.Chain == a.Chain; w.Chain == a.Chain {
				w.anchors = append(w.anchors, a)
			}
		}
		if !known {
			list = append(list, audit.Verified{Chain: a.Chain, Problems: []string{"there is no such log, but an anchor of it"}})
		}
	}
	for _, w := range slices.SortedFunc(maps.Values(logs), func(a, b *verification) int { return cmp.Compare(a.lane, b.lane) }) {
		if err := w.run(ctx, store); err != nil {
			return list, fmt.Errorf("verify the calls of %s: %w", w.Chain, err)
		}
		list = append(list, w.Verified)
	}
	return list, nil
}

// verification is a walk along the log of a node.
type verification struct {
	audit.Verified
	lane     int
	seals    map[uint64]seal // by their last call
	anchors  []audit.Anchor
	begun    bool
	through  uint64 // the last call that was looked at
	previous []byte // hash of its block
	end      bool
}

func (w *verification) problem(format string, args ...any) {
	if len(w.Problems) < maxProblems {
		w.Problems = append(w.Problems, fmt.Sprintf(format, args...))
	}
}

func (w *verification) run(ctx context.Context, store storage.Store) error {
	for !w.end {
		var next verification
		if err := store.View(ctx, func(tx storage.Tx) error {
			next = *w // a view that is run again begins where the last one has ended
			next.Problems = slices.Clone(w.Problems)
			return next.step(tx)
		}); err != nil {
			return err
		}
		*w = next
	}
	return nil
}

// step checks the next blocks in one snapshot.
func (w *verification) step(tx storage.Tx) error {
	head, _, err := heads.Find(tx, laneKey(w.lane))
	if err != nil {
		return err
	}
	if !w.begun || head.CutLast > w.through { // blocks collected meanwhile are not missing
		w.begun, w.through, w.previous = true, head.CutLast, head.CutHash
		w.From, w.CutAt = head.CutLast+1, head.CutAt
	}
	n := 0
	for e, err := range blocks.Scan(tx, storage.Range{
		Prefix: []byte(laneKey(w.lane)), After: []byte(blockKey(w.lane, w.through)), Limit: verifyStep,
	}) {
		if err != nil {
			return err
		}
		n++
		w.block(&e.Value)
	}
	if n < verifyStep {
		w.end = true
		w.finish(&head)
	}
	return nil
}

func (w *verification) block(b *blockRecord) {
	name := fmt.Sprintf("block %d (calls %d to %d, up to %s)", b.First, b.First, b.last(), b.End.UTC().Format(time.RFC3339))
	if b.First != w.through+1 {
		w.problem("calls %d to %d are missing", w.through+1, b.First-1)
	} else if !bytes.Equal(b.Previous, w.previous) {
		w.problem("%s does not follow the block before it", name)
	}
	switch have := uint64(len(b.Lines)); {
	case have < b.Count:
		w.problem("%s has lost %d of %d calls", name, b.Count-have, b.Count)
	case have > b.Count:
		w.problem("%s has %d calls that were inserted", name, have-b.Count)
	case !bytes.Equal(b.Hash, b.sum(w.lane)):
		w.problem("a call of %s was changed, or the block itself", name)
	}
	if s, ok := w.seals[b.last()]; ok {
		if s.block != b.First || !bytes.Equal(s.hash, b.Hash) {
			w.problem("%s is not the one that the event of %s confirms", name, s.at.UTC().Format(time.RFC3339))
		}
		w.Sealed, w.SealedAt = b.last(), s.at
	}
	for _, a := range w.anchors {
		if a.Block == b.First && a.Hash != hex.EncodeToString(b.Hash) {
			w.problem("block %d is not the one of the anchor", b.First)
		}
	}
	w.Blocks++
	w.Events += uint64(len(b.Lines))
	w.through, w.previous = b.last(), b.Hash
}

// finish checks what comes after the last block.
func (w *verification) finish(head *headRecord) {
	w.Head = fmt.Sprintf("%d:%x", head.Block, head.Hash)
	w.Sealed = max(w.Sealed, min(head.Sealed, head.CutLast))
	if w.through != head.Last || !bytes.Equal(w.previous, head.Hash) {
		w.problem("the log ends with call %d, and its head says %d", w.through, head.Last)
	}
	var short *seal
	for last, s := range w.seals {
		if last > w.through && (short == nil || last > short.last) {
			short = &s
		}
	}
	if short != nil {
		w.problem("the log ends with call %d, and the event of %s confirms calls up to %d", w.through, short.at.UTC().Format(time.RFC3339), short.last)
	}
	for _, a := range w.anchors {
		if a.Block > head.Block {
			w.problem("the log ends with block %d, before that of the anchor, %d", head.Block, a.Block)
		}
	}
	if w.through > w.Sealed {
		w.Unsealed = w.through - w.Sealed
	}
}
