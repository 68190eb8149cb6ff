package apppassword

import (
	"time"

	"github.com/gatehouse-id/gatehouse/authz/token"
	"github.com/gatehouse-id/gatehouse/storage"
)

// Every stored record of the package.
var (
	passwords = storage.NewTable[passwordRecord]("authz_app_password")  // hash of the app password
	ofPerson  = storage.NewTable[string]("authz_app_password_of")       // person, id: the hash
	uses      = storage.NewTable[useRecord]("authz_app_password_usage") // hash of the app password
)

// passwordRecord is an app password.
type passwordRecord struct {
	ID     string       `cbor:"1,keyasint"`
	Person string       `cbor:"2,keyasint"`
	Epochs token.Epochs `cbor:"3,keyasint"`
	Name   string       `cbor:"4,keyasint"`
	Sites  []string     `cbor:"5,keyasint"` // origins
	Scope  []string     `cbor:"6,keyasint,omitempty"`
	// UsageLimit is the maximum number of uses. 0: without limit.
	UsageLimit int       `cbor:"7,keyasint,omitempty"`
	CreatedAt  time.Time `cbor:"8,keyasint"`
	ExpiresAt  time.Time `cbor:"9,keyasint"`
	// The sign-in in which it was made.
	AuthTime time.Time `cbor:"10,keyasint"`
	Level    int       `cbor:"11,keyasint,omitempty"`
	AMR      []string  `cbor:"12,keyasint,omitempty"`
	Provider string    `cbor:"13,keyasint,omitempty"`
	Vouched  bool      `cbor:"14,keyasint,omitempty"` // as in authn.Result
}

// signIn is the sign-in in which it was made.
func (r *passwordRecord) signIn() *token.SignIn {
	return &token.SignIn{Subject: r.Person, AuthTime: r.AuthTime, Level: r.Level, AMR: r.AMR, Provider: r.Provider, Vouched: r.Vouched}
}

// useRecord says how often and where an app password was used. It is made with the app password. If it is missing, the
// number of uses is unknown, and an app password with a limit is invalid.
type useRecord struct {
	Count   int       `cbor:"1,keyasint"`
	At      time.Time `cbor:"2,keyasint,omitempty"`
	Address string    `cbor:"3,keyasint,omitempty"`
	Site    string    `cbor:"4,keyasint,omitempty"`
}
