package client

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/authz/oauth"
)

// reservedInRedirect are the parameters that we add to a redirect URI. If it already had one, two readers could see two
// answers.
var reservedInRedirect = []string{
	"code", "state", "iss", "error", "error_description", "error_uri", "response", "session_state", "id_token", "access_token", "token_type",
	"expires_in", "scope", "service_saml_error", "service_error_cause",
}

// schemes that run or show something in the browser instead of handing it to an application.
var refusedSchemes = []string{"javascript", "data", "vbscript", "blob", "file", "about", "filesystem", "ws", "wss", "ftp"}

// validateRedirectURI says why a URI cannot be registered as a redirect URI, or returns nil. (RFC 6749 3.1.2; RFC 9700
// 2.1; RFC 8252 7)
func validateRedirectURI(uri string) error { return validateRedirect(uri, nil) }

// ValidateRedirect is validateRedirectURI for a URI of this client.
func (c *Client) ValidateRedirect(uri string) error {
	if c.Native {
		if scheme, _, _ := strings.Cut(uri, ":"); CheckScheme(scheme) == nil {
			return validateRedirect(uri, []string{scheme})
		}
	}
	if c.Document == nil {
		return validateRedirectURI(uri)
	}
	return validateRedirect(uri, c.Document.Schemes)
}

// validateRedirect allows some private schemes although they are no domain name turned round.
func validateRedirect(uri string, schemes []string) error {
	if uri == "" || len(uri) > 2048 {
		return errors.New("must have 1 to 2048 characters")
	}
	for i := range len(uri) {
		// Spaces, controls, backslashes and non-ASCII hosts are read differently by different browsers.
		if c := uri[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\\\"<>^`{|};", c) >= 0 {
			return errors.New("has a character that a URI must not have; percent-encode it")
		}
	}
	if strings.Contains(uri, "#") {
		return errors.New("must not have a fragment") // RFC 6749 3.1.2
	}
	u, err := url.Parse(uri)
	if err != nil {
		return errors.New("is not a URI")
	}
	if u.Scheme == "" {
		return errors.New("must be absolute") // RFC 6749 3.1.2
	}
	if slices.Contains(refusedSchemes, u.Scheme) {
		return fmt.Errorf("must not have the scheme %s", u.Scheme)
	}
	if strings.Contains(u.Host+u.Path, "*") { // RFC 9700 4.1.3: exact string matching
		return errors.New("has a *, which is not a wildcard here: redirect URIs are compared exactly, so name each of them")
	}
	if u.User != nil {
		return errors.New("must not have user information")
	}
	query, err := oauth.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("has a malformed query")
	}
	for _, name := range reservedInRedirect {
		if _, found := query.Values[name]; found {
			return fmt.Errorf("must not have the parameter %s", name)
		}
	}
	if slices.Contains(schemes, u.Scheme) {
		return nil
	}
	return validateRedirectScheme(u)
}

// CheckScheme accepts a private scheme that an operator allows. (RFC 3986 3.1)
func CheckScheme(s string) error {
	for i, c := range s {
		if (c < 'a' || c > 'z') && (i == 0 || ((c < '0' || c > '9') && c != '+' && c != '-' && c != '.')) {
			return fmt.Errorf("%q is not a scheme in lower case, such as cursor", s)
		}
	}
	if s == "" || s == "http" || s == "https" || slices.Contains(refusedSchemes, s) {
		return fmt.Errorf("the scheme %q is not one of an application", s)
	}
	return nil
}

func validateRedirectScheme(u *url.URL) error {
	switch u.Scheme {
	case "https", "http":
		if u.Host == "" || u.Hostname() == "" {
			return errors.New("must have a host")
		}
		if strings.HasSuffix(u.Host, ":") || (u.Port() != "" && !isPort(u.Port())) {
			return errors.New("must have a port from 1 to 65535, or none")
		}
		if strings.Contains(u.Host, "%") {
			return errors.New("must not have an encoded host")
		}
		if u.Scheme == "http" && !isOwnMachine(u.Hostname()) {
			return errors.New("must be https, unless its host is a loopback one") // RFC 9700 2.1
		}
		for seg := range strings.SplitSeq(u.Path, "/") {
			if seg == "." || seg == ".." {
				return errors.New("must not have dot segments")
			}
		}
		return nil
	}
	// RFC 8252 7.1: a private-use scheme is a domain name turned round, so it has a dot.
	if !strings.Contains(u.Scheme, ".") {
		return fmt.Errorf("has the private scheme %s, which must be a reversed domain name such as com.example.app", u.Scheme)
	}
	return nil
}

// isOwnMachine knows fewer hosts than internal/loopback, because a code is sent there: it excludes names below
// localhost, which a resolver can look up elsewhere, and the rest of 127.0.0.0/8. (RFC 8252 7.3, 8.3)
func isOwnMachine(host string) bool {
	return host == "127.0.0.1" || host == "::1" || host == "localhost"
}

// AllowsRedirect reports whether a redirect URI of a request is one of the client's: the same string (RFC 9700 2.1),
// or, for a public or native client and one with a metadata document, the same except for the port of a loopback host.
// RFC 8252 7.3 says so of the addresses; native apps register localhost just as often.
// (docs/decisions/authorization.md#redirect-uris)
func (c *Client) AllowsRedirect(sent string) bool {
	return slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		return registered == sent || ((c.Public || c.Native || c.Document != nil) && samePlace(registered, sent))
	})
}

// samePlace reports whether two URIs of the same loopback host differ in the port alone.
func samePlace(registered, sent string) bool {
	for _, prefix := range []string{"http://127.0.0.1", "http://[::1]", "http://localhost"} {
		r, ok := strings.CutPrefix(registered, prefix)
		if !ok {
			continue
		}
		s, ok := strings.CutPrefix(sent, prefix)
		if !ok {
			return false
		}
		rest, ok := cutPort(r)
		if !ok {
			return false
		}
		sentRest, ok := cutPort(s)
		return ok && rest == sentRest
	}
	return false
}

// cutPort cuts :port from what follows a host. ok is false when something else follows.
func cutPort(s string) (rest string, ok bool) {
	if s == "" || s[0] == '/' || s[0] == '?' {
		return s, true
	}
	if s[0] != ':' {
		return "", false
	}
	end := strings.IndexAny(s, "/?")
	if end < 0 {
		end = len(s)
	}
	return s[end:], isPort(s[1:end])
}

// isPort reports whether s is a port as everybody reads it: 1 to 65535, without leading zeros.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0 && s[0] != '0'
}

// RedirectTarget returns the source that a page's form-action must name for a redirect URI: its origin, or its scheme.
func RedirectTarget(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	if u.Scheme == "https" || u.Scheme == "http" {
		return u.Scheme + "://" + u.Host
	}
	return u.Scheme + ":"
}

// RedirectOwner returns the name of a redirect URI for people: its host, or the application's scheme.
func RedirectOwner(uri string) string {
	u, err := url.Parse(uri)
	if err != nil {
		return ""
	}
	if u.Hostname() != "" {
		return u.Hostname()
	}
	return u.Scheme
}

// WithQuery appends parameters to a URI that has no fragment, byte for byte before them. (RFC 6749 3.1.2: its own query
// is kept)
func WithQuery(uri string, params url.Values) string {
	if len(params) == 0 {
		return uri
	}
	switch {
	case !strings.Contains(uri, "?"):
		uri += "?"
	case !strings.HasSuffix(uri, "?") && !strings.HasSuffix(uri, "&"):
		uri += "&"
	}
	return uri + params.Encode()
}
