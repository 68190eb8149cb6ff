package invitation

import (
	"errors"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const invitationCheckPath = invitationPath + "/check"

// showInvitationCheck serves GET /invitation/check: it asks invited persons to prove who they are.
func (s *Service) showInvitationCheck(q *webflow.Request) error {
	x, err := s.openInvitation(q)
	switch {
	case err != nil:
		return err
	case x.isChecked(x.browser):
		return q.Redirect(invitationPath)
	}
	ways := s.waysOf(x)
	way := findWay(ways, q.URL.Query().Get("way"))
	if way == nil && len(ways) == 1 {
		way = ways[0]
	}
	return s.renderInvitationCheck(q, x, way, http.StatusOK, web.InvitationCheck{})
}

// renderInvitationCheck writes the page of one way. way is nil for the choice between all ways.
func (s *Service) renderInvitationCheck(
	q *webflow.Request, x *invitation, way *invitationWay, status int, in web.InvitationCheck,
) (err error) {
	in.Action, in.Skip = invitationCheckPath, x.units.Features.AllowSignUpWithoutInvitationValidation
	for _, one := range s.waysOf(x) {
		in.Choices = append(in.Choices, web.InvitationChoice{Way: one.name, URL: one.url()})
	}
	if way != nil {
		in.Way, in.Action = way.name, way.url()
		x.describe(way, &in)
	}
	if in.CSRF, err = s.deps.Front.FormToken(q, x.form); err != nil {
		return err
	}
	s.deps.Pages.Render(q.W, q.Request, web.View{Template: "invitation_check", Status: status, Locales: x.locales(), Data: in})
	return nil
}

// describe fills in what the page of a way asks.
func (x *invitation) describe(way *invitationWay, in *web.InvitationCheck) {
	if way.name == "sms" {
		to, _ := x.number()
		in.Send, in.To, in.Sent = true, person.MaskPhone(to), x.codeSent
		if !in.Sent {
			return
		}
	}
	f := web.Field{
		Name: "answer", Label: "invitation_check." + way.name + ".label", Required: true, Invalid: in.Problem != "",
	}
	if way.name == "birthdate" {
		f.Type, f.Autocomplete = "date", "bday"
	} else {
		f.Type, f.MaxLength = "code", challenge.MaxCode
	}
	if way.name == "code" { // has letters
		f.InputMode = "text"
	}
	in.Fields = web.Fields(in.Problem != "", f)
}

// handleInvitationCheck serves POST /invitation/check.
func (s *Service) handleInvitationCheck(q *webflow.Request) error {
	x, err := s.openInvitation(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form, invitationPath)
	}
	if err != nil {
		return err
	}
	way := findWay(s.waysOf(x), q.URL.Query().Get("way"))
	answer := q.PostForm.Get("answer")
	switch {
	case x.isChecked(x.browser):
	case q.PostForm.Get("skip") != "":
		err = s.skipCheck(q.Context(), x.token, x.browser)
	case way == nil:
		return q.Redirect(invitationCheckPath)
	case way.name == "sms" && q.PostForm.Get("send") != "":
		return s.handleInvitationText(q, x, way)
	case answer == "":
		in := web.InvitationCheck{Problem: "problem.invitation_missing"}
		return s.renderInvitationCheck(q, x, way, http.StatusUnprocessableEntity, in)
	default:
		err = s.checkAnswer(q.Context(), x, x.actor(s.deps.Origin(q.Request)), way, answer)
	}
	switch {
	case err == nil:
		return q.Redirect(invitationPath)
	case errors.Is(err, person.ErrMismatch):
		s.deps.Front.Refuse(q, denial.Refusal{Where: denial.Page, Reason: denial.WrongAnswer, PersonID: x.id}, err)
		return s.askAgain(q, way)
	}
	return s.invitationError(q, err)
}

// askAgain shows the page again after a wrong answer, unless that was the last one.
func (s *Service) askAgain(q *webflow.Request, way *invitationWay) error {
	x, err := s.openInvitation(q)
	if err != nil {
		return err
	}
	in := web.InvitationCheck{Problem: "problem.invitation"}
	return s.renderInvitationCheck(q, x, way, http.StatusUnprocessableEntity, in)
}
