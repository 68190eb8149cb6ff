package protect

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/internal/cookie"
	refusals "github.com/gatehouse-id/gatehouse/internal/refusal"
)

const (
	maxBearer = 8 << 10 // bytes of a bearer token; a JWT has a few thousand at most
)

// arrival holds the credentials that a request carried when it reached its first protect. A later protect finds them
// here: by then they have been taken out of the request. It prints as "[redacted]".
type arrival struct {
	authorization, cookies []string
}

const arrivalVar = "gatehouse.received"

func (*arrival) String() string { return "[redacted]" }

func receive(r *http.Request) *arrival {
	if rec, ok := caddyhttp.GetVar(r.Context(), arrivalVar).(*arrival); ok {
		return rec
	}
	return &arrival{authorization: r.Header["Authorization"], cookies: r.Header["Cookie"]}
}

// cookie returns the one value of a cookie of the jar, or "".
func (rec *arrival) cookie(j cookie.Jar, kind string) string {
	if len(rec.cookies) == 0 {
		return ""
	}
	return j.Get(&http.Request{Header: http.Header{"Cookie": rec.cookies}}, kind)
}

// bearer returns the token of the Authorization header, or "" without one. Other schemes belong to the upstream.
// (RFC 6750 2.1)
func (rec *arrival) bearer() (string, *refusal) {
	switch len(rec.authorization) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", badToken("the Authorization header is sent more than once")
	}
	const scheme = "bearer"
	v := rec.authorization[0]
	if len(v) < len(scheme) || !strings.EqualFold(v[:len(scheme)], scheme) {
		return "", nil
	}
	rest := v[len(scheme):]
	if rest != "" && httpguts.IsTokenRune(rune(rest[0])) {
		return "", nil // another scheme whose name starts alike
	}
	token := strings.TrimLeft(rest, " ") // RFC 9110 11.4: 1*SP before the token
	if len(token) == len(rest) || len(rest) > maxBearer || !isB64Token(token) {
		return "", badToken("the bearer token is malformed")
	}
	return token, nil
}

// badToken refuses a token that is sent in a way that is not allowed. RFC 6750 3: the answer has a challenge.
func badToken(text string) *refusal {
	f := malformed(text)
	f.challenge = errorParams(f.code, text)
	return f
}

// isB64Token: RFC 6750 2.1, 1*( ALPHA / DIGIT / "-" / "." / "_" / "~" / "+" / "/" ) *"="
func isB64Token(s string) bool {
	s = strings.TrimRight(s, "=")
	for i := range len(s) {
		if c := s[i]; !unreserved(c) && c != '+' && c != '/' {
			return false
		}
	}
	return s != ""
}

// tokenInQuery refuses a token in the URL, where logs and Referer headers would carry it on. (RFC 6750 2.3, RFC 9700
// 4.3.2)
func tokenInQuery(rawQuery string) *refusal {
	if rawQuery == "" {
		return nil
	}
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if queryKey(pair) == "access_token" {
			return badToken("a token in the query is not accepted: send it in the Authorization header").by(refusals.TokenInQuery)
		}
	}
	return nil
}
