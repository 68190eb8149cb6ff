package stepup

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup/ceremony"
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

// makeOptions returns the request for a new passkey of the person.
func (s *Service) makeOptions(si *session.Current, challenge []byte, set *PasskeySet) string {
	user := ceremony.User{Handle: set.Handle, Name: si.Person.Username, DisplayName: cmp.Or(si.Person.Name, si.Person.Username)}
	return s.ask(challenge).Make(user, keysOf(set.Keys), passkeyAlgorithms())
}

// ChallengeSeconds is how long a page relies on its challenge: a little less than its life, and no more than what is
// left of one that an earlier page has shown.
const ChallengeSeconds = int(challengeLife/time.Second)/2 - 10

// OwnerOf returns the owner of a credential with all their passkeys, or zero values for an unknown credential.
func (s *Service) OwnerOf(ctx context.Context, credential []byte) (a person.Holder, set PasskeySet, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		a, set = person.Holder{}, PasskeySet{}
		id, ok, err := passkeyOwners.Find(tx, CredentialKey(credential))
		if err != nil || !ok {
			return err
		}
		if a.Person, err = person.Records.Get(tx, id); err != nil {
			return err
		}
		a.ID = id
		set, err = ReadPasskeys(tx, id)
		return err
	})
	return a, set, err
}

// UsePasskey notes the use of a passkey and returns the person, or person.ErrMismatch when what was verified is no
// longer valid.
func (s *Service) UsePasskey(tx storage.Tx, personID string, key Passkey, now time.Time) (person.Record, error) {
	rec, err := person.Records.Get(tx, personID)
	if errors.Is(err, storage.ErrNotFound) || (err == nil && rec.State != person.Active) {
		return rec, person.ErrMismatch
	}
	if err != nil {
		return rec, err
	}
	set, err := ReadPasskeys(tx, personID)
	if err != nil {
		return rec, err
	}
	key.Used = now
	if !set.replace(key) {
		return rec, person.ErrMismatch
	}
	return rec, putPasskeys(tx, personID, set)
}
