package device

import (
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package. Codes are stored as keys, by their hash. Records' own times and the epochs decide
// about validity; the expiry passed to storage is for collection.
var (
	requests  = storage.NewTable[requestRecord]("authz_device")       // hash of the device code
	userCodes = storage.NewTable[userCodeRecord]("authz_device_user") // hash of the user code
	visits    = storage.NewTable[visitRecord]("authz_device_visit")   // id
	tries     = storage.NewTable[countRecord]("authz_device_tries")   // kind, session or network
	begun     = storage.NewTable[countRecord]("authz_device_begun")   // client
)

// requestRecord is a device that waits for a person, or what the person has decided.
type requestRecord struct {
	ClientID  string    `cbor:"1,keyasint"`
	Scope     []string  `cbor:"2,keyasint,omitempty"`
	Resources []string  `cbor:"3,keyasint,omitempty"`
	UserCode  string    `cbor:"4,keyasint"` // as the device shows it, so the page can show it too
	Address   string    `cbor:"5,keyasint,omitempty"`
	CreatedAt time.Time `cbor:"6,keyasint"`
	ExpiresAt time.Time `cbor:"7,keyasint"`
	Interval  int       `cbor:"8,keyasint"` // seconds between two polls
	Decision  decision  `cbor:"9,keyasint,omitempty"`

	// Of an approval.
	SignIn token.SignIn `cbor:"10,keyasint,omitzero"`
	Epochs token.Epochs `cbor:"11,keyasint,omitzero"`

	// AuthorizationDetails are in JSON. (RFC 9396)
	AuthorizationDetails string `cbor:"12,keyasint,omitempty"`
}

// decision is the state of a request.
type decision int

const (
	pending decision = iota
	approved
	denied
	redeemed
)

// userCodeRecord leads from a user code to its request.
type userCodeRecord struct {
	Request string `cbor:"1,keyasint"` // key of requests
}

// visitRecord is a person who has entered a right code and is asked, bound to the browser.
type visitRecord struct {
	Request   string    `cbor:"1,keyasint"` // key of requests
	Browser   string    `cbor:"2,keyasint"` // hash of the browser cookie
	CreatedAt time.Time `cbor:"3,keyasint"`
	ExpiresAt time.Time `cbor:"4,keyasint"`
}

// countRecord counts in a window of time.
type countRecord struct {
	Since time.Time `cbor:"1,keyasint"`
	Count int       `cbor:"2,keyasint"`
}
