package stepup

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// request is a request of a step-up that can go on.
type request struct {
	id      string
	flow    front.FlowRecord
	si      *session.Current
	st      *Standing
	offered []*Method
}

// initial are the methods that could be the person's first one, set up on the way. What somebody is given instead is offered beside them.
func (x *request) initial() []*Method {
	if len(x.st.mine()) > 0 {
		return nil
	}
	return x.st.Settable(x.flow.Demand.Level)
}

// stepUpFlow reads the flow of a step-up. Otherwise it has written the answer and is not ok.
func (s *Service) stepUpFlow(w http.ResponseWriter, r *http.Request) (x request, ok bool) {
	if x.id, x.flow, ok = s.front.Flow(w, r); !ok {
		return x, false
	}
	var err error
	if x.si, err = s.session.Read(r); err == nil && x.si != nil {
		x.st, err = s.StandingOf(r.Context(), x.si)
	}
	if err == nil {
		err = s.front.IsOpen(r.Context())
	}
	d := x.flow.Demand
	switch {
	case err != nil:
		s.front.Fail(w, r, err, URL(x.id))
	case x.si == nil || !s.front.Meets(x.si, d):
		s.front.Redirect(w, r, front.FlowURL(x.id)) // the password comes first
	case x.si.Session.Level >= d.Level:
		s.front.Redirect(w, r, d.Return)
	case !x.st.Can(d.Level):
		s.front.Redirect(w, r, d.Return) // which refuses
	default:
		x.offered = x.st.offers(d.Level)
		return x, true
	}
	return x, false
}

// showStepUp serves GET /step-up?flow=…: one method, or those there are, or those that can be set up. Without a flow it starts one.
func (s *Service) showStepUp(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("flow") == "" {
		s.startStepUp(w, r)
		return
	}
	x, ok := s.stepUpFlow(w, r)
	if !ok {
		return
	}
	m := Pick(x.offered, q.Get("method"))
	if m == nil && q.Get("choose") == "" {
		if m = Pick(x.offered, x.st.Own.Preferred); m == nil && len(x.offered) == 1 && len(x.initial()) == 0 {
			m = x.offered[0]
		}
	}
	if m != nil && m.page != "" {
		s.front.Redirect(w, r, m.page+"?flow="+url.QueryEscape(x.id))
		return
	}
	s.stepUpPage(w, r, x, m, http.StatusOK, page.StepUp{Asked: q.Get("asked") != ""})
}

// startStepUp begins a step-up that nobody but the person has asked for, to the level that the configuration names. The parameter redirect may
// name a path of ours to go to afterwards.
func (s *Service) startStepUp(w http.ResponseWriter, r *http.Request) {
	u, err := s.person.Settings(r.Context())
	if err != nil {
		s.front.Fail(w, r, err, "/step-up")
		return
	}
	to := page.LocalPath(r.URL.Query().Get("redirect"))
	ret := "/step-up"
	if to != "" {
		ret += "?" + url.Values{"redirect": {to}}.Encode()
	} else {
		to = front.SecurityPath
	}
	if _, ok := s.front.RequireLevel(w, r, u.StepUp.Actions.DefaultStepUpAuthenticationLevel, ret); ok {
		s.front.Redirect(w, r, to)
	}
}

// stepUpPage writes the page of a method, or of those there are.
func (s *Service) stepUpPage(w http.ResponseWriter, r *http.Request, x request, m *Method, status int, in page.StepUp) {
	self := URL(x.id)
	in.Account, in.Cancel = x.si.Person.Username, page.LocalPath(x.flow.Demand.Cancel)
	if m != nil {
		in.Method, in.Action = m.Name, self+"&method="+m.Name
		in.CSRF = s.pages.CSRF(s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, m))
		in.Digits, in.Hidden, in.Ask = m != &recoveryMethod && !m.given, m == &PINMethod, m.ask != nil
		if err := s.sending(r.Context(), x, m, &in); err != nil {
			s.front.Fail(w, r, err, self)
			return
		}
		if m == &PINMethod && x.st.resetPIN {
			in.Forgot = pinForgotPath + "?flow=" + url.QueryEscape(x.id)
		}
		if len(x.offered) > 1 || len(x.initial()) > 0 {
			in.Others = self + "&choose=1"
		}
	} else {
		fresh := x.initial()
		if len(x.offered) == 0 {
			fresh = x.st.Settable(x.flow.Demand.Level)
		}
		in.SetUp = len(x.offered) == 0 || len(fresh) > 0
		for _, o := range fresh {
			in.Choices = append(in.Choices, page.StepUpChoice{Method: o.Name, URL: o.setUp + "?flow=" + url.QueryEscape(x.id)})
		}
		for _, o := range x.offered {
			in.Choices = append(in.Choices, page.StepUpChoice{Method: o.Name, URL: self + "&method=" + o.Name})
		}
		if len(x.offered) == 0 {
			if x.st.unlocks(x.flow.Demand.Level) {
				in.SetUp = len(in.Choices) > 0
				in.Choices = append(in.Choices, page.StepUpChoice{Method: "pin_reset", URL: pinForgotPath + "?flow=" + url.QueryEscape(x.id)})
			}
		}
	}
	s.pages.Render(w, r, s.front.View(x.flow.Demand, "step_up", status, in))
}

// stepUpForm binds the form to the flow, the session and the method.
func stepUpForm(x request, m *Method) string {
	return "step_up:" + x.id + ":" + x.si.ID + ":" + m.Name
}

// handleStepUp serves POST /step-up?flow=…&method=….
func (s *Service) handleStepUp(w http.ResponseWriter, r *http.Request) {
	x, ok := s.stepUpFlow(w, r)
	if !ok {
		return
	}
	again := URL(x.id)
	m := Pick(x.offered, r.URL.Query().Get("method"))
	if m == nil || m.check == nil || m.page != "" {
		s.front.Redirect(w, r, again)
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, m)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, again)
		return
	}
	if m.send != nil && r.PostForm.Get("send") != "" {
		s.handleSend(w, r, x, m)
		return
	}
	if m.ask != nil && r.PostForm.Get("send") != "" {
		m.ask(s, w, r, x, m)
		return
	}
	code := r.PostForm.Get("code")
	if code == "" {
		s.stepUpPage(w, r, x, m, http.StatusUnprocessableEntity, page.StepUp{Problem: "problem.code_missing"})
		return
	}
	if !person.IsText(code, proof.MaxCode) {
		code = "-" // nobody's, but counted like any other
	}
	wait, err := s.tryStepUp(w, r, x.flow, m, &answer{flow: x.id, method: m, si: x.si, from: s.origin(r), own: x.st.Own, counter: x.st.counter(x.si.Session.PersonID, m), code: code})
	switch {
	case err == nil && wait > 0:
		in := page.StepUp{Problem: "problem.wait", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.stepUpPage(w, r, x, m, http.StatusTooManyRequests, in)
	case err == nil:
		s.front.Redirect(w, r, x.flow.Demand.Return)
	case errors.Is(err, person.ErrMismatch):
		problem := cmp.Or(m.wrong, "problem.code")
		if locked, err := s.isLocked(r.Context(), x.si, m); err == nil && locked {
			problem += "_locked"
		}
		s.stepUpPage(w, r, x, m, http.StatusUnprocessableEntity, page.StepUp{Problem: problem})
	default:
		s.front.Fail(w, r, err, again)
	}
}

// isLocked tells whether a method that a person has is of no use any more.
func (s *Service) isLocked(ctx context.Context, si *session.Current, m *Method) (locked bool, err error) {
	if m.locked == nil {
		return false, nil
	}
	err = s.store.View(ctx, func(tx storage.Tx) error {
		own, err := readStepUp(tx, si.Session.PersonID)
		locked = err == nil && m.locked(&own)
		return err
	})
	return locked, err
}
