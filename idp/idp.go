// Package idp is what a sign-in at somebody else's place is: the interfaces of identity providers and the values that they hand over.
// Each provider is a package of its own below this one.
package idp

import (
	"errors"
	"net/http"
)

// Identity is a person as a provider knows them. It is verified: whoever returns one vouches for it.
type Identity struct {
	// Subject names the person at the provider, for good and regardless of case. It is the username of a person who is created for it.
	Subject string
	// Level is the authentication level that the provider has reached, 1 to 4.
	Level int
	// Details are the attributes of the person under the names that the operator gave them. What is not mapped is not here.
	Details map[string][]string
}

// Provider establishes who somebody is. Each provider is also one of the interfaces below. It is safe for concurrent use.
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

// ErrNoIdentity says that a request carries no identity, or one of somebody who is not believed.
var ErrNoIdentity = errors.New("idp: the request carries no identity")

// Rejection says that the provider's answer is an identity that cannot be taken.
type Rejection struct {
	// Reason is for the log: printable ASCII, nothing secret and no value.
	Reason string
}

func (r *Rejection) Error() string { return "idp: " + r.Reason }
