package identity

import (
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/federation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/qrlogin"
	"github.com/gatehouse-id/gatehouse/identity/serviceprovider"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// Paths returns the prefixes of the paths that ServeHTTP answers.
func (s *Service) Paths() []string {
	return append(serviceprovider.Paths(),
		signInPath, signOutPath, "/step-up", "/push/", qrlogin.PhonePath, "/account", "/invitation", "/forgot", "/reset",
		relatedOriginsPath, "/sign-up", "/activate", "/verify", dbsc.RegisterPath, dbsc.RefreshPath,
		web.LanguagePath, web.FaviconPath, "/assets/", "/saml/", "/oidc/", "/kerberos/", federation.DomainPath,
	)
}

// ServeElse answers a path that no part of the server has: the start page leads to the account, others are not found.
func (s *Service) ServeElse(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		web.Redirect(w, person.DefaultReturn)
		return
	}
	s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
}

func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	s.Routes(mux)
	return mux
}

// Routes adds every path that ServeHTTP answers, those of the packages above first.
func (s *Service) Routes(mux webflow.Router) {
	s.identityRoutes(mux)
	s.Account.Routes(mux)
	s.SignUp.Routes(mux)
	s.Invitation.Routes(mux)
	s.Activation.Routes(mux)
	s.Recovery.Routes(mux)
	s.ActionToken.Routes(mux)
	s.QRLogin.Routes(mux)
	s.StepUp.Routes(mux)
	s.Trusted.Routes(mux)
	s.ServiceProviders.Routes(mux)
	s.Federation.Routes(mux)
	s.Front.Routes(mux)
	mux.HandleFunc("/", s.ServeElse)
}

// identityRoutes adds the sign-in page and the sign-out.
func (s *Service) identityRoutes(mux webflow.Router) {
	mux.Handle(signInPath, s.Front.Pages(s.showSignIn, s.handleSignIn))
	mux.Handle(choicePath, s.Front.Pages(nil, s.handleChoose))
	mux.Handle(passkeySignInPath, s.Front.Pages(nil, s.handlePasskey))
	mux.HandleFunc(relatedOriginsPath, s.serveRelatedOrigins)
	mux.HandleFunc(dbsc.RegisterPath, s.Session.ServeDevice)
	mux.HandleFunc(dbsc.RefreshPath, s.Session.ServeDevice)
	mux.Handle(signOutPath, s.Front.Pages(s.showSignOut, s.handleSignOut))
}
