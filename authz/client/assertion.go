package client

import (
	"encoding/json"
	"time"
)

// AssertionClaims are the claims of RFC 7523 3. Times can have fractions (RFC 7519 2).
type AssertionClaims struct {
	Issuer    string          `json:"iss"`
	Subject   string          `json:"sub"`
	Audience  json.RawMessage `json:"aud"`
	Expires   *float64        `json:"exp"`
	NotBefore *float64        `json:"nbf"`
	IssuedAt  *float64        `json:"iat"`
	ID        string          `json:"jti"`
}

// SoleAudience returns the only audience, since one of several could use the assertion too, or "". isText says that it
// is not in a list.
func (a *AssertionClaims) SoleAudience() (aud string, isText bool) {
	if json.Unmarshal(a.Audience, &aud) == nil {
		return aud, true
	}
	var several []string
	if json.Unmarshal(a.Audience, &several) != nil || len(several) != 1 {
		return "", false
	}
	return several[0], false
}

// Ahead returns how far a time of an assertion lies in the future, within some decades.
func Ahead(seconds float64, now time.Time) time.Duration {
	return time.Duration(max(min(seconds-float64(now.Unix()), 1<<30), -1<<30) * float64(time.Second))
}
