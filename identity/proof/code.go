package proof

import (
	"context"
	"crypto/hmac"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	sentCodeTries = 5           // of one code
	sentCodeEvery = time.Minute // a further code for the same
	SentCodesMost = 5           // of one Limit, and to one To, before waits that grow: nobody's mailbox or telephone is filled
)

// CodePurpose is what a code that is sent is good for. Another value of any member but Limit is another code's.
type CodePurpose struct {
	Purpose string // such as "step-up email"
	Subject string // what it concerns: the id of a flow, of a pending sign-up, of a session. The newest code for it is the only one
	Bound   string // who may use it: the id of a session, the hash of a browser cookie
	To      string // where it is sent
	Limit   string // whose codes are counted together: a person's id, the hash of an address
}

func (c CodePurpose) key() string { return storage.Key(c.Purpose, secret.Hash(c.Subject)) }

// hash is keyed, since there are few codes, and bound to all that the code is for.
func (c CodePurpose) hash(key []byte, code string) []byte {
	return secret.MAC(key, "sent code", c.Purpose, c.Subject, c.Bound, c.To, code)
}

const sentCodePurpose = "codes that were sent"

// NewSentCode returns a code of six digits. It is made before the transaction that sends it.
func NewSentCode(random io.Reader) (string, error) { return secret.Text(random, "0123456789", 6) }

// SendCode stores a new code in place of the one before and has send send it, in tx. wait is how long none is sent: then nothing has happened. Where
// nobody is to be told, send does nothing, and everything else is the same.
func (s *Service) SendCode(tx storage.Tx, c CodePurpose, code string, now time.Time, send func(tx storage.Tx, code string) error) (wait time.Duration, err error) {
	last, err := sentCodes.Get(tx, c.key())
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return 0, err
	}
	if err == nil && last.Bound == c.Bound {
		wait = last.SentAt.Add(sentCodeEvery).Sub(now)
	}
	if wait, err = s.CountSent(tx, c, wait, now); err != nil || wait > 0 {
		return wait, err
	}
	rec := sentCodeRecord{Bound: c.Bound, Hash: c.hash(s.keyring.Derive(sentCodePurpose), code), SentAt: now, ExpiresAt: now.Add(person.SentCodeLife)}
	if err := sentCodes.Put(tx, c.key(), rec, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
		return 0, err
	}
	return 0, send(tx, code)
}

// CountSent counts a message that is about to be sent, unless there is a wait already. wait is how long none is sent: then nothing is counted.
func (s *Service) CountSent(tx storage.Tx, c CodePurpose, wait time.Duration, now time.Time) (time.Duration, error) {
	// Who asks, and where it is sent, whoever asks. The latter for each purpose apart: a stranger who has codes sent to somebody's number
	// keeps them from no others.
	counters := []Counter{{storage.Key("sent", c.Limit), SentCodesMost, false}, {storage.Key("sent-to", c.Purpose, secret.Hash(c.To)), SentCodesMost, false}}
	counts := make([]FailureRecord, len(counters))
	for i, most := range counters {
		var err error
		if counts[i], err = s.ReadFailures(tx, most, now); err != nil {
			return 0, err
		}
		wait = max(wait, counts[i].Until.Sub(now))
	}
	if wait > 0 {
		return wait, nil
	}
	for i, most := range counters {
		rec := s.CountFailure(counts[i], most, now)
		if err := FailureRecords.Put(tx, most.Key, rec, s.ClearFailures(rec)); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// CodeWaits tells whether a code that was sent may still be typed.
func (s *Service) CodeWaits(tx storage.Tx, c CodePurpose, now time.Time) (bool, error) {
	rec, err := sentCodes.Get(tx, c.key())
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Bound == c.Bound && rec.ExpiresAt.After(now), err
}

// CheckCode looks at what was typed for a code, and counts the try before it looks. person.ErrMismatch: it is wrong, or there is no code any more. Otherwise
// spend uses the code up, in the transaction of what it is good for, and is false when another request was faster.
func (s *Service) CheckCode(ctx context.Context, c CodePurpose, typed string) (spend func(tx storage.Tx) (bool, error), err error) {
	key, now := c.key(), s.now()
	var rec sentCodeRecord
	err = s.store.Update(ctx, func(tx storage.Tx) (err error) {
		if rec, err = sentCodes.Get(tx, key); err != nil {
			return err
		}
		if rec.Bound != c.Bound || !rec.ExpiresAt.After(now) || rec.Tries >= sentCodeTries {
			return storage.ErrNotFound
		}
		rec.Tries++
		return sentCodes.Put(tx, key, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, person.ErrMismatch
	}
	if err != nil {
		return nil, err
	}
	code := strings.ReplaceAll(strings.TrimSpace(typed), " ", "")
	if !slices.ContainsFunc(s.keyring.DeriveAll(sentCodePurpose), func(k []byte) bool { return hmac.Equal(rec.Hash, c.hash(k, code)) }) {
		return nil, person.ErrMismatch
	}
	return func(tx storage.Tx) (bool, error) {
		now, err := sentCodes.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) {
			return false, nil
		}
		if err != nil || !hmac.Equal(now.Hash, rec.Hash) {
			return false, err
		}
		return true, sentCodes.Delete(tx, key)
	}, nil
}
