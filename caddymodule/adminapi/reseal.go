package adminapi

import "net/http"

// Resealed are the records that were sealed with the first encryption key in place of an older one.
type Resealed struct {
	Older       bool   `json:"older_keys"` // whether the configuration has any
	People      int    `json:"people"`     // that were looked at
	Sealed      int    `json:"sealed"`     // secrets of theirs
	SigningKeys int    `json:"signing_keys"`
	Left        int    `json:"left"`           // secrets that no key of the configuration opens
	Next        string `json:"next,omitempty"` // the value of after for the next part
}

// Add adds a further part.
func (r *Resealed) Add(part Resealed) {
	r.Older, r.Next = part.Older, part.Next
	r.People += part.People
	r.Sealed += part.Sealed
	r.SigningKeys += part.SigningKeys
	r.Left += part.Left
}

// Verdict says whether older keys can go.
func (r *Resealed) Verdict() string {
	switch {
	case r.Left > 0:
		return "no encryption key of the configuration opens some secrets: add the key that sealed them"
	case r.Older:
		return "older encryption keys can be removed once sessions of before have ended, and clients added by command before have new secrets"
	}
	return "the configuration has one encryption key, which has sealed everything"
}

// ResealRequest is which part comes next.
type ResealRequest struct {
	After string `json:"after"`
}

func adminReseal(i *Instance, r *http.Request, in ResealRequest) (any, error) {
	return i.Reseal(r.Context(), in.After)
}
