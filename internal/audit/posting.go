package audit

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Events are listed by type, client, address and reference when they are sealed, a record for each value in a block, so
// no one who writes an event waits for it (docs/decisions/events.md#search-for-events). Events after the last block,
// and those of before there were lists until Run has listed them, are looked through.

// By what events are listed.
const (
	byType    = "t"
	byClient  = "c"
	byAddress = "a"
	byRef     = "f"
)

// listed returns the beginning of the key of a list.
func listed(by, value string) string { return string(storage.Prefix(by, value)) }

func stampOf(e *Event) stamp {
	return stamp{Type: e.Type, ClientID: e.ClientID, ClientIP: e.ClientIP, Ref: e.Ref}
}

// eachList calls fn for each list that an event is in.
func (s *stamp) eachList(fn func(list string)) {
	fn(listed(byType, s.Type))
	if s.ClientID != "" {
		fn(listed(byClient, s.ClientID))
	}
	if s.ClientIP != "" {
		fn(listed(byAddress, s.ClientIP))
	}
	if s.Ref != "" {
		fn(listed(byRef, s.Ref))
	}
}

// lists are the entries that a block adds to the lists, by the beginnings of their keys.
type lists map[string]*posting

// posting is the numbers of events while their block is made.
type posting struct {
	postingRecord

	last uint64
}

// add takes in an event with a higher number than those before it.
func (l lists) add(list string, number uint64) {
	p := l[list]
	if p == nil {
		l[list] = &posting{postingRecord{First: number}, number}
		return
	}
	p.Steps = binary.AppendUvarint(p.Steps, number-p.last)
	p.last = number
}

// numbers returns the numbers of the events, lowest first.
func (p *postingRecord) numbers() []uint64 {
	out := []uint64{p.First}
	for rest := p.Steps; len(rest) > 0; {
		step, n := binary.Uvarint(rest)
		if n <= 0 {
			break
		}
		out, rest = append(out, out[len(out)-1]+step), rest[n:]
	}
	return out
}

// put stores what a block adds.
func (l lists) put(tx storage.Tx, c Chain, block uint64) error {
	for list, p := range l {
		if err := postings.Put(tx, list+c.at(block), p.postingRecord, never); err != nil {
			return err
		}
	}
	return nil
}

// extend stores the lists of blocks that were added to a chain. When someone else has added blocks without lists, what
// is listed begins after them, and those before are listed again.
func extend(tx storage.Tx, c Chain, last uint64, made []sealedBlock) error {
	if c.Brief {
		return nil
	}
	is, found, err := listings.Find(tx, c.key())
	if err != nil {
		return err
	}
	if !found || is.Through != last {
		is.From = last + 1
	}
	for i := range made {
		if err := made[i].lists.put(tx, c, last+uint64(i)+1); err != nil {
			return err
		}
	}
	is.Through = last + uint64(len(made))
	return listings.Put(tx, c.key(), is, never)
}

// unlist removes from the lists what a block that is collected has added.
func unlist(tx storage.Tx, c Chain, block uint64, gone []record) error {
	if c.Brief {
		return nil
	}
	is, found, err := listings.Find(tx, c.key())
	if err != nil || !found || block < is.From || block > is.Through {
		return err
	}
	done := map[string]bool{}
	for _, r := range gone {
		s := stampOf(&r.Event)
		s.eachList(func(list string) {
			if err == nil && !done[list] {
				done[list] = true
				err = postings.Delete(tx, list+c.at(block))
			}
		})
	}
	return err
}

// listAll lists the events of before there were lists, block by block.
func (k *Keeper) listAll(ctx context.Context, pause time.Duration) error {
	for {
		var older *olderBlock
		err := k.store.View(ctx, func(tx storage.Tx) (err error) {
			older, err = unlisted(tx)
			return err
		})
		if err != nil || older == nil {
			return err
		}
		if err := k.store.Update(ctx, older.put); err != nil {
			return fmt.Errorf("list events of %s: %w", older.chain, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// unlisted returns the newest block of a chain that is not listed, nil if all are.
func unlisted(tx storage.Tx) (*olderBlock, error) {
	for e, err := range chains.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, err
		}
		c := chainOf(e.Key)
		if c.Brief {
			continue
		}
		is, found, err := listings.Find(tx, e.Key)
		if err != nil {
			return nil, err
		}
		if !found {
			is = listingRecord{From: e.Value.Block + 1, Through: e.Value.Block}
		}
		if is.From <= e.Value.CutBlock+1 {
			continue
		}
		o := &olderBlock{chain: c, is: is, found: found, lists: lists{}}
		b, err := blocks.Get(tx, c.at(is.From-1))
		if errors.Is(err, storage.ErrNotFound) { // Verify tells
			return o, nil
		}
		if err != nil {
			return nil, err
		}
		return o, eachOf(tx, c, b, func(n uint64, _ storage.Record, rec record) error {
			s := stampOf(&rec.Event)
			s.eachList(func(list string) { o.lists.add(list, n) })
			return nil
		})
	}
	return nil, nil
}

// olderBlock is the block in front of those that are listed.
type olderBlock struct {
	chain Chain
	is    listingRecord
	found bool
	lists lists
}

// put stores the lists of the block, unless something has changed meanwhile.
func (o *olderBlock) put(tx storage.Tx) error {
	is, found, err := listings.Find(tx, o.chain.key())
	if err != nil || found != o.found || found && is.From != o.is.From {
		return err
	}
	head, err := chainAt(tx, o.chain.key())
	if err != nil {
		return err
	}
	if !found {
		is = o.is
		if head.Block != is.Through { // blocks without lists were added
			return nil
		}
	}
	if is.From--; is.From > head.CutBlock {
		if err := o.lists.put(tx, o.chain, is.From); err != nil {
			return err
		}
	}
	return listings.Put(tx, o.chain.key(), is, never)
}
