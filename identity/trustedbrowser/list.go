package trustedbrowser

import (
	"context"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Browser is a trusted browser of a person.
type Browser struct {
	ID     string
	Record Record
}

// Info is a trusted browser as everybody sees it who may see it. Nothing of it makes another browser a trusted one.
type Info struct {
	ID         string    `json:"id" rest:"required"`
	TrustedAt  time.Time `json:"trusted_at" rest:"required"`
	LastUsedAt time.Time `json:"last_used_at" rest:"required"`
	ExpiresAt  time.Time `json:"expires_at" rest:"required"`
	ClientIP   string    `json:"client_ip,omitempty"` // of its last use
	UserAgent  string    `json:"user_agent,omitempty"`
}

// Info returns the view of the browser for others.
func (b *Browser) Info() Info {
	return Info{
		ID: b.ID, TrustedAt: b.Record.Since, LastUsedAt: b.Record.Used, ExpiresAt: b.Record.ExpiresAt, ClientIP: b.Record.Address,
		UserAgent: b.Record.Agent,
	}
}

// Listed returns what others see of the browsers that a person trusts, or person.ErrNoPerson.
func (s *Service) Listed(tx storage.Tx, personID string, now time.Time) (list []Info, err error) {
	_, rec, err := s.deps.Person.Find(tx, personID)
	if err != nil {
		return nil, err
	}
	all, err := OfPerson(tx, personID, rec.Epoch, now)
	for i := range all {
		list = append(list, all[i].Info())
	}
	return list, err
}

// OfPerson returns the browsers that a person with this epoch trusts, the one trusted last first.
func OfPerson(tx storage.Tx, personID string, epoch int64, now time.Time) (list []Browser, err error) {
	all, err := stored(tx, personID)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	global, err := session.GlobalEpoch(tx)
	for _, b := range all {
		if b.Record.valid(epoch, global, now) {
			list = append(list, b)
		}
	}
	slices.SortStableFunc(list, func(a, b Browser) int { return b.Record.Since.Compare(a.Record.Since) })
	return list, err
}

// stored returns all records of a person.
func stored(tx storage.Tx, personID string) (list []Browser, err error) {
	for e, err := range Browsers.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		list = append(list, Browser{storage.Parts(e.Key)[1], e.Value})
	}
	return list, nil
}

// valid reports whether a trust has neither expired nor ended by a new password, a block or the end of all sessions.
func (r *Record) valid(epoch, global int64, now time.Time) bool {
	return r.ExpiresAt.After(now) && r.Epoch == epoch && r.Global == global
}

// Forget ends the trust in a browser of a person, or in every one if id is empty, and appends e unless there was none.
// It returns how many there were, or person.ErrNoPerson.
func (s *Service) Forget(tx storage.Tx, personID, id string, now time.Time, e audit.Event) (ended int, err error) {
	_, rec, err := s.deps.Person.Find(tx, personID)
	if err != nil {
		return 0, err
	}
	list, err := OfPerson(tx, personID, rec.Epoch, now)
	if err != nil {
		return 0, err
	}
	for _, b := range list {
		if id != "" && b.ID != id {
			continue
		}
		if err := Browsers.Delete(tx, storage.Key(personID, b.ID)); err != nil {
			return ended, err
		}
		ended++
	}
	if ended == 0 {
		return 0, nil
	}
	return ended, s.deps.Events.Append(tx, e)
}

// ForgetFor is Forget on behalf of someone else, in a transaction of its own.
func (s *Service) ForgetFor(ctx context.Context, personID, id string, by audit.Actor) (ended int, err error) {
	ev, err := s.deps.Person.NewEvents(by.Origin, Ended)
	if err != nil {
		return 0, err
	}
	now, reason := s.deps.Now(), ""
	if id == "" {
		reason = "all browsers"
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) (err error) {
		ended, err = s.Forget(tx, personID, id, now, by.Fill(ev[0], personID, reason))
		return err
	})
	return ended, err
}

// EndAll ends the trust in all browsers of a person: a factor has changed, all other sessions end, or the person is
// removed.
func EndAll(tx storage.Tx, personID string) error {
	list, err := stored(tx, personID)
	if err != nil {
		return err
	}
	for _, b := range list {
		if err := Browsers.Delete(tx, storage.Key(personID, b.ID)); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom ends what is no longer valid, the trust with an id ("": none), and the oldest one if there are too many.
func makeRoom(tx storage.Tx, personID, id string, epoch, global int64, now time.Time) error {
	list, err := stored(tx, personID)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b Browser) int { return b.Record.Since.Compare(a.Record.Since) })
	kept := 0
	for _, b := range list {
		if b.ID != id && b.Record.valid(epoch, global, now) && kept < perPerson-1 {
			kept++
			continue
		}
		if err := Browsers.Delete(tx, storage.Key(personID, b.ID)); err != nil {
			return err
		}
	}
	return nil
}
