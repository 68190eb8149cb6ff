package identity

import (
	"net/http"
	"strings"

	"github.com/gatehouse-id/gatehouse/internal/page"
)

// Paths returns the prefixes of the paths that ServeHTTP answers.
func (s *Service) Paths() []string {
	return []string{"/sign-in", "/sign-out", "/step-up", "/push/", "/account", "/invitation", "/forgot", "/reset", "/sign-up", "/activate", "/verify", page.LanguagePath, "/assets/", "/saml/", "/oidc/"}
}

// router takes the paths of the package.
type router interface {
	Handle(pattern string, handler http.Handler)
	HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request))
}

func (s *Service) routes() http.Handler {
	mux := http.NewServeMux()
	s.addRoutes(mux)
	return mux
}

// addRoutes: every path of the package.
func (s *Service) addRoutes(mux router) {
	s.identityRoutes(mux)
	s.accountRoutes(mux)
	s.enrolRoutes(mux)
	s.actiontokenRoutes(mux)
	s.stepupRoutes(mux)
	s.federationRoutes(mux)
	s.frontRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
	})
}

// identityRoutes: the sign-in page and the sign-out.
func (s *Service) identityRoutes(mux router) {
	mux.Handle("/sign-in", s.methods(s.showSignIn, s.handleSignIn))
	mux.Handle("/sign-in/account", s.methods(nil, s.handleChoose))
	mux.Handle(passkeySignInPath, s.methods(nil, s.handlePasskey))
	mux.Handle("/sign-out", s.methods(s.showSignOut, s.handleSignOut))
}

// accountRoutes: the pages of a person's own account.
func (s *Service) accountRoutes(mux router) {
	mux.Handle(completePath, s.methods(s.showComplete, s.handleComplete))
	mux.Handle("/account", s.methods(s.showAccount, nil))
	mux.Handle(profilePath, s.methods(s.showProfile, s.handleProfile))
	mux.Handle(contactPath, s.methods(nil, s.handleContact))
	mux.Handle(addressPath, s.methods(s.showAddress, s.handleAddress))
	mux.Handle(confirmPath, s.methods(s.showConfirm, s.handleConfirm))
	mux.Handle(activityPath, s.methods(s.showActivity, nil))
	mux.Handle(dataPath, s.methods(s.showData, nil))
	mux.Handle(downloadPath, s.methods(s.handleDownload, nil))
	mux.Handle(deletePath, s.methods(s.showDelete, s.handleDelete))
	mux.Handle(identitiesPath, s.methods(s.showIdentities, s.handleIdentities))
	mux.Handle(applicationsPath, s.methods(s.showApplications, s.handleApplications))
	mux.Handle(devicesPath, s.methods(s.showDevices, s.handleDevices))
	mux.Handle(anotherDevicePath, s.methods(s.showAnotherDevice, s.handleAnotherDevice))
	mux.Handle(passwordPath, s.methods(s.showPassword, s.handlePassword))
}

// enrolRoutes: how people come in, and back in.
func (s *Service) enrolRoutes(mux router) {
	mux.Handle(activatePath, s.methods(s.showActivate, s.handleActivate))
	mux.Handle(activatedPath, s.methods(s.showActivated, nil))
	mux.Handle(forgotPath, s.methods(s.showForgot, s.handleForgot))
	mux.Handle(forgotTextPath, s.methods(s.showForgotText, s.handleForgotText))
	mux.Handle(forgotCodePath, s.methods(s.showForgotCode, s.handleForgotCode))
	mux.Handle(forgotNamePath, s.methods(s.showForgotUsername, s.handleForgotUsername))
	mux.Handle(forgotNameSentPath, s.methods(s.showForgotUsernameSent, nil))
	mux.Handle(sentPath, s.methods(s.showForgotSent, nil))
	mux.Handle(resetPath, s.methods(s.showReset, s.handleReset))
	mux.Handle(signUpPath, s.methods(s.showSignUp, s.handleSignUp))
	mux.Handle(signUpCodePath, s.methods(s.showSignUpCode, s.handleSignUpCode))
	mux.Handle(signUpSentPath, s.methods(s.showSignUpSent, nil))
	mux.Handle(activationPath, s.methods(s.showActivation, s.handleActivation))
	mux.Handle(verifyPath, s.methods(s.showVerify, s.handleVerify))
	mux.Handle(verifiedPath, s.methods(s.showVerified, nil))
	mux.Handle(activateDonePath, s.methods(s.showActivationDone, nil))
	mux.Handle(resetDonePath, s.methods(s.showResetDone, nil))
	mux.Handle(registerPath, s.methods(s.showRegister, s.handleRegister))
	mux.Handle(registerCodePath, s.methods(s.showRegisterCode, s.handleRegisterCode))
	mux.Handle(invitationPath, s.methods(s.showInvitation, s.handleInvitation))
	mux.Handle(invitationCheckPath, s.methods(s.showInvitationCheck, s.handleInvitationCheck))
}

// actiontokenRoutes: sign-ins by an action token.
func (s *Service) actiontokenRoutes(mux router) {
	mux.Handle("/sign-in/token", s.methods(s.showTicket, s.handleTicket))
}

// stepupRoutes: step-ups, and the pages that set up their methods.
func (s *Service) stepupRoutes(mux router) {
	mux.Handle("/step-up", s.methods(s.showStepUp, s.handleStepUp))
	mux.Handle(securityPath, s.methods(s.showSecurity, nil))
	mux.Handle(passkeyStepUpPath, s.methods(s.showPasskeyStepUp, s.handlePasskeyStepUp))
	mux.Handle(passkeyMethod.setUp, s.methods(s.showAddPasskey, s.handleAddPasskey))
	mux.Handle(passkeyNamePath, s.methods(s.showNamePasskey, s.handleNamePasskey))
	mux.Handle(passkeyRemovePath, s.methods(s.showRemovePasskey, s.handleRemovePasskey))
	mux.Handle(totpMethod.setUp, s.methods(s.showAuthenticator, s.handleAuthenticator))
	mux.Handle(recoveryPath, s.methods(s.showRecovery, s.handleRecovery))
	mux.Handle(pinMethod.setUp, s.methods(s.showPIN, s.handlePIN))
	mux.Handle(pinForgotPath, s.methods(s.showPINForgot, s.handlePINForgot))
	mux.Handle(pinResetPath, s.methods(s.showPINReset, s.handlePINReset))
	mux.Handle(preferredPath, s.methods(s.showPreferred, s.handlePreferred))
	mux.Handle(pushMethod.setUp, s.methods(s.showPush, s.handlePush))
	mux.Handle(pushStepUpPath, s.methods(s.showPushStepUp, s.handlePushStepUp))
	mux.Handle(pushEnrolPath, s.methods(s.showEnrol, s.handleEnrol))
	mux.Handle(pushApprovePath, s.methods(s.showApprove, s.handleApprove))
	mux.Handle(smsMethod.setUp, s.methods(s.showSMS, s.handleSMS))
	mux.Handle(removePath, s.methods(s.showRemove, s.handleRemove))
}

// federationRoutes: sign-ins by identity providers.
func (s *Service) federationRoutes(mux router) {
	mux.Handle("/sign-in/provider", s.methods(s.showProvider, nil))
	mux.Handle("/sign-in/provider/done", s.methods(s.showProviderDone, nil))
	mux.Handle("/sign-in/connect", s.methods(s.showConnect, s.handleConnect))
	mux.HandleFunc("/saml/{id}/{op}", s.handleProvider("saml"))
	mux.HandleFunc("/oidc/{id}/{op}", s.handleProvider("oidc"))
	mux.Handle("/sign-out/provider", s.methods(s.showEnding, nil))
}

// frontRoutes: what all pages share.
func (s *Service) frontRoutes(mux router) {
	mux.Handle(signInWaitPath, s.methods(s.showSignInWait, nil))
	mux.Handle(page.LanguagePath, s.methods(s.Pages.ShowLanguage, nil))
	mux.Handle("/assets/", s.Pages.Assets())
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
			s.Pages.Error(w, r, http.StatusMethodNotAllowed, "error.method", "")
		}
	})
}
