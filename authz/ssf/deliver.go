package ssf

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	lookEvery = 2 * time.Second  // how soon what another server has written is seen
	claimed   = time.Minute      // a server that pushes has this long, then another one does
	pushFirst = 10 * time.Second // wait after the first failure; it doubles
	pushMost  = time.Hour
	batch     = 64 // items that one round takes, or one transaction removes
	stampMost = 4 * batch
)

// look lets the worker look soon. It never waits.
func (s *Service) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run pushes events, and removes what no one waits for, until ctx ends. Several can run at a time.
func (s *Service) Run(ctx context.Context) {
	if !s.cfg.On {
		return
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := s.Send(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.Error("shared signals not sent; trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-s.wake:
		}
	}
}

// due is a stream that has something to do.
type due struct {
	client string
	rec    streamRecord
}

// Send pushes what is due now. An error is a failure of storage.
func (s *Service) Send(ctx context.Context) error {
	var list []due
	var gone []string
	err := s.deps.Store.View(ctx, func(tx storage.Tx) error {
		list, gone = nil, nil
		for e, err := range streams.Scan(tx, storage.Range{Limit: mostStreams}) {
			if err != nil {
				return err
			}
			list = append(list, due{e.Key, e.Value})
		}
		for e, err := range leftovers.Scan(tx, storage.Range{Limit: batch}) {
			if err != nil {
				return err
			}
			gone = append(gone, e.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range gone {
		if err := s.removeAll(ctx, id); err != nil {
			return err
		}
	}
	for _, d := range list {
		if err := s.serve(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// serve does what is due for one stream.
func (s *Service) serve(ctx context.Context, d due) error {
	if d.rec.Status == disabled {
		return s.drop(ctx, d.rec.ID)
	}
	if err := s.stamp(ctx, d.rec.ID); err != nil {
		return err
	}
	if d.rec.Status != enabled || d.rec.Method != methodPush {
		return nil
	}
	c, err := s.deps.Clients.Get(ctx, d.client)
	if errors.Is(err, storage.ErrNotFound) || err == nil && (c.Disabled || !c.HasScope(ScopeManage)) {
		return nil // what it has not got by then expires
	}
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		n, err := s.round(ctx, d, c)
		if err != nil || n < batch {
			return err
		}
	}
	return nil
}

// waiting reads the first items of a stream, or those after a key.
func (s *Service) waiting(ctx context.Context, stream, after string, limit int) (list []storage.Entry[itemRecord], err error) {
	of := storage.Range{Prefix: storage.Prefix(stream), Limit: limit}
	if after != "" {
		of.After = []byte(after)
	}
	err = s.deps.Store.View(ctx, func(tx storage.Tx) error {
		list = nil
		for e, err := range items.Scan(tx, of) {
			if err != nil {
				return err
			}
			list = append(list, e)
		}
		return nil
	})
	return list, err
}

// stamp gives a time to items that have none, since transactions read no clock. It looks at some items in one turn, and
// at those after them in the next one: items without a time never expire, so none may stay behind others.
func (s *Service) stamp(ctx context.Context, stream string) error {
	s.mu.Lock()
	after := s.stamped[stream]
	s.mu.Unlock()
	list, err := s.waiting(ctx, stream, after, stampMost)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if delete(s.stamped, stream); len(list) == stampMost {
		s.stamped[stream] = list[stampMost-1].Key
	}
	s.mu.Unlock()
	now := s.now()
	var fresh []string
	for _, e := range list {
		if e.Value.At.IsZero() {
			fresh = append(fresh, e.Key)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	return s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		for _, key := range fresh {
			rec, found, err := items.Find(tx, key)
			if err != nil {
				return err
			}
			if !found || !rec.At.IsZero() {
				continue
			}
			rec.At = now
			if err := items.Put(tx, key, rec, now.Add(kept)); err != nil {
				return err
			}
		}
		return nil
	})
}

// round pushes a batch in order, until one fails. It returns how many items it has dealt with.
func (s *Service) round(ctx context.Context, d due, c *client.Client) (n int, err error) {
	if list, err := s.waiting(ctx, d.rec.ID, "", 1); err != nil || len(list) == 0 {
		return 0, err
	}
	ours, mine, err := s.claim(ctx, d.client)
	if err != nil || !ours {
		return 0, err
	}
	list, err := s.waiting(ctx, d.rec.ID, "", batch) // what was there before the claim can have been pushed since
	if err != nil {
		return 0, err
	}
	end := mine.Next.Add(-outbound.Timeout)
	var done []string
	var failed error
	for i := range list {
		if ctx.Err() != nil || s.now().After(end) { // also if this server was paused: another one can have pushed the item
			break
		}
		// The receiver can have paused, moved or deleted its stream meanwhile.
		pushes := false
		if d.rec, pushes, failed = s.pushes(ctx, &d); failed != nil || !pushes {
			break
		}
		id, item, now := storage.Parts(list[i].Key)[1], &list[i].Value, s.now()
		if item.At.IsZero() {
			item.At = now
		}
		if !item.late(now) {
			if failed = s.push(ctx, d, c, id, item); failed != nil {
				break
			}
		}
		done = append(done, list[i].Key)
	}
	state := deliveryRecord{}
	if failed != nil {
		state = deliveryRecord{Tries: mine.Tries + 1, Next: s.now().Add(min(pushFirst<<min(mine.Tries, 10), pushMost))}
		s.deps.Log.Warn("shared signal not delivered; it is tried again", zap.String("client_id", c.ID),
			zap.Time("next_try", state.Next), zap.Error(failed))
	}
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := deleteItems(tx, done); err != nil {
			return err
		}
		is, found, err := deliveries.Find(tx, d.client)
		if err != nil || !found || !is.Next.Equal(mine.Next) { // the receiver has changed its stream, or the claim is another's
			return err
		}
		if failed == nil {
			return deliveries.Delete(tx, d.client)
		}
		return deliveries.Put(tx, d.client, state, never)
	})
	if failed != nil {
		return 0, err
	}
	return len(done), err
}

// pushes returns a stream as it is now, and whether its events are pushed.
func (s *Service) pushes(ctx context.Context, d *due) (rec streamRecord, yes bool, err error) {
	err = s.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		rec, yes, err = streams.Find(tx, d.client)
		return err
	})
	return rec, yes && rec.ID == d.rec.ID && rec.Status == enabled && rec.Method == methodPush, err
}

// claim takes the stream of a client for a minute, unless it waits or another server has it. The end of a claim tells
// it from others.
func (s *Service) claim(ctx context.Context, clientID string) (ours bool, mine deliveryRecord, err error) {
	now := s.now().Truncate(time.Microsecond)
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		ours, mine = false, deliveryRecord{}
		state, _, err := deliveries.Find(tx, clientID)
		if err != nil || state.Next.After(now) {
			return err
		}
		ours, mine = true, deliveryRecord{Tries: state.Tries, Next: now.Add(claimed)}
		return deliveries.Put(tx, clientID, mine, never)
	})
	return ours, mine, err
}

// push makes one try. nil: the receiver has it, or is not told of it. (RFC 8935 2)
func (s *Service) push(ctx context.Context, d due, c *client.Client, id string, item *itemRecord) error {
	text, err := s.event(ctx, c, &d.rec, id, item)
	if errors.Is(err, errNotTold) {
		return nil
	}
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.rec.Endpoint, strings.NewReader(text))
	if err != nil {
		return errors.New("push: the address is not valid")
	}
	req.Header.Set("Content-Type", "application/secevent+jwt")
	req.Header.Set("Accept", "application/json")
	if len(d.rec.Header) > 0 {
		header, err := s.deps.Keyring.Open(headerPurpose, d.rec.Header)
		if err != nil {
			return fmt.Errorf("push: authorization header: %w", err)
		}
		req.Header.Set("Authorization", string(header))
	}
	res, err := s.deps.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("push: %w", errors.Unwrap(err)) // without the address, which can hold a secret
	}
	defer res.Body.Close()
	if _, err := outbound.Body(res); err != nil {
		return err
	}
	switch {
	case res.StatusCode >= 200 && res.StatusCode <= 299:
		return nil
	case res.StatusCode == http.StatusBadRequest: // RFC 8935 2.3: it will not take this one at any time
		s.deps.Log.Warn("shared signal refused by its receiver", zap.String("client_id", c.ID), zap.String("jti", id))
		return nil
	}
	return fmt.Errorf("push: status %d", res.StatusCode)
}

// drop removes the items of a stream.
func (s *Service) drop(ctx context.Context, stream string) error {
	for {
		list, err := s.waiting(ctx, stream, "", batch)
		if err != nil || len(list) == 0 {
			return err
		}
		keys := make([]string, len(list))
		for i := range list {
			keys[i] = list[i].Key
		}
		err = s.deps.Store.Update(ctx, func(tx storage.Tx) error { return deleteItems(tx, keys) })
		if err != nil || len(list) < batch {
			return err
		}
	}
}

func deleteItems(tx storage.Tx, keys []string) error {
	for _, key := range keys {
		if err := items.Delete(tx, key); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes what a deleted stream has left.
func (s *Service) removeAll(ctx context.Context, stream string) error {
	if err := s.drop(ctx, stream); err != nil {
		return err
	}
	for more := true; more; {
		err := s.deps.Store.Update(ctx, func(tx storage.Tx) error {
			n := 0
			for e, err := range subjects.Scan(tx, storage.Range{Prefix: storage.Prefix(stream), Limit: batch}) {
				if err != nil {
					return err
				}
				if err := subjects.Delete(tx, e.Key); err != nil {
					return err
				}
				n++
			}
			if more = n == batch; more {
				return nil
			}
			return leftovers.Delete(tx, stream)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
