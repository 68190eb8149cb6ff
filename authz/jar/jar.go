// Package jar verifies signed authorization requests (RFC 9101, OpenID Connect Core 6.1): signer, audience and
// lifetime. It returns their parameters, which package authz checks like those of a plain request.
// (docs/decisions/authorization.md#signed-requests)
package jar

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
)

const (
	maxObject = 32 << 10         // bytes, like a query
	maxLife   = time.Hour        // from nbf to exp, and how long ago nbf is
	skew      = 30 * time.Second // by which a client's clock can be ahead
)

// types of the header. Those of other tokens are refused, so none of them passes for a request. (RFC 8725 3.11)
var types = []string{"oauth-authz-req+jwt", "JWT"}

// Verifier returns what one of the keys of a client has signed with one of the algorithms, in a JWS of one of the types
// or without a type.
type Verifier interface {
	Signed(ctx context.Context, c *client.Client, raw string, algorithms []jose.SignatureAlgorithm, types ...string) ([]byte, error)
}

// Objects reads request objects. It is safe for concurrent use.
type Objects struct {
	issuer string
	keys   Verifier
	now    func() time.Time
}

// New returns the reader of an issuer.
func New(issuer string, keys Verifier, now func() time.Time) *Objects {
	return &Objects{issuer: issuer, keys: keys, now: now}
}

// Read returns the parameters of the request object in f. Others that f has do not count, except for client_id, which
// must be the same. (RFC 9101 5, 6.3)
func (o *Objects) Read(ctx context.Context, c *client.Client, f oauth.Form) (oauth.Form, error) {
	raw := f.Get("request")
	switch {
	case raw == "":
		return f, refuse(nil, "it is empty or repeated")
	case len(f.Values["request_uri"]) > 0:
		return f, oauth.InvalidRequest(nil, "request and request_uri exclude each other") // RFC 9101 5
	case len(raw) > maxObject:
		return f, refuse(nil, "it is too long")
	}
	payload, err := o.keys.Signed(ctx, c, raw, c.RequestAlgorithms(), types...)
	if e := new(oauth.Error); errors.As(err, &e) {
		return f, err // the keys cannot be fetched
	}
	if err != nil {
		return f, refuse(err, "no key of the client has signed it with an algorithm that is accepted")
	}
	var claims map[string]json.RawMessage
	if err := json.Unmarshal(payload, &claims); err != nil || claims == nil {
		return f, refuse(err, "it is not a JSON object")
	}
	if err := o.check(c, claims); err != nil {
		return f, err
	}
	return parameters(claims)
}

// registered are the claims that say something about the object itself. (RFC 9101 4)
var registered = []string{"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}

func (o *Objects) check(c *client.Client, claims map[string]json.RawMessage) error {
	text := func(name string) string {
		var s string
		if json.Unmarshal(claims[name], &s) != nil {
			return ""
		}
		return s
	}
	sent := func(name string) bool { return claims[name] != nil }
	switch {
	case text("client_id") != c.ID:
		return refuse(nil, "its client_id is missing or another one")
	case sent("iss") && text("iss") != c.ID:
		return refuse(nil, "its iss is not the client")
	case text("sub") == c.ID: // RFC 9101 10.8: an assertion by which a client authenticates
		return refuse(nil, "it is the assertion of a client")
	case !audience(claims["aud"], o.issuer):
		return refuse(nil, "its aud is not the issuer")
	case sent("request") || sent("request_uri"): // RFC 9101 4
		return refuse(nil, "it contains request or request_uri")
	case c.SignedRequestRequired && text("redirect_uri") == "":
		return refuse(nil, "its redirect_uri is missing")
	}
	return o.checkTimes(c, claims)
}

// audience reports whether the issuer is the audience, or one of several.
func audience(raw json.RawMessage, issuer string) bool {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return one == issuer
	}
	var several []string
	return json.Unmarshal(raw, &several) == nil && slices.Contains(several, issuer)
}

// checkTimes holds that an object is used soon after it was made. A client of which signed requests are demanded says
// when; others can leave it out. (FAPI 2.0 Message Signing 5.3.1)
func (o *Objects) checkTimes(c *client.Client, claims map[string]json.RawMessage) error {
	now := o.now()
	at := func(name string) (t time.Time, ok bool) {
		var seconds float64 // it can have fractions (RFC 7519 2)
		if json.Unmarshal(claims[name], &seconds) != nil {
			return t, false
		}
		return time.Unix(0, 0).Add(time.Duration(max(min(seconds, 1<<33), 0) * float64(time.Second))), true
	}
	expires, ends := at("exp")
	begins, starts := at("nbf")
	made, dated := at("iat")
	for name, ok := range map[string]bool{"exp": ends, "nbf": starts, "iat": dated} {
		if !ok && claims[name] != nil {
			return refuse(nil, "one of its times is not a number")
		}
	}
	from := now
	if starts {
		from = begins
	}
	switch {
	case c.SignedRequestRequired && (!ends || !starts):
		return refuse(nil, "its exp or nbf is missing")
	case ends && !expires.After(now):
		return refuse(nil, "it has expired")
	case starts && begins.After(now.Add(skew)), dated && made.After(now.Add(skew)):
		return refuse(nil, "it is not valid yet")
	case starts && begins.Before(now.Add(-maxLife)):
		return refuse(nil, "its nbf is more than an hour ago")
	case ends && expires.After(from.Add(maxLife)):
		return refuse(nil, "its exp is more than an hour after its nbf")
	}
	return nil
}

// parameters writes claims as the parameters of a form: text as it is, numbers and the rest as JSON. What can repeat in
// a form is a list in JSON.
func parameters(claims map[string]json.RawMessage) (oauth.Form, error) {
	f := oauth.Form{Values: map[string][]string{}}
	for name, raw := range claims {
		if slices.Contains(registered, name) || string(raw) == "null" {
			continue
		}
		if name == "" || oauth.HasControl(name) {
			return f, refuse(nil, "a parameter has no proper name")
		}
		var text string
		var several []string
		switch {
		case json.Unmarshal(raw, &text) == nil:
			f.Values[name] = []string{text}
		case repeats(name) && json.Unmarshal(raw, &several) == nil:
			f.Values[name] = several
		default:
			f.Values[name] = []string{string(raw)}
		}
	}
	return f, nil
}

// repeats reports whether a parameter can be sent several times.
func repeats(name string) bool {
	return name == "resource" || strings.HasPrefix(name, "external_idp_custom_param.")
}

func refuse(cause error, why string) error { return oauth.InvalidRequestObject(cause, why) }
