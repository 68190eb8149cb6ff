package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	// maxUnit is the size in bytes of a unit as it is stored: a record holds 512 KiB, sealed secrets included.
	maxUnit = 384 << 10
	// maxTries is the number of times that a change is tried when other nodes make changes at the same time.
	maxTries = 10
)

// edit is a change of the units.
type edit struct {
	by audit.Actor
	// client is the API client that makes the edit. If it belongs to an organisation, it can edit only that. Empty: no API
	// client
	client string
	// match reports whether the state is the one that the caller has read. nil matches any state.
	match func(*state) bool
	// apply changes u, which is a copy.
	apply func(u *Units) error
	// pairs are key pairs that are stored before the units. nil: none
	pairs *keystore.Change
	// sent is the JSON that the caller gave, by the names of the units. The switches in it count as set from now on, even
	// to the value that they already have.
	sent map[string]json.RawMessage
	// keepIDs accepts ids that Gatehouse otherwise chooses, as an export has them.
	keepIDs bool
	// unset are members that go back to their defaults: the switches among them no longer count as set.
	unset []string
	// undone are units in which the switches of chosen count as set afterwards, and no others. nil: the edit sets switches
	undone []string
	chosen chosen
	// report receives the changes. It may be nil.
	report *[]Change
	// dry says that nothing is written.
	dry bool
}

// update carries out an edit: all of it or nothing, with one event that names the changed members. An edit that
// sets nothing writes nothing. update returns the state after the edit.
func (s *Service) update(ctx context.Context, e edit) (*state, error) {
	select { // changes in this process wait for each other, so only another node can be faster
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for range maxTries {
		var st *state
		err := s.store.View(ctx, func(tx storage.Tx) (err error) {
			st, err = s.state(tx)
			return err
		})
		if err != nil {
			return nil, err
		}
		seen := st.seenBy(e.client)
		if e.match != nil && !e.match(seen) {
			return nil, preconditionFailed()
		}
		next := seen.units.clone()
		if err := e.apply(next); err != nil {
			return nil, err
		}
		if seen != st {
			own, _ := st.bindingOf(e.client)
			if own == nil {
				return nil, errUnbound()
			}
			if err := next.confine(ctx, st.units, own, e, s.cfg.Reserved); err != nil {
				return nil, err
			}
		}
		sent, err := s.settle(st.units, next, e.keepIDs)
		if err != nil {
			return nil, err
		}
		after, err := s.write(ctx, e, st, next)
		if !errors.Is(err, errMoved) {
			return after, sent.of(err)
		}
	}
	return nil, fmt.Errorf("%w: %w", storage.ErrUnavailable, errMoved)
}

// settle completes the units after an edit and checks them: all of them, whatever was edited.
func (s *Service) settle(from, to *Units, keepIDs bool) (sentMethods, error) {
	sent, err := s.settleLoginMethods(from, to)
	if err != nil {
		return nil, err
	}
	if err := s.settleIDs(from, to, keepIDs); err != nil {
		return sent, err
	}
	settleTwins(from, to)
	if err := to.refuseEmptyLists(); err != nil { // complete makes them equal to absent lists
		return sent, err
	}
	to.complete()
	for _, check := range []func() error{
		func() error { return to.validate(from) },
		func() error { return s.verifyMethods(from, to) },
		func() error { return s.verifyServiceProviders(from, to) },
		func() error { return s.checkPolicies(from, to) },
		to.refuseIneffective,
		func() error { return refuseShared(from, to) },
		func() error { return s.refuseNoClient(from, to) },
	} {
		if err := check(); err != nil {
			return sent, sent.of(err)
		}
	}
	return sent, nil
}

// write stores the units that differ, with the event of the change.
func (s *Service) write(ctx context.Context, e edit, st *state, next *Units) (*state, error) {
	changed := changes(st.units, next)
	if e.report != nil {
		*e.report = changed
	}
	rights, _ := ctx.Value(rightsKey{}).(Rights)
	if _, bound := st.bindingOf(e.client); bound != "" {
		rights = Ordinary
	}
	set, err := st.chosen.with(e, changed).permitted(rights, st.chosen, changed)
	if err != nil {
		return nil, err
	}
	if e.dry && e.pairs != nil {
		return st, s.store.View(ctx, func(tx storage.Tx) error {
			pairs, err := changesOfKeyPairs(tx, e.pairs)
			*e.report = slices.Concat(changed, pairs)
			return err
		})
	}
	if e.dry || len(changed) == 0 && maps.Equal(set, st.chosen) && e.pairs == nil {
		return st, nil
	}
	signIn, err := permit(rights, changed, st.units, next)
	if err != nil {
		return nil, err
	}
	records, err := s.records(changed, st.chosen, set, next)
	if err != nil {
		return nil, err
	}
	ev, err := s.events.By(configurationUpdated, e.by)
	if err != nil {
		return nil, err
	}
	ev.Reason = listed(pathsOf(changed))
	told, err := s.events.By(signInUpdated, e.by)
	if err != nil {
		return nil, err
	}
	nonce, err := s.nonce()
	if err != nil {
		return nil, err
	}
	var quiet uint64
	if len(changed) == 0 {
		quiet = 1
	}
	var now versionRecord
	var revision uint64
	err = s.store.Update(ctx, func(tx storage.Tx) (err error) {
		if now, err = version(tx); err != nil {
			return err
		}
		if !now.is(st.version) {
			return errMoved
		}
		if e.pairs != nil {
			pairs, err := applyKeyPairs(tx, e.pairs, rights)
			if err != nil {
				return err
			}
			if e.report != nil {
				*e.report = slices.Concat(changed, pairs)
			}
		}
		var before map[string]beforeRecord
		if len(records) > 0 {
			if before, err = unitsBefore(tx, records); err != nil {
				return err
			}
			if err := putBound(tx, st.bound, next.bindings()); err != nil {
				return err
			}
			if revision, err = s.put(tx, records, versionRecord{Nonce: nonce, Quiet: quiet}, next); err != nil {
				return err
			}
		}
		if len(changed) > 0 && len(records) > 0 {
			if err := remember(tx, before, revision, ev); err != nil {
				return err
			}
		}
		if len(changed) > 0 {
			if err := s.events.Append(tx, ev); err != nil {
				return err
			}
		}
		if err := s.tellOwners(tx, told, e.by, pathsOf(signIn)); err != nil {
			return err
		}
		now, err = version(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	// The written units are what a read would return, so they go into the cache.
	after := &state{
		version: now, units: next, revisions: maps.Clone(st.revisions), chosen: set,
		bound: maps.Clone(st.bound), clients: st.clients,
	}
	maps.Copy(after.bound, next.bindings())
	for name := range records {
		after.revisions[name] = revision
	}
	return s.remember(after), nil
}

// put writes units under the next version, which it returns.
func (s *Service) put(tx storage.Tx, records map[string]unitRecord, by versionRecord, next *Units) (uint64, error) {
	if err := s.checkKeyPairs(tx, next); err != nil {
		return 0, err
	}
	n, err := writeVersion(tx, by)
	if err != nil {
		return 0, err
	}
	if _, ok := records["login_methods"]; ok {
		if err := keepLogos(tx, next); err != nil {
			return 0, err
		}
	}
	for name, rec := range records {
		rec.Revision = n
		if err := units.Put(tx, name, rec, time.Time{}); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// writeVersion stores a new version, which invalidates caches. by has its nonce and the number to add to Quiet.
func writeVersion(tx storage.Tx, by versionRecord) (uint64, error) {
	v, err := version(tx)
	if err != nil {
		return 0, err
	}
	v = versionRecord{Version: v.Version + 1, Nonce: by.Nonce, Quiet: v.Quiet + by.Quiet}
	return v.Version, versions.Put(tx, versionKey, v, time.Time{})
}

// nonce returns random bytes that distinguish a version from another one with the same number.
func (s *Service) nonce() ([]byte, error) {
	b := make([]byte, 16)
	_, err := io.ReadFull(s.random, b)
	return b, err
}

// records returns the units, in their stored form, that have changed or have a switch that is now set or no longer set.
func (s *Service) records(changed []Change, before, set chosen, u *Units) (map[string]unitRecord, error) {
	out := map[string]unitRecord{}
	for _, un := range table {
		if !set.differs(before, un.name) && !slices.ContainsFunc(changed, func(c Change) bool { return c.unit == un.name }) {
			continue
		}
		rec, err := s.record(un, u)
		if err != nil {
			return nil, err
		}
		rec.JSON = set.only(un.name, rec.JSON)
		out[un.name] = rec
	}
	return out, nil
}

// record returns a unit as it is stored.
func (s *Service) record(un unit, u *Units) (unitRecord, error) {
	stored := *u
	var rec unitRecord
	if un.name == "login_methods" {
		s.withoutFixed(&stored)
		var err error
		if rec.Secrets, err = s.seal(&stored); err != nil {
			return rec, err
		}
	}
	rec.JSON = encode(un.of(&stored))
	if len(rec.JSON) > maxUnit {
		return rec, tooLarge(un.name)
	}
	return rec, nil
}

func pathsOf(changed []Change) (paths []string) {
	for _, c := range changed {
		paths = append(paths, c.Path)
	}
	return paths
}

// listed returns the paths of the changed members, as many as an event has room for.
func listed(paths []string) string {
	const room = 480
	var b strings.Builder
	for i, path := range paths {
		if b.Len()+len(path) > room {
			fmt.Fprintf(&b, " and %d more", len(paths)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(path)
	}
	return b.String()
}
