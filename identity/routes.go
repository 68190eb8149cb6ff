package identity

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/internal/page"
)

// Paths returns the prefixes of the paths that ServeHTTP answers.
func (s *Service) Paths() []string {
	return []string{"/sign-in", "/sign-out", "/step-up", "/push/", "/account", "/invitation", "/forgot", "/reset", "/sign-up", "/activate", "/verify", page.LanguagePath, "/assets/", "/saml/", "/oidc/"}
}

func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	s.addRoutes(mux)
	return mux
}

// addRoutes: every path of the package.
func (s *Service) addRoutes(mux front.Router) {
	s.identityRoutes(mux)
	s.Account.Routes(mux)
	s.Enrol.Routes(mux)
	s.ActionToken.Routes(mux)
	s.StepUp.Routes(mux)
	s.Federation.Routes(mux)
	s.Front.Routes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
	})
}

// identityRoutes: the sign-in page and the sign-out.
func (s *Service) identityRoutes(mux front.Router) {
	mux.Handle("/sign-in", s.Front.Methods(s.showSignIn, s.handleSignIn))
	mux.Handle("/sign-in/account", s.Front.Methods(nil, s.handleChoose))
	mux.Handle(passkeySignInPath, s.Front.Methods(nil, s.handlePasskey))
	mux.Handle("/sign-out", s.Front.Methods(s.showSignOut, s.handleSignOut))
}
