package mfa

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

func pushURL(flow string) string { return pushStepUpPath + "?flow=" + url.QueryEscape(flow) }

// readPushStepUp reads a step-up that goes on with a prompt, and the prompt; nil when none was sent.
func (s *Service) readPushStepUp(q *webflow.Request) (x *stepUp, p *promptRecord, err error) {
	x, err = s.readOwnPage(q, &pushMethod, func(tx storage.Tx, x *stepUp) (err error) {
		p, err = readPrompt(tx, promptKey(x.id, q.SignIn.ID))
		return err
	})
	return x, p, err
}

// showPushStepUp serves GET /step-up/push?flow=…: a button, then the number that the phone asks for until the prompt is
// answered.
func (s *Service) showPushStepUp(q *webflow.Request) error {
	x, p, err := s.readPushStepUp(q)
	if err != nil {
		return err
	}
	in := web.Push{Key: "send"}
	if p != nil {
		switch p.state(s.deps.Now()) {
		case promptApproved:
			return s.takeApproval(q, x, p)
		case promptWaiting:
			in = web.Push{Key: "wait", Number: p.Number, Refresh: true}
		case promptDenied, promptWrong:
			in.Problem = "problem.push_denied"
		default:
			in.Problem = "problem.push_over"
		}
	}
	return s.pushStepUpPage(q, x, http.StatusOK, in)
}

func (s *Service) pushStepUpPage(q *webflow.Request, x *stepUp, status int, in web.Push) (err error) {
	in.Account, in.Another, in.Cancel = q.SignIn.Person.Username, webflow.AnotherInFlow(x.id), web.LocalPath(x.flow.Demand.Cancel)
	in.Fill = []any{"account", in.Account}
	if in.Key == "send" {
		in.Action = pushURL(x.id)
		if in.CSRF, err = s.deps.Front.FormToken(q, x.form(q.SignIn, &pushMethod)); err != nil {
			return err
		}
	}
	if len(x.offered) > 1 {
		in.Others = chooseURL(x.id)
	}
	s.deps.Pages.Render(q.W, q.Request, s.deps.Front.View(x.flow.Demand, "push", status, in))
	return nil
}

// takeApproval raises the session of a prompt that the phone has approved.
func (s *Service) takeApproval(q *webflow.Request, x *stepUp, p *promptRecord) error {
	key, at, personID := promptKey(x.id, q.SignIn.ID), s.deps.Now(), q.SignIn.Session.PersonID
	err := s.raise(q, gain{
		method: &pushMethod, attempt: p.attempt(), client: x.flow.Demand.Client.ID, back: x.flow.Demand.Return,
		spend: func(tx storage.Tx, own *Record) (bool, error) {
			now, err := readPrompt(tx, key)
			if err != nil || now == nil || now.ID != p.ID || now.State != promptApproved {
				return false, err
			}
			if len(own.Devices) == 0 || !now.ExpiresAt.Add(promptLife).After(at) {
				return false, nil
			}
			if err := challenge.FailureRecords.Delete(tx, denialCounter(personID).Key); err != nil {
				return false, err
			}
			if err := promptIDs.Delete(tx, p.ID); err != nil {
				return false, err
			}
			return true, prompts.Delete(tx, key)
		},
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		return s.pushStepUpPage(q, x, http.StatusOK, web.Push{Key: "send", Problem: "problem.push_over"})
	case err != nil:
		return err
	}
	return q.Redirect(x.flow.Demand.Return)
}

// attempt is the attempt that the prompt was counted as.
func (p *promptRecord) attempt() *challenge.Attempt {
	at := &challenge.Attempt{}
	for _, c := range p.Counters {
		at.Counters = append(at.Counters, challenge.Counter{Key: c.Key, Limit: c.Limit, Clears: c.Clears, Until: c.Until})
	}
	return at
}

// handlePushStepUp serves POST /step-up/push?flow=…: a prompt goes to the phones.
func (s *Service) handlePushStepUp(q *webflow.Request) error {
	now := s.deps.Now()
	var denied challenge.FailureRecord
	var p *promptRecord
	x, err := s.readOwnPage(q, &pushMethod, func(tx storage.Tx, x *stepUp) (err error) {
		if p, err = readPrompt(tx, promptKey(x.id, q.SignIn.ID)); err != nil {
			return err
		}
		denied, err = s.deps.Proof.ReadFailures(tx, denialCounter(q.SignIn.Session.PersonID), now)
		return err
	})
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(q.SignIn, &pushMethod), pushURL(x.id))
	}
	if err != nil {
		return err
	}
	if p != nil && p.state(now) == promptWaiting { // the button was pressed twice
		return q.Redirect(pushURL(x.id))
	}
	wait := denied.Until.Sub(now)
	if wait <= 0 {
		wait, err = s.prompt(q, x, now)
	}
	switch {
	case errors.Is(err, person.ErrMismatch): // the phones are gone
		return q.Redirect(URL(x.id))
	case err != nil:
		return err
	case wait > 0:
		in := web.Push{Key: "send", Problem: "problem.wait", Wait: webflow.RetryAfter(q.W, wait)}
		return s.pushStepUpPage(q, x, http.StatusTooManyRequests, in)
	}
	return q.Redirect(pushURL(x.id))
}

// prompt sends a prompt to the phones of the person. It counts as an attempt until a phone approves it, so a thief
// cannot wear the person down with prompts. wait is how long none is sent.
func (s *Service) prompt(q *webflow.Request, x *stepUp, now time.Time) (wait time.Duration, err error) {
	number, err := newPushNumber(s.deps.Random)
	if err != nil {
		return 0, err
	}
	id, err := secret.ID(s.deps.Random, 16)
	if err != nil {
		return 0, err
	}
	at, err := s.beginAttempt(q, x, &pushMethod)
	if err != nil || at.Wait > 0 {
		return at.Wait, err
	}
	from := s.deps.Origin(q.Request)
	rec := promptRecord{
		ID: id, PersonID: q.SignIn.Session.PersonID, Session: q.SignIn.ID, Number: number, Address: from.ClientIP,
		Agent: session.KeptAgent(from.UserAgent), Client: x.flow.Demand.Client.Name, At: now, ExpiresAt: now.Add(promptLife),
	}
	for _, c := range at.Counters {
		rec.Counters = append(rec.Counters, counterRecord{c.Key, c.Limit, c.Clears, c.Until})
	}
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error { return s.sendPrompt(tx, x, q.SignIn, rec) })
	if err != nil {
		s.deps.Proof.NotEvaluated(q.Context(), at)
	}
	if errors.Is(err, errPromptWaiting) {
		err = nil
	}
	return 0, err
}

func (s *Service) sendPrompt(tx storage.Tx, x *stepUp, si *session.Current, rec promptRecord) error {
	own, err := readRecord(tx, rec.PersonID)
	if err != nil {
		return err
	}
	if len(own.Devices) == 0 {
		return person.ErrMismatch
	}
	key := promptKey(x.id, si.ID)
	before, err := readPrompt(tx, key)
	if err != nil {
		return err
	}
	if before != nil && before.state(rec.At) == promptWaiting {
		return errPromptWaiting // another request was faster
	}
	if before != nil {
		if err := promptIDs.Delete(tx, before.ID); err != nil {
			return err
		}
	}
	until := rec.ExpiresAt.Add(session.CollectAfter)
	if err := prompts.Put(tx, key, rec, until); err != nil {
		return err
	}
	if err := promptIDs.Create(tx, rec.ID, key, until); err != nil {
		return err
	}
	for _, d := range own.Devices {
		err := s.deps.Push.Send(tx, notify.Push{
			PersonID: rec.PersonID, Device: d.ID, Link: approveURL(rec.ID), Locales: si.Locales(), At: rec.At, Until: rec.ExpiresAt,
			Data: map[string]string{"username": si.Person.Username},
		})
		if err != nil {
			return err
		}
	}
	return nil
}
