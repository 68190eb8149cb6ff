package account

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const confirmPath = webflow.ProfilePath + "/confirm"

// contactReturn returns the destination of a person after confirming a contact, or without doing so.
func contactReturn(flow string) string {
	if flow != "" {
		return webflow.CompleteURL(flow)
	}
	return webflow.ProfilePath
}

// confirmation is a visit of the page that takes the code for a contact.
type confirmation struct {
	*webflow.Visit

	contact person.Contact
	flow    string       // the sign-in that continues afterwards. Empty: the person was at their profile
	client  authn.Client // that the sign-in leads to
}

// readConfirmation reads which contact waits for its code. If none does, it redirects and returns webflow.ErrAnswered.
func (s *Service) readConfirmation(q *webflow.Request, admit guard) (*confirmation, error) {
	x, now := &confirmation{}, s.deps.Now()
	var rec newContactRecord
	var flow webflow.FlowRecord
	a, err := s.visit(q, admit, confirmPath, func(tx storage.Tx, st *mfa.Standing) (_ int, err error) {
		if rec, _, err = newContacts.Find(tx, q.SignIn.ID); err == nil && rec.Flow != "" {
			x.flow, flow, err = s.deps.Front.SignInIn(tx, q, rec.Flow, now)
		}
		return s.contactLevel(st), err
	}, changeEmailLevel)
	if err != nil {
		return nil, err
	}
	if !rec.ExpiresAt.After(now) || !s.verifies(rec.contact().Kind, a.Settings) {
		return nil, cmp.Or(q.Redirect(contactReturn(rec.Flow)), webflow.ErrAnswered)
	}
	x.Visit, x.contact, x.client = a, rec.contact(), flow.Demand.Client
	return x, nil
}

// showConfirm serves GET /account/profile/confirm: the field for the code that was sent to a new address or number.
func (s *Service) showConfirm(q *webflow.Request) error {
	x, err := s.readConfirmation(q, s.deps.Front.VisitOf)
	if err != nil {
		return err
	}
	return s.renderConfirmation(x, http.StatusOK, web.Form{})
}

func (s *Service) renderConfirmation(x *confirmation, status int, f web.Form) error {
	f.Key, f.Fill, f.Action = "confirm."+string(x.contact.Kind), []any{"to", x.contact.Value}, confirmPath
	f.CSRF, f.Cancel = x.CSRF, contactReturn(x.flow)
	field := web.Field{Name: "code", Type: "code", Label: "confirm.code", Required: true, MaxLength: challenge.MaxCode}
	if f.Problem == "problem.code" {
		field.Problem, f.Problem = f.Problem, ""
	}
	f.Fields = web.Fields(f.Problem != "", field)
	f.Other = &web.OtherButton{Name: "again", Label: "step_up.send_again"}
	s.deps.Pages.Render(x.W, x.Request.Request,
		web.View{Template: "form", Status: status, Locales: x.SignIn.Locales(), Client: x.client, Data: f})
	return nil
}

// handleConfirm serves POST /account/profile/confirm: the right code proves that the address or number is the person's
// own.
func (s *Service) handleConfirm(q *webflow.Request) error {
	x, err := s.readConfirmation(q, s.deps.Front.VisitPost)
	if err != nil {
		return err
	}
	if q.PostForm.Get("again") != "" {
		return s.sendAgain(x)
	}
	code := q.PostForm.Get("code")
	if !person.IsText(code, challenge.MaxCode) {
		code = "-" // never right, and counted as an attempt
	}
	spend, err := s.deps.Proof.CheckCode(q.Context(), contactCode(x.Visit, x.contact), code)
	switch {
	case errors.Is(err, person.ErrMismatch):
		return s.renderConfirmation(x, http.StatusUnprocessableEntity, web.Form{Problem: "problem.code"})
	case err != nil:
		return err
	}
	return s.changeContact(x.Visit, contactChange{
		apply: func(p *person.Profile) { x.contact.Put(p, true) },
		spend: func(tx storage.Tx) (bool, error) {
			if err := newContacts.Delete(tx, x.SignIn.ID); err != nil {
				return false, err
			}
			return spend(tx)
		},
		flow: x.flow, done: "added",
	})
}

// sendAgain sends another code to the contact.
func (s *Service) sendAgain(x *confirmation) error {
	wait, _, err := s.sendCode(x.Visit, x.contact, x.flow)
	switch {
	case errors.Is(err, person.ErrMismatch):
		return x.Redirect(contactReturn(x.flow))
	case err != nil:
		return err
	case wait > 0:
		f := web.Form{}
		webflow.Waits(x.W, &f, "problem.sent", wait)
		return s.renderConfirmation(x, http.StatusTooManyRequests, f)
	}
	return x.Redirect(confirmPath)
}
