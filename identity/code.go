package identity

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	sentCodeTries = 5           // of one code
	sentCodeEvery = time.Minute // a further code for the same
	sentCodesMost = 5           // of one Limit, and to one To, before waits that grow: nobody's mailbox or telephone is filled
)

// codeFor is what a code that is sent is good for. Another value of any member but Limit is another code's.
type codeFor struct {
	Purpose string // such as "step-up email"
	Subject string // what it concerns: the id of a flow, of a pending sign-up, of a session. The newest code for it is the only one
	Bound   string // who may use it: the id of a session, the hash of a browser cookie
	To      string // where it is sent
	Limit   string // whose codes are counted together: a person's id, the hash of an address
}

func (c codeFor) key() string { return storage.Key(c.Purpose, secret.Hash(c.Subject)) }

// hash is keyed, since there are few codes, and bound to all that the code is for.
func (c codeFor) hash(key []byte, code string) []byte {
	return secret.MAC(key, "sent code", c.Purpose, c.Subject, c.Bound, c.To, code)
}

const sentCodePurpose = "codes that were sent"

// newSentCode returns six digits, to be made before the transaction that sends them.
func newSentCode(random io.Reader) (string, error) {
	const most = 1<<32 - 1<<32%1_000_000 // above it the last ones would come more seldom
	for {
		var b [4]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", err
		}
		if n := uint64(binary.BigEndian.Uint32(b[:])); n < most {
			return fmt.Sprintf("%06d", n%1_000_000), nil
		}
	}
}

// sendCode stores a new code in place of the one before and has send send it, in tx. wait is how long none is sent: then nothing has happened. Where
// nobody is to be told, send does nothing, and everything else is the same.
func (s *Service) sendCode(tx storage.Tx, c codeFor, code string, now time.Time, send func(tx storage.Tx, code string) error) (wait time.Duration, err error) {
	last, err := sentCodes.Get(tx, c.key())
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return 0, err
	}
	if err == nil && last.Bound == c.Bound {
		wait = last.SentAt.Add(sentCodeEvery).Sub(now)
	}
	if wait, err = s.countSent(tx, c, wait, now); err != nil || wait > 0 {
		return wait, err
	}
	rec := sentCodeRecord{Bound: c.Bound, Hash: c.hash(s.Keyring.Derive(sentCodePurpose), code), SentAt: now, ExpiresAt: now.Add(sentCodeLife)}
	if err := sentCodes.Put(tx, c.key(), rec, rec.ExpiresAt.Add(collectAfter)); err != nil {
		return 0, err
	}
	return 0, send(tx, code)
}

// countSent counts a message that is about to be sent, unless there is a wait already. wait is how long none is sent: then nothing is counted.
func (s *Service) countSent(tx storage.Tx, c codeFor, wait time.Duration, now time.Time) (time.Duration, error) {
	// Who asks, and where it is sent, whoever asks. The latter for each purpose apart: a stranger who has codes sent to somebody's number
	// keeps them from no others.
	counters := []counter{{storage.Key("sent", c.Limit), sentCodesMost, false}, {storage.Key("sent-to", c.Purpose, secret.Hash(c.To)), sentCodesMost, false}}
	counts := make([]failureRecord, len(counters))
	for i, most := range counters {
		var err error
		if counts[i], err = s.readFailures(tx, most, now); err != nil {
			return 0, err
		}
		wait = max(wait, counts[i].Until.Sub(now))
	}
	if wait > 0 {
		return wait, nil
	}
	for i, most := range counters {
		rec := s.fails(counts[i], most, now)
		if err := failures.Put(tx, most.key, rec, s.forgets(rec)); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// codeWaits tells whether a code that was sent may still be typed.
func (s *Service) codeWaits(tx storage.Tx, c codeFor, now time.Time) (bool, error) {
	rec, err := sentCodes.Get(tx, c.key())
	if errors.Is(err, storage.ErrNotFound) {
		return false, nil
	}
	return err == nil && rec.Bound == c.Bound && rec.ExpiresAt.After(now), err
}

// checkCode looks at what was typed for a code, and counts the try before it looks. errMismatch: it is wrong, or there is no code any more. Otherwise
// spend uses the code up, in the transaction of what it is good for, and is false when another request was faster.
func (s *Service) checkCode(ctx context.Context, c codeFor, typed string) (spend func(tx storage.Tx) (bool, error), err error) {
	key, now := c.key(), s.Now()
	var rec sentCodeRecord
	err = s.Store.Update(ctx, func(tx storage.Tx) (err error) {
		if rec, err = sentCodes.Get(tx, key); err != nil {
			return err
		}
		if rec.Bound != c.Bound || !rec.ExpiresAt.After(now) || rec.Tries >= sentCodeTries {
			return storage.ErrNotFound
		}
		rec.Tries++
		return sentCodes.Put(tx, key, rec, rec.ExpiresAt.Add(collectAfter))
	})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, errMismatch
	}
	if err != nil {
		return nil, err
	}
	code := strings.ReplaceAll(strings.TrimSpace(typed), " ", "")
	if !slices.ContainsFunc(s.Keyring.DeriveAll(sentCodePurpose), func(k []byte) bool { return hmac.Equal(rec.Hash, c.hash(k, code)) }) {
		return nil, errMismatch
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
