package authz

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

const (
	maxForm       = 64 << 10 // bytes of a form body
	maxQuery      = 32 << 10 // bytes of a query: anybody can have one stored, so it is bounded
	maxParameters = 1024     // name=value pairs of a form or query
)

// form is what a form body or a query says. A parameter without a value counts as not sent (RFC 6749 3.1).
type form struct {
	values map[string][]string
}

// get returns the value of a parameter, or "" when it was not sent, was empty or was repeated.
func (f form) get(name string) string {
	if v := f.values[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// has tells whether a parameter was sent once, with a value.
func (f form) has(name string) bool { return f.get(name) != "" }

// all returns each value of a parameter that may repeat, such as resource (RFC 8707 2), without empty ones.
func (f form) all(name string) []string {
	var out []string
	for _, v := range f.values[name] {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}

// repeated tells whether a parameter was sent more than once.
func (f form) repeated(name string) bool { return len(f.values[name]) > 1 }

// encode writes the parameters as a query again, in the order of their names.
func (f form) encode() string { return url.Values(f.values).Encode() }

// bodyOnly are the parameters that mean something in a body alone. In a query they would reach logs and Referer headers,
// and beside a body leave open which of the two counts.
var bodyOnly = []string{
	"grant_type", "code", "code_verifier", "redirect_uri", "client_id", "client_secret", "client_assertion", "client_assertion_type",
	"refresh_token", "scope", "resource", "username", "password", "token", "token_type_hint", "access_token", "refresh_user_details",
}

// parseForm reads the form of an endpoint that machines call. It has one reading of a body or none: whatever could be
// read in two ways is invalid_request. (RFC 6749 3.2: "MUST NOT be included more than once"; appendix B: UTF-8)
func parseForm(r *http.Request) (form, error) {
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return form{}, err
	}
	for _, name := range bodyOnly {
		if len(query.values[name]) > 0 {
			return form{}, invalidRequest(nil, "parameters belong in the body")
		}
	}
	f, err := readForm(r)
	if err != nil {
		return form{}, err
	}
	for name, values := range f.values {
		if len(values) > 1 && name != "resource" { // RFC 8707 2: resource may repeat
			return form{}, invalidRequest(nil, "a parameter is repeated")
		}
		for _, v := range values {
			if hasControl(v) {
				return form{}, invalidRequest(nil, "a parameter has control characters")
			}
		}
	}
	return f, nil
}

// readForm reads a form body with whatever it repeats.
func readForm(r *http.Request) (form, error) {
	if err := checkFormType(r.Header); err != nil {
		return form{}, invalidRequest(err, "content type must be application/x-www-form-urlencoded")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxForm+1))
	if err != nil {
		return form{}, invalidRequest(err, "the body cannot be read")
	}
	if len(body) > maxForm {
		return form{}, invalidRequest(nil, "the body is too large")
	}
	return parseQuery(string(body))
}

const formType = "application/x-www-form-urlencoded"

func checkFormType(h http.Header) error {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return fmt.Errorf("%d content types", len(types))
	}
	if types[0] == formType { // as nearly every client writes it
		return nil
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil {
		return err
	}
	if media != formType {
		return errors.New("another content type")
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return errors.New("another charset")
		}
	}
	return nil
}

// parseQuery reads name=value pairs. What cannot be decoded in one certain way is invalid_request: %zz, a bare semicolon
// (which some read as a separator), bytes that are not UTF-8.
func parseQuery(raw string) (form, error) {
	f := form{values: map[string][]string{}}
	if strings.Contains(raw, ";") {
		return form{}, invalidRequest(nil, "malformed parameters")
	}
	n := 0
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		if n++; n > maxParameters {
			return form{}, invalidRequest(nil, "too many parameters")
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return form{}, invalidRequest(err, "malformed parameters")
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return form{}, invalidRequest(err, "malformed parameters")
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) || hasControl(name) || strings.HasPrefix(name, "\ufeff") {
			return form{}, invalidRequest(nil, "malformed parameters")
		}
		f.values[name] = append(f.values[name], value)
	}
	return f, nil
}

// hasControl tells whether s has a control character below space.
func hasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < ' ' })
}
