package challenge

import (
	"context"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// addressCounters are the kinds of counters of an address, for attempts at any account.
var addressCounters = []string{"address", "reset-address", "remind-address", "sign-up-address"}

// Block is a counter that accepts nothing at the moment.
type Block struct {
	Kind string // of the counter
	// PersonID is the person of the attempts, Address their origin. Empty: anyone's, and from anywhere.
	PersonID, Address string
	Failures          int
	Until             time.Time
}

// noteWait lists a counter that has begun a wait, so it is found.
func noteWait(tx storage.Tx, key string, until time.Time) error {
	return waits.Put(tx, waitKey(until)+key, key, until.Add(time.Minute))
}

// waitKey is the beginning of keys in waits. Keys sort by it.
func waitKey(at time.Time) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(at.UnixMicro(), 0)))) //nolint:gosec // not negative
}

// timeOfWait is the time of a key in waits.
func timeOfWait(key string) time.Time {
	return time.UnixMicro(int64(binary.BigEndian.Uint64([]byte(key[:8])))) //nolint:gosec // waitKey made it of a time
}

// Blocks returns the counters that accept nothing at the moment, the first to end first, and what continues the list.
// Those that were forgotten meanwhile are left out, so a part can be short.
func (s *Service) Blocks(tx storage.Tx, after string, limit int, now time.Time) (list []Block, next string, err error) {
	// A cursor leads on, never back to waits that are over.
	from := max(after, waitKey(now)+"\xff") // keys of counters have no such byte in front
	n := 0
	for e, err := range waits.Scan(tx, storage.Range{After: []byte(from), Limit: limit}) {
		if err != nil {
			return nil, "", err
		}
		n++
		next = e.Key
		rec, found, err := FailureRecords.Find(tx, e.Value)
		if err != nil {
			return nil, "", err
		}
		if !found || timeOfWait(e.Key).Sub(rec.Until).Abs() >= time.Millisecond { // stored times are rounded
			continue
		}
		list = append(list, blockOf(e.Value, rec))
	}
	if n < limit {
		next = ""
	}
	return list, next, nil
}

// blockOf says what a counter is about.
func blockOf(key string, rec FailureRecord) Block {
	parts := storage.Parts(key)
	b := Block{Kind: parts[0], Failures: rec.Failures, Until: rec.Until}
	switch {
	case slices.Contains(addressCounters, b.Kind) && len(parts) > 1:
		b.Address = parts[1]
	case slices.Contains(personCounters, b.Kind) && len(parts) > 1:
		b.PersonID, _ = strings.CutPrefix(parts[1], counterOf(""))
		if !strings.HasPrefix(parts[1], counterOf("")) {
			b.PersonID = ""
		}
		if b.Kind == "person-address" && len(parts) > 2 {
			b.Address = parts[2]
		}
	}
	return b
}

// UnlockAddress forgets what is counted against an address (or a network, as Blocks names it): failed sign-ins for
// any account, sign-ups, forgotten passwords and names. What is counted against accounts stays. It returns how many
// counters it removed.
func (s *Service) UnlockAddress(ctx context.Context, address string, by audit.Actor) (removed int, err error) {
	network := Network(address)
	if p, err := netip.ParsePrefix(address); err == nil {
		network = Network(p.Addr().String())
	}
	e, err := s.deps.Events.New(failuresForgotten, by.Origin)
	if err != nil {
		return 0, err
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		removed = 0
		for _, kind := range addressCounters {
			key := storage.Key(kind, network)
			found, err := FailureRecords.Has(tx, key)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			if err := FailureRecords.Delete(tx, key); err != nil {
				return err
			}
			removed++
		}
		if removed == 0 {
			return nil
		}
		return s.deps.Events.Append(tx, by.Fill(e, "", network))
	})
	return removed, err
}
