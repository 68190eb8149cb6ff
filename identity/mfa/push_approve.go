package mfa

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// approval is a request of a phone that a prompt was sent to.
type approval struct {
	id, key string
	prompt  promptRecord
	person  person.Record
	state   string
}

func (x *approval) form() string { return "approve:" + x.id }

func approveURL(id string) string { return pushApprovePath + "?" + url.Values{"id": {id}}.Encode() }

// promptPages are the pages of prompts that are no longer waiting.
var promptPages = map[string]string{promptApproved: "approved", promptDenied: "denied", promptWrong: "wrong", promptOver: "over"}

// readApproval reads the prompt of a request. When the prompt is no longer waiting, the page that says so is the
// answer. A browser that is not on one of the person's phones learns nothing of the prompt.
func (s *Service) readApproval(q *webflow.Request) (x approval, err error) {
	id, now := q.URL.Query().Get("id"), s.deps.Now()
	q.Again = approveURL(id)
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		x, err = s.readPromptFor(tx, id, s.phone(q.Request), now)
		return err
	})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return x, &webflow.Answer{Status: http.StatusNotFound, Key: "error.prompt"}
	case err != nil:
		return x, err
	case x.state != promptWaiting:
		in := web.Push{Key: promptPages[x.state]}
		if x.state == promptDenied {
			in.Change = webflow.SecurityPath + "/password"
		}
		if err := s.phonePage(q, http.StatusOK, in); err != nil {
			return x, err
		}
		return x, webflow.ErrAnswered
	}
	return x, nil
}

// readPromptFor returns the prompt with an id, if it was sent to the phone with that cookie and its session is still
// open; otherwise storage.ErrNotFound.
func (s *Service) readPromptFor(tx storage.Tx, id, phone string, now time.Time) (x approval, err error) {
	x.id = id
	if x.key, err = promptIDs.Get(tx, id); err != nil {
		return x, err
	}
	if x.prompt, err = prompts.Get(tx, x.key); err != nil {
		return x, err
	}
	if x.person, err = person.Records.Get(tx, x.prompt.PersonID); err != nil {
		return x, err
	}
	own, err := readRecord(tx, x.prompt.PersonID)
	if err != nil {
		return x, err
	}
	if x.prompt.ID != id || own.phone(phone) == nil || x.person.State != person.Active {
		return x, storage.ErrNotFound
	}
	if _, err := s.deps.Session.Live(tx, x.prompt.Session, now); err != nil {
		return x, err
	}
	x.state = x.prompt.state(now)
	return x, nil
}

// showApprove serves GET /push/approve?id=…, on the phone: who asks, and from where; it changes nothing.
func (s *Service) showApprove(q *webflow.Request) error {
	x, err := s.readApproval(q)
	if err != nil {
		return err
	}
	return s.approvePage(q, x, http.StatusOK, "")
}

func (s *Service) approvePage(q *webflow.Request, x approval, status int, problem string) error {
	csrf, err := s.deps.Front.FormToken(q, x.form())
	if err != nil {
		return err
	}
	in := web.Push{
		Key: "approve", Fill: []any{"account", x.person.Username}, Action: approveURL(x.id), CSRF: csrf, Deny: true, Problem: problem,
		Fields: web.Fields(problem != "", numberField("push.number")),
		Facts: []web.PushFact{
			{Label: "push.browser", Value: webflow.AgentText(x.prompt.Agent)},
			{Label: "push.address", Value: web.Say("push.value", "value", x.prompt.Address)},
			{Label: "push.time", Value: web.Say("push.at", "time", x.prompt.At)},
		},
	}
	if x.prompt.Client != "" {
		in.Facts = append(in.Facts, web.PushFact{Label: "push.client", Value: web.Say("push.value", "value", x.prompt.Client)})
	}
	return s.phonePage(q, status, in)
}

// handleApprove serves POST /push/approve?id=…, on the phone: it approves with the number that the other screen shows,
// or denies.
func (s *Service) handleApprove(q *webflow.Request) error {
	x, err := s.readApproval(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(), approveURL(x.id))
	}
	if err != nil {
		return err
	}
	number, state := strings.TrimSpace(q.PostForm.Get("number")), promptApproved
	switch {
	case q.PostForm.Get("deny") != "":
		state = promptDenied
	case number == "":
		return s.approvePage(q, x, http.StatusUnprocessableEntity, "problem.push_missing")
	case subtle.ConstantTimeCompare([]byte(number), []byte(x.prompt.Number)) != 1:
		state = promptWrong // there is no second guess: one of ninety numbers is right
	}
	err = s.answerPrompt(q, x.id, state)
	if err != nil && !errors.Is(err, storage.ErrNotFound) && !errors.Is(err, errPromptOver) {
		return err
	}
	return q.Redirect(approveURL(x.id))
}

// answerPrompt writes the answer of the phone, once.
func (s *Service) answerPrompt(q *webflow.Request, id, state string) error {
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), pushDenied)
	if err != nil {
		return err
	}
	now := s.deps.Now()
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		x, err := s.readPromptFor(tx, id, s.phone(q.Request), now)
		if err != nil {
			return err
		}
		if x.state != promptWaiting {
			return errPromptOver
		}
		x.prompt.State = state
		if err := prompts.Put(tx, x.key, x.prompt, x.prompt.ExpiresAt.Add(session.CollectAfter)); err != nil {
			return err
		}
		if state == promptApproved {
			return nil
		}
		c := denialCounter(x.prompt.PersonID)
		last, err := s.deps.Proof.ReadFailures(tx, c, now)
		if err != nil {
			return err
		}
		last = s.deps.Proof.CountFailure(last, c, now)
		if err := challenge.FailureRecords.Put(tx, c.Key, last, s.deps.Proof.CollectAt(last)); err != nil {
			return err
		}
		e := audit.Actor{ID: x.prompt.PersonID, Name: x.person.Username, Session: x.prompt.Session}.Fill(ev[0], x.prompt.PersonID, state)
		e.Partition = x.person.PartitionName()
		return s.deps.Events.Append(tx, e)
	})
}
