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

// Fail answers what is not the person's doing: 503 when we cannot tell or too much is asked at once, otherwise 500. It logs once.
func (s *Service) Fail(w http.ResponseWriter, r *http.Request, err error, again string) {
	status, key := http.StatusInternalServerError, "error.internal"
	if errors.Is(err, session.ErrClosed) {
		s.log.Info("sign-in refused", zap.String("path", r.URL.Path), zap.NamedError("cause", err))
		s.pages.Error(w, r, http.StatusForbidden, "error.closed", "")
		return
	}
	if errors.Is(err, secret.ErrBusy) || errors.Is(err, ErrTooMany) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || storage.IsFailure(err) {
		status, key = http.StatusServiceUnavailable, "error.unavailable"
	}
	ref := s.pages.Error(w, r, status, key, again)
	s.log.Error("request failed", zap.String("path", r.URL.Path), zap.Int("status", status), zap.String("ref", ref), zap.Error(err))
}
