package identity

import (
	"cmp"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const signInWaitPath = "/sign-in/wait"

// goIn leads on a person who has just signed in: by way of the page that asks for what is missing, where it is switched on and nobody has said that
// there are to be no pages. The session is open by now, so that nothing that goes wrong here may end in an error.
func (s *Service) goIn(w http.ResponseWriter, r *http.Request, flow string, f flowRecord) {
	u, err := s.configured(r.Context())
	if err == nil && asksMore(u) && !f.Demand.Passive {
		if flow == "" { // nobody has asked for the sign-in
			flow, err = s.newFlow(w, r, f.Demand)
		}
		if err == nil {
			s.redirect(w, r, completeURL(flow))
			return
		}
	}
	if err != nil {
		s.Log.Error("nobody is asked for what is missing", zap.Error(err))
	}
	s.leadOn(w, r, flow, f)
}

// leadOn leads on a person of whom nothing is asked any more: by way of the page that says so, where it is switched on.
func (s *Service) leadOn(w http.ResponseWriter, r *http.Request, flow string, f flowRecord) {
	if f.Elsewhere != "" {
		s.sendOn(w, r, f.Elsewhere)
		return
	}
	u, err := s.configured(r.Context())
	if err != nil {
		s.Log.Error("the page that one waits at is not shown", zap.Error(err))
	}
	if err == nil && flow != "" && u.Redirects.ShowWaitPageWhileLoggingIn {
		s.redirect(w, r, signInWaitPath+"?"+url.Values{"flow": {flow}}.Encode())
		return
	}
	s.redirect(w, r, f.Demand.Return)
}

// showSignInWait serves GET /sign-in/wait?flow=…: the browser goes on by itself to what asked for the sign-in, and shows this until it answers.
func (s *Service) showSignInWait(w http.ResponseWriter, r *http.Request) {
	_, f, ok := s.flow(w, r)
	if !ok {
		return
	}
	to := cmp.Or(page.LocalPath(f.Demand.Return), defaultReturn)
	s.Pages.Render(w, r, s.view(f.Demand, "forward", http.StatusOK, page.Forward{Name: cmp.Or(f.Demand.Client.Name, r.Host), To: to}))
}

const completePath = "/sign-in/complete"

func completeURL(flow string) string { return completePath + "?" + url.Values{"flow": {flow}}.Encode() }

// asksMore tells whether persons are asked, after a sign-in, for what is missing. (identity service document, FeaturesConfiguration)
func asksMore(u *config.Units) bool { return u.Features.PostLoginExtraRegistrationAfterSecondLogin }

// goInElsewhere is goIn for a sign-in that nobody has asked for on a page: to leads anywhere that is known to be good.
func (s *Service) goInElsewhere(w http.ResponseWriter, r *http.Request, to string) {
	u, err := s.configured(r.Context())
	if err == nil && asksMore(u) {
		var id string
		if id, err = s.newFlow(w, r, login.Demand{MaxAge: -1, Return: cmp.Or(page.LocalPath(to), defaultReturn), Client: login.Client{Targets: targetsOf(to)}}); err == nil {
			err = s.changeFlow(r.Context(), id, func(f *flowRecord) { f.Elsewhere = to })
		}
		if err == nil {
			s.redirect(w, r, completeURL(id))
			return
		}
	}
	if err != nil {
		s.Log.Error("nobody is asked for what is missing", zap.Error(err))
	}
	s.sendOn(w, r, to)
}
