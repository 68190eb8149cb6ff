// Package idp defines the sign-in at an external identity provider: the interfaces of providers and the values that
// they return. Each protocol has a package below this one.
package idp

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"
)

// Identity is a person as a provider knows them. It is verified: a provider returns it only if it vouches for it.
type Identity struct {
	// Issuer is the source of the identity, in the protocol's terms: an entity id or iss. Empty: the provider has no
	// other source than itself.
	Issuer string
	// Subject identifies the person at the issuer, permanently. With an empty Issuer it is compared regardless of case,
	// otherwise exactly.
	Subject string
	// Form says in which form the provider names the person by Subject, such as a NameID format. The same person has
	// another Subject in another form. Empty: not known.
	Form string
	// Stable is the value of the attribute that the operator identifies people by in addition: it outlives a change of
	// Subject. Empty: none.
	Stable string
	// Username is the username of a person who is created for the identity, where the operator maps one. Empty: none.
	Username string
	// Email is an address of the person. EmailVerified says that the provider has checked it. Linking relies on
	// verified addresses only.
	Email         string
	EmailVerified bool
	// EmailClaimed says that people, or administrators elsewhere, choose the address, so the operator cannot vouch for
	// all addresses of the provider.
	EmailClaimed bool
	// EmailPrivate says that the provider has made the address for this person and for us, such as a forwarding one. It
	// links no account without asking: a person who already has it here got it in another way.
	EmailPrivate bool
	// Level is the authentication level that the provider has reached, 1 to 4.
	Level int
	// AuthTime is the time of the sign-in at the provider. Zero: now.
	AuthTime time.Time
	// AMR are words of the token server document. Empty: DEFAULT.
	AMR []string
	// Details are the attributes of the person under the names that the operator chose. Attributes without a mapping
	// are left out.
	Details map[string][]string
	// Groups are the person's groups, among those that the operator lets the provider manage. The provider lists these
	// separately, and the person is removed from the others on that list.
	Groups []string
	// NotAfter is the latest end of sessions with this identity. Zero: not limited.
	NotAfter time.Time
	// Sessions are the provider's own session names, by which it can end sessions later: SessionIndex, sid.
	Sessions []string
	// Held is the data that the provider needs later, for End and Refresh. It is kept sealed in the session and given
	// to this provider only. At most 32 KiB.
	Held []byte
}

// Provider authenticates persons. Each provider is also a RequestReader, a Redirector or a PasswordTaker. It is safe
// for concurrent use.
type Provider interface {
	// Parameters lists the parameters of an authorization request that are copied into the person's details.
	Parameters() []string
}

// RequestReader is a Provider that reads the identity from the request itself, without showing a page.
type RequestReader interface {
	Provider
	// Read returns the identity that the request carries, or ErrNoIdentity, or a *Rejection. Any other error means "we
	// cannot tell".
	Read(r *http.Request) (*Identity, error)
	// Cleanse deletes from a request what the provider would read, unless the provider trusts the sender.
	Cleanse(r *http.Request)
	// Trusts reports whether the provider trusts the sender of a request. From another sender a session that the
	// provider has opened is not accepted.
	Trusts(r *http.Request) bool
}

// PasswordTaker is a Provider whose people type their username and password on our own page.
type PasswordTaker interface {
	Provider
	// SignIn returns the identity of the person with these credentials. It returns within 5 seconds, whatever the provider
	// does, and as soon as ctx is done. Errors: ErrCredentials if they do not match, whatever is wrong with them; a
	// *Rejection if they match, and the provider does not sign the person in; the error of Found; any other error means
	// "we cannot tell".
	SignIn(ctx context.Context, c Credentials) (*Identity, error)
	// Serves reports whether people sign in from this address.
	Serves(addr netip.Addr) bool
	// OwnGroups returns the groups here that only the provider adds people to and removes them from.
	OwnGroups() []string
}

// Credentials are the credentials that a person has typed.
type Credentials struct {
	Username, Password string
	// Found is called once, before the password is tried, with the subject of the account or with another name that is
	// the same however the username is spelled. Empty: there is no such account. An error ends the sign-in.
	Found func(account string) error
}

// PasswordAsker is a Redirector that can be asked about a password, without the browser.
type PasswordAsker interface {
	// AskPassword returns the identity of the person with these credentials, as PasswordTaker.SignIn does. It does not
	// call Found: the provider names no account before it has checked the password.
	AskPassword(ctx context.Context, c Credentials) (*Identity, error)
}

// FlowLength is the length of Request.Flow. It distinguishes our RelayState from one of the provider, such as a GUID.
const FlowLength = 43

// Request describes a sign-in at a Redirector.
type Request struct {
	// Flow names this sign-in. It is unguessable and valid for one answer. It is sent as RelayState or state and
	// returned with the answer. FlowLength characters of base64url.
	Flow string
	// Level is the lowest sufficient level, 0: any.
	Level int
	// Force asks the person to authenticate again. (prompt=login: ForceAuthn)
	Force bool
	// MaxAge is the greatest accepted age of the sign-in. Negative: any age.
	MaxAge time.Duration
	// Passive forbids the provider to show a page. (prompt=none: IsPassive)
	Passive bool
	// Hint is a username that the person has entered. Empty: none.
	Hint string
	// Locales in order of preference, as BCP 47 tags.
	Locales []string
	// Custom are the external_idp_custom_param.* of the authorization request: untrusted text, bounded by authz.
	Custom map[string][]string
	// ProviderName is the client's name, which the provider can show to the person.
	ProviderName string
	// Client is the id of the client that asks.
	Client string
}

// Next is the next destination of the browser: URL, or Form with a form.
type Next struct {
	URL  string
	Form *Form
	// State is stored on the server under the flow, sealed, until the browser returns. At most 16 KiB.
	State []byte
}

// Form is posted by one of our pages, which submits it automatically, or by a button if scripts are off.
type Form struct {
	Action string
	Fields []Field
}

// Field is one hidden field of a Form.
type Field struct{ Name, Value string }

// Redirector is a Provider to which the browser is sent and from which it returns. Begin and Finish return within 5
// seconds, whatever the provider does, and as soon as ctx is done.
type Redirector interface {
	Provider
	// Begin starts a sign-in. Errors: a *Rejection if the provider cannot do what is asked; any other error means that it
	// cannot be reached or used now.
	Begin(ctx context.Context, q Request) (*Next, error)
	// FlowOf returns the flow that a callback claims to belong to, or "" for a sign-in that the provider started. It
	// verifies nothing and reads the body through r.ParseForm only, so Finish can read it again.
	FlowOf(r *http.Request) (flow string, err error)
	// Finish verifies the answer in r against the state that Begin returned for its flow. A nil state means that the
	// answer belongs to no flow. Errors: a *Rejection if the provider did not sign the person in, an *Invalid if the
	// answer must not be believed; any other error means "we cannot tell".
	Finish(ctx context.Context, state []byte, r *http.Request) (*Identity, error)
}

// Challenger is a Redirector whose callback the browser is sent to at once: it asks the browser itself for a proof, by
// a header. A browser that has none shows the page that comes with the question.
type Challenger interface {
	Redirector
	// Challenge reports whether a request brings no proof, and sets the header that asks for one.
	Challenge(w http.ResponseWriter, r *http.Request) bool
	// Serves reports whether people sign in from this address.
	Serves(addr netip.Addr) bool
	// Auto reports whether browsers at those addresses are sent here without a choice.
	Auto() bool
}

// Refresher is a Provider that can fetch the details of a person again, without the person.
type Refresher interface {
	// Refresh returns the current identity, with a Held that replaces the given one. A *Rejection means that the
	// provider gives no more details. Any other error means that it cannot tell, and the known details stay. An
	// identity returned with an error has only a Held, which must be kept: a one-time refresh token was used up.
	Refresh(ctx context.Context, held []byte) (*Identity, error)
}

// Ender is a Redirector where the browser signs out too, after it has signed out here.
type Ender interface {
	// End returns where the browser goes to sign out, or nil if there is nothing to do. The browser returns to Handle,
	// which calls Host.Ended with the flow. End returns within 5 seconds.
	End(ctx context.Context, q EndRequest) (*Next, error)
}

// EndRequest is a sign-out.
type EndRequest struct {
	Flow    string   // as in Request
	Held    []byte   // as in Identity
	Locales []string // in order of preference
}

// Handler is a Redirector with further endpoints besides the callback.
type Handler interface {
	// Handle serves the request to the endpoint op, the last part of its path (metadata, slo, backchannel-logout), and
	// reports whether that endpoint exists. The body is already limited to MaxBody bytes.
	Handle(w http.ResponseWriter, r *http.Request, op string, h Host) (served bool)
}

// MaxBody is the largest body in bytes that callbacks and handlers get.
const MaxBody = 512 << 10

// Host is the part of the identity service that a Handler can use.
type Host interface {
	// EndSessions ends the sessions that match the query, with their tokens, and returns their number. from is the
	// request that asks for it.
	EndSessions(ctx context.Context, q EndQuery, from *http.Request) (ended int, err error)
	// Ended returns, once, what belongs to the flow of a sign-out that this browser has begun: the State that End
	// returned, and the URL where the browser continues. ErrNoFlow: the flow does not exist or belongs to another
	// browser. Answer with Home then.
	Ended(w http.ResponseWriter, r *http.Request, flow string) (state []byte, ret string, err error)
	// Home is the page where a browser ends up by default.
	Home() string
	// Go redirects the browser. The State is not kept. After EndSessions has ended the session of this browser, a page
	// comes first that loads the logout pages of clients.
	Go(w http.ResponseWriter, r *http.Request, n *Next)
	// Fail writes and logs an error page for err, as for a callback: 400 for *Invalid, 403 for *Rejection, otherwise
	// 503.
	Fail(w http.ResponseWriter, r *http.Request, err error)
}

// EndQuery selects sessions that were opened with an identity of the provider.
type EndQuery struct {
	// Issuer and Subject as in Identity. Subject can be empty if Sessions are given.
	Issuer, Subject string
	// Sessions are names as in Identity. Empty: all sessions of the subject. With a subject both must match.
	Sessions []string
}

// Checker is a Provider that can tell the operator whether it works: it contacts the systems in its configuration,
// without a cache, and signs no one in. It ends after a failed step that later ones need.
type Checker interface {
	Check(ctx context.Context) Steps
}

// Warner is a Provider that reports what keeps people from signing in there, now or within 30 days. It relies on the
// data that it read last, and contacts no one.
type Warner interface {
	Warnings() []Warning
}

// Warning is something that keeps people from signing in, now or within 30 days.
type Warning struct {
	Reason string
	Advice string // what to do. Empty: the usual advice about metadata
}

// NoOne is the warning that no one can sign in for a reason.
func NoOne(reason error) Warning { return Warning{Reason: "no one can sign in: " + reason.Error()} }

// Closer is a Provider with work in the background. Close stops that work and waits for its end.
type Closer interface {
	Close() error
}

var (
	// ErrNoIdentity says that a request carries no identity, or that its sender is not trusted.
	ErrNoIdentity = errors.New("idp: the request carries no identity")
	// ErrReplayed says that a value that is valid only once was used before.
	ErrReplayed = errors.New("idp: it was used before")
	// ErrCredentials says that a username and a password do not match.
	ErrCredentials = errors.New("idp: username and password do not match")
	// ErrNoFlow says that this browser has no such flow.
	ErrNoFlow = errors.New("idp: there is no such flow")
)

// Rejection says that the provider did not sign the person in, or that its identity cannot be accepted.
type Rejection struct {
	// Reason is for the log: printable ASCII, without secrets and without values from the answer.
	Reason string
	// SAMLStatus is the innermost status URI of a SAML provider. (token server document, "Authorization error extension
	// fields")
	SAMLStatus string
	// Cause is the detail next to it, such as no_existing_customer: at most 256 printable characters.
	Cause string
	// Password says that the person has to change their password at the provider before they can sign in.
	Password bool
	// Passive says that the provider needed to show a page, which Request.Passive forbade.
	Passive bool
	// Cancelled says that the sign-in was stopped at the provider: by the person, as far as that is known.
	Cancelled bool
}

func (r *Rejection) Error() string { return "idp: " + r.Reason }

// Misconfigured says that a provider answers, and that its configuration here or there is wrong: waiting does not help.
type Misconfigured struct {
	// Cause is for the log and the operator, without secrets.
	Cause error
}

func (m *Misconfigured) Error() string { return m.Cause.Error() }

func (m *Misconfigured) Unwrap() error { return m.Cause }

// Invalid says that an answer must not be believed: forged, foreign, late, replayed or broken. The page says the same
// whatever the cause.
type Invalid struct {
	// Reason is for the log: printable ASCII, without secrets and without values from the answer.
	Reason string
	// Cause can be nil. Its text must not contain values either.
	Cause error
}

func (i *Invalid) Error() string {
	if i.Cause != nil {
		return "idp: " + i.Reason + ": " + i.Cause.Error()
	}
	return "idp: " + i.Reason
}

func (i *Invalid) Unwrap() error { return i.Cause }
