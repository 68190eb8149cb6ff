package person

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// What other parts of the service do when something happens to a person. All of it is called in the transaction of the change, and an error
// undoes the change. New fills the lists before the service is used.
type (
	// removeHook forgets what belongs to a person who is removed.
	removeHook func(tx storage.Tx, person string) error
	// changeHook follows a change of the profile.
	changeHook func(tx storage.Tx, person string, before, after *Profile) error
	// passwordHook follows a new password, which takes the person from one epoch to the next. keep is the session that goes on. Empty: none
	passwordHook func(tx storage.Tx, person, keep string, from, to int64) error
	// welcomeHook greets a new person.
	welcomeHook func(tx storage.Tx, t Recipient, how Welcome, now time.Time) error
)

// OnRemove adds a hook.
func (s *Service) OnRemove(h removeHook) { s.removeHooks = append(s.removeHooks, h) }

// OnChange adds a hook.
func (s *Service) OnChange(h changeHook) { s.changeHooks = append(s.changeHooks, h) }

// OnPassword adds a hook.
func (s *Service) OnPassword(h passwordHook) { s.passwordHooks = append(s.passwordHooks, h) }

// OnWelcome sets the hook.
func (s *Service) OnWelcome(h welcomeHook) { s.welcomeHook = h }

// NameProvidersBy sets what returns the name of an identity provider for people.
func (s *Service) NameProvidersBy(name func(id string) string) { s.nameOfProvider = name }

// callChangeHooks is called by every change of a profile before it writes.
func (s *Service) callChangeHooks(tx storage.Tx, person string, before, after *Profile) error {
	for _, h := range s.changeHooks {
		if err := h(tx, person, before, after); err != nil {
			return err
		}
	}
	return nil
}

// Watcher is told when sessions end, so that clients hear of it. authz implements it. All but the last are called in the transaction that
// ends the sessions; an error undoes it.
type Watcher interface {
	// SessionEnded: one session of a person ends.
	SessionEnded(tx storage.Tx, person, session string) error
	// SessionsEnded: every session of a person ends, but for one ("": none).
	SessionsEnded(tx storage.Tx, person, except string) error
	// TokensEnded: what was given in a session of a person, which ends, is worth nothing any more either.
	TokensEnded(tx storage.Tx, person, session string) error
	// LogoutFrames returns the addresses that the page after the sign-out of a live session loads in frames.
	LogoutFrames(ctx context.Context, person, session string) ([]string, error)
}

// unwatched is the Watcher of a service that nobody watches.
type unwatched struct{}

func (unwatched) SessionEnded(storage.Tx, string, string) error { return nil }

func (unwatched) SessionsEnded(storage.Tx, string, string) error { return nil }

func (unwatched) TokensEnded(storage.Tx, string, string) error { return nil }

func (unwatched) LogoutFrames(context.Context, string, string) ([]string, error) { return nil, nil }

// Watch names who is told when sessions end. It is called before the service is used, if at all.
func (s *Service) Watch(w Watcher) { s.watching = w }

// Watcher returns who is told when sessions end.
func (s *Service) Watcher() Watcher {
	if s.watching == nil {
		return unwatched{}
	}
	return s.watching
}
