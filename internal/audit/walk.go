package audit

import (
	"slices"

	"github.com/gatehouse-id/gatehouse/storage"
)

// ahead is the number of records of a list that are read at once.
const ahead = 32

// pointer goes back through the records of one list in a chain.
type pointer struct {
	prefix string
	some   []blockPosting
	end    bool
}

type blockPosting struct {
	block uint64
	postingRecord
}

// seek goes to the last block up to n.
func (p *pointer) seek(tx storage.Tx, n uint64, read *int) (at *blockPosting, err error) {
	for {
		for len(p.some) > 0 && p.some[0].block > n {
			p.some = p.some[1:]
		}
		if len(p.some) > 0 {
			return &p.some[0], nil
		}
		if p.end {
			return nil, nil
		}
		p.end = true
		r := storage.Range{Prefix: []byte(p.prefix), After: []byte(numbered(p.prefix, n+1)), Descending: true, Limit: ahead}
		for e, err := range postings.Scan(tx, r) {
			if err != nil {
				return nil, err
			}
			p.some, p.end = append(p.some, blockPosting{numberOf(e.Key), e.Value}), false
			*read++
		}
	}
}

// union is several lists together.
type union []*pointer

// seek goes to the last block up to n that one of the lists has.
func (u union) seek(tx storage.Tx, n uint64, read *int) (block uint64, err error) {
	for _, p := range u {
		at, err := p.seek(tx, n, read)
		if err != nil {
			return 0, err
		}
		if at != nil {
			block = max(block, at.block)
		}
	}
	return block, nil
}

// numbers returns the events that the lists have in the block to which they have gone, lowest first.
func (u union) numbers(block uint64) (out []uint64) {
	for _, p := range u {
		if len(p.some) > 0 && p.some[0].block == block {
			out = append(out, p.some[0].numbers()...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// common goes to the last block up to n in which each union has an event, and returns the events of that block that all
// of them have, lowest first. There may be none. They are nil if enough was read before that: then the search goes on
// in that block. Block 0: there is no such block.
func common(tx storage.Tx, all []union, n uint64, read *int) (block uint64, numbers []uint64, err error) {
	for agreed := 0; agreed < len(all); {
		agreed = 0
		for _, u := range all {
			at, err := u.seek(tx, n, read)
			if err != nil || at == 0 {
				return 0, nil, err
			}
			if at < n && *read >= maxSearched {
				return at, nil, nil
			}
			if at < n {
				n = at
				break
			}
			agreed++
		}
	}
	for i, u := range all {
		some := u.numbers(n)
		if i == 0 {
			numbers = some
			continue
		}
		numbers = slices.DeleteFunc(numbers, func(number uint64) bool {
			_, found := slices.BinarySearch(some, number)
			return !found
		})
	}
	return n, numbers, nil
}

// kinds returns the types of stored events that a search selects.
func (s *Search) kinds(tx storage.Tx) (out []string, err error) {
	prefix := string(storage.Prefix(byType))
	for after := prefix; after != ""; {
		from := after
		after = ""
		for e, err := range postings.Scan(tx, storage.Range{Prefix: []byte(prefix), After: []byte(from), Limit: 1}) {
			if err != nil {
				return nil, err
			}
			kind := storage.Parts(e.Key)[1]
			if after = listed(byType, kind) + "\xff"; s.hasType(kind) {
				out = append(out, kind)
			}
		}
	}
	return out, nil
}

// unions are the lists that have what a search selects, in a chain.
func (s *Search) unions(c Chain, kinds []string) (all []union) {
	add := func(by string, values ...string) {
		u := union{}
		for _, value := range values {
			u = append(u, &pointer{prefix: listed(by, value) + c.key()})
		}
		all = append(all, u)
	}
	if s.Client != "" {
		add(byClient, s.Client)
	}
	if s.Address != "" {
		add(byAddress, s.Address)
	}
	if s.Ref != "" {
		add(byRef, s.Ref)
	}
	if len(s.Types) > 0 {
		add(byType, kinds...)
	}
	return all
}
