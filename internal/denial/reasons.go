package denial

import "errors"

// Reason says why someone was refused. It is a word for metrics, logs and programs; operators read its meaning.
type Reason string

// All reasons; meanings has their texts. A reason is never renamed: dashboards and alerts count by it.
const (
	// who the caller is
	NoCredentials  Reason = "no_credentials"
	SessionEnded   Reason = "session_ended"
	TokenInactive  Reason = "token_inactive"
	TokenElsewhere Reason = "token_for_another_resource"
	TokenUnnamed   Reason = "token_not_accepted"
	SignInTooOld   Reason = "sign_in_too_old"
	LevelTooLow    Reason = "level_too_low"
	// AssuranceTooLow is about who the person is, LevelTooLow about how they have signed in.
	// DeviceUnbound is about a session that is not bound to a device. (package dbsc)
	DeviceUnbound   Reason = "device_unbound"
	AssuranceTooLow Reason = "identity_assurance_too_low"
	ScopeMissing    Reason = "scope_missing"
	GroupMissing    Reason = "group_missing"
	PartitionOther  Reason = "partition_not_admitted"
	NeedUnmet       Reason = "need_unmet"
	RuleDenied      Reason = "denied_by_rule"
	NoRule          Reason = "no_rule_allows"
	PolicyMissing   Reason = "policy_missing"
	NotAllowed      Reason = "not_allowed"
	RateLimited     Reason = "rate_limited"
	QuotaUsed       Reason = "quota_used"
	// NotAnAppPassword is about a Basic password at a site that accepts app passwords.
	NotAnAppPassword Reason = "not_an_app_password" //nolint:gosec // no secret

	// signing in
	UnknownName        Reason = "unknown_name"
	WrongPassword      Reason = "wrong_password"
	PersonBlocked      Reason = "person_blocked"
	PersonInactive     Reason = "person_inactive"
	PlantedPassword    Reason = "planted_password"
	PlantedAccount     Reason = "planted_account"
	PersonGone         Reason = "person_gone"
	Throttled          Reason = "throttled"
	TooManyBegun       Reason = "too_many_begun"
	SignInClosed       Reason = "sign_in_closed"
	WrongCode          Reason = "wrong_code"
	WrongAnswer        Reason = "wrong_answer"
	PasskeyRefused     Reason = "passkey_refused"
	PhoneRefused       Reason = "phone_refused"
	NoSecondFactor     Reason = "no_second_factor"
	SecondFactorNeeded Reason = "second_factor_needed"
	ProviderRefused    Reason = "provider_refused"
	ProviderAnswer     Reason = "provider_answer_invalid"
	ProviderFailed     Reason = "provider_failed"
	ProviderNotOffered Reason = "provider_not_offered"
	IdentityRefused    Reason = "identity_refused"
	LinkInvalid        Reason = "link_invalid"
	FlowExpired        Reason = "flow_expired"
	SignInNeeded       Reason = "sign_in_needed"
	CookiesMissing     Reason = "cookies_missing"
	FormRefused        Reason = "form_refused"

	// clients
	ClientUnknown       Reason = "client_unknown"
	ClientDocument      Reason = "client_document"
	ClientMetadata      Reason = "client_metadata"
	RegistrationLimit   Reason = "registration_limit"
	ClientDisabled      Reason = "client_disabled"
	ClientSecret        Reason = "client_secret_wrong"
	ClientAuth          Reason = "client_authentication_failed"
	ClientCertificate   Reason = "client_certificate_refused"
	RedirectURI         Reason = "redirect_uri_not_registered"
	RequestObject       Reason = "request_object_invalid"
	GrantNotAllowed     Reason = "grant_not_allowed"
	GrantUnsupported    Reason = "grant_unsupported"
	ResponseUnsupported Reason = "response_type_unsupported"
	GrantInvalid        Reason = "grant_invalid"
	AssertionInvalid    Reason = "assertion_invalid"
	AssertionUntrusted  Reason = "assertion_not_trusted"
	AssertionReplayed   Reason = "assertion_replayed"
	SubjectToken        Reason = "subject_token_refused"
	ExchangeRefused     Reason = "exchange_not_allowed"
	DetailsRefused      Reason = "authorization_details_refused"
	CodeReplayed        Reason = "code_replayed"
	RefreshReplayed     Reason = "refresh_token_replayed"
	ProofKey            Reason = "proof_key_wrong"
	KeyUnproved         Reason = "key_unproved"
	ProofMissing        Reason = "proof_missing"
	ProofInvalid        Reason = "proof_invalid"
	ProofReplayed       Reason = "proof_replayed"
	ScopeNotAllowed     Reason = "scope_not_allowed"
	ResourceNotAllowed  Reason = "resource_not_allowed"
	ConsentDenied       Reason = "consent_denied"
	ConsentNeeded       Reason = "consent_needed"

	// service providers
	ServiceProviderUnknown Reason = "service_provider_unknown"
	ServiceProviderRequest Reason = "service_provider_request_invalid"
	AttributeMissing       Reason = "attribute_missing"

	// requests
	Malformed        Reason = "malformed_request"
	TokenInQuery     Reason = "token_in_query"
	PathNotCanonical Reason = "path_not_canonical"
	// NotPlain is about method, query and host, PathNotCanonical about the path.
	NotPlain         Reason = "request_not_plain"
	AddressUnknown   Reason = "client_address_unknown"
	MethodNotAllowed Reason = "method_not_allowed"
	UnknownSite      Reason = "unknown_site"
	NotFound         Reason = "not_found"
	TooLong          Reason = "address_too_long"
	OtherOrigin      Reason = "another_origin"
	Insecure         Reason = "not_over_https"
	APIDisabled      Reason = "api_switched_off"

	// no verdict could be reached
	Unavailable Reason = "unavailable"
	Internal    Reason = "internal_error"
	// the answer of another server is missing
	AuthorityUnavailable Reason = "authority_unavailable"
)

// meaning is the text for operators: a clause with the cause, and a sentence with the fix that would let the caller in.
type meaning struct{ why, fix string }

var meanings = map[Reason]meaning{
	NoCredentials: {"no token or session", "Sign in, or send an access token in the Authorization header."},
	SessionEnded:  {"the session at the site is unknown, has expired or was ended", "Sign in again."},
	TokenInactive: {"the access token is unknown, expired, revoked or used up", "Get a new access token."},
	TokenElsewhere: {
		"the access token is meant for another resource",
		"Ask for a token with the parameter resource, or change audience at the site.",
	},
	TokenUnnamed: {
		"the site does not accept access tokens of this kind",
		"Name the client in clients, a scope in scopes or the resource in audience at the site.",
	},
	SignInTooOld: {"the sign-in is older than the site accepts", "Sign in again, or change session at the site."},
	AssuranceTooLow: {
		"the identity of the person is not assured well enough",
		"Have an identity card of the person validated, or let them sign in by a provider with the identity_assurance_level, or lower the required level.",
	},
	DeviceUnbound: {
		"the session is not bound to a device",
		"Use a browser that has Device Bound Session Credentials, and sign in again; docs/device-bound-sessions.md lists them.",
	},
	LevelTooLow: {"the sign-in is weaker than required", "Confirm the sign-in by a second method, or lower the required level."},
	ScopeMissing: {
		"the access token lacks a scope that the site requires",
		"Request the scope, add it to the client, or change scopes at the site.",
	},
	GroupMissing: {"not in a required group", "Add the person to one of the groups, or change groups at the site or application."},
	PartitionOther: {
		"the person is in a partition that the site does not admit",
		"Name the partition at the site (partition), if its administrators are to be trusted there.",
	},
	NeedUnmet:  {"the person or client lacks what the site needs", "Give it to them, or change need at the site."},
	RuleDenied: {"a deny rule of the site matches the request", "Change the rule that the detail names."},
	NoRule:     {"no allow rule of the site matches the request", "Add a rule, or give the person or client what one of the rules needs."},
	PolicyMissing: {
		"the site names a policy that does not exist, so it refuses everybody",
		"Write the policy in the Caddyfile, or store it by the configuration API. The detail names it.",
	},
	NotAllowed: {"the caller has no right to do this", "Give the caller the right, in the configuration."},

	RateLimited: {
		"the caller has made too many requests in a short time",
		"Wait for the seconds of Retry-After. The detail names the limit: raise it at the site or in the plan.",
	},
	QuotaUsed: {
		"the caller has used up a quota",
		"Wait for the next period. The detail names the quota: raise it at the site or in the plan.",
	},
	NotAnAppPassword: {
		"the password that was sent by Basic is not an app password",
		"Make one on the account page Security, for this site, and put it into the program in place of the password.",
	},

	UnknownName:    {"unknown username", "Check the spelling, or add the person."},
	WrongPassword:  {"the password is wrong", "Try again, or choose a new password by a link."},
	PersonBlocked:  {"the account is blocked", "Unblock the person: caddy gatehouse person unblock."},
	PersonInactive: {"the account has not been activated", "Follow the link of the invitation, or send another one."},
	PlantedPassword: {
		"the person has a role in the console, and a program or an administrator below owner has set the password",
		"Make a link for a new password: an owner on the person's page, or caddy gatehouse person passwd.",
	},
	PlantedAccount: {
		"the person has a role in the console, and an API client has linked the account at the provider",
		"Sign in another way, and connect the account again on the account page Security.",
	},
	PersonGone: {"the account was changed or removed meanwhile", "Sign in again."},
	Throttled:  {"there were too many attempts", "Wait until the time on the page is over."},
	TooManyBegun: {
		"too many sign-ins were started from this network",
		"Wait a moment. If many people share the address, name the proxy in trusted_proxies.",
	},
	SignInClosed: {"signing in is switched off", "Switch it on in the settings (features)."},
	WrongCode: {
		"the code or PIN is wrong or has expired",
		"Ask for another code. If it comes from an app, check the clock of the device.",
	},
	WrongAnswer:    {"an answer to the questions is wrong", "Try again, or correct what is known of the person."},
	PasskeyRefused: {"the passkey was not accepted", "Use a passkey of this account and this address, or another method."},
	PhoneRefused: {
		"the phone did not approve the sign-in: a wrong number, or its own sign-in has ended",
		"Ask for another code and type the number shown next to it.",
	},
	NoSecondFactor:     {"the account has no method that reaches the required level", "Set up a method on the page Security of the account."},
	SecondFactorNeeded: {"the password alone is not enough", "Sign in on a page, where a second method can be asked for."},
	ProviderRefused:    {"the identity provider refused the sign-in", "Look in the log of the provider."},
	ProviderAnswer: {
		"the answer of the identity provider is not valid",
		"Start again. The log line names what is wrong: often a clock, a certificate or an address.",
	},
	ProviderFailed: {
		"the identity provider could not be reached",
		"Check the address and the state of the provider: caddy gatehouse check.",
	},
	ProviderNotOffered: {"this way to sign in is not offered here", "Add the provider to the client, or choose another way."},
	IdentityRefused: {
		"no account here has the identity, and none is created for it",
		"Link it to an account, or allow new accounts from this provider.",
	},
	LinkInvalid: {"the link is unknown, was used already or has expired", "Use the newest message, or ask for another link."},
	FlowExpired: {"the sign-in took too long or was begun in another browser", "Start again in one browser."},
	SignInNeeded: {
		"the application asked for an answer without a page, and no one is signed in",
		"Have the application send the browser without prompt=none (OpenID Connect) or IsPassive (SAML).",
	},
	CookiesMissing: {
		"the browser does not keep the cookie of the site",
		"Allow cookies. Check that the site is reached under the origin that it names.",
	},
	FormRefused: {"the form was not sent from its own page", "Open the page again in the same browser, with cookies allowed."},

	ClientUnknown: {"no client has this client_id", "Correct client_id, or add the client."},
	ClientMetadata: {
		"the metadata of a client that registers itself is not accepted",
		"The cause says what is wrong. A host that it names must be among redirect_hosts of registration, where that is set.",
	},
	RegistrationLimit: {
		"too many clients have registered themselves",
		"Wait, or raise limit or clients of registration. Unused ones are removed automatically.",
	},
	ClientDocument: {
		"the metadata document of the client cannot be used",
		"The cause says what is wrong with it. Tell the publisher of the client, or allow its host with outbound.",
	},
	ClientDisabled: {"the client is disabled", "Enable the client."},
	ClientSecret:   {"the client's secret is wrong", "Compare the secret in the application with that of the client."},
	ClientAuth: {
		"the client did not authenticate by its registered method",
		"Compare the authentication method in the application with that of the client.",
	},
	ClientCertificate: {
		"the certificate of the client is missing, or is not the one that was expected",
		"Send the certificate that the client is registered with. The cause in the log says what is wrong with it.",
	},
	RedirectURI: {"the redirect URI is not registered for the client", "Register it exactly, or correct it in the application."},
	RequestObject: {
		"the signed request of the client is not valid",
		"The detail says what is wrong: often a key, a clock or the audience. The keys are those of jwks.",
	},
	GrantNotAllowed:     {"the client is not allowed this grant", "Add the grant to the client."},
	GrantUnsupported:    {"the grant type is unknown", "Use one of those in the metadata."},
	ResponseUnsupported: {"the response type is unknown or not allowed", "Use response_type=code."},
	GrantInvalid:        {"the code, refresh token or assertion is unknown, expired or revoked", "Start again with a new sign-in."},
	AssertionInvalid: {
		"the assertion is malformed, too old, for another server or not signed by its issuer",
		"Compare audience, keys and clock of the issuer with trust_issuer. The cause in the log says which of these it is.",
	},
	AssertionUntrusted: {
		"no trust_issuer has the issuer of the assertion, or none of its rules matches",
		"Compare issuer and claims with trust_issuer and its match. The cause in the log names the claim.",
	},
	AssertionReplayed: {
		"the assertion was used before",
		"Get a new one for each token, or allow it with reuse on. If the workload already gets new ones, the assertion was stolen.",
	},
	SubjectToken: {
		"the token that was to be exchanged, or the actor's, is not valid here",
		"Get a new one. The cause in the log says what is wrong with it.",
	},
	DetailsRefused: {
		"the authorization details are not of a type that the client may ask for, or not within what was granted",
		"Declare the type with authorization_details, name it in authorization_details_types of the client, and compare the members.",
	},
	ExchangeRefused: {
		"the client may not exchange tokens of that client, or not for that audience",
		"Name both in exchange of the client, or the other server with id_jag.",
	},
	CodeReplayed: {
		"the code was used a second time, so its tokens were revoked",
		"Redeem a code once. If the application already does so, the code was stolen.",
	},
	RefreshReplayed: {
		"the refresh token was used a second time, so the grant was revoked",
		"Store the newest refresh token. If the application already does so, an older one was stolen.",
	},
	ProofKey: {"redirect_uri or code_verifier does not match the sign-in", "Send both exactly as when the sign-in began."},
	KeyUnproved: {
		"the token or code is bound to a key or certificate, and the request does not prove that its sender has it",
		"Have the client prove the key with which it requested the token. If it does so already, the token was stolen.",
	},
	ProofMissing: {
		"the client must prove possession of a key, and the request has no proof",
		"Have the application send a DPoP proof, or remove `dpop required` from the client.",
	},
	ProofInvalid: {
		"the DPoP proof is not valid",
		"Correct the client: the detail says what is wrong. If it is the address, look at trusted_proxies; if it is the time, at the clocks.",
	},
	ProofReplayed: {
		"the DPoP proof was used before",
		"Let the client make a new proof for each request. If it already does so, someone sends copies of its requests.",
	},
	ScopeNotAllowed:    {"the scope is unknown, or the client may not use it", "Add the scope to the client, or request less."},
	ResourceNotAllowed: {"the resource is unknown, or the client may not use it", "Add the resource to audiences of the client."},
	ConsentDenied:      {"the person did not allow the application what it asked for", "Start again and allow it."},
	ConsentNeeded: {
		"the application asked for an answer without a page, and the person has not allowed it yet",
		"Have the application send the browser without prompt=none (OpenID Connect) or IsPassive (SAML).",
	},

	ServiceProviderUnknown: {
		"no service provider has this entity ID",
		"Add a service_provider whose metadata have the entity ID of the request, or correct it in the application.",
	},
	ServiceProviderRequest: {
		"the request of the service provider is not valid",
		"The cause in the log says what is wrong with it: often the metadata here is older than those of the application, or a clock is wrong.",
	},
	AttributeMissing: {
		"the person lacks an attribute that the service provider requires, or it is not verified",
		"Complete the profile of the person, or make the attribute optional. The cause in the log names it.",
	},

	Malformed:        {"the request is malformed", "Correct the client. The detail says what is wrong."},
	TokenInQuery:     {"the token was sent in the address, where logs would keep it", "Send it in the Authorization header."},
	PathNotCanonical: {"the path is not in its canonical form, so it could be read in two ways", "Ask for the plain path."},
	NotPlain: {
		"a part of the request that decides here can be read in two ways",
		"Send the method in upper case and without an override, each parameter once, and the host without a dot at its end.",
	},
	AddressUnknown:   {"the address of the client is unknown, and rules ask for it", "Have the proxy send it in X-Forwarded-For."},
	MethodNotAllowed: {"the method is not allowed here", "Use another method."},
	UnknownSite:      {"the site is not known under this host", "Use the address of the site, or name this one in login."},
	NotFound:         {"there is nothing at this address", "Check the address."},
	TooLong:          {"the address is too long to come back to", "Open a shorter address first."},
	OtherOrigin:      {"the request was made by a page of another site", "Send it from the server, or from the same origin."},
	Insecure:         {"the request carried credentials without https", "Use https, or name the proxy that ends TLS in trusted_proxies."},
	APIDisabled:      {"the API is switched off", "Switch it on in the settings."},

	Unavailable: {"the server could not check this", "Try again in a moment. If it persists, check the storage: caddy gatehouse check."},
	Internal:    {"the server failed", "Look in the log for the reference."},

	AuthorityUnavailable: {
		"the other authorization server (introspect) did not answer, or its answer is not valid",
		"Check its address, its state and the client: caddy gatehouse check. The log line says what is wrong.",
	},
}

// why is the meaning of a reason for operators: a clause without a period.
func (r Reason) why() string { return meanings[r].why }

// Fix returns the advice that would let the caller in.
func (r Reason) Fix() string { return meanings[r].fix }

// known reports whether a reason is on the list.
func (r Reason) known() bool {
	_, ok := meanings[r]
	return ok
}

// New returns an error with a reason, for a cause that becomes a refusal further up.
func New(reason Reason, text string) error { return &reasoned{reason, text} }

type reasoned struct {
	reason Reason
	text   string
}

func (e *reasoned) Error() string { return e.text }

// GroupError is the cause of the refusal of a person who is in none of the wanted groups.
type GroupError struct{ Wanted, Has []string }

func (e *GroupError) Error() string {
	return (&Refusal{Reason: GroupMissing, WantedGroups: e.Wanted, Groups: e.Has}).Why()
}

// ReasonOf returns the reason of an error from New or of a GroupError, or fallback.
func ReasonOf(err error, fallback Reason) Reason {
	if errors.As(err, new(*GroupError)) {
		return GroupMissing
	}
	if e := new(reasoned); errors.As(err, &e) {
		return e.reason
	}
	return fallback
}
