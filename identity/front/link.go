package front

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/proof"
)

// OpenLink returns the link that a request for its page is about. Coming from the mail it is put into a cookie and the browser sent on
// without it, so that neither history nor Referer keeps it; looking at it uses nothing up. Otherwise it has written the answer, which
// leads to again where the link is no good, and is not ok.
func (s *Service) OpenLink(w http.ResponseWriter, r *http.Request, kind proof.LinkKind, again string) (*proof.OpenLink, bool) {
	q := &Request{Request: r, W: w}
	o, err := s.LinkIn(q, kind, again)
	s.Render(q, err)
	return o, err == nil
}

// CheckLinkForm tells whether a POST is of the page of that link. Otherwise it has written the answer.
func (s *Service) CheckLinkForm(w http.ResponseWriter, r *http.Request, o *proof.OpenLink) bool {
	q := &Request{Request: r, W: w}
	err := s.CheckLink(q, o)
	s.Render(q, err)
	return err == nil
}

// FailLink writes the page for a link that is good for nothing any more. again is a path of ours where one gets a new one, or "".
func (s *Service) FailLink(w http.ResponseWriter, r *http.Request, kind proof.LinkKind, again string, err error) {
	q := &Request{Request: r, W: w}
	s.Render(q, s.LinkError(q, kind, again, err))
}
