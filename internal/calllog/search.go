package calllog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// maxRead bounds the blocks that one search reads.
const maxRead = 100

// Search selects calls of the log. Empty members select everything.
type Search struct {
	Person  string // id
	Client  string // id
	Address string
	Site    string       // scheme and host, or the host alone
	Path    string       // with * at the end: its beginning
	Since   time.Time    // from
	Until   time.Time    // before
	Behind  audit.Cursor // continues a search
	Limit   int
}

// Found is a call with its reference.
type Found struct {
	// Ref names the call for good: the number of the node and that of the call.
	Ref string `json:"ref"`
	Call

	number uint64
}

// Find returns the calls that a search selects, the one that ended last first. Those of several nodes are in the order
// of their times. next continues the search as Behind. Empty: there are no more. found can be short although there are
// more: a search reads a bounded number of blocks.
func (s Search) Find(tx storage.Tx) (found []Found, next audit.Cursor, err error) {
	var readers []*reader
	left := maxRead
	for e, err := range heads.Scan(tx, storage.Range{}) {
		if err != nil {
			return nil, nil, err
		}
		r := &reader{s: &s, lane: laneOf(e.Key), behind: e.Value.Last + 1, left: &left}
		if r.lane < len(s.Behind) && s.Behind[r.lane] > 0 {
			r.behind = s.Behind[r.lane]
		}
		readers = append(readers, r)
	}
	for len(found) < s.Limit {
		var first *reader
		waits := false
		for _, r := range readers {
			if err := r.fill(tx); err != nil {
				return nil, nil, err
			}
			if len(r.some) > 0 && (first == nil || r.some[0].At.After(first.some[0].At)) {
				first = r
			}
			waits = waits || len(r.some) == 0 && !r.end
		}
		if first == nil || waits { // what was not read can be newer
			break
		}
		found, first.some = append(found, first.some[0]), first.some[1:]
	}
	more := false
	for _, r := range readers {
		for len(next) <= r.lane {
			next = append(next, 0)
		}
		next[r.lane] = r.at()
		more = more || len(r.some) > 0 || !r.end
	}
	if !more {
		next = nil
	}
	return found, next, nil
}

// reader reads the calls of a node, newest first.
type reader struct {
	s      *Search
	lane   int
	behind uint64 // the number after the next one that is read
	some   []Found
	end    bool
	left   *int // blocks that may be read
	begun  bool
}

// at returns the number from which the search goes on.
func (r *reader) at() uint64 {
	switch {
	case len(r.some) > 0:
		return r.some[0].number + 1
	case r.end:
		return 1
	}
	return r.behind
}

// fill reads blocks until there is something. Each reader reads at least one: a search must go on.
func (r *reader) fill(tx storage.Tx) error {
	for len(r.some) == 0 && !r.end && (*r.left > 0 || !r.begun) {
		r.begun, r.end = true, true
		for e, err := range blocks.Scan(tx, storage.Range{
			Prefix: []byte(laneKey(r.lane)), After: []byte(blockKey(r.lane, r.behind)), Descending: true, Limit: 1,
		}) {
			if err != nil {
				return err
			}
			*r.left--
			if r.end = !r.s.Since.IsZero() && e.Value.End.Round(time.Microsecond).Before(r.s.Since); r.end {
				return nil
			}
			if err := r.read(&e.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) read(b *blockRecord) error {
	if r.s.Until.IsZero() || b.Oldest.Round(time.Microsecond).Before(r.s.Until) {
		for i, line := range slices.Backward(b.Lines) {
			f := Found{number: b.First + uint64(i)} //nolint:gosec // not negative
			if f.number >= r.behind {
				continue
			}
			if err := cbor.Unmarshal(line, &f.Call); err != nil {
				return fmt.Errorf("%w: call %d of node %d: %w", storage.ErrCorrupt, f.number, r.lane+1, err)
			}
			if f.At = f.At.UTC().Round(time.Microsecond); r.s.selects(&f.Call) {
				f.Ref = fmt.Sprintf("%d-%d", r.lane+1, f.number)
				r.some = append(r.some, f)
			}
		}
	}
	r.behind = b.First
	return nil
}

func (s *Search) selects(c *Call) bool {
	path, begins := strings.CutSuffix(s.Path, "*")
	return (s.Since.IsZero() || !c.At.Before(s.Since)) && (s.Until.IsZero() || c.At.Before(s.Until)) &&
		(s.Person == "" || s.Person == c.PersonID) && (s.Client == "" || s.Client == c.ClientID) &&
		(s.Address == "" || s.Address == c.IP) && s.atSite(c.Site) &&
		(s.Path == "" || c.Path == path || begins && strings.HasPrefix(c.Path, path))
}

// maxSearches bounds the searches for the calls of a person, each of maxRead blocks.
const maxSearches = 20

// OfPerson returns the newest calls of a person, at most so many, of about the last million of all.
func OfPerson(tx storage.Tx, personID string, most int) (out []Found, err error) {
	s := Search{Person: personID}
	for range maxSearches {
		s.Limit = most - len(out)
		found, next, err := s.Find(tx)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
		if s.Behind = next; len(next) == 0 || len(out) >= most {
			break
		}
	}
	return out, nil
}

func (s *Search) atSite(site string) bool {
	_, host, _ := strings.Cut(site, "://")
	return s.Site == "" || s.Site == site || s.Site == host
}
