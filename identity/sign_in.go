package identity

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const signInPath = "/sign-in"

// signIn is a request of the sign-in page: its flow and the ways to sign in for it.
type signIn struct {
	*webflow.Request

	id   string // of the flow
	flow webflow.FlowRecord
	ways *federation.Ways
	// signals tells the browser about passkeys. (web.View)
	signals string
}

// signInOf reads the sign-in that a request names.
func (s *Service) signInOf(q *webflow.Request) (*signIn, error) {
	id, f, err := s.Front.FlowIn(q)
	if err != nil {
		return nil, err
	}
	q.Again = webflow.FlowURL(id)
	known, err := s.Federation.Registry(q.Context(), q.Settings)
	if err != nil {
		return nil, err
	}
	return &signIn{Request: q, id: id, flow: f, ways: known.Ways(f.Demand).At(s.origin(q.Request).ClientIP)}, nil
}

// signInPost is signInOf for a POST of a form of the sign-in page, while signing in is switched on.
func (s *Service) signInPost(q *webflow.Request, form string) (*signIn, error) {
	x, err := s.signInOf(q)
	if err != nil {
		return nil, err
	}
	if err := s.Front.CheckForm(q, form+":"+x.id, q.Again); err != nil {
		return nil, err
	}
	if !q.Settings.Features.LoginEnabled {
		return nil, session.ErrClosed
	}
	return x, nil
}

// showSignIn serves GET /sign-in?flow=…: the sign-in page, or the choice of an account. A person who has signed in
// meanwhile (in another tab, or who returned by the back button) continues. Without a flow it starts one.
func (s *Service) showSignIn(q *webflow.Request) error {
	params := q.URL.Query()
	if params.Get("flow") == "" {
		return s.startSignIn(q)
	}
	x, err := s.signInOf(q)
	if err != nil {
		return err
	}
	d, other := x.flow.Demand, params.Get("other") != "" // other: the person asked for another account
	if q.SignIn != nil {
		switch to, err := s.continueAs(x, other); {
		case err != nil:
			return err
		case to != "":
			return q.Redirect(to)
		case d.SelectAccount && !s.Front.Chosen(q.SignIn, d) && !other:
			return s.showChoice(x)
		}
	}
	if !q.Settings.Features.LoginEnabled {
		return session.ErrClosed
	}
	var in web.SignIn
	if !other {
		in.Username = x.flow.Username()
	}
	if p := cmp.Or(x.ways.Straight, x.ways.ByUsername(in.Username)); p != nil && params.Get("choose") == "" && (!other || x.ways.Alone()) {
		return q.Redirect(federation.OnwardURL(q.Request, &d, x.id, p.ID))
	}
	if x.ways.PhoneAlone() {
		return q.Redirect(federation.PhoneURL(x.id, ""))
	}
	if to := s.externalSignIn(x); to != nil {
		if webflow.CanKeep(q.Request, &d) && params.Get("hop") == "" {
			s.pages.Render(q.W, q.Request,
				s.Front.View(d, "forward", http.StatusOK, web.Forward{Name: to.Host, To: webflow.FlowURL(x.id) + "&hop=1"}))
			return nil
		}
		return q.LeaveTo(web.WithoutFragment(to.String()))
	}
	if in.Username == "" && q.SignIn != nil && !other && q.SignIn.Session.Provider == session.LocalProvider {
		in.Username = q.SignIn.Person.Username // asked to sign in again
	}
	return s.signInPage(x, http.StatusOK, in)
}

// continueAs returns the address at which a signed-in browser continues, or "" if it has to sign in again.
func (s *Service) continueAs(x *signIn, other bool) (string, error) {
	d := x.flow.Demand
	if other && x.SignIn.Session.AuthTime.Before(x.flow.CreatedAt) {
		return "", nil // even if it was for this very destination
	}
	if s.Front.Satisfies(x.SignIn, d) {
		return cmp.Or(d.Return, person.DefaultReturn), nil
	}
	if other || !s.Front.Meets(x.SignIn, d) {
		return "", nil
	}
	standing, err := s.StepUp.StandingOf(x.Context(), x.SignIn)
	if err != nil || !standing.Can(d.Level) {
		return "", err
	}
	return mfa.URL(x.id), nil
}

// startSignIn begins a sign-in that no application has asked for. The parameter redirect may name one of our paths or a
// whitelisted URL to go to afterwards.
func (s *Service) startSignIn(q *webflow.Request) error {
	q.Again = signInPath
	wanted := webflow.Allowed(q.Settings, q.URL.Query().Get("redirect"))
	to := webflow.Landing(q.Settings, wanted)
	d := authn.Demand{MaxAge: -1, Return: web.LocalPath(to)}
	if d.Return == "" { // on another site, by way of this page
		d.Return, d.Client.Targets = signInPath, webflow.TargetsOf(to)
		if wanted != "" {
			d.Return += "?" + url.Values{"redirect": {wanted}}.Encode()
		}
	}
	if q.SignIn != nil && q.URL.Query().Get("other") != "" {
		return s.startOther(q, d)
	}
	if _, err := s.AuthenticateRequest(q, d); err != nil {
		return webflow.SignInError(err, signInPath)
	}
	return q.LeaveTo(to)
}

// startOther begins a sign-in with another account. The current account stays signed in until that is done.
func (s *Service) startOther(q *webflow.Request, d authn.Demand) error {
	known, err := s.Federation.Registry(q.Context(), q.Settings)
	if err != nil {
		return err
	}
	d.SelectAccount, d.NotBefore = true, s.now()
	id, err := s.Front.NewFlow(q.W, q.Request, known.OfService(d))
	if err != nil {
		return err
	}
	return q.Redirect(webflow.AnotherInFlow(id))
}

// signInPage writes the form, with the providers that can be used instead. Where a username can lead to a provider, the
// form asks for it first.
func (s *Service) signInPage(x *signIn, status int, in web.SignIn) (err error) {
	in.Action = webflow.FlowURL(x.id)
	if in.CSRF, err = s.Front.FormToken(x.Request, "sign_in:"+x.id); err != nil {
		return err
	}
	in.CanRemember = s.Session.OffersRemember()
	in.Cancel = web.LocalPath(x.flow.Demand.Cancel)
	in.NoForm = !x.ways.Password && !x.ways.HasDomains()
	in.NoPassword = !x.ways.Password || (x.ways.HasDomains() && (in.Username == "" || in.Problem == "problem.username"))
	in.Method, in.Upgrade = x.Settings.OwnName(), !in.NoPassword && s.StepUp.Passkeys.Upgrades()
	last := s.Federation.LastUsed(x.Request.Request)
	var logos map[string]*web.Image
	if len(x.ways.Providers) > 0 {
		logos = s.pages.ProviderLogos(x.Context())
	}
	for _, p := range x.ways.Providers {
		b := web.Provider{Name: p.Name, URL: federation.ProviderURL(x.id, p.ID), Logo: logos[p.ID], Last: p.ID == last}
		if b.Last {
			in.Providers = slices.Insert(in.Providers, 0, b)
		} else {
			in.Providers = append(in.Providers, b)
		}
	}
	if x.ways.PhoneShown {
		in.PhoneURL = federation.PhoneURL(x.id, "")
	}
	if in.Passkey, err = s.offerPasskey(x); err != nil {
		return err
	}
	s.SignUp.OfferLink(x.Settings, x.id, &in)
	s.Recovery.OfferLinks(x.Settings, x.id, &in)
	v := s.Front.View(x.flow.Demand, "sign_in", status, in)
	v.Signals = x.signals
	s.pages.Render(x.W, x.Request.Request, v)
	return nil
}

// signInProblem writes the form again, with the problem.
func (s *Service) signInProblem(x *signIn, in web.SignIn, problem string) error {
	in.Problem = problem
	return s.signInPage(x, http.StatusUnprocessableEntity, in)
}

// afterPassword continues a sign-in after a correct password. If the browser says that it can make a passkey without
// asking, the page that does so comes first.
func (s *Service) afterPassword(x *signIn, personID string) error {
	if x.PostForm.Get("upgrade") == "yes" {
		page, err := s.StepUp.Upgrade(x.Context(), x.id, personID)
		if err != nil {
			return err
		}
		if page != "" {
			return x.Redirect(page)
		}
	}
	return s.Front.Finish(x.Request, x.id, x.flow)
}

// handleSignIn serves POST /sign-in?flow=….
func (s *Service) handleSignIn(q *webflow.Request) error {
	x, err := s.signInPost(q, "sign_in")
	if err != nil {
		return err
	}
	username, password := strings.TrimSpace(q.PostForm.Get("username")), q.PostForm.Get("password")
	in := web.SignIn{Username: username, Remember: q.PostForm.Get("remember") != ""}
	if !person.IsText(username, person.MaxUsername) {
		in.Username = "" // not shown again, but refused like any other
	}
	switch {
	case username == "":
		return s.signInProblem(x, in, "problem.username")
	case !q.PostForm.Has("password"):
		return s.handleUsername(x, in)
	case !x.ways.Password:
		return s.signInProblem(x, in, "problem.domain")
	case password == "":
		return s.signInProblem(x, in, "problem.password")
	}
	p, err := s.Proof.ProvePassword(q.Request,
		challenge.TypedPassword{Username: username, Password: password, Client: x.flow.Demand.Client.ID, Activates: true})
	if err == nil {
		err = s.Front.Succeed(q.W, q.Request, x.flow, in.Remember, p)
	}
	inactive, throttled := new(person.InactiveError), new(authn.ThrottledError)
	switch {
	case err == nil:
		return s.afterPassword(x, p.Account.ID)
	case errors.As(err, &inactive) && x.Settings.ActivatesByPassword() && inactive.Account.Person.AwaitsNow():
		return s.Activation.ActivateByPassword(q, x.id, x.flow, inactive)
	case errors.As(err, &inactive):
		return s.Activation.LeadToActivation(q, x.id, inactive)
	case errors.As(err, &throttled):
		in.Problem, in.Wait = "problem.wait", webflow.RetryAfter(q.W, throttled.Wait)
		return s.signInPage(x, http.StatusTooManyRequests, in)
	case errors.As(err, new(*person.StateError)):
		in.Problem = "problem.blocked"
		return s.signInPage(x, http.StatusForbidden, in)
	case errors.Is(err, person.ErrPlanted):
		return webflow.PlantedPassword(webflow.FlowURL(x.id))
	case errors.Is(err, person.ErrMismatch):
		return s.signInProblem(x, in, "problem.mismatch")
	case errors.Is(err, challenge.ErrFallbackDown):
		in.Problem = "problem.elsewhere"
		return s.signInPage(x, http.StatusServiceUnavailable, in)
	default:
		return err
	}
}

// handleUsername takes the first of two steps: the domain of an e-mail address can lead to a provider, otherwise the
// password is asked for. The username is stored in the flow, since addresses are logged.
func (s *Service) handleUsername(x *signIn, in web.SignIn) error {
	p := x.ways.ByUsername(in.Username)
	if in.Username == "" || (p == nil && !x.ways.Password) {
		return s.signInProblem(x, in, "problem.domain")
	}
	if err := s.Front.ChangeFlow(x.Context(), x.id, func(f *webflow.FlowRecord) { f.Typed = in.Username }); err != nil {
		return err
	}
	if p != nil {
		return x.Redirect(federation.ProviderURL(x.id, p.ID) + "&hop=1")
	}
	return x.Redirect(webflow.FlowURL(x.id) + "&choose=1")
}
