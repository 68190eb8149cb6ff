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
// most of it first. Only those that keep accepts are returned; nil accepts all.
func (c *Counters) Near(share float64, most int, now time.Time, keep func(*Use) bool) []Use {
	if keep == nil {
		keep = func(*Use) bool { return true }
	}
	out := append(c.Quotas.near(share, most, now, keep), c.callers.near(share, most, now, keep)...)
	out = append(out, c.addresses.near(share, most, now, func(u *Use) bool {
		u.Address = true
		return keep(u)
	})...)
	return mostUsed(out, most)
}

// ID names a caller and a limit, for Lift.
func (k Key) ID() string {
	return strconv.FormatUint(k.Rule, 16) + "." + hex.EncodeToString(k.Addr[:]) + "." + k.Name
}

// ErrUnknown says that no one is counted under an id.
var ErrUnknown = errors.New("no one is counted under this id, or it is over already")

// ParseID reads an id, or returns ErrUnknown.
func ParseID(id string) (k Key, err error) {
	parts := strings.SplitN(id, ".", 3)
	if len(parts) != 3 {
		return k, ErrUnknown
	}
	rule, err := strconv.ParseUint(parts[0], 16, 64)
	addr, bad := hex.DecodeString(parts[1])
	if err != nil || bad != nil || len(addr) != len(k.Addr) {
		return k, ErrUnknown
	}
	k = Key{Rule: rule, Name: parts[2]}
	copy(k.Addr[:], addr)
	return k, nil
}

// Lift forgets once what a caller has used of a limit or quota. note is called in the transaction that does so.
func (c *Counters) Lift(ctx context.Context, id string, note func(storage.Tx, Key) error) error {
	k, err := ParseID(id)
	if err != nil {
		return err
	}
	lifted, err := c.Quotas.lift(ctx, k, note)
	if err != nil {
		return fmt.Errorf("lift a quota: %w", err)
	}
	if lifted {
		return nil
	}
	if !c.callers.has(k) && !c.addresses.has(k) {
		return ErrUnknown
	}
	if err := c.Quotas.store.Update(ctx, func(tx storage.Tx) error {
		if err := shares.Delete(tx, shareKey(k)); err != nil {
			return err
		}
		return note(tx, k)
	}); err != nil {
		return err
	}
	c.callers.lift(k)
	c.addresses.lift(k)
	return nil
}
