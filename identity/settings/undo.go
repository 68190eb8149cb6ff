package settings

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// undoable is the time during which a change can be undone: the replaced values are kept no longer.
const undoable = 30 * 24 * time.Hour

// unitsBefore returns the units that a change replaces.
func unitsBefore(tx storage.Tx, changed map[string]unitRecord) (map[string]beforeRecord, error) {
	out := map[string]beforeRecord{}
	for name := range changed {
		rec, stored, err := units.Find(tx, name)
		if err != nil {
			return nil, err
		}
		out[name] = beforeRecord{stored, rec}
	}
	return out, nil
}

// remember keeps what a change has replaced, in place of what the one before it had replaced.
func remember(tx storage.Tx, before map[string]beforeRecord, revision uint64, ev audit.Event) error {
	if err := forget(tx); err != nil {
		return err
	}
	until := ev.Occurred.Add(undoable)
	names := slices.Sorted(maps.Keys(before))
	for _, name := range names {
		if err := befores.Put(tx, name, before[name], until); err != nil {
			return err
		}
	}
	return lasts.Put(tx, lastKey, lastRecord{revision, names, ev.Actor, ev.Occurred}, until)
}

func forget(tx storage.Tx) error {
	for _, un := range table {
		if err := befores.Delete(tx, un.name); err != nil {
			return err
		}
	}
	return lasts.Delete(tx, lastKey)
}

// forgetOlder forgets what was replaced if an older key has sealed secrets of it, so the key can be removed.
func (s *Service) forgetOlder(ctx context.Context) error {
	var before beforeRecord
	err := s.store.View(ctx, func(tx storage.Tx) (err error) {
		before, _, err = befores.Find(tx, "login_methods")
		return err
	})
	older := func(sealed []byte) bool { return !s.keyring.IsCurrent(sealed) }
	if err != nil || !slices.ContainsFunc(slices.Collect(maps.Values(before.Unit.Secrets)), older) {
		return err
	}
	// A change that was made since is forgotten too: it cannot be undone then, and nothing else is lost.
	return s.store.Update(ctx, forget)
}

// LastChange is the last change of the units, which can be undone as long as nothing else has changed these units. Key
// pairs do not belong to it.
type LastChange struct {
	ID      uint64 // of this change
	Actor   string // id of who made it
	At      time.Time
	Changes []Change // that undo it

	units  []string
	to     *Units
	chosen chosen
}

// LastChange returns the last change, or nil if there is nothing to undo.
func (s *Service) LastChange(ctx context.Context) (out *LastChange, err error) {
	err = s.store.View(ctx, func(tx storage.Tx) error {
		st, err := s.state(tx)
		if err != nil {
			return err
		}
		out, err = s.lastChange(tx, st)
		return err
	})
	return out, err
}

func (s *Service) lastChange(tx storage.Tx, st *state) (*LastChange, error) {
	last, found, err := lasts.Find(tx, lastKey)
	if err != nil || !found {
		return nil, err
	}
	out := &LastChange{
		ID: last.Revision, Actor: last.Actor, At: last.At, units: last.Units, to: st.units.clone(),
		chosen: chosen{},
	}
	standard := s.standard.clone()
	for _, name := range last.Units {
		before, found, err := befores.Find(tx, name)
		if err != nil || !found || st.revisions[name] != last.Revision {
			return nil, err
		}
		un := unitNamed(name)
		reflect.ValueOf(un.of(out.to)).Elem().Set(reflect.ValueOf(un.of(standard)).Elem())
		if !before.Stored {
			continue
		}
		if name == "login_methods" {
			out.to.LoginMethods.LoginMethods = nil // arrays are replaced
		}
		if err := s.read(out.to, un, before.Unit); err != nil {
			return nil, err
		}
		out.chosen.add(name, before.Unit.JSON)
	}
	s.addFixed(out.to)
	out.to.complete()
	out.Changes = changes(st.units, out.to)
	return out, nil
}

// Undo makes the units what they were before the last change, whose id is given. It refuses where something has changed
// since, as the configuration API does where an entity tag does not match.
func (s *Service) Undo(ctx context.Context, id uint64, by audit.Actor) (changed []Change, err error) {
	last, err := s.LastChange(ctx)
	if err != nil {
		return nil, err
	}
	if last == nil || last.ID != id {
		return nil, preconditionFailed()
	}
	_, err = s.update(ctx, edit{
		by: by, keepIDs: true, report: &changed, undone: last.units, chosen: last.chosen,
		match: func(st *state) bool {
			return !slices.ContainsFunc(last.units, func(name string) bool { return st.revisions[name] != id })
		},
		apply: func(u *Units) error {
			from := last.to.clone()
			for _, name := range last.units {
				un := unitNamed(name)
				reflect.ValueOf(un.of(u)).Elem().Set(reflect.ValueOf(un.of(from)).Elem())
			}
			return nil
		},
	})
	return changed, err
}
