package federation

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

// purpose is a purpose of an answer other than a sign-in.
type purpose struct {
	is   func(a *Answer) bool // reports whether the answer has this purpose
	take func(q *webflow.Request, a *Answer) error
}

// OnArrival adds a purpose that an answer can have. New calls it before the service is used.
func (s *Service) OnArrival(is func(*Answer) bool, take func(*webflow.Request, *Answer) error) {
	s.arrivals = append(s.arrivals, purpose{is, take})
}

// Registration gives an account to people whose identity at a provider is new here.
type Registration struct {
	// Ask sets what a newcomer has to fill in first.
	Ask func(a *Answer, n *Newcomer)
	URL func(answer string) string // of the form, for the name of an answer
}

// RegisterBy sets how newcomers register. New calls it before the service is used.
func (s *Service) RegisterBy(r Registration) { s.registration = r }

// showDone serves GET /sign-in/provider/done?flow=…: the browser returns with a verified identity and its cookies.
func (s *Service) showDone(q *webflow.Request) error {
	a, err := s.AnswerIn(q)
	if err != nil {
		return err
	}
	for _, other := range s.arrivals {
		if other.is(a) {
			return other.take(q, a)
		}
	}
	switch err := s.signIn(q, a); {
	case err == nil:
		return s.deps.Front.Finish(q, a.SignIn, a.Flow)
	case errors.Is(err, errLinked):
		return s.refuseLinked(q, a, err)
	case errors.Is(err, ErrAsk):
		s.warnUncoupled(q.Request, a, err)
		return s.ask(q, a, ConnectURL(a.Name))
	case errors.Is(err, errRegister):
		return s.ask(q, a, s.registration.URL(a.Name))
	case errors.Is(err, ErrBlocked):
		s.refuseAnswer(q, a, denial.PersonBlocked, err)
		s.RecordFailure(q.Request, a.Flow.Demand.Client.ID, a.Provider.ID, "", a.Provider.Name+": the person is not active")
		if a.Flow.Demand.Passive {
			return s.refuse(q, a.Flow, &authn.Refusal{Code: "login_required", Reason: "no one is signed in"})
		}
		return forbidden("error.denied")
	case errors.Is(err, errRole):
		return s.refuseRole(q, a, err, denial.ProviderNotOffered, "error.role",
			"the identity provider is not allowed for people with a role in the console")
	case errors.Is(err, errPlanted):
		return s.refuseRole(q, a, err, denial.PlantedAccount, "error.planted_account", errPlanted.Error())
	case errors.Is(err, ErrUsed):
		return expired()
	default:
		return err
	}
}

// refuseRole answers an identity that may not sign in its person, because they have a role in the admin console. key is
// the message of the page, text the reason for the application.
func (s *Service) refuseRole(q *webflow.Request, a *Answer, err error, reason denial.Reason, key, text string) error {
	s.refuseAnswer(q, a, reason, err)
	s.RecordFailure(q.Request, a.Flow.Demand.Client.ID, a.Provider.ID, "", a.Provider.Name+": "+text)
	if a.Flow.Demand.Passive {
		return s.refuse(q, a.Flow, &authn.Refusal{Code: "access_denied", Reason: text})
	}
	answer := &webflow.Answer{Status: http.StatusForbidden, Key: key}
	if a.SignIn != "" {
		answer.Again = a.chooseURL()
	}
	return answer
}

// refuseLinked answers an identity whose address belongs to an account that is linked to another identity at the same
// provider. No password would change that, so none is asked for.
func (s *Service) refuseLinked(q *webflow.Request, a *Answer, err error) error {
	s.refuseAnswer(q, a, denial.IdentityRefused, err)
	s.RecordFailure(q.Request, a.Flow.Demand.Client.ID, a.Provider.ID, "", a.Provider.Name+": the account is linked to another name there")
	if a.Flow.Demand.Passive {
		return s.refuse(q, a.Flow, &authn.Refusal{
			Code:   "interaction_required",
			Reason: "the account is linked to another name at the identity provider",
		})
	}
	answer := &webflow.Answer{Status: http.StatusForbidden, Key: "error.linked"}
	if a.SignIn != "" {
		answer.Again = a.chooseURL()
	}
	return answer
}

// ask redirects to a form that the person has to fill in before an answer signs them in.
//
// Where the answer was not asked for, a sign-in at the provider begins instead. Such an answer can be forced upon a
// browser: a person who typed their password then would link their account to the identity of a stranger.
func (s *Service) ask(q *webflow.Request, a *Answer, form string) error {
	switch {
	case a.SignIn == "":
		id, err := s.deps.Front.NewFlow(q.W, q.Request, authn.Demand{MaxAge: -1, Provider: a.Provider.ID, Return: person.DefaultReturn})
		if err != nil {
			return err
		}
		return q.Redirect(ProviderURL(id, a.Provider.ID))
	case a.Flow.Demand.Passive: // OpenID Connect Core 3.1.2.1: no page
		return s.refuse(q, a.Flow, &authn.Refusal{Code: "interaction_required", Reason: "the person has not signed in here by the provider yet"})
	}
	return q.Redirect(form)
}

// signIn opens a session for the person of an identity.
func (s *Service) signIn(q *webflow.Request, a *Answer) error {
	o, err := s.PrepareSession(q.Request, a)
	if err != nil {
		return err
	}
	n, err := s.PrepareNewcomer(a)
	if err != nil {
		return err
	}
	s.registration.Ask(a, n)
	up, err := s.deps.Person.NewUpdate(q.Context(), person.Edit{By: audit.Actor{Origin: s.deps.Origin(q.Request)}, Verified: true})
	if err != nil {
		return err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		m, err := s.PersonOf(tx, a, n, o.Now)
		if err == nil && m.activates {
			done := o.Ev[evActivated]
			done.PersonID, done.Actor, done.AgentUser, done.Reason = m.ID, m.ID, m.Person.Username, "signed in by "+a.Provider.Name
			m.Person, err = s.deps.Person.Activate(tx, m.ID, m.Person, done, o.Now)
		}
		if err != nil {
			return err
		}
		if a.Provider.Synchronise && !m.Created {
			if err := s.synchronise(tx, m, a.Provider, a.Identity, up); err != nil {
				return err
			}
		}
		return s.Bind(tx, a, o, m)
	})
	if err != nil {
		return err
	}
	s.FinishSignIn(q.W, q.Request, a, o)
	return nil
}
