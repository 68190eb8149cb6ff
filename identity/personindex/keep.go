// Package personindex finds and lists people, in pages: by the beginning of a name, username, e-mail address or id, by
// group, state and last sign-in. Its indexes follow the records of people with a moment's delay.
// (docs/decisions/events.md#lists)
package personindex

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/periodic"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	keepEvery  = time.Second
	lookBack   = 10 * time.Second // what was committed late is found at once, and after wholeEvery at the latest
	wholeEvery = time.Minute
	batch      = 100                   // persons in one transaction
	pause      = 10 * time.Millisecond // between two of them, while the persons of an earlier version are listed
)

// Note notes in the transaction of an event that its person may have changed.
func Note(tx storage.Tx, e audit.Event) error {
	d := dueRecord{Person: e.PersonID}
	if e.Counts() == audit.CountSignIn {
		d.Seen = e.Occurred
	} else if !strings.HasPrefix(e.Type, "person.") {
		return nil
	}
	if e.PersonID == "" {
		return nil
	}
	return dues.Put(tx, stamp(e.Occurred)+e.ID, d, never)
}

// Keeper keeps the indexes. It is safe for concurrent use; one of those that share a store runs at a time.
type Keeper struct {
	store storage.Store
	now   func() time.Time
	log   *zap.Logger

	mu    sync.Mutex // guards what follows
	after time.Time  // what was due before is done, but for what was committed late
	whole time.Time  // when all that is due was looked at
	built int        // the builds that are done
}

// New returns a keeper. now is the system's if it is nil.
func New(store storage.Store, now func() time.Time, log *zap.Logger) *Keeper {
	if now == nil {
		now = time.Now
	}
	return &Keeper{store: store, now: now, log: log}
}

// Run keeps the indexes until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	periodic.Every(ctx, keepEvery, k.log, "lists of persons not kept; retrying", func() error { return k.Keep(ctx) })
}

// Keep lists what is not listed yet.
func (k *Keeper) Keep(ctx context.Context) error {
	if err := k.build(ctx, pause); err != nil {
		return err
	}
	return k.keep(ctx)
}

// builds make the indexes of the persons of an earlier version.
var builds = []struct {
	step string // its key in steps
	list func(tx storage.Tx, ids []string) error
}{
	{"", func(tx storage.Tx, ids []string) error { return list(tx, ids, nil) }},
	{"subjects", person.ListSubjects},
}

// build lists the persons of an earlier version, once, in batches of one transaction each.
func (k *Keeper) build(ctx context.Context, pause time.Duration) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.built < len(builds) {
		b := builds[k.built]
		var step stepRecord
		var ids []string
		err := k.store.View(ctx, func(tx storage.Tx) (err error) {
			ids = nil
			if step, _, err = steps.Find(tx, b.step); err != nil || step.Done {
				return err
			}
			r := storage.Range{Prefix: person.Records.Key(""), Limit: batch}
			if step.After != "" {
				r.After = person.Records.Key(step.After)
			}
			for rec, err := range tx.Scan(r) {
				if err != nil {
					return err
				}
				ids = append(ids, string(rec.Key[len(person.Records.Key("")):]))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if step.Done {
			k.built++
			continue
		}
		err = k.store.Update(ctx, func(tx storage.Tx) error {
			is, _, err := steps.Find(tx, b.step)
			if err != nil || is != step { // another worker was faster
				return err
			}
			if err := b.list(tx, ids); err != nil {
				return err
			}
			is.Done = len(ids) < batch
			if len(ids) > 0 {
				is.After = ids[len(ids)-1]
			}
			return steps.Put(tx, b.step, is, never)
		})
		if err != nil {
			return err
		}
		if pause > 0 {
			wait := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				wait.Stop()
				return ctx.Err()
			case <-wait.C:
			}
		}
	}
	return nil
}

// keep updates the index for persons that may have changed.
func (k *Keeper) keep(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, from := k.now(), k.after
	if now.Sub(k.whole) >= wholeEvery || now.Before(k.whole) {
		from, k.whole = time.Time{}, now
	}
	var after []byte
	if !from.IsZero() {
		after = dues.Key(stamp(from))
	}
	for {
		keys, err := k.due(ctx, after)
		if err == nil && len(keys) > 0 {
			err = k.store.Update(ctx, func(tx storage.Tx) error { return settle(tx, keys) })
		}
		if err != nil {
			k.whole = time.Time{}
			return err
		}
		if n := len(keys); n > 0 {
			after = keys[n-1] // what was done has left a mark that each scan from further back passes
			k.after = timeOf(string(after[len(dues.Key("")):])).Add(-lookBack)
		}
		if len(keys) < batch {
			return nil
		}
	}
}

// due returns the keys of a batch of what is due, after a key.
func (k *Keeper) due(ctx context.Context, after []byte) (keys [][]byte, err error) {
	err = k.store.View(ctx, func(tx storage.Tx) error {
		keys = nil
		for rec, err := range tx.Scan(storage.Range{Prefix: dues.Key(""), After: after, Limit: batch}) {
			if err != nil {
				return err
			}
			keys = append(keys, rec.Key)
		}
		return nil
	})
	return keys, err
}

// settle lists the persons again of what is due and was not done meanwhile. A record that cannot be read is left out,
// since all lists would stop at it.
func settle(tx storage.Tx, keys [][]byte) error {
	found, err := tx.GetMany(keys...)
	if err != nil {
		return err
	}
	var ids []string
	seen := map[string]time.Time{}
	for i, raw := range found {
		if raw == nil {
			continue
		}
		d, err := dues.Decode(raw)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) {
			return err
		}
		if err == nil {
			if _, twice := seen[d.Person]; !twice {
				ids = append(ids, d.Person)
			}
			if d.Seen.After(seen[d.Person]) || seen[d.Person].IsZero() {
				seen[d.Person] = d.Seen
			}
		}
		if err := tx.Delete(keys[i]); err != nil {
			return err
		}
	}
	return list(tx, ids, seen)
}

// list puts persons where they belong, and takes them from where they were. seen are their sign-ins, if there are.
func list(tx storage.Tx, ids []string, seen map[string]time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	keys := make([][]byte, 0, 2*len(ids))
	for _, id := range ids {
		keys = append(keys, person.Records.Key(id), known.Key(id))
	}
	found, err := tx.GetMany(keys...)
	if err != nil {
		return err
	}
	for i, id := range ids {
		var before, after knownRecord
		if raw := found[2*i+1]; raw != nil {
			if before, err = known.Decode(raw); err != nil {
				return err
			}
		}
		gone := found[2*i] == nil
		if !gone {
			rec, err := person.Records.Decode(found[2*i])
			if err != nil {
				return err
			}
			after = knownOf(&rec)
			if rec.State != person.Removed {
				after.Seen = before.Seen
				if at := seen[id]; at.After(after.Seen) {
					after.Seen = at
				}
			}
		}
		if err := move(tx, id, &before, &after); err != nil {
			return err
		}
		if gone {
			err = known.Delete(tx, id)
		} else {
			err = known.Put(tx, id, after, never)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// move changes the places of a person.
func move(tx storage.Tx, id string, before, after *knownRecord) error {
	was, is := before.keys(id), after.keys(id)
	for _, key := range was {
		if !slices.Contains(is, key) {
			if err := places.Delete(tx, key); err != nil {
				return err
			}
		}
	}
	for _, key := range is {
		if !slices.Contains(was, key) {
			if err := places.Put(tx, key, struct{}{}, never); err != nil {
				return err
			}
		}
	}
	return nil
}

// knownOf returns where a person is to be listed, but for sign-ins.
func knownOf(r *person.Record) knownRecord {
	out := knownRecord{Partition: r.PartitionName()}
	if r.State != person.Removed {
		out.Words = wordsOf(r)
	}
	if r.State != person.Active {
		out.State = r.State
	}
	return out
}
