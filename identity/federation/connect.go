package federation

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ConnectURL is the page that couples the identity of an answer with an existing account.
func ConnectURL(flow string) string { return "/sign-in/connect?" + url.Values{"flow": {flow}}.Encode() }

// showConnect serves GET /sign-in/connect?flow=…: a person whom a provider has named can have an account here already,
// and proves it by its password.
func (s *Service) showConnect(q *front.Request) error {
	a, err := s.connectable(q)
	if err != nil {
		return err
	}
	in := page.Connect{}
	if n := PersonFrom(a.Identity).Username; person.IsText(n, person.MaxUsername) {
		in.Username = n
	}
	return s.connectPage(q, a, http.StatusOK, in)
}

// connectable is AnswerIn for an identity that can be coupled by a password.
func (s *Service) connectable(q *front.Request) (*Answer, error) {
	a, err := s.AnswerIn(q)
	switch {
	case err != nil:
		return nil, err
	case a.SignIn == "": // see ask
		return nil, expired()
	case a.Known.NoPassword: // a leaked one must not give access to the account by this page either
		return nil, forbidden("error.identity")
	}
	return a, nil
}

func (s *Service) connectPage(q *front.Request, a *Answer, status int, in page.Connect) (err error) {
	if in.CSRF, err = s.front.FormToken(q, connectForm(a)); err != nil {
		return err
	}
	in.Action, in.Provider, in.Cancel = ConnectURL(a.Name), a.Provider.Name, page.LocalPath(a.Flow.Demand.Cancel)
	s.pages.Render(q.W, q.Request, s.front.View(a.Flow.Demand, "connect", status, in))
	return nil
}

// connectForm binds the form to the identity that it would couple: a page for one of them never couples another.
func connectForm(a *Answer) string { return "connect:" + a.Name + ":" + a.Key() }

// handleConnect serves POST /sign-in/connect?flow=….
func (s *Service) handleConnect(q *front.Request) error {
	a, err := s.connectable(q)
	if err != nil {
		return err
	}
	q.Again = ConnectURL(a.Name)
	if err := s.front.CheckForm(q, connectForm(a), q.Again); err != nil {
		return err
	}
	in := page.Connect{Username: strings.TrimSpace(q.PostForm.Get("username"))}
	typed := proof.TypedPassword{Username: in.Username, Password: q.PostForm.Get("password"), Client: a.Flow.Demand.Client.ID}
	if !person.IsText(in.Username, person.MaxUsername) {
		in.Username = ""
	}
	refuse := func(status int, problem string) error {
		in.Problem = problem
		return s.connectPage(q, a, status, in)
	}
	switch {
	case typed.Username == "":
		return refuse(http.StatusUnprocessableEntity, "problem.username")
	case typed.Password == "":
		return refuse(http.StatusUnprocessableEntity, "problem.password")
	}
	p, wait, err := s.proof.ProvePassword(q.Request, typed)
	if err == nil && wait == 0 {
		err = s.connect(q, a, p)
	}
	switch {
	case err == nil && wait > 0:
		in.Wait = front.RetryAfter(q.W, wait)
		return refuse(http.StatusTooManyRequests, "problem.wait")
	case err == nil:
		return s.front.Finish(q, a.SignIn, a.Flow)
	case errors.Is(err, person.ErrMismatch):
		return refuse(http.StatusUnprocessableEntity, "problem.mismatch")
	case errors.Is(err, person.ErrCoupled), errors.Is(err, person.ErrCoupledOther):
		s.RecordFailure(q.Request, a.Flow.Demand.Client.ID, "", a.Provider.Name+": coupled already")
		return refuse(http.StatusUnprocessableEntity, "problem.coupled")
	case errors.Is(err, ErrUsed):
		return expired()
	default:
		return err
	}
}

// connect couples the identity with the person whose password was right, and opens the session of that identity, if
// what was verified still holds.
func (s *Service) connect(q *front.Request, a *Answer, p proof.RightPassword) error {
	o, err := s.PrepareSession(q.Request, a)
	if err != nil {
		return err
	}
	if p.Device == "" {
		if p.Device, err = s.front.NewID(); err != nil {
			return err
		}
	}
	err = s.store.Update(q.Context(), func(tx storage.Tx) error {
		rec, err := s.proof.Confirm(tx, p, o.Now)
		if err != nil {
			return err
		}
		if err := s.person.CoupleIdentity(tx, a.Provider.ID, a.Identity, p.Account.ID, o.Now); err != nil {
			return err
		}
		return s.Bind(tx, a, o, &Match{ID: p.Account.ID, Person: rec, NewlyOne: true})
	})
	if err != nil {
		return err
	}
	s.FinishSignIn(q.W, q.Request, a, o)
	s.jar.Set(q.W, session.CookieDevice, p.Device, session.DeviceLife)
	return nil
}
