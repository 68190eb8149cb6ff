package challenge

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

// The limits of sent codes.
const (
	sentCodeTries = 5           // for one code
	sentCodeEvery = time.Minute // between two codes for the same purpose
	SentCodesMost = 5           // of one Limit, and to one To, before growing waits: no mailbox or phone is flooded
)

// MaxCode bounds what is entered as a code, in characters.
const MaxCode = 64

// CodePurpose is the purpose of a sent code. Codes differ if any member except Limit differs.
type CodePurpose struct {
	Purpose string // such as "step-up email"
	Subject string // what it concerns: the id of a flow, of a pending sign-up, of a session. Only its newest code works
	Bound   string // who can use it: the id of a session, the hash of a browser cookie
	To      string // where it is sent
	Limit   string // what codes are counted together by: a person's id, the hash of an address
}

func (c CodePurpose) key() string { return storage.Key(c.Purpose, secret.Hash(c.Subject)) }

// hash returns the hash of a code for its purpose. It is keyed because there are few codes.
func (c CodePurpose) hash(key []byte, code string) []byte {
	return secret.MAC(key, "sent code", c.Purpose, c.Subject, c.Bound, c.To, code)
}

const sentCodePurpose = "codes that were sent"

// NewSentCode returns a code of six digits. It is made before the transaction that sends it.
func NewSentCode(random io.Reader) (string, error) { return secret.Text(random, "0123456789", 6) }

// SendCode stores a new code in place of the one before, and calls send in tx. With a wait nothing has happened: no
// code is sent for so long. Where no one must be told, send does nothing, and everything else is the same.
func (s *Service) SendCode(tx storage.Tx, c CodePurpose, code string, now time.Time,
	send func(tx storage.Tx, code string) error,
) (wait time.Duration, err error) {
	last, found, err := sentCodes.Find(tx, c.key())
	if err != nil {
		return 0, err
	}
	if found && last.Bound == c.Bound {
		wait = last.SentAt.Add(sentCodeEvery).Sub(now)
	}
	if wait, err = s.CountSent(tx, c, wait, now); err != nil || wait > 0 {
		return wait, err
	}
	rec := sentCodeRecord{
		Bound: c.Bound, Hash: c.hash(s.deps.Keyring.Derive(sentCodePurpose), code), SentAt: now, ExpiresAt: now.Add(person.SentCodeLife),
	}
	if err := sentCodes.Put(tx, c.key(), rec, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
		return 0, err
	}
	return 0, send(tx, code)
}

// CountSent counts a message that is about to be sent, unless there is a wait already, and returns how long none is
// sent. It counts by who asks, and by where messages are sent for each purpose: codes that a stranger requests for
// another person's number do not keep that person from codes of other purposes.
func (s *Service) CountSent(tx storage.Tx, c CodePurpose, already time.Duration, now time.Time) (wait time.Duration, err error) {
	wait, _, err = s.count(tx, []Counter{
		{Key: storage.Key("sent", c.Limit), Limit: SentCodesMost},
		{Key: storage.Key("sent-to", c.Purpose, secret.Hash(c.To)), Limit: SentCodesMost},
	}, already, now)
	return wait, err
}

// CodeWaits reports whether a code was sent that can still be entered.
func (s *Service) CodeWaits(tx storage.Tx, c CodePurpose, now time.Time) (bool, error) {
	rec, found, err := sentCodes.Find(tx, c.key())
	return found && rec.Bound == c.Bound && rec.ExpiresAt.After(now), err
}

// CheckCode checks an entered code, and counts the attempt before. Error: person.ErrMismatch, if the code is wrong or
// no code was sent. spend deletes the code in the transaction that uses it, and returns false if another request has.
func (s *Service) CheckCode(ctx context.Context, c CodePurpose, typed string) (spend func(tx storage.Tx) (bool, error), err error) {
	key, now := c.key(), s.deps.Now()
	var rec sentCodeRecord
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) (err error) {
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
	if !slices.ContainsFunc(s.deps.Keyring.DeriveAll(sentCodePurpose), func(k []byte) bool { return hmac.Equal(rec.Hash, c.hash(k, code)) }) {
		return nil, person.ErrMismatch
	}
	return spendOnce(sentCodes, key, func(now sentCodeRecord) bool { return hmac.Equal(now.Hash, rec.Hash) }), nil
}

// spendOnce returns a function that deletes a record, or returns false if it is another one by now.
func spendOnce[T any](table storage.Table[T], key string, same func(T) bool) func(storage.Tx) (bool, error) {
	return func(tx storage.Tx) (bool, error) {
		rec, found, err := table.Find(tx, key)
		if err != nil || !found || !same(rec) {
			return false, err
		}
		return true, table.Delete(tx, key)
	}
}
