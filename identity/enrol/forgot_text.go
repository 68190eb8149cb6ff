package enrol

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	forgotTextPath = forgotPath + "/text"
	forgotCodePath = forgotTextPath + "/code"

	textedLinkLife = 15 * time.Minute // of the link that a right code opens
	textEvery      = time.Minute      // of one number: nobody's telephone is filled, whoever asks
)

// nobodysNumber stands in for the number of nobody. (ITU-T E.164 has no country 999)
const nobodysNumber = "+99900000000"

// canResetByText tells whether a person who has forgotten the password can get another by a code on the telephone.
func (s *Service) canResetByText(u *config.Units) bool {
	return u.Features.PasswordResetEnabled && u.PasswordLogin() && s.person.SendsTexts(u)
}

// resets tells whether there is any way to get another password.
func (s *Service) resets(u *config.Units) bool { return s.canReset(u) || s.canResetByText(u) }

// forgotAt is where whoever has forgotten the password begins, or "" where nobody can.
func (s *Service) forgotAt(u *config.Units) string {
	switch {
	case s.canReset(u):
		return forgotPath
	case s.canResetByText(u):
		return forgotTextPath
	}
	return ""
}

// showForgotText serves GET /forgot/text?flow=…: it asks whose password it is.
func (s *Service) showForgotText(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.front.Detour(w, r, forgotTextPath, s.canResetByText); ok {
		s.forgotTextPage(w, r, a, http.StatusOK, a.Flow.Username(), page.Form{})
	}
}

func (s *Service) forgotTextPage(w http.ResponseWriter, r *http.Request, a front.Detour, status int, typed string, in page.Form) {
	in.Key, in.Action = "forgot_text", front.WithSignIn(forgotTextPath, a.ID)
	in.Fields = page.Fields(in.Problem != "", page.Field{
		Name: "username", Label: "forgot.label", Value: typed, Autocomplete: "username", Required: true, Invalid: in.Problem == "problem.username",
	})
	if s.canReset(a.U) {
		in.Links = append(in.Links, page.FormLink{Label: "forgot_text.mail", URL: front.WithSignIn(forgotPath, a.ID)})
	}
	in.Links = append(append(in.Links, s.remindLink(a)...), backToSignIn(a.ID))
	s.front.FormPage(w, r, a, "forgot_text:"+a.ID, status, in)
}

// handleForgotText serves POST /forgot/text?flow=…. The answer is the same whoever exists.
func (s *Service) handleForgotText(w http.ResponseWriter, r *http.Request) {
	a, ok := s.front.Detour(w, r, forgotTextPath, s.canResetByText)
	if !ok || !s.front.CheckPost(w, r, "forgot_text:"+a.ID, front.WithSignIn(forgotTextPath, a.ID)) {
		return
	}
	typed := strings.TrimSpace(r.PostForm.Get("username"))
	if typed == "" {
		s.forgotTextPage(w, r, a, http.StatusUnprocessableEntity, "", page.Form{Problem: "problem.username"})
		return
	}
	s.answerAlike(w, r, a, reminder{
		path: forgotTextPath, next: forgotCodePath, typed: shownAgain(typed, person.MaxUsername), page: s.forgotTextPage,
		ask: func() (time.Duration, error) {
			return s.askResetByText(r.Context(), typed, proof.Hashed(s.federation.BrowserID(r)), proof.Hashed(s.session.DeviceToken(r)), s.origin(r))
		},
	})
}

// askResetByText sends a code to the number of whoever what was typed means. For nobody, and for who has no number, it does the same work: a code that
// is good for nothing, and a message that is not sent. wait is how long nothing is taken; it says nothing about who there is.
func (s *Service) askResetByText(ctx context.Context, typed, browser, device string, from event.Origin) (wait time.Duration, err error) {
	code, err := proof.NewSentCode(s.random)
	if err != nil {
		return 0, err
	}
	ev, err := s.person.NewEvents(from, passwordResetAsked)
	if err != nil {
		return 0, err
	}
	folded, err := person.Fold(typed)
	if err != nil {
		folded = person.FoldEmail(typed)
	}
	now := s.now()
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		if wait, err = s.proof.CountRequest(tx, "reset-address", proof.Network(from.ClientIP), resetsPerAddress, now); err != nil || wait > 0 {
			return err
		}
		rec := textResetRecord{Typed: secret.Hash(folded), To: nobodysNumber, ExpiresAt: now.Add(person.SentCodeLife)}
		t, err := s.textable(tx, typed)
		if err != nil {
			return err
		}
		kind, texted := notify.Nothing, rec.To
		if t.ID != "" {
			kind, rec.PersonID, rec.To = notify.SMSResetCode, t.ID, person.TextNumber(t.Profile)
			known, err := s.proof.Knows(tx, person.Holder{ID: t.ID, Person: *t.Rec}, device)
			if err != nil {
				return err
			}
			if texted = rec.To; known { // strangers, however often they ask, keep no code from where the person has signed in before
				rec.Typed, texted = secret.Hash(storage.Key(folded, device)), storage.Key(texted, device)
			}
		}
		wait, err = s.proof.SendCode(tx, rec.code(browser), code, now, func(tx storage.Tx, code string) error {
			again, err := proof.OnceEvery(tx, "text-code", secret.Hash(texted), textEvery, now)
			if err != nil {
				return err
			}
			if !again {
				kind, rec.PersonID = notify.Nothing, "" // a code that nobody was sent is good for nothing
			}
			return s.person.TextCode(tx, t, kind, rec.To, code, now)
		})
		if err != nil || wait > 0 {
			return err
		}
		if err := textResets.Put(tx, browser, rec, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
			return err
		}
		e := ev[0]
		e.PersonID, e.Reason = t.ID, "by text message"
		if t.Rec != nil {
			e.Partition = t.Rec.PartitionName()
		}
		return s.events.Append(tx, e)
	})
	return wait, err
}

// textable returns the one person whom what was typed means and who can get another password by a code on the telephone. There is none: one without an id.
func (s *Service) textable(tx storage.Tx, typed string) (found person.Recipient, err error) {
	found.Profile = new(person.Profile)
	list, err := s.accountsOf(tx, typed)
	if err != nil {
		return found, err
	}
	n := 0
	for _, t := range list {
		ok, err := s.resetsByText(tx, t)
		if err != nil {
			return found, err
		}
		if ok {
			found = t
			n++
		}
	}
	if n > 1 { // an address of several: which one is meant is not known
		return person.Recipient{Profile: new(person.Profile)}, nil
	}
	return found, nil
}

// resetsByText tells whether a person can get another password by a code on the telephone.
func (s *Service) resetsByText(tx storage.Tx, t person.Recipient) (bool, error) {
	if person.TextNumber(t.Profile) == "" || (t.Rec.State != person.Active && t.Rec.State != person.Inactive) {
		return false, nil
	}
	has, err := person.Passwords.Has(tx, t.ID)
	if err != nil || has {
		return has, err
	}
	names, err := s.providersOf(tx, t.ID, t.Rec)
	return len(names) == 0, err
}

// code is what the code is good for that was sent for it. What makes people wait is what was typed alone: waits that came from the number would tell
// whose it is, and that there is none.
func (r *textResetRecord) code(browser string) proof.CodePurpose {
	return proof.CodePurpose{Purpose: "reset", Subject: browser, Bound: r.PersonID + ":" + r.Typed, To: r.Typed, Limit: "reset:" + r.Typed}
}

// readTextReset returns what this browser has asked for, or person.ErrMismatch.
func readTextReset(tx storage.Tx, browser string, now time.Time) (textResetRecord, error) {
	rec, err := textResets.Get(tx, browser)
	if errors.Is(err, storage.ErrNotFound) || err == nil && !rec.ExpiresAt.After(now) {
		err = person.ErrMismatch
	}
	return rec, err
}

// askedByText reads it for a page. Otherwise it has written the answer and is not ok.
func (s *Service) askedByText(w http.ResponseWriter, r *http.Request) (a front.Detour, rec textResetRecord, browser string, ok bool) {
	if a, ok = s.front.Detour(w, r, forgotTextPath, s.canResetByText); !ok {
		return a, rec, "", false
	}
	browser = proof.Hashed(s.federation.BrowserID(r))
	now := s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		rec, err = readTextReset(tx, browser, now)
		return err
	})
	switch {
	case errors.Is(err, person.ErrMismatch):
		s.front.Redirect(w, r, front.WithSignIn(forgotTextPath, a.ID))
	case err != nil:
		s.front.Fail(w, r, err, front.WithSignIn(forgotTextPath, a.ID))
	default:
		return a, rec, browser, true
	}
	return a, rec, "", false
}

// showForgotCode serves GET /forgot/text/code?flow=…: for somebody and nobody alike.
func (s *Service) showForgotCode(w http.ResponseWriter, r *http.Request) {
	if a, _, _, ok := s.askedByText(w, r); ok {
		s.forgotCodePage(w, r, a, http.StatusOK, "")
	}
}

func (s *Service) forgotCodePage(w http.ResponseWriter, r *http.Request, a front.Detour, status int, problem string) {
	s.front.FormPage(w, r, a, "forgot_code:"+a.ID, status, page.Form{
		Key: "forgot_code", Action: front.WithSignIn(forgotCodePath, a.ID), Problem: problem,
		Fields: page.Fields(problem != "", page.Field{Name: "code", Type: "code", Label: "forgot_code.label", Required: true, Invalid: problem != "", MaxLength: proof.MaxCode}),
		Links:  []page.FormLink{{Label: "forgot_code.again", URL: front.WithSignIn(forgotTextPath, a.ID)}, backToSignIn(a.ID)},
	})
}

// handleForgotCode serves POST /forgot/text/code?flow=…: the right code leads to the page for a new password, as a link from an e-mail does.
func (s *Service) handleForgotCode(w http.ResponseWriter, r *http.Request) {
	a, rec, browser, ok := s.askedByText(w, r)
	if !ok || !s.front.CheckPost(w, r, "forgot_code:"+a.ID, front.WithSignIn(forgotCodePath, a.ID)) {
		return
	}
	typed := r.PostForm.Get("code")
	if typed == "" {
		s.forgotCodePage(w, r, a, http.StatusUnprocessableEntity, "problem.code_missing")
		return
	}
	spend, err := s.proof.CheckCode(r.Context(), rec.code(browser), typed)
	if err == nil {
		err = s.openReset(w, r, rec, browser, a.ID, spend)
	}
	switch {
	case err == nil:
		s.front.Redirect(w, r, ResetPath)
	case errors.Is(err, person.ErrMismatch):
		s.forgotCodePage(w, r, a, http.StatusUnprocessableEntity, "problem.code")
	default:
		s.front.Fail(w, r, err, front.WithSignIn(forgotCodePath, a.ID))
	}
}

// openReset uses the code up and opens a link for a new password in this browser. person.ErrMismatch: the code is nobody's, or the number is not the person's any
// more.
func (s *Service) openReset(w http.ResponseWriter, r *http.Request, rec textResetRecord, browser, flow string, spend func(storage.Tx) (bool, error)) error {
	if rec.PersonID == "" {
		return person.ErrMismatch
	}
	now := s.now()
	var path string
	err := s.store.Update(r.Context(), func(tx storage.Tx) error {
		if ok, err := spend(tx); err != nil || !ok {
			return errors.Join(err, person.ErrMismatch)
		}
		p, err := person.Records.Get(tx, rec.PersonID)
		if errors.Is(err, storage.ErrNotFound) {
			return person.ErrMismatch
		}
		if err != nil {
			return err
		}
		t, err := s.proof.LinkReached(tx, rec.PersonID, &p)
		if err != nil {
			return err
		}
		if ok, err := s.resetsByText(tx, t); err != nil || !ok || person.TextNumber(t.Profile) != rec.To {
			return errors.Join(err, person.ErrMismatch)
		}
		if err := textResets.Delete(tx, browser); err != nil {
			return err
		}
		path, err = s.proof.NewLink(tx, LinkReset, rec.PersonID, map[string]string{front.LinkFlow: flow, proof.LinkNumber: rec.To}, textedLinkLife, now)
		return err
	})
	if err != nil {
		return err
	}
	u, err := url.Parse(path)
	if err == nil {
		s.jar.Set(w, proof.LinkCookieOf(LinkReset), u.Query().Get(proof.LinkParam), proof.LinkCookie)
	}
	return err
}
