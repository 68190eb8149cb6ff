package enrol

import (
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

const (
	forgotPath     = "/forgot"
	forgotSentPath = forgotPath + "/sent"
)

// offersMailReset tells whether a forgotten password can be replaced by a link in an e-mail.
func (s *Service) offersMailReset(u *config.Units) bool {
	return u.Features.PasswordResetEnabled && u.PasswordLogin() && s.notify != nil
}

// offersTextReset tells whether a forgotten password can be replaced by a code in a text message.
func (s *Service) offersTextReset(u *config.Units) bool {
	return u.Features.PasswordResetEnabled && u.PasswordLogin() && s.person.SendsTexts(u)
}

// offersReset tells whether there is any way to replace a forgotten password.
func (s *Service) offersReset(u *config.Units) bool { return s.forgotURL(u) != "" }

// forgotURL is the first page for a forgotten password, or "" if there is none.
func (s *Service) forgotURL(u *config.Units) string {
	switch {
	case s.offersMailReset(u):
		return forgotPath
	case s.offersTextReset(u):
		return forgotTextPath
	}
	return ""
}

// OfferLinks adds the links of the sign-in page to the pages for new accounts and forgotten credentials.
func (s *Service) OfferLinks(u *config.Units, flow string, in *page.SignIn) {
	if at := s.forgotURL(u); at != "" {
		in.ForgotURL = front.WithSignIn(at, flow)
	}
	if s.offersReminder(u) {
		in.RemindURL = front.WithSignIn(forgotUsernamePath, flow)
	}
	if s.offersSignUp(u) {
		in.SignUpURL = front.WithSignIn(signUpPath, flow)
	}
}

// forgotForm is the form of a page for something forgotten. It asks who the person is.
type forgotForm struct {
	key        string // of the messages, and of the form's token
	path, next string // of the form, and of the page after it
	field      page.Field
	links      func(front.Detour) []page.FormLink
}

// renderForgot writes the page of the form. typed is shown again.
func (s *Service) renderForgot(q *front.Request, a front.Detour, f *forgotForm, status int, typed string, in page.Form) error {
	field := f.field
	field.Value, field.Required = typed, true
	field.Invalid = status == http.StatusUnprocessableEntity
	in.Key, in.Action, in.Fields = f.key, front.WithSignIn(f.path, a.ID), page.Fields(in.Problem != "", field)
	if f.links != nil {
		in.Links = f.links(a)
	}
	in.Links = append(in.Links, signInLink(a.ID))
	return s.front.RenderForm(q, a, f.key+":"+a.ID, status, in)
}

// answerForgot does what a form asks for. The answer is the same whether the person exists or not. wait is how long
// nothing is accepted.
func (s *Service) answerForgot(
	q *front.Request, a front.Detour, f *forgotForm, typed string, do func() (wait time.Duration, err error),
) error {
	if !s.admit(q.Request) {
		return front.ErrTooMany
	}
	wait, err := do()
	switch {
	case err != nil:
		return err
	case wait > 0:
		return s.renderForgot(q, a, f, http.StatusTooManyRequests, typed, waitForm(q, "problem.wait", wait))
	}
	return q.Redirect(front.WithSignIn(f.next, a.ID))
}

// forgotField asks for the username or an e-mail address.
var forgotField = page.Field{Name: "username", Label: "forgot.label", Autocomplete: "username"}

// mailForm is the form for a link in an e-mail.
func (s *Service) mailForm() *forgotForm {
	return &forgotForm{key: "forgot", path: forgotPath, next: forgotSentPath, field: forgotField, links: func(a front.Detour) (list []page.FormLink) {
		if s.offersTextReset(a.U) {
			list = append(list, page.FormLink{Label: "forgot.text_message", URL: front.WithSignIn(forgotTextPath, a.ID)})
		}
		return append(list, s.reminderLinks(a)...)
	}}
}

// showForgot serves GET /forgot?flow=…: it asks for the username.
func (s *Service) showForgot(q *front.Request) error {
	a, err := s.detour(q, forgotPath, s.offersMailReset)
	if err != nil {
		return err
	}
	return s.renderForgot(q, a, s.mailForm(), http.StatusOK, a.Flow.Username(), page.Form{})
}

// handleForgot serves POST /forgot?flow=….
func (s *Service) handleForgot(q *front.Request) error {
	a, err := s.detour(q, forgotPath, s.offersMailReset)
	if err == nil {
		err = s.front.CheckForm(q, "forgot:"+a.ID, q.Again)
	}
	if err != nil {
		return err
	}
	typed := strings.TrimSpace(q.PostForm.Get("username"))
	if typed == "" {
		return s.renderForgot(q, a, s.mailForm(), http.StatusUnprocessableEntity, "", page.Form{Problem: "problem.username"})
	}
	return s.answerForgot(q, a, s.mailForm(), echo(typed, person.MaxUsername), func() (time.Duration, error) {
		return s.sendResets(q.Context(), typed, a.ID, s.origin(q.Request))
	})
}

// showForgotSent serves GET /forgot/sent?flow=…: what happens next, whether the person exists or not.
func (s *Service) showForgotSent(q *front.Request) error {
	a, err := s.detour(q, forgotPath, s.offersMailReset)
	if err != nil {
		return err
	}
	return s.front.RenderForm(q, a, "", http.StatusOK, page.Form{
		Key: "forgot_sent", Next: signInURL(a.ID),
		Links: []page.FormLink{{Label: "forgot_sent.again", URL: front.WithSignIn(forgotPath, a.ID)}},
	})
}
