package identity

import (
	"context"
	"encoding/base64"
	"errors"
	"net/netip"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// How failed sign-ins are slowed down: by a wait that grows with each failure beyond the limit of a counter, never by a lock that
// somebody must take off. A browser in which the person has signed in before has a counter of its own and stands outside those that
// strangers can drive up.
const (
	failuresPerPerson  = 20  // from browsers unknown to the person
	failuresPerAddress = 100 // of an IPv4 address or an IPv6 /64
	firstWait          = 30 * time.Second
)

// counter is one of the counters that a try is held against.
type counter struct {
	key   string
	limit int
	// clears says that a good sign-in sets it back to nothing. The others only give back the try itself: otherwise whoever has an
	// account could wipe out what is counted against an address, and whoever waits for the person what is counted against strangers.
	clears bool
}

// attempt is one try to sign in, counted before the password is looked at: however many come at once, no more are evaluated than the
// limits allow.
type attempt struct {
	counters []counter
	known    bool // from a browser that the person has signed in with
	// wait is how long no try is taken. 0: this one is.
	wait time.Duration
	// exhausted says that this try is the last one before a wait, if it fails.
	exhausted bool
}

// whence is where a try comes from.
type whence struct {
	address string
	device  string // hash of the device cookie. Empty: the browser has none, or there is none
	// session is the id of the one in which the person themselves tries. Empty: somebody does who may be anybody.
	session string
	// many says that the tries of many persons come from the address by right: it has no counter of its own.
	many bool
}

// countTry counts a try of the account with this username, and holds it against further counters.
func (s *Service) countTry(ctx context.Context, a account, username string, from whence, more ...counter) (at attempt, err error) {
	now := s.Now()
	whom := "person:" + a.id
	if a.id == "" {
		// Nobody's username is counted like anybody's, under the form in which it would be compared.
		folded, err := fold(username)
		if err != nil {
			folded = username
		}
		whom = "name:" + secret.Hash(folded)
	}
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		at = attempt{}
		if at.known, err = s.knows(tx, a, from.device); err != nil {
			return err
		}
		from := from
		if !at.known && from.session != "" { // strangers keep nobody from their own account
			at.known, from.device = true, secret.Hash("session:"+from.session)
		}
		at.counters = append(s.counters(whom, from, at.known), more...)
		recs := make([]failureRecord, len(at.counters))
		for i, c := range at.counters {
			if recs[i], err = s.readFailures(tx, c, now); err != nil {
				return err
			}
			at.wait = max(at.wait, recs[i].Until.Sub(now))
		}
		if at.wait > 0 {
			return nil
		}
		for i, c := range at.counters {
			rec := s.fails(recs[i], c, now)
			at.exhausted = at.exhausted || rec.Until.After(now)
			if err := failures.Put(tx, c.key, rec, s.forgets(rec)); err != nil {
				return err
			}
		}
		return nil
	})
	return at, err
}

// counters returns those that concern a try.
func (s *Service) counters(whom string, from whence, known bool) []counter {
	if known {
		return []counter{{storage.Key("device", whom, from.device), s.cfg.Lockout.Failures, true}}
	}
	address := network(from.address)
	out := []counter{
		{storage.Key("person-address", whom, address), s.cfg.Lockout.Failures, true},
		{storage.Key("person", whom), max(failuresPerPerson, s.cfg.Lockout.Failures), false},
	}
	if !from.many {
		out = append(out, counter{storage.Key("address", address), max(failuresPerAddress, s.cfg.Lockout.Failures), false})
	}
	return out
}

// readFailures returns a counter's record, or an empty one when what it counted lies behind.
func (s *Service) readFailures(tx storage.Tx, c counter, now time.Time) (failureRecord, error) {
	rec, err := failures.Get(tx, c.key)
	if errors.Is(err, storage.ErrNotFound) {
		return failureRecord{}, nil
	}
	if err != nil {
		return rec, err
	}
	if !now.Before(rec.end(s.cfg.Lockout.Window)) {
		return failureRecord{}, nil
	}
	return rec, nil
}

// end is when a counter is forgotten: a window after its first failure, and after its last wait.
func (f failureRecord) end(window time.Duration) time.Time {
	if f.Until.After(f.First) {
		return f.Until.Add(window)
	}
	return f.First.Add(window)
}

func (s *Service) forgets(rec failureRecord) time.Time {
	return rec.end(s.cfg.Lockout.Window).Add(time.Minute)
}

// fails counts one more failure. From the limit on each sets a wait twice as long as the one before, up to the window.
func (s *Service) fails(rec failureRecord, c counter, now time.Time) failureRecord {
	if rec.Failures == 0 {
		rec.First = now
	}
	rec.Failures++
	rec.Until = time.Time{}
	if over := rec.Failures - c.limit; over >= 0 {
		rec.Until = now.Add(min(firstWait<<min(over, 10), max(s.cfg.Lockout.Window, firstWait)))
	}
	return rec
}

// giveBack takes a try off its counters: it was good, or not evaluated.
func (s *Service) giveBack(tx storage.Tx, at attempt, good bool, now time.Time) error {
	for _, c := range at.counters {
		if good && c.clears {
			if err := failures.Delete(tx, c.key); err != nil {
				return err
			}
			continue
		}
		rec, err := s.readFailures(tx, c, now)
		if err != nil {
			return err
		}
		if rec.Failures--; rec.Failures < c.limit {
			rec.Until = time.Time{}
		}
		if rec.Failures <= 0 {
			err = failures.Delete(tx, c.key)
		} else {
			err = failures.Put(tx, c.key, rec, s.forgets(rec))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// knows tells whether the person has signed in with this device since the last change of the password.
func (s *Service) knows(tx storage.Tx, a account, device string) (bool, error) {
	if a.id == "" || device == "" {
		return false, nil
	}
	rec, err := devices.Get(tx, storage.Key(a.id, device))
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Epoch == a.person.Epoch, err
}

// network returns what is counted as one address: an IPv4 address, or the /64 of an IPv6 one.
func network(address string) string {
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
