package signup

import (
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	signUpPath     = "/sign-up"
	signUpCodePath = signUpPath + "/confirm"
	signUpSentPath = signUpPath + "/sent"

	signUpLife        = time.Hour // of a form that waits for the confirmation of its address
	signUpsPerAddress = 20        // forms in a window
	kindSignUp        = "sign-up" // cookie that names the form
)

// offersSignUp reports whether people can make accounts. Addresses that must be confirmed need a way to send e-mails.
func (s *Service) offersSignUp(u *settings.Units) bool {
	f := u.Features
	sends := s.deps.Notify != nil || !u.Attributes.Verification.EmailEnabled && !person.ActivatesByEmail(u)
	return f.SignUpEnabled && f.LoginEnabled && u.PasswordLogin() && sends
}

// SignUpURL is the page for a new account, or "" if people cannot make one, or cannot sign in with it then.
func (s *Service) SignUpURL(u *settings.Units, byPassword bool) string {
	if !byPassword || !s.offersSignUp(u) {
		return ""
	}
	return signUpPath
}

// OfferLink adds the link of the sign-in page to the page for new accounts.
func (s *Service) OfferLink(u *settings.Units, flow string, in *web.SignIn) {
	if s.offersSignUp(u) {
		in.SignUpURL = webflow.WithSignIn(signUpPath, flow)
	}
}

// showSignUp serves GET /sign-up?flow=…. A form of this browser that waits for confirmation is filled in again.
func (s *Service) showSignUp(q *webflow.Request) error {
	a, p, err := s.readPending(q)
	if err != nil {
		return err
	}
	t := &signUpInput{}
	if p != nil {
		t = &p.typed
		t.emailAgain, t.phoneAgain = t.Email, t.Phone
	}
	return s.renderSignUp(q, a, http.StatusOK, t, web.Form{})
}

func (s *Service) renderSignUp(q *webflow.Request, a webflow.Detour, status int, t *signUpInput, in web.Form) error {
	in.Key, in.Action = "sign_up", webflow.WithSignIn(signUpPath, a.ID)
	in.Links = []web.FormLink{webflow.SignInLink(a.ID)}
	in.Fields = web.Fields(in.Problem != "", t.fields(a.U)...)
	return s.renderWithTarget(q, a, "sign_up:"+a.ID, status, in)
}

// renderWithTarget writes a form after which the person can continue at another origin.
func (s *Service) renderWithTarget(q *webflow.Request, a webflow.Detour, form string, status int, in web.Form) error {
	if to := s.afterSignUp(a); web.LocalPath(to) == "" {
		a = a.WithTarget(to)
	}
	return s.deps.Front.RenderForm(q, a, form, status, in)
}

// afterSignUp returns the destination of a person after the sign-up: that of the sign-in, or the one in the settings.
func (s *Service) afterSignUp(a webflow.Detour) string {
	if !a.IsPlainSignIn() {
		return a.Flow.Demand.Return
	}
	return webflow.AfterSignUp(a.U)
}

// handleSignUp serves POST /sign-up?flow=…. It creates the person only if addresses are not confirmed; otherwise the
// form waits.
func (s *Service) handleSignUp(q *webflow.Request) error {
	a, err := s.deps.Front.DetourOf(q, signUpPath, s.offersSignUp)
	if err == nil {
		err = s.deps.Front.CheckForm(q, "sign_up:"+a.ID, q.Again)
	}
	if err != nil {
		return err
	}
	t := readSignUp(q)
	t.checkEmail(a.U)
	t.checkPerson(a.U)
	t.checkPassword(q)
	t.Custom = webflow.ReadCustom(person.CustomFieldsOf(a.U, settings.OwnMethod), q.PostForm, t.problems)
	if len(t.problems) > 0 {
		return s.renderSignUp(q, a, http.StatusUnprocessableEntity, t, web.Form{})
	}
	wait, err := s.countSignUp(q)
	switch {
	case err != nil:
		return err
	case wait > 0:
		t.finish(s, q, a)
		return s.renderSignUp(q, a, http.StatusTooManyRequests, t, webflow.WaitForm(q, "problem.wait", wait))
	}
	// The same hash for an address that is taken, so neither the answer nor the time shows it.
	t.PHC, err = s.deps.Person.HashNew(q.Context(), q.PostForm.Get("password"), t.names()...)
	if problem := webflow.PasswordProblem(err); problem != "" {
		t.problem("password", problem)
		return s.renderSignUp(q, a, http.StatusUnprocessableEntity, t, web.Form{})
	}
	if err != nil {
		return err
	}
	t.finish(s, q, a)
	if s.toConfirm(a.U, t) != "" {
		return s.awaitCode(q, a, t)
	}
	return s.finishSignUp(q, a, &pendingSignUp{typed: *t}, *t, nil)
}

// finish puts the phone number into its stored form, and notes the language of the page.
func (t *signUpInput) finish(s *Service, q *webflow.Request, a webflow.Detour) {
	t.Phone, _ = person.ParsePhone(t.Phone)
	t.Locale = s.deps.Pages.Lang(q.Request, a.Flow.Demand.Locales, a.Flow.Demand.Client.ID)
}

// countSignUp counts a form that would be hashed and stored. wait is how long none is accepted from this address.
func (s *Service) countSignUp(q *webflow.Request) (wait time.Duration, err error) {
	if !s.deps.Admit(q.Request, 0) {
		return 0, webflow.ErrTooMany
	}
	now, from := s.deps.Now(), challenge.Network(s.deps.Origin(q.Request).ClientIP)
	err = s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		wait, err = s.deps.Proof.CountRequest(tx, "sign-up-address", from, signUpsPerAddress, now)
		return err
	})
	return wait, err
}

// finishSignUp creates the person and signs the person in, or sends the link that activates the account. spend uses up
// the last code; nil: no code was needed. before is the form as it was before that code.
func (s *Service) finishSignUp(
	q *webflow.Request, a webflow.Detour, p *pendingSignUp, before signUpInput, spend func(storage.Tx) (bool, error),
) error {
	inactive := a.U.Features.PersonActivation.Enabled && !(p.typed.Verified && person.ActivatesByEmail(a.U))
	c, err := s.prepareAccount(q, p, inactive, spend)
	switch {
	case err != nil:
	case inactive:
		err = s.storeInactive(q, a, c)
	default:
		err = s.deps.Front.AdmitNew(q.W, q.Request, a.Flow, c.id, "signed up", c.create)
	}
	q.Again = webflow.WithSignIn(signUpPath, a.ID)
	switch {
	case err == nil && inactive:
		s.deps.Jar.Clear(q.W, kindSignUp)
		return q.Redirect(webflow.WithSignIn(signUpSentPath, a.ID))
	case err == nil:
		s.deps.Jar.Clear(q.W, kindSignUp)
		return q.LeaveTo(s.afterSignUp(a))
	case errors.Is(err, person.ErrMismatch), errors.Is(err, person.ErrUsernameTaken) && p.typed.Verified:
		p.typed = before
		return s.renderSignUpCode(q, a, p, http.StatusUnprocessableEntity, web.Form{Problem: "problem.code"})
	case errors.Is(err, person.ErrUsernameTaken):
		return s.renderSignUp(q, a, http.StatusUnprocessableEntity, &p.typed, web.Form{Problem: "problem.sign_up"})
	case errors.As(err, new(*person.ValidationError)): // the settings have changed
		return webflow.TooLate(q.Again)
	}
	return err
}

// storeInactive creates a person who must be activated. If the address is taken its owner gets a notice, and the answer
// is the same.
func (s *Service) storeInactive(q *webflow.Request, a webflow.Detour, c *newAccount) error {
	now := s.deps.Now()
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		_, err := c.create(tx, now)
		if errors.Is(err, person.ErrUsernameTaken) && person.ActivatesByEmail(a.U) {
			return s.notifyOwner(tx, &c.pending.typed, now) // nothing was written
		}
		return err
	})
}

// showSignUpSent serves GET /sign-up/sent?flow=…: how the account is activated, whether it was created or not.
func (s *Service) showSignUpSent(q *webflow.Request) error {
	a, err := s.deps.Front.DetourOf(q, signUpPath, s.offersSignUp)
	if err != nil {
		return err
	}
	key := "sign_up_sent"
	if !person.ActivatesByEmail(a.U) {
		key = "sign_up_later"
	}
	return s.deps.Front.RenderForm(q, a, "", http.StatusOK, web.Form{
		Key: key, Fill: []any{"brand", s.deps.Pages.Name()}, Next: webflow.SignInURL(a.ID),
	})
}
