package recovery

import (
	"net/http"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// offersMailReset reports whether a forgotten password can be replaced by a link in an e-mail.
func (s *Service) offersMailReset(u *settings.Units) bool {
	return u.Features.PasswordResetEnabled && u.PasswordLogin() && s.deps.Notify != nil
}

// offersTextReset reports whether a forgotten password can be replaced by a code in a text message.
func (s *Service) offersTextReset(u *settings.Units) bool {
	return u.Features.PasswordResetEnabled && u.PasswordLogin() && s.deps.Person.SendsTexts(u)
}

// offersReset reports whether there is any way to replace a forgotten password.
func (s *Service) offersReset(u *settings.Units) bool { return s.forgotURL(u) != "" }

// forgotURL is the first page for a forgotten password, or "".
func (s *Service) forgotURL(u *settings.Units) string {
	switch {
	case s.offersMailReset(u):
		return forgotPath
	case s.offersTextReset(u):
		return forgotTextPath
	}
	return ""
}

// OfferLinks adds the links of the sign-in page to the pages for forgotten credentials.
func (s *Service) OfferLinks(u *settings.Units, flow string, in *web.SignIn) {
	if at := s.forgotURL(u); at != "" {
		in.ForgotURL = webflow.WithSignIn(at, flow)
	}
	if s.offersReminder(u) {
		in.RemindURL = webflow.WithSignIn(forgotUsernamePath, flow)
	}
}

// forgotForm is the form of a page for something forgotten. It asks who the person is.
type forgotForm struct {
	key        string // of the messages, and of the form's token
	path, next string // of the form, and of the page after it
	exists     func(*settings.Units) bool
	field      web.Field
	links      func(webflow.Detour) []web.FormLink
}

// accountField asks for the username or an e-mail address.
var accountField = web.Field{Name: "username", Label: "forgot.label", Autocomplete: "username"}

// showForgotForm serves the GET of a form.
func (s *Service) showForgotForm(q *webflow.Request, f *forgotForm) error {
	a, err := s.deps.Front.DetourOf(q, f.path, f.exists)
	if err != nil {
		return err
	}
	typed := ""
	if f.field.Name == accountField.Name {
		typed = a.Flow.Username()
	}
	return s.renderForgot(q, a, f, http.StatusOK, typed, web.Form{})
}

// renderForgot writes the page of a form. typed is shown again.
func (s *Service) renderForgot(
	q *webflow.Request, a webflow.Detour, f *forgotForm, status int, typed string, in web.Form,
) error {
	field := f.field
	field.Value, field.Required = typed, true
	field.Invalid = status == http.StatusUnprocessableEntity
	in.Key, in.Action, in.Fields = f.key, webflow.WithSignIn(f.path, a.ID), web.Fields(in.Problem != "", field)
	if f.links != nil {
		in.Links = f.links(a)
	}
	in.Links = append(in.Links, webflow.SignInLink(a.ID))
	return s.deps.Front.RenderForm(q, a, f.key+":"+a.ID, status, in)
}

// readForgot reads the input of a form that was posted.
func (s *Service) readForgot(q *webflow.Request, f *forgotForm) (a webflow.Detour, typed string, err error) {
	if a, err = s.deps.Front.DetourOf(q, f.path, f.exists); err == nil {
		err = s.deps.Front.CheckForm(q, f.key+":"+a.ID, q.Again)
	}
	if err != nil {
		return a, "", err
	}
	return a, strings.TrimSpace(q.PostForm.Get(f.field.Name)), nil
}

// resetFunc sends a person with a username or an address what allows a new password. wait is how long nothing is
// accepted.
type resetFunc func(q *webflow.Request, a webflow.Detour, typed string) (wait time.Duration, err error)

// handleForgotForm serves the POST of a form that asks for the username or an address.
func (s *Service) handleForgotForm(q *webflow.Request, f *forgotForm, send resetFunc) error {
	a, typed, err := s.readForgot(q, f)
	if err != nil {
		return err
	}
	if typed == "" {
		return s.renderForgot(q, a, f, http.StatusUnprocessableEntity, "", web.Form{Problem: "problem.account"})
	}
	return s.answerForgot(q, a, f, echo(typed, person.MaxUsername), func() (time.Duration, error) {
		return send(q, a, typed)
	})
}

// answerForgot does what a form asks for. The answer is the same whether the person exists or not. wait is how long
// nothing is accepted.
func (s *Service) answerForgot(
	q *webflow.Request, a webflow.Detour, f *forgotForm, typed string, do func() (wait time.Duration, err error),
) error {
	if !s.deps.Admit(q.Request, 0) {
		return webflow.ErrTooMany
	}
	wait, err := do()
	switch {
	case err != nil:
		return err
	case wait > 0:
		return s.renderForgot(q, a, f, http.StatusTooManyRequests, typed, webflow.WaitForm(q, "problem.wait", wait))
	}
	return q.Redirect(webflow.WithSignIn(f.next, a.ID))
}

// echo returns the input if a page can show it again, otherwise "".
func echo(typed string, most int) string {
	if !person.IsText(typed, most) {
		return ""
	}
	return typed
}
