package stepup

import (
	"context"
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
	// challengeLife is how long a passkey has to answer. A page that is loaded again shows the same challenge while half
	// of that is left.
	challengeLife = 5 * time.Minute
)

// The purposes of challenges.
const (
	ChallengeSignIn = "sign-in" // bound to the flow
	challengeStepUp = "step-up" // bound to flow and session
	challengeAdd    = "add"     // bound to the session
)

// ReadPasskeys returns the passkeys of a person. None: the zero value.
func ReadPasskeys(tx storage.Tx, personID string) (PasskeySet, error) {
	set, _, err := passkeySets.Find(tx, personID)
	return set, err
}

func putPasskeys(tx storage.Tx, personID string, set PasskeySet) error {
	return passkeySets.Put(tx, personID, set, time.Time{})
}

// replace replaces the passkey with the same credential id. It returns false when that one is gone or suspect, or when
// its counter is no longer below that of the new one, because it was used since it was verified.
func (p *PasskeySet) replace(key Passkey) bool {
	i := p.find(key.Credential)
	if i < 0 || p.Keys[i].Suspect || (key.SignCount <= p.Keys[i].SignCount && (key.SignCount > 0 || p.Keys[i].SignCount > 0)) {
		return false
	}
	p.Keys = slices.Clone(p.Keys)
	key.Name, key.Number = p.Keys[i].Name, p.Keys[i].Number // renamed meanwhile
	p.Keys[i] = key
	return true
}

// dropPasskeys removes passkeys of a person: all of them, or the one with this id. It tells whether it removed any.
func dropPasskeys(tx storage.Tx, personID, id string) (dropped bool, err error) {
	set, err := ReadPasskeys(tx, personID)
	if err != nil || len(set.Keys) == 0 {
		return false, err
	}
	var left []Passkey
	for _, k := range set.Keys {
		if id != "" && k.ID != id {
			left = append(left, k)
			continue
		}
		if err := passkeyOwners.Delete(tx, CredentialKey(k.Credential)); err != nil {
			return false, err
		}
	}
	dropped = len(left) < len(set.Keys)
	set.Keys = left
	return dropped, putPasskeys(tx, personID, set)
}

// challengeKey returns the key of the challenge for a purpose, bound to a flow or a session.
func challengeKey(purpose, bound string) string { return storage.Key(purpose, bound) }

// PasskeyChallenge returns the challenge that is waiting for a purpose, or makes one.
func (s *Service) PasskeyChallenge(ctx context.Context, purpose, bound string) ([]byte, error) {
	var waiting passkeyChallengeRecord
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		waiting, err = readChallenge(tx, purpose, bound)
		return err
	})
	if err != nil {
		return nil, err
	}
	return s.ensureChallenge(ctx, purpose, bound, waiting)
}

// readChallenge returns the challenge that is waiting, or a zero value.
func readChallenge(tx storage.Tx, purpose, bound string) (passkeyChallengeRecord, error) {
	rec, _, err := passkeyChallenges.Find(tx, challengeKey(purpose, bound))
	return rec, err
}

// fresh tells whether a page can show the challenge: half of its life is left.
func (c *passkeyChallengeRecord) fresh(now time.Time) bool {
	return c.ExpiresAt.After(now.Add(challengeLife / 2))
}

// ensureChallenge returns the challenge that is waiting, or makes one in its place when it is no longer fresh.
func (s *Service) ensureChallenge(ctx context.Context, purpose, bound string, waiting passkeyChallengeRecord) ([]byte, error) {
	now := s.now()
	if waiting.fresh(now) {
		return waiting.Challenge, nil
	}
	rec := passkeyChallengeRecord{Challenge: make([]byte, challengeBytes), ExpiresAt: now.Add(challengeLife)}
	if _, err := io.ReadFull(s.random, rec.Challenge); err != nil {
		return nil, err
	}
	var challenge []byte
	err := s.store.Update(ctx, func(tx storage.Tx) error {
		last, err := readChallenge(tx, purpose, bound)
		if err != nil {
			return err
		}
		if last.fresh(now) { // another tab was faster
			challenge = last.Challenge
			return nil
		}
		challenge = rec.Challenge
		return passkeyChallenges.Put(tx, challengeKey(purpose, bound), rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return challenge, err
}

// SpendChallenge returns the challenge that is waiting for a purpose, and removes it whatever becomes of the answer. It
// is nil when none is waiting, or when it has expired.
func (s *Service) SpendChallenge(ctx context.Context, purpose, bound string) (challenge []byte, err error) {
	now := s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		challenge = nil
		rec, err := readChallenge(tx, purpose, bound)
		if err != nil {
			return err
		}
		if rec.ExpiresAt.After(now) {
			challenge = rec.Challenge
		}
		return passkeyChallenges.Delete(tx, challengeKey(purpose, bound))
	})
	return challenge, err
}

// Suspect marks a passkey whose counter has gone back: there may be a copy, and which of the two answered is unknown.
// From now on neither is accepted.
func (s *Service) Suspect(ctx context.Context, personID string, key Passkey, from event.Origin) error {
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
		if err := s.notifyPasskey(tx, personID, &rec, passkeySuspected, now); err != nil {
			return err
		}
		return s.events.Append(tx, event.Actor{}.Fill(ev[0], personID, set.Keys[i].Name))
	})
}
