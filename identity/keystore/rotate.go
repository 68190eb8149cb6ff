package keystore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Stage is the stage in the rotation of a key pair.
type Stage string

// The stages of a rotation.
const (
	Fixed     Stage = "fixed"     // it cannot be rotated: it has no private key, or is a keytab, whose keys the realm has too
	Idle      Stage = "idle"      // no rotation is under way
	Announced Stage = "announced" // the next keys are published next to those in use
	Switched  Stage = "switched"  // they are in use, and the former ones are published next to them
)

// Step is a step in the rotation of a key pair.
type Step string

// The steps of a rotation, and Renew, which can be done at every stage.
const (
	// Announce makes the keys that take the place of a pair soon. From then on they are published next to it, and
	// decrypt.
	Announce Step = "announce"
	// Switch lets them take its place. The former ones are published next to them and decrypt until they are retired.
	Switch Step = "switch"
	// Retire removes the former keys.
	Retire Step = "retire"
	// Renew replaces the keys at once by new ones, and ends a rotation.
	Renew Step = "renew"
)

// done are the changes that the events of the steps name.
var done = map[Step]string{
	Announce: "the next keys are published for", Switch: "the next keys are used for",
	Retire: "the former keys are retired of", Renew: "new keys of",
}

// NextStep returns the step that leads on from a stage, or "" from Fixed.
func (s Stage) NextStep() Step {
	return map[Stage]Step{Idle: Announce, Announced: Switch, Switched: Retire}[s]
}

// StageError is an ErrStage with the stage that the pair is at.
type StageError struct {
	Stage Stage
	Step  Step // that was asked for
}

func (e *StageError) Error() string {
	return fmt.Sprintf("the rotation is at the stage %s: the next step is %s, not %s", e.Stage, e.Stage.NextStep(), e.Step)
}

// Is implements errors.Is.
func (e *StageError) Is(target error) bool { return target == ErrStage }

// Rotate takes one step with the keys of a pair; "" is Gatehouse's own. New keys have the type and size of the old
// ones, and a certificate that they have signed themselves. The name stays, so what uses the pair uses them at once.
// Errors: ErrUnknown; ErrNoPrivateKey at the stage Fixed; ErrStage if the stage has another next step.
func (s *Service) Rotate(ctx context.Context, id string, step Step, by audit.Actor) error {
	return s.rotateIf(ctx, id, step, by, nil)
}

// rotateIf takes a step if the pair, as it is at that moment, is as holds wants it.
func (s *Service) rotateIf(ctx context.Context, id string, step Step, by audit.Actor, holds func(Summary) bool) error {
	for {
		old, is, err := s.one(ctx, id)
		if err != nil {
			return err
		}
		if holds != nil && !holds(is) {
			return preconditionFailed()
		}
		switch stage := is.Stage(); {
		case stage == Fixed:
			return ErrNoPrivateKey
		case step != Renew && step != stage.NextStep():
			return &StageError{stage, step}
		}
		next, err := s.after(id, old, step)
		if err != nil {
			return fmt.Errorf("make a key pair: %w", err)
		}
		// Making keys takes seconds on a busy machine, so they are stored even if the request has ended. Someone else who
		// has changed the pair meanwhile has come first: look at what it is now.
		if changed, err := s.replace(context.WithoutCancel(ctx), id, old, next, done[step], by); changed || err != nil {
			return err
		}
	}
}

// after returns the record after a step. The old one is at the stage before it.
func (s *Service) after(id string, old record, step Step) (record, error) {
	switch step {
	case Announce:
		made, err := s.successor(id, old)
		old.Next = &spare{made.Private, made.Public, made.NotAfter, s.now().UTC()}
		return old, err
	case Switch:
		next := old.as(old.Next)
		if _, err := s.open(id, next); err != nil {
			return old, err
		}
		next.Former = &spare{old.Private, old.Public, old.NotAfter, s.now().UTC()}
		return next, nil
	case Retire:
		old.Former = nil
		return old, nil
	}
	return s.successor(id, old)
}

// home returns the place of the record of a pair.
func home(id string) (table storage.Table[record], key string) {
	if id == "" {
		return ownKeys, ownKey
	}
	return keyPairs, id
}

// one returns the pair of an id, and what is seen of it. Gatehouse's own is made when it is first asked for, as in Get.
func (s *Service) one(ctx context.Context, id string) (rec record, is Summary, err error) {
	if id == "" {
		if _, err := s.own(ctx); err != nil {
			return rec, is, err
		}
	}
	table, key := home(id)
	err = s.store.View(ctx, func(tx storage.Tx) (err error) {
		if rec, err = table.Get(tx, key); err == nil {
			is, err = s.summary(tx, pair{id, rec})
		}
		return err
	})
	if errors.Is(err, storage.ErrNotFound) {
		err = ErrUnknown
	}
	return rec, is, err
}

// replace stores next in place of old, with an event. changed is false if the pair is another one than old by now.
func (s *Service) replace(ctx context.Context, id string, old, next record, what string, by audit.Actor) (changed bool, err error) {
	e, err := s.events.By(certificateUpdated, by)
	if err != nil {
		return false, err
	}
	e.Reason = what + " " + cmp.Or(old.Name, "Gatehouse's own key pair")
	finish, err := s.owner.Change(ctx, by)
	if err != nil {
		return false, err
	}
	table, key := home(id)
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		changed = false
		now, err := table.Get(tx, key)
		if errors.Is(err, storage.ErrNotFound) {
			return ErrUnknown
		}
		if err != nil || !now.same(old) {
			return err
		}
		if err := table.Put(tx, key, next, time.Time{}); err != nil {
			return err
		}
		if err := finish(tx); err != nil {
			return err
		}
		changed = true
		return s.events.Append(tx, e)
	})
	return changed, err
}
