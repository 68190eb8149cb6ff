package identity

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// Authenticate returns the browser's sign-in when it satisfies d. Otherwise it stores d, bound to this browser, redirects to the sign-in page
// and returns login.ErrResponded, or returns a *login.Refusal. Any other error: we cannot tell.
func (s *Service) Authenticate(w http.ResponseWriter, r *http.Request, d login.Demand) (*login.Result, error) {
	q, err := s.Front.Load(w, r)
	if err != nil {
		return nil, err
	}
	return s.AuthenticateRequest(q, d)
}

// AuthenticateRequest is Authenticate for a request of a page of ours.
func (s *Service) AuthenticateRequest(q *front.Request, d login.Demand) (*login.Result, error) {
	w, r, si, u := q.W, q.Request, q.SignIn, q.Settings
	if !d.Passive && page.LocalPath(d.Return) == "" { // who asks without a page needs no way back
		return nil, errors.New("identity: Demand.Return is not a path of ours")
	}
	known, err := s.Federation.Registry(r.Context(), u)
	if err != nil {
		return nil, err
	}
	d = known.OfService(d)
	d.Level = max(d.Level, u.RequiredLevel(d.Client.ID))
	reader, ok := known.Reads(d)
	if !ok {
		return nil, &login.Refusal{Code: "access_denied", Reason: "the identity provider is not available"}
	}
	if reader != nil {
		switch id, err := reader.Reader.Read(r); {
		case err == nil:
			found, err := s.Federation.AuthenticateExternal(w, r, d, reader, id, si)
			return found, s.Front.AnswerClosed(w, r, d, err)
		case !errors.Is(err, idp.ErrNoIdentity):
			return nil, s.Federation.RefuseExternal(w, r, d, reader, err)
		}
		d = federation.WithoutIdentity(d, reader.ID)
	}
	if si != nil && s.Front.Satisfies(si, d) {
		s.Session.Use(r, si)
		return s.Federation.ResultFor(si, d), nil
	}
	if !u.Features.LoginEnabled {
		return nil, s.Front.AnswerClosed(w, r, d, session.ErrClosed)
	}
	if refusal, err := s.Federation.TakeRefusal(r, d); err != nil || refusal != nil {
		return nil, cmp.Or[error](err, refusal)
	}
	ways := known.Ways(d)
	if si != nil && s.Front.Meets(si, d) {
		if done, err := s.sendToStepUp(w, r, d, si, ways); done || err != nil {
			return nil, cmp.Or(err, login.ErrResponded)
		}
	} else if d.Level > max(session.PasswordLevel, known.Reach) && len(ways.Providers) == 0 && !(d.Passive && si == nil) {
		return nil, federation.Unreachable(d)
	}
	if d.Passive {
		// A provider may know the person without asking, which takes a redirect there and back.
		if ways.Straight == nil {
			return nil, &login.Refusal{Code: "login_required", Reason: "nobody is signed in, or not as is demanded"}
		}
		if d.Return == "" {
			return nil, &login.Refusal{Code: "login_required", Reason: "nobody is signed in, or not as is demanded", Elsewhere: true}
		}
	}
	if !ways.Password && !ways.Passkey && len(ways.Providers) == 0 {
		return nil, s.Federation.RefuseExternal(w, r, d, reader, idp.ErrNoIdentity)
	}
	id, err := s.Front.NewFlow(w, r, d)
	if err != nil {
		return nil, err
	}
	to := front.FlowURL(id)
	if ways.Straight != nil {
		to = federation.ProviderURL(id, ways.Straight.ID)
	}
	page.Redirect(w, to)
	return nil, login.ErrResponded
}

// sendToStepUp sends a browser whose sign-in is good but for its level to the page that raises it. It is not done where a provider may reach the
// level instead.
func (s *Service) sendToStepUp(w http.ResponseWriter, r *http.Request, d login.Demand, si *session.Current, ways *federation.Ways) (done bool, err error) {
	st, err := s.StepUp.StandingOf(r.Context(), si)
	if err != nil {
		return false, err
	}
	switch {
	case !st.Can(d.Level):
		// Who has just signed in for this would do so again and again.
		if len(ways.Providers) == 0 || (d.Return != "" && si.Session.SignedInFor == secret.Hash(d.Return)) {
			return false, federation.Unreachable(d)
		}
		return false, nil
	case d.Passive:
		return false, &login.Refusal{Code: "interaction_required", Reason: "the authentication level needs a step-up"}
	}
	id, err := s.Front.NewFlow(w, r, d)
	if err != nil {
		return false, err
	}
	page.Redirect(w, stepup.URL(id))
	return true, nil
}
