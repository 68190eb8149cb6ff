package audit

import (
	"errors"
	"slices"

	"github.com/gatehouse-id/gatehouse/storage"
)

// blockAfter returns the first block from low to high that something holds for, which holds for those behind it too, by
// bisection. high+1: there is no such block. It does not hold for a missing block.
func blockAfter(tx storage.Tx, c Chain, low, high uint64, is func(b *blockRecord) bool) (uint64, error) {
	for high++; low < high; {
		middle := low + (high-low)/2
		b, found, err := blocks.Find(tx, c.at(middle))
		if err != nil {
			return 0, err
		}
		if found && is(&b) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low, nil
}

// numberAt returns the number of an event of a chain after which all have occurred at the end of the search or later.
// Blocks are not quite in the order of time: what was stored later can have occurred a little earlier.
func (s *Search) numberAt(tx storage.Tx, c Chain, last uint64) (uint64, error) {
	if s.Until.IsZero() {
		return last, nil
	}
	head, err := chainAt(tx, c.key())
	if err != nil {
		return 0, err
	}
	end := s.Until.Add(2 * maxSkew)
	n, err := blockAfter(tx, c, head.CutBlock+1, head.Block, func(b *blockRecord) bool { return !b.Newest.Before(end) })
	if err != nil || n > head.Block {
		return last, err
	}
	b, err := blocks.Get(tx, c.at(n))
	return min(last, b.Last+1), err
}

// listReader reads the events of a chain that a search selects, newest first: those in the lists from there, those
// after the last block and those of before there were lists one after the other.
type listReader struct {
	reader

	s    *Search
	all  []union
	read *int // what all readers of the search have read

	block       uint64 // the next one to look up in the lists
	low         uint64 // the first one that can have something
	top, bottom uint64 // events from bottom to top are in the lists; top 0: none
	begun       bool
}

// open finds out what is in the lists.
func (r *listReader) open(tx storage.Tx, kinds []string) error {
	is, found, err := listings.Find(tx, r.chain.key())
	if err != nil || !found {
		return err
	}
	head, err := chainAt(tx, r.chain.key())
	if err != nil {
		return err
	}
	r.low = max(is.From, head.CutBlock+1)
	if is.Through = min(is.Through, head.Block); r.low > is.Through {
		return nil
	}
	last, err := blocks.Get(tx, r.chain.at(is.Through))
	if err == nil {
		var first blockRecord
		first, err = blocks.Get(tx, r.chain.at(r.low))
		r.bottom, r.top = first.First, last.Last
	}
	if errors.Is(err, storage.ErrNotFound) { // Verify tells
		r.top = 0
		return nil
	}
	if err != nil {
		return err
	}
	r.all = r.s.unions(r.chain, kinds)
	if r.block = is.Through; r.behind <= r.top {
		above, err := blockAfter(tx, r.chain, r.low, is.Through, func(b *blockRecord) bool { return b.First >= r.behind })
		if err != nil {
			return err
		}
		r.block = above - 1
	}
	if !r.s.Since.IsZero() {
		begin := r.s.Since.Add(-2 * maxSkew)
		r.low, err = blockAfter(tx, r.chain, r.low, is.Through, func(b *blockRecord) bool { return !b.Newest.Before(begin) })
	}
	return err
}

// fill reads until there is something, or nothing more may be read. Each reader takes a step, whatever the others have
// read: a search that waits for one of them would begin with the same again, and never end.
func (r *listReader) fill(tx storage.Tx) (err error) {
	for err == nil && len(r.some) == 0 && !r.end && (*r.read < maxSearched || !r.begun) {
		r.begun = true
		switch {
		case r.top > 0 && r.behind > r.top+1:
			err = r.scan(tx, r.top)
		case r.top > 0 && r.behind > r.bottom:
			err = r.walk(tx)
		default:
			err = r.scan(tx, 0)
		}
	}
	return err
}

// scan looks through events one after the other, down to one.
func (r *listReader) scan(tx storage.Tx, end uint64) error {
	r.end = end == 0
	left := step
	for e, err := range events.Scan(tx,
		storage.Range{Prefix: []byte(r.chain.key()), After: []byte(r.chain.at(r.behind)), Descending: true, Limit: step}) {
		if err != nil {
			return err
		}
		n := numberOf(e.Key)
		if n <= end {
			break
		}
		*r.read++
		if r.behind = n; !r.s.Since.IsZero() && e.Value.Occurred.Before(r.s.Since.Add(-maxSkew)) {
			r.end = true
			return nil
		}
		if r.s.selects(&e.Value.Event) {
			r.some = append(r.some, Numbered{r.name, n, e.Value.Event, r.chain.Lane})
		}
		left--
	}
	switch {
	case left == 0:
		r.end = false
	case end > 0:
		r.behind = end + 1
	}
	return nil
}

// walk picks the events of the next block in which the lists have some.
func (r *listReader) walk(tx storage.Tx) error {
	block, numbers, err := common(tx, r.all, r.block, r.read)
	if err != nil {
		return err
	}
	if r.block = block; block < r.low {
		r.behind = r.bottom
		return nil
	}
	var keys [][]byte
	for i := len(numbers) - 1; i >= 0 && len(keys) < step; i-- {
		if n := numbers[i]; n < r.behind {
			keys = append(keys, events.Key(r.chain.at(n)))
		}
	}
	if len(keys) > 0 {
		return r.pick(tx, keys)
	}
	if numbers != nil { // the lists have met in the block, and nothing is left in it
		r.block--
	}
	b, found, err := blocks.Find(tx, r.chain.at(r.block)) // the next search goes on in it
	if found {
		r.behind = min(r.behind, b.Last+1)
	}
	return err
}

// pick reads events of the lists.
func (r *listReader) pick(tx storage.Tx, keys [][]byte) error {
	*r.read += len(keys) * (maxSearched / maxPicked)
	found, err := tx.GetMany(keys...)
	if err != nil {
		return err
	}
	for i, raw := range found {
		r.behind = numberOf(string(keys[i]))
		if raw == nil { // it was collected by a version without lists, or taken away
			continue
		}
		rec, err := events.Decode(raw)
		if err != nil {
			return err
		}
		if r.s.selects(&rec.Event) {
			r.some = append(r.some, Numbered{r.name, r.behind, rec.Event, r.chain.Lane})
		}
	}
	return nil
}

// at returns the place in this chain from which the search goes on.
func (r *listReader) at() uint64 {
	switch {
	case len(r.some) > 0:
		return r.some[0].Number + 1
	case r.end:
		return 1 // nothing is in front of the first
	}
	return r.behind
}

// inLists is Find for what is in the lists by type, client and address.
func (s *Search) inLists(tx storage.Tx) (found []Numbered, next Cursor, err error) {
	var kinds []string
	if len(s.Types) > 0 {
		if kinds, err = s.kinds(tx); err != nil {
			return nil, nil, err
		}
	}
	var all []*listReader
	read := 0
	for lane, behind := range s.Behind {
		if behind == 0 {
			continue
		}
		r := &listReader{reader: reader{chain: s.chain(lane), name: s.chain(lane).String(), behind: behind}, s: s, read: &read}
		if err := r.open(tx, kinds); err != nil {
			return nil, nil, err
		}
		all = append(all, r)
	}
	for s.Limit == 0 || len(found) < s.Limit {
		var first *listReader
		wait := false
		for _, r := range all {
			if err := r.fill(tx); err != nil {
				return nil, nil, err
			}
			if len(r.some) > 0 && (first == nil || s.before(r.some[0], first.some[0])) {
				first = r
			}
			wait = wait || len(r.some) == 0 && !r.end
		}
		if first == nil || wait { // what was not read can be newer than what was
			break
		}
		found, first.some = append(found, first.some[0]), first.some[1:]
	}
	if !slices.ContainsFunc(all, func(r *listReader) bool { return len(r.some) > 0 || !r.end }) {
		return found, nil, nil
	}
	next = slices.Clone(s.Behind)
	for _, r := range all {
		next.set(r.chain.Lane, r.at())
	}
	return found, next, nil
}
