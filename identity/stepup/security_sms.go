package stepup

import (
	"context"
	"errors"
	"net/http"
	"slices"
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

// smsSetUp is a request of the page that sets up codes by text message.
type smsSetUp struct {
	si         *session.Current
	self, next string
	number     string // that a code was sent to. Empty: none yet
}

// smsPage reads what the two handlers of the page share. Otherwise it has written the answer and is not ok.
func (s *Service) smsPage(w http.ResponseWriter, r *http.Request) (x smsSetUp, ok bool) {
	x.self, x.next = withFlow(SMSMethod.setUp, r)
	si, st, ok := s.RequireSetUp(w, r, x.self)
	switch {
	case !ok:
		return x, false
	case s.sms == nil || SMSMethod.Level(st.Units) == 0:
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return x, false
	case Pick(st.Has, SMSMethod.Name) != nil:
		s.front.Redirect(w, r, x.next)
		return x, false
	}
	x.si = si
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		x.number, err = newNumber(tx, si.ID, now)
		return err
	})
	if err != nil {
		s.front.Fail(w, r, err, x.self)
	}
	return x, err == nil
}

// smsForm writes the form: for a number, or for the code that was sent to it.
func (s *Service) smsForm(w http.ResponseWriter, r *http.Request, x smsSetUp, status int, typed string, in page.Form) {
	var err error
	if in.CSRF, err = s.front.SecurityForm(w, r, x.si, "sms"); err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	in.Action, in.Cancel = x.self, x.next
	if x.number == "" {
		in.Key = "sms_number"
		in.Fields = page.Fields(in.Problem != "" && in.Problem != "problem.phone", page.Field{
			Name: "number", Type: "tel", Label: "sms_number.label", Hint: "sms_number.hint", Value: typed, Autocomplete: "tel", MaxLength: person.MaxTag, Required: true,
			Problem: problemOf(&in, "problem.phone"),
		})
	} else {
		in.Key, in.Fill, in.Other = "sms_code", []any{"to", x.number}, &page.OtherButton{Name: "again", Label: "sms_code.other"}
		in.Fields = page.Fields(in.Problem != "", page.Field{
			Name: "code", Type: "code", Label: "step_up.sms.label", MaxLength: proof.MaxCode, Required: true, Problem: problemOf(&in, "problem.code"),
		})
	}
	s.pages.Render(w, r, page.View{Template: "form", Status: status, Locales: x.si.Locales(), Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
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
		err := s.store.View(r.Context(), func(tx storage.Tx) error {
			t, err := stepUpOwner(tx, x.si)
			if err != nil {
				return err
			}
			typed = person.TextNumber(t.Profile)
			for _, n := range t.Profile.PhoneNumbers {
				if n.Primary && typed == "" {
					typed, _ = person.ParsePhone(n.Value)
				}
			}
			return nil
		})
		if err != nil {
			s.front.Fail(w, r, err, x.self)
			return
		}
	}
	s.smsForm(w, r, x, http.StatusOK, typed, page.Form{})
}

// handleSMS serves POST /account/security/sms.
func (s *Service) handleSMS(w http.ResponseWriter, r *http.Request) {
	x, ok := s.smsPage(w, r)
	if !ok || !s.front.CheckSecurityForm(w, r, x.si, "sms", x.self) {
		return
	}
	switch {
	case r.PostForm.Get("again") != "":
		err := s.store.Update(r.Context(), func(tx storage.Tx) error { return smsSetUps.Delete(tx, x.si.ID) })
		if err != nil {
			s.front.Fail(w, r, err, x.self)
			return
		}
		s.front.Redirect(w, r, x.self)
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
	number, ok := person.ParsePhone(typed)
	if !ok {
		if !person.IsText(typed, person.MaxTag) {
			typed = ""
		}
		s.smsForm(w, r, x, http.StatusUnprocessableEntity, typed, page.Form{Problem: "problem.phone"})
		return
	}
	code, err := proof.NewSentCode(s.random)
	var wait time.Duration
	if err == nil {
		now := s.now()
		err = s.store.Update(r.Context(), func(tx storage.Tx) error {
			if _, err := s.MaySetUp(tx, x.si); err != nil {
				return err
			}
			t, err := stepUpOwner(tx, x.si)
			if err != nil {
				return err
			}
			wait, err = s.proof.SendCode(tx, numberCode(x.si, number), code, now, func(tx storage.Tx, code string) error {
				return s.person.TextCode(tx, t, notify.SMSPhoneCode, number, code, now)
			})
			if err != nil || wait > 0 {
				return err
			}
			rec := smsSetUpRecord{Number: number, ExpiresAt: now.Add(person.SentCodeLife)}
			return smsSetUps.Put(tx, x.si.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
		})
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, x.next)
	case err != nil:
		s.front.Fail(w, r, err, x.self)
	case wait > 0:
		in := page.Form{Problem: "problem.sent", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.smsForm(w, r, x, http.StatusTooManyRequests, number, in)
	default:
		s.front.Redirect(w, r, x.self)
	}
}

// takeNumberCode takes the code that was sent to the number.
func (s *Service) takeNumberCode(w http.ResponseWriter, r *http.Request, x smsSetUp) {
	err := s.addSMS(r.Context(), w, r, x, strings.TrimSpace(r.PostForm.Get("code")))
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.smsForm(w, r, x, http.StatusUnprocessableEntity, "", page.Form{Problem: "problem.code"})
	case err != nil:
		s.front.Fail(w, r, err, x.self)
	default:
		s.front.Redirect(w, r, x.next)
	}
}

// addSMS says of a number whose code the person has shown that it is theirs, and raises the session to what such a code is worth.
func (s *Service) addSMS(ctx context.Context, w http.ResponseWriter, r *http.Request, x smsSetUp, code string) error {
	spend, err := s.proof.CheckCode(ctx, numberCode(x.si, x.number), code)
	if err != nil {
		return err
	}
	ev, err := s.person.NewEvents(s.origin(r), stepUpAdded)
	if err != nil {
		return err
	}
	change, err := s.person.NewUpdate(ctx, person.Edit{By: s.front.Actor(r, x.si), Verified: true})
	if err != nil {
		return err
	}
	return s.raise(w, r, raise{si: x.si, method: &SMSMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		st, err := s.MaySetUp(tx, x.si)
		if err != nil || SMSMethod.Level(st.Units) == 0 {
			return false, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return false, err
		}
		if err := smsSetUps.Delete(tx, x.si.ID); err != nil {
			return false, err
		}
		if _, err := change.Apply(tx, x.si.Session.PersonID, func(_ storage.Tx, d *person.Details) error {
			putNumber(&d.Profile, x.number)
			if person.TextNumber(&d.Profile) != x.number { // an old one, whose codes nobody may read any more
				person.Contact{Kind: person.ContactPhone, Value: x.number}.Prefer(&d.Profile)
			}
			return nil
		}); err != nil {
			return false, err
		}
		own.NoSMS = false
		return true, s.events.Append(tx, x.si.OwnEvent(ev[0], SMSMethod.Name))
	}})
}

// putNumber says that a number is verified: the one that is there, however it is written, or a new one.
func putNumber(p *person.Profile, number string) {
	i := slices.IndexFunc(p.PhoneNumbers, func(n person.PhoneNumber) bool {
		same, ok := person.ParsePhone(n.Value)
		return ok && same == number
	})
	if i >= 0 {
		p.PhoneNumbers[i].Verified = true
		return
	}
	person.Contact{Kind: person.ContactPhone, Value: number}.Put(p, true)
}
