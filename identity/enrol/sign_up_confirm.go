package enrol

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
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
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = signUps.Get(tx, p.hash)
		return err
	})
	if err != nil {
		return nil, err
	}
	if !rec.ExpiresAt.After(s.now()) || !s.jar.SameBrowser(r, rec.Browser) {
		return nil, storage.ErrNotFound
	}
	p.bound = rec.Browser
	raw, err := s.keyring.Open(signUpPurpose, rec.Sealed)
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
	case s.front.VerifiesEmail(u) && !t.Verified:
		return confirmEmail
	case t.Phone != "" && s.person.VerifiesPhone(u) && !t.PhoneProven:
		return confirmPhone
	}
	return ""
}

// code is what the code for the address or the number is good for.
func (p *pendingSignUp) code(what string) proof.CodePurpose {
	to := person.FoldEmail(p.typed.Email)
	if what == confirmPhone {
		to = p.typed.Phone
	}
	return proof.CodePurpose{Purpose: "sign-up " + what, Subject: p.hash, Bound: p.bound, To: to, Limit: "sign-up:" + secret.Hash(to)}
}

// form binds the form to what waits.
func (p *pendingSignUp) form() string { return "sign_up_code:" + p.hash }

// awaitCode stores what was typed, and sends a code to the address. An address that somebody has already waits just the same, for a code that
// nobody gets.
func (s *Service) awaitCode(w http.ResponseWriter, r *http.Request, a front.Detour, t *typedSignUp) {
	again := front.WithSignIn(signUpPath, a.ID)
	p, token, err := s.storeSignUp(w, r, t)
	if err != nil {
		s.front.Fail(w, r, err, again)
		return
	}
	wait, err := s.sendSignUp(r, a.U, p)
	switch {
	case err != nil:
		s.front.Fail(w, r, err, again)
	case wait > 0:
		in := page.Form{}
		front.Waits(w, &in, "problem.sent", wait)
		s.signUpPage(w, r, a, http.StatusTooManyRequests, t, in)
	default:
		s.jar.Set(w, kindSignUp, token, signUpLife)
		s.front.Redirect(w, r, front.WithSignIn(signUpCodePath, a.ID))
	}
}

// storeSignUp keeps what was typed for the browser that has the token.
func (s *Service) storeSignUp(w http.ResponseWriter, r *http.Request, t *typedSignUp) (p *pendingSignUp, token string, err error) {
	browser, err := s.jar.Browser(w, r, s.front.NewID)
	if err != nil {
		return nil, "", err
	}
	if token, err = s.front.NewID(); err != nil {
		return nil, "", err
	}
	p = &pendingSignUp{typed: *t, hash: secret.Hash(token), bound: secret.Hash(browser)}
	rec, err := s.sealSignUp(p)
	if err != nil {
		return nil, "", err
	}
	return p, token, s.store.Update(r.Context(), func(tx storage.Tx) error {
		return signUps.Create(tx, p.hash, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// sealSignUp is what is stored of what was typed, for an hour from now.
func (s *Service) sealSignUp(p *pendingSignUp) (signUpRecord, error) {
	raw, err := cbor.Marshal(p.typed)
	if err != nil {
		return signUpRecord{}, err
	}
	sealed, err := s.keyring.Seal(signUpPurpose, raw)
	return signUpRecord{Browser: p.bound, Sealed: sealed, ExpiresAt: s.now().Add(signUpLife)}, err
}

// sendSignUp sends a code to the address that somebody wants to sign up with; its owner, if it has one, is told that instead. Or it sends one to the
// number. wait is how long nothing is sent there.
func (s *Service) sendSignUp(r *http.Request, u *config.Units, p *pendingSignUp) (wait time.Duration, err error) {
	code, err := proof.NewSentCode(s.random)
	if err != nil {
		return 0, err
	}
	now, what := s.now(), s.toConfirm(u, &p.typed)
	err = s.store.Update(r.Context(), func(tx storage.Tx) error {
		var taken *person.Recipient
		if what == confirmEmail {
			if taken, err = s.takenBy(tx, p.typed.Email); err != nil {
				return err
			}
		}
		wait, err = s.proof.SendCode(tx, p.code(what), code, now, func(tx storage.Tx, code string) error {
			if what == confirmPhone {
				return s.sms.Send(tx, notify.SMS{
					Kind: notify.SMSPhoneCode, To: p.typed.Phone, Locales: []string{p.typed.Locale}, At: now, Until: now.Add(person.SentCodeLife), Data: map[string]string{"code": code},
				})
			}
			if taken != nil {
				return s.tellTaken(tx, *taken, &p.typed, now)
			}
			// Without the name: whoever has typed it may have nothing to do with the address, and would write to anybody through us.
			return s.notify.Send(tx, notify.Notice{
				Kind: notify.SignUpCode, To: p.typed.Email, Locales: []string{p.typed.Locale}, At: now, Data: map[string]string{"code": code},
			})
		})
		return err
	})
	return wait, err
}

// tellTaken tells the owner of an address that somebody wanted to sign up with it, and how they get in.
func (s *Service) tellTaken(tx storage.Tx, t person.Recipient, typed *typedSignUp, now time.Time) error {
	n := t.Notice(notify.SignUpExisting, now)
	if n.To == "" || t.Rec.State == person.Blocked || t.Rec.State == person.Removed {
		n.Kind, n.To = notify.Nothing, typed.Email
	}
	n.Link = "/sign-in"
	return s.notify.Send(tx, n)
}

// tellOwner is tellTaken for a form that was sent without a code, a few times for each address.
func (s *Service) tellOwner(tx storage.Tx, typed *typedSignUp, now time.Time) error {
	taken, err := s.takenBy(tx, typed.Email)
	if err != nil || taken == nil {
		return err
	}
	if wait, err := s.proof.CountRequest(tx, "sign-up-told", secret.Hash(person.FoldEmail(typed.Email)), proof.SentCodesMost, now); err != nil || wait > 0 {
		return err
	}
	return s.tellTaken(tx, *taken, typed, now)
}

// confirmingSignUp reads what the handlers of the page for the code share. Otherwise it has written the answer and is not ok.
func (s *Service) confirmingSignUp(w http.ResponseWriter, r *http.Request) (a front.Detour, p *pendingSignUp, ok bool) {
	if a, ok = s.front.Detour(w, r, signUpPath, s.canSignUp); !ok {
		return a, nil, false
	}
	p, err := s.pending(r)
	if err == nil && s.toConfirm(a.U, &p.typed) == "" { // the configuration is another since
		err = storage.ErrNotFound
	}
	switch {
	case errors.Is(err, storage.ErrNotFound):
		s.front.Redirect(w, r, front.WithSignIn(signUpPath, a.ID))
	case err != nil:
		s.front.Fail(w, r, err, front.WithSignIn(signUpPath, a.ID))
	}
	return a, p, err == nil
}

// showSignUpCode serves GET /sign-up/confirm?flow=…: it asks for the code that was sent.
func (s *Service) showSignUpCode(w http.ResponseWriter, r *http.Request) {
	if a, p, ok := s.confirmingSignUp(w, r); ok {
		s.signUpCodePage(w, r, a, p, http.StatusOK, page.Form{})
	}
}

func (s *Service) signUpCodePage(w http.ResponseWriter, r *http.Request, a front.Detour, p *pendingSignUp, status int, in page.Form) {
	in.Key, in.Fill, in.Action = "sign_up_code", []any{"to", p.typed.Email}, cmp.Or(p.action, front.WithSignIn(signUpCodePath, a.ID))
	label := "step_up.email.label"
	if s.toConfirm(a.U, &p.typed) == confirmPhone {
		in.Key, in.Fill, label = "sign_up_phone", []any{"to", p.typed.Phone}, "step_up.sms.label"
	}
	in.Fields = page.Fields(in.Problem != "", page.Field{Name: "code", Type: "code", Label: label, Required: true, MaxLength: proof.MaxCode, Invalid: in.Problem != ""})
	in.Other = &page.OtherButton{Name: "send", Label: "step_up.send_again"}
	in.Links = []page.FormLink{{Label: "sign_up_code.change", URL: cmp.Or(p.change, front.WithSignIn(signUpPath, a.ID))}}
	s.signUpForm(w, r, a, p.form(), status, in)
}

// handleSignUpCode serves POST /sign-up/confirm?flow=…: the code makes the person, or another one is sent.
func (s *Service) handleSignUpCode(w http.ResponseWriter, r *http.Request) {
	a, p, ok := s.confirmingSignUp(w, r)
	again := front.WithSignIn(signUpCodePath, a.ID)
	if !ok || !s.front.CheckPost(w, r, p.form(), again) {
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
	what := s.toConfirm(a.U, &p.typed)
	spend, err := s.proof.CheckCode(r.Context(), p.code(what), code)
	if err == nil {
		before := p.typed
		p.typed.Verified, p.typed.PhoneProven = before.Verified || what == confirmEmail, before.PhoneProven || what == confirmPhone
		if s.toConfirm(a.U, &p.typed) == "" {
			s.finishSignUp(w, r, a, p, before, spend)
			return
		}
		if err = s.confirmed(r, p, spend); err != nil {
			p.typed = before
		}
	}
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.signUpCodePage(w, r, a, p, http.StatusUnprocessableEntity, page.Form{Problem: "problem.code"})
	case err != nil:
		s.front.Fail(w, r, err, again)
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
	return s.store.Update(r.Context(), func(tx storage.Tx) error {
		if ok, err := spend(tx); err != nil || !ok {
			return cmp.Or(err, person.ErrMismatch)
		}
		return signUps.Put(tx, p.hash, rec, rec.ExpiresAt.Add(session.CollectAfter))
	})
}

// sendAgain sends the next code.
func (s *Service) sendAgain(w http.ResponseWriter, r *http.Request, a front.Detour, p *pendingSignUp) {
	wait, err := s.sendSignUp(r, a.U, p)
	switch {
	case err != nil:
		s.front.Fail(w, r, err, front.WithSignIn(signUpCodePath, a.ID))
	case wait > 0:
		in := page.Form{}
		front.Waits(w, &in, "problem.sent", wait)
		s.signUpCodePage(w, r, a, p, http.StatusTooManyRequests, in)
	default:
		s.front.Redirect(w, r, front.WithSignIn(signUpCodePath, a.ID))
	}
}

// showSignUpSent serves GET /sign-up/sent?flow=…: how the account is activated now, for somebody and nobody alike.
func (s *Service) showSignUpSent(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, signUpPath, s.canSignUp); ok {
		key := "sign_up_sent"
		if !person.ActivatesByEmail(a.U) {
			key = "sign_up_later"
		}
		s.front.FormPage(w, r, a, "", http.StatusOK, page.Form{Key: key, Fill: []any{"brand", s.pages.Name()}, Next: signInAt(a.ID)})
	}
}
