package stepup

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const LinkPINReset proof.LinkKind = "pin-reset"

const (
	PINResetPath  = front.SecurityPath + "/pin-reset"
	pinForgotPath = front.SecurityPath + "/pin/forgot"
	pinResetLife  = 30 * time.Minute
)

// resetsPIN tells where a link for another PIN would be sent to, or "": the person has none, or nobody sends links.
func (s *Service) resetsPIN(tx storage.Tx, si *session.Current, st *Standing) (to string, err error) {
	if !s.SendsPINs(st) {
		return "", nil
	}
	return stepUpAddress(tx, si)
}

// SendsPINs tells whether a link for another PIN of the person would be sent to any address that is verified.
func (s *Service) SendsPINs(st *Standing) bool {
	return s.notify != nil && st.Units.EmailNotifications.PINReset && st.Own.PIN != nil && PINMethod.Level(st.Units) > 0
}

// pinResetRequest is a person who may get a link for another PIN.
type pinResetRequest struct {
	si         *session.Current
	to         string
	flow       string // the step-up that it is for. Empty: none
	self, next string
}

// pinForgotten reads a request of the page that sends the link. Otherwise it has written the answer and is not ok.
func (s *Service) pinForgotten(w http.ResponseWriter, r *http.Request) (x pinResetRequest, ok bool) {
	x.self, x.next = withFlow(pinForgotPath, r)
	if x.flow = r.URL.Query().Get("flow"); len(x.flow) > 64 {
		x.flow = ""
	}
	if x.si, ok = s.front.RequireLevel(w, r, session.PasswordLevel, x.self); !ok {
		return x, false
	}
	err := s.store.View(r.Context(), func(tx storage.Tx) error {
		st, err := s.ReadStanding(tx, x.si)
		if err == nil {
			x.to, err = s.resetsPIN(tx, x.si, st)
		}
		return err
	})
	switch {
	case err != nil:
		s.front.Fail(w, r, err, x.self)
	case x.to == "":
		s.front.Redirect(w, r, x.next)
	default:
		return x, true
	}
	return x, false
}

func (s *Service) pinForgotForm(w http.ResponseWriter, r *http.Request, x pinResetRequest, status int, in page.Form) {
	var err error
	if in.CSRF, err = s.front.SecurityForm(w, r, x.si, "pin forgot"); err != nil {
		s.front.Fail(w, r, err, x.self)
		return
	}
	in.Key, in.Fill, in.Action, in.Cancel = "pin_forgot", []any{"to", person.MaskEmail(x.to)}, x.self, x.next
	s.pages.Render(w, r, page.View{Template: "form", Status: status, Locales: x.si.Locales(), Client: s.leadsTo(r, x.flow), Data: in})
}

// showPINForgot serves GET /account/security/pin/forgot: it asks, and sends nothing.
func (s *Service) showPINForgot(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pinForgotten(w, r)
	switch {
	case !ok:
	case r.URL.Query().Get("sent") != "":
		s.pages.Render(w, r, page.View{Template: "form", Locales: x.si.Locales(), Data: page.Form{
			Key: "pin_forgot_sent", Fill: []any{"to", person.MaskEmail(x.to)}, Cancel: x.next,
		}})
	default:
		s.pinForgotForm(w, r, x, http.StatusOK, page.Form{})
	}
}

// handlePINForgot serves POST /account/security/pin/forgot.
func (s *Service) handlePINForgot(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pinForgotten(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, x.si, "pin forgot", x.self) {
		return
	}
	person, now := x.si.Session.PersonID, s.now()
	var wait time.Duration
	err := s.store.Update(r.Context(), func(tx storage.Tx) (err error) {
		limit := proof.CodePurpose{Purpose: "pin reset", To: x.to, Limit: person}
		if wait, err = s.proof.CountSent(tx, limit, 0, now); err != nil || wait > 0 {
			return err
		}
		t, err := stepUpOwner(tx, x.si)
		if err != nil {
			return err
		}
		n := t.Notice(notify.PINReset, now)
		if n.Link, err = s.proof.NewLink(tx, LinkPINReset, person, map[string]string{proof.LinkTo: n.To, front.LinkFlow: x.flow}, pinResetLife, now); err != nil {
			return err
		}
		return s.person.SendNotice(tx, n)
	})
	switch {
	case err != nil:
		s.front.Fail(w, r, err, x.self)
	case wait > 0:
		in := page.Form{Problem: "problem.sent_link", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.pinForgotForm(w, r, x, http.StatusTooManyRequests, in)
	default:
		q := url.Values{"sent": {"1"}}
		if x.flow != "" {
			q.Set("flow", x.flow)
		}
		s.front.Redirect(w, r, pinForgotPath+"?"+q.Encode())
	}
}

// pinOpened reads a request of the page that the link opens: of the person of the link, signed in. Otherwise it has written the answer and is not ok.
func (s *Service) pinOpened(w http.ResponseWriter, r *http.Request) (o *proof.OpenLink, si *session.Current, ok bool) {
	if o, ok = s.front.OpenLink(w, r, LinkPINReset, pinForgotPath); !ok {
		return nil, nil, false
	}
	if si, ok = s.front.RequireLevel(w, r, session.PasswordLevel, PINResetPath); !ok {
		return nil, nil, false
	}
	if si.Session.PersonID != o.Rec.PersonID {
		s.front.FailLink(w, r, LinkPINReset, pinForgotPath, proof.ErrNoLink)
		return nil, nil, false
	}
	return o, si, true
}

func (s *Service) pinResetForm(w http.ResponseWriter, r *http.Request, o *proof.OpenLink, si *session.Current, status int, problem string) {
	browser, err := s.jar.Browser(w, r, s.front.NewID)
	if err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	s.pages.Render(w, r, page.View{Template: "pin", Status: status, Locales: si.Locales(), Client: s.leadsTo(r, o.Rec.Data[front.LinkFlow]), Data: page.PIN{
		Action: PINResetPath, CSRF: s.pages.CSRF(browser, o.Form()), Problem: problem, Cancel: front.SecurityPath,
	}})
}

// showPINReset serves GET /account/security/pin-reset: the page for another PIN.
func (s *Service) showPINReset(w http.ResponseWriter, r *http.Request) {
	if o, si, ok := s.pinOpened(w, r); ok {
		s.pinResetForm(w, r, o, si, http.StatusOK, "")
	}
}

// handlePINReset serves POST /account/security/pin-reset: the PIN is another one and not locked, and the link is used up.
func (s *Service) handlePINReset(w http.ResponseWriter, r *http.Request) {
	o, si, ok := s.pinOpened(w, r)
	if !ok || !s.front.CheckLinkForm(w, r, o) {
		return
	}
	pin := strings.TrimSpace(r.PostForm.Get("pin"))
	if problem := pinProblem(pin, strings.TrimSpace(r.PostForm.Get("again"))); problem != "" {
		s.pinResetForm(w, r, o, si, http.StatusUnprocessableEntity, problem)
		return
	}
	next := front.SecurityPath
	id, _, err := s.front.SignInOf(r, o.Rec.Data[front.LinkFlow])
	if err == nil {
		if id != "" {
			next = URL(id)
		}
		err = s.resetPIN(w, r, o, si, pin)
	}
	switch {
	case errors.Is(err, proof.ErrNoLink), errors.Is(err, person.ErrMismatch):
		s.front.FailLink(w, r, LinkPINReset, pinForgotPath, proof.ErrNoLink)
	case err != nil:
		s.front.Fail(w, r, err, front.SecurityPath)
	default:
		s.jar.Clear(w, proof.LinkCookieOf(LinkPINReset))
		s.front.Redirect(w, r, next)
	}
}

// resetPIN stores a PIN in place of the one there is. Whoever has the password and reads the person's mail has shown what a PIN is worth.
func (s *Service) resetPIN(w http.ResponseWriter, r *http.Request, o *proof.OpenLink, si *session.Current, pin string) error {
	rec, err := s.newPIN(r.Context(), si.Session.PersonID, pin)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(s.origin(r), pinReset)
	if err != nil {
		return err
	}
	now := s.now()
	return s.raise(w, r, raise{si: si, method: &PINMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		if _, err := s.proof.SpendLink(tx, LinkPINReset, o.Token, now); err != nil {
			return false, err
		}
		st, err := s.ReadStanding(tx, si)
		if err != nil {
			return false, err
		}
		if to, err := s.resetsPIN(tx, si, st); err != nil || to == "" {
			return false, err
		}
		if err := s.session.LowerSessions(tx, si.Session.PersonID, PINMethod.Name, ""); err != nil { // those of whoever knew the PIN before
			return false, err
		}
		own.PIN = rec
		return true, s.events.Append(tx, si.OwnEvent(ev[0], ""))
	}})
}
