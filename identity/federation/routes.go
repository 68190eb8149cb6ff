package federation

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages of sign-ins by identity providers, and the endpoints of the providers themselves.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle("/sign-in/provider", s.deps.Front.Pages(s.showProvider, s.handlePassword))
	mux.Handle("/sign-in/provider/done", s.deps.Front.Pages(s.showDone, nil))
	mux.Handle("/sign-in/connect", s.deps.Front.Pages(s.showConnect, s.handleConnect))
	mux.HandleFunc("/saml/{id}/{op}", s.deps.Front.Page(s.handleProvider("saml")))
	mux.HandleFunc("/oidc/{id}/{op}", s.deps.Front.Page(s.handleProvider("oidc")))
	mux.HandleFunc("/kerberos/{id}/{op}", s.deps.Front.Page(s.handleProvider("kerberos")))
	mux.Handle(DomainPath, s.deps.Front.Pages(s.showDomain, nil))
	mux.Handle("/sign-out/provider", s.deps.Front.Pages(s.showEnding, nil))
}
