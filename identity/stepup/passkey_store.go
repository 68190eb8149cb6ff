package stepup

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	challengeBytes = 32
	// challengeLife is how long a passkey may take to answer. A page that is loaded again shows the same challenge while half of that is left.
	challengeLife = 5 * time.Minute
)

// What a challenge is for.
const (
	ChallengeSignIn = "sign-in" // bound to the flow
	challengeStepUp = "step-up" // bound to flow and session
	challengeAdd    = "add"     // bound to the session
)

// ReadPasskeys returns the passkeys of a person, perhaps none.
func ReadPasskeys(tx storage.Tx, person string) (passkeySetRecord, error) {
	set, err := passkeySets.Get(tx, person)
	if errors.Is(err, storage.ErrNotFound) {
		return passkeySetRecord{}, nil
	}
	return set, err
}

func putPasskeys(tx storage.Tx, person string, set passkeySetRecord) error {
	return passkeySets.Put(tx, person, set, time.Time{})
}

// replace puts a passkey in the place of the one with its credential id. It is false when that is gone, is suspect, or has been used since it was
// verified with a counter that the new one does not exceed.
func (p *passkeySetRecord) replace(key passkeyRecord) bool {
	i := p.find(key.Credential)
	if i < 0 || p.Keys[i].Suspect || (key.SignCount <= p.Keys[i].SignCount && (key.SignCount > 0 || p.Keys[i].SignCount > 0)) {
		return false
	}
	p.Keys = slices.Clone(p.Keys)
	key.Name, key.Number = p.Keys[i].Name, p.Keys[i].Number // renamed meanwhile
	p.Keys[i] = key
	return true
}

// dropPasskeys removes passkeys of a person: all of them, or the one with this id of ours. It returns how many.
func dropPasskeys(tx storage.Tx, person, id string) (dropped []passkeyRecord, err error) {
	set, err := ReadPasskeys(tx, person)
	if err != nil || len(set.Keys) == 0 {
		return nil, err
	}
	var left []passkeyRecord
	for _, k := range set.Keys {
		if id != "" && k.ID != id {
			left = append(left, k)
			continue
		}
		if err := passkeyOwners.Delete(tx, CredentialKey(k.Credential)); err != nil {
			return nil, err
		}
		dropped = append(dropped, k)
	}
	set.Keys = left
	return dropped, putPasskeys(tx, person, set)
}

// ForgetStepUp removes everything that a person who is removed has set up. It is a hook of the removal.
func ForgetStepUp(tx storage.Tx, person string) error {
	if _, err := dropPasskeys(tx, person, ""); err != nil {
		return err
	}
	if err := Records.Delete(tx, person); err != nil {
		return err
	}
	return passkeySets.Delete(tx, person)
}

// ForgetSetUps removes the set-ups that were begun in a session. It is a hook of its end with the person.
func ForgetSetUps(tx storage.Tx, session string) error {
	for _, forget := range []func(storage.Tx, string) error{smsSetUps.Delete, totpSetUps.Delete, pushEnrols.Delete} {
		if err := forget(tx, session); err != nil {
			return err
		}
	}
	return nil
}

// PasskeyChallenge returns the challenge that is out for something, or makes one.
func (s *Service) PasskeyChallenge(ctx context.Context, purpose, bound string) (challenge []byte, err error) {
	key, now := storage.Key(purpose, bound), s.now()
	good := func(tx storage.Tx) (bool, error) {
		rec, err := passkeyChallenges.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		challenge = rec.Challenge
		return err == nil && rec.ExpiresAt.After(now.Add(challengeLife/2)), err
	}
	var ok bool
	err = s.store.View(ctx, func(tx storage.Tx) (err error) {
		ok, err = good(tx)
		return err
	})
	if err != nil || ok {
		return challenge, err
	}
	fresh := make([]byte, challengeBytes)
	if _, err := io.ReadFull(s.random, fresh); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		if ok, err := good(tx); err != nil || ok { // another tab was faster
			return err
		}
		challenge = fresh
		rec := passkeyChallengeRecord{Challenge: fresh, ExpiresAt: now.Add(challengeLife)}
		return passkeyChallenges.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return challenge, err
}

// SpendChallenge returns the challenge that is out for something, and takes it away whatever becomes of the answer. It is nil when there is none
// that is still good.
func (s *Service) SpendChallenge(ctx context.Context, purpose, bound string) (challenge []byte, err error) {
	key, now := storage.Key(purpose, bound), s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		challenge = nil
		rec, err := passkeyChallenges.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if rec.ExpiresAt.After(now) {
			challenge = rec.Challenge
		}
		return passkeyChallenges.Delete(tx, key)
	})
	return challenge, err
}

// Suspect marks a passkey whose counter has gone back: there may be a copy, and nobody can tell which of the two has answered. Neither is taken from
// now on.
func (s *Service) Suspect(ctx context.Context, personID string, key passkeyRecord, from event.Origin) error {
	ev, err := s.person.NewEvents(from, passkeySuspected)
	if err != nil {
		return err
	}
	now := s.now()
	return s.store.Update(ctx, func(tx storage.Tx) error {
		rec, err := person.Records.Get(tx, personID)
		if err != nil {
			return err
		}
		set, err := ReadPasskeys(tx, personID)
		i := set.find(key.Credential)
		if err != nil || i < 0 || set.Keys[i].Suspect {
			return err
		}
		set.Keys = slices.Clone(set.Keys)
		set.Keys[i].Suspect = true
		if err := putPasskeys(tx, personID, set); err != nil {
			return err
		}
		if err := s.tellPasskey(tx, personID, &rec, passkeySuspected, now); err != nil {
			return err
		}
		return s.events.Append(tx, event.Actor{}.Fill(ev[0], personID, set.Keys[i].Name))
	})
}
