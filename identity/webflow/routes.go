package webflow

import (
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Router takes the paths of a room.
type Router interface {
	Handle(pattern string, handler http.Handler)
	HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request))
}

// Routes adds the pages that belong to no room.
func (s *Service) Routes(mux Router) {
	mux.Handle(signInWaitPath, s.Pages(s.showSignInWait, nil))
	mux.Handle(EndSeeingPath, s.Pages(nil, s.handleEndSeeing))
	mux.Handle(web.LanguagePath, s.methods(s.deps.Pages.ShowLanguage, nil))
	mux.Handle("/assets/", s.deps.Pages.Assets())
	mux.Handle(web.FaviconPath, s.methods(s.deps.Pages.ShowFavicon, nil))
}

// methods serves GET and HEAD by show, POST by handle, and answers 405 for others. Either may be nil.
func (s *Service) methods(show, handle http.HandlerFunc) http.Handler {
	var allow []string
	if show != nil {
		allow = append(allow, http.MethodGet, http.MethodHead)
	}
	if handle != nil {
		allow = append(allow, http.MethodPost)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case show != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			show(w, r)
		case handle != nil && r.Method == http.MethodPost:
			handle(w, r)
		default:
			w.Header().Set("Allow", strings.Join(allow, ", "))
			s.deps.Pages.Error(w, r, http.StatusMethodNotAllowed, "error.method", "")
		}
	})
}
