// Package idp is what a sign-in at somebody else's place is: the interfaces of identity providers and the values that they hand over.
// Each provider is a package of its own below this one.
package idp

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Identity is a person as a provider knows them. It is verified: whoever returns one vouches for it.
type Identity struct {
	// Issuer is who says so, as the protocol names them: an entity id or iss. Empty: the provider itself is the only one.
	Issuer string
	// Subject names the person at the issuer, for good. With an empty Issuer it is compared regardless of case, otherwise exactly.
	Subject string
	// Username is what a person who is created for the identity is called. Empty: Email where it is verified, else Subject.
	Username string
	// Email is an address of the person; EmailVerified that the provider says it is theirs. Coupling believes verified ones alone.
	Email         string
	EmailVerified bool
	// Level is the authentication level that the provider has reached, 1 to 4.
	Level int
	// AuthTime is when the person signed in there. Zero: now.
	AuthTime time.Time
	// AMR are words of the token server document. Empty: DEFAULT.
	AMR []string
	// Details are the attributes of the person under the names that the operator gave them. What is not mapped is not here.
	Details map[string][]string
	// NotAfter is when sessions by this identity end at the latest. Zero: nothing is said.
	NotAfter time.Time
	// Sessions are the names by which the provider may end sessions later: SessionIndex, sid.
	Sessions []string
	// Held is what the provider needs later, for End and Refresh. It is kept sealed in the session and goes nowhere else. At most 32 KiB.
	Held []byte
}

// Provider establishes who somebody is. Each provider is also a RequestReader or a Redirector. It is safe for concurrent use.
type Provider interface {
	// Parameters are the names of the parameters of an authorization request that are copied into the person's details.
	Parameters() []string
}

// RequestReader is a Provider that finds the identity in the request itself, so that no page is shown.
type RequestReader interface {
	Provider
	// Read returns the identity that the request carries, or ErrNoIdentity, or a *Rejection. Any other error: we cannot tell.
	Read(r *http.Request) (*Identity, error)
	// Cleanse deletes from a request what the provider would read, unless it believes who sent it.
	Cleanse(r *http.Request)
}

// Request is what a sign-in at a Redirector is asked for.
type Request struct {
	// Flow is the name of this sign-in, unguessable and good for one answer: it goes out as RelayState or state and comes back. 22 to 80 characters of base64url.
	Flow string
	// Level is the least level that helps, 0: any.
	Level int
	// Force asks the person to prove themselves again. (prompt=login: ForceAuthn)
	Force bool
	// MaxAge is how long ago the sign-in may be at most. Negative: any time.
	MaxAge time.Duration
	// Passive forbids the provider every page. (prompt=none: IsPassive)
	Passive bool
	// Hint is a username that the person has given. Empty: none.
	Hint string
	// Locales in order of preference, as BCP 47 tags.
	Locales []string
	// Custom are the external_idp_custom_param.* of the authorization request: untrusted text, bounded by authz.
	Custom map[string][]string
	// ProviderName is who asks, for people: the client's name.
	ProviderName string
	// Client is the id of the client that asks.
	Client string
}

// Next is where the browser goes: to URL, or by a form to Form.
type Next struct {
	URL  string
	Form *Form
	// State is kept on the server under the flow, sealed, until the browser comes back. At most 16 KiB.
	State []byte
}

// Form is posted by a page of ours that submits itself, or by its button where scripts are off.
type Form struct {
	Action string
	Fields []Field
}

// Field is one hidden field of a Form.
type Field struct{ Name, Value string }

// Redirector is a Provider that the browser is sent to and comes back from. Begin and Finish return within 5 seconds, whatever the other
// side does, and as soon as ctx is done.
type Redirector interface {
	Provider
	// Begin starts a sign-in. Any error: the provider cannot be reached or used now.
	Begin(ctx context.Context, q Request) (*Next, error)
	// FlowOf names the flow that a callback claims to belong to; "" is one that nobody began. It verifies nothing and reads the body
	// through r.ParseForm only, so that Finish can read it again.
	FlowOf(r *http.Request) (flow string, err error)
	// Finish verifies the answer in r to the flow that left state. A nil state: the answer to no flow. Errors: a *Rejection when the
	// provider has signed nobody in, an *Invalid when the answer is not to be believed; any other: we cannot tell.
	Finish(ctx context.Context, state []byte, r *http.Request) (*Identity, error)
}

// Refresher is a Redirector that can ask for the details of a person again, without the person.
type Refresher interface {
	// Refresh returns the identity as it is now, with the Held that takes the place of the given one. A *Rejection: the provider gives
	// nothing any more. Any other error: it cannot tell, and what is known stays. An identity beside an error is a Held and nothing else, to
	// be kept nevertheless: a refresh token that is good once was used.
	Refresh(ctx context.Context, held []byte) (*Identity, error)
}

// Ender is a Redirector at whose place the browser signs out, after it has signed out at ours.
type Ender interface {
	// End returns where the browser goes for that; nil: there is nothing to do. It comes back to Handle, which calls Host.Ended with the
	// flow. It returns within 5 seconds.
	End(ctx context.Context, q EndRequest) (*Next, error)
}

// EndRequest is a sign-out.
type EndRequest struct {
	Flow    string   // as in Request
	Held    []byte   // as in Identity
	Locales []string // in order of preference
}

// Handler is a Redirector with endpoints beside the callback.
type Handler interface {
	// Handle serves the request to the endpoint op, the last part of its path (metadata, slo, backchannel-logout), and tells whether there
	// is such an endpoint. The body is bounded to MaxBody bytes already.
	Handle(w http.ResponseWriter, r *http.Request, op string, h Host) (served bool)
}

// MaxBody is the longest body in bytes that callbacks and handlers are given.
const MaxBody = 512 << 10

// Host is what a Handler may ask of the identity service.
type Host interface {
	// EndSessions ends the sessions that the query names, with the tokens that came from them, and returns how many there were. from is
	// the request that says so.
	EndSessions(ctx context.Context, q EndQuery, from *http.Request) (ended int, err error)
	// Ended takes the flow of a sign-out that this browser has begun, once: what End left as State, and the URL where the browser goes on.
	// ErrNoFlow: there is none, or it is another browser's; the answer is Home then.
	Ended(w http.ResponseWriter, r *http.Request, flow string) (state []byte, ret string, err error)
	// Home is where a browser goes that has nothing else to do: a page of ours.
	Home() string
	// Go sends the browser on. The State is not kept.
	Go(w http.ResponseWriter, r *http.Request, n *Next)
	// Fail writes a page for err, as for a callback: 400 for *Invalid, 403 for *Rejection, otherwise 503. It is logged.
	Fail(w http.ResponseWriter, r *http.Request, err error)
}

// EndQuery names sessions that were opened by an identity of the provider.
type EndQuery struct {
	// Issuer and Subject as in Identity. Subject may be empty when Sessions are given.
	Issuer, Subject string
	// Sessions are names as in Identity. Empty: all sessions of the subject. With a subject both must match.
	Sessions []string
}

// Checker is a Provider that can tell the operator whether it works: it reaches what the configuration names.
type Checker interface {
	Check(ctx context.Context) error
}

// Closer is a Provider with work in the background. Close ends it and returns when it has ended.
type Closer interface {
	Close() error
}

var (
	// ErrNoIdentity says that a request carries no identity, or one of somebody who is not believed.
	ErrNoIdentity = errors.New("idp: the request carries no identity")
	// ErrReplayed says that something which counts once was there before.
	ErrReplayed = errors.New("idp: it was used before")
	// ErrNoFlow says that no such flow of this browser is open.
	ErrNoFlow = errors.New("idp: there is no such flow")
)

// Rejection says that the provider has signed nobody in, or somebody who cannot be taken.
type Rejection struct {
	// Reason is for the log: printable ASCII, nothing secret and no value.
	Reason string
	// SAMLStatus is the innermost status URI of a SAML provider. (token server document, "Authorization error extension fields")
	SAMLStatus string
	// Cause is the detail beside it, such as no_existing_customer: at most 256 printable characters.
	Cause string
	// Passive says that the provider would have had to show a page, which Request.Passive forbade.
	Passive bool
}

func (r *Rejection) Error() string { return "idp: " + r.Reason }

// Invalid says that an answer is not to be believed: forged, foreign, late, replayed or broken. The person reads the same words whatever the cause.
type Invalid struct {
	// Reason is for the log: printable ASCII, nothing secret and no value.
	Reason string
	// Cause may be nil. Its text must not hold values either.
	Cause error
}

func (i *Invalid) Error() string {
	if i.Cause != nil {
		return "idp: " + i.Reason + ": " + i.Cause.Error()
	}
	return "idp: " + i.Reason
}

func (i *Invalid) Unwrap() error { return i.Cause }
