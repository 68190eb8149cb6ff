package recovery

import (
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	forgotCodePath = forgotTextPath + "/code"

	textedLinkLife = 15 * time.Minute // of the link that a right code opens
)

// textReset is a request of the page for the code of a text message.
type textReset struct {
	webflow.Detour

	rec     textResetRecord
	browser string // hash of its cookie
}

// readTextReset reads what this browser has asked for.
func (s *Service) readTextReset(q *webflow.Request) (x textReset, err error) {
	if x.Detour, err = s.deps.Front.DetourOf(q, forgotTextPath, s.offersTextReset); err != nil {
		return x, err
	}
	x.browser = challenge.Hashed(s.deps.Federation.BrowserID(q.Request))
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		x.rec, err = textResets.Get(tx, x.browser)
		return err
	})
	if errors.Is(err, storage.ErrNotFound) || err == nil && !x.rec.ExpiresAt.After(s.deps.Now()) {
		return x, q.RedirectAway(q.Again)
	}
	if err == nil {
		q.Again = webflow.WithSignIn(forgotCodePath, x.ID)
	}
	return x, err
}

func (x *textReset) form() string { return "forgot_code:" + x.ID }

// showForgotCode serves GET /forgot/text/code?flow=…. The page is the same whether the person exists or not.
func (s *Service) showForgotCode(q *webflow.Request) error {
	x, err := s.readTextReset(q)
	if err != nil {
		return err
	}
	return s.renderForgotCode(q, x, http.StatusOK, "")
}

func (s *Service) renderForgotCode(q *webflow.Request, x textReset, status int, problem string) error {
	return s.deps.Front.RenderForm(q, x.Detour, x.form(), status, web.Form{
		Key: "forgot_code", Action: webflow.WithSignIn(forgotCodePath, x.ID), Problem: problem,
		Fields: webflow.CodeFields("forgot_code.label", problem),
		Links: []web.FormLink{
			{Label: "forgot_code.again", URL: webflow.WithSignIn(forgotTextPath, x.ID)},
			webflow.SignInLink(x.ID),
		},
	})
}

// handleForgotCode serves POST /forgot/text/code?flow=…: the right code opens the page for a new password, as a link
// from an e-mail does.
func (s *Service) handleForgotCode(q *webflow.Request) error {
	x, err := s.readTextReset(q)
	if err == nil {
		err = s.deps.Front.CheckForm(q, x.form(), q.Again)
	}
	if err != nil {
		return err
	}
	typed := q.PostForm.Get("code")
	if typed == "" {
		return s.renderForgotCode(q, x, http.StatusUnprocessableEntity, "problem.code_missing")
	}
	spend, err := s.deps.Proof.CheckCode(q.Context(), x.rec.codePurpose(x.browser), typed)
	if err == nil {
		err = s.startReset(q, x, spend)
	}
	switch {
	case err == nil:
		return q.Redirect(resetPath)
	case errors.Is(err, person.ErrMismatch):
		return s.renderForgotCode(q, x, http.StatusUnprocessableEntity, "problem.code")
	}
	return err
}

// startReset uses up the code and opens a link for a new password in this browser. person.ErrMismatch: the code was not
// sent, or the number no longer belongs to the person.
func (s *Service) startReset(q *webflow.Request, x textReset, spend func(storage.Tx) (bool, error)) error {
	if x.rec.PersonID == "" {
		return person.ErrMismatch
	}
	id, now := x.rec.PersonID, s.deps.Now()
	var path string
	err := s.deps.Store.Update(q.Context(), func(tx storage.Tx) error {
		if ok, err := spend(tx); err != nil || !ok {
			return errors.Join(err, person.ErrMismatch)
		}
		p, err := person.Records.Get(tx, id)
		if errors.Is(err, storage.ErrNotFound) {
			return person.ErrMismatch
		}
		if err != nil {
			return err
		}
		t, err := s.deps.Proof.LinkReached(tx, id, &p)
		if err != nil {
			return err
		}
		if ok, err := s.canTextReset(tx, t); err != nil || !ok || person.TextNumber(t.Profile) != x.rec.To {
			return errors.Join(err, person.ErrMismatch)
		}
		if err := textResets.Delete(tx, x.browser); err != nil {
			return err
		}
		data := map[string]string{webflow.LinkFlow: x.ID, challenge.LinkNumber: x.rec.To}
		path, err = s.deps.Proof.NewLink(tx, linkReset, id, data, textedLinkLife, now)
		return err
	})
	if err != nil {
		return err
	}
	u, err := url.Parse(path)
	if err == nil {
		s.deps.Jar.Set(q.W, challenge.LinkCookieOf(linkReset), u.Query().Get(challenge.LinkParam), challenge.LinkCookie)
	}
	return err
}
