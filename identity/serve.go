package identity

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/account"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/handover"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/uservalues"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// registerHooks tells each package below what the others do when something happens in it.
func (s *Service) registerHooks() {
	s.Person.OnRemove(s.Session.ForgetSessions)
	s.Person.OnRemove(uservalues.Forget)
	s.Person.OnRemove(handover.Forget)
	s.Person.OnRemove(mfa.ForgetStepUp)
	s.Person.OnRemove(s.ServiceProviders.Forget)
	s.Person.OnRemove(trustedbrowser.EndAll)
	s.Session.OnFactor(trustedbrowser.EndAll)
	s.Person.Watch(s.ServiceProviders.WithWatcher(s.Person.Watcher()))
	s.Person.OnChange(s.StepUp.LowerReached)
	s.Person.OnPassword(s.Session.KeepSession)
	s.Person.NameProvidersBy(s.Federation.ProviderName)
	s.Federation.LeaveBy(s.ServiceProviders.Ending)
	s.Session.TrustBy(s.Federation.Trusts)
	s.Session.CountBy(s.Federation.SignsIn)
	s.Session.OnForget(mfa.ForgetSetUps)
	s.Session.OnForget(account.ForgetNewContact)
	s.Front.AuthenticateBy(s)
	s.Front.ProtectBy(s.StepUp.Protects)
	s.Account.AskBy(func(u *settings.Units) string { return s.secondFactor(u, "", "") })
	s.pages.SetPerson(s.account)
	s.Federation.RaiseBy(federation.StepUps{
		Reachable: s.StepUp.Reachable, Passkeys: s.StepUp.HasPasskeys,
		SetUpLevel: s.StepUp.SetUpLevel, Phone: s.QRLogin.Level,
	})
	s.Federation.OnArrival(account.IsOwnCoupling, s.Account.CoupleOwn)
	s.StepUp.AddSections(account.PasswordSection)
	s.StepUp.AddSections(s.StepUp.MethodSections()...)
	s.StepUp.AddSections(s.Account.IdentitiesSection)
	s.StepUp.AddSections(s.Account.AppPasswordsSection)
	s.Proof.SetTerms(challenge.DeliveredStepUp, mfa.StepUpDelivery)
	s.Proof.SetLinkPath(mfa.LinkPINReset, mfa.PINResetPath)
}

// ServeHTTP answers the paths of routes.go and 404 for others. A panic becomes a 500 page with a reference, or aborts
// an answer that has begun.
func (s *Service) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w := &web.Begun{ResponseWriter: out}
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		s.panics.Add(1)
		stack, ref := debug.Stack(), ""
		defer func() {
			s.log.Error("panic in a handler", zap.String("ref", ref), zap.String("type", fmt.Sprintf("%T", v)), zap.ByteString("stack", stack))
		}()
		w.AbortBegun()
		ref = s.pages.Error(w, r, http.StatusInternalServerError, "error.internal", "")
	}()
	s.mux.ServeHTTP(w, r)
}

// Panics returns how many panics the handlers have met.
func (s *Service) Panics() int64 { return s.panics.Load() }
