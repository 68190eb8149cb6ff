package passkey

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	challengeBytes = 32
	// challengeLife is the time that a passkey has to answer. A page that is loaded again shows the same challenge
	// while half of that is left.
	challengeLife = 5 * time.Minute
)

// The purposes of challenges.
const (
	ChallengeSignIn = "sign-in" // bound to the flow
	ChallengeStepUp = "step-up" // bound to flow and session
	ChallengeAdd    = "add"     // bound to the session
)

// Read returns the passkeys of a person. None: the zero value.
func Read(tx storage.Tx, personID string) (Set, error) {
	set, _, err := sets.Find(tx, personID)
	return set, err
}

// Put replaces the passkeys of a person.
func Put(tx storage.Tx, personID string, set Set) error {
	return sets.Put(tx, personID, set, time.Time{})
}

// replace replaces the passkey with the same credential id. It returns false when that one is gone or suspect, or when
// its counter is no longer below that of the new one, because it was used since it was verified.
func (p *Set) replace(key Passkey) bool {
	i := p.Find(key.Credential)
	if i < 0 || p.Keys[i].Suspect || (key.SignCount <= p.Keys[i].SignCount && (key.SignCount > 0 || p.Keys[i].SignCount > 0)) {
		return false
	}
	p.Keys = slices.Clone(p.Keys)
	key.Name, key.Number = p.Keys[i].Name, p.Keys[i].Number // renamed meanwhile
	p.Keys[i] = key
	return true
}

// Drop removes passkeys of a person: all of them, or the one with this id. It reports whether it removed any.
func Drop(tx storage.Tx, personID, id string) (dropped bool, err error) {
	set, err := Read(tx, personID)
	if err != nil || len(set.Keys) == 0 {
		return false, err
	}
	var left []Passkey
	for _, k := range set.Keys {
		if id != "" && k.ID != id {
			left = append(left, k)
			continue
		}
		if err := owners.Delete(tx, CredentialKey(k.Credential)); err != nil {
			return false, err
		}
	}
	dropped = len(left) < len(set.Keys)
	set.Keys = left
	return dropped, Put(tx, personID, set)
}

// Forget removes all that is kept of the passkeys of a person, their handle too.
func Forget(tx storage.Tx, personID string) error {
	if _, err := Drop(tx, personID, ""); err != nil {
		return err
	}
	return sets.Delete(tx, personID)
}

// Own notes the owner of the passkey with a credential id. It returns storage.ErrExists if it is someone's already.
func Own(tx storage.Tx, credential []byte, personID string) error {
	return owners.Create(tx, CredentialKey(credential), personID, time.Time{})
}

// challengeKey returns the key of the challenge for a purpose, bound to a flow or a session.
func challengeKey(purpose, bound string) string { return storage.Key(purpose, bound) }

// Challenge returns the challenge that is waiting for a purpose, or makes one.
func (s *Service) Challenge(ctx context.Context, purpose, bound string) ([]byte, error) {
	return s.EnsureChallenge(ctx, purpose, bound, Challenge{})
}

// ReadChallenge returns the challenge that is waiting, or a zero value.
func ReadChallenge(tx storage.Tx, purpose, bound string) (Challenge, error) {
	rec, _, err := challenges.Find(tx, challengeKey(purpose, bound))
	return rec, err
}

// fresh reports whether a page can show the challenge: half of its life is left.
func (c *Challenge) fresh(now time.Time) bool {
	return c.ExpiresAt.After(now.Add(challengeLife / 2))
}

// EnsureChallenge returns the challenge that is waiting, or makes one in its place when it is no longer fresh.
func (s *Service) EnsureChallenge(ctx context.Context, purpose, bound string, waiting Challenge) ([]byte, error) {
	now := s.now()
	if waiting.fresh(now) {
		return waiting.Text, nil
	}
	rec := Challenge{Text: make([]byte, challengeBytes), ExpiresAt: now.Add(challengeLife)}
	if _, err := io.ReadFull(s.random, rec.Text); err != nil {
		return nil, err
	}
	var challenge []byte
	err := s.store.Update(ctx, func(tx storage.Tx) error {
		last, err := ReadChallenge(tx, purpose, bound)
		if err != nil {
			return err
		}
		if last.fresh(now) { // another tab was faster
			challenge = last.Text
			return nil
		}
		challenge = rec.Text
		return challenges.Put(tx, challengeKey(purpose, bound), rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	return challenge, err
}

// SpendChallenge returns the challenge that is waiting for a purpose, and removes it whatever becomes of the answer. It
// is nil when none is waiting, or when it has expired.
func (s *Service) SpendChallenge(ctx context.Context, purpose, bound string) (challenge []byte, err error) {
	now := s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		challenge = nil
		rec, err := ReadChallenge(tx, purpose, bound)
		if err != nil {
			return err
		}
		if rec.ExpiresAt.After(now) {
			challenge = rec.Text
		}
		return challenges.Delete(tx, challengeKey(purpose, bound))
	})
	return challenge, err
}
