package providerhttp

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-id/gatehouse/idp"
)

const (
	minFlow = 22

	// MaxFlow is the longest name of a flow in bytes.
	MaxFlow = 80
	// MaxCode is the longest authorization code in bytes.
	MaxCode = 8 << 10
)

// State returns the flow that an authorization response claims to belong to, or "".
func State(v url.Values) (string, error) {
	state, err := One(v, "state")
	if err != nil || state == "" {
		return "", err
	}
	if len(state) < minFlow || len(state) > MaxFlow || strings.ContainsFunc(state, notBase64URL) {
		return "", &idp.Invalid{Reason: "state has another form than ours"}
	}
	return state, nil
}

func notBase64URL(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_'
}

// One returns a parameter that appears at most once. (RFC 6749 3.1)
func One(v url.Values, name string) (string, error) {
	switch values := v[name]; len(values) {
	case 0:
		return "", nil
	case 1:
		return values[0], nil
	}
	return "", &idp.Invalid{Reason: name + " is there more than once"}
}

// Form returns a request that posts a form. id and secret are sent as Basic credentials, unless id is empty.
// (RFC 6749 2.3.1: both are form-encoded first)
func Form(address string, form url.Values, id, secret string) (*http.Request, error) {
	req, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode())) //nolint:noctx // Ask gives it one
	if err != nil {
		return nil, errors.New("not an address")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if id != "" {
		pair := url.QueryEscape(id) + ":" + url.QueryEscape(secret)
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return req, nil
}

// CheckToken refuses an access token that cannot stand in a header.
func CheckToken(token string) error {
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("the access token has characters that no token has")
	}
	return nil
}
