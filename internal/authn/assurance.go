package authn

import (
	"slices"
	"time"
)

// The kinds of Evidence.
const (
	// EvidenceSignIn is a sign-in by a provider that knows who its people are. By is its id.
	EvidenceSignIn = "sign_in"
	// EvidenceDocument is an identity document that a backend has validated. By is the id of the API client.
	EvidenceDocument = "document"
)

// Evidence shows who a person is. It belongs to the person, not to a session.
// (docs/decisions/events.md#identity-assurance)
type Evidence struct {
	Kind  string    `cbor:"1,keyasint" json:"kind" rest:"required"`
	By    string    `cbor:"2,keyasint" json:"by" rest:"required"`
	Level int       `cbor:"3,keyasint" json:"level" rest:"required"` // 1 to 4
	Since time.Time `cbor:"4,keyasint" json:"since" rest:"required"`
	Until time.Time `cbor:"5,keyasint,omitzero" json:"expires_at,omitzero"` // zero: it does not expire
	// Document is the type of a document, Reference how the backend finds its own record of the validation.
	Document  string `cbor:"6,keyasint,omitempty" json:"document_type,omitempty"`
	Reference string `cbor:"7,keyasint,omitempty" json:"reference,omitempty"`
	// Claims are the claims of the evidence about the person. What the person has typed is not among them.
	Claims map[string]string `cbor:"8,keyasint,omitempty" json:"claims,omitempty"`
}

// Assurance is all that shows who a person is.
type Assurance []Evidence

// Level is the identity assurance level at a time, 1 to 4. 0: no one has assured who the person is.
func (a Assurance) Level(now time.Time) (level int) {
	for i := range a {
		if e := &a[i]; e.Until.IsZero() || e.Until.After(now) {
			level = max(level, e.Level)
		}
	}
	return level
}

// Changes returns when the level can change by itself, at the earliest. Zero: it does not.
func (a Assurance) Changes(now time.Time) (at time.Time) {
	for i := range a {
		if e := &a[i]; e.Until.After(now) && (at.IsZero() || e.Until.Before(at)) {
			at = e.Until
		}
	}
	return at
}

// With returns the assurance with evidence in place of what the same party has said before, and Without that alone.
func (a Assurance) With(e Evidence) Assurance { return append(a.Without(e.Kind, e.By), e) }

// Without is the assurance without what a party has said. An empty by is every party, an empty kind everything.
func (a Assurance) Without(kind, by string) Assurance {
	return slices.DeleteFunc(slices.Clone(a), func(e Evidence) bool { return (kind == "" || e.Kind == kind) && (by == "" || e.By == by) })
}
