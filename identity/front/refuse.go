package front

import (
	"context"

	"github.com/gatehouse-id/gatehouse/internal/refusal"
)

// reasons of the pages of errors, by their keys. A page without a reason is no refusal, such as one that is not found.
var reasons = map[string]refusal.Reason{
	"error.answer":            refusal.ProviderAnswer,
	"error.bad_request":       refusal.Malformed,
	"error.client":            refusal.ClientUnknown,
	"error.closed":            refusal.SignInClosed,
	"error.console":           refusal.NotAllowed,
	"error.coupled":           refusal.IdentityRefused,
	"error.denied":            refusal.NotAllowed,
	"error.expired":           refusal.FlowExpired,
	"error.forbidden":         refusal.FormRefused,
	"error.identity":          refusal.IdentityRefused,
	"error.invitation_locked": refusal.Throttled,
	"error.level":             refusal.NoSecondFactor,
	"error.link":              refusal.LinkInvalid,
	"error.no_idp":            refusal.ProviderNotOffered,
	"error.phone":             refusal.LinkInvalid,
	"error.prompt":            refusal.LinkInvalid,
	"error.refused":           refusal.ProviderRefused,
	"error.unavailable":       refusal.Unavailable,
	"error.wait":              refusal.Throttled,
}

// Refuse records why the request is refused, before it is answered. The page shows the reference. Of several refusals
// of one request the first one counts.
func (s *Service) Refuse(q *Request, why refusal.Refusal, cause error) {
	s.RefuseIn(q.Context(), why, cause)
}

// RefuseIn is Refuse for the context of a request.
func (s *Service) RefuseIn(ctx context.Context, why refusal.Refusal, cause error) {
	s.refused.Refuse(ctx, s.log, why, cause)
}

// Entered logs and counts a sign-in, once it is stored.
func (s *Service) Entered(ctx context.Context, e refusal.Entry) { s.refused.Entered(ctx, s.log, e) }

// Raised logs and counts a step-up of the request's person, once it is stored.
func (s *Service) Raised(q *Request, e refusal.Entry) {
	e.StepUp, e.PersonID, e.Username, e.Provider = true, q.SignIn.Session.PersonID, q.SignIn.Person.Username, q.SignIn.Session.Provider
	s.Entered(q.Context(), e)
}

// introduce notes who makes the request, and for which application.
func (q *Request) introduce() {
	refusal.Learn(q.Context(), func(f *refusal.Refusal) {
		if q.SignIn != nil {
			f.PersonID, f.Username, f.Level = q.SignIn.Session.PersonID, q.SignIn.Person.Username, q.SignIn.Session.Level
		}
		if q.flow != nil && f.ClientID == "" {
			f.ClientID = q.flow.Demand.Client.ID
		}
	})
}
