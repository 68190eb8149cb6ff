package token

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// A client that asks for tokens of its own again and again would fill the disk with their events. The first ones of a
// minute have an event each; the others are counted in a record, in the transaction that issues them, and get one event
// together. (docs/decisions/events.md#events-of-many-tokens)

const (
	tallyAfter = 10 // events of a client in a minute
	tallyTime  = time.Minute
	tallyLimit = 256 // counts that are read at a time
)

// pace counts the tokens of clients in this minute, so the usual ones cost no read.
type pace struct {
	mu     sync.Mutex // guards all below
	minute time.Time
	tokens map[string]int // of client
}

// isBusy counts a token and reports whether the client has had many in this minute.
func (p *pace) isBusy(clientID string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if minute := now.Truncate(tallyTime); !minute.Equal(p.minute) {
		p.minute, p.tokens = minute, map[string]int{}
	}
	p.tokens[clientID]++
	return p.tokens[clientID] > tallyAfter
}

// tallyZeros are as many zeros as a time has digits.
const tallyZeros = "000000000000"

// tallyKey begins with the time, so the oldest count is the first. Each node has a count of its own: two that issue
// tokens to one client would wait for each other. The first one's is that of before.
func tallyKey(minute time.Time, clientID string, lane int) string {
	digits := strconv.FormatInt(max(minute.UnixMilli(), 0), 16)
	parts := []string{tallyZeros[min(len(digits), len(tallyZeros)):] + digits, clientID}
	if lane > 0 {
		parts = append(parts, strconv.Itoa(lane))
	}
	return storage.Key(parts...)
}

// tally counts a token of a client in place of its event.
func (l *Ledger) tally(tx storage.Tx, rec *Access) error {
	minute, lane := rec.CreatedAt.Truncate(tallyTime), 0
	if l.deps.Events.Lane != nil {
		lane = l.deps.Events.Lane()
	}
	key := tallyKey(minute, rec.ClientID, lane)
	count, _, err := tallies.Find(tx, key)
	if err != nil {
		return err
	}
	return tallies.Put(tx, key, tallyRecord{ClientID: rec.ClientID, Minute: minute, Tokens: count.Tokens + 1}, time.Time{})
}

// SettleTallies writes the events of the minutes that are over. Several servers of one store can do so.
func (l *Ledger) SettleTallies(ctx context.Context) error {
	for {
		now := l.now()
		var due []string
		err := l.view(ctx, func(tx storage.Tx) error {
			due = nil
			for e, err := range tallies.Scan(tx, storage.Range{Limit: tallyLimit}) {
				if err != nil {
					return err
				}
				if !e.Value.Minute.Add(tallyTime).After(now) {
					due = append(due, e.Key)
				}
			}
			return nil
		})
		if err != nil || len(due) == 0 {
			return err
		}
		for _, key := range due {
			if err := l.settleTally(ctx, key); err != nil {
				return err
			}
		}
		if len(due) < tallyLimit {
			return nil
		}
	}
}

func (l *Ledger) settleTally(ctx context.Context, key string) error {
	made, err := l.deps.Events.New(eventManyIssued, audit.Self)
	if err != nil {
		return err
	}
	return l.update(ctx, func(tx storage.Tx) error {
		rec, found, err := tallies.Find(tx, key)
		if err != nil || !found { // another server was faster
			return err
		}
		e := made
		e.ClientID, e.Actor = rec.ClientID, rec.ClientID
		e.Reason = fmt.Sprintf("%d more access tokens from %s to %s", rec.Tokens, rec.Minute.Format(time.RFC3339),
			rec.Minute.Add(tallyTime).Format(time.RFC3339))
		if err := tallies.Delete(tx, key); err != nil {
			return err
		}
		return l.deps.Events.Append(tx, e)
	})
}

// counts reports whether a token is counted instead of having an event of its own.
func (l *Ledger) counts(c *client.Client, rec *Access) bool {
	return rec.Subject == "" && l.pace.isBusy(c.ID, rec.CreatedAt)
}
