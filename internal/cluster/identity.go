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

// format is the newest form of records that this program can read and write. It writes that of the storage, which is
// older until all nodes know the new one and an operator has said that none will go back: see Finish.
// It grows when an older program would misread a record, or drop a member that must not be lost when it rewrites one.
// Format 2 has a chain of events for each node.
const format = 2

// ErrNewer says that a newer version has written what this one would misread.
var ErrNewer = storage.ErrNewer

// Readable returns ErrNewer unless this program can read the records.
func Readable(tx storage.Tx) error {
	rec, _, err := identities.Find(tx, identityKey)
	if err == nil && rec.Format > format {
		return fmt.Errorf("%w (its records have format %d, this version reads %d)", ErrNewer, rec.Format, format)
	}
	return err
}

// readable is Readable for a node, of which a test can say what it knows.
func (n *Node) readable(tx storage.Tx) (identityRecord, error) {
	rec, _, err := identities.Find(tx, identityKey)
	if err == nil && rec.Format > n.Format {
		err = fmt.Errorf("%w (its records have format %d, this version reads %d)", ErrNewer, rec.Format, n.Format)
	}
	return rec, err
}

// ErrOlder says that a node runs that could not read what would be written.
var ErrOlder = errors.New("a server of an older version still runs")

// Finish has all nodes write the newest form of records that this one knows, from now on, and runs also in the same
// transaction. An older version cannot use the storage any more then. It returns ErrOlder while one does, and before =
// now if there is nothing to do.
func (n *Node) Finish(ctx context.Context, also func(storage.Tx) error) (before, now int, err error) {
	at := n.Now()
	if n.shared != nil {
		if at, err = n.shared.Clock(ctx); err != nil {
			return 0, 0, err
		}
	}
	err = n.store.Update(ctx, func(tx storage.Tx) error {
		rec, err := n.readable(tx)
		if before, now = max(rec.Format, 1), n.Format; err != nil || before == now {
			return err
		}
		for e, err := range nodes.Scan(tx, storage.Range{}) {
			if err != nil {
				return err
			}
			if seenLately(e.Value.Seen, at) && max(e.Value.Format, 1) < now {
				return fmt.Errorf("%w: %s on %s. Upgrade it first, or stop it and wait %s", ErrOlder, e.Value.Version, e.Value.Host, alive)
			}
		}
		rec.Format = now
		if err := identities.Put(tx, identityKey, rec, time.Time{}); err != nil {
			return err
		}
		return also(tx)
	})
	return before, now, err
}

// identify returns the id of the storage, and gives it one if it has none. It returns ErrNewer without writing
// anything. A storage that belongs to one process has the form that this one knows from then on.
func (n *Node) identify(ctx context.Context) (id string, err error) {
	var is int
	err = n.store.View(ctx, func(tx storage.Tx) error {
		rec, err := n.readable(tx)
		id, is = rec.ID, rec.Format
		return err
	})
	if err != nil || id != "" && (n.shared != nil || is >= n.Format) {
		return id, err
	}
	var b [16]byte
	if _, err := io.ReadFull(n.Random, b[:]); err != nil {
		return "", err
	}
	made := identityRecord{ID: hex.EncodeToString(b[:]), MadeAt: n.Now(), Format: n.Format}
	err = n.store.Update(ctx, func(tx storage.Tx) error {
		rec, found, err := identities.Find(tx, identityKey) // another process can have been faster
		if err != nil {
			return err
		}
		if !found {
			id = made.ID
			return identities.Create(tx, identityKey, made, time.Time{})
		}
		if rec, err = n.readable(tx); err != nil || n.shared != nil || rec.Format >= n.Format {
			id = rec.ID
			return err
		}
		id, rec.Format = rec.ID, n.Format
		return identities.Put(tx, identityKey, rec, time.Time{})
	})
	return id, err
}
