package authz

import (
	"context"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/storage"
)

// What identity calls when sessions end.

// SessionEnded queues the logout tokens of a session, in the transaction that ends it.
func (s *Server) SessionEnded(tx storage.Tx, person, session string) error {
	return s.visits.SessionEnded(tx, person, session)
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

// Run does the work of the background until ctx ends. Several servers of one store can run at a time.
func (s *Server) Run(ctx context.Context) error {
	if err := s.visits.Send(ctx); err != nil && ctx.Err() == nil {
		s.deps.Log.Error("logout tokens not sent at the start; the worker and the next start try again", zap.Error(err))
	}
	s.visits.Run(ctx)
	return nil
}
