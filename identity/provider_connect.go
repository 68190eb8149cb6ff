package identity

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

func connectURL(flow string) string { return "/sign-in/connect?" + url.Values{"flow": {flow}}.Encode() }

// showConnect serves GET /sign-in/connect?flow=…: somebody whom a provider has named may have an account here already, and shows it by
// its password.
func (s *Service) showConnect(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.readConnectable(w, r); ok {
		username := ""
		if n := personFrom(a.identity).Username; isText(n, maxUsername) {
			username = n
		}
		s.connectPage(w, r, a, http.StatusOK, page.Connect{Username: username})
	}
}

// readConnectable is readAnswered for an identity that may be coupled by a password.
func (s *Service) readConnectable(w http.ResponseWriter, r *http.Request) (a *answered, ok bool) {
	a, ok = s.readAnswered(w, r)
	switch {
	case !ok:
	case a.signIn == "": // see askAgain
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
		return nil, false
	case a.known.noPassword: // one that has leaked must not open the account by this way either
		s.Pages.Error(w, r, http.StatusForbidden, "error.identity", "")
		return nil, false
	}
	return a, ok
}

// askAgain begins a sign-in at the provider for somebody who may have an account already, after an answer that nobody has asked for. Such an
// answer can be forced upon a browser: whoever typed their password then would give the account to the identity of a stranger.
func (s *Service) askAgain(w http.ResponseWriter, r *http.Request, p *registered) {
	id, err := s.newFlow(w, r, login.Demand{MaxAge: -1, Provider: p.ID, Return: defaultReturn})
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	s.redirect(w, r, providerURL(id, p.ID))
}

func (s *Service) connectPage(w http.ResponseWriter, r *http.Request, a *answered, status int, in page.Connect) {
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		s.fail(w, r, err, "")
		return
	}
	in.Action, in.CSRF, in.Provider = connectURL(a.name), s.Pages.CSRF(browser, connectForm(a)), a.provider.Name
	in.Cancel = page.LocalPath(a.flow.Demand.Cancel)
	s.Pages.Render(w, r, s.view(a.flow.Demand, "connect", status, in))
}

// connectForm binds the form to the identity that it would couple: a page for one of them never couples another.
func connectForm(a *answered) string { return "connect:" + a.name + ":" + a.key() }

// handleConnect serves POST /sign-in/connect?flow=….
func (s *Service) handleConnect(w http.ResponseWriter, r *http.Request) {
	a, ok := s.readConnectable(w, r)
	if !ok {
		return
	}
	if err := s.Pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), connectForm(a)); err != nil {
		s.Log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.Pages.Refuse(w, r, err, connectURL(a.name))
		return
	}
	in := page.Connect{Username: strings.TrimSpace(r.PostForm.Get("username"))}
	c := typedPassword{username: in.Username, password: r.PostForm.Get("password"), client: a.flow.Demand.Client.ID}
	if !isText(in.Username, maxUsername) {
		in.Username = ""
	}
	switch {
	case c.username == "":
		in.Problem = "problem.username"
	case c.password == "":
		in.Problem = "problem.password"
	}
	if in.Problem != "" {
		s.connectPage(w, r, a, http.StatusUnprocessableEntity, in)
		return
	}
	p, wait, err := s.provePassword(r, c)
	if err == nil && wait == 0 {
		err = s.connect(w, r, a, p)
	}
	switch {
	case err == nil && wait > 0:
		in.Problem, in.Wait = "problem.wait", int((wait+time.Second-1)/time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.connectPage(w, r, a, http.StatusTooManyRequests, in)
	case err == nil:
		s.goIn(w, r, a.signIn, a.flow)
	case errors.Is(err, errMismatch):
		in.Problem = "problem.mismatch"
		s.connectPage(w, r, a, http.StatusUnprocessableEntity, in)
	case errors.Is(err, ErrCoupled), errors.Is(err, ErrCoupledOther):
		s.recordFailure(r, a.flow.Demand.Client.ID, "", a.provider.Name+": coupled already")
		in.Problem = "problem.coupled"
		s.connectPage(w, r, a, http.StatusUnprocessableEntity, in)
	case errors.Is(err, errUsed):
		s.Pages.Error(w, r, http.StatusBadRequest, "error.expired", "/account")
	default:
		s.fail(w, r, err, connectURL(a.name))
	}
}

// connect couples the identity with the person whose password was right and opens the session of that identity, when what was verified
// still holds.
func (s *Service) connect(w http.ResponseWriter, r *http.Request, a *answered, p proof) error {
	o, err := s.prepare(r, a)
	if err != nil {
		return err
	}
	if p.device == "" {
		if p.device, err = s.newID(); err != nil {
			return err
		}
	}
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		rec, err := s.proven(tx, p, o.now)
		if err != nil {
			return err
		}
		if err := s.couple(tx, a.provider.ID, a.identity, p.account.id, o.now); err != nil {
			return err
		}
		return s.bind(tx, a, o, &found{id: p.account.id, person: rec, newlyOne: true})
	})
	if err != nil {
		return err
	}
	s.entered(w, r, a, o)
	s.jar.Set(w, kindDevice, p.device, deviceLife)
	return nil
}
