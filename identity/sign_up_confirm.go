package identity

import (
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

// code is what the code for the address is good for.
func (p *pendingSignUp) code() codeFor {
	address := foldEmail(p.typed.Email)
	return codeFor{Purpose: "sign-up e-mail", Subject: p.hash, Bound: p.bound, To: address, Limit: "sign-up:" + secret.Hash(address)}
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
	wait, err := s.sendSignUp(r, p)
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

// storeSignUp keeps what was typed, sealed, for the browser that has the token.
func (s *Service) storeSignUp(w http.ResponseWriter, r *http.Request, t *typedSignUp) (p *pendingSignUp, token string, err error) {
	browser, err := s.jar.Browser(w, r, s.newID)
	if err != nil {
		return nil, "", err
	}
	if token, err = s.newID(); err != nil {
		return nil, "", err
	}
	raw, err := cbor.Marshal(t)
	if err != nil {
		return nil, "", err
	}
	sealed, err := s.Keyring.Seal(signUpPurpose, raw)
	if err != nil {
		return nil, "", err
	}
	p = &pendingSignUp{typed: *t, hash: secret.Hash(token), bound: secret.Hash(browser)}
	rec := signUpRecord{Browser: p.bound, Sealed: sealed, ExpiresAt: s.Now().Add(signUpLife)}
	return p, token, s.Store.Update(r.Context(), func(tx storage.Tx) error {
		return signUps.Create(tx, p.hash, rec, rec.ExpiresAt.Add(collectAfter))
	})
}

// sendSignUp sends a code to the address that somebody wants to sign up with; its owner, if it has one, is told that instead. wait is how long
// nothing is sent to it.
func (s *Service) sendSignUp(r *http.Request, p *pendingSignUp) (wait time.Duration, err error) {
	code, err := newSentCode(s.Random)
	if err != nil {
		return 0, err
	}
	now := s.Now()
	err = s.Store.Update(r.Context(), func(tx storage.Tx) error {
		taken, err := s.takenBy(tx, p.typed.Email)
		if err != nil {
			return err
		}
		wait, err = s.sendCode(tx, p.code(), code, now, func(tx storage.Tx, code string) error {
			if taken != nil {
				return s.tellTaken(tx, *taken, &p.typed, now)
			}
			return s.Notify.Send(tx, notify.Notice{
				Kind: notify.SignUpCode, To: p.typed.Email, Name: p.typed.GivenName, Locales: []string{p.typed.Locale}, At: now, Data: map[string]string{"code": code},
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
	if a, ok = s.beside(w, r, signUpPath, func(u *config.Units) bool { return s.canSignUp(u) && confirmsSignUp(u) }); !ok {
		return a, nil, false
	}
	p, err := s.pending(r)
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
	in.Key, in.Fill, in.Action = "sign_up_code", []any{"to", p.typed.Email}, withSignIn(signUpCodePath, a.id)
	in.Fields = page.Fields(in.Problem != "", page.Field{Name: "code", Type: "code", Label: "step_up.email.label", Required: true, MaxLength: maxCode, Invalid: in.Problem != ""})
	in.Other = &page.OtherButton{Name: "send", Label: "step_up.send_again"}
	in.Links = []page.FormLink{{Label: "sign_up_code.change", URL: withSignIn(signUpPath, a.id)}}
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
		wait, err := s.sendSignUp(r, p)
		in := page.Form{}
		switch {
		case err != nil:
			s.fail(w, r, err, again)
		case wait > 0:
			waits(w, &in, "problem.sent", wait)
			s.signUpCodePage(w, r, a, p, http.StatusTooManyRequests, in)
		default:
			s.redirect(w, r, again)
		}
		return
	}
	code := r.PostForm.Get("code")
	if code == "" {
		s.signUpCodePage(w, r, a, p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code_missing"})
		return
	}
	spend, err := s.checkCode(r.Context(), p.code(), code)
	switch {
	case errors.Is(err, errMismatch):
		s.signUpCodePage(w, r, a, p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case err != nil:
		s.fail(w, r, err, again)
	default:
		p.typed.Verified = true
		s.finishSignUp(w, r, a, p, spend)
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
