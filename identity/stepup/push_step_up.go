package stepup

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// pushStepUp reads a step-up that goes on by a prompt. Otherwise it has written the answer and is not ok.
func (s *Service) pushStepUp(w http.ResponseWriter, r *http.Request) (x request, ok bool) {
	if x, ok = s.stepUpFlow(w, r); ok && Pick(x.offered, PushMethod.Name) == nil {
		s.front.Redirect(w, r, URL(x.id)+"&choose=1")
		ok = false
	}
	return x, ok
}

func pushURL(flow string) string { return pushStepUpPath + "?flow=" + url.QueryEscape(flow) }

// readPrompt returns the prompt of a step-up, or nil.
func readPrompt(tx storage.Tx, key string) (*promptRecord, error) {
	rec, err := prompts.Get(tx, key)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil //nolint:nilnil // there is none
	}
	return &rec, err
}

// showPushStepUp serves GET /step-up/push?flow=…: a button, then the number that the phone asks for until it is answered.
func (s *Service) showPushStepUp(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pushStepUp(w, r)
	if !ok {
		return
	}
	var p *promptRecord
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		p, err = readPrompt(tx, promptKey(x.id, x.si.ID))
		return err
	})
	if err != nil {
		s.front.Fail(w, r, err, URL(x.id))
		return
	}
	in := page.Push{Key: "send"}
	if p != nil {
		switch p.state(s.now()) {
		case promptApproved:
			s.takeApproval(w, r, x, p)
			return
		case promptWaits:
			in = page.Push{Key: "wait", Number: p.Number, Refresh: true}
		case promptDenied, promptWrong:
			in.Problem = "problem.push_denied"
		default:
			in.Problem = "problem.push_over"
		}
	}
	s.pushStepUpPage(w, r, x, http.StatusOK, in)
}

func (s *Service) pushStepUpPage(w http.ResponseWriter, r *http.Request, x request, status int, in page.Push) {
	in.Fill, in.Cancel = []any{"account", x.si.Person.Username}, page.LocalPath(x.flow.Demand.Cancel)
	if in.Key == "send" {
		in.Action, in.CSRF = pushURL(x.id), s.pages.CSRF(s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, &PushMethod))
	}
	if len(x.offered) > 1 {
		in.Others = URL(x.id) + "&choose=1"
	}
	v := s.front.View(x.flow.Demand, "push", status, in)
	s.pages.Render(w, r, v)
}

// takeApproval raises the session of a prompt that the phone has approved.
func (s *Service) takeApproval(w http.ResponseWriter, r *http.Request, x request, p *promptRecord) {
	key, at := promptKey(x.id, x.si.ID), s.now()
	err := s.raise(w, r, raise{si: x.si, method: &PushMethod, attempt: p.attempt(), client: x.flow.Demand.Client.ID, spend: func(tx storage.Tx, own *Record) (bool, error) {
		now, err := readPrompt(tx, key)
		if err != nil || now == nil || now.ID != p.ID || now.State != promptApproved || len(own.Devices) == 0 || !now.ExpiresAt.Add(promptLife).After(at) {
			return false, err
		}
		if err := proof.FailureRecords.Delete(tx, deniedKey(x.si.Session.PersonID)); err != nil {
			return false, err
		}
		if err := promptIDs.Delete(tx, p.ID); err != nil {
			return false, err
		}
		return true, prompts.Delete(tx, key)
	}})
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.pushStepUpPage(w, r, x, http.StatusOK, page.Push{Key: "send", Problem: "problem.push_over"})
	case err != nil:
		s.front.Fail(w, r, err, URL(x.id))
	default:
		s.front.Redirect(w, r, x.flow.Demand.Return)
	}
}

func deniedKey(person string) string { return storage.Key("push-denied", person) }

// attempt is what the prompt was counted against.
func (p *promptRecord) attempt() *proof.Attempt {
	at := &proof.Attempt{}
	for _, c := range p.Counters {
		at.Counters = append(at.Counters, proof.Counter{Key: c.Key, Limit: c.Limit, Clears: c.Clears})
	}
	return at
}

// handlePushStepUp serves POST /step-up/push?flow=…: the phone is asked.
func (s *Service) handlePushStepUp(w http.ResponseWriter, r *http.Request) {
	x, ok := s.pushStepUp(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), stepUpForm(x, &PushMethod)); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, pushURL(x.id))
		return
	}
	wait, err := s.prompt(r, x)
	switch {
	case errors.Is(err, person.ErrMismatch): // the phones are gone
		s.front.Redirect(w, r, URL(x.id))
	case err != nil:
		s.front.Fail(w, r, err, URL(x.id))
	case wait > 0:
		in := page.Push{Key: "send", Problem: "problem.wait", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.pushStepUpPage(w, r, x, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, pushURL(x.id))
	}
}

// prompt asks the phones of a person. It counts as a try until one of them has approved, so that nobody is worn down by prompts.
func (s *Service) prompt(r *http.Request, x request) (wait time.Duration, err error) {
	ctx, from, now, personID := r.Context(), s.origin(r), s.now(), x.si.Session.PersonID
	number, err := newPushNumber(s.random)
	if err != nil {
		return 0, err
	}
	id, err := secret.ID(s.random, 16)
	if err != nil {
		return 0, err
	}
	err = s.store.View(ctx, func(tx storage.Tx) error {
		p, err := readPrompt(tx, promptKey(x.id, x.si.ID))
		if err != nil {
			return err
		}
		if p != nil && p.state(now) == promptWaits { // the button twice
			id = ""
			return nil
		}
		denied, err := s.proof.ReadFailures(tx, proof.Counter{Key: deniedKey(personID), Limit: 1, Clears: true}, now)
		wait = max(0, denied.Until.Sub(now))
		return err
	})
	if err != nil || id == "" || wait > 0 {
		return wait, err
	}
	at, err := s.proof.BeginAttempt(ctx, person.Holder{ID: personID, Person: x.si.Person}, x.si.Person.Username, proof.Origin{Address: from.ClientIP, Device: proof.Hashed(s.session.DeviceToken(r))}, x.st.counter(personID, &PushMethod))
	if err != nil || at.Wait > 0 {
		return at.Wait, err
	}
	rec := promptRecord{
		ID: id, PersonID: personID, Session: x.si.ID, Number: number, Address: from.ClientIP, Agent: session.KeptAgent(from.UserAgent), Client: x.flow.Demand.Client.Name, At: now, ExpiresAt: now.Add(promptLife),
	}
	for _, c := range at.Counters {
		rec.Counters = append(rec.Counters, countedRecord{c.Key, c.Limit, c.Clears})
	}
	err = s.store.Update(ctx, func(tx storage.Tx) error { return s.sendPrompt(tx, x, rec) })
	if err != nil {
		s.proof.NotEvaluated(ctx, at)
	}
	if errors.Is(err, errAsked) {
		err = nil
	}
	return 0, err
}

func (s *Service) sendPrompt(tx storage.Tx, x request, rec promptRecord) error {
	own, err := readStepUp(tx, rec.PersonID)
	if err != nil {
		return err
	}
	if len(own.Devices) == 0 {
		return person.ErrMismatch
	}
	key := promptKey(x.id, x.si.ID)
	before, err := readPrompt(tx, key)
	if err != nil {
		return err
	}
	if before != nil && before.state(rec.At) == promptWaits {
		return errAsked // another request was faster
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
		err := s.push.Send(tx, notify.Push{
			PersonID: rec.PersonID, Device: d.ID, Link: pushApprovePath + "?" + url.Values{"id": {rec.ID}}.Encode(), Locales: x.si.Locales(), At: rec.At, Until: rec.ExpiresAt,
			Data: map[string]string{"username": x.si.Person.Username},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// promptRequest is a request of a phone that was asked.
type promptRequest struct {
	id, key string
	prompt  promptRecord
	person  person.Record
	state   string
}

func (x *promptRequest) form() string { return "approve:" + x.id }

func approveURL(id string) string { return pushApprovePath + "?" + url.Values{"id": {id}}.Encode() }

// approving reads it. A browser that is none of the person's phones learns nothing of the prompt. Otherwise it has written the answer and is not ok.
func (s *Service) approving(w http.ResponseWriter, r *http.Request) (x promptRequest, ok bool) {
	x.id = r.URL.Query().Get("id")
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) error { return s.readAsked(tx, r, &x, now) })
	if errors.Is(err, storage.ErrNotFound) {
		s.pages.Error(w, r, http.StatusNotFound, "error.prompt", "")
		return x, false
	}
	if err != nil {
		s.front.Fail(w, r, err, approveURL(x.id))
		return x, false
	}
	if x.state != promptWaits {
		s.pushPage(w, r, nil, http.StatusOK, page.Push{Key: promptPages[x.state]})
		return x, false
	}
	return x, true
}

// promptPages are the pages of prompts that wait no more.
var promptPages = map[string]string{promptApproved: "approved", promptDenied: "denied", promptWrong: "wrong", promptOver: "over"}

func (s *Service) readAsked(tx storage.Tx, r *http.Request, x *promptRequest, now time.Time) (err error) {
	if x.key, err = promptIDs.Get(tx, x.id); err != nil {
		return err
	}
	if x.prompt, err = prompts.Get(tx, x.key); err != nil {
		return err
	}
	if x.person, err = person.Records.Get(tx, x.prompt.PersonID); err != nil {
		return err
	}
	own, err := readStepUp(tx, x.prompt.PersonID)
	if err != nil {
		return err
	}
	if x.prompt.ID != x.id || own.phoneOf(s.phone(r)) == nil || x.person.State != person.Active {
		return storage.ErrNotFound
	}
	if _, err := s.session.Live(tx, x.prompt.Session, now); err != nil {
		return err
	}
	x.state = x.prompt.state(now)
	return nil
}

// showApprove serves GET /push/approve?id=…, on the phone: who asks, from where; it changes nothing.
func (s *Service) showApprove(w http.ResponseWriter, r *http.Request) {
	if x, ok := s.approving(w, r); ok {
		s.approvePage(w, r, x, http.StatusOK, "")
	}
}

func (s *Service) approvePage(w http.ResponseWriter, r *http.Request, x promptRequest, status int, problem string) {
	browser, err := s.jar.Browser(w, r, s.front.NewID)
	if err != nil {
		s.front.Fail(w, r, err, approveURL(x.id))
		return
	}
	in := page.Push{
		Key: "approve", Fill: []any{"account", x.person.Username}, Action: approveURL(x.id), CSRF: s.pages.CSRF(browser, x.form()), Deny: true, Problem: problem,
		Fields: page.Fields(problem != "", numberField("push.number")),
		Facts: []page.PushFact{
			{Label: "push.browser", Value: front.AgentText(x.prompt.Agent)},
			{Label: "push.address", Value: page.Say("push.value", "value", x.prompt.Address)},
			{Label: "push.time", Value: page.Say("push.at", "time", x.prompt.At)},
		},
	}
	if x.prompt.Client != "" {
		in.Facts = append(in.Facts, page.PushFact{Label: "push.client", Value: page.Say("push.value", "value", x.prompt.Client)})
	}
	s.pushPage(w, r, nil, status, in)
}

// handleApprove serves POST /push/approve?id=…, on the phone: it approves with the number that the other screen shows, or denies.
func (s *Service) handleApprove(w http.ResponseWriter, r *http.Request) {
	x, ok := s.approving(w, r)
	if !ok {
		return
	}
	if err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), x.form()); err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, approveURL(x.id))
		return
	}
	number := strings.TrimSpace(r.PostForm.Get("number"))
	answer := promptDenied
	if r.PostForm.Get("deny") == "" {
		if number == "" {
			s.approvePage(w, r, x, http.StatusUnprocessableEntity, "problem.push_missing")
			return
		}
		if answer = promptApproved; subtle.ConstantTimeCompare([]byte(number), []byte(x.prompt.Number)) != 1 {
			answer = promptWrong // once: whoever guesses has one in ninety
		}
	}
	if err := s.answerPrompt(r.Context(), r, x, answer); err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, errPrompt) {
		s.front.Fail(w, r, err, approveURL(x.id))
		return
	}
	s.front.Redirect(w, r, approveURL(x.id))
}

// answerPrompt writes what the phone has said, once.
func (s *Service) answerPrompt(ctx context.Context, r *http.Request, x promptRequest, answer string) error {
	ev, err := s.person.NewEvents(s.origin(r), pushDenied)
	if err != nil {
		return err
	}
	now := s.now()
	return s.store.Update(ctx, func(tx storage.Tx) error {
		y := promptRequest{id: x.id}
		if err := s.readAsked(tx, r, &y, now); err != nil {
			return err
		}
		if y.state != promptWaits {
			return errPrompt
		}
		y.prompt.State = answer
		if err := prompts.Put(tx, y.key, y.prompt, y.prompt.ExpiresAt.Add(session.CollectAfter)); err != nil {
			return err
		}
		if answer == promptApproved {
			return nil
		}
		c := proof.Counter{Key: deniedKey(y.prompt.PersonID), Limit: 1, Clears: true}
		last, err := s.proof.ReadFailures(tx, c, now)
		if err != nil {
			return err
		}
		last = s.proof.CountFailure(last, c, now)
		if err := proof.FailureRecords.Put(tx, c.Key, last, s.proof.ClearFailures(last)); err != nil {
			return err
		}
		e := event.Actor{ID: y.prompt.PersonID, Name: y.person.Username, Session: y.prompt.Session}.Fill(ev[0], y.prompt.PersonID, answer)
		e.Partition = y.person.PartitionName()
		return s.events.Append(tx, e)
	})
}
