package identity

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

const linkPINReset linkKind = "pin-reset"

const (
	pinResetPath  = securityPath + "/pin-reset"
	pinForgotPath = securityPath + "/pin/forgot"
	pinResetLife  = 30 * time.Minute
)

// resetsPIN tells where a link for another PIN would be sent to, or "": the person has none, or nobody sends links.
func (s *Service) resetsPIN(tx storage.Tx, si *signedIn, st *standing) (to string, err error) {
	if !s.sendsPINs(st) {
		return "", nil
	}
	return stepUpAddress(tx, si)
}

// sendsPINs tells whether a link for another PIN of the person would be sent to any address that is verified.
func (s *Service) sendsPINs(st *standing) bool {
	return s.Notify != nil && st.units.EmailNotifications.PINReset && st.own.PIN != nil && pinMethod.level(st.units) > 0
}

// forgetful is a person who may get a link for another PIN.
type forgetful struct {
	si         *signedIn
	to         string
	flow       string // the step-up that it is for. Empty: none
	self, next string
}

// pinForgotten reads a request of the page that sends the link. Otherwise it has written the answer and is not ok.
func (s *Service) pinForgotten(w http.ResponseWriter, r *http.Request) (x forgetful, ok bool) {
	x.self, x.next = withFlow(pinForgotPath, r)
	if x.flow = r.URL.Query().Get("flow"); len(x.flow) > 64 {
		x.flow = ""
	}
	if x.si, ok = s.requireLevel(w, r, passwordLevel, x.self); !ok {
		return x, false
	}
	err := s.Store.View(r.Context(), func(tx storage.Tx) error {
		st, err := s.readStanding(tx, x.si)
		if err == nil {
			x.to, err = s.resetsPIN(tx, x.si, st)
		}
		return err
	})
	switch {
	case err != nil:
		s.fail(w, r, err, x.self)
	case x.to == "":
		s.redirect(w, r, x.next)
	default:
		return x, true
	}
	return x, false
}

func (s *Service) pinForgotForm(w http.ResponseWriter, r *http.Request, x forgetful, status int, in page.Form) {
	var err error
	if in.CSRF, err = s.securityForm(w, r, x.si, "pin forgot"); err != nil {
		s.fail(w, r, err, x.self)
		return
	}
	in.Key, in.Fill, in.Action, in.Cancel = "pin_forgot", []any{"to", maskEmail(x.to)}, x.self, x.next
	s.Pages.Render(w, r, page.View{Template: "form", Status: status, Locales: x.si.locales(), Client: s.leadsTo(r, x.flow), Data: in})
}

// showPINForgot serves GET /account/security/pin/forgot: it asks, and sends nothing.
func (s *Service) showPINForgot(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pinForgotten(w, r)
	switch {
	case !ok:
	case r.URL.Query().Get("sent") != "":
		s.Pages.Render(w, r, page.View{Template: "form", Locales: x.si.locales(), Data: page.Form{
			Key: "pin_forgot_sent", Fill: []any{"to", maskEmail(x.to)}, Cancel: x.next,
		}})
	default:
		s.pinForgotForm(w, r, x, http.StatusOK, page.Form{})
	}
}

// handlePINForgot serves POST /account/security/pin/forgot.
func (s *Service) handlePINForgot(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pinForgotten(w, r)
	if !ok || !s.checkSecurityForm(w, r, x.si, "pin forgot", x.self) {
		return
	}
	person, now := x.si.session.PersonID, s.Now()
	var wait time.Duration
	err := s.Store.Update(r.Context(), func(tx storage.Tx) (err error) {
		limit := codeFor{Purpose: "pin reset", To: x.to, Limit: person}
		if wait, err = s.countSent(tx, limit, 0, now); err != nil || wait > 0 {
			return err
		}
		t, err := stepUpOwner(tx, x.si)
		if err != nil {
			return err
		}
		n := t.notice(notify.PINReset, now)
		if n.Link, err = s.newLink(tx, linkPINReset, person, map[string]string{linkTo: n.To, linkFlow: x.flow}, pinResetLife, now); err != nil {
			return err
		}
		return s.send(tx, n)
	})
	switch {
	case err != nil:
		s.fail(w, r, err, x.self)
	case wait > 0:
		in := page.Form{Problem: "problem.sent_link", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.pinForgotForm(w, r, x, http.StatusTooManyRequests, in)
	default:
		q := url.Values{"sent": {"1"}}
		if x.flow != "" {
			q.Set("flow", x.flow)
		}
		s.redirect(w, r, pinForgotPath+"?"+q.Encode())
	}
}

// pinOpened reads a request of the page that the link opens: of the person of the link, signed in. Otherwise it has written the answer and is not ok.
func (s *Service) pinOpened(w http.ResponseWriter, r *http.Request) (o *opened, si *signedIn, ok bool) {
	if o, ok = s.openLink(w, r, linkPINReset, pinForgotPath); !ok {
		return nil, nil, false
	}
	if si, ok = s.requireLevel(w, r, passwordLevel, pinResetPath); !ok {
		return nil, nil, false
	}
	if si.session.PersonID != o.rec.PersonID {
		s.failLink(w, r, linkPINReset, pinForgotPath, errNoLink)
		return nil, nil, false
	}
	return o, si, true
}

func (s *Service) pinResetForm(w http.ResponseWriter, r *http.Request, o *opened, si *signedIn, status int, problem string) {
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	s.Pages.Render(w, r, page.View{Template: "pin", Status: status, Locales: si.locales(), Client: s.leadsTo(r, o.rec.Data[linkFlow]), Data: page.PIN{
		Action: pinResetPath, CSRF: s.Pages.CSRF(browser, o.form()), Problem: problem, Cancel: securityPath,
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
	if !ok || !s.checkLinkForm(w, r, o) {
		return
	}
	pin := strings.TrimSpace(r.PostForm.Get("pin"))
	if problem := pinProblem(pin, strings.TrimSpace(r.PostForm.Get("again"))); problem != "" {
		s.pinResetForm(w, r, o, si, http.StatusUnprocessableEntity, problem)
		return
	}
	next := securityPath
	id, _, err := s.signInOf(r, o.rec.Data[linkFlow])
	if err == nil {
		if id != "" {
			next = stepUpURL(id)
		}
		err = s.resetPIN(w, r, o, si, pin)
	}
	switch {
	case errors.Is(err, errNoLink), errors.Is(err, errMismatch):
		s.failLink(w, r, linkPINReset, pinForgotPath, errNoLink)
	case err != nil:
		s.fail(w, r, err, securityPath)
	default:
		s.jar.Clear(w, linkCookieOf(linkPINReset))
		s.redirect(w, r, next)
	}
}

// resetPIN stores a PIN in place of the one there is. Whoever has the password and reads the person's mail has shown what a PIN is worth.
func (s *Service) resetPIN(w http.ResponseWriter, r *http.Request, o *opened, si *signedIn, pin string) error {
	rec, err := s.newPIN(r.Context(), si.session.PersonID, pin)
	if err != nil {
		return err
	}
	ev, err := s.newEvents(s.Origin(r), pinReset)
	if err != nil {
		return err
	}
	now := s.Now()
	return s.raise(w, r, raising{si: si, method: &pinMethod, setUp: true, spend: func(tx storage.Tx, own *stepUpRecord) (bool, error) {
		if _, err := s.spendLink(tx, linkPINReset, o.token, now); err != nil {
			return false, err
		}
		st, err := s.readStanding(tx, si)
		if err != nil {
			return false, err
		}
		if to, err := s.resetsPIN(tx, si, st); err != nil || to == "" {
			return false, err
		}
		if err := s.lowerSessions(tx, si.session.PersonID, pinMethod.name, ""); err != nil { // those of whoever knew the PIN before
			return false, err
		}
		own.PIN = rec
		return true, s.Events.Append(tx, si.own(ev[0], ""))
	}})
}
