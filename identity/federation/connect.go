package federation

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Connectable are the providers that there were last and that browsers are sent to.
func (s *Service) Connectable() (out []*Member) {
	g := s.managed.Load()
	if g == nil {
		g = s.fixed
	}
	for _, id := range g.order {
		if p := g.Get(id); p != nil && p.redirector != nil {
			out = append(out, p)
		}
	}
	return out
}

func ConnectURL(flow string) string { return "/sign-in/connect?" + url.Values{"flow": {flow}}.Encode() }

// showConnect serves GET /sign-in/connect?flow=…: somebody whom a provider has named may have an account here already, and shows it by
// its password.
func (s *Service) showConnect(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.readConnectable(w, r); ok {
		username := ""
		if n := PersonFrom(a.Identity).Username; person.IsText(n, person.MaxUsername) {
			username = n
		}
		s.connectPage(w, r, a, http.StatusOK, page.Connect{Username: username})
	}
}

// readConnectable is ReadAnswered for an identity that may be coupled by a password.
func (s *Service) readConnectable(w http.ResponseWriter, r *http.Request) (a *Answer, ok bool) {
	a, ok = s.ReadAnswered(w, r)
	switch {
	case !ok:
	case a.SignIn == "": // see askAgain
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return nil, false
	case a.Known.NoPassword: // one that has leaked must not open the account by this way either
		s.pages.Error(w, r, http.StatusForbidden, "error.identity", "")
		return nil, false
	}
	return a, ok
}

// askAgain begins a sign-in at the provider for somebody who may have an account already, after an answer that nobody has asked for. Such an
// answer can be forced upon a browser: whoever typed their password then would give the account to the identity of a stranger.
func (s *Service) askAgain(w http.ResponseWriter, r *http.Request, p *Member) {
	id, err := s.front.NewFlow(w, r, login.Demand{MaxAge: -1, Provider: p.ID, Return: person.DefaultReturn})
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	s.front.Redirect(w, r, ProviderURL(id, p.ID))
}

func (s *Service) connectPage(w http.ResponseWriter, r *http.Request, a *Answer, status int, in page.Connect) {
	browser, err := s.jar.Browser(w, r, s.front.NewID)
	if err != nil {
		s.front.Fail(w, r, err, "")
		return
	}
	in.Action, in.CSRF, in.Provider = ConnectURL(a.Name), s.pages.CSRF(browser, connectForm(a)), a.Provider.Name
	in.Cancel = page.LocalPath(a.Flow.Demand.Cancel)
	s.pages.Render(w, r, s.front.View(a.Flow.Demand, "connect", status, in))
}

// connectForm binds the form to the identity that it would couple: a page for one of them never couples another.
func connectForm(a *Answer) string { return "connect:" + a.Name + ":" + a.Key() }

// handleConnect serves POST /sign-in/connect?flow=….
func (s *Service) handleConnect(w http.ResponseWriter, r *http.Request) {
	a, ok := s.readConnectable(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), connectForm(a)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, ConnectURL(a.Name))
		return
	}
	in := page.Connect{Username: strings.TrimSpace(r.PostForm.Get("username"))}
	c := proof.TypedPassword{Username: in.Username, Password: r.PostForm.Get("password"), Client: a.Flow.Demand.Client.ID}
	if !person.IsText(in.Username, person.MaxUsername) {
		in.Username = ""
	}
	switch {
	case c.Username == "":
		in.Problem = "problem.username"
	case c.Password == "":
		in.Problem = "problem.password"
	}
	if in.Problem != "" {
		s.connectPage(w, r, a, http.StatusUnprocessableEntity, in)
		return
	}
	p, wait, err := s.proof.ProvePassword(r, c)
	if err == nil && wait == 0 {
		err = s.connect(w, r, a, p)
	}
	switch {
	case err == nil && wait > 0:
		in.Problem, in.Wait = "problem.wait", int((wait+time.Second-1)/time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.connectPage(w, r, a, http.StatusTooManyRequests, in)
	case err == nil:
		s.front.Enter(w, r, a.SignIn, a.Flow)
	case errors.Is(err, person.ErrMismatch):
		in.Problem = "problem.mismatch"
		s.connectPage(w, r, a, http.StatusUnprocessableEntity, in)
	case errors.Is(err, person.ErrCoupled), errors.Is(err, person.ErrCoupledOther):
		s.RecordFailure(r, a.Flow.Demand.Client.ID, "", a.Provider.Name+": coupled already")
		in.Problem = "problem.coupled"
		s.connectPage(w, r, a, http.StatusUnprocessableEntity, in)
	case errors.Is(err, ErrUsed):
		s.pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
	default:
		s.front.Fail(w, r, err, ConnectURL(a.Name))
	}
}

// connect couples the identity with the person whose password was right and opens the session of that identity, when what was verified
// still holds.
func (s *Service) connect(w http.ResponseWriter, r *http.Request, a *Answer, p proof.Verified) error {
	o, err := s.PrepareSession(r, a)
	if err != nil {
		return err
	}
	if p.Device == "" {
		if p.Device, err = s.front.NewID(); err != nil {
			return err
		}
	}
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
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
	s.FinishSignIn(w, r, a, o)
	s.jar.Set(w, session.CookieDevice, p.Device, session.DeviceLife)
	return nil
}
