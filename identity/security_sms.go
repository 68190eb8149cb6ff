package identity

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// smsSetUp is a request of the page that sets up codes by text message.
type smsSetUp struct {
	si         *signedIn
	self, next string
	number     string // that a code was sent to. Empty: none yet
}

// smsPage reads what the two handlers of the page share. Otherwise it has written the answer and is not ok.
func (s *Service) smsPage(w http.ResponseWriter, r *http.Request) (x smsSetUp, ok bool) {
	x.self, x.next = withFlow(smsMethod.setUp, r)
	si, st, ok := s.requireSetUp(w, r, x.self)
	switch {
	case !ok:
		return x, false
	case s.SMS == nil || smsMethod.level(st.units) == 0:
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return x, false
	case pick(st.has, smsMethod.name) != nil:
		s.redirect(w, r, x.next)
		return x, false
	}
	x.si = si
	now := s.Now()
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		x.number, err = newNumber(tx, si.id, now)
		return err
	})
	if err != nil {
		s.fail(w, r, err, x.self)
	}
	return x, err == nil
}

// smsForm writes the form: for a number, or for the code that was sent to it.
func (s *Service) smsForm(w http.ResponseWriter, r *http.Request, x smsSetUp, status int, typed string, in page.Form) {
	var err error
	if in.CSRF, err = s.securityForm(w, r, x.si, "sms"); err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	in.Action, in.Cancel = x.self, x.next
	if x.number == "" {
		in.Key = "sms_number"
		in.Fields = page.Fields(in.Problem != "" && in.Problem != "problem.phone", page.Field{
			Name: "number", Type: "tel", Label: "sms_number.label", Hint: "sms_number.hint", Value: typed, Autocomplete: "tel", MaxLength: maxTag, Required: true,
			Problem: problemOf(&in, "problem.phone"),
		})
	} else {
		in.Key, in.Fill, in.Other = "sms_code", []any{"to", x.number}, &page.OtherButton{Name: "again", Label: "sms_code.other"}
		in.Fields = page.Fields(in.Problem != "", page.Field{
			Name: "code", Type: "code", Label: "step_up.sms.label", MaxLength: maxCode, Required: true, Problem: problemOf(&in, "problem.code"),
		})
	}
	s.Pages.Render(w, r, page.View{Template: "form", Status: status, Locales: x.si.locales(), Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
}

// problemOf moves a problem from above the form to its field.
func problemOf(in *page.Form, problem string) string {
	if in.Problem != problem {
		return ""
	}
	in.Problem = ""
	return problem
}

// showSMS serves GET /account/security/sms: a number, then the code that was sent to it.
func (s *Service) showSMS(w http.ResponseWriter, r *http.Request) {
	x, ok := s.smsPage(w, r)
	if !ok {
		return
	}
	typed := ""
	if x.number == "" {
		err := s.Store.View(r.Context(), func(tx storage.Tx) error {
			t, err := stepUpOwner(tx, x.si)
			if err != nil {
				return err
			}
			typed = textNumber(t.profile)
			for _, n := range t.profile.PhoneNumbers {
				if n.Primary && typed == "" {
					typed, _ = parsePhone(n.Value)
				}
			}
			return nil
		})
		if err != nil {
			s.fail(w, r, err, x.self)
			return
		}
	}
	s.smsForm(w, r, x, http.StatusOK, typed, page.Form{})
}

// handleSMS serves POST /account/security/sms.
func (s *Service) handleSMS(w http.ResponseWriter, r *http.Request) {
	x, ok := s.smsPage(w, r)
	if !ok || !s.checkSecurityForm(w, r, x.si, "sms", x.self) {
		return
	}
	switch {
	case r.PostForm.Get("again") != "":
		err := s.Store.Update(r.Context(), func(tx storage.Tx) error { return smsSetUps.Delete(tx, x.si.id) })
		if err != nil {
			s.fail(w, r, err, x.self)
			return
		}
		s.redirect(w, r, x.self)
	case x.number == "" || r.PostForm.Has("number"):
		x.number = ""
		s.takeNumber(w, r, x)
	default:
		s.takeNumberCode(w, r, x)
	}
}

// takeNumber sends a code to a number.
func (s *Service) takeNumber(w http.ResponseWriter, r *http.Request, x smsSetUp) {
	typed := r.PostForm.Get("number")
	number, ok := parsePhone(typed)
	if !ok {
		if !isText(typed, maxTag) {
			typed = ""
		}
		s.smsForm(w, r, x, http.StatusUnprocessableEntity, typed, page.Form{Problem: "problem.phone"})
		return
	}
	code, err := newSentCode(s.Random)
	var wait time.Duration
	if err == nil {
		now := s.Now()
		err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.maySetUp(tx, x.si); err != nil {
				return err
			}
			t, err := stepUpOwner(tx, x.si)
			if err != nil {
				return err
			}
			wait, err = s.sendCode(tx, numberCode(x.si, number), code, now, func(tx storage.Tx, code string) error {
				return s.textCode(tx, t, notify.SMSPhoneCode, number, code, now)
			})
			if err != nil || wait > 0 {
				return err
			}
			rec := smsSetUpRecord{Number: number, ExpiresAt: now.Add(sentCodeLife)}
			return smsSetUps.Put(tx, x.si.id, rec, rec.ExpiresAt.Add(collectAfter))
		})
	}
	switch {
	case errors.Is(err, errMismatch):
		s.redirect(w, r, x.next)
	case err != nil:
		s.fail(w, r, err, x.self)
	case wait > 0:
		in := page.Form{Problem: "problem.sent", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.smsForm(w, r, x, http.StatusTooManyRequests, number, in)
	default:
		s.redirect(w, r, x.self)
	}
}

// takeNumberCode takes the code that was sent to the number.
func (s *Service) takeNumberCode(w http.ResponseWriter, r *http.Request, x smsSetUp) {
	err := s.addSMS(r.Context(), w, r, x, strings.TrimSpace(r.PostForm.Get("code")))
	switch {
	case errors.Is(err, errMismatch):
		s.smsForm(w, r, x, http.StatusUnprocessableEntity, "", page.Form{Problem: "problem.code"})
	case err != nil:
		s.fail(w, r, err, x.self)
	default:
		s.redirect(w, r, x.next)
	}
}

// addSMS says of a number whose code the person has shown that it is theirs, and raises the session to what such a code is worth.
func (s *Service) addSMS(ctx context.Context, w http.ResponseWriter, r *http.Request, x smsSetUp, code string) error {
	spend, err := s.checkCode(ctx, numberCode(x.si, x.number), code)
	if err != nil {
		return err
	}
	ev, err := s.newEvents(s.Origin(r), stepUpAdded)
	if err != nil {
		return err
	}
	change, err := s.newUpdate(x.si.session.PersonID, Edit{By: s.actor(r, x.si), Verified: true})
	if err != nil {
		return err
	}
	return s.raise(w, r, raising{si: x.si, method: &smsMethod, setUp: true, spend: func(tx storage.Tx, own *stepUpRecord) (bool, error) {
		st, err := s.maySetUp(tx, x.si)
		if err != nil || smsMethod.level(st.units) == 0 {
			return false, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return false, err
		}
		if err := smsSetUps.Delete(tx, x.si.id); err != nil {
			return false, err
		}
		change.tx = tx
		if _, err := change.run(func(_ storage.Tx, d *Details) error {
			putNumber(&d.Profile, x.number)
			if textNumber(&d.Profile) != x.number { // an old one, whose codes nobody may read any more
				contact{contactPhone, x.number}.prefer(&d.Profile)
			}
			return nil
		}); err != nil {
			return false, err
		}
		own.NoSMS = false
		return true, s.Events.Append(tx, x.si.own(ev[0], smsMethod.name))
	}})
}

// putNumber says that a number is verified: the one that is there, however it is written, or a new one.
func putNumber(p *Profile, number string) {
	i := slices.IndexFunc(p.PhoneNumbers, func(n PhoneNumber) bool {
		same, ok := parsePhone(n.Value)
		return ok && same == number
	})
	if i >= 0 {
		p.PhoneNumbers[i].Verified = true
		return
	}
	contact{contactPhone, number}.put(p, true)
}
