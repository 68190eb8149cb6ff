package token

import (
	"context"

	"github.com/gatehouse-id/gatehouse/storage"
)

// UsedUp reports whether every use that the token allows has been made.
func (i *Introspection) UsedUp() bool { return i.UsageLimit > 0 && i.UsageCount >= i.UsageLimit }

// Use counts one use of an access token and returns its state, this use included. The count is durable when Use
// returns. Once the limit is reached the token is inactive, however many callers ask at once. For a token without a
// limit Use is Introspect.
func (l *Ledger) Use(ctx context.Context, token string) (*Introspection, error) {
	in, err := l.Introspect(ctx, token)
	if err != nil || in.UsageLimit == 0 {
		return in, err
	}
	key, _ := l.AccessKey(token)
	now := l.now()
	err = l.update(ctx, func(tx storage.Tx) (err error) {
		in = new(Introspection)
		if _, err = l.inspect(tx, key, now, in); err != nil || !in.Active {
			return err
		}
		if in.UsedUp() {
			in = &Introspection{}
			return nil
		}
		in.UsageCount++
		return uses.Put(tx, key, useRecord{Count: in.UsageCount}, in.ExpiresAt.Add(CollectMargin))
	})
	if err != nil {
		return nil, err
	}
	return in, nil
}
