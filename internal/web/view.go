package web

import (
	"html/template"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// View is one page.
type View struct {
	// Template is the name of a file in templates, without .html.
	Template string
	Status   int // 0: 200
	// Locales in order of preference, before those of the request.
	Locales []string
	// Mobile leaves out links that lead away from the page. (token server document, app_view)
	Mobile bool
	// Client is the application that asks. Its Targets go into form-action.
	Client authn.Client
	// Nav is the navigation of the pages of an account. nil: the page stands alone.
	Nav *Nav
	// Fragment is the name under which the browser keeps what is after # in its address. Empty: it keeps nothing.
	Fragment string
	// Signals tells the browser about passkeys, in JSON: the arguments of the methods of PublicKeyCredential by
	// their names. Empty: nothing. (Web Authentication Level 3 5.1.10)
	Signals string
	// Data is the struct of the template.
	Data any
}

// FormPost is the data of form_post: the answer of an authorization request that the browser posts to the client.
// (OAuth 2.0 Form Post Response Mode 2) With scripts it is sent automatically, without scripts by a button.
type FormPost struct {
	Action string // the client's redirect URI, http or https: the only target of the form
	Fields []Hidden
	// Away says that the form goes where the browser can be redirected to any place, such as to an identity provider.
	Away bool
	// Framed says that one of our pages can have this one in a frame.
	Framed bool
}

// Hidden is a hidden field of a form.
type Hidden struct{ Name, Value string }

// SignIn is the data of sign_in.
type SignIn struct {
	Action, CSRF string
	Username     string
	Remember     bool
	CanRemember  bool
	// Problem is the key of the message that says what to do next. Empty: none.
	Problem string
	// Wait is the number of seconds until the next attempt is accepted, for the message problem.wait.
	Wait   int
	Cancel string // same-origin link. Empty: none
	// Providers are other places to sign in.
	Providers []Provider
	// NoForm leaves out the form, NoPassword its password: the username alone then decides how to continue.
	NoForm, NoPassword bool
	// Method is the operator's name for the way to sign in by the form. Empty: it has no name
	Method string
	// ForgotURL is for people without a password or with a wrong one, RemindURL for people without a username,
	// SignUpURL for people without an account. Empty: not shown
	ForgotURL, RemindURL, SignUpURL string
	// Upgrade says that the form tells, by upgrade=yes, that the browser can make a passkey without a question.
	Upgrade bool
	// Passkey is the form for signing in with a passkey. nil: none
	Passkey *Passkey
	// PhoneURL shows a code that a phone scans. Empty: not shown
	PhoneURL string
}

// Provider is a link to an identity provider.
type Provider struct {
	Name, URL string
	Logo      *Image // nil: a built-in drawing
	Last      bool   // it was last used in this browser
}

// Choose is the data of choose: continue as the person who is signed in, or as another. Its form sends csrf and choice:
// continue or other.
type Choose struct {
	Action, CSRF, Account, Detail string
	Cancel                        string
}

// Token is the data of token: continue as the person that an action token signs in. Its form sends csrf.
type Token struct {
	Action, CSRF, Account, Detail string
	// Made says that a person who is signed in to the account made the link on a page.
	Made bool
	// Other is the person who is signed in in this browser, and Cancel the link back. Empty: no other person
	Other, Cancel string
}

// Consent is the data of consent. Its form sends csrf, request (the RequestID) and decision: allow or deny.
type Consent struct {
	Action, CSRF, RequestID string
	Account                 string // of the person who is asked
	Another                 string // same-origin link for someone else. Empty: none
	Owner                   string // host of the client's redirect URI
	Scopes                  []ScopeLine
	Sites                   []string // origins of the sites that the client can open
	// Unregistered is set for a client that no one has registered. Its name on the page is its host.
	Unregistered *Unregistered
	Details      []Detail
}

// Detail is one thing that a client asks for in detail. Its values are those of the client.
type Detail struct {
	Type  string
	Title Texts // empty: the type
	Rows  []DetailRow
}

// DetailRow is a member of a Detail with its values. Without a label, Name is one of locations, actions, datatypes,
// identifier, privileges.
type DetailRow struct {
	Name   string
	Label  Texts
	Values []string
}

// Texts are the operator's texts in the languages of the pages. That of "" is for all others.
type Texts map[string]string

// Release is the data of release: what a service provider wants to know about a person. Its form sends csrf, shown-0,
// shown-1 and so on (the names of the rows), allowed-0 and so on (the names of those that the person can leave out and
// has not) and decision: allow or deny.
type Release struct {
	Action, CSRF string
	Account      string // of the person who is asked
	Another      string // same-origin link for someone else. Empty: none
	Rows         []ReleaseRow
}

// ReleaseRow is an attribute. Label is its name for people. Empty: Key is that of the message, otherwise Name is shown.
type ReleaseRow struct {
	Name, Label, Key string
	Values           []string // that are shown
	Optional         bool     // the person can leave it out
}

// Unregistered are the claims of an unregistered client about itself, and the address that it is sent to.
type Unregistered struct {
	Name     string
	Verified bool   // the operator knows its host
	Program  bool   // a program on the device of the person gets the answer
	Host     string // which gets the answer
	Scheme   string // the app that opens its addresses gets the answer
	// Resources are the resources of its tokens.
	Resources []Resource
}

// Resource is a resource of tokens. Name can be empty.
type Resource struct{ Name, Address string }

// Device is the data of device: a person decides about a device that waits. Its form sends csrf and decision: allow or
// deny.
type Device struct {
	Action, CSRF string
	Account      string // of the person who is asked
	Another      string // same-origin link for someone else. Empty: none
	Code         string // that the device shows
	Address      string // of the device
	Time         time.Time
	Scopes       []ScopeLine
	Sites        []string // origins of the sites that the client can open
	Details      []Detail
}

// accountLine is the account that a page is about, and the link for someone else.
type accountLine struct{ Account, Hint, Another, NotYou string }

// Who returns what the template who shows.
func (f *frame) Who(account, another string) accountLine {
	return accountLine{account, f.T("who.account"), LocalPath(another), f.T("who.another")}
}

// ScopeLine is one permission. Description empty: the standard scopes have built-in descriptions, others show their
// name.
type ScopeLine struct{ Name, Description string }

// Connect is the data of connect: a person who comes from a provider proves with a password which account is theirs.
// Its form sends csrf, username and password.
type Connect struct {
	Action, CSRF, Provider string
	Account                string // of the provider: its e-mail address
	Username               string
	Known                  string // username of a person who has shown enough and only has to agree
	New                    bool   // the person can say that they have no account. Their form sends new
	Problem                string // as in SignIn
	Wait                   int
	Cancel                 string
}

// Forward is the data of forward: the browser goes to To, a path on our origin, automatically or by a link. With Last,
// To is a trusted URL anywhere, to which the browser adds what it has kept under the View's Fragment.
type Forward struct {
	Name, To string
	Last     bool
}

// Trouble is the data of trouble: something went wrong at a provider. Its messages are <Key>.title and <Key>.text. The
// links are paths on our origin; the last two may be empty. The browser goes to Next by itself, if there is one.
type Trouble struct{ Key, Name, Again, Other, Cancel, Next string }

// SignOut is the data of sign_out.
type SignOut struct {
	Action, CSRF string
	Account      string
	Hidden       map[string]string // further fields of the form
	Cancel       string            // same-origin link. Empty: none
}

// SignedOut is the data of signed_out.
type SignedOut struct {
	Continue string // link. Empty: none
	// GoOn follows Continue automatically, after the frames have had a few seconds.
	GoOn bool
	// Again is the address for signing in again. Empty: the account pages.
	Again string
	// Frames are pages of clients that are loaded invisibly, so they end their own sessions. (OpenID Connect
	// Front-Channel Logout 2)
	Frames []string
	// Apps are those that have not confirmed the sign-out.
	Apps []SigningOutApp
}

// ContinueURL is the link, which can lead back to an app.
func (s SignedOut) ContinueURL() template.URL { return linkTo(s.Continue) }

// SigningOut is the data of signing_out: it loads the URL of each application in a frame, and goes to End after a few
// seconds, whatever they do.
type SigningOut struct {
	Apps []SigningOutApp
	End  string // a path on our origin
	// Frames are pages of clients that it loads too, as those of SignedOut.
	Frames []string
}

// SigningOutApp is an application that a person is signed out of. URL is a path on our origin that leads there.
type SigningOutApp struct{ Name, URL string }

// signingSeconds is the time that applications have to sign a person out. They can be slow.
const signingSeconds = "5"

// frameSeconds is the time that the frames have before the page continues.
const frameSeconds = "3"

// Message is the data of message: the messages <Key>.title and <Key>.text.
type Message struct {
	Key  string
	Next string // same-origin link to continue. Empty: none
}
