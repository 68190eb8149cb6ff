package proof

import (
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Hashed is secret.Hash, and "" for nothing.
func Hashed(v string) string {
	if v == "" {
		return ""
	}
	return secret.Hash(v)
}

// MaxCode bounds what is typed as a code.
const MaxCode = 64

// How failed sign-ins are slowed down: by a wait that grows with each failure beyond the limit of a counter, never by a lock that
// somebody must take off. A browser in which the person has signed in before has a counter of its own and stands outside those that
// strangers can drive up.
const (
	failuresPerPerson  = 20  // from browsers unknown to the person
	failuresPerAddress = 100 // of an IPv4 address or an IPv6 /64
	firstWait          = 30 * time.Second
)

// Counter is one of the counters that a try is held against.
type Counter struct {
	Key   string
	Limit int
	// clears says that a good sign-in sets it back to nothing. The others only give back the try itself: otherwise whoever has an
	// account could wipe out what is counted against an address, and whoever waits for the person what is counted against strangers.
	Clears bool
}

// Attempt is one try to sign in, counted before the password is looked at: however many come at once, no more are evaluated than the
// limits allow.
type Attempt struct {
	Counters []Counter
	known    bool // from a browser that the person has signed in with
	// wait is how long no try is taken. 0: this one is.
	Wait time.Duration
	// exhausted says that this try is the last one before a wait, if it fails.
	Exhausted bool
}

// Origin is where a try comes from.
type Origin struct {
	Address string
	Device  string // hash of the device cookie. Empty: the browser has none, or there is none
	// session is the id of the one in which the person themselves tries. Empty: somebody does who may be anybody.
	Session string
	// many says that the tries of many persons come from the address by right: it has no counter of its own.
	Many bool
}

// BeginAttempt counts a try of the account with this username, and holds it against further counters.
func (s *Service) BeginAttempt(ctx context.Context, a person.Holder, username string, from Origin, more ...Counter) (at Attempt, err error) {
	now := s.now()
	whom := "person:" + a.ID
	if a.ID == "" {
		// Nobody's username is counted like anybody's, under the form in which it would be compared.
		folded, err := person.Fold(username)
		if err != nil {
			folded = username
		}
		whom = "name:" + secret.Hash(folded)
	}
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		at = Attempt{}
		if at.known, err = s.Knows(tx, a, from.Device); err != nil {
			return err
		}
		from := from
		if !at.known && from.Session != "" { // strangers keep nobody from their own account
			at.known, from.Device = true, secret.Hash("session:"+from.Session)
		}
		at.Counters = append(s.Counters(whom, from, at.known), more...)
		recs := make([]FailureRecord, len(at.Counters))
		for i, c := range at.Counters {
			if recs[i], err = s.ReadFailures(tx, c, now); err != nil {
				return err
			}
			at.Wait = max(at.Wait, recs[i].Until.Sub(now))
		}
		if at.Wait > 0 {
			return nil
		}
		for i, c := range at.Counters {
			rec := s.CountFailure(recs[i], c, now)
			at.Exhausted = at.Exhausted || rec.Until.After(now)
			if err := FailureRecords.Put(tx, c.Key, rec, s.ClearFailures(rec)); err != nil {
				return err
			}
		}
		return nil
	})
	return at, err
}

// Counters returns those that concern a try.
func (s *Service) Counters(whom string, from Origin, known bool) []Counter {
	if known {
		return []Counter{{storage.Key("device", whom, from.Device), s.cfg.Failures, true}}
	}
	address := Network(from.Address)
	out := []Counter{
		{storage.Key("person-address", whom, address), s.cfg.Failures, true},
		{storage.Key("person", whom), max(failuresPerPerson, s.cfg.Failures), false},
	}
	if !from.Many {
		out = append(out, Counter{storage.Key("address", address), max(failuresPerAddress, s.cfg.Failures), false})
	}
	return out
}

// ReadFailures returns a counter's record, or an empty one when what it counted lies behind.
func (s *Service) ReadFailures(tx storage.Tx, c Counter, now time.Time) (FailureRecord, error) {
	rec, err := FailureRecords.Get(tx, c.Key)
	if errors.Is(err, storage.ErrNotFound) {
		return FailureRecord{}, nil
	}
	if err != nil {
		return rec, err
	}
	if !now.Before(rec.end(s.cfg.Window)) {
		return FailureRecord{}, nil
	}
	return rec, nil
}

// end is when a counter is forgotten: a window after its first failure, and after its last wait.
func (f FailureRecord) end(window time.Duration) time.Time {
	if f.Until.After(f.First) {
		return f.Until.Add(window)
	}
	return f.First.Add(window)
}

func (s *Service) ClearFailures(rec FailureRecord) time.Time {
	return rec.end(s.cfg.Window).Add(time.Minute)
}

// CountFailure counts one more failure. From the limit on each sets a wait twice as long as the one before, up to the window.
func (s *Service) CountFailure(rec FailureRecord, c Counter, now time.Time) FailureRecord {
	if rec.Failures == 0 {
		rec.First = now
	}
	rec.Failures++
	rec.Until = time.Time{}
	if over := rec.Failures - c.Limit; over >= 0 {
		rec.Until = now.Add(min(firstWait<<min(over, 10), max(s.cfg.Window, firstWait)))
	}
	return rec
}

// Undo takes a try off its counters: it was good, or not evaluated.
func (s *Service) Undo(tx storage.Tx, at Attempt, good bool, now time.Time) error {
	for _, c := range at.Counters {
		if good && c.Clears {
			if err := FailureRecords.Delete(tx, c.Key); err != nil {
				return err
			}
			continue
		}
		rec, err := s.ReadFailures(tx, c, now)
		if err != nil {
			return err
		}
		if rec.Failures--; rec.Failures < c.Limit {
			rec.Until = time.Time{}
		}
		if rec.Failures <= 0 {
			err = FailureRecords.Delete(tx, c.Key)
		} else {
			err = FailureRecords.Put(tx, c.Key, rec, s.ClearFailures(rec))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Knows tells whether the person has signed in with this device since the last change of the password.
func (s *Service) Knows(tx storage.Tx, a person.Holder, device string) (bool, error) {
	if a.ID == "" || device == "" {
		return false, nil
	}
	rec, err := DeviceRecords.Get(tx, storage.Key(a.ID, device))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Epoch == a.Person.Epoch, err
}

// Network returns what is counted as one address: an IPv4 address, or the /64 of an IPv6 one.
func Network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return base64.RawURLEncoding.EncodeToString([]byte(secret.Hash(address)))
	}
	ip = ip.Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	p, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return p.String()
}
