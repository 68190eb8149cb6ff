package session

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// End removes a session and its cookie, and tells the watcher.
func (s *Service) End(tx storage.Tx, id string, rec Record) error {
	if err := unlist(tx, rec.PersonID, id); err != nil {
		return err
	}
	return s.endUnlisted(tx, id, rec)
}

// endUnlisted is End for a session that the caller takes out of the list of its person.
func (s *Service) endUnlisted(tx storage.Tx, id string, rec Record) error {
	if err := keyRecords.Delete(tx, rec.Cookie); err != nil {
		return err
	}
	if err := Records.Delete(tx, id); err != nil {
		return err
	}
	if err := leave(tx, id, &rec); err != nil {
		return err
	}
	if rec.Held {
		if err := ProviderRecords.Delete(tx, id); err != nil {
			return err
		}
	}
	return s.deps.Person.Watcher().SessionEnded(tx, rec.PersonID, id)
}

// CloseSession ends a session of a person within tx, or returns storage.ErrNotFound if the person has no such session.
func (s *Service) CloseSession(tx storage.Tx, subject, id string) error {
	rec, err := Records.Get(tx, id)
	if err != nil {
		return err
	}
	if rec.PersonID != subject {
		return storage.ErrNotFound
	}
	return s.End(tx, id, rec)
}

// GlobalEpoch returns the epoch of all sessions. Sessions, links and action tokens of another epoch have ended.
func GlobalEpoch(tx storage.Tx) (int64, error) {
	g, _, err := globals.Find(tx, globalKey)
	return g.Epoch, err
}

// EndAllSessions ends all sessions, links, action tokens and the trust in browsers, within tx. Restoring a backup calls
// it, so what ended since the backup stays ended.
func EndAllSessions(tx storage.Tx) error {
	g, _, err := globals.Find(tx, globalKey)
	if err != nil {
		return err
	}
	g.Epoch++
	return globals.Put(tx, globalKey, g, time.Time{})
}

// forgottenSessions bounds how many sessions are removed with their person. All have ended; the rest is collected
// later.
const forgottenSessions = 1000

// ForgetSessions removes the sessions of a person and what was begun in them, since they tell where the person was and
// what a provider has said of them. It is a hook of the removal of a person.
func (s *Service) ForgetSessions(tx storage.Tx, person string) error {
	ids, err := listed(tx, person)
	if err != nil {
		return err
	}
	for _, id := range ids[:min(len(ids), forgottenSessions)] {
		rec, found, err := Records.Find(tx, id)
		if err != nil {
			return err
		}
		if found && rec.PersonID == person {
			if err := keyRecords.Delete(tx, rec.Cookie); err != nil {
				return err
			}
			if err := leave(tx, id, &rec); err != nil {
				return err
			}
			if err := s.forgetSession(tx, id); err != nil {
				return err
			}
		}
	}
	if err := lists.Delete(tx, person); err != nil {
		return err
	}
	return FirstSignIns.Delete(tx, person)
}

// forgetSession removes a session and what was begun in it, except its keys.
func (s *Service) forgetSession(tx storage.Tx, id string) error {
	if err := Records.Delete(tx, id); err != nil {
		return err
	}
	if err := ProviderRecords.Delete(tx, id); err != nil {
		return err
	}
	for _, h := range s.forgetHooks {
		if err := h(tx, id); err != nil {
			return err
		}
	}
	return nil
}

// OnForget adds a hook that removes what was begun in a session whose person is removed. It is called in that
// transaction.
func (s *Service) OnForget(h func(tx storage.Tx, session string) error) {
	s.forgetHooks = append(s.forgetHooks, h)
}

// KeepSession lets one session of a person continue after a change of the password. It is a hook of that change.
func (s *Service) KeepSession(tx storage.Tx, person, keep string, from, to int64) error {
	own, found, err := Records.Find(tx, keep)
	if err != nil || !found || own.PersonID != person || own.Epoch != from {
		return err
	}
	own.Epoch = to
	return Records.Put(tx, keep, own, s.Collect(own))
}
