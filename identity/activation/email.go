package activation

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const activationsPerPerson = 5 // links in a window

// byEmail reports whether a sign-in that waits for activation continues by e-mail.
func (x *activation) byEmail() bool { return person.ActivatesByEmail(x.units) }

// byMailedCode reports whether the e-mail has a code for the page, so the sign-in continues at once.
func (x *activation) byMailedCode() bool {
	return x.byEmail() && x.units.Features.PersonActivation.ActivationDuringFirstAuthenticationEnabled
}

// mailPurpose returns the purpose of a code that is sent while the sign-in waits.
func (x *activation) mailPurpose() challenge.CodePurpose {
	return challenge.CodePurpose{
		Purpose: "activation e-mail", Subject: x.id, Bound: x.mail.ID, To: person.FoldEmail(x.mail.Address()),
		Limit: "activation:" + x.mail.ID,
	}
}

// renderActivateByEmail writes the page of a sign-in that waits for activation by e-mail. It says where the link or the
// code was sent.
func (s *Service) renderActivateByEmail(q *webflow.Request, x *activation, status int, in web.Form) error {
	in.Fill, in.Action = []any{"to", person.MaskEmail(x.mail.Address())}, activateURL(x.id)
	in.Links = []web.FormLink{webflow.SignInLink(x.id)}
	switch {
	case x.mail.Address() == "" || s.deps.Notify == nil:
		in = web.Form{Key: "activate_none", Next: webflow.SignInURL(x.id)}
	case x.codeSent:
		in.Key, in.Fields = "activate_code", webflow.CodeFields("step_up.email.label", in.Problem)
		in.Other = &web.OtherButton{Name: "send", Label: "step_up.send_again"}
	case x.byMailedCode():
		in.Key, in.Send = "activate_send", true
	default:
		in.Key, in.Send = "activate_wait", true
		if q.Method == http.MethodGet && q.URL.Query().Get("sent") != "" {
			in.Good = "activate_wait.sent"
		}
	}
	return s.deps.Front.RenderForm(q, webflow.Detour{ID: x.id, Flow: x.flow, U: x.units}, x.form(), status, in)
}

// handleActivateByEmail serves the POST of that page, whose form was checked: it sends a link or a code, or the code
// activates the account.
func (s *Service) handleActivateByEmail(q *webflow.Request, x *activation) error {
	code := q.PostForm.Get("code")
	switch {
	case !x.byMailedCode() || q.PostForm.Get("send") != "":
		return s.handleResendActivation(q, x)
	case code == "":
		return s.renderActivateByEmail(q, x, http.StatusUnprocessableEntity, web.Form{Problem: "problem.code_missing"})
	}
	err := s.activateByMailedCode(q, x, code)
	switch {
	case err == nil:
		return s.deps.Front.Finish(q, x.id, x.flow)
	case errors.Is(err, person.ErrMismatch), errors.Is(err, challenge.ErrNoLink):
		s.logRefusal(q, x)
		return s.renderActivateByEmail(q, x, http.StatusUnprocessableEntity, web.Form{Problem: "problem.code"})
	}
	return err
}

// activateByMailedCode activates the account and signs in, because the password was right in this browser a moment ago.
func (s *Service) activateByMailedCode(q *webflow.Request, x *activation, code string) error {
	id, address := x.mail.ID, x.mail.Address()
	spend, err := s.deps.Proof.CheckCode(q.Context(), x.mailPurpose(), code)
	if err != nil {
		return err
	}
	ev, err := s.deps.Person.NewEvents(s.deps.Origin(q.Request), person.EventActivated)
	if err != nil {
		return err
	}
	done := audit.Actor{}.Fill(ev[0], id, "by a code")
	return s.deps.Front.AdmitNew(q.W, q.Request, x.flow, id, "", func(tx storage.Tx, now time.Time) (person.Record, error) {
		if err := s.refreshActivation(tx, x, now); err != nil {
			return x.person, err
		}
		if ok, err := spend(tx); err != nil || !ok {
			return x.person, cmp.Or(err, person.ErrMismatch)
		}
		return s.activateReader(tx, id, address, done, now)
	})
}

// handleResendActivation sends the link or the code.
func (s *Service) handleResendActivation(q *webflow.Request, x *activation) error {
	wait, err := s.resendActivation(q.Context(), x)
	switch {
	case err != nil:
		return err
	case wait > 0 && x.byMailedCode():
		return s.renderActivateByEmail(q, x, http.StatusTooManyRequests, webflow.WaitForm(q, "problem.sent", wait))
	case wait > 0:
		return s.renderActivateByEmail(q, x, http.StatusTooManyRequests, webflow.WaitForm(q, "problem.sent_link", wait))
	}
	return q.Redirect(activateURL(x.id) + "&sent=1")
}

// resendActivation sends the link or the code. wait is how long none is sent.
func (s *Service) resendActivation(ctx context.Context, x *activation) (wait time.Duration, err error) {
	t := x.mail
	if t.Address() == "" || s.deps.Notify == nil {
		return 0, nil
	}
	code, err := challenge.NewSentCode(s.deps.Random)
	if err != nil {
		return 0, err
	}
	now := s.deps.Now()
	err = s.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if !x.byMailedCode() {
			wait, err = s.deps.Proof.CountRequest(tx, "activation-link", t.ID, activationsPerPerson, now)
			if err != nil || wait > 0 {
				return err
			}
			return s.sendActivation(tx, t, x.id, x.units, now)
		}
		wait, err = s.deps.Proof.SendCode(tx, x.mailPurpose(), code, now, func(tx storage.Tx, code string) error {
			t.Stranger = t.Record.Awaits == person.ReasonWeb
			n := t.Notice(notify.ActivationCode, now)
			n.Data["code"] = code
			return s.deps.Notify.Send(tx, n)
		})
		return err
	})
	return wait, err
}
