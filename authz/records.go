package authz

import (
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. Tokens, codes and cookies are stored as keys, by their hash (secret.Hash), never
// as values. Records' own times and the epochs decide about validity; the expiry passed to storage is for collection.
var (
	requests  = storage.NewTable[requestRecord]("authz_request")    // id of the request
	posted    = storage.NewTable[requestRecord]("authz_posted")     // id; a request without a browser
	siteFlows = storage.NewTable[siteFlowRecord]("authz_site_flow") // flow id
	siteCodes = storage.NewTable[siteCodeRecord]("authz_site_code") // hash of the one-time code
	// postedLogouts are sign-outs that came by POST: id.
	postedLogouts = storage.NewTable[postedLogoutRecord]("authz_posted_logout")
)

// requestRecord is an authorization request that waits for a sign-in or a consent, bound to the browser that started
// it.
type requestRecord struct {
	ClientID    string `cbor:"1,keyasint"`
	RedirectURI string `cbor:"2,keyasint"`
	// RedirectSent: the request named it, so the token request must too (RFC 6749 4.1.3).
	RedirectSent bool      `cbor:"3,keyasint,omitempty"`
	ResponseType string    `cbor:"4,keyasint"`
	ResponseMode string    `cbor:"5,keyasint,omitempty"`
	State        string    `cbor:"6,keyasint,omitempty"`
	Scope        []string  `cbor:"7,keyasint,omitempty"`
	Nonce        string    `cbor:"8,keyasint,omitempty"`
	Challenge    string    `cbor:"9,keyasint,omitempty"` // PKCE, S256
	Prompt       []string  `cbor:"10,keyasint,omitempty"`
	MaxAge       *int64    `cbor:"11,keyasint,omitempty"` // seconds
	Level        int       `cbor:"12,keyasint,omitempty"`
	LoginHint    string    `cbor:"13,keyasint,omitempty"`
	HintSubject  string    `cbor:"14,keyasint,omitempty"` // the person named by id_token_hint or claims, in HintSector
	Locales      []string  `cbor:"15,keyasint,omitempty"`
	View         string    `cbor:"16,keyasint,omitempty"`
	IDP          string    `cbor:"17,keyasint,omitempty"`
	Resources    []string  `cbor:"18,keyasint,omitempty"`
	Browser      string    `cbor:"19,keyasint"` // hash of the browser cookie
	CreatedAt    time.Time `cbor:"20,keyasint"`
	ExpiresAt    time.Time `cbor:"21,keyasint"`
	// CustomParams and the ACR values are carried as they came.
	CustomParams map[string][]string `cbor:"22,keyasint,omitempty"`
	ACRValues    []string            `cbor:"23,keyasint,omitempty"`
	Claims       string              `cbor:"24,keyasint,omitempty"` // the claims parameter, checked
	HintSector   string              `cbor:"25,keyasint,omitempty"` // of a pairwise HintSubject
	Params       map[string][]string `cbor:"26,keyasint,omitempty"` // requested by a provider
	// Document is the print of the client's metadata document, as it was then.
	Document string `cbor:"27,keyasint,omitempty"`
	// Pushed is the pushed request that par.Spend finishes. Empty: it was not pushed.
	Pushed string `cbor:"28,keyasint,omitempty"`
	// Key is the key that the code will be bound to. (RFC 9449 10)
	Key string `cbor:"29,keyasint,omitempty"`
	// Signed says that the client has signed it.
	Signed bool `cbor:"34,keyasint,omitempty"`
	// AuthorizationDetails are in JSON. (RFC 9396)
	AuthorizationDetails string `cbor:"35,keyasint,omitempty"`
	// Assurance is the identity assurance level that the scopes demand.
	Assurance int `cbor:"36,keyasint,omitempty"`
	// Verified says that Claims asks for verified claims, which were offered then.
	Verified bool `cbor:"37,keyasint,omitempty"`
}

// postedLogoutRecord is a sign-out with what its hint said.
type postedLogoutRecord struct {
	ClientID     string    `cbor:"1,keyasint,omitempty"`
	Target       string    `cbor:"2,keyasint,omitempty"` // post_logout_redirect_uri
	State        string    `cbor:"3,keyasint,omitempty"`
	HintSubject  string    `cbor:"4,keyasint"`
	HintAudience string    `cbor:"5,keyasint"`
	CreatedAt    time.Time `cbor:"6,keyasint"`
}

// siteFlowRecord is a browser on its way from a protected site to the sign-in and back.
type siteFlowRecord struct {
	Origin    string    `cbor:"1,keyasint"` // of the site
	Return    string    `cbor:"2,keyasint"` // the requested URL
	Binding   string    `cbor:"3,keyasint"` // hash of the cookie that the site set before it redirected
	Level     int       `cbor:"4,keyasint,omitempty"`
	CreatedAt time.Time `cbor:"5,keyasint"`
	ExpiresAt time.Time `cbor:"6,keyasint"`
	MaxAge    int64     `cbor:"7,keyasint,omitempty"` // seconds; 0: any
	Another   bool      `cbor:"8,keyasint,omitempty"` // the person signs in again
}

// siteCodeRecord is the one-time code that a browser carries back to the site.
type siteCodeRecord struct {
	token.SignIn `cbor:"1,keyasint"`
	Epochs       token.Epochs `cbor:"2,keyasint"`
	FlowID       string       `cbor:"3,keyasint"`
	Origin       string       `cbor:"4,keyasint"`
	Binding      string       `cbor:"5,keyasint"`
	ExpiresAt    time.Time    `cbor:"6,keyasint"`
	Spent        bool         `cbor:"7,keyasint,omitempty"`
	// SiteSession is the key of the session that it gave, which ends when the code is replayed.
	SiteSession string `cbor:"8,keyasint,omitempty"`
	Return      string `cbor:"9,keyasint"`
}
