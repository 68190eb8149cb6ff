package clientstore_test

import (
	"encoding/base64"
	"errors"
)

// nearly gives the random part of a token with its last byte changed.
type nearly struct{ token string }

func (n nearly) Read(p []byte) (int, error) {
	raw, err := base64.RawURLEncoding.DecodeString(n.token[5:48])
	if err != nil || len(p) != len(raw) {
		return 0, errors.New("no token")
	}
	raw[len(raw)-1] ^= 1
	return copy(p, raw), nil
}
