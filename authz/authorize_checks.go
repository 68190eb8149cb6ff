package authz

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/internal/denial"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxState     = 4096 // bytes of state
	maxNonce     = 4096 // bytes of nonce
	maxLoginHint = 256  // characters of login_hint
	maxMaxAge    = 1 << 31

	maxCustomKeys, maxCustomKey      = 20, 64  // of external_idp_custom_param, and characters of a key
	maxCustomValues, maxCustomLength = 20, 512 // of one key, and characters of a value

	maxParam = 512 // characters of a parameter requested by a provider

	externalIDPPrefix = "urn:com:service:saml:idp:"
	customParam       = "external_idp_custom_param."
)

// errClient is the same for an unknown and for a disabled client.
func errClient(cause error) error { return oauth.InvalidRequest(cause, "client_id is not usable") }

func (s *Server) checkClient(ctx context.Context, a *authorizeRequest) error {
	id := a.form.Get("client_id")
	if a.form.Repeated("client_id") {
		a.page = "error.client_repeated"
		return oauth.Repeated("client_id")
	}
	if id == "" {
		a.page = "error.client_missing"
		return errClient(nil)
	}
	c, err := s.clients.Get(ctx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return errClient(oauth.ErrNoClient)
	}
	if e := new(oauth.Error); errors.As(err, &e) && e.Status == http.StatusUnauthorized {
		return errClient(err) // by its metadata document
	}
	if err != nil {
		return err
	}
	if c.Disabled {
		return errClient(oauth.ErrClientDisabled)
	}
	a.client = c
	a.rec = requestRecord{ClientID: c.ID, CreatedAt: a.now, ExpiresAt: a.now.Add(requestLifetime), Document: printOf(c)}
	return nil
}

// readObject puts the parameters of a signed request in place of those that the browser brings. If the client has no
// keys, checkObjects refuses the request object, once errors go to the client.
func (s *Server) readObject(ctx context.Context, a *authorizeRequest) error {
	if _, sent := a.form.Values["request"]; !sent || !a.client.HasKeys() {
		return nil
	}
	f, err := s.objects.Read(ctx, a.client, a.form)
	if err != nil {
		return err
	}
	a.form, a.rec.Signed = f, true
	oauth.Learn(ctx, a.client.ID, f.Get("redirect_uri"), f.Get("scope"))
	return nil
}

func (s *Server) checkRedirectURI(ctx context.Context, a *authorizeRequest) error {
	a.page = "error.redirect_uri_missing"
	if a.form.Repeated("redirect_uri") {
		a.page = "error.redirect_uri_repeated"
		return oauth.Repeated("redirect_uri")
	}
	sent := a.form.Get("redirect_uri")
	if sent == "" {
		scope, err := client.ParseScope(a.form.Get("scope"))
		// RFC 6749 3.1.2.3: required if several are registered. OpenID Connect Core 3.1.2.1: always required.
		if len(a.client.RedirectURIs) != 1 || (err == nil && slices.Contains(scope, client.ScopeOpenID)) {
			return oauth.InvalidRequest(nil, "redirect_uri is missing")
		}
		a.rec.RedirectURI = a.client.RedirectURIs[0]
		return nil
	}
	a.page = "error.redirect_uri"
	denial.Learn(ctx, func(f *denial.Refusal) { f.Registered = a.client.RedirectURIs })
	// The sent URI must satisfy the rules for registered ones too, before it is written into a Location header.
	if err := a.client.ValidateRedirect(sent); err != nil {
		return oauth.InvalidRequest(errors.Join(oauth.ErrRedirectURI, err), "redirect_uri is not registered")
	}
	if !a.client.AllowsRedirect(sent) {
		return oauth.InvalidRequest(oauth.ErrRedirectURI, "redirect_uri is not registered")
	}
	a.rec.RedirectURI, a.rec.RedirectSent = sent, true
	return nil
}

func (s *Server) checkState(_ context.Context, a *authorizeRequest) error {
	state := a.form.Get("state") // "" when repeated: no value would be the exact one
	if len(state) > maxState {
		a.page = "error.bad_request"
		return oauth.InvalidRequest(nil, "state is too long")
	}
	a.rec.State = state
	a.page = "" // from here on the client gets the errors
	// Read before the first error, so a request with prompt=none gets even failures by redirect.
	a.rec.Prompt = strings.Fields(a.form.Get("prompt"))
	a.rec.ResponseMode = responseMode(a)
	return nil
}

// checkPushed refuses a request that was not pushed, if the client or the server requires that.
func (s *Server) checkPushed(_ context.Context, a *authorizeRequest) error {
	if a.pushed == "" && (s.cfg.PARRequired || a.client.PARRequired) {
		return oauth.InvalidRequest(nil, "the request must be pushed first")
	}
	a.rec.Pushed = a.pushed
	return nil
}

// checkSigned refuses an unsigned request, if the client requires signed ones. A pushed request was checked when it was
// pushed.
func (s *Server) checkSigned(_ context.Context, a *authorizeRequest) error {
	if a.client.SignedRequestRequired && !a.rec.Signed && (a.pushed == "" || a.pushed == beingPushed) {
		return oauth.InvalidRequest(nil, "the request must be signed")
	}
	return nil
}

func (s *Server) checkRepeats(_ context.Context, a *authorizeRequest) error {
	for name, values := range a.form.Values {
		if len(values) > 1 && name != "resource" && !strings.HasPrefix(name, customParam) {
			return oauth.Repeated(name)
		}
	}
	return nil
}

func (s *Server) checkObjects(_ context.Context, a *authorizeRequest) error {
	for _, name := range []string{"request", "request_uri", "registration"} {
		if _, sent := a.form.Values[name]; sent {
			return &oauth.Error{
				Status: http.StatusBadRequest, Code: name + "_not_supported",
				Description: "the parameter " + name + " is not supported",
			}
		}
	}
	return nil
}

func (s *Server) checkResponseType(_ context.Context, a *authorizeRequest) error {
	kind := a.form.Get("response_type")
	if kind == "" {
		return oauth.InvalidRequest(nil, "response_type is missing")
	}
	grant, ok := responseTypes[kind]
	if !ok {
		return oauth.UnsupportedResponseType(kind)
	}
	a.rec.ResponseType = kind
	return s.clients.May(a.client, clientstore.Permission{Grant: grant})
}

// checkResponseMode refuses a mode that is unknown, or in which this answer would not be safe.
func (s *Server) checkResponseMode(_ context.Context, a *authorizeRequest) error {
	if mode := a.form.Get("response_mode"); mode != "" && mode != modeJWT && mode != a.rec.ResponseMode {
		return oauth.InvalidRequest(nil, "the response_mode "+oauth.Quoted(mode)+" is not supported here")
	}
	return nil
}

// checkProvider refuses an unknown or disabled provider and one that is not the client's with the document's 403, as a
// page. external_idp skips the identity service and goes to one of its providers.
func (s *Server) checkProvider(ctx context.Context, a *authorizeRequest) error {
	if err := s.clients.RefreshProviders(ctx); err != nil {
		return err
	}
	idp := a.form.Get("idp")
	if external, sent := a.form.Values["external_idp"]; sent {
		id, ok := strings.CutPrefix(external[0], externalIDPPrefix)
		if !ok {
			return oauth.InvalidRequest(nil, "external_idp must start with "+externalIDPPrefix)
		}
		if id == "" || id == client.DefaultProvider || (idp != "" && idp != client.DefaultProvider && idp != id) {
			return a.noProvider(clientstore.ErrProvider)
		}
		idp = id
	}
	if err := s.clients.May(a.client, clientstore.Permission{Provider: cmp.Or(idp, a.client.IDPs[0])}); err != nil {
		return a.noProvider(err)
	}
	a.rec.IDP = idp
	return nil
}

// noProvider is the document's 403 "Unable to determine identity provider".
func (a *authorizeRequest) noProvider(cause error) error {
	a.page = "error.no_idp"
	return &oauth.Error{
		Status: http.StatusForbidden, Code: "access_denied", Description: "unable to determine identity provider",
		Cause: cause,
	}
}

// base64url of a SHA-256.
var challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

func (s *Server) checkChallenge(_ context.Context, a *authorizeRequest) error {
	if a.rec.ResponseType != responseCode {
		return nil // there is no code that a challenge could bind
	}
	challenge, method := a.form.Get("code_challenge"), a.form.Get("code_challenge_method")
	switch {
	case challenge == "" && method != "":
		return oauth.InvalidRequest(nil, "code_challenge is missing")
	case challenge == "" && (a.client.Public || a.client.PKCERequired):
		return oauth.InvalidRequest(nil, "code_challenge is required") // RFC 7636 4.4.1; RFC 9700 2.1.1
	case challenge == "":
		return nil
	case method != "S256": // RFC 7636 4.2; plain does not protect against readers of the request
		return oauth.InvalidRequest(nil, "code_challenge_method must be S256")
	case !challengeForm.MatchString(challenge):
		return oauth.InvalidRequest(nil, "code_challenge must be 43 characters of base64url")
	}
	a.rec.Challenge = challenge
	return nil
}

func (s *Server) checkScope(_ context.Context, a *authorizeRequest) error {
	scope, err := s.clients.ScopesFor(a.client, a.form, responseTypes[a.rec.ResponseType])
	if err != nil {
		return err
	}
	if a.rec.ResponseType == responseIDToken && !slices.Contains(scope, client.ScopeOpenID) {
		return oauth.InvalidScope(nil, "an ID token needs the scope openid") // OpenID Connect Core 3.2.2.1
	}
	a.rec.Scope = scope
	a.rec.Level, a.rec.Assurance = s.clients.ScopeLevel(scope), s.clients.ScopeAssurance(scope) // the highest of the requested ones
	return s.clients.May(a.client, clientstore.Permission{Grant: responseTypes[a.rec.ResponseType], Scope: scope})
}

func (s *Server) checkResources(_ context.Context, a *authorizeRequest) error {
	a.rec.Resources = a.client.OwnResources(a.form.All("resource"))
	return s.clients.May(a.client, clientstore.Permission{Resources: a.rec.Resources})
}

// checkDetails reads the authorization details. They require a code: other responses would carry them through the
// browser.
func (s *Server) checkDetails(_ context.Context, a *authorizeRequest) (err error) {
	if a.rec.AuthorizationDetails, err = s.clients.DetailsFor(a.form); err != nil || a.rec.AuthorizationDetails == "" {
		return err
	}
	if a.rec.ResponseType != responseCode {
		return oauth.InvalidDetails(nil, "authorization_details needs the response type code")
	}
	a.rec.Level = max(a.rec.Level, s.clients.DetailsLevel(a.rec.AuthorizationDetails))
	return s.clients.May(a.client, clientstore.Permission{Details: a.rec.AuthorizationDetails})
}

func (s *Server) checkPrompt(_ context.Context, a *authorizeRequest) error {
	for _, p := range a.rec.Prompt {
		switch p {
		case "none", "login", "consent", "select_account", "create":
		default:
			return oauth.InvalidRequest(nil, "prompt has the unknown value "+oauth.Quoted(p))
		}
	}
	if a.rec.has("none") && len(a.rec.Prompt) > 1 { // OpenID Connect Core 3.1.2.1
		return oauth.InvalidRequest(nil, "prompt none cannot be combined with other values")
	}
	return nil
}

func (s *Server) checkMaxAge(_ context.Context, a *authorizeRequest) error {
	raw := a.form.Get("max_age")
	if raw == "" {
		return nil
	}
	seconds, err := strconv.ParseUint(raw, 10, 63)
	if err != nil || strings.HasPrefix(raw, "+") {
		return oauth.InvalidRequest(err, "max_age must be a number of seconds")
	}
	age := int64(min(seconds, maxMaxAge))
	a.rec.MaxAge = &age
	return nil
}

func (s *Server) checkNonce(_ context.Context, a *authorizeRequest) error {
	a.rec.Nonce = a.form.Get("nonce")
	if a.rec.Nonce == "" && a.rec.ResponseType == responseIDToken { // OpenID Connect Core 3.2.2.1
		return oauth.InvalidRequest(nil, "nonce is required")
	}
	if len(a.rec.Nonce) > maxNonce {
		return oauth.InvalidRequest(nil, "nonce is too long")
	}
	return nil
}

func (s *Server) checkHints(ctx context.Context, a *authorizeRequest) error {
	// The sign-in page shows the hint as text. One that cannot be a username is ignored.
	if hint := a.form.Get("login_hint"); utf8.RuneCountInString(hint) <= maxLoginHint && !oauth.HasControl(hint) {
		a.rec.LoginHint = hint
	}
	raw := a.form.Get("id_token_hint")
	if raw == "" {
		return nil
	}
	hint, err := s.tokens.ReadIDToken(raw)
	if err != nil {
		return nil //nolint:nilerr // it is a hint: one that says nothing here is ignored (docs/decisions/authorization.md#hints)
	}
	sector, err := s.hintSector(ctx, hint.Audience)
	if err != nil {
		return err
	}
	return a.rec.hint(sector, hint.Subject)
}

// checkACR demands the lowest of the named levels, since any of them is sufficient. Foreign values are ignored.
func (s *Server) checkACR(_ context.Context, a *authorizeRequest) error {
	lowest := 0
	for _, value := range strings.Fields(a.form.Get("acr_values")) {
		if level := token.ACRLevel(value); level > 0 {
			a.rec.ACRValues = append(a.rec.ACRValues, value)
			if lowest == 0 || level < lowest {
				lowest = level
			}
		}
	}
	a.rec.ACRValues = a.rec.ACRValues[:min(len(a.rec.ACRValues), 4)]
	a.rec.Level = max(a.rec.Level, lowest)
	return nil
}

func (s *Server) checkCustomParams(_ context.Context, a *authorizeRequest) error {
	for name, values := range a.form.Values {
		key, ours := strings.CutPrefix(name, customParam)
		if !ours {
			continue
		}
		if key == "" || utf8.RuneCountInString(key) > maxCustomKey || len(values) > maxCustomValues || len(a.rec.CustomParams) == maxCustomKeys {
			return oauth.InvalidRequest(nil, "too many or too long external_idp_custom_param")
		}
		for _, v := range values {
			if utf8.RuneCountInString(v) > maxCustomLength || oauth.HasControl(v) {
				return oauth.InvalidRequest(nil, "an external_idp_custom_param is too long or has control characters")
			}
		}
		if a.rec.CustomParams == nil {
			a.rec.CustomParams = map[string][]string{}
		}
		a.rec.CustomParams[key] = values
	}
	return nil
}

// checkParams keeps the parameters that one of the client's providers asks for.
func (s *Server) checkParams(_ context.Context, a *authorizeRequest) error {
	for _, name := range s.clients.ParametersFor(a.client) {
		value := a.form.Get(name)
		if utf8.RuneCountInString(value) > maxParam || oauth.HasControl(value) {
			return oauth.InvalidRequest(nil, "a parameter is too long or has control characters")
		}
		if value == "" {
			continue
		}
		if a.rec.Params == nil {
			a.rec.Params = map[string][]string{}
		}
		a.rec.Params[name] = []string{value}
	}
	return nil
}

var (
	// languageCode, languageCode_countryCode, languageCode_countryCode_variant
	languageForm = regexp.MustCompile(`^[A-Za-z]{2,3}(_([A-Za-z]{2}|[0-9]{3})(_[A-Za-z0-9]{1,8})?)?$`)
	localeForm   = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}$`) // RFC 5646
)

// readPresentation reads the languages and the form of the pages. It never refuses: invalid values are ignored.
func (s *Server) readPresentation(_ context.Context, a *authorizeRequest) error {
	if language := a.form.Get("language"); languageForm.MatchString(language) {
		// Variant, then country, then language.
		for tag := strings.ReplaceAll(language, "_", "-"); tag != ""; tag = tag[:max(0, strings.LastIndexByte(tag, '-'))] {
			a.rec.Locales = append(a.rec.Locales, tag)
		}
	}
	for _, tag := range strings.Fields(a.form.Get("ui_locales")) {
		if len(a.rec.Locales) < 10 && localeForm.MatchString(tag) {
			a.rec.Locales = append(a.rec.Locales, tag)
		}
	}
	// token server document, "Authorization endpoint": "default for mobile apps is mobile"
	if view := a.form.Get("app_view"); view == "mobile" || (view == "" && a.client.App != nil) {
		a.rec.View = "mobile"
	}
	return nil
}
