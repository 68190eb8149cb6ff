package limit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Near returns the callers that have used at least a share of a limit or quota at this process, those that have used
// most of it first.
func (c *Counters) Near(share float64, most int, now time.Time) []Use {
	out := append(c.Quotas.near(share, most, now), c.callers.near(share, most, now)...)
	for _, u := range c.addresses.near(share, most, now) {
		u.Address = true
		out = append(out, u)
	}
	return mostUsed(out, most)
}

// ID names a caller and a limit, for Lift.
func (k Key) ID() string {
	return strconv.FormatUint(k.Rule, 16) + "." + hex.EncodeToString(k.Addr[:]) + "." + k.Name
}

// ErrUnknown says that no one is counted under an id.
var ErrUnknown = errors.New("no one is counted under this id, or it is over already")

// Lift forgets once what a caller has used of a limit or quota. note is called in the transaction that does so.
func (c *Counters) Lift(ctx context.Context, id string, note func(storage.Tx, Key) error) error {
	parts := strings.SplitN(id, ".", 3)
	if len(parts) != 3 {
		return ErrUnknown
	}
	rule, err := strconv.ParseUint(parts[0], 16, 64)
	addr, bad := hex.DecodeString(parts[1])
	if err != nil || bad != nil || len(addr) != len(Key{}.Addr) {
		return ErrUnknown
	}
	k := Key{Rule: rule, Name: parts[2]}
	copy(k.Addr[:], addr)
	lifted, err := c.Quotas.lift(ctx, k, note)
	if err != nil {
		return fmt.Errorf("lift a quota: %w", err)
	}
	if lifted {
		return nil
	}
	if !c.callers.lift(k) && !c.addresses.lift(k) {
		return ErrUnknown
	}
	return c.Quotas.store.Update(ctx, func(tx storage.Tx) error { return note(tx, k) })
}
