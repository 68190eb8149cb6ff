package federation

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// ConnectURL is the page that couples the identity of an answer with an existing account.
func ConnectURL(flow string) string { return "/sign-in/connect?" + url.Values{"flow": {flow}}.Encode() }

// connecting is a request to couple the identity of an answer with an account.
type connecting struct {
	*Answer

	email string // that the provider has verified: whose account there it is. Empty: a newcomer who is asked for one
	isNew bool   // they can say that they have none
	// owner is the browser's sign-in, of the person whose password was right for this answer and who has shown enough.
	// nil: the password comes first.
	owner *session.Current
}

// form binds the form to the identity that it would couple: a page for one of them never couples another, nor with
// another person.
func (x *connecting) form() string {
	form := "connect:" + x.Name + ":" + x.Key()
	if x.owner != nil {
		form = webflow.SessionForm(form, x.owner)
	}
	return form
}

// showConnect serves GET /sign-in/connect?flow=…: a person that a provider has named can have an account here already,
// and proves it by its password. A way to sign in is as much as a method of their own, so a person who has set up one
// steps up before it is added.
func (s *Service) showConnect(q *webflow.Request) error {
	x, err := s.readConnect(q)
	if err != nil {
		return err
	}
	in := web.Connect{Username: x.email}
	if n := x.Identity.Username; n != "" && person.IsText(n, person.MaxUsername) {
		in.Username = n
	}
	return s.connectPage(q, x, http.StatusOK, in)
}

// readConnect is AnswerIn for an identity that can be coupled by a password.
func (s *Service) readConnect(q *webflow.Request) (*connecting, error) {
	a, err := s.AnswerIn(q)
	if err != nil {
		return nil, err
	}
	x := &connecting{Answer: a}
	var verified bool
	x.email, verified = person.VerifiedEmail(a.Identity)
	switch {
	case a.SignIn == "", a.Flow.Invited != "", a.Flow.Couple != "": // see ask
		return nil, expired()
	case a.Known.NoPassword, !verified && !a.moves(): // a leaked password must not give access to the account by this page either
		return nil, forbidden("error.identity")
	case a.Rec.Proved == "" || q.SignIn == nil || q.SignIn.Session.PersonID != a.Rec.Proved:
		x.isNew, err = s.offersNew(q, a)
		return x, err
	}
	level, err := s.linkLevel(q, q.SignIn)
	if err == nil {
		err = s.deps.Front.NeedLevel(q, level, ConnectURL(a.Name))
	}
	x.owner = q.SignIn
	return x, err
}

// linkLevel returns the level that a session of the person needs before an identity is linked.
func (s *Service) linkLevel(q *webflow.Request, si *session.Current) (level int, err error) {
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		level, err = s.linkLevelIn(tx, si)
		return err
	})
	return level, err
}

// linkLevelIn is linkLevel within a transaction.
func (s *Service) linkLevelIn(tx storage.Tx, si *session.Current) (int, error) {
	level, err := s.raising.SetUpLevel(tx, si)
	return max(level, s.deps.Person.LinkLevel(&si.Person)), err
}

func (s *Service) connectPage(q *webflow.Request, x *connecting, status int, in web.Connect) (err error) {
	if in.CSRF, err = s.deps.Front.FormToken(q, x.form()); err != nil {
		return err
	}
	if x.owner != nil {
		in.Known = x.owner.Person.Username
	}
	in.New = x.isNew
	in.Action, in.Provider, in.Account, in.Cancel = ConnectURL(x.Name), x.Provider.Name, x.email, web.LocalPath(x.Flow.Demand.Cancel)
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(x.Flow.Demand, "connect", status, in))
	return nil
}

// handleConnect serves POST /sign-in/connect?flow=….
func (s *Service) handleConnect(q *webflow.Request) error {
	x, err := s.readConnect(q)
	if err != nil {
		return err
	}
	q.Again = ConnectURL(x.Name)
	if err := s.deps.Front.CheckForm(q, x.form(), q.Again); err != nil {
		return err
	}
	if x.isNew && q.PostForm.Get("new") != "" {
		if err := s.declineAccount(q, x.Answer); err != nil {
			return s.connected(q, x, web.Connect{}, err)
		}
		return q.Redirect(x.Done())
	}
	if x.owner != nil {
		return s.connected(q, x, web.Connect{}, s.linkOwn(q, x))
	}
	in := web.Connect{Username: strings.TrimSpace(q.PostForm.Get("username"))}
	typed := challenge.TypedPassword{Username: in.Username, Password: q.PostForm.Get("password"), Client: x.Flow.Demand.Client.ID}
	if !person.IsText(in.Username, person.MaxUsername) {
		in.Username = ""
	}
	switch {
	case typed.Username == "":
		return s.refuseConnect(q, x, in, "problem.username")
	case typed.Password == "":
		return s.refuseConnect(q, x, in, "problem.password")
	}
	p, err := s.deps.Proof.ProvePassword(q.Request, typed)
	if err == nil {
		err = s.connect(q, x.Answer, p)
	}
	if errors.Is(err, errStepUp) {
		if err = s.proveOwner(q, x.Answer, p); err == nil {
			return q.Redirect(ConnectURL(x.Name))
		}
	}
	return s.connected(q, x, in, err)
}

func (s *Service) refuseConnect(q *webflow.Request, x *connecting, in web.Connect, problem string) error {
	in.Problem = problem
	return s.connectPage(q, x, http.StatusUnprocessableEntity, in)
}

// connected answers after the identity is coupled, or with why it is not.
func (s *Service) connected(q *webflow.Request, x *connecting, in web.Connect, err error) error {
	throttled := new(authn.ThrottledError)
	switch {
	case err == nil:
		return s.deps.Front.Finish(q, x.SignIn, x.Flow)
	case errors.As(err, &throttled):
		in.Problem, in.Wait = "problem.wait", webflow.RetryAfter(q.W, throttled.Wait)
		return s.connectPage(q, x, http.StatusTooManyRequests, in)
	case errors.As(err, new(*person.StateError)):
		in.Problem = "problem.blocked"
		return s.connectPage(q, x, http.StatusForbidden, in)
	case errors.Is(err, person.ErrPlanted):
		return webflow.PlantedPassword(ConnectURL(x.Name))
	case errors.Is(err, person.ErrMismatch):
		return s.refuseConnect(q, x, in, "problem.mismatch")
	case errors.Is(err, person.ErrCoupled), errors.Is(err, person.ErrCoupledOther):
		s.refuseAnswer(q, x.Answer, denial.IdentityRefused, err)
		s.RecordFailure(q.Request, x.Flow.Demand.Client.ID, x.Provider.ID, "", x.Provider.Name+": coupled already")
		return s.refuseConnect(q, x, in, "problem.coupled")
	case errors.Is(err, challenge.ErrFallbackDown):
		in.Problem = "problem.elsewhere"
		return s.connectPage(q, x, http.StatusServiceUnavailable, in)
	case errors.Is(err, ErrUsed):
		return expired()
	default:
		return err
	}
}

// connect couples the identity with the person whose password was right, and opens the session of that identity, if
// what was verified still holds. errStepUp: the password is not enough.
func (s *Service) connect(q *webflow.Request, a *Answer, p challenge.RightPassword) error {
	o, err := s.PrepareSession(q.Request, a)
	if err != nil {
		return err
	}
	if p.Device == "" {
		if p.Device, err = s.deps.Front.NewID(); err != nil {
			return err
		}
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		rec, err := s.deps.Proof.Confirm(tx, p, o.Now)
		if err != nil {
			return err
		}
		si := &session.Current{Session: session.Record{PersonID: p.Account.ID}, Person: rec}
		level, err := s.linkLevelIn(tx, si)
		if err == nil && level > session.PasswordLevel {
			err = errStepUp
		}
		if err != nil {
			return err
		}
		if err := s.deps.Person.CoupleProved(tx, a.Provider.ID, a.Identity, p.Account.ID, o.Now); err != nil {
			return err
		}
		if err := person.NoteVouched(tx, a.Provider.ID, a.Identity, p.Account.SetBy != ""); err != nil {
			return err
		}
		return s.Bind(tx, a, o, &Match{ID: p.Account.ID, Person: rec, NewlyOne: true, linked: true})
	})
	if err != nil {
		return err
	}
	s.FinishSignIn(q.W, q.Request, a, o)
	s.deps.Jar.Set(q.W, session.CookieDevice, p.Device, session.DeviceLife)
	return nil
}

// proveOwner signs the person in whose password was right, and notes with the answer that they may link it once they
// have stepped up.
func (s *Service) proveOwner(q *webflow.Request, a *Answer, p challenge.RightPassword) (err error) {
	if p.Device == "" {
		if p.Device, err = s.deps.Front.NewID(); err != nil {
			return err
		}
	}
	key := a.key()
	return s.deps.Front.Admit(q.W, q.Request, a.Flow, webflow.Identification{
		Person: p.Account.ID, Level: session.PasswordLevel, AMR: "DEFAULT", Device: p.Device, From: p.From,
		Prove: func(tx storage.Tx, now time.Time) (person.Record, error) {
			flow, _, err := ProviderFlows.Find(tx, key)
			if err == nil && flow.Identity == nil {
				err = ErrUsed
			}
			if err != nil {
				return person.Record{}, err
			}
			flow.Proved = p.Account.ID
			if err := ProviderFlows.Put(tx, key, flow, flow.ExpiresAt.Add(session.CollectAfter)); err != nil {
				return person.Record{}, err
			}
			return s.deps.Proof.Confirm(tx, p, now)
		},
	})
}

// linkOwn couples the identity with the person who has typed the password of the account and stepped up, if their
// session still may.
func (s *Service) linkOwn(q *webflow.Request, x *connecting) error {
	o, err := s.PrepareSession(q.Request, x.Answer)
	if err != nil {
		return err
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		open, err := s.deps.Session.Open(tx, o.old, o.Now)
		if errors.Is(err, storage.ErrNotFound) || err == nil && open.ID != x.owner.ID {
			return ErrUsed // signed out meanwhile
		}
		if err != nil {
			return err
		}
		level, err := s.linkLevelIn(tx, open)
		if err == nil && open.Session.Level < level {
			err = ErrUsed
		}
		if err != nil {
			return err
		}
		id := open.Session.PersonID
		if err := s.deps.Person.CoupleProved(tx, x.Provider.ID, x.Identity, id, o.Now); err != nil {
			return err
		}
		if err := person.NoteVouched(tx, x.Provider.ID, x.Identity, open.Session.Vouched); err != nil {
			return err
		}
		return s.Bind(tx, x.Answer, o, &Match{ID: id, Person: open.Person, NewlyOne: true, linked: true, shown: &open.Session})
	})
	if err != nil {
		return err
	}
	s.FinishSignIn(q.W, q.Request, x.Answer, o)
	return nil
}
