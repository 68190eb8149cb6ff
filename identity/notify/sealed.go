package notify

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/fxamacker/cbor/v2"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/outbox"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Deps are the dependencies of sending messages; T is the transport. All but Now, Random and Log are required.
type Deps[T any] struct {
	Store     storage.Store
	Keyring   *secret.Keyring
	Transport T
	// Words returns the messages in the first available one of the languages.
	Words  func(ctx context.Context, locales []string) web.Words
	Now    func() time.Time
	Random io.Reader
	Log    *zap.Logger
}

// defaults fills in missing members.
func (d *Deps[T]) defaults(now func() time.Time, random io.Reader) {
	if d.Now == nil {
		d.Now = now
	}
	if d.Random == nil {
		d.Random = random
	}
	if d.Log == nil {
		d.Log = zap.NewNop()
	}
}

// message is a message of a sealed queue.
type message interface{ outline() outline }

// sealedQueue is an outbox whose items are kept sealed: they hold addresses, codes, and links to sign in with.
type sealedQueue[T message] struct {
	queue   *outbox.Queue[[]byte]
	deliver func(ctx context.Context, id string, v T) error // makes one try
	lane    string
	purpose string
	keyring *secret.Keyring
	random  io.Reader
}

// newSealedQueue returns a queue whose items deliver hands over. purpose distinguishes these sealed items from all
// others.
func newSealedQueue[T message, H any](
	d Deps[H], table storage.Table[outbox.Record[[]byte]], purpose string, deliver func(ctx context.Context, id string, v T) error,
	c outbox.Config,
) *sealedQueue[T] {
	c.Log = d.Log
	return &sealedQueue[T]{
		queue: outbox.New(table, d.Store, d.Now, c), deliver: deliver, lane: c.Lane, purpose: purpose, keyring: d.Keyring, random: d.Random,
	}
}

// Run sends queued items until ctx ends.
func (q *sealedQueue[T]) Run(ctx context.Context) { q.queue.Run(ctx, q.try) }

// Round tries once what is due now.
func (q *sealedQueue[T]) Round(ctx context.Context) (sent, failed int, err error) {
	return q.queue.Round(ctx, q.queue.AtOnce, q.try)
}

// Waiting returns how many items wait, counting no more than most.
func (q *sealedQueue[T]) Waiting(ctx context.Context, most int) (int, error) {
	return q.queue.Waiting(ctx, most)
}

func (q *sealedQueue[T]) try(ctx context.Context, id string, sealed []byte) error {
	v, err := q.open(sealed)
	if err != nil {
		return fmt.Errorf("%s: %w", q.lane, err)
	}
	if err := q.deliver(ctx, id, v); err != nil { // it may quote what the other side was given
		return &hiddenError{err, hide(err.Error(), v.outline().secrets)}
	}
	return nil
}

// add queues an item in the transaction of its cause.
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
	return q.queue.Add(tx, id, at, sealed)
}

// open returns the item that add has sealed.
func (q *sealedQueue[T]) open(sealed []byte) (v T, err error) {
	raw, err := q.keyring.Open(q.purpose, sealed)
	if err != nil { // tried again: another node with the right key may still be running, or come back
		return v, fmt.Errorf("open: %w", err)
	}
	if err := cbor.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("read: %w: %w", err, outbox.ErrRefused)
	}
	return v, nil
}
