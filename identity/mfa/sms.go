package mfa

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// smsMethod is a code by text message, to a verified number.
var smsMethod = Method{
	Name: session.MethodSMS, setUp: webflow.SecurityPath + "/sms",
	needs: func(s *Service) bool { return s.deps.SMS != nil },
	Level: func(u *settings.Units) int {
		if !u.Features.SMSEnabled {
			return 0
		}
		return u.StepUp.AuthenticationMethods.SMSAuthenticationLevel
	},
	has: func(tx storage.Tx, si *session.Current, own *Record) (bool, error) {
		if own.NoSMS {
			return false, nil
		}
		to, err := textNumber(tx, si)
		return to != "", err
	},
	remove: func(own *Record) {
		own.NoSMS = true
		delete(own.Used, session.MethodSMS)
	},
	address: textNumber, mask: person.MaskPhone,
	send: func(s *Service, tx storage.Tx, si *session.Current, code string, now time.Time) error {
		t, err := recipientOf(tx, si)
		if err != nil {
			return err
		}
		return s.deps.Person.TextCode(tx, t, notify.SMSStepUpCode, person.TextNumber(t.Profile), code, now)
	},
	check: checkCode,
}

// textNumber returns where a person reads text messages, or "".
func textNumber(tx storage.Tx, si *session.Current) (string, error) {
	t, err := recipientOf(tx, si)
	if err != nil {
		return "", err
	}
	return person.TextNumber(t.Profile), nil
}

func (s *Service) smsSection(tx storage.Tx, q *webflow.Request, st *Standing) (*web.SecuritySection, error) {
	if s.deps.SMS == nil || smsMethod.Level(st.Units) == 0 {
		return nil, nil //nolint:nilnil // switched off
	}
	if Pick(st.Has, smsMethod.Name) == nil {
		return switchedOff(&smsMethod), nil
	}
	to, err := textNumber(tx, q.SignIn)
	out := switchedOn(&smsMethod, st.Own.Used[smsMethod.Name])
	out.Fill = []any{"to", person.MaskPhone(to)}
	return out, err
}

// smsSetUp is a request of the page that sets up codes by text message.
type smsSetUp struct {
	setUp
	number     string // that a code was sent to. Empty: none was
	suggestion string // of the person's profile, where no code was sent
}

// readSMSSetUp reads what the two handlers of the page share.
func (s *Service) readSMSSetUp(q *webflow.Request) (x smsSetUp, err error) {
	now := s.deps.Now()
	x.setUp, err = s.readSetUpOnce(q, &smsMethod, func(tx storage.Tx) (err error) {
		if x.number, err = pendingNumber(tx, q.SignIn.ID, now); err != nil || x.number != "" {
			return err
		}
		x.suggestion, err = suggestedNumber(tx, q.SignIn)
		return err
	})
	return x, err
}

// pendingNumber returns the number that a session has to confirm with a code, or "".
func pendingNumber(tx storage.Tx, sessionID string, now time.Time) (string, error) {
	rec, _, err := smsSetUps.Find(tx, sessionID)
	if !rec.ExpiresAt.After(now) {
		return "", err
	}
	return rec.Number, err
}

// suggestedNumber returns the number that the form begins with: the verified one, or else the person's primary one.
func suggestedNumber(tx storage.Tx, si *session.Current) (string, error) {
	t, err := recipientOf(tx, si)
	if err != nil {
		return "", err
	}
	number := person.TextNumber(t.Profile)
	for _, n := range t.Profile.PhoneNumbers {
		if n.Primary && number == "" {
			number, _ = person.ParsePhone(n.Value)
		}
	}
	return number, nil
}

// numberCode returns the purpose of a code that confirms a number as the person's own.
func numberCode(si *session.Current, number string) challenge.CodePurpose {
	return challenge.CodePurpose{Purpose: "step-up number", Subject: si.ID, Bound: si.ID, To: number, Limit: si.Session.PersonID}
}

const smsForm = "sms"

// smsPage writes the form: for a number, or for the code that was sent to it.
func (s *Service) smsPage(q *webflow.Request, x smsSetUp, status int, typed string, in web.Form) (err error) {
	if in.CSRF, err = s.deps.Front.FormToken(q, webflow.SessionForm(smsForm, q.SignIn)); err != nil {
		return err
	}
	in.Action, in.Cancel = x.self, x.next
	if x.number == "" {
		in.Key = "sms_number"
		in.Fields = web.Fields(in.Problem != "" && in.Problem != "problem.phone", web.Field{
			Name: "number", Type: "tel", Label: "sms_number.label", Hint: "sms_number.hint", Value: typed, Autocomplete: "tel",
			MaxLength: person.MaxTag, Required: true, Problem: fieldProblem(&in, "problem.phone"),
		})
	} else {
		in.Key, in.Fill, in.Other = "sms_code", []any{"to", x.number}, &web.OtherButton{Name: "again", Label: "sms_code.other"}
		in.Fields = web.Fields(in.Problem != "", web.Field{
			Name: "code", Type: "code", Label: "step_up.sms.label", MaxLength: challenge.MaxCode, Required: true,
			Problem: fieldProblem(&in, "problem.code"),
		})
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "form", Status: status, Locales: q.SignIn.Locales(), Client: x.client, Data: in})
	return nil
}

// fieldProblem moves a problem from above the form to its field.
func fieldProblem(in *web.Form, problem string) string {
	if in.Problem != problem {
		return ""
	}
	in.Problem = ""
	return problem
}

// showSMS serves GET /account/security/sms: a number, then the code that was sent to it.
func (s *Service) showSMS(q *webflow.Request) error {
	x, err := s.readSMSSetUp(q)
	if err != nil {
		return err
	}
	return s.smsPage(q, x, http.StatusOK, x.suggestion, web.Form{})
}

// handleSMS serves POST /account/security/sms.
func (s *Service) handleSMS(q *webflow.Request) error {
	x, err := s.readSMSSetUp(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, webflow.SessionForm(smsForm, q.SignIn), x.self)
	}
	if err != nil {
		return err
	}
	switch {
	case q.PostForm.Get("again") != "":
		err := s.deps.Store.Update(q.Context(), func(tx storage.Tx) error { return smsSetUps.Delete(tx, q.SignIn.ID) })
		if err != nil {
			return err
		}
		return q.Redirect(x.self)
	case x.number == "" || q.PostForm.Has("number"):
		x.number = ""
		return s.takeNumber(q, x)
	}
	return s.takeNumberCode(q, x)
}

// takeNumber sends a code to a number.
func (s *Service) takeNumber(q *webflow.Request, x smsSetUp) error {
	typed := q.PostForm.Get("number")
	number, ok := person.ParsePhone(typed)
	if !ok {
		if !person.IsText(typed, person.MaxTag) {
			typed = ""
		}
		return s.smsPage(q, x, http.StatusUnprocessableEntity, typed, web.Form{Problem: "problem.phone"})
	}
	code, err := challenge.NewSentCode(s.deps.Random)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	var wait time.Duration
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		wait = 0
		if _, err := s.CheckSetUp(tx, q.SignIn, now); err != nil {
			return err
		}
		t, err := recipientOf(tx, q.SignIn)
		if err != nil {
			return err
		}
		wait, err = s.deps.Proof.SendCode(tx, numberCode(q.SignIn, number), code, now, func(tx storage.Tx, code string) error {
			return s.deps.Person.TextCode(tx, t, notify.SMSPhoneCode, number, code, now)
		})
		if err != nil || wait > 0 {
			return err
		}
		rec := smsSetUpRecord{Number: number, ExpiresAt: now.Add(person.SentCodeLife)}
		return smsSetUps.Put(tx, q.SignIn.ID, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		return q.Redirect(x.next)
	case err != nil:
		return err
	case wait > 0:
		in := web.Form{}
		webflow.Waits(q.W, &in, "problem.sent", wait)
		return s.smsPage(q, x, http.StatusTooManyRequests, number, in)
	}
	return q.Redirect(x.self)
}

// takeNumberCode takes the code that was sent to the number.
func (s *Service) takeNumberCode(q *webflow.Request, x smsSetUp) error {
	err := s.addNumber(q, x, strings.TrimSpace(q.PostForm.Get("code")))
	switch {
	case errors.Is(err, person.ErrMismatch):
		return s.smsPage(q, x, http.StatusUnprocessableEntity, "", web.Form{Problem: "problem.code"})
	case err != nil:
		return err
	}
	return q.Redirect(x.next)
}

// addNumber marks the number as verified once the person has shown its code, and raises the session to the level of
// such a code.
func (s *Service) addNumber(q *webflow.Request, x smsSetUp, code string) error {
	spend, err := s.deps.Proof.CheckCode(q.Context(), numberCode(q.SignIn, x.number), code)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), stepUpAdded)
	if err != nil {
		return err
	}
	change, err := s.deps.Person.NewUpdate(q.Context(), person.Edit{By: s.deps.Front.Actor(q.Request, q.SignIn), Verified: true})
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.raise(q, gain{method: &smsMethod, setUp: true, spend: func(tx storage.Tx, own *Record) (bool, error) {
		st, err := s.CheckSetUp(tx, q.SignIn, now)
		if err != nil || smsMethod.Level(st.Units) == 0 {
			return false, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return false, err
		}
		if err := smsSetUps.Delete(tx, q.SignIn.ID); err != nil {
			return false, err
		}
		if _, err := change.Apply(tx, q.SignIn.Session.PersonID, func(_ storage.Tx, d *person.Details) error {
			verifyNumber(&d.Profile, x.number)
			if person.TextNumber(&d.Profile) != x.number { // codes would go to an old number, which the person may have lost
				person.Contact{Kind: person.ContactPhone, Value: x.number}.Prefer(&d.Profile)
			}
			return nil
		}); err != nil {
			return false, err
		}
		own.NoSMS = false
		return true, s.deps.Events.Append(tx, q.SignIn.OwnEvent(ev[0], smsMethod.Name))
	}})
}

// verifyNumber marks a number as verified, however it is written in the profile, or adds it.
func verifyNumber(p *person.Profile, number string) {
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
