package mfa

import (
	"bytes"
	"context"

	"github.com/gatehouse-id/gatehouse/storage"
)

// resealBatch is the number of people that Reseal looks at in one call.
const resealBatch = 200

// Resealed is the result of one call of Reseal.
type Resealed struct {
	People int // that were looked at
	Sealed int // secrets that were resealed
	Left   int // secrets that no key of the keyring opens
	Next   string
}

// sealedSecret is a secret that an older key has sealed.
type sealedSecret struct {
	person, purpose string
	in              func(own *Record) *[]byte // where it is. nil: the method is gone
	old, fresh      []byte
}

// Reseal seals the secrets of authenticator apps and PINs with the current key of the keyring where an older one has
// sealed them, for the next people past after. Next continues; "" says that these were the last. What no key opens
// stays as it is.
func (s *Service) Reseal(ctx context.Context, after string) (out Resealed, err error) {
	var old []sealedSecret
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		out, old = Resealed{}, nil
		r := storage.Range{Limit: resealBatch}
		if after != "" {
			r.After = []byte(after)
		}
		for e, err := range records.Scan(tx, r) {
			if err != nil {
				return err
			}
			out.People++
			out.Next = e.Key
			old = append(old, s.olderOf(e.Key, &e.Value)...)
		}
		return nil
	})
	if err != nil {
		return Resealed{}, err
	}
	if out.People < resealBatch {
		out.Next = ""
	}
	var fresh []sealedSecret
	for _, x := range old {
		plain, err := s.deps.Keyring.Open(x.purpose, x.old)
		if err != nil {
			out.Left++
			continue
		}
		if x.fresh, err = s.deps.Keyring.Seal(x.purpose, plain); err != nil {
			return Resealed{}, err
		}
		fresh = append(fresh, x)
	}
	if len(fresh) == 0 {
		return out, nil
	}
	return out, s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		out.Sealed = 0
		for _, x := range fresh {
			own, err := readRecord(tx, x.person)
			if err != nil {
				return err
			}
			sealed := x.in(&own)
			if sealed == nil || !bytes.Equal(*sealed, x.old) { // set up again, or removed meanwhile
				continue
			}
			*sealed = x.fresh
			if err := putRecord(tx, x.person, own); err != nil {
				return err
			}
			out.Sealed++
		}
		return nil
	})
}

// olderOf returns the secrets of a person that an older key has sealed.
func (s *Service) olderOf(person string, own *Record) (old []sealedSecret) {
	for _, x := range []sealedSecret{
		{purpose: totpPurpose(person), in: func(own *Record) *[]byte {
			if own.TOTP == nil {
				return nil
			}
			return &own.TOTP.Sealed
		}},
		{purpose: pinPurpose(person), in: func(own *Record) *[]byte {
			if own.PIN == nil {
				return nil
			}
			return &own.PIN.Sealed
		}},
	} {
		if sealed := x.in(own); sealed != nil && !s.deps.Keyring.IsCurrent(*sealed) {
			x.person, x.old = person, *sealed
			old = append(old, x)
		}
	}
	return old
}
