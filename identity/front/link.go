package front

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/proof"
	"github.com/gatehouse-id/gatehouse/internal/cookie"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// OpenLink returns the link that a request for its page is about. Coming from the mail it is put into a cookie and the browser sent on
// without it, so that neither history nor Referer keeps it; looking at it uses nothing up. Otherwise it has written the answer, which
// leads to again where the link is no good, and is not ok.
func (s *Service) OpenLink(w http.ResponseWriter, r *http.Request, kind proof.LinkKind, again string) (*proof.OpenLink, bool) {
	if token := r.URL.Query().Get(proof.LinkParam); token != "" && r.Method != http.MethodPost {
		if !secret.IsToken(secret.MailLink, token) {
			s.FailLink(w, r, kind, again, proof.ErrNoLink)
			return nil, false
		}
		s.jar.Set(w, proof.LinkCookieOf(kind), token, proof.LinkCookie)
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Location", s.proof.LinkPath(kind))
		w.WriteHeader(http.StatusSeeOther)
		return nil, false
	}
	o, now := &proof.OpenLink{Kind: kind, Token: s.jar.Get(r, proof.LinkCookieOf(kind))}, s.now()
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		o.Rec, err = s.proof.ReadLink(tx, kind, o.Token, now)
		return err
	})
	if err != nil {
		s.FailLink(w, r, kind, again, err)
		return nil, false
	}
	return o, true
}

// CheckLinkForm tells whether a POST is of the page of that link. Otherwise it has written the answer.
func (s *Service) CheckLinkForm(w http.ResponseWriter, r *http.Request, o *proof.OpenLink) bool {
	err := s.pages.CheckPost(r, s.jar.Get(r, cookie.KindBrowser), o.Form())
	if err != nil {
		s.log.Info("form refused", zap.String("path", r.URL.Path), zap.Error(err))
		s.pages.Refuse(w, r, err, s.proof.LinkPath(o.Kind))
	}
	return err == nil
}

// FailLink writes the page for a link that is good for nothing any more. again is a path of ours where one gets a new one, or "".
func (s *Service) FailLink(w http.ResponseWriter, r *http.Request, kind proof.LinkKind, again string, err error) {
	if errors.Is(err, proof.ErrNoLink) {
		s.jar.Clear(w, proof.LinkCookieOf(kind))
		s.pages.Error(w, r, http.StatusBadRequest, "error.link", again)
		return
	}
	s.Fail(w, r, err, s.proof.LinkPath(kind))
}
