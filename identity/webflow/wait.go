package webflow

import (
	"cmp"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// CanKeep reports whether the browser that makes the request can keep what is after # in its address: it opens a page,
// and the demand has a name for it.
func CanKeep(r *http.Request, d *authn.Demand) bool {
	return d.Fragment != "" && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Dest") == "document"
}

const signInWaitPath = "/sign-in/wait"

// Finish redirects the browser after a sign-in: to the page that asks for missing details, where it is switched on and
// the demand allows pages, otherwise back to what asked for the sign-in. flow is "" where no request has stored one.
// The session is already open, so errors here are logged and never shown.
func (s *Service) Finish(q *Request, flow string, f FlowRecord) error {
	if AsksMore(q.Settings) && !f.Demand.Passive {
		var err error
		if flow == "" { // no page has asked for the sign-in
			flow, err = s.NewFlow(q.W, q.Request, f.Demand)
		}
		if err == nil {
			return q.Redirect(CompleteURL(flow))
		}
		s.deps.Log.Error("the person is not asked for missing details", zap.Error(err))
	}
	return s.Return(q, flow, f)
}

// Return redirects the browser to what asked for the sign-in, by way of the page that says so where it is switched on.
func (s *Service) Return(q *Request, flow string, f FlowRecord) error {
	switch {
	case f.Elsewhere != "":
		return q.LeaveTo(f.Elsewhere)
	case flow != "" && q.Settings.Redirects.ShowWaitPageWhileLoggingIn:
		return q.Redirect(signInWaitPath + "?" + url.Values{"flow": {flow}}.Encode())
	}
	return q.Redirect(f.Demand.Return)
}

// FinishElsewhere is Finish for a sign-in that no page has asked for: to is a trusted URL anywhere.
func (s *Service) FinishElsewhere(q *Request, to string) error {
	if !AsksMore(q.Settings) {
		return q.LeaveTo(to)
	}
	d := authn.Demand{MaxAge: -1, Return: cmp.Or(web.LocalPath(to), person.DefaultReturn), Client: authn.Client{Targets: TargetsOf(to)}}
	id, err := s.NewFlow(q.W, q.Request, d)
	if err == nil {
		err = s.ChangeFlow(q.Context(), id, func(f *FlowRecord) { f.Elsewhere = to })
	}
	if err != nil {
		s.deps.Log.Error("the person is not asked for missing details", zap.Error(err))
		return q.LeaveTo(to)
	}
	return q.Redirect(CompleteURL(id))
}

// showSignInWait serves GET /sign-in/wait?flow=…: the browser continues by itself to what asked for the sign-in, and
// shows this page until that answers.
func (s *Service) showSignInWait(q *Request) error {
	_, f, err := s.FlowIn(q)
	if err != nil {
		return err
	}
	to := cmp.Or(web.LocalPath(f.Demand.Return), person.DefaultReturn)
	s.deps.Pages.Render(q.W, q.Request,
		s.View(f.Demand, "forward", http.StatusOK, web.Forward{Name: cmp.Or(f.Demand.Client.Name, q.Host), To: to}))
	return nil
}

// CompletePath is the page that asks for missing details.
const CompletePath = "/sign-in/complete"

// CompleteURL is the address of that page for a flow.
func CompleteURL(flow string) string { return CompletePath + "?" + url.Values{"flow": {flow}}.Encode() }

// AsksMore reports whether people are asked for missing details after a sign-in. (identity service document,
// FeaturesConfiguration)
func AsksMore(u *settings.Units) bool { return u.Features.PostLoginExtraRegistrationAfterSecondLogin }
