package person

import (
	"context"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// The hooks of other packages. They are called in the transaction of the change, and an error undoes it. They are set
// before the service is used.
type (
	// removeHook deletes what belongs to a removed person.
	removeHook func(tx storage.Tx, person string) error
	// changeHook follows a change of the profile.
	changeHook func(tx storage.Tx, person string, before, after *Profile) error
	// passwordHook follows a new password, which raises the person's epoch. keep is the session that continues. Empty:
	// none
	passwordHook func(tx storage.Tx, person, keep string, from, to int64) error
	// welcomeHook greets a new person.
	welcomeHook func(tx storage.Tx, t Recipient, how Welcome, now time.Time) error
)

// OnRemove adds a hook of the removal of a person.
func (s *Service) OnRemove(h removeHook) { s.removeHooks = append(s.removeHooks, h) }

// OnChange adds a hook of a change of the profile.
func (s *Service) OnChange(h changeHook) { s.changeHooks = append(s.changeHooks, h) }

// OnPassword adds a hook of a new password.
func (s *Service) OnPassword(h passwordHook) { s.passwordHooks = append(s.passwordHooks, h) }

// OnWelcome sets the hook that greets new persons.
func (s *Service) OnWelcome(h welcomeHook) { s.welcomeHook = h }

// Greet calls the hook of OnWelcome, for a package that creates a person itself.
func (s *Service) Greet(tx storage.Tx, t Recipient, how Welcome, now time.Time) error {
	return s.welcomeHook(tx, t, how, now)
}

// NameProvidersBy sets the function that returns the display name of an identity provider.
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

// Watcher learns when sessions end, so it can tell clients. authz implements it. All methods except the last are called
// in the transaction that ends the sessions; an error undoes it.
type Watcher interface {
	// SessionEnded: one session of a person ends.
	SessionEnded(tx storage.Tx, person, session string) error
	// SessionsEnded: all sessions of a person end, except one ("": none).
	SessionsEnded(tx storage.Tx, person, except string) error
	// TokensEnded: the tokens of a session of a person, which ends, end with it.
	TokensEnded(tx storage.Tx, person, session string) error
	// LogoutFrames returns the URLs that the page after the sign-out of a live session loads in frames.
	LogoutFrames(ctx context.Context, person, session string) ([]string, error)
}

// noWatcher is the Watcher of a service that has no other.
type noWatcher struct{}

func (noWatcher) SessionEnded(storage.Tx, string, string) error { return nil }

func (noWatcher) SessionsEnded(storage.Tx, string, string) error { return nil }

func (noWatcher) TokensEnded(storage.Tx, string, string) error { return nil }

func (noWatcher) LogoutFrames(context.Context, string, string) ([]string, error) { return nil, nil }

// Watch sets the watcher, before the service is used.
func (s *Service) Watch(w Watcher) { s.watching = w }

// Watcher returns the watcher. It is never nil.
func (s *Service) Watcher() Watcher {
	if s.watching == nil {
		return noWatcher{}
	}
	return s.watching
}
