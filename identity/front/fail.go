package front

import (
	"context"
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// NewID returns a random identifier of 256 bits, for the cookies that bind and recognise a browser.
func (s *Service) NewID() (string, error) { return secret.ID(s.random, 32) }

// fail answers and logs an error that is not the person's fault: 503 when storage fails or there is too much to do,
// otherwise 500. session.ErrClosed is a 403.
func (s *Service) fail(q *Request, err error) {
	status, key := http.StatusInternalServerError, "error.internal"
	if errors.Is(err, session.ErrClosed) {
		s.log.Info("sign-in refused", zap.String("path", q.URL.Path), zap.NamedError("cause", err))
		s.pages.Error(q.W, q.Request, http.StatusForbidden, "error.closed", "")
		return
	}
	if errors.Is(err, secret.ErrBusy) || errors.Is(err, ErrTooMany) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) || storage.IsFailure(err) {
		status, key = http.StatusServiceUnavailable, "error.unavailable"
	}
	ref := s.pages.Error(q.W, q.Request, status, key, q.Again)
	s.log.Error("request failed", zap.String("path", q.URL.Path), zap.Int("status", status), zap.String("ref", ref), zap.Error(err))
}
