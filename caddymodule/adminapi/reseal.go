package adminapi

import (
	"fmt"
	"net/http"
	"strings"
)

// Resealed are the records that were sealed with the first encryption key in place of an older one.
type Resealed struct {
	Older       bool `json:"older_keys"` // whether the configuration has any
	People      int  `json:"people"`     // that were looked at
	Sealed      int  `json:"sealed"`     // secrets of theirs
	SigningKeys int  `json:"signing_keys"`
	Left        int  `json:"left"` // secrets that no key of the configuration opens
	// Clients are the ids of stored clients with a secret whose hash the first key has not made.
	Clients []string `json:"clients,omitempty"`
	Next    string   `json:"next,omitempty"` // the value of after for the next part
}

// Add adds a further part.
func (r *Resealed) Add(part Resealed) {
	r.Older, r.Next = part.Older, part.Next
	r.People += part.People
	r.Sealed += part.Sealed
	r.SigningKeys += part.SigningKeys
	r.Left += part.Left
	r.Clients = append(r.Clients, part.Clients...)
}

// Verdict says whether older keys can go.
func (r *Resealed) Verdict() string {
	switch {
	case r.Left > 0:
		return "no encryption key of the configuration opens some secrets: add the key that sealed them"
	case r.Older && len(r.Clients) > 0:
		return "older encryption keys can be removed once sessions of before have ended, and some clients have used their secrets or got new ones"
	case r.Older:
		return "older encryption keys can be removed once sessions of before have ended"
	case len(r.Clients) > 0:
		return "the encryption key that hashed the secrets of some clients is missing: add it, or give them new secrets"
	}
	return "the configuration has one encryption key, which has sealed everything"
}

const mostClients = 20 // that are named

// NamedClients names the Clients, up to a few, for people.
func (r *Resealed) NamedClients() string {
	if more := len(r.Clients) - mostClients; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(r.Clients[:mostClients], ", "), more)
	}
	return strings.Join(r.Clients, ", ")
}

// ResealRequest is which part comes next.
type ResealRequest struct {
	After string `json:"after"`
}

func adminReseal(i *Instance, r *http.Request, in ResealRequest) (any, error) {
	return i.Reseal(r.Context(), in.After)
}
