// Package jsonresponse writes JSON responses with the headers that OAuth endpoints need.
package jsonresponse

import (
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Body is an answer that writes itself as JSON. The result is that of encoding/json.
type Body interface {
	AppendJSON(dst []byte) []byte
}

// sized is the maximum length of most answers.
const sized = 512

// room is memory for answers. A ResponseWriter keeps nothing of what is written (io.Writer).
var room = sync.Pool{New: func() any { return new([sized]byte) }}

// Write answers with a body.
func Write(w http.ResponseWriter, status int, b Body) {
	mem := room.Get().(*[sized]byte) //nolint:forcetypeassert // nothing else is put there
	body := b.AppendJSON(mem[:0])
	WriteJSON(w, status, body)
	clear(mem[:]) // an answer can hold a token
	room.Put(mem)
}

// WriteJSON is Write for a body that is written already. It can be empty.
func WriteJSON(w http.ResponseWriter, status int, body []byte) {
	Headers(w.Header(), len(body))
	w.WriteHeader(status)
	if len(body) > 0 {
		w.Write(body) //nolint:errcheck // the client has gone
	}
}

// WriteJWT is Write for an answer that is a JWT of this media type.
func WriteJWT(w http.ResponseWriter, media, token string) {
	Headers(w.Header(), len(token))
	w.Header().Set("Content-Type", media)
	w.WriteHeader(http.StatusOK)
	io.WriteString(w, token) //nolint:errcheck // the client has gone
}

// Headers sets what every answer carries. (token server document, "Token response"; RFC 6749 5.1) size is the length of
// its body; -1: unknown.
func Headers(h http.Header, size int) {
	// One array for all values is one allocation. It is made for each answer, since what stands around this handler can
	// change values where they are.
	v := &[5]string{"application/json;charset=UTF-8", "no-store", "no-cache", "nosniff"}
	h["Content-Type"] = v[0:1:1]
	h["Cache-Control"] = v[1:2:2]
	h["Pragma"] = v[2:3:3]
	h["X-Content-Type-Options"] = v[3:4:4]
	if size >= 0 {
		v[4] = strconv.Itoa(size)
		h["Content-Length"] = v[4:5:5]
	}
}

// Inactive is the whole answer for any token that is not active: nothing must distinguish one reason from another.
// (RFC 7662 2.2)
type Inactive struct{}

// AppendJSON implements Body.
func (Inactive) AppendJSON(dst []byte) []byte { return append(dst, `{"active":false}`...) }

// Error is the OAuth error of the endpoints for machines. (RFC 6749 5.2)
type Error struct {
	Error       string `json:"error"`
	Description string `json:"error_description,omitempty"`
	Ref         string `json:"ref,omitempty"` // docs/decisions/operation.md#refusals
}

// AppendJSON implements Body.
func (e Error) AppendJSON(dst []byte) []byte {
	o := begin(dst)
	o.text("error", e.Error)
	o.textIf("error_description", e.Description)
	o.textIf("ref", e.Ref)
	return o.end()
}

// Token is the answer of the token endpoint. (RFC 6749 5.1; token server document, "Token response")
type Token struct {
	TokenType    string `json:"token_type"`
	AccessToken  string `json:"access_token"`
	RefreshToken string `json:"refresh_token,omitempty"`
	ExpiresIn    int64  `json:"expires_in"` // seconds
	Scope        string `json:"scope,omitempty"`
	IDToken      string `json:"id_token,omitempty"`
	ProfileID    string `json:"profile_id,omitempty"`
	IssuedType   string `json:"issued_token_type,omitempty"` // RFC 8693 2.2.1

	AuthorizationDetails Written `json:"authorization_details,omitempty"` // RFC 9396 7
}

// AppendJSON implements Body.
func (t *Token) AppendJSON(dst []byte) []byte {
	o := begin(dst)
	o.text("token_type", t.TokenType)
	o.text("access_token", t.AccessToken)
	o.textIf("refresh_token", t.RefreshToken)
	o.number("expires_in", t.ExpiresIn)
	o.textIf("scope", t.Scope)
	o.textIf("id_token", t.IDToken)
	o.textIf("profile_id", t.ProfileID)
	o.textIf("issued_token_type", t.IssuedType)
	o.writtenIf("authorization_details", t.AuthorizationDetails)
	return o.end()
}

// Validation is the answer for a token that is valid. (token server document, "Custom validation response")
type Validation struct {
	TokenType      string            `json:"token_type"`
	ClientID       string            `json:"client_id"`
	ExpiresIn      int64             `json:"expires_in"` // seconds
	Scope          string            `json:"scope"`
	UsageLimit     int               `json:"usage_limit,omitempty"` // absent: unlimited
	UsageCount     int               `json:"usage_count,omitempty"`
	ReferenceID    string            `json:"reference_id,omitempty"` // absent: the client's own token
	AppIdentifier  string            `json:"app_identifier"`         // empty: no mobile app instance
	AppVersion     string            `json:"app_version"`
	AppPlatform    string            `json:"app_platform"`
	UserAttributes map[string]string `json:"user_attributes,omitzero"` // absent: the client's own token
}

// AppendJSON implements Body.
func (v *Validation) AppendJSON(dst []byte) []byte {
	o := begin(dst)
	o.text("token_type", v.TokenType)
	o.text("client_id", v.ClientID)
	o.number("expires_in", v.ExpiresIn)
	o.text("scope", v.Scope)
	o.numberIf("usage_limit", int64(v.UsageLimit))
	o.numberIf("usage_count", int64(v.UsageCount))
	o.textIf("reference_id", v.ReferenceID)
	o.text("app_identifier", v.AppIdentifier)
	o.text("app_version", v.AppVersion)
	o.text("app_platform", v.AppPlatform)
	if v.UserAttributes != nil {
		o.name("user_attributes")
		o.buf = appendMap(o.buf, v.UserAttributes, appendText)
	}
	return o.end()
}

// Introspection is the answer for an active token. (RFC 7662 2.2; token server document, "Introspection response")
type Introspection struct {
	Active           bool                `json:"active"`
	Scope            string              `json:"scope"`
	ClientID         string              `json:"client_id"`
	TokenType        string              `json:"token_type"`
	Expires          int64               `json:"exp"` // seconds since 1970, as all times here
	IssuedAt         int64               `json:"iat"`
	NotBefore        int64               `json:"nbf"`
	Subject          string              `json:"sub"`
	Audience         []string            `json:"aud,omitempty"`
	Issuer           string              `json:"iss"`
	Username         string              `json:"username,omitempty"`
	Partition        string              `json:"partition,omitempty"` // absent: there are no partitions
	AMR              []string            `json:"amr,omitempty"`
	ACR              string              `json:"acr,omitempty"`       // RFC 9470 6.2
	AuthTime         int64               `json:"auth_time,omitempty"` // RFC 9470 6.2
	AppIdentifier    string              `json:"app_identifier"`      // empty: no mobile app instance
	AppPlatform      string              `json:"app_platform"`
	AppVersion       string              `json:"app_version"`
	UsageLimit       int                 `json:"usage_limit,omitempty"` // absent: unlimited
	UsageCount       int                 `json:"usage_count,omitempty"`
	UserDetails      Details             `json:"user_details,omitempty"`
	GroupPermissions map[string][]string `json:"group_permissions,omitempty"` // group to its permissions
	// The claims of the scopes of these names.
	Groups      []string `json:"groups,omitempty"`
	Roles       []string `json:"roles,omitempty"`
	Permissions []string `json:"permissions,omitempty"`

	Confirmation Confirmation `json:"cnf,omitzero"` // RFC 8705 3.2, RFC 9449 6.2

	Actor *Actor `json:"act,omitempty"` // RFC 8693 4.1

	AuthorizationDetails Written `json:"authorization_details,omitempty"` // RFC 9396 9.2
}

// Written is JSON that encoding/json has written, as it is. Empty: the member is absent.
type Written string

// MarshalJSON implements json.Marshaler.
func (w Written) MarshalJSON() ([]byte, error) { return []byte(w), nil }

// UnmarshalJSON implements json.Unmarshaler.
func (w *Written) UnmarshalJSON(b []byte) error {
	*w = Written(b)
	return nil
}

// Actor is a party that acts for the subject, with the one for whom it acted before. (RFC 8693 4.1)
type Actor struct {
	Subject  string `json:"sub"`
	ClientID string `json:"client_id,omitempty"`
	Actor    *Actor `json:"act,omitempty"`
}

// AppendJSON implements Body.
func (a *Actor) AppendJSON(dst []byte) []byte {
	o := begin(dst)
	o.text("sub", a.Subject)
	o.textIf("client_id", a.ClientID)
	if a.Actor != nil {
		o.name("act")
		o.buf = a.Actor.AppendJSON(o.buf)
	}
	return o.end()
}

// Confirmation names what the sender of a token must prove to have. (RFC 7800 3.1)
type Confirmation struct {
	JKT string `json:"jkt,omitempty"`
	X5T string `json:"x5t#S256,omitempty"`
}

// AppendJSON implements Body.
func (c Confirmation) AppendJSON(dst []byte) []byte {
	o := begin(dst)
	o.textIf("jkt", c.JKT)
	o.textIf("x5t#S256", c.X5T)
	return o.end()
}

// AppendJSON implements Body.
func (i *Introspection) AppendJSON(dst []byte) []byte {
	o := begin(dst)
	o.bool("active", i.Active)
	o.text("scope", i.Scope)
	o.text("client_id", i.ClientID)
	o.text("token_type", i.TokenType)
	o.number("exp", i.Expires)
	o.number("iat", i.IssuedAt)
	o.number("nbf", i.NotBefore)
	o.text("sub", i.Subject)
	o.listIf("aud", i.Audience)
	o.text("iss", i.Issuer)
	o.textIf("username", i.Username)
	o.textIf("partition", i.Partition)
	o.listIf("amr", i.AMR)
	o.textIf("acr", i.ACR)
	o.numberIf("auth_time", i.AuthTime)
	o.text("app_identifier", i.AppIdentifier)
	o.text("app_platform", i.AppPlatform)
	o.text("app_version", i.AppVersion)
	o.numberIf("usage_limit", int64(i.UsageLimit))
	o.numberIf("usage_count", int64(i.UsageCount))
	if len(i.UserDetails) > 0 {
		o.name("user_details")
		o.buf = i.UserDetails.AppendJSON(o.buf)
	}
	if len(i.GroupPermissions) > 0 {
		o.name("group_permissions")
		o.buf = appendMap(o.buf, i.GroupPermissions, appendList)
	}
	o.listIf("groups", i.Groups)
	o.listIf("roles", i.Roles)
	o.listIf("permissions", i.Permissions)
	if i.Confirmation != (Confirmation{}) {
		o.name("cnf")
		o.buf = i.Confirmation.AppendJSON(o.buf)
	}
	if i.Actor != nil {
		o.name("act")
		o.buf = i.Actor.AppendJSON(o.buf)
	}
	o.writtenIf("authorization_details", i.AuthorizationDetails)
	return o.end()
}

// Details are attributes of a person: one of one value is that value, one of several a list.
type Details map[string][]string

// AppendJSON implements Body.
func (d Details) AppendJSON(dst []byte) []byte {
	return appendMap(dst, d, func(dst []byte, values []string) []byte {
		if len(values) == 1 {
			return appendText(dst, values[0])
		}
		return appendList(dst, values)
	})
}

// MarshalJSON implements json.Marshaler.
func (d Details) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil), nil }

// Seconds is a duration as answers say it. What has passed already is 0.
func Seconds(d time.Duration) int64 { return max(0, int64(d/time.Second)) }
