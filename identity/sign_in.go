package identity

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// showSignIn serves GET /sign-in?flow=…: the sign-in page, or the choice of an account. Who has signed in meanwhile (in another tab, or
// came back by the back button) goes on. Without a flow it starts one.
func (s *Service) showSignIn(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("flow") == "" {
		s.startSignIn(w, r)
		return
	}
	id, f, ok := s.Front.Flow(w, r)
	if !ok {
		return
	}
	si, err := s.Session.Read(r)
	if err != nil {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	if si != nil && s.Front.Satisfies(si, f.Demand) {
		s.Front.Redirect(w, r, f.Demand.Return)
		return
	}
	other := r.URL.Query().Get("other") != "" // the person asked for another account
	if si != nil && !other && s.Front.Meets(si, f.Demand) {
		st, err := s.StepUp.StandingOf(r.Context(), si)
		if err != nil {
			s.Front.Fail(w, r, err, front.FlowURL(id))
			return
		}
		if st.Can(f.Demand.Level) {
			s.Front.Redirect(w, r, stepup.URL(id))
			return
		}
	}
	if si != nil && f.Demand.SelectAccount && !s.Front.Chosen(si, f.Demand) && !other {
		s.showChoice(w, r, id, f, si)
		return
	}
	u, err := s.Person.Settings(r.Context())
	if err == nil && !u.Features.LoginEnabled {
		err = session.ErrClosed
	}
	if err != nil {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	known, err := s.Federation.Current(r.Context())
	if err != nil {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	in, ways := page.SignIn{Username: f.Username()}, known.Ways(f.Demand)
	if other {
		in.Username = ""
	}
	if p := cmp.Or(ways.Straight, ways.ByUsername(in.Username)); p != nil && r.URL.Query().Get("choose") == "" && (!other || ways.Alone()) {
		s.Front.Redirect(w, r, federation.ProviderURL(id, p.ID))
		return
	}
	if to := s.loginElsewhere(u, r, id, f); to != "" {
		s.Front.LeaveTo(w, r, to)
		return
	}
	if in.Username == "" && si != nil && !other && si.Session.Provider == session.LocalProvider {
		in.Username = si.Person.Username // asked to sign in again
	}
	s.signInPage(w, r, id, f, ways, http.StatusOK, in)
}

// startSignIn begins a sign-in that nobody but the person has asked for. The parameter redirect may name a path of ours or a whitelisted URL to
// go to afterwards.
func (s *Service) startSignIn(w http.ResponseWriter, r *http.Request) {
	u, err := s.Person.Settings(r.Context())
	if err != nil {
		s.Front.Fail(w, r, err, "/sign-in")
		return
	}
	wanted := front.Allowed(u, r.URL.Query().Get("redirect"))
	to := front.Landing(u, wanted)
	d := login.Demand{MaxAge: -1, Return: page.LocalPath(to)}
	if d.Return == "" { // elsewhere, by way of here
		d.Return, d.Client.Targets = "/sign-in", front.TargetsOf(to)
		if wanted != "" {
			d.Return += "?" + url.Values{"redirect": {wanted}}.Encode()
		}
	}
	switch _, err := s.Authenticate(w, r, d); {
	case err == nil:
		s.Front.LeaveTo(w, r, to)
	case !errors.Is(err, login.ErrResponded):
		s.Front.FailSignIn(w, r, err, "/sign-in")
	}
}

// signInPage writes the form, with the providers that can be used instead. Where a username may lead to a provider it is asked for first.
func (s *Service) signInPage(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, ways *federation.Ways, status int, in page.SignIn) {
	in.Action = front.FlowURL(id)
	in.CSRF = s.pages.CSRF(s.jar.Get(r, cookie.KindBrowser), "sign_in:"+id)
	in.CanRemember = s.Session.OffersRemember()
	in.Cancel = page.LocalPath(f.Demand.Cancel)
	in.NoForm = !ways.Password && !ways.HasDomains()
	in.NoPassword = !ways.Password || (ways.HasDomains() && (in.Username == "" || in.Problem == "problem.username"))
	last := s.Federation.LastUsed(r)
	for _, p := range ways.Providers {
		b := page.Provider{Name: p.Name, URL: federation.ProviderURL(id, p.ID), Icon: s.pages.Icon(p.ID), Last: p.ID == last}
		if b.Last {
			in.Providers = append([]page.Provider{b}, in.Providers...)
		} else {
			in.Providers = append(in.Providers, b)
		}
	}
	var err error
	if in.Passkey, err = s.offerPasskey(r, id, ways); err == nil {
		var u *config.Units
		if u, err = s.Person.Settings(r.Context()); err == nil {
			s.Enrol.OfferLinks(u, id, &in)
		}
	}
	if err != nil {
		s.Front.Fail(w, r, err, in.Action)
		return
	}
	s.pages.Render(w, r, s.Front.View(f.Demand, "sign_in", status, in))
}

// handleSignIn serves POST /sign-in?flow=….
func (s *Service) handleSignIn(w http.ResponseWriter, r *http.Request) {
	id, f, ok := s.Front.Flow(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), "sign_in:"+id); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, front.FlowURL(id))
		return
	}
	if err := s.Front.IsOpen(r.Context()); err != nil {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	username, password := strings.TrimSpace(r.PostForm.Get("username")), r.PostForm.Get("password")
	in := page.SignIn{Username: username, Remember: r.PostForm.Get("remember") != ""}
	if !person.IsText(username, person.MaxUsername) {
		in.Username = "" // not shown again, but refused like any other
	}
	known, err := s.Federation.Current(r.Context())
	if err != nil {
		s.Front.Fail(w, r, err, front.FlowURL(id))
		return
	}
	ways := known.Ways(f.Demand)
	_, full := r.PostForm["password"]
	switch {
	case username == "":
		in.Problem = "problem.username"
	case !full:
		s.handleUsername(w, r, id, f, ways, in)
		return
	case !ways.Password:
		in.Problem = "problem.domain"
	case password == "":
		in.Problem = "problem.password"
	}
	if in.Problem != "" {
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
		return
	}
	p, wait, err := s.Proof.ProvePassword(r, proof.TypedPassword{Username: username, Password: password, Client: f.Demand.Client.ID, Activates: true})
	if err == nil && wait == 0 {
		err = s.Front.Succeed(w, r, f, in.Remember, p)
	}
	inactive := new(person.InactiveError)
	switch {
	case errors.As(err, &inactive):
		q := &front.Request{Request: r, W: w}
		s.Front.Render(q, s.Enrol.LeadToActivation(q, id, inactive))
	case err == nil && wait > 0:
		in.Problem, in.Wait = "problem.wait", front.RetryAfter(w, wait)
		s.signInPage(w, r, id, f, ways, http.StatusTooManyRequests, in)
	case err == nil:
		s.Front.Enter(w, r, id, f)
	case errors.Is(err, person.ErrMismatch):
		in.Problem = "problem.mismatch"
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
	default:
		s.Front.Fail(w, r, err, front.FlowURL(id))
	}
}

// handleUsername takes the first of two steps: the domain of an e-mail address may lead to a provider, otherwise the password is asked for. The
// username is kept in the flow, since addresses are logged.
func (s *Service) handleUsername(w http.ResponseWriter, r *http.Request, id string, f front.FlowRecord, ways *federation.Ways, in page.SignIn) {
	p := ways.ByUsername(in.Username)
	if in.Username == "" || (p == nil && !ways.Password) {
		in.Problem = "problem.domain"
		s.signInPage(w, r, id, f, ways, http.StatusUnprocessableEntity, in)
		return
	}
	f.Typed = in.Username
	err := s.store.Update(r.Context(), func(tx storage.Tx) error { return front.FlowRecords.Put(tx, id, f, f.ExpiresAt.Add(front.FlowMemory)) })
	switch {
	case err != nil:
		s.Front.Fail(w, r, err, front.FlowURL(id))
	case p != nil:
		s.Front.Redirect(w, r, federation.ProviderURL(id, p.ID)+"&hop=1")
	default:
		s.Front.Redirect(w, r, front.FlowURL(id)+"&choose=1")
	}
}
