package identity

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// pendingSignUp is what waits for its address to be confirmed.
type pendingSignUp struct {
	typed typedSignUp
	hash  string // its key; "": nothing waits
	bound string // hash of the browser's cookie
	// action is the page for the code, change the form that leads there. Empty: those of the sign-up
	action, change string
}

const signUpPurpose = "sign-up that waits"

// pending returns what waits in this browser, or storage.ErrNotFound.
func (s *Service) pending(r *http.Request) (*pendingSignUp, error) {
	token := s.jar.Get(r, kindSignUp)
	if token == "" {
		return nil, storage.ErrNotFound
	}
	p := &pendingSignUp{hash: secret.Hash(token)}
	var rec signUpRecord
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = signUps.Get(tx, p.hash)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !rec.ExpiresAt.After(s.Now()) || !s.jar.SameBrowser(r, rec.Browser) {
		return nil, storage.ErrNotFound
	}
	p.bound = rec.Browser
	raw, err := s.Keyring.Open(signUpPurpose, rec.Sealed)
	if err != nil {
		return nil, err
	}
	return p, cbor.Unmarshal(raw, &p.typed)
}

// What is confirmed by a code, one after the other.
const (
	confirmEmail = "email"
	confirmPhone = "phone"
)

// toConfirm is what is confirmed next, or "" when nothing is left.
func (s *Service) toConfirm(u *config.Units, t *typedSignUp) string {
	switch {
	case s.verifiesEmail(u) && !t.Verified:
		return confirmEmail
	case t.Phone != "" && s.verifiesPhone(u) && !t.PhoneProven:
		return confirmPhone
	}
	return ""
}

// code is what the code for the address or the number is good for.
func (p *pendingSignUp) code(what string) codeFor {
	to := foldEmail(p.typed.Email)
	if what == confirmPhone {
		to = p.typed.Phone
	}
	return codeFor{Purpose: "sign-up " + what, Subject: p.hash, Bound: p.bound, To: to, Limit: "sign-up:" + secret.Hash(to)}
}

// form binds the form to what waits.
func (p *pendingSignUp) form() string { return "sign_up_code:" + p.hash }

// awaitCode stores what was typed, and sends a code to the address. An address that somebody has already waits just the same, for a code that
// nobody gets.
func (s *Service) awaitCode(w http.ResponseWriter, r *http.Request, a aside, t *typedSignUp) {
	again := withSignIn(signUpPath, a.id)
	p, token, err := s.storeSignUp(w, r, t)
	if err != nil {
		s.fail(w, r, err, again)
		return
	}
	wait, err := s.sendSignUp(r, a.u, p)
	switch {
	case err != nil:
		s.fail(w, r, err, again)
	case wait > 0:
		in := page.Form{}
		waits(w, &in, "problem.sent", wait)
		s.signUpPage(w, r, a, http.StatusTooManyRequests, t, in)
	default:
		s.jar.Set(w, kindSignUp, token, signUpLife)
		s.redirect(w, r, withSignIn(signUpCodePath, a.id))
	}
}

// storeSignUp keeps what was typed for the browser that has the token.
func (s *Service) storeSignUp(w http.ResponseWriter, r *http.Request, t *typedSignUp) (p *pendingSignUp, token string, err error) {
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		return nil, "", err
	}
	if token, err = s.newID(); err != nil {
		return nil, "", err
	}
	p = &pendingSignUp{typed: *t, hash: secret.Hash(token), bound: secret.Hash(browser)}
	rec, err := s.sealSignUp(p)
	if err != nil {
		return nil, "", err
	}
	return p, token, s.Store.Update(r.Context(), func(tx storage.Tx) error {
		return signUps.Create(tx, p.hash, rec, rec.ExpiresAt.Add(collectAfter))
	})
}

// sealSignUp is what is stored of what was typed, for an hour from now.
func (s *Service) sealSignUp(p *pendingSignUp) (signUpRecord, error) {
	raw, err := cbor.Marshal(p.typed)
	if err != nil {
		return signUpRecord{}, err
	}
	sealed, err := s.Keyring.Seal(signUpPurpose, raw)
	return signUpRecord{Browser: p.bound, Sealed: sealed, ExpiresAt: s.Now().Add(signUpLife)}, err
}

// sendSignUp sends a code to the address that somebody wants to sign up with; its owner, if it has one, is told that instead. Or it sends one to the
// number. wait is how long nothing is sent there.
func (s *Service) sendSignUp(r *http.Request, u *config.Units, p *pendingSignUp) (wait time.Duration, err error) {
	code, err := newSentCode(s.Random)
	if err != nil {
		return 0, err
	}
	now, what := s.Now(), s.toConfirm(u, &p.typed)
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		var taken *told
		if what == confirmEmail {
			if taken, err = s.takenBy(tx, p.typed.Email); err != nil {
				return err
			}
		}
		wait, err = s.sendCode(tx, p.code(what), code, now, func(tx storage.Tx, code string) error {
			if what == confirmPhone {
				return s.SMS.Send(tx, notify.SMS{
					Kind: notify.SMSPhoneCode, To: p.typed.Phone, Locales: []string{p.typed.Locale}, At: now, Until: now.Add(sentCodeLife), Data: map[string]string{"code": code},
				})
			}
			if taken != nil {
				return s.tellTaken(tx, *taken, &p.typed, now)
			}
			// Without the name: whoever has typed it may have nothing to do with the address, and would write to anybody through us.
			return s.Notify.Send(tx, notify.Notice{
				Kind: notify.SignUpCode, To: p.typed.Email, Locales: []string{p.typed.Locale}, At: now, Data: map[string]string{"code": code},
			})
		})
		return err
	})
	return wait, err
}

// tellTaken tells the owner of an address that somebody wanted to sign up with it, and how they get in.
func (s *Service) tellTaken(tx storage.Tx, t told, typed *typedSignUp, now time.Time) error {
	n := t.notice(notify.SignUpExisting, now)
	if n.To == "" || t.rec.State == Blocked || t.rec.State == Removed {
		n.Kind, n.To = notify.Nothing, typed.Email
	}
	n.Link = "/sign-in"
	return s.Notify.Send(tx, n)
}

// tellOwner is tellTaken for a form that was sent without a code, a few times for each address.
func (s *Service) tellOwner(tx storage.Tx, typed *typedSignUp, now time.Time) error {
	taken, err := s.takenBy(tx, typed.Email)
	if err != nil || taken == nil {
		return err
	}
	if wait, err := s.tooMany(tx, "sign-up-told", secret.Hash(foldEmail(typed.Email)), sentCodesMost, now); err != nil || wait > 0 {
		return err
	}
	return s.tellTaken(tx, *taken, typed, now)
}

// confirmingSignUp reads what the handlers of the page for the code share. Otherwise it has written the answer and is not ok.
func (s *Service) confirmingSignUp(w http.ResponseWriter, r *http.Request) (a aside, p *pendingSignUp, ok bool) {
	if a, ok = s.beside(w, r, signUpPath, s.canSignUp); !ok {
		return a, nil, false
	}
	p, err := s.pending(r)
	if err == nil && s.toConfirm(a.u, &p.typed) == "" { // the configuration is another since
		err = storage.ErrNotFound
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		s.redirect(w, r, withSignIn(signUpPath, a.id))
	case err != nil:
		s.fail(w, r, err, withSignIn(signUpPath, a.id))
	}
	return a, p, err == nil
}

// showSignUpCode serves GET /sign-up/confirm?flow=…: it asks for the code that was sent.
func (s *Service) showSignUpCode(w http.ResponseWriter, r *http.Request) {
	if a, p, ok := s.confirmingSignUp(w, r); ok {
		s.signUpCodePage(w, r, a, p, http.StatusOK, page.Form{})
	}
}

func (s *Service) signUpCodePage(w http.ResponseWriter, r *http.Request, a aside, p *pendingSignUp, status int, in page.Form) {
	in.Key, in.Fill, in.Action = "sign_up_code", []any{"to", p.typed.Email}, cmp.Or(p.action, withSignIn(signUpCodePath, a.id))
	label := "step_up.email.label"
	if s.toConfirm(a.u, &p.typed) == confirmPhone {
		in.Key, in.Fill, label = "sign_up_phone", []any{"to", p.typed.Phone}, "step_up.sms.label"
	}
	in.Fields = page.Fields(in.Problem != "", page.Field{Name: "code", Type: "code", Label: label, Required: true, MaxLength: maxCode, Invalid: in.Problem != ""})
	in.Other = &page.OtherButton{Name: "send", Label: "step_up.send_again"}
	in.Links = []page.FormLink{{Label: "sign_up_code.change", URL: cmp.Or(p.change, withSignIn(signUpPath, a.id))}}
	s.signUpForm(w, r, a, p.form(), status, in)
}

// handleSignUpCode serves POST /sign-up/confirm?flow=…: the code makes the person, or another one is sent.
func (s *Service) handleSignUpCode(w http.ResponseWriter, r *http.Request) {
	a, p, ok := s.confirmingSignUp(w, r)
	again := withSignIn(signUpCodePath, a.id)
	if !ok || !s.checkForm(w, r, p.form(), again) {
		return
	}
	if r.PostForm.Get("send") != "" {
		s.sendAgain(w, r, a, p)
		return
	}
	code := r.PostForm.Get("code")
	if code == "" {
		s.signUpCodePage(w, r, a, p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code_missing"})
		return
	}
	what := s.toConfirm(a.u, &p.typed)
	spend, err := s.checkCode(r.Context(), p.code(what), code)
	if err == nil {
		before := p.typed
		p.typed.Verified, p.typed.PhoneProven = before.Verified || what == confirmEmail, before.PhoneProven || what == confirmPhone
		if s.toConfirm(a.u, &p.typed) == "" {
			s.finishSignUp(w, r, a, p, before, spend)
			return
		}
		if err = s.confirmed(r, p, spend); err != nil {
			p.typed = before
		}
	}
	switch {
	case errors.Is(err, errMismatch):
		s.signUpCodePage(w, r, a, p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case err != nil:
		s.fail(w, r, err, again)
	default:
		s.sendAgain(w, r, a, p)
	}
}

// confirmed keeps that the address was confirmed, while the number is not yet.
func (s *Service) confirmed(r *http.Request, p *pendingSignUp, spend func(storage.Tx) (bool, error)) error {
	rec, err := s.sealSignUp(p)
	if err != nil {
		return err
	}
	return s.Store.Update(r.Context(), func(tx storage.Tx) error {
		if ok, err := spend(tx); err != nil || !ok {
			return cmpErr(err, errMismatch)
		}
		return signUps.Put(tx, p.hash, rec, rec.ExpiresAt.Add(collectAfter))
	})
}

// sendAgain sends the next code.
func (s *Service) sendAgain(w http.ResponseWriter, r *http.Request, a aside, p *pendingSignUp) {
	wait, err := s.sendSignUp(r, a.u, p)
	switch {
	case err != nil:
		s.fail(w, r, err, withSignIn(signUpCodePath, a.id))
	case wait > 0:
		in := page.Form{}
		waits(w, &in, "problem.sent", wait)
		s.signUpCodePage(w, r, a, p, http.StatusTooManyRequests, in)
	default:
		s.redirect(w, r, withSignIn(signUpCodePath, a.id))
	}
}

// showSignUpSent serves GET /sign-up/sent?flow=…: how the account is activated now, for somebody and nobody alike.
func (s *Service) showSignUpSent(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.beside(w, r, signUpPath, s.canSignUp); ok {
		key := "sign_up_sent"
		if !activatesByEmail(a.u) {
			key = "sign_up_later"
		}
		s.formPage(w, r, a, "", http.StatusOK, page.Form{Key: key, Fill: []any{"brand", s.Pages.Name()}, Next: signInAt(a.id)})
	}
}
