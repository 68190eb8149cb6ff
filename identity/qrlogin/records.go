package qrlogin

import (
	"time"

	"github.com/gatehouse-id/gatehouse/storage"
)

// Tables of codes.
var (
	codes    = storage.NewTable[codeRecord]("identity_phone_code") // flow id
	codeKeys = storage.NewTable[string]("identity_phone_code_key") // hash of the token; the value is the flow id
)

// codeRecord is a code that a browser shows for its sign-in. A sign-in has one at a time.
type codeRecord struct {
	ID     string `cbor:"1,keyasint"` // names it in addresses of the phone, and gives access to nothing
	Token  string `cbor:"2,keyasint"` // hash of the token in the code
	Sealed []byte `cbor:"3,keyasint"` // the token, to show the code again
	Number string `cbor:"4,keyasint"` // that the phone asks for
	// Browser is the hash of the cookie of the browser that shows the code. No other one is signed in by it.
	Browser string `cbor:"5,keyasint"`
	Method  string `cbor:"6,keyasint,omitempty"` // id of the login method. Empty: the service's own

	Client  string    `cbor:"7,keyasint,omitempty"` // id of the application
	Name    string    `cbor:"8,keyasint,omitempty"` // of the application
	Address string    `cbor:"9,keyasint,omitempty"`
	Agent   string    `cbor:"10,keyasint,omitempty"`
	At      time.Time `cbor:"11,keyasint"`
	Expires time.Time `cbor:"12,keyasint"` // also of the approval

	State string `cbor:"13,keyasint,omitempty"`
	Tries int    `cbor:"14,keyasint,omitempty"` // wrong numbers

	// Of the person who has approved it.
	PersonID string `cbor:"15,keyasint,omitempty"`
	Epoch    int64  `cbor:"16,keyasint,omitempty"`
	// Session is the person's on the phone. Empty: an app has approved, at the time Approved
	Session  string    `cbor:"17,keyasint,omitempty"`
	Level    int       `cbor:"18,keyasint,omitempty"`
	Approved time.Time `cbor:"19,keyasint,omitempty"`
}

// The states of a code.
const (
	stateWaiting  = ""
	stateApproved = "approved"
	stateDenied   = "denied"
	stateWrong    = "wrong" // too many numbers were wrong
	stateOver     = "over"
)

// state returns the state of a code now.
func (c *codeRecord) state(now time.Time) string {
	switch {
	case c.State == stateWaiting && !c.Expires.After(now):
		return stateOver
	case c.State == stateApproved && !c.Expires.Add(approvalLife).After(now):
		return stateOver
	}
	return c.State
}
