package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// linkEvery is the interval at which a chain to which no one adds gets a block for the sake of the chains that it
// names.
const linkEvery = time.Second

// headsOf returns how far chains are sealed, by their keys: those of a partition, or all.
func headsOf(tx storage.Tx, partition string) (map[string]chainRecord, error) {
	r := storage.Range{}
	if partition != "" {
		r.Prefix = storage.Prefix(partition)
	}
	found := map[string]chainRecord{}
	for e, err := range chains.Scan(tx, r) {
		if err != nil {
			return nil, err
		}
		found[e.Key] = e.Value
	}
	return found, nil
}

// headAndOthers returns how far a chain is sealed, and the ends of the other chains of its partition that have grown
// since it has named them.
func (k *Keeper) headAndOthers(tx storage.Tx, c Chain) (head chainRecord, others []headRecord, err error) {
	if k.Links != nil && !k.Links() {
		head, err = chainAt(tx, c.key())
		return head, nil, err
	}
	for e, err := range chains.Scan(tx, storage.Range{Prefix: storage.Prefix(c.Partition)}) {
		if err != nil {
			return head, nil, err
		}
		if e.Key == c.key() {
			head = e.Value
			continue
		}
		others = append(others, headRecord{Chain: e.Key, Block: e.Value.Block, Event: e.Value.Event, Hash: e.Value.Hash})
	}
	grown := others[:0]
	for _, o := range others {
		if o.Event > head.Named[o.Chain] {
			grown = append(grown, o)
		}
	}
	return head, grown, nil
}

// name notes what a block of the chain names.
func (c *chainRecord) name(b *blockRecord) {
	if len(b.Heads) == 0 {
		return
	}
	if c.Named == nil {
		c.Named = map[string]uint64{}
	}
	for _, h := range b.Heads {
		c.Named[h.Chain] = h.Event
	}
	c.NamedAt = b.SealedAt
}

// checkpoint names chains that have grown in the chain of another node, which adds nothing by itself: that of a node
// without events of its own, or of one that is gone. So what is taken from the end of a chain is missed, although its
// own node never comes back.
func (k *Keeper) checkpoint(ctx context.Context, several bool) error {
	if !several || k.Links != nil && !k.Links() {
		return nil
	}
	var due []Chain
	now := k.now()
	err := k.store.View(ctx, func(tx storage.Tx) error {
		heads, err := headsOf(tx, "")
		due = overdue(heads, now)
		return err
	})
	for _, c := range due {
		if raised := k.nameIn(ctx, c); raised != nil {
			err = errors.Join(err, fmt.Errorf("link events of %s: %w", c, raised))
		}
	}
	return err
}

// overdue returns the chains that have to name others now. A chain is named by the first of the other nodes, at least.
func overdue(heads map[string]chainRecord, now time.Time) (due []Chain) {
	lowest := map[Chain][2]string{} // without a lane -> the first two that have blocks
	for key := range heads {
		c := chainOf(key)
		lane := c.Lane
		c.Lane = 0
		two := lowest[c]
		switch {
		case two[0] == "" || lane < chainOf(two[0]).Lane:
			two = [2]string{key, two[0]}
		case two[1] == "" || lane < chainOf(two[1]).Lane:
			two[1] = key
		}
		lowest[c] = two
	}
	late := map[string]bool{}
	for key, head := range heads {
		c := chainOf(key)
		c.Lane = 0
		by := lowest[c][0]
		if by == key {
			by = lowest[c][1]
		}
		if by == "" || late[by] {
			continue
		}
		if w := heads[by]; w.Named[key] < head.Event && now.Sub(w.NamedAt) >= linkEvery {
			late[by] = true
			due = append(due, chainOf(by))
		}
	}
	return due
}

// nameIn adds a block without events to a chain.
func (k *Keeper) nameIn(ctx context.Context, c Chain) error {
	var made []sealedBlock
	var last uint64
	now := k.now().Truncate(time.Microsecond)
	err := k.store.View(ctx, func(tx storage.Tx) error {
		made = nil
		head, others, err := k.headAndOthers(tx, c)
		if err != nil || len(others) == 0 {
			return err
		}
		b := newBuilder()
		b.rec = blockRecord{First: head.Event + 1, Last: head.Event, Newest: now, Heads: others}
		last, made = head.Block, []sealedBlock{b.block(c, head.Block+1, head.Hash, now)}
		return nil
	})
	if err != nil || len(made) == 0 {
		return err
	}
	_, err = k.add(ctx, c, last, made)
	return err
}

// merged yields the events of several chains by their time. Those of one chain stay in their order.
func merged(lists [][]Event) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		for {
			first := -1
			for i, l := range lists {
				if len(l) > 0 && (first < 0 || l[0].Occurred.Before(lists[first][0].Occurred)) {
					first = i
				}
			}
			if first < 0 || !yield(lists[first][0]) {
				return
			}
			lists[first] = lists[first][1:]
		}
	}
}

// naming is a block that names another chain's.
type naming struct {
	by           string // the block
	block, event uint64 // what it names, and its last event
}

// links are the findings of Verify about chains that name each other.
type links struct {
	short    map[string]naming // chain -> the last block of it that is named and is not there
	replaced map[string]naming // chain -> the first block of it that is not the one that is named
}

// look compares what a block names with what is there, in one snapshot of both.
func (l *links) look(tx storage.Tx, heads []headRecord, by string) error {
	for _, h := range heads {
		is, err := chainAt(tx, h.Chain)
		if err != nil {
			return err
		}
		hash := is.CutHash
		switch {
		case h.Block > is.Block:
			if l.short[h.Chain].block < h.Block {
				l.short[h.Chain] = naming{by, h.Block, h.Event}
			}
			continue
		case h.Block < is.CutBlock: // it was collected
			continue
		case h.Block > is.CutBlock:
			b, found, err := blocks.Find(tx, numbered(h.Chain, h.Block))
			if err != nil {
				return err
			}
			if !found { // which is found where its own chain is checked
				continue
			}
			hash = b.Hash
		}
		if _, known := l.replaced[h.Chain]; !known && !bytes.Equal(hash, h.Hash) {
			l.replaced[h.Chain] = naming{by, h.Block, h.Event}
		}
	}
	return nil
}

// tell adds what was found to the chains that it is about, and those that are missing.
func (l *links) tell(list []Verified) []Verified {
	of := func(key string) *Verified {
		c := chainOf(key)
		for i := range list {
			if list[i].Chain == c.String() {
				return &list[i]
			}
		}
		list = append(list, Verified{Chain: c.String(), Lane: c.Lane})
		return &list[len(list)-1]
	}
	for key, n := range l.replaced {
		of(key).problem("block %d, through event %d, is not the one that %s names", n.block, n.event, n.by)
	}
	for key, n := range l.short {
		of(key).problem("blocks were removed from the end: %s names block %d, through event %d", n.by, n.block, n.event)
	}
	return list
}
