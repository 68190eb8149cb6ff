package identity

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/account"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
)

// tie tells each room what the others do when something happens in it.
func (s *Service) tie() {
	s.Person.OnRemove(s.Session.ForgetSessions)
	s.Person.OnRemove(stepup.ForgetStepUp)
	s.Person.OnChange(s.StepUp.LowerReached)
	s.Person.OnPassword(s.Session.KeepSession)
	s.Person.NameProvidersBy(s.Federation.ProviderName)
	s.Session.OnForget(stepup.ForgetSetUps)
	s.Session.OnForget(account.ForgetNewContact)
	s.Front.AuthenticateBy(s)
	s.Federation.RaiseBy(federation.StepUps{Reachable: s.StepUp.Reachable, Passkeys: s.StepUp.HasPasskeys, SetUpLevel: s.StepUp.SetUpLevel})
	s.Federation.OnArrival(account.IsOwnCoupling, s.Account.CoupleOwn)
	s.StepUp.AddSections(account.PasswordSection)
	s.StepUp.AddSections(s.StepUp.MethodSections()...)
	s.StepUp.AddSections(s.Account.IdentitiesSection)
	s.Proof.SetTerms(proof.DeliveredStepUp, stepup.StepUpDelivery)
	s.Proof.SetLinkPath(stepup.LinkPINReset, stepup.PINResetPath)
}

// ServeHTTP answers the paths of routes.go and 404 for others. A panic becomes a 500 page with a reference.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		s.panics.Add(1)
		ref := s.pages.Error(w, r, http.StatusInternalServerError, "error.internal", "")
		s.log.Error("panic in a handler", zap.String("ref", ref), zap.String("type", fmt.Sprintf("%T", v)), zap.ByteString("stack", debug.Stack()))
	}()
	s.mux.ServeHTTP(w, r)
}

// Panics returns how many panics the handlers have met.
func (s *Service) Panics() int64 { return s.panics.Load() }
