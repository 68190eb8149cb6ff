package client

import "time"

// The forms of access tokens, as the configuration names them.
const (
	formatOpaque = "opaque"
	FormatJWT    = "jwt"
)

// MaxJWTLifetime bounds access tokens that are JWTs: a resource server must find the key in the JWKS as long as the
// token lives, and a key disappears two days after it signed last.
const MaxJWTLifetime = 24 * time.Hour
