package mfa

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/mfa/codes"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// LinkPINReset is the kind of the link in the mail for a new PIN, PINResetPath the page that it opens.
const (
	LinkPINReset challenge.LinkKind = "pin-reset"
	PINResetPath                    = webflow.SecurityPath + "/pin-reset"
)

const (
	pinForgotPath = webflow.SecurityPath + "/pin/forgot"
	pinForgotForm = "pin forgot"
	pinResetLife  = 30 * time.Minute
)

// pinResetAddress returns where a link for a new PIN would be sent to, or "".
func (s *Service) pinResetAddress(tx storage.Tx, si *session.Current, st *Standing) (to string, err error) {
	if !s.SendsPINs(st) {
		return "", nil
	}
	return emailAddress(tx, si)
}

// SendsPINs reports whether a link for a new PIN would be sent to any verified address of the person.
func (s *Service) SendsPINs(st *Standing) bool {
	return s.deps.Notify != nil && st.Units.EmailNotifications.PINReset && st.Own.PIN != nil && pinMethod.Level(st.Units) > 0
}

// pinResetRequest is a request of a person who may get a link for a new PIN.
type pinResetRequest struct {
	setUp
	to   string
	flow string // of the step-up that the PIN is for. Empty: none
}

// readPINForgotten reads a request of the page that sends the link. It needs a password sign-in only: the PIN may be
// the one method there is.
func (s *Service) readPINForgotten(q *webflow.Request) (x pinResetRequest, err error) {
	x.flow = flowOf(q.Request)
	x.self, x.next = withFlow(pinForgotPath, q.Request)
	q.Again = x.self
	if err := s.deps.Front.NeedLevelAlone(q, session.PasswordLevel, x.self); err != nil {
		return x, err
	}
	now := s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if x.standing, err = s.StandingIn(tx, q.SignIn, q.Settings); err != nil {
			return err
		}
		if x.to, err = s.pinResetAddress(tx, q.SignIn, x.standing); err != nil {
			return err
		}
		x.client, err = s.readClient(tx, q, x.flow, now)
		return err
	})
	if err == nil && x.to == "" {
		err = redirectInstead(q, x.next)
	}
	return x, err
}

func (s *Service) pinForgottenPage(q *webflow.Request, x pinResetRequest, status int, in web.Form) (err error) {
	if in.CSRF, err = s.deps.Front.FormToken(q, webflow.SessionForm(pinForgotForm, q.SignIn)); err != nil {
		return err
	}
	in.Key, in.Fill, in.Action, in.Cancel = "pin_forgot", []any{"to", person.MaskEmail(x.to)}, x.self, x.next
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "form", Status: status, Locales: q.SignIn.Locales(), Client: x.client, Data: in})
	return nil
}

// showPINForgot serves GET /account/security/pin/forgot: a question; it sends nothing.
func (s *Service) showPINForgot(q *webflow.Request) error {
	x, err := s.readPINForgotten(q)
	switch {
	case err != nil:
		return err
	case q.URL.Query().Get("sent") == "":
		return s.pinForgottenPage(q, x, http.StatusOK, web.Form{})
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "form", Locales: q.SignIn.Locales(), Data: web.Form{
		Key: "pin_forgot_sent", Fill: []any{"to", person.MaskEmail(x.to)}, Cancel: x.next,
	}})
	return nil
}

// handlePINForgot serves POST /account/security/pin/forgot.
func (s *Service) handlePINForgot(q *webflow.Request) error {
	x, err := s.readPINForgotten(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(pinForgotForm, q.SignIn), x.self)
	}
	if err != nil {
		return err
	}
	personID, now := q.SignIn.Session.PersonID, s.deps.Now()
	var wait time.Duration
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) (err error) {
		limit := challenge.CodePurpose{Purpose: "pin reset", To: x.to, Limit: personID}
		if wait, err = s.deps.Proof.CountSent(tx, limit, 0, now); err != nil || wait > 0 {
			return err
		}
		t, err := recipientOf(tx, q.SignIn)
		if err != nil {
			return err
		}
		n := t.Notice(notify.PINReset, now)
		data := map[string]string{challenge.LinkTo: n.To, webflow.LinkFlow: x.flow}
		if n.Link, err = s.deps.Proof.NewLink(tx, LinkPINReset, personID, data, pinResetLife, now); err != nil {
			return err
		}
		return s.deps.Person.SendNotice(tx, n)
	})
	switch {
	case err != nil:
		return err
	case wait > 0:
		in := web.Form{}
		webflow.Waits(q.W, &in, "problem.sent_link", wait)
		return s.pinForgottenPage(q, x, http.StatusTooManyRequests, in)
	}
	sent := url.Values{"sent": {"1"}}
	if x.flow != "" {
		sent.Set("flow", x.flow)
	}
	return q.Redirect(pinForgotPath + "?" + sent.Encode())
}

// pinResetLink is a request of the page that the link opens.
type pinResetLink struct {
	*challenge.OpenLink
	client authn.Client // of the step-up that the PIN is for
}

// readPINReset reads a request of the page that the link opens. The person of the link has to be signed in.
func (s *Service) readPINReset(q *webflow.Request) (x pinResetLink, err error) {
	now := s.deps.Now()
	x.OpenLink, err = s.deps.Front.LinkIn(q, LinkPINReset, pinForgotPath, func(tx storage.Tx, o *challenge.OpenLink) (err error) {
		x.client, err = s.readClient(tx, q, o.Record.Data[webflow.LinkFlow], now)
		return err
	})
	if err != nil {
		return x, err
	}
	if err := s.deps.Front.NeedLevelAlone(q, session.PasswordLevel, PINResetPath); err != nil {
		return x, err
	}
	if q.SignIn.Session.PersonID != x.Record.PersonID {
		return x, s.deps.Front.LinkError(q, LinkPINReset, pinForgotPath, challenge.ErrNoLink)
	}
	q.Again = webflow.SecurityPath
	return x, nil
}

func (s *Service) pinResetPage(q *webflow.Request, x pinResetLink, status int, problem string) error {
	csrf, err := s.deps.Front.FormToken(q, x.Form())
	if err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{
		Template: "pin", Status: status, Locales: q.SignIn.Locales(), Client: x.client,
		Data: web.PIN{Action: PINResetPath, CSRF: csrf, Problem: problem, Cancel: webflow.SecurityPath},
	})
	return nil
}

// showPINReset serves GET /account/security/pin-reset: the page for a new PIN.
func (s *Service) showPINReset(q *webflow.Request) error {
	x, err := s.readPINReset(q)
	if err != nil {
		return err
	}
	return s.pinResetPage(q, x, http.StatusOK, "")
}

// handlePINReset serves POST /account/security/pin-reset: it replaces the PIN, which unlocks it, and uses up the link.
func (s *Service) handlePINReset(q *webflow.Request) error {
	x, err := s.readPINReset(q)
	if err == nil {
		err = s.deps.Front.CheckLink(q, x.OpenLink)
	}
	if err != nil {
		return err
	}
	pin := strings.TrimSpace(q.PostForm.Get("pin"))
	if problem := codes.PINProblem(pin, strings.TrimSpace(q.PostForm.Get("again"))); problem != "" {
		return s.pinResetPage(q, x, http.StatusUnprocessableEntity, problem)
	}
	flow, _, err := s.deps.Front.SignInOf(q.Request, x.Record.Data[webflow.LinkFlow])
	if err == nil {
		err = s.resetPIN(q, x.OpenLink, pin)
	}
	switch {
	case errors.Is(err, challenge.ErrNoLink), errors.Is(err, person.ErrMismatch):
		return s.deps.Front.LinkError(q, LinkPINReset, pinForgotPath, challenge.ErrNoLink)
	case err != nil:
		return err
	}
	s.deps.Jar.Clear(q.W, challenge.LinkCookieOf(LinkPINReset))
	if flow != "" {
		return q.Redirect(URL(flow))
	}
	return q.Redirect(webflow.SecurityPath)
}

// resetPIN stores a PIN in place of the old one. The password and access to the person's mail together prove as much as
// a PIN does.
func (s *Service) resetPIN(q *webflow.Request, o *challenge.OpenLink, pin string) error {
	rec, err := s.newPIN(q.Context(), q.SignIn.Session.PersonID, pin)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), pinReset)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.raise(q, gain{method: &pinMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		if _, err := s.deps.Proof.SpendLink(tx, LinkPINReset, o.Token, now); err != nil {
			return false, err
		}
		st, err := s.ReadStanding(tx, q.SignIn)
		if err != nil {
			return false, err
		}
		if to, err := s.pinResetAddress(tx, q.SignIn, st); err != nil || to == "" {
			return false, err
		}
		// Sessions that were raised with the old PIN may belong to a thief.
		if err := s.deps.Session.LowerSessions(tx, q.SignIn.Session.PersonID, pinMethod.Name, ""); err != nil {
			return false, err
		}
		own.PIN = rec
		return true, s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], ""))
	}})
}
