package webflow

import (
	"context"

	"github.com/gatehouse-id/gatehouse/internal/denial"
)

// reasons of the pages of errors, by their keys. A page without a reason is no refusal, such as one that is not found.
var reasons = map[string]denial.Reason{
	"error.answer":            denial.ProviderAnswer,
	"error.bad_request":       denial.Malformed,
	"error.client":            denial.ClientUnknown,
	"error.closed":            denial.SignInClosed,
	"error.console":           denial.NotAllowed,
	"error.coupled":           denial.IdentityRefused,
	"error.denied":            denial.NotAllowed,
	"error.expired":           denial.FlowExpired,
	"error.forbidden":         denial.FormRefused,
	"error.identity":          denial.IdentityRefused,
	"error.invitation_locked": denial.Throttled,
	"error.level":             denial.NoSecondFactor,
	"error.link":              denial.LinkInvalid,
	"error.no_idp":            denial.ProviderNotOffered,
	"error.phone":             denial.LinkInvalid,
	"error.prompt":            denial.LinkInvalid,
	"error.refused":           denial.ProviderRefused,
	"error.unavailable":       denial.Unavailable,
	"error.wait":              denial.Throttled,
}

// Refuse records why the request is refused, before it is answered. The page shows the reference. Of several refusals
// of one request the first one counts.
func (s *Service) Refuse(q *Request, why denial.Refusal, cause error) {
	s.RefuseIn(q.Context(), why, cause)
}

// RefuseIn is Refuse for the context of a request.
func (s *Service) RefuseIn(ctx context.Context, why denial.Refusal, cause error) {
	s.deps.Refusals.Refuse(ctx, s.deps.Log, why, cause)
}

// Entered logs and counts a sign-in, once it is stored.
func (s *Service) Entered(ctx context.Context, e denial.Entry) {
	s.deps.Refusals.Entered(ctx, s.deps.Log, e)
}

// Raised logs and counts a step-up of the request's person, once it is stored.
func (s *Service) Raised(q *Request, e denial.Entry) {
	e.StepUp, e.PersonID, e.Username, e.Provider = true, q.SignIn.Session.PersonID, q.SignIn.Person.Username, q.SignIn.Session.Provider
	s.Entered(q.Context(), e)
}

// noteRequester notes who makes the request, and for which application.
func (q *Request) noteRequester() {
	denial.Learn(q.Context(), func(f *denial.Refusal) {
		if q.SignIn != nil {
			f.PersonID, f.Username, f.Level = q.SignIn.Session.PersonID, q.SignIn.Person.Username, q.SignIn.Session.Level
		}
		if q.flow != nil && f.ClientID == "" {
			f.ClientID = q.flow.Demand.Client.ID
		}
	})
}
