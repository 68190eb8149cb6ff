package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// format is what this program can read.
const format = 1

// ErrNewer says that a newer version has written what this one would misread.
var ErrNewer = errors.New("a newer version of Gatehouse has written this storage: use that version")

// Readable returns ErrNewer unless this program can read the records.
func Readable(tx storage.Tx) error {
	rec, _, err := identities.Find(tx, identityKey)
	if err == nil && rec.Format > format {
		return fmt.Errorf("%w (its records have format %d, this version reads %d)", ErrNewer, rec.Format, format)
	}
	return err
}

// identify returns the id of a storage, and gives it one if it has none. It returns ErrNewer without writing anything.
func identify(ctx context.Context, s storage.Store, now func() time.Time, rand io.Reader) (id string, err error) {
	err = s.View(ctx, func(tx storage.Tx) error {
		rec, _, err := identities.Find(tx, identityKey)
		id = rec.ID
		return errors.Join(err, Readable(tx))
	})
	if err != nil || id != "" {
		return id, err
	}
	var b [16]byte
	if _, err := io.ReadFull(rand, b[:]); err != nil {
		return "", err
	}
	made := identityRecord{ID: hex.EncodeToString(b[:]), MadeAt: now(), Format: format}
	err = s.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := identities.Find(tx, identityKey) // another process can have been faster
		if err != nil {
			return err
		}
		if id = rec.ID; found {
			return Readable(tx)
		}
		id = made.ID
		return identities.Create(tx, identityKey, made, time.Time{})
	})
	return id, err
}
