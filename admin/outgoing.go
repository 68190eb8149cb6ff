package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Errors of messages that are not sent now.
var (
	ErrTrying = errors.New("it is being sent at this moment")
	ErrLate   = errors.New("the subject of the message has ended")
)

// outgoing returns the messages of a channel, or nil.
func (s *Service) outgoing(channel string) notify.Outgoing {
	if i := slices.IndexFunc(s.Outgoing, func(o notify.Outgoing) bool { return o.Channel() == channel }); i >= 0 {
		return s.Outgoing[i]
	}
	return nil
}

// FindMessage returns a message that is not handed over. found is false for one that was tried or dropped meanwhile.
func (s *Service) FindMessage(tx storage.Tx, channel, key string, now time.Time) (m notify.Item, found bool, err error) {
	if o := s.outgoing(channel); o != nil {
		return o.Find(tx, key, now)
	}
	return m, false, nil
}

// MovedMessage returns a message by a key that it had before it was tried or given up. found is false for one that was
// sent or dropped meanwhile, or that thousands are due before.
func (s *Service) MovedMessage(tx storage.Tx, channel, key string, now time.Time) (m notify.Item, found bool, err error) {
	if o := s.outgoing(channel); o != nil {
		return o.Moved(tx, key, now)
	}
	return m, false, nil
}

// SendNow has a message sent that waits for its next try, or was given up. allow can refuse it in the transaction of
// the change. Errors: ErrGone, ErrTrying, ErrLate, or that of allow.
func (s *Service) SendNow(ctx context.Context, channel, key string, by audit.Actor, allow func(storage.Tx, notify.Item) error) error {
	return s.changeMessage(ctx, channel, key, sentAgain, by,
		func(tx storage.Tx, o notify.Outgoing, m notify.Item, now time.Time) (bool, error) {
			if m.Trying {
				return false, ErrTrying
			}
			if m.Late {
				return false, ErrLate
			}
			if err := allow(tx, m); err != nil {
				return false, err
			}
			return o.Again(tx, key, now)
		})
}

// DropMessage deletes a message that is not handed over: it is never sent. allow can refuse it in the transaction of
// the change. Errors: ErrGone, ErrTrying, or that of allow.
func (s *Service) DropMessage(ctx context.Context, channel, key string, by audit.Actor, allow func(storage.Tx, notify.Item) error) error {
	return s.changeMessage(ctx, channel, key, dropped, by, func(tx storage.Tx, o notify.Outgoing, m notify.Item, now time.Time) (bool, error) {
		if m.Trying {
			return false, ErrTrying
		}
		if err := allow(tx, m); err != nil {
			return false, err
		}
		return o.Drop(tx, key, now)
	})
}

// changeMessage changes a message as it is by now. Its event tells the kind, and not what the message says.
func (s *Service) changeMessage(
	ctx context.Context, channel, key string, kind audit.Type, by audit.Actor,
	change func(tx storage.Tx, o notify.Outgoing, m notify.Item, now time.Time) (bool, error),
) error {
	o := s.outgoing(channel)
	if o == nil {
		return ErrGone
	}
	e, err := s.Recorder.New(kind, by.Origin)
	if err != nil {
		return err
	}
	now := e.Occurred
	return s.Store.Update(ctx, func(tx storage.Tx) error {
		m, found, err := o.Find(tx, key, now)
		if err != nil {
			return err
		}
		if !found {
			return ErrGone
		}
		changed, err := change(tx, o, m, now)
		if err != nil {
			return err
		}
		if !changed {
			return ErrGone
		}
		return s.Recorder.Append(tx, by.Fill(e, m.PersonID, channel+"."+string(m.Kind)))
	})
}
