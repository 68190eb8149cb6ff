package oauth

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of what is read.
const (
	maxForm       = 64 << 10 // bytes of a form body
	MaxQuery      = 32 << 10 // bytes of a query or form of a page; strangers can have one stored, so it is bounded
	maxParameters = 1024     // name=value pairs of a form or query
)

// Form holds the parameters of a form body or a query. A parameter without a value counts as not sent (RFC 6749 3.1).
type Form struct {
	Values map[string][]string
}

// Get returns the value of a parameter, or "" when it was not sent, was empty or was repeated.
func (f Form) Get(name string) string {
	if v := f.Values[name]; len(v) == 1 {
		return v[0]
	}
	return ""
}

// Has reports whether a parameter was sent once, with a value.
func (f Form) Has(name string) bool { return f.Get(name) != "" }

// All returns each value of a parameter that can repeat, such as resource (RFC 8707 2), without empty ones.
func (f Form) All(name string) []string {
	var out []string
	for _, v := range f.Values[name] {
		if v != "" {
			out = append(out, v)
		}
	}
	return out
}

// Repeated reports whether a parameter was sent more than once.
func (f Form) Repeated(name string) bool { return len(f.Values[name]) > 1 }

// Encode writes the parameters as a query again, in the order of their names.
func (f Form) Encode() string { return url.Values(f.Values).Encode() }

// bodyOnly are the parameters that are read from a body alone. In a query they would reach logs and Referer headers,
// and in both places it would be open which one counts.
var bodyOnly = []string{
	"grant_type", "assertion", "code", "code_verifier", "redirect_uri", "client_id", "client_secret",
	"client_assertion", "client_assertion_type",
	"refresh_token", "scope", "resource", "username", "password", "token", "token_type_hint", "access_token", "refresh_user_details",
	"subject_token", "actor_token", "authorization_details",
}

// Repeated is the refusal of a parameter that was sent more than once.
func Repeated(name string) error {
	return InvalidRequest(nil, "the parameter "+Printable(name[:min(len(name), 32)])+" is repeated")
}

// ParseForm reads the form of an endpoint that machines call. A body that could be read in two ways is invalid_request.
// (RFC 6749 3.2: "MUST NOT be included more than once"; appendix B: UTF-8)
func ParseForm(r *http.Request) (Form, error) {
	if r.URL.RawQuery != "" {
		query, err := ParseQuery(r.URL.RawQuery)
		if err != nil {
			return Form{}, err
		}
		for _, name := range bodyOnly {
			if len(query.Values[name]) > 0 {
				return Form{}, InvalidRequest(nil, "parameters belong in the body")
			}
		}
	}
	f, err := ReadForm(r)
	if err != nil {
		return Form{}, err
	}
	for name, values := range f.Values {
		if len(values) > 1 && name != "resource" && name != "audience" { // RFC 8707 2, RFC 8693 2.1: they can repeat
			return Form{}, Repeated(name)
		}
		for _, v := range values {
			// Text that is no token is an unknown token (RFC 7009 2.2, RFC 7662 2.2). JSON can have line breaks (RFC 9396 2).
			if HasControl(v) && name != "token" && name != "authorization_details" {
				return Form{}, InvalidRequest(nil, "a parameter has control characters")
			}
		}
	}
	return f, nil
}

// ReadForm reads a form body, repeated parameters included.
func ReadForm(r *http.Request) (Form, error) {
	if err := checkFormType(r.Header); err != nil {
		return Form{}, InvalidRequest(err, "content type must be application/x-www-form-urlencoded")
	}
	body, err := readBody(r)
	if err != nil {
		return Form{}, InvalidRequest(err, "the body cannot be read")
	}
	if len(body) > maxForm {
		return Form{}, InvalidRequest(nil, "the body is too large")
	}
	return ParseQuery(string(body))
}

// readBody reads a body, or its beginning if it is longer than maxForm. A usual one is read into one piece of memory,
// while no one gets much for a length that is only announced.
func readBody(r *http.Request) ([]byte, error) {
	const usual = 4 << 10
	body := make([]byte, 0, min(max(r.ContentLength, 0)+1, usual))
	for len(body) <= maxForm {
		n, err := r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return nil, err
		}
		if len(body) == cap(body) {
			body = slices.Grow(body, max(len(body), 512))
		}
	}
	return body, nil
}

// FormType is the media type of form bodies.
const FormType = "application/x-www-form-urlencoded"

func checkFormType(h http.Header) error {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return fmt.Errorf("%d content types", len(types))
	}
	if types[0] == FormType { // as nearly every client writes it
		return nil
	}
	media, params, err := mime.ParseMediaType(types[0])
	if err != nil {
		return err
	}
	if media != FormType {
		return errors.New("another content type")
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return errors.New("another charset")
		}
	}
	return nil
}

// ParseQuery reads name=value pairs. Pairs that could be decoded in several ways are invalid_request: %zz, a bare
// semicolon (which some read as a separator), bytes that are not UTF-8.
func ParseQuery(raw string) (Form, error) {
	if strings.Contains(raw, ";") {
		return Form{}, InvalidRequest(nil, "malformed parameters")
	}
	return ParseBrowserQuery(raw)
}

// ParseBrowserQuery is ParseQuery for addresses that people open: a semicolon is data there, as browsers have it (URL
// Standard, application/x-www-form-urlencoded parsing).
func ParseBrowserQuery(raw string) (Form, error) {
	pairs := min(strings.Count(raw, "&")+1, maxParameters)
	f := Form{Values: make(map[string][]string, min(pairs, 8))}
	first := make([]string, 0, pairs) // the first value of each name
	n := 0
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		if n++; n > maxParameters {
			return Form{}, InvalidRequest(nil, "too many parameters")
		}
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil {
			return Form{}, InvalidRequest(err, "malformed parameters")
		}
		value, err := url.QueryUnescape(rawValue)
		if err != nil {
			return Form{}, InvalidRequest(err, "malformed parameters")
		}
		if !utf8.ValidString(name) || !utf8.ValidString(value) || HasControl(name) || strings.HasPrefix(name, "\ufeff") {
			return Form{}, InvalidRequest(nil, "malformed parameters")
		}
		if have := f.Values[name]; have != nil {
			f.Values[name] = append(have, value)
			continue
		}
		first = append(first, value)
		f.Values[name] = first[len(first)-1 : len(first) : len(first)]
	}
	return f, nil
}

// HasControl reports whether s has a control character below space.
func HasControl(s string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return c < ' ' })
}
