package qrlogin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const guessesPerNet = 20 // tokens of no code that a network sends before the first wait

// phone is a request of the page on the phone, of a person who is signed in there.
type phone struct {
	scanned
	*webflow.Request

	token string
	lacks bool // the person has to confirm first who they are
	has   bool // the person has the method of step-up that is wanted
	other bool // the person is signed in by a provider, which decides how long that lasts
}

func (x *phone) self() string { return phoneURL(x.rec.ID) }

func (x *phone) form() string { return "phone:" + x.rec.ID + ":" + x.SignIn.ID }

func phoneURL(id string) string { return PhonePath + "?" + url.Values{"id": {id}}.Encode() }

// readPhone reads a request of the phone. The token is put into a cookie, and the browser sent on without it. Nothing
// of the code is told before the person has signed in.
func (s *Service) readPhone(q *webflow.Request) (x *phone, err error) {
	if token := q.URL.Query().Get(challenge.LinkParam); token != "" && q.Method != http.MethodPost {
		if !secret.IsToken(secret.PhoneCode, token) {
			return nil, noCode()
		}
		s.deps.Jar.Set(q.W, kindPhone, token, codeLife+approvalLife)
		return nil, cmp.Or(q.Redirect(PhonePath), webflow.ErrAnswered)
	}
	x = &phone{Request: q, token: s.deps.Jar.Get(q.Request, kindPhone)}
	if x.token == "" {
		return nil, noCode()
	}
	hash, now := tokenHash(x.token), s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		x.scanned, err = s.read(tx, q.Settings, hash, now)
		return err
	})
	switch {
	case errors.Is(err, ErrNoCode), errors.Is(err, ErrOff):
		return nil, s.guessed(q)
	case err != nil:
		return nil, err
	case q.URL.Query().Get("id") != x.rec.ID:
		return nil, cmp.Or(q.Redirect(x.self()), webflow.ErrAnswered)
	}
	// The sign-in on the phone is as fresh as the application wants the one that it makes.
	d := authn.Demand{
		Provider: session.LocalProvider, MaxAge: x.flow.Demand.MaxAge, NotBefore: x.flow.Demand.NotBefore, Return: x.self(),
		Level: session.PasswordLevel,
	}
	result, err := s.deps.Front.Authenticate(q, d)
	if err != nil {
		q.Again = x.self()
		return nil, webflow.SignInError(err, x.self())
	}
	if q.SignIn == nil || q.SignIn.ID != result.SessionID { // ended or replaced this very moment
		return nil, cmp.Or(q.Redirect(x.self()), webflow.ErrAnswered)
	}
	x.other, x.lacks = q.SignIn.Session.Provider != session.LocalProvider, x.scanned.lacks(&q.SignIn.Session)
	if x.lacks && x.way.factor != "" {
		var st *mfa.Standing
		if st, err = s.deps.StepUp.StandingOf(q.Context(), q.SignIn); err != nil {
			return nil, err
		}
		x.has = st.Offers(x.way.factor)
	}
	return x, nil
}

// noCode is the answer to a token that leads to no code.
func noCode() error { return &webflow.Answer{Status: http.StatusBadRequest, Key: "error.phone"} }

// guessed counts a token of no code, and returns the answer.
func (s *Service) guessed(q *webflow.Request) error {
	s.deps.Jar.Clear(q.W, kindPhone)
	network, now := secret.LineOf(s.deps.Origin(q.Request).ClientIP), s.deps.Now()
	var wait time.Duration
	err := s.deps.Store.Update(q.Context(), func(tx storage.Tx) (err error) {
		wait, err = s.deps.Proof.CountRequest(tx, "phone-guess", network, guessesPerNet, now)
		return err
	})
	switch {
	case err != nil:
		return err
	case wait > 0:
		webflow.RetryAfter(q.W, wait)
		return &webflow.Answer{Status: http.StatusTooManyRequests, Key: "error.wait"}
	}
	return noCode()
}

// showPhone serves GET /phone, on the phone: who asks, and from where. It changes nothing.
func (s *Service) showPhone(q *webflow.Request) error {
	x, err := s.readPhone(q)
	if err != nil {
		return err
	}
	return s.answerPage(x, http.StatusOK, "", 0)
}

// endPages are the pages of codes that wait no longer.
var endPages = map[string]string{stateDenied: "scan_denied", stateWrong: "scan_wrong", stateOver: "scan_over"}

// answerPage writes the page on the phone. left is how many numbers can still be typed, for a problem with one.
func (s *Service) answerPage(x *phone, status int, problem string, left int) (err error) {
	state := x.rec.state(s.deps.Now())
	in := web.Push{Fill: []any{"account", x.SignIn.Person.Username, "n", left}, Problem: problem}
	switch {
	case state == stateApproved && x.rec.PersonID == x.SignIn.Session.PersonID:
		in.Key = "scan_approved"
		return s.phonePage(x, status, in)
	case state == stateApproved:
		in.Key = "scan_over"
		return s.phonePage(x, status, in)
	case state != stateWaiting:
		in.Key = endPages[state]
		return s.phonePage(x, status, in)
	}
	in.Facts, in.Message = x.facts(), x.way.mobile.LoginMessage
	switch {
	case x.way.by == byApp:
		in.Key, in.Open, in.Stores = "scan_app", x.way.open(x.token), x.way.stores()
		return s.phonePage(x, status, in)
	case x.other:
		in.Key = "scan_other"
		return s.phonePage(x, status, in)
	case x.lacks && x.way.factor != "" && !x.has:
		in.Key, in.Message, in.Set = "scan_set_up", x.way.mobile.StepUpMessage, webflow.SecurityPath
		return s.phonePage(x, status, in)
	}
	in.Action, in.Deny = x.self(), true
	if in.CSRF, err = s.deps.Front.FormToken(x.Request, x.form()); err != nil {
		return err
	}
	if x.lacks {
		in.Key, in.Message = "scan_confirm", x.way.mobile.StepUpMessage
		return s.phonePage(x, status, in)
	}
	in.Key = "scan_approve"
	in.Fields = web.Fields(problem != "",
		web.Field{Name: "number", Type: "code", Label: "push.number", Autocomplete: "off", MaxLength: 2, Required: true, Invalid: problem != ""})
	return s.phonePage(x, status, in)
}

// facts returns the facts by which a person recognises their own sign-in.
func (x *phone) facts() []web.PushFact {
	out := []web.PushFact{
		{Label: "push.browser", Value: webflow.AgentText(x.rec.Agent)},
		{Label: "push.address", Value: web.Say("push.value", "value", x.rec.Address)},
		{Label: "push.time", Value: web.Say("push.at", "time", x.rec.At)},
	}
	if x.rec.Name != "" {
		out = append([]web.PushFact{{Label: "push.client", Value: web.Say("push.value", "value", x.rec.Name)}}, out...)
	}
	return out
}

func (s *Service) phonePage(x *phone, status int, in web.Push) error {
	s.deps.Pages.Render(x.W, x.Request.Request, web.View{Template: "push", Status: status, Locales: x.SignIn.Locales(), Data: in})
	return nil
}

// handlePhone serves POST /phone?id=…, on the phone: it approves with the number of the other screen, or denies. A
// person who has to confirm first who they are is sent there.
func (s *Service) handlePhone(q *webflow.Request) error {
	x, err := s.readPhone(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(), x.self())
	}
	if err != nil {
		return err
	}
	deny, number := q.PostForm.Get("deny") != "", strings.TrimSpace(q.PostForm.Get("number"))
	switch {
	case x.rec.state(s.deps.Now()) != stateWaiting, x.way.by == byApp, x.other && !deny:
		return q.Redirect(x.self())
	case !deny && x.lacks:
		return s.confirm(x)
	case !deny && number == "":
		return s.answerPage(x, http.StatusUnprocessableEntity, "problem.push_missing", 0)
	}
	who := approver{personID: q.SignIn.Session.PersonID, session: q.SignIn.ID, by: s.deps.Front.Actor(q.Request, q.SignIn)}
	left, err := s.answer(q.Context(), x.rec.Token, who, deny, x.isNumber(number))
	switch {
	case errors.Is(err, ErrNumber) && left > 0:
		return s.answerPage(x, http.StatusUnprocessableEntity, "problem.scan_number", left)
	case errors.Is(err, ErrNumber), errors.Is(err, ErrOver), errors.Is(err, ErrFactor), errors.Is(err, ErrPerson),
		errors.Is(err, ErrNoCode), errors.Is(err, ErrOff):
		return q.Redirect(x.self())
	case err != nil:
		return err
	}
	return q.Redirect(x.self())
}

// confirm sends the person to show who they are: by the method that the settings name, or to the level of the sign-in.
func (s *Service) confirm(x *phone) error {
	if x.way.factor == "" {
		if err := s.deps.Front.NeedLevel(x.Request, x.way.level, x.self()); err != nil {
			return err
		}
		return x.Redirect(x.self())
	}
	if !x.has {
		return x.Redirect(x.self())
	}
	id, err := s.deps.Front.NewFlow(x.W, x.Request.Request, authn.Demand{MaxAge: -1, Return: x.self(), Client: authn.Client{Name: x.rec.Name}})
	if err == nil {
		err = s.deps.Front.ChangeFlow(x.Context(), id, func(f *webflow.FlowRecord) { f.Method = x.way.factor })
	}
	if err != nil {
		return err
	}
	return x.Redirect(mfa.URL(id))
}
