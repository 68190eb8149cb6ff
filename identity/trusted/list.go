package trusted

import (
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Browser is a trusted browser of a person.
type Browser struct {
	ID     string
	Record Record
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
	for e, err := range browsers.Scan(tx, storage.Range{Prefix: storage.Prefix(personID)}) {
		if err != nil {
			return nil, err
		}
		list = append(list, Browser{storage.Parts(e.Key)[1], e.Value})
	}
	return list, nil
}

// valid tells whether a trust has neither expired nor ended by a new password, a block or the end of all sessions.
func (r *Record) valid(epoch, global int64, now time.Time) bool {
	return r.ExpiresAt.After(now) && r.Epoch == epoch && r.Global == global
}

// End ends the trust in one browser of a person, and tells whether there was any.
func End(tx storage.Tx, personID, id string) (bool, error) {
	key := storage.Key(personID, id)
	if _, found, err := browsers.Find(tx, key); err != nil || !found {
		return false, err
	}
	return true, browsers.Delete(tx, key)
}

// EndAll ends the trust in all browsers of a person: a factor has changed, all other sessions end, or the person is
// removed.
func EndAll(tx storage.Tx, personID string) error {
	list, err := stored(tx, personID)
	if err != nil {
		return err
	}
	for _, b := range list {
		if err := browsers.Delete(tx, storage.Key(personID, b.ID)); err != nil {
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
		if err := browsers.Delete(tx, storage.Key(personID, b.ID)); err != nil {
			return err
		}
	}
	return nil
}
