package identity

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/trustedbrowser"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Authenticate returns the browser's sign-in if it satisfies d. Otherwise it stores d, bound to this browser, redirects
// to the sign-in page and returns authn.ErrResponded, or returns a *authn.Refusal. After any other error the sign-in is
// unknown.
func (s *Service) Authenticate(w http.ResponseWriter, r *http.Request, d authn.Demand) (*authn.Result, error) {
	q, err := s.Front.Load(w, r)
	if err != nil {
		return nil, err
	}
	result, err := s.AuthenticateRequest(q, d)
	if errors.As(err, new(*webflow.Answer)) {
		s.Front.Render(q, err)
		err = authn.ErrResponded
	}
	return result, err
}

// authentication is the state of answering a demand.
type authentication struct {
	q        *webflow.Request
	demand   authn.Demand
	known    *federation.Registry
	reader   *federation.Member // the provider that reads the request. nil: no such provider is demanded
	ways     *federation.Ways
	refusal  *authn.Refusal // by the provider that the browser comes from
	standing *mfa.Standing
}

// authenticateSteps answer a demand, in this order. A step that returns neither a result nor an error leaves the answer
// to the next one; the last step always answers.
var authenticateSteps = []func(*Service, *authentication) (*authn.Result, error){
	(*Service).checkReturn,    // a page needs a way back
	(*Service).findProviders,  // and the level that is needed
	(*Service).readIdentity,   // a provider that reads the request decides who is signed in
	(*Service).askSecondStep,  // and whether a second step is needed
	(*Service).acceptSession,  // the sign-in is good enough
	(*Service).checkOpen,      // everything below is a new sign-in or a step-up
	(*Service).trustBrowser,   // the sign-in is good enough except for its level, and the browser is trusted
	(*Service).passOnRefusal,  // a provider has just refused: its sign-in is not tried again
	(*Service).stepUp,         // the sign-in is good enough except for its level
	(*Service).checkReachable, // a new sign-in can reach the level
	(*Service).checkPassive,   // OpenID Connect Core 3.1.2.1, prompt=none
	(*Service).checkWays,      // there is a way to sign in
	(*Service).redirectToSignIn,
}

// AuthenticateRequest is Authenticate for a request of one of our pages. A page that refuses is returned as a
// *webflow.Answer.
func (s *Service) AuthenticateRequest(q *webflow.Request, d authn.Demand) (*authn.Result, error) {
	if !d.Client.SAML && !q.Settings.SignsInBy(d.Client.ID, settings.ProtocolOpenID) {
		return nil, refuseProtocol()
	}
	if result, seeing, err := s.Front.AnswerSeeing(q, d); seeing {
		return result, err
	}
	a := &authentication{q: q, demand: d}
	if a.demand.Assurance = max(d.Assurance, q.Settings.RequiredAssurance(d.Client.ID)); a.demand.Assurance > 0 {
		a.demand.Along = nil // it must not run for a sign-in that can still be refused
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

// refuseProtocol rejects an OpenID Connect request of an application that its organisation has made a service provider
// of type SAML.
func refuseProtocol() error {
	return &authn.Refusal{Code: "access_denied", Reason: "the organisation of the application allows sign-ins only by SAML there"}
}

// checkAssurance refuses the sign-in of a person whose identity is not assured well enough.
func (s *Service) checkAssurance(a *authentication, result *authn.Result) error {
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
	cause := fmt.Errorf("needs identity assurance level %d; has %d", need, is)
	s.Front.Refuse(a.q, denial.Refusal{
		Where: denial.SignIn, Reason: denial.AssuranceTooLow, PersonID: result.Subject,
		ClientID: a.demand.Client.ID, Provider: result.Provider,
	}, cause)
	if a.demand.Passive {
		return &authn.Refusal{Code: webflow.UnmetLevel, Reason: "the identity of the person is not assured at the required level"}
	}
	return &webflow.Answer{Status: http.StatusForbidden, Key: "error.assurance"}
}

func (s *Service) checkReturn(a *authentication) (*authn.Result, error) {
	if !a.demand.Passive && web.LocalPath(a.demand.Return) == "" {
		return nil, errors.New("identity: Demand.Return is not one of our paths")
	}
	return nil, nil
}

func (s *Service) findProviders(a *authentication) (_ *authn.Result, err error) {
	if a.known, err = s.Federation.Registry(a.q.Context(), a.q.Settings); err != nil {
		return nil, err
	}
	a.demand = a.known.OfService(a.demand)
	a.demand.Level = max(a.demand.Level, a.q.Settings.RequiredLevel(a.demand.Client.ID))
	var ok bool
	if a.reader, ok = a.known.Reads(a.demand); !ok {
		return nil, &authn.Refusal{Code: "access_denied", Reason: "the identity provider is not available"}
	}
	return nil, nil
}

func (s *Service) readIdentity(a *authentication) (*authn.Result, error) {
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

// askSecondStep demands the level of a second step if the settings, the client or the person require one. It does not
// concern sign-ins that a provider reads from requests, which an earlier step has answered: the proxy that vouches for
// them decides about second steps.
func (s *Service) askSecondStep(a *authentication) (*authn.Result, error) {
	switch s.secondFactor(a.q.Settings, a.demand.Client.ID, a.demand.SecondFactor) {
	case authn.SecondFactorOnDemand:
		return nil, nil
	case authn.SecondFactorWhenSetUp:
		if a.q.SignIn == nil || !a.q.Protected {
			return nil, nil
		}
	}
	a.demand.Level = max(a.demand.Level, mfa.SecondFactorLevel)
	return nil, nil
}

// secondFactor returns when a sign-in for a client needs a second step. says is the setting of the client itself.
func (s *Service) secondFactor(u *settings.Units, client, says string) string {
	return cmp.Or(u.SecondFactor(client, says), s.second)
}

func (s *Service) acceptSession(a *authentication) (*authn.Result, error) {
	if a.q.SignIn == nil || !s.Front.Satisfies(a.q.SignIn, a.demand) {
		return nil, nil
	}
	if s.Trusted.Offers(a.q, a.demand) {
		return nil, s.sendTo(a, trustedbrowser.OfferURL)
	}
	return s.accepted(a), nil
}

// accepted returns the result of a sign-in that is good enough.
func (s *Service) accepted(a *authentication) *authn.Result {
	if !a.demand.Unused {
		s.Session.Use(a.q.Request, a.q.SignIn)
	}
	return s.Federation.ResultFor(a.q.SignIn, a.demand)
}

// trustBrowser accepts a trusted browser as the second factor, in this result only: the session keeps its level.
func (s *Service) trustBrowser(a *authentication) (*authn.Result, error) {
	if !s.needsLevel(a) {
		return nil, nil
	}
	counts, err := s.Trusted.Counts(a.q, a.demand)
	if err != nil || !counts {
		return nil, err
	}
	result := *s.accepted(a)
	result.Level = trustedbrowser.Level
	return &result, nil
}

func (s *Service) checkOpen(a *authentication) (*authn.Result, error) {
	if !a.q.Settings.Features.LoginEnabled {
		return nil, refuseClosed(a.demand)
	}
	return nil, nil
}

// refuseClosed is the answer to a demand while signing in is switched off.
func refuseClosed(d authn.Demand) error {
	if d.Passive {
		return &authn.Refusal{Code: "login_required", Reason: "signing in is switched off"}
	}
	return &webflow.Answer{Status: http.StatusForbidden, Key: "error.closed", Cause: session.ErrClosed}
}

func (s *Service) passOnRefusal(a *authentication) (*authn.Result, error) {
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

// needsLevel reports whether the sign-in is good enough except for its level.
func (s *Service) needsLevel(a *authentication) bool {
	return a.q.SignIn != nil && s.Front.Meets(a.q.SignIn, a.demand)
}

// stepUp sends the browser to the page that raises its sign-in, unless only a provider can reach the level.
func (s *Service) stepUp(a *authentication) (*authn.Result, error) {
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
		return nil, &authn.Refusal{Code: "interaction_required", Reason: "the authentication level needs a step-up"}
	}
	return nil, s.sendTo(a, mfa.URL)
}

func (s *Service) checkReachable(a *authentication) (*authn.Result, error) {
	d := a.demand
	if !s.needsLevel(a) && d.Level > max(session.PasswordLevel, a.known.Reach) && len(a.ways.Providers) == 0 &&
		!(d.Passive && a.q.SignIn == nil) {
		return nil, federation.Unreachable(d)
	}
	return nil, nil
}

// checkPassive refuses a demand that forbids pages, unless a provider may recognise the person without asking: that
// takes a redirect there and back.
func (s *Service) checkPassive(a *authentication) (*authn.Result, error) {
	if !a.demand.Passive || (a.ways.Straight != nil && a.demand.Return != "") {
		return nil, nil
	}
	return nil, &authn.Refusal{
		Code: "login_required", Reason: "no one is signed in, or the sign-in does not meet the demand", Elsewhere: a.ways.Straight != nil,
	}
}

func (s *Service) checkWays(a *authentication) (*authn.Result, error) {
	if a.ways.None() {
		return nil, s.Federation.RefuseExternal(a.q, a.demand, a.reader, idp.ErrNoIdentity)
	}
	return nil, nil
}

func (s *Service) redirectToSignIn(a *authentication) (*authn.Result, error) {
	if p := a.ways.Straight; p != nil {
		return nil, s.sendTo(a, func(id string) string { return federation.OnwardURL(a.q.Request, &a.demand, id, p.ID) })
	}
	if at := s.SignUp.SignUpURL(a.q.Settings, a.ways.Password); a.demand.Create && at != "" {
		return nil, s.sendTo(a, func(id string) string { return webflow.WithSignIn(at, id) })
	}
	return nil, s.sendTo(a, webflow.FlowURL)
}

// sendTo stores the demand and redirects to the page that answers it. It returns an error in any case.
func (s *Service) sendTo(a *authentication, url func(flow string) string) error {
	id, err := s.Front.NewFlow(a.q.W, a.q.Request, a.demand)
	if err != nil {
		return err
	}
	return cmp.Or(a.q.Redirect(url(id)), authn.ErrResponded)
}
