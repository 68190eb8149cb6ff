package mfa

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const stepUpPath = "/step-up"

// stepUp is a step-up under way that can go on.
type stepUp struct {
	id       string // of the flow
	flow     webflow.FlowRecord
	standing *Standing
	offered  []*Method
	// code is the purpose of a code of the method, if the method sends codes. sent says that one was sent and has not
	// expired.
	code challenge.CodePurpose
	sent bool
	now  time.Time // when the request came
}

// initial returns the methods that the person could set up on the way as their first one. They are offered along with
// the methods that administrators give.
func (x *stepUp) initial() []*Method {
	if len(x.standing.personal()) > 0 || x.flow.Method != "" {
		return nil
	}
	return x.standing.Settable(x.flow.Demand.Level)
}

// bound returns the binding of a challenge or a prompt for the step-up.
func (x *stepUp) bound(si *session.Current) string { return storage.Key(x.id, si.ID) }

// form names the form of a method: it is bound to the flow, the session and the method.
func (x *stepUp) form(si *session.Current, m *Method) string {
	return "step_up:" + x.id + ":" + si.ID + ":" + m.Name
}

// readStepUp reads the step-up that the request belongs to, and with reads what its page needs of the same snapshot. A
// step-up that cannot go on, or has reached its level, leads elsewhere.
func (s *Service) readStepUp(q *webflow.Request, reads ...func(tx storage.Tx, x *stepUp) error) (*stepUp, error) {
	x := &stepUp{id: q.URL.Query().Get("flow"), now: s.deps.Now()}
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if x.flow, err = s.deps.Front.ReadFlowIn(tx, q, x.id, x.now); err != nil || q.SignIn == nil {
			return err
		}
		if x.standing, err = s.StandingIn(tx, q.SignIn, q.Settings); err != nil {
			return err
		}
		x.offered = x.standing.offers(x.flow.Demand.Level)
		if name := x.flow.Method; name != "" {
			x.offered = slices.DeleteFunc(x.standing.usable(), func(m *Method) bool { return m.Name != name })
		}
		for _, read := range reads {
			if err := read(tx, x); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	d := x.flow.Demand
	q.Again = URL(x.id)
	switch {
	case !q.Settings.Features.LoginEnabled:
		return nil, session.ErrClosed
	case q.SignIn == nil || !s.deps.Front.Meets(q.SignIn, d):
		return nil, redirectInstead(q, webflow.FlowURL(x.id)) // the password comes first
	case x.flow.Method != "":
		if len(x.offered) == 0 || q.SignIn.Session.RaisedSince(x.flow.Method, x.flow.CreatedAt) {
			return nil, redirectInstead(q, d.Return)
		}
	case q.SignIn.Session.Level >= d.Level:
		return nil, redirectInstead(q, d.Return)
	case !x.standing.Can(d.Level):
		return nil, redirectInstead(q, d.Return) // which refuses
	}
	return x, nil
}

// redirectInstead sends the browser to another page in place of the one that it asked for.
func redirectInstead(q *webflow.Request, to string) error {
	return cmp.Or(q.Redirect(to), webflow.ErrAnswered)
}

// readOwnPage is readStepUp for the page of a method that has one of its own.
func (s *Service) readOwnPage(q *webflow.Request, m *Method, reads ...func(tx storage.Tx, x *stepUp) error) (*stepUp, error) {
	x, err := s.readStepUp(q, reads...)
	if err == nil && Pick(x.offered, m.Name) == nil {
		err = redirectInstead(q, chooseURL(x.id))
	}
	return x, err
}

// readCode reads what the page of a method says about codes that are sent.
func (s *Service) readCode(tx storage.Tx, si *session.Current, x *stepUp, m *Method) (err error) {
	if m == nil || m.send == nil {
		return nil
	}
	if x.code, err = m.codePurpose(tx, x.id, si); err != nil {
		return err
	}
	x.sent, err = s.deps.Proof.CodeWaits(tx, x.code, x.now)
	return err
}

// showStepUp serves GET /step-up?flow=…: one method, or the methods to choose from, or those that can be set up.
// Without a flow it starts one.
func (s *Service) showStepUp(q *webflow.Request) error {
	query := q.URL.Query()
	if query.Get("flow") == "" {
		return s.startStepUp(q)
	}
	var m *Method
	x, err := s.readStepUp(q, func(tx storage.Tx, x *stepUp) error {
		m = x.choice(query)
		return s.readCode(tx, q.SignIn, x, m)
	})
	switch {
	case err != nil:
		return err
	case m != nil && m.page != "":
		return q.Redirect(m.page + "?flow=" + url.QueryEscape(x.id))
	}
	return s.stepUpPage(q, x, m, http.StatusOK, web.StepUp{Asked: query.Get("asked") != ""})
}

// choice returns the method that the page asks for, or nil when the person has to choose one.
func (x *stepUp) choice(query url.Values) *Method {
	m := Pick(x.offered, query.Get("method"))
	if m != nil || query.Get("choose") != "" {
		return m
	}
	if m = Pick(x.offered, x.standing.Own.Preferred); m == nil && len(besidesRecovery(x.offered)) == 1 && len(x.initial()) == 0 {
		m = x.offered[0]
	}
	return m
}

// startStepUp begins a step-up that no application asked for, to the level of the settings. The parameter redirect may
// name a path to go to afterwards.
func (s *Service) startStepUp(q *webflow.Request) error {
	to := webflow.OwnPath(q.URL.Query().Get("redirect"))
	ret := stepUpPath
	if to != "" {
		ret += "?" + url.Values{"redirect": {to}}.Encode()
	}
	q.Again = stepUpPath
	if err := s.deps.Front.NeedLevel(q, q.Settings.StepUp.Actions.DefaultStepUpAuthenticationLevel, ret); err != nil {
		return err
	}
	return q.Redirect(cmp.Or(to, webflow.SecurityPath))
}

// stepUpPage writes the page of a method, or of all that can be chosen.
func (s *Service) stepUpPage(q *webflow.Request, x *stepUp, m *Method, status int, in web.StepUp) (err error) {
	in.Account, in.Another, in.Cancel = q.SignIn.Person.Username, webflow.AnotherInFlow(x.id), web.LocalPath(x.flow.Demand.Cancel)
	if m == nil {
		x.fillChoices(&in)
		s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(x.flow.Demand, "step_up", status, in))
		return nil
	}
	in.Method, in.Action = m.Name, methodURL(x.id, m)
	if in.CSRF, err = s.deps.Front.FormToken(q, x.form(q.SignIn, m)); err != nil {
		return err
	}
	in.Digits, in.Hidden, in.Ask = m != &recoveryMethod && !m.given, m == &pinMethod, m.request != nil
	if m.send != nil {
		in.Send, in.To, in.Sent = true, m.mask(x.code.To), x.sent
	}
	if m == &pinMethod && x.standing.resetPIN {
		in.Forgot = pinForgotPath + "?flow=" + url.QueryEscape(x.id)
	}
	if len(x.offered) > 1 || len(x.initial()) > 0 {
		in.Others = chooseURL(x.id)
	}
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(x.flow.Demand, "step_up", status, in))
	return nil
}

// fillChoices fills in what a person can choose from: methods to use, and methods to set up.
func (x *stepUp) fillChoices(in *web.StepUp) {
	fresh := x.initial()
	if len(x.offered) == 0 {
		fresh = x.standing.Settable(x.flow.Demand.Level)
	}
	in.SetUp = len(x.offered) == 0 || len(fresh) > 0
	for _, m := range fresh {
		in.Choices = append(in.Choices, web.StepUpChoice{Method: m.Name, URL: m.setUp + "?flow=" + url.QueryEscape(x.id)})
	}
	for _, m := range x.offered {
		in.Choices = append(in.Choices, web.StepUpChoice{Method: m.Name, URL: methodURL(x.id, m)})
	}
	if len(x.offered) == 0 && x.standing.unlocks(x.flow.Demand.Level) {
		in.SetUp = len(in.Choices) > 0
		in.Choices = append(in.Choices, web.StepUpChoice{Method: "pin_reset", URL: pinForgotPath + "?flow=" + url.QueryEscape(x.id)})
	}
}

// handleStepUp serves POST /step-up?flow=…&method=….
func (s *Service) handleStepUp(q *webflow.Request) error {
	var m *Method
	x, err := s.readStepUp(q, func(tx storage.Tx, x *stepUp) error {
		m = Pick(x.offered, q.URL.Query().Get("method"))
		return s.readCode(tx, q.SignIn, x, m)
	})
	switch {
	case err != nil:
		return err
	case m == nil || m.check == nil || m.page != "":
		return q.Redirect(URL(x.id))
	}
	if err := s.deps.Front.CheckForm(q, x.form(q.SignIn, m), URL(x.id)); err != nil {
		return err
	}
	if q.PostForm.Get("send") != "" {
		switch {
		case m.send != nil:
			return s.sendCode(q, x, m)
		case m.request != nil:
			return m.request(s, q, x, m)
		}
	}
	code := q.PostForm.Get("code")
	if code == "" {
		return s.stepUpPage(q, x, m, http.StatusUnprocessableEntity, web.StepUp{Problem: "problem.code_missing"})
	}
	if !person.IsText(code, challenge.MaxCode) {
		code = "-" // always wrong, but counted like any other
	}
	wait, err := s.tryAnswer(q, &response{stepUp: x, method: m, signIn: q.SignIn, from: s.deps.Origin(q.Request), code: code})
	switch {
	case err == nil && wait > 0:
		in := web.StepUp{Problem: "problem.wait", Wait: webflow.RetryAfter(q.W, wait)}
		return s.stepUpPage(q, x, m, http.StatusTooManyRequests, in)
	case err == nil:
		return q.Redirect(x.flow.Demand.Return)
	case errors.Is(err, person.ErrMismatch):
		return s.wrongAnswerPage(q, x, m)
	}
	return err
}

// wrongAnswerPage writes the page again after a wrong answer, which may have locked the method or used up the code.
func (s *Service) wrongAnswerPage(q *webflow.Request, x *stepUp, m *Method) error {
	locked := false
	err := s.deps.Store.View(q.Context(), func(tx storage.Tx) error {
		own, err := readRecord(tx, q.SignIn.Session.PersonID)
		if err != nil {
			return err
		}
		locked = m.locked != nil && m.locked(&own)
		return s.readCode(tx, q.SignIn, x, m)
	})
	if err != nil {
		return err
	}
	problem := cmp.Or(m.wrong, "problem.code")
	if locked {
		problem += "_locked"
	}
	return s.stepUpPage(q, x, m, http.StatusUnprocessableEntity, web.StepUp{Problem: problem})
}
