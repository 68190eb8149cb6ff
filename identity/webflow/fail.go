package webflow

import (
	"context"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// NewID returns a random identifier of 256 bits, for the cookies that bind and recognise a browser.
func (s *Service) NewID() (string, error) { return secret.ID(s.deps.Random, 32) }

// fail answers and logs an error that is not the person's fault: 503 when storage fails or there is too much to do,
// otherwise 500. session.ErrClosed is a 403.
func (s *Service) fail(q *Request, err error) {
	status, key, reason := http.StatusInternalServerError, "error.internal", denial.Internal
	if errors.Is(err, session.ErrClosed) {
		s.Refuse(q, denial.Refusal{Where: denial.SignIn, Reason: denial.SignInClosed, Status: http.StatusForbidden}, err)
		s.deps.Pages.Error(q.W, q.Request, http.StatusForbidden, "error.closed", "")
		return
	}
	if errors.Is(err, secret.ErrBusy) || errors.Is(err, ErrTooMany) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) || storage.IsFailure(err) {
		status, key, reason = http.StatusServiceUnavailable, "error.unavailable", denial.Unavailable
	}
	if errors.Is(err, ErrTooMany) {
		reason = denial.TooManyBegun
	}
	s.Refuse(q, denial.Refusal{Reason: reason, Status: status}, err)
	s.deps.Pages.Error(q.W, q.Request, status, key, q.Again)
}
