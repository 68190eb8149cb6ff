package identity

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/stepup"
	"github.com/gatehouse-id/gatehouse/identity/trusted"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/refusal"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Authenticate returns the browser's sign-in if it satisfies d. Otherwise it stores d, bound to this browser, redirects
// to the sign-in page and returns login.ErrResponded, or returns a *login.Refusal. Any other error: the sign-in is
// unknown.
func (s *Service) Authenticate(w http.ResponseWriter, r *http.Request, d login.Demand) (*login.Result, error) {
	q, err := s.Front.Load(w, r)
	if err != nil {
		return nil, err
	}
	result, err := s.AuthenticateRequest(q, d)
	if errors.As(err, new(*front.Answer)) {
		s.Front.Render(q, err)
		err = login.ErrResponded
	}
	return result, err
}

// authentication is a demand while it is answered.
type authentication struct {
	q        *front.Request
	demand   login.Demand
	known    *federation.Registry
	reader   *federation.Member // the provider that reads the request. nil: no such provider is demanded
	ways     *federation.Ways
	refusal  *login.Refusal // by the provider that the browser comes from
	standing *stepup.Standing
}

// authenticateSteps answer a demand, in this order. A step that returns neither a result nor an error leaves the answer
// to the next one; the last one always answers.
var authenticateSteps = []func(*Service, *authentication) (*login.Result, error){
	(*Service).checkReturn,    // a page needs a way back
	(*Service).findProviders,  // and the level that is needed
	(*Service).readIdentity,   // a provider that reads the request decides who is signed in
	(*Service).askSecondStep,  // and whether a second step is needed
	(*Service).acceptSession,  // the sign-in is good enough
	(*Service).checkOpen,      // everything below is a new sign-in or a step-up
	(*Service).trustBrowser,   // the sign-in is good enough but for its level, which the browser makes up for
	(*Service).passOnRefusal,  // a provider has just refused: its sign-in is not tried again
	(*Service).stepUp,         // the sign-in is good enough but for its level
	(*Service).checkReachable, // a new sign-in can reach the level
	(*Service).checkPassive,   // OpenID Connect Core 3.1.2.1, prompt=none
	(*Service).checkWays,      // there is a way to sign in
	(*Service).redirectToSignIn,
}

// AuthenticateRequest is Authenticate for a request of one of our pages. A page that refuses is returned as a
// *front.Answer.
func (s *Service) AuthenticateRequest(q *front.Request, d login.Demand) (*login.Result, error) {
	if !d.Client.SAML && !q.Settings.SignsInBy(d.Client.ID, config.ProtocolOpenID) {
		return nil, refuseProtocol()
	}
	if result, seeing, err := s.Front.AnswerSeeing(q, d); seeing {
		return result, err
	}
	a := &authentication{q: q, demand: d}
	if a.demand.Assurance = max(d.Assurance, q.Settings.RequiredAssurance(d.Client.ID)); a.demand.Assurance > 0 {
		a.demand.Along = nil // nothing is done along with a sign-in that can be refused yet
	}
	for _, step := range authenticateSteps {
		result, err := step(s, a)
		if result != nil && err == nil {
			err = s.checkAssurance(a, result)
		}
		if result != nil || err != nil {
			return result, err
		}
	}
	return nil, errors.New("identity: no step has answered the demand")
}

// refuseProtocol is the answer to an application that an organisation has made a service provider of type SAML, when it
// asks by OpenID Connect.
func refuseProtocol() error {
	return &login.Refusal{Code: "access_denied", Reason: "the organisation of the application signs people in there by SAML alone"}
}

// checkAssurance refuses the sign-in of a person whose identity is not assured well enough.
func (s *Service) checkAssurance(a *authentication, result *login.Result) error {
	need := a.demand.Assurance
	if need == 0 {
		return nil
	}
	var is int
	now := s.now()
	err := s.store.View(a.q.Context(), func(tx storage.Tx) error {
		rec, err := person.Records.Get(tx, result.Subject)
		is = rec.Assurance.Level(now)
		return err
	})
	if err != nil || is >= need {
		return err
	}
	cause := fmt.Errorf("identity assurance level wanted: %d; there: %d", need, is)
	s.Front.Refuse(a.q, refusal.Refusal{Where: refusal.SignIn, Reason: refusal.AssuranceTooLow, PersonID: result.Subject, ClientID: a.demand.Client.ID, Provider: result.Provider}, cause)
	if a.demand.Passive {
		return &login.Refusal{Code: front.UnmetLevel, Reason: "the identity of the person is not assured as required"}
	}
	return &front.Answer{Status: http.StatusForbidden, Key: "error.assurance"}
}

func (s *Service) checkReturn(a *authentication) (*login.Result, error) {
	if !a.demand.Passive && page.LocalPath(a.demand.Return) == "" {
		return nil, errors.New("identity: Demand.Return is not one of our paths")
	}
	return nil, nil
}

func (s *Service) findProviders(a *authentication) (_ *login.Result, err error) {
	if a.known, err = s.Federation.Registry(a.q.Context(), a.q.Settings); err != nil {
		return nil, err
	}
	a.demand = a.known.OfService(a.demand)
	a.demand.Level = max(a.demand.Level, a.q.Settings.RequiredLevel(a.demand.Client.ID))
	var ok bool
	if a.reader, ok = a.known.Reads(a.demand); !ok {
		return nil, &login.Refusal{Code: "access_denied", Reason: "the identity provider is not available"}
	}
	return nil, nil
}

func (s *Service) readIdentity(a *authentication) (*login.Result, error) {
	if a.reader == nil {
		return nil, nil
	}
	id, err := a.reader.Reader.Read(a.q.Request)
	switch {
	case err == nil:
		result, err := s.Federation.AuthenticateExternal(a.q, a.demand, a.reader, id)
		if errors.Is(err, session.ErrClosed) {
			err = refuseClosed(a.demand)
		}
		return result, err
	case !errors.Is(err, idp.ErrNoIdentity):
		return nil, s.Federation.RefuseExternal(a.q, a.demand, a.reader, err)
	}
	a.demand = federation.WithoutIdentity(a.demand, a.reader.ID)
	return nil, nil
}

// askSecondStep demands the level of a second step where the settings, the client or the person want one. Sign-ins
// that a provider reads from requests have been answered before: the proxy that vouches for them has asked for what it
// wants.
func (s *Service) askSecondStep(a *authentication) (*login.Result, error) {
	switch s.secondFactor(a.q.Settings, a.demand.Client.ID, a.demand.SecondFactor) {
	case login.SecondFactorOnDemand:
		return nil, nil
	case login.SecondFactorWhenSetUp:
		if a.q.SignIn == nil || !a.q.Protected {
			return nil, nil
		}
	}
	a.demand.Level = max(a.demand.Level, stepup.SecondFactorLevel)
	return nil, nil
}

// secondFactor returns when a sign-in for a client needs a second step. says is what the client itself says.
func (s *Service) secondFactor(u *config.Units, client, says string) string {
	return cmp.Or(u.SecondFactor(client, says), s.second)
}

func (s *Service) acceptSession(a *authentication) (*login.Result, error) {
	if a.q.SignIn == nil || !s.Front.Satisfies(a.q.SignIn, a.demand) {
		return nil, nil
	}
	if s.Trusted.Offers(a.q, a.demand) {
		return nil, s.sendTo(a, trusted.OfferURL)
	}
	return s.accepted(a), nil
}

// accepted is the result of a sign-in that is good enough.
func (s *Service) accepted(a *authentication) *login.Result {
	if !a.demand.Unused {
		s.Session.Use(a.q.Request, a.q.SignIn)
	}
	return s.Federation.ResultFor(a.q.SignIn, a.demand)
}

// trustBrowser takes a trusted browser for the second factor: in this result, the session keeps its level.
func (s *Service) trustBrowser(a *authentication) (*login.Result, error) {
	if !s.needsLevel(a) {
		return nil, nil
	}
	counts, err := s.Trusted.Counts(a.q, a.demand)
	if err != nil || !counts {
		return nil, err
	}
	result := *s.accepted(a)
	result.Level = trusted.Level
	return &result, nil
}

func (s *Service) checkOpen(a *authentication) (*login.Result, error) {
	if !a.q.Settings.Features.LoginEnabled {
		return nil, refuseClosed(a.demand)
	}
	return nil, nil
}

// refuseClosed is the answer to a demand while signing in is switched off.
func refuseClosed(d login.Demand) error {
	if d.Passive {
		return &login.Refusal{Code: "login_required", Reason: "signing in is switched off"}
	}
	return &front.Answer{Status: http.StatusForbidden, Key: "error.closed", Cause: session.ErrClosed}
}

func (s *Service) passOnRefusal(a *authentication) (*login.Result, error) {
	a.ways = a.known.Ways(a.demand)
	now := s.now()
	err := s.store.View(a.q.Context(), func(tx storage.Tx) (err error) {
		if a.refusal, err = s.Federation.RefusalIn(tx, a.q.Request, a.demand, now); err != nil || a.refusal != nil || !s.needsLevel(a) {
			return err
		}
		a.standing, err = s.StepUp.ReadStanding(tx, a.q.SignIn)
		return err
	})
	if err != nil || a.refusal == nil {
		return nil, err
	}
	return nil, cmp.Or[error](s.Federation.ForgetRefusal(a.q.Request, a.demand), a.refusal)
}

// needsLevel tells whether the sign-in is good enough but for its level.
func (s *Service) needsLevel(a *authentication) bool {
	return a.q.SignIn != nil && s.Front.Meets(a.q.SignIn, a.demand)
}

// stepUp sends the browser to the page that raises its sign-in, unless only a provider can reach the level.
func (s *Service) stepUp(a *authentication) (*login.Result, error) {
	d := a.demand
	switch {
	case !s.needsLevel(a):
		return nil, nil
	case !a.standing.Can(d.Level):
		// A person who has just signed in for this demand would do so again and again.
		if len(a.ways.Providers) == 0 || (d.Return != "" && a.q.SignIn.Session.SignedInFor == secret.Hash(d.Return)) {
			return nil, federation.Unreachable(d)
		}
		return nil, nil
	case d.Passive:
		return nil, &login.Refusal{Code: "interaction_required", Reason: "the authentication level needs a step-up"}
	}
	return nil, s.sendTo(a, stepup.URL)
}

func (s *Service) checkReachable(a *authentication) (*login.Result, error) {
	d := a.demand
	if !s.needsLevel(a) && d.Level > max(session.PasswordLevel, a.known.Reach) && len(a.ways.Providers) == 0 && !(d.Passive && a.q.SignIn == nil) {
		return nil, federation.Unreachable(d)
	}
	return nil, nil
}

// checkPassive refuses a demand that forbids pages, unless a provider can know the person without asking: that takes a
// redirect there and back.
func (s *Service) checkPassive(a *authentication) (*login.Result, error) {
	if !a.demand.Passive || (a.ways.Straight != nil && a.demand.Return != "") {
		return nil, nil
	}
	return nil, &login.Refusal{
		Code: "login_required", Reason: "nobody is signed in, or not as is demanded", Elsewhere: a.ways.Straight != nil,
	}
}

func (s *Service) checkWays(a *authentication) (*login.Result, error) {
	if a.ways.None() {
		return nil, s.Federation.RefuseExternal(a.q, a.demand, a.reader, idp.ErrNoIdentity)
	}
	return nil, nil
}

func (s *Service) redirectToSignIn(a *authentication) (*login.Result, error) {
	if p := a.ways.Straight; p != nil {
		return nil, s.sendTo(a, func(id string) string { return federation.OnwardURL(a.q.Request, &a.demand, id, p.ID) })
	}
	if at := s.Enrol.SignUpURL(a.q.Settings, a.ways.Password); a.demand.Create && at != "" {
		return nil, s.sendTo(a, func(id string) string { return front.WithSignIn(at, id) })
	}
	return nil, s.sendTo(a, front.FlowURL)
}

// sendTo stores the demand and redirects to the page that answers it. It returns an error in any case.
func (s *Service) sendTo(a *authentication, url func(flow string) string) error {
	id, err := s.Front.NewFlow(a.q.W, a.q.Request, a.demand)
	if err != nil {
		return err
	}
	return cmp.Or(a.q.Redirect(url(id)), login.ErrResponded)
}
