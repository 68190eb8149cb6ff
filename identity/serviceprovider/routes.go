package serviceprovider

import "github.com/gatehouse-id/gatehouse/identity/webflow"

// Paths of the identity provider.
const (
	metadataPath = "/sso/metadata"
	signOnPath   = "/sso/saml"
	continuePath = "/sso/continue"
	startPath    = "/sso/start/"
	logoutPath   = "/sso/logout"
	soapPath     = "/sso/logout/soap"
	leavePath    = "/sso/leave"
)

// Paths returns the prefixes of the paths of the identity provider.
func Paths() []string { return []string{"/sso/"} }

// Routes adds the endpoints for service providers.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(metadataPath, s.front.Pages(s.showMetadata, nil))
	mux.HandleFunc(signOnPath, s.front.Page(s.handleSignOn))
	mux.Handle(continuePath, s.front.Pages(s.showContinue, s.handleConsent))
	mux.Handle(startPath+"{id}", s.front.Pages(s.showStart, nil))
	mux.HandleFunc(logoutPath, s.front.Page(s.handleLogout))
	mux.Handle(soapPath, s.front.Pages(nil, s.handleSOAP))
	mux.Handle(leavePath, s.front.Pages(s.showLeave, nil))
}
