package notify

import (
	"fmt"
	"io"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// sealedQueue is an outbox whose items are kept sealed: they hold addresses, codes, and links that let somebody in.
type sealedQueue[T any] struct {
	*outbox.Queue[[]byte]

	purpose string
	keyring *secret.Keyring
	random  io.Reader
}

// add writes an item, in the transaction of its cause.
func (q *sealedQueue[T]) add(tx storage.Tx, at time.Time, v T) error {
	id, err := secret.ID(q.random, 16)
	if err != nil {
		return err
	}
	raw, err := cbor.Marshal(v)
	if err != nil {
		return err
	}
	sealed, err := q.keyring.Seal(q.purpose, raw)
	if err != nil {
		return err
	}
	return q.Add(tx, id, at, sealed)
}

// open undoes what add did.
func (q *sealedQueue[T]) open(sealed []byte) (v T, err error) {
	raw, err := q.keyring.Open(q.purpose, sealed)
	if err != nil { // perhaps another configuration with other keys is still there, or comes back
		return v, fmt.Errorf("open: %w", err)
	}
	if err := cbor.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("read: %w: %w", err, outbox.ErrRefused)
	}
	return v, nil
}
