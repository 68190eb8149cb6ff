package authz

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// What identity calls when sessions end, and the work in the background.

// SessionEnded queues the logout tokens of a session, and what receivers of shared signals are told, in the transaction
// that ends it.
func (s *Server) SessionEnded(tx storage.Tx, person, session string) error {
	if err := s.visits.SessionEnded(tx, person, session); err != nil {
		return err
	}
	return s.signals.SessionEnded(tx, person, session)
}

// SessionsEnded is SessionEnded for all sessions of a person except one ("": no exception).
func (s *Server) SessionsEnded(tx storage.Tx, person, except string) error {
	return s.visits.SessionsEnded(tx, person, except)
}

// TokensEnded ends the grants of a session, in the transaction that ends it. An identity provider can demand that.
func (s *Server) TokensEnded(tx storage.Tx, person, session string) error {
	return s.tokens.DropSession(tx, person, session)
}

// LogoutFrames returns the addresses that the page after a sign-out loads in frames. See visit.Visits.Frames.
func (s *Server) LogoutFrames(ctx context.Context, person, session string) (frames []string, err error) {
	frames, err = s.visits.Frames(ctx, person, session)
	return frames, oauth.StorageError(err)
}

// Reseal seals with the first encryption key what an older one has sealed for as long as it is there: the authorization
// headers of streams. Signing keys reseal themselves. It returns how many of them no key opens.
func (s *Server) Reseal(ctx context.Context) (left int, err error) { return s.signals.Reseal(ctx) }

// Tell queues what receivers of shared signals are told of an event, in the transaction that appends it.
func (s *Server) Tell(tx storage.Tx, e audit.Event) error { return s.signals.Add(tx, e) }

// Run does the work of the background until ctx ends. Several servers of one store can run at a time.
func (s *Server) Run(ctx context.Context) error {
	if err := s.visits.Send(ctx); err != nil && ctx.Err() == nil {
		s.deps.Log.Error("logout tokens not sent at the start; the worker and the next start try again", zap.Error(err))
	}
	var counted sync.WaitGroup
	counted.Go(func() { s.settleTallies(ctx) })
	counted.Go(func() { s.personal.Run(ctx) })
	counted.Go(func() { s.removeUnused(ctx) })
	counted.Go(func() { s.signals.Run(ctx) })
	s.visits.Run(ctx)
	counted.Wait()
	return nil
}

// CatchUp does what Run would do now, and returns.
func (s *Server) CatchUp(ctx context.Context) error {
	return errors.Join(s.visits.Send(ctx), s.tokens.SettleTallies(ctx), s.registered.RemoveUnused(ctx), s.signals.Send(ctx))
}

// tallyEvery is the interval at which tokens that were counted together are looked at.
const tallyEvery = 15 * time.Second

// settleTallies writes the events of many tokens until ctx ends.
func (s *Server) settleTallies(ctx context.Context) {
	tick := time.NewTicker(tallyEvery)
	defer tick.Stop()
	for {
		if err := s.tokens.SettleTallies(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.Error("events of many tokens not written; trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// unusedEvery is the interval of the search for unused clients.
const unusedEvery = time.Hour

// removeUnused removes clients that have registered themselves and that no one uses, until ctx ends.
func (s *Server) removeUnused(ctx context.Context) {
	tick := time.NewTicker(unusedEvery)
	defer tick.Stop()
	for {
		if err := s.registered.RemoveUnused(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.Error("clients that no one uses are not removed; trying again", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
