package passkey

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/passkey/ceremony"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/storage"
)

// keysOf returns passkeys as browsers know them.
func keysOf(keys []Passkey) (out []ceremony.Key) {
	for _, k := range keys {
		out = append(out, ceremony.Key{ID: k.Credential, Transports: k.Transports})
	}
	return out
}

func (s *Service) ask(challenge []byte) ceremony.Ask {
	return ceremony.Ask{RPID: s.rp.Config.RPID, RPName: s.rp.Config.RPDisplayName, Challenge: challenge, Life: challengeLife}
}

// UseOptions returns the request for the use of one of the passkeys, or of any passkey when there are no keys.
func (s *Service) UseOptions(challenge []byte, keys []Passkey) string {
	return s.ask(challenge).Use(keysOf(keys))
}

// MakeOptions returns the request for a new passkey of the person.
func (s *Service) MakeOptions(username, name string, challenge []byte, set *Set) string {
	return s.ask(challenge).Make(user(username, name, set), keysOf(set.Keys), signatures())
}

// UpgradeOptions is MakeOptions for a passkey that the browser makes without a question.
func (s *Service) UpgradeOptions(username, name string, challenge []byte, set *Set) string {
	return s.ask(challenge).Upgrade(user(username, name, set), keysOf(set.Keys), signatures())
}

func user(username, name string, set *Set) ceremony.User {
	return ceremony.User{Handle: set.Handle, Name: username, DisplayName: cmp.Or(name, username)}
}

// Signals tells a browser which passkeys a person has, and the names they sign in with, "" where they never had any.
// Those that are no longer accepted are left out, so it no longer offers them.
func (s *Service) Signals(username, name string, set *Set) string {
	if !s.On() || len(set.Handle) == 0 {
		return ""
	}
	return ceremony.Known(s.rp.Config.RPID, user(username, name, set), keysOf(set.Usable()))
}

// UnknownSignal tells a browser that no one has the passkey that it has used.
func (s *Service) UnknownSignal(credential []byte) string {
	return ceremony.Unknown(s.rp.Config.RPID, credential)
}

// ChallengeSeconds is the time that a page relies on its challenge: a little less than its life, and no more than the
// rest of one that an earlier page has shown.
const ChallengeSeconds = int(challengeLife/time.Second)/2 - 10

// OwnerOf returns the owner of a credential with all their passkeys, or zero values for an unknown credential.
func (s *Service) OwnerOf(ctx context.Context, credential []byte) (a person.Holder, set Set, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		a, set = person.Holder{}, Set{}
		id, ok, err := owners.Find(tx, CredentialKey(credential))
		if err != nil || !ok {
			return err
		}
		if a.Person, err = person.Records.Get(tx, id); err != nil {
			return err
		}
		a.ID = id
		set, err = Read(tx, id)
		return err
	})
	return a, set, err
}

// Use notes the use of a passkey and returns the person, or person.ErrMismatch when what was verified is no
// longer valid.
func (s *Service) Use(tx storage.Tx, personID string, key Passkey, now time.Time) (person.Record, error) {
	rec, err := person.Records.Get(tx, personID)
	if errors.Is(err, storage.ErrNotFound) || (err == nil && rec.State != person.Active) {
		return rec, person.ErrMismatch
	}
	if err != nil {
		return rec, err
	}
	set, err := Read(tx, personID)
	if err != nil {
		return rec, err
	}
	key.Used = now
	if !set.replace(key) {
		return rec, person.ErrMismatch
	}
	return rec, Put(tx, personID, set)
}
