package token

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// pairwiseKey names the record of the key that makes pairwise subjects.
const pairwiseKey = "pairwise"

// SubjectFor returns the identifier by which a client knows a person. Every answer that names a person to a client uses
// it; protected sites, events and the APIs use the public one.
func (l *Ledger) SubjectFor(c *client.Client, person string) string {
	return l.SubjectIn(c.Sector(), person)
}

// SubjectIn is SubjectFor for a sector.
func (l *Ledger) SubjectIn(sector, person string) string {
	if sector == "" || person == "" {
		return person
	}
	return encodeMAC(l.pairwise.MAC(pairwiseKey, sector, person), sha256.Size)
}

// SubjectOf returns the subject for answers to or about the token's client.
func (l *Ledger) SubjectOf(in *Introspection) string {
	if in.Person == nil {
		return in.Subject // the client itself
	}
	return l.SubjectIn(in.Sector, in.Subject)
}

// ProfileID identifies the pair of a person and a mobile app instance.
func (l *Ledger) ProfileID(c *client.Client, person string) string {
	if c.App == nil {
		return profileStatic
	}
	return encodeMAC(l.pairwise.MAC("profile", c.ID, person), 16)
}

// encodeMAC returns the first n bytes of a MAC as text.
func encodeMAC(sum [sha256.Size]byte, n int) string {
	return base64.RawURLEncoding.EncodeToString(sum[:n])
}

// maxSeals is the number of encryption keys that have a sealed secret.
const maxSeals = 4

// loadPairwise returns the key of pairwise subjects. It is made once for a store and never changes, since every
// pairwise subject would change with it. The encryption key that seals it can change.
func loadPairwise(ctx context.Context, store storage.Store, keyring *secret.Keyring, random io.Reader) (key []byte, err error) {
	fresh := make([]byte, secret.KeySize)
	if _, err := io.ReadFull(random, fresh); err != nil {
		return nil, err
	}
	current := false
	read := func(tx storage.Tx) (rec secretRecord, err error) {
		rec, found, err := secrets.Find(tx, pairwiseKey)
		if err == nil && found {
			key, current, err = rec.open(keyring)
		} else {
			key, current = fresh, false
		}
		return rec, err
	}
	err = store.View(ctx, func(tx storage.Tx) error {
		_, err := read(tx)
		return err
	})
	if err != nil || current {
		return key, wrapPairwise(err)
	}
	err = store.Update(ctx, func(tx storage.Tx) error {
		rec, err := read(tx) // another server can have been faster
		if err != nil || current {
			return err
		}
		sealed, err := keyring.Seal(pairwisePurpose, key)
		if err != nil {
			return err
		}
		rec.Sealed = append([][]byte{sealed}, rec.Sealed...)
		rec.Sealed = rec.Sealed[:min(len(rec.Sealed), maxSeals)]
		return secrets.Put(tx, pairwiseKey, rec, time.Time{})
	})
	return key, wrapPairwise(err)
}

const pairwisePurpose = "authz_secret/" + pairwiseKey

func wrapPairwise(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("key of pairwise subjects: %w", err)
}

// open returns the secret and whether the current encryption key has sealed it.
func (r *secretRecord) open(keyring *secret.Keyring) (text []byte, current bool, err error) {
	err = secret.ErrSealed
	for _, sealed := range r.Sealed {
		if text, err = keyring.Open(pairwisePurpose, sealed); err == nil {
			break
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("the encryption key does not open it: %w", err)
	}
	return text, slices.ContainsFunc(r.Sealed, keyring.IsCurrent), nil
}

// profileStatic is the profile_id of a web client. (docs/decisions/tokens.md#mobile-apps) A client's own token has no
// profile.
const profileStatic = "static"
