package signup

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

// pendingSignUp is a form that waits for the confirmation of its address or number.
type pendingSignUp struct {
	typed   signUpInput
	hash    string // its key. Empty: nothing is stored
	browser string // hash of its cookie
	// action is the page for the code, change the form before it. Empty: those of the sign-up
	action, change string
}

const signUpPurpose = "sign-up that waits"

// readPending reads the form of this browser that waits. nil: no form waits.
func (s *Service) readPending(q *webflow.Request) (a webflow.Detour, p *pendingSignUp, err error) {
	a, err = s.deps.Front.DetourOf(q, signUpPath, s.offersSignUp)
	token := s.deps.Jar.Get(q.Request, kindSignUp)
	if err != nil || token == "" {
		return a, nil, err
	}
	var rec signUpRecord
	hash := secret.Hash(token)
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		rec, err = signUps.Get(tx, hash)
		return err
	})
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return a, nil, nil
	case err != nil:
		return a, nil, err
	case !rec.ExpiresAt.After(s.deps.Now()), !s.deps.Jar.SameBrowser(q.Request, rec.Browser):
		return a, nil, nil
	}
	p = &pendingSignUp{hash: hash, browser: rec.Browser}
	raw, err := s.deps.Keyring.Open(signUpPurpose, rec.Sealed)
	if err != nil {
		return a, nil, err
	}
	return a, p, cbor.Unmarshal(raw, &p.typed)
}

// The parts of a form that are confirmed by a code, one after the other.
const (
	confirmEmail = "email"
	confirmPhone = "phone"
)

// toConfirm is the part that is confirmed next, or "" if none is left.
func (s *Service) toConfirm(u *settings.Units, t *signUpInput) string {
	switch {
	case s.deps.Front.VerifiesEmail(u) && !t.Verified:
		return confirmEmail
	case t.Phone != "" && s.deps.Person.VerifiesPhone(u) && !t.PhoneProven:
		return confirmPhone
	}
	return ""
}

// confirm marks a part as confirmed.
func (t *signUpInput) confirm(part string) {
	t.Verified, t.PhoneProven = t.Verified || part == confirmEmail, t.PhoneProven || part == confirmPhone
}

// codePurpose returns the purpose of the code for a part.
func (p *pendingSignUp) codePurpose(part string) challenge.CodePurpose {
	to := person.FoldEmail(p.typed.Email)
	if part == confirmPhone {
		to = p.typed.Phone
	}
	return challenge.CodePurpose{
		Purpose: "sign-up " + part, Subject: p.hash, Bound: p.browser, To: to, Limit: "sign-up:" + secret.Hash(to),
	}
}

// form binds the form for the code to what waits.
func (p *pendingSignUp) form() string { return "sign_up_code:" + p.hash }

// awaitCode stores the form and sends a code to the address. For an address that is taken the form waits as well, for a
// code that is never sent.
func (s *Service) awaitCode(q *webflow.Request, a webflow.Detour, t *signUpInput) error {
	p, token, err := s.storeSignUp(q, t)
	if err != nil {
		return err
	}
	wait, err := s.sendSignUpCode(q, a.U, p)
	switch {
	case err != nil:
		return err
	case wait > 0:
		return s.renderSignUp(q, a, http.StatusTooManyRequests, t, webflow.WaitForm(q, "problem.sent", wait))
	}
	s.deps.Jar.Set(q.W, kindSignUp, token, signUpLife)
	return q.Redirect(webflow.WithSignIn(signUpCodePath, a.ID))
}

// storeSignUp stores the form for the browser that gets the token.
func (s *Service) storeSignUp(q *webflow.Request, t *signUpInput) (p *pendingSignUp, token string, err error) {
	browser, err := s.deps.Jar.Browser(q.W, q.Request, s.deps.Front.NewID)
	if err != nil {
		return nil, "", err
	}
	if token, err = s.deps.Front.NewID(); err != nil {
		return nil, "", err
	}
	p = &pendingSignUp{typed: *t, hash: secret.Hash(token), browser: secret.Hash(browser)}
	rec, err := s.sealSignUp(p)
	if err != nil {
		return nil, "", err
	}
	return p, token, s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		return signUps.Create(tx, p.hash, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// sealSignUp returns the record of the form, for an hour from now.
func (s *Service) sealSignUp(p *pendingSignUp) (signUpRecord, error) {
	raw, err := cbor.Marshal(p.typed)
	if err != nil {
		return signUpRecord{}, err
	}
	sealed, err := s.deps.Keyring.Seal(signUpPurpose, raw)
	return signUpRecord{Browser: p.browser, Sealed: sealed, ExpiresAt: s.deps.Now().Add(signUpLife)}, err
}

// readConfirmation reads the form whose address or number is confirmed now.
func (s *Service) readConfirmation(q *webflow.Request) (a webflow.Detour, p *pendingSignUp, err error) {
	a, p, err = s.readPending(q)
	if err == nil && (p == nil || s.toConfirm(a.U, &p.typed) == "") { // nothing waits, or the settings have changed
		err = q.RedirectAway(q.Again)
	}
	if err == nil {
		q.Again = webflow.WithSignIn(signUpCodePath, a.ID)
	}
	return a, p, err
}

// showSignUpCode serves GET /sign-up/confirm?flow=…: it asks for the code that was sent.
func (s *Service) showSignUpCode(q *webflow.Request) error {
	a, p, err := s.readConfirmation(q)
	if err != nil {
		return err
	}
	return s.renderSignUpCode(q, a, p, http.StatusOK, web.Form{})
}

func (s *Service) renderSignUpCode(q *webflow.Request, a webflow.Detour, p *pendingSignUp, status int, in web.Form) error {
	in.Action = cmp.Or(p.action, webflow.WithSignIn(signUpCodePath, a.ID))
	if s.toConfirm(a.U, &p.typed) == confirmPhone {
		in.Key, in.Fill = "sign_up_phone", []any{"to", p.typed.Phone}
		in.Fields = webflow.CodeFields("step_up.sms.label", in.Problem)
	} else {
		in.Key, in.Fill = "sign_up_code", []any{"to", p.typed.Email}
		in.Fields = webflow.CodeFields("step_up.email.label", in.Problem)
	}
	in.Other = &web.OtherButton{Name: "send", Label: "step_up.send_again"}
	change := cmp.Or(p.change, webflow.WithSignIn(signUpPath, a.ID))
	in.Links = []web.FormLink{{Label: "sign_up_code.change", URL: change}}
	return s.renderWithTarget(q, a, p.form(), status, in)
}

// handleSignUpCode serves POST /sign-up/confirm?flow=…: the code creates the person, or another one is sent.
func (s *Service) handleSignUpCode(q *webflow.Request) error {
	a, p, err := s.readConfirmation(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, p.form(), q.Again)
	}
	if err != nil {
		return err
	}
	if q.PostForm.Get("send") != "" {
		return s.sendNextCode(q, a, p)
	}
	code := q.PostForm.Get("code")
	if code == "" {
		return s.renderSignUpCode(q, a, p, http.StatusUnprocessableEntity, web.Form{Problem: "problem.code_missing"})
	}
	part, before := s.toConfirm(a.U, &p.typed), p.typed
	spend, err := s.deps.Proof.CheckCode(q.Context(), p.codePurpose(part), code)
	if err == nil {
		p.typed.confirm(part)
		if s.toConfirm(a.U, &p.typed) == "" {
			return s.finishSignUp(q, a, p, before, spend)
		}
		err = s.keepConfirmation(q, p, spend)
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		p.typed = before
		return s.renderSignUpCode(q, a, p, http.StatusUnprocessableEntity, web.Form{Problem: "problem.code"})
	case err != nil:
		return err
	}
	return s.sendNextCode(q, a, p)
}

// keepConfirmation stores that the address is confirmed, while the number is not yet. person.ErrMismatch: the code or
// the form is no longer there.
func (s *Service) keepConfirmation(q *webflow.Request, p *pendingSignUp, spend func(storage.Tx) (bool, error)) error {
	rec, err := s.sealSignUp(p)
	if err != nil {
		return err
	}
	return s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if ok, err := spend(tx); err != nil || !ok {
			return cmp.Or(err, person.ErrMismatch)
		}
		if there, err := signUps.Has(tx, p.hash); err != nil || !there {
			return cmp.Or(err, person.ErrMismatch)
		}
		return signUps.Put(tx, p.hash, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// sendNextCode sends the code for the part that is confirmed next, and shows the page that asks for it.
func (s *Service) sendNextCode(q *webflow.Request, a webflow.Detour, p *pendingSignUp) error {
	wait, err := s.sendSignUpCode(q, a.U, p)
	switch {
	case err != nil:
		return err
	case wait > 0:
		return s.renderSignUpCode(q, a, p, http.StatusTooManyRequests, webflow.WaitForm(q, "problem.sent", wait))
	}
	return q.Redirect(cmp.Or(p.action, webflow.WithSignIn(signUpCodePath, a.ID)))
}
