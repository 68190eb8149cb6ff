package challenge

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Failed sign-ins are slowed down by a wait that grows with each failure beyond the limit of a counter. No account is
// locked until an administrator unlocks it. A browser in which the person has signed in before has a counter of its
// own, which strangers cannot drive up.
const (
	failuresPerPerson  = 20  // from browsers unknown to the person
	failuresPerAddress = 100 // of an IPv4 address or an IPv6 /64
)

// Attempt is one attempt to sign in, counted before the password is checked. So no more passwords than the limits
// allow are checked, however many arrive at once.
type Attempt struct {
	Counters []Counter
	known    bool // the person has signed in with this browser before
	// Wait is the time during which no attempt is accepted. 0: this one is.
	Wait time.Duration
	// Exhausted says that the next attempt has to wait if this one fails.
	Exhausted bool
	// Refused says that another server has refused the password: the attempt is never taken back as one that was not
	// checked.
	Refused bool
	// Provider is the id of the provider whose password is tried. Empty: this service.
	Provider string
}

func (a Attempt) provider() string { return cmp.Or(a.Provider, session.LocalProvider) }

// Source is the origin of an attempt.
type Source struct {
	Address string
	Device  string // hash of the device cookie. Empty: no cookie came
	// Session is the id of the session in which the person makes the attempt. Empty: it can be anyone's.
	Session string
	// Many says that the address makes attempts for many persons, as an API client does, so it has no counter.
	Many bool
}

// BeginAttempt counts an attempt for the account of a username. more are further counters of it.
func (s *Service) BeginAttempt(ctx context.Context, a person.Holder, username string, from Source,
	more ...Counter,
) (at Attempt, err error) {
	now := s.deps.Now()
	subject := counterOf(a.ID)
	if a.ID == "" {
		// An unknown username is counted like a known one: all its spellings are one.
		subject = "name:" + secret.Hash(s.deps.Person.FoldTyped(username))
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		at = Attempt{}
		if at.known, err = s.Knows(tx, a, from.Device); err != nil {
			return err
		}
		from := from
		if !at.known && from.Session != "" { // strangers must not lock a person out of their own session
			at.known, from.Device = true, secret.Hash("session:"+from.Session)
		}
		at.Counters = append(s.Counters(subject, from, at.known), more...)
		at.Wait, at.Exhausted, err = s.count(tx, at.Counters, 0, now)
		return err
	})
	return at, err
}

// Counters returns the counters of an attempt.
func (s *Service) Counters(subject string, from Source, known bool) []Counter {
	if known {
		return []Counter{{Key: storage.Key("device", subject, from.Device), Limit: s.cfg.Failures, Clears: true}}
	}
	address := Network(from.Address)
	out := []Counter{
		{Key: storage.Key("person-address", subject, address), Limit: s.cfg.Failures, Clears: true},
		{Key: storage.Key("person", subject), Limit: max(failuresPerPerson, s.cfg.Failures)},
	}
	if !from.Many {
		out = append(out, Counter{Key: storage.Key("address", address), Limit: max(failuresPerAddress, s.cfg.Failures)})
	}
	return out
}

// Undo takes back the count of an attempt that succeeded (good) or was never checked.
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
		if rec.Failures--; rec.Failures < c.Limit || rec.Until.Sub(c.Until).Abs() < time.Millisecond { // stored times are rounded
			rec.Until = time.Time{} // the wait that this attempt has begun; the one before was over
		}
		if rec.Failures <= 0 {
			err = FailureRecords.Delete(tx, c.Key)
		} else {
			err = FailureRecords.Put(tx, c.Key, rec, s.CollectAt(rec))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Knows reports whether the person has signed in with a device (hash of its cookie) since the last new password.
func (s *Service) Knows(tx storage.Tx, a person.Holder, device string) (bool, error) {
	if a.ID == "" || device == "" {
		return false, nil
	}
	rec, found, err := DeviceRecords.Find(tx, storage.Key(a.ID, device))
	return found && rec.Epoch == a.Person.Epoch, err
}

// RememberDevice records that a person (with their epoch) has signed in with a device (hash of its cookie). If there
// are too many, those that were used longest ago are forgotten.
func (s *Service) RememberDevice(tx storage.Tx, personID string, epoch int64, device string, now time.Time) error {
	known, err := DeviceRecords.Has(tx, storage.Key(personID, device))
	if err == nil && !known {
		err = s.forgetDevices(tx, personID, epoch)
	}
	if err != nil {
		return err
	}
	rec := DeviceRecord{Epoch: epoch, Seen: now}
	return DeviceRecords.Put(tx, storage.Key(personID, device), rec, now.Add(session.DeviceLife))
}

// forgetDevices makes room for one more device of a person. Those of another epoch are unknown already.
func (s *Service) forgetDevices(tx storage.Tx, personID string, epoch int64) error {
	type device struct {
		key string
		rec DeviceRecord
	}
	var all []device
	for e, err := range DeviceRecords.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return err
		}
		all = append(all, device{e.Key, e.Value})
	}
	slices.SortStableFunc(all, func(a, b device) int {
		if stale := a.rec.Epoch == epoch; stale != (b.rec.Epoch == epoch) {
			if stale {
				return 1
			}
			return -1
		}
		return a.rec.Seen.Compare(b.rec.Seen)
	})
	for _, d := range all[:max(0, len(all)+1-s.deps.Session.PerPerson())] {
		if err := DeviceRecords.Delete(tx, d.key); err != nil {
			return err
		}
	}
	return nil
}

// Network returns what counts as one address: an IPv4 address, or the /64 of an IPv6 address.
func Network(address string) string { return secret.NetworkOf(address, 64) }

// Hashed is secret.Hash, except that it returns "" for "".
func Hashed(v string) string {
	if v == "" {
		return ""
	}
	return secret.Hash(v)
}
