package front

import (
	"cmp"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const signInWaitPath = "/sign-in/wait"

// Enter leads on a person who has just signed in: by way of the page that asks for what is missing, where it is switched on and nobody has said that
// there are to be no pages. The session is open by now, so that nothing that goes wrong here may end in an error.
func (s *Service) Enter(w http.ResponseWriter, r *http.Request, flow string, f FlowRecord) {
	u, err := s.person.Settings(r.Context())
	if err == nil && AsksMore(u) && !f.Demand.Passive {
		if flow == "" { // nobody has asked for the sign-in
			flow, err = s.NewFlow(w, r, f.Demand)
		}
		if err == nil {
			s.Redirect(w, r, CompleteURL(flow))
			return
		}
	}
	if err != nil {
		s.log.Error("nobody is asked for what is missing", zap.Error(err))
	}
	s.Continue(w, r, flow, f)
}

// Continue leads on a person of whom nothing is asked any more: by way of the page that says so, where it is switched on.
func (s *Service) Continue(w http.ResponseWriter, r *http.Request, flow string, f FlowRecord) {
	if f.Elsewhere != "" {
		s.LeaveTo(w, r, f.Elsewhere)
		return
	}
	u, err := s.person.Settings(r.Context())
	if err != nil {
		s.log.Error("the page that one waits at is not shown", zap.Error(err))
	}
	if err == nil && flow != "" && u.Redirects.ShowWaitPageWhileLoggingIn {
		s.Redirect(w, r, signInWaitPath+"?"+url.Values{"flow": {flow}}.Encode())
		return
	}
	s.Redirect(w, r, f.Demand.Return)
}

// ContinueIn is Continue for a request that has the settings.
func (s *Service) ContinueIn(q *Request, flow string, f FlowRecord) error {
	switch {
	case f.Elsewhere != "":
		return q.LeaveTo(f.Elsewhere)
	case flow != "" && q.Settings.Redirects.ShowWaitPageWhileLoggingIn:
		return q.Redirect(signInWaitPath + "?" + url.Values{"flow": {flow}}.Encode())
	}
	return q.Redirect(f.Demand.Return)
}

// showSignInWait serves GET /sign-in/wait?flow=…: the browser goes on by itself to what asked for the sign-in, and shows this until it answers.
func (s *Service) showSignInWait(w http.ResponseWriter, r *http.Request) {
	_, f, ok := s.Flow(w, r)
	if !ok {
		return
	}
	to := cmp.Or(page.LocalPath(f.Demand.Return), person.DefaultReturn)
	s.pages.Render(w, r, s.View(f.Demand, "forward", http.StatusOK, page.Forward{Name: cmp.Or(f.Demand.Client.Name, r.Host), To: to}))
}

const CompletePath = "/sign-in/complete"

func CompleteURL(flow string) string { return CompletePath + "?" + url.Values{"flow": {flow}}.Encode() }

// AsksMore tells whether persons are asked, after a sign-in, for what is missing. (identity service document, FeaturesConfiguration)
func AsksMore(u *config.Units) bool { return u.Features.PostLoginExtraRegistrationAfterSecondLogin }

// EnterElsewhere is Enter for a sign-in that no application asked for: to is known to be good, and can be anywhere.
func (s *Service) EnterElsewhere(q *Request, to string) error {
	if AsksMore(q.Settings) {
		d := login.Demand{MaxAge: -1, Return: cmp.Or(page.LocalPath(to), person.DefaultReturn), Client: login.Client{Targets: TargetsOf(to)}}
		id, err := s.NewFlow(q.W, q.Request, d)
		if err == nil {
			err = s.ChangeFlow(q.Context(), id, func(f *FlowRecord) { f.Elsewhere = to })
		}
		if err == nil {
			return q.Redirect(CompleteURL(id))
		}
		s.log.Error("nobody is asked for what is missing", zap.Error(err))
	}
	return q.LeaveTo(to)
}
