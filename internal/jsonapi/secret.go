package jsonapi

import "github.com/gatehouse-id/gatehouse/internal/secret"

// Secret is a member of a body that can be written but not read: in JSON it is always the empty string, in logs and
// errors "[redacted]". Its owner stores it sealed.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns "[redacted]".
func (Secret) String() string { return secret.Redacted }

// GoString returns "[redacted]".
func (Secret) GoString() string { return secret.Redacted }

// MarshalJSON returns the empty string.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`""`), nil }
