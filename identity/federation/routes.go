package federation

import (
	"github.com/gatehouse-id/gatehouse/identity/front"
)

// Routes: sign-ins by identity providers.
func (s *Service) Routes(mux front.Router) {
	mux.Handle("/sign-in/provider", s.front.Methods(s.showProvider, nil))
	mux.Handle("/sign-in/provider/done", s.front.Methods(s.showProviderDone, nil))
	mux.Handle("/sign-in/connect", s.front.Methods(s.showConnect, s.handleConnect))
	mux.HandleFunc("/saml/{id}/{op}", s.handleProvider("saml"))
	mux.HandleFunc("/oidc/{id}/{op}", s.handleProvider("oidc"))
	mux.Handle("/sign-out/provider", s.front.Methods(s.showEnding, nil))
}
