// Package authn defines the questions that authz asks about a signed-in person, and identity's answers, so neither
// package needs to know the other.
package authn

import (
	"errors"
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// When a sign-in needs a second step besides the level that is asked for.
const (
	SecondFactorWhenSetUp = "when_set_up" // where the person has set up a method for one
	SecondFactorAlways    = "always"
	SecondFactorOnDemand  = "on_demand" // never
)

// Demand says which sign-in is good enough to continue without a page, and what a page needs to know.
type Demand struct {
	// Level is the least authentication level, 1 to 4. 0: any.
	Level int
	// SecondFactor says when the client wants a second step. Empty: as the settings say.
	SecondFactor string
	// Assurance is the least identity assurance level of the person, 1 to 4. 0: any. A sign-in on which only a page
	// could say more ends with that page, or with a *Refusal.
	Assurance int
	// MaxAge is the greatest age of the sign-in. Negative: any age. (OpenID Connect Core 3.1.2.1, max_age)
	MaxAge time.Duration
	// NotBefore is the earliest sign-in that counts: the start of a request with prompt=login. Zero: any.
	NotBefore time.Time
	// Anew says that NotBefore asks for the first factor alone: a trusted browser can be the second one.
	Anew bool
	// SelectAccount asks the person to confirm or change the account before continuing (prompt=select_account). A
	// sign-in or confirmation at or after NotBefore satisfies it.
	SelectAccount bool
	// Create leads to the page for a new account, where people can make one. (prompt=create)
	Create bool
	// Passive forbids every page: the answer is a Result or a *Refusal. With a Return it can also be a redirect to a
	// provider, which is told to show no page either. (prompt=none)
	Passive bool
	// Provider is the identity provider that the request names. Empty: any of Providers.
	Provider string
	// Providers lists the providers whose sign-in counts; the first one is used for a new sign-in. Empty: any, and a
	// new sign-in uses identity's own page.
	Providers []string
	// Params are the request parameters that one of the providers wants in the person's details.
	Params map[string][]string
	// Hint fills in the username. (login_hint)
	Hint string
	// Locales in order of preference. (ui_locales, language)
	Locales []string
	// View is "mobile" for pages without navigation. (app_view)
	View string
	// CustomParams go into the request to an external SAML provider.
	CustomParams map[string][]string
	// Client is the application that asks, for "Continue to The shop".
	Client Client
	// Return is the path and query on the issuer's origin where the browser returns after the sign-in.
	Return string
	// Fragment is the name under which the browser keeps what is after # in the address that it wants to open. Empty: it
	// keeps nothing.
	Fragment string
	// Cancel is the path and query on the issuer's origin for a person who does not want to sign in. Empty: no such
	// link.
	Cancel string
	// Unused says that the request does not count as a use of the session, since no one may be there to make it. It is
	// not stored.
	Unused bool `cbor:"-"`
	// Along is done in the transaction of a sign-in that needs no page, so one commit keeps both. It can run several
	// times. Where it fails, the person is signed in without it. Any other sign-in does not call it. It is not stored.
	Along func(tx storage.Tx, r *Result) error `cbor:"-"`
}

// Client is the view of the requesting application on pages.
type Client struct {
	ID, Name string
	// Targets are the origins or schemes of the last redirect. The pages' form-action must name them, because browsers
	// apply it to the redirects that follow a POST.
	Targets []string
	// SAML says that it asks by SAML, as a service provider. Otherwise it asks by OpenID Connect, or is one of our
	// pages.
	SAML bool
}

// Result is a sign-in that satisfies a Demand.
type Result struct {
	Subject   string // the person's id
	SessionID string // not secret: it names the session but gives no access
	AuthTime  time.Time
	Level     int
	AMR       []string // words of the token server document: DEFAULT, FINGER_PRINT, IMPLICIT, CUSTOM_AUTHENTICATOR
	// References are the RFC 8176 values of the methods that raised the sign-in later, in addition to those of AMR.
	References []string
	Provider   string
	// Details are the provider's mapped details of the person: user_details. They must not be changed.
	Details map[string][]string
	// Vouched says that the person has shown nothing that counts for a Subject who is an Administrator.
	Vouched bool
}

// Subject is the state of a person that tokens and headers depend on.
type Subject struct {
	ID string
	// Active is false for a person who is blocked, inactive or removed: everything given to that person is invalid
	// then.
	Active bool
	// Epoch grows when all earlier grants and sessions end (password change, block, "sign out everywhere"). A grant or
	// session with another epoch is invalid.
	Epoch int64
	// Groups are the names of the person's groups, outside the default partition as partition\name.
	Groups []string
	// Username as the person writes it, outside the default partition partition\username.
	Username string
	// Partition is the name of the person's partition. Empty: the default one.
	Partition string
	// Profile carries the standard claims (OpenID Connect Core 5.1): name, given_name, family_name, email,
	// email_verified ("true" or "false"), phone_number, locale, updated_at (seconds) and so on.
	Profile map[string]string
	// Assurance is the evidence of the person's identity.
	Assurance Assurance
	// Administrator says that the person has a role in the admin console.
	Administrator bool
	// Details are user_details. identity leaves them empty: they belong to a sign-in, and its Result has them.
	Details map[string][]string
}

// AssuredUntil returns t, or when the identity assurance level of the person can change by itself if that is earlier.
func (s *Subject) AssuredUntil(t, now time.Time) time.Time {
	if at := s.Assurance.Changes(now); !at.IsZero() && at.Before(t) {
		return at
	}
	return t
}

// Session is a live sign-in as authz sees it inside its own transaction.
type Session struct {
	Result
	// Epoch of the person when the session was made.
	Epoch int64
	// Ends is the end of the session if it is not used again: the earlier of idle and absolute end.
	Ends time.Time
	// Seen is the last known use of the session, for the idle timeout. It is written at most once a minute.
	Seen time.Time
}

// ErrResponded says that the Authenticator has written the answer (a redirect to a page); the caller writes nothing
// more.
var ErrResponded = errors.New("the answer has been written")

// ErrBadCredentials says that username and password are not a valid pair. It does not tell which of the two is wrong.
var ErrBadCredentials = errors.New("username and password do not match")

// ErrSecondFactor says that username and password match, and that the person has set up a method that no one has asked
// for.
var ErrSecondFactor = errors.New("the person has set up a second factor")

// ErrNoCredentials says that the credentials of an API client are missing, malformed or wrong.
var ErrNoCredentials = errors.New("credentials are missing or wrong")

// ErrNotAllowed says that an API client is authenticated but must not use the API.
var ErrNotAllowed = errors.New("the API is not allowed")

// ThrottledError says that no attempt is accepted for a while, not even a correct one.
type ThrottledError struct{ Wait time.Duration }

func (*ThrottledError) Error() string { return "login: too many tries" }

// Refusal says why a Demand cannot be met. Code is an OAuth error code.
type Refusal struct {
	// Code: login_required, interaction_required, account_selection_required (OpenID Connect Core 3.1.2.6),
	// unmet_authentication_requirements (OpenID Connect Unmet Authentication Requirements 1.0), access_denied,
	// temporarily_unavailable.
	Code string
	// Reason is for the log and error_description: printable ASCII, nothing secret.
	Reason string
	// SAMLStatus and Cause are what a SAML provider said when it refused. (token server document, "Authorization error
	// extension fields")
	SAMLStatus, Cause string
	// Elsewhere is set for a passive Demand without a Return. It says that a Demand with a Return could ask an identity
	// provider without showing a page.
	Elsewhere bool
}

func (r *Refusal) Error() string { return "login: " + r.Code + ": " + r.Reason }
